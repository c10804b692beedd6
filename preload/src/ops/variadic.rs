//! Hooks of functions with `...`: dprintf, execl and their kin.
//!
//! Rust cannot define a C-variadic function. It need not: on both processors such a call passes its arguments as one with a
//! long fixed list does, integers and doubles in so many registers each, and everything else on the stack in order. So a hook
//! takes the registers as they are, and the address of what lies on the stack. Only where the program says that more was
//! pushed is it looked at: the stack may end there.
//!
//! From these a `va_list` is made, or the list of arguments of the program that is executed, as the C library does.

#![cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]

use core::ffi::{c_char, c_int, c_void};

use super::leave;

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "x86_64")]
mod x86_64;
#[cfg(target_arch = "aarch64")]
use aarch64::{hook, Call};
#[cfg(target_arch = "x86_64")]
use x86_64::{hook, Call};

type Text = *const c_char;

macro_rules! printing {
    ($($(#[$doc:meta])* $name:ident, $named:literal, |$a:ident, $list:ident| $call:expr;)*) => {$(
        hook! {
            $(#[$doc])*
            $name, |call| {
                let mut list = call.list($named);
                let ($a, $list) = (call.integers(), (&raw mut list).cast::<c_void>());
                // SAFETY: the program's arguments, as they came.
                unsafe { $call }
            }
        }
    )*};
}

printing! {
    /// dprintf(3): glibc writes inside itself.
    dprintf, 2, |a, list| leave::vdprintf(a[0] as c_int, a[1] as Text, list);
    /// dprintf(3) under -D_FORTIFY_SOURCE.
    __dprintf_chk, 3, |a, list| leave::vdprintf_chk(a[0] as c_int, a[1] as c_int, a[2] as Text, list);
}

/// The arguments that a program is executed with: those in registers from the second on, then those on the stack, up to a null.
struct Arguments<'a> {
    registers: &'a [usize],
    stack: *const usize,
}

impl Arguments<'_> {
    /// Argument `n`.
    ///
    /// # Safety
    ///
    /// There is a null, if any, further on.
    unsafe fn get(&self, n: usize) -> usize {
        match self.registers.get(n) {
            Some(word) => *word,
            // SAFETY: the caller pushed it, by the contract.
            None => unsafe { *self.stack.add(n - self.registers.len()) },
        }
    }

    /// Does `f` with the list, and with what comes after it.
    ///
    /// # Safety
    ///
    /// There is a null at its end.
    unsafe fn listed(&self, f: impl FnOnce(*const Text, &dyn Fn() -> usize) -> c_int) -> c_int {
        let mut n = 0;
        // SAFETY: not beyond the null.
        while unsafe { self.get(n) } != 0 {
            n += 1;
        }
        // SAFETY: something comes after the null where it is asked for.
        let after = || unsafe { self.get(n + 1) };
        // SAFETY: by the contract, and as many as fit.
        unsafe {
            match n {
                // On the stack, as the C library has them, and not much longer than they are: it may be a small one.
                0..16 => self.copied::<16>(n, |list| f(list, &after)),
                16..32 => self.copied::<32>(n, |list| f(list, &after)),
                32..64 => self.copied::<64>(n, |list| f(list, &after)),
                64..128 => self.copied::<128>(n, |list| f(list, &after)),
                128..512 => self.copied::<512>(n, |list| f(list, &after)),
                512..2048 => self.copied::<2048>(n, |list| f(list, &after)),
                2048..8192 => self.copied::<8192>(n, |list| f(list, &after)),
                _ => super::fail(libc::E2BIG) as c_int,
            }
        }
    }

    /// # Safety
    ///
    /// There are `n` arguments and a null, and `n` is below `ROOM`.
    #[inline(never)]
    unsafe fn copied<const ROOM: usize>(&self, n: usize, f: impl FnOnce(*const Text) -> c_int) -> c_int {
        let mut list = [const { core::mem::MaybeUninit::<usize>::uninit() }; ROOM];
        for (k, to) in list.iter_mut().enumerate().take(n + 1) {
            // SAFETY: by the contract.
            to.write(unsafe { self.get(k) });
        }
        f(list.as_ptr().cast())
    }
}

macro_rules! executing {
    ($($(#[$doc:meta])* $name:ident, |$path:ident, $list:ident, $after:ident| $call:expr;)*) => {$(
        hook! {
            $(#[$doc])*
            $name, |call| {
                let given = Arguments { registers: &call.integers()[1..], stack: call.stack().cast() };
                let $path = call.integers()[0] as Text;
                // SAFETY: the program's arguments, as they came.
                unsafe { given.listed(|$list, $after| $call) }
            }
        }
    )*};
}

executing! {
    /// execl(3).
    execl, |path, list, _after| leave::execv(path, list);
    /// execlp(3).
    execlp, |path, list, _after| leave::execvp(path, list);
    /// execle(3).
    execle, |path, list, after| leave::execve(path, list, after() as *const Text);
}
