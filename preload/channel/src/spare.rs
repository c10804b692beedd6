//! Spare rings of an arena, longer than those of its slots, for the directions that need one (PROTOCOLS E5).
//!
//! A ring that a core's own caches hold carries a stream at half the speed of one that they do not, or less: each line is
//! fetched out of the other core's cache when it is written, and again when it is read. But few connections carry
//! streams, and memory is each one's. A sender of a stream, that fills its slot's own ring again and again or sends large
//! pieces, takes one of these, with its next switch from TCP to the ring. They have no memory, and no addresses, before.
//!
//! At that switch the ring is empty: its receiver has acknowledged the TCP epoch before it, so it has taken all there was.
//! The sender makes the header at its tail invalid in the longer ring, says so in its line ([`crate::switch::TxLine`]),
//! and goes on there: positions and stamps are the same, only the number of lines is another. A receiver asks for the
//! ring each time it looks; it never finds one with something in it that is not the sender's. It maps the ring when it is
//! asked to, before it acknowledges that epoch, and says so; a sender that is not told so stays where it is.
//!
//! Edges of endpoints grow otherwise; dpfd's `edge/longer.rs` says why there are two mechanisms.
//!
//! Both sides write the word, and neither believes it: a ring that two directions of these two processes have taken
//! holds rubbish, of these two, and nothing outside of it is reached.

pub use crate::geometry::SPARES;
use crate::geometry::{populate, Part};
use crate::places::Places;
use dp_edge::ring::LINE;
use dp_edge::segment::Mapped;
use dp_edge::sync::{AtomicU32, Ordering};

/// What is a stream: so many bytes, ...
pub const STREAM: u64 = 16 << 20;
/// ... in so long, ns.
pub const WINDOW: u64 = 100_000_000;

/// Whether `bytes` sent in `took` ns are a stream's.
pub const fn is_stream(bytes: u64, took: u64) -> bool {
    bytes >= STREAM && took <= WINDOW.saturating_mul(bytes / STREAM)
}

/// The spare rings of an arena, in this process's mapping.
#[derive(Debug, Clone, Copy)]
pub struct Spares {
    /// Bit n: ring n + 1 is somebody's.
    taken: &'static AtomicU32,
    places: Places,
}

impl Spares {
    pub(super) fn new(taken: &'static AtomicU32, places: Places) -> Spares {
        Spares { taken, places }
    }

    /// Lines of each.
    pub fn lines(&self) -> u64 {
        self.places.geometry().spare.into()
    }

    fn part(n: u32) -> Option<Part> {
        n.checked_sub(1).filter(|&i| i < SPARES).map(|i| Part::Spare(i as usize))
    }

    /// Whether `n` is one of these.
    pub fn has(&self, n: u32) -> bool {
        Spares::part(n).is_some()
    }

    /// Ring `n`, from 1 on, if it is mapped: 0 is none of these, and neither is one beyond the last.
    #[inline]
    pub fn ring(&self, n: u32) -> Option<Mapped> {
        let at = self.places.get(Spares::part(n)?)?;
        // SAFETY: mapped for good; a power of two of lines.
        Some(unsafe { Mapped::new(at, self.lines()) })
    }

    /// Makes sure that ring `n` is mapped.
    pub fn bring(&self, n: u32) -> bool {
        Spares::part(n).is_some_and(|part| self.places.bring(part).is_some())
    }

    /// Whether one is free. A look only.
    pub fn any_free(&self) -> bool {
        self.taken.load(Ordering::Relaxed) & MASK != MASK
    }

    /// Takes one. It has no memory before [`Spares::populate`].
    pub fn claim(&self) -> Option<u32> {
        // Every turn somebody else takes one; a hostile peer could go on for ever.
        for _ in 0..2 * SPARES {
            let taken = self.taken.load(Ordering::Relaxed);
            let i = (!taken & MASK).trailing_zeros();
            if i >= SPARES {
                return None;
            }
            // Acquire: its former owners are through with it.
            if self.taken.fetch_or(1 << i, Ordering::Acquire) & (1 << i) == 0 {
                return Some(i + 1);
            }
        }
        None
    }

