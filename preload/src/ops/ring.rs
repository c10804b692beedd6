//! io_uring: what a ring is told to do happens in the kernel, where no hook sees it.
//!
//! Entries lie in memory that we can read before the kernel does, and a program that uses the shared liburing submits
//! them by that library's functions. So such a ring is *followed*: each entry is looked at before the submission goes
//! on, and a connection in it goes back to TCP first, for good. A ring that is never told of one costs no channel
//! anything. What an entry concerns is `dp_channel::uring`'s to say.
//!
//! All other rings cannot be followed, and end the channels of the process: those of a program that makes the system
//! calls itself, those that the kernel reads by itself (SQPOLL), and what that module does not know.
//!
//! A connection that another thread makes at the same moment is kept out by the table of descriptors: an entry marks a
//! descriptor that is not ours as one that never will be. The mark goes with the number. Either the connection comes
//! first, and leaves, or it finds the mark.

use core::ffi::{c_int, c_uint, c_void};
use core::sync::atomic::Ordering;

use dp_channel::family::Reason;
use dp_channel::uring::{self, Touch};
use libc::{msghdr, sigset_t, size_t};

use crate::fdtable::{self, Entry};
use crate::real::{Params, Ring};
use crate::walk::nowhere;
use crate::{epoll, give, log, real, state};

/// The process has a ring that cannot be followed: it may read and write any socket where no hook sees it.
pub fn cannot_be_followed() {
    if state::ended().is_none() {
        log::told("alone", "the process has an io_uring that the shim cannot follow");
    }
    state::end_channels(Reason::IoUring);
    fdtable::each(|fd, e| {
        if matches!(e, Entry::Conn(_)) {
            give::for_good(fd, Reason::IoUring);
        }
    });
}

/// Whether there can be anything to take care of.
fn following() -> bool {
    state::ON.load(Ordering::Relaxed) && state::ended().is_none()
}

/// io_uring_enter(2) by itself: some ring's entries are submitted where we do not know them.
pub fn entering(submit: c_uint) {
    if submit > 0 && following() {
        cannot_be_followed();
    }
}

/// io_uring_register(2) by itself.
pub fn registering(number: c_uint) {
    if !uring::registers_no_files(number) && following() {
        cannot_be_followed();
    }
}

/// Something that the kernel will use by itself.
fn touch(fd: c_int) {
    loop {
        match fdtable::get(fd) {
            Entry::Conn(_) => give::give_number(fd, Reason::IoUring),
            // A thread that waits for it in the kernel, or changes it there, sees what the kernel sees.
            Entry::Epoll(i) => epoll::give_away(i),
            Entry::None | Entry::Unconnected(_) if fd >= 0 && !fdtable::mark_elsewhere(fd) => continue,
            _ => {}
        }
        return;
    }
}

/// Before `n` descriptors become a ring's own.
///
/// # Safety
///
/// The program's list.
unsafe fn touch_all(files: *const c_int, n: c_uint) {
    if following() && !nowhere(files) {
        for k in 0..n as usize {
            // SAFETY: below n.
            touch(unsafe { files.add(k).read_unaligned() });
        }
    }
}

/// Before the kernel hears of what is in the queue.
///
/// # Safety
///
/// A ring that liburing has set up.
unsafe fn submitting(ring: *const Ring) {
    if !following() || nowhere(ring) {
        return;
    }
    // SAFETY: liburing's struct, with addresses in the ring's mappings; indices are kept below the number of entries.
    unsafe {
        let q = &*ring;
        if nowhere(q.head) || nowhere(q.tail) || nowhere(q.mask) || nowhere(q.entries) || nowhere(q.sqes) {
            return cannot_be_followed();
        }
        let (mask, entries) = (*q.mask, *q.entries);
        // Told of earlier, and not taken yet. The kernel writes the head, and the program the rest.
        let (head, tail) = ((*q.head).load(Ordering::Acquire), (*q.tail).load(Ordering::Acquire));
        for at in (0..tail.wrapping_sub(head).min(entries)).map(|k| head.wrapping_add(k) & mask) {
            let at = if q.array.is_null() { at } else { q.array.add(at as usize).read_volatile() };
            if at < entries {
                submit(&q.sqes.add(at as usize).read_volatile());
            }
        }
        for at in (0..q.to.wrapping_sub(q.from).min(entries)).map(|k| q.from.wrapping_add(k) & mask) {
            submit(&q.sqes.add(at as usize).read_volatile());
        }
    }
}

fn submit(entry: &[u8; uring::ENTRY]) {
    uring::touches(entry, |what| match what {
        Touch::File(fd) => touch(fd),
        // SAFETY: the program's list, which the kernel reads next.
        Touch::Files(at, n) => unsafe { touch_all(at as usize as *const c_int, n) },
        Touch::Message(at) => {
            let m = at as usize as *const msghdr;
            if !nowhere(m) {
                // SAFETY: the program's message, which the kernel reads next.
                unsafe { super::leave::passing_unseen(&m.read_unaligned()) };
            }
        }
        Touch::Anything => cannot_be_followed(),
    });
}

