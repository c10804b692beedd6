//! Runs rows and says what came of them.

use std::time::Duration;

use dp_measure::stats::Interval;
use serde::Serialize;

use super::legs::Leg;
use super::run::Run;
use super::{Figure, Measured, Row};
use crate::combo::Combo;
use crate::measure::kit::{Kit, Setup};
use crate::measure::turns::{Progress, Turns};
use crate::measure::Error;

/// Below this a figure needs a reason.
pub const EVEN: f64 = 0.97;

/// How thoroughly.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Checks only, natively and with the shim on both sides; otherwise also on one side, and the figures.
    pub fast: bool,
    /// Pairs of each figure.
    pub rounds: usize,
    /// Of one run of a figure.
    pub time: Duration,
    /// Whether folders of runs that failed are left behind.
    pub keep: bool,
}

/// What came of a row.
#[derive(Debug, Serialize)]
pub struct Outcome {
    /// As `--only` names it.
    pub name: &'static str,
    /// Of the program.
    pub version: String,
    /// What the check does.
    pub what: &'static str,
    /// What failed natively: then nothing more was tried.
    pub natively: Option<String>,
    /// What failed under the shim.
    pub shimmed: Vec<String>,
    /// Of the check with the shim on both sides.
    pub legs: Vec<Leg>,
    /// What was measured.
    pub figures: Vec<Taken>,
}

/// A figure that was taken.
#[derive(Debug, Serialize)]
pub struct Taken {
    /// What was done.
    pub what: &'static str,
    /// Of the values.
    pub unit: &'static str,
    /// Natively, in the order of the rounds.
    pub tcp: Vec<f64>,
    /// Under the shim.
    pub dp: Vec<f64>,
    /// Of the rounds' own ratios.
    pub ratio: Option<Interval>,
    /// Of the worst round each.
    pub legs: Vec<Leg>,
    /// Why it has to be slower, if it has.
    pub reason: Option<&'static str>,
    /// What failed.
    pub fault: Option<String>,
}

impl Outcome {
    /// Everything that went wrong.
    pub fn faults(&self) -> Vec<String> {
        let natively = self.natively.iter().map(|fault| format!("{}, natively: {fault}", self.name));
        let shimmed = self.shimmed.iter().map(|fault| format!("{}, {fault}", self.name));
        let figures = self.figures.iter().filter_map(|figure| {
            figure.fault.as_ref().map(|fault| format!("{}, {}: {fault}", self.name, figure.what))
        });
        natively.chain(shimmed).chain(figures).collect()
    }
}

/// Runs a row.
///
/// # Errors
/// An interrupt, or a version that cannot be found. What the programs do wrong is in the outcome.
pub fn judge(kit: &Kit, row: &'static Row, plan: &Plan, progress: &Progress) -> Result<Outcome, Error> {
    let (name, what, version) = (row.name, row.what, row.version.ask()?);
    let mut outcome =
        Outcome { name, what, version, natively: None, shimmed: vec![], legs: vec![], figures: vec![] };
    let sides = Combo::sides();
    let sides = if plan.fast { &sides[..2] } else { &sides[..] };
    for (at, combo) in sides.iter().enumerate() {
        progress.show(&format!("{name}: {}", combo.name));
        match (attempt(kit, combo, plan, |run| (row.check)(run)), at) {
            (Err(Fault::Interrupted), _) => return Err(Error::Interrupted),
            (Err(Fault::Words(words)), 0) => {
                outcome.natively = Some(words);
                return Ok(outcome);
            }
            (Err(Fault::Words(words)), _) => outcome.shimmed.push(format!("{}: {words}", combo.name)),
            (Ok(legs), _) => {
                if combo.name == Combo::shimmed().name {
                    outcome.legs = legs;
                    let faults = outcome.legs.iter().filter_map(Leg::fault);
                    outcome.shimmed.extend(faults.map(|fault| format!("{}: {fault}", combo.name)));
                    if outcome.legs.is_empty() {
                        let fault = "the check tells of no leg whether it was a channel";
                        outcome.shimmed.push(format!("{}: {fault}", combo.name));
                    }
                }
            }
        }
    }
    if !plan.fast {
        for figure in row.figures {
            outcome.figures.push(take(kit, name, figure, plan, progress)?);
        }
    }
    Ok(outcome)
}

