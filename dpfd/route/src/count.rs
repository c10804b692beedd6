//! What a route has carried, and why it did not carry the rest.

use std::io;

/// Why frames were not sent, or not given to whoever receives.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Reason {
    /// Sending: a queue below has no room. It will have; the route is well.
    Full,
    /// Sending: longer than the MTU. The route is well.
    TooLong,
    /// Sending: an address of another route.
    Address,
    /// Sending: nothing leads there at present (ENETUNREACH, EHOSTUNREACH, ENETDOWN, ENODEV, ECONNREFUSED).
    Unreachable,
    /// Sending: this user or a packet filter does not allow it (EPERM, EACCES).
    Forbidden,
    /// Sending or receiving: any other error.
    Failed,
    /// Receiving: longer than a slot, so cut off and dropped.
    Truncated,
    /// Receiving: not for this node, or empty.
    Foreign,
}

impl Reason {
    /// All of them, in the order of their numbers.
    pub const ALL: [Reason; 8] = [
        Reason::Full,
        Reason::TooLong,
        Reason::Address,
        Reason::Unreachable,
        Reason::Forbidden,
        Reason::Failed,
        Reason::Truncated,
        Reason::Foreign,
    ];

    /// What an error of `send` or `refresh` means.
    pub fn of(error: &io::Error) -> Reason {
        match error.raw_os_error() {
            Some(libc::EAGAIN | libc::ENOBUFS | libc::ENOMEM) => Reason::Full,
            Some(libc::EMSGSIZE) => Reason::TooLong,
            Some(libc::EAFNOSUPPORT) => Reason::Address,
            Some(libc::ENETUNREACH | libc::EHOSTUNREACH | libc::ENETDOWN | libc::EHOSTDOWN) => {
                Reason::Unreachable
            }
            Some(libc::ENODEV | libc::ENXIO | libc::ECONNREFUSED | libc::EADDRNOTAVAIL) => {
                Reason::Unreachable
            }
            Some(libc::EPERM | libc::EACCES) => Reason::Forbidden,
            _ => Reason::Failed,
        }
    }

    /// Whether a route that refuses for this reason is to be replaced by another.
    pub fn is_fatal(self) -> bool {
        matches!(self, Reason::Address | Reason::Unreachable | Reason::Forbidden | Reason::Failed)
    }

    /// One word, for tables.
    pub fn word(self) -> &'static str {
        match self {
            Reason::Full => "full",
            Reason::TooLong => "too-long",
            Reason::Address => "address",
            Reason::Unreachable => "unreachable",
            Reason::Forbidden => "forbidden",
            Reason::Failed => "failed",
            Reason::Truncated => "truncated",
            Reason::Foreign => "foreign",
        }
    }
}

/// Counts since the route was opened. Bytes are those of frames, without what the network adds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Frames handed to the system.
    pub sent: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// System calls, or calls of a library, that sent them: offload and batches show here.
    pub sent_calls: u64,
    /// Frames received.
    pub received: u64,
    /// Their bytes.
    pub received_bytes: u64,
    /// Calls that brought them.
    pub received_calls: u64,
    refused: [u64; Reason::ALL.len()],
}

impl Counters {
    /// Frames refused for this reason. Of frames that are tried again each try counts.
    pub fn refused(&self, reason: Reason) -> u64 {
        self.refused[reason as usize]
    }

    /// Counts frames that one call sent.
    pub fn send(&mut self, frames: usize, bytes: usize) {
        self.sent += frames as u64;
        self.sent_bytes += bytes as u64;
        self.sent_calls += 1;
    }

    /// Counts frames that one call received.
    pub fn receive(&mut self, frames: usize, bytes: usize) {
        self.received += frames as u64;
        self.received_bytes += bytes as u64;
        self.received_calls += 1;
    }

    /// Counts refused frames.
    pub fn refuse(&mut self, reason: Reason, frames: usize) {
        self.refused[reason as usize] += frames as u64;
    }
}
