//! Taking away what other threads may be looking at without a lock, once nobody can be inside.
//!
//! A *walker* counts itself, looks up what there is, and uses what it finds. Somebody who takes a thing away hides it first,
//! and then asks whether there are walkers:
//!
//! ```text
//!   walker                     remover
//!   count + 1                  hides the thing
//!   fence                      fence
//!   looks it up, uses it       count?   0: nobody has found it, and nobody will
//!   count - 1
//! ```
//!
//! Of the two, at least one sees what the other has done. Where the remover finds walkers, the thing stays hidden, in
//! *limbo*, and it asks another time.
//!
//! A counted walk costs two locked instructions. Where that is too much, a thread leaves a [`Note`] in a place of its own by
//! a plain store, and the remover pays for both fences: it lets the thing rest between hiding it and looking at the notes.
//! How long a thread stays inside does not matter to it, only how long a store takes to be seen by other processors.

use dp_edge::sync::{fence, fence_after_rmw, AtomicU32, AtomicU64, Ordering};
use dp_edge::sys::barrier;

/// How many threads are inside.
#[derive(Debug)]
pub struct Walkers(AtomicU32);

impl Walkers {
    /// Nobody is.
    #[cfg(not(loom))]
    #[expect(clippy::new_without_default, reason = "a static of its own, each")]
    pub const fn new() -> Walkers {
        Walkers(AtomicU32::new(0))
    }

    /// The same; loom's atomics are not made by constants.
    #[cfg(loom)]
    #[expect(clippy::new_without_default, reason = "as above")]
    pub fn new() -> Walkers {
        Walkers(AtomicU32::new(0))
    }

    /// Does `f`, and what it finds stays where it is meanwhile.
    ///
    /// Nothing is to be dropped here: a signal handler may end the thread anywhere in `f`, and such an unwinding must not
    /// pass a frame that has something to drop. Then things stay where they are for good.
    #[inline]
    pub fn walking<R>(&self, f: impl FnOnce() -> R) -> R {
        self.0.fetch_add(1, Ordering::SeqCst);
        // Before the first look. The other side is in none_but().
        fence_after_rmw();
        let result = f();
        // What was used was used before that: none_but() reads it with Acquire.
        self.0.fetch_sub(1, Ordering::Release);
        result
    }

    /// Whether nobody is inside who can have found what was hidden before; `own` walks are the caller's.
    pub fn none_but(&self, own: u32) -> bool {
        fence(Ordering::SeqCst);
        self.0.load(Ordering::Acquire) <= own
    }

    /// In the only thread of a forked child. A page that is not changed stays shared.
    pub fn reset(&self) {
        if self.0.load(Ordering::Relaxed) != 0 {
            self.0.store(0, Ordering::Release);
        }
    }
}

/// Left by one thread while it uses what it has found. No other thread writes to it.
#[derive(Debug)]
pub struct Note(AtomicU64);

impl Note {
    /// There is none.
    #[cfg(not(loom))]
    #[expect(clippy::new_without_default, reason = "a place of its own for each thread")]
    pub const fn new() -> Note {
        Note(AtomicU64::new(0))
    }

    /// The same; loom's atomics are not made by constants.
    #[cfg(loom)]
    #[expect(clippy::new_without_default, reason = "as above")]
    pub fn new() -> Note {
        Note(AtomicU64::new(0))
    }

    /// Before the first look: `frame`, never 0, is an address of the thread's stack. What stood here before, of a call that
    /// this one has interrupted, or that was left by longjmp; else 0.
    #[inline(always)]
    pub fn leave(&self, frame: u64) -> u64 {
        let before = self.0.load(Ordering::Relaxed);
        self.0.store(frame, Ordering::Relaxed);
        // The other side is in frame_after_a_rest().
        barrier::light();
        before
    }

    /// After the last look; `before` stands here again.
    #[inline(always)]
    pub fn take_back(&self, before: u64) {
        // Release: what was used was used before that.
        self.0.store(before, Ordering::Release);
    }

    /// The frame that is noted; 0: none. For a remover that has hidden the thing so long ago that stores of that time are seen by
    /// all processors.
    pub fn frame_after_a_rest(&self) -> u64 {
        #[cfg(loom)]
        barrier::heavy();
        self.0.load(Ordering::Acquire)
    }
}

/// Things that were hidden, each by a number, never 0. One thread at a time puts them here and takes them out; one that is
/// forked at any moment finds each of them here, or not.
#[cfg(not(loom))]
#[derive(Debug)]
pub struct Limbo<const N: usize> {
    things: [Thing; N],
}

#[cfg(not(loom))]
#[derive(Debug)]
struct Thing {
    /// 0: none.
    number: AtomicU64,
    since: AtomicU64,
}

#[cfg(not(loom))]
impl<const N: usize> Limbo<N> {
    /// Empty.
    #[expect(clippy::new_without_default, reason = "a static of its own, each")]
    pub const fn new() -> Self {
        use dp_edge::sync::AtomicU64;
        Limbo { things: [const { Thing { number: AtomicU64::new(0), since: AtomicU64::new(0) } }; N] }
    }

    fn free(&self) -> Option<&Thing> {
        self.things.iter().find(|thing| thing.number.load(Ordering::Relaxed) == 0)
    }

    /// Whether there is room for one more.
    pub fn has_room(&self) -> bool {
        self.free().is_some()
    }

