// SPDX-License-Identifier: GPL-2.0

//! Other nodes: which number this one has, where the others are, and messages to and from them.
//!
//! A message is a few frames (`abi/frame.rs`). Those that come are put into their receiver's pool by the softirq that
//! brings them, with no process in between; between two nodes of one kernel the sender may do that itself (`across.rs`).
//! Nothing is repeated: what cannot be sent is an error for its sender, what cannot be delivered is counted, by the reason.
//!
//! A node believes those that an administrator named in the NART, by their addresses: also which of their users sends.
//! As on this node, an endpoint takes messages of the user who opened it only.

use kernel::{
    bindings,
    ffi::{c_int, c_void},
    iov::IovIterSource,
    prelude::*,
    rbtree::{RBTree, RBTreeNodeReservation},
    seq_file::{seq_print, SeqFile},
    sync::{
        atomic::{Atomic, Relaxed},
        Arc,
    },
    types::ForeignOwnable,
};

use crate::{
    abi::{self, NID_ALL, NID_MAX, REMOVE},
    across::changed,
    assembly::{Added, Assembly},
    ether::{Ether, Mac, Name, Part, Port, Received},
    frame::{Frame, FRAME_HEADER},
    glue,
    pool::Pool,
    positions::Refused,
    softlock::{new_soft_lock, SoftLock},
    table::Table,
};

const BROADCAST: Mac = [0xff; 6];

#[pin_data]
pub(crate) struct Network {
    pub(crate) ether: Ether,
    nid: Atomic<u32>,
    /// Network Address Resolution Table, by the nodes' numbers.
    #[pin]
    nart: SoftLock<KVec<NartEntry>>,
    /// The pools of opened endpoints: what a frame can reach.
    #[pin]
    reach: SoftLock<RBTree<u32, Arc<Pool>>>,
    #[pin]
    assembly: SoftLock<Assembly>,
    /// Messages so far.
    number: Atomic<u32>,
    pub(crate) counts: Counts,
}

/// An entry of the NART: where a node is.
#[derive(Clone, Copy)]
pub(crate) struct NartEntry {
    nid: u32,
    pub(crate) index: c_int,
    pub(crate) mac: Mac,
}

/// What became of messages and frames.
macro_rules! counts {
    ($($name:ident: $text:literal,)+) => {
        pub(crate) struct Counts {
            $(pub(crate) $name: Atomic<u64>,)+
        }

        impl Counts {
            fn new() -> Self {
                Self { $($name: Atomic::new(0),)+ }
            }

            fn print(&self, out: &SeqFile) {
                $(seq_print!(out, "count {} {}\n", $text, self.$name.load(Relaxed));)+
            }
        }
    };
}

counts! {
    messages_out: "messages-out",
    frames_out: "frames-out",
    without_frames: "messages-without-frames",
    refused: "refused-by-interface",
    messages_in: "messages-in",
    frames_in: "frames-in",
    malformed: "malformed",
    strangers: "from-strangers",
    elsewhere: "for-other-nodes",
    nobody: "for-nobody",
    denied: "of-other-users",
    no_room: "without-room",
    strays: "stray-parts",
    incomplete: "incomplete-messages",
}

pub(crate) fn count(what: &Atomic<u64>, n: u64) {
    what.fetch_add(n, Relaxed);
}

impl Network {
    pub(crate) fn new(ether: Ether) -> impl PinInit<Self> {
        pin_init!(Self {
            ether,
            nid: Atomic::new(crate::own_nid()),
            nart <- new_soft_lock!(KVec::new(), c"dp_nart"),
            reach <- new_soft_lock!(RBTree::new(), c"dp_reach"),
            assembly <- new_soft_lock!(Assembly::new(), c"dp_assembly"),
            number: Atomic::new(0),
            counts: Counts::new(),
        })
    }

    /// This node.
    pub(crate) fn nid(&self) -> u32 {
        self.nid.load(Relaxed)
    }

    pub(crate) fn set_nid(&self, node: abi::Node) -> Result {
        self.ether.may_administer()?;
        if node.nid == 0 || node.nid > NID_MAX || node.pad0 != 0 {
            return Err(EINVAL);
        }
        self.nid.store(node.nid, Relaxed);
        changed();
        Ok(())
    }

