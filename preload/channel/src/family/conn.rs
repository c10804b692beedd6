//! One TCP connection as its family sees it.
//!
//! ```text
//!   line 0   what it is: stage, side, arena, slot
//!   line 1   sending: lock, tail, kernel position
//!   line 2   receiving: lock, epoch, kernel position
//!   line 3   the two edges' addresses (this family's mapping), the receiver's spin
//!   line 4   for people: addresses, reason, process
//!   line 5   what is seldom looked at: rings that are full, hand-backs, the descriptor's mode
//!   line 6   the proof that both sides hold the connection, until the channel is made; the link
//! ```
//!
//! A thread that sends and one that receives write to lines of their own.

use super::lock::Lock;
use crate::mode::Mode;
use crate::tcp::Addr;
use dp_edge::ring::{Pos, Tail};
use dp_edge::sync::{AtomicU32, AtomicU64, Ordering};

/// How far a connection has come (PROTOCOLS E4, seen from one side).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Stage {
    /// The entry is not in use.
    Unused = 0,
    /// TCP; an offer may come.
    Candidate = 1,
    /// Client: the offer is posted.
    Offered = 2,
    /// Server: the offer is taken; from here on receives count first.
    Accepted = 3,
    /// Either direction may be in its ring.
    Live = 4,
    /// TCP for good.
    Plain = 5,
}

impl Stage {
    fn of(n: u32) -> Stage {
        match n {
            1 => Stage::Candidate,
            2 => Stage::Offered,
            3 => Stage::Accepted,
            4 => Stage::Live,
            5 => Stage::Plain,
            _ => Stage::Unused,
        }
    }
}

/// See the module.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct Conn {
    stage: AtomicU32,
    /// [`crate::slot::Side`] of this family; 0 unknown.
    pub side: AtomicU32,
    /// Index of the arena in its process's table.
    pub arena: AtomicU32,
    /// Slot in the arena.
    pub slot: AtomicU32,
    /// Generation of the slot.
    pub generation: AtomicU32,
    /// Calls that moved data, while a candidate.
    pub calls: AtomicU32,
    /// Flags, see the associated constants, and [`Conn::spoken`].
    pub flags: AtomicU32,
    /// Registrations in epoll sets; from bit 24 on, how many of them are said to rest ([`Conn::rests`]).
    pub watched: AtomicU32,
    /// Bit i: a member whose number is i modulo 64 waits for it in a way that cannot be counted, as in a set that it shares
    /// with another process: whoever waits elsewhere leaves it to the kernel (W18).
    pub armed_by: AtomicU64,
    /// Address of the slot's offer in this family's mapping.
    pub offer: AtomicU64,
    /// Address of the arena's groups of the *other* side.
    pub groups: AtomicU64,
    /// The arena ([`crate::arena::Arena::pack`]), in this family's mapping; 0: none.
    pub mapping: AtomicU64,

    /// The sender's lock.
    pub tx_lock: Lock,
    tail: AtomicU64,
    seen: AtomicU64,
    /// Bytes on TCP when the present ring epoch began, and the bells since (W1, E7).
    pub tx_kernel: AtomicU64,
    /// Kernel sends under way outside the lock.
    pub tx_flight: AtomicU32,
    /// Counts sends while `DP_CHAOS` is on.
    pub tx_full: AtomicU32,
    /// Bytes sent through the ring.
    pub tx_bytes: AtomicU64,
    /// Bells sent.
    pub bells: AtomicU64,

    /// The receiver's lock: everything but taking tokens from the ring.
    pub rx_lock: Lock,
    /// The receiver's epoch.
    pub rx_epoch: AtomicU64,
    /// Kernel bytes taken, data and bells.
    pub rx_kernel: AtomicU64,
    /// Kernel position up to which bytes were counted while their epoch was known: no need to count them again.
    pub rx_counted: AtomicU64,
    /// Kernel position from which on bytes are data in this TCP epoch; before it, bells.
    pub rx_data: AtomicU64,
    /// Bells drained, modulo 2^32. See [`Conn::begin_drain`].
    pub drained: AtomicU32,
    /// Kernel receives under way outside the lock.
    pub rx_flight: AtomicU32,
    /// Bytes received through the ring.
    pub rx_bytes: AtomicU64,

    /// Addresses of: tx word, which both lines follow, the slot's short tx ring, its own one, then the same of rx.
    pub edges: [AtomicU64; 6],
    /// Lines of each of the slot's own rings.
    pub lines: AtomicU32,
    /// Lines of the ring that the sender fills.
    pub tx_lines: AtomicU32,
    /// Nanoseconds a receive may look before it sleeps; adapts.
    pub rx_spin: AtomicU32,
    /// An error the shim met where the program did not ask (W13); its next call gets it.
    pub error: AtomicU32,

    local: [AtomicU64; 3],
    peer: [AtomicU64; 3],
    /// Why it is on TCP ([`super::Reason`]).
    pub reason: AtomicU32,
    /// A process that has it, and its descriptor there.
    pub pid: AtomicU32,
    /// See `pid`.
    pub fd: AtomicU32,
    /// A spare ring that is being taken; 0: none.
    pub claimed: AtomicU32,
    /// Times the sender handed back to TCP.
    pub back: AtomicU64,
    /// When it began to look for the other side, ns of the monotonic clock; afterwards see [`Conn::begin_drain`].
    pub since: AtomicU64,
    /// The program's SO_LINGER while the connection is [`Conn::OWES`]: the seconds, plus one if there is one.
    pub linger: AtomicU32,
    /// Times the ring was full since `full_since`.
    pub fulls: AtomicU32,
    /// Sends since something was received; see the sender's `listens`.
    pub alone: AtomicU32,
    /// What its rule says of how it is to be; see [`Conn::choose`].
    chosen: AtomicU32,
    /// When the count of these began, or of a stream's bytes, ns of the monotonic clock, and the sum of
    /// [`Conn::tx_bytes`] and [`Conn::tx_kernel`] by then.
    pub full_since: [AtomicU64; 2],
    /// The low half of `rx_bytes` when `alone` began.
    pub heard: AtomicU32,
    /// When `alone` began, or the kernel was asked since, in ticks of the sender's own.
    pub asked: AtomicU32,
    /// Whether its descriptor blocks.
    pub mode: Mode,
    /// Client, for [`super::Worth`]: while a candidate, the turn of its first offer, 0 if not asked yet; then the low half of
    /// the sum of both rings' positions when it became a channel.
    pub first: AtomicU32,

    /// Server: the client's arena in the process's table of guests.
    pub guest: AtomicU32,
    /// Answers (client) or offers (server) that proved to be wrong.
    pub wrong: AtomicU32,
    /// Client: the arenas, as bits, in which the offer was not taken.
    pub tried: AtomicU64,
    /// Server: the inode of the memory in which the offer was answered.
    pub memory: AtomicU64,
    /// Our random number: the client's nonce, or the server's challenge.
    pub nonce: AtomicU64,
    /// Server: the client's random number when it was answered. Client: the challenge that was looked at.
    pub expected: AtomicU64,
    /// What our socket shows as its proof of possession (PROTOCOLS I2); 0: nothing of ours.
    pub showing: AtomicU64,
    /// The pacing rate that the program believes it has, while our socket shows a number, and where it has shown one and
    /// had no limit before; else 0.
    pub pacing: AtomicU64,
    /// The link to the process at the other end, in the process that made the channel; 0: none.
    pub link: AtomicU64,
}

