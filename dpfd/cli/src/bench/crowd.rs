//! Connections or endpoints that nobody uses, beside the one that is measured: what their number costs.
//!
//! Both processes hold one end of each. Where descriptors tell that something came, the second process waits for all of
//! them at once, as servers do. Endpoints for which its descriptors do not suffice are in further processes.

use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::time::Duration;

use dp_measure::logp::origin::Origin;
use dpfd::driver::Driver;
use dpfd::Endpoint;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::resource::{getrlimit, setrlimit, Resource};

use serde::Serialize;

use super::cores::{self, Cores};
use super::lat::median;
use super::link::{again, ring_for, Fds, Link, Transport};
use super::peer::Peer;
use super::report::{half, with_half, VERSION};
use super::{progress, Args, Result, What};

/// Bytes of a message of the one that is used.
const SIZE: usize = 8;
/// Fewer do not show in the kernel's memory, which others use as well.
const SHOWS: usize = 1000;
/// Descriptors for everything else.
const SPARE: u64 = 256;
/// Of an endpoint.
const PER_ENDPOINT: u64 = 2;

/// What `--json` prints.
#[derive(Serialize)]
struct Report {
    version: u32,
    origin: Origin,
    what: What,
    cores: [usize; 2],
    endpoints: u32,
    seconds: f64,
    rounds: u32,
    results: Vec<Outcome>,
}

#[derive(Serialize)]
struct Outcome {
    #[serde(rename = "way")]
    transport: Transport,
    /// One way of the one that is used.
    p50_ns: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    p50_half_ns: Option<f64>,
    p99_ns: f64,
    /// By so much the second process grew for each of the others.
    #[serde(skip_serializing_if = "Option::is_none")]
    resident_bytes_each: Option<f64>,
    /// And the kernel, for both ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    kernel_bytes_each: Option<f64>,
    /// Processes that have one end of the others.
    processes: u32,
}

pub fn run(args: &Args, cores: Cores) -> Result<String> {
    const USUAL: [Transport; 4] =
        [Transport::Endpoint, Transport::Plain, Transport::UnixStream, Transport::Tcp];
    let transports = if args.ways.is_empty() { &USUAL[..] } else { &args.ways[..] };
    if let Some(transport) = transports.iter().find(|transport| !USUAL.contains(transport)) {
        let names = USUAL.map(Transport::name).join(", ");
        return Err(format!(
            "{}: its number cannot be measured; that of these can: {names}",
            transport.name()
        )
        .into());
    }
    let (origin, mut results) = (crate::origin::here(), Vec::new());
    for transport in transports {
        results.push(one(args, cores, *transport).map_err(|e| format!("{}: {e}", transport.name()))?);
    }
    progress("");
    let report = Report {
        version: VERSION,
        origin,
        what: args.what,
        cores: [cores.a, cores.b],
        endpoints: args.endpoints,
        seconds: args.seconds,
        rounds: args.rounds,
        results,
    };
    Ok(if args.json { serde_json::to_string_pretty(&report)? + "\n" } else { report.text() })
}

fn one(args: &Args, cores: Cores, transport: Transport) -> Result<Outcome> {
    let mut peer = Peer::start(cores)?;
    cores::stay(cores.a)?;
    let mut series = peer.open(transport, SIZE, ring_for(SIZE), None)?;
    let count = args.endpoints as usize - 1;
    let here = if matches!(transport, Transport::Plain | Transport::Endpoint) {
        count.min(endpoints_here()?)
    } else {
        count
    };
    progress(&format!("{}, {} of them", transport.name(), args.endpoints));
    let before = kernel_memory()?;
    let (ours, grown) = peer.crowd(&series, here)?;
    let after = kernel_memory()?;
    let mut further = Vec::new();
    let mut rest = count - here;
    while rest > 0 {
        let mut other = Peer::start(cores)?;
        let some = rest.min(endpoints_here()?);
        other.idle(some, false)?;
        further.push(other);
        rest -= some;
    }
    for round in 0..args.rounds {
        progress(&format!("{}, {}, turn {}", transport.name(), args.endpoints, round + 1));
        series.turn(&mut peer, What::Lat, Duration::from_secs_f64(args.seconds / f64::from(args.rounds)))?;
    }
    drop(ours);
    let (mut p50, p99_ns) = series.latency();
    let each = |bytes: u64| (here >= SHOWS).then(|| (bytes as f64 / here as f64).round());
    Ok(Outcome {
        transport,
        p50_ns: median(&mut p50),
        p50_half_ns: half(&p50, 10.0),
        p99_ns,
        resident_bytes_each: each(grown),
        kernel_bytes_each: each(after.saturating_sub(before)),
        processes: 1 + further.len() as u32,
    })
}

/// Bytes of the kernel's small objects, among them sockets and files of the whole machine.
fn kernel_memory() -> Result<u64> {
    let info = std::fs::read_to_string("/proc/meminfo")?;
    let line = info.lines().find_map(|line| line.strip_prefix("Slab:")).ok_or("/proc/meminfo: no Slab")?;
    let kib: u64 = line.trim().trim_end_matches("kB").trim().parse()?;
    Ok(kib * 1024)
}

