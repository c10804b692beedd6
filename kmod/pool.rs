// SPDX-License-Identifier: GPL-2.0

//! A token buffer pool: where the messages for one endpoint wait.
//!
//! Senders reserve a place under the lock, copy without it, and publish the token with one store. What they copy from
//! is present, or they give the place up ([`abi::TOKEN_VOID`]): no sender waits for a page while others wait for it.

use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        atomic::{Acquire, Atomic, Full, Relaxed, Release},
        Arc, Mutex,
    },
};

use crate::{
    abi::{
        self, token_is_message, token_span, token_step, IMMEDIATE, TOKEN_ALIGN, TOKEN_IMMEDIATE,
        TOKEN_MESSAGE, TOKEN_OUT_OF_LINE, TOKEN_OUT_OF_LINE_IMMEDIATE, TOKEN_VOID,
    },
    glue,
    memory::Area,
    positions::{Positions, Refused, State, STEPS},
    ring::{Ring, Spot},
    sleeper::Sleeper,
    softlock::{new_soft_lock, SoftLock},
    wait::{full_barrier, room_queue, WaitQueue},
};

#[cfg(CONFIG_KUNIT = "y")]
mod tests;

/// No number of places.
pub(crate) const NEVER: u64 = u64::MAX;
/// How often a frame looks for room in a row.
const LOOKS: u32 = 4;
/// Messages that one call of [`Pool::release`] can release.
const RELEASES: u64 = 1024;

#[pin_data]
pub(crate) struct Pool {
    pub(crate) dpid: u32,
    /// Whose it is: only that user sends to it.
    pub(crate) uid: u32,
    #[pin]
    pub(crate) inner: SoftLock<Positions>,
    /// Places that were reserved and are published. Beside [`Positions::reserved`], to know whether anybody is copying.
    pub(crate) published: Atomic<u64>,
    /// `published` when a reader had found that nothing waits; [`NEVER`]: look in any case. Changed with `inner` locked.
    pub(crate) barren: Atomic<u64>,
    /// One change of the memory at a time.
    #[pin]
    pub(crate) shape: Mutex<()>,
    /// One who sleeps until a message comes. All others are `readers`.
    pub(crate) reader: Sleeper,
    /// Readers, and everybody who polls the endpoint.
    #[pin]
    pub(crate) readers: WaitQueue,
    /// Senders without room.
    pub(crate) room: Arc<WaitQueue>,
}

/// What a place in a pool needs to be given back.
#[must_use = "a place that is neither committed nor abandoned stops the pool"]
pub(crate) struct Reservation<'a> {
    pool: &'a Pool,
    at: u64,
    /// Where the message can be mapped that lies out of line.
    out_of_line: Option<u64>,
    /// What goes beside the message.
    immediate: Option<u64>,
    /// Nobody has opened the number yet.
    pub(crate) backlog: bool,
    pub(crate) spot: Spot,
}

/// What a program can map.
pub(crate) enum Mapping {
    Control(Arc<Area>),
    Ring(Arc<Ring>),
    OutOfLine(Arc<Area>),
}

impl Pool {
    pub(crate) fn new(dpid: u32, uid: u32, ring: Ring, opened: bool) -> Result<Arc<Self>> {
        let ring = Arc::new(ring, GFP_KERNEL)?;
        let room = room_queue()?;
        let inner = Positions::new(ring, opened);
        Arc::pin_init(
            pin_init!(Self {
                dpid,
                uid,
                inner <- new_soft_lock!(inner, c"dp_pool"),
                published: Atomic::new(0),
                barren: Atomic::new(0),
                shape <- new_mutex!(()),
                reader: Sleeper::new(),
                readers <- WaitQueue::new(c"dp_readers", kernel::static_lock_class!()),
                room,
            }),
            GFP_KERNEL_ACCOUNT,
        )
    }

