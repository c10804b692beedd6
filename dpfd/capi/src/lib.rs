//! The C interface, `dp.h`: the calls of [`dpfd::Endpoint`] on plain descriptors.
//!
//! ```text
//!   dp_write(fd) -> table: fd -> endpoint, two loads and a count   -> wait::send
//!                -> unknown number: fstat, is it a copy of one of ours? -> wait::send
//!                -> an endpoint of another process                 -> send(2)
//! ```
//!
//! | file | holds |
//! |---|---|
//! | `calls` | sending, receiving, opening, closing: the functions |
//! | `gather` | messages in pieces, and what goes beside them |
//! | `settings` | options and counters |
//! | `table` | from a descriptor to an endpoint |
//! | `foreign` | endpoints of other processes: plain send and receive |
//! | `fault` | errno and a sentence |
//! | `thread` | cancellation, and sleeping where it may happen |
//!
//! **No call unwinds into C, except a cancelled thread.** The work of a call runs with cancellation disabled and
//! inside `catch_unwind`; sleeping is done outside of both, with nothing held, in libc's own function. A forced
//! unwind must not meet `catch_unwind`: the process would abort.

mod calls;
mod fault;
mod foreign;
mod gather;
mod settings;
mod table;
mod thread;
