// SPDX-License-Identifier: GPL-2.0

//! An endpoint: what an open file of /dev/dp is. It has a pool, where its messages wait, and a sending side.

use kernel::{
    bindings,
    ffi::c_char,
    iov::IovIterSource,
    new_mutex,
    prelude::*,
    sync::{
        atomic::{Atomic, Relaxed},
        Arc, ArcBorrow, Mutex, SetOnce,
    },
    task::Kuid,
};

use crate::{
    abi::{self, DPID_FREE, DPID_MAX, MESSAGE_MAX, NID_ALL, POOL_MAX, POOL_MIN},
    glue,
    network::Network,
    pool::Pool,
    positions::Refused,
    sender::{Refusal, Tx},
    source::{copy_from, Source},
    table::Table,
    trace,
    wait::Relay,
};

mod receiving;
mod room;

/// Open files so far.
static SERIAL: Atomic<u64> = Atomic::new(0);

#[pin_data]
pub(crate) struct Endpoint {
    pub(crate) table: Arc<Table>,
    pub(crate) uid: u32,
    /// Numbers below [`DPID_FREE`], too. Like `table` and `uid` it is what was true when the device was opened: since
    /// then the program may have gone into namespaces of its own, where it may do anything.
    any_number: bool,
    /// Tells it from all others, also from later ones with its number.
    serial: u64,
    pool: SetOnce<Arc<Pool>>,
    #[pin]
    pub(crate) tx: Mutex<Tx>,
    /// Attached to a queue for room while poll(2) says that there is none. Changed with `tx` locked.
    #[pin]
    relay: Relay,
}

/// Where to wait for room.
enum Wait {
    Pool(Arc<Pool>),
    /// Until more numbers than this have been opened.
    Opening(u64),
}

