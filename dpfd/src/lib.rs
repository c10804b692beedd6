//! Directed Point: communication endpoints that are Unix file descriptors.
//!
//! [`Endpoint`] is the API; [`driver`] is what serves it. Below it: one directed edge in shared memory (`dp-edge`).
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
