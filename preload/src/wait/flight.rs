//! Sleeps in the kernel on connections that are no channels yet.
//!
//! Whoever sleeps on a channel says so in its wake word (W2), and its sender rings for them. On a connection that becomes
//! one meanwhile nobody would know of the sleeper: another thread that waits there may look at the ring itself, or be
//! woken by an event, and no bell comes. So such sleeps are counted like receives that are under way, and the connection
//! becomes no channel before they are over.

use core::sync::atomic::{AtomicU32, Ordering};

use dp_channel::family::{Family, Stage};
use libc::pollfd;

use crate::channel::Channel;
use crate::{fdtable, kept, state};

/// Connections of one call that are counted without memory that has to be had first: the first of the list.
const FEW: usize = 32;

/// The connections that are counted, by their entries in the table of descriptors, each where it stands in the list; 0: none is.
///
/// This has no destructor, as [`crate::inside::Inside`] has none. What a thread leaves that is ended in the sleep never becomes a
/// channel.
#[must_use]
pub struct Flight {
    family: Option<Family>,
    first: [u32; FEW],
    /// Those behind these, as many as the list has; null: none is counted.
    more: *mut u32,
    n: usize,
}

impl Flight {
    /// Counts what is no channel yet among `fds`. Also, whether one of those has become a channel just now.
    pub fn begin(fds: &[pollfd]) -> (Flight, bool) {
        let n = fds.len().saturating_sub(FEW);
        let mut flight = Flight { family: state::family(), first: [0; FEW], more: core::ptr::null_mut(), n };
        let mut moved = false;
        let Some(family) = flight.family else { return (flight, false) };
        for (at, p) in fds.iter().enumerate() {
            let entry = fdtable::settled(p.fd);
            let Some(c) = fdtable::conn_of(entry).map(|i| Channel::new(family, p.fd, i)) else { continue };
            if !matches!(c.stage(), Stage::Candidate | Stage::Offered | Stage::Accepted) {
                continue;
            }
            let Some(place) = flight.place(at) else {
                // Without memory nobody could count it off: the kernel's readiness stays the truth for good.
                if let Some(me) = state::member_if_joined() {
                    c.armed_by.fetch_or(1 << (me % 64), Ordering::SeqCst);
                }
                // Said, then asked again, as below.
                moved |= matches!(c.settled_stage(), Stage::Accepted | Stage::Live);
                continue;
            };
            c.rx_flight.fetch_add(1, Ordering::SeqCst);
            *place = entry;
            // Counted, then asked again: the thread that moves the stage counts after it (candidate.rs).
            if matches!(c.settled_stage(), Stage::Accepted | Stage::Live) {
                *place = 0;
                land(&c.conn.rx_flight);
                moved = true;
            }
        }
        (flight, moved)
    }

    /// Where entry `at` of the list is noted. `None`: there is no memory.
    fn place(&mut self, at: usize) -> Option<&mut u32> {
        let Some(behind) = at.checked_sub(FEW) else { return self.first.get_mut(at) };
        if self.more.is_null() {
            let more = kept::take(self.bytes())?.cast::<u32>();
            // SAFETY: as many as fit, at the start of a page, ours alone.
            unsafe { more.write_bytes(0, self.n) };
            self.more = more;
        }
        self.more_mut().get_mut(behind)
    }

    fn bytes(&self) -> usize {
        self.n * size_of::<u32>()
    }

    fn more(&self) -> &[u32] {
        if self.more.is_null() {
            return &[];
        }
        // SAFETY: `n` of them were written, and are ours alone.
        unsafe { core::slice::from_raw_parts(self.more, self.n) }
    }

    fn more_mut(&mut self) -> &mut [u32] {
        if self.more.is_null() {
            return &mut [];
        }
        // SAFETY: the same, and borrowed alone.
        unsafe { core::slice::from_raw_parts_mut(self.more, self.n) }
    }

    /// Whether the connection with that entry, which stands `at` that place of the list, is counted, so that it is no channel while
    /// this lasts.
    pub fn has(&self, at: usize, entry: u32) -> bool {
        let counted = match at.checked_sub(FEW) {
            None => self.first.get(at),
            Some(behind) => self.more().get(behind),
        };
        entry != 0 && counted == Some(&entry)
    }

    /// The sleep is over.
    pub fn end(self) {
        self.land_all();
        if !self.more.is_null() {
            kept::give_back(self.more.cast(), self.bytes());
        }
    }

    fn land_all(&self) {
        let (Some(family), Some(me)) = (self.family, state::member_if_joined()) else { return };
        for &entry in self.first.iter().chain(self.more()).filter(|&&entry| entry != 0) {
            // Where the descriptor was closed meanwhile, its connection's place may be another's, whose count began anew: one
            // of this process's, or of a relative's. What others still have, and this process has not, stays counted.
            let same = fdtable::conn_of(entry).filter(|&i| fdtable::is_same_life(entry, i));
            if let Some(c) = same.map(|i| family.conn(i)).filter(|c| family.holders(c).has(me)) {
                land(&c.rx_flight);
            }
        }
    }
}

fn land(flight: &AtomicU32) {
    let _ = flight.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1));
}
