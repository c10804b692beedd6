//! What the hooks do, by family of calls. Each has three outcomes: done, fail with an errno, or leave it to
//! the kernel.

pub mod aside;
pub mod ask;
pub mod copy;
pub mod fd;
pub mod fork;
pub mod leave;
#[cfg(not(test))]
pub mod load;
pub mod open;
pub mod option;
pub mod raw;
pub mod recv;
pub mod ring;
pub mod sandbox;
pub mod select;
pub mod send;
#[cfg(not(test))]
pub mod variadic;
pub mod wait;

use core::ffi::c_int;
use core::sync::atomic::{AtomicU32, Ordering};

use dp_channel::family::Stage;

use crate::channel::Channel;
pub(crate) use crate::errno::{errno, fail, give, give_int, took};
use crate::inside::Inside;
use crate::state;

extern "C-unwind" {
    /// pthread_testcancel(3).
    pub fn pthread_testcancel();
}

/// preadv2 and pwritev2: do not wait.
pub const RWF_NOWAIT: c_int = 8;

/// What a call that moves bytes does with a descriptor.
pub enum Outcome {
    /// The kernel call, as it is.
    Kernel,
    /// The kernel call on a connection that stays on TCP. Its note stands meanwhile, for whoever puts something else at the
    /// number (L7); that is all the call pays.
    Noted(Inside),
    /// The kernel call, counted here while it runs: no switch may start meanwhile (E5).
    Counted(&'static AtomicU32, Inside),
    /// The channel answered.
    Done(Result<usize, i32>),
    /// The number came to stand for something else before the call was counted: it begins anew.
    Again,
}

impl Outcome {
    /// The answer; `real` is the kernel call.
    #[inline(always)]
    pub fn go(self, real: impl FnOnce() -> isize) -> isize {
        match self {
            // Nobody hands that on: whoever gets it begins anew.
            Outcome::Kernel | Outcome::Again => real(),
            Outcome::Done(r) => give(r),
            Outcome::Noted(inside) => {
                let n = real();
                inside.leave();
                n
            }
            Outcome::Counted(flight, inside) => {
                let n = real();
                flight.fetch_sub(1, Ordering::SeqCst);
                inside.leave();
                n
            }
        }
    }
}

/// Does `call` inside the connection of `fd`, and anew where the number came to stand for something else before it was counted.
/// `frame` lies in the hook's own frame.
#[inline(always)]
fn inside_of<T>(fd: c_int, frame: &mut T, call: impl Fn(Channel, Inside, &mut T) -> Outcome) -> Outcome {
    let Some(family) = state::family() else { return Outcome::Kernel };
    loop {
        let Some(inside) = Inside::enter(fd, &*frame) else { return Outcome::Kernel };
        let outcome = call(Channel::new(family, fd, inside.conn()), inside, frame);
        if !matches!(outcome, Outcome::Noted(_) | Outcome::Counted(..)) {
            inside.leave();
        }
        if !matches!(outcome, Outcome::Again) {
            return outcome;
        }
    }
}

impl Channel {
    /// A call on a connection that stays on TCP, and will not become anything else.
    fn stays(&self, inside: Inside) -> Outcome {
        if inside.is_sole() {
            Outcome::Kernel
        } else if inside.stands(self.fd) {
            Outcome::Noted(inside)
        } else {
            Outcome::Again
        }
    }

    /// How far a connection has come, after the step that this call may be for it.
    pub fn stage_of_call(&self) -> Stage {
        match self.advance() {
            Stage::Accepted => self.check_live(),
            stage => stage,
        }
    }
}
