//! Drivers: what serves the endpoint API.
//!
//! | driver | what it is |
//! |---|---|
//! | [`user`] | this library: shared memory and AF_UNIX sockets, no other process needed |

pub mod user;

/// Which driver serves an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Driver {
    /// The library itself.
    #[default]
    User,
}
