//! Frames taken out of an interface's receive path, before the kernel's network stack has them, into memory of this process
//! (AF_XDP, Linux 5.18 and later).
//!
//! An XDP program on the interface redirects frames of the private EtherType that are sent to the interface's own address, and
//! passes all others on (`program`). A socket for each of the interface's first queues takes them (`queue`). What the program
//! passes on though it is this node's (from a queue without a socket, longer than a chunk, of the kernel driver's layout) goes to
//! the packet socket, as if the program were not there; so the route keeps that open.
//!
//! The program is on the interface as long as its link, a descriptor of this process: however the process ends, the kernel takes
//! both away. An interface has one program at a time, and the kernel lets no link replace somebody else's.
//!
//! What it costs and saves, as processor time, between two namespaces that a veth pair joins (Linux 6.18, a machine with much other
//! work, medians): a frame of 1486 bytes takes its receiver 860 ns by recvmmsg, 390 where the driver runs the program, 510 where the
//! kernel does. All other frames pay for the program: 64 KiB of a TCP stream take both ends together 46 us without one, 60 with one
//! that the kernel runs, and 125 with one of the driver's, which cannot take what segmentation offload makes; so on `Auto` an
//! interface with an address of its own is left alone.
//!
//! Frames are sent by the packet socket. AF_XDP would send past the interface's queue and whatever shapes it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use nix::ifaddrs::getifaddrs;
use nix::sys::socket::{socket, AddressFamily, SockFlag, SockType, SockaddrIn6};
use thiserror::Error;

use crate::sys::{namespace, Interface};

mod program;
mod queue;

use program::{Frames, Link, Place, Program};
use queue::Queue;

/// Queues of an interface that get a socket. What a network card does not know goes to its first one.
const QUEUES: u32 = 4;
/// Bytes of a chunk; one of the two takes a frame.
const CHUNKS: [usize; 2] = [2048, 4096];
/// What the kernel keeps of it for itself, and the Ethernet header.
const AROUND: usize = 256 + HEADER;
/// Bytes of an Ethernet header.
pub(crate) const HEADER: usize = 14;

/// Whether frames of `eth` are taken by AF_XDP.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
pub enum Xdp {
    /// Where the interface's driver runs XDP programs itself, and the interface has no IP address, so that nobody else's frames
    /// are slowed down by one.
    #[default]
    Auto,
    /// Also where others use the interface, and where the kernel runs the program in the driver's place. Where even that cannot
    /// be, the route cannot be opened.
    Always,
    /// Not at all.
    Never,
}

impl Xdp {
    const ALL: [(&'static str, Xdp); 3] =
        [("auto", Xdp::Auto), ("always", Xdp::Always), ("never", Xdp::Never)];

    /// All words for it.
    pub fn words() -> impl Iterator<Item = &'static str> {
        Xdp::ALL.into_iter().map(|(word, _)| word)
    }

    /// The word for it in a file.
    pub fn word(self) -> &'static str {
        Xdp::ALL.iter().find(|(_, xdp)| *xdp == self).map_or("", |(word, _)| word)
    }

    /// What this word means.
    pub fn of_word(word: &str) -> Option<Xdp> {
        Xdp::ALL.iter().find(|(known, _)| *known == word).map(|(_, xdp)| *xdp)
    }
}

/// Why frames are not taken by AF_XDP.
#[derive(Debug, Error)]
pub enum NoXdp {
    /// Nobody wants it.
    #[error("xdp = \"never\"")]
    Never,
    /// A capability is missing.
    #[error("AF_XDP needs the capabilities CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF of the machine, not of a container")]
    Capability,
    /// The kernel has none of it.
    #[error("this kernel has no AF_XDP, or is older than Linux 5.18")]
    Kernel,
    /// Others use the interface.
    #[error("the interface has an IP address, and an XDP program would slow its frames down; xdp = \"always\" takes it nonetheless")]
    Shared,
    /// Another program is there already.
    #[error("another XDP program is on the interface, and stays there")]
    Program,
    /// The driver runs none.
    #[error("the interface's driver runs no XDP programs itself; xdp = \"always\" has the kernel run them in its place")]
    Driver,
    /// Somebody else's socket has its queue.
    #[error("another AF_XDP socket has the interface's first queue")]
    Queue,
    /// Frames are longer than a chunk.
    #[error("frames of {0} bytes are longer than AF_XDP's, which have {max} at most", max = CHUNKS[1] - AROUND)]
    Mtu(usize),
    /// Memory that stays in place is limited.
    #[error("AF_XDP needs {0} KiB of memory that stays in place; raise RLIMIT_MEMLOCK (`ulimit -l`, LimitMEMLOCK=)")]
    Memory(usize),
    /// The route was opened in another network namespace than the calling thread's.
    #[error("the interface is in another network namespace than this thread")]
    Namespace,
    /// Anything else.
    #[error("{0}: {1}")]
    System(&'static str, io::Error),
}

impl NoXdp {
    /// Whether it may be of one that is just being cleared away, for which the kernel takes its time.
    pub(crate) fn may_pass(&self) -> bool {
        matches!(self, NoXdp::Program | NoXdp::Queue)
    }
}

/// Frames of an interface go to the sockets here while this lives.
pub(crate) struct Redirect {
    /// Goes first: without it frames take their usual way, and none finds a socket closed.
    link: Link,
    _program: Program,
    queues: Vec<Queue>,
    place: Place,
    /// The interface as it was.
    of: Interface,
    /// Bytes of the longest frame behind its header.
    longest: usize,
    /// The queue whose turn it is.
    turn: usize,
}

impl Redirect {
    /// Begins on an interface of the calling thread's network namespace, which must be the one of `home`, a socket.
    pub fn start(
        wish: Xdp,
        name: &str,
        of: &Interface,
        ether_type: u16,
        home: BorrowedFd<'_>,
    ) -> Result<Redirect, NoXdp> {
        let places: &[Place] = match wish {
            Xdp::Never => return Err(NoXdp::Never),
            Xdp::Auto => &[Place::Driver],
            Xdp::Always => &[Place::Driver, Place::Kernel],
        };
        let fits = |chunk: &&usize| of.mtu + AROUND <= **chunk;
        let chunk = *CHUNKS.iter().find(fits).ok_or(NoXdp::Mtu(of.mtu))?;
        let index = u32::try_from(of.index).map_err(|_| NoXdp::Kernel)?;
        // Interfaces are named by numbers, which mean others elsewhere.
        if own_namespace().is_none_or(|here| namespace(home) != Some(here)) {
            return Err(NoXdp::Namespace);
        }
        if wish == Xdp::Auto && has_address(name) {
            return Err(NoXdp::Shared);
        }
        let frames = Frames { to: of.mac, ether_type, longest: (chunk - AROUND + HEADER) as u32 };
        let program = Program::load(&frames, QUEUES).map_err(of_load)?;
        // Before there are sockets it passes everything on.
        let (link, place) = attach(&program, index, places)?;
        let mut queues = vec![Queue::open(index, 0, chunk).map_err(of_queue)?];
        // The number of queues is known by which of them there are. Those that cannot be had are the packet socket's.
        queues.extend((1..QUEUES).map_while(|queue| Queue::open(index, queue, chunk).ok()));
        for (queue, socket) in (0..).zip(&queues) {
            program.put(queue, socket.as_fd()).map_err(|error| NoXdp::System("the map of sockets", error))?;
        }
        let longest = chunk - AROUND;
        Ok(Redirect { link, _program: program, queues, place, of: *of, longest, turn: 0 })
    }