const _: () = {
    use core::mem::offset_of;
    assert!(offset_of!(Conn, tx_lock) == 64 && offset_of!(Conn, bells) < 128);
    assert!(offset_of!(Conn, rx_lock) == 128 && offset_of!(Conn, rx_bytes) < 192);
    assert!(offset_of!(Conn, edges) == 192 && offset_of!(Conn, local) == 256);
    assert!(offset_of!(Conn, back) == 320 && offset_of!(Conn, guest) == 384);
    assert!(offset_of!(Conn, chosen) == 348 && offset_of!(Conn, full_since) == 352);
};

/// The bits of a kernel position that are noted; nobody takes so many bells at a time.
const LOW: u32 = u32::MAX >> 1;

impl Conn {
    /// This side has shut down sending.
    pub const SHUT_WR: u32 = 4;
    /// This side has shut down receiving.
    pub const SHUT_RD: u32 = 8;
    /// Sending stays on TCP for good.
    pub const TX_TCP: u32 = 16;
    /// The program asked for TCP_NODELAY.
    pub const NODELAY: u32 = 32;
    /// A process holds it that is no member (there are too many already): nobody can tell when it is through.
    pub const UNCOUNTED: u32 = 128;
    /// The program asked for TCP_CORK.
    pub const CORK: u32 = 64;
    /// What was taken back from the ring, from [`Conn::owed`] on, is not on TCP yet; nothing else may go there before.
    pub const OWES: u32 = 256;
    /// Its slot's own ring was found too short: the next one is to be a spare one.
    pub const OUTGROWN: u32 = 512;
    /// Its short ring was found too short: when it is empty, it goes over to the slot's own one.
    pub const NARROW: u32 = 2048;
    /// There was no memory for a longer one.
    pub const SHORT: u32 = 1024;
    /// Flag: receives are told how much is left (TCP_INQ).
    pub const INQ: u32 = 4096;
    /// The program asks how much there is to read (FIONREAD), and may wait for an edge when it has taken as much.
    pub const COUNTS: u32 = 8192;
    /// Its rule demands a channel: where it cannot become one, it ends.
    pub const REQUIRED: u32 = 16384;
    /// It is over but for a thread of its last holder's that is still in the middle of it.
    pub const KEPT: u32 = 32768;
    /// One event of it was asked for (EPOLLONESHOT) in a set that relatives have as well.
    pub const FOR_ONE: u32 = 65536;
    /// Receives have, or once had, a time limit (SO_RCVTIMEO).
    pub const LIMITED: u32 = 131072;

