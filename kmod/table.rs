// SPDX-License-Identifier: GPL-2.0

//! The endpoints of one network namespace by number.
//!
//! A message for a number that nobody has opened waits in a pool that its sender makes (`backlog.rs`); who opens the
//! number, as the same user, takes the pool over with what is in it.

use kernel::{
    bindings, container_of,
    ffi::c_void,
    new_mutex,
    prelude::*,
    rbtree::{RBTree, RBTreeNodeReservation},
    sync::{
        atomic::{Atomic, Full, Relaxed},
        Arc, ArcBorrow, Mutex,
    },
    types::ForeignOwnable,
};

use crate::{
    abi::{DPID_FREE, DPID_MAX, POOL_DEFAULT},
    backlog::Backlog,
    endpoint::Endpoint,
    ether::Ether,
    glue,
    later::Later,
    network::Network,
    pool::Pool,
    ring::Ring,
    sender::Tx,
    wait::{room_queue, WaitQueue},
};

#[cfg(CONFIG_KUNIT = "y")]
mod tests;

/// Where the search for a free number begins, so that the low ones stay for those who ask for them.
const SEARCH_FROM: u32 = 32768;

#[pin_data]
pub(crate) struct Table {
    #[pin]
    map: Mutex<Map>,
    /// Senders that could not even leave a message wait here for somebody to open the number.
    pub(crate) arrivals: Arc<WaitQueue>,
    /// How often a number was opened or became free for messages.
    openings: Atomic<u64>,
    /// Comes for messages that nobody came for. Set with `map` locked.
    #[pin]
    sweeper: Later,
    #[pin]
    pub(crate) network: Network,
}

struct Map {
    numbers: RBTree<u32, Number>,
    /// Those of them that nobody has opened.
    backlog: Backlog,
    next: u32,
}

/// What is at a number.
struct Number {
    pool: Arc<Pool>,
    /// [`None`]: nobody has opened it. An endpoint and its table hold each other until the endpoint is closed.
    endpoint: Option<Arc<Endpoint>>,
}

impl Table {
    fn new(ether: Ether) -> Result<Arc<Self>> {
        let arrivals = room_queue()?;
        let map = Map { numbers: RBTree::new(), backlog: Backlog::new(), next: SEARCH_FROM };
        Arc::pin_init(
            pin_init!(Self {
                map <- new_mutex!(map),
                arrivals,
                openings: Atomic::new(0),
                sweeper <- Later::new(sweep),
                network <- Network::new(ether),
            }),
            GFP_KERNEL,
        )
    }

    /// The calling process's.
    pub(crate) fn of_this_process() -> Arc<Self> {
        // SAFETY: the namespace holds its table, and the process its namespace.
        let table = unsafe { <Arc<Self> as ForeignOwnable>::borrow(glue::dp_glue_net_table()) };
        table.into()
    }

    pub(crate) fn find(&self, dpid: u32) -> Option<Arc<Pool>> {
        self.map.lock().numbers.get(&dpid).map(|n| n.pool.clone())
    }

    /// The first endpoint from a number on.
    pub(crate) fn endpoint_from(&self, mut from: u32) -> Option<(u32, Arc<Endpoint>)> {
        let map = self.map.lock();
        loop {
            let cursor = map.numbers.cursor_lower_bound(&from)?;
            let (&dpid, number) = cursor.current();
            if let Some(endpoint) = &number.endpoint {
                return Some((dpid, endpoint.clone()));
            }
            // Of numbers that nobody has opened there are not many.
            from = dpid + 1;
        }
    }

    /// Opens a number for an endpoint, or any free one for 0.
    pub(crate) fn open(
        &self,
        dpid: u32,
        endpoint: ArcBorrow<'_, Endpoint>,
        version: u32,
        budget: Option<u64>,
    ) -> Result<Arc<Pool>> {
        let knows_immediates = version > 0;
        let uid = endpoint.uid();
        if dpid != 0 && self.find(dpid).is_some_and(|pool| pool.is_opened()) {
            return Err(glue::error(bindings::EADDRINUSE));
        }
        // Not with the map locked: making a large one, and closing one, take long.
        let ring = Ring::new(budget.unwrap_or(POOL_DEFAULT), 0)?;
        let node = RBTreeNodeReservation::new(GFP_KERNEL)?;
        let (opened, closed) = {
            let mut map = self.map.lock();
            let dpid = if dpid == 0 { map.free_number()? } else { dpid };
            let old = map.numbers.get(&dpid).map(|n| n.pool.clone());
            match old {
                Some(pool) if pool.is_opened() => return Err(glue::error(bindings::EADDRINUSE)),
                Some(pool) if pool.uid == uid => {
                    pool.reshape(budget, false, Some(ring))?;
                    if !pool.set_opened(knows_immediates) {
                        return Err(glue::error(bindings::EPROTONOSUPPORT));
                    }
                    if let Some(number) = map.numbers.get_mut(&dpid) {
                        number.endpoint = Some(endpoint.into());
                    }
                    map.backlog.forget(&pool);
                    (pool, None)
                }
                other_users => {
                    let pool = Pool::new(dpid, uid, ring, true)?;
                    // New: none were left.
                    let _ = pool.set_opened(knows_immediates);
                    let number = Number { pool: pool.clone(), endpoint: Some(endpoint.into()) };
                    map.numbers.try_create_and_insert(dpid, number, GFP_KERNEL)?;
                    if let Some(old) = &other_users {
                        map.backlog.forget(old);
                    }
                    (pool, other_users)
                }
            }
        };
        self.network.open(node, &opened);
        if let Some(pool) = closed {
            pool.close();
        }
        self.announce();
        Ok(opened)
    }

