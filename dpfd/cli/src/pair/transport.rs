//! The transports between the two processes.

use std::fmt;
use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixDatagram, UnixStream};

use dp_abi::frame::REMOTE_MAX;
use dpfd::driver::Driver;
use dpfd::edge::segment::{Segment, MIN_RING};
use nix::fcntl::OFlag;
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::socket::{socketpair, AddressFamily, SockFlag, SockType};
use nix::unistd::pipe2;
use serde::{Deserialize, Serialize};

use super::nodes::{self, Nodes};
use super::queues;

/// What carries messages or bytes from one process to the other; the option that names it is `--ways`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Transport {
    /// One word each way: not a way of sending, but what every way between two cores stands on.
    Floor,
    /// Two endpoints, by the library's calls; their receivers look by themselves, and copy.
    Endpoint,
    /// The same, read in place: every word of a message is looked at where it lies.
    EndpointInPlace,
    /// The same as [`Transport::Endpoint`], but the receivers sleep.
    EndpointAsleep,
    /// Endpoints whose pools nobody gave a size.
    EndpointDefault,
    /// Two endpoints, by write(2) and read(2) on their descriptors; their receivers sleep.
    Plain,
    /// A TCP connection with the shim in both processes.
    Channel,
    /// Two endpoints of the kernel driver, by the library's calls; their receivers look by themselves, and copy.
    Kernel,
    /// The same, by write(2) and read(2) on their descriptors; their receivers sleep.
    KernelPlain,
    /// As [`Transport::Kernel`], on two nodes: network namespaces with Ethernet between them.
    Ethernet,
    UnixDgram,
    UnixSeqpacket,
    UnixStream,
    Tcp,
    /// The same, looked at again and again instead of sleeping.
    TcpSpin,
    Pipe,
    /// POSIX message queues.
    Mqueue,
    /// A counter that wakes: 8 bytes and nothing else.
    Eventfd,
    /// A word in shared memory, and the system call that wakes who waits for it.
    Futex,
    /// Two endpoints on two nodes, by a route between their gateways: no way of one machine, so `--ways` does not name it.
    Route,
}

/// The smallest ring that is measured unless one is asked for, bytes: four times a large second-level cache.
const RING: usize = 4 << 20;
/// What a message takes in a ring besides its own bytes, at most.
const HEADER: usize = 64;
/// Of an endpoint of the kernel driver, bytes: a user's may have 64 MiB together.
const LONGEST_POOL: usize = 8 << 20;
/// Eight messages of so many bytes lie in every socket and pipe.
const SURELY_KEPT: usize = 4096;
/// The kernel takes longer datagrams only with larger buffers than it gives.
const LONGEST_DGRAM: usize = 128 * 1024;

impl Transport {
    /// All of one machine.
    pub const ALL: [Transport; 19] = [
        Transport::Floor,
        Transport::Endpoint,
        Transport::EndpointInPlace,
        Transport::EndpointAsleep,
        Transport::EndpointDefault,
        Transport::Plain,
        Transport::Channel,
        Transport::Kernel,
        Transport::KernelPlain,
        Transport::Ethernet,
        Transport::UnixDgram,
        Transport::UnixSeqpacket,
        Transport::UnixStream,
        Transport::Tcp,
        Transport::TcpSpin,
        Transport::Pipe,
        Transport::Mqueue,
        Transport::Eventfd,
        Transport::Futex,
    ];

    /// The one of these that is called so.
    pub fn named(text: &str, among: &[Transport]) -> std::result::Result<Transport, String> {
        among.iter().copied().find(|transport| transport.name() == text).ok_or_else(|| {
            let names: Vec<_> = among.iter().map(|transport| transport.name()).collect();
            format!("not a way of sending; these are: {}", names.join(", "))
        })
    }

    /// Whether it keeps so many messages that nobody takes yet, eight at most, so that who sends them does not wait for ever.
    pub fn keeps(self, count: usize, size: usize, ring: usize) -> bool {
        match self {
            // With a pool as long as theirs is at first.
            Transport::EndpointDefault => size <= SURELY_KEPT,
            transport if transport.is_endpoint() => (count + 1) * (size + HEADER) <= ring,
            _ => size <= SURELY_KEPT,
        }
    }

    /// Whether a message can be so long.
    pub fn carries(self, size: usize) -> bool {
        match self {
            Transport::UnixDgram | Transport::UnixSeqpacket | Transport::Plain => size <= LONGEST_DGRAM,
            Transport::Mqueue => size <= queues::longest(),
            Transport::Ethernet => size <= REMOTE_MAX as usize,
            _ => true,
        }
    }

    /// Two endpoints, by the library's calls.
    pub fn is_endpoint(self) -> bool {
        use Transport::{
            Endpoint, EndpointAsleep, EndpointDefault, EndpointInPlace, Ethernet, Kernel, Route,
        };
        matches!(
            self,
            Endpoint | EndpointInPlace | EndpointAsleep | EndpointDefault | Kernel | Ethernet | Route
        )
    }

