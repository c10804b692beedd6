//! Possession is proven, not claimed (PROTOCOLS I2): who answers an offer must hold the other end of that connection.
//!
//! A process that holds a TCP socket can set its SO_MAX_PACING_RATE, and everybody in the network namespace can read that of
//! the very socket. So each side has its socket show a number that the other one expects there, and reads the other's:
//!
//! ```text
//!   client                         slot                        server
//!   offers                         nonce ------------------->  has its socket show S
//!   reads S by sock_diag  <------- challenge ----------------  and answers
//!   has its socket show C          shown ------------------->  reads C by sock_diag, maps, accepts
//!   confirms                                                   puts back what its socket had
//!   puts back what its socket had
//! ```
//!
//! S and C are digests of the memory's own number, of who opened the door, and of both sides' random numbers. With the
//! random numbers alone, somebody in between could hand them on, in memory of his own or in the client's: a client of a
//! squatter's door and a server that the squatter said hello to would prove themselves to each other, while he has both
//! memories. The digests of the two differ, since the doors do, and 61 bits cannot be hit upon.
//!
//! Rates that large limit nothing, and a program that asks is told its own ([`Channel::hidden_rate`]). One thing cannot be put back: a socket
//! that ever had a rate paces itself from then on (SK_PACING_NEEDED), by what its congestion control reckons. Between short
//! messages that is nothing. A bulk stream over TCP would set thousands of timers where it set a few, and took 1.8 times as
//! long with both ends on one CPU (`programs_bench --only handed-back`). A rate of 0 is the kernel's word for a rate that is
//! not known, and a socket that has it sends at once. So what goes back to TCP gets that ([`Channel::sends_at_once`]), and the program
//! is told that there is no limit, as there is none. The discipline `fq` alone takes 0 for a byte a second or less: where
//! `lo` has another discipline than none, the socket goes on pacing itself.

use core::sync::atomic::Ordering;

use dp_channel::tcp;
use dp_edge::sys::process;

use crate::channel::Channel;
use crate::{diag, loopback};

#[cfg(test)]
mod tests;

/// A number that nobody can guess, never 0.
pub fn random() -> Option<u64> {
    process::random().ok().map(|n| n | 1)
}

/// The rate of a socket without a limit.
const NO_LIMIT: u64 = u64::MAX;

/// The rate of a socket that sends at once although it once had a rate.
const AT_ONCE: u64 = 0;

impl Channel {
    /// Has our socket show `number`.
    pub fn show_proof(&self, number: u64) -> bool {
        self.put_proof_back();
        let Some(before) = self.hidden_rate().or_else(|| tcp::pacing(self.fd)) else { return false };
        if !tcp::set_pacing(self.fd, number) {
            return false;
        }
        self.pacing.store(before, Ordering::Relaxed);
        // Release: what the socket had before.
        self.showing.store(number, Ordering::Release);
        true
    }

    /// Whether our socket shows a number.
    pub fn shows_proof(&self) -> bool {
        self.showing.load(Ordering::Acquire) != 0
    }

    /// Gives our socket back the rate it had, unless the program has set one meanwhile.
    pub fn put_proof_back(&self) {
        let shown = self.showing.load(Ordering::Acquire);
        if shown != 0 {
            let own = self.pacing.load(Ordering::Relaxed);
            let is_ours = tcp::pacing(self.fd) == Some(shown);
            if is_ours {
                tcp::set_pacing(self.fd, own);
            }
            if !(is_ours && own == NO_LIMIT) {
                self.pacing.store(0, Ordering::Relaxed);
            }
            self.showing.store(0, Ordering::Release);
        }
    }

    /// Our socket's bytes go over TCP from here on: where it paces itself only because of a proof, it no longer does. One system
    /// call where that has been done already, none where there is nothing to do.
    pub fn sends_at_once(&self) {
        if self.pacing.load(Ordering::Relaxed) != NO_LIMIT || self.shows_proof() {
            return;
        }
        match tcp::pacing(self.fd) {
            Some(AT_ONCE) => {}
            Some(NO_LIMIT) if loopback::queues_nothing(tcp::netns(self.fd)) => {
                tcp::set_pacing(self.fd, AT_ONCE);
            }
            _ => self.pacing.store(0, Ordering::Relaxed),
        }
    }

    /// The program has set a rate of its own.
    pub fn rate_is_set_by_program(&self) {
        if !self.shows_proof() {
            self.pacing.store(0, Ordering::Relaxed);
        }
    }

    /// The program's own rate, where our socket has another one.
    pub fn hidden_rate(&self) -> Option<u64> {
        let own = self.pacing.load(Ordering::Relaxed);
        let ours = match self.showing.load(Ordering::Acquire) {
            0 if own == NO_LIMIT => AT_ONCE,
            0 => return None,
            shown => shown,
        };
        // The program may have set another one meanwhile.
        (tcp::pacing(self.fd) == Some(ours)).then_some(own)
    }

    /// The socket is no connection any more.
    pub fn gives_rate_back(&self) {
        self.put_proof_back();
        if let Some(own) = self.hidden_rate() {
            tcp::set_pacing(self.fd, own);
        }
    }

    /// Whether the socket at the other end of the connection that this was when its addresses were asked for shows `number`, by
    /// the kernel's word. Whether a descriptor still stands for that connection, the caller asks afterwards.
    pub fn other_end_shows(&self, netns: u64, number: u64) -> bool {
        diag::pacing(self.peer(), self.local(), netns) == Ok(number)
    }
}
