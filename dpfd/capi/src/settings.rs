//! Pool, options, counters.

use std::ffi::{c_char, c_int, c_long, c_void, CStr};
use std::mem::size_of;
use std::ptr;

use dp_edge::sys::raw;
use dpfd::Error;
use dpfd::Stat;

use crate::fault::{Fault, Res};
use crate::foreign::{self, Foreign};
use crate::table::{self, Direction, Found, Use};
use crate::thread;

/// `dpmmap_t`.
#[repr(C)]
pub struct Mmap {
    size: usize,
    address: *mut c_void,
}

/// `dpstat_t`. Grows at its end only; `size` tells which one the program was compiled with.
#[repr(C)]
#[derive(Default)]
pub struct DpStat {
    size: usize,
    dpid: u32,
    own: u32,
    target_nid: u32,
    target_dpid: u32,
    sent: u64,
    sent_bytes: u64,
    received: u64,
    received_bytes: u64,
    loaned: u64,
    next_len: i64,
    pool: u64,
    pool_left: u64,
    edges: u64,
    full: u64,
    sleeps: u64,
    corrupt: u64,
    max_message: u64,
    max_plain: u64,
    spin_ns: u64,
}

/// The smallest that was ever released.
const FIRST_STAT: usize = 144;
const _: () = assert!(size_of::<usize>() != 8 || size_of::<DpStat>() == FIRST_STAT);

const OPT_SPIN: c_int = 1;
const OPT_NONBLOCK: c_int = 2;
const OPT_RELIABILITY: c_int = 3;
const OPT_ORDER: c_int = 4;
const OPT_ROUTE: c_int = 5;

/// See dp_mmap(3).
///
/// # Safety
///
/// `tbp` is NULL or a dpmmap_t.
#[no_mangle]
pub unsafe extern "C" fn dp_mmap(fd: c_int, tbp: *mut Mmap) -> c_int {
    let start = || {
        // SAFETY: the caller's promise.
        let tbp = unsafe { tbp.as_mut() }.ok_or(Fault::Null("the dpmmap_t"))?;
        let want = (tbp.size > 0).then_some(tbp.size);
        let made = |own: &Use| own.start_pool(fd, want).map(|size| (size, own.pool_address()));
        let (size, address) = table::on(fd, Direction::In, made, |_| Err(Fault::OnlyOpener(fd)))?;
        *tbp = Mmap { size, address: address.cast_mut().cast() };
        Ok(0)
    };
    thread::guarded(start).unwrap_or(-1)
}

/// See dp_option(3).
#[no_mangle]
pub extern "C" fn dp_option(fd: c_int, option: c_int, value: c_long) -> c_int {
    let set = || {
        let found = table::find(fd, Direction::Out)?;
        // NONBLOCK belongs to the descriptor, wherever it comes from.
        match (option, value) {
            (OPT_SPIN, value) => {
                let ns = u32::try_from(value).ok().filter(|ns| *ns <= 1_000_000_000);
                let ns = ns.ok_or(Error::BadOption(option))?;
                let Found::Own(own) = found else { return Err(Fault::OnlyOpener(fd)) };
                own.set_spin(ns);
                Ok(0)
            }
            (OPT_NONBLOCK, 0 | 1) => set_nonblocking(fd, value == 1),
            (OPT_RELIABILITY, 0 | 1) => {
                let Found::Own(own) = found else { return Err(Fault::OnlyOpener(fd)) };
                match value {
                    0 if own.is_raw() => return Err(Fault::NoOption(option)),
                    0 => {}
                    _ => own.set_raw(),
                }
                Ok(0)
            }
            (OPT_RELIABILITY, _) => Err(Fault::NoOption(option)),
            (OPT_ORDER, 1) => {
                let Found::Own(own) = found else { return Err(Fault::OnlyOpener(fd)) };
                own.keep_order();
                Ok(0)
            }
            _ => Err(Error::BadOption(option).into()),
        }
    };
    thread::guarded(set).unwrap_or(-1)
}

/// See dp_option_text(3).
///
/// # Safety
///
/// `value` is NULL or a text that ends with a NUL.
#[no_mangle]
pub unsafe extern "C" fn dp_option_text(fd: c_int, option: c_int, value: *const c_char) -> c_int {
    let set = || {
        let found = table::find(fd, Direction::Out)?;
        if option != OPT_ROUTE {
            return Err(Error::BadOption(option).into());
        }
        let name = match value.is_null() {
            true => None,
            // SAFETY: the caller's promise.
            false => Some(unsafe { CStr::from_ptr(value) }.to_string_lossy()),
        };
        let Found::Own(own) = found else { return Err(Fault::OnlyOpener(fd)) };
        own.set_route(name.as_deref())?;
        Ok(0)
    };
    thread::guarded(set).unwrap_or(-1)
}

fn set_nonblocking(fd: c_int, on: bool) -> Res<c_int> {
    let failed = |e| Fault::system("fcntl", e);
    let old = raw::fcntl(fd, libc::F_GETFL, 0).map_err(failed)?;
    let bit = libc::O_NONBLOCK as usize;
    raw::fcntl(fd, libc::F_SETFL, if on { old | bit } else { old & !bit }).map_err(failed)?;
    Ok(0)
}

/// See dp_stat(3).
///
/// # Safety
///
/// `to` is NULL, or points to `to->size` bytes, the first of which are `to->size`.
#[no_mangle]
pub unsafe extern "C" fn dp_stat(fd: c_int, to: *mut DpStat) -> c_int {
    let fill = || {
        if to.is_null() {
            return Err(Fault::Null("the dpstat_t"));
        }
        // SAFETY: the caller's promise.
        let room = unsafe { (*to).size };
        if room < FIRST_STAT {
            return Err(Fault::StatSize(room));
        }
        let mut all = match table::find(fd, Direction::Out)? {
            Found::Own(own) => of_own(&own.stat(fd), own.spin()),
            Found::Foreign(foreign) => of_foreign(fd, &foreign),
        };
        all.size = room.min(size_of::<DpStat>());
        // SAFETY: that many bytes are there, on both sides.
        unsafe { ptr::copy_nonoverlapping(ptr::from_ref(&all).cast::<u8>(), to.cast(), all.size) };
        Ok(0)
    };
    thread::guarded(fill).unwrap_or(-1)
}

fn of_own(s: &Stat, spin: u32) -> DpStat {
    DpStat {
        size: 0,
        dpid: s.dpid.into(),
        own: 1,
        target_nid: s.target.nid.into(),
        target_dpid: s.target.dpid.into(),
        sent: s.sent.0,
        sent_bytes: s.sent.1,
        received: s.received.0,
        received_bytes: s.received.1,
        loaned: s.loaned as u64,
        next_len: s.next_len.map_or(-1, |n| n as i64),
        pool: s.pool as u64,
        pool_left: s.pool_left as u64,
        edges: s.edges as u64,
        full: s.full,
        sleeps: s.sleeps,
        corrupt: s.corrupt,
        max_message: s.max_message as u64,
        max_plain: s.max_plain as u64,
        spin_ns: spin.into(),
    }
}

/// What can be told of another process's endpoint: what was read here, and what the descriptor takes.
fn of_foreign(fd: c_int, foreign: &Foreign) -> DpStat {
    let longest = foreign::longest(fd) as u64;
    let loaned = foreign.loaned() as u64;
    DpStat { loaned, next_len: -1, max_message: longest, max_plain: longest, ..DpStat::default() }
}