    /// What one registration that rests adds to `watched`.
    const RESTS: u32 = 1 << 24;

    /// A registration was told its one event (EPOLLONESHOT), and nobody waits for it until interest is set anew; or somebody does
    /// again. Of very many some are not said to rest.
    pub fn rests(&self, rests: bool) {
        let step = |n: u32| match rests {
            true => n.checked_add(Conn::RESTS),
            false => n.checked_sub(Conn::RESTS),
        };
        let _ = self.watched.fetch_update(Ordering::SeqCst, Ordering::SeqCst, step);
    }

    /// Registrations in epoll sets, by the word that says how many.
    pub fn registrations(watched: u32) -> u32 {
        watched % Conn::RESTS
    }

    /// Registrations of which somebody may be told.
    pub fn waited_for(&self) -> u32 {
        let watched = self.watched.load(Ordering::SeqCst);
        Conn::registrations(watched).saturating_sub(watched / Conn::RESTS)
    }

    /// Bits of the flags that have the version of layouts that both ends speak.
    const SPOKEN: u32 = 24;

    /// Notes the version of layouts that both ends speak. Once, before it is live.
    pub fn speak(&self, version: u32) {
        self.clear(0xff << Conn::SPOKEN);
        self.set((version & 0xff) << Conn::SPOKEN);
    }

    /// That version; 0: it is not known yet.
    pub fn spoken(&self) -> u32 {
        self.flags.load(Ordering::Relaxed) >> Conn::SPOKEN
    }

    /// How far it has come.
    #[inline(always)]
    pub fn stage(&self) -> Stage {
        Stage::of(self.stage.load(Ordering::Acquire))
    }

    /// Sets how far it has come.
    pub fn set_stage(&self, s: Stage) {
        self.stage.store(s as u32, Ordering::SeqCst);
    }

    /// Makes the entry new.
    pub fn reset(&self, side: u32, local: Addr, peer: Addr) {
        self.side.store(side, Ordering::Relaxed);
        for a in [
            &self.calls,
            &self.flags,
            &self.watched,
            &self.tx_flight,
            &self.tx_full,
            &self.rx_flight,
            &self.drained,
            &self.reason,
            &self.error,
            &self.linger,
            &self.fulls,
            &self.claimed,
            &self.alone,
            &self.chosen,
            &self.heard,
            &self.asked,
            &self.wrong,
            &self.first,
        ] {
            a.store(0, Ordering::Relaxed);
        }
        for a in [
            &self.tx_kernel,
            &self.tx_bytes,
            &self.bells,
            &self.rx_epoch,
            &self.rx_kernel,
            &self.rx_counted,
            &self.rx_data,
            &self.rx_bytes,
            &self.back,
            &self.offer,
            &self.armed_by,
            &self.since,
            &self.full_since[0],
            &self.full_since[1],
            &self.mapping,
            &self.tried,
            &self.showing,
            &self.pacing,
            &self.link,
        ] {
            a.store(0, Ordering::Relaxed);
        }
        self.mode.reset();
        self.rx_spin.store(20_000, Ordering::Relaxed);
        self.tx_lock.renew();
        self.rx_lock.renew();
        self.set_addresses(local, peer);
        self.set_stage(Stage::Candidate);
    }

    /// Keeps what its rule says: calls before there is an offer, up to 65534, and how long a wait spins, up to a million
    /// nanoseconds, of which sixteen count as one. `None`: as for other connections.
    pub fn choose(&self, after: Option<u32>, spin: Option<u32>) {
        let half = |value: Option<u32>| value.map_or(0, |n| n.min(0xfffe) + 1);
        self.chosen.store(half(after) | half(spin.map(|ns| ns / 16)) << 16, Ordering::Relaxed);
    }

