//! An AF_XDP socket of one of an interface's queues, by the crate `xdp`: a room for `unsafe`.
#![expect(unsafe_code, reason = "packets of the crate do not know how long their memory lives")]

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;

use xdp::nic::NicIndex;
use xdp::slab::Slab;
use xdp::socket::{SocketError, XdpSocket, XdpSocketBuilder};
use xdp::umem::{FrameSize, Umem, UmemCfgBuilder};
use xdp::{CompletionRing, FillRing, Packet, RingConfigBuilder, RxRing};

/// Frames that wait to be taken at most.
pub(super) const FRAMES: usize = 2048;

/// A socket, bound to a queue, with its memory. The kernel holds the memory's pages itself as long as it writes there.
pub(super) struct Queue {
    socket: XdpSocket,
    received: RxRing,
    empty: FillRing,
    /// Of frames that were sent, which a socket must have.
    _sent: CompletionRing,
    memory: Umem,
    room: Room,
}

impl Queue {
    /// Of the interface of this number in the calling thread's network namespace, with chunks of 2048 or 4096 bytes.
    pub fn open(interface: u32, queue: u32, chunk: usize) -> io::Result<Queue> {
        let frame_size = if chunk > 2048 { FrameSize::FourK } else { FrameSize::TwoK };
        let frames = FRAMES as u32;
        let memory = UmemCfgBuilder { frame_size, frame_count: frames, ..UmemCfgBuilder::default() };
        let mut memory = Umem::map(memory.build().map_err(io::Error::other)?)?;
        let rings =
            RingConfigBuilder { rx_count: frames, tx_count: 0, fill_count: frames, completion_count: 64 };
        let rings = rings.build().map_err(io::Error::other)?;
        let mut socket = XdpSocketBuilder::new().map_err(system)?;
        let (rings, mut flags) = socket.build_rings(&memory, rings).map_err(system)?;
        // Without the driver's own support, which few have, and which takes the queue from everybody else.
        flags.force_copy();
        let socket = socket.bind(NicIndex::new(interface), queue, flags).map_err(system)?;
        keep_from_children(socket.as_raw_fd());
        let received = rings.rx_ring.ok_or_else(|| io::Error::other("no ring of received frames"))?;
        let mut empty = rings.fill_ring;
        // SAFETY: the memory lives as long as the ring: both are this queue's.
        unsafe { empty.enqueue(&mut memory, FRAMES) };
        let room = Room { packets: VecDeque::with_capacity(FRAMES), most: 0 };
        Ok(Queue { socket, received, empty, _sent: rings.completion_ring, memory, room })
    }

    /// Tells of each frame that has arrived, `most` at most. How many.
    pub fn recv(&mut self, most: usize, each: &mut impl FnMut(&[u8])) -> usize {
        self.room.most = most;
        // SAFETY: the packets are given back to the memory below, before this call returns.
        let n = unsafe { self.received.recv(&self.memory, &mut self.room) };
        if n == 0 {
            return 0;
        }
        while let Some(packet) = self.room.pop_back() {
            each(&packet);
            self.memory.free_packet(packet);
        }
        // SAFETY: the memory lives as long as the ring: both are this queue's. As many chunks are there as it has places.
        unsafe { self.empty.enqueue(&mut self.memory, n) };
        n
    }
}

/// Its rings are mappings of the socket, which a child of a fork would have as well, and so the queue.
fn keep_from_children(socket: libc::c_int) {
    let file = std::fs::metadata(format!("/proc/self/fd/{socket}"));
    let (Ok(file), Ok(maps)) = (file, std::fs::read_to_string("/proc/self/maps")) else { return };
    let inode = file.ino().to_string();
    for line in maps.lines() {
        // begin-end access offset device inode name
        let mut words = line.split_ascii_whitespace();
        let (range, of) = (words.next(), words.nth(3));
        let Some((begin, end)) = range.filter(|_| of == Some(&inode)).and_then(|range| range.split_once('-'))
        else {
            continue;
        };
        let number = |text| usize::from_str_radix(text, 16).unwrap_or(0);
        let (begin, end) = (number(begin), number(end));
        // SAFETY: changes nothing in this process. In a child nothing of this queue is used.
        unsafe { libc::madvise(begin as *mut libc::c_void, end.saturating_sub(begin), libc::MADV_DONTFORK) };
    }
}

// SAFETY: nothing of it belongs to a thread. What keeps it from being sent by itself are pointers of packets into its memory, of
// which there are none between two calls.
unsafe impl Send for Queue {}

impl AsFd for Queue {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the socket is open as long as it is this queue's, which is borrowed.
        unsafe { BorrowedFd::borrow_raw(self.socket.as_raw_fd()) }
    }
}

/// Packets that one call takes: no more than its caller has room for, since what stays in the ring wakes whoever sleeps.
struct Room {
    packets: VecDeque<Packet>,
    most: usize,
}

impl Slab for Room {
    fn available(&self) -> usize {
        self.most.min(FRAMES).saturating_sub(self.packets.len())
    }

    fn len(&self) -> usize {
        self.packets.len()
    }

    fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    fn push_front(&mut self, packet: Packet) -> Option<Packet> {
        if self.available() == 0 {
            return Some(packet);
        }
        self.packets.push_front(packet);
        None
    }

    fn pop_back(&mut self) -> Option<Packet> {
        self.packets.pop_back()
    }
}

fn system(error: SocketError) -> io::Error {
    match error {
        SocketError::SocketCreation(inner) | SocketError::Bind(inner) => inner,
        SocketError::SetSockOpt { inner, .. } | SocketError::GetSockOpt { inner, .. } => inner,
        SocketError::RingMap { inner, .. } => inner,
    }
}
