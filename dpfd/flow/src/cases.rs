//! Tests that also a kernel can run. It has no harness that finds functions with `#[test]`: so a module of tests lists its own.
//!
//! They are the same functions in both places, and have from `std` what `compat-tests/guest/flow/kernel_std.rs` has for them. Those
//! that need more, as random ones, are plain tests beside them.

/// The tests of a module, by the names of their functions. One that is left out is a function that nobody calls, which is a warning.
macro_rules! cases {
    ($($case:ident)+) => {
        #[cfg(test)]
        mod cases {
            $(#[test]
            fn $case() {
                super::$case();
            })+
        }

        #[cfg(kernel_tests)]
        pub(crate) const CASES: &[crate::cases::Case] = &[$((
            match core::ffi::CStr::from_bytes_with_nul(
                concat!(module_path!(), "::", stringify!($case), "\0").as_bytes(),
            ) {
                Ok(name) => name,
                Err(_) => panic!("a name without an end"),
            },
            $case,
        )),+];
    };
}

/// What a test is called, and the test.
#[cfg(kernel_tests)]
pub type Case = (&'static core::ffi::CStr, fn());

/// All of them, by module.
#[cfg(kernel_tests)]
pub const ALL: &[&[Case]] = &[
    crate::ack::tests::CASES,
    crate::congestion::tests::CASES,
    crate::count::tests::CASES,
    crate::flow::tests::CASES,
    crate::frame::tests::CASES,
    crate::greeting::tests::CASES,
    crate::number::tests::CASES,
    crate::outbox::tests::CASES,
    crate::pace::tests::CASES,
    crate::raw::tests::CASES,
    crate::reassemble::tests::CASES,
    crate::rtt::tests::CASES,
    crate::window::tests::CASES,
];
