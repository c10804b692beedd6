//! Directed Point: communication endpoints that are Unix file descriptors.
//!
//! This crate holds what the `dp` command and the preload shim stand on: one directed edge in shared
//! memory ([`edge`]), what a program family shares ([`family`]), the selection rules ([`rules`]). The
//! endpoint API grows on the same edge.
#![deny(unsafe_code)]

#[cfg(not(loom))]
pub mod addr;
#[cfg(not(loom))]
pub mod config;
#[cfg(not(loom))]
pub mod driver;
#[allow(unsafe_code, clippy::allow_attributes)]
pub mod edge;
#[cfg(not(loom))]
pub mod endpoint;
#[cfg(not(loom))]
pub mod error;
#[cfg(not(loom))]
#[allow(unsafe_code, clippy::allow_attributes)]
pub mod family;
#[cfg(not(loom))]
pub mod logp;
#[cfg(not(loom))]
pub mod pool;
#[cfg(not(loom))]
pub mod rules;
pub mod sync;
#[cfg(not(loom))]
#[allow(unsafe_code, clippy::allow_attributes)]
pub mod sys;

#[cfg(not(loom))]
pub use addr::{Addr, Dpid, Nid};
#[cfg(all(feature = "tokio", not(loom)))]
pub use endpoint::AsyncEndpoint;
#[cfg(not(loom))]
pub use endpoint::{Endpoint, Message, Stat};
#[cfg(not(loom))]
pub use error::{Error, Result};
