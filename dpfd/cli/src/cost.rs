//! `dp cost`: the cost model of Directed Point, measured, and its predictions beside measurements (`dp_measure::cost`).
//!
//! | file | holds |
//! |---|---|
//! | [`system`] | a way of sending as a system whose costs are measured |
//! | [`bandwidth`] | 10 MB in one direction and in both |
//! | [`copies`], [`caches`] | copying in memory, and what caches hold |

mod bandwidth;
mod caches;
mod copies;
mod system;

use std::process::ExitCode;
use std::time::Instant;

use dp_edge::ring::{max_payload, LINE};
use dp_measure::cost::fit::{Border, Model};
use dp_measure::cost::probe::{Plan, Survey};
use dp_measure::cost::report::{self, Report};
use dp_measure::origin::{Origin, Place};
use dp_measure::printed::tenth;

use crate::pair::buffer::Buffer;
use crate::pair::clock::{compute, Clock};
use crate::pair::cores::{self, Cores};
use crate::pair::endpoints::Folder;
use crate::pair::peer::{Pair, Peer};
use crate::pair::routes::{Far, FarNode};
use crate::pair::transport::Transport;
use crate::pair::{finish, options, progress_of, Result};
use bandwidth::Turns;
use copies::Copies;
use system::Measured;

/// Measure the cost model of Directed Point on this machine, and set its predictions against measurements.
#[derive(clap::Args)]
pub struct Args {
    /// Ways of sending, measured in turns.
    #[arg(long, value_name = "WAY", value_delimiter = ',', default_values_t = [Transport::Endpoint], value_parser = transport)]
    ways: Vec<Transport>,
    /// b: the length of packets that messages are cut into, a power of two.
    #[arg(long, value_name = "BYTES", default_value_t = 16_384, value_parser = clap::value_parser!(u32).range(64..=262_144))]
    packet: u32,
    /// The longest message that is predicted, a power of two.
    #[arg(long, value_name = "BYTES", default_value_t = MAX_SIZE as u32, value_parser = clap::value_parser!(u32).range(65_536..=MAX_SIZE))]
    longest: u32,
    #[command(flatten)]
    survey: options::Survey,
    #[command(flatten)]
    far: FarNode,
}

/// What can be measured: ways whose two directions are one descriptor.
const WAYS: [Transport; 4] = [Transport::Endpoint, Transport::Kernel, Transport::UnixStream, Transport::Tcp];
/// The longest message of an endpoint.
const MAX_SIZE: i64 = 16 << 20;
/// The pool of each endpoint, bytes; its only sender gets half of it.
const POOL: usize = 2 << 20;
/// Bytes that a message which fills a pool of the kernel driver leaves for tokens.
const KERNEL_TOKENS: usize = 80;
/// A packet with its token in one line of a cache, bytes.
const ONE_LINE: usize = 56;
/// A packet that goes to another node in one frame of Ethernet's usual length, bytes.
const ONE_FRAME: usize = 1400;
/// Of the time, for the tests of bandwidth.
const BANDWIDTH: f64 = 0.25;
/// Packets of the tests of bandwidth: a full Ethernet frame's among them, as in the paper.
const PACKETS: [usize; 8] = [64, 256, 1024, 1500, 4096, 16_384, 65_536, 262_144];
const QUICK_PACKETS: [usize; 2] = [1500, 16_384];
/// The longest of them on the kernel's ways, where both processes may send one before either receives.
const KERNEL_PACKET: usize = 65_536;
/// Turns to learn from how long a turn of a computation takes.
const CALIBRATION: u32 = 20_000;

fn transport(text: &str) -> std::result::Result<Transport, String> {
    Transport::named(text, &WAYS)
}

pub fn main(args: Args) -> ExitCode {
    crate::asked(usable(&args));
    match args.far.look("cost") {
        Ok(Some(far)) => return finish("cost", far_away(&args, far)),
        Ok(None) => {}
        Err(status) => return status,
    }
    let cores = crate::asked(args.survey.cores());
    let _folder = Folder::new();
    finish("cost", here(&args, cores))
}

fn usable(args: &Args) -> std::result::Result<(), String> {
    for (name, n) in [("--packet", args.packet), ("--longest", args.longest)] {
        if !n.is_power_of_two() {
            return Err(format!("{name} {n}: messages double in length, so it must be a power of two"));
        }
    }
    if args.packet >= args.longest {
        return Err(format!(
            "--packet {}: messages of several packets must fit below --longest {}",
            args.packet, args.longest
        ));
    }
    Ok(())
}

