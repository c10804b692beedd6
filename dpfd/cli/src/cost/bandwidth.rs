//! The paper's tests of bandwidth: 10 MB in one direction and an acknowledgement of 4 bytes, 10 MB in both, by one thread and
//! by two that share the endpoint.

use std::io;
use std::os::fd::AsFd;
use std::time::Instant;

use dp_measure::cost::bandwidth::{exchange, one_direction, packets, ACK};
use dp_measure::cost::probe::{Load, System};
use dp_measure::cost::report::{Bandwidth, Rate};
use dpfd::{Endpoint, Error};
use nix::poll::{poll, PollFd, PollFlags, PollTimeout};

use super::ends::{self, each, End, Walk, SPIN};
use super::pair::{Pair, KERNEL_BESIDE, KERNEL_PORTION};
use super::peer::Task;
use crate::bench::cores;
use crate::bench::endpoints::patiently;
use crate::bench::link::{again, Link};
use crate::bench::Result;
use crate::signals::Also;

/// How long a receiver spins that shares its core with the sender, ns: the library's default.
const SHARED_SPIN: u32 = 50_000;

/// What turns of one length of packets have brought, bytes in a second.
#[derive(Default)]
pub struct Turns {
    pub packet: usize,
    one_way: Vec<f64>,
    eagain: Vec<f64>,
    exchange: Vec<f64>,
    threads: Vec<f64>,
}

impl Turns {
    pub fn new(packet: usize) -> Turns {
        Turns { packet, ..Turns::default() }
    }

    /// One more of each test. `cores`: two more, for second threads, if there are.
    pub fn turn(&mut self, pair: &mut Pair<'_>, cores: Option<[usize; 2]>) -> Result<()> {
        let (m, n) = (self.packet, packets(self.packet));
        let trip = pair.one_way(Load::whole(ACK))?;
        let ns = pair.drained(m, n, false)?;
        self.one_way.push(one_direction(n, m, ns, trip));
        // No more than either way takes in while nobody receives, but one.
        let ahead = (KERNEL_PORTION / (m + KERNEL_BESIDE)).max(1);
        let ns = pair.both(Task::Exchange { packet: m, packets: n, ahead }, |pair| {
            let walk = pair.buffer.walk(Load::whole(m));
            Ok(each!(&mut *pair.end, link => by_turns(link, walk, n, ahead))?)
        })?;
        self.exchange.push(exchange(n, m, ns));
        if pair.end.endpoint().is_ok() {
            let ns = pair.drained(m, n, true)?;
            self.eagain.push(one_direction(n, m, ns, trip));
            let [mine, theirs] = cores.map_or([None; 2], |cores| cores.map(Some));
            let ns = pair.both(Task::Threads { packet: m, packets: n, core: theirs }, |pair| {
                threads(pair.end.endpoint()?, m, n, mine)
            })?;
            self.threads.push(exchange(n, m, ns));
        }
        Ok(())
    }

    pub fn result(&self) -> Bandwidth {
        let some = |turns: &Vec<f64>| (!turns.is_empty()).then(|| Rate::of(turns));
        Bandwidth {
            packet: self.packet,
            one_direction: Rate::of(&self.one_way),
            one_direction_eagain: some(&self.eagain),
            exchange: Rate::of(&self.exchange),
            exchange_threads: some(&self.threads),
        }
    }
}

impl Pair<'_> {
    /// From the first packet until the acknowledgement is there, ns.
    fn drained(&mut self, packet: usize, packets: usize, eagain: bool) -> Result<f64> {
        self.ready(Task::Drain { packet, packets })?;
        let mut from = self.buffer.walk(Load::whole(packet));
        let start = Instant::now();
        if eagain {
            let endpoint = self.end.endpoint()?;
            endpoint.set_nonblocking(true)?;
            for _ in 0..packets {
                send_or_poll(endpoint, from.next())?;
            }
            endpoint.set_nonblocking(false)?;
        } else {
            each!(&mut *self.end, link => ends::send(link, &mut from, packets))?;
        }
        each!(&mut *self.end, link => link.recv_all(&mut [0; ACK]))?;
        let ns = self.clock.since(start);
        self.ns()?;
        Ok(ns)
    }

    /// The same in both processes, which begin together: what it took either.
    fn both(&mut self, task: Task, mine: impl FnOnce(&mut Self) -> Result<f64>) -> Result<[f64; 2]> {
        self.ready(task)?;
        let mine = mine(self)?;
        Ok([mine, self.ns()?])
    }
}

/// The program waits for room by itself.
fn send_or_poll(endpoint: &Endpoint, message: &[u8]) -> Result<()> {
    loop {
        match endpoint.send(message) {
            Ok(()) => return Ok(()),
            Err(Error::WouldBlock) => {}
            Err(e) => return Err(e.into()),
        }
        again(|| poll(&mut [PollFd::new(endpoint.as_fd(), PollFlags::POLLOUT)], PollTimeout::from(100u8)))?;
    }
}

/// Meets the other process, then sends and receives so many packets, by turns; ns behind the meeting.
pub fn by_turns<L: Link>(link: &mut L, mut walk: Walk<'_>, packets: usize, ahead: usize) -> io::Result<f64> {
    link.send(&[0; ACK])?;
    link.recv_all(&mut [0; ACK])?;
    let start = Instant::now();
    let ahead = ahead.min(packets);
    ends::send(link, &mut walk, ahead)?;
    for _ in ahead..packets {
        ends::take(link, &mut walk, 1)?;
        ends::send(link, &mut walk, 1)?;
    }
    ends::take(link, &mut walk, ahead)?;
    Ok(start.elapsed().as_nanos() as f64)
}

/// The same with a thread that sends and one that receives, on `core` if there is one for it.
pub fn threads(endpoint: &Endpoint, packet: usize, packets: usize, core: Option<usize>) -> Result<f64> {
    patiently(|| endpoint.send(&[0; ACK]))?;
    ends::recv(endpoint, &mut [0; ACK])?;
    if core.is_none() {
        endpoint.set_spin(SHARED_SPIN);
    }
    let start = Instant::now();
    let received = std::thread::scope(|scope| {
        let receiver = scope.spawn(move || {
            let _ticks = Also::this_thread();
            if let Some(core) = core {
                cores::stay(core)?;
            }
            let mut into = vec![1; packet];
            for _ in 0..packets {
                ends::recv(endpoint, &mut into)?;
            }
            Ok::<(), io::Error>(())
        });
        let from = vec![1; packet];
        let sent = (0..packets).try_for_each(|_| patiently(|| endpoint.send(&from)));
        receiver.join().map_err(|_| "the receiving thread panicked")??;
        Ok::<(), Box<dyn std::error::Error>>(sent?)
    });
    let ns = start.elapsed().as_nanos() as f64;
    endpoint.set_spin(SPIN);
    received.map(|()| ns)
}

impl End {
    /// The endpoint, if it is one.
    pub fn endpoint(&self) -> Result<&Endpoint> {
        match self {
            End::Endpoint(port) => Ok(&port.0),
            End::Fds(_) => Err("no endpoint".into()),
        }
    }
}
