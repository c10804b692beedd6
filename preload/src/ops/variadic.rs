//! Hooks of functions with `...`: dprintf, execl and their kin.
//!
//! Rust cannot define a C-variadic function. On x86-64 it need not: such a call passes integers in six registers,
//! doubles in eight, and everything else on the stack in order, exactly as one with a long fixed list does. So a hook
//! takes all the registers, and a struct that would lie where the other arguments are. Only its address is used: where
//! the caller pushed less, or nothing, the stack may end there.
//!
//! From these a `va_list` is made, or the list of arguments of the program that is executed, as the C library does.

#![cfg(target_arch = "x86_64")]

use core::ffi::{c_char, c_int, c_void};

use super::leave;

/// What lies on the stack, if anything. Larger than two words: so it is passed there.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Stack([usize; 3]);

type Text = *const c_char;

/// A `va_list`.
#[repr(C)]
struct List {
    /// Where the next one is in `saved`, integers and doubles.
    integer: u32,
    double: u32,
    stack: *const Stack,
    saved: *const Saved,
}

/// Registers as a variadic function saves them.
#[repr(C)]
struct Saved {
    integers: [usize; 6],
    doubles: [[f64; 2]; 8],
}

const INTEGERS: u32 = size_of::<[usize; 6]>() as u32;

macro_rules! printing {
    ($($(#[$doc:meta])* $name:ident, $named:literal, |$a:ident, $list:ident| $call:expr;)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        ///
        /// As for the call it replaces.
        #[no_mangle]
        pub unsafe extern "C" fn $name(
            a: usize, b: usize, c: usize, d: usize, e: usize, f: usize,
            x0: f64, x1: f64, x2: f64, x3: f64, x4: f64, x5: f64, x6: f64, x7: f64,
            stack: Stack,
        ) -> c_int {
            let doubles = [x0, x1, x2, x3, x4, x5, x6, x7].map(|x| [x, 0.0]);
            let saved = Saved { integers: [a, b, c, d, e, f], doubles };
            let mut list = List { integer: $named * 8, double: INTEGERS, stack: &raw const stack, saved: &raw const saved };
            let ($a, $list) = (&saved.integers, (&raw mut list).cast::<c_void>());
            // SAFETY: the program's arguments, as they came.
            unsafe { $call }
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
    registers: &'a [usize; 5],
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
        $(#[$doc])*
        ///
        /// # Safety
        ///
        /// As for the call it replaces.
        #[no_mangle]
        pub unsafe extern "C" fn $name(
            path: usize, b: usize, c: usize, d: usize, e: usize, f: usize,
            _: f64, _: f64, _: f64, _: f64, _: f64, _: f64, _: f64, _: f64,
            stack: Stack,
        ) -> c_int {
            let given = Arguments { registers: &[b, c, d, e, f], stack: (&raw const stack).cast() };
            let $path = path as Text;
            // SAFETY: the program's arguments, as they came.
            unsafe { given.listed(|$list, $after| $call) }
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
