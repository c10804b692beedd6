//! Raw system calls, sockets, mappings, the process: with [`crate::edge`], the only room for `unsafe`.

pub mod device;
pub mod futex;
pub mod lent;
pub mod mapped;
pub mod process;
pub mod raw;
pub mod tcp;
pub mod unix;
pub mod xattr;