    /// Gives back ring `n`, of which nobody uses anything any more. Its memory stays, for the next one.
    pub fn give_back(&self, n: u32) {
        if (1..=SPARES).contains(&n) {
            self.taken.fetch_and(!(1 << (n - 1)), Ordering::Release);
        }
    }

    /// Makes sure that ring `n` is mapped and has memory, so that no access can fault for lack of it. False where there is
    /// none, or no kernel that can do that (before Linux 5.14), or no such ring.
    pub fn populate(&self, n: u32) -> bool {
        let at = Spares::part(n).and_then(|part| self.places.bring(part));
        // SAFETY: a part of the arena.
        at.is_some_and(|at| unsafe { populate(at, self.lines() as usize * LINE) }.is_ok())
    }
}

const MASK: u32 = (1 << SPARES) - 1;

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;
    use crate::arena::{Arena, Geometry};
    use crate::unmapped::Unmapped;
    use dp_edge::ring::{Lines, Pos};

    #[test]
    fn a_stream_is_told_by_its_rate() {
        assert!(is_stream(STREAM, WINDOW) && is_stream(STREAM, 0));
        assert!(!is_stream(STREAM - 1, 0) && !is_stream(STREAM, WINDOW + 1));
        // One send of a GiB, in a second; and in ten.
        assert!(is_stream(1 << 30, 1_000_000_000) && !is_stream(1 << 30, 10_000_000_000));
        assert!(is_stream(u64::MAX, u64::MAX >> 12));
    }

    #[test]
    #[cfg_attr(miri, ignore)]
    fn each_is_taken_once_and_comes_back() {
        let (arena, fd) = Arena::create(Geometry { slots: 16, lines: 64, spare: 256 }).unwrap();
        let ours = arena.spares().unwrap();
        let theirs = Unmapped::look(fd.as_fd(), usize::MAX).unwrap().0.map().unwrap().spares().unwrap();
        let mut taken: Vec<u32> =
            (0..SPARES).map(|i| [ours, theirs][i as usize % 2].claim().unwrap()).collect();
        assert!(!theirs.any_free());
        assert_eq!((ours.claim(), theirs.claim()), (None, None));
        let before = arena.addresses();
        assert!(taken.iter().all(|&n| ours.ring(n).is_none() && ours.populate(n) && theirs.bring(n)));
        assert_eq!(arena.addresses(), before + SPARES as usize * 256 * LINE);
        // What is written here is read there, and in no other ring.
        for &n in &taken {
            ours.ring(n).unwrap().header(Pos::new(u64::from(n))).store(u64::from(n), Ordering::Relaxed);
        }
        for &n in &taken {
            let ring = theirs.ring(n).unwrap();
            assert_eq!(ring.count(), 256);
            for i in 0..256 {
                let want = if i == u64::from(n) { i } else { 0 };
                assert_eq!(ring.header(Pos::new(i)).load(Ordering::Relaxed), want, "ring {n}, line {i}");
            }
        }
        taken.sort_unstable();
        assert_eq!(taken, (1..=SPARES).collect::<Vec<_>>());
        ours.give_back(7);
        assert!(theirs.any_free());
        assert_eq!((theirs.claim(), ours.claim()), (Some(7), None));
        // Nothing that is none.
        for n in [0, SPARES + 1, u32::MAX] {
            ours.give_back(n);
            assert!(ours.ring(n).is_none() && !ours.populate(n) && !ours.any_free());
        }
    }

    #[test]
    #[cfg_attr(miri, ignore)]
    fn one_word_tells_where_they_are() {
        let (arena, _fd) = Arena::create(Geometry { slots: 16, lines: 64, spare: 1 << 16 }).unwrap();
        assert!(arena.spares().unwrap().bring(3));
        // SAFETY: packed just now, and the arena stays.
        let again = unsafe { Arena::unpack(arena.pack()) }.unwrap().spares().unwrap();
        assert_eq!((again.ring(3).unwrap().count(), again.ring(4).is_none()), (1 << 16, true));
        // SAFETY: 0.
        assert!(unsafe { Arena::unpack(0) }.is_none());
        let (without, _fd) = Arena::create(Geometry { slots: 16, lines: 64, spare: 0 }).unwrap();
        assert!(without.spares().is_none());
    }
}
