//! UDP, over IPv4 and IPv6.
//!
//! Segmentation offload both ways is quinn-udp's: up to 64 equal frames go down the system's stack as one packet
//! (UDP_SEGMENT), and come up as one (UDP_GRO). Where a system or an interface has none, each frame is a call of its own,
//! and [`remark`](Route::remark) says so.
//!
//! Nothing is ever cut into fragments by IP, since a lost fragment loses the whole frame: the system keeps the path's MTU
//! (IP_MTU_DISCOVER), which a router's word or the interface changes, and refuses what is longer. The route asks for it
//! when a peer is new, after EMSGSIZE and at [`refresh`](Route::refresh); it sends no probes of its own. Who can forge a router's word can make frames
//! shorter, but not shorter than 552 bytes of IPv4 (`net.ipv4.route.min_pmtu`) and 1280 of IPv6.
//!
//! The socket is not connected, so a frame that nobody takes at the other end is no error here; the layer above notices
//! by silence.

use std::io::{self, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use nix::errno::Errno;
use nix::sys::socket::{
    bind, setsockopt, socket, sockopt, AddressFamily, SockFlag, SockType, SockaddrStorage,
};
use quinn_udp::{RecvMeta, Transmit, UdpSockRef, UdpSocketState, BATCH_SIZE};

use crate::{not_ours, Counters, Frames, PeerAddr, Reason, Received, Route, BATCH_MAX, FRAME_MAX};

mod mtu;
use mtu::{forbid_fragments, Paths};

/// What can be chosen when the route is opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// Whether to use segmentation offload where it is to be had. Default: yes.
    pub offload: bool,
    /// The socket's room for what arrives and what leaves, bytes each. The system may give less
    /// (`net.core.rmem_max`, `wmem_max`). Default: 4 MiB.
    pub buffer: usize,
}

impl Default for Options {
    fn default() -> Options {
        Options { offload: true, buffer: 4 << 20 }
    }
}

/// A socket on this node's address.
#[derive(Debug)]
pub struct Udp {
    socket: UdpSocket,
    state: UdpSocketState,
    local: SocketAddr,
    options: Options,
    /// Bytes that one call receives at most, for which a slot must have room.
    slot: usize,
    paths: Paths,
    /// More than one slot is likely to be filled by the next call.
    busy: bool,
    /// The last call filled all its slots.
    again: bool,
    counters: Counters,
    remark: Option<&'static str>,
}

const NO_SEND: &str =
    "no segmentation offload: this system or interface refuses UDP_SEGMENT; each frame is one call";
const NO_RECEIVE: &str = "no receive offload: this system has no UDP_GRO; each frame is taken by itself";

impl Udp {
    /// Opens the route on an address of this node; port 0 takes any free one.
    ///
    /// # Errors
    /// EADDRINUSE, EADDRNOTAVAIL, EACCES (ports below 1024) and what else socket(2) and bind(2) say.
    pub fn open(local: SocketAddr, options: Options) -> io::Result<Udp> {
        let family = if local.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
        let socket = socket(family, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)?;
        if local.is_ipv6() {
            // A node has an address of each kind, or one: never one kind disguised as the other.
            setsockopt(&socket, sockopt::Ipv6V6Only, &true)?;
        }
        // The system gives what it allows, which does.
        let _ = setsockopt(&socket, sockopt::RcvBuf, &options.buffer);
        let _ = setsockopt(&socket, sockopt::SndBuf, &options.buffer);
        bind(socket.as_raw_fd(), &SockaddrStorage::from(local))?;
        let socket = UdpSocket::from(socket);
        let local = socket.local_addr()?;
        let mut route = Udp {
            state: prepare(&socket, local, options)?,
            paths: Paths::new(local)?,
            socket,
            local,
            options,
            slot: usize::from(u16::MAX),
            busy: false,
            again: false,
            counters: Counters::default(),
            remark: None,
        };
        if options.offload {
            route.remark = match (route.state.max_gso_segments(), route.state.gro_segments()) {
                (1, _) => Some(NO_SEND),
                (_, 1) => Some(NO_RECEIVE),
                _ => None,
            };
        }
        Ok(route)
    }

    /// Frames that one call can send: 1 without offload.
    pub fn segments(&self) -> usize {
        if self.options.offload {
            self.state.max_gso_segments().min(BATCH_MAX)
        } else {
            1
        }
    }

