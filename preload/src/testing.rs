//! Connections for tests: real ones over loopback, in a family of this process's.

use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::Once;

use core::sync::atomic::Ordering;

use dp_channel::arena::{Arena, Geometry};
use dp_channel::family::{Conn, Stage};
use dp_channel::slot::{Side, Slot};
use dp_channel::tcp;
use dp_edge::sys::raw;

use crate::channel::Channel;
use crate::inside::{self, Inside};
use crate::tx::owed;
use crate::walk::Walk;
use crate::{epoll, fdtable, groups, life, own, state, wait};

/// What the constructor does, as far as tests need it.
pub fn start() {
    static START: Once = Once::new();
    START.call_once(|| {
        assert!(state::prepare_self() && fdtable::prepare(), "no memory for tables");
        let _ = groups::WAKES.set(epoll::bell_was_taken);
        let _ = owed::WAKES.set(wait::wake_sleepers);
        let _ = inside::ENDS.set(life::end);
        own::family_or_make().expect("a family");
        state::member().expect("a place in it");
        state::ON.store(true, Ordering::Release);
    });
}

/// The two ends of a TCP connection, both candidates of this process.
pub struct Pair {
    /// The client's.
    pub client: Channel,
    /// The server's.
    pub server: Channel,
    _sockets: [TcpStream; 2],
}

fn candidate(socket: &TcpStream, side: Side) -> Channel {
    let fd = socket.as_raw_fd();
    let family = state::family().expect("started");
    let i = family.claim().expect("an entry");
    let (local, peer) = (tcp::local(fd).expect("bound"), tcp::peer(fd).expect("connected"));
    family.conn(i).reset(side as u32, local, peer);
    family.holders(family.conn(i)).begin(state::member().expect("started"));
    fdtable::begin(fd, i);
    Channel::new(family, fd, i)
}

impl Pair {
    /// Candidates.
    pub fn new() -> Pair {
        start();
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let client = TcpStream::connect(listener.local_addr().expect("bound")).expect("connected");
        let server = listener.accept().expect("accepted").0;
        Pair {
            client: candidate(&client, Side::Client),
            server: candidate(&server, Side::Server),
            _sockets: [client, server],
        }
    }

    /// Candidates, and the client's offer in slot 0 of an arena of its own, with rings of 4 KiB; the offer's generation.
    pub fn offered() -> (Pair, Arena, u32) {
        Pair::offered_with(0)
    }

    /// The same, with longer rings of so many lines to spare.
    fn offered_with(spare: u32) -> (Pair, Arena, u32) {
        let pair = Pair::new();
        let (arena, _) = Arena::create(Geometry { slots: 16, lines: 64, spare }).expect("an arena");
        assert!(arena.bring(0), "no addresses");
        let slot: &Slot = arena.slot(0).expect("mapped");
        for e in [Side::Client, Side::Server].map(|side| arena.edge(0, side).expect("mapped")) {
            e.tx.reset();
            e.word.reset();
            e.rx.reset(dp_edge::ring::Pos::default());
        }
        let c = pair.client;
        let tuple = tcp::tuple(c.local(), c.peer());
        let generation = slot.offer(&tuple, tcp::cookie(c.fd).expect("a socket"), tcp::netns(c.fd), 1);
        assert!(c.attach(&arena, 0, Side::Client, generation), "mapped");
        c.set_stage(Stage::Offered);
        (pair, arena, generation)
    }

    /// A channel in such an arena.
    pub fn live() -> Pair {
        Pair::live_with(0)
    }

    /// The same, with longer rings of so many lines to spare.
    pub fn live_with(spare: u32) -> Pair {
        let (pair, arena, generation) = Pair::offered_with(spare);
        let slot: &Slot = arena.slot(0).expect("mapped");
        assert!(slot.accept(generation) && slot.confirm(generation), "the slot is ours");
        assert!(pair.server.attach(&arena, 0, Side::Server, generation), "mapped");
        for c in [pair.client, pair.server] {
            let at = tcp::consumed(c.fd).expect("a socket");
            c.rx_kernel.store(at, Ordering::Relaxed);
            c.receiving().rx.consumed.store(at, Ordering::Relaxed);
            c.go_live();
        }
        pair
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        for c in [self.client, self.server] {
            fdtable::clear(c.fd);
            let i =
                (0..).find(|&i| core::ptr::eq(c.family.conn(i), c.conn as *const Conn)).expect("an entry");
            c.set_stage(Stage::Unused);
            c.family.free(i);
        }
    }
}

/// A send that does not block.
pub fn send(c: Channel, bytes: &[u8], flags: i32) -> Result<usize, i32> {
    let frame = 0u8;
    let inside = Inside::enter(c.fd, &frame).expect("a connection");
    let mut w = Walk::one(bytes.as_ptr().cast_mut(), bytes.len());
    let sent = c.send(&inside, &mut w, flags | libc::MSG_DONTWAIT, |w, flags| by_kernel(c, w, flags));
    inside.leave();
    sent
}

/// The kernel's part of a send, of one piece.
pub fn by_kernel(c: Channel, w: &Walk, flags: i32) -> Result<usize, i32> {
    let mut pieces = [libc::iovec { iov_base: core::ptr::null_mut(), iov_len: 0 }; 1];
    let list = w.fill_list(&mut pieces, usize::MAX);
    // SAFETY: what is left of the bytes.
    unsafe { raw::send(c.fd, list[0].iov_base.cast(), list[0].iov_len, flags) }
}

/// A receive of up to `n` bytes that does not block.
pub fn receive(c: Channel, n: usize) -> Result<Vec<u8>, i32> {
    let frame = 0u8;
    let inside = Inside::enter(c.fd, &frame).expect("a connection");
    let mut bytes = vec![0; n];
    let mut w = Walk::one(bytes.as_mut_ptr(), n);
    let got = c.receive(&inside, &mut w, libc::MSG_DONTWAIT, &|_, _| panic!("it is not to sleep"));
    inside.leave();
    got.map(|n| {
        bytes.truncate(n);
        bytes
    })
}

/// Does `f` while another thread moves `c`, a candidate, on its way to a channel, and then back.
pub fn moved_and_back<R>(c: Channel, f: impl FnOnce() -> R) -> R {
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            assert!(c.rx_lock.try_lock(state::me()));
            c.set_stage(Stage::Accepted);
            tell.send(()).expect("somebody waits");
            raw::nap(50_000_000);
            c.set_stage(Stage::Candidate);
            c.rx_lock.unlock();
        });
        told.recv().expect("moved");
        f()
    })
}
