//! The offer of one connection and its states (PROTOCOLS E4, E9, E11).
//!
//! ```text
//!          client            server, CAS        client, CAS
//!   FREE ---------> OFFERED ------------> ACCEPTED --------> LIVE ---> DEAD
//!                      |   client, CAS       |                          |
//!                      +-------> DEAD <------+   both sides left: FREE -+
//! ```
//!
//! Nobody uses a ring before LIVE, so an offer nobody takes, or a stale one, never carries a byte. Every
//! transition carries the slot's generation: a late writer of an earlier connection changes nothing.
//!
//! While the slot is OFFERED both sides prove that they hold the connection (PROTOCOLS I2): the offer has the client's
//! `nonce`, the server answers with its `challenge`, and the client says by `shown` that its socket shows the proof. These
//! words are hints about when to look. What is believed is what the kernel says of the sockets.

use crate::layouts::Range;
use dp_edge::sync::{AtomicU32, AtomicU64, Ordering};

/// What a slot is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum State {
    /// Nobody's.
    Free = 0,
    /// Posted by the client.
    Offered = 1,
    /// Taken by the server; the client has yet to confirm.
    Accepted = 2,
    /// Confirmed: either side may switch its direction.
    Live = 3,
    /// Withdrawn, or over.
    Dead = 4,
}

impl State {
    fn of(word: u64) -> Option<State> {
        Some(match word as u8 {
            0 => State::Free,
            1 => State::Offered,
            2 => State::Accepted,
            3 => State::Live,
            4 => State::Dead,
            _ => return None,
        })
    }
}

/// What has become of a client's offer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// Nobody has taken it.
    Open,
    /// A server has, and waits for the client to confirm.
    Taken,
    /// Nobody will: it was withdrawn, or refused.
    Over,
}

/// Both ends of a connection as the client sees them: addresses v4-mapped, ports in host order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Tuple {
    /// The client's address.
    pub client: [u8; 16],
    /// The server's address.
    pub server: [u8; 16],
    /// The client's port.
    pub client_port: u16,
    /// The server's port.
    pub server_port: u16,
    /// IPv6 scope, 0 where there is none.
    pub scope: u32,
}

impl Tuple {
    /// Where the offer of this tuple is looked for in an index of `len` (a power of two) entries.
    #[inline]
    pub fn hash(&self, len: usize) -> usize {
        // Ports differ most; a multiplier spreads neighbours.
        let key = (u64::from(self.client_port) << 16) | u64::from(self.server_port);
        (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as usize & (len - 1)
    }
    /// As six words, the form in which it lies in shared memory.
    fn words(&self) -> [u64; 5] {
        let w = |b: &[u8]| u64::from_le_bytes([b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]]);
        let ports =
            (u64::from(self.client_port) << 48) | (u64::from(self.server_port) << 32) | u64::from(self.scope);
        [w(&self.client[..8]), w(&self.client[8..]), w(&self.server[..8]), w(&self.server[8..]), ports]
    }
}

/// An address, v4-mapped, and a port.
pub type End = ([u8; 16], u16);

/// A side's mark that it is through with the slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The end that called connect.
    Client = 1,
    /// The end that called accept.
    Server = 2,
}

/// The offer's two control lines.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Slot {
    state: AtomicU64,
    /// The sides that are through, as bits of [`Side`], with the generation they left: `generation << 8 | bits`.
    left: AtomicU64,
    /// The sides that have shared their end with another process (L6), as bits of [`Side`]. One of them may be killed
    /// between waking a group of watchers and sending the bell, and the connection stays open.
    pub shared: AtomicU32,
    /// The pid namespace in which the server's process has its number.
    space: AtomicU32,
    tuple: [AtomicU64; 5],
    /// The client socket's cookie (SO_COOKIE).
    pub cookie: AtomicU64,
    /// The cookie of the network namespace both sockets live in.
    pub netns: AtomicU64,
    /// The client's random number, a part of what both sockets have to show.
    pub nonce: AtomicU64,
    /// The server's random number, the other part; 0: no server has answered yet.
    pub challenge: AtomicU64,
    /// The challenge that the client's socket answers.
    pub shown: AtomicU64,
    /// The client's name of the connection by which it said hello to the server's process ([`named_in`]); 0: it is not kept.
    link: AtomicU64,
    /// The version of layouts that both speak, by the server's word, behind the generation that it stands for. Server families from
    /// before there were ranges leave it as it is.
    spoken: AtomicU64,
    /// The process that took the offer: `generation << 32 | low bits of space << 22 | pid`. Of another generation, as from a server
    /// that does not write it: not known.
    server: AtomicU64,
}

