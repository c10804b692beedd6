//! The kernel driver's calls and mappings, and messages where they lie: the only room of this package for `unsafe`.

pub mod device;
pub mod loaned;
pub mod mapped;
