//! The MTU of the path to each peer, as the system knows it.

use std::collections::HashMap;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::{
    bind, connect, getsockopt, setsockopt, socket, AddressFamily, SockFlag, SockType, SockaddrStorage,
};

use crate::FRAME_MAX;

mod option {
    //! Options that nix does not name.

    use libc::c_int;
    use nix::sys::socket::sockopt::{GetStruct, SetStruct};

    /// What to do with datagrams that are longer than the path's MTU.
    #[derive(Clone, Copy)]
    pub struct Discover4;
    /// The same over IPv6.
    #[derive(Clone, Copy)]
    pub struct Discover6;
    /// The path's MTU as the system knows it, of a connected socket.
    #[derive(Clone, Copy)]
    pub struct Mtu4;
    /// The same over IPv6.
    #[derive(Clone, Copy)]
    pub struct Mtu6;

    nix::setsockopt_impl!(Discover4, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, c_int, SetStruct<c_int>);
    nix::setsockopt_impl!(Discover6, libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, c_int, SetStruct<c_int>);
    nix::getsockopt_impl!(Mtu4, libc::IPPROTO_IP, libc::IP_MTU, c_int, GetStruct<c_int>);
    nix::getsockopt_impl!(Mtu6, libc::IPPROTO_IPV6, libc::IPV6_MTU, c_int, GetStruct<c_int>);
}

/// Headers of IP without options, and of UDP, bytes.
const HEADERS: [usize; 2] = [20 + 8, 40 + 8];
/// Peers whose MTU is remembered.
const PEERS: usize = 4096;

/// Has the system obey the path's MTU: it sets "do not fragment", lowers the MTU when a router says so, and refuses
/// what is longer with EMSGSIZE.
pub(super) fn forbid_fragments(socket: &UdpSocket, local: SocketAddr) -> io::Result<()> {
    match local {
        SocketAddr::V4(_) => setsockopt(socket, option::Discover4, &libc::IP_PMTUDISC_DO)?,
        SocketAddr::V6(_) => setsockopt(socket, option::Discover6, &libc::IPV6_PMTUDISC_DO)?,
    }
    Ok(())
}

/// Path MTUs of those that were sent to.
#[derive(Debug)]
pub(super) struct Paths {
    /// A socket that sends nothing: connecting it makes the system look a path up.
    scout: OwnedFd,
    local: SocketAddr,
    /// None: no path leads there.
    known: HashMap<SocketAddr, Option<usize>>,
}

impl Paths {
    pub fn new(local: SocketAddr) -> io::Result<Paths> {
        let family = if local.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
        let scout = socket(family, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)?;
        // The same address as the route's own: with policy routing, paths depend on it.
        let mut from = local;
        from.set_port(0);
        bind(scout.as_raw_fd(), &SockaddrStorage::from(from))?;
        Ok(Paths { scout, local, known: HashMap::new() })
    }

    /// Bytes of the longest frame to there, as last found out.
    pub fn mtu(&mut self, to: SocketAddr) -> io::Result<usize> {
        match self.known.get(&to) {
            Some(&Some(mtu)) => Ok(mtu),
            _ => self.ask(to),
        }
    }

    /// Finds out anew.
    pub fn ask(&mut self, to: SocketAddr) -> io::Result<usize> {
        let mtu = self.look_up(to);
        if self.known.len() >= PEERS {
            self.known.clear();
        }
        self.known.insert(to, mtu.as_ref().ok().copied());
        mtu
    }

    /// Finds all of them out anew.
    ///
    /// # Errors
    /// There are some, and no path leads to any.
    pub fn refresh(&mut self) -> io::Result<()> {
        let peers: Vec<SocketAddr> = self.known.keys().copied().collect();
        let mut reached = Ok(());
        for (n, to) in peers.into_iter().enumerate() {
            match self.ask(to) {
                Ok(_) => reached = Ok(()),
                Err(error) if n == 0 => reached = Err(error),
                Err(_) => {}
            }
        }
        reached
    }

    fn look_up(&self, to: SocketAddr) -> io::Result<usize> {
        if to.is_ipv4() != self.local.is_ipv4() {
            return Err(Errno::EAFNOSUPPORT.into());
        }
        connect(self.scout.as_raw_fd(), &SockaddrStorage::from(to))?;
        let (mtu, headers) = match to {
            SocketAddr::V4(_) => (getsockopt(&self.scout, option::Mtu4)?, HEADERS[0]),
            SocketAddr::V6(_) => (getsockopt(&self.scout, option::Mtu6)?, HEADERS[1]),
        };
        let mtu = usize::try_from(mtu).unwrap_or(0);
        match mtu.saturating_sub(headers).min(FRAME_MAX) {
            0 => Err(Errno::EMSGSIZE.into()),
            mtu => Ok(mtu),
        }
    }
}
