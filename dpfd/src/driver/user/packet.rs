//! Packets on an endpoint's descriptor: bells, and what became of a message that was put there.

use std::os::fd::{AsRawFd, OwnedFd};

use dp_edge::sys::{raw, unix};

/// How a delivery ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// It is with the receiver.
    Done,
    /// No room in the edge: its receiver says when there is.
    Full,
    /// No room on the descriptor: the kernel says when there is.
    Busy,
    /// The kernel, or this process, is short of something; nobody says when that is over.
    Short,
    /// There is no way for it yet: the receiver is not found, has no pool, which alone could take it, or knows no immediates.
    NoWay,
    /// Too long for this way; the limit.
    TooLong(usize),
    /// The receiver is gone.
    Gone,
}

/// What it means that the kernel did not take a packet.
pub fn refused(errno: i32, back: &OwnedFd) -> Delivery {
    match errno {
        libc::EAGAIN | libc::EINTR => Delivery::Busy,
        // Descriptors in flight are limited for all processes of a user, and come back as their receivers read.
        libc::ENOBUFS | libc::ENOMEM | libc::ETOOMANYREFS => Delivery::Short,
        libc::EMSGSIZE => Delivery::TooLong(plain_limit(back)),
        _ => Delivery::Gone,
    }
}

/// One bell: an empty packet. Whether there is one now: where there is no room for it, another packet is.
#[cold]
pub fn ring(back: &OwnedFd) -> bool {
    matches!(unix::send(back.as_raw_fd(), &[], &[], libc::MSG_DONTWAIT), Ok(_) | Err(libc::EAGAIN))
}

/// The longest packet the kernel takes at once.
pub fn plain_limit(fd: &OwnedFd) -> usize {
    // unix(7) keeps 32 bytes of it for itself.
    (buffer(fd).max(32) - 32) as usize
}

/// Whether the kernel takes one more packet now. That the descriptor polls writable says more: most of its buffer is empty.
pub fn takes_more(fd: &OwnedFd) -> bool {
    raw::ioctl_int(fd.as_raw_fd(), libc::TIOCOUTQ).is_ok_and(|unread| unread < buffer(fd))
}

fn buffer(fd: &OwnedFd) -> i32 {
    raw::getsockopt_int(fd.as_raw_fd(), libc::SOL_SOCKET, libc::SO_SNDBUF).unwrap_or(0)
}
