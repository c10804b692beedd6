//! Proofs of the edge: every interleaving (loom), a model (proptest), a hostile peer. Most of them are where the ring is
//! used, in dpfd's `edge` and in dp-channel.
//!
//! | run | what it shows |
//! |---|---|
//! | `.ci/check only loom` | the orderings, by exploring all schedules and all stale loads |
//! | `cargo test -p dp-edge -p dp-channel -p dpfd --lib` | ring and framings against a model; a peer that writes rubbish |
//! | `cargo +nightly miri test -p dp-edge -p dp-channel -p dpfd --lib ring_` | the ring's arithmetic and pointers, on heap memory |
//! | `.ci/check only asan` | no access outside the mapping that the guard pages would miss |
//!
//! Each proof has a variant that is broken on purpose and must be caught (`#[should_panic]`, names with
//! `broken`): a proof that cannot fail shows nothing.

#[cfg(not(loom))]
mod model;
