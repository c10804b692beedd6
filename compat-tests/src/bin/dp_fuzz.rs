//! Random programs for two processes, natively and under the shim: what differs is made short and printed.

use std::collections::HashMap;
use std::env;
use std::fs;
use std::io::{stderr, IsTerminal};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use clap::Parser;
use compat_tests::fuzz::generate::generate;
use compat_tests::fuzz::interpreter::interpreter;
use compat_tests::fuzz::script::{Line, Who};
use compat_tests::fuzz::shrink::shrink;
use compat_tests::fuzz::{Difference, Script, Shimmed, Tools, Verdict};
use compat_tests::programs::target_dir;

/// Runs random programs natively and under the shim, and compares.
#[derive(Parser)]
struct Options {
    /// For how long
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// The first script's number; from the clock otherwise
    #[arg(long)]
    seed: Option<u64>,
    /// No more scripts than that
    #[arg(long)]
    count: Option<u64>,
    /// Only this shape of script (ends, pump, edges, wild; passed: SCM_RIGHTS; endless: waits without a time limit; crowd: several
    /// that send or receive at once; forked-beside; stopped: SIGSTOP; left-sends: cancelled, longjmp; ...)
    #[arg(long)]
    shape: Option<String>,
    /// Settings of the shim in all scripts, as DP_SPIN=0; DP_CHAOS= alone: by each script's own number
    #[arg(long, num_args = 1.., value_name = "NAME=VALUE")]
    with: Vec<String>,
    /// Each script also with the shim on one side alone, not each third one only: half as many runs again
    #[arg(long)]
    all_sides: bool,
    /// Stop after so many differences
    #[arg(long, default_value_t = 5)]
    most: usize,
    /// Run these scripts instead of random ones
    #[arg(long, num_args = 1.., value_name = "FILE")]
    replay: Vec<PathBuf>,
    /// How often each of them, until one run differs: races are not lost every time
    #[arg(long, default_value_t = 3)]
    times: usize,
    /// The shim; `<target>/release/libdp_preload.so` otherwise
    #[arg(long)]
    shim: Option<PathBuf>,
    /// Where scripts that differ are put
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// Scripts at the same time
    #[arg(long, default_value_t = 2)]
    jobs: usize,
    /// Seconds for making one script short
    #[arg(long, default_value_t = 20)]
    shrink: u64,
    /// Only print the scripts
    #[arg(long)]
    print: bool,
}

#[derive(Default)]
struct Tally {
    scripts: AtomicU64,
    runs: AtomicU64,
    unsteady: AtomicU64,
    known: Mutex<HashMap<&'static str, u64>>,
    found: Mutex<Vec<String>>,
}

fn main() -> ExitCode {
    let options = Options::parse();
    let shim = options
        .shim
        .clone()
        .or_else(|| env::var_os("DP_SHIM").map(PathBuf::from))
        .unwrap_or_else(|| target_dir().join("release/libdp_preload.so"));
    let Ok(shim) = shim.canonicalize() else {
        eprintln!(
            "dp_fuzz: no shim at {}: run `cargo build --release` first, or name it with --shim",
            shim.display()
        );
        return ExitCode::from(2);
    };
    let tools = Tools { interpreter: interpreter(), shim };
    if !options.replay.is_empty() {
        return replay(&options, &tools);
    }
    fuzz(&options, &tools)
}

fn replay(options: &Options, tools: &Tools) -> ExitCode {
    let mut differ = 0;
    for file in &options.replay {
        let script = match fs::read_to_string(file)
            .map_err(|error| error.to_string())
            .and_then(|text| Script::parse(&text).map_err(|error| error.to_string()))
        {
            Ok(script) => script,
            Err(error) => {
                eprintln!("dp_fuzz: {}: {error}", file.display());
                return ExitCode::from(2);
            }
        };
        let sides = [Shimmed::BOTH, Shimmed::SERVER, Shimmed::CLIENT];
        let sides = sides.iter().cycle().take(sides.len() * options.times.max(1));
        let failed = sides.into_iter().find_map(|&shimmed| match tools.check(&script, shimmed) {
            Verdict::Differs(difference) => Some(difference.to_text(&file.display().to_string())),
            Verdict::Known(reason) => {
                println!("{}: {}: by design: {reason}", file.display(), shimmed.name());
                None
            }
            _ => None,
        });
        match failed {
            Some(text) => {
                println!("{text}");
                differ += 1;
            }
            None => println!("{}: the same", file.display()),
        }
    }
    ExitCode::from(u8::from(differ > 0))
}

