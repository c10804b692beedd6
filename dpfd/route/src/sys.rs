//! Packet sockets, for which no crate has safe calls: a room for `unsafe`.
#![expect(unsafe_code, reason = "system calls on structures of the C library")]

use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use crate::{Frames, Mac};

/// Of asm-generic/socket.h, in which the C library's headers fall behind.
const SO_NETNS_COOKIE: libc::c_int = 71;
/// Frames that one call sends or receives at most.
pub(crate) const PER_CALL: usize = 32;

/// A packet socket that gets the frames of one EtherType from one interface. The kernel writes and removes the
/// Ethernet header.
#[derive(Debug)]
pub(crate) struct Packets {
    socket: OwnedFd,
    ether_type: u16,
    index: i32,
}

/// What the kernel says of an interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Interface {
    pub index: i32,
    pub mac: Mac,
    /// Bytes behind the Ethernet header.
    pub mtu: usize,
    /// Whether somebody set it up.
    pub up: bool,
    /// Whether its hardware frames are Ethernet's.
    pub ethernet: bool,
}

/// A frame that was received into a slot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrived {
    pub from: Mac,
    pub length: usize,
    /// Part of it was cut off.
    pub truncated: bool,
    /// It was sent to this interface, and by another.
    pub ours: bool,
}

impl Packets {
    /// Not yet of any interface: nothing arrives.
    pub fn open(ether_type: u16) -> io::Result<Packets> {
        let kind = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: takes numbers only. Protocol 0: nothing is received before it is bound.
        let fd = unsafe { libc::socket(libc::AF_PACKET, kind, 0) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new, so nobody else owns it.
        let socket = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Packets { socket, ether_type, index: 0 })
    }

    /// Room for what arrives and what leaves, bytes each, as far as the system allows.
    pub fn buffers(&self, bytes: usize) {
        let bytes = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
        for name in [libc::SO_RCVBUF, libc::SO_SNDBUF] {
            // SAFETY: the option is an int, and the kernel reads just that many bytes of it. It gives what it may.
            unsafe {
                let value = (&raw const bytes).cast();
                libc::setsockopt(self.socket.as_raw_fd(), libc::SOL_SOCKET, name, value, 4);
            }
        }
    }

    /// Receives from that interface from now on.
    pub fn bind(&mut self, index: i32) -> io::Result<()> {
        let address = self.address(index, Mac([0; 6]));
        // SAFETY: a valid address of that many bytes.
        let status = unsafe {
            libc::bind(
                self.socket.as_raw_fd(),
                (&raw const address).cast(),
                mem::size_of_val(&address) as u32,
            )
        };
        if status < 0 {
            return Err(io::Error::last_os_error());
        }
        self.index = index;
        Ok(())
    }

    /// The interface that it is bound to, by the number it had then.
    pub fn index(&self) -> i32 {
        self.index
    }

    /// What the kernel says of an interface, in the network namespace in which the socket was opened.
    pub fn interface(&self, name: &str) -> io::Result<Interface> {
        let index = self.ask(name, libc::SIOCGIFINDEX)?;
        let mtu = self.ask(name, libc::SIOCGIFMTU)?;
        let flags = self.ask(name, libc::SIOCGIFFLAGS)?;
        let hardware = self.ask(name, libc::SIOCGIFHWADDR)?;
        // SAFETY: each request filled in the member that is read here; all members are plain numbers.
        let (index, mtu, flags, hardware) =
            unsafe { (index.ifru_ifindex, mtu.ifru_mtu, flags.ifru_flags, hardware.ifru_hwaddr) };
        let mut mac = [0; 6];
        for (to, from) in mac.iter_mut().zip(hardware.sa_data) {
            *to = from as u8;
        }
        Ok(Interface {
            index,
            mac: Mac(mac),
            mtu: usize::try_from(mtu).unwrap_or(0),
            up: i32::from(flags) & libc::IFF_UP != 0,
            ethernet: hardware.sa_family == libc::ARPHRD_ETHER || hardware.sa_family == libc::ARPHRD_LOOPBACK,
        })
    }

    fn ask(&self, name: &str, request: libc::Ioctl) -> io::Result<libc::__c_anonymous_ifr_ifru> {
        // SAFETY: all members are numbers and arrays of them, for which zeros are valid.
        let mut question: libc::ifreq = unsafe { mem::zeroed() };
        // The last byte stays zero.
        for (to, from) in question.ifr_name[..libc::IFNAMSIZ - 1].iter_mut().zip(name.bytes()) {
            *to = from as libc::c_char;
        }
        // SAFETY: these requests read the name and write the union behind it, nothing else.
        let status = unsafe { libc::ioctl(self.socket.as_raw_fd(), request, &raw mut question) };
        if status < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(question.ifr_ifru)
    }

