//! Ethernet, without IP: frames of the EtherType that the kernel driver uses as well ([`dp_abi::frame::ETHER_TYPE`]).
//!
//! As in GAMMA, what a frame costs beyond the wire is the driver's work and little else: no routing, no addresses to be
//! resolved, no checksum. It reaches machines of one Ethernet segment.
//!
//! Frames leave by a packet socket (AF_PACKET) with sendmmsg(2), 32 a call, and come by the same with recvmmsg(2), or where the
//! graph and the interface allow by AF_XDP ([`crate::xdp`]), which [`means`](Route::means) tells. What AF_XDP does not take comes
//! by the packet socket, so whatever is begun and ended there loses nothing that would have come.
//!
//! Why recvmmsg where AF_XDP is not: measured between two namespaces that a veth pair joins (Linux 6.18, two busy cores; one byte
//! one way with a reader that looks, p50, and the reader's time for each of many frames of 1400 bytes): recvmmsg 3.3 us and 720 ns.
//! - A ring that is shared with the kernel, version 3 (TPACKET_V3): 3.5 ms (asleep 0.5 ms) and 80 ns. It gives a frame to
//!   its reader when a block is full or its time is up, 1 ms at least, for which a lone frame waits.
//! - Version 2, which gives each frame at once: 2.5 us and 360 ns; asleep as recvmmsg, 22 us. Part of the saving is the
//!   copy, which the sender's processor does then. Its slots have the MTU's length, so it must be made anew when that
//!   changes, and frames in it are lost.
//!
//! Why sendmmsg: most of what a frame costs its sender is below, the buffer and the way to the other end. A socket of AF_XDP took
//! as long for each (1.4 to 1.7 us against 1.4, of a processor's time), and goes past the interface's queue. A ring of packets
//! (PACKET_TX_RING) lends the kernel its memory and has it back when another packet socket of this machine gets the frame, before
//! anybody has read it there: so the kernel's source says; it was not tried.
//!
//! It needs CAP_NET_RAW in the user namespace that the network belongs to; for AF_XDP see [`NoXdp::Capability`].

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use dp_abi::frame::ETHER_TYPE;
use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags};
use thiserror::Error;

use crate::address::{Label, NAME_MAX};
use crate::sys::{Arrived, Interface, Packets, PER_CALL};
use crate::xdp::{NoXdp, Redirect, Xdp, HEADER};
use crate::{not_ours, Counters, Frames, Mac, PeerAddr, Reason, Received, Route, FRAME_MAX};

/// Room in the socket for what arrives and what leaves, bytes each, as far as the system allows.
const BUFFER: usize = 4 << 20;
/// While frames come by AF_XDP, the packet socket is asked each so many times: little or nothing comes by it.
const BESIDE: u32 = 16;
/// How long what receives by AF_XDP waits, when it is opened, until a former one is cleared away; and where there is no other way.
/// The kernel does that some time after its process has ended, behind all else that waits for the lock of its network.
const CLEARED: Duration = Duration::from_millis(320);
const CLEARED_FOR_CERTAIN: Duration = Duration::from_secs(2);
/// How often that is looked for meanwhile.
const LOOK: Duration = Duration::from_millis(10);
/// How often that is tried at `refresh` otherwise.
const TRIES: u32 = 8;

/// Why the route cannot be opened.
#[derive(Debug, Error)]
pub enum OpenError {
    /// The name cannot be an interface's.
    #[error("{0:?} is no name of an interface; `ip link` shows them")]
    Name(String),
    /// The capability is missing.
    #[error(
        "eth: packet sockets need CAP_NET_RAW; run `dp node` as root, or give it the capability with \
         `setcap cap_net_raw+ep` or AmbientCapabilities=CAP_NET_RAW in its unit, or use udp"
    )]
    Capability,
    /// There is no such interface.
    #[error("eth: this node has no interface {0}; `ip link` shows those it has")]
    Missing(String),
    /// It is another kind of interface.
    #[error("eth: {0} carries no Ethernet frames; use udp over it")]
    NotEthernet(String),
    /// AF_XDP was asked for.
    #[error("eth: {0}: no AF_XDP, which is asked for: {1}")]
    Xdp(String, NoXdp),
    /// Anything else.
    #[error("eth: {0}: {1}")]
    System(String, io::Error),
}

/// A packet socket on one interface, and what takes frames before that gets them.
pub struct Eth {
    packets: Packets,
    name: Label<NAME_MAX>,
    interface: Interface,
    counters: Counters,
    xdp: Xdp,
    redirect: Option<Redirect>,
    /// What [`Route::means`] says.
    means: String,
    /// The interface as it was when `redirect` was begun, or could not be.
    tried: Interface,
    /// How often to try it again on the same one.
    tries: u32,
    /// Readable when one of the sockets is; none where there never is but one.
    sockets: Option<Epoll>,
    /// Until the packet socket is asked.
    beside: u32,
}

