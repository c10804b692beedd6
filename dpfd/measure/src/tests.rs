//! Statistics, and where and when: against numbers worked out by hand.

mod origin;
mod stats;

pub use origin::here;