    /// Calls before there is an offer.
    pub fn after(&self) -> Option<u32> {
        (self.chosen.load(Ordering::Relaxed) & 0xffff).checked_sub(1)
    }

    /// How long a wait spins at most, ns.
    pub fn longest_spin(&self) -> Option<u32> {
        (self.chosen.load(Ordering::Relaxed) >> 16).checked_sub(1).map(|n| n * 16)
    }

    /// For `dp ls`.
    pub fn set_addresses(&self, local: Addr, peer: Addr) {
        for (to, from) in [(&self.local, local), (&self.peer, peer)] {
            let (mut lo, mut hi) = ([0; 8], [0; 8]);
            lo.copy_from_slice(&from.ip[..8]);
            hi.copy_from_slice(&from.ip[8..]);
            to[0].store(u64::from_le_bytes(lo), Ordering::Relaxed);
            to[1].store(u64::from_le_bytes(hi), Ordering::Relaxed);
            to[2].store((u64::from(from.scope) << 32) | u64::from(from.port), Ordering::Relaxed);
        }
    }

    fn addr(words: &[AtomicU64; 3]) -> Addr {
        let mut ip = [0; 16];
        ip[..8].copy_from_slice(&words[0].load(Ordering::Relaxed).to_le_bytes());
        ip[8..].copy_from_slice(&words[1].load(Ordering::Relaxed).to_le_bytes());
        let w = words[2].load(Ordering::Relaxed);
        Addr { ip, port: w as u16, scope: (w >> 32) as u32 }
    }

    /// This end's address.
    pub fn local(&self) -> Addr {
        Conn::addr(&self.local)
    }

    /// The other end's address.
    pub fn peer(&self) -> Addr {
        Conn::addr(&self.peer)
    }

    /// The sender's tail; under the sender's lock.
    #[inline(always)]
    pub fn tail(&self) -> Tail {
        Tail {
            pos: Pos::new(self.tail.load(Ordering::Relaxed)),
            seen: Pos::new(self.seen.load(Ordering::Relaxed)),
        }
    }

    /// Keeps the sender's tail; under the sender's lock.
    #[inline(always)]
    pub fn set_tail(&self, t: Tail) {
        self.tail.store(t.pos.raw(), Ordering::Relaxed);
        self.seen.store(t.seen.raw(), Ordering::Relaxed);
    }

    /// Where the rest begins that this end owes to TCP ([`dp_edge::ring::Cursor::pack`]); under the sender's lock. No
    /// stream is counted any more by then.
    pub fn owed(&self) -> &AtomicU64 {
        &self.full_since[0]
    }

    /// A receiver is about to take bells out of the kernel: it notes where it stands. Under the receiver's lock, as the rest; nobody
    /// looks for the other side any more.
    pub fn begin_drain(&self) {
        let (at, drained) = (self.rx_kernel.load(Ordering::Relaxed), self.drained.load(Ordering::Relaxed));
        self.since.store(u64::from(drained) << 32 | u64::from(at as u32 & LOW) << 1 | 1, Ordering::Relaxed);
    }

    /// It has taken `n`.
    pub fn end_drain(&self, n: usize) {
        self.rx_kernel.fetch_add(n as u64, Ordering::Relaxed);
        self.drained.fetch_add(n as u32, Ordering::Relaxed);
        self.forget_drain();
    }

    /// Nobody is taking bells.
    pub fn forget_drain(&self) {
        self.since.store(0, Ordering::Relaxed);
    }

    /// A receiver was left in the middle, and `at` bytes are taken from the kernel: what it had noted says how many of them are
    /// bells. Whoever is left in the middle of this does no harm: it is done again.
    pub fn inherit_drain(&self, at: u64) {
        let note = self.since.load(Ordering::Relaxed);
        if note & 1 != 0 {
            let taken = (at as u32).wrapping_sub((note >> 1) as u32) & LOW;
            self.drained.store(((note >> 32) as u32).wrapping_add(taken), Ordering::Relaxed);
        }
        self.rx_kernel.store(at, Ordering::Relaxed);
        self.rx_counted.store(0, Ordering::Relaxed);
        self.forget_drain();
    }

    /// Whether a flag is set.
    #[inline(always)]
    pub fn has(&self, flag: u32) -> bool {
        self.flags.load(Ordering::Relaxed) & flag != 0
    }

    /// Sets a flag.
    pub fn set(&self, flag: u32) {
        self.flags.fetch_or(flag, Ordering::SeqCst);
    }

    /// Clears a flag.
    pub fn clear(&self, flag: u32) {
        self.flags.fetch_and(!flag, Ordering::SeqCst);
    }
}
