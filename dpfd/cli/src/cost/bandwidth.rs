//! The paper's tests of bandwidth: 10 MB in one direction and an acknowledgement of 4 bytes, 10 MB in both, by one thread and
//! by two that share the endpoint.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use dp_measure::cost::bandwidth::{exchange, one_direction, packets, ACK};
use dp_measure::cost::probe::{Load, System};
use dp_measure::cost::report::{Bandwidth, Rate};
use dpfd::{Endpoint, Error};
use nix::poll::{poll, PollFd, PollFlags, PollTimeout};

use super::system::{Measured, KERNEL_BESIDE, KERNEL_PORTION};
use crate::pair::buffer;
use crate::pair::end::each;
use crate::pair::endpoints::{waited, SILENCE};
use crate::pair::exchange::{by_turns, threads};
use crate::pair::link::{again, Link};
use crate::pair::peer::Task;
use crate::pair::Result;

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
    pub fn turn(&mut self, way: &mut Measured<'_>, cores: Option<[usize; 2]>) -> Result<()> {
        let (m, n) = (self.packet, packets(self.packet));
        let trip = way.one_way(Load::whole(ACK))?;
        let ns = way.drained(m, n, false)?;
        self.one_way.push(one_direction(n, m, ns, trip));
        // No more than either way takes in while nobody receives, but one.
        let ahead = (KERNEL_PORTION / (m + KERNEL_BESIDE)).max(1);
        let ns = way.both(Task::Exchange { packet: m, packets: n, ahead }, |way| {
            let walk = way.buffer.walk(Load::whole(m));
            each!(&mut way.pair.end, link => Ok(by_turns(link, walk, n, ahead)?))
        })?;
        self.exchange.push(exchange(n, m, ns));
        if way.pair.end.endpoint().is_ok() {
            let ns = way.drained(m, n, true)?;
            self.eagain.push(one_direction(n, m, ns, trip));
            let [mine, theirs] = cores.map_or([None; 2], |cores| cores.map(Some));
            let ns = way.both(Task::Threads { packet: m, packets: n, core: theirs }, |way| {
                threads(way.pair.end.one()?, m, n, mine)
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

impl Measured<'_> {
    /// From the first packet until the acknowledgement is there, ns.
    fn drained(&mut self, packet: usize, packets: usize, eagain: bool) -> Result<f64> {
        self.ready(Task::Acknowledge { packet, packets })?;
        let mut from = self.buffer.walk(Load::whole(packet));
        let start = Instant::now();
        if eagain {
            let endpoint = self.pair.end.endpoint()?;
            endpoint.set_nonblocking(true)?;
            for _ in 0..packets {
                send_or_poll(endpoint, from.next())?;
            }
            endpoint.set_nonblocking(false)?;
        } else {
            each!(&mut self.pair.end, link => buffer::send(link, &mut from, packets))?;
        }
        each!(&mut self.pair.end, link => link.recv_all(&mut [0; ACK]))?;
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
    match endpoint.send(message) {
        Ok(()) => Ok(()),
        Err(Error::WouldBlock) => polled(endpoint.as_fd(), SILENCE, || endpoint.send(message)),
        Err(e) => Err(e.into()),
    }
}

/// Waits until there is room, for about so many seconds, and tries again.
fn polled(fd: BorrowedFd<'_>, most: u32, mut send: impl FnMut() -> dpfd::Result<()>) -> Result<()> {
    let (mut silence, mut second) = (0, Instant::now());
    loop {
        again(|| poll(&mut [PollFd::new(fd, PollFlags::POLLOUT)], PollTimeout::from(100u8)))?;
        match send() {
            Err(Error::WouldBlock) => {}
            other => return Ok(other?),
        }
        // Whether it waited or there was said to be room in vain.
        if second.elapsed() >= Duration::from_secs(1) {
            waited(&mut silence, most)?;
            second = Instant::now();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn who_never_has_room_is_not_waited_for_for_ever() {
        let (fd, _other) = UnixStream::pair().unwrap();
        let mut tries = 0;
        let gone = polled(fd.as_fd(), 1, || {
            tries += 1;
            Err(Error::WouldBlock)
        });
        assert!(gone.is_err_and(|why| why.to_string().contains("nothing came or went")) && tries > 1);
        let mut tries = 0;
        let sent = polled(fd.as_fd(), 1, || {
            tries += 1;
            if tries < 3 {
                Err(Error::WouldBlock)
            } else {
                Ok(())
            }
        });
        assert!(sent.is_ok() && tries == 3);
    }
}
