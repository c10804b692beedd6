//! `make bench`: the table of targets, measured with programs of others and with `dp bench`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use compat_tests::measure::cores::Cores;
use compat_tests::measure::kit::{require, Kit};
use compat_tests::measure::report::{self, Row};
use compat_tests::measure::targets::{Name, Plan};
use compat_tests::measure::turns::Progress;
use compat_tests::measure::Error;
use serde::Serialize;

const AFTER_HELP: &str = "\
A ratio is the median of the rounds' own ratios DP / baseline, and beside it is the range that holds the true \
median with 95 % or more, which takes six rounds. \
A target that is missed is no failure: the exit status is 0 when everything that was asked for was measured, \
1 when something was not, 2 for options that cannot be used.\n\n\
--json prints one object: version (1), server_core, client_core, rows[]. A row: name, what, unit, \
target {test, value}, baseline, dp and, of programs that have it, unix {name, value {median, low, high}, samples[], server_cpu_s, client_cpu_s}, \
ratio {median, low, high, percent}, met, dp_part, notes[]. What was not measured is null, and notes[] says why. \
Fields can be added; none changes its meaning while version stays.";

/// Programs over TCP and over DP, beside what was promised.
#[derive(Parser)]
#[command(name = "programs_bench", after_help = AFTER_HELP)]
struct Args {
    /// Print one JSON object instead of the table.
    #[arg(long)]
    json: bool,

    /// Rounds of each row; a row that needs more takes more.
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,

    /// Only these rows.
    #[arg(long, value_name = "NAME", num_args = 1.., value_delimiter = ',')]
    only: Vec<Name>,

    /// About how long one run takes, in seconds; iperf3 takes whole ones.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=60), value_name = "SECONDS")]
    time: u32,

    /// How long the idle programs are looked at.
    #[arg(long, default_value_t = 12, value_parser = clap::value_parser!(u32).range(1..=3600), value_name = "SECONDS")]
    idle_seconds: u32,

    /// The dp command to measure, with its shim; otherwise the one beside this program.
    #[arg(long, value_name = "PATH")]
    dp: Option<PathBuf>,
}

/// What `--json` prints.
#[derive(Serialize)]
struct Listing {
    version: u32,
    server_core: usize,
    client_core: usize,
    rows: Vec<Row>,
}

fn main() -> ExitCode {
    match bench(&Args::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("programs_bench: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Whether everything was measured.
fn bench(args: &Args) -> Result<bool, Error> {
    let names = match args.only.as_slice() {
        [] => Name::value_variants(),
        some => some,
    };
    require(&names.iter().flat_map(|name| name.tools()).copied().collect::<Vec<_>>())?;
    let cores = match Cores::choose() {
        // Rows for which one is enough can still be had.
        Err(Error::OneCore(_)) => Cores::single()?,
        chosen => chosen?,
    };
    let kit = Kit::new(args.dp.clone(), cores)?;
    let plan = Plan {
        rounds: args.rounds as usize,
        time: Duration::from_secs(args.time.into()),
        idle: Duration::from_secs(args.idle_seconds.into()),
    };
    let progress = Progress::new();
    let mut rows = Vec::new();
    for name in names {
        rows.extend(name.measure(&kit, &plan, &progress)?);
    }
    drop(progress);
    let complete = rows.iter().all(|row| row.met.is_some());
    let listing = Listing { version: 1, server_core: cores.server, client_core: cores.client, rows };
    match args.json {
        true => println!("{}", serde_json::to_string_pretty(&listing).expect("a listing is plain data")),
        false => print(&listing, &plan),
    }
    Ok(complete)
}

fn print(listing: &Listing, plan: &Plan) {
    let (server, client) = (listing.server_core, listing.client_core);
    println!(
        "server on core {server}, client on core {client}; medians of {} interleaved rounds of about {} s \
         and how far the farthest was off; CPU seconds of one round\n",
        plan.rounds,
        plan.time.as_secs()
    );
    let cells: Vec<_> = listing.rows.iter().map(Row::cells).collect();
    print!("{}", report::table(&Row::TITLES, &cells, report::colours()));
    for row in listing.rows.iter().filter(|row| !row.notes.is_empty()) {
        println!("\n{}:", row.what);
        row.notes.iter().for_each(|note| println!("  {note}"));
    }
}
