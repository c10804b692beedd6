//! Proofs of a channel's directions: every interleaving (loom), a model (proptest), a hostile peer. dp-edge's `tests.rs` says
//! how each is run.

mod ends;

#[cfg(not(loom))]
mod follow;
#[cfg(not(loom))]
mod hostile;
#[cfg(loom)]
mod loom_bell;
#[cfg(loom)]
mod loom_followed;
#[cfg(loom)]
mod loom_group;
#[cfg(loom)]
mod loom_itself;
#[cfg(loom)]
mod loom_leave;
#[cfg(loom)]
mod loom_receive;
#[cfg(loom)]
mod loom_slot;
#[cfg(loom)]
mod loom_switch;
#[cfg(loom)]
mod loom_teller;
#[cfg(not(loom))]
mod meddled;
#[cfg(not(loom))]
mod model;
#[cfg(not(loom))]
mod open;
