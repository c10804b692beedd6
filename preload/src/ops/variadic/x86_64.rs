//! A call with `...` on x86-64: six integers and eight doubles in registers (System V ABI, 3.5.7).

use core::ffi::c_void;

/// What lies on the stack, if anything. Larger than two words: so it is passed there.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Stack([usize; 3]);

/// Registers as a variadic function saves them.
#[repr(C)]
pub struct Saved {
    pub integers: [usize; 6],
    pub doubles: [[f64; 2]; 8],
}

/// A `va_list`.
#[repr(C)]
pub struct List {
    /// Where the next one is in `saved`, integers and doubles.
    integer: u32,
    double: u32,
    stack: *const Stack,
    saved: *const Saved,
}

const INTEGERS: u32 = size_of::<[usize; 6]>() as u32;

/// A call as it came.
pub struct Call<'a> {
    pub saved: &'a Saved,
    pub stack: *const Stack,
}

impl Call<'_> {
    pub fn integers(&self) -> &[usize] {
        &self.saved.integers
    }

    /// What the caller pushed, if anything.
    pub fn stack(&self) -> *const c_void {
        self.stack.cast()
    }

    /// What follows the first `named` integers; there as long as this is.
    pub fn list(&self, named: u32) -> List {
        List { integer: named * 8, double: INTEGERS, stack: self.stack, saved: self.saved }
    }
}

macro_rules! hook {
    ($(#[$doc:meta])* $name:ident, |$call:ident| $body:expr) => {
        $(#[$doc])*
        ///
        /// # Safety
        ///
        /// As for the call it replaces.
        #[no_mangle]
        pub unsafe extern "C-unwind" fn $name(
            a: usize, b: usize, c: usize, d: usize, e: usize, f: usize,
            x0: f64, x1: f64, x2: f64, x3: f64, x4: f64, x5: f64, x6: f64, x7: f64,
            stack: x86_64::Stack,
        ) -> core::ffi::c_int {
            let doubles = [x0, x1, x2, x3, x4, x5, x6, x7].map(|x| [x, 0.0]);
            let saved = x86_64::Saved { integers: [a, b, c, d, e, f], doubles };
            let $call = Call { saved: &saved, stack: &raw const stack };
            $body
        }
    };
}
pub(super) use hook;
