//! `dp capture` of unmodified programs, and what tshark makes of it.

mod bytes;
mod kit;
mod protocols;
mod rights;
