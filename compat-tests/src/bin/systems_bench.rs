//! `make bench`: every system that carries messages between two processes of this machine, beside DP, in one report.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Parser, ValueEnum};
use compat_tests::measure::cores::Cores;
use compat_tests::measure::kit::{require, Kit};
use compat_tests::measure::report::{self, Style, Title};
use compat_tests::measure::targets;
use compat_tests::measure::turns::Progress;
use compat_tests::measure::Error;
use compat_tests::systems::goals::{self, Goal};
use compat_tests::systems::machine::Machine;
use compat_tests::systems::numbers::{self, Numbers};
use compat_tests::systems::page::{bytes, time, Report, View};
use compat_tests::systems::plot::{self, Axis, Curve};
use compat_tests::systems::survey::{Metric, Missing, Plan, Survey};
use compat_tests::systems::{iceoryx, kernel as guest, Bench, System, What, SYSTEMS};

const AFTER_HELP: &str = "\
The report is a page of Markdown with plots, report.md, and the same as JSON, report.json, both in the folder of --out; \
on standard output is what was promised and what came of it. A system that is not installed or fails is told in the \
report and at the end; the exit status is 0 all the same, and so it is when a promise is missed. It is 1 when nothing \
could be measured, and 2 for options that cannot be used.\n\n\
JSON: version (1), command, machine {date, processor, processors, virtual_machine, kernel, load[2], busy[2]}, cores[2], \
rounds, seconds, took_s, states[] {low, high, turns} distances of the cores in ns, goals[] {what, value {median, low, high, percent}, unit, limit, at_most, met, elsewhere, met_elsewhere, beside}, systems[] \
{state, system, family, what, size, turns, and as far as they are known p50_ns, p99_ns, p999_ns, unawaited_p50_ns, messages_per_s, cpu_s_per_gib, \
each {median, low, high}}, numbers {crowds[] {system, endpoints, p50_ns, p99_ns, resident_bytes_each, kernel_bytes_each, \
processes}, idle as dp-bench(1) describes it, or null}, kernel[] lines of the guest, programs[] as of programs_bench, \
missing[] {what, why}. Fields can be added; none changes its \
meaning while version stays.";

/// Systems that carry messages between two processes of one machine, measured in turns.
#[derive(Parser)]
#[command(name = "systems_bench", after_help = AFTER_HELP)]
struct Args {
    /// Print the report as JSON.
    #[arg(long)]
    json: bool,

    /// Fewer rounds, lengths and programs: minutes, and wider intervals.
    #[arg(long)]
    quick: bool,

    /// Only these systems; the floor is always measured. Unmodified programs are left out then.
    #[arg(long, value_name = "NAME", num_args = 1.., value_parser = system)]
    only: Vec<System>,

    /// Turns of each system at each length [default: 6; with --quick 3].
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: Option<u32>,

    /// How long one turn takes, 0.01 to 60, without starting and ending [default: 0.15; with --quick 0.1].
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    seconds: Option<f64>,

    /// Lengths of messages, bytes, 1 to 16777216 [default: 1,8,64,512,4096,65536,1048576,16777216].
    #[arg(long, value_name = "BYTES", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=16 << 20))]
    sizes: Vec<u32>,

    /// Leave out what the number of endpoints and connections costs.
    #[arg(long)]
    no_numbers: bool,

    /// Leave unmodified programs out.
    #[arg(long)]
    no_programs: bool,

    /// Boot the kernel driver's guest for its figures even if that takes downloading it, some GB; without this option it is
    /// booted where it has been before, and not with --quick or --only.
    #[arg(long, conflicts_with = "no_kernel")]
    kernel: bool,

    /// Leave the kernel driver out.
    #[arg(long)]
    no_kernel: bool,

    /// What boots the guest: .ci/kernel.
    #[arg(long, hide = true)]
    kernel_script: Option<PathBuf>,

    /// Folder of the report [default: bench beside the folder of this program].
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,

    /// The dp command to measure; otherwise the one beside this program.
    #[arg(long, value_name = "PATH")]
    dp: Option<PathBuf>,
}

