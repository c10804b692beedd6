//! Arenas this family made as a client: for which server family (PROTOCOLS I1), and which slots are taken.

use super::Worth;
use crate::tcp::Addr;
use dp_edge::sync::{AtomicU32, AtomicU64, Ordering};

/// Most servers a family has channels with at once.
pub const ARENAS: usize = 64;
/// Slots in an arena the shim makes: as many as a family has connections.
pub const SLOTS: usize = super::CONNS;
const WORDS: usize = SLOTS / 64;
/// So many slots whose own rings have memory are left as they are: connections that come and go use it again.
const WARM: u32 = 64;

/// One arena.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct OwnArena {
    used: [AtomicU64; WORDS],
    /// Left by us, perhaps not yet by the server.
    closing: [AtomicU64; WORDS],
    /// Those whose own rings have memory.
    grown: [AtomicU64; WORDS],
    /// Words of these that may not be 0: those of slots that were ever used.
    high: AtomicU32,
    /// How many have.
    growns: AtomicU32,
    key: [AtomicU64; 3],
    taken: AtomicU32,
    /// Counts the arenas that had this entry.
    serial: AtomicU32,
    /// When a connection was last proven to end in this server family, in units of about a second; 0: never.
    proven: AtomicU32,
    /// Whether channels to it pay.
    pub worth: Worth,
}

/// A program family as the kernel tells it apart from all others: the process that opened the door.
pub type Id = [u64; 3];

fn key_of(a: Addr) -> [u64; 3] {
    let (mut lo, mut hi) = ([0; 8], [0; 8]);
    lo.copy_from_slice(&a.ip[..8]);
    hi.copy_from_slice(&a.ip[8..]);
    [u64::from_le_bytes(lo), u64::from_le_bytes(hi), (u64::from(a.scope) << 16) | u64::from(a.port)]
}

impl OwnArena {
    /// Takes the entry for a server at `addr`; its serial number.
    pub fn claim(&self, addr: Addr) -> Option<u32> {
        if self.taken.compare_exchange(0, 1, Ordering::AcqRel, Ordering::Relaxed).is_err() {
            return None;
        }
        let high = self.high.swap(0, Ordering::Relaxed) as usize;
        for words in [&self.used, &self.closing, &self.grown] {
            words.iter().take(high).for_each(|w| w.store(0, Ordering::Relaxed));
        }
        self.growns.store(0, Ordering::Relaxed);
        for (to, from) in self.key.iter().zip(key_of(addr)) {
            to.store(from, Ordering::Relaxed);
        }
        self.proven.store(0, Ordering::Relaxed);
        self.worth.reset();
        let serial = self.serial.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        self.taken.store(2, Ordering::Release);
        Some(serial)
    }

    /// Gives the entry back.
    pub fn release(&self) {
        self.taken.store(0, Ordering::Release);
    }

    /// Takes all slots of an arena in which nobody has one, so that nobody gets one either: the entry may be given back
    /// then. `over`: whether the server, too, is through with a slot that we left.
    pub fn retire(&self, over: impl Fn(u32) -> bool) -> bool {
        if !self.closing().all(over) {
            return false;
        }
        self.high.store(WORDS as u32, Ordering::Relaxed);
        for w in 0..WORDS {
            // Nobody takes again what is not marked as left.
            let left = self.closing[w].swap(0, Ordering::AcqRel);
            if self.used[w].compare_exchange(left, u64::MAX, Ordering::AcqRel, Ordering::Relaxed).is_err() {
                self.closing[w].fetch_or(left, Ordering::AcqRel);
                // The words before were free: nobody was in them.
                self.used[..w].iter().for_each(|w| w.store(0, Ordering::Release));
                return false;
            }
        }
        true
    }

    /// Whether the entry still is that of the arena with that serial number.
    pub fn is_serial(&self, serial: u32) -> bool {
        self.taken.load(Ordering::Acquire) == 2 && self.serial.load(Ordering::Relaxed) == serial
    }

