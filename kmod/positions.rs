// SPDX-License-Identifier: GPL-2.0

//! The positions in a pool, and how they move. All of it runs with the pool's lock held: nothing here sleeps, and
//! nothing takes long.
//!
//! Between `head` and `taken` lies what is being read, between `taken` and `tail` what waits. In place, the program
//! itself moves `taken` and says in the control page up to where it has released; `head` follows when room is needed,
//! token by token, so that a lie harms nobody but the liar.

use core::array;

use kernel::{
    prelude::*,
    sync::{
        atomic::{Acquire, Atomic, Relaxed},
        Arc,
    },
};

use crate::{
    abi::{
        self, token_is_message, token_is_out_of_line, token_message, token_span, token_step, TOKEN_ALIGN,
        TOKEN_DONE, TOKEN_EMPTY, TOKEN_OUT_OF_LINE, TOKEN_VOID,
    },
    memory::Area,
    ring::{fits, Ring, Spot},
    wait::full_barrier,
};

#[cfg(CONFIG_KUNIT = "y")]
mod tests;

/// Tokens looked at in one go while the lock is held.
pub(crate) const STEPS: u32 = 4096;
/// Messages that lie out of line from one ring, at most.
const OUT_OF_LINE_MAX: usize = 16;
/// Their bytes, at most, unless it is only one.
const OUT_OF_LINE_BYTES: u64 = 1 << 20;

/// Why there is no place for a message.
#[derive(PartialEq, Eq)]
pub(crate) enum Refused {
    /// Not now.
    Full,
    /// Never in the ring: it needs memory of its own.
    OutOfLine,
    /// The endpoint is closed.
    Gone,
    /// Its program knows no immediates, and the message has one.
    NoImmediates,
    /// There is more to look at than one may with the lock held: at once, after letting others in.
    Again,
}

#[derive(PartialEq, Eq, Clone, Copy)]
pub(crate) enum State {
    /// Taken in and given out.
    Open,
    /// Its memory is being exchanged: nobody may be in it.
    Moving,
    Closed,
}

/// All of a pool that changes, under its lock.
pub(crate) struct Positions {
    pub(crate) state: State,
    pub(crate) ring: Option<Arc<Ring>>,
    /// In place: the page that the program writes.
    pub(crate) control: Option<Arc<Area>>,
    pub(crate) head: u64,
    pub(crate) taken: u64,
    pub(crate) tail: u64,
    pub(crate) reserved: u64,
    /// Messages that read(2) is copying out.
    pub(crate) claims: u32,
    /// Whether somebody has opened it. Before that senders may have put messages here.
    pub(crate) opened: bool,
    /// Whether who opened it knows immediates; true until somebody has.
    pub(crate) immediates: bool,
    /// Whether messages with one were left before.
    pub(crate) immediates_left: bool,
    out_of_line: [Option<OutOfLine>; OUT_OF_LINE_MAX],
    out_of_line_bytes: u64,
    out_of_line_count: u64,
    /// Some of them are over, and their memory is to be given back without the lock.
    pub(crate) out_of_line_over: bool,
    pub(crate) last: abi::Addr,
    pub(crate) received: u64,
    pub(crate) received_bytes: u64,
    pub(crate) corrupt: u64,
}

/// A message out of line.
struct OutOfLine {
    /// Its token.
    at: u64,
    len: u64,
    /// Where it can be mapped.
    offset: u64,
    over: bool,
    area: Arc<Area>,
}

/// Memory that is to be given back.
pub(crate) type Over = Option<[Option<Arc<Area>>; OUT_OF_LINE_MAX]>;

/// What a pool is to have from now on.
pub(crate) struct Memory {
    /// With what waits in it. [`None`]: the ring it has.
    pub(crate) ring: Option<Arc<Ring>>,
    /// [`None`]: not in place.
    pub(crate) control: Option<Arc<Area>>,
}

/// The control page's words. Whatever they hold was written by a program.
pub(crate) struct Words<'a> {
    pub(crate) taken: &'a Atomic<u64>,
    pub(crate) released: &'a Atomic<u64>,
    pub(crate) wanted: &'a Atomic<u32>,
    pub(crate) closed: &'a Atomic<u32>,
}

impl Positions {
    pub(crate) fn new(ring: Arc<Ring>, opened: bool) -> Self {
        Self {
            state: State::Open,
            ring: Some(ring),
            control: None,
            head: 0,
            taken: 0,
            tail: 0,
            reserved: 0,
            claims: 0,
            opened,
            immediates: true,
            immediates_left: false,
            out_of_line: array::from_fn(|_| None),
            out_of_line_bytes: 0,
            out_of_line_count: 0,
            out_of_line_over: false,
            last: abi::Addr { nid: 0, dpid: 0 },
            received: 0,
            received_bytes: 0,
            corrupt: 0,
        }
    }

