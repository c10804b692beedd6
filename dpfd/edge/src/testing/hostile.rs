//! A second thread that overwrites every word which a peer can reach, at random and with chosen values, while this side
//! sends and receives.

use std::sync::atomic::{AtomicBool, AtomicU64 as Plain, Ordering::Relaxed};
use std::time::{Duration, Instant};

use super::lines::at_line;
use crate::ring::{max_payload, Pos, LINE, MAX_LEN};
use crate::segment::Mapped;
use crate::sync::{AtomicU64, Ordering};
use crate::Error;

pub const LINES: u64 = 64;
const PAGE: usize = 4096;

/// How long each attack goes on.
const ATTACK: Duration = Duration::from_millis(if cfg!(debug_assertions) { 700 } else { 400 });
/// What no single call may take. Calls take microseconds; the machine may be busy.
const ENDLESS: Duration = Duration::from_secs(20);

/// xorshift64*: the same attack in every run, as far as two threads allow.
pub struct Random(pub u64);

impl Random {
    #[expect(clippy::should_implement_trait, reason = "it never ends, and is a number")]
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }
    /// Words that have broken such code before: limits, off by one, other laps, half of a good header.
    fn word(&mut self, near: u64) -> u64 {
        let stamp = |pos: u64| (pos & 0xffff_ffff | 0x8000_0000) << 32;
        let most = max_payload(LINES) as u64;
        let len = [0, 1, 8, 56, 57, most - 1, most, most + 1, LINES * 64, MAX_LEN as u64, 16_376, 16_377]
            [self.below(12)];
        let pos = near.wrapping_add(
            [0, 1, 2, LINES - 1, LINES, LINES + 1, 0u64.wrapping_sub(1), 0u64.wrapping_sub(LINES), 1 << 31]
                [self.below(9)],
        );
        match self.below(12) {
            0 => 0,
            1 => u64::MAX,
            2 => self.next(),
            3 => 1 << self.below(64),
            4 => stamp(pos) | len,
            5 => stamp(pos) | 1 << 30 | len,
            6 => stamp(pos) | self.next() & 0xffff_ffff,
            7 => stamp(near) | len,
            8 => at_line(Pos::new(pos)).pack() | self.next() & 0xffff,
            9 => at_line(Pos::new(near)).pack() | [0, 1, 56, 0x7fff, 0x8000][self.below(5)],
            10 => near.wrapping_add(self.below(3) as u64),
            _ => pos << 8 | self.below(6) as u64,
        }
    }
}

/// Words of shared memory that a peer can write, and a hint of where this side is.
pub struct Target<'a> {
    pub words: Vec<&'a AtomicU64>,
    pub near: Plain,
}

impl Target<'_> {
    /// Every word of `len` bytes at `at`.
    ///
    /// # Safety
    ///
    /// Mapped, 8-aligned, and reached by everybody through atomics or copies, for as long as it is used.
    pub unsafe fn add(&mut self, at: *const u8, len: usize) {
        // SAFETY: by the caller's contract.
        self.words.extend((0..len / 8).map(|i| unsafe { &*at.cast::<AtomicU64>().add(i) }));
    }

    fn attack(&self, stop: &AtomicBool, seed: u64) {
        let mut random = Random(seed);
        while !stop.load(Relaxed) {
            for _ in 0..64 {
                let near = self.near.load(Relaxed);
                // Half of the attack where this side looks: the headers around its position.
                let i = match random.below(2) {
                    0 => ((near as usize + random.below(3)) % LINES as usize) * LINE / 8,
                    _ => random.below(self.words.len()),
                };
                self.words[i % self.words.len()].store(random.word(near), Ordering::Relaxed);
            }
            // Now and then hold still, so that both sides also get on.
            (0..random.below(200)).for_each(|_| core::hint::spin_loop());
        }
    }
}

/// Runs `victim` over and over beside the attack; how often it ran.
pub fn under_attack(target: &Target<'_>, seed: u64, mut victim: impl FnMut()) -> u64 {
    /// Ends the attack also when the victim panics.
    struct Stop<'a>(&'a AtomicBool);
    impl Drop for Stop<'_> {
        fn drop(&mut self) {
            self.0.store(true, Relaxed);
        }
    }
    let stop = AtomicBool::new(false);
    let mut rounds = 0;
    std::thread::scope(|scope| {
        scope.spawn(|| target.attack(&stop, seed));
        let _stop = Stop(&stop);
        let start = Instant::now();
        while start.elapsed() < ATTACK {
            let call = Instant::now();
            for _ in 0..64 {
                victim();
            }
            assert!(call.elapsed() < ENDLESS, "calls that hardly end");
            rounds += 64;
        }
    });
    rounds
}

/// A ring of LINES lines between two pages that nobody may touch. Stays mapped.
pub fn guarded_ring() -> (Mapped, *const u8) {
    let len = LINES as usize * LINE;
    // SAFETY: an anonymous reservation of our own, part of which becomes accessible.
    unsafe {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let p = libc::mmap(core::ptr::null_mut(), len + 2 * PAGE, libc::PROT_NONE, flags, -1, 0);
        assert_ne!(p, libc::MAP_FAILED);
        let base = p.cast::<u8>().add(PAGE);
        assert_eq!(libc::mprotect(base.cast(), len, libc::PROT_READ | libc::PROT_WRITE), 0);
        (Mapped::new(base, LINES), base)
    }
}

/// Any of the errors there are is right; a caller answers them by giving the edge up.
pub fn is_error(e: Error) -> bool {
    matches!(e, Error::Empty | Error::Full | Error::Corrupt | Error::TooLong(_))
}

/// What a receive into a buffer of `room` bytes may say.
pub fn check(result: Result<usize, Error>, most: usize) {
    match result {
        Ok(n) => assert!(n <= most, "{n} bytes of {most}"),
        Err(e) => assert!(is_error(e)),
    }
}
