//! Systems whose parameters are known.

mod arithmetic;
mod link;
mod recovered;