fn take(
    kit: &Kit,
    name: &str,
    figure: &'static Figure,
    plan: &Plan,
    progress: &Progress,
) -> Result<Taken, Error> {
    const PAIR: [Setup; 2] = [Setup::Tcp, Setup::Dp];
    let Figure { what, unit, reason, .. } = *figure;
    let mut taken =
        Taken { what, unit, tcp: vec![], dp: vec![], ratio: None, legs: vec![], reason, fault: None };
    let mut fault = None;
    let turns = Turns::take(&PAIR, plan.rounds, |setup, round| {
        progress.show(&format!("{name}: {what}: round {}, {}", round + 1, setup.name()));
        let combo = if setup == Setup::Dp { Combo::shimmed() } else { Combo::native() };
        let measured = attempt(kit, &combo, plan, |run| (figure.run)(run)).and_then(Measured::sound);
        measured.map_err(|error| match error {
            Fault::Interrupted => Error::Interrupted,
            Fault::Words(words) => {
                fault = Some(format!("round {}, {}: {words}", round + 1, setup.name()));
                Error::Wrong(String::new())
            }
        })
    });
    match turns {
        Err(Error::Interrupted) => return Err(Error::Interrupted),
        Err(_) => taken.fault = fault,
        Ok(turns) => {
            let value = |measured: &Measured| measured.value;
            (taken.tcp, taken.dp) = (turns.each(Setup::Tcp, value), turns.each(Setup::Dp, value));
            taken.ratio = turns.ratio(Setup::Dp, Setup::Tcp, value);
            taken.legs = worst(turns.each(Setup::Dp, |measured| measured.legs.clone()));
            taken.fault = match taken.legs.iter().find_map(Leg::fault_of_a_load) {
                None if taken.legs.is_empty() => {
                    Some("the figure tells of no leg whether it was a channel".into())
                }
                fault => fault,
            };
        }
    }
    Ok(taken)
}

impl Measured {
    /// A figure of nothing is none.
    fn sound(self) -> Result<Measured, Fault> {
        match self.value.is_finite() && self.value > 0.0 {
            true => Ok(self),
            false => Err(Fault::Words(format!("its value is {}", self.value))),
        }
    }
}

/// Of each leg, the round in which the smallest part went through channels.
fn worst(rounds: Vec<Vec<Leg>>) -> Vec<Leg> {
    let mut rounds = rounds.into_iter();
    let mut worst = rounds.next().unwrap_or_default();
    for round in rounds {
        for leg in round {
            match worst.iter_mut().find(|known| known.name == leg.name) {
                Some(known) if known.part() > leg.part() => *known = leg,
                Some(_) => {}
                None => worst.push(leg),
            }
        }
    }
    worst
}

enum Fault {
    Interrupted,
    Words(String),
}

/// One run in a folder of its own. What a failed one says comes with the ends of the programs' logs.
fn attempt<T>(
    kit: &Kit,
    combo: &Combo,
    plan: &Plan,
    check: impl FnOnce(&Run) -> Result<T, Error>,
) -> Result<T, Fault> {
    let words = |error: Error| match error {
        Error::Interrupted => Fault::Interrupted,
        error => Fault::Words(error.to_string()),
    };
    let run = Run::new(kit, combo.clone(), plan.time, plan.fast).map_err(words)?;
    let result = check(&run).and_then(|told| run.no_wake_up_was_lost().map(|()| told));
    result.map_err(|error| match words(error) {
        Fault::Words(text) => {
            let logs = run.words();
            let kept = if plan.keep { format!("\nfolder: {}", run.keep().display()) } else { String::new() };
            Fault::Words(text + &logs + &kept)
        }
        interrupted => interrupted,
    })
}
