//! K senders and one receiver: the gap that each of them sees.

use std::io;
use std::os::fd::AsFd;

use dp_measure::logp::probe::Load;
use dpfd::Dpid;
use nix::poll::{poll, PollFd, PollFlags, PollTimeout};

use super::peer::{self, Answer, Job};
use crate::bench::endpoints::OneEnd;
use crate::bench::lat::STOP;
use crate::bench::link::{again, Link, Transport};
use crate::bench::nodes::Nodes;
use crate::bench::peer::End;
use crate::bench::Result;
use crate::helper::Helper;

/// Numbers of the one endpoint that several send to, and of these, above those of pairs.
const HUB: Dpid = 20_000;
/// Turns of each number of senders, one number after the other.
pub const ROUNDS: u32 = 5;

/// The receiver's process and those of senders, which wait for what to do.
pub struct Crowd {
    receiver: Helper,
    senders: Vec<Helper>,
    /// How many the senders have.
    cores: usize,
    pairs: u16,
    nodes: Option<Nodes>,
}

impl Crowd {
    /// A receiver on its core, senders on the others in turns.
    pub fn start(
        receiver: usize,
        others: &[usize],
        most: u32,
        pairs: u16,
        nodes: Option<Nodes>,
    ) -> Result<Crowd> {
        let senders =
            (0..most as usize).map(|i| peer::start(others[i % others.len()])).collect::<Result<_>>()?;
        Ok(Crowd { receiver: peer::start(receiver)?, senders, cores: others.len(), pairs, nodes })
    }

    /// For each number of senders, and each round, the gap seen by each of them, in ns.
    pub fn gaps(
        &mut self,
        transport: Transport,
        load: Load,
        counts: &[u32],
        seconds: f64,
    ) -> Result<Vec<Vec<f64>>> {
        let most = self.senders.len();
        for i in 0..most {
            self.open(transport, load.size, i, most)?;
        }
        let mut gaps = vec![Vec::new(); counts.len()];
        for _ in 0..ROUNDS {
            for (&senders, gaps) in counts.iter().zip(&mut gaps) {
                gaps.push(self.turn(load, senders as usize, seconds)?);
            }
        }
        for helper in self.senders.iter().chain([&self.receiver]) {
            helper.tell(&Job::Close, &[])?;
            helper.answer::<Answer>()?;
        }
        Ok(gaps)
    }

    fn turn(&self, load: Load, senders: usize, seconds: f64) -> Result<f64> {
        let Load { size, reply, window } = load;
        self.receiver.tell(&Job::ReplyToAll { size, reply, senders }, &[])?;
        self.receiver.answer::<Answer>()?;
        for sender in &self.senders[..senders] {
            sender.tell(&Job::Stream { size, reply, window, seconds }, &[])?;
        }
        let mut sum = 0.0;
        for sender in &self.senders[..senders] {
            match (sender.answer()?, sender.answer()?) {
                (Answer::Ready, Answer::Gap(gap)) => sum += gap,
                _ => return Err("an answer out of turn".into()),
            }
        }
        self.receiver.answer::<Answer>()?;
        Ok(sum / senders as f64)
    }

    /// Whether so many have a core each.
    pub fn shares(&self, senders: u32) -> bool {
        senders as usize > self.cores
    }

    /// The way between one sender, of so many, and the receiver.
    fn open(&mut self, transport: Transport, size: usize, i: usize, senders: usize) -> Result<()> {
        let sender = &self.senders[i];
        let [ours, theirs] = transport.make(size, self.nodes.as_ref())?;
        if transport.is_endpoint() {
            if i == 0 {
                self.receiver.tell(&Job::Hub { transport, number: HUB, senders }, &theirs)?;
            }
            return sender.tell(&Job::Spoke { transport, mine: HUB + 1 + i as Dpid, hub: HUB }, &ours);
        }
        let pair = self.pairs;
        self.pairs += 1;
        self.receiver.tell(&Job::Open { transport, size, pair, first: false }, &theirs)?;
        sender.tell(&Job::Open { transport, size, pair, first: true }, &ours)
    }
}

/// One endpoint that all send to: replies go to whoever asked.
pub fn reply_at_hub(hub: &mut OneEnd, senders: usize, size: usize, reply: usize) -> io::Result<()> {
    let (mut request, reply) = (vec![0; size], vec![0; reply]);
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

/// One end for each sender, all of the same kind.
pub fn reply_to_all(ends: &mut [End], size: usize, reply: usize) -> Result<()> {
    let (mut channels, mut fds) = (Vec::new(), Vec::new());
    for end in ends {
        match end {
            End::Channel(end) => channels.push(end),
            End::Fds(end) => fds.push(end),
            _ => return Err("a way that is not for several senders".into()),
        }
    }
    by_polling(channels, size, reply)?;
    Ok(by_polling(fds, size, reply)?)
}

/// Sleeps until a descriptor has something, and takes one request from each that does.
fn by_polling<L: Link + AsFd>(mut fds: Vec<&mut L>, size: usize, reply: usize) -> io::Result<()> {
    let (mut request, reply) = (vec![0; size], vec![0; reply]);
    while !fds.is_empty() {
        let mut asked: Vec<PollFd> =
            fds.iter().map(|fd| PollFd::new(fd.as_fd(), PollFlags::POLLIN)).collect();
        again(|| poll(&mut asked, PollTimeout::NONE))?;
        let ready: Vec<bool> = asked.iter().map(|fd| fd.any().unwrap_or(false)).collect();
        let mut ended = Vec::new();
        for (i, fd) in fds.iter_mut().enumerate().filter(|(i, _)| ready[*i]) {
            fd.recv_all(&mut request)?;
            match request[size - 1] {
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
