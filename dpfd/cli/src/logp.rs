//! `dp logp`: where the time of a message goes, by the method of Culler, Liu, Martin and Yoshikawa (`dp_measure::logp`).
//!
//! | file | holds |
//! |---|---|
//! | [`pair`] | a way of sending as a system that can be measured |
//! | [`peer`] | the other processes, and what they are told |
//! | [`many`] | several senders, one receiver |
//! | [`plot`] | the pictures |

#[cfg(feature = "plot")]
mod canvas;
mod many;
pub mod pair;
mod peer;
#[cfg(feature = "plot")]
pub mod plot;

use std::fs::OpenOptions;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use dp_measure::logp::fit::fit;
use dp_measure::logp::probe::{Plan, Survey};
use dp_measure::logp::report::{self, Report};

use crate::bench::channel;
use crate::bench::cores::{self, Cores};
use crate::bench::endpoints::Folder;
use crate::bench::link::{ring_for, Transport};
use crate::bench::nodes::Nodes;
use crate::bench::peer::End;
use crate::bench::{progress, Result};
use crate::helper::Helper;
use many::Crowd;
use pair::{Pair, Requester};
use peer::Job;

/// Tell what a message costs its sender, its receiver and neither of them (LogP), on several ways of sending.
#[derive(clap::Args)]
pub struct Args {
    /// Ways of sending, measured side by side [default: endpoint,channel,unix-stream,tcp,pipe; without a shim no channel].
    #[arg(long, value_name = "WAY", value_delimiter = ',', value_parser = transport)]
    ways: Vec<Transport>,
    /// Lengths of messages; the smallest has the signature [default: 8,64,512,4096,32768,262144,1048576].
    #[arg(long, alias = "size", value_name = "BYTES", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=MAX_SIZE))]
    sizes: Vec<u32>,
    /// Cores of the requesting and of the replying process [default: the first two].
    #[arg(long, value_name = "A,B", value_parser = cores::cores)]
    cores: Option<Cores>,
    /// Small requests that may be unanswered.
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u32).range(4..=64))]
    window: u32,
    /// Numbers of senders that send to one receiver [default: 1,2,4].
    #[arg(long, value_name = "K", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=16))]
    senders: Vec<u32>,
    /// Time for all of it; points whose interval is wide are repeated until then [default: 60; with --quick 6].
    #[arg(long, value_name = "N", value_parser = seconds)]
    seconds: Option<f64>,
    /// Fewer bursts, computations, sizes and senders, and a tenth of the time.
    #[arg(long)]
    quick: bool,
    /// Draw signatures, bandwidth, and one-way times into a file that ends in .svg or .png.
    #[arg(long, value_name = "FILE", value_parser = picture)]
    plot: Option<PathBuf>,
    /// Network namespace of the replying process's node, for ethernet: as `ip netns` lists it, or a file.
    #[arg(long, value_name = "NAME")]
    netns: Option<PathBuf>,
    /// Print JSON, as dp-logp(1) describes it.
    #[arg(long)]
    json: bool,
    /// Another process, started by the first; its standard input is the way to it.
    #[arg(long, hide = true)]
    peer: bool,
}

const USUAL: [Transport; 5] =
    [Transport::Endpoint, Transport::Channel, Transport::UnixStream, Transport::Tcp, Transport::Pipe];
/// What can be measured: ways whose replies cannot stop requests.
const WAYS: [Transport; 10] = [
    Transport::Endpoint,
    Transport::Plain,
    Transport::Channel,
    Transport::Kernel,
    Transport::KernelPlain,
    Transport::Ethernet,
    Transport::UnixSeqpacket,
    Transport::UnixStream,
    Transport::Tcp,
    Transport::Pipe,
];
/// An endpoint takes more; measuring it would measure memory.
const MAX_SIZE: i64 = 16 << 20;
/// The longest small message: a window of replies fits into every pipe, or requester and replier would wait for each
/// other.
const MAX_SMALL: u32 = 512;
/// Of the time, for several senders.
const CROWD: f64 = 0.2;
/// Of the rest, for the first pass: what it leaves goes to the points that turn out wide.
const FIRST_PASS: f64 = 0.6;
/// Seconds; later batches are shorter than 50 bursts rather than longer than this, so that there are more of them.
const LONG_BATCH: f64 = 0.03;
/// Seconds of each way before it is the next one's turn.
const TURN: f64 = 0.3;

fn transport(text: &str) -> std::result::Result<Transport, String> {
    WAYS.into_iter()
        .find(|transport| transport.name() == text)
        .ok_or_else(|| format!("not a way of sending; these are: {}", WAYS.map(Transport::name).join(", ")))
}

pub fn seconds(text: &str) -> std::result::Result<f64, String> {
    match text.parse() {
        Ok(n) if (1.0..=3600.0).contains(&n) => Ok(n),
        _ => Err("a number of seconds from 1 to 3600, decimals allowed".into()),
    }
}

