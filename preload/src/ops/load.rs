//! dlopen(3) and dlmopen(3): a plug-in that is loaded with RTLD_DEEPBIND finds libc's calls before our hooks, and one in a name
//! space of its own has a second libc.
//!
//! The C library looks where the call comes from: the RUNPATH and `$ORIGIN` of that object count when a name is searched for. So
//! a hook here is a branch. It asks [`before_dlopen`] what is to be called, and jumps there with the registers as they came: the
//! real function, mostly, which then returns to the program. Only where the caller makes no difference is it [`load_and_mend`],
//! which calls the real one from here and looks at what was loaded.
//!
//! Nothing here calls dlopen by its name: the compiler takes a hook that is a branch for a function that does not come back.

#![cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]

use core::ffi::{c_char, c_int, c_long, c_void, CStr};
use core::sync::atomic::Ordering;

use dp_channel::family::Reason;

use crate::{inside, plugin, real, state};

type Next = *const c_void;

/// What dlopen(3) does with these arguments, called from `caller`.
unsafe extern "C" fn before_dlopen(file: *const c_char, mode: c_int, caller: *const c_void) -> Next {
    let next = real::dlopen() as Next;
    let is_new = mode & libc::RTLD_NOLOAD == 0 && !file.is_null();
    if mode & libc::RTLD_DEEPBIND == 0 || !is_new || !is_concerned() {
        return next;
    }
    // Other threads may load something at the same time, and be in the middle of writing the words that would be looked at.
    // SAFETY: the program's string.
    if inside::alone() && plugin::is_found_from_here(unsafe { CStr::from_ptr(file) }, caller) {
        return load_and_mend as Next;
    }
    plugin::cannot_be_mended();
    next
}

/// dlopen(3), and the calls of what it loads come to the hooks.
unsafe extern "C-unwind" fn load_and_mend(file: *const c_char, mode: c_int) -> *mut c_void {
    // SAFETY: the program's arguments.
    plugin::mended(|| unsafe { real::dlopen()(file, mode) })
}

/// What dlmopen(3) does with these arguments.
unsafe extern "C" fn before_dlmopen(space: c_long, _file: *const c_char, mode: c_int) -> Next {
    // In the program's own name space it is a dlopen; for one that is deep nobody pays attention to its name.
    let is_past_us = space != libc::LM_ID_BASE || mode & libc::RTLD_DEEPBIND != 0;
    if is_past_us && mode & libc::RTLD_NOLOAD == 0 && is_concerned() {
        plugin::cannot_be_mended();
    }
    real::dlmopen() as Next
}

/// Whether there can be a channel that a plug-in might meet. A library's constructor may load one before the shim begins, which then
/// makes no channels.
fn is_concerned() -> bool {
    if !state::ON.load(Ordering::Acquire) {
        state::end_channels(Reason::Plugin);
    }
    state::ended().is_none() && !state::is_borrowed_memory()
}

#[cfg(target_arch = "x86_64")]
core::arch::global_asm!(
    ".text",
    ".balign 16",
    ".hidden dp_before_dlopen",
    ".globl dp_before_dlopen",
    ".type dp_before_dlopen, @function",
    "dp_before_dlopen:",
    ".cfi_startproc",
    "mov rdx, [rsp]",
    "push rdi",
    ".cfi_adjust_cfa_offset 8",
    "push rsi",
    ".cfi_adjust_cfa_offset 8",
    "sub rsp, 8",
    ".cfi_adjust_cfa_offset 8",
    "call {dlopen}",
    "add rsp, 8",
    ".cfi_adjust_cfa_offset -8",
    "pop rsi",
    ".cfi_adjust_cfa_offset -8",
    "pop rdi",
    ".cfi_adjust_cfa_offset -8",
    "jmp rax",
    ".cfi_endproc",
    ".size dp_before_dlopen, . - dp_before_dlopen",
    ".balign 16",
    ".hidden dp_before_dlmopen",
    ".globl dp_before_dlmopen",
    ".type dp_before_dlmopen, @function",
    "dp_before_dlmopen:",
    ".cfi_startproc",
    "push rdi",
    ".cfi_adjust_cfa_offset 8",
    "push rsi",
    ".cfi_adjust_cfa_offset 8",
    "push rdx",
    ".cfi_adjust_cfa_offset 8",
    "call {dlmopen}",
    "pop rdx",
    ".cfi_adjust_cfa_offset -8",
    "pop rsi",
    ".cfi_adjust_cfa_offset -8",
    "pop rdi",
    ".cfi_adjust_cfa_offset -8",
    "jmp rax",
    ".cfi_endproc",
    ".size dp_before_dlmopen, . - dp_before_dlmopen",
    dlopen = sym before_dlopen,
    dlmopen = sym before_dlmopen,
);

