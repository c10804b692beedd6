//! The rows of the table of targets, and how each is measured.

use std::slice;
use std::time::{Duration, Instant};

use clap::ValueEnum;

use super::cores::Cores;
use super::crowd::{self, Crowd};
use super::endpoint;
use super::idle;
use super::iperf;
use super::kit::{Kit, Setup, Tool};
use super::lookers::Lookers;
use super::redis::{self, Load, Session};
use super::report::{Row, Target};
use super::told;
use super::turns::{Progress, Sample, Turns};
use super::Error;

/// The rows, as `--only` names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Name {
    /// redis GET, 50 clients, two cores.
    #[value(name = "redis-50")]
    Redis50,
    /// redis GET, one client, two cores.
    #[value(name = "redis-1")]
    Redis1,
    /// redis GET, 50 clients, both processes on one core.
    OneCore,
    /// iperf3, one stream, two cores.
    Iperf3,
    /// A small message from endpoint to endpoint, on two cores.
    EndpointLat,
    /// Small messages in a second, the same way.
    EndpointRate,
    /// CPU time and context switches of redis-server and redis-cli doing nothing.
    Idle,
    /// Connections with one request each.
    Connect,
    /// redis under the shim with rules that leave everything on TCP.
    LeftAlone,
    /// redis under the shim, while `dp top`, `dp ls --watch` and `dp metrics` look, and while nobody does.
    LookedAt,
    /// One busy connection of a server, alone and beside 10 000 idle ones, both under the shim.
    Crowd,
    /// A fork of a server with a channel, whose child only ends.
    Fork,
    /// CPU time of a server whose connections exchange 8 messages each.
    Short,
    /// A stream over TCP of a server that left its channel, both processes on one core.
    HandedBack,
}

/// How long and how often.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Rounds of each row.
    pub rounds: usize,
    /// Of one run.
    pub time: Duration,
    /// Of the row without work.
    pub idle: Duration,
}

const PAIR: [Setup; 2] = [Setup::Tcp, Setup::Dp];
/// Of programs that have AF_UNIX sockets as well.
const THREE: [Setup; 3] = [Setup::Tcp, Setup::Unix, Setup::Dp];
const FIFTY: Load = Load { clients: 50, keep: true };
const ONE: Load = Load { clients: 1, keep: true };
const RECONNECT: Load = Load { clients: 50, keep: false };
/// A difference of a few percent shows in this many pairs, not in fewer.
const LEFT_ALONE_PAIRS: usize = 40;
/// The same for a percent of CPU time, which varies less than a rate does.
const LOOKED_AT_PAIRS: usize = 20;
/// The fewest parts that give an interval of 95 %.
const IDLE_PARTS: usize = 6;

impl Name {
    /// Whether unmodified programs are measured, and not endpoints.
    pub fn of_programs(self) -> bool {
        !matches!(self, Name::EndpointLat | Name::EndpointRate)
    }