/// One way and what is known of it so far.
struct Series {
    pair: Pair,
    survey: Survey,
    turns: Vec<Turns>,
}

/// What all ways share.
struct Bench {
    peer: Peer,
    buffer: Buffer,
    clock: Clock,
    turn: f64,
    start: Instant,
}

impl Bench {
    fn measured<'a>(&'a mut self, pair: &'a mut Pair) -> Measured<'a> {
        let Bench { peer, buffer, clock, turn, .. } = self;
        Measured { pair, peer, buffer, clock: *clock, turn: *turn }
    }

    fn seconds(&self) -> f64 {
        self.start.elapsed().as_secs_f64()
    }
}

fn here(args: &Args, cores: Cores) -> Result<String> {
    args.survey.check_picture()?;
    let origin = crate::origin::here();
    let others: Vec<usize> =
        cores::may_use()?.into_iter().filter(|&c| c != cores.a && c != cores.b).collect();
    let mut peer = Peer::start(cores.b)?;
    cores::stay(cores.a)?;
    let caches = caches::of(cores.a);
    let series = open(args, &args.ways, caches, |transport| {
        peer.open(transport, 1, transport.driver().map(|_| POOL), None)
    })?;
    let second = others.first().zip(others.get(1)).map(|(&a, &b)| [a, b]);
    let few = second.is_none();
    run(args, origin, Place::Cores([cores.a, cores.b]), peer, series, Cpu { caches, second, few })
}

/// The same to another node. Its programs, and the gateways, run where the kernel puts them.
fn far_away(args: &Args, far: Far) -> Result<String> {
    args.survey.check_picture()?;
    let nid = far.nid();
    let caches = caches::of(*cores::may_use()?.first().ok_or("no core to run on")?);
    let (mut peer, routes) = far.connect("cost")?;
    let origin = crate::origin::here();
    let mut names = routes.iter();
    let ways = vec![Transport::Route; routes.len()];
    let series =
        open(args, &ways, caches, |_| peer.open_by(names.next().map_or("", String::as_str), Some(POOL)))?;
    run(args, origin, Place::Node(nid), peer, series, Cpu { caches, second: None, few: false })
}

/// What this machine has.
struct Cpu {
    caches: [usize; 3],
    /// Two more cores, for second threads.
    second: Option<[usize; 2]>,
    /// There are none, so these threads share cores.
    few: bool,
}

fn run(
    args: &Args,
    origin: Origin,
    place: Place,
    peer: Peer,
    mut series: Vec<Series>,
    cpu: Cpu,
) -> Result<String> {
    let (time, Cpu { caches, second, few }) = (args.survey.time(), cpu);
    let (clock, start) = (Clock::new(), Instant::now());
    let mut bench = Bench { peer, buffer: Buffer::default(), clock, turn: turn(clock), start };
    let mut copies = Copies::new(caches[2], clock);
    let measured = survey(&mut series, &mut bench, &mut copies, time * (1.0 - BANDWIDTH))
        .and_then(|()| carry(&mut series, &mut bench, second, time));
    bench.peer.explained(measured)?;

    let mut report = Report {
        version: 2,
        origin,
        place,
        p: 2,
        caches,
        packet: args.packet as usize,
        seconds: 0.0,
        copies: copies.result().ok_or("no memory was copied")?,
        ways: Vec::new(),
    };
    for one in &series {
        report.ways.push(result(one, caches, few)?);
    }
    report.seconds = tenth(bench.seconds());
    #[cfg(feature = "plot")]
    args.survey.draw(|path| dp_measure::picture::cost::draw(&report, path))?;
    Ok(args.survey.common.printed(&report))
}

fn result(one: &Series, caches: [usize; 3], few_cores: bool) -> Result<report::Findings> {
    let name = &one.pair.name;
    let borders = borders(one.pair.transport, caches);
    let model = Model::fit(&one.survey, &borders)
        .ok_or_else(|| format!("{name}: no parameters can be read off its points"))?;
    let driver = one.pair.end.endpoint().ok().map(|endpoint| endpoint.driver().word());
    let mut findings = report::Findings::new(name, driver, &one.survey, &borders, &model);
    findings.bandwidth = one.turns.iter().map(Turns::result).collect();
    if driver.is_some() && few_cores {
        findings
            .notes
            .push("two threads: both threads of a process shared its core, there were no others".to_string());
    }
    Ok(findings)
}

