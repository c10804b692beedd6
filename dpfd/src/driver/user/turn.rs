//! What a receive did so far that found nothing, and how it goes on.

use crate::driver::Sleep;

/// What a call did so far, for want of a message.
#[derive(Debug, Default)]
pub struct Waited {
    /// It may wait: the descriptor was asked.
    pub asked: bool,
    /// The last it did was to look for a while, and something came.
    pub spun: bool,
}

/// What a call does that found nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InVain {
    /// It sleeps, if the descriptor waits.
    Sleep,
    /// It returns, and the next message must be seen as one that comes.
    Return,
}

/// How a turn without a message ended.
pub enum Turn {
    /// The edges are looked at again.
    Again,
    /// The call sleeps.
    Sleep(Sleep),
    /// It returns.
    Return,
}