fn fuzz(options: &Options, tools: &Tools) -> ExitCode {
    let clock = SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |since| since.as_secs() * 1_000_000);
    let first = options.seed.unwrap_or(clock);
    let count = options.count.unwrap_or(u64::MAX);
    if options.print {
        (0..options.count.unwrap_or(1)).for_each(|at| println!("{}", script(options, first + at)));
        return ExitCode::SUCCESS;
    }
    eprintln!("dp_fuzz: from seed {first}");
    let (tally, start) = (Tally::default(), Instant::now());
    let end = start + Duration::from_secs(options.seconds);
    let next = AtomicU64::new(0);
    let over = || Instant::now() >= end || tally.found.lock().is_ok_and(|found| found.len() >= options.most);
    thread::scope(|scope| {
        for _ in 0..options.jobs.max(1) {
            scope.spawn(|| {
                while !over() {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    if at >= count {
                        break;
                    }
                    try_seed(options, tools, first + at, &tally);
                }
            });
        }
        scope.spawn(|| {
            let mut said = 0;
            while !over() && next.load(Ordering::Relaxed) < count {
                thread::sleep(Duration::from_millis(100));
                let passed = start.elapsed().as_secs();
                if passed > said && (stderr().is_terminal() || passed % 30 == 0) {
                    said = passed;
                    let line_end = if stderr().is_terminal() { "\r" } else { "\n" };
                    eprint!("{} {line_end}", summary(&tally, start));
                }
            }
        });
    });
    eprintln!("{}", summary(&tally, start));
    if let Ok(known) = tally.known.lock() {
        known.iter().for_each(|(reason, count)| eprintln!("by design, {count} times: {reason}"));
    }
    let differ = tally.found.lock().map_or(1, |found| found.len());
    ExitCode::from(u8::from(differ > 0))
}

/// The script of a seed, with the settings that all are to have.
fn script(options: &Options, seed: u64) -> Script {
    let mut script = generate(seed, options.shape.as_deref());
    for setting in &options.with {
        let (name, _) = setting.split_once('=').unwrap_or((setting, ""));
        let value = if setting == "DP_CHAOS=" { (seed % 100_000 + 1).to_string() } else { String::new() };
        script.0.retain(|line| !(line.word(0) == "env" && line.word(1).starts_with(name)));
        script.0.insert(0, Line::new(Who::Nobody, &format!("env {setting}{value}")));
    }
    script
}

fn summary(tally: &Tally, start: Instant) -> String {
    let load = |number: &AtomicU64| number.load(Ordering::Relaxed);
    let passed = start.elapsed().as_secs_f64();
    let runs = load(&tally.runs);
    let differ = tally.found.lock().map_or(0, |found| found.len());
    format!(
        "dp_fuzz: {passed:.0} s, {} scripts, {runs} runs ({:.0}/s), {} unsteady, {differ} differ",
        load(&tally.scripts),
        runs as f64 / passed.max(0.001),
        load(&tally.unsteady)
    )
}

fn try_seed(options: &Options, tools: &Tools, seed: u64, tally: &Tally) {
    let script = script(options, seed);
    let native = tools.run(&script, Shimmed::NONE);
    tally.scripts.fetch_add(1, Ordering::Relaxed);
    tally.runs.fetch_add(1, Ordering::Relaxed);
    let mut sides = vec![Shimmed::BOTH];
    if options.all_sides || seed % 3 == 0 {
        sides.extend([Shimmed::SERVER, Shimmed::CLIENT]);
    }
    for shimmed in sides {
        tally.runs.fetch_add(1, Ordering::Relaxed);
        match tools.check_against(&script, shimmed, native.clone()) {
            Verdict::Same => {}
            Verdict::Unsteady => drop(tally.unsteady.fetch_add(1, Ordering::Relaxed)),
            Verdict::Known(reason) => {
                if let Ok(mut known) = tally.known.lock() {
                    *known.entry(reason).or_default() += 1;
                }
            }
            Verdict::Differs(difference) => {
                let short = shrink(tools, *difference, Duration::from_secs(options.shrink));
                tell(options, seed, &short, tally);
                break;
            }
        }
    }
}

fn tell(options: &Options, seed: u64, short: &Difference, tally: &Tally) {
    let Ok(mut found) = tally.found.lock() else { return };
    // The same script is found again and again.
    let body = short.script.to_string();
    if found.contains(&body) {
        return;
    }
    let text = short.to_text(&format!("seed {seed}"));
    println!("{text}");
    found.push(body);
    if let Some(folder) = &options.keep {
        let file = folder.join(format!("{seed}.script"));
        if let Err(error) = fs::create_dir_all(folder).and_then(|()| fs::write(&file, text)) {
            eprintln!("dp_fuzz: {}: {error}", file.display());
        }
    }
}
