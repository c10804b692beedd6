//! Introductions between processes: the door's name and the hello (PROTOCOLS I).
//!
//! A listening program has a door: an AF_UNIX SEQPACKET listener whose abstract name is made from the
//! listening address. Abstract names live in the network namespace, as loopback TCP does; they need no
//! directory and vanish with their owner. A client connects and sends one hello with its arena; it never waits. The
//! connection stays, as the link between the two processes ([`crate::link`]).

use core::mem::{size_of, zeroed};
use std::os::fd::BorrowedFd;

use dp_channel::family::{self, Id};
use dp_channel::layouts::{self, Range};
use dp_channel::tcp::Addr;
use dp_channel::unmapped;
use dp_edge::sys::raw;

use crate::rights::{self, Passed};

/// Doors of different families on one address (SO_REUSEPORT).
pub const COPIES: u8 = 16;
/// They are taken in order. A client looks at a few, and where one of them is there, at the next few.
pub const FEW: u8 = 4;
const MAGIC: u64 = u64::from_le_bytes(*b"DPHELLO1");

/// What a client says at a door, beside the arena's descriptor.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Hello {
    magic: u64,
    /// The oldest version by which it can be read.
    version: u32,
    /// The newest version that the client speaks; 0: `version`.
    newest: u32,
    /// The client's name of this connection, if it keeps it; else 0.
    link: u64,
}

/// What a hello brought.
#[derive(Debug, Clone, Copy)]
pub struct Said {
    /// The arena's descriptor.
    pub arena: i32,
    /// The client's name of the connection; 0: it does not keep it.
    pub link: u64,
}

/// Why a hello was not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bad {
    /// Nothing yet.
    Late,
    /// Nothing, and it has gone: it saw, once it knew whose door this is, that it has told enough strangers. Or it was killed.
    Gone,
    /// Not a hello at all, or without a descriptor.
    Shape,
    /// Another version.
    Version,
}

fn hex(out: &mut [u8], bytes: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for (i, b) in bytes.iter().enumerate() {
        out[2 * i] = DIGITS[usize::from(b >> 4)];
        out[2 * i + 1] = DIGITS[usize::from(b & 15)];
    }
}

/// The abstract address of door `copy` of the listener at `addr`.
pub fn door_address(addr: Addr, copy: u8) -> (libc::sockaddr_un, u32) {
    // SAFETY: plain data.
    let mut un: libc::sockaddr_un = unsafe { zeroed() };
    un.sun_family = libc::AF_UNIX as _;
    let mut name = *b"\0dp-door-1/00000000000000000000000000000000/0000/0";
    hex(&mut name[11..43], &addr.ip);
    hex(&mut name[44..48], &addr.port.to_be_bytes());
    name[49] = b"0123456789abcdef"[usize::from(copy % COPIES)];
    for (to, from) in un.sun_path.iter_mut().zip(name) {
        *to = from as _;
    }
    (un, (core::mem::offset_of!(libc::sockaddr_un, sun_path) + name.len()) as u32)
}

/// User, group and process at the other end of an AF_UNIX socket, by the kernel's word. They decide about shares, and
/// about nothing else.
pub fn peer_credentials(fd: i32) -> Option<libc::ucred> {
    let mut cred = libc::ucred { pid: 0, uid: 65534, gid: 65534 };
    raw::getsockopt(fd, libc::SOL_SOCKET, libc::SO_PEERCRED, &mut cred).ok().map(|_| cred)
}

const SO_PEERPIDFD: i32 = 77;
const PID_FS_MAGIC: i64 = 0x5049_4446;

/// The process that opened the door: of a connection to it, or of the door itself. Both sides of a door get the same answer,
/// and no two processes ever have the same.
///
/// Since Linux 6.9 a process has an inode of its own, the same in all namespaces. Before, it is told by its number and
/// the time it began, and only where both sides are in one namespace.
pub fn opener(fd: i32) -> Option<Id> {
    let mut pidfd = -1i32;
    if raw::getsockopt(fd, libc::SOL_SOCKET, SO_PEERPIDFD, &mut pidfd).is_ok() && pidfd >= 0 {
        // SAFETY: statfs is plain data, all zero is a value of it.
        let mut fs: libc::statfs = unsafe { zeroed() };
        // SAFETY: fstatfs fills the struct it is given.
        let known = unsafe { libc::fstatfs(pidfd, &mut fs) } == 0;
        // SAFETY: the kernel has just made it for us.
        let key = unmapped::key(unsafe { BorrowedFd::borrow_raw(pidfd) });
        // By hand: the thread may be ended anywhere here, and nothing may have to be dropped then.
        raw::close(pidfd);
        if known && fs.f_type as i64 == PID_FS_MAGIC {
            let [device, inode] = key.ok()?;
            return Some([1, device, inode]);
        }
    }
    let pid = u32::try_from(peer_credentials(fd)?.pid).ok().filter(|&pid| pid != 0)?;
    let space = raw::pid_namespace()?;
    Some([2, (u64::from(space) << 32) | u64::from(pid), family::start_of(pid)?])
}

/// Sends the hello with `arena`; `link` is our name of the connection.
pub fn send_hello(door: i32, arena: i32, link: u64) -> Result<(), i32> {
    let Range { oldest, newest } = layouts::hello();
    rights::send(door, &mut Hello { magic: MAGIC, version: oldest, newest, link }, arena).map(drop)
}

/// Receives a hello; the arena's descriptor, close-on-exec. Descriptors beyond the first are closed.
pub fn recv_hello(conn: i32) -> Result<Said, Bad> {
    let mut hello = Hello { magic: 0, version: 0, newest: 0, link: 0 };
    let mut arena = None;
    let keep = |passed| match passed {
        Passed::Descriptor(fd) if arena.is_none() => arena = Some(fd),
        Passed::Descriptor(fd) => rights::refuse(fd),
        Passed::Sender(_) => {}
    };
    // SAFETY: numbers.
    let got = unsafe { rights::receive(conn, &mut hello, keep) };
    let bad = match (got, arena) {
        (Err(libc::EAGAIN), _) => Bad::Late,
        (Ok(0), _) => Bad::Gone,
        (Ok(n), Some(arena)) if n == size_of::<Hello>() && hello.magic == MAGIC => {
            if layouts::hello().common(Range::told(hello.version, hello.newest)).is_some() {
                return Ok(Said { arena, link: hello.link });
            }
            Bad::Version
        }
        _ => Bad::Shape,
    };
    arena.into_iter().for_each(rights::refuse);
    Err(bad)
}
