//! The next definitions of what the shim replaces, by the [`crate::table`]: `real::read()` is libc's read(2).

#![allow(missing_docs, non_snake_case)]

use core::ffi::{c_char, c_int, c_long, c_uint, c_ulong, c_void, CStr};
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use libc::{
    epoll_event, fd_set, iovec, mmsghdr, msghdr, off64_t, off_t, pollfd, sigset_t, size_t, sockaddr,
    socklen_t, ssize_t, timespec, timeval, FILE,
};

use crate::errno::fail;
use crate::table::table;

/// The next definition of `name`, found once.
#[cold]
fn next(cell: &AtomicPtr<c_void>, name: &'static CStr) -> *mut c_void {
    // SAFETY: a C string; RTLD_NEXT searches the libraries after this one.
    let p = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    cell.store(p, Ordering::Release);
    p
}

/// What stands in for a function that this C library does not have. Whatever it was given, nobody looks at it; whatever
/// integer it returns is in the same place.
unsafe extern "C-unwind" fn missing() -> c_long {
    fail(libc::ENOSYS) as c_long
}

/// The same, or [`missing`].
#[cold]
fn next_or_missing(cell: &AtomicPtr<c_void>, name: &'static CStr) -> *mut c_void {
    let found = next(cell, name);
    if !found.is_null() {
        return found;
    }
    let missing = missing as unsafe extern "C-unwind" fn() -> c_long as *mut c_void;
    cell.store(missing, Ordering::Release);
    missing
}

/// A definition of `name` that the program's own search does not come by: in a library that a plug-in brought
/// along for itself. Calls from there still come to us first.
#[cold]
fn next_anywhere(cell: &AtomicPtr<c_void>, name: &'static CStr) -> *mut c_void {
    let mut found = next(cell, name);
    let mut object = Object { skip: 0, name: [0; 4096] };
    for k in 0.. {
        if !found.is_null() && !is_ours(found) {
            break;
        }
        found = core::ptr::null_mut();
        object.skip = k;
        // SAFETY: the callback gets the object back that outlives the call.
        if unsafe { libc::dl_iterate_phdr(Some(name_of), (&raw mut object).cast()) } == 0 {
            break;
        }
        // SAFETY: a C string; what is loaded already is only counted once more, and stays from now on if it is
        // what was looked for.
        unsafe {
            let handle = dlopen()(object.name.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD);
            if !handle.is_null() {
                found = libc::dlsym(handle, name.as_ptr());
                if found.is_null() || is_ours(found) {
                    libc::dlclose(handle);
                }
            }
        }
    }
    // SAFETY: no arguments; what the program asks for next must not be our failure.
    unsafe { libc::dlerror() };
    cell.store(found, Ordering::Release);
    found
}

/// A definition of `name` in whatever the program has loaded.
pub fn find(name: &'static CStr) -> *mut c_void {
    next_anywhere(&AtomicPtr::new(core::ptr::null_mut()), name)
}

/// This library's handle, by which a hook of ours is found by its name; null: it cannot be had.
pub fn own_library() -> *mut c_void {
    // SAFETY: plain data, filled by the call; a C string of the loader's; this library is there, and stays.
    unsafe {
        let mut info: libc::Dl_info = core::mem::zeroed();
        if libc::dladdr(own_library as *const c_void, &mut info) == 0 {
            return core::ptr::null_mut();
        }
        dlopen()(info.dli_fname, libc::RTLD_LAZY | libc::RTLD_NOLOAD)
    }
}

/// Where the loaded object lies that has `at`.
pub fn object_of(at: *const c_void) -> Option<usize> {
    // SAFETY: plain data, filled by the call, which refuses what is no object's.
    unsafe {
        let mut info: libc::Dl_info = core::mem::zeroed();
        (!at.is_null() && libc::dladdr(at, &mut info) != 0).then_some(info.dli_fbase.addr())
    }
}

/// Whether that is a hook of ours.
fn is_ours(found: *mut c_void) -> bool {
    object_of(found) == object_of(is_ours as *const c_void)
}

struct Object {
    skip: usize,
    name: [c_char; 4096],
}

/// Copies the name of the loaded object number `skip`; the program itself has none.
unsafe extern "C" fn name_of(info: *mut libc::dl_phdr_info, _: size_t, to: *mut c_void) -> c_int {
    // SAFETY: the caller's object, and the loader's information with its C string.
    let (object, name) = unsafe { (&mut *to.cast::<Object>(), CStr::from_ptr((*info).dlpi_name)) };
    let fits = name.count_bytes() < object.name.len();
    if !fits || name.is_empty() {
        return 0;
    }
    if object.skip > 0 {
        object.skip -= 1;
        return 0;
    }
    for (to, from) in object.name.iter_mut().zip(name.to_bytes_with_nul()) {
        *to = *from as c_char;
    }
    1
}