impl Default for Slot {
    fn default() -> Self {
        Slot {
            state: AtomicU64::new(0),
            left: AtomicU64::new(0),
            shared: AtomicU32::new(0),
            space: AtomicU32::new(0),
            tuple: Default::default(),
            cookie: AtomicU64::new(0),
            netns: AtomicU64::new(0),
            nonce: AtomicU64::new(0),
            challenge: AtomicU64::new(0),
            shown: AtomicU64::new(0),
            link: AtomicU64::new(0),
            spoken: AtomicU64::new(0),
            server: AtomicU64::new(0),
        }
    }
}

/// Linux has no greater number of a process.
const PID: u32 = (1 << 22) - 1;

fn named(generation: u32, pid: u32, space: u32) -> u64 {
    u64::from(generation) << 32 | u64::from(space << 22 | pid & PID)
}

/// In a name of a link: the lowest of the bits by which a process knows the names that it has made. They go up to the serial number, and
/// are 0 in those of client families from before there were such.
pub const LINK_MAKER: u32 = 10;

/// The name of a link as it is in a slot of `generation`: what a late writer of another one has put there is no name that somebody
/// knows for his own.
fn named_in(generation: u32, link: u64) -> u64 {
    link ^ u64::from(generation << LINK_MAKER)
}

fn word(generation: u32, state: State) -> u64 {
    (u64::from(generation) << 8) | state as u64
}

impl Slot {
    /// Generation and state, read once. `None` when the peer wrote nonsense.
    #[inline(always)]
    pub fn get(&self) -> Option<(u32, State)> {
        let w = self.state.load(Ordering::Acquire);
        Some(((w >> 8) as u32, State::of(w)?))
    }

    /// Whether the slot still is `generation` in `state`.
    #[inline(always)]
    pub fn is(&self, generation: u32, state: State) -> bool {
        self.state.load(Ordering::Acquire) == word(generation, state)
    }

    /// What has become of the offer of `generation`, by one look. With a look for each answer, an offer that the server took
    /// between the two would be neither open nor taken, and its slot given to another connection.
    pub fn fate(&self, generation: u32) -> Fate {
        match self.get() {
            Some((g, State::Offered)) if g == generation => Fate::Open,
            Some((g, State::Accepted)) if g == generation => Fate::Taken,
            _ => Fate::Over,
        }
    }

    /// Whether the slot still is that of `generation`, live or not.
    #[inline(always)]
    pub fn is_of(&self, generation: u32) -> bool {
        (self.state.load(Ordering::Acquire) >> 8) as u32 == generation
    }

    /// Client, owning the free slot: posts the offer of the next generation, which it returns.
    pub fn offer(&self, tuple: &Tuple, cookie: u64, netns: u64, nonce: u64) -> u32 {
        let generation = (self.state.load(Ordering::Relaxed) >> 8) as u32;
        let generation = generation.wrapping_add(1);
        self.left.store(u64::from(generation) << 8, Ordering::Relaxed);
        self.shared.store(0, Ordering::Relaxed);
        for (to, from) in self.tuple.iter().zip(tuple.words()) {
            to.store(from, Ordering::Relaxed);
        }
        self.cookie.store(cookie, Ordering::Relaxed);
        self.netns.store(netns, Ordering::Relaxed);
        self.nonce.store(nonce, Ordering::Relaxed);
        self.challenge.store(0, Ordering::Relaxed);
        self.shown.store(0, Ordering::Relaxed);
        self.link.store(0, Ordering::Relaxed);
        self.spoken.store(0, Ordering::Relaxed);
        // Release: all of the offer before its state.
        self.state.store(word(generation, State::Offered), Ordering::Release);
        generation
    }

    /// Whether the offer is for this connection.
    pub fn matches(&self, tuple: &Tuple, netns: u64) -> bool {
        self.netns.load(Ordering::Relaxed) == netns
            && self.tuple.iter().zip(tuple.words()).all(|(a, b)| a.load(Ordering::Relaxed) == b)
    }

    /// The tuple's two ends, client and server; for our own slots only, a peer could have changed it.
    pub fn ends(&self) -> Option<(End, End)> {
        let mut words = [0u64; 5];
        for (to, from) in words.iter_mut().zip(&self.tuple) {
            *to = from.load(Ordering::Relaxed);
        }
        let ip = |lo: u64, hi: u64| {
            let mut ip = [0; 16];
            ip[..8].copy_from_slice(&lo.to_le_bytes());
            ip[8..].copy_from_slice(&hi.to_le_bytes());
            ip
        };
        let ports = ((words[4] >> 48) as u16, (words[4] >> 32) as u16);
        (ports.0 != 0).then(|| ((ip(words[0], words[1]), ports.0), (ip(words[2], words[3]), ports.1)))
    }

