//! Sending for a gateway: a message is with its receiver afterwards, or still with whoever sends it, and nowhere between.
//!
//! The calls of [`super::send`] may leave a message in the sender's own pair, for the service to take on; it is gone then
//! if the process is killed. A gateway acknowledges a message to another node, and so has to know that it is not.

use super::endpoint::UserEndpoint;
use super::link::{Destination, Refused};
use super::load::Load;
use super::packet::Delivery;
use super::shared::Command;
use crate::addr::Addr;
use crate::edge::parts::Parts;
use crate::error::{Error, Result};
use dp_edge::sys::process;

/// How long a receiver that is new may take to say that it has a pool, ns.
const POOL_TOLD: u64 = 5_000_000;

/// What became of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deposit {
    /// It is in the receiver's pool, or on its descriptor: this process may be killed.
    Done,
    /// It did not go: the receiver has no room at present, or none that is long enough.
    Full,
    /// It did not go: the receiver is not open, as far as is known.
    Absent,
}

impl UserEndpoint {
    /// Hands a message to its receiver, without waiting. Where it did not go, nobody tells when it would: the caller tries
    /// again. Once the receiver has it `published` is called, a few instructions later and before the receiver is told:
    /// whoever notes what was handed over notes it there, so that next to no kill comes between the two.
    ///
    /// # Errors
    ///
    /// [`Error::Denied`], [`Error::Closed`] (it ended for want of use); EMFILE, ENOMEM. A receiver that knows no immediates, or none that long while it
    /// reads plainly, is one without room.
    pub fn deposit(&self, to: Addr, msg: Parts<'_>, published: &mut dyn FnMut()) -> Result<Deposit> {
        let mut tx = self.tx();
        if self.is_retired() {
            return Err(Error::Closed);
        }
        let ix = self.link_to(&mut tx, Some(to))?;
        let Some(link) = tx.links.get_mut(ix) else { return Err(Error::Closed) };
        if link.refused == Some(Refused::User) {
            return Err(Error::Denied(to));
        }
        if link.is_to_be_found() {
            self.process.command(Command::Attach(self.entry.serial, to));
        }
        if !link.try_direct() {
            return Ok(Deposit::Absent);
        }
        // Nearly all receivers have pools, of which this endpoint is told a moment after it was told of them. Messages that go
        // plainly until then have the kernel between them and `published`.
        let plain_for = process::now().saturating_sub(link.plain_since);
        if matches!(link.destination, Destination::Plain(_)) && plain_for < POOL_TOLD {
            return Ok(Deposit::Full);
        }
        let beside = link.tagged(msg.beside());
        let mut made = None;
        let delivery =
            Load::of_one_attempt(msg).deliver(link, self.tag_for(beside, &mut made)?, published)?;
        if delivery == Delivery::Full {
            link.count_short();
        }
        if link.asks_for_longer() {
            self.process.command(Command::Outgrown(self.entry.serial, link.to));
        }
        match delivery {
            Delivery::Done => Ok(Deposit::Done),
            Delivery::Gone => {
                link.unlink();
                self.process.command(Command::Lost(self.entry.serial, link.to));
                Ok(Deposit::Absent)
            }
            Delivery::Full | Delivery::Busy | Delivery::Short | Delivery::NoWay | Delivery::TooLong(_) => {
                Ok(Deposit::Full)
            }
        }
    }

    /// Whether an endpoint that is reached has room now for a message of so many bytes. Nobody but this endpoint can use that up,
    /// unless the other one reads plainly.
    ///
    /// # Errors
    ///
    /// [`Error::Closed`].
    pub fn has_room(&self, to: Addr, bytes: usize) -> Result<bool> {
        let mut tx = self.tx();
        if self.is_retired() {
            return Err(Error::Closed);
        }
        Ok(tx.find(to).is_some_and(|ix| tx.links[ix].has_room(bytes)))
    }

    /// Whether that endpoint of this node is open, as far as is known. Who asks for the first time for one that is in the
    /// registry has it looked for; of others nothing is kept.
    ///
    /// # Errors
    ///
    /// As [`UserEndpoint::deposit`].
    pub fn reaches(&self, to: Addr) -> Result<bool> {
        let mut tx = self.tx();
        if self.is_retired() {
            return Err(Error::Closed);
        }
        if tx.find(to).is_none() && self.process.registry.look_up(to.dpid).is_none() {
            return Ok(false);
        }
        let ix = self.link_to(&mut tx, Some(to))?;
        let link = tx.links.get_mut(ix).ok_or(Error::Closed)?;
        let unknown = matches!(link.destination, Destination::Unknown);
        if unknown && self.process.registry.look_up(to.dpid).is_some() && link.is_to_be_found() {
            self.process.command(Command::Attach(self.entry.serial, to));
        }
        Ok(!matches!(link.destination, Destination::Unknown))
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use std::io::IoSlice;
    use std::os::fd::AsRawFd;
    use std::sync::atomic::Ordering;
    use std::time::{Duration, Instant};

    use super::super::testing;
    use super::*;

    /// Until the receiver has one.
    fn deposit(from: &UserEndpoint, to: Addr) {
        let pieces = [IoSlice::new(b"answer")];
        let end = Instant::now() + Duration::from_secs(10);
        while from.deposit(to, Parts::new(&pieces), &mut || ()).expect("memory") != Deposit::Done {
            assert!(Instant::now() < end, "{to:?} is there");
            std::thread::sleep(Duration::from_micros(200));
        }
    }

    #[test]
    fn one_that_reads_plainly_has_room_for_what_its_descriptor_takes() {
        let ((_from_fd, from), address) = (testing::open(0), Addr::local(7107));
        let (to_fd, to) = testing::open(address.dpid);
        let has_room = |bytes| from.has_room(address, bytes).expect("it is open");
        assert!(!has_room(1), "it is not known");
        deposit(&from, address);
        assert!(has_room(100_000) && !has_room(16 << 20));
        let (message, mut count) = ([7; 30_000], 1);
        let pieces = [IoSlice::new(&message)];
        while from.deposit(address, Parts::new(&pieces), &mut || ()).expect("memory") == Deposit::Done {
            count += 1;
        }
        assert!(!has_room(1), "behind {count} messages");
        for _ in 0..count {
            assert!(to.read_now(to_fd.as_raw_fd(), &mut vec![0; 1 << 16]).expect("no error").is_some());
        }
        assert!(has_room(100_000));
    }

    /// As who answers short programs, each of which ends.
    #[test]
    fn receivers_that_ended_are_looked_for_no_more_until_something_is_sent_there() {
        let (_fd, from) = testing::open(0);
        let numbers = 20_000..20_200;
        for dpid in numbers.clone() {
            let (_to_fd, to) = testing::open(dpid);
            to.start_pool(Some(64 << 10)).expect("a pool");
            deposit(&from, Addr::local(dpid));
        }
        let end = Instant::now() + Duration::from_secs(10);
        // Other tests of this process have some, too.
        while from.process.absent.load(Ordering::Relaxed) > 100 {
            assert!(Instant::now() < end, "they are looked for");
            std::thread::sleep(Duration::from_millis(5));
        }
        // One that comes back is found.
        let (_to_fd, to) = testing::open(numbers.start);
        to.start_pool(Some(64 << 10)).expect("a pool");
        deposit(&from, Addr::local(numbers.start));
    }
}
