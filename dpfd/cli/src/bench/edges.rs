//! Two edges between the processes, one for each direction, used as an endpoint uses them.

use std::io;
use std::os::fd::OwnedFd;

use dp_edge::bell::Owed;
use dp_edge::message::{self, Head};
use dp_edge::pace::Pace;
use dp_edge::ring::Tail;
use dp_edge::segment::{Mapped, Segment};
use dp_edge::Error;
use nix::sched::sched_yield;
use nix::unistd::{read, write};

use super::link::{again, Link};
use super::peer;

/// Looks that find nothing, until the question whether the other process still lives: about 50 ms.
const LOOKS: u32 = 1 << 24;
/// Pauses after finding the ring full. Each look at the cursor takes its line from the receiver.
const PAUSES: u32 = 32;

/// One end of both edges.
pub struct Edges {
    tail: Tail,
    to_ring: Mapped,
    to: Segment,
    bell: OwnedFd,
    head: Head,
    pace: Pace,
    from_ring: Mapped,
    from: Segment,
    rung: OwnedFd,
    asleep: bool,
}

impl Edges {
    pub fn new([to, bell, from, rung]: [OwnedFd; 4], asleep: bool) -> io::Result<Edges> {
        let (to, from) = (Segment::open(to)?, Segment::open(from)?);
        if !asleep {
            from.word().make_hot();
        }
        Ok(Edges {
            tail: Tail::default(),
            to_ring: to.lines(),
            to,
            bell,
            head: Head::default(),
            pace: Pace::default(),
            from_ring: from.lines(),
            from,
            rung,
            asleep,
        })
    }

    /// The next message if one is there, for a receiver that looks at several edges.
    #[inline(always)]
    pub fn look(&mut self, into: &mut [u8]) -> io::Result<Option<usize>> {
        match self.head.recv_bytes(&self.from_ring, &self.from.rx().cursor, into) {
            Ok(n) => Ok(Some(n.min(into.len()))),
            Err(Error::Empty) => Ok(None),
            Err(e) => Err(io::Error::other(e)),
        }
    }

    #[cold]
    fn wait_for_room(&self, looks: &mut u32) -> io::Result<()> {
        if self.asleep {
            sched_yield()?;
            return Ok(());
        }
        (0..PAUSES).for_each(|_| core::hint::spin_loop());
        still_there(looks, PAUSES)
    }

    /// W2: says so, looks again, sleeps.
    #[cold]
    fn sleep(&mut self) -> io::Result<()> {
        self.from.word().sleep();
        if self.head.look(&self.from_ring) == Err(Error::Empty) {
            again(|| read(&self.rung, &mut [0; 8]))?;
        }
        self.from.word().awake();
        Ok(())
    }

    #[cold]
    fn ring(&self) -> io::Result<()> {
        write(&self.bell, &1u64.to_ne_bytes())?;
        Ok(())
    }
}

#[inline(always)]
fn still_there(looks: &mut u32, more: u32) -> io::Result<()> {
    *looks += more;
    if *looks >= LOOKS {
        *looks = 0;
        peer::alive()?;
    }
    Ok(())
}

impl Link for Edges {
    #[inline(always)]
    fn send(&mut self, message: &[u8]) -> io::Result<()> {
        let mut looks = 0;
        loop {
            match message::send_bytes(&self.to_ring, &mut self.tail, &self.to.rx().cursor, message) {
                Ok(()) => break,
                Err(Error::Full) => self.wait_for_room(&mut looks)?,
                Err(e) => return Err(io::Error::other(e)),
            }
        }
        match self.to.word().after_publish(&[], &self.to.rx().event) {
            Owed::Bell => self.ring(),
            _ => Ok(()),
        }
    }

    #[inline(always)]
    fn recv(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.head.recv_bytes(&self.from_ring, &self.from.rx().cursor, into) {
                Ok(n) => {
                    self.pace.got();
                    return Ok(n.min(into.len()));
                }
                Err(Error::Empty) if self.asleep => self.sleep()?,
                // No pause between two looks: the floor has none either.
                Err(Error::Empty) => {
                    if self.pace.nothing() % LOOKS == 0 {
                        peer::alive()?;
                    }
                }
                Err(e) => return Err(io::Error::other(e)),
            }
        }
    }
}
