//! One test for every behaviour: see the program's first comment for what it does.
//!
//! Each runs natively and under every combination of shimmed sides; `compat_tests` says how.

mod calls;
mod descriptors;
mod end_table;
mod endings;
mod moved;
mod processes;
mod python;
mod readiness;
mod streams;
mod threads;
