//! The differential fuzzer: random programs for two processes, the same on TCP and under the shim.
//!
//! A [`script::Script`] is carried out line by line by two interpreters (`compat-tests/fuzz`), in lock-step, so that
//! what Linux does is nearly always determined; [`check`] runs it both ways, and what differs is made short
//! ([`shrink`]) and kept.

pub mod check;
pub mod generate;
pub mod interpreter;
pub mod judge;
mod known;
mod report;
pub mod run;
pub mod script;
mod shapes;
pub mod shrink;
mod side;

pub use check::{Difference, Verdict};
pub use run::{Shimmed, Tools};
pub use script::Script;
