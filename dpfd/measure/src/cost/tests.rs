//! Systems whose parameters are known.

mod arithmetic;
mod pipeline;
mod printed;
mod recovered;