pub fn picture(text: &str) -> std::result::Result<PathBuf, String> {
    if cfg!(not(feature = "plot")) {
        return Err("this dp was built without the feature plot; --json has the same numbers".into());
    }
    let path = PathBuf::from(text);
    match path.extension().and_then(|e| e.to_str()) {
        Some("svg" | "png") => Ok(path),
        _ => Err("a file name that ends in .svg or .png".into()),
    }
}

pub fn main(mut args: Args) -> ExitCode {
    if args.peer {
        return peer::serve();
    }
    if args.ways.is_empty() {
        args.ways = channel::where_possible(&USUAL);
    }
    let cores = crate::asked(two_cores(&args));
    let plan = crate::asked(plan(&args));
    let nodes = crate::asked(Nodes::of(args.netns.as_ref(), &args.ways));
    crate::asked(channel::with_shim(&args.ways));
    let _folder = Folder::new();
    match run(&args, plan, cores, nodes) {
        Ok(text) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            progress("");
            eprintln!("dp logp: {error}");
            ExitCode::FAILURE
        }
    }
}

fn two_cores(args: &Args) -> std::result::Result<Cores, String> {
    let cores = args.cores.map_or_else(Cores::first, Ok)?;
    if cores.shared() {
        return Err(format!(
            "requests and replies would take turns on core {}, and LogP tells apart what two processors do at the same \
             time: o_s, L and o_r would be sums of both and of switching between them. Give two cores with --cores; \
             'dp bench' measures two processes on one",
            cores.a
        ));
    }
    Ok(cores)
}

fn plan(args: &Args) -> std::result::Result<Plan, String> {
    let mut sizes: Vec<usize> = match (&args.sizes[..], args.quick) {
        ([], false) => vec![8, 64, 512, 4096, 32_768, 262_144, 1_048_576],
        ([], true) => vec![8, 512, 8192, 65_536],
        (given, _) => given.iter().map(|&size| size as usize).collect(),
    };
    sizes.sort_unstable();
    sizes.dedup();
    if sizes[0] > MAX_SMALL as usize {
        return Err(format!(
            "the smallest of the sizes, {}, has the signature, and must not be above {MAX_SMALL} bytes: add a smaller one",
            sizes[0]
        ));
    }
    Ok(if args.quick {
        let bursts = vec![1, 2, 4, 8, 16, 32, 64, 128, 256];
        Plan { sizes, window: args.window, bursts, delays: vec![0.0, 1.0, 2.0] }
    } else {
        let bursts = vec![1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 160, 192, 256];
        Plan { sizes, window: args.window, bursts, delays: vec![0.0, 0.5, 1.0, 2.0, 4.0] }
    })
}

/// One way and what is known of it so far.
struct Series {
    transport: Transport,
    index: usize,
    end: End,
    survey: Survey,
}

impl Series {
    fn pair<'a>(&'a mut self, helper: &'a Helper) -> (Pair<'a>, &'a mut Survey) {
        let pair = Pair { end: &mut self.end, index: self.index, helper, ends: Requester::new() };
        (pair, &mut self.survey)
    }
}

fn run(args: &Args, plan: Plan, cores: Cores, nodes: Option<Nodes>) -> Result<String> {
    if let Some(path) = &args.plot {
        writable(path)?;
    }
    let (start, origin) = (Instant::now(), crate::origin::here());
    let time = args.seconds.unwrap_or(if args.quick { 6.0 } else { 60.0 });
    let others: Vec<usize> = cores::may_use()?.into_iter().filter(|&core| core != cores.b).collect();
    let helper = peer::start(cores.b)?;
    cores::stay(cores.a)?;
    let mut series = open(&args.ways, &plan, &helper, nodes.as_ref())?;
    helper.explained(survey(&mut series, &helper, start, time * (1.0 - CROWD)))?;
    for one in &series {
        one.end.check().map_err(|e| format!("{}: {e}", one.transport.name()))?;
    }
    drop(helper);
    let contended = contend(args, &series, cores, &others, nodes, time)?;

    let mut report =
        Report::new(origin, [cores.a, cores.b], others.len() as u32 + 1, plan.sizes[0], plan.window);
    for (one, contended) in series.iter().zip(contended) {
        let name = one.transport.name();
        let found =
            fit(&one.survey).ok_or_else(|| format!("{name}: no parameters can be read off its points"))?;
        report.ways.push(report::Findings::new(name, &one.survey, &found, contended));
    }
    report.seconds = (start.elapsed().as_secs_f64() * 10.0).round() / 10.0;
    progress("");
    #[cfg(feature = "plot")]
    if let Some(path) = &args.plot {
        plot::draw(&report, path)
            .map_err(|e| format!("{}: {e}; the picture could not be drawn", path.display()))?;
    }
    Ok(if args.json { report.json() } else { report.text() })
}

/// Told before a minute of measuring, not behind it.
pub fn writable(path: &PathBuf) -> Result<()> {
    let there = path.exists();
    OpenOptions::new().append(true).create(true).open(path).map_err(|e| {
        format!("{}: {e}; the picture cannot be written there, nothing was measured", path.display())
    })?;
    if !there {
        std::fs::remove_file(path)?;
    }
    Ok(())
}