    fn step(&self, generation: u32, from: State, to: State) -> bool {
        self.state
            .compare_exchange(
                word(generation, from),
                word(generation, to),
                Ordering::AcqRel,
                Ordering::Relaxed,
            )
            .is_ok()
    }

    /// Server: says which version both speak. Before it takes the offer.
    pub fn speak(&self, generation: u32, version: u32) {
        self.spoken.store((u64::from(generation) << 32) | u64::from(version), Ordering::Relaxed);
    }

    /// Client, once the offer was taken: the version that both speak, one of `ours`. What a server says that is none of them, or
    /// does not say, is the oldest: by that the arena can be read.
    pub fn spoken(&self, generation: u32, ours: Range) -> u32 {
        let word = self.spoken.load(Ordering::Relaxed);
        let version = word as u32;
        if (word >> 32) as u32 == generation && ours.has(version) {
            version
        } else {
            ours.oldest
        }
    }

    /// Server, before it takes the offer: process `pid` of pid namespace `space` does. A late writer of an earlier generation makes
    /// the server unknown, and no other one of it.
    pub fn is_taken_by(&self, generation: u32, pid: u32, space: u32) {
        self.space.store(space, Ordering::Relaxed);
        self.server.store(named(generation, pid, space), Ordering::Relaxed);
    }

    /// The process that took the offer, and its pid namespace, by its own word. `None`: not known, or others have its end, too.
    pub fn only_server(&self) -> Option<(u32, u32)> {
        let generation = (self.state.load(Ordering::Relaxed) >> 8) as u32;
        let (word, space) = (self.server.load(Ordering::Relaxed), self.space.load(Ordering::Relaxed));
        let pid = word as u32 & PID;
        (word == named(generation, pid, space)
            && self.shared.load(Ordering::Relaxed) & Side::Server as u32 == 0)
            .then_some((pid, space))
    }

    /// Server, before it takes the offer: by which link the client said hello, by the client's name of it. A late writer of an earlier
    /// generation makes it unknown whose the link is.
    pub fn is_linked_by(&self, generation: u32, link: u64) {
        let knows_its_own = link as u32 >> LINK_MAKER != 0;
        let word = if knows_its_own { named_in(generation, link) } else { link };
        self.link.store(word, Ordering::Relaxed);
    }

    /// Client: the name of that link; 0: there is none. Of a server that names it as it was told, nobody knows it for his own, and it is
    /// found by its place and its serial number nevertheless.
    pub fn link(&self) -> u64 {
        let generation = (self.state.load(Ordering::Relaxed) >> 8) as u32;
        let word = self.link.load(Ordering::Relaxed);
        let is_none = word >> 32 == 0;
        if is_none {
            0
        } else {
            named_in(generation, word)
        }
    }

    /// Server: takes the offer.
    pub fn accept(&self, generation: u32) -> bool {
        self.step(generation, State::Offered, State::Accepted)
    }

    /// Client: confirms; from now on either side may switch.
    pub fn confirm(&self, generation: u32) -> bool {
        self.step(generation, State::Accepted, State::Live)
    }

    /// Client: takes the offer back. False if the server was faster (then confirm, or close).
    pub fn withdraw(&self, generation: u32) -> bool {
        self.step(generation, State::Offered, State::Dead)
    }

    /// Server: takes its acceptance back. False if the client was faster to confirm.
    pub fn refuse(&self, generation: u32) -> bool {
        self.step(generation, State::Accepted, State::Dead)
    }

    /// Either side: no ring will be used (any more).
    pub fn kill(&self, generation: u32) {
        for from in [State::Accepted, State::Live] {
            self.step(generation, from, State::Dead);
        }
    }

    /// A side is through; true when both are, and the slot may be free again.
    pub fn leave(&self, generation: u32, side: Side) -> bool {
        self.kill(generation);
        let mut word = self.left.load(Ordering::Relaxed);
        // The other side writes here once, so an honest slot needs two tries at most.
        for _ in 0..8 {
            if word >> 8 != u64::from(generation) {
                return false; // the slot was given away by sock_diag's word (E11); not ours any more
            }
            // AcqRel: all that both sides did with the rings is done for whoever reuses the slot.
            match self.left.compare_exchange(word, word | side as u64, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return (word | side as u64) & 3 == 3,
                Err(now) => word = now,
            }
        }
        false
    }

    /// Whether both sides are through with the slot's present generation.
    pub fn both_left(&self) -> bool {
        let generation = self.state.load(Ordering::Relaxed) >> 8;
        self.left.load(Ordering::Acquire) == (generation << 8) | 3
    }
}

#[cfg(test)]
mod tests;