    pub(crate) fn control(&self) -> Option<Words<'_>> {
        let page = self.control.as_ref()?.base().cast::<abi::Control>();
        // SAFETY: a page, aligned, that lives as long as the borrow; both sides use atomic accesses only.
        unsafe {
            Some(Words {
                taken: Atomic::from_ptr(&raw mut (*page).taken),
                released: Atomic::from_ptr(&raw mut (*page).released),
                wanted: Atomic::from_ptr(&raw mut (*page).wanted),
                closed: Atomic::from_ptr(&raw mut (*page).closed),
            })
        }
    }

    pub(crate) fn limit(&self) -> u64 {
        self.ring.as_ref().map_or(0, |r| r.limit())
    }

    /// Whether a position is one at which a token could be.
    pub(crate) fn holds(&self, position: u64) -> bool {
        position.wrapping_sub(self.head) <= self.tail - self.head
    }

    /// Nobody is inside. Gives back what is to be dropped.
    pub(crate) fn exchange(&mut self, memory: Memory) -> Option<Arc<Ring>> {
        let dropped = memory.ring.and_then(|ring| self.ring.replace(ring));
        self.control = memory.control;
        if let Some(control) = self.control() {
            control.taken.store(self.taken, Relaxed);
            control.released.store(self.head, Relaxed);
        }
        dropped
    }

    pub(crate) fn info(&self) -> abi::PoolInfo {
        let (size, ring) = self.ring.as_ref().map_or((0, 0), |r| (r.budget, r.bytes()));
        let taken = self.control().map_or(self.taken, |c| c.taken.load(Relaxed));
        abi::PoolInfo { size, ring, taken }
    }

    #[inline(always)]
    fn has_room(&self, span: u64) -> bool {
        self.tail - self.head + span + TOKEN_ALIGN <= self.limit()
    }

    /// Whether there is a place for a message, with nothing to be given back or collected before.
    #[inline(always)]
    pub(crate) fn has_room_at_once(&self, len: u64) -> bool {
        self.state == State::Open && !self.out_of_line_over && self.has_room(token_span(len))
    }

    /// The place after the newest message, for one that takes `span` bytes: where, and what of it is in the ring.
    #[inline(always)]
    pub(crate) fn put(&mut self, len: u64, span: u64) -> Option<(u64, Spot)> {
        let ring = self.ring.as_ref()?;
        let at = self.tail;
        self.tail += span;
        self.reserved += 1;
        ring.clear(self.tail);
        Some((at, ring.spot(at, len)))
    }

    pub(crate) fn room_for(&mut self, len: u64) -> Result<(), Refused> {
        match self.state {
            State::Open => {}
            State::Moving => return Err(Refused::Full),
            State::Closed => return Err(Refused::Gone),
        }
        if self.enough_for(len) {
            return Ok(());
        }
        if let Some(control) = self.control() {
            control.wanted.store(1, Relaxed);
            // Pairs with the program's fence between storing `released` and looking at `wanted`: either it sees that
            // room is wanted, or what it released is seen here.
            full_barrier();
        }
        self.collect(Some(len))?;
        if self.enough_for(len) {
            Ok(())
        } else {
            Err(Refused::Full)
        }
    }

    /// Whether a message can only lie out of line.
    pub(crate) fn is_out_of_line(&self, len: u64) -> bool {
        !fits(self.limit(), len)
    }

    fn enough_for(&self, len: u64) -> bool {
        if !self.is_out_of_line(len) {
            return self.has_room(token_span(len));
        }
        let few = self.out_of_line_bytes == 0 || self.out_of_line_bytes + len <= OUT_OF_LINE_BYTES;
        few && self.has_room(token_step(TOKEN_OUT_OF_LINE, len))
            && self.out_of_line.iter().any(Option::is_none)
    }

    /// Keeps the memory of a message out of line; there is room for it. Returns where it can be mapped.
    pub(crate) fn put_apart(&mut self, at: u64, len: u64, area: Arc<Area>) -> u64 {
        let offset = abi::MAP_OUT_OF_LINE + self.out_of_line_count * 2 * abi::MESSAGE_MAX;
        if let Some(slot) = self.out_of_line.iter_mut().find(|slot| slot.is_none()) {
            self.out_of_line_count += 1;
            self.out_of_line_bytes += len;
            *slot = Some(OutOfLine { at, len, offset, over: false, area });
        }
        offset
    }

    /// The memory of the message whose token is there.
    pub(crate) fn out_of_line_at(&self, at: u64) -> Option<Arc<Area>> {
        self.out_of_line.iter().flatten().find(|a| a.at == at && !a.over).map(|a| a.area.clone())
    }

    /// The memory of the message that can be mapped there.
    pub(crate) fn out_of_line_mapped(&self, offset: u64) -> Option<Arc<Area>> {
        self.out_of_line.iter().flatten().find(|a| a.offset == offset && !a.over).map(|a| a.area.clone())
    }

    /// The message whose token is there is over.
    pub(crate) fn end_apart(&mut self, at: u64) {
        if let Some(out_of_line) = self.out_of_line.iter_mut().flatten().find(|a| a.at == at && !a.over) {
            out_of_line.over = true;
            self.out_of_line_bytes -= out_of_line.len;
            self.out_of_line_over = true;
        }
    }

    /// What is to be dropped once the lock is not held. `all`: whatever lies out of line.
    pub(crate) fn take_over(&mut self, all: bool) -> Over {
        if !self.out_of_line_over && !all {
            return None;
        }
        self.out_of_line_over = false;
        Some(array::from_fn(|i| self.out_of_line[i].take_if(|a| a.over || all).map(|a| a.area)))
    }

    /// Moves `head` on over what was released or read, until there is enough room for a message, if one is named.
    pub(crate) fn collect(&mut self, wanted: Option<u64>) -> Result<(), Refused> {
        let Some(control) = self.control() else {
            return self.step_over_done();
        };
        let claimed = control.released.load(Acquire);
        if !self.holds(claimed) {
            self.corrupt += 1;
            return Ok(());
        }
        for _ in 0..STEPS {
            let Some(ring) = &self.ring else { return Ok(()) };
            let (state, len) = ring.token(self.head);
            let next = self.head + token_step(state, len);
            // A release of half a token counts when the rest comes.
            if state == TOKEN_EMPTY || next > claimed || wanted.is_some_and(|len| self.enough_for(len)) {
                return Ok(());
            }
            if token_is_message(state) {
                self.received += 1;
                self.received_bytes += token_message(state, len);
            }
            if token_is_out_of_line(state) {
                self.end_apart(self.head);
            }
            self.head = next;
        }
        Err(Refused::Again)
    }

    pub(crate) fn step_over_done(&mut self) -> Result<(), Refused> {
        let Some(ring) = &self.ring else { return Ok(()) };
        for _ in 0..STEPS {
            match ring.token(self.head) {
                // Nobody needs to come for what was given up, even if nothing else is there.
                (TOKEN_VOID, len) if self.head == self.taken => {
                    self.head += token_span(len);
                    self.taken = self.head;
                }
                (TOKEN_DONE | TOKEN_VOID, len) if self.head != self.taken => self.head += token_span(len),
                _ => return Ok(()),
            }
        }
        Err(Refused::Again)
    }

    /// Waking senders for less would have them and the reader take turns at every message.
    pub(crate) fn a_quarter_is_free(&self) -> bool {
        let limit = self.limit();
        let used = self.tail - self.head;
        used == 0 || (limit.saturating_sub(used)) * 4 >= limit
    }

    /// Whether there is something to come for. In place that is also what was given up: only the program can step over
    /// it, and it takes room.
    pub(crate) fn readable(&self) -> bool {
        let (Some(control), Some(ring)) = (self.control(), &self.ring) else {
            return self.next_len().is_some();
        };
        let taken = control.taken.load(Relaxed);
        self.holds(taken) && taken != self.tail && ring.token(taken).0 != TOKEN_EMPTY
    }

    pub(crate) fn next_len(&self) -> Option<u64> {
        let ring = self.ring.as_ref()?;
        let mut at = self.control().map_or(self.taken, |c| c.taken.load(Relaxed));
        // A position out of range is nonsense of the program's: there is nothing.
        let mut left = (self.tail - self.head).checked_sub(at.wrapping_sub(self.head))?;
        for _ in 0..STEPS {
            if left == 0 {
                return None;
            }
            match ring.token(at) {
                (state, len) if token_is_message(state) => return Some(token_message(state, len)),
                (TOKEN_VOID, len) => {
                    at += token_span(len);
                    left = left.checked_sub(token_span(len))?;
                }
                _ => return None,
            }
        }
        None
    }
}
