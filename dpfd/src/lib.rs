//! Directed Point: communication endpoints that are Unix file descriptors.
//!
//! [`Endpoint`] is the API; [`driver`] is what serves it. Below it, and below the preload shim: one directed edge in
//! shared memory ([`edge`]). What a program family under the shim shares is in [`family`], its selection rules in
//! [`rules`], the arithmetic of `dp logp` in [`logp`].
#![deny(unsafe_code)]

#[cfg(not(loom))]
pub mod addr;
#[cfg(not(loom))]
pub mod allowance;
#[cfg(not(loom))]
pub mod config;
#[cfg(not(loom))]
pub mod cost;
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
pub mod leaving;
pub mod limbo;
#[cfg(not(loom))]
pub mod logp;
#[cfg(not(loom))]
pub mod pool;
#[cfg(not(loom))]
pub mod rules;
#[cfg(not(loom))]
pub mod sandbox;
#[cfg(not(loom))]
pub mod share;
pub mod spin;
pub mod sync;
#[allow(unsafe_code, clippy::allow_attributes)]
pub mod sys;
#[cfg(not(loom))]
pub mod uring;
#[cfg(not(loom))]
pub mod watch;

#[cfg(not(loom))]
pub use addr::{Addr, Dpid, Nid};
#[cfg(all(feature = "tokio", not(loom)))]
pub use endpoint::AsyncEndpoint;
#[cfg(not(loom))]
pub use endpoint::{Endpoint, Message, Stat};
#[cfg(not(loom))]
pub use error::{Error, Result};