    /// The programs of others that it needs.
    pub fn tools(self) -> &'static [Tool] {
        match self {
            Name::Iperf3 => &[iperf::IPERF],
            Name::EndpointLat
            | Name::EndpointRate
            | Name::Crowd
            | Name::Fork
            | Name::Short
            | Name::HandedBack => &[],
            Name::Idle => &[redis::SERVER, idle::CLI],
            _ => &[redis::SERVER, redis::BENCHMARK],
        }
    }

    /// Its rows. One that cannot be measured has no numbers, and a note that says why.
    ///
    /// # Errors
    /// [`Error::Interrupted`].
    pub fn measure(self, kit: &Kit, plan: &Plan, progress: &Progress) -> Result<Vec<Row>, Error> {
        let rows = self.rows();
        let needs_two = !matches!(self, Name::OneCore | Name::Idle | Name::Fork | Name::HandedBack);
        let measured = match needs_two && !kit.cores.two() {
            true => Err(Error::OneCore(kit.cores.server)),
            false => self.fill(rows.clone(), kit, plan, progress),
        };
        match measured {
            Err(Error::Interrupted) => Err(Error::Interrupted),
            Err(why) => Ok(rows.into_iter().map(|row| row.with_note(&why)).collect()),
            filled => filled,
        }
    }

    fn fill(self, rows: Vec<Row>, kit: &Kit, plan: &Plan, progress: &Progress) -> Result<Vec<Row>, Error> {
        let what = rows[0].what.clone();
        let show =
            |round, setup: Setup| progress.show(&format!("{what}: round {}, {}", round + 1, setup.name()));
        let mut rows = rows.into_iter();
        let row = rows.next().unwrap_or_else(|| unreachable!("each name has a row"));
        let cores = kit.cores;
        let row = match self {
            Name::Redis50 => redis_row(kit, plan, row, FIFTY, cores, show)?,
            Name::Redis1 => redis_row(kit, plan, row, ONE, cores, show)?,
            Name::OneCore => redis_row(kit, plan, row, FIFTY, cores.shared(), show)?,
            Name::Connect => connect_row(kit, plan, row, show)?,
            Name::Iperf3 => iperf_row(kit, plan, row, show)?,
            Name::LeftAlone => left_alone_row(kit, plan, row, show)?,
            Name::LookedAt => looked_at_row(kit, plan, row, show)?,
            Name::Crowd => crowd_row(kit, plan, row, show)?,
            Name::Fork | Name::Short | Name::HandedBack => {
                let (program, cores) = match self {
                    Name::Fork => (told::FORK, cores),
                    Name::Short => (told::SHORT, cores),
                    _ => (told::HANDED_BACK, cores.shared()),
                };
                let turns = Turns::take(&PAIR, plan.rounds, |setup, round| {
                    show(round, setup);
                    told::measure(kit, setup, program, cores, plan.time)
                })?;
                row.with(&turns, Setup::Tcp, Setup::Dp)
            }
            Name::EndpointLat | Name::EndpointRate => {
                progress.show(&what);
                let what = if self == Name::EndpointLat { endpoint::What::Lat } else { endpoint::What::Rate };
                endpoint::measure(kit, row, what, plan.time)?
            }
            Name::Idle => {
                progress.show(&format!("{what}: {} s", plan.idle.as_secs()));
                return idle_rows(kit, plan, row, rows);
            }
        };
        Ok(vec![row])
    }

    /// The rows without numbers.
    fn rows(self) -> Vec<Row> {
        let row = |name, what: &str, unit, target| vec![Row::new(name, what, unit, target)];
        let least = Target::RatioAtLeast;
        match self {
            Name::Redis50 => row("redis-50", "redis GET, 50 clients", "req/s", least(8.0)),
            Name::Redis1 => row("redis-1", "redis GET, 1 client", "req/s", least(12.0)),
            Name::OneCore => row("one-core", "redis GET, 50 clients, one core", "req/s", least(3.0)),
            Name::Iperf3 => row("iperf3", "iperf3, one stream", "Gbit/s", least(2.5)),
            Name::EndpointLat => row(
                "endpoint-lat",
                "8 B, endpoint to endpoint, one way, p50",
                "ns",
                Target::BaselinePlus(60.0),
            ),
            Name::EndpointRate => {
                row("endpoint-rate", "8 B messages, endpoint to endpoint", "msg/s", least(15.0))
            }
            Name::Idle => {
                let most = Target::NotAbove(1.0);
                let cpu = Row::new("idle", "idle redis pair, CPU time", "ms/s", most);
                vec![cpu, Row::new("idle", "idle redis pair, context switches", "1/s", most)]
            }
            Name::Connect => row("connect", "connect, one GET, close", "req/s", least(0.9)),
            Name::LeftAlone => row(
                "left-alone",
                "redis GET, 50 clients, left on TCP",
                "req/s",
                Target::IntervalAtLeast(0.97),
            ),
            Name::LookedAt => {
                let what = "CPU time of a redis GET, 50 clients, looked at each second";
                row("looked-at", what, "ns", Target::NotAbove(1.01))
            }
            Name::Fork => row("fork", "fork, and a child that only ends", "us", Target::NotAbove(1.1)),
            Name::Short => {
                let what = "connections of 8 messages, CPU time of their server";
                row("short", what, "us", Target::NotAbove(1.1))
            }
            Name::HandedBack => {
                let what = "a MiB over TCP after a channel, one core";
                row("handed-back", what, "us", Target::NotAbove(1.03))
            }
            Name::Crowd => {
                let what = format!("64 B echo over epoll beside {} idle channels", crowd::IDLE);
                row("crowd", &what, "1/s", least(0.97))
            }
        }
    }
}