    pub(crate) fn set_iface(&self, iface: &abi::Iface) -> Result {
        self.ether.may_administer()?;
        let name = Name::new(&iface.name)?;
        let result = match (iface.flags, iface.pad0) {
            (0, 0) => self.ether.attach(name),
            (REMOVE, 0) => self.ether.detach(name),
            _ => Err(EINVAL),
        };
        changed();
        result
    }

    pub(crate) fn set_route(&self, route: &abi::Route) -> Result {
        self.ether.may_administer()?;
        let remove = route.flags == REMOVE;
        let named = route.nid != 0 && route.nid <= NID_MAX;
        if !named || route.flags & !REMOVE != 0 || route.pad0 != [0; 2] {
            return Err(EINVAL);
        }
        let new = if remove {
            None
        } else {
            // Groups are no node's.
            if route.nid == self.nid() || route.mac == [0; 6] || route.mac[0] & 1 != 0 {
                return Err(EINVAL);
            }
            let port = self.ether.port_named(&Name::new(&route.name)?)?;
            Some(NartEntry { nid: route.nid, index: port.index, mac: route.mac })
        };
        let old = {
            // Made without the lock, which only lets it take the old one's place.
            let mut table = KVec::new();
            loop {
                let needed = self.nart.lock().len() + 1;
                if table.capacity() < needed {
                    table.reserve(needed, GFP_KERNEL)?;
                }
                let mut nart = self.nart.lock();
                if nart.len() >= table.capacity() {
                    continue;
                }
                let place = nart.partition_point(|r| r.nid < route.nid);
                let there = nart.get(place).is_some_and(|r| r.nid == route.nid);
                if remove && !there {
                    return Err(ENOENT);
                }
                let behind = place + usize::from(there);
                for part in [&nart[..place], new.as_slice(), &nart[behind..]] {
                    for route in part {
                        // There is room for them all.
                        table.push_within_capacity(*route).map_err(|_| ENOMEM)?;
                    }
                }
                break core::mem::replace(&mut *nart, table);
            }
        };
        changed();
        drop(old);
        Ok(())
    }

    pub(crate) fn route(&self, nid: u32) -> Option<NartEntry> {
        let nart = self.nart.lock();
        let place = nart.binary_search_by_key(&nid, |r| r.nid).ok()?;
        nart.get(place).copied()
    }

    /// An endpoint is opened: frames reach it from now on.
    pub(crate) fn open(&self, reservation: RBTreeNodeReservation<u32, Arc<Pool>>, pool: &Arc<Pool>) {
        let node = reservation.into_node(pool.dpid, pool.clone());
        let old = self.reach.lock().insert(node);
        drop(old);
    }

    /// It is closed.
    pub(crate) fn close(&self, pool: &Arc<Pool>) {
        let old = {
            let mut reach = self.reach.lock();
            let is = reach.get(&pool.dpid).is_some_and(|p| Arc::ptr_eq(p, pool));
            if is {
                reach.remove_node(&pool.dpid)
            } else {
                None
            }
        };
        drop(old);
    }

    /// Whether it is known how to reach a node.
    pub(crate) fn reaches(&self, nid: u32) -> bool {
        if nid == NID_ALL {
            return self.ether.ports().next().is_some();
        }
        self.route(nid).is_some()
    }

    /// Sends a message to a node that it reaches without frames, or in one. [`None`]: it does not.
    pub(crate) fn send_whole(
        &self,
        from: u32,
        uid: u32,
        to: abi::Addr,
        message: &mut IovIterSource<'_>,
    ) -> Option<Result> {
        if to.nid == NID_ALL {
            return None;
        }
        let Some(route) = self.route(to.nid) else { return Some(Err(unreachable())) };
        let mut frame = self.frame(from, uid, to, message.len() as u32);
        match self.send_message_across(route.index, &route.mac, &frame, message) {
            Ok(true) => {
                count(&self.counts.messages_out, 1);
                return Some(Ok(()));
            }
            Ok(false) => {}
            Err(_) => return None,
        }
        frame.bytes = u16::try_from(message.len()).ok()?;
        frame.number = self.new_number();
        match self.send_frame(route.index, &route.mac, &frame, message) {
            Err(EMSGSIZE) => None,
            sent => {
                count(&self.counts.messages_out, sent.is_ok().into());
                Some(sent)
            }
        }
    }

