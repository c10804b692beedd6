//! Endpoints of the two processes: used in the library's way, plainly, or not at all. Those of the user-space driver are in
//! a folder of their own.
#![expect(unsafe_code, reason = "bytes of a message that the peer of a measurement leaves alone")]

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use dpfd::driver::user::process::Process;
use dpfd::driver::Driver;
use dpfd::{Addr, Dpid, Endpoint, Error, Message, Nid};
use nix::sys::resource::{getrlimit, setrlimit, Resource};
use nix::sys::socket::{setsockopt, sockopt};
use nix::sys::time::{TimeVal, TimeValLike};

use super::helper::alive;
use super::link::{Fds, Link};
use super::transport::Transport;
use super::{nodes, routes, Result};
use crate::signals;

/// The first number; each pair takes two.
const FIRST: u16 = 2000;
/// Bytes of the pool of one of several senders, who get replies only, and for each of them at their receiver. Their requests
/// are short.
const POOL_OF_MANY: usize = 1 << 20;
/// Of the receiver, where each sender gets half of what is left.
const LONGEST_POOL_OF_MANY: usize = 256 << 20;
/// How long a receiver spins before it sleeps, ns: it is to spin all the time.
pub const SPIN: u32 = 100_000_000;
/// What a program's does that says nothing, ns.
pub const USUAL_SPIN: u32 = 50_000;
/// Seconds in which nothing comes, though the other process is there and at it.
pub const SILENCE: u32 = 30;
/// How long two ends on two nodes may take to meet: a route that does not work is found out on the way.
const MET: Duration = Duration::from_secs(20);
/// How long endpoints may take to be gone after they were closed.
const GONE: Duration = Duration::from_secs(20);

/// Where these endpoints find each other, and nobody else's: removed at the end.
pub struct Folder(PathBuf);

