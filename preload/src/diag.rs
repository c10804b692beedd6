//! What the kernel says of a TCP socket that is not ours: sock_diag (PROTOCOLS I2: nobody is believed).

use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering};

use dp_channel::family::Reason;
use dp_channel::tcp::{self, Addr};
use dp_edge::sys::raw;

use crate::{own, state};

const SOCK_DIAG_BY_FAMILY: u16 = 20;
const REQUEST: usize = 16 + 56;
/// Where a question has its number, and a reply that of its question.
const SEQUENCE_AT: usize = 8;
/// Where the state lies in a reply: nlmsghdr 16, then inet_diag_msg begins with family and state.
const STATE_AT: usize = 16 + 1;
/// Where the inode lies there, its last field; 0: the socket is no process's any more.
const INODE_AT: usize = 16 + 68;
/// Where the attributes begin: behind inet_diag_msg of 72 bytes.
const ATTRIBUTES_AT: usize = 16 + 72;
/// The attribute with struct tcp_info, and as a bit in a request.
const INET_DIAG_INFO: u16 = 2;
/// Offset of tcpi_max_pacing_rate in struct tcp_info.
pub const PACING_AT: usize = 112;
const ESTABLISHED: u8 = 1;

/// Two of its values (linux/tcp_states.h).
const TIME_WAIT: u8 = 6;
const LISTEN: u8 = 10;

fn put(buf: &mut [u8], at: usize, bytes: &[u8]) {
    buf[at..at + bytes.len()].copy_from_slice(bytes);
}

fn address(buf: &mut [u8], at: usize, a: &Addr, v4: bool) {
    if v4 {
        put(buf, at, &a.ip[12..16]);
    } else {
        put(buf, at, &a.ip);
    }
}

/// Whether the kernel knows no TCP socket whose own end is `own` and whose other end is `other`, in the network namespace
/// `netns`.
pub fn is_gone(own: Addr, other: Addr, netns: u64) -> bool {
    ask(own, other, netns, &mut Reply::new()).err() == Some(libc::ENOENT)
}

/// Whether the TCP socket whose own end is `own` and whose other end is `other`, in the network namespace `netns`, was closed in
/// every process. Where the kernel cannot be asked: no.
pub fn is_closed(own: Addr, other: Addr, netns: u64) -> bool {
    let mut reply = Reply::new();
    match ask(own, other, netns, &mut reply) {
        Ok(()) => reply.bytes[INODE_AT..INODE_AT + 4] == [0; 4],
        Err(e) => e == libc::ENOENT,
    }
}

/// SO_MAX_PACING_RATE of the established TCP socket whose own end is `own` and whose other end is `other`, in the network
/// namespace `netns`.
///
/// # Errors
///
/// ENOENT when there is no such socket; else why the kernel could not be asked.
pub fn pacing(own: Addr, other: Addr, netns: u64) -> Result<u64, i32> {
    let mut reply = Reply::new();
    ask(own, other, netns, &mut reply)?;
    if reply.bytes[STATE_AT] != ESTABLISHED {
        return Err(libc::ENOENT);
    }
    let info = reply.attribute(INET_DIAG_INFO).ok_or(libc::EPROTO)?;
    let rate = info.get(PACING_AT..PACING_AT + 8).ok_or(libc::EPROTO)?;
    let mut bytes = [0; 8];
    bytes.copy_from_slice(rate);
    Ok(u64::from_ne_bytes(bytes))
}

/// A reply, or the beginning of one: what is asked for lies there, and a thread's stack may be a small one.
struct Reply {
    bytes: [u8; 512],
    len: usize,
}

impl Reply {
    fn new() -> Reply {
        Reply { bytes: [0; 512], len: 0 }
    }

    fn u16_at(&self, at: usize) -> usize {
        usize::from(u16::from_ne_bytes([self.bytes[at], self.bytes[at + 1]]))
    }

    /// An attribute, as far as it is there.
    fn attribute(&self, kind: u16) -> Option<&[u8]> {
        let mut at = ATTRIBUTES_AT;
        while at + 4 <= self.len {
            let len = self.u16_at(at);
            if len < 4 {
                return None;
            }
            if self.u16_at(at + 2) == usize::from(kind) {
                return self.bytes.get(at + 4..(at + len).min(self.len));
            }
            at += len.next_multiple_of(4);
        }
        None
    }
}

/// A socket for questions that stays open: making one and closing it costs more than all the rest of a question.
struct Kept {
    /// One thread at a time asks; another one, or a signal handler, takes a socket of its own.
    busy: AtomicBool,
    /// -1: there is none.
    fd: AtomicI32,
    /// The process that opened it. A child of its has the descriptor, too, and would get its replies.
    owner: AtomicU32,
    /// The namespace that it answers about.
    netns: AtomicU64,
    /// Tells whether the number still stands for it; the program may have got at it by a system call.
    cookie: AtomicU64,
    /// Of the last question. A reply to another one is none.
    sequence: AtomicU32,
}

static KEPT: Kept = Kept {
    busy: AtomicBool::new(false),
    fd: AtomicI32::new(-1),
    owner: AtomicU32::new(0),
    netns: AtomicU64::new(0),
    cookie: AtomicU64::new(0),
    sequence: AtomicU32::new(0),
};

/// In a forked child: another thread of the parent may have been asking. The socket stays until the child asks for
/// something, because most children never do.
pub fn inherited() {
    if KEPT.busy.load(Ordering::Relaxed) {
        KEPT.busy.store(false, Ordering::Release);
    }
}

