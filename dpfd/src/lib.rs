#![doc = include_str!("../README.md")]
//!
//! | module | holds |
//! |---|---|
//! | [`endpoint`] | [`Endpoint`], the API; a [`Message`] in place; `AsyncEndpoint` in tokio's runtime |
//! | [`addr`], [`error`], [`stat`] | where an endpoint is; why a call failed, with an errno; what an endpoint tells of itself |
//! | [`driver`] | what serves endpoints: this library, or the kernel |
//! | [`pool`] | the Token Buffer Pool |
//!
//! Endpoints, their addresses, errors and counters are the interface that is kept; [`driver`] and [`pool`] are public for
//! the project's own command and tests, and change as they need.
#![deny(unsafe_code)]

pub mod addr;
pub mod driver;
pub mod endpoint;
pub mod error;
pub mod pool;
pub mod stat;
#[allow(unsafe_code, clippy::allow_attributes)]
pub mod sys;

pub use addr::{Addr, Dpid, Nid};
#[cfg(feature = "tokio")]
pub use endpoint::AsyncEndpoint;
pub use endpoint::{Endpoint, Message};
pub use error::{Error, Result};
pub use stat::Stat;

/// The example of README.md runs.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
pub struct Readme;