    /// Sends a message to another node, or to all that attached interfaces reach. Of a sender one after the other: the
    /// parts of a message go in order.
    pub(crate) fn send(&self, from: u32, uid: u32, to: abi::Addr, message: &mut IovIterSource<'_>) -> Result {
        let frame = self.frame(from, uid, to, message.len() as u32);
        let mut result = Err(unreachable());
        if to.nid == NID_ALL {
            for port in self.ether.ports() {
                let left = message.len();
                let sent = self.send_by(port, &BROADCAST, frame, message);
                // SAFETY: as many as were taken.
                unsafe { message.revert(left - message.len()) };
                // One that others are reached by makes up for one that is down.
                result = result.or(sent);
            }
        } else if let Some(route) = self.route(to.nid) {
            let port = self.ether.port(route.index).ok_or_else(unreachable)?;
            result = self.send_by(port, &route.mac, frame, message);
        }
        count(&self.counts.messages_out, result.is_ok().into());
        result
    }

    fn new_number(&self) -> u32 {
        self.number.fetch_add(1, Relaxed)
    }

    /// The first of a message's, without its number.
    pub(crate) fn frame(&self, from: u32, uid: u32, to: abi::Addr, total: u32) -> Frame {
        Frame {
            bytes: 0,
            from_nid: self.nid() as u16,
            from_dpid: from as u16,
            to_nid: to.nid as u16,
            to_dpid: to.dpid as u16,
            uid,
            number: 0,
            total,
            begin: 0,
        }
    }

    fn send_by(&self, port: Port, mac: &Mac, mut frame: Frame, message: &mut IovIterSource<'_>) -> Result {
        if self.send_message_across(port.index, mac, &frame, message)? {
            return Ok(());
        }
        frame.number = self.new_number();
        let most = port.mtu.saturating_sub(FRAME_HEADER as u32).min(u16::MAX.into());
        if most == 0 && frame.total > 0 {
            return Err(EMSGSIZE);
        }
        loop {
            frame.bytes = (frame.total - frame.begin).min(most) as u16;
            self.send_frame(port.index, mac, &frame, message)?;
            frame.begin += u32::from(frame.bytes);
            if frame.begin >= frame.total {
                return Ok(());
            }
        }
    }

    fn send_frame(&self, index: c_int, mac: &Mac, frame: &Frame, message: &mut IovIterSource<'_>) -> Result {
        match self.ether.send(index, mac, frame, message) {
            Ok(()) => {
                count(&self.counts.frames_out, 1);
                Ok(())
            }
            // It went when its route was looked up already.
            Err(ENODEV) => Err(unreachable()),
            Err(EMSGSIZE) => Err(EMSGSIZE),
            Err(e) => {
                count(&self.counts.refused, 1);
                Err(e)
            }
        }
    }

    /// A frame has come. In softirq.
    fn receive(&self, index: c_int, received: Received) {
        count(&self.counts.frames_in, 1);
        match self.deliver(index, received) {
            Ok(whole) => count(&self.counts.messages_in, whole.into()),
            Err(reason) => count(reason, 1),
        }
    }

    /// Whether a message is with its receiver now; or what the frame was dropped for.
    fn deliver(&self, index: c_int, received: Received) -> Result<bool, &Atomic<u64>> {
        let source = received.source();
        let (frame, part) = received.open().ok_or(&self.counts.malformed)?;
        let pool = self.admit(index, &source, &frame)?;
        if frame.is_whole() {
            return self.put(&pool, &frame, core::slice::from_ref(&part));
        }
        let added = self.assembly.lock().add(&frame, part);
        match added {
            Added::Whole(parts) => self.put(&pool, &frame, &parts),
            Added::Partly(given_up) => {
                count(&self.counts.incomplete, given_up);
                Ok(false)
            }
            Added::Lost(given_up) => {
                count(&self.counts.incomplete, given_up);
                Err(&self.counts.strays)
            }
        }
    }

