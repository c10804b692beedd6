// SPDX-License-Identifier: GPL-2.0

//! What the tests of dp-flow need of `std`, made of what a kernel has. Memory that cannot be had fails them by a panic.

use core::fmt;
use core::ops::{Deref, DerefMut};
use core::panic::Location;
use core::sync::atomic::{AtomicBool, Ordering};

use kernel::alloc::{flags::GFP_KERNEL, kvec, KVec};
use kernel::pr_err;

const __LOG_PREFIX: &[u8] = b"dp_flow_test\0";

extern "C" {
    #[link_name = "crc32c"]
    fn kernel_crc32c(crc: u32, bytes: *const u8, len: usize) -> u32;
}

/// CRC32C of some bytes, continued from that of the bytes before them, by the kernel.
pub fn crc32c(before: u32, bytes: &[u8]) -> u32 {
    // SAFETY: it reads as many bytes as there are.
    !unsafe { kernel_crc32c(!before, bytes.as_ptr(), bytes.len()) }
}

/// Whether the test that runs has failed. There is one at a time.
static FAILED: AtomicBool = AtomicBool::new(false);

/// Runs a test: whether it went well.
pub fn passes(test: fn()) -> bool {
    FAILED.store(false, Ordering::Relaxed);
    test();
    !FAILED.load(Ordering::Relaxed)
}

/// The test that runs has failed, and goes on: a panic would take the kernel along. What a test unwraps behind it still does.
#[track_caller]
pub fn failed(what: fmt::Arguments<'_>) {
    let place = Location::caller();
    pr_err!("{}:{}: {}\n", place.file(), place.line(), what);
    FAILED.store(true, Ordering::Relaxed);
}

/// As `core`'s, but for what happens then.
#[macro_export]
macro_rules! assert {
    ($condition:expr $(,)?) => {
        if !$condition {
            $crate::failed(core::format_args!("not {}", core::stringify!($condition)));
        }
    };
    ($condition:expr, $($why:tt)+) => {
        if !$condition {
            $crate::failed(core::format_args!(
                "not {}: {}", core::stringify!($condition), core::format_args!($($why)+)));
        }
    };
}

/// As `core`'s, but for what happens then.
#[macro_export]
macro_rules! assert_eq {
    ($left:expr, $right:expr $(,)?) => {
        match (&$left, &$right) {
            (left, right) => if !(*left == *right) {
                $crate::failed(core::format_args!("{left:?} is not {right:?}"));
            }
        }
    };
    ($left:expr, $right:expr, $($why:tt)+) => {
        match (&$left, &$right) {
            (left, right) => if !(*left == *right) {
                $crate::failed(core::format_args!("{left:?} is not {right:?}: {}", core::format_args!($($why)+)));
            }
        }
    };
}

/// `vec![]`, as in `std`.
#[macro_export]
macro_rules! vec {
    () => { $crate::vec::Vec::new() };
    ($value:expr; $n:expr) => { $crate::vec::Vec::of($value, $n) };
    ($($value:expr),+ $(,)?) => { $crate::vec::Vec::from_iter([$($value),+]) };
}

/// What `Debug` or `Display` say, as in `std`.
#[macro_export]
macro_rules! format {
    ($($what:tt)+) => { $crate::Text::of(core::format_args!($($what)+)) };
}

/// A string, to be compared and printed.
#[derive(PartialEq, Eq)]
pub struct Text(vec::Vec<u8>);

impl Text {
    /// It says that.
    pub fn of(what: fmt::Arguments<'_>) -> Text {
        let mut text = Text(vec::Vec::new());
        // Of what prints nothing is compared: the tests' own `Debug` do not fail.
        let _ = fmt::Write::write_fmt(&mut text, what);
        text
    }
}

impl fmt::Write for Text {
    fn write_str(&mut self, more: &str) -> fmt::Result {
        self.0.extend_from_slice(more.as_bytes());
        Ok(())
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(core::str::from_utf8(&self.0).unwrap_or("?"), f)
    }
}

/// `std::boxed`.
pub mod boxed {
    use super::*;

    /// The kernel's, with the calls of `std`'s.
    pub struct Box<T>(kernel::alloc::KBox<T>);

    impl<T> Box<T> {
        /// Puts it into memory of its own.
        pub fn new(value: T) -> Box<T> {
            let Ok(boxed) = kernel::alloc::KBox::new(value, GFP_KERNEL) else { panic!("memory") };
            Box(boxed)
        }
    }

