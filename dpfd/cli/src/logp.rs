//! `dp logp`: where the time of a message goes, by the method of Culler, Liu, Martin and Yoshikawa (`dp_measure::logp`).
//!
//! | file | holds |
//! |---|---|
//! | [`system`] | a way of sending as a system that can be measured |
//! | [`many`] | several senders, one receiver |

mod many;
mod system;

use std::process::ExitCode;
use std::time::Instant;

use dp_measure::logp::fit::fit;
use dp_measure::logp::probe::{Plan, Survey};
use dp_measure::logp::report::{self, Report};
use dp_measure::origin::Place;
use dp_measure::printed::tenth;

use crate::pair::clock::Clock;
use crate::pair::cores::{self, Cores};
use crate::pair::endpoints::Folder;
use crate::pair::nodes::{Nodes, OtherNode};
use crate::pair::peer::{Pair, Peer};
use crate::pair::requests::Requester;
use crate::pair::routes::{Far, FarNode};
use crate::pair::transport::{ring_for, Transport};
use crate::pair::{channel, finish, options, progress_of, Result};
use many::Crowd;
use system::Measured;

/// Tell what a message costs its sender, its receiver and neither of them (LogP), on several ways of sending.
#[derive(clap::Args)]
pub struct Args {
    /// Ways of sending, measured side by side [default: endpoint,channel,unix-stream,tcp,pipe; without a shim no channel].
    #[arg(long, value_name = "WAY", value_delimiter = ',', value_parser = transport)]
    ways: Vec<Transport>,
    /// Lengths of messages; the smallest has the signature [default: 8,64,512,4096,32768,262144,1048576].
    #[arg(long, alias = "size", value_name = "BYTES", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=MAX_SIZE))]
    sizes: Vec<u32>,
    /// Small requests that may be unanswered.
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u32).range(4..=64))]
    window: u32,
    /// Numbers of senders that send to one receiver [default: 1,2,4].
    #[arg(long, value_name = "K", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=16))]
    senders: Vec<u32>,
    #[command(flatten)]
    survey: options::Survey,
    #[command(flatten)]
    node: OtherNode,
    #[command(flatten)]
    far: FarNode,
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
    Transport::named(text, &WAYS)
}

pub fn main(mut args: Args) -> ExitCode {
    if args.ways.is_empty() {
        args.ways = channel::where_possible(&USUAL);
    }
    let plan = crate::asked(plan(&args));
    if args.far.is_named() && !args.senders.is_empty() {
        crate::asked::<()>(Err(
            "--senders is for ways of one machine: to another node one process sends".into()
        ));
    }
    match args.far.look("logp") {
        Ok(Some(far)) => return finish("logp", far_away(&args, plan, far)),
        Ok(None) => {}
        Err(status) => return status,
    }
    let cores = crate::asked(args.survey.cores());
    let nodes = crate::asked(args.node.nodes(&args.ways));
    crate::asked(channel::with_shim(&args.ways));
    let _folder = Folder::new();
    finish("logp", run(&args, plan, cores, nodes))
}

fn plan(args: &Args) -> std::result::Result<Plan, String> {
    let mut sizes: Vec<usize> = match (&args.sizes[..], args.survey.quick) {
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
    Ok(if args.survey.quick {
        let bursts = vec![1, 2, 4, 8, 16, 32, 64, 128, 256];
        Plan { sizes, window: args.window, bursts, delays: vec![0.0, 1.0, 2.0] }
    } else {
        let bursts = vec![1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 160, 192, 256];
        Plan { sizes, window: args.window, bursts, delays: vec![0.0, 0.5, 1.0, 2.0, 4.0] }
    })
}

/// One way and what is known of it so far.
struct Series {
    pair: Pair,
    requester: Requester,
    survey: Survey,
}

impl Series {
    fn split<'a>(&'a mut self, peer: &'a Peer) -> (Measured<'a>, &'a mut Survey) {
        (Measured { pair: &mut self.pair, peer, requester: &mut self.requester }, &mut self.survey)
    }
}

fn run(args: &Args, plan: Plan, cores: Cores, nodes: Option<Nodes>) -> Result<String> {
    args.survey.check_picture()?;
    let (start, origin, time) = (Instant::now(), crate::origin::here(), args.survey.time());
    let others: Vec<usize> = cores::may_use()?.into_iter().filter(|&core| core != cores.b).collect();
    let mut peer = Peer::start(cores.b)?;
    cores::stay(cores.a)?;
    let mut series = open(&args.ways, &plan, &mut peer, nodes.as_ref())?;
    measure(&mut series, &peer, start, time * (1.0 - CROWD))?;
    drop(peer);
    let contended = contend(args, &series, cores, &others, nodes, time)?;
    let place = Place::Cores([cores.a, cores.b]);
    printed(
        args,
        Report::new(origin, place, others.len() as u32 + 1, plan.sizes[0], plan.window),
        start,
        &series,
        contended,
    )
}

