//! Hooks of functions with `...`: dprintf, execl and their kin.
//!
//! Rust cannot define a C-variadic function. On x86-64 it need not: a variadic call passes integers in six
//! registers, doubles in eight, and everything else on the stack in order, exactly as a call with a long
//! fixed list does. So the hook takes the registers and the first [`WORDS`] words of the stack, and passes
//! them on through a variadic pointer, which also says that the vector registers are in use. Words beyond
//! what the caller pushed are whatever lies there; nobody reads them.

#![cfg(target_arch = "x86_64")]

use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicPtr, Ordering};

use crate::leave;

/// Words of the caller's stack that are passed on.
pub const WORDS: usize = 32;

fn find(cell: &AtomicPtr<c_void>, name: &core::ffi::CStr) -> *mut c_void {
    let p = cell.load(Ordering::Relaxed);
    if !p.is_null() {
        return p;
    }
    // SAFETY: a C string.
    let p = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    cell.store(p, Ordering::Relaxed);
    p
}

/// The stack words: a C struct in memory, passed on the stack as it lies.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Words([usize; WORDS]);

type Variadic = unsafe extern "C" fn(usize, ...) -> c_int;

macro_rules! variadic {
    ($($(#[$doc:meta])* $name:ident, $c:literal, $before:expr;)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        ///
        /// As for the call it replaces.
        #[no_mangle]
        pub unsafe extern "C" fn $name(
            a: usize, b: usize, c: usize, d: usize, e: usize, f: usize,
            x0: f64, x1: f64, x2: f64, x3: f64, x4: f64, x5: f64, x6: f64, x7: f64,
            Words(s): Words,
        ) -> c_int {
            static REAL: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());
            let before: fn(usize) -> Result<(), i32> = $before;
            if let Err(e) = before(a) {
                return super::fail(e) as c_int;
            }
            // SAFETY: the function of that name is variadic.
            let real: Variadic = unsafe { core::mem::transmute(find(&REAL, $c)) };
            // SAFETY: the program's arguments, as they came.
            unsafe {
                real(
                    a, b, c, d, e, f, x0, x1, x2, x3, x4, x5, x6, x7,
                    s[0], s[1], s[2], s[3], s[4], s[5], s[6], s[7],
                    s[8], s[9], s[10], s[11], s[12], s[13], s[14], s[15],
                    s[16], s[17], s[18], s[19], s[20], s[21], s[22], s[23],
                    s[24], s[25], s[26], s[27], s[28], s[29], s[30], s[31],
                )
            }
        }
    )*};
}

fn printing(fd: usize) -> Result<(), i32> {
    super::leave::printing(fd as c_int)
}

fn executing(_: usize) -> Result<(), i32> {
    leave::before_exec();
    Ok(())
}

variadic! {
    /// dprintf(3): glibc writes inside itself.
    dprintf, c"dprintf", printing;
    /// dprintf(3) under -D_FORTIFY_SOURCE.
    __dprintf_chk, c"__dprintf_chk", printing;
    /// execl(3).
    execl, c"execl", executing;
    /// execlp(3).
    execlp, c"execlp", executing;
    /// execle(3).
    execle, c"execle", executing;
}