    /// Whose a frame is, if it is known where it came from, and may go there.
    pub(crate) fn admit(&self, index: c_int, source: &Mac, frame: &Frame) -> Result<Arc<Pool>, &Atomic<u64>> {
        let known = self.route(frame.from_nid.into());
        if !known.is_some_and(|r| r.index == index && r.mac == *source) {
            return Err(&self.counts.strangers);
        }
        if u32::from(frame.to_nid) != self.nid() && u32::from(frame.to_nid) != NID_ALL {
            return Err(&self.counts.elsewhere);
        }
        let pool = self.reach.lock().get(&u32::from(frame.to_dpid)).cloned().ok_or(&self.counts.nobody)?;
        if pool.uid != frame.uid {
            return Err(&self.counts.denied);
        }
        Ok(pool)
    }

    fn put(&self, pool: &Pool, frame: &Frame, parts: &[Part]) -> Result<bool, &Atomic<u64>> {
        let fill = |to: *mut u8| {
            let mut at = 0;
            parts.iter().all(|part| {
                // SAFETY: the parts are no more than the message together, for which there is room.
                let copied = unsafe { part.copy_to(to.add(at)) };
                at += part.bytes;
                copied
            })
        };
        match self.put_by(pool, frame, fill)? {
            true => Ok(true),
            false => Err(&self.counts.malformed),
        }
    }

    /// False: `fill` could not.
    pub(crate) fn put_by(
        &self,
        pool: &Pool,
        frame: &Frame,
        fill: impl FnOnce(*mut u8) -> bool,
    ) -> Result<bool, &Atomic<u64>> {
        pool.deposit(frame.total.into(), sender(frame), fill).map_err(|refused| match refused {
            Refused::Gone => &self.counts.nobody,
            _ => &self.counts.no_room,
        })
    }

    fn print(&self, out: &SeqFile) {
        seq_print!(out, "node {}\n", self.nid());
        for port in self.ether.ports() {
            seq_print!(out, "interface {} {} {}\n", name_of(&port), port.index, port.mtu);
        }
        let mut after = 0;
        while let Some(route) = self.route_after(after) {
            after = route.nid;
            let m = route.mac;
            seq_print!(
                out,
                "route {} {} {:02x}:{:02x}:{:02x}:{:02x}:{:02x}:{:02x}\n",
                route.nid,
                route.index,
                m[0],
                m[1],
                m[2],
                m[3],
                m[4],
                m[5]
            );
        }
        self.counts.print(out);
    }

    fn route_after(&self, nid: u32) -> Option<NartEntry> {
        let nart = self.nart.lock();
        nart.get(nart.partition_point(|r| r.nid <= nid)).copied()
    }
}

pub(crate) fn sender(frame: &Frame) -> abi::Addr {
    abi::Addr { nid: frame.from_nid.into(), dpid: frame.from_dpid.into() }
}

fn unreachable() -> Error {
    glue::error(bindings::EHOSTUNREACH)
}

fn name_of(port: &Port) -> &str {
    let end = port.name.iter().position(|b| *b == 0).unwrap_or(port.name.len());
    core::str::from_utf8(&port.name[..end]).unwrap_or("?")
}

/// A frame for a namespace. In softirq.
///
/// # Safety
///
/// For ether.c: `table` is the namespace's, which lives as long as its interfaces are attached; the frame is given away.
#[no_mangle]
unsafe extern "C" fn dp_rust_frame(table: *mut c_void, index: c_int, skb: *mut c_void) {
    let Some(skb) = core::ptr::NonNull::new(skb) else { return };
    // SAFETY: by what the caller promises.
    unsafe {
        let table = <Arc<Table> as ForeignOwnable>::borrow(table);
        table.network.receive(index, Received::new(skb));
    }
}

/// /proc/net/dp_ether: node, interfaces, routes, counters, a line each.
///
/// # Safety
///
/// For the kernel: what it passes is valid during the call.
#[no_mangle]
unsafe extern "C" fn dp_rust_network_show(raw: *mut bindings::seq_file, _unused: *mut c_void) -> c_int {
    // SAFETY: by what the caller promises; the open file holds the namespace, which holds its table.
    unsafe {
        let table = <Arc<Table> as ForeignOwnable>::borrow(glue::dp_glue_network_table(raw));
        table.network.print(SeqFile::from_raw(raw));
    }
    0
}