    /// Sends the first frames, as many as one call can. How many that were.
    fn send_run(&mut self, to: SocketAddr, frames: Frames<'_>) -> io::Result<usize> {
        let (n, bytes) = frames.run(self.segments(), FRAME_MAX);
        let each = usize::from(frames.lengths()[0]);
        // Asked first, since old systems answer EINVAL instead of EMSGSIZE to segments that are too long.
        if each > self.paths.mtu(to)? {
            return Err(Errno::EMSGSIZE.into());
        }
        let transmit = Transmit {
            destination: to,
            ecn: None,
            contents: &frames.bytes()[..bytes],
            segment_size: (n > 1).then_some(each),
            src_ip: None,
        };
        let Err(error) = self.state.try_send(UdpSockRef::from(&self.socket), &transmit) else {
            self.counters.send(n, bytes);
            return Ok(n);
        };
        match error.raw_os_error() {
            Some(libc::EMSGSIZE) => self.paths.ask(to).map(|_| ())?,
            Some(libc::EINVAL | libc::EIO) if n > 1 => {
                let mtu = self.paths.ask(to);
                if mtu.as_ref().is_ok_and(|&mtu| each <= mtu) {
                    // quinn-udp has given offload up: once more, one frame a call.
                    self.remark = Some(NO_SEND);
                    return self.send_run(to, frames);
                }
                // Offload is not to blame, though quinn-udp thinks so and gave it up: this node's address is gone, or
                // the system is an old one, which says so of segments that are too long.
                self.state = prepare(&self.socket, self.local, self.options)?;
                return Err(mtu.err().unwrap_or(Errno::EMSGSIZE.into()));
            }
            _ => {}
        }
        Err(error)
    }

    /// Receives into N slots, if there are so many.
    fn recv_some<const N: usize>(&mut self, into: &mut Received) -> io::Result<usize> {
        let slot = into.slot();
        let mut metas = [RecvMeta::default(); N];
        let mut slots = into.room().chunks_exact_mut(slot);
        let used = slots.len().min(N);
        let mut rooms: [IoSliceMut<'_>; N] =
            std::array::from_fn(|_| IoSliceMut::new(slots.next().unwrap_or_default()));
        let got = self.state.recv(UdpSockRef::from(&self.socket), &mut rooms[..used], &mut metas[..used]);
        let n = match got {
            Ok(n) => n,
            Err(error) => {
                (self.busy, self.again) = (false, false);
                if error.kind() == io::ErrorKind::WouldBlock {
                    return Ok(0);
                }
                self.counters.refuse(Reason::Failed, 1);
                return Err(error);
            }
        };
        // Two calls in a row with something in each slot, or several at once.
        self.busy = n > 1 || (N == 1 && self.again);
        self.again = n == used;
        let (mut frames, mut bytes) = (0, 0);
        for (at, meta) in metas[..n].iter().enumerate() {
            let pushed = into.push(at, PeerAddr::Udp(meta.addr), meta.len, meta.stride);
            frames += pushed;
            bytes += if pushed > 0 { meta.len } else { 0 };
            self.counters.refuse(Reason::Foreign, usize::from(pushed == 0));
        }
        self.counters.receive(frames, bytes);
        Ok(frames)
    }
}

/// The socket's options for offload and against fragments.
fn prepare(socket: &UdpSocket, local: SocketAddr, options: Options) -> io::Result<UdpSocketState> {
    let state = UdpSocketState::new(UdpSockRef::from(socket))?;
    // quinn-udp has its own search for the path's MTU in mind, and so has the system forget what it knows. Ours has none.
    forbid_fragments(socket, local)?;
    if !options.offload {
        let _ = setsockopt(socket, sockopt::UdpGroSegment, &false);
    }
    // What quinn-udp wants to know of each datagram, and nobody here does. Where it cannot be set, it only costs time.
    if local.is_ipv4() {
        let _ = setsockopt(socket, sockopt::Ipv4PacketInfo, &false);
        let _ = setsockopt(socket, sockopt::IpRecvTos, &false);
    } else {
        let _ = setsockopt(socket, sockopt::Ipv6RecvPacketInfo, &false);
        let _ = setsockopt(socket, sockopt::Ipv6RecvTClass, &false);
    }
    Ok(state)
}

impl Route for Udp {
    fn name(&self) -> &str {
        "udp"
    }

    fn local(&self) -> PeerAddr {
        PeerAddr::Udp(self.local)
    }

    fn mtu(&mut self, to: &PeerAddr) -> io::Result<usize> {
        let PeerAddr::Udp(to) = to else { return Err(not_ours(&mut self.counters)) };
        self.paths.mtu(*to)
    }

    fn send(&mut self, to: &PeerAddr, frames: Frames<'_>) -> io::Result<usize> {
        let PeerAddr::Udp(to) = to else { return Err(not_ours(&mut self.counters)) };
        let mut sent = 0;
        while sent < frames.len() {
            match self.send_run(*to, frames.after(sent)) {
                Ok(n) => sent += n,
                Err(error) => {
                    let reason = Reason::of(&error);
                    self.counters.refuse(reason, 1);
                    // What was sent comes first. The next call meets the error again.
                    return if sent > 0 || reason == Reason::Full { Ok(sent) } else { Err(error) };
                }
            }
        }
        Ok(sent)
    }

    fn slot(&self) -> usize {
        self.slot
    }

    fn recv(&mut self, into: &mut Received) -> io::Result<usize> {
        into.clear();
        if into.slot() < self.slot {
            return Err(Errno::EINVAL.into());
        }
        // Preparing a slot that stays empty takes as long as looking at it: one at a time, until more are wanted.
        if self.busy {
            self.recv_some::<BATCH_SIZE>(into)
        } else {
            self.recv_some::<1>(into)
        }
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.as_fd())
    }

    fn refresh(&mut self) -> io::Result<()> {
        self.paths.refresh()
    }

    fn counters(&self) -> &Counters {
        &self.counters
    }

    fn remark(&self) -> Option<&str> {
        self.remark
    }
}
