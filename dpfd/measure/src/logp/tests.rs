//! Systems whose parameters are known.

mod arithmetic;
mod link;
mod origin;
mod printed;
mod recovered;

pub use origin::here;