fn redis_row(
    kit: &Kit,
    plan: &Plan,
    row: Row,
    load: Load,
    cores: Cores,
    show: impl Fn(usize, Setup),
) -> Result<Row, Error> {
    let mut session = Session::start(kit, &THREE, cores, plan.time)?;
    session.warm_up(&THREE, load)?;
    let turns = Turns::take(&THREE, plan.rounds, |setup, round| {
        show(round, setup);
        session.run(setup, load)
    })?;
    let shared = session.shared(Setup::Dp)?;
    let elsewhere = shared.as_ref().map(|shared| shared.family.elsewhere()).unwrap_or_default();
    let turns = turns.map(|run| Sample::from(*run));
    let row = row.with(&turns, Setup::Tcp, Setup::Dp).with_unix(&turns);
    Ok(row.with_part(shared.map(|shared| shared.part()), &elsewhere))
}

/// Short connections: how many of them became channels does not matter, only that the shim does not hold them up.
fn connect_row(kit: &Kit, plan: &Plan, row: Row, show: impl Fn(usize, Setup)) -> Result<Row, Error> {
    let mut session = Session::start(kit, &THREE, kit.cores, plan.time)?;
    session.warm_up(&THREE, RECONNECT)?;
    let turns = Turns::take(&THREE, plan.rounds, |setup, round| {
        show(round, setup);
        session.run(setup, RECONNECT)
    })?;
    let turns = turns.map(|run| Sample::from(*run));
    let mut row = row.with(&turns, Setup::Tcp, Setup::Dp).with_unix(&turns);
    row.dp_part = session.shared(Setup::Dp)?.map(|shared| shared.part());
    if row.dp_part.is_none() {
        row = row.with_part(None, "");
    }
    Ok(row)
}

fn iperf_row(kit: &Kit, plan: &Plan, row: Row, show: impl Fn(usize, Setup)) -> Result<Row, Error> {
    let start = |setup: &Setup| iperf::Server::start(kit, *setup, kit.cores);
    let [mut tcp, mut dp] = [start(&PAIR[0])?, start(&PAIR[1])?];
    let seconds = plan.time.as_secs().max(1) as u32;
    let turns = Turns::take(&PAIR, plan.rounds, |setup, round| {
        show(round, setup);
        let server = if setup == Setup::Tcp { &mut tcp } else { &mut dp };
        let sample = server.run(kit, kit.cores, seconds)?;
        Ok(Sample { value: sample.value / 1e9, ..sample })
    })?;
    let part = dp.part(kit)?;
    let elsewhere = part.as_ref().map(|(_, family)| family.elsewhere()).unwrap_or_default();
    Ok(row.with(&turns, Setup::Tcp, Setup::Dp).with_part(part.map(|(part, _)| part), &elsewhere))
}

/// New servers for each pair: where a process happens to have its memory shows in its speed, and must not look
/// like the shim's doing.
fn left_alone_row(kit: &Kit, plan: &Plan, row: Row, show: impl Fn(usize, Setup)) -> Result<Row, Error> {
    const SETUPS: [Setup; 2] = [Setup::Tcp, Setup::LeftAlone];
    let time = plan.time / 2;
    let mut made = 0;
    let turns = Turns::take(&SETUPS, plan.rounds.max(LEFT_ALONE_PAIRS), |setup, round| {
        show(round, setup);
        let mut session = Session::start(kit, slice::from_ref(&setup), kit.cores, time)?;
        session.warm_up(slice::from_ref(&setup), FIFTY)?;
        let run = session.run(setup, FIFTY)?;
        made += session.shared(setup)?.map_or(0, |shared| shared.family.channels);
        Ok(run)
    })?;
    let mut row = row.with(&turns.map(|run| Sample::from(*run)), Setup::Tcp, Setup::LeftAlone);
    // On a machine with other work this says more than the rate does.
    if let Some(cpu) = turns.ratio(Setup::LeftAlone, Setup::Tcp, redis::Run::cpu_of_a_request) {
        let (low, high, pairs) = (cpu.low, cpu.high, turns.rounds());
        row.note(format!(
            "CPU time of a request: {:.3}x TCP's, {low:.3} - {high:.3}; {pairs} pairs",
            cpu.median
        ));
    }
    if made > 0 {
        row.note(format!("{made} connections became channels against the rules: these are other numbers"));
    }
    Ok(row)
}

