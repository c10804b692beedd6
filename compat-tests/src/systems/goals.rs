//! What was promised, and whether it is so in this run.

use dp_measure::stats::{Interval, Spread};
use serde::Serialize;

use super::survey::{Metric, Survey};
use super::What;
use crate::measure::report::number;

/// A promise and what came of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Goal {
    /// The promise in words.
    pub what: String,
    /// What was measured.
    pub value: Option<Interval>,
    /// Of the value and its limit: `x`, `ns`, `%`, `KiB`.
    pub unit: &'static str,
    /// What the value must not exceed, or must reach.
    pub limit: f64,
    /// Which of the two.
    pub at_most: bool,
    /// None if nothing was measured.
    pub met: Option<bool>,
    /// The value while the cores were as far apart as in fewer turns.
    pub elsewhere: Option<Interval>,
    /// Whether that one is as promised.
    pub met_elsewhere: Option<bool>,
    /// Between what it is compared with, as measured.
    pub beside: String,
}

impl Goal {
    fn new(what: impl Into<String>, unit: &'static str, limit: f64, at_most: bool) -> Goal {
        let what = what.into();
        let (value, met, elsewhere, met_elsewhere) = (None, None, None, None);
        Goal { what, value, unit, limit, at_most, met, elsewhere, met_elsewhere, beside: String::new() }
    }

    /// A value that must not be above the limit.
    pub fn at_most(what: impl Into<String>, limit: f64, unit: &'static str) -> Goal {
        Goal::new(what, unit, limit, true)
    }

    /// A value that must not be below the limit.
    pub fn at_least(what: impl Into<String>, limit: f64, unit: &'static str) -> Goal {
        Goal::new(what, unit, limit, false)
    }

    /// Judged by the median.
    pub fn with(mut self, value: Option<Interval>, beside: impl Into<String>) -> Goal {
        self.met = value.map(|v| if self.at_most { v.median <= self.limit } else { v.median >= self.limit });
        // What was not measured is beside nothing.
        (self.value, self.beside) = (value, value.map(|_| beside.into()).unwrap_or_default());
        self
    }

    /// With the same goal of another distance of the cores.
    pub fn with_elsewhere(mut self, other: &[Goal]) -> Goal {
        if let Some(other) = other.iter().find(|other| other.what == self.what) {
            (self.elsewhere, self.met_elsewhere) = (other.value, other.met);
        }
        self
    }

    /// `<= 40 ns`
    pub fn limit_text(&self) -> String {
        let sign = if self.at_most { "<=" } else { ">=" };
        format!("{sign} {}", with_unit(&self.limit.to_string(), self.unit))
    }

    /// `38.1 ns (35.0 - 41.2)`
    pub fn value_text(&self) -> String {
        self.value.map_or("not measured".into(), |value| self.shown(value))
    }

    /// The same of the other distance, and whether that is as promised.
    pub fn elsewhere_text(&self) -> String {
        match (self.elsewhere, self.met_elsewhere) {
            (Some(value), Some(met)) => {
                format!("{}, {}", self.shown(value), if met { "met" } else { "missed" })
            }
            _ => "-".into(),
        }
    }

    fn shown(&self, value: Interval) -> String {
        let text = with_unit(&number(value.median), self.unit);
        match value.low == value.high {
            true => text,
            false => format!("{text} ({} - {})", number(value.low), number(value.high)),
        }
    }

    /// `met`, or by how much it is missed.
    pub fn verdict(&self) -> String {
        match (self.met, self.value) {
            (Some(true), _) => "met".into(),
            (Some(false), Some(value)) => {
                let off = if self.at_most { value.median / self.limit } else { self.limit / value.median };
                format!("MISSED, {off:.2} times off")
            }
            _ => "not measured".into(),
        }
    }
}

fn with_unit(number: &str, unit: &str) -> String {
    if unit == "x" {
        format!("{number}x")
    } else {
        format!("{number} {unit}")
    }
}

const KIB64: usize = 64 << 10;
const MIB: usize = 1 << 20;
const UCX: [&str; 2] = ["ucx-tag", "ucx-am"];
/// The kernel's own ways of waking somebody.
const WAKES: [&str; 2] = ["eventfd", "futex"];