/// A ring was set up, with these flags.
fn set_up(flags: Option<c_uint>) {
    let version = || {
        let number = |name| {
            let found = real::find(name);
            // SAFETY: liburing's functions of these names take nothing, and return a number.
            (!found.is_null()).then(|| unsafe {
                core::mem::transmute::<*mut c_void, unsafe extern "C" fn() -> c_int>(found)()
            })
        };
        // Before 2.4 it did not say.
        number(c"io_uring_major_version").zip(number(c"io_uring_minor_version")).unwrap_or((2, 0))
    };
    let followed = flags.is_some_and(uring::can_be_followed) && uring::library_is_known(version());
    if !followed && following() {
        cannot_be_followed();
    }
}

/// # Safety
///
/// The program's parameters, or nowhere.
unsafe fn flags_of(params: *const Params) -> Option<c_uint> {
    // SAFETY: by the contract.
    (!nowhere(params)).then(|| unsafe { (*params).flags })
}

/// Functions of liburing, which makes its system calls itself: something `before` them, they, and if they did it something
/// `after` them. Without liburing there is no ring.
macro_rules! library {
    ($($name:ident($($v:ident: $t:ty),*) $(before $before:expr)?, $(after $after:expr)?;)*) => {$(
        #[doc = concat!(stringify!($name), "(3).")]
        ///
        /// # Safety
        ///
        /// As for the call it replaces.
        pub unsafe fn $name($($v: $t),*) -> c_int {
            // SAFETY: the program's arguments.
            unsafe {
                $($before;)?
                let Some(real) = real::$name() else { return -libc::ENOSYS };
                let rc = real($($v),*);
                $(if rc >= 0 {
                    $after;
                })?
                rc
            }
        }
    )*};
}

library! {
    io_uring_setup(entries: c_uint, params: *mut Params), after cannot_be_followed();
    io_uring_queue_init(entries: c_uint, ring: *mut c_void, flags: c_uint), after set_up(Some(flags));
    io_uring_queue_init_params(entries: c_uint, ring: *mut c_void, params: *mut Params), after set_up(flags_of(params));
    io_uring_queue_init_mem(entries: c_uint, ring: *mut c_void, params: *mut Params, mem: *mut c_void, size: size_t),
        after set_up(flags_of(params));
    io_uring_queue_init_try_nosqarr(entries: c_uint, ring: *mut c_void, params: *mut Params),
        after set_up(flags_of(params));
    io_uring_queue_mmap(fd: c_int, params: *mut Params, ring: *mut c_void), after set_up(flags_of(params));
    io_uring_submit(ring: *mut Ring) before submitting(ring),;
    io_uring_submit_and_wait(ring: *mut Ring, n: c_uint) before submitting(ring),;
    io_uring_submit_and_get_events(ring: *mut Ring) before submitting(ring),;
    io_uring_submit_and_wait_timeout(
        ring: *mut Ring, cqe: *mut c_void, n: c_uint, timeout: *mut c_void, mask: *mut sigset_t
    ) before submitting(ring),;
    io_uring_submit_and_wait_min_timeout(
        ring: *mut Ring, cqe: *mut c_void, n: c_uint, timeout: *mut c_void, least: c_uint, mask: *mut sigset_t
    ) before submitting(ring),;
    io_uring_submit_and_wait_reg(ring: *mut Ring, cqe: *mut c_void, n: c_uint, index: c_int) before submitting(ring),;
    // On a kernel whose wait has no time limit they submit an entry of their own, and the program's with it.
    io_uring_wait_cqes(ring: *mut Ring, cqe: *mut c_void, n: c_uint, timeout: *mut c_void, mask: *mut sigset_t)
        before if !timeout.is_null() { submitting(ring) },;
    io_uring_wait_cqe_timeout(ring: *mut Ring, cqe: *mut c_void, timeout: *mut c_void)
        before if !timeout.is_null() { submitting(ring) },;
    __io_uring_get_cqe(ring: *mut Ring, cqe: *mut c_void, submit: c_uint, n: c_uint, mask: *mut sigset_t)
        before if submit > 0 { submitting(ring) },;
    io_uring_enter(fd: c_uint, submit: c_uint, n: c_uint, flags: c_uint, mask: *mut sigset_t)
        before entering(submit),;
    io_uring_enter2(fd: c_uint, submit: c_uint, n: c_uint, flags: c_uint, mask: *mut c_void, size: size_t)
        before entering(submit),;
    io_uring_register(fd: c_uint, number: c_uint, arg: *const c_void, n: c_uint) before registering(number),;
    io_uring_register_files(ring: *mut Ring, files: *const c_int, n: c_uint) before touch_all(files, n),;
    io_uring_register_files_tags(ring: *mut Ring, files: *const c_int, tags: *const u64, n: c_uint)
        before touch_all(files, n),;
    io_uring_register_files_update(ring: *mut Ring, at: c_uint, files: *const c_int, n: c_uint)
        before touch_all(files, n),;
    io_uring_register_files_update_tag(
        ring: *mut Ring, at: c_uint, files: *const c_int, tags: *const u64, n: c_uint
    ) before touch_all(files, n),;
}
