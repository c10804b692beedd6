//! From endpoint to endpoint on two cores: `dp bench` measures it, with the floor and the kernel's ways beside it.

use std::time::Duration;

use serde::Deserialize;

use super::kit::Kit;
use super::report::{Column, Row};
use super::Error;

/// The layout known here.
const VERSION: u32 = 2;
/// More than all the ways of one run take, which are seven at most.
const PATIENCE: Duration = Duration::from_secs(60);

/// What of it is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// 8 bytes one way, beside the floor.
    Lat,
    /// 8-byte messages in a second, beside AF_UNIX datagrams.
    Rate,
}

impl What {
    fn word(self) -> &'static str {
        match self {
            What::Lat => "lat",
            What::Rate => "rate",
        }
    }

    /// The baseline as `dp bench` calls it and as people do.
    fn baseline(self) -> (&'static str, &'static str) {
        match self {
            What::Lat => ("floor", "floor"),
            What::Rate => ("unix-dgram", "AF_UNIX datagrams"),
        }
    }
}

/// What `dp bench --json` prints, as far as it is needed here.
#[derive(Deserialize)]
struct Listing {
    version: u32,
    results: Vec<Outcome>,
    over_floor_ns: Option<f64>,
}

/// One way.
#[derive(Deserialize)]
struct Outcome {
    way: String,
    p50_ns: Option<f64>,
    messages_per_s: Option<f64>,
    /// Of the process that sends first, and of the other.
    cpu_s: [f64; 2],
}

/// Fills the row by a run of `dp bench` that takes this time for each way.
///
/// # Errors
/// `dp bench` fails, or prints something unknown.
pub fn measure(kit: &Kit, row: Row, what: What, time: Duration) -> Result<Row, Error> {
    let name = format!("dp bench {}", what.word());
    let mut command = kit.dp();
    command.args(["bench", what.word(), "--size", "8", "--json", "--cores"]);
    command.arg(format!("{},{}", kit.cores.client, kit.cores.server));
    command.arg("--seconds").arg(time.as_secs_f64().to_string());
    // It goes to its cores by itself.
    let finished = kit.start(command, &name, None)?.finish(time * 7 + PATIENCE)?;
    fill(row, what, &finished.out).ok_or_else(|| Error::words(name, &finished.out))
}

fn fill(row: Row, what: What, json: &str) -> Option<Row> {
    let listing: Listing = serde_json::from_str(json).ok().filter(|l: &Listing| l.version == VERSION)?;
    let column = |way: &str, name: &str| {
        let outcome = listing.results.iter().find(|outcome| outcome.way == way)?;
        let value = match what {
            What::Lat => outcome.p50_ns?,
            What::Rate => outcome.messages_per_s?,
        };
        let [client, server] = outcome.cpu_s;
        Column::single(name, value, Some([server, client]))
    };
    let (way, name) = what.baseline();
    let mut row = row.with_columns(column(way, name)?, column("endpoint", "DP")?);
    if let Some(over) = listing.over_floor_ns.filter(|_| what == What::Lat) {
        row.note(format!("over the floor of the same turn, median of the turns: {over} ns"));
    }
    Some(row)
}

#[cfg(test)]
mod tests;
