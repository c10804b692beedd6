//! The same program natively and under the shim gives the same output: Linux is the oracle.
//!
//! A [`Pair`] is a program of `programs/` with its arguments; it has a server and a client side, and prints a
//! transcript without ports, process ids and times. [`Pair::same_everywhere`] runs it once without the shim,
//! then under every [`Combo`] of shimmed and unshimmed sides, and compares transcripts and exit statuses.
//!
//! ```no_run
//! compat_tests::Pair::c("half_close").arg("tester_first").same_everywhere();
//! ```
//!
//! | environment | meaning |
//! |---|---|
//! | `DP_SHIM` | the shim; otherwise `<target>/release/libdp_preload.so`. Without it the tests fail |
//! | `DP_COMPAT_NATIVE_ONLY=1` | no side gets the shim: tries the tests themselves |
//! | `DP_COMPAT_COMBO=TEXT` | only the combinations whose name contains TEXT |
//! | `DP_COMPAT_SEEDS=N` | seeds of `DP_CHAOS` to try, 1 to N; 3 |
//! | other `DP_*` | reach the shimmed side unchanged |

mod combo;
pub mod fuzz;
mod job;
pub mod matrix;
pub mod measure;
mod pair;
pub mod programs;
pub mod systems;
#[cfg(test)]
mod tests;
pub mod tools;
mod transcript;

pub use combo::{Combo, Side};
pub use job::{Ended, Job};
pub use pair::{Pair, Running};
pub use transcript::difference;

/// Declares one test for every behaviour: `name => Pair::c("program").arg("mode");`
#[macro_export]
macro_rules! same_everywhere {
    ($($(#[$meta:meta])* $name:ident => $pair:expr;)+) => {
        $($(#[$meta])* #[test] fn $name() { $pair.same_everywhere(); })+
    };
}