impl fmt::Debug for Eth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Eth { name, interface, means, counters, .. } = self;
        let mut told = f.debug_struct("Eth");
        told.field("name", name)
            .field("interface", interface)
            .field("means", means)
            .field("counters", counters);
        told.finish_non_exhaustive()
    }
}

impl Eth {
    /// Opens the route on an interface of this node, which may be down as yet. AF_XDP is begun by the calling thread, and later by
    /// those that call [`Route::refresh`], where the interface became another one: all in the same network namespace.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open(interface: &str, xdp: Xdp) -> Result<Eth, OpenError> {
        let name = Label::new(interface).ok_or_else(|| OpenError::Name(interface.into()))?;
        let other = |error| OpenError::System(interface.into(), error);
        let mut packets = Packets::open(ETHER_TYPE).map_err(|error| match Reason::of(&error) {
            Reason::Forbidden => OpenError::Capability,
            _ => other(error),
        })?;
        let found = packets.interface(interface).map_err(|error| match error.raw_os_error() {
            Some(libc::ENODEV) => OpenError::Missing(interface.into()),
            _ => other(error),
        })?;
        if !found.ethernet {
            return Err(OpenError::NotEthernet(interface.into()));
        }
        packets.buffers(BUFFER);
        packets.bind(found.index).map_err(other)?;
        let mut sockets = None;
        if xdp != Xdp::Never {
            let all = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).map_err(|errno| other(errno.into()))?;
            let readable = EpollEvent::new(EpollFlags::EPOLLIN, 0);
            all.add(&packets, readable).map_err(|errno| other(errno.into()))?;
            sockets = Some(all);
        }
        let mut eth = Eth {
            packets,
            name,
            interface: found,
            counters: Counters::default(),
            xdp,
            redirect: None,
            means: String::new(),
            tried: found,
            tries: 0,
            sockets,
            beside: 0,
        };
        let end = Instant::now() + if xdp == Xdp::Always { CLEARED_FOR_CERTAIN } else { CLEARED };
        loop {
            match eth.begin_redirect() {
                Err(why) if why.may_pass() && Instant::now() < end => std::thread::sleep(LOOK),
                Err(why) if xdp == Xdp::Always => return Err(OpenError::Xdp(interface.into(), why)),
                begun => {
                    // Until then frames come by the packet socket.
                    eth.tries = if begun.is_err_and(|why| why.may_pass()) { TRIES } else { 0 };
                    return Ok(eth);
                }
            }
        }
    }

    /// Has frames redirected, if that can be.
    fn begin_redirect(&mut self) -> Result<(), NoXdp> {
        self.tried = self.interface;
        let begun = self.try_redirect();
        self.means = match &begun {
            Ok(redirect) => redirect.told(),
            Err(why) => format!("packet: {why}"),
        };
        self.redirect = Some(begun?);
        Ok(())
    }

    fn try_redirect(&self) -> Result<Redirect, NoXdp> {
        let (of, home) = (&self.interface, self.packets.as_fd());
        let redirect = Redirect::start(self.xdp, self.name.as_str(), of, ETHER_TYPE, home)?;
        for (all, socket) in self.sockets.iter().flat_map(|all| redirect.sockets().map(move |one| (all, one)))
        {
            let added = all.add(socket, EpollEvent::new(EpollFlags::EPOLLIN, 0));
            added.map_err(|errno| NoXdp::System("epoll_ctl", errno.into()))?;
        }
        Ok(redirect)
    }

    /// Frames are redirected as suits the interface as that is now. Those that wait where they were redirected before are lost.
    fn follow_interface(&mut self) {
        let (name, now) = (self.name.as_str(), &self.interface);
        if self.redirect.as_ref().is_some_and(|redirect| redirect.suits(self.xdp, name, now)) {
            return;
        }
        let same = |a: Interface, b: Interface| (a.index, a.mac, a.mtu) == (b.index, b.mac, b.mtu);
        if self.redirect.take().is_some() || !same(self.tried, self.interface) {
            self.tries = TRIES;
        }
        if self.tries > 0 {
            // What keeps it from being, `means` says.
            let again = self.begin_redirect().is_err_and(|why| why.may_pass());
            self.tries = if again { self.tries - 1 } else { 0 };
        }
    }

    fn refuse(&mut self, error: &io::Error) -> Reason {
        let reason = Reason::of(error);
        self.counters.refuse(reason, 1);
        reason
    }

    /// Looks at the interface again. One that was made anew under its old name has another number.
    fn look(&mut self) -> io::Result<()> {
        self.interface = self.packets.interface(self.name.as_str())?;
        if self.interface.index != self.packets.index() {
            self.packets.bind(self.interface.index)?;
        }
        self.follow_interface();
        Ok(())
    }

    /// Takes what was redirected.
    fn recv_redirected(&mut self, into: &mut Received) -> usize {
        let Some(redirect) = &mut self.redirect else { return 0 };
        let (slot, interface) = (into.slot(), self.name);
        let (mut at, mut frames, mut bytes, mut truncated) = (0, 0, 0, 0);
        let slots = into.room().len() / slot;
        redirect.recv(slots, |whole| {
            let Some((header, frame)) = whole.split_first_chunk::<HEADER>() else { return };
            let mut mac = [0; 6];
            mac.copy_from_slice(&header[6..12]);
            if frame.len() > slot {
                truncated += 1;
                return;
            }
            into.room()[at * slot..][..frame.len()].copy_from_slice(frame);
            let from = PeerAddr::Eth { interface, mac: Mac(mac) };
            if into.push(at, from, frame.len(), frame.len()) > 0 {
                (at, frames, bytes) = (at + 1, frames + 1, bytes + frame.len());
            }
        });
        if truncated > 0 {
            self.counters.refuse(Reason::Truncated, truncated);
        }
        if frames > 0 {
            self.counters.receive(frames, bytes);
        }
        frames
    }

    /// Whether it is the packet socket's turn, which shares little or nothing of what comes.
    fn is_beside(&mut self) -> bool {
        let turn = self.redirect.is_none() || self.beside == 0;
        self.beside = if turn { BESIDE } else { self.beside - 1 };
        turn
    }

    fn recv_packets(&mut self, into: &mut Received) -> io::Result<usize> {
        let mut arrived = [Arrived::NONE; PER_CALL];
        let slot = into.slot();
        let n = match self.packets.recv(into.room(), slot, &mut arrived) {
            Ok(n) => n,
            Err(error) => {
                // The interface went down, as the kernel tells once: nothing arrives, and more may when it is back.
                let quiet = matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::ENETDOWN));
                if !quiet {
                    self.refuse(&error);
                }
                return if quiet { Ok(0) } else { Err(error) };
            }
        };
        let (mut frames, mut bytes) = (0, 0);
        for (at, one) in arrived[..n].iter().enumerate() {
            let reason = if one.truncated { Reason::Truncated } else { Reason::Foreign };
            let from = PeerAddr::Eth { interface: self.name, mac: one.from };
            if one.truncated || !one.ours || into.push(at, from, one.length, one.length) == 0 {
                self.counters.refuse(reason, 1);
                continue;
            }
            frames += 1;
            bytes += one.length;
        }
        self.counters.receive(frames, bytes);
        Ok(frames)
    }
}

