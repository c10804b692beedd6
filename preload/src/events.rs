//! What happens to connections, for those who trace: static probes (USDT), which bpftrace(8), perf(1) and systemtap know; and
//! for those who read: the log ([`crate::log`]).
//!
//! A probe is an instruction that does nothing, and a note in the library's file that says where it is and which registers
//! hold what. Nobody is called, nothing is locked or allocated, so a handler may pass one as well; nor does the log more
//! than look at a word where `DP_LOG` asks for nothing. They stand where a
//! connection takes a step, never where bytes move.
//!
//! Each tells the descriptor, this end's port and the other one's; those that have a reason, its word: address and length.
//! dp-preload(7) lists them.

use dp_channel::family::Reason;
use dp_rules::config::log::Level;
use probe::probe;

use crate::channel::Channel;
use crate::log;

/// The descriptor and the two ports.
fn told(c: &Channel) -> (i32, u16, u16) {
    (c.fd, c.local().port, c.peer().port)
}

/// The client has posted its offer.
pub fn offer(c: &Channel) {
    let (fd, own, other) = told(c);
    probe!(dp, offer, fd, own, other);
    log::step(Level::Debug, "offer", c, None);
}

/// The server has taken it.
pub fn accept(c: &Channel) {
    let (fd, own, other) = told(c);
    probe!(dp, accept, fd, own, other);
    log::step(Level::Debug, "accept", c, None);
}

/// Both sides agreed: it is a channel.
pub fn live(c: &Channel) {
    let (fd, own, other) = told(c);
    probe!(dp, live, fd, own, other);
    log::live(c);
}

/// A sender goes back to TCP, for a while or for good.
pub fn hand_back(c: &Channel) {
    let (fd, own, other) = told(c);
    probe!(dp, hand_back, fd, own, other);
    log::step(Level::Debug, "hand_back", c, None);
}

/// It stays on TCP, or leaves the channel for good.
pub fn leave(c: &Channel, why: Reason) {
    let ((fd, own, other), word) = (told(c), why.word());
    probe!(dp, leave, fd, own, other, word.as_ptr(), word.len());
    log::step(Level::Info, "leave", c, Some(word));
}

/// It is reset, because bytes would be missing.
pub fn reset(c: &Channel, why: Reason) {
    let ((fd, own, other), word) = (told(c), why.word());
    probe!(dp, reset, fd, own, other, word.as_ptr(), word.len());
    log::step(Level::Warning, "reset", c, Some(word));
}