/// An operation of io_submit(2), as far as it matters here.
#[repr(C)]
pub struct Iocb {
    _data: u64,
    _key: [u32; 2],
    _operation: [u16; 2],
    pub fd: u32,
}

/// The beginning of liburing's `struct io_uring`: the submission queue, the same in all its versions.
#[repr(C)]
pub struct Ring {
    pub head: *const AtomicU32,
    pub tail: *const AtomicU32,
    pub mask: *const u32,
    pub entries: *const u32,
    _flags: *const u32,
    _dropped: *const u32,
    /// Where the entries from head to tail are; null: in a row.
    pub array: *const u32,
    pub sqes: *const [u8; dp_channel::uring::ENTRY],
    /// What the program has filled in, and the kernel was not told of.
    pub from: u32,
    pub to: u32,
}

/// The beginning of `struct io_uring_params`.
#[repr(C)]
pub struct Params {
    _entries: [u32; 2],
    pub flags: u32,
}

macro_rules! cstr {
    ($name:ident) => {
        // SAFETY: the literal ends in NUL and holds no other.
        unsafe { CStr::from_bytes_with_nul_unchecked(concat!(stringify!($name), "\0").as_bytes()) }
    };
}

macro_rules! definition {
    (twin $name:ident ($($v:ident: $t:ty),*) -> $r:ty) => {};
    (guest $name:ident ($($v:ident: $t:ty),*) -> $r:ty) => {
        /// The definition that the program has, if it has one.
        pub fn $name() -> Option<unsafe extern "C-unwind" fn($($t),*) -> $r> {
            static REAL: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());
            let mut p = REAL.load(Ordering::Acquire);
            if p.is_null() {
                p = next_anywhere(&REAL, cstr!($name));
            }
            // SAFETY: the symbol of that name has this type, and null is None.
            unsafe { core::mem::transmute(p) }
        }
    };
    ($form:ident $name:ident ($($v:ident: $t:ty),*) -> $r:ty) => {
        /// The next definition.
        #[inline(always)]
        pub fn $name() -> unsafe extern "C-unwind" fn($($t),*) -> $r {
            static REAL: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());
            let mut p = REAL.load(Ordering::Relaxed);
            if p.is_null() {
                p = next_or_missing(&REAL, cstr!($name));
            }
            // SAFETY: the symbol of that name has this type.
            unsafe { core::mem::transmute(p) }
        }
    };
}

/// Finds a definition now. Most programs have no library with a `guest`.
macro_rules! warm {
    (twin $name:ident) => {};
    (guest $name:ident) => {};
    ($form:ident $name:ident) => {
        let _ = $name();
    };
}

macro_rules! definitions {
    ($($form:ident fn $name:ident($($v:ident: $t:ty),*) -> $r:ty = $body:path;)*) => {
        $(definition!($form $name($($v: $t),*) -> $r);)*
        /// Finds every next definition, so that no hook has to, later, inside a signal handler.
        pub fn warm() {
            $(warm!($form $name);)*
        }
    };
}

table!(definitions);

// Their hooks are branches, and stand in no table: `ops::load`.
definition!(sleep dlopen (file: *const c_char, mode: c_int) -> *mut c_void);
definition!(sleep dlmopen (space: c_long, file: *const c_char, mode: c_int) -> *mut c_void);

/// A name that is replaced.
#[derive(Clone, Copy)]
pub struct Replaced {
    pub name: &'static CStr,
    /// It belongs to a library that a plug-in may have brought along for itself.
    pub guest: bool,
}

macro_rules! replaced {
    (guest $name:ident) => {
        Replaced { name: cstr!($name), guest: true }
    };
    ($form:ident $name:ident) => {
        Replaced { name: cstr!($name), guest: false }
    };
}

macro_rules! names {
    ($($form:ident fn $name:ident($($v:ident: $t:ty),*) -> $r:ty = $body:path;)*) => {
        /// All of them: those of the table, with variadic ones, and those that load.
        pub const REPLACED: &[Replaced] = &[
            $(replaced!($form $name),)*
            replaced!(sleep dprintf),
            replaced!(sleep __dprintf_chk),
            replaced!(sleep execl),
            replaced!(sleep execlp),
            replaced!(sleep execle),
            replaced!(sleep dlopen),
            replaced!(sleep dlmopen),
        ];
    };
}

table!(names);