    /// Sends the first frames by one call, PER_CALL at most. How many.
    pub fn send(&self, to: Mac, frames: Frames<'_>) -> io::Result<usize> {
        let mut address = self.address(self.index, to);
        // SAFETY: pointers and lengths, for which zeros are valid.
        let mut parts: [libc::iovec; PER_CALL] = unsafe { mem::zeroed() };
        // SAFETY: the same.
        let mut headers: [libc::mmsghdr; PER_CALL] = unsafe { mem::zeroed() };
        let mut n = 0;
        for (frame, (part, header)) in frames.iter().zip(parts.iter_mut().zip(&mut headers)) {
            // The kernel only reads what it is to send.
            *part = libc::iovec { iov_base: frame.as_ptr().cast_mut().cast(), iov_len: frame.len() };
            header.msg_hdr.msg_name = (&raw mut address).cast();
            header.msg_hdr.msg_namelen = mem::size_of_val(&address) as u32;
            header.msg_hdr.msg_iov = part;
            header.msg_hdr.msg_iovlen = 1;
            n += 1;
        }
        let flags = libc::MSG_DONTWAIT as _;
        // SAFETY: n headers are filled in; what they point to, the address, the parts and the frames, lives until the
        // call returns.
        count(|| unsafe { libc::sendmmsg(self.socket.as_raw_fd(), headers.as_mut_ptr(), n, flags) })
    }

    /// Receives into the slots of `room`, each `slot` bytes long, by one call, PER_CALL at most; tells of each.
    pub fn recv(&self, room: &mut [u8], slot: usize, arrived: &mut [Arrived; PER_CALL]) -> io::Result<usize> {
        // SAFETY: numbers, pointers and lengths, for which zeros are valid.
        let mut addresses: [libc::sockaddr_ll; PER_CALL] = unsafe { mem::zeroed() };
        // SAFETY: the same.
        let mut parts: [libc::iovec; PER_CALL] = unsafe { mem::zeroed() };
        // SAFETY: the same.
        let mut headers: [libc::mmsghdr; PER_CALL] = unsafe { mem::zeroed() };
        let mut n = 0;
        let slots = room.chunks_exact_mut(slot);
        for (bytes, ((part, header), address)) in
            slots.zip(parts.iter_mut().zip(&mut headers).zip(&mut addresses))
        {
            *part = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
            header.msg_hdr.msg_name = (&raw mut *address).cast();
            header.msg_hdr.msg_namelen = mem::size_of::<libc::sockaddr_ll>() as u32;
            header.msg_hdr.msg_iov = part;
            header.msg_hdr.msg_iovlen = 1;
            n += 1;
        }
        let (fd, flags, timeout) = (self.socket.as_raw_fd(), libc::MSG_DONTWAIT as _, std::ptr::null_mut());
        // SAFETY: n headers are filled in; each names its own slot, part and address, which live until the call
        // returns, and which nothing else uses meanwhile.
        let got = count(|| unsafe { libc::recvmmsg(fd, headers.as_mut_ptr(), n, flags, timeout) })?;
        for ((header, address), arrived) in headers[..got].iter().zip(&addresses).zip(arrived) {
            let mut from = [0; 6];
            from.copy_from_slice(&address.sll_addr[..6]);
            *arrived = Arrived {
                from: Mac(from),
                length: header.msg_len as usize,
                truncated: header.msg_hdr.msg_flags & libc::MSG_TRUNC != 0,
                ours: address.sll_pkttype == libc::PACKET_HOST && address.sll_halen == 6,
            };
        }
        Ok(got)
    }

    fn address(&self, index: i32, mac: Mac) -> libc::sockaddr_ll {
        let mut addr = [0; 8];
        addr[..6].copy_from_slice(&mac.0);
        libc::sockaddr_ll {
            sll_family: libc::AF_PACKET as u16,
            sll_protocol: self.ether_type.to_be(),
            sll_ifindex: index,
            sll_hatype: 0,
            sll_pkttype: 0,
            sll_halen: 6,
            sll_addr: addr,
        }
    }
}

impl AsFd for Packets {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Arrived {
    pub const NONE: Arrived = Arrived { from: Mac([0; 6]), length: 0, truncated: false, ours: false };
}

/// The network namespace of a socket; none where the kernel does not tell, before Linux 5.14.
pub(crate) fn namespace(socket: BorrowedFd<'_>) -> Option<u64> {
    let (mut cookie, mut length) = (0u64, mem::size_of::<u64>() as libc::socklen_t);
    // SAFETY: the kernel writes eight bytes at most, into a number of eight.
    let status = unsafe {
        let into = (&raw mut cookie).cast();
        libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, SO_NETNS_COOKIE, into, &raw mut length)
    };
    (status == 0).then_some(cookie)
}

/// Calls until it is not interrupted by a signal.
fn count(mut call: impl FnMut() -> libc::c_int) -> io::Result<usize> {
    loop {
        if let Ok(n) = usize::try_from(call()) {
            return Ok(n);
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}
