//! One end of a way of sending: packets out of one buffer of the program, into another.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use dp_measure::cost::probe::Load;
use dpfd::driver::Driver;
use dpfd::{Addr, Dpid, Endpoint, Error};
use nix::fcntl::{fcntl, FcntlArg, OFlag};
use nix::unistd::write;

use crate::bench::link::{Fds, Link, Transport};
use crate::bench::{endpoints, Result};

/// The first number; each pair takes two.
const FIRST: Dpid = 3000;
/// How long a receiver spins before it sleeps, ns: it is to spin all the time.
pub const SPIN: u32 = 100_000_000;
/// Bytes that a queue is flooded with, at most, and packets.
const FLOOD: [usize; 2] = [1 << 28, 1 << 20];

/// One end.
pub enum End {
    Endpoint(Port),
    Fds(Fds),
}

/// Does the same to the link inside an end, whichever it is: one decision for many packets.
macro_rules! each {
    ($end:expr, $link:ident => $do:expr) => {
        match $end {
            $crate::cost::ends::End::Endpoint($link) => $do,
            $crate::cost::ends::End::Fds($link) => $do,
        }
    };
}
pub(crate) use each;

impl End {
    /// From its descriptors, or the number of the pair of endpoints to open.
    pub fn new(transport: Transport, fds: Vec<OwnedFd>, pair: Dpid, first: bool, pool: usize) -> Result<End> {
        if let Some(driver) = transport.driver() {
            return Ok(End::Endpoint(Port::new(driver, pair, first, pool)?));
        }
        let fds = fds.try_into().map_err(|_| "another number of descriptors than that way has")?;
        Ok(End::Fds(Fds::new(fds)))
    }

    /// Sends packets while nobody receives until no more are taken in: how many bytes were.
    pub fn flood(&mut self, packet: usize) -> Result<usize> {
        let message = vec![0; packet];
        let mut bytes = 0;
        let most = FLOOD[0].min(FLOOD[1] * packet);
        match self {
            End::Endpoint(port) => {
                port.0.set_nonblocking(true)?;
                while bytes < most {
                    match port.0.send(&message) {
                        Ok(()) => bytes += packet,
                        Err(Error::WouldBlock) => break,
                        Err(e) => return Err(e.into()),
                    }
                }
                port.0.set_nonblocking(false)?;
            }
            // Sockets: what is written to is the same open file.
            End::Fds(fds) => {
                let fd = fds.as_fd();
                let flags = OFlag::from_bits_retain(fcntl(fd, FcntlArg::F_GETFL)?);
                fcntl(fd, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK))?;
                while bytes < most {
                    match write(fd, &message) {
                        Ok(n) => bytes += n,
                        Err(nix::Error::EAGAIN) => break,
                        Err(e) => return Err(e.into()),
                    }
                }
                fcntl(fd, FcntlArg::F_SETFL(flags))?;
            }
        }
        Ok(bytes)
    }
}

/// An endpoint with its target.
pub struct Port(pub Endpoint);

impl Port {
    fn new(driver: Driver, pair: Dpid, first: bool, pool: usize) -> Result<Port> {
        let [mine, theirs] = endpoints::numbers(FIRST, pair, first);
        let endpoint = Endpoint::open_on(driver, mine)?;
        endpoint.pool(pool)?;
        endpoint.set_spin(SPIN);
        endpoint.target(Addr::local(theirs))?;
        endpoints::look_up_now_and_then(&endpoint)?;
        Ok(Port(endpoint))
    }
}

impl Link for Port {
    #[inline(always)]
    fn send(&mut self, message: &[u8]) -> io::Result<()> {
        endpoints::send(&self.0, message)
    }

    #[inline(always)]
    fn recv(&mut self, into: &mut [u8]) -> io::Result<usize> {
        recv(&self.0, into)
    }
}

/// The next message, copied.
#[inline(always)]
pub fn recv(endpoint: &Endpoint, into: &mut [u8]) -> io::Result<usize> {
    endpoints::recv_from(endpoint, into).map(|(len, _)| len)
}

/// The memory that packets come from and go to: the same all the time, and touched before it counts.
#[derive(Default)]
pub struct Buffer(Vec<u8>);

impl Buffer {
    /// A walk through as many packets as the load says.
    pub fn walk(&mut self, load: Load) -> Walk<'_> {
        let bytes = load.packets() * load.packet;
        if self.0.len() < bytes {
            // Not 0: of zeroed memory that nobody wrote, all pages are the same one.
            self.0.resize(bytes, 1);
        }
        Walk { bytes: &mut self.0[..bytes], packet: load.packet, at: 0 }
    }
}

/// A part of it, packet by packet, round and round.
pub struct Walk<'a> {
    bytes: &'a mut [u8],
    packet: usize,
    at: usize,
}

impl Walk<'_> {
    #[inline(always)]
    pub fn next(&mut self) -> &mut [u8] {
        let from = self.at;
        self.at += self.packet;
        if self.at == self.bytes.len() {
            self.at = 0;
        }
        &mut self.bytes[from..from + self.packet]
    }

    /// The last byte of the last packet.
    pub fn mark(&mut self) -> &mut u8 {
        let last = self.bytes.len() - 1;
        &mut self.bytes[last]
    }
}

/// Sends so many packets.
#[inline(always)]
pub fn send<L: Link>(link: &mut L, from: &mut Walk<'_>, packets: usize) -> io::Result<()> {
    for _ in 0..packets {
        link.send(from.next())?;
    }
    Ok(())
}

/// Receives so many.
#[inline(always)]
pub fn take<L: Link>(link: &mut L, into: &mut Walk<'_>, packets: usize) -> io::Result<()> {
    for _ in 0..packets {
        link.recv_all(into.next())?;
    }
    Ok(())
}