/// The same to another node, whose one process replies to this one: several senders would share the gateways.
fn far_away(args: &Args, plan: Plan, far: Far) -> Result<String> {
    args.survey.check_picture()?;
    let (nid, clock) = (far.nid(), Clock::new());
    let (mut peer, routes) = far.connect("logp")?;
    let (start, origin) = (Instant::now(), crate::origin::here());
    let one = |route: &String| {
        let pair = peer.open_by(route, Transport::Route.pool(ring_for(longest(&plan))))?;
        Ok(Series { pair, requester: Requester::new(clock), survey: Survey::new(plan.clone()) })
    };
    let mut series = routes.iter().map(one).collect::<Result<Vec<_>>>()?;
    measure(&mut series, &peer, start, args.survey.time())?;
    let contended = series.iter().map(|_| Vec::new()).collect();
    // The two programs: what else takes part, this node does not know.
    printed(
        args,
        Report::new(origin, Place::Node(nid), 2, plan.sizes[0], plan.window),
        start,
        &series,
        contended,
    )
}

/// All points, on what they were to be measured on.
fn measure(series: &mut [Series], peer: &Peer, start: Instant, time: f64) -> Result<()> {
    peer.explained(survey(series, peer, start, time))?;
    for Series { pair, .. } in series {
        peer.check(pair).map_err(|e| format!("{}: {e}", pair.name))?;
    }
    Ok(())
}

fn printed(
    args: &Args,
    mut report: Report,
    start: Instant,
    series: &[Series],
    contended: Vec<Vec<report::Contended>>,
) -> Result<String> {
    for (one, contended) in series.iter().zip(contended) {
        let name = &one.pair.name;
        let found =
            fit(&one.survey).ok_or_else(|| format!("{name}: no parameters can be read off its points"))?;
        report.ways.push(report::Findings::new(name, &one.survey, &found, contended));
    }
    report.seconds = tenth(start.elapsed().as_secs_f64());
    #[cfg(feature = "plot")]
    args.survey.draw(|path| dp_measure::picture::logp::draw(&report, path))?;
    Ok(args.survey.common.printed(&report))
}

fn longest(plan: &Plan) -> usize {
    plan.sizes.last().copied().unwrap_or(1)
}

fn open(
    transports: &[Transport],
    plan: &Plan,
    peer: &mut Peer,
    nodes: Option<&Nodes>,
) -> Result<Vec<Series>> {
    let clock = Clock::new();
    let one = |&transport: &Transport| {
        let mut plan = plan.clone();
        plan.sizes.retain(|&size| transport.carries(size));
        let size = longest(&plan);
        let pair = peer.open(transport, size, transport.pool(ring_for(size)), nodes)?;
        Ok(Series { pair, requester: Requester::new(clock), survey: Survey::new(plan) })
    };
    transports.iter().map(one).collect()
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
fn survey(series: &mut [Series], peer: &Peer, start: Instant, time: f64) -> Result<()> {
    let all: usize = series.iter().map(|one| one.survey.expected()).sum();
    let mut before = 0;
    for one in &mut *series {
        let name = one.pair.name.clone();
        let (mut measured, survey) = one.split(peer);
        let mut share = Share { done: usize::MAX, until: 0.0 };
        let watch = |done: usize| {
            let now = start.elapsed().as_secs_f64();
            if share.next(before + done, all, now, FIRST_PASS * time) {
                progress_of(&format!("{name}, point {} of {all}", before + done + 1), before + done, all);
            }
            now > share.until
        };
        survey.first(&mut measured, watch).map_err(|e| format!("{name}: {e}"))?;
        before += survey.points().len();
    }
    let begin = start.elapsed().as_secs_f64();
    loop {
        let mut wide = false;
        for one in &mut *series {
            let name = one.pair.name.clone();
            let (mut measured, survey) = one.split(peer);
            let turn = start.elapsed().as_secs_f64();
            let [done, all] = [turn - begin, time - begin].map(|s| (s.max(0.0) * 1000.0) as usize);
            progress_of(&format!("{name}, wide points again"), done, all);
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
                if !survey.again(&mut measured, watch).map_err(|e| format!("{name}: {e}"))? {
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
    let mut counts: Vec<u32> = match (&args.senders[..], args.survey.quick) {
        ([], false) => vec![1, 2, 4],
        ([], true) => vec![1, 2],
        (given, _) => given.iter().copied().chain([1]).collect(),
    };
    counts.sort_unstable();
    counts.dedup();
    let most = counts.last().copied().unwrap_or(1);
    let turns = (series.len() * counts.len() * many::ROUNDS as usize) as f64;
    let turn = (CROWD * time / turns).clamp(0.02, 0.5);
    let mut crowd = Crowd::start(cores.b, others, most, nodes)?;
    let mut all = Vec::new();
    for (i, one) in series.iter().enumerate() {
        let name = &one.pair.name;
        progress_of(&format!("{name}, several senders"), i, series.len());
        let load = one.survey.load(one.survey.plan().sizes[0]);
        let rounds = crowd
            .gaps(one.pair.transport, load, &counts, turn)
            .map_err(|e| format!("{name}, several senders: {e}"))?;
        all.push(report::Contended::all(&counts, &rounds, |senders| crowd.shares(senders)));
    }
    Ok(all)
}
