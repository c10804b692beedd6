//! What the number of endpoints or connections costs one that is used, and what idle ones cost: `dp bench crowd|idle`.

use std::collections::BTreeMap;
use std::time::Duration;

use dp_measure::stats::{Interval, Spread};
use serde::{Deserialize, Serialize};

use super::goals::Goal;
use super::survey::{probe, Missing};
use super::{states, Kind, System};
use crate::measure::kit::Kit;
use crate::measure::report::number;
use crate::measure::scratch::not_interrupted;
use crate::measure::Error;

/// The layout known here.
const VERSION: u32 = 2;
/// Opening ten thousand of everything takes its time where others work as well.
const PATIENCE: Duration = Duration::from_secs(240);
/// How many idle endpoints the promise is about.
const PROMISED: usize = 5000;

/// What is to be measured.
#[derive(Clone, Debug)]
pub struct Plan {
    /// How many there are, ascending.
    pub counts: Vec<usize>,
    /// Turns of each.
    pub rounds: usize,
    /// Of one turn, without opening and closing.
    pub time: Duration,
    /// Of the idle endpoints.
    pub idle: Duration,
}

/// Systems whose number can be measured.
pub fn counted(system: &System) -> Option<&'static str> {
    match system.kind {
        Kind::Ours(way @ ("endpoint" | "plain" | "unix-stream" | "tcp")) => Some(way),
        _ => None,
    }
}

/// What `dp bench crowd --json` prints of one way.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
pub(super) struct Turn {
    p50_ns: f64,
    p99_ns: f64,
    resident_bytes_each: Option<f64>,
    kernel_bytes_each: Option<f64>,
    processes: u32,
}

/// One system with so many: medians over the rounds, and their range.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Which system.
    pub system: &'static str,
    /// Endpoints or connections, the one that is used among them.
    pub endpoints: usize,
    /// One way of the one that is used.
    pub p50_ns: Spread,
    /// What 99 of 100 messages do not exceed.
    pub p99_ns: Spread,
    /// Bytes of the waiting process for each of the others.
    pub resident_bytes_each: Option<f64>,
    /// Bytes of the kernel for both ends of each of the others.
    pub kernel_bytes_each: Option<f64>,
    /// Processes that hold one end of the others.
    pub processes: u32,
}

/// What `dp bench idle --json` prints.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Idle {
    version: u32,
    /// How many were idle.
    pub endpoints: usize,
    /// Resident memory of each.
    pub bytes_per_endpoint: f64,
    /// With a pool.
    pub bytes_per_pool_endpoint: f64,
    /// By so much one that is used is slower beside them.
    pub slower_percent: f64,
    /// Processor time of a process that has them and waits, microseconds in `seconds`.
    pub idle_cpu_us: f64,
    /// Its context switches.
    pub idle_context_switches: u64,
    /// How long it was looked at.
    pub seconds: f64,
}

/// All of it.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Numbers {
    /// One beside many.
    pub crowds: Vec<Row>,
    /// Many that nobody uses.
    pub idle: Option<Idle>,
}

