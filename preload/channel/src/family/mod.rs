//! What the processes of one program share: its connections, its members, why connections stayed on TCP.
//!
//! A program family is a process and what it forks. It shares one memfd: children inherit the mapping,
//! `dp ls` opens it read-only through /proc. Peers never see it, so what is written here is believed by
//! the family (and by nobody else).
//!
//! ```text
//!   0        header: magic, version, counters, reasons
//!   4 KiB    256 members, 64 bytes each
//!   20 KiB   bitmap of connections in use
//!   28 KiB   connections, 448 bytes each (sparse: memory is used as they are)
//!   then     who has them, 40 bytes each
//!   then     64 arenas this family made as a client, and their slots
//! ```

mod arenas;
mod conn;
mod end;
mod holders;
mod lock;
mod member;
mod reason;
mod sender;
mod view;
mod worth;

pub use arenas::{Id, OwnArena, ARENAS, SLOTS};
pub use conn::{Conn, Stage};
pub use end::End;
pub use holders::{Added, Holders};
pub use lock::{stranger, Held, Lock};
pub use member::{can_tell_of, forked, is_gone_without_place, space, start_of, Member, MEMBERS};
pub use reason::Reason;
pub use sender::{Mark, Sender};
pub use view::{Offer, Snapshot, View};
pub use worth::Worth;

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use crate::layouts;
use dp_edge::segment::{map_undumped, sealed_memory};
use dp_edge::sync::{AtomicU32, AtomicU64, Ordering};

/// First word: "DPFAMLY1", little endian.
pub const MAGIC: u64 = u64::from_le_bytes(*b"DPFAMLY1");
/// The shim's version, as text.
pub const SHIM: &str = env!("CARGO_PKG_VERSION");
/// Most connections a family tracks at once; further ones stay on TCP (reason `slots`).
pub const CONNS: usize = 1 << 16;
/// Name of the ELF note in which the shim's file tells its version.
pub const NOTE: &[u8] = b"dp-shim\0";
/// Name of the memory, as /proc/PID/fd shows it.
pub const NAME: &core::ffi::CStr = c"dp-family";

const MEMBERS_AT: usize = 4096;
const BITMAP_AT: usize = 20 * 1024;
const CONNS_AT: usize = 28 * 1024;
const HOLDERS_AT: usize = CONNS_AT + CONNS * size_of::<Conn>();
/// What `dp` does not read begins here.
const ARENAS_AT: usize = HOLDERS_AT + CONNS * size_of::<Holders>();
/// Bytes of the whole memory, sparse.
pub const LEN: usize = ARENAS_AT + ARENAS * size_of::<OwnArena>();

const _: () =
    assert!(core::mem::offset_of!(Header, version) == 8 && core::mem::offset_of!(Header, shim) == 16);
const _: () = assert!(size_of::<Conn>() == 448);
const _: () = assert!(CONNS / 8 <= CONNS_AT - BITMAP_AT);
const _: () = assert!(ARENAS_AT % 4096 == 0 && LEN < 48 << 20);
const _: () = assert!(size_of::<Header>() <= MEMBERS_AT);
const _: () = assert!(MEMBERS * size_of::<Member>() <= BITMAP_AT - MEMBERS_AT);
const _: () = assert!(size_of::<Holders>() == 40 && HOLDERS_AT % 4096 == 0);

