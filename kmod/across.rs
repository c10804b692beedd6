// SPDX-License-Identifier: GPL-2.0

//! Messages between two nodes of this kernel that a pair of virtual interfaces joins: the sender puts them into their
//! receiver's pool, without frames, while nobody has a say on the way (across.c). All else is as with frames: who is
//! believed, what is counted, and that what has no room is lost.

use core::ptr;

use kernel::{
    ffi::{c_int, c_uint, c_void},
    iov::IovIterSource,
    prelude::*,
    sync::{
        atomic::{Atomic, Full},
        Arc,
    },
    types::ForeignOwnable,
};

use crate::{
    abi,
    ether::{Ether, Mac},
    frame::Frame,
    network::{count, sender, NartEntry, Network},
    pool::Pool,
    source::copy_from,
    table::Table,
    word,
};

extern "C" {
    fn dp_ether_send_across(
        ether: *mut c_void,
        index: c_int,
        mac: *const u8,
        message: *mut c_void,
        len: usize,
    ) -> c_int;
}

/// How often numbers of nodes, routes and interfaces have changed, in any namespace: after each change. Nothing that was
/// looked up before is to be believed then.
static CHANGES: Atomic<u64> = Atomic::new(0);

/// What a sender remembers of the last endpoint that it sent to without frames.
pub(crate) struct Away {
    to: abi::Addr,
    /// [`CHANGES`], when it was looked up.
    changes: u64,
    route: NartEntry,
    /// The receiver. If it is closed, nothing can be put there.
    pool: Arc<Pool>,
}

pub(crate) fn changed() {
    // Full: after what was changed.
    CHANGES.fetch_add(1, Full);
}

/// A message on its way to another namespace's pool, without frames.
struct Across<'a> {
    /// What the header of its frames would be.
    frame: &'a Frame,
    /// Writes it there. False: a page of it is missing.
    fill: &'a mut dyn FnMut(*mut u8) -> bool,
    /// Its receiver, where the sender remembers it.
    known: Option<&'a Pool>,
    /// Its receiver, where that was to be found.
    found: Option<Arc<Pool>>,
}

impl Ether {
    /// Sends a message to the other end of a pair of virtual interfaces, if frames would go there without anybody's seeing
    /// them: its receiver's pool is filled from here. How many frames it would have been; [`None`]: it has to be frames.
    /// [`EFAULT`]: a page of it is missing, and nothing was sent.
    fn send_across(&self, index: c_int, mac: &Mac, across: &mut Across<'_>) -> Result<Option<u32>> {
        let len = across.frame.total as usize;
        // SAFETY: it lives; the address has six bytes; the message comes back to dp_rust_across().
        let frames = unsafe {
            dp_ether_send_across(self.0.as_ptr(), index, mac.as_ptr(), ptr::from_mut(across).cast(), len)
        };
        match frames {
            0 => Ok(None),
            1.. => Ok(Some(frames as u32)),
            _ => Err(EFAULT),
        }
    }
}

impl Network {
    /// Sends a message without frames, if it goes that way. [`EFAULT`]: it could not be written, and nothing was sent.
    fn send_across(&self, index: c_int, mac: &Mac, across: &mut Across<'_>) -> Result<bool> {
        let Some(frames) = self.ether.send_across(index, mac, across)? else { return Ok(false) };
        count(&self.counts.frames_out, frames.into());
        count(&self.counts.without_frames, 1);
        Ok(true)
    }

    /// The same with a message whose receiver nobody remembers.
    pub(crate) fn send_message_across(
        &self,
        index: c_int,
        mac: &Mac,
        frame: &Frame,
        message: &mut IovIterSource<'_>,
    ) -> Result<bool> {
        let len = message.len();
        // SAFETY: who calls it has room for the message.
        let mut fill = |to: *mut u8| unsafe { copy_from(message, to, len) };
        self.send_across(index, mac, &mut Across { frame, fill: &mut fill, known: None, found: None })
    }

    /// Sends a message of `len` bytes without frames, if it goes that way at once. `away`: what the sender remembers.
    pub(crate) fn send_at_once(
        &self,
        away: &mut Option<Away>,
        from: u32,
        uid: u32,
        to: abi::Addr,
        len: u32,
        fill: &mut dyn FnMut(*mut u8) -> bool,
    ) -> bool {
        // Before anything is looked up. Acquire: pairs with changed().
        let changes = word::load_acquire(&CHANGES);
        let there =
            away.as_ref().filter(|a| a.changes == changes && a.to.nid == to.nid && a.to.dpid == to.dpid);
        let Some(route) = there.map(|a| a.route).or_else(|| self.route(to.nid)) else { return false };
        let frame = self.frame(from, uid, to, len);
        let known = there.map(|a| &*a.pool);
        let mut across = Across { frame: &frame, fill, known, found: None };
        let sent = matches!(self.send_across(route.index, &route.mac, &mut across), Ok(true));
        if sent {
            count(&self.counts.messages_out, 1);
        }
        if let Some(pool) = across.found {
            *away = Some(Away { to, changes, route, pool });
        }
        sent
    }

    /// A message has come without frames, by its sender's own hands. False: it could not be written, and nothing was sent.
    fn receive_across(&self, index: c_int, source: &Mac, across: &mut Across<'_>, frames: u32) -> bool {
        let place = across.known.and_then(|pool| pool.reserve_at_once(across.frame.total.into()));
        let result = match place {
            Some(place) => {
                if !(across.fill)(place.spot.message()) {
                    place.abandon();
                    return false;
                }
                place.commit(sender(across.frame));
                Ok(true)
            }
            None => match self.admit(index, source, across.frame) {
                Ok(pool) => {
                    let pool = &**across.found.insert(pool);
                    self.put_by(pool, across.frame, &mut *across.fill).map_err(|reason| (reason, 1))
                }
                // Each frame would have been dropped by itself.
                Err(reason) => Err((reason, frames)),
            },
        };
        match result {
            Ok(false) => return false,
            Ok(true) => count(&self.counts.messages_in, 1),
            Err((reason, times)) => count(reason, times.into()),
        }
        count(&self.counts.frames_in, frames.into());
        true
    }
}

/// An interface has changed.
#[no_mangle]
extern "C" fn dp_rust_changed() {
    changed();
}

/// A message for a namespace, of another one's.
///
/// # Safety
///
/// For across.c: `table` is the namespace's, which lives as long as its interfaces are attached; `mac` has six bytes; the
/// message is the one that [`Ether::send_across`] was given.
#[no_mangle]
unsafe extern "C" fn dp_rust_across(
    table: *mut c_void,
    index: c_int,
    mac: *const u8,
    message: *mut c_void,
    frames: c_uint,
) -> bool {
    // SAFETY: by what the caller promises.
    unsafe {
        let table = <Arc<Table> as ForeignOwnable>::borrow(table);
        let source = mac.cast::<Mac>().read_unaligned();
        table.network.receive_across(index, &source, &mut *message.cast::<Across<'_>>(), frames)
    }
}
