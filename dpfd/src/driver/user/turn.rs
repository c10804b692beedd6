//! What a receive did so far that found nothing, and how it goes on.

use super::drain::Drain;
use super::endpoint::{Rx, UserEndpoint};
use crate::driver::Sleep;
use crate::edge::wake::Event;
use crate::error::{Error, Result};
use dp_edge::sys::raw;

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

impl UserEndpoint {
    /// Nothing was found: asks for bells, and looks once more. How the turn ends, unless the call sleeps on its descriptor.
    pub(super) fn end_of_turn(
        &self,
        rx: &mut Rx,
        fd: i32,
        sleeps: bool,
        waits: bool,
        was_silent: bool,
    ) -> Result<Option<Turn>> {
        let Some(inbox) = self.inbox.get() else { return Err(Error::Closed) };
        // Settled by the call before: what came since has rung. Not twice, or a stale bell would stay for ever.
        if waits && rx.wake.is_settled() {
            rx.wake.go(Event::Spent, inbox.arm());
        } else if self.settle(rx, fd, Drain::Some)? {
            return Ok(Some(Turn::Again));
        }
        if !sleeps {
            return Ok(Some(Turn::Return));
        }
        if !waits || (was_silent && raw::is_nonblocking(fd)) {
            return Err(Error::WouldBlock);
        }
        Ok(None)
    }
}