/// Measures these systems.
///
/// # Errors
/// [`Error::Interrupted`].
pub fn measure(
    kit: &Kit,
    systems: &[System],
    plan: &Plan,
    missing: &mut Vec<Missing>,
    mut show: impl FnMut(&str),
) -> Result<Numbers, Error> {
    let systems: Vec<(&System, &str)> = systems.iter().filter_map(|s| Some((s, counted(s)?))).collect();
    let mut turns: BTreeMap<(usize, &'static str), Vec<(Turn, f64)>> = BTreeMap::new();
    for round in 0..plan.rounds {
        for &count in &plan.counts {
            for &(system, way) in &systems {
                show(&format!("one of {count}, {}, round {}", system.name, round + 1));
                not_interrupted()?;
                match turn(kit, way, count, plan.time) {
                    Ok(turn) => turns.entry((count, system.key)).or_default().push((turn, probe(kit)?)),
                    Err(Error::Interrupted) => return Err(Error::Interrupted),
                    Err(why) => missing.push(Missing {
                        what: format!("{}, {count} of them", system.name),
                        why: why.to_string(),
                    }),
                }
            }
        }
    }
    let states = states::of(turns.values().flatten().map(|(_, floor)| *floor));
    let usual = |floor: f64| states.first().is_some_and(|state| state.has(floor));
    let crowds =
        turns.iter().filter_map(|((count, key), turns)| row(key, *count, &alike(turns, usual))).collect();
    let mut idle = None;
    if systems.iter().any(|(system, _)| system.key == "dp") {
        show(&format!("{PROMISED} idle endpoints"));
        match idle_endpoints(kit, plan.idle) {
            Ok(found) => idle = Some(found),
            Err(Error::Interrupted) => return Err(Error::Interrupted),
            Err(why) => missing.push(Missing { what: "idle endpoints".into(), why: why.to_string() }),
        }
    }
    Ok(Numbers { crowds, idle })
}

fn turn(kit: &Kit, way: &str, count: usize, time: Duration) -> Result<Turn, Error> {
    let name = format!("dp bench crowd --ways {way} --endpoints {count}");
    let said = bench(kit, &name, &["crowd", "--ways", way, "--rounds", "2"], count, time)?;
    parse(&said, way).ok_or_else(|| Error::words(name, &said))
}

fn bench(kit: &Kit, name: &str, what: &[&str], count: usize, time: Duration) -> Result<String, Error> {
    let mut command = kit.dp();
    command.arg("bench").args(what).args(["--endpoints", &count.to_string(), "--json", "--cores"]);
    command.arg(format!("{},{}", kit.cores.client, kit.cores.server));
    command.args(["--seconds", &time.as_secs_f64().to_string()]);
    Ok(kit.start(command, name, None)?.finish(time * 4 + PATIENCE)?.out)
}

pub(super) fn parse(json: &str, way: &str) -> Option<Turn> {
    #[derive(Deserialize)]
    struct Listing {
        version: u32,
        results: Vec<Outcome>,
    }
    #[derive(Deserialize)]
    struct Outcome {
        way: String,
        #[serde(flatten)]
        turn: Turn,
    }
    let listing: Listing = serde_json::from_str(json).ok().filter(|l: &Listing| l.version == VERSION)?;
    listing.results.into_iter().find(|one| one.way == way).map(|one| one.turn)
}

/// Those with the cores as far apart as they mostly were; all if there are none.
fn alike(turns: &[(Turn, f64)], usual: impl Fn(f64) -> bool) -> Vec<Turn> {
    let some: Vec<Turn> = turns.iter().filter(|(_, floor)| usual(*floor)).map(|(turn, _)| *turn).collect();
    if some.is_empty() {
        turns.iter().map(|(turn, _)| *turn).collect()
    } else {
        some
    }
}

fn row(system: &'static str, endpoints: usize, turns: &[Turn]) -> Option<Row> {
    let of =
        |number: fn(&Turn) -> Option<f64>| Spread::of(&turns.iter().filter_map(number).collect::<Vec<_>>());
    Some(Row {
        system,
        endpoints,
        p50_ns: of(|turn| Some(turn.p50_ns))?,
        p99_ns: of(|turn| Some(turn.p99_ns))?,
        resident_bytes_each: of(|turn| turn.resident_bytes_each).map(|spread| spread.median),
        kernel_bytes_each: of(|turn| turn.kernel_bytes_each).map(|spread| spread.median),
        processes: turns.first()?.processes,
    })
}

fn idle_endpoints(kit: &Kit, time: Duration) -> Result<Idle, Error> {
    let said = bench(kit, "dp bench idle", &["idle", "--rounds", "20"], PROMISED, time)?;
    parse_idle(&said).ok_or_else(|| Error::words("dp bench idle", &said))
}

pub(super) fn parse_idle(json: &str) -> Option<Idle> {
    serde_json::from_str(json).ok().filter(|idle: &Idle| idle.version == VERSION)
}

/// What was promised of idle endpoints.
pub fn goals(numbers: &Numbers) -> Vec<Goal> {
    let idle = numbers.idle.as_ref();
    let exactly = |value: f64| Interval { median: value, low: value, high: value, percent: 0.0 };
    let slower = idle.map(|idle| exactly(idle.slower_percent));
    let memory = idle.map(|idle| exactly(idle.bytes_per_pool_endpoint / 1024.0));
    let without =
        idle.map(|idle| format!("without a pool: {} KiB", number(idle.bytes_per_endpoint / 1024.0)));
    vec![
        Goal::at_most(format!("one endpoint beside {PROMISED} idle ones: slower than alone"), 3.0, "%")
            .with(slower, ""),
        Goal::at_most("resident memory of an idle endpoint with a pool", 8.0, "KiB")
            .with(memory, without.unwrap_or_default()),
    ]
}

#[cfg(test)]
mod tests;