impl Folder {
    /// This process and those it starts use it from here on.
    pub fn new() -> Folder {
        let path = std::env::temp_dir().join(format!("dp-bench-{}", std::process::id()));
        std::env::set_var("DP_RUNTIME_DIR", &path);
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The numbers of a pair: the own one first.
fn numbers(pair: u16, first: bool) -> [Dpid; 2] {
    let numbers = [FIRST + 2 * pair, FIRST + 2 * pair + 1];
    if first {
        numbers
    } else {
        [numbers[1], numbers[0]]
    }
}

/// Opens an endpoint, on the driver and the node that are this way's, and tells which node the other end is on.
fn open(transport: Transport, fds: &[OwnedFd], mine: Dpid) -> Result<(Endpoint, Nid)> {
    if let [own, other] = fds {
        let theirs = nodes::node(other)?;
        return Ok((nodes::inside(own, || Endpoint::open_on(Driver::Kernel, mine))??, theirs));
    }
    let driver = transport.driver().ok_or("not a way between endpoints")?;
    Ok((Endpoint::open_on(driver, mine)?, 0))
}

fn targeted(transport: Transport, fds: &[OwnedFd], [mine, theirs]: [Dpid; 2]) -> Result<Endpoint> {
    let (endpoint, nid) = open(transport, fds, mine)?;
    endpoint.target(Addr { nid, dpid: theirs })?;
    Ok(endpoint)
}

/// Receives look every second whether the other process is still there.
pub fn look_up_now_and_then(endpoint: &Endpoint) -> Result<()> {
    match endpoint.driver() {
        Driver::User => setsockopt(&endpoint.as_fd(), sockopt::ReceiveTimeout, &TimeVal::seconds(1))?,
        // No sockets, and they take no time-out.
        Driver::Kernel => look_up_in_all_calls(),
    }
    Ok(())
}

/// Sends look as well: what goes to another node has no room once that node, or who receives there, is gone, and SO_RCVTIMEO
/// ends no send.
pub fn look_up_in_all_calls() {
    signals::tick(Duration::from_secs(1));
}

/// An endpoint that is read and written by the library's calls.
pub struct OneEnd {
    pub endpoint: Endpoint,
    kind: Kind,
}

/// What its receives do.
enum Kind {
    /// Copy each message.
    Copying,
    /// Look at it where it lies.
    InPlace,
    /// Copy those of this endpoint on another node, to which it is to send by this route. Anybody's come who may send here,
    /// and late ones that were for an endpoint which had the number before.
    Met { there: Addr, route: String },
}

impl OneEnd {
    /// Of one of two, with a pool of so many bytes.
    pub fn new(
        transport: Transport,
        fds: &[OwnedFd],
        pair: u16,
        pool: Option<usize>,
        first: bool,
    ) -> Result<OneEnd> {
        let mut end = OneEnd::spinning(targeted(transport, fds, numbers(pair, first))?, pool)?;
        if transport == Transport::EndpointInPlace {
            end.kind = Kind::InPlace;
        }
        if transport == Transport::EndpointAsleep {
            end.endpoint.set_spin(0);
        }
        Ok(end)
    }

    /// Of several that send to one.
    pub fn spoke(transport: Transport, fds: &[OwnedFd], mine: Dpid, hub: Dpid) -> Result<OneEnd> {
        OneEnd::spinning(targeted(transport, fds, [mine, hub])?, Some(POOL_OF_MANY))
    }

    /// The one that so many send to.
    pub fn hub(transport: Transport, fds: &[OwnedFd], number: Dpid, senders: usize) -> Result<OneEnd> {
        let endpoint = open(transport, fds, number)?.0;
        let pool = match endpoint.driver() {
            // Half of it is for one sender, half of the rest for the next.
            Driver::User => (POOL_OF_MANY << senders.min(20)).min(LONGEST_POOL_OF_MANY),
            // All share it.
            Driver::Kernel => POOL_OF_MANY * senders,
        };
        OneEnd::spinning(endpoint, Some(pool))
    }

    fn spinning(endpoint: Endpoint, pool: Option<usize>) -> Result<OneEnd> {
        if let Some(bytes) = pool {
            patiently(|| endpoint.pool(bytes))?;
        }
        endpoint.set_spin(SPIN);
        look_up_now_and_then(&endpoint)?;
        Ok(OneEnd { endpoint, kind: Kind::Copying })
    }

    /// One that is to send to another node by the route of this name. Its receives look as long as those of any program: gateways
    /// look, too, and may have the same cores.
    pub fn by_route(route: &str, pool: Option<usize>) -> Result<OneEnd> {
        let endpoint = Endpoint::open_on(Driver::User, 0)?;
        if let Some(bytes) = pool {
            endpoint.pool(bytes)?;
        }
        endpoint.set_route(Some(route))?;
        look_up_in_all_calls();
        Ok(OneEnd { endpoint, kind: Kind::Copying })
    }

    /// Waits for the end that this one is to send to, which does the same. What comes before its greeting was for one that had
    /// this number before.
    pub fn meet(&mut self, route: &str, there: Addr, greeting: u64) -> Result<()> {
        self.endpoint.target(there)?;
        patiently(|| self.endpoint.send(&greeting.to_ne_bytes()))?;
        let (end, mut into) = (Instant::now() + MET, [0; 8]);
        loop {
            match self.endpoint.recv_from(&mut into) {
                Ok((8, from)) if from == there && into == greeting.to_ne_bytes() => break,
                Ok(_) | Err(Error::WouldBlock | Error::Interrupted) => {}
                Err(error) => return Err(error.into()),
            }
            if Instant::now() > end {
                return Err(format!(
                    "route {route}: nothing came from endpoint {there} for {} s",
                    MET.as_secs()
                )
                .into());
            }
        }
        self.kind = Kind::Met { there, route: route.into() };
        self.goes_by_its_route()
    }

    /// How long its receives look, ns.
    pub fn spin(&self) -> u32 {
        match self.kind {
            Kind::Met { .. } => USUAL_SPIN,
            Kind::Copying | Kind::InPlace => SPIN,
        }
    }

    /// Messages that the receiver on another node has, or did have, and whether those are all that gateways know of; none on one
    /// node.
    pub fn arrived(&self) -> Result<Option<(u64, bool)>> {
        let Kind::Met { there, .. } = &self.kind else { return Ok(None) };
        Ok(Some(routes::arrived(self.endpoint.dpid(), *there)?))
    }

    /// An error if it has a route and that is not the one by which it sends.
    pub fn goes_by_its_route(&self) -> Result<()> {
        let Kind::Met { there, route } = &self.kind else { return Ok(()) };
        Ok(routes::goes_by(route, self.endpoint.dpid(), *there)?)
    }

    /// Receives a message and who sent it.
    #[inline(always)]
    pub fn recv_from(&mut self, into: &mut [u8]) -> io::Result<(usize, Addr)> {
        recv_from(&self.endpoint, into)
    }

    /// Receives the next message of the other end; the threads of a process may both do so.
    #[inline(always)]
    pub fn take(&self, into: &mut [u8]) -> io::Result<usize> {
        match self.kind {
            Kind::Copying => recv_from(&self.endpoint, into).map(|(len, _)| len),
            Kind::InPlace => recv(&self.endpoint, |message| look_at(message, into)),
            Kind::Met { there, .. } => loop {
                let (len, from) = recv_from(&self.endpoint, into)?;
                if len > 0 && from == there {
                    return Ok(len);
                }
            },
        }
    }

    pub fn send_to(&mut self, message: &[u8], to: Addr) -> io::Result<()> {
        patiently(|| self.endpoint.send_to(message, to))
    }
}

impl Link for OneEnd {
    #[inline(always)]
    fn send(&mut self, message: &[u8]) -> io::Result<()> {
        send(&self.endpoint, message)
    }

    #[inline(always)]
    fn recv(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.take(into)
    }
}

// The calls are made here and not through `patiently`: what is called by a closure is no part of its caller, and what it
// hands on costs as much as a short message does.

/// Sends a message.
#[inline(always)]
fn send(endpoint: &Endpoint, message: &[u8]) -> io::Result<()> {
    match endpoint.send(message) {
        Ok(()) => Ok(()),
        Err(error) => again(error, || endpoint.send(message)),
    }
}

/// Copies the next message, as far as `into` has room; how much that was, and who sent it.
#[inline(always)]
pub fn recv_from(endpoint: &Endpoint, into: &mut [u8]) -> io::Result<(usize, Addr)> {
    let (len, from) = match endpoint.recv_from(into) {
        Ok(copied) => copied,
        Err(error) => again(error, || endpoint.recv_from(into))?,
    };
    Ok((len.min(into.len()), from))
}

/// A call that was in vain once.
#[cold]
fn again<T>(error: Error, call: impl FnMut() -> dpfd::Result<T>) -> io::Result<T> {
    in_vain(error, &mut 0)?;
    patiently(call)
}

/// What is made of the next message.
#[inline(always)]
pub fn recv<T>(endpoint: &Endpoint, mut take: impl FnMut(&Message<'_>) -> T) -> io::Result<T> {
    let mut silence = 0;
    loop {
        match endpoint.recv() {
            Ok(message) => return Ok(take(&message)),
            Err(error) => in_vain(error, &mut silence)?,
        }
    }
}

/// What a call makes of it that can wait: it does so again, as long as the other process is there.
#[inline(always)]
pub fn patiently<T>(mut call: impl FnMut() -> dpfd::Result<T>) -> io::Result<T> {
    let mut silence = 0;
    loop {
        match call() {
            Ok(done) => return Ok(done),
            Err(error) => in_vain(error, &mut silence)?,
        }
    }
}

/// It waited for a second, or there is an error.
#[cold]
fn in_vain(error: Error, silence: &mut u32) -> io::Result<()> {
    if !matches!(error, Error::WouldBlock | Error::Interrupted) {
        return Err(error.into());
    }
    waited(silence, SILENCE)
}

/// It waited for a second more, of at most so many. They are counted and not read off a clock, so that a process that was stopped
/// for long does not give up when it goes on.
pub fn waited(silence: &mut u32, most: u32) -> io::Result<()> {
    alive()?;
    *silence += 1;
    if *silence < most {
        return Ok(());
    }
    Err(io::Error::other(
        "nothing came or went for half a minute: a message must have been lost, or the other node; `dp ls`, and of the kernel \
         driver `dp device ls`, tell of other nodes",
    ))
}

/// Adds up every word of the message where it lies, and tells the sum and the message's end instead of copying it.
#[inline(always)]
fn look_at(message: &Message<'_>, into: &mut [u8]) -> usize {
    // SAFETY: the sender is this program, which does not write to what it has sent.
    let bytes = unsafe { message.as_slice() };
    let (words, rest) = bytes.split_at(bytes.len() & !7);
    let word = |word: &[u8]| word.try_into().map_or(0, u64::from_ne_bytes);
    let sum = words.chunks_exact(8).fold(rest.len() as u64, |sum, eight| sum.wrapping_add(word(eight)));
    let n = bytes.len().min(into.len());
    if let (Some(last), Some(to)) = (bytes.last(), n.checked_sub(1)) {
        let told = n.min(8);
        into[..told].copy_from_slice(&sum.to_ne_bytes()[..told]);
        into[to] = *last;
    }
    n
}

/// An endpoint that is read and written as a descriptor.
pub fn plain(transport: Transport, pair: u16, first: bool) -> Result<Fds> {
    let endpoint = targeted(transport, &[], numbers(pair, first))?;
    // No end of file tells that the other process is gone.
    signals::tick(Duration::from_secs(1));
    let copy = || endpoint.as_fd().try_clone_to_owned();
    Ok(Fds::new([copy()?, copy()?]))
}

/// Makes them `count`.
pub fn idle(endpoints: &mut Vec<Endpoint>, count: usize, pooled: bool) -> Result<()> {
    let process = Process::current()?;
    let others = process.endpoints().len() - endpoints.len();
    endpoints.truncate(count);
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    if soft < hard {
        setrlimit(Resource::RLIMIT_NOFILE, hard, hard)?;
    }
    while endpoints.len() < count {
        let endpoint = Endpoint::open_on(Driver::User, 0)
            .map_err(|e| format!("endpoint {} of {count}: {e}", endpoints.len() + 1))?;
        if pooled {
            endpoint
                .pool(64 * 1024)
                .map_err(|e| format!("endpoint {} of {count}: {e}", endpoints.len() + 1))?;
        }
        endpoints.push(endpoint);
    }
    // Until the service has met or forgotten them all.
    let end = Instant::now() + GONE;
    while process.endpoints().len() != others + count {
        if Instant::now() > end {
            return Err("endpoints that were closed are still there".into());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    std::thread::sleep(Duration::from_millis(20));
    Ok(())
}

/// Bytes of this process that are resident.
pub fn resident() -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:")).ok_or("/proc/self/status: no VmRSS")?;
    let kib: u64 = line.trim().trim_end_matches("kB").trim().parse()?;
    Ok(kib * 1024)
}