#[cfg(target_arch = "aarch64")]
core::arch::global_asm!(
    ".text",
    ".balign 16",
    ".hidden dp_before_dlopen",
    ".globl dp_before_dlopen",
    ".type dp_before_dlopen, %function",
    "dp_before_dlopen:",
    ".cfi_startproc",
    "stp x29, x30, [sp, #-32]!",
    ".cfi_def_cfa_offset 32",
    ".cfi_offset x29, -32",
    ".cfi_offset x30, -24",
    "mov x29, sp",
    "stp x0, x1, [sp, #16]",
    "mov x2, x30",
    "bl {dlopen}",
    "mov x16, x0",
    "ldp x0, x1, [sp, #16]",
    "ldp x29, x30, [sp], #32",
    ".cfi_def_cfa_offset 0",
    ".cfi_restore x29",
    ".cfi_restore x30",
    "br x16",
    ".cfi_endproc",
    ".size dp_before_dlopen, . - dp_before_dlopen",
    ".balign 16",
    ".hidden dp_before_dlmopen",
    ".globl dp_before_dlmopen",
    ".type dp_before_dlmopen, %function",
    "dp_before_dlmopen:",
    ".cfi_startproc",
    "stp x29, x30, [sp, #-48]!",
    ".cfi_def_cfa_offset 48",
    ".cfi_offset x29, -48",
    ".cfi_offset x30, -40",
    "mov x29, sp",
    "stp x0, x1, [sp, #16]",
    "str x2, [sp, #32]",
    "bl {dlmopen}",
    "mov x16, x0",
    "ldp x0, x1, [sp, #16]",
    "ldr x2, [sp, #32]",
    "ldp x29, x30, [sp], #48",
    ".cfi_def_cfa_offset 0",
    ".cfi_restore x29",
    ".cfi_restore x30",
    "br x16",
    ".cfi_endproc",
    ".size dp_before_dlmopen, . - dp_before_dlmopen",
    dlopen = sym before_dlopen,
    dlmopen = sym before_dlmopen,
);

extern "C" {
    fn dp_before_dlopen();
    fn dp_before_dlmopen();
}

macro_rules! hook {
    ($(#[$doc:meta])* $name:ident, $to:ident) => {
        $(#[$doc])*
        ///
        /// # Safety
        ///
        /// As for the call it replaces.
        #[no_mangle]
        pub unsafe extern "C-unwind" fn $name() {
            // SAFETY: a branch that changes no register. This function has nothing on its stack, so it has no frame: a test
            // looks at its first instruction.
            unsafe {
                #[cfg(target_arch = "x86_64")]
                core::arch::asm!("jmp {to}", to = sym $to, options(noreturn, nostack));
                #[cfg(target_arch = "aarch64")]
                core::arch::asm!("b {to}", to = sym $to, options(noreturn, nostack));
            }
        }
    };
}

hook! {
    /// dlopen(3).
    dlopen, dp_before_dlopen
}
hook! {
    /// dlmopen(3).
    dlmopen, dp_before_dlmopen
}