    /// Whether it does for the interface as that is now.
    pub fn suits(&self, wish: Xdp, name: &str, now: &Interface) -> bool {
        let same = (self.of.index, self.of.mac) == (now.index, now.mac) && now.mtu <= self.longest;
        same && !(wish == Xdp::Auto && has_address(name))
    }

    /// Tells of each frame that has arrived, with its Ethernet header; `most` at most. How many.
    pub fn recv(&mut self, most: usize, mut each: impl FnMut(&[u8])) -> usize {
        let (mut n, all) = (0, self.queues.len());
        for queue in 0..all {
            n += self.queues[(self.turn + queue) % all].recv(most - n, &mut each);
        }
        // Otherwise a busy one could keep the others out.
        self.turn = (self.turn + 1) % all;
        n
    }

    /// The sockets, readable when frames have arrived.
    pub fn sockets(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.queues.iter().map(AsFd::as_fd)
    }

    /// What the interface's frames go by.
    pub fn each_descriptor<'a>(&'a self, each: &mut dyn FnMut(BorrowedFd<'a>)) {
        each(self.link.as_fd());
        self.sockets().for_each(each);
    }

    /// In words.
    pub fn told(&self) -> String {
        let by = match self.place {
            Place::Driver => "in the interface's driver",
            Place::Kernel => "in the kernel, since the interface's driver runs no programs",
        };
        let n = self.queues.len();
        format!("xdp: {by}, {n} queue{}", if n == 1 { "" } else { "s" })
    }
}

/// At the first of these places where it can be.
fn attach(program: &Program, interface: u32, places: &[Place]) -> Result<(Link, Place), NoXdp> {
    let mut refused = NoXdp::Driver;
    for &place in places {
        match program.attach(interface, place) {
            Ok(link) => return Ok((link, place)),
            Err(error) => refused = of_attach(error),
        }
    }
    Err(refused)
}

/// The network namespace of this thread.
fn own_namespace() -> Option<u64> {
    let socket = socket(AddressFamily::Unix, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None).ok()?;
    namespace(socket.as_fd())
}

/// Whether the interface has an IP address that somebody gave it.
fn has_address(name: &str) -> bool {
    let Ok(all) = getifaddrs() else { return true };
    all.filter(|one| one.interface_name == name).filter_map(|one| one.address).any(|address| {
        let link_local = |v6: &SockaddrIn6| v6.ip().segments()[0] & 0xffc0 == 0xfe80;
        address.as_sockaddr_in().is_some() || address.as_sockaddr_in6().is_some_and(|v6| !link_local(v6))
    })
}

fn of_load(error: io::Error) -> NoXdp {
    match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => NoXdp::Capability,
        Some(libc::ENOSYS | libc::EINVAL) => NoXdp::Kernel,
        _ => NoXdp::System("the XDP program", error),
    }
}

fn of_queue(error: io::Error) -> NoXdp {
    match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => NoXdp::Capability,
        Some(libc::EAFNOSUPPORT | libc::EPROTONOSUPPORT) => NoXdp::Kernel,
        Some(libc::EBUSY) => NoXdp::Queue,
        Some(libc::ENOBUFS) => NoXdp::Memory((queue::FRAMES * CHUNKS[1]) >> 10),
        _ => NoXdp::System("the AF_XDP socket", error),
    }
}

fn of_attach(error: io::Error) -> NoXdp {
    match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => NoXdp::Capability,
        Some(libc::EBUSY | libc::EEXIST) => NoXdp::Program,
        Some(libc::EOPNOTSUPP) => NoXdp::Driver,
        _ => NoXdp::System("the XDP program on the interface", error),
    }
}
