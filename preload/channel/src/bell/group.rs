//! The word of a watcher of many edges: whether it sleeps, and which sender wakes it (PROTOCOLS W3).

use dp_edge::sync::{relax, AtomicU32, AtomicU64, Ordering};

/// How a watcher that sleeps is woken: by a bell on one of its connections.
pub const BY_BELL: u32 = 1;
/// A sender has told a watcher that slept, and it has not said since that it is awake.
const TOLD: u32 = u32::MAX;
/// A sender is about to: its bell, or its event, is on its way, and whether that wakes the watcher is not known yet. The lower bits are
/// its own ([`teller`]), so that one that was overtaken by a whole sleep takes no other's for its own. Numbers of events are smaller,
/// which count from 2 on.
const TELLING: u32 = 0xf000_0000;
/// How often another sender looks whether it is, some ten microseconds: a bell, or an event, takes less. Then that one was preempted, or
/// has ended, and this one rings for itself.
#[cfg(not(loom))]
const LOOKS: u32 = 256;
/// A look more is a switch more between threads.
#[cfg(loom)]
const LOOKS: u32 = 0;

/// What the sender at `at`, one at a time, says while it tells a watcher.
pub(super) fn teller<T>(at: &T) -> u32 {
    TELLING | (core::ptr::from_ref(at).addr() >> 3) as u32 & (!TELLING >> 1)
}

/// What a sender finds of a watcher.
pub(super) enum Watcher {
    /// It is awake, or will be: no bell.
    Looks,
    /// It sleeps, and the caller is the one to wake it, by its event. The group is [`TELLING`] until that is settled.
    SleepsBy(u32),
    /// The same, by a bell.
    SleepsByBell,
    /// It sleeps, and another sender is the one to wake it, which takes long.
    IsBeingTold,
}

/// A group's word: is its watcher asleep, and how is it woken?
///
/// ```text
///          watcher            one sender               the same        watcher
///   awake ---------> asleep -------------> being told ---------> told ---------> awake
///     ^                 | ^                    |
///     +-----------------+ +--------------------+
///      watcher, by itself  what it sent, if anything, wakes nobody here
/// ```
///
/// While it is told, senders take it for awake; while it is being told, they wait for what comes of that, or ring for themselves. So
/// none relies on a wake-up that its sender, preempted or ended, has yet to send. The bell that tells it must stay until it is: to the
/// kernel's poll a bell that another thread has taken meanwhile never was.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Group {
    /// 0: awake; [`BY_BELL`]; [`TELLING`] and more; [`TOLD`]; else the number of its event.
    asleep: AtomicU32,
    /// Taken by a watcher: pid namespace and pid (its own side's bookkeeping, not the protocol's).
    pub taken: AtomicU64,
}

impl Default for Group {
    fn default() -> Self {
        Group { asleep: AtomicU32::new(0), taken: AtomicU64::new(0) }
    }
}

impl Group {
    /// The watcher is about to sleep, and is woken by the event `how`, or [`BY_BELL`]. It must call [`super::settle`] once for
    /// all its groups, then look at every hot edge again, and only then sleep.
    #[inline]
    pub fn doze(&self, how: u32) {
        self.says(how);
    }
    /// The watcher is awake again and will look by itself.
    #[inline]
    pub fn wake(&self) {
        self.says(0);
    }
    #[inline(always)]
    fn says(&self, how: u32) {
        #[cfg(not(loom))]
        self.asleep.store(how, Ordering::Relaxed);
        // loom 0.7.2 lets a sender exchange what it had stored itself before this store, and then read that as if it came behind it. Of
        // exchanges it keeps the order.
        #[cfg(loom)]
        self.asleep.swap(how, Ordering::Relaxed);
    }
    /// Whether the watcher says that it is awake, so that it looks by itself, and needs no bell.
    #[inline]
    pub fn is_awake(&self) -> bool {
        self.asleep.load(Ordering::Acquire) == 0
    }
    /// Whether a sender has told the watcher, or is about to, which has not said since that it is awake. Behind what makes a word
    /// cold, it sees what each sender did that had found the word hot when it counted its bell.
    #[inline]
    pub fn is_told(&self) -> bool {
        self.asleep.load(Ordering::SeqCst) >= TELLING
    }
    /// The sender's side: what it sent is what wakes the watcher; or wakes nobody, or was not sent, and the next sender tells the
    /// watcher, by a bell of its own. One that woke meanwhile has said something else.
    #[inline]
    pub(super) fn settle_telling(&self, teller: u32, is_told: bool) {
        let now = if is_told { TOLD } else { BY_BELL };
        let _ = self.asleep.compare_exchange(teller, now, Ordering::SeqCst, Ordering::Relaxed);
    }
    /// The sender's side, after it published and fenced: whether the watcher is to be woken, and how. `by_bell`: not by an event.
    #[inline(always)]
    pub(super) fn wake_once(&self, teller: u32, by_bell: bool) -> Watcher {
        match self.asleep.load(Ordering::Relaxed) {
            0 | TOLD => Watcher::Looks,
            how => self.wake_from(how, teller, by_bell),
        }
    }
    fn wake_from(&self, mut how: u32, teller: u32, by_bell: bool) -> Watcher {
        let mut looks = 0;
        // It may have been awake for a moment, and sleep again with another event.
        loop {
            how = match how {
                0 | TOLD => return Watcher::Looks,
                TELLING.. if looks == LOOKS => return Watcher::IsBeingTold,
                TELLING.. => {
                    looks += 1;
                    relax();
                    self.asleep.load(Ordering::Relaxed)
                }
                _ => match self.asleep.compare_exchange(how, teller, Ordering::SeqCst, Ordering::Relaxed) {
                    Ok(_) if by_bell || how == BY_BELL => return Watcher::SleepsByBell,
                    Ok(_) => return Watcher::SleepsBy(how),
                    Err(now) => now,
                },
            }
        }
    }
}