    pub(crate) fn openings(&self) -> u64 {
        self.openings.load(Relaxed)
    }

    fn announce(&self) {
        // Full: counted before anybody is looked for who waits.
        self.openings.fetch_add(1, Full);
        if self.arrivals.active() {
            self.arrivals.wake(glue::POLL_OUT);
        }
    }

    /// The pool of a number, made if there is none and the sender may leave messages at one more; [`None`] if not. A
    /// sender that finds or makes one that nobody has opened keeps it from here on, so that nobody sweeps it meanwhile.
    pub(crate) fn find_or_park(&self, dpid: u32, uid: u32, tx: &mut Tx) -> Result<Option<Arc<Pool>>> {
        let mut guard = self.map.lock();
        let map = &mut *guard;
        let there = map.numbers.get(&dpid).map(|n| n.pool.clone());
        match there {
            Some(pool) if pool.is_opened() || tx.keeps(&pool) => return Ok(Some(pool)),
            // What another user left for this number is not to be mixed with ours.
            Some(pool) if pool.uid != uid => return Ok(None),
            _ if !tx.may_park()? => return Ok(None),
            Some(pool) => {
                tx.keep(&pool)?;
                map.backlog.keep(&pool);
                return Ok(Some(pool));
            }
            None => {}
        }
        if !map.backlog.has_room()? {
            return Ok(None);
        }
        let pool = Pool::new(dpid, uid, Ring::new(POOL_DEFAULT, 0)?, false)?;
        let number = Number { pool: pool.clone(), endpoint: None };
        map.numbers.try_create_and_insert(dpid, number, GFP_KERNEL)?;
        // There is room for it in both.
        map.backlog.push(&pool)?;
        tx.keep(&pool)?;
        Ok(Some(pool))
    }

    /// An endpoint that had left messages for a number goes.
    pub(crate) fn sender_left(&self, pool: &Arc<Pool>) {
        let mut map = self.map.lock();
        map.backlog.sender_left(pool);
        self.sweep_in_time(&map);
    }

    /// Away with what nobody came for, and whoever waits for its place is told.
    fn sweep(&self) {
        let mut swept = false;
        loop {
            let mut map = self.map.lock();
            let Some(pool) = map.backlog.take_old() else {
                self.sweep_in_time(&map);
                break;
            };
            map.numbers.remove(&pool.dpid);
            drop(map);
            pool.close();
            swept = true;
        }
        if swept {
            self.announce();
        }
    }

    fn sweep_in_time(&self, map: &Map) {
        if let Some(time) = map.backlog.next_is_old_in() {
            self.sweeper.again_in(time);
        }
    }

    /// The endpoint is closed: its number is free.
    pub(crate) fn remove(&self, pool: &Arc<Pool>) {
        self.network.close(pool);
        let mut map = self.map.lock();
        if map.numbers.get(&pool.dpid).is_some_and(|n| Arc::ptr_eq(&n.pool, pool)) {
            map.numbers.remove(&pool.dpid);
        }
    }
}

impl Map {
    fn free_number(&mut self) -> Result<u32> {
        for _ in DPID_FREE..=DPID_MAX {
            let candidate = self.next;
            self.next = if candidate == DPID_MAX { DPID_FREE } else { candidate + 1 };
            if self.numbers.get(&candidate).is_none() {
                return Ok(candidate);
            }
        }
        Err(ENFILE)
    }
}

/// # Safety
///
/// For the kernel, as what a table's sweeper calls.
unsafe extern "C" fn sweep(work: *mut bindings::work_struct) {
    // SAFETY: by what the caller promises; the table waits for this call before it goes. No endpoint is dropped in it,
    // which could be the last to hold the table.
    unsafe { (*container_of!(Later::of(work), Table, sweeper)).sweep() };
}

/// A namespace begins.
///
/// # Safety
///
/// `ether` is new, and the table's from here on.
#[no_mangle]
unsafe extern "C" fn dp_rust_table_new(ether: *mut c_void) -> *mut c_void {
    // SAFETY: by what the caller promises.
    let table = unsafe { Ether::new(ether) }.ok_or(ENOMEM).and_then(Table::new);
    table.map_or(core::ptr::null_mut(), ForeignOwnable::into_foreign)
}

/// A namespace ends, or the module goes.
///
/// # Safety
///
/// `table` is from [`dp_rust_table_new`] and not used again.
#[no_mangle]
unsafe extern "C" fn dp_rust_table_free(table: *mut c_void) {
    // SAFETY: by what the caller promises.
    drop(unsafe { <Arc<Table> as ForeignOwnable>::from_foreign(table) });
}
