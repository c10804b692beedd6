//! Requests and their replies: both sides of them, and one side for many.

use std::io;
use std::os::fd::AsFd;
use std::time::Instant;

use dp_measure::logp::probe::Load;
use nix::poll::{poll, PollFd, PollFlags, PollTimeout};

use super::clock::{compute, Clock};
use super::end::End;
use super::endpoints::OneEnd;
use super::link::{again, Link};
use super::{Result, STOP};

/// What a requester needs beside a link.
pub struct Requester {
    load: Load,
    request: Vec<u8>,
    reply: Vec<u8>,
    pub clock: Clock,
}

impl Requester {
    pub fn new(clock: Clock) -> Requester {
        Requester {
            load: Load { size: 1, reply: 1, window: 1 },
            request: Vec::new(),
            reply: Vec::new(),
            clock,
        }
    }

    /// Requests like these from here on.
    pub fn of(mut self, load: Load) -> Requester {
        self.load(load);
        self
    }

    pub fn load(&mut self, load: Load) {
        self.load = load;
        self.request.clear();
        self.request.resize(load.size, 0);
        self.reply.resize(load.reply, 0);
    }

    #[inline(always)]
    pub fn burst<L: Link>(&mut self, link: &mut L, messages: u32, turns: u32) -> io::Result<f64> {
        let window = self.load.window;
        let start = Instant::now();
        for sent in 0..messages {
            if sent >= window {
                link.recv_all(&mut self.reply)?;
            }
            link.send(&self.request)?;
            compute(turns);
        }
        let took = self.clock.since(start);
        for _ in 0..messages.min(window) {
            link.recv_all(&mut self.reply)?;
        }
        Ok(took)
    }

    #[inline(always)]
    pub fn round_trips<L: Link>(&mut self, link: &mut L, trips: u32) -> io::Result<f64> {
        let start = Instant::now();
        for _ in 0..trips {
            link.send(&self.request)?;
            link.recv_all(&mut self.reply)?;
        }
        Ok(self.clock.since(start))
    }

    /// Requests as fast as replies allow, for so many seconds: nanoseconds for each.
    pub fn stream<L: Link>(&mut self, link: &mut L, seconds: f64) -> io::Result<f64> {
        let start = Instant::now();
        let mut sent = 0;
        while start.elapsed().as_secs_f64() < seconds {
            for _ in 0..64 {
                if sent >= u64::from(self.load.window) {
                    link.recv_all(&mut self.reply)?;
                }
                link.send(&self.request)?;
                sent += 1;
            }
        }
        let took = start.elapsed().as_nanos() as f64;
        for _ in 0..sent.min(u64::from(self.load.window)) {
            link.recv_all(&mut self.reply)?;
        }
        self.stop(link)?;
        Ok(took / sent as f64)
    }

    /// Tells the other end that no more requests come.
    pub fn stop<L: Link>(&mut self, link: &mut L) -> io::Result<()> {
        let last = self.request.len() - 1;
        self.request[last] = STOP;
        link.send(&self.request)?;
        self.request[last] = 0;
        Ok(())
    }
}

/// The replying end, until a request says stop.
pub fn reply<L: Link>(link: &mut L, load: Load) -> io::Result<()> {
    let (mut request, reply) = (vec![0; load.size], vec![0; load.reply]);
    loop {
        link.recv_all(&mut request)?;
        if request[load.size - 1] == STOP {
            return Ok(());
        }
        link.send(&reply)?;
    }
}

/// The same for so many senders: on one endpoint that all send to, or on an end for each, all of the same kind.
pub fn reply_to_all(ends: &mut [End], load: Load, senders: usize) -> Result<()> {
    if let [End::Endpoint(hub), ..] = ends {
        return Ok(reply_at_hub(hub, load, senders)?);
    }
    let (mut channels, mut fds) = (Vec::new(), Vec::new());
    for end in ends.get_mut(..senders).ok_or("no such way")? {
        match end {
            End::Channel(end) => channels.push(end),
            End::Fds(end) => fds.push(end),
            _ => return Err("a way that is not for several senders".into()),
        }
    }
    by_polling(channels, load)?;
    Ok(by_polling(fds, load)?)
}

/// Replies go to whoever asked.
fn reply_at_hub(hub: &mut OneEnd, load: Load, senders: usize) -> io::Result<()> {
    let (mut request, reply) = (vec![0; load.size], vec![0; load.reply]);
    let mut left = senders;
    while left > 0 {
        let (n, from) = hub.recv_from(&mut request)?;
        match request[n - 1] {
            STOP => left -= 1,
            _ => hub.send_to(&reply, from)?,
        }
    }
    Ok(())
}

/// Sleeps until a descriptor has something, and takes one request from each that does.
fn by_polling<L: Link + AsFd>(mut fds: Vec<&mut L>, load: Load) -> io::Result<()> {
    let (mut request, reply) = (vec![0; load.size], vec![0; load.reply]);
    while !fds.is_empty() {
        let mut asked: Vec<PollFd> =
            fds.iter().map(|fd| PollFd::new(fd.as_fd(), PollFlags::POLLIN)).collect();
        again(|| poll(&mut asked, PollTimeout::NONE))?;
        let ready: Vec<bool> = asked.iter().map(|fd| fd.any().unwrap_or(false)).collect();
        let mut ended = Vec::new();
        for (i, fd) in fds.iter_mut().enumerate().filter(|(i, _)| ready[*i]) {
            fd.recv_all(&mut request)?;
            match request[load.size - 1] {
                STOP => ended.push(i),
                _ => fd.send(&reply)?,
            }
        }
        for i in ended.into_iter().rev() {
            fds.swap_remove(i);
        }
    }
    Ok(())
}