/// Where the machinery changes: half of a cache holds the packets of one side beside the queue's.
fn borders(transport: Transport, caches: [usize; 3]) -> Vec<Border> {
    let mut borders = vec![
        Border { name: "line", upto: ONE_LINE },
        Border { name: "frame", upto: ONE_FRAME },
        Border { name: "L1", upto: caches[0] / 2 },
        Border { name: "L2", upto: caches[1] / 2 },
        Border { name: "L3", upto: caches[2] / 2 },
    ];
    if transport != Transport::Route {
        borders.retain(|border| border.upto != ONE_FRAME);
    }
    // Longer messages have memory of their own, whatever the caches hold.
    let queue = match transport {
        Transport::Endpoint | Transport::Route => {
            Some(Border { name: "edge", upto: max_payload((POOL / 2 / LINE) as u64) })
        }
        Transport::Kernel => Some(Border { name: "pool", upto: POOL - KERNEL_TOKENS }),
        _ => None,
    };
    if let Some(queue) = queue {
        let upto = queue.upto;
        borders.retain(|border| border.upto < upto);
        borders.push(queue);
        // The programs' buffers, and the message's memory, which is new each time while the last one is still warm.
        borders.push(Border { name: "out-of-line", upto: (caches[2] / 8).max(2 * upto) });
    }
    borders.push(Border { name: "memory", upto: usize::MAX });
    borders
}

/// ns of a turn of a computation.
fn turn(clock: Clock) -> f64 {
    let once = |_| {
        let start = Instant::now();
        compute(CALIBRATION);
        clock.since(start) / f64::from(CALIBRATION)
    };
    (0..9).map(once).fold(f64::INFINITY, f64::min).max(0.1)
}

fn open(
    args: &Args,
    transports: &[Transport],
    caches: [usize; 3],
    mut pair: impl FnMut(Transport) -> Result<Pair>,
) -> Result<Vec<Series>> {
    let quick = args.survey.quick;
    let plan = Plan::new(args.packet as usize, args.longest as usize, quick);
    let plan_of = |transport| plan.clone().covering(&borders(transport, caches), MAX_SIZE as usize);
    let packets: &[usize] = if quick { &QUICK_PACKETS } else { &PACKETS };
    let one = |&transport: &Transport| {
        let pair = pair(transport)?;
        let longest = if transport.is_endpoint() { usize::MAX } else { KERNEL_PACKET };
        let turns = packets.iter().filter(|&&m| m <= longest).map(|&m| Turns::new(m)).collect();
        Ok(Series { pair, survey: Survey::new(plan_of(transport)), turns })
    };
    transports.iter().map(one).collect()
}

/// Rounds over all ways until the time is up, the first one whatever it takes.
fn survey(series: &mut [Series], bench: &mut Bench, copies: &mut Copies, time: f64) -> Result<()> {
    let start = bench.start;
    let mut rounds = 0;
    while rounds == 0 || bench.seconds() < time {
        copies.round();
        for one in &mut *series {
            let (name, all) = (one.pair.name.clone(), one.survey.points().len());
            let mut measured = bench.measured(&mut one.pair);
            let enough = |done: usize| {
                let now = start.elapsed().as_secs_f64();
                if done % 8 == 0 {
                    let part = if rounds == 0 { 0.1 * done as f64 / all as f64 } else { now / time };
                    let what = format!("{name}, round {}, point {} of {all}", rounds + 1, done + 1);
                    progress_of(&what, (1000.0 * part) as usize, 1000);
                }
                now > time
            };
            one.survey.round(&mut measured, enough).map_err(|e| format!("{name}: {e}"))?;
        }
        rounds += 1;
    }
    Ok(())
}

/// The tests of bandwidth, turn by turn until the time is up; one of each whatever it takes. Each way is looked at right behind its
/// turns: gateways forget what was not used for a minute, which those of the others may take.
fn carry(series: &mut [Series], bench: &mut Bench, second: Option<[usize; 2]>, time: f64) -> Result<()> {
    let begin = bench.seconds();
    let mut first = true;
    while first || bench.seconds() < time {
        for one in &mut *series {
            let name = one.pair.name.clone();
            let mut used = false;
            for turns in &mut one.turns {
                let now = bench.seconds();
                if !first && now > time {
                    break;
                }
                let [done, all] = [now - begin, time - begin].map(|s| (s.max(0.0) * 1000.0) as usize);
                progress_of(&format!("{name}, 10 MB in packets of {}", turns.packet), done, all);
                let mut measured = bench.measured(&mut one.pair);
                turns.turn(&mut measured, second).map_err(|e| format!("{name}, 10 MB: {e}"))?;
                used = true;
            }
            if used {
                bench.peer.check(&one.pair)?;
            }
        }
        first = false;
    }
    Ok(())
}