    /// One more, at `now`, ns. False: there is no room.
    pub fn put(&self, number: u64, now: u64) -> bool {
        let Some(thing) = self.free() else { return false };
        thing.since.store(now, Ordering::Relaxed);
        thing.number.store(number, Ordering::Release);
        true
    }

    /// Offers each thing that has been here for `rest` ns to `remove`. Those that it may take away are here no more when it
    /// is asked: it says whether they are gone, or are to stay.
    pub fn each_rested(&self, now: u64, rest: u64, mut remove: impl FnMut(u64) -> bool) {
        for thing in &self.things {
            let number = thing.number.load(Ordering::Acquire);
            if number == 0 || now.saturating_sub(thing.since.load(Ordering::Relaxed)) < rest {
                continue;
            }
            thing.number.store(0, Ordering::Relaxed);
            if !remove(number) {
                thing.number.store(number, Ordering::Release);
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn things_rest_before_they_go() {
        let limbo = Limbo::<3>::new();
        assert!(limbo.put(7, 100) && limbo.put(8, 150) && limbo.put(9, 160));
        assert!(!limbo.has_room() && !limbo.put(10, 160));
        let offered = |now, gone: &[u64]| {
            let mut seen: Vec<u64> = Vec::new();
            limbo.each_rested(now, 50, |number| {
                seen.push(number);
                gone.contains(&number)
            });
            seen
        };
        assert!(offered(149, &[7, 8, 9]).is_empty());
        assert_eq!(offered(200, &[8]), [7, 8]);
        assert!(limbo.put(11, 200) && !limbo.has_room());
        assert_eq!(offered(300, &[7, 9, 11]), [7, 11, 9]);
        assert!(offered(u64::MAX, &[]).is_empty());
        // A clock that went back takes nothing away.
        assert!(limbo.put(12, 1000));
        assert!(offered(10, &[12]).is_empty());
    }

    #[test]
    fn walkers_are_counted() {
        let walkers = Walkers::new();
        assert!(walkers.none_but(0));
        walkers.walking(|| {
            assert!(!walkers.none_but(0) && walkers.none_but(1));
            walkers.walking(|| assert!(!walkers.none_but(1)));
        });
        assert!(walkers.none_but(0));
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use dp_edge::sys::barrier::model::WITHOUT;
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;

    /// A thing that one thread looks up and another takes away; loom objects where the one changes it while the other reads it.
    struct Ground {
        walkers: Walkers,
        note: Note,
        place: AtomicU32,
        thing: UnsafeCell<u32>,
    }

    #[expect(unsafe_code, reason = "a proof")]
    // SAFETY: loom checks it.
    unsafe impl Sync for Ground {}

    impl Ground {
        fn new() -> Arc<Ground> {
            let (walkers, note, place) = (Walkers::new(), Note::new(), AtomicU32::new(1));
            Arc::new(Ground { walkers, note, place, thing: UnsafeCell::new(1) })
        }

        fn use_it(&self) {
            if self.place.load(Ordering::Acquire) != 0 {
                let found = self.thing.with(|thing| {
                    #[expect(unsafe_code, reason = "a proof")]
                    // SAFETY: loom checks it.
                    unsafe {
                        *thing
                    }
                });
                assert_eq!(found, 1, "what was found is there");
            }
        }

        fn take_away_if(&self, nobody_is_inside: impl FnOnce(&Ground) -> bool) {
            self.place.store(0, Ordering::Release);
            if nobody_is_inside(self) {
                self.thing.with_mut(|thing| {
                    #[expect(unsafe_code, reason = "a proof")]
                    // SAFETY: loom checks it.
                    unsafe {
                        *thing = 2;
                    }
                });
            }
        }
    }

    #[test]
    fn loom_nothing_is_taken_away_under_a_walker() {
        loom::model(|| {
            let ground = Ground::new();
            let other = ground.clone();
            let walker = loom::thread::spawn(move || other.walkers.walking(|| other.use_it()));
            ground.take_away_if(|ground| ground.walkers.none_but(0));
            walker.join().unwrap();
        });
    }

    /// A remover that is a walker itself.
    #[test]
    fn loom_nothing_is_taken_away_under_another_walker() {
        loom::model(|| {
            let ground = Ground::new();
            let other = ground.clone();
            let walker = loom::thread::spawn(move || other.walkers.walking(|| other.use_it()));
            ground.walkers.walking(|| ground.take_away_if(|ground| ground.walkers.none_but(1)));
            walker.join().unwrap();
        });
    }

    /// One thread leaves notes, twice; `without`: the fence of the one side or the other is left out.
    fn notes(without: [bool; 2]) {
        WITHOUT.set(without);
        loom::model(|| {
            let ground = Ground::new();
            let other = ground.clone();
            let remover = loom::thread::spawn(move || {
                other.take_away_if(|ground| ground.note.frame_after_a_rest() == 0);
            });
            for _ in 0..2 {
                let before = ground.note.leave(7);
                ground.use_it();
                ground.note.take_back(before);
            }
            remover.join().unwrap();
        });
    }

    #[test]
    fn loom_nothing_is_taken_away_under_a_note() {
        notes([false; 2]);
    }

    #[test]
    #[should_panic]
    fn loom_a_note_that_may_be_late_is_found_out() {
        notes([true, false]);
    }

    #[test]
    #[should_panic]
    fn loom_a_look_without_a_rest_is_found_out() {
        notes([false, true]);
    }
}