/// Those that follow from turns.
pub fn of(survey: &Survey) -> Vec<Goal> {
    let lat = (What::Latency, 8, Metric::Middle);
    let over = |ours| survey.compare(lat, [ours, "floor"], |ours, floor| ours - floor);
    let both = |ours: &'static str, theirs: &'static str, (what, size, metric)| {
        let middle = |key| survey.spread(what, size, key, metric).map_or(f64::NAN, |spread| spread.median);
        format!("{} to {}", shown(middle(ours), metric, size), shown(middle(theirs), metric, size))
    };
    let mut goals = Vec::new();
    let goal = Goal::at_most("8 B one way, p50, dp_write/dp_recvfrom: over the floor", 40.0, "ns");
    goals.push(goal.with(over("dp"), both("dp", "floor", lat)));
    let ucx = best(survey, lat, &UCX);
    let others =
        [("the better UCX", ucx), ("Open MPI", Some("openmpi")), ("libfabric shm (mean)", Some("libfabric"))];
    for (name, theirs) in others.into_iter().chain([("iceoryx2, copied", Some("iceoryx2"))]) {
        let ratio =
            theirs.and_then(|theirs| survey.compare(lat, ["dp", theirs], |ours, theirs| ours / theirs));
        let goal = Goal::at_most(format!("8 B one way, p50, dp_write/dp_recvfrom: of {name}"), 1.0, "x");
        goals.push(goal.with(ratio, theirs.map(|theirs| both("dp", theirs, lat)).unwrap_or_default()));
    }
    let floods = [
        ("8 B messages, one edge", 8, "dp", 1.5),
        ("64 KiB bandwidth, copied", KIB64, "dp", 1.2),
        ("1 MiB bandwidth, copied", MIB, "dp", 1.2),
        ("64 KiB bandwidth, read in place", KIB64, "dp-in-place", 1.5),
        ("1 MiB bandwidth, read in place", MIB, "dp-in-place", 1.5),
    ];
    for (what, size, ours, least) in floods {
        let flood = (What::Flood, size, Metric::Rate);
        let theirs = best(survey, flood, &UCX);
        let ratio = theirs.and_then(|theirs| survey.compare(flood, [ours, theirs], |a, b| a / b));
        let goal = Goal::at_least(format!("{what}, of the better UCX"), least, "x");
        goals.push(goal.with(ratio, theirs.map(|theirs| both(ours, theirs, flood)).unwrap_or_default()));
    }
    let waiting = |metric, ours| survey.spread(What::Waiting, 8, ours, metric);
    let alone = waiting(Metric::Middle, "dp").map(|s| Interval {
        median: s.median,
        low: s.low,
        high: s.high,
        percent: 0.0,
    });
    let told =
        |words: &str, spread: Option<Spread>| spread.map(|s| format!("{words}: {} ns", number(s.median)));
    let beside = [
        told("out of the blue", waiting(Metric::Unawaited, "dp")),
        told("a channel", waiting(Metric::Middle, "dp-channel")),
    ];
    let beside = beside.into_iter().flatten().collect::<Vec<_>>().join("; ");
    goals.push(Goal::at_most("taking a message that waits (U_r), 8 B", 30.0, "ns").with(alone, beside));
    let wake = best(survey, lat, &WAKES);
    let slower = wake.and_then(|wake| survey.compare(lat, ["dp-asleep", wake], |ours, wake| ours / wake));
    let beside = wake.map(|wake| format!("{wake}: {}", both("dp-asleep", wake, lat))).unwrap_or_default();
    let goal =
        Goal::at_most("send to a sleeping receiver, of eventfd or futex, whichever is quicker", 1.1, "x");
    goals.push(goal.with(slower, beside));
    goals
}

/// The better of these that were measured.
fn best(
    survey: &Survey,
    (what, size, metric): (What, usize, Metric),
    of: &[&'static str],
) -> Option<&'static str> {
    let middle = |key: &&'static str| Some((survey.spread(what, size, key, metric)?.median, *key));
    let found = of.iter().filter_map(middle);
    let best = match metric {
        Metric::Rate => found.max_by(|a, b| a.0.total_cmp(&b.0)),
        _ => found.min_by(|a, b| a.0.total_cmp(&b.0)),
    };
    best.map(|(_, key)| key)
}

fn shown(value: f64, metric: Metric, size: usize) -> String {
    match metric {
        Metric::Rate if size >= 1024 => format!("{} GB/s", number(value * size as f64 / 1e9)),
        Metric::Rate => format!("{} M/s", number(value / 1e6)),
        _ => format!("{} ns", number(value)),
    }
}

#[cfg(test)]
mod tests;