    /// A place for a message, and what goes beside it. `area` has it already, in case that it can only lie out of line.
    pub(crate) fn reserve(
        &self,
        len: u64,
        immediate: Option<u64>,
        area: Option<&Arc<Area>>,
    ) -> Result<Reservation<'_>, Refused> {
        self.with_room(inside(len, immediate), |inner| self.place(inner, len, immediate, area))
    }

    /// The same where there is room without looking for it, in an opened pool.
    #[inline(always)]
    pub(crate) fn reserve_at_once(&self, len: u64) -> Option<Reservation<'_>> {
        let mut inner = self.inner.lock();
        if !inner.opened || !inner.has_room_at_once(len) {
            return None;
        }
        let (at, spot) = inner.put(len, token_span(len))?;
        Some(Reservation { pool: self, at, out_of_line: None, immediate: None, backlog: false, spot })
    }

    fn place(
        &self,
        inner: &mut Positions,
        len: u64,
        immediate: Option<u64>,
        area: Option<&Arc<Area>>,
    ) -> Result<Reservation<'_>, Refused> {
        if immediate.is_some() && !inner.immediates {
            return Err(Refused::NoImmediates);
        }
        let inside = inside(len, immediate);
        let out_of_line = match (inner.is_out_of_line(inside), area) {
            (false, _) => None,
            (true, Some(area)) => Some(inner.put_apart(inner.tail, len, area.clone())),
            (true, None) => return Err(Refused::OutOfLine),
        };
        let (told, span) = match out_of_line {
            Some(_) => (len, token_span(8)),
            None => (inside, token_span(inside)),
        };
        let (at, spot) = inner.put(told, span).ok_or(Refused::Gone)?;
        inner.immediates_left |= immediate.is_some() && !inner.opened;
        Ok(Reservation { pool: self, at, out_of_line, immediate, backlog: !inner.opened, spot })
    }

    /// Puts a message there, in softirq or for another node's sender: nothing here sleeps, and what would take long is not
    /// done. `fill` writes it, and says whether it could.
    pub(crate) fn deposit(
        &self,
        len: u64,
        from: abi::Addr,
        fill: impl FnOnce(*mut u8) -> bool,
    ) -> Result<bool, Refused> {
        let mut looks = 0..LOOKS;
        let place = loop {
            let mut inner = self.inner.lock();
            match inner.room_for(len) {
                Ok(()) => break self.place(&mut inner, len, None, None)?,
                Err(Refused::Again) if looks.next().is_some() => {}
                Err(refused) => return Err(refused),
            }
        };
        let filled = fill(place.spot.message());
        if filled {
            place.commit(from);
        } else {
            place.abandon();
        }
        Ok(filled)
    }

    /// Whether a sender who waits for a place for a message should try again. It asks while it is about to sleep, and
    /// may not sleep in this: memory that is over it gives back when it tries.
    pub(crate) fn worth_trying(&self, len: u64) -> bool {
        let mut inner = self.inner.lock();
        inner.room_for(len) != Err(Refused::Full) || inner.out_of_line_over
    }

    /// Whether poll(2) should say that there is room, for a sender that was refused `len` bytes or nothing (0).
    pub(crate) fn writable(&self, len: u64) -> bool {
        // Not more than what wakes senders, or a poll could sleep on while there is room.
        let quarter = self.inner.lock().limit() / 4;
        let len = len.max(quarter.saturating_sub(3 * TOKEN_ALIGN));
        self.with_room(len, |_| Ok(())) != Err(Refused::Full)
    }

    fn with_room<T>(
        &self,
        len: u64,
        mut f: impl FnMut(&mut Positions) -> Result<T, Refused>,
    ) -> Result<T, Refused> {
        loop {
            let mut inner = self.inner.lock();
            let result = inner.room_for(len);
            if inner.out_of_line_over {
                // What is over counts until it is given back.
                drop(inner);
                self.give_back();
                continue;
            }
            match result {
                Ok(()) => return f(&mut inner),
                Err(Refused::Again) => {}
                Err(refused) => return Err(refused),
            }
        }
    }

    /// As far as one go gets.
    fn collect(&self) {
        let over = {
            let mut inner = self.inner.lock();
            let _ = inner.collect(None);
            inner.out_of_line_over
        };
        if over {
            self.give_back();
        }
    }

    /// Drops the memory of messages that lay out of line and are over. Not with the lock held: it can sleep.
    #[cold]
    pub(crate) fn give_back(&self) {
        let over = self.inner.lock().take_over(false);
        drop(over);
    }

    /// Whether poll(2) should say that there is something.
    #[inline(always)]
    pub(crate) fn readable(&self) -> bool {
        !self.nothing_new() && self.looks_readable()
    }

    fn looks_readable(&self) -> bool {
        self.inner.lock().readable()
    }

    /// The length of the next message, if one is there.
    pub(crate) fn next_len(&self) -> Option<u64> {
        self.inner.lock().next_len()
    }

    /// The sender of what read(2) took last.
    pub(crate) fn last(&self) -> abi::Addr {
        self.inner.lock().last
    }

    /// Takes what the program has released, and wakes who waits for it.
    pub(crate) fn look_again(&self) {
        {
            let inner = self.inner.lock();
            match inner.control() {
                Some(control) if control.wanted.load(Relaxed) != 0 => control.wanted.store(0, Relaxed),
                _ => return,
            }
        }
        // A sender that wants room from here on looks at what is released by itself; those from before are woken to.
        full_barrier();
        if self.room.active() {
            self.room.wake(glue::POLL_OUT);
        }
    }

    /// Releases the `count` oldest messages that were given to the program in place.
    pub(crate) fn release(&self, count: u64) -> Result {
        if count > 0 {
            let inner = self.inner.lock();
            let (Some(ring), Some(control)) = (&inner.ring, inner.control()) else {
                return Err(EINVAL);
            };
            let (mut at, taken) = (control.released.load(Acquire), control.taken.load(Acquire));
            let mut left = count;
            if count > RELEASES || !inner.holds(at) || !inner.holds(taken) {
                return Err(EINVAL);
            }
            for _ in 0..STEPS {
                if left == 0 || at >= taken {
                    break;
                }
                let (state, len) = ring.token(at);
                left -= u64::from(token_is_message(state));
                at += token_step(state, len);
            }
            if left > 0 || at > taken {
                return Err(EINVAL);
            }
            control.released.store(at, Release);
        }
        self.collect();
        self.look_again();
        Ok(())
    }

    /// What an endpoint that reads in place can map at an offset. Without `shape`: who maps holds the program's memory
    /// map, which a reader whom an exchange waits for may need.
    pub(crate) fn mapping(&self, offset: u64) -> Result<Mapping> {
        let inner = self.inner.lock();
        let (Some(ring), Some(control)) = (&inner.ring, &inner.control) else {
            return Err(ENXIO);
        };
        match offset {
            abi::MAP_CONTROL => Ok(Mapping::Control(control.clone())),
            abi::MAP_RING => Ok(Mapping::Ring(ring.clone())),
            offset => inner.out_of_line_mapped(offset).map(Mapping::OutOfLine).ok_or(EINVAL),
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.inner.lock().state == State::Closed
    }

    pub(crate) fn is_opened(&self) -> bool {
        self.inner.lock().opened
    }

    /// Somebody opens it who knows immediates or not. False: some were left that such a one could not read.
    pub(crate) fn set_opened(&self, knows_immediates: bool) -> bool {
        let mut inner = self.inner.lock();
        let may = knows_immediates || !inner.immediates_left;
        if may {
            inner.opened = true;
            inner.immediates = knows_immediates;
        }
        may
    }

    /// What IOC_STAT tells of the receiving side.
    pub(crate) fn fill(&self, stat: &mut abi::Stat) {
        self.collect();
        let inner = self.inner.lock();
        stat.dpid = self.dpid;
        stat.received = inner.received;
        stat.received_bytes = inner.received_bytes;
        stat.corrupt = inner.corrupt;
        stat.next_len = inner.next_len().unwrap_or(u64::MAX);
        stat.in_place = u32::from(inner.control.is_some());
        let Some(ring) = &inner.ring else { return };
        stat.pool = ring.budget;
        stat.pool_left = ring.budget.saturating_sub(inner.tail - inner.head);
        stat.memory = ring.bytes() + inner.control.as_ref().map_or(0, |c| c.bytes() as u64);
        stat.max_message = abi::MESSAGE_MAX;
    }
}