fn system(text: &str) -> Result<System, String> {
    let keys = || SYSTEMS.map(|system| system.key).join(", ");
    System::named(text).ok_or_else(|| format!("not a system known here; these are: {}", keys()))
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if (0.01..=60.0).contains(&seconds) => Ok(seconds),
        _ => Err("a number from 0.01 to 60".into()),
    }
}

impl Args {
    fn plan(&self) -> Plan {
        let systems = match self.only.as_slice() {
            [] => SYSTEMS.to_vec(),
            some => SYSTEMS.into_iter().filter(|s| s.key == "floor" || some.contains(s)).collect(),
        };
        let mut sizes: Vec<usize> = match (self.sizes.as_slice(), self.quick) {
            ([], false) => vec![1, 8, 64, 512, 4096, 65_536, 1 << 20, 16 << 20],
            ([], true) => vec![8, 4096, 65_536, 1 << 20],
            (some, _) => some.iter().map(|size| *size as usize).collect(),
        };
        sizes.sort_unstable();
        sizes.dedup();
        let usual = if self.quick { (3, 0.1) } else { (6, 0.15) };
        Plan {
            systems,
            sizes,
            rounds: self.rounds.unwrap_or(usual.0) as usize,
            time: Duration::from_secs_f64(self.seconds.unwrap_or(usual.1)),
        }
    }

    fn numbers(&self) -> numbers::Plan {
        let (counts, rounds, time, idle) = match self.quick {
            false => (vec![1, 10, 100, 1000, 5000, 10_000], 3, 0.5, 3.0),
            true => (vec![1, 100, 1000], 1, 0.2, 1.0),
        };
        let [time, idle] = [time, idle].map(Duration::from_secs_f64);
        numbers::Plan { counts, rounds, time, idle }
    }

    fn folder(&self) -> Result<PathBuf, Error> {
        let beside = || Some(env::current_exe().ok()?.parent()?.parent()?.join("bench"));
        let folder = self.out.clone().or_else(beside).unwrap_or_else(|| PathBuf::from("bench"));
        fs::create_dir_all(&folder).map_err(Error::system(folder.display()))?;
        Ok(folder)
    }
}