fn ask(own: Addr, other: Addr, netns: u64, reply: &mut Reply) -> Result<(), i32> {
    // A v4-mapped tuple may belong to an AF_INET or to a dual-stack AF_INET6 socket; the kernel's exact
    // look-up finds either by its IPv4 addresses, so there is nothing to ask twice.
    let mapped = own.ip[..10] == [0; 10] && own.ip[10..12] == [0xff, 0xff];
    if !KEPT.busy.swap(true, Ordering::Acquire) {
        let kept = keep(netns);
        let result = kept.map(|fd| exchange(fd, own, other, mapped, reply));
        KEPT.busy.store(false, Ordering::Release);
        match result {
            Some(Err(libc::EAGAIN | libc::EPROTO)) | None => {}
            Some(result) => return result,
        }
    }
    let fd = open()?;
    // The answer is about the namespace that this thread is in, which need not be the connection's.
    let result =
        if netns == tcp::netns(fd) { exchange(fd, own, other, mapped, reply) } else { Err(libc::EXDEV) };
    raw::close(fd);
    result
}

fn open() -> Result<i32, i32> {
    let opened = raw::socket(libc::AF_NETLINK, libc::SOCK_RAW | libc::SOCK_CLOEXEC, libc::NETLINK_SOCK_DIAG);
    if let Err(libc::EAFNOSUPPORT | libc::EPROTONOSUPPORT | libc::EPERM | libc::EACCES | libc::ENOSYS) =
        opened
    {
        FORBIDDEN.store(true, Ordering::Relaxed);
    }
    opened
}

/// AF_NETLINK sockets were refused: whatever the other end shows proves nothing to this process.
static FORBIDDEN: AtomicBool = AtomicBool::new(false);

/// Why the other end has proven nothing: it does not hold the connection, or nobody can be asked here whether it does.
pub fn why_unproven() -> Reason {
    if FORBIDDEN.load(Ordering::Relaxed) {
        Reason::NoUnix
    } else {
        Reason::Owner
    }
}

/// The socket that stays, if it answers about namespace `netns`; opened if there is none. Where it cannot be told which
/// namespace that is, that of this thread is meant, and a thread may have gone elsewhere.
fn keep(netns: u64) -> Option<i32> {
    let netns = Some(netns).filter(|&n| n != 0)?;
    let fd = KEPT.fd.load(Ordering::Relaxed);
    let stands = fd >= 0 && tcp::cookie(fd) == Some(KEPT.cookie.load(Ordering::Relaxed));
    if stands && KEPT.owner.load(Ordering::Relaxed) == state::owner() {
        return (KEPT.netns.load(Ordering::Relaxed) == netns).then_some(fd);
    }
    // A child of vfork has its parent's memory, and descriptors of its own.
    if state::is_borrowed_memory() {
        return None;
    }
    if stands {
        // The parent's.
        KEPT.fd.store(-1, Ordering::Relaxed);
        own::close(fd);
    }
    let new = open().ok()?;
    let there = tcp::netns(new);
    let Some(cookie) = tcp::cookie(new).filter(|_| there == netns) else {
        raw::close(new);
        return None;
    };
    let fd = own::keep(new)?;
    KEPT.netns.store(there, Ordering::Relaxed);
    KEPT.cookie.store(cookie, Ordering::Relaxed);
    KEPT.owner.store(state::owner(), Ordering::Relaxed);
    KEPT.fd.store(fd, Ordering::Relaxed);
    Some(fd)
}

fn exchange(fd: i32, own: Addr, other: Addr, v4: bool, reply: &mut Reply) -> Result<(), i32> {
    let mut req = [0u8; REQUEST];
    put(&mut req, 0, &(REQUEST as u32).to_ne_bytes());
    put(&mut req, 4, &SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    put(&mut req, 6, &(libc::NLM_F_REQUEST as u16).to_ne_bytes());
    let sequence = KEPT.sequence.fetch_add(1, Ordering::Relaxed).to_ne_bytes();
    put(&mut req, SEQUENCE_AT, &sequence);
    let family = if v4 { libc::AF_INET } else { libc::AF_INET6 };
    req[16] = family as u8;
    req[17] = libc::IPPROTO_TCP as u8;
    req[18] = 1 << (INET_DIAG_INFO - 1);
    put(&mut req, 20, &u32::MAX.to_ne_bytes()); // all states
    put(&mut req, 24, &own.port.to_be_bytes());
    put(&mut req, 26, &other.port.to_be_bytes());
    address(&mut req, 28, &own, v4);
    address(&mut req, 44, &other, v4);
    put(&mut req, 60, &own.scope.to_ne_bytes());
    put(&mut req, 64, &[0xff; 8]); // no cookie
                                   // SAFETY: the request buffer.
    unsafe { raw::send(fd, req.as_ptr(), req.len(), 0)? };
    // The kernel has answered inside of the send. What a question left that was cut off comes first.
    for _ in 0..8 {
        // SAFETY: the reply buffer.
        reply.len =
            unsafe { raw::recv(fd, reply.bytes.as_mut_ptr(), reply.bytes.len(), libc::MSG_DONTWAIT)? };
        if reply.bytes[SEQUENCE_AT..SEQUENCE_AT + 4] == sequence {
            break;
        }
        reply.len = 0;
    }
    let kind = reply.u16_at(4);
    if reply.len >= 20 && kind == libc::NLMSG_ERROR as usize {
        let b = &reply.bytes;
        return Err(-i32::from_ne_bytes([b[16], b[17], b[18], b[19]]));
    }
    if reply.len < ATTRIBUTES_AT || kind != usize::from(SOCK_DIAG_BY_FAMILY) {
        return Err(libc::EPROTO);
    }
    // Where there is no such connection, its listener answers; and what is left of one that is over is nobody's.
    if other.port != 0 && matches!(reply.bytes[STATE_AT], LISTEN | TIME_WAIT) {
        return Err(libc::ENOENT);
    }
    Ok(())
}
