//! System calls without libc: no hook of ours on the way, no errno, no cancellation point.
//!
//! The shim replaces `read`, `close` and their kin; what it does for itself must not come back to it.
//! Only calls that cannot block for long are made this way: sleeping belongs in libc's own functions,
//! which are cancellation points.

/// What a call returns: the value, or an errno.
pub type Res = Result<usize, i32>;

#[inline(always)]
fn check(r: isize) -> Res {
    if (-4095..0).contains(&r) {
        Err(-r as i32)
    } else {
        Ok(r as usize)
    }
}

/// A system call with up to six arguments.
///
/// # Safety
///
/// As for the call itself: pointers among the arguments must be valid for what it does with them.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub unsafe fn call(n: libc::c_long, a: [usize; 6]) -> Res {
    let r: isize;
    // SAFETY: the syscall instruction clobbers rcx, r11 and memory the call writes to, nothing else.
    unsafe {
        core::arch::asm!(
            "syscall",
            inlateout("rax") n as isize => r,
            in("rdi") a[0], in("rsi") a[1], in("rdx") a[2], in("r10") a[3], in("r8") a[4], in("r9") a[5],
            lateout("rcx") _, lateout("r11") _,
            options(nostack),
        );
    }
    check(r)
}

/// A system call with up to six arguments.
///
/// # Safety
///
/// As for the call itself: pointers among the arguments must be valid for what it does with them.
#[cfg(target_arch = "aarch64")]
#[inline(always)]
pub unsafe fn call(n: libc::c_long, a: [usize; 6]) -> Res {
    let r: isize;
    // SAFETY: svc 0 changes x0 and memory the call writes to, nothing else.
    unsafe {
        core::arch::asm!(
            "svc 0",
            in("x8") n,
            inlateout("x0") a[0] => r,
            in("x1") a[1], in("x2") a[2], in("x3") a[3], in("x4") a[4], in("x5") a[5],
            options(nostack),
        );
    }
    check(r)
}

macro_rules! sys {
    ($n:ident $(, $a:expr)*) => {{
        let mut args = [0usize; 6];
        let given: &[usize] = &[$($a as usize),*];
        args[..given.len()].copy_from_slice(given);
        // SAFETY: the wrapper below says what its pointers must be.
        unsafe { call(libc::$n, args) }
    }};
}

mod file;
mod process;
mod socket;
mod wait;

pub use file::*;
pub use process::*;
pub use socket::*;
pub use wait::*;
