//! Whether a connection's descriptor blocks, remembered: O_NONBLOCK belongs to the open file, and fcntl(2) at every
//! receive that finds nothing would cost as much as the receive.
//!
//! ```text
//!   31                        2 1   0
//!  +---------------------------+-----+
//!  | changes                   | how |   how: 0 not asked, 1 blocks, 2 does not, 3 being changed
//!  +---------------------------+-----+
//! ```
//!
//! A change is announced before and after. An answer of the kernel is kept only if there was no change since the question.
//! A process that dies inside a change leaves "being changed", and every receive asks.

use dp_edge::sync::{AtomicU32, Ordering};

const HOW: u32 = 3;
const UNKNOWN: u32 = 0;
const BLOCKS: u32 = 1;
const DOES_NOT: u32 = 2;
const CHANGING: u32 = 3;

/// See the module. Zero is "not asked".
#[derive(Debug, Default)]
pub struct Mode(AtomicU32);

impl Mode {
    /// Of a new connection.
    pub fn reset(&self) {
        self.0.store(UNKNOWN, Ordering::Relaxed);
    }

    /// Whether O_NONBLOCK is set; `ask` asks the kernel, where that is not known.
    #[inline]
    pub fn is_nonblocking(&self, ask: impl FnOnce() -> bool) -> bool {
        // Acquire: a change that is over is seen by the kernel's answer.
        let word = self.0.load(Ordering::Acquire);
        match word & HOW {
            BLOCKS => false,
            DOES_NOT => true,
            how => {
                let answer = ask();
                if how == UNKNOWN {
                    let known = word | if answer { DOES_NOT } else { BLOCKS };
                    let _ = self.0.compare_exchange(word, known, Ordering::Relaxed, Ordering::Relaxed);
                }
                answer
            }
        }
    }

    /// Does `change`, which may change it.
    pub fn change<R>(&self, change: impl FnOnce() -> R) -> R {
        self.turn(CHANGING);
        let result = change();
        self.turn(UNKNOWN);
        result
    }

    fn turn(&self, how: u32) {
        let mut word = self.0.load(Ordering::Relaxed);
        loop {
            let next = (word & !HOW).wrapping_add(HOW + 1) | how;
            // AcqRel: the change lies between the two turns.
            match self.0.compare_exchange(word, next, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => word = now,
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_is_asked_once_for_each_change() {
        let mode = Mode::default();
        let never = || -> bool { unreachable!("known") };
        assert!(mode.is_nonblocking(|| true));
        assert!(mode.is_nonblocking(never));
        mode.change(|| assert!(mode.is_nonblocking(|| true)));
        assert!(!mode.is_nonblocking(|| false));
        assert!(!mode.is_nonblocking(never));
    }

    #[test]
    fn an_answer_from_before_a_change_is_not_kept() {
        let mode = Mode::default();
        // Asked, changed, and only then kept.
        assert!(!mode.is_nonblocking(|| {
            mode.change(|| ());
            false
        }));
        assert!(mode.is_nonblocking(|| true));
        // While somebody changes it, two changes at once included, no answer is kept that is from before the last.
        let mode = Mode::default();
        mode.change(|| {
            assert!(!mode.is_nonblocking(|| {
                mode.change(|| ());
                false
            }));
        });
        assert!(mode.is_nonblocking(|| true));
    }
}

#[cfg(all(test, loom))]
mod loom_mode {
    use loom::sync::Arc;

    use super::*;
    use dp_edge::testing::explore;

    /// One thread sets O_NONBLOCK, another one receives: once the change is over, no receive takes it for blocking.
    #[test]
    fn loom_what_is_remembered_is_what_the_kernel_says() {
        explore(None, || {
            let mode = Arc::new(Mode::default());
            let kernel = Arc::new(AtomicU32::new(0));
            let (m, k) = (mode.clone(), kernel.clone());
            let changer = loom::thread::spawn(move || m.change(|| k.store(1, Ordering::Release)));
            let ask = || mode.is_nonblocking(|| kernel.load(Ordering::Acquire) == 1);
            ask();
            changer.join().unwrap();
            assert!(ask());
        });
    }
}