fn open(
    transports: &[Transport],
    plan: &Plan,
    helper: &Helper,
    nodes: Option<&Nodes>,
) -> Result<Vec<Series>> {
    let mut series = Vec::new();
    for (index, &transport) in transports.iter().enumerate() {
        let mut plan = plan.clone();
        plan.sizes.retain(|&size| transport.carries(size));
        let size = plan.sizes.last().copied().unwrap_or(1);
        let pair = index as u16;
        let make = || {
            let [ours, theirs] = transport.make(size, nodes)?;
            helper.tell(&Job::Open { transport, size, pair, first: false }, &theirs)?;
            Ok(End::new(transport, ours, ring_for(size), pair, true)?)
        };
        let end = make().map_err(|e: Box<dyn std::error::Error>| format!("{}: {e}", transport.name()))?;
        series.push(Series { transport, index, end, survey: Survey::new(plan) });
    }
    Ok(series)
}

/// Until when one point may be at it, in seconds since the begin.
struct Share {
    done: usize,
    until: f64,
}

impl Share {
    /// Whether this is another point than before. Long bursts take more than short ones, so each gets a few times its part
    /// of what is left, but no way takes the time of the ways behind it.
    fn next(&mut self, done: usize, all: usize, now: f64, time: f64) -> bool {
        if done == self.done {
            return false;
        }
        let left = (all - done.min(all - 1)) as f64;
        *self = Share { done, until: now + 3.0 * (time - now).max(0.0) / (left + 2.0) };
        true
    }
}

/// The first pass over all ways, and further ones until all is settled or the time is up.
fn survey(series: &mut [Series], helper: &Helper, start: Instant, time: f64) -> Result<()> {
    let all: usize = series.iter().map(|one| one.survey.expected()).sum();
    let mut before = 0;
    for one in &mut *series {
        let name = one.transport.name();
        let (mut pair, survey) = one.pair(helper);
        let mut share = Share { done: usize::MAX, until: 0.0 };
        let watch = |done: usize| {
            let now = start.elapsed().as_secs_f64();
            if share.next(before + done, all, now, FIRST_PASS * time) {
                progress(&bar(&format!("{name}, point {} of {all}", before + done + 1), before + done, all));
            }
            now > share.until
        };
        survey.first(&mut pair, watch).map_err(|e| format!("{name}: {e}"))?;
        before += survey.points().len();
    }
    let begin = start.elapsed().as_secs_f64();
    loop {
        let mut wide = false;
        for one in &mut *series {
            let name = one.transport.name();
            let (mut pair, survey) = one.pair(helper);
            let turn = start.elapsed().as_secs_f64();
            let [done, all] = [turn - begin, time - begin].map(|s| (s.max(0.0) * 1000.0) as usize);
            progress(&bar(&format!("{name}, wide points again"), done, all));
            loop {
                let now = start.elapsed().as_secs_f64();
                if now > time {
                    return Ok(());
                }
                if now - turn > TURN {
                    wide = true;
                    break;
                }
                let watch = || start.elapsed().as_secs_f64() - now > LONG_BATCH;
                if !survey.again(&mut pair, watch).map_err(|e| format!("{name}: {e}"))? {
                    break;
                }
            }
        }
        if !wide {
            return Ok(());
        }
    }
}

/// The gaps of each way by number of senders.
fn contend(
    args: &Args,
    series: &[Series],
    cores: Cores,
    others: &[usize],
    nodes: Option<Nodes>,
    time: f64,
) -> Result<Vec<Vec<report::Contended>>> {
    let mut counts: Vec<u32> = match (&args.senders[..], args.quick) {
        ([], false) => vec![1, 2, 4],
        ([], true) => vec![1, 2],
        (given, _) => given.iter().copied().chain([1]).collect(),
    };
    counts.sort_unstable();
    counts.dedup();
    let most = counts.last().copied().unwrap_or(1);
    let turns = (series.len() * counts.len() * many::ROUNDS as usize) as f64;
    let turn = (CROWD * time / turns).clamp(0.02, 0.5);
    let mut crowd = Crowd::start(cores.b, others, most, series.len() as u16, nodes)?;
    let mut all = Vec::new();
    for (i, one) in series.iter().enumerate() {
        let name = one.transport.name();
        progress(&bar(&format!("{name}, several senders"), i, series.len()));
        let load = one.survey.load(one.survey.plan().sizes[0]);
        let rounds = crowd
            .gaps(one.transport, load, &counts, turn)
            .map_err(|e| format!("{name}, several senders: {e}"))?;
        all.push(report::Contended::all(&counts, &rounds, |senders| crowd.shares(senders)));
    }
    Ok(all)
}

/// `[=====     ] 50 %  what`
pub fn bar(what: &str, done: usize, all: usize) -> String {
    let part = done.min(all) as f64 / all.max(1) as f64;
    let full = (part * 30.0) as usize;
    format!("[{:<30}] {:>3.0} %  {what}", "=".repeat(full), 100.0 * part)
}
