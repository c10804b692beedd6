//! What `dp logp` and `dp cost` reckon with what they have measured: no clock and no connection here.
//!
//! | module | holds |
//! |---|---|
//! | [`logp`] | the parameters of LogP with their confidence, from samples; statistics; where and when they were taken |
//! | [`cost`] | Directed Point's cost model: fits, predictions, reports |
#![forbid(unsafe_code)]

pub mod cost;
pub mod logp;
