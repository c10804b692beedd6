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
/// So many slots that we left are looked at before one is taken that was never used, or is free.
const LOOKS: usize = 32;

/// One arena.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct OwnArena {
    used: [AtomicU64; WORDS],
    /// Left by us, perhaps not yet by the server.
    closing: [AtomicU64; WORDS],
    /// Those whose own rings have memory.
    grown: [AtomicU64; WORDS],
    /// A byte for each slot that we left: since when the kernel is known to know nothing of the server's end. 0: that is not
    /// known.
    gone: [AtomicU32; SLOTS / 4],
    /// Words of these that may not be 0: those of slots that were ever used.
    high: AtomicU32,
    /// How many have.
    growns: AtomicU32,
    key: [AtomicU64; 3],
    /// The process that made it ([`super::Family::process`]).
    claimant: AtomicU64,
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
    /// Process `claimant` takes the entry for a server at `addr`; its serial number.
    pub fn claim(&self, addr: Addr, claimant: u64) -> Option<u32> {
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
        self.claimant.store(claimant, Ordering::Relaxed);
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

    /// Gives the entry back for a process that claimed it and `has_ended`, if nobody has a slot: its own connections were
    /// given back, and a relative that has the memory, too, has none there. That one finds that the entry is another's.
    pub fn release_for_ended(&self, has_ended: impl Fn(u64) -> bool) -> bool {
        let ended = || has_ended(self.claimant.load(Ordering::Relaxed));
        if self.taken.load(Ordering::Acquire) != 2 || !ended() {
            return false;
        }
        // One process at a time; and since it was asked, another one may have claimed it.
        if self.taken.compare_exchange(2, 1, Ordering::AcqRel, Ordering::Relaxed).is_err() {
            return false;
        }
        let free = ended() && self.take_all(|_| true);
        // Where it was given back meanwhile, it stays so.
        let to = if free { 0 } else { 2 };
        let _ = self.taken.compare_exchange(1, to, Ordering::Release, Ordering::Relaxed);
        free
    }

    /// Takes all slots of the arena with that serial number, if nobody has one, so that nobody gets one either: the entry may be given
    /// back then. `over`: whether the server, too, is through with a slot that we left. It is asked of the memory of that arena, and a
    /// relative may give the entry to another meanwhile: of whose slots it says nothing.
    pub fn retire(&self, serial: u32, over: impl Fn(u32) -> bool) -> bool {
        let is_it = || self.is_serial(serial);
        let all = self.take_all(|n| is_it() && over(n));
        // Asked once: what is said here, and what is done, must be the same.
        let its = all && is_it();
        if all && !its {
            // None of them was anybody's.
            self.used.iter().for_each(|w| w.store(0, Ordering::Release));
        }
        its
    }

    /// The same of whatever arena it is.
    fn take_all(&self, over: impl Fn(u32) -> bool) -> bool {
        // Without a store where somebody has one anyway.
        if !self.closing().all(&over) {
            return false;
        }
        self.high.store(WORDS as u32, Ordering::Relaxed);
        for w in 0..WORDS {
            // Nobody takes again what is not marked as left. Asked once more: another thread may have taken one since, used
            // it, and left it to a server that is not through with it.
            let left = self.closing[w].swap(0, Ordering::AcqRel);
            let mut each = bits(w, left);
            if !each.all(&over)
                || self.used[w].compare_exchange(left, u64::MAX, Ordering::AcqRel, Ordering::Relaxed).is_err()
            {
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
        let left = self.closing().take(LOOKS).find(|&n| over(n) && self.reclaim(n, &over));
        left.or_else(|| self.unused())
    }

    /// Takes the lowest slot that nobody has.
    fn unused(&self) -> Option<u32> {
        for w in 0..WORDS {
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
        self.set_gone(slot, 0);
        self.put_back(slot);
    }

    /// One that was left before, and was the caller's meanwhile.
    fn put_back(&self, slot: u32) {
        self.closing[slot as usize / 64 % WORDS].fetch_or(1 << (slot % 64), Ordering::AcqRel);
    }

    /// A slot that no server ever took is free at once.
    pub fn free(&self, slot: u32) {
        self.used[slot as usize / 64 % WORDS].fetch_and(!(1 << (slot % 64)), Ordering::AcqRel);
    }

    /// Slots left by us and not yet reusable.
    pub fn closing(&self) -> impl Iterator<Item = u32> + '_ {
        self.closing_from(0)
    }

    /// The same, from the one with number `at` on, those before it last.
    pub fn closing_from(&self, at: u32) -> impl Iterator<Item = u32> + '_ {
        let high = self.high();
        let at = if (at as usize) < high * 64 { at } else { 0 };
        let first = at as usize / 64;
        let before = (1u64 << (at % 64)) - 1;
        let word = |w: usize, which: u64| bits(w, self.closing[w].load(Ordering::Relaxed) & which);
        word(first, !before)
            .chain((first + 1..high).flat_map(move |w| word(w, u64::MAX)))
            .chain((0..first).flat_map(move |w| word(w, u64::MAX)))
            .chain(word(first, before))
    }

    /// How many of them there are.
    pub fn closings(&self) -> usize {
        self.closing[..self.high()].iter().map(|w| w.load(Ordering::Relaxed).count_ones() as usize).sum()
    }

    fn high(&self) -> usize {
        (self.high.load(Ordering::Relaxed) as usize).min(WORDS)
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

    /// Takes a slot that we left and that is `over`. Whether it is the caller's now, who uses it or frees it; false: it is not
    /// over, or somebody else was quicker. Asked when it is taken: before that, another thread may take it, use it, and leave it
    /// to a server that is not through with it.
    pub fn reclaim(&self, slot: u32, over: impl FnOnce(u32) -> bool) -> bool {
        let bit = 1 << (slot % 64);
        if self.closing[slot as usize / 64 % WORDS].fetch_and(!bit, Ordering::AcqRel) & bit == 0 {
            return false;
        }
        let over = over(slot);
        if !over {
            self.put_back(slot);
        }
        over
    }

    /// For how long, in minutes, the kernel is known to know nothing of the server's end of a slot that we left, at `now` ns.
    /// Beyond four hours it begins anew.
    pub fn gone_for(&self, slot: u32, now: u64) -> Option<u32> {
        let since =
            (self.gone[slot as usize / 4 % (SLOTS / 4)].load(Ordering::Relaxed) >> (slot % 4 * 8)) & 255;
        since.checked_sub(1).map(|since| (minutes(now) + 255 - since) % 255)
    }

    /// The kernel was asked, and knows nothing of it. Only while the slot is the caller's.
    pub fn is_gone_now(&self, slot: u32, now: u64) {
        self.set_gone(slot, minutes(now) + 1);
    }

    fn set_gone(&self, slot: u32, since: u32) {
        let (word, shift) = (&self.gone[slot as usize / 4 % (SLOTS / 4)], slot % 4 * 8);
        if (word.load(Ordering::Relaxed) >> shift) & 255 != since {
            word.fetch_and(!(255 << shift), Ordering::Relaxed);
            word.fetch_or(since << shift, Ordering::Relaxed);
        }
    }
}

/// What of `word`, the `w`th of its kind, is set.
fn bits(w: usize, word: u64) -> impl Iterator<Item = u32> {
    let mut left = word;
    core::iter::from_fn(move || {
        let n = (left != 0).then(|| left.trailing_zeros())?;
        left &= left - 1;
        Some(w as u32 * 64 + n)
    })
}

/// Of a clock of ns, modulo 255.
fn minutes(now: u64) -> u32 {
    (now / 60_000_000_000 % 255) as u32
}
