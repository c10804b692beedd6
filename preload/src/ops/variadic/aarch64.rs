//! A call with `...` on aarch64: eight integers and eight vectors in registers (AAPCS64; on Linux those behind the `...` are
//! passed as the others).
//!
//! Nothing in Rust has the address of what a caller pushed here: a struct that does not fit registers is passed by a pointer. So
//! a hook is a branch, which changes no register and has no frame, to a few lines of assembler that save the registers and call.

use core::ffi::{c_int, c_void};

/// Registers as [`dp_variadic`] saves them.
#[repr(C)]
pub struct Saved {
    vectors: [[u64; 2]; 8],
    integers: [usize; 8],
}

/// A `va_list` (AAPCS64, appendix B). It is passed by a pointer.
#[repr(C)]
pub struct List {
    stack: *const c_void,
    /// The ends of the saved registers, integers and vectors, and how far before them the next one is, negative.
    integers: *const c_void,
    vectors: *const c_void,
    integer: c_int,
    vector: c_int,
}

/// A call as it came.
pub struct Call<'a> {
    pub saved: &'a Saved,
    pub stack: *const c_void,
}

impl Call<'_> {
    pub fn integers(&self) -> &[usize] {
        &self.saved.integers
    }

    /// What the caller pushed, if anything.
    pub fn stack(&self) -> *const c_void {
        self.stack
    }

    /// What follows the first `named` integers; there as long as this is.
    pub fn list(&self, named: u32) -> List {
        let Saved { vectors, integers } = self.saved;
        List {
            stack: self.stack,
            integers: integers.as_ptr_range().end.cast(),
            vectors: vectors.as_ptr_range().end.cast(),
            integer: 8 * named as c_int - size_of_val(integers) as c_int,
            vector: -(size_of_val(vectors) as c_int),
        }
    }
}

extern "C" {
    /// Saves the registers of arguments and calls what x16 says: with them, and with what the caller pushed.
    pub fn dp_variadic();
}

core::arch::global_asm!(
    ".text",
    ".balign 16",
    ".hidden dp_variadic",
    ".globl dp_variadic",
    ".type dp_variadic, %function",
    "dp_variadic:",
    ".cfi_startproc",
    "stp x29, x30, [sp, #-16]!",
    ".cfi_def_cfa_offset 16",
    ".cfi_offset x29, -16",
    ".cfi_offset x30, -8",
    "mov x29, sp",
    ".cfi_def_cfa x29, 16",
    "sub sp, sp, #192",
    "stp q0, q1, [sp]",
    "stp q2, q3, [sp, #32]",
    "stp q4, q5, [sp, #64]",
    "stp q6, q7, [sp, #96]",
    "stp x0, x1, [sp, #128]",
    "stp x2, x3, [sp, #144]",
    "stp x4, x5, [sp, #160]",
    "stp x6, x7, [sp, #176]",
    "mov x0, sp",
    "add x1, x29, #16",
    "blr x16",
    "mov sp, x29",
    ".cfi_def_cfa sp, 16",
    "ldp x29, x30, [sp], #16",
    ".cfi_def_cfa_offset 0",
    ".cfi_restore x29",
    ".cfi_restore x30",
    "ret",
    ".cfi_endproc",
    ".size dp_variadic, . - dp_variadic",
);

macro_rules! hook {
    ($(#[$doc:meta])* $name:ident, |$call:ident| $body:expr) => {
        $(#[$doc])*
        ///
        /// # Safety
        ///
        /// As for the call it replaces.
        #[no_mangle]
        pub unsafe extern "C-unwind" fn $name() -> core::ffi::c_int {
            unsafe extern "C-unwind" fn called(
                saved: &aarch64::Saved,
                stack: *const core::ffi::c_void,
            ) -> core::ffi::c_int {
                let $call = Call { saved, stack };
                $body
            }
            // SAFETY: x16 is free between a call and what is called. This function has nothing on its stack, so it has no
            // frame: a test looks at its first instruction.
            unsafe {
                core::arch::asm!(
                    "adrp x16, {called}",
                    "add x16, x16, :lo12:{called}",
                    "b {save}",
                    called = sym called,
                    save = sym aarch64::dp_variadic,
                    options(noreturn, nostack),
                )
            }
        }
    };
}
pub(super) use hook;
