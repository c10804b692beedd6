//! What a driver offers to whoever waits above it ([`crate::endpoint::wait`]). No call of a driver sleeps: it does what can be
//! done at once, and says where to sleep for the rest.

use std::os::fd::RawFd;
use std::time::Duration;

use crate::edge::event_count::WaitKey;

/// How a step of a call ended.
#[derive(Debug)]
pub enum Step<T> {
    /// With what the call is for.
    Done(T),
    /// Not yet: the caller sleeps there, and makes another step.
    Wait(Sleep),
}

/// Where a call sleeps. Nothing is held meanwhile: a signal handler may do as it likes, and a thread may be cancelled.
#[derive(Debug, Clone, Copy)]
pub enum Sleep {
    /// In a call on the endpoint's socket that takes nothing; since then, ns, where the driver is told when it is over.
    Socket(Option<u64>),
    /// The same, on the device.
    Device,
    /// On the word of an edge; which of the endpoint's sleeps there.
    Edge(WaitKey, u32),
    /// On the endpoint's socket as [`Sleep::Socket`] does, and on what routes have for a gateway inside this process; a sender, whose
    /// room acknowledgements bring, on that alone (`since` is none).
    Routes {
        /// As of [`Sleep::Socket`].
        since: Option<u64>,
        /// Readable when a route has something; -1: another call is woken by that.
        routes: RawFd,
        /// For so long at most.
        time: Option<Duration>,
    },
    /// Until the descriptor takes something, or for so long.
    Room(Duration),
    /// For so long.
    Moment(Duration),
}