/// One server for both: what is compared is whether somebody looks. The lookers run on the same cores, so a rate would tell what
/// they take of these; what they cost whom they look at is in the CPU time of a request.
fn looked_at_row(kit: &Kit, plan: &Plan, row: Row, show: impl Fn(usize, Setup)) -> Result<Row, Error> {
    const SETUPS: [Setup; 2] = [Setup::Dp, Setup::LookedAt];
    let server = [Setup::Dp];
    // Each looks a few times in a run.
    let mut session = Session::start(kit, &server, kit.cores, plan.time * 3)?;
    session.warm_up(&server, FIFTY)?;
    let (mut spent, mut looked) = (Duration::ZERO, Duration::ZERO);
    let turns = Turns::take(&SETUPS, plan.rounds.max(LOOKED_AT_PAIRS), |setup, round| {
        show(round, setup);
        let mut lookers = match setup {
            Setup::LookedAt => Some(Lookers::start(kit)?),
            _ => None,
        };
        let (before, begin) =
            (lookers.as_mut().map_or(Ok(Default::default()), Lookers::cost)?, Instant::now());
        let run = session.run(Setup::Dp, FIFTY)?;
        if let Some(lookers) = &mut lookers {
            spent += (lookers.cost()? - before).cpu;
            looked += begin.elapsed();
        }
        Ok(run)
    })?;
    let cpu = |run: &redis::Run| Sample { value: run.cpu_of_a_request() * 1e9, ..Sample::from(*run) };
    let mut row = row.with(&turns.map(cpu), Setup::Dp, Setup::LookedAt);
    if let Some(rate) = turns.ratio(Setup::LookedAt, Setup::Dp, |run| run.rate) {
        let ms = 1e3 * spent.as_secs_f64() / looked.as_secs_f64().max(1e-9);
        row.note(format!(
            "requests a second: {:.3}x, {:.3} - {:.3}; the lookers themselves used {ms:.1} ms of CPU a second",
            rate.median, rate.low, rate.high
        ));
    }
    let shared = session.shared(Setup::Dp)?;
    let elsewhere = shared.as_ref().map(|shared| shared.family.elsewhere()).unwrap_or_default();
    Ok(row.with_part(shared.map(|shared| shared.part()), &elsewhere))
}

/// Both under the shim: what is compared is the crowd.
fn crowd_row(kit: &Kit, plan: &Plan, row: Row, show: impl Fn(usize, Setup)) -> Result<Row, Error> {
    const SETUPS: [Setup; 2] = [Setup::Dp, Setup::Beside];
    let [mut alone, mut crowded] = [Crowd::start(kit, SETUPS[0])?, Crowd::start(kit, SETUPS[1])?];
    let turns = Turns::take(&SETUPS, plan.rounds, |setup, round| {
        show(round, setup);
        let crowd = if setup == Setup::Dp { &mut alone } else { &mut crowded };
        crowd.run(plan.time)
    })?;
    let mut row = row.with(&turns, Setup::Dp, Setup::Beside);
    match crowded.family(kit)?.map(|family| family.open().0) {
        None => row = row.with_part(None, ""),
        Some(open) if open < crowd::IDLE => row.note(format!("only {open} of them are channels")),
        Some(_) => {}
    }
    Ok(row)
}

fn idle_rows(
    kit: &Kit,
    plan: &Plan,
    cpu: Row,
    switches: impl Iterator<Item = Row>,
) -> Result<Vec<Row>, Error> {
    let idle = idle::measure(kit, kit.cores, &PAIR, IDLE_PARTS, plan.idle)?;
    let mut cpu = cpu.with(&idle.cpu_ms, Setup::Tcp, Setup::Dp);
    match idle.family.map(|family| (family.open().0, family.left_on_tcp())) {
        None => cpu = cpu.with_part(None, ""),
        Some((0, left)) => cpu.note(format!("the idle connection is no channel; on TCP: {left}")),
        Some(_) => {}
    }
    let switches = switches.map(|row| row.with(&idle.switches, Setup::Tcp, Setup::Dp));
    Ok([cpu].into_iter().chain(switches).collect())
}

impl From<redis::Run> for Sample {
    fn from(run: redis::Run) -> Sample {
        Sample { value: run.rate, server: run.server, client: run.client }
    }
}