    /// Whether it is for the server at `addr`, and still the one with that serial number.
    pub fn is_for(&self, addr: Addr, serial: u32) -> bool {
        self.is_serial(serial)
            && self.key.iter().zip(key_of(addr)).all(|(a, b)| a.load(Ordering::Relaxed) == b)
    }

    /// When a connection was last proven to end in that family; 0: never.
    pub fn proven(&self) -> u32 {
        self.proven.load(Ordering::Relaxed)
    }

    /// A connection was proven to end in that family, at `now` nanoseconds.
    pub fn prove(&self, now: u64) {
        self.proven.store((now >> 30) as u32 | 1, Ordering::Relaxed);
    }

    /// Takes a slot: one both sides are through with (`over` says so of one that we left), or a new one. The lowest first: it
    /// is the warmest.
    pub fn slot(&self, over: impl Fn(u32) -> bool) -> Option<u32> {
        for w in 0..WORDS {
            let mut closing = self.closing[w].load(Ordering::Acquire);
            while closing != 0 {
                let bit = closing & closing.wrapping_neg();
                let n = (w * 64) as u32 + bit.trailing_zeros();
                if over(n) {
                    // The one that clears the mark has the slot; it stays marked as used.
                    if self.closing[w].fetch_and(!bit, Ordering::AcqRel) & bit != 0 {
                        return Some(n);
                    }
                }
                closing &= !bit;
            }
            let mut used = self.used[w].load(Ordering::Relaxed);
            while used != u64::MAX {
                let bit = (!used).trailing_zeros();
                match self.used[w].compare_exchange(
                    used,
                    used | 1 << bit,
                    Ordering::AcqRel,
                    Ordering::Relaxed,
                ) {
                    Ok(_) => {
                        self.high.fetch_max(w as u32 + 1, Ordering::Relaxed);
                        return Some((w * 64) as u32 + bit);
                    }
                    Err(now) => used = now,
                }
            }
        }
        None
    }

    /// We are through with a slot; it can be taken again once the server is, too.
    pub fn close(&self, slot: u32) {
        self.closing[slot as usize / 64 % WORDS].fetch_or(1 << (slot % 64), Ordering::AcqRel);
    }

    /// A slot that no server ever took is free at once.
    pub fn free(&self, slot: u32) {
        self.used[slot as usize / 64 % WORDS].fetch_and(!(1 << (slot % 64)), Ordering::AcqRel);
    }

    /// Slots left by us and not yet reusable.
    pub fn closing(&self) -> impl Iterator<Item = u32> + '_ {
        let high = (self.high.load(Ordering::Relaxed) as usize).min(WORDS);
        (0..high).filter(|&w| self.closing[w].load(Ordering::Relaxed) != 0).flat_map(move |w| {
            (0..64)
                .filter(move |bit| self.closing[w].load(Ordering::Relaxed) & (1 << bit) != 0)
                .map(move |bit| (w * 64) as u32 + bit)
        })
    }

    /// The slot's own rings have memory.
    pub fn grew(&self, slot: u32) {
        let bit = 1 << (slot % 64);
        if self.grown[slot as usize / 64 % WORDS].fetch_or(bit, Ordering::Relaxed) & bit == 0 {
            self.growns.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Its owner may give the memory of a slot's own rings back, and does so if there is more such memory than is kept for
    /// new connections. Whether it does.
    pub fn shrinks(&self, slot: u32) -> bool {
        let bit = 1 << (slot % 64);
        self.growns.load(Ordering::Relaxed) > WARM
            && self.grown[slot as usize / 64 % WORDS].fetch_and(!bit, Ordering::Relaxed) & bit != 0
            && {
                self.growns.fetch_sub(1, Ordering::Relaxed);
                true
            }
    }

    /// The server's end of a slot that we left is known to be gone. Whether the slot is the caller's now, who uses it or
    /// frees it; false: somebody else was quicker.
    pub fn reclaim(&self, slot: u32) -> bool {
        let bit = 1 << (slot % 64);
        self.closing[slot as usize / 64 % WORDS].fetch_and(!bit, Ordering::AcqRel) & bit != 0
    }
}