fn main() -> ExitCode {
    match bench(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("systems_bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn bench(args: &Args) -> Result<(), Error> {
    let plan = args.plan();
    let folder = args.folder()?;
    let mut machine = Machine::new();
    let start = Instant::now();
    let cores = Cores::choose()?;
    let mut bench = Bench::new(Kit::new(args.dp.clone(), cores)?);
    let progress = Progress::new();
    let turns = plan.turns();
    let survey = Survey::take(&mut bench, &plan, |done, what| {
        progress.show(&bar(done, turns, start.elapsed(), what));
    })?;
    let states = survey.states();
    let mut of_states = states.iter().map(|state| survey.within(state));
    let (main, other) = (of_states.next().unwrap_or_default(), of_states.next());
    let mut missing = survey.missing().to_vec();
    let numbers = match args.no_numbers {
        true => Numbers::default(),
        false => {
            let show = |what: &str| progress.show(what);
            numbers::measure(&bench.kit, &plan.systems, &args.numbers(), &mut missing, show)?
        }
    };
    let programs = match args.no_programs || !args.only.is_empty() {
        true => Vec::new(),
        false => programs(&bench.kit, args.quick, &progress, &mut missing)?,
    };
    let kernel = kernel(args, &bench.kit, &progress, &mut missing)?;
    drop(progress);
    iceoryx::clean();
    machine.finish();
    let report = Report {
        version: 1,
        command: command(),
        machine,
        cores: [cores.client, cores.server],
        rounds: plan.rounds,
        seconds: plan.time.as_secs_f64(),
        took_s: start.elapsed().as_secs_f64().round(),
        goals: promises(args, [&main, other.as_ref().unwrap_or(&Survey::default())], &numbers),
        states: states.clone(),
        systems: survey.rows(),
        numbers,
        kernel,
        programs,
        missing,
    };
    if report.systems.is_empty() {
        let why = report.missing.first().map(|m| m.why.clone()).unwrap_or_default();
        return Err(Error::words("every system", &why));
    }
    let json = serde_json::to_string_pretty(&report).expect("a report is plain data");
    let mut plots = plots(&main, &plan, &folder)?;
    plots.extend(numbers_plot(&report.numbers, &folder)?);
    let view = View { survey: &main, elsewhere: other.as_ref(), sizes: &plan.sizes, plots: &plots };
    let page = report.markdown(&view);
    write(&folder.join("report.md"), &page)?;
    write(&folder.join("report.json"), &json)?;
    match args.json {
        true => println!("{json}"),
        false => print(&report, &folder),
    }
    Ok(())
}

/// All of them, or those about what was asked for.
fn promises(args: &Args, [main, other]: [&Survey; 2], numbers: &Numbers) -> Vec<Goal> {
    let other = goals::of(other);
    let of_turns = goals::of(main).into_iter().map(|goal| goal.with_elsewhere(&other));
    let all = of_turns.chain(numbers::goals(numbers));
    all.filter(|goal| args.only.is_empty() || goal.met.is_some()).collect()
}

/// `make bench`, where that is how it came here.
fn command() -> String {
    let mut given: Vec<String> = env::args().skip(1).collect();
    if given.first().is_some_and(|first| first == "--kernel-script") {
        given.drain(..2);
    }
    match given.is_empty() {
        true => "make bench".into(),
        false => format!("make bench ARGS='{}'", given.join(" ")),
    }
}

fn bar(done: usize, all: usize, elapsed: Duration, what: &str) -> String {
    let part = done as f64 / all.max(1) as f64;
    let full = (part * 30.0) as usize;
    let left = match done {
        0 => String::new(),
        _ => format!(", {:.0} min left", elapsed.as_secs_f64() / 60.0 * (1.0 - part) / part),
    };
    format!("[{:<30}] {:>3.0} %{left}  {what}", "=".repeat(full), 100.0 * part)
}

/// The rows of `programs_bench` that are of programs.
fn programs(
    kit: &Kit,
    quick: bool,
    progress: &Progress,
    missing: &mut Vec<Missing>,
) -> Result<Vec<report::Row>, Error> {
    use targets::Name;
    let names: Vec<Name> = match quick {
        true => vec![Name::Redis50, Name::Redis1, Name::Iperf3],
        false => Name::value_variants().iter().copied().filter(|name| name.of_programs()).collect(),
    };
    let plan = targets::Plan {
        rounds: if quick { 2 } else { 6 },
        time: Duration::from_secs(1),
        idle: Duration::from_secs(12),
    };
    let mut rows = Vec::new();
    for name in names {
        match require(name.tools()) {
            Ok(()) => rows.extend(name.measure(kit, &plan, progress)?),
            Err(why) => missing.push(Missing { what: format!("{name:?}"), why: why.to_string() }),
        }
    }
    Ok(rows)
}

/// The kernel driver's figures, where its guest can be had without surprises.
fn kernel(
    args: &Args,
    kit: &Kit,
    progress: &Progress,
    missing: &mut Vec<Missing>,
) -> Result<Vec<String>, Error> {
    let what = || "the kernel driver".to_string();
    let Some(script) = &args.kernel_script else { return Ok(Vec::new()) };
    if args.no_kernel || !args.kernel && (args.quick || !args.only.is_empty()) {
        return Ok(Vec::new());
    }
    if !args.kernel && !guest::prepared(script) {
        let why = "its guest has not been made yet, which takes downloading some GB: --kernel, or make check-kernel";
        missing.push(Missing { what: what(), why: why.into() });
        return Ok(Vec::new());
    }
    progress.show("the kernel driver, in its guest");
    match guest::figures(kit, script) {
        Err(Error::Interrupted) => Err(Error::Interrupted),
        Err(why) => {
            missing.push(Missing { what: what(), why: why.to_string() });
            Ok(Vec::new())
        }
        figures => figures,
    }
}

/// Draws latency over the number of endpoints and connections.
fn numbers_plot(numbers: &Numbers, folder: &Path) -> Result<Option<(String, String)>, Error> {
    let (file, title) = ("numbers.svg", "8 bytes one way of one that is used, p50");
    let curve = |system: &System| {
        let of = numbers.crowds.iter().filter(|row| row.system == system.key);
        let points = of.map(|row| (row.endpoints as f64, row.p50_ns.median)).collect();
        Curve { name: system.name.to_string(), family: system.family, points }
    };
    let curves: Vec<Curve> = SYSTEMS.iter().map(curve).filter(|curve| curve.points.len() > 1).collect();
    if curves.is_empty() {
        return Ok(None);
    }
    let x = Axis { title: "endpoints or connections", label: |count| format!("{count:.0}"), base: 10.0 };
    let y = Axis { title: "half a round trip", label: |ns| plain(&time(ns)), base: 10.0 };
    write(&folder.join(file), &plot::draw(title, &x, &y, &curves)?)?;
    Ok(Some((file.to_string(), title.to_string())))
}

/// Draws latency and bandwidth over lengths; the files' names and titles.
fn plots(survey: &Survey, plan: &Plan, folder: &Path) -> Result<Vec<(String, String)>, Error> {
    let length = Axis { title: "bytes of a message", label: |size| bytes(size.round() as usize), base: 2.0 };
    let pictures = [
        (
            "latency.svg",
            "One way, p50",
            What::Latency,
            Metric::Middle,
            Axis { title: "half a round trip", label: |ns| plain(&time(ns)), base: 10.0 },
        ),
        (
            "bandwidth.svg",
            "Bandwidth, one sender, one receiver",
            What::Flood,
            Metric::Rate,
            Axis { title: "GB/s", label: |rate| plain(&report::number(rate)), base: 10.0 },
        ),
    ];
    let mut drawn = Vec::new();
    for (file, title, what, metric, axis) in pictures {
        let point = |system: &System, size: usize| {
            let middle = survey.spread(what, size, system.key, metric)?.median;
            let value = if metric == Metric::Rate { middle * size as f64 / 1e9 } else { middle };
            Some((size as f64, value))
        };
        let curve = |system: &System| {
            let points: Vec<_> = plan.sizes.iter().filter_map(|size| point(system, *size)).collect();
            Curve { name: system.name.to_string(), family: system.family, points }
        };
        // One point is no curve.
        let curves: Vec<Curve> = plan.systems.iter().map(curve).filter(|c| c.points.len() > 1).collect();
        if curves.is_empty() {
            continue;
        }
        write(&folder.join(file), &plot::draw(title, &length, &axis, &curves)?)?;
        drawn.push((file.to_string(), title.to_string()));
    }
    Ok(drawn)
}

/// `100 ns` for `100.0 ns`.
fn plain(label: &str) -> String {
    let (number, unit) = label.split_once(' ').unwrap_or((label, ""));
    let number =
        if number.contains('.') { number.trim_end_matches('0').trim_end_matches('.') } else { number };
    format!("{number} {unit}").trim_end().to_string()
}

fn write(path: &Path, text: &str) -> Result<(), Error> {
    fs::write(path, text).map_err(Error::system(path.display()))
}

fn print(report: &Report, folder: &Path) {
    let verdict = |goal: &Goal| match goal.met {
        Some(true) => report::Cell::styled(goal.verdict(), Style::Good),
        Some(false) => report::Cell::styled(goal.verdict(), Style::Bad),
        None => goal.verdict().into(),
    };
    let rows: Vec<Vec<report::Cell>> = report
        .goals
        .iter()
        .map(|goal| {
            vec![goal.what.as_str().into(), goal.value_text().into(), goal.limit_text().into(), verdict(goal)]
        })
        .collect();
    let titles = [Title::Left("WHAT"), Title::Right("MEASURED"), Title::Left("TARGET"), Title::Left("")];
    print!("{}", report::table(&titles, &rows, report::colours()));
    if !report.missing.is_empty() {
        println!("\nnot measured:");
        report.missing.iter().for_each(|missing| println!("  {}: {}", missing.what, missing.why));
    }
    println!("\nthe report: {}", folder.join("report.md").display());
}
