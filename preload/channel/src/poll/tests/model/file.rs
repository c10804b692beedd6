//! A connection with its peer, and what is to be told of it.

use super::*;

#[derive(Debug, Clone, Default)]
pub struct File {
    /// Tokens put and taken.
    pub(super) put: u64,
    pub(super) taken: u64,
    /// What was sent through TCP: on its way, and arrived. Tokens of a channel, and bells, come behind it.
    pub(super) in_flight: u64,
    pub(super) on_tcp: u64,
    pub(super) counted: bool,
    pub(super) bells: u64,
    pub(super) bells_in_flight: u64,
    /// The wake word.
    pub(super) sleepers: u32,
    pub(super) others: u32,
    pub(super) hot: bool,
    pub(super) rung: bool,
    pub(super) by_event: bool,
    pub(super) watched: bool,
    pub(super) ended: bool,
    pub(super) announced: bool,
    /// The peer was killed with bytes unread, of which the kernel does not know.
    pub(super) unread: bool,
    pub(super) reset: bool,
    /// The kernel's own error was taken.
    pub(super) taken_error: bool,
    pub(super) error: bool,
    pub(super) shut: [bool; 2],
    pub(super) full: bool,
    pub(super) urgent: bool,
    /// It is no channel yet.
    pub(super) young: bool,
}

impl File {
    pub(super) fn is_in_ring(&self) -> bool {
        self.in_flight + self.on_tcp == 0
    }

    pub(super) fn has_next(&self) -> bool {
        self.is_in_ring() && self.put > self.taken
    }

    /// tcp_poll(): what is told of a socket with something to read, or not.
    pub(super) fn bits(&self, reads: bool, reset: bool, error: bool) -> i16 {
        let [writing, reading] = self.shut;
        let no_more = self.ended || reading || reset;
        let mut bits = 0;
        bits |= if reads || no_more { IN } else { 0 };
        bits |= if !self.full || writing || reset { OUT } else { 0 };
        bits |= if no_more { POLLRDHUP } else { 0 };
        bits |= if reset || no_more && writing { POLLHUP } else { 0 };
        bits |= if error { POLLERR } else { 0 };
        bits | if self.urgent { POLLPRI } else { 0 }
    }

    pub(super) fn kernel(&self) -> i16 {
        self.bits(self.on_tcp + self.bells > 0, self.reset, self.reset && !self.taken_error)
    }

    /// What the program is to see; `dead`: with a death that nobody but the machine can find.
    pub(super) fn truth(&self, dead: bool) -> i16 {
        let dead = dead && self.ended && self.unread;
        let error = self.reset && !self.taken_error || self.error || dead;
        self.bits(self.on_tcp > 0 || self.has_next(), self.reset || dead, error)
    }
}

impl File {
    pub(super) fn sleep(&mut self) {
        self.sleepers += 1;
        (self.rung, self.by_event) = (false, false);
    }

    pub(super) fn awake(&mut self) {
        self.sleepers -= 1;
        self.by_event &= self.sleepers > 0;
    }

    pub(super) fn heat(&mut self) {
        self.hot |= self.sleepers == 0 && !self.watched && !self.young;
    }
}
