//! A toy gateway: two runtime folders of one machine are two nodes, and a socket between two processes is the only route.
//!
//! Nothing is acknowledged, and one process serves every message by itself: it is here to try the seam, not to be copied.

use std::io::IoSlice;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use dp_edge::sys::unix;
use dpfd::driver::user::gateway::Gateway;
use dpfd::{Addr, Endpoint, Nid, Parts};
use nix::poll::{poll, PollFd, PollFlags, PollTimeout};

use crate::kit::*;

/// The longest message that the route carries.
const LONGEST: usize = 100_000;
const HEADER: usize = 24;

/// A node: a folder in which its endpoints find each other, and its number.
#[derive(Debug, Clone)]
pub struct Node {
    pub nid: Nid,
    folder: PathBuf,
}

impl Node {
    /// One of its own for each test.
    pub fn new(nid: Nid) -> Node {
        let folder = folder().with_extension(format!("{}-{nid}", numbers(1)));
        Node { nid, folder }
    }

    /// Runs `f` in a process of this node.
    pub fn run(&self, f: impl FnOnce() -> bool) -> Child {
        child(|| {
            std::env::set_var("DP_RUNTIME_DIR", &self.folder);
            std::env::set_var("DP_NID", self.nid.to_string());
            f()
        })
    }

    /// Starts its gateway, which reaches the node `other` over `route`, and no other.
    pub fn gateway(&self, other: Nid, route: &OwnedFd) -> Child {
        self.run(|| {
            Toy { gateway: Gateway::start().expect("no other gateway"), other, route, proxies: Vec::new() }
                .serve();
            true
        })
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// The route between two nodes, an end for each.
pub fn route() -> (OwnedFd, OwnedFd) {
    unix::pair().expect("a pair")
}

struct Toy<'a> {
    gateway: Gateway,
    other: Nid,
    route: &'a OwnedFd,
    /// Of endpoints of the other node.
    proxies: Vec<Endpoint>,
}

impl Toy<'_> {
    /// Until the other end of the route is closed.
    fn serve(&mut self) {
        loop {
            self.wait();
            for addr in self.gateway.asked() {
                if addr.nid == self.other {
                    self.proxy(addr);
                } else {
                    self.gateway.refuse(addr.nid);
                }
            }
            for proxy in &self.proxies {
                while let Ok(message) = proxy.recv() {
                    self.hand_over(proxy.addr().dpid, &message);
                }
            }
            while unix::wait(self.route.as_raw_fd(), libc::POLLIN, 0).is_ok_and(|events| events != 0) {
                if !self.take_in() {
                    return;
                }
            }
        }
    }

    fn wait(&self) {
        let readable = |fd| PollFd::new(fd, PollFlags::POLLIN);
        let mut all = vec![readable(self.gateway.as_fd()), readable(self.route.as_fd())];
        all.extend(self.proxies.iter().map(|proxy| readable(proxy.as_fd())));
        let _ = poll(&mut all, PollTimeout::NONE);
    }

    fn proxy(&mut self, addr: Addr) -> &Endpoint {
        if let Some(at) = self.proxies.iter().position(|proxy| proxy.addr() == addr) {
            return &self.proxies[at];
        }
        let proxy = Endpoint::proxy(&self.gateway, addr).expect("a proxy");
        proxy.set_nonblocking(true).expect("a flag");
        proxy.pool(256 << 10).expect("a pool");
        self.proxies.push(proxy);
        self.proxies.last().expect("just added")
    }

    /// To the other node: from, to, whether there is an immediate, the immediate, the message.
    fn hand_over(&self, to: u16, message: &dpfd::Message<'_>) {
        let mut packet = vec![0; HEADER];
        packet[..2].copy_from_slice(&message.from().dpid.to_ne_bytes());
        packet[2..4].copy_from_slice(&to.to_ne_bytes());
        packet[4] = message.immediate().is_some().into();
        packet[8..16].copy_from_slice(&message.immediate().unwrap_or(0).to_ne_bytes());
        packet.extend(message.to_vec());
        assert!(packet.len() <= LONGEST);
        unix::send(self.route.as_raw_fd(), &[IoSlice::new(&packet)], &[], 0).expect("the other end");
    }

    /// From the other node, as if its sender were here. False: there is none any more.
    fn take_in(&mut self) -> bool {
        let mut packet = vec![0; LONGEST];
        let Ok(len @ HEADER..) = unix::recv_bytes(self.route.as_raw_fd(), &mut packet) else { return false };
        let half = |at: usize| u16::from_ne_bytes([packet[at], packet[at + 1]]);
        let immediate = u64::from_ne_bytes(packet[8..16].try_into().expect("eight bytes"));
        let pieces = [IoSlice::new(&packet[HEADER..len])];
        let mut parts = Parts::new(&pieces);
        if packet[4] != 0 {
            parts = parts.with_immediate(immediate);
        }
        let from = self.proxy(Addr { nid: self.other, dpid: half(0) });
        while let Err(error) = from.send_parts_to(parts, local(half(2))) {
            assert!(is_would_block(&error), "{error}");
            events(from.as_fd(), PollFlags::POLLOUT, SOON);
        }
        true
    }
}
