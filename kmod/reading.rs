// SPDX-License-Identifier: GPL-2.0

//! What read(2) does with a pool: a short message is copied out with the lock held, which is then taken once for the
//! whole of it; a longer one, or one whose reader's page is missing, is claimed, copied without the lock, and settled.

use kernel::{error::Result, sync::Arc};

use crate::{
    abi::{
        token_message, token_span, IMMEDIATE, TOKEN_DONE, TOKEN_IMMEDIATE, TOKEN_MESSAGE, TOKEN_OUT_OF_LINE,
        TOKEN_OUT_OF_LINE_IMMEDIATE, TOKEN_VOID,
    },
    glue,
    memory::Area,
    pool::{Pool, NEVER},
    positions::{Positions, Refused, State, STEPS},
    sink::Sink,
    softlock::SoftGuard,
    trace,
    wait::full_barrier,
    word,
};

/// A message that read(2) is copying out.
pub(crate) struct Claim {
    at: u64,
    /// Bytes of it in the ring.
    inside: u64,
    pub(crate) len: u64,
    pub(crate) message: *const u8,
    /// Held, where the message lies out of line.
    _area: Option<Arc<Area>>,
}

/// What read(2) finds.
pub(crate) enum Next {
    /// So many bytes were copied, and the message is over.
    Copied(usize),
    /// The claim says which: apart from this, because mostly there is none.
    Claimed,
    /// Messages are not for read(2) here.
    InPlace,
}

impl Pool {
    /// Whether nothing was published since a reader found that nothing waits. No lock is needed to know it, and who is
    /// about to sleep asks twice. A place that is visible and not yet counted may be missed: its sender has not looked
    /// for sleepers yet, nor returned.
    #[inline]
    pub(crate) fn nothing_new(&self) -> bool {
        // Acquire: what was published is seen by who looks then.
        word::load_acquire(&self.published) == word::load(&self.barren)
    }

    /// Something may wait that nobody publishes again. With the lock held.
    pub(crate) fn look_in_any_case(&self) {
        word::store(&self.barren, NEVER);
    }

    /// Takes the next message for read(2), as far as that goes at once.
    #[inline(always)]
    pub(crate) fn take(&self, out: &mut impl Sink, claim: &mut Option<Claim>) -> Option<Next> {
        if self.nothing_new() {
            None
        } else {
            self.take_waiting(out, claim)
        }
    }

    #[inline(never)]
    fn take_waiting(&self, out: &mut impl Sink, claim: &mut Option<Claim>) -> Option<Next> {
        loop {
            // Others come in after each go: there may be many places that were given up.
            let mut guard = self.inner.lock();
            let inner = &mut *guard;
            if inner.control.is_some() {
                return Some(Next::InPlace);
            }
            if inner.state != State::Open {
                return None;
            }
            let ring = inner.ring.as_ref()?;
            for _ in 0..STEPS {
                let at = inner.taken;
                match ring.token(at) {
                    (state @ (TOKEN_MESSAGE | TOKEN_IMMEDIATE), inside) => {
                        // An immediate is not for read(2).
                        let len = token_message(state, inside);
                        let skipped = if state == TOKEN_IMMEDIATE { IMMEDIATE as usize } else { 0 };
                        let message = ring.message(at).cast_const().wrapping_add(skipped);
                        inner.taken += token_span(inside);
                        let wanted = out.room().min(len as usize);
                        // SAFETY: the message has at least that many bytes, and stays while the lock is held.
                        if unsafe { out.put_at_once(message, wanted) } {
                            // What lies out of line and is over stays for whoever ended it: here nothing may sleep.
                            self.finish_read(guard, at, inside, len, false);
                            return Some(Next::Copied(wanted));
                        }
                        inner.claims += 1;
                        *claim = Some(Claim { at, inside, len, message, _area: None });
                        return Some(Next::Claimed);
                    }
                    (TOKEN_OUT_OF_LINE | TOKEN_OUT_OF_LINE_IMMEDIATE, len) => {
                        let area = inner.out_of_line_at(at)?;
                        inner.taken += token_span(8);
                        inner.claims += 1;
                        let message = area.base();
                        *claim = Some(Claim { at, inside: 8, len, message, _area: Some(area) });
                        return Some(Next::Claimed);
                    }
                    (TOKEN_VOID, len) => inner.taken += token_span(len),
                    _ => {
                        if at == inner.tail {
                            word::store(&self.barren, inner.reserved);
                        }
                        return None;
                    }
                }
            }
        }
    }

