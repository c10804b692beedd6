//! What is reckoned with what was measured between two processes, printed and drawn: no clock and no connection here.
//!
//! | module | holds |
//! |---|---|
//! | [`stats`] | medians, means, intervals, lines: the same for all that is measured here and in `compat-tests` |
//! | [`turns`] | whose turn it is |
//! | [`origin`] | where, when and by what it was measured |
//! | [`printed`] | a table for people, JSON for programs |
//! | [`logp`] | the parameters of LogP with their confidence, from samples |
//! | [`cost`] | Directed Point's cost model: fits, predictions, reports |
//! | `picture` | what `--plot` draws, with the feature `plot` |
#![forbid(unsafe_code)]

pub mod cost;
pub mod logp;
pub mod origin;
#[cfg(feature = "plot")]
pub mod picture;
pub mod printed;
pub mod stats;
pub mod turns;

#[cfg(test)]
mod tests;