    impl<T> Deref for Box<T> {
        type Target = T;

        fn deref(&self) -> &T {
            &self.0
        }
    }

    impl<T> DerefMut for Box<T> {
        fn deref_mut(&mut self) -> &mut T {
            &mut self.0
        }
    }
}

/// `std::vec`.
pub mod vec {
    use super::*;

    /// The kernel's, with the calls of `std`'s.
    pub struct Vec<T>(KVec<T>);

    impl<T> Vec<T> {
        /// An empty one.
        pub const fn new() -> Vec<T> {
            Vec(KVec::new())
        }

        /// Puts one more at the end.
        pub fn push(&mut self, value: T) {
            self.0.push(value, GFP_KERNEL).expect("memory");
        }

        /// Takes one out.
        pub fn remove(&mut self, at: usize) -> T {
            self.0.remove(at).expect("there is one")
        }

        /// Takes all out.
        pub fn clear(&mut self) {
            self.0.clear();
        }
    }

    impl<T: Clone> Vec<T> {
        /// `n` of these.
        pub fn of(value: T, n: usize) -> Vec<T> {
            Vec(KVec::from_elem(value, n, GFP_KERNEL).expect("memory"))
        }

        /// Puts more at the end.
        pub fn extend_from_slice(&mut self, more: &[T]) {
            self.0.extend_from_slice(more, GFP_KERNEL).expect("memory");
        }
    }

    impl<T> Deref for Vec<T> {
        type Target = [T];

        fn deref(&self) -> &[T] {
            &self.0
        }
    }

    impl<T> DerefMut for Vec<T> {
        fn deref_mut(&mut self) -> &mut [T] {
            &mut self.0
        }
    }

    impl<T> AsRef<[T]> for Vec<T> {
        fn as_ref(&self) -> &[T] {
            self
        }
    }

    impl<T> AsMut<[T]> for Vec<T> {
        fn as_mut(&mut self) -> &mut [T] {
            self
        }
    }

    impl<T> Default for Vec<T> {
        fn default() -> Vec<T> {
            Vec::new()
        }
    }

    impl<T: Clone> Clone for Vec<T> {
        fn clone(&self) -> Vec<T> {
            Vec::from(&self[..])
        }
    }

    impl<T: Clone> From<&[T]> for Vec<T> {
        fn from(slice: &[T]) -> Vec<T> {
            let mut all = Vec::new();
            all.extend_from_slice(slice);
            all
        }
    }

    impl<T> Extend<T> for Vec<T> {
        fn extend<I: IntoIterator<Item = T>>(&mut self, more: I) {
            more.into_iter().for_each(|value| self.push(value));
        }
    }

    impl<T> FromIterator<T> for Vec<T> {
        fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Vec<T> {
            let mut all = Vec::new();
            all.extend(values);
            all
        }
    }

    impl<'a, T> IntoIterator for &'a Vec<T> {
        type Item = &'a T;
        type IntoIter = core::slice::Iter<'a, T>;

        fn into_iter(self) -> Self::IntoIter {
            self.iter()
        }
    }

    impl<T> IntoIterator for Vec<T> {
        type Item = T;
        type IntoIter = kvec::IntoIter<T, kernel::alloc::allocator::Kmalloc>;

        fn into_iter(self) -> Self::IntoIter {
            self.0.into_iter()
        }
    }

    impl<T: fmt::Debug> fmt::Debug for Vec<T> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            self[..].fmt(f)
        }
    }

    impl<T: Eq> Eq for Vec<T> {}

    impl<T: PartialEq<U>, U> PartialEq<Vec<U>> for Vec<T> {
        fn eq(&self, other: &Vec<U>) -> bool {
            self[..] == other[..]
        }
    }

    impl<T: PartialEq<U>, U> PartialEq<&[U]> for Vec<T> {
        fn eq(&self, other: &&[U]) -> bool {
            self[..] == other[..]
        }
    }

    impl<T: PartialEq<U>, U, const N: usize> PartialEq<[U; N]> for Vec<T> {
        fn eq(&self, other: &[U; N]) -> bool {
            self[..] == other[..]
        }
    }

    impl<T: PartialEq<U>, U, const N: usize> PartialEq<&[U; N]> for Vec<T> {
        fn eq(&self, other: &&[U; N]) -> bool {
            self[..] == other[..]
        }
    }
}
