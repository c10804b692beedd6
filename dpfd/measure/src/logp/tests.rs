//! Systems whose parameters are known.

mod arithmetic;
mod link;
mod printed;
mod recovered;
