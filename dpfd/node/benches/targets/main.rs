//! What messages between two nodes take, beside plain UDP and TCP sockets on the same cable, in the same run and in turns: the
//! table of docs/BENCHMARKS.md. Nodes are network namespaces, made here; needs root. `make bench-node`, or
//! `cargo bench -p dp-node --bench targets -- [--quick] [--json FILE] [ROW ...]`. What it is at stands on standard error; a row
//! that does not end in time ends the run, with what was found until then.
//!
//! | file | holds |
//! |---|---|
//! | [`cables`] | namespaces, cables, what shapes them and what loses |
//! | [`ends`] | programs at both ends: round trips and floods, by endpoints, UDP and TCP |
//! | [`rows`] | the rows of the table |

mod cables;
mod ends;
#[path = "../../tests/processes/kit.rs"]
#[allow(dead_code, clippy::allow_attributes, reason = "the tests use the rest")]
mod kit;
mod rows;

use std::process::ExitCode;
use std::sync::mpsc::{channel, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use serde::Serialize;

/// A figure beside its alternative.
#[derive(Debug, Serialize)]
struct Figure {
    what: String,
    unit: &'static str,
    dp: f64,
    /// The alternative, and what it is.
    other: f64,
    beside: String,
    /// `dp` over `other`.
    ratio: f64,
    /// What the ratio is to be at least, or at most.
    at_least: Option<f64>,
    at_most: Option<f64>,
}

impl Figure {
    fn new(what: String, unit: &'static str, dp: f64, beside: &str, other: f64) -> Figure {
        let beside = beside.to_string();
        Figure { what, unit, dp, other, beside, ratio: dp / other, at_least: None, at_most: None }
    }

    fn at_least(self, ratio: f64) -> Figure {
        Figure { at_least: Some(ratio), ..self }
    }

    fn at_most(self, ratio: f64) -> Figure {
        Figure { at_most: Some(ratio), ..self }
    }

    fn print(&self) {
        let Figure { what, unit, dp, other, beside, ratio, .. } = self;
        let target = match (self.at_least, self.at_most) {
            (Some(least), _) => format!(">= {least:.2}, {}", if *ratio >= least { "met" } else { "missed" }),
            (_, Some(most)) => format!("<= {most:.2}, {}", if *ratio <= most { "met" } else { "missed" }),
            _ => String::new(),
        };
        println!("| {what} | {dp:.3} {unit} | {beside} {other:.3} | {ratio:.3} | {target} |");
    }
}

/// How long, and how often.
#[derive(Clone, Copy, Debug)]
struct Effort {
    turns: usize,
    rounds: usize,
    flood: Duration,
    /// What no row takes, though its machine does other things as well.
    longest: Duration,
}

const FULL: Effort =
    Effort { turns: 9, rounds: 3000, flood: Duration::from_millis(700), longest: Duration::from_secs(300) };
const QUICK: Effort =
    Effort { turns: 3, rounds: 500, flood: Duration::from_millis(300), longest: Duration::from_secs(90) };

/// Ends this process, and with it all that it started, unless it is told in time that the row has ended.
fn bounded(row: &str, longest: Duration) -> Sender<()> {
    let (ended, end) = channel();
    let row = row.to_string();
    std::thread::spawn(move || {
        if end.recv_timeout(longest) == Err(RecvTimeoutError::Timeout) {
            eprintln!("{row}: not within {} s; giving up", longest.as_secs());
            std::process::exit(1);
        }
    });
    ended
}

fn main() -> ExitCode {
    let (mut json, mut wanted) = (None, Vec::new());
    let mut effort = FULL;
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            // Cargo says so to every bench.
            "--bench" => {}
            "--quick" => effort = QUICK,
            "--json" => json = args.next(),
            row if rows::NAMES.contains(&row) => wanted.push(row.to_string()),
            _ => {
                eprintln!("usage: [--quick] [--json FILE] [{}]", rows::NAMES.join("] ["));
                return ExitCode::from(2);
            }
        }
    }
    if !kit::namespaces_are_possible("the table of targets") {
        return ExitCode::SUCCESS;
    }
    println!("| what | DP | beside | ratio | target |\n|---|---|---|---|---|");
    let mut figures: Vec<Figure> = Vec::new();
    for name in rows::NAMES.iter().filter(|name| wanted.is_empty() || wanted.iter().any(|row| row == *name)) {
        eprintln!("{name}: {}", rows::about(name));
        let (begin, ended) = (Instant::now(), bounded(name, effort.longest));
        for figure in rows::measure(name, effort) {
            figure.print();
            figures.push(figure);
        }
        drop(ended);
        eprintln!("{name}: {} s", begin.elapsed().as_secs());
    }
    if let Some(file) = json {
        let text = serde_json::to_string_pretty(&figures).expect("figures");
        if let Err(error) = std::fs::write(&file, text) {
            eprintln!("{file}: {error}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