/// Counters of the family since it began.
#[derive(Debug)]
#[repr(C)]
pub struct Header {
    magic: AtomicU64,
    version: AtomicU32,
    /// The shim's version, as text. From layout 6 on these three fields stay where they are.
    shim: [AtomicU64; 3],
    /// Connections that became channels.
    pub channels: AtomicU64,
    /// Bytes sent through rings of connections that are over.
    pub tx_done: AtomicU64,
    /// Bytes received through rings of connections that are over.
    pub rx_done: AtomicU64,
    /// Bells sent by connections that are over.
    pub bells_done: AtomicU64,
    /// Hand-backs to TCP of connections that are over.
    pub back_done: AtomicU64,
    /// Wake-ups that were lost, and found by a second look: there should be none.
    pub lost: AtomicU64,
    hint: AtomicU32,
    /// High-water mark of the bitmap, in connections.
    pub high: AtomicU32,
    /// High-water mark of the members.
    members: AtomicU32,
    /// Forks of processes that have connections.
    pub forks: AtomicU32,
    /// Numbers given to events, and at forks to sets: a process and its children share links, so no two of theirs have the same.
    pub events: AtomicU32,
    /// Held by whoever gives back what the dead had.
    pub clearing: Lock,
    reasons: [AtomicU64; 64],
    /// Epoll sets that were there when a process was forked, by their numbers.
    pub sets: [ForkedSet; FORKED_SETS],
}

/// Epoll sets of a family that are told from one another ([`ForkedSet`]).
pub const FORKED_SETS: usize = 64;

/// An epoll set that a process had when it forked another one.
#[derive(Debug)]
#[repr(C)]
pub struct ForkedSet {
    /// Processes that have inherited it and begun to use it.
    pub begun: AtomicU32,
    /// Threads that sleep in it, of the process that made it, with something hot. One that was ended there stays counted.
    pub asleep: AtomicU32,
}

/// The family's memory, mapped.
#[derive(Debug, Clone, Copy)]
pub struct Family {
    base: *mut u8,
}

/// A short text as the header keeps it.
fn text_words(text: &str) -> [u64; 3] {
    let mut bytes = [0u8; 24];
    let n = text.len().min(bytes.len());
    bytes[..n].copy_from_slice(&text.as_bytes()[..n]);
    core::array::from_fn(|i| u64::from_le_bytes(core::array::from_fn(|k| bytes[i * 8 + k])))
}

// SAFETY: everything in the mapping is reached through atomics.
unsafe impl Send for Family {}
// SAFETY: as above.
unsafe impl Sync for Family {}

impl Family {
    /// Makes the memory of a new family.
    ///
    /// # Errors
    ///
    /// EMFILE, ENFILE, ENOMEM.
    pub fn create() -> io::Result<(Family, OwnedFd)> {
        let fd = sealed_memory(NAME, LEN)?;
        let family = Family { base: map_undumped(fd.as_fd(), LEN)? };
        family.header().version.store(layouts::family().newest, Ordering::Relaxed);
        for (to, from) in family.header().shim.iter().zip(text_words(SHIM)) {
            to.store(from, Ordering::Relaxed);
        }
        family.header().magic.store(MAGIC, Ordering::Release);
        Ok((family, fd))
    }

