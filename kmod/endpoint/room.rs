// SPDX-License-Identifier: GPL-2.0

//! What an endpoint says of itself by poll(2), and of whose room for its messages it wants to hear.

use kernel::sync::Arc;

use super::Endpoint;
use crate::{
    abi, glue,
    pool::Pool,
    sender::{Refusal, Tx},
    wait::{full_barrier, WaitQueue},
};

impl Endpoint {
    /// What poll(2) says. The caller is on the queue of readers already.
    pub(crate) fn poll(&self) -> u32 {
        let Ok(pool) = self.pool() else {
            return glue::POLL_ERR;
        };
        pool.look_again();
        let mut events = 0;
        if pool.readable() {
            events |= glue::POLL_IN;
        }
        let mut tx = self.tx.lock();
        if self.writable_for_earlier(&mut tx) || self.writable_for_last(&mut tx) {
            events |= glue::POLL_OUT;
        }
        events
    }

    /// A message was refused. The last one may be another sender's, who wants to be told, too.
    pub(super) fn refuse(pool: &Pool, tx: &mut Tx, refusal: Refusal) {
        tx.earlier.retain(|e| !e.told && e.refusal.dpid != refusal.dpid);
        if tx.refused.is_some_and(|last| last.dpid != refusal.dpid) {
            tx.set_last_aside(&pool.readers);
        }
        tx.refused = Some(refusal);
    }

    /// A message was sent: if one to that destination was refused, nobody waits for its room any longer.
    pub(super) fn accepted(pool: &Pool, tx: &mut Tx, dpid: u32) {
        match tx.refused {
            Some(last) if last.dpid == dpid => tx.refused = None,
            // poll(2) is about what is sent now.
            Some(_) => tx.set_last_aside(&pool.readers),
            None => {}
        }
        if !tx.earlier.is_empty() {
            tx.earlier.retain(|e| e.refusal.dpid != dpid);
        }
    }

    /// Whether one of the messages that were refused before the last would have room. If not, the wake-ups for their
    /// room will be this endpoint's, too.
    fn writable_for_earlier(&self, tx: &mut Tx) -> bool {
        let mut writable = false;
        let route = tx.route.as_ref();
        for e in tx.earlier.iter_mut() {
            if let (false, Some(queue)) = (e.told, self.no_room_for(route, e.refusal)) {
                // SAFETY: it is on this queue or on none; aimed when it was made, on no queue then.
                unsafe {
                    e.relay.detach(&e.waits_at);
                    e.relay.attach(&queue);
                }
                e.waits_at = queue;
                // As below.
                full_barrier();
                if self.no_room_for(route, e.refusal).is_some() {
                    continue;
                }
            }
            e.told = true;
            writable = true;
        }
        writable
    }

    /// Whether the message that was refused last would have room, or one to the target, or be refused for good. If not,
    /// the wake-up for room will be one of this endpoint's, too.
    pub(super) fn writable_for_last(&self, tx: &mut Tx) -> bool {
        let Some(queue) = self.no_room_at(tx) else { return true };
        if let Some(old) = tx.waits_at.replace(queue.clone()) {
            // SAFETY: it is on this queue or on none.
            unsafe { self.relay.detach(&old) };
        }
        // SAFETY: aimed when the endpoint got its number; on no queue now; `waits_at` holds the queue.
        unsafe { self.relay.attach(&queue) };
        // Pairs with the barrier between making room and looking for who waits.
        full_barrier();
        self.no_room_at(tx).is_none()
    }

    /// Where a wake-up for room will come from; [`None`] if there is room.
    fn no_room_at(&self, tx: &Tx) -> Option<Arc<WaitQueue>> {
        // What is for other nodes never waits.
        let here = |to: abi::Addr| (to.nid == 0).then_some(Refusal { dpid: to.dpid, len: 0, homeless: None });
        self.no_room_for(tx.route.as_ref(), tx.refused.or(tx.target.and_then(here))?)
    }

    /// `route`: asked first, because the table is everybody's. Not where it is closed; until then it wakes who waits.
    fn no_room_for(&self, route: Option<&Arc<Pool>>, refusal: Refusal) -> Option<Arc<WaitQueue>> {
        let Refusal { dpid, len, homeless } = refusal;
        if homeless == Some(self.table.openings()) {
            return Some(self.table.arrivals.clone());
        }
        // One that is not there takes messages until it is; another user's refuses at once.
        let route = route.filter(|pool| pool.dpid == dpid && !pool.is_closed());
        let pool = route.cloned().or_else(|| self.table.find(dpid))?;
        (pool.uid == self.uid && !pool.writable(len)).then(|| pool.room.clone())
    }
}
