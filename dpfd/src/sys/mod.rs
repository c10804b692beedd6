//! Raw system calls, TCP's own numbers, mappings: with [`crate::edge`], the only room for `unsafe`.

pub mod raw;
pub mod tcp;
pub mod xattr;
