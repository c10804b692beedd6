// SPDX-License-Identifier: GPL-2.0

//! What an endpoint takes out of its pool.

use kernel::prelude::*;

use super::Endpoint;
use crate::{
    pool::Pool,
    reading::{Claim, Next},
    sink::Sink,
};

impl Endpoint {
    /// Takes the next message.
    #[inline(always)]
    pub(crate) fn receive(&self, nowait: bool, out: &mut impl Sink) -> Result<usize> {
        let pool = self.pool()?;
        if out.room() == 0 {
            return Self::wait_in_place(pool, nowait);
        }
        let mut claim = None;
        let next = match pool.take(out, &mut claim) {
            Some(next) => next,
            None if nowait => return Err(EAGAIN),
            None => {
                let next = pool.wait_for_message(|| pool.take(out, &mut claim))?;
                // A thread that was woken for a message behind one that was not yet published found none, and sleeps.
                if pool.readable() {
                    pool.wake_readers();
                }
                next
            }
        };
        match next {
            Next::Copied(n) => Ok(n),
            Next::Claimed | Next::InPlace => Self::receive_otherwise(pool, nowait, claim, out),
        }
    }

    #[inline(never)]
    fn receive_otherwise(
        pool: &Pool,
        nowait: bool,
        claim: Option<Claim>,
        out: &mut impl Sink,
    ) -> Result<usize> {
        match claim {
            Some(claim) => Self::copy_out(pool, claim, out),
            None => Self::wait_in_place(pool, nowait),
        }
    }

    fn copy_out(pool: &Pool, claim: Claim, out: &mut impl Sink) -> Result<usize> {
        let wanted = out.room().min(claim.len as usize);
        let copied = claim.copy_out(wanted, out);
        pool.settle(claim, copied == wanted);
        if copied == wanted {
            Ok(wanted)
        } else {
            Err(EFAULT)
        }
    }

    /// A read(2) that takes nothing, as there is no room for a byte, or as messages are read in place: 0 when there is
    /// one to be read.
    #[inline(never)]
    fn wait_in_place(pool: &Pool, nowait: bool) -> Result<usize> {
        pool.look_again();
        if !pool.readable() {
            if nowait {
                return Err(EAGAIN);
            }
            pool.wait_for_message(|| pool.readable().then_some(()))?;
            pool.wake_readers();
        }
        Ok(0)
    }
}
