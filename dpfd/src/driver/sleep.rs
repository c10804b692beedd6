//! What a driver offers to whoever waits above it ([`crate::endpoint::wait`]). No call of a driver sleeps: it does what can be
//! done at once, and says where to sleep for the rest.

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
    /// Until the descriptor takes something, or for so long.
    Room(Duration),
    /// For so long.
    Moment(Duration),
}