impl Route for Eth {
    fn name(&self) -> &str {
        "eth"
    }

    fn local(&self) -> PeerAddr {
        PeerAddr::Eth { interface: self.name, mac: self.interface.mac }
    }

    fn mtu(&mut self, to: &PeerAddr) -> io::Result<usize> {
        match to {
            // All of a segment have the same, or its administrator has made a mistake.
            PeerAddr::Eth { .. } => Ok(self.interface.mtu.clamp(1, FRAME_MAX)),
            _ => Err(not_ours(&mut self.counters)),
        }
    }

    fn send(&mut self, to: &PeerAddr, frames: Frames<'_>) -> io::Result<usize> {
        let PeerAddr::Eth { mac, .. } = to else { return Err(not_ours(&mut self.counters)) };
        let (mut sent, mut told) = (0, false);
        while sent < frames.len() {
            match self.packets.send(*mac, frames.after(sent)) {
                Ok(n) => {
                    let bytes = frames.after(sent).bytes().len() - frames.after(sent + n).bytes().len();
                    self.counters.send(n, bytes);
                    sent += n;
                }
                // That the interface went down, the socket tells once, whether or not it has come back since. If it has
                // not, the next call meets it as well.
                Err(error) if error.raw_os_error() == Some(libc::ENETDOWN) && !told => told = true,
                Err(error) => {
                    let reason = self.refuse(&error);
                    if reason == Reason::TooLong {
                        self.look()?;
                    }
                    // What was sent comes first. The next call meets the error again.
                    return if sent > 0 || reason == Reason::Full { Ok(sent) } else { Err(error) };
                }
            }
        }
        Ok(sent)
    }

    fn slot(&self) -> usize {
        self.interface.mtu.clamp(1, FRAME_MAX)
    }

    fn recv(&mut self, into: &mut Received) -> io::Result<usize> {
        into.clear();
        let slot = into.slot();
        if slot < self.slot() {
            return Err(Errno::EINVAL.into());
        }
        if self.is_beside() {
            let n = self.recv_packets(into)?;
            if n > 0 {
                // More may have come that way.
                self.beside = 1;
                return Ok(n);
            }
        }
        Ok(self.recv_redirected(into))
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.sockets.as_ref().map_or(self.packets.as_fd(), |all| all.0.as_fd()))
    }

    fn each_descriptor<'a>(&'a self, each: &mut dyn FnMut(BorrowedFd<'a>)) {
        each(self.packets.as_fd());
        if let Some(redirect) = &self.redirect {
            redirect.each_descriptor(each);
        }
    }

    fn refresh(&mut self) -> io::Result<()> {
        self.look()?;
        if self.interface.up {
            Ok(())
        } else {
            Err(Errno::ENETDOWN.into())
        }
    }

    fn counters(&self) -> &Counters {
        &self.counters
    }

    fn means(&self) -> Option<&str> {
        Some(&self.means)
    }
}
