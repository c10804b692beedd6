// SPDX-License-Identifier: GPL-2.0

//! /proc/net/dp: the endpoints of the reader's network namespace, a line each.
//!
//! The kernel asks for one line after another, and forgets where it was between two reads of a program. A place in the
//! list is a number, not a pointer: what is opened and closed meanwhile moves nothing. From a line to the next no lock
//! is held, only the endpoint, which may be closed by then.

use core::ptr;

use kernel::{
    bindings,
    ffi::{c_int, c_void},
    seq_file::{seq_print, SeqFile},
    sync::{Arc, ArcBorrow},
    types::ForeignOwnable,
};

use crate::{abi::DPID_MAX, endpoint::Endpoint, glue, table::Table};

/// In the place of an endpoint: the line above all. No endpoint is at such an address.
const HEADER: *mut c_void = ptr::without_provenance_mut(1);
/// Behind all places: a list that has ended does not go on.
const END: i64 = DPID_MAX as i64 + 1;
/// For the kernel, where a line should have been.
const SKIP: c_int = 1;

/// The columns are those of fdinfo, by the same names.
macro_rules! line {
    ($out:expr, $($column:expr),+) => {
        seq_print!(
            $out,
            "{:>5} {:>10} {:>6} {:>10} {:>14} {:>7} {:>6} {:>10} {:>14} {:>10} {:>7} {:>10} {:>10} {:>8} {:>8}\n",
            $($column),+
        )
    };
}

/// The first endpoint from a place on, held; null behind the last. The place becomes its.
fn endpoint_from(table: &Table, place: &mut i64) -> *mut c_void {
    let from = u32::try_from(*place).unwrap_or(u32::MAX);
    match table.endpoint_from(from) {
        Some((dpid, endpoint)) => {
            *place = dpid.into();
            endpoint.into_foreign()
        }
        None => {
            *place = END;
            ptr::null_mut()
        }
    }
}

/// # Safety
///
/// For the kernel: what it passes is valid during the call.
#[no_mangle]
unsafe extern "C" fn dp_rust_list_start(out: *mut bindings::seq_file, place: *mut i64) -> *mut c_void {
    // SAFETY: by what the caller promises; the open file holds the namespace, which holds its table.
    let (place, table) =
        unsafe { (&mut *place, <Arc<Table> as ForeignOwnable>::borrow(glue::dp_glue_list_table(out))) };
    match *place {
        0 => HEADER,
        _ => endpoint_from(&table, place),
    }
}

/// # Safety
///
/// For the kernel: what it passes is valid during the call, and `at` is from here or from the start.
#[no_mangle]
unsafe extern "C" fn dp_rust_list_next(
    out: *mut bindings::seq_file,
    at: *mut c_void,
    place: *mut i64,
) -> *mut c_void {
    // SAFETY: by what the caller promises; as in the start.
    let (place, table) = unsafe {
        dp_rust_list_stop(out, at);
        (&mut *place, <Arc<Table> as ForeignOwnable>::borrow(glue::dp_glue_list_table(out)))
    };
    *place += 1;
    endpoint_from(&table, place)
}

/// # Safety
///
/// For the kernel: `at` is what was given last, and not used again.
#[no_mangle]
unsafe extern "C" fn dp_rust_list_stop(_out: *mut bindings::seq_file, at: *mut c_void) {
    if !at.is_null() && at != HEADER {
        // SAFETY: by what the caller promises, it is an endpoint from endpoint_from().
        drop(unsafe { <Arc<Endpoint> as ForeignOwnable>::from_foreign(at) });
    }
}

/// # Safety
///
/// For the kernel: what it passes is valid during the call, and `at` is what was given last, and not null.
#[no_mangle]
unsafe extern "C" fn dp_rust_list_show(raw: *mut bindings::seq_file, at: *mut c_void) -> c_int {
    // SAFETY: by what the caller promises.
    let out = unsafe { SeqFile::from_raw(raw) };
    if at == HEADER {
        line!(
            out, "dpid", "uid", "target", "sent", "bytes", "backlog", "lost", "received", "bytes", "full",
            "corrupt", "pool", "left", "next", "in-place"
        );
        return 0;
    }
    // SAFETY: by what the caller promises, it is an endpoint, held until the stop.
    let endpoint: ArcBorrow<'_, Endpoint> = unsafe { <Arc<Endpoint> as ForeignOwnable>::borrow(at) };
    let Ok(pool) = endpoint.pool() else {
        // It is in the middle of being opened.
        return SKIP;
    };
    // SAFETY: by what the caller promises, the file is one of this list.
    let (uid, may_see) = unsafe {
        (glue::dp_glue_list_uid(raw, endpoint.uid()), glue::dp_glue_list_may_see(raw, endpoint.uid()))
    };
    let stat = may_see.then(|| endpoint.stat());
    if pool.is_closed() {
        // Meanwhile: what is left would be no endpoint's line.
        return SKIP;
    }
    match stat {
        // That the number is taken, and whose it is; what others do with it is not this reader's business.
        None => line!(out, pool.dpid, uid, "-", "-", "-", "-", "-", "-", "-", "-", "-", "-", "-", "-", "-"),
        Some(Ok(s)) => line!(
            out,
            s.dpid,
            uid,
            s.target_dpid,
            s.sent,
            s.sent_bytes,
            s.backlog,
            s.lost,
            s.received,
            s.received_bytes,
            s.full,
            s.corrupt,
            s.pool,
            s.pool_left,
            s.next_len as i64,
            s.in_place
        ),
        Some(Err(_)) => return SKIP,
    }
    0
}
