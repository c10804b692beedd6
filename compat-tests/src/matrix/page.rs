//! MATRIX.md.

use std::fmt::Write;

use dp_measure::stats::median;

use super::judge::{Outcome, Plan, Taken, EVEN};
use super::legs::Leg;
use crate::measure::report::number;
use crate::systems::machine::Machine;

const HEAD: &str = "# Programs of others under the shim

Made by `programs_matrix --out compat-tests/MATRIX.md`; `src/matrix.rs` says how. Every check runs natively, with the \
shim on both sides, and on either side alone. *Content* is whether every byte was right, under back-pressure and through \
abrupt ends. *Channels* \
tells for each leg of the way whether its connections became channels, with the shim on both sides, and how many of the \
bytes went through rings: a sender that is faster than its receiver uses TCP's buffers as well. A \
*figure* is the median of interleaved pairs, more is better; beside the ratio is the range of all rounds.
";

/// The page.
pub fn markdown(outcomes: &[Outcome], plan: &Plan, machine: &Machine) -> String {
    let mut page = HEAD.to_string();
    let (rounds, seconds) = (plan.rounds, plan.time.as_secs());
    let _ = write!(
        page,
        "\n{}, {} processors, Linux {}, {}; {rounds} rounds of {seconds} s.\n\n\
         | program | done | content, natively | content, under the shim | channels |\n|---|---|---|---|---|\n",
        machine.processor, machine.processors, machine.kernel, machine.date
    );
    for outcome in outcomes {
        let shimmed = match (&outcome.natively, outcome.shimmed.as_slice()) {
            (Some(_), _) => "not tried".to_string(),
            (None, []) => "right".to_string(),
            (None, faults) => wrong(&faults.join("; ")),
        };
        let natively = outcome.natively.as_ref().map_or("right".into(), |fault| wrong(fault));
        let Outcome { name, version, what, .. } = outcome;
        let channels = legs(&outcome.legs);
        let _ = writeln!(page, "| {name} {version} | {what} | {natively} | {shimmed} | {channels} |");
    }
    page += "\n| program | figure | TCP | shim | shim / TCP | channels | reason |\n|---|---|---|---|---|---|---|\n";
    for outcome in outcomes {
        for figure in &outcome.figures {
            let _ = writeln!(page, "| {} | {} |", outcome.name, taken(figure));
        }
    }
    page
}

fn taken(figure: &Taken) -> String {
    let value = |values: &[f64]| match values {
        [] => "-".to_string(),
        some => format!("{} {}", number(median(some)), figure.unit),
    };
    let ratio = figure.ratio.map_or("-".to_string(), |ratio| {
        format!("{:.2} ({:.2} to {:.2})", ratio.median, ratio.low, ratio.high)
    });
    let slow = figure.ratio.is_some_and(|ratio| ratio.median < EVEN);
    let reason = match (&figure.fault, slow, figure.reason) {
        (Some(fault), _, _) => wrong(fault),
        (None, true, Some(reason)) => reason.to_string(),
        (None, true, None) => "**not known**".to_string(),
        (None, false, _) => String::new(),
    };
    let (tcp, dp) = (value(&figure.tcp), value(&figure.dp));
    format!("{} | {tcp} | {dp} | {ratio} | {} | {reason}", figure.what, legs(&figure.legs))
}

/// `curl to nginx: yes, 98 % of the bytes; nginx to upstream: TCP, the program is static`
fn legs(legs: &[Leg]) -> String {
    let one = |leg: &Leg| match (leg.is_channel(), leg.reason) {
        (true, _) if leg.content == 0 => format!("{}: yes, {} ends of them", leg.name, leg.channels),
        (true, _) => format!("{}: yes, {:.0} % of the bytes", leg.name, 100.0 * leg.carried()),
        (false, Some(reason)) => format!("{}: TCP, {reason}", leg.name),
        (false, None) => {
            format!("{}: **{} of {}**, TCP: {}", leg.name, leg.channels, leg.connections, leg.on_tcp)
        }
    };
    legs.iter().map(one).collect::<Vec<_>>().join("; ")
}

/// The first line, as a cell can hold it.
fn wrong(fault: &str) -> String {
    format!("**{}**", fault.lines().next().unwrap_or_default().replace('|', "\\|"))
}
