// SPDX-License-Identifier: GPL-2.0

//! How a pool gets other memory, and how it loses what it has: one such change at a time, with nobody inside.

use kernel::{
    page::PAGE_SIZE,
    prelude::*,
    sync::{
        atomic::{Acquire, Relaxed},
        Arc,
    },
};

use crate::{
    abi, glue,
    memory::Area,
    pool::Pool,
    positions::{Memory, State},
    ring::Ring,
};

impl Pool {
    /// Another size, or reading in place from now on, or both. What waits stays. `ready`: a ring of that size for a
    /// caller who cannot wait for one to be made, if it is large enough for what waits.
    pub(crate) fn reshape(
        &self,
        budget: Option<u64>,
        in_place: bool,
        ready: Option<Ring>,
    ) -> Result<abi::PoolInfo> {
        let _shape = self.shape.lock();
        let old = {
            let mut inner = self.inner.lock();
            let Some(ring) = &inner.ring else { return Err(ENXIO) };
            let same = budget.is_none_or(|b| b == ring.budget);
            if inner.control.is_some() {
                return if same { Ok(inner.info()) } else { Err(EBUSY) };
            }
            if same && !in_place {
                return Ok(inner.info());
            }
            let old = (!same).then_some(ring.budget);
            inner.state = State::Moving;
            old
        };
        // Copies end soon, and none begins; but one to a program's memory takes as long as the program likes.
        let made = self
            .readers
            .wait(|| self.nobody_inside().then_some(()))
            .and_then(|()| self.make(old.and(budget), in_place, ready));
        let (info, dropped) = {
            let mut inner = self.inner.lock();
            inner.state = State::Open;
            match made {
                Ok(memory) => {
                    let dropped = inner.exchange(memory);
                    // In place or not: who reads is to find out.
                    self.look_in_any_case();
                    (Ok(inner.info()), dropped)
                }
                Err(e) => (Err(e), None),
            }
        };
        // Not with the lock held: giving memory back can sleep.
        drop(dropped);
        self.wake_readers();
        self.room.wake(glue::POLL_OUT);
        info
    }

    /// Nobody is inside, and nobody comes: what waits does not change, so it is copied without the lock.
    fn make(&self, budget: Option<u64>, in_place: bool, ready: Option<Ring>) -> Result<Memory> {
        let (old, head, tail) = {
            let inner = self.inner.lock();
            (inner.ring.clone(), inner.head, inner.tail)
        };
        let mut ring = None;
        if let (Some(budget), Some(old)) = (budget, old) {
            let new = match ready {
                Some(ready) if ready.has_place_for(tail - head) => ready,
                _ => Ring::new(budget, tail - head)?,
            };
            old.copy_to(&new, head, tail);
            ring = Some(Arc::new(new, GFP_KERNEL)?);
        }
        let control = in_place
            .then(|| Arc::new(Area::new(PAGE_SIZE, 1)?, GFP_KERNEL).map_err(Error::from))
            .transpose()?;
        Ok(Memory { ring, control })
    }

    fn nobody_inside(&self) -> bool {
        let inner = self.inner.lock();
        // Acquire: pairs with publishing, after which the sender is out of the ring.
        inner.claims == 0 && inner.reserved == self.published.load(Acquire)
    }

    /// No more messages; those that wait are gone, and so is the memory.
    pub(crate) fn close(&self) {
        let _shape = self.shape.lock();
        self.inner.lock().state = State::Closed;
        self.readers.wait_surely(|| self.nobody_inside());
        let memory = {
            let mut inner = self.inner.lock();
            if let Some(control) = inner.control() {
                // For whoever has the page mapped and no descriptor any longer.
                control.closed.store(1, Relaxed);
            }
            (inner.ring.take(), inner.control.take(), inner.take_over(true))
        };
        drop(memory);
        self.room.wake(glue::POLL_OUT);
    }
}
