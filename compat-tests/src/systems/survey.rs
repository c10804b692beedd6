//! Which system has its turn when, and what came of it.

use std::collections::BTreeMap;
use std::time::Duration;

use dp_measure::stats::{Interval, Spread};
use dp_measure::turns::order;
use serde::Serialize;

use super::states::{self, State};
use super::{ours, turn, Bench, Family, Job, Sample, System, What};
use crate::measure::kit::Kit;
use crate::measure::scratch::not_interrupted;
use crate::measure::Error;

/// Turns in a row that the cores may spoil by moving.
const ATTEMPTS: usize = 3;
/// How long their distance is looked at in between.
const PROBE: Duration = Duration::from_millis(20);

/// What is to be measured.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Of these systems.
    pub systems: Vec<System>,
    /// Lengths of messages, ascending.
    pub sizes: Vec<usize>,
    /// Turns of each.
    pub rounds: usize,
    /// Of one turn.
    pub time: Duration,
}

impl Plan {
    /// Every kind of turn a round has, in order.
    fn tasks(&self) -> Vec<(What, usize)> {
        let of = |what| self.sizes.iter().map(move |size| (what, *size));
        let waiting = self.sizes.iter().find(|size| **size == 8).map(|size| (What::Waiting, *size));
        of(What::Latency).chain(of(What::Flood)).chain(waiting).collect()
    }

    /// Turns in all.
    pub fn turns(&self) -> usize {
        let has = |(what, size)| self.systems.iter().filter(|s| s.has(what, size)).count();
        self.rounds * self.tasks().into_iter().map(has).sum::<usize>()
    }
}

/// A number of a [`Sample`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// The median, or the mean of programs that know none; ns.
    Middle,
    /// 99 of 100, ns.
    P99,
    /// 999 of 1000, ns.
    P999,
    /// Out of the blue, ns.
    Unawaited,
    /// Messages in a second.
    Rate,
    /// CPU seconds for each GiB.
    Cpu,
}

impl Metric {
    fn of(self, sample: &Sample) -> Option<f64> {
        match self {
            Metric::Middle => sample.p50_ns.or(sample.mean_ns),
            Metric::P99 => sample.p99_ns,
            Metric::P999 => sample.p999_ns,
            Metric::Unawaited => sample.unawaited_ns,
            Metric::Rate => sample.messages_per_s,
            Metric::Cpu => sample.cpu_s_per_gib,
        }
    }
}

/// One system in one respect.
type Key = (What, usize, &'static str);

/// Something that could not be measured, and why.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Missing {
    /// Which system, and what of it.
    pub what: String,
    /// In words.
    pub why: String,
}

/// One turn that went well.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Taken {
    round: usize,
    sample: Sample,
    /// How far apart the cores were at its begin and end, ns; 0 where that is not known.
    floor: f64,
}

/// All turns so far.
#[derive(Clone, Default)]
pub struct Survey {
    /// By their rounds.
    cells: BTreeMap<Key, Vec<Taken>>,
    failed: BTreeMap<Key, String>,
    missing: Vec<Missing>,
}

impl Survey {
    /// Gives every system its turns. `show` is told before each how many are done, and what comes.
    ///
    /// What cannot be measured is in [`Survey::missing`] afterwards.
    ///
    /// # Errors
    /// [`Error::Interrupted`].
    pub fn take(bench: &mut Bench, plan: &Plan, mut show: impl FnMut(usize, &str)) -> Result<Survey, Error> {
        let mut survey = Survey::default();
        let systems = survey.installed(&plan.systems);
        let mut done = 0;
        let mut floor = probe(&bench.kit)?;
        for round in 0..plan.rounds {
            for (what, size) in plan.tasks() {
                let some: Vec<&System> = systems.iter().filter(|s| s.has(what, size)).collect();
                for i in order(some.len(), round) {
                    let system = some[i];
                    show(done, &format!("round {}, {} B, {}", round + 1, size, system.name));
                    done += 1;
                    let job = Job { what, size, time: plan.time };
                    floor = survey.one(bench, system, &job, round, floor)?;
                }
            }
        }
        survey.gather();
        Ok(survey)
    }

    /// One turn, and another where the cores moved meanwhile; how far apart they are afterwards.
    fn one(
        &mut self,
        bench: &mut Bench,
        system: &System,
        job: &Job,
        round: usize,
        mut before: f64,
    ) -> Result<f64, Error> {
        let key = (job.what, job.size, system.key);
        for _ in 0..ATTEMPTS {
            not_interrupted()?;
            if self.failed.contains_key(&key) {
                break;
            }
            let sample = match turn(bench, system, job) {
                Ok(sample) => sample,
                Err(Error::Interrupted) => return Err(Error::Interrupted),
                // It would fail again, and may take a minute each time.
                Err(why) => {
                    self.failed.insert(key, why.to_string());
                    break;
                }
            };
            let after = probe(&bench.kit)?;
            let stayed = states::alike(before, after);
            let floor = (before + after) / 2.0;
            before = after;
            if stayed {
                self.record(key, round, sample, floor);
                break;
            }
        }
        Ok(before)
    }

    fn installed(&mut self, systems: &[System]) -> Vec<System> {
        let mut there = Vec::new();
        for system in systems {
            match system.installed() {
                Ok(()) => there.push(*system),
                Err(why) => {
                    self.missing.push(Missing { what: system.name.to_string(), why: why.to_string() });
                }
            }
        }
        there
    }

