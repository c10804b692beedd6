//! `make demo`: unmodified redis-server and redis-benchmark over TCP, over AF_UNIX and over DP, side by side.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use compat_tests::measure::cores::Cores;
use compat_tests::measure::kit::{require, Kit, Setup};
use compat_tests::measure::redis::{self, Load, Run, Session, Shared};
use compat_tests::measure::report::{self, Cell, Style, Title};
use compat_tests::measure::scratch::pause;
use compat_tests::measure::turns::{Progress, Turns};
use compat_tests::measure::Error;
use dp_measure::stats::{median, Spread};

/// Unmodified redis-server and redis-benchmark over TCP, AF_UNIX and DP, side by side.
#[derive(Parser)]
#[command(name = "demo")]
struct Args {
    /// Rounds; each runs all setups, every other one in the opposite order.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,

    /// About how long one run takes, in seconds.
    #[arg(long, default_value_t = 0.8, value_parser = seconds, value_name = "SECONDS")]
    time: f64,

    /// The dp command to show, with its shim; otherwise the one beside this program.
    #[arg(long, value_name = "PATH")]
    dp: Option<PathBuf>,
}

const SETUPS: [Setup; 3] = [Setup::Tcp, Setup::Unix, Setup::Dp];
const FIFTY: Load = Load { clients: 50, keep: true };
const ONE: Load = Load { clients: 1, keep: true };
/// How often it is looked how many connections are open.
const LOOKS: u32 = 8;
/// For the run during which the product is asked: what it does beyond is up to the machine.
const PATIENCE: Duration = Duration::from_secs(30);

fn main() -> ExitCode {
    match demo(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("demo: {error}");
            ExitCode::FAILURE
        }
    }
}

/// All that is to be told, gathered before anything is printed.
struct Told {
    loads: Vec<(Load, Turns<Run>)>,
    /// Open connections that were channels, and all open ones, in the middle of a run.
    open: (usize, usize),
    shared: Shared,
}

fn demo(args: &Args) -> Result<(), Error> {
    require(&[redis::SERVER, redis::BENCHMARK])?;
    let kit = Kit::new(args.dp.clone(), Cores::choose()?)?;
    let told = measure(&kit, args)?;
    print(&kit, args, &told);
    match told.shared.part() > 0.0 {
        true => Ok(()),
        false => {
            Err(Error::DpRun("not a byte went through DP; REASONS in dp-preload(7) explains why".to_string()))
        }
    }
}

fn measure(kit: &Kit, args: &Args) -> Result<Told, Error> {
    let progress = Progress::new();
    let time = Duration::from_secs_f64(args.time);
    progress.show("starting redis-server, with and without DP");
    let mut session = Session::start(kit, &SETUPS, kit.cores, time)?;
    let mut loads = Vec::new();
    for load in [FIFTY, ONE] {
        session.warm_up(&SETUPS, load)?;
        let turns = Turns::take(&SETUPS, args.rounds as usize, |setup, round| {
            let (number, name) = (round + 1, setup.name());
            progress.show(&format!("{}: round {number} of {}, {name}", clients(load), args.rounds));
            session.run(setup, load)
        })?;
        loads.push((load, turns));
    }
    progress.show("asking dp ls what became of the bytes");
    // The last run is for the product's counters, not for the table: looking at them takes time from the cores.
    let benchmark = session.begin(Setup::Dp, FIFTY)?;
    // When it has its connections, and for how long, differs from run to run: that at which most were channels counts.
    let mut open = (0, 0);
    for _ in 0..LOOKS {
        pause(time / LOOKS)?;
        open = session.server(Setup::Dp)?.family(kit)?.map_or(open, |family| open.max(family.open()));
    }
    benchmark.finish(time + PATIENCE)?;
    let no_shim = || Error::DpRun("dp ls does not list the redis-server that it started".to_string());
    let shared = session.shared(Setup::Dp)?.ok_or_else(no_shim)?;
    Ok(Told { loads, open, shared })
}

