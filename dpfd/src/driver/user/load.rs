//! A message on its way, and how patient its sender is while there is no room.

use std::os::fd::OwnedFd;
use std::time::Duration;

use super::link::{Destination, Link};
use super::packet::Delivery;
use crate::edge::out_of_line;
use crate::edge::parts::Parts;
use crate::error::{Error, Result};
use dp_edge::sys::process;

/// How long a sender that may wait looks for room while nothing is taken, ns, for a short message and for each byte of
/// a longer one: its receiver may just be copying one as long, and whoever gives up copies it, too, into memory that the
/// kernel has to find and clear first. So looking costs no more than what it may save.
const ROOM_WAIT: (u64, u64) = (40_000, 1);
/// How long a sender of a message that is too long for its pair rests then, before it looks again; and bytes of the message
/// for which it does that once. The pair would take it as memory of its own, by way of two services, which costs more than
/// a receiver that was not on a CPU just now.
const REST: Duration = Duration::from_micros(20);
const REST_BYTES: usize = 8 << 10;
/// Rests for one message, at most.
const RESTS: usize = 128;
/// How often a future's message that is as long waits for its turn on the direct way, before it goes by the pair.
const TURNS: u8 = 16;
/// How long a message that only a pool can take waits for its receiver to get one, ns.
const POOL_WAIT: u64 = 1_000_000_000;

/// A message on its way: its bytes, and their copy in sealed memory once they need one.
#[derive(Debug)]
pub(super) struct Load<'a> {
    pub(super) msg: Parts<'a>,
    memory: Option<OwnedFd>,
    /// How often its sender rested, and whether it is about to.
    rests: usize,
    rests_now: bool,
    /// How often it may wait for a turn, where that takes no thread.
    turns: u8,
    /// Its sender keeps nothing of it until the next attempt: no memory is made for one that has no room.
    spares: bool,
}