    /// Failures as people read them, those of one system with the same reason together.
    fn gather(&mut self) {
        let mut by_reason: BTreeMap<(&str, String), Vec<String>> = BTreeMap::new();
        for ((what, size, key), why) in &self.failed {
            // Two lengths differ in the words only by the length.
            let reason = why.replace(&format!("{size} bytes"), "N bytes");
            by_reason.entry((key, reason)).or_default().push(format!("{} of {size} B", what.word()));
        }
        for ((key, why), whats) in by_reason {
            let name = System::named(key).map_or(key, |system| system.name);
            let why = why.split_whitespace().collect::<Vec<_>>().join(" ");
            self.missing.push(Missing { what: format!("{name}: {}", whats.join(", ")), why });
        }
    }

    /// Adds what came of a turn, with the cores so far apart.
    pub fn record(&mut self, (what, size, key): Key, round: usize, sample: Sample, floor: f64) {
        self.cells.entry((what, size, key)).or_default().push(Taken { round, sample, floor });
    }

    /// What could not be measured.
    pub fn missing(&self) -> &[Missing] {
        &self.missing
    }

    /// How far apart the cores were, with those turns first that are most.
    pub fn states(&self) -> Vec<State> {
        states::of(self.cells.values().flatten().map(|taken| taken.floor))
    }

    /// The turns of this state alone.
    pub fn within(&self, state: &State) -> Survey {
        let mut some = self.clone();
        some.cells.values_mut().for_each(|cell| cell.retain(|taken| state.has(taken.floor)));
        some.cells.retain(|_, cell| !cell.is_empty());
        some
    }

    /// One number of all rounds.
    pub fn spread(&self, what: What, size: usize, key: &'static str, metric: Metric) -> Option<Spread> {
        let cell = self.cells.get(&(what, size, key))?;
        Spread::of(&cell.iter().filter_map(|taken| metric.of(&taken.sample)).collect::<Vec<_>>())
    }

    /// Two systems' number, put together pair by pair; the median of that, and how sure it is. A pair are turns of one
    /// round, or of rounds next to each other, with the cores as far apart in both.
    pub fn compare(
        &self,
        (what, size, metric): (What, usize, Metric),
        [one, other]: [&'static str; 2],
        together: impl Fn(f64, f64) -> f64,
    ) -> Option<Interval> {
        let [one, other] = [self.cells.get(&(what, size, one))?, self.cells.get(&(what, size, other))?];
        let mut left: Vec<&Taken> = other.iter().collect();
        let mut pairs = Vec::new();
        for a in one {
            let alike = left.iter().enumerate().filter(|(_, b)| states::alike(a.floor, b.floor));
            let Some((i, _)) = alike.min_by_key(|(_, b)| a.round.abs_diff(b.round)) else { continue };
            let b = left.swap_remove(i);
            pairs.extend(metric.of(&a.sample).zip(metric.of(&b.sample)));
        }
        Interval::of(&pairs.into_iter().map(|(a, b)| together(a, b)).collect::<Vec<_>>())
    }

    /// Everything measured, a row for each state, system, size and kind.
    pub fn rows(&self) -> Vec<Row> {
        let states = self.states();
        let rows = |(i, state): (usize, &State)| self.within(state).rows_of(i);
        states.iter().enumerate().flat_map(rows).collect()
    }

    fn rows_of(&self, state: usize) -> Vec<Row> {
        let row = |&(what, size, key): &Key| {
            let of = |metric| self.spread(what, size, key, metric);
            Some(Row {
                state,
                system: key,
                family: System::named(key)?.family,
                what,
                size,
                turns: self.cells[&(what, size, key)].len(),
                p50_ns: of(Metric::Middle),
                p99_ns: of(Metric::P99),
                p999_ns: of(Metric::P999),
                unawaited_p50_ns: of(Metric::Unawaited),
                messages_per_s: of(Metric::Rate),
                cpu_s_per_gib: of(Metric::Cpu),
            })
        };
        self.cells.keys().filter_map(row).collect()
    }
}

/// How far apart the cores are now: half a round trip of a line between them, ns. 0 where that cannot be known.
pub(super) fn probe(kit: &Kit) -> Result<f64, Error> {
    let job = Job { what: What::Latency, size: 8, time: PROBE };
    match ours::turn(kit, "floor", &job) {
        Err(Error::Interrupted) => Err(Error::Interrupted),
        told => Ok(told.ok().and_then(|sample| sample.p50_ns).unwrap_or(0.0)),
    }
}

/// What `--json` tells of one system, size and kind: medians over the turns, and their range.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Which of the report's states.
    state: usize,
    system: &'static str,
    family: Family,
    what: What,
    size: usize,
    turns: usize,
    /// Of programs that know no median, the mean.
    #[serde(skip_serializing_if = "Option::is_none")]
    p50_ns: Option<Spread>,
    #[serde(skip_serializing_if = "Option::is_none")]
    p99_ns: Option<Spread>,
    #[serde(skip_serializing_if = "Option::is_none")]
    p999_ns: Option<Spread>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unawaited_p50_ns: Option<Spread>,
    #[serde(skip_serializing_if = "Option::is_none")]
    messages_per_s: Option<Spread>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cpu_s_per_gib: Option<Spread>,
}

#[cfg(test)]
mod tests;