/// Bytes of a message in the ring, and of what goes beside it.
fn inside(len: u64, immediate: Option<u64>) -> u64 {
    len + if immediate.is_some() { IMMEDIATE } else { 0 }
}

impl Reservation<'_> {
    /// Where the message goes, and how many bytes it has.
    pub(crate) fn message(&self) -> (*mut u8, usize) {
        let before = if self.immediate.is_some() { IMMEDIATE as usize } else { 0 };
        // In the place, which has as much for both.
        (self.spot.message().wrapping_add(before), self.spot.len as usize - before)
    }

    /// Nothing is to be copied.
    pub(crate) fn is_out_of_line(&self) -> bool {
        self.out_of_line.is_some()
    }

    /// The message is there.
    #[inline(always)]
    pub(crate) fn commit(self, from: abi::Addr) {
        let words = self.spot.message().cast::<u64>();
        // SAFETY: the place is reserved, and has at least sixteen bytes behind its header.
        let state = unsafe {
            match (self.out_of_line, self.immediate) {
                (None, None) => TOKEN_MESSAGE,
                (None, Some(immediate)) => {
                    words.write(immediate);
                    TOKEN_IMMEDIATE
                }
                (Some(offset), None) => {
                    words.write(offset);
                    TOKEN_OUT_OF_LINE
                }
                (Some(offset), Some(immediate)) => {
                    words.write(offset);
                    words.add(1).write(immediate);
                    TOKEN_OUT_OF_LINE_IMMEDIATE
                }
            }
        };
        self.finish(state, from);
    }

    /// It could not be copied.
    pub(crate) fn abandon(self) {
        {
            let mut inner = self.pool.inner.lock();
            if inner.tail == self.at + token_span(self.spot.len) {
                // Nobody came after it: it never was.
                inner.tail = self.at;
                inner.reserved -= 1;
                drop(inner);
                self.pool.wake_readers();
                self.pool.room.wake(glue::POLL_OUT);
                return;
            }
        }
        self.finish(TOKEN_VOID, abi::Addr { nid: 0, dpid: 0 });
        // Its room is to be had again once what is before it has been read, and that may be now.
        self.pool.room.wake(glue::POLL_OUT);
    }

    #[inline(always)]
    fn finish(&self, state: u32, from: abi::Addr) {
        // SAFETY: the ring stays while a reservation is not counted as published; each ends once.
        unsafe { self.spot.publish(state, from) };
        // Full: the token is visible before anybody is looked for who waits for it. After this the ring may be gone.
        self.pool.published.fetch_add(1, Full);
        self.pool.tell_readers();
    }
}