impl Report {
    fn text(&self) -> String {
        let [a, b] = self.cores;
        let mut text = format!(
            "nanoseconds one way of one beside {} others, cores {a} and {b}; bytes for each of the others\n\n\
             {:<16}{:>22}{:>12}{:>12}{:>12}\n",
            self.endpoints - 1,
            "",
            "P50",
            "P99",
            "RESIDENT",
            "KERNEL"
        );
        let bytes = |bytes: Option<f64>| bytes.map_or("-".into(), |bytes| format!("{bytes:.0}"));
        for one in &self.results {
            text += &format!(
                "{:<16}{:>22}{:>12.0}{:>12}{:>12}\n",
                one.transport.name(),
                with_half(one.p50_ns, one.p50_half_ns),
                one.p99_ns,
                bytes(one.resident_bytes_each),
                bytes(one.kernel_bytes_each)
            );
        }
        let origin = self.origin.line();
        text + &format!("\n\u{b1}: half of what lies between the quartiles of the turns\n{origin}\n")
    }
}

/// One end of each.
pub enum Crowd {
    Tcp(Vec<TcpStream>),
    Unix(Vec<UnixStream>),
    Endpoints(Vec<Endpoint>),
}

/// Where the second process takes connections.
pub enum Door {
    Tcp(TcpListener),
    Unix(UnixListener),
    /// Endpoints need none.
    None,
}

/// A name that nobody else has, of the first process.
fn name(pid: u32) -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(format!("dp-bench-{pid}-crowd"))
}

impl Door {
    /// Opens it, and tells its port.
    pub fn open(transport: Transport, first_pid: u32) -> Result<(Door, u16)> {
        Ok(match transport {
            Transport::Tcp => {
                let listener = TcpListener::bind("127.0.0.1:0")?;
                let port = listener.local_addr()?.port();
                (Door::Tcp(listener), port)
            }
            Transport::UnixStream => (Door::Unix(UnixListener::bind_addr(&name(first_pid)?)?), 0),
            _ => (Door::None, 0),
        })
    }

    /// The second process's ends.
    pub fn take(self, count: usize) -> Result<Crowd> {
        room(count as u64)?;
        Ok(match self {
            Door::Tcp(door) => Crowd::Tcp(made(count, || Ok(door.accept()?.0))?),
            Door::Unix(door) => Crowd::Unix(made(count, || Ok(door.accept()?.0))?),
            Door::None => Crowd::endpoints(count)?,
        })
    }
}

impl Crowd {
    /// The first process's ends.
    pub fn connect(transport: Transport, port: u16, count: usize) -> Result<Crowd> {
        room(count as u64)?;
        Ok(match transport {
            Transport::Tcp => Crowd::Tcp(made(count, || Ok(TcpStream::connect(("127.0.0.1", port))?))?),
            Transport::UnixStream => {
                let name = name(std::process::id())?;
                Crowd::Unix(made(count, || Ok(UnixStream::connect_addr(&name)?))?)
            }
            _ => Crowd::endpoints(count)?,
        })
    }

    fn endpoints(count: usize) -> Result<Crowd> {
        Ok(Crowd::Endpoints(made(count, || Ok(Endpoint::open_on(Driver::User, 0)?))?))
    }

    fn fds(&self) -> Vec<BorrowedFd<'_>> {
        match self {
            Crowd::Tcp(all) => all.iter().map(AsFd::as_fd).collect(),
            Crowd::Unix(all) => all.iter().map(AsFd::as_fd).collect(),
            Crowd::Endpoints(all) => all.iter().map(AsFd::as_fd).collect(),
        }
    }
}

fn made<T>(count: usize, mut one: impl FnMut() -> Result<T>) -> Result<Vec<T>> {
    let mut all = Vec::with_capacity(count);
    for i in 0..count {
        all.push(one().map_err(|e| format!("number {} of {count}: {e}", i + 1))?);
    }
    Ok(all)
}

/// How many endpoints a process can have.
pub fn endpoints_here() -> Result<usize> {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    Ok((hard.saturating_sub(SPARE) / PER_ENDPOINT) as usize)
}

/// Lets this process have so many descriptors.
fn room(count: u64) -> Result<()> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    if count + SPARE > hard {
        return Err(format!(
            "{count} connections take as many descriptors, and the hard limit is {hard}; raise it (ulimit -Hn), or ask \
             for fewer"
        )
        .into());
    }
    if soft < hard {
        setrlimit(Resource::RLIMIT_NOFILE, hard, hard)?;
    }
    Ok(())
}

/// An end that is waited for together with all the others.
pub struct Watched {
    link: Fds,
    epoll: Epoll,
    _crowd: Crowd,
}

impl Watched {
    pub fn new(link: Fds, crowd: Crowd) -> Result<Watched> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        epoll.add(link.as_fd(), EpollEvent::new(EpollFlags::EPOLLIN, 0))?;
        for fd in crowd.fds() {
            epoll.add(fd, EpollEvent::new(EpollFlags::EPOLLIN, 1))?;
        }
        Ok(Watched { link, epoll, _crowd: crowd })
    }
}

impl Link for Watched {
    fn send(&mut self, message: &[u8]) -> io::Result<()> {
        self.link.send(message)
    }

    fn recv(&mut self, into: &mut [u8]) -> io::Result<usize> {
        // Nobody sends on the others, so the first that is ready is this one.
        let mut events = [EpollEvent::empty()];
        while again(|| self.epoll.wait(&mut events, EpollTimeout::NONE))? == 0 {}
        match events[0].data() {
            0 => self.link.recv(into),
            _ => Err(io::Error::other("something came where nobody sends")),
        }
    }
}