impl<'a> Load<'a> {
    pub(super) fn new(msg: Parts<'a>) -> Load<'a> {
        Load { msg, memory: None, rests: 0, rests_now: false, turns: 0, spares: false }
    }

    /// For one attempt, which is made again from the beginning.
    pub(super) fn of_one_attempt(msg: Parts<'a>) -> Load<'a> {
        Load { spares: true, ..Load::new(msg) }
    }

    pub(super) fn of_a_future(msg: Parts<'a>) -> Load<'a> {
        // For a short one the kernel is not even asked what the pair takes.
        let turns = if msg.len() < REST_BYTES { 0 } else { TURNS };
        Load { turns, ..Load::new(msg) }
    }

    /// Its bytes, unless they were copied already.
    pub(super) fn near(&self) -> Option<Parts<'a>> {
        self.memory.is_none().then_some(self.msg)
    }

    /// In memory of its own.
    pub(super) fn memory(&mut self) -> Result<&OwnedFd> {
        if self.memory.is_none() {
            self.memory = Some(out_of_line::make(&self.msg).map_err(Error::io("memfd_create"))?);
        }
        self.memory.as_ref().ok_or(Error::Closed)
    }

    /// To the receiver, if its link is direct; `published` as in [`Link::deliver`].
    pub(super) fn deliver(
        &mut self,
        link: &mut Link,
        tag: &OwnedFd,
        published: &mut dyn FnMut(),
    ) -> Result<Delivery> {
        if self.memory.is_none() {
            match link.deliver(&self.msg, tag, published) {
                Delivery::TooLong(_) if matches!(link.destination, Destination::Pool { .. }) => {}
                other => return Ok(other),
            }
            if self.spares && !link.has_room(self.msg.len()) {
                return Ok(Delivery::Full);
            }
        }
        let beside = self.msg.beside();
        Ok(link.deliver_out_of_line(self.memory()?, beside, tag, published))
    }

    /// How long to look for room for it, ns.
    pub(super) fn room_wait(&self) -> u64 {
        if self.rests > 0 {
            return 0;
        }
        ROOM_WAIT.0 + ROOM_WAIT.1 * self.msg.len() as u64
    }

    /// Whether its sender, if it waits, should rest a moment: for a message longer than what the pair takes. Neither is
    /// asked for a short one. Counted, not timed: a program's clock may stand still.
    pub(super) fn rests(&mut self, waits: impl FnOnce() -> bool, pair: impl FnOnce() -> usize) -> bool {
        let worth = (self.msg.len() / REST_BYTES).min(RESTS);
        self.rests_now = self.rests < worth && waits() && self.msg.len() > pair();
        self.rests += usize::from(self.rests_now);
        self.rests_now
    }

    /// Whether it waits for its turn on the direct way: if it is too long for the pair, and may.
    pub(super) fn waits_for_a_turn(&mut self, pair: impl FnOnce() -> usize) -> bool {
        let waits = self.turns > 0 && self.msg.len() > pair();
        self.turns -= u8::from(waits);
        waits
    }

    /// How long to rest before the next attempt, if that is what the last one was for.
    pub(super) fn rest(&mut self) -> Option<Duration> {
        core::mem::take(&mut self.rests_now).then_some(REST)
    }

    /// A receiver that reads plainly cannot take it; one that is about to get a pool can.
    pub(super) fn too_long(&self, link: &Link, limit: usize) -> Result<()> {
        if link.plain_since > 0 && process::now().saturating_sub(link.plain_since) > POOL_WAIT {
            return Err(Error::TooLong { len: self.msg.len(), to: link.to, limit });
        }
        Ok(())
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use std::io::IoSlice;
    use std::sync::atomic::Ordering;

    use super::super::endpoint::MAX_MESSAGE;
    use super::super::testing;
    use super::*;
    use crate::addr::Addr;

    /// How long its sender looks, ns, and how often it rests, for a pair of 200 kB.
    fn patience(len: usize) -> (u64, usize) {
        let msg = vec![0; len];
        let msg = [IoSlice::new(&msg)];
        let mut load = Load::new(Parts::new(&msg));
        let looks = load.room_wait();
        let rests =
            std::iter::repeat_with(|| load.rests(|| true, || 200_000)).take_while(|&again| again).count();
        (looks, rests)
    }

    #[test]
    fn who_sends_a_long_message_is_as_patient_as_it_takes_to_copy() {
        assert_eq!(patience(8), (40_008, 0));
        assert_eq!(patience(200_000), (240_000, 0));
        assert_eq!(patience(1 << 18), (302_144, 32));
        assert_eq!(patience(1 << 20), (1_088_576, 128));
        assert_eq!(patience(MAX_MESSAGE), (16_817_216, 128));
    }

    /// Else whatever is sent joins those that are queued already.
    #[test]
    fn who_sends_long_messages_without_a_pause_comes_to_the_direct_way() {
        const COUNT: u64 = 300;
        let ((fd, from), address) = (testing::open(0), Addr::local(7105));
        let sender = std::thread::spawn(move || {
            let msg = vec![0; 1 << 20];
            (0..COUNT).for_each(|_| testing::send(&from, &fd, Some(address), &msg).expect("room"));
            (from, fd)
        });
        // Until as many are queued as can be.
        std::thread::sleep(Duration::from_millis(50));
        let (to_fd, to) = testing::open(address.dpid);
        to.start_pool(Some(8 << 20)).expect("a pool");
        to.max_spin.store(1_000_000_000, Ordering::Relaxed);
        for _ in 0..COUNT {
            let got = testing::recv(&to, &to_fd).expect("a message");
            assert_eq!(got.size(), 1 << 20);
            to.release(got.number);
        }
        let (from, _fd) = sender.join().expect("the sender");
        let out_of_line: u64 = from.tx().links.iter().map(Link::out_of_line).sum();
        assert!(out_of_line < COUNT / 3, "{out_of_line} of {COUNT} messages had memory of their own");
    }

    #[test]
    fn a_message_that_is_deposited_in_vain_is_not_copied_each_time() {
        use super::super::deposit::Deposit;
        use crate::edge::out_of_line::MADE;
        let ((_from_fd, from), address) = (testing::open(0), Addr::local(7106));
        let (_to_fd, to) = testing::open(address.dpid);
        to.start_pool(Some(1 << 20)).expect("a pool");
        let long = vec![1; 3 << 20];
        let pieces = [IoSlice::new(&long)];
        let deposit = || from.deposit(address, Parts::new(&pieces), &mut || ()).expect("memory");
        let end = std::time::Instant::now() + Duration::from_secs(10);
        while deposit() != Deposit::Done {
            assert!(std::time::Instant::now() < end, "the first has room");
            std::thread::sleep(Duration::from_millis(1));
        }
        MADE.with(|made| made.set(0));
        (0..1000).for_each(|_| assert_eq!(deposit(), Deposit::Full, "nobody has read the first"));
        assert_eq!(MADE.with(std::cell::Cell::get), 0);
    }

    #[test]
    fn a_futures_short_message_asks_nothing_of_the_kernel_and_waits_for_no_turn() {
        let (short, long) = ([0; 8], vec![0; 1 << 20]);
        let (short, long) = ([IoSlice::new(&short)], [IoSlice::new(&long)]);
        assert!(!Load::of_a_future(Parts::new(&short)).waits_for_a_turn(|| panic!("asked")));
        assert!(!Load::new(Parts::new(&long)).waits_for_a_turn(|| panic!("asked")));
        let mut load = Load::of_a_future(Parts::new(&long));
        assert!(!load.waits_for_a_turn(|| 1 << 20), "the pair takes it");
        let turns = std::iter::repeat_with(|| load.waits_for_a_turn(|| 200_000)).take_while(|&again| again);
        assert_eq!(turns.count(), usize::from(TURNS));
    }

    #[test]
    fn it_looks_once_and_then_rests() {
        let msg = vec![0; 1 << 20];
        let msg = [IoSlice::new(&msg)];
        let mut load = Load::new(Parts::new(&msg));
        assert!(load.rests(|| true, || 200_000) && load.rest() == Some(REST) && load.rest().is_none());
        assert_eq!(load.room_wait(), 0);
        assert!(!load.rests(|| false, || 200_000) && load.rest().is_none());
    }
}