    /// What was claimed has been read, or could not be.
    pub(crate) fn settle(&self, claim: Claim, read: bool) {
        let mut guard = self.inner.lock();
        guard.claims -= 1;
        // The thread that exchanges the memory waits for the last claim.
        let wake_readers = guard.state != State::Open || !read;
        if !read && guard.taken == claim.at + token_span(claim.inside) {
            guard.taken = claim.at;
            self.look_in_any_case();
            drop(guard);
        } else {
            self.finish_read(guard, claim.at, claim.inside, claim.len, true);
        }
        if wake_readers {
            self.wake_readers();
        }
    }

    /// Sleeps until `attempt` takes something or a signal comes. `attempt` may take spinlocks, nothing that sleeps.
    #[inline]
    pub(crate) fn wait_for_message<T>(&self, mut attempt: impl FnMut() -> Option<T>) -> Result<T> {
        match self.reader.wait(&mut attempt) {
            Some(result) => result,
            None => self.readers.wait_alone(attempt),
        }
    }

    /// Something is there for one reader. Any more of it that reader passes on. The caller has had a full barrier since.
    #[inline]
    pub(crate) fn tell_readers(&self) {
        self.reader.wake();
        if self.readers.active() {
            self.readers.wake(glue::POLL_IN);
        }
    }

    /// Something has changed that readers may wait for, or who exchanges the memory.
    pub(crate) fn wake_readers(&self) {
        full_barrier();
        self.tell_readers();
    }

    /// A message is over: its room is to be had again, and who waits for it is told.
    #[inline]
    fn finish_read<'a>(
        &'a self,
        mut guard: SoftGuard<'a, Positions>,
        at: u64,
        inside: u64,
        len: u64,
        may_sleep: bool,
    ) {
        let inner = &mut *guard;
        let Some(ring) = &inner.ring else { return };
        inner.last = ring.sender(at);
        inner.received += 1;
        inner.received_bytes += len;
        trace::received(self.dpid, inner.last, len);
        if inner.head == at {
            inner.head = at + token_span(inside);
        } else {
            ring.set_state(at, TOKEN_DONE, inside);
        }
        if inside != len {
            inner.end_apart(at);
        }
        let empty = inner.head == inner.tail;
        if empty {
            // Every place that was reserved has been taken, and is published or about to be counted as published.
            word::store(&self.barren, inner.reserved);
        } else {
            while guard.step_over_done() == Err(Refused::Again) {
                drop(guard);
                guard = self.inner.lock();
            }
        }
        let over = guard.out_of_line_over;
        let wake_room = empty || over || guard.a_quarter_is_free();
        drop(guard);
        if over && may_sleep {
            self.give_back();
        }
        if wake_room {
            // Pairs with prepare_to_wait_event() in those who wait.
            full_barrier();
            if self.room.active() {
                self.room.wake(glue::POLL_OUT);
            }
        }
    }
}

impl Claim {
    /// Copies the message out, as much of it as is wanted. Returns how much that was.
    pub(crate) fn copy_out(&self, wanted: usize, out: &mut impl Sink) -> usize {
        // SAFETY: claimed: nobody writes there until it is settled, and the ring stays as long.
        let bytes = unsafe { core::slice::from_raw_parts(self.message, wanted) };
        out.put(bytes)
    }
}
