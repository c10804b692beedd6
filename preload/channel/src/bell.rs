//! The wake word: who sleeps, who looks by itself, whether a bell is out (PROTOCOLS W1-W5).
//!
//! ```text
//!   63         32 31       24 23     16 15 14   13    12   11   10    9     8    7          0
//!  +-------------+-----------+---------+-----+------+-----+----+-----+-----+-----+-----------+
//!  | bells, all  |     0     |  group  |  0  |event |reads|raw |left |rung | hot | sleepers  |
//!  +-------------+-----------+---------+-----+------+-----+----+-----+-----+-----+-----------+
//! ```
//!
//! *Armed* = not rung and (sleepers > 0 or not hot): the sender that publishes then owes one bell.
//! *Hot* means that whoever waits for this edge looks at it in user space before it sleeps, and says so
//! when it does sleep: a single receiver by `sleepers`, a watcher of many edges by its *group*.
//!
//! A group is one word for all edges that one watcher (an epoll set) has hot. Going to sleep costs one
//! store for all of them instead of a read-modify-write for each, and a burst over fifty edges costs one
//! bell instead of fifty. The order is the same as for the word: the watcher stores how it sleeps, fences, looks
//! at every edge once more, sleeps; the sender publishes, fences, loads. One of the two sees the other.
//!
//! A watcher that sleeps may have an eventfd, which costs a third of a byte over TCP. Its group then has the number by
//! which the sender's process knows that; a process that does not know it rings a bell. So may a sleeper, if it is the
//! only one: *event* says so, and the receiver's line has the number, which stays that sleeper's until it is awake. Whatever the
//! kernel's readiness counts for, a second sleeper or a registration in an epoll set, clears it, and the next token is a bell.

mod group;

pub use dp_edge::sync::settle;
use dp_edge::sync::{fence, relax, AtomicU32, AtomicU64, Ordering};
use group::Watcher;
pub use group::{Group, BY_BELL};

const SLEEPERS: u64 = 0xff;
const HOT: u64 = 1 << 8;
const RUNG: u64 = 1 << 9;
const LEFT: u64 = 1 << 10;
const RAW: u64 = 1 << 11;
const READS: u64 = 1 << 12;
const EVENT: u64 = 1 << 13;
const GROUP_SHIFT: u32 = 16;
const GROUP: u64 = 0xff << GROUP_SHIFT;
const BELL: u64 = 1 << 32;

/// What the sender has to do after it published.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owed {
    /// Nobody needs telling.
    Nothing,
    /// One bell, now, and then [`Word::has_told`]; it is already counted.
    Bell(Telling),
    /// The event with this number, now, and then [`Word::has_told`]; or else a bell, which is not counted yet, by
    /// [`Word::bell_instead`].
    Event(u32, Telling),
    /// The receiver left the edge: go back to TCP (E8).
    Left,
}

/// Which group's watcher a bell, or an event, tells: until that is out, other senders do not rely on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Telling {
    /// From 1 on; 0: none, or another sender tells it.
    group: usize,
    /// Whether the bell wakes it: the edge was found in the group behind the count.
    is_in: bool,
}

impl Telling {
    /// No group's.
    pub const NOBODY: Telling = Telling { group: 0, is_in: false };

    fn group(self, groups: &[Group]) -> Option<&Group> {
        groups.get(self.group.checked_sub(1)?)
    }
}

/// The wake word of one direction.
#[derive(Debug)]
#[repr(C)]
pub struct Word(AtomicU64);

impl Default for Word {
    fn default() -> Self {
        Word(AtomicU64::new(0))
    }
}

/// What a receiver found when it armed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Armed {
    /// Bells the sender has counted in all, modulo 2^32.
    pub bells: u32,
}

