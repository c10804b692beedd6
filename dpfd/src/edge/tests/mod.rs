//! Proofs of an endpoint's edge: every interleaving (loom), a model (proptest), a hostile peer. dp-edge's `tests.rs` says how
//! each is run. loom sees this module alone.

#[cfg(not(loom))]
mod hostile;
#[cfg(loom)]
mod loom_arm;
#[cfg(loom)]
mod loom_doze;
#[cfg(loom)]
mod loom_longer;
#[cfg(loom)]
mod loom_ring;
#[cfg(loom)]
mod loom_space;
#[cfg(loom)]
mod loom_wake;
#[cfg(not(loom))]
mod model;
#[cfg(loom)]
mod one_edge;
#[cfg(not(loom))]
mod open;
mod receiver;
#[cfg(not(loom))]
mod wake;
