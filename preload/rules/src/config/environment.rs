//! The numbers in the environment that the shim reads.

use dp_edge::setting::Number;

/// Calls on a connection before it is offered a channel.
pub const AFTER: Number = Number { name: "DP_AFTER", low: 0, high: 1 << 20, default: 3, unit: "calls" };
/// Bytes of each of a channel's rings.
pub const RING: Number =
    Number { name: "DP_RING", low: 4096, high: 1 << 26, default: 128 << 10, unit: "bytes" };
/// Bytes of the ring for streams; not above [`RING`]: none.
pub const RING_LONG: Number =
    Number { name: "DP_RING_LONG", low: 0, high: 1 << 26, default: 4 << 20, unit: "bytes" };
/// How long a wait looks before it sleeps, at most.
pub const SPIN: Number =
    Number { name: "DP_SPIN", low: 0, high: 1_000_000, default: 50_000, unit: "nanoseconds" };
/// The seed of switches that tests force; 0: none.
pub const CHAOS: Number =
    Number { name: "DP_CHAOS", low: 0, high: u32::MAX as u64, default: 0, unit: "(a seed)" };
/// What the shim reads.
pub const OF_SHIM: [&Number; 5] = [&AFTER, &RING, &RING_LONG, &SPIN, &CHAOS];