impl Word {
    /// Back to the resting state: armed, nothing counted. Only while nobody uses the edge.
    pub fn reset(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// W1, the sender, after it published and fenced ([`dp_edge::ring::commit`] does both). `event`: where the receiver says
    /// by which event it sleeps.
    #[inline(always)]
    pub fn after_publish(&self, groups: &[Group], event: &AtomicU32) -> Owed {
        let word = self.0.load(Ordering::Relaxed);
        // The whole fast path: hot, nobody asleep, no group.
        if word & (HOT | SLEEPERS | LEFT | GROUP) == HOT {
            return Owed::Nothing;
        }
        self.owed(word, groups, event)
    }

    /// Whether the word says at one glance that nobody needs telling.
    #[inline(always)]
    pub fn after_publish_fast(&self) -> bool {
        self.0.load(Ordering::Relaxed) & (HOT | SLEEPERS | LEFT | GROUP) == HOT
    }

    fn owed(&self, mut word: u64, groups: &[Group], event: &AtomicU32) -> Owed {
        loop {
            if word & LEFT != 0 {
                return Owed::Left;
            }
            // Index 0 is "no group". The number is the peer's to write, so it is checked. The group comes
            // first: a bell that a sleeper on this edge was sent, and has yet to take, is an old one to an
            // edge-triggered watcher.
            let number = ((word & GROUP) >> GROUP_SHIFT) as usize;
            let group = if word & HOT != 0 && number != 0 { groups.get(number - 1) } else { None };
            // An event would wake no sleeper. One that came since looks at the edge again, and sees the token.
            match group.map(|group| group.wake_once(self.teller(), word & SLEEPERS != 0)) {
                // It is one of the set itself, and wakes it whatever becomes of the edge.
                Some(Watcher::SleepsBy(event)) => {
                    return Owed::Event(event, Telling { group: number, is_in: true })
                }
                // Counted behind telling it: a watcher takes no bell that was not counted when it began to sleep. A receiver that has
                // left takes none at all. And since the word was read, the edge may have left the group: its bell wakes nobody there.
                // (A bell wakes a sleeper, too.)
                Some(Watcher::SleepsByBell) => {
                    return self.bell_for(groups, number).map_or(Owed::Left, Owed::Bell);
                }
                Some(Watcher::IsBeingTold) => {
                    return if self.count_bell() { Owed::Bell(Telling::NOBODY) } else { Owed::Left };
                }
                Some(Watcher::Looks) | None => {}
            }
            if word & RUNG != 0 || word & (HOT | SLEEPERS) == HOT {
                return Owed::Nothing;
            }
            let by_event = word & EVENT != 0;
            let bell = if by_event { 0 } else { BELL };
            match self.0.compare_exchange(
                word,
                (word | RUNG).wrapping_add(bell),
                Ordering::SeqCst,
                Ordering::Relaxed,
            ) {
                // The number was there before the word said so, and stays until its sleeper is awake. One that came since has
                // looked at the edge after that, and seen the token.
                Ok(_) if by_event => {
                    return match event.load(Ordering::Relaxed) {
                        0 => Owed::Nothing,
                        number => Owed::Event(number, Telling::NOBODY),
                    };
                }
                Ok(_) => return Owed::Bell(Telling::NOBODY),
                Err(now) => word = now,
            }
        }
    }

    /// Counts the bell that tells a group, and says whether it is one that does. `None`: the receiver has left, and it is not counted.
    /// Where the edge is out of the group since, the bell wakes nobody there, and the next sender is to tell it: either that is seen
    /// here, or whoever takes the edge out of the group sees that its watcher was told, or is being.
    fn bell_for(&self, groups: &[Group], group: usize) -> Option<Telling> {
        let counted = self.count_bell();
        fence(Ordering::SeqCst);
        let word = self.0.load(Ordering::Relaxed);
        let is_in = word & HOT != 0 && (word & GROUP) >> GROUP_SHIFT == group as u64;
        let telling = Telling { group, is_in };
        if !counted {
            self.has_told(groups, telling, false);
        }
        counted.then_some(telling)
    }

    /// What a sender of this edge, of which there is one at a time, says while it tells a group's watcher.
    fn teller(&self) -> u32 {
        group::teller(self)
    }

    /// The bell, or the event, is out, or could not be sent: other senders may rely on it, or the next one tells the watcher. A sender
    /// that ends before this leaves the others to ring for themselves until the watcher is awake.
    #[inline]
    pub fn has_told(&self, groups: &[Group], telling: Telling, sent: bool) {
        if let Some(group) = telling.group(groups) {
            group.settle_telling(self.teller(), sent && telling.is_in);
        }
    }

    /// An event ([`Owed::Event`]) that could not be sent: counts a bell in its place. `None`: the receiver has left.
    #[cold]
    pub fn bell_instead(&self, groups: &[Group], telling: Telling) -> Option<Telling> {
        match telling.group {
            0 => self.count_bell().then_some(Telling::NOBODY),
            group => self.bell_for(groups, group),
        }
    }

    /// The bell could not be sent (the socket's buffer is full, so the peer is readable anyway).
    pub fn undo_bell(&self) {
        let mut word = self.0.load(Ordering::Relaxed);
        while let Err(now) = self.0.compare_exchange(
            word,
            (word & !RUNG).wrapping_sub(BELL),
            Ordering::SeqCst,
            Ordering::Relaxed,
        ) {
            word = now;
        }
    }

    /// A bell that goes out whatever the word says (the sender leaves): counted, not marked rung. False,
    /// and not counted, when the receiver has left: to it, the byte would be data.
    pub fn count_bell(&self) -> bool {
        let mut word = self.0.load(Ordering::Relaxed);
        while word & LEFT == 0 {
            match self.0.compare_exchange(word, word.wrapping_add(BELL), Ordering::SeqCst, Ordering::Relaxed)
            {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
        false
    }

    /// W2: one more sleeper, and a new bell is wanted. Fenced: look at the edge again after it.
    #[inline]
    pub fn sleep(&self) -> Armed {
        self.update(|w| {
            let n = (w & SLEEPERS).min(SLEEPERS - 1) + 1;
            (w & !(SLEEPERS | RUNG | EVENT)) | n
        })
    }

    /// The same, to be woken by the event with this number, which `event` in the receiver's line then has; by bells if it is not
    /// the only sleeper. Another's number stays there: the sender that has found that one asleep reads it only after it has said so
    /// in the word.
    #[inline]
    pub fn sleep_by_event(&self, event: &AtomicU32, number: u32) -> Armed {
        if let Err(other) = event.compare_exchange(0, number, Ordering::Relaxed, Ordering::Relaxed) {
            // The same number: of a thread that ended in its sleep, and whose event this one has now.
            if other != number {
                return self.sleep();
            }
        }
        self.update(|w| match w & SLEEPERS {
            0 => (w & !RUNG) | EVENT | 1,
            n => (w & !(SLEEPERS | RUNG | EVENT)) | (n.min(SLEEPERS - 1) + 1),
        })
    }

    /// W2: the sleeper by that event, if it was allowed to be one, is back.
    #[inline]
    pub fn awake_by_event(&self, event: &AtomicU32, number: u32) {
        self.awake();
        let _ = event.compare_exchange(number, 0, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// W2: the sleeper is back.
    #[inline]
    pub fn awake(&self) {
        self.update(|w| match w & SLEEPERS {
            0 => w,
            1 => (w & !EVENT) - 1,
            _ => w - 1,
        });
    }

    /// W4, W5: a new byte shall be a new bell. Fenced: look at the edge again after it.
    #[inline]
    pub fn arm(&self) -> Armed {
        let word = self.0.load(Ordering::Relaxed);
        if word & (RUNG | EVENT) == 0 {
            fence(Ordering::SeqCst);
            // Loaded again behind the fence. Rung meanwhile: what was published with that bell may be
            // taken by another receiver before we look, and then nobody would arm again. So arm.
            let word = self.0.load(Ordering::Relaxed);
            if word & (RUNG | EVENT) == 0 {
                return Armed { bells: (word >> 32) as u32 };
            }
        }
        self.update(|w| w & !(RUNG | EVENT))
    }

    /// W4: more came although we armed, and a bell is still in the kernel: that one will do.
    pub fn unarm(&self) {
        self.update(|w| w | RUNG);
    }

    /// The receiver will look by itself, without a group. Only while nobody sleeps on it (W2).
    /// Returns whether the word is hot now.
    #[inline]
    pub fn make_hot(&self) -> bool {
        let word = self.0.load(Ordering::Relaxed);
        if word & HOT != 0 {
            return true;
        }
        word & (SLEEPERS | LEFT) == 0
            && self
                .0
                .compare_exchange(word, (word | HOT) & !GROUP, Ordering::SeqCst, Ordering::Relaxed)
                .is_ok()
    }

    /// The receiver is watched by `group` (1-based) from now on and looks by itself.
    pub fn heat_group(&self, group: u8) -> bool {
        let mut word = self.0.load(Ordering::Relaxed);
        loop {
            if word & (SLEEPERS | LEFT) != 0 {
                return false;
            }
            let new = (word & !(GROUP | RUNG)) | HOT | (u64::from(group) << GROUP_SHIFT);
            match self.0.compare_exchange(word, new, Ordering::SeqCst, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
    }

    /// Back to the resting state, armed. Fenced: look at the edge again after it (W3).
    pub fn make_cold(&self) -> Armed {
        self.update(|w| w & !(HOT | RUNG | GROUP | EVENT))
    }

    /// The same for the sake of somebody beside the watcher, who has the edge in its group and does not know yet. It may have been
    /// told by a bell, so the group stays known.
    pub fn make_cold_beside(&self) -> Armed {
        self.update(|w| w & !(HOT | RUNG | EVENT))
    }

    /// Whether the receiver looks by itself.
    #[inline(always)]
    pub fn is_hot(&self) -> bool {
        self.0.load(Ordering::Relaxed) & HOT != 0
    }

    /// Whether the next token owes no bell: whoever waits looks by itself, and nobody sleeps. Else the word is to be armed when a
    /// bell is taken, or the next token would find it rung.
    #[inline(always)]
    pub fn is_silent(&self) -> bool {
        self.0.load(Ordering::Relaxed) & (HOT | SLEEPERS) == HOT
    }

    /// The group that watches it, or did until somebody else made it cold, from 1 on; 0: none.
    pub fn group(&self) -> usize {
        ((self.0.load(Ordering::Relaxed) & GROUP) >> GROUP_SHIFT) as usize
    }

    /// Whether somebody sleeps in the kernel for this edge.
    pub fn has_sleepers(&self) -> bool {
        self.0.load(Ordering::SeqCst) & SLEEPERS != 0
    }

    /// Whether a bell was rung and not re-armed since.
    pub fn is_rung(&self) -> bool {
        self.0.load(Ordering::Relaxed) & RUNG != 0
    }

    /// Bells the sender has counted in all, modulo 2^32.
    #[inline(always)]
    pub fn bells(&self) -> u32 {
        (self.0.load(Ordering::Acquire) >> 32) as u32
    }

    /// E8: the receiver leaves for good. Fenced.
    pub fn leave(&self) -> Armed {
        self.update(|w| w | LEFT)
    }

    /// E8: the receiver leaves, and what is unread shall be on TCP. Fenced.
    ///
    /// With `reads`, somebody who sees this edge goes on reading until all of that is there: then the sender need not put
    /// there what does not go at once. One that left before for a stranger's sake cannot say so any more.
    pub fn leave_raw(&self, reads: bool) -> Armed {
        self.update(|w| {
            let reads = reads && w & (RAW | READS) != RAW;
            w & !READS | LEFT | RAW | if reads { READS } else { 0 }
        })
    }

    /// Whether what is unread belongs on TCP from now on.
    pub fn is_raw(&self) -> bool {
        self.0.load(Ordering::Acquire) & RAW != 0
    }

    /// Sender, after it published and fenced, as it must: whether what is unread may stay where it is.
    pub fn is_read_on(&self) -> bool {
        self.0.load(Ordering::SeqCst) & (RAW | READS) == RAW | READS
    }

    /// The receiver that left is about to give the socket to a stranger. Fenced: the sender either sees that, or has put
    /// into the edge what the receiver sees when it looks once more.
    pub fn stops_reading(&self) {
        self.update(|w| w & !READS);
    }

    /// Whether the receiver left.
    pub fn has_left(&self) -> bool {
        self.0.load(Ordering::Acquire) & LEFT != 0
    }

    #[inline(always)]
    fn update(&self, f: impl Fn(u64) -> u64) -> Armed {
        let mut word = self.0.load(Ordering::Relaxed);
        loop {
            match self.0.compare_exchange(word, f(word), Ordering::SeqCst, Ordering::Relaxed) {
                Ok(_) => {
                    dp_edge::sync::fence_after_rmw();
                    return Armed { bells: (word >> 32) as u32 };
                }
                Err(now) => word = now,
            }
            relax();
        }
    }
}
