//! Ethernet, without IP: frames of the EtherType that the kernel driver uses as well ([`dp_abi::frame::ETHER_TYPE`]).
//!
//! As in GAMMA, what a frame costs beyond the wire is the driver's work and little else: no routing, no addresses to be
//! resolved, no checksum. It reaches machines of one Ethernet segment.
//!
//! A packet socket (AF_PACKET) with sendmmsg(2) and recvmmsg(2), 32 frames a call. What else was weighed, measured between
//! two namespaces that a veth pair joins (Linux 6.18, two busy cores; one byte one way with a reader that looks, p50, and
//! the reader's time for each of many frames of 1400 bytes): recvmmsg 3.3 us and 720 ns.
//! - A ring that is shared with the kernel, version 3 (TPACKET_V3): 3.5 ms (asleep 0.5 ms) and 80 ns. It gives a frame to
//!   its reader when a block is full or its time is up, 1 ms at least, for which a lone frame waits.
//! - Version 2, which gives each frame at once: 2.5 us and 360 ns; asleep as recvmmsg, 22 us. Part of the saving is the
//!   copy, which the sender's processor does then. Its slots have the MTU's length, so it must be made anew when that
//!   changes, and frames in it are lost. It is the next step where recvmmsg is not fast enough.
//! - AF_XDP wants CAP_BPF and CAP_NET_ADMIN, a program in the interface's receive path that sorts our frames out, an
//!   interface's queues for one process alone, and a driver that supports it to be any faster; the crates for it bring
//!   libbpf or libxdp, C libraries, and a build system for them. It is worth it above about a million frames a second
//!   on an interface of one's own, so it would be a route of its own, not this one's inside.
//!
//! It needs CAP_NET_RAW in the user namespace that the network belongs to.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use dp_abi::frame::ETHER_TYPE;
use nix::errno::Errno;
use thiserror::Error;

use crate::address::{Label, NAME_MAX};
use crate::sys::{Arrived, Interface, Packets, PER_CALL};
use crate::{not_ours, Counters, Frames, PeerAddr, Reason, Received, Route, FRAME_MAX};

/// Room in the socket for what arrives and what leaves, bytes each, as far as the system allows.
const BUFFER: usize = 4 << 20;

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
    /// Anything else.
    #[error("eth: {0}: {1}")]
    System(String, io::Error),
}

/// A packet socket on one interface.
#[derive(Debug)]
pub struct Eth {
    packets: Packets,
    name: Label<NAME_MAX>,
    interface: Interface,
    counters: Counters,
}

impl Eth {
    /// Opens the route on an interface of this node, which may be down as yet.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open(interface: &str) -> Result<Eth, OpenError> {
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
        Ok(Eth { packets, name, interface: found, counters: Counters::default() })
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
        Ok(())
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
        let mut arrived = [Arrived::NONE; PER_CALL];
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

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.packets.as_fd())
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
}
