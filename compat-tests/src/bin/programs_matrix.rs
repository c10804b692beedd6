//! The matrix of programs: servers and clients of others, natively and under the shim.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use compat_tests::matrix::judge::{judge, Outcome, Plan};
use compat_tests::matrix::{named, page, rows, tool, Row};
use compat_tests::measure::cores::Cores;
use compat_tests::measure::kit::Kit;
use compat_tests::measure::turns::Progress;
use compat_tests::measure::Error;
use compat_tests::systems::machine::Machine;
use serde::Serialize;

const AFTER_HELP: &str = "\
The exit status is 1 when content was wrong, an end was not told, a wake-up was lost, a leg that can be a channel stayed \
on TCP, or a program failed or said something unknown; never because something was slow. What failed is told on standard \
error, with the ends of the programs' logs. 2: options that cannot be used, or a program that is not installed.\n\n\
--json prints one object: version (1), rounds, seconds, rows[] {name, version, what, natively, shimmed[], \
legs[] {name, channels, connections, carried, content, on_tcp, reason}, figures[] {what, unit, tcp[], dp[], ratio {median, low, high, percent}, \
legs[], reason, fault}}. Fields can be added; none changes its meaning while version stays.";

/// Programs of others, natively and under the shim: content, ends, channels, figures.
#[derive(Parser)]
#[command(name = "programs_matrix", after_help = AFTER_HELP)]
struct Args {
    /// Only these rows.
    #[arg(long, value_name = "NAME", num_args = 1.., value_delimiter = ',', value_parser = row)]
    only: Vec<&'static Row>,

    /// All but these rows.
    #[arg(long, value_name = "NAME", num_args = 1.., value_delimiter = ',', value_parser = row, conflicts_with = "only")]
    without: Vec<&'static Row>,

    /// Checks only, natively and with the shim on both sides: a few seconds a row.
    #[arg(long)]
    fast: bool,

    /// Pairs of each figure: natively and under the shim.
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,

    /// How long one run of a figure takes.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=60), value_name = "SECONDS")]
    time: u32,

    /// Print JSON instead of the page.
    #[arg(long)]
    json: bool,

    /// Write the page to this file instead of standard output.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,

    /// Print the rows' names and what they do, and end.
    #[arg(long)]
    list: bool,

    /// Leave the folders of runs that failed behind, and say where they are.
    #[arg(long)]
    keep: bool,

    /// The dp command; otherwise the one beside this program. The shim is the one of DP_SHIM, or of this build.
    #[arg(long, value_name = "PATH")]
    dp: Option<PathBuf>,
}

fn row(text: &str) -> Result<&'static Row, String> {
    let names = || rows().map(|row| row.name).collect::<Vec<_>>().join(", ");
    named(text).ok_or_else(|| format!("not a row; these are: {}", names()))
}

/// What `--json` prints.
#[derive(Serialize)]
struct Listing {
    version: u32,
    rounds: usize,
    seconds: u64,
    rows: Vec<Outcome>,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let is_left_out = |row: &&Row| args.without.iter().any(|out| out.name == row.name);
    let all = || rows().filter(|row| !is_left_out(row)).collect();
    let chosen: Vec<&'static Row> = if args.only.is_empty() { all() } else { args.only.clone() };
    if args.list {
        chosen.iter().for_each(|row| println!("{:<16} {}", row.name, row.what));
        return ExitCode::SUCCESS;
    }
    // All that is missing, not the first only.
    let tools = chosen.iter().flat_map(|row| row.tools);
    let mut missing: Vec<String> =
        tools.filter_map(|tool| tool::find(*tool).err()).map(|error| error.to_string()).collect();
    missing.sort();
    missing.dedup();
    if !missing.is_empty() {
        missing.iter().for_each(|error| eprintln!("programs_matrix: {error}"));
        return ExitCode::from(2);
    }
    match run(&args, &chosen) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("programs_matrix: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Whether all is well.
fn run(args: &Args, chosen: &[&'static Row]) -> Result<bool, Error> {
    let kit = Kit::new(args.dp.clone(), Cores::single()?)?;
    let time = Duration::from_secs(args.time.into());
    let plan = Plan { fast: args.fast, rounds: args.rounds as usize, time, keep: args.keep };
    let (mut machine, progress) = (Machine::new(), Progress::new());
    let mut outcomes = Vec::new();
    for row in chosen {
        let outcome = judge(&kit, row, &plan, &progress)?;
        progress.clear();
        let faults = outcome.faults();
        eprintln!("{:<16} {}", row.name, if faults.is_empty() { "ok" } else { "FAILED" });
        faults.iter().for_each(|fault| eprintln!("  {}", fault.replace('\n', "\n  ")));
        outcomes.push(outcome);
    }
    machine.finish();
    let well = outcomes.iter().all(|outcome| outcome.faults().is_empty());
    let page = page::markdown(&outcomes, &plan, &machine);
    if let Some(file) = &args.out {
        fs::write(file, &page).map_err(Error::system(file.display()))?;
    }
    let listing = Listing { version: 1, rounds: plan.rounds, seconds: time.as_secs(), rows: outcomes };
    match (args.json, &args.out) {
        (true, _) => println!("{}", serde_json::to_string_pretty(&listing).expect("a listing is plain data")),
        (false, None) => print!("{page}"),
        (false, Some(_)) => {}
    }
    Ok(well)
}
