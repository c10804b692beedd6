//! Proofs of the edge: every interleaving (loom), a model (proptest), a hostile peer. Those of what channels do with it are in
//! dp-channel.
//!
//! | run | what it shows |
//! |---|---|
//! | `RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR=target/loom cargo test -p dp-edge --release --lib loom` | the orderings, by exploring all schedules and all stale loads |
//! | `cargo test -p dp-edge` | ring and messages against a model; a peer that writes rubbish |
//! | `cargo +nightly miri test -p dp-edge --lib ring_` | the ring's arithmetic and pointers, on heap memory |
//! | `RUSTFLAGS=-Zsanitizer=address cargo +nightly test -p dp-edge --lib hostile --target x86_64-unknown-linux-gnu` | no access outside the mapping that the guard pages would miss |
//!
//! Each proof has a variant that is broken on purpose and must be caught (`#[should_panic]`, names with
//! `broken`): a proof that cannot fail shows nothing.

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
#[cfg(not(loom))]
mod model;
#[cfg(loom)]
mod one_edge;
#[cfg(not(loom))]
mod open;
