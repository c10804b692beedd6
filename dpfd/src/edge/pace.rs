//! How often a receiver that spins looks at its edge.
//!
//! Every look at a header that is not there yet takes its line from the sender, who wants to write it. While
//! messages are far apart that is the point of spinning. While they come as fast as they can be sent, it
//! makes both sides move in step, two transfers of a line for each message, and each waits for the other.
//! A receiver that looks away for a moment then finds several messages at once, and the sender writes them
//! undisturbed. So: look away once, after taking the last message there was, if that one had not been
//! waited for long.

/// Looks that found nothing before a message, below which messages count as close together. About 50 ns;
/// the answer to a message of ours takes at least twice as long.
const CLOSE: u32 = 24;
/// Pauses a look away lasts, about 0.2 us.
const AWAY: u32 = 16;

/// One receiver's pace. [`Pace::got`] after each message, [`Pace::nothing`] after each look in vain.
#[derive(Debug, Clone, Copy, Default)]
pub struct Pace {
    looks: u32,
    close: bool,
}

impl Pace {
    /// A message was there.
    #[inline(always)]
    pub fn got(&mut self) {
        if self.looks != 0 {
            self.close = self.looks < CLOSE;
            self.looks = 0;
        }
    }

    /// Nothing was there. Returns how often in a row.
    #[inline(always)]
    pub fn nothing(&mut self) -> u32 {
        if self.looks == 0 && self.close {
            (0..AWAY).for_each(|_| crate::sync::relax());
        }
        self.looks = self.looks.saturating_add(1);
        self.looks
    }
}
