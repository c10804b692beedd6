#![doc = include_str!("../README.md")]
//!
//! | module | holds |
//! |---|---|
//! | [`endpoint`] | [`Endpoint`], the API; a [`Message`] in place, [`Parts`] of one that is sent; `AsyncEndpoint` in tokio's runtime |
//! | [`addr`], [`error`], [`stat`] | where an endpoint is; why a call failed, with an errno; what an endpoint tells of itself |
//! | [`driver`] | what serves endpoints: this library, or the kernel |
//! | [`graph`] | the part of a directed point graph that a program is given |
//! | [`pool`] | the Token Buffer Pool |
//! | [`edge`] | an edge's memory: messages, and who wakes whom |
//!
//! Endpoints, their addresses, errors and counters are the interface that is kept; [`driver`], [`graph`], [`pool`] and [`edge`]
//! are public for the project's own command and tests, and change as they need. Proofs with loom see [`edge`] alone.
#![deny(unsafe_code)]

#[cfg(not(loom))]
pub mod addr;
#[cfg(not(loom))]
pub mod driver;
pub mod edge;
#[cfg(not(loom))]
pub mod endpoint;
#[cfg(not(loom))]
pub mod error;
#[cfg(not(loom))]
pub mod graph;
#[cfg(not(loom))]
pub mod pool;
#[cfg(not(loom))]
pub mod stat;
#[cfg(not(loom))]
#[allow(unsafe_code, clippy::allow_attributes)]
pub mod sys;

#[cfg(not(loom))]
pub use addr::{Addr, Dpid, Nid};
#[cfg(not(loom))]
pub use edge::parts::Parts;
#[cfg(all(feature = "tokio", not(loom)))]
pub use endpoint::AsyncEndpoint;
#[cfg(not(loom))]
pub use endpoint::{Endpoint, Message};
#[cfg(not(loom))]
pub use error::{Error, Result};
#[cfg(not(loom))]
pub use stat::Stat;

/// The example of README.md runs.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
pub struct Readme;
