//! `--batch`: the lines as text or JSON, one look after the other.

use std::process::ExitCode;
use std::time::Instant;

use serde_json::{json, to_value, Value};

use super::rows::{Kind, Row};
use super::{latency, table, Args, Eye, Look};
use crate::{say, signals};

/// Prints as many looks as were asked for; without a number, until it is interrupted, or nobody reads any more.
pub fn run(args: &Args, looks: Option<u64>) -> ExitCode {
    signals::watch();
    let mut eye = Eye::new(args.latency);
    let mut left = looks;
    // Rates are known from the second look on.
    let mut done = eye.look().map(|_| ());
    while done.is_ok() && left != Some(0) {
        let until = Instant::now() + args.interval;
        while Instant::now() < until {
            std::thread::sleep(until - Instant::now());
            if let Some(signal) = signals::caught() {
                drop(eye);
                signals::die(signal);
            }
        }
        done = eye.look().and_then(|look| print(args, &look));
        left = left.map(|n| n - 1);
    }
    match done {
        Ok(()) => ExitCode::SUCCESS,
        // The reader has seen enough.
        Err(why) if why.is_empty() => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("dp top: {why}");
            ExitCode::FAILURE
        }
    }
}

fn print(args: &Args, look: &Look) -> Result<(), String> {
    let rows = look.rows(&args.filter, args.sort, args.reverse);
    let text = if args.json_lines { objects(look, &rows) } else { tables(args, look, &rows) };
    match say::part(text.as_bytes()) {
        Ok(true) => Ok(()),
        Ok(false) => Err(String::new()),
        Err(why) => Err(format!("{why}; it is not complete")),
    }
}

/// The kinds that were asked for, or all.
fn kinds(args: &Args) -> Vec<Kind> {
    args.view.map_or(Kind::ALL.to_vec(), |kind| vec![kind])
}

fn tables(args: &Args, look: &Look, rows: &[Row]) -> String {
    let mut tables = vec![vec![super::head(look, rows)]];
    for kind in kinds(args) {
        let of: Vec<&Row> = rows.iter().filter(|row| row.kind == kind).collect();
        if !of.is_empty() {
            tables.push(table::lines(kind, &of, None));
        }
    }
    if let Some((ends, told)) = &look.latency {
        tables.push(latency::lines(*ends, told));
    }
    tables.extend(look.said.iter().map(|said| vec![format!("({said})")]));
    let tables: Vec<String> = tables.iter().map(|table| table.join("\n") + "\n").collect();
    tables.join("\n") + "\n"
}

/// A line for each row; one before them says when that was.
pub(super) fn objects(look: &Look, rows: &[Row]) -> String {
    let mut objects =
        vec![json!({"kind": "look", "version": 1, "unix_seconds": look.unix_seconds, "said": look.said})];
    objects.extend(rows.iter().map(|row| to_value(row).expect("plain data")));
    if let Some((ends, told)) = &look.latency {
        objects.extend(latency::objects(*ends, told));
    }
    objects.iter().map(|object: &Value| format!("{object}\n")).collect()
}