    /// The driver that serves its endpoints, if it has some.
    pub fn driver(self) -> Option<Driver> {
        match self {
            Transport::Kernel | Transport::KernelPlain | Transport::Ethernet => Some(Driver::Kernel),
            Transport::Plain => Some(Driver::User),
            transport => transport.is_endpoint().then_some(Driver::User),
        }
    }

    /// Bytes of the pool of each of two endpoints with a ring of so many between them; of none where nobody gives it one.
    pub fn pool(self, ring: usize) -> Option<usize> {
        match self.driver()? {
            Driver::User if self == Transport::EndpointDefault => None,
            // Its only sender gets half.
            Driver::User => Some(2 * ring),
            // Memory from the start; what is longer has memory of its own.
            Driver::Kernel => Some(ring.min(LONGEST_POOL)),
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Transport::Floor => "floor",
            Transport::Endpoint => "endpoint",
            Transport::EndpointInPlace => "endpoint-in-place",
            Transport::EndpointAsleep => "endpoint-asleep",
            Transport::EndpointDefault => "endpoint-default",
            Transport::Plain => "plain",
            Transport::Channel => "channel",
            Transport::Kernel => "kernel",
            Transport::KernelPlain => "kernel-plain",
            Transport::Ethernet => "ethernet",
            Transport::UnixDgram => "unix-dgram",
            Transport::UnixSeqpacket => "unix-seqpacket",
            Transport::UnixStream => "unix-stream",
            Transport::Tcp => "tcp",
            Transport::TcpSpin => "tcp-spin",
            Transport::Pipe => "pipe",
            Transport::Mqueue => "mqueue",
            Transport::Eventfd => "eventfd",
            Transport::Futex => "futex",
            Transport::Route => "route",
        }
    }

    /// Makes both ends, as descriptors for `End::new`: those to send to first.
    pub fn make(self, size: usize, nodes: Option<&Nodes>) -> io::Result<[Vec<OwnedFd>; 2]> {
        match self {
            Transport::Floor | Transport::Futex => {
                let (_, fd) = Segment::create(MIN_RING)?;
                Ok([vec![fd.try_clone()?], vec![fd]])
            }
            Transport::UnixDgram => {
                let (a, b) = UnixDatagram::pair()?;
                both(a.into(), b.into())
            }
            Transport::Route => Err(io::Error::other("its ends are on two nodes")),
            // Each process opens its own, here or there.
            Transport::Ethernet => nodes.ok_or_else(|| io::Error::other(nodes::UNNAMED))?.ends(),
            Transport::Endpoint
            | Transport::EndpointInPlace
            | Transport::EndpointAsleep
            | Transport::EndpointDefault
            | Transport::Plain
            | Transport::Channel
            | Transport::Kernel
            | Transport::KernelPlain => Ok([Vec::new(), Vec::new()]),
            Transport::UnixSeqpacket => {
                let kind = SockType::SeqPacket;
                let (a, b) = socketpair(AddressFamily::Unix, kind, None, SockFlag::SOCK_CLOEXEC)?;
                both(a, b)
            }
            Transport::UnixStream => {
                let (a, b) = UnixStream::pair()?;
                both(a.into(), b.into())
            }
            Transport::Tcp | Transport::TcpSpin => {
                let listener = TcpListener::bind("127.0.0.1:0")?;
                let a = TcpStream::connect(listener.local_addr()?)?;
                let (b, _) = listener.accept()?;
                a.set_nodelay(true)?;
                b.set_nodelay(true)?;
                both(a.into(), b.into())
            }
            Transport::Pipe => {
                let (b_from, a_to) = pipe2(OFlag::O_CLOEXEC)?;
                let (a_from, b_to) = pipe2(OFlag::O_CLOEXEC)?;
                Ok([vec![a_to, a_from], vec![b_to, b_from]])
            }
            Transport::Mqueue => queues::make(size),
            Transport::Eventfd => {
                let (ab, ba) = (counter()?, counter()?);
                Ok([vec![ab.try_clone()?, ba.try_clone()?], vec![ba, ab]])
            }
        }
    }
}

fn counter() -> io::Result<OwnedFd> {
    EventFd::from_flags(EfdFlags::EFD_CLOEXEC)?.as_fd().try_clone_to_owned()
}

/// A socket is one descriptor for both directions.
fn both(a: OwnedFd, b: OwnedFd) -> io::Result<[Vec<OwnedFd>; 2]> {
    Ok([vec![a.try_clone()?, a], vec![b.try_clone()?, b]])
}

/// Bytes of the ring between two endpoints for messages of `size`, unless another is asked for: room for two, so that both
/// sides work at once, and more than a core's own caches hold. Lines of a smaller ring are still in the other core's cache when they are written again, and in the
/// writer's when they are read, and each has to be asked for there: 8 to 12 GB/s, where lines that have gone on to the cache
/// that both cores share make 30 to 40.
pub fn ring_for(size: usize) -> usize {
    (2 * (size + HEADER)).next_power_of_two().max(RING)
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