impl Endpoint {
    pub(crate) fn new() -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                table: Table::of_this_process(),
                uid: Kuid::current_euid().into_raw().val,
                // SAFETY: the calling process has a namespace.
                any_number: unsafe { glue::dp_glue_may_bind() },
                serial: SERIAL.fetch_add(1, Relaxed) + 1,
                pool: SetOnce::new(),
                tx <- new_mutex!(Tx::new()),
                relay <- Relay::new(),
            }),
            GFP_KERNEL_ACCOUNT,
        )
    }

    /// The process that opened the device.
    pub(crate) fn uid(&self) -> u32 {
        self.uid
    }

    /// What every call but the first needs.
    pub(crate) fn pool(&self) -> Result<&Arc<Pool>> {
        self.pool.as_ref().ok_or(ENXIO)
    }

    /// Gives the endpoint its number.
    pub(crate) fn open(this: ArcBorrow<'_, Self>, dpid: u32, version: u32, budget: u64) -> Result<u32> {
        if dpid > DPID_MAX || (budget != 0 && !(POOL_MIN..=POOL_MAX).contains(&budget)) {
            return Err(EINVAL);
        }
        if dpid != 0 && dpid < DPID_FREE && !this.any_number {
            return Err(EACCES);
        }
        let _tx = this.tx.lock();
        if this.pool.as_ref().is_some() {
            return Err(EBUSY);
        }
        let pool = this.table.open(dpid, this, version, (budget != 0).then_some(budget))?;
        let dpid = pool.dpid;
        // SAFETY: on no queue yet; detached when the endpoint goes, which holds the pool as long.
        unsafe { this.relay.aim(&pool.readers) };
        this.pool.populate(pool);
        Ok(dpid)
    }

    /// The default destination.
    pub(crate) fn target(&self, to: abi::Addr) -> Result {
        let pool = self.pool()?;
        let to = self.checked(to)?;
        if to.nid != 0 && !self.table.network.reaches(to.nid) {
            return Err(glue::error(bindings::EHOSTUNREACH));
        }
        let mut tx = self.tx.lock();
        tx.target = Some(to);
        tx.refused = None;
        drop(tx);
        // A thread that polls for room polled for another's.
        pool.readers.wake(glue::POLL_OUT);
        Ok(())
    }

    /// Sends one message that is in one piece to the target, if that takes no more than almost every one does. False:
    /// nothing was done.
    ///
    /// # Safety
    ///
    /// `message` is in the calling program's address space, or no address of any.
    #[inline(always)]
    pub(crate) unsafe fn write_at_once(&self, message: *const c_char, len: usize) -> bool {
        let Ok(own) = self.pool() else { return false };
        if len as u64 > MESSAGE_MAX {
            return false;
        }
        // SAFETY: who calls it has room for `len` bytes; for the rest by what the caller promises.
        let fill = move |to: *mut u8| unsafe { glue::dp_glue_copy_from(to.cast(), message, len) };
        let mut tx = self.tx.lock();
        match tx.target {
            Some(to) if to.nid == 0 => {
                let from = abi::Addr { nid: 0, dpid: own.dpid };
                self.send_at_once(&mut tx, to, from, len, fill)
            }
            Some(to) => self.send_away_at_once(&mut tx, own.dpid, to, len, &mut { fill }),
            None => false,
        }
    }

    /// Sends one message, to the target or to another destination, and what goes beside it.
    pub(crate) fn send(
        &self,
        to: Option<abi::Addr>,
        nowait: bool,
        immediate: Option<u64>,
        message: &mut IovIterSource<'_>,
    ) -> Result<usize> {
        let own = self.pool()?;
        let len = message.len();
        if len as u64 > MESSAGE_MAX {
            return Err(EMSGSIZE);
        }
        let from = abi::Addr { nid: 0, dpid: own.dpid };
        if immediate.is_none() {
            let mut tx = self.tx.lock();
            if let Some(to) = to.or(tx.target) {
                // SAFETY: there is room for the message.
                let fill = |to: *mut u8| unsafe { copy_from(message, to, len) };
                if self.send_at_once(&mut tx, to, from, len, fill) {
                    return Ok(len);
                }
            }
        }
        self.send_with_care(own, to, nowait, immediate, message, len)
    }

    /// For whatever may come in between.
    #[inline(never)]
    fn send_with_care(
        &self,
        own: &Pool,
        to: Option<abi::Addr>,
        nowait: bool,
        immediate: Option<u64>,
        message: &mut IovIterSource<'_>,
        len: usize,
    ) -> Result<usize> {
        let from = abi::Addr { nid: 0, dpid: own.dpid };
        let mut source = Source::Iter(message);
        loop {
            let mut tx = self.tx.lock();
            let to = match to {
                Some(to) => self.checked(to)?,
                None => tx.target.ok_or(glue::error(bindings::EDESTADDRREQ))?,
            };
            if to.nid != 0 {
                drop(tx);
                // A frame has no place for it.
                if immediate.is_some() {
                    return Err(glue::error(bindings::EOPNOTSUPP));
                }
                return self.send_away(own.dpid, to, source, len);
            }
            let dpid = to.dpid;
            let openings = self.table.openings();
            let wait = match self.route(&mut tx, dpid)? {
                None => Wait::Opening(openings),
                Some(pool) => match pool.reserve(len as u64, immediate, source.area()) {
                    Ok(place) => {
                        if !place.is_out_of_line() && !source.copy_to(&place) {
                            place.abandon();
                            drop(tx);
                            source = source.fetch(len)?;
                            continue;
                        }
                        let backlog = place.backlog;
                        place.commit(from);
                        if backlog {
                            tx.count_backlog(dpid);
                        }
                        Self::accepted(own, &mut tx, dpid);
                        tx.count_sent(own.dpid, to, len as u64);
                        return Ok(len);
                    }
                    Err(Refused::OutOfLine) => {
                        drop(tx);
                        source = source.put_apart(len)?;
                        continue;
                    }
                    Err(Refused::Gone) => {
                        tx.route = None;
                        continue;
                    }
                    Err(Refused::NoImmediates) => return Err(glue::error(bindings::EPROTONOSUPPORT)),
                    Err(Refused::Full | Refused::Again) => Wait::Pool(pool.clone()),
                },
            };
            tx.full += 1;
            trace::full(from.dpid, to, len as u64);
            if nowait {
                let homeless = if let Wait::Opening(openings) = wait { Some(openings) } else { None };
                Self::refuse(own, &mut tx, Refusal { dpid, len: len as u64, homeless });
                if self.writable_for_last(&mut tx) {
                    continue;
                }
                return Err(EAGAIN);
            }
            drop(tx);
            match wait {
                Wait::Pool(pool) => pool.room.wait(|| pool.worth_trying(len as u64).then_some(()))?,
                Wait::Opening(seen) => {
                    self.table.arrivals.wait(|| (self.table.openings() != seen).then_some(()))?
                }
            }
        }
    }

    /// What almost every message needs and no more: to where the last one went, where there is room, from memory that is
    /// present. False: nothing was done, and the long way finds out why.
    #[inline(always)]
    fn send_at_once(
        &self,
        tx: &mut Tx,
        to: abi::Addr,
        from: abi::Addr,
        len: usize,
        fill: impl FnOnce(*mut u8) -> bool,
    ) -> bool {
        let Some(pool) = &tx.route else { return false };
        if to.nid != 0 || to.dpid != pool.dpid || tx.refused.is_some() || !tx.earlier.is_empty() {
            return false;
        }
        let Some(place) = pool.reserve_at_once(len as u64) else { return false };
        if !fill(place.spot.message()) {
            place.abandon();
            return false;
        }
        place.commit(from);
        tx.count_sent(from.dpid, to, len as u64);
        true
    }

    /// A destination that there can be; node 0 is this one.
    fn checked(&self, to: abi::Addr) -> Result<abi::Addr> {
        if to.dpid == 0 || to.dpid > DPID_MAX || to.nid > NID_ALL {
            return Err(EINVAL);
        }
        let nid = if to.nid == self.table.network.nid() { 0 } else { to.nid };
        Ok(abi::Addr { nid, dpid: to.dpid })
    }

    /// What an administrator changes.
    pub(crate) fn network(&self) -> &Network {
        &self.table.network
    }

    /// The pool of a number; [`None`]: nobody has opened it, and no message can be left there now.
    fn route<'a>(&self, tx: &'a mut Tx, dpid: u32) -> Result<Option<&'a Arc<Pool>>> {
        // One that is closed refuses, and the search comes then.
        if tx.route.as_ref().is_none_or(|pool| pool.dpid != dpid) {
            tx.route = None;
            let Some(pool) = self.table.find_or_park(dpid, self.uid, tx)? else {
                return Ok(None);
            };
            if pool.uid != self.uid {
                return Err(EACCES);
            }
            tx.route = Some(pool);
        }
        Ok(tx.route.as_ref())
    }

    pub(crate) fn stat(&self) -> Result<abi::Stat> {
        let pool = self.pool()?;
        // SAFETY: numbers only: all zeros are a value.
        let mut stat: abi::Stat = unsafe { core::mem::zeroed() };
        pool.fill(&mut stat);
        let tx = self.tx.lock();
        (stat.target_nid, stat.target_dpid) = tx.target.map_or((0, 0), |to| (to.nid, to.dpid));
        stat.serial = self.serial;
        (stat.backlog, stat.lost) = tx.undelivered();
        stat.sent = tx.sent;
        stat.sent_bytes = tx.sent_bytes;
        stat.full = tx.full;
        Ok(stat)
    }

    /// The last descriptor is closed: no call comes any longer. Who reads /proc/net/dp may hold what is left.
    pub(crate) fn close(&self) {
        let Some(pool) = self.pool.as_ref() else { return };
        // The number first: who opens it next finds nothing of this.
        self.table.remove(pool);
        pool.close();
        let mut tx = self.tx.lock();
        if let Some(queue) = tx.waits_at.take() {
            // SAFETY: it is on this queue or on none.
            unsafe { self.relay.detach(&queue) };
        }
        tx.earlier.clear();
        tx.route = None;
        tx.away = None;
        for backlog in core::mem::take(&mut tx.backlog) {
            self.table.sender_left(&backlog.pool);
        }
    }
}
