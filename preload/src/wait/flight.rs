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
use crate::fdtable;
use crate::state;

/// Connections of one call that are counted. Of what is beyond, the kernel's readiness stays the truth for good.
const MOST: usize = 32;

/// The connections that are counted, by their entries in the table of descriptors.
///
/// This has no destructor, as [`crate::inside::Inside`] has none. What a thread leaves that is ended in the sleep never becomes a
/// channel.
#[must_use]
pub struct Flight {
    family: Option<Family>,
    entries: [u32; MOST],
    n: usize,
}

impl Flight {
    /// Counts what is no channel yet among `fds`. Also, whether one of those has become a channel just now.
    pub fn begin(fds: &[pollfd]) -> (Flight, bool) {
        let mut flight = Flight { family: state::family(), entries: [0; MOST], n: 0 };
        let mut moved = false;
        let Some(family) = flight.family else { return (flight, false) };
        for p in fds {
            let entry = fdtable::settled(p.fd);
            let Some(c) = fdtable::conn_of(entry).map(|i| Channel::new(family, p.fd, i)) else { continue };
            if !matches!(c.stage(), Stage::Candidate | Stage::Offered | Stage::Accepted) {
                continue;
            }
            if flight.n == MOST {
                if let Some(me) = state::member_if_joined() {
                    c.armed_by.fetch_or(1 << (me % 64), Ordering::SeqCst);
                }
                // Said, then asked again, as below.
                moved |= matches!(c.settled_stage(), Stage::Accepted | Stage::Live);
                continue;
            }
            c.rx_flight.fetch_add(1, Ordering::SeqCst);
            flight.entries[flight.n] = entry;
            flight.n += 1;
            // Counted, then asked again: the thread that moves the stage counts after it (candidate.rs).
            if matches!(c.settled_stage(), Stage::Accepted | Stage::Live) {
                flight.n -= 1;
                land(&c.conn.rx_flight);
                moved = true;
            }
        }
        (flight, moved)
    }

    /// Whether the connection with that entry is counted, so that it is no channel while this lasts.
    pub fn has(&self, entry: u32) -> bool {
        self.entries.iter().take(self.n).any(|counted| *counted == entry)
    }

    /// The sleep is over.
    pub fn end(self) {
        let (Some(family), Some(me)) = (self.family, state::member_if_joined()) else { return };
        for &entry in self.entries.iter().take(self.n) {
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