    #[inline(always)]
    fn at<T>(&self, off: usize) -> &'static T {
        // SAFETY: offsets are constants and masked indexes below LEN; the mapping stays for the life of
        // the process; T is made of atomics.
        unsafe { &*self.base.add(off).cast::<T>() }
    }

    /// The family's counters.
    pub fn header(&self) -> &'static Header {
        self.at(0)
    }

    /// Member `i` (masked).
    pub fn member(&self, i: usize) -> &'static Member {
        self.at(MEMBERS_AT + (i & (MEMBERS - 1)) * size_of::<Member>())
    }

    /// Connection `i` (masked).
    #[inline(always)]
    pub fn conn(&self, i: u32) -> &'static Conn {
        self.at(CONNS_AT + (i as usize & (CONNS - 1)) * size_of::<Conn>())
    }

    /// The number of connection `c`, which is one of ours.
    pub fn entry_of(&self, c: &Conn) -> u32 {
        let from = (core::ptr::from_ref(c) as usize).wrapping_sub(self.base as usize + CONNS_AT);
        (from / size_of::<Conn>()) as u32
    }

    /// The processes that have connection `c`, which is one of ours.
    pub fn holders(&self, c: &Conn) -> &'static Holders {
        self.at(HOLDERS_AT + (self.entry_of(c) as usize & (CONNS - 1)) * size_of::<Holders>())
    }

    /// The connections in use.
    pub fn used(&self) -> impl Iterator<Item = u32> + '_ {
        let high = self.header().high.load(Ordering::Acquire).min(CONNS as u32);
        (0..high.div_ceil(64)).flat_map(|w| {
            let mut left = self.bits(w as usize).load(Ordering::Acquire);
            core::iter::from_fn(move || {
                let n = (left != 0).then(|| left.trailing_zeros())?;
                left &= left - 1;
                Some(w * 64 + n)
            })
        })
    }

    /// Places of members that were ever taken.
    pub fn members_used(&self) -> core::ops::Range<u32> {
        0..self.header().members.load(Ordering::Acquire).min(MEMBERS as u32)
    }

    /// A word for the process that is member `n`: nobody else ever has the same, as far as numbers of processes go.
    pub fn process(&self, n: u32) -> u64 {
        (u64::from(n + 1) << 32) | u64::from(self.member(n as usize).pid())
    }

    /// Whether the process of such a word has ended, or is no member any more. 0 is no process.
    pub fn has_ended(&self, process: u64) -> bool {
        let Some(n) = ((process >> 32) as u32).checked_sub(1) else { return false };
        let member = self.member(n as usize);
        member.pid() != process as u32 || !member.alive()
    }

    /// A free place for process `pid`, by `take`. `None`: there is none; the dead are still in theirs.
    pub fn enlist(&self, take: impl Fn(&Member) -> bool) -> Option<u32> {
        let n = (0..MEMBERS as u32)
            .find(|&n| self.member(n as usize).pid() == 0 && take(self.member(n as usize)))?;
        self.header().members.fetch_max(n + 1, Ordering::AcqRel);
        Some(n)
    }

    /// Arena `i` that this family made (masked).
    pub fn arena(&self, i: usize) -> &'static OwnArena {
        self.at(ARENAS_AT + (i & (ARENAS - 1)) * size_of::<OwnArena>())
    }

    fn bits(&self, word: usize) -> &'static AtomicU64 {
        self.at(BITMAP_AT + (word & (CONNS / 64 - 1)) * 8)
    }

    /// Takes a free connection entry, the lowest there is (it is the warmest). `None` when all are used.
    pub fn claim(&self) -> Option<u32> {
        let words = CONNS / 64;
        let first = self.header().hint.load(Ordering::Relaxed) as usize;
        for i in 0..words {
            let w = (first + i) & (words - 1);
            let mut bits = self.bits(w).load(Ordering::Relaxed);
            while bits != u64::MAX {
                let bit = (!bits).trailing_zeros();
                match self.bits(w).compare_exchange(
                    bits,
                    bits | (1 << bit),
                    Ordering::AcqRel,
                    Ordering::Relaxed,
                ) {
                    Ok(_) => {
                        let n = (w * 64) as u32 + bit;
                        self.header().hint.store(w as u32, Ordering::Relaxed);
                        self.header().high.fetch_max(n + 1, Ordering::Relaxed);
                        return Some(n);
                    }
                    Err(now) => bits = now,
                }
            }
        }
        None
    }

    /// Gives a connection entry back.
    pub fn free(&self, i: u32) {
        let w = (i as usize / 64) & (CONNS / 64 - 1);
        self.bits(w).fetch_and(!(1 << (i % 64)), Ordering::AcqRel);
        self.header().hint.fetch_min(w as u32, Ordering::Relaxed);
    }

    /// Whether entry `i` is in use.
    pub fn in_use(&self, i: u32) -> bool {
        self.bits(i as usize / 64).load(Ordering::Acquire) & (1 << (i % 64)) != 0
    }

    /// Counts a connection that stays on TCP, or went back to it for good.
    pub fn count(&self, reason: Reason) {
        self.header().reasons[reason as usize & 63].fetch_add(1, Ordering::Relaxed);
    }

    /// How many connections stayed on TCP for `reason`.
    pub fn counted(&self, reason: Reason) -> u64 {
        self.header().reasons[reason as usize & 63].load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests;
