//! A gateway inside this process ([`super::gateway`]), which the calls of its endpoints step: so what goes to another node
//! passes no other thread on its way (PROTOCOLS N15 to N18).
//!
//! ```text
//!   send --> edge to the proxy --> sent() --> frames on a route          in the sender's call
//!   recv <-- own pool          <-- step() <-- frames from a route        in the receiver's call
//! ```
//!
//! What it is made of is not this package's affair; the package `dp-node` has one.

use core::fmt;
use core::panic::{RefUnwindSafe, UnwindSafe};
use std::os::fd::RawFd;
use std::time::Duration;

use crate::addr::Addr;

/// As above. No call of it waits for another thread or node, nor takes a lock that an endpoint of the program's own could hold. What a
/// step does may take some time now and then: once a second the node's interfaces are looked at, and what receives there is begun
/// anew where they have changed, which takes calls of the kernel and megabytes of memory.
pub trait Inside: fmt::Debug + Send + Sync + UnwindSafe + RefUnwindSafe {
    /// The caller has put a message into the edge to the proxy of that endpoint, without ringing for it: it is taken from there
    /// and sent, if another thread does not do so.
    fn sent(&self, to: Addr);

    /// Takes what routes have, and does what is due. Whether something came; not if another thread is at it.
    fn step(&self) -> bool;

    /// The caller waits from here on, and steps. Whether it sleeps until [`Inside::descriptor`] is readable, too, if it sleeps: one
    /// of those who wait does, and not one that `yields` where others do.
    fn begin_wait(&self, yields: bool) -> bool;

    /// It does not any more; `led`: what that said.
    fn end_wait(&self, led: bool);

    /// Readable while a route has something. It stays open as long as the process lives.
    fn descriptor(&self) -> RawFd;

    /// How long a caller may sleep before it steps again; none: until something comes, since the rest is seen to.
    fn until_due(&self) -> Option<Duration>;

    /// Whether messages of this process wait for acknowledgements that may come.
    fn has_unacknowledged(&self) -> bool;
}