fn print(kit: &Kit, args: &Args, told: &Told) {
    println!(
        "redis-benchmark GET without pipelining; redis-server on core {}, redis-benchmark on core {};\n\
         medians of {} interleaved rounds of about {} s, and how far the farthest round was from them;\n\
         times as redis-benchmark tells them, which counts in steps of 8 us: 0.007 is anything below 8 us\n",
        kit.cores.server, kit.cores.client, args.rounds, args.time
    );
    let titles = [
        Title::Left(""),
        Title::Left(""),
        Title::Right("requests/s"),
        Title::Left(""),
        Title::Right("p50 ms"),
        Title::Right("p99 ms"),
        Title::Right("to TCP"),
        Title::Left("CPU s server + client"),
        Title::Right("CPU us a request"),
    ];
    let mut rows = Vec::new();
    for (load, turns) in &told.loads {
        rows.extend(turns.setups().iter().map(|setup| cells(*load, turns, *setup)));
        rows.push(Vec::new());
    }
    print!("{}", report::table(&titles, &rows, report::colours()));
    print_counters(told);
}

fn cells(load: Load, turns: &Turns<Run>, setup: Setup) -> Vec<Cell> {
    let of = |number: fn(&Run) -> f64| turns.each(setup, number);
    let rate = Spread::of(&of(|run| run.rate)).unwrap_or(Spread { median: 0.0, low: 0.0, high: 0.0 });
    let latency = |number| format!("{:.3}", median(&of(number)));
    let ratio = turns.ratio(setup, Setup::Tcp, |run| run.rate).map_or(0.0, |ratio| ratio.median);
    let cpu = |number| format!("{:.2}", median(&of(number)));
    let style = if setup == Setup::Dp { Some(Style::Strong) } else { None };
    let strong = |text: String| style.map_or(Cell::from(text.clone()), |style| Cell::styled(text, style));
    let first = if setup == turns.setups()[0] { clients(load) } else { String::new() };
    let [server, client] = [cpu(|run| run.server.cpu.as_secs_f64()), cpu(|run| run.client.cpu.as_secs_f64())];
    vec![
        first.into(),
        strong(setup.name().to_string()),
        strong(report::number(rate.median)),
        report::deviation(&rate).into(),
        latency(|run| run.p50_ms).into(),
        latency(|run| run.p99_ms).into(),
        strong(format!("{ratio:.2}x")),
        format!("{server} + {client}").into(),
        cpu(|run| 1e6 * run.cpu_of_a_request()).into(),
    ]
}

/// The product's word beside redis's own.
fn print_counters(told: &Told) {
    let Shared { family, traffic } = &told.shared;
    let (open_channels, open) = told.open;
    let bytes = |dp: u64, all: u64| {
        let part = report::percent(dp as f64 / all.max(1) as f64);
        format!("{} bytes through DP of {} that redis counted: {part}", report::count(dp), report::count(all))
    };
    println!("The redis-server of the DP rows, by `dp ls --json`:");
    println!("  channels made      {}", report::count(family.channels));
    println!("  at one moment      {open_channels} of {open} open connections were channels");
    println!("  received           {}", bytes(family.rx_bytes, traffic.received));
    println!("  sent               {}", bytes(family.tx_bytes, traffic.sent));
    println!("  doorbells          {}", report::count(family.doorbells));
    println!("  left on TCP        {}", family.left_on_tcp());
    println!(
        "Connections begin as TCP, and so do their first bytes; the reasons are those of dp-preload(7)."
    );
}

fn clients(load: Load) -> String {
    match load.clients {
        1 => "1 client".to_string(),
        many => format!("{many} clients"),
    }
}

fn seconds(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| "a number of seconds is needed".to_string())?;
    match (0.1..=60.0).contains(&seconds) {
        true => Ok(seconds),
        false => Err("0.1 to 60 seconds are possible".to_string()),
    }
}
