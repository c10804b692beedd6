//! What the kernel knows of a TCP socket: its positions, cookies and addresses (PROTOCOLS E5, E9).

use crate::slot::Tuple;
use dp_edge::sys::raw;

/// The first 192 bytes of struct tcp_info (linux/tcp.h); append-only in the kernel.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Info([u8; 192]);

const STATE: usize = 0;
const OPTIONS: usize = 5;
const BYTES_ACKED: usize = 120;
const BYTES_RECEIVED: usize = 128;
const NOTSENT: usize = 144;
/// Data travelled in the SYN (TCP_FASTOPEN): positions would need another correction.
const OPT_SYN_DATA: u8 = 32;

impl Info {
    fn of(fd: i32) -> Result<Info, i32> {
        let mut info = Info([0; 192]);
        let n = raw::getsockopt(fd, libc::IPPROTO_TCP, libc::TCP_INFO, &mut info)?;
        // Kernels before 4.1 do not count bytes.
        if n < BYTES_RECEIVED + 8 {
            return Err(libc::ENOPROTOOPT);
        }
        Ok(info)
    }
    fn u64_at(&self, at: usize) -> u64 {
        let mut b = [0; 8];
        b.copy_from_slice(&self.0[at..at + 8]);
        u64::from_ne_bytes(b)
    }
    fn u32_at(&self, at: usize) -> u32 {
        let mut b = [0; 4];
        b.copy_from_slice(&self.0[at..at + 4]);
        u32::from_ne_bytes(b)
    }
    fn state(&self) -> u8 {
        self.0[STATE]
    }
    /// FINs among the bytes that are counted in one direction, if `fins` knows of the socket's state.
    fn fins(&self, fins: fn(u8) -> Option<u64>) -> Option<u64> {
        fins(self.state()).filter(|_| self.0[OPTIONS] & OPT_SYN_DATA == 0)
    }
}

/// States of struct tcp_info, tcp_states.h. What is closed says no more whether a FIN came, or a reset.
const ESTABLISHED: u8 = 1;
const FIN_WAIT1: u8 = 4;
const FIN_WAIT2: u8 = 5;
const TIME_WAIT: u8 = 6;
const CLOSE: u8 = 7;
const CLOSE_WAIT: u8 = 8;
const LAST_ACK: u8 = 9;
const CLOSING: u8 = 11;
/// Both have ended, or there is no connection any more.
const OVER: [u8; 4] = [TIME_WAIT, CLOSE, LAST_ACK, CLOSING];

/// No FIN either way.
fn none(state: u8) -> Option<u64> {
    (state == ESTABLISHED).then_some(0)
}

/// Whether ours is among the bytes that are acknowledged or queued.
fn sent(state: u8) -> Option<u64> {
    match state {
        ESTABLISHED | CLOSE_WAIT => Some(0),
        FIN_WAIT1 | FIN_WAIT2 | LAST_ACK | CLOSING => Some(1),
        _ => None,
    }
}

/// Whether the peer's is among the bytes that were received. It is never among those that are queued [kernel].
fn received(state: u8) -> Option<u64> {
    match state {
        ESTABLISHED | FIN_WAIT1 | FIN_WAIT2 => Some(0),
        CLOSE_WAIT | LAST_ACK | CLOSING => Some(1),
        _ => None,
    }
}

/// Snapshots are taken again when the number moved between two reads; this often.
const TRIES: usize = 16;

/// The count at `at` of struct tcp_info, what is queued in that direction, FINs in either, and the rest, at one moment.
fn counts(
    fd: i32,
    at: usize,
    queue: libc::c_ulong,
    fins: fn(u8) -> Option<u64>,
) -> Option<(u64, u64, u64, Info)> {
    for _ in 0..TRIES {
        let before = Info::of(fd).ok()?;
        let queued = raw::ioctl_int(fd, queue).ok()?;
        let after = Info::of(fd).ok()?;
        let n = before.fins(fins)?;
        if before.u64_at(at) == after.u64_at(at) && before.state() == after.state() {
            return Some((before.u64_at(at), queued.max(0) as u64, n, after));
        }
    }
    None
}

fn put(fd: i32, client: bool, fins: fn(u8) -> Option<u64>) -> Option<Written> {
    let (acked, queued, fins, info) = counts(fd, BYTES_ACKED, libc::TIOCOUTQ, fins)?;
    let bytes = (acked + queued).checked_sub(fins + u64::from(client))?;
    Some(Written { bytes, is_all_on_its_way: info.u32_at(NOTSENT) == 0 })
}

fn taken(fd: i32, fins: fn(u8) -> Option<u64>) -> Option<u64> {
    let (received, queued, fins, _) = counts(fd, BYTES_RECEIVED, libc::FIONREAD, fins)?;
    received.checked_sub(fins + queued)
}

/// What a socket has put on TCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Written {
    /// Bytes, acknowledged and queued.
    pub bytes: u64,
    /// Whether none of them wait for room at the other end, or for more bytes, as MSG_MORE has it and splice(2). Kernels before
    /// 4.6 do not say.
    pub is_all_on_its_way: bool,
}

/// What this socket has put on TCP. Only while no send is under way.
///
/// `client`: the connecting side's acknowledged bytes include the SYN. `None` unless the connection is
/// established in both directions.
pub fn written(fd: i32, client: bool) -> Option<Written> {
    put(fd, client, none)
}

/// What waits for more bytes goes now.
pub fn push(fd: i32) {
    // The kernel pushes whenever this is set; that of a channel is set (PROTOCOLS W14).
    let _ = raw::setsockopt_int(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY, 1);
}

/// Its bytes for whoever counts what a dead sender has put there: also after either end has shut down. `None` where the
/// connection is over in both directions.
pub fn written_so_far(fd: i32, client: bool) -> Option<u64> {
    put(fd, client, sent).map(|written| written.bytes)
}

/// Bytes the program has taken from TCP: received less queued. Only while no receive is under way. `None` unless the
/// connection is established in both directions.
pub fn consumed(fd: i32) -> Option<u64> {
    taken(fd, none)
}

/// As [`written_so_far`], of a dead receiver.
pub fn consumed_so_far(fd: i32) -> Option<u64> {
    taken(fd, received)
}

/// Whether the peer has ended, and whether both have.
pub fn ends(fd: i32) -> (bool, bool) {
    let state = Info::of(fd).map_or(ESTABLISHED, |info| info.0[STATE]);
    let over = OVER.contains(&state);
    (over || state == CLOSE_WAIT, over)
}

/// Ends the connection of a socket, at both ends, by a reset; the next call on it gets ECONNRESET.
pub fn disconnect(fd: i32) {
    // AF_UNSPEC and nothing else.
    let nowhere = [0u64; 2];
    // SAFETY: an address of 16 bytes.
    let ended = unsafe { raw::connect(fd, nowhere.as_ptr().cast(), 16) };
    // Linux 6.4 and 6.5 refuse that with EBUSY while another thread waits on the socket: then both ends get an end of the stream.
    if ended.is_err() {
        let _ = raw::shutdown(fd, libc::SHUT_RDWR);
    }
}

/// Whether the socket is a TCP socket (and not, say, MPTCP or SMC).
pub fn is_tcp(fd: i32) -> bool {
    raw::getsockopt_int(fd, libc::SOL_SOCKET, libc::SO_PROTOCOL) == Ok(libc::IPPROTO_TCP)
}

/// SO_COOKIE: tells this socket from every other one since boot.
pub fn cookie(fd: i32) -> Option<u64> {
    let mut c = 0u64;
    raw::getsockopt(fd, libc::SOL_SOCKET, libc::SO_COOKIE, &mut c).ok().map(|_| c)
}

/// SO_NETNS_COOKIE: tells the network namespace; 0 where the kernel does not know it (before 5.14).
pub fn netns(fd: i32) -> u64 {
    let mut c = 0u64;
    raw::getsockopt(fd, libc::SOL_SOCKET, libc::SO_NETNS_COOKIE, &mut c).map_or(0, |_| c)
}

/// SO_MAX_PACING_RATE: bytes a second that the socket may send at most; all ones: no limit.
pub fn pacing(fd: i32) -> Option<u64> {
    let mut rate = 0u64;
    let n = raw::getsockopt(fd, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, &mut rate).ok()?;
    // A kernel of 32 bits has half of it.
    (n == size_of::<u64>()).then_some(rate)
}

/// Sets what [`pacing`] tells.
pub fn set_pacing(fd: i32, rate: u64) -> bool {
    raw::setsockopt(fd, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, &rate, size_of::<u64>()).is_ok()
}

/// Whether the connection of `fd` to `peer` does not leave the host. The kernel takes that address for the other end as well, or
/// another one of its own, and goes by its loopback then, which has longer segments than nearly all other devices: so mostly
/// two system calls tell.
pub fn is_within_host(fd: i32, local: impl FnOnce() -> Option<Addr>, peer: Addr) -> bool {
    let is_long =
        || raw::getsockopt_int(fd, libc::IPPROTO_TCP, libc::TCP_MAXSEG).is_ok_and(|mss| mss >= LOOPBACK_MSS);
    peer.is_loopback()
        || local().is_some_and(|local| (local.ip, local.scope) == (peer.ip, peer.scope))
        || is_long() && is_own(peer)
}

/// Segments of the loopback are of 64 KiB, or of half the peer's window.
const LOOPBACK_MSS: i32 = 16 << 10;

/// Whether the host has this address, in the network namespace of this thread: a socket can be bound to it.
fn is_own(addr: Addr) -> bool {
    let v4 = addr.ip().is_ipv4();
    let family = if v4 { libc::AF_INET } else { libc::AF_INET6 };
    let Ok(fd) = raw::socket(family, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) else { return false };
    let bound = if v4 {
        let [.., a, b, c, d] = addr.ip;
        let name = libc::sockaddr_in {
            sin_family: family as u16,
            sin_port: 0,
            sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes([a, b, c, d]) },
            sin_zero: [0; 8],
        };
        // SAFETY: the name outlives the call.
        unsafe { raw::bind(fd, (&raw const name).cast(), size_of_val(&name) as u32) }
    } else {
        let name = libc::sockaddr_in6 {
            sin6_family: family as u16,
            sin6_port: 0,
            sin6_flowinfo: 0,
            sin6_addr: libc::in6_addr { s6_addr: addr.ip },
            sin6_scope_id: addr.scope,
        };
        // SAFETY: as above.
        unsafe { raw::bind(fd, (&raw const name).cast(), size_of_val(&name) as u32) }
    };
    raw::close(fd);
    bound.is_ok()
}

/// Whether the connection that came to `local` was made to another address, or another port, and translated on its way (NAT).
pub fn is_translated(fd: i32, local: Addr) -> bool {
    meant(fd, local).is_some_and(|meant| (meant.ip, meant.port) != (local.ip, local.port))
}

/// Whether netfilter follows the connection of `fd`, whose own end is `local`: only then can it be translated here.
pub fn is_followed(fd: i32, local: Addr) -> bool {
    meant(fd, local).is_some()
}

/// To which address the connection was made, where netfilter follows it.
fn meant(fd: i32, local: Addr) -> Option<Addr> {
    let mut meant = [0u64; 16];
    let level = if local.ip().is_ipv4() { libc::SOL_IP } else { libc::SOL_IPV6 };
    // Fails where nothing translates, or nobody follows connections.
    let len = raw::getsockopt(fd, level, SO_ORIGINAL_DST, &mut meant).ok()?;
    // SAFETY: so many bytes were written there.
    unsafe { Addr::read(meant.as_ptr().cast(), len.min(size_of_val(&meant))) }
}

/// Of netfilter, for both families (linux/netfilter_ipv4.h).
const SO_ORIGINAL_DST: i32 = 80;

/// An address as this crate keeps it: v4-mapped, with port and scope.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Addr {
    /// The address; IPv4 as ::ffff:a.b.c.d.
    pub ip: [u8; 16],
    /// Host order.
    pub port: u16,
    /// IPv6 scope id, else 0.
    pub scope: u32,
}

impl Addr {
    /// From a socket address; `None` for anything but AF_INET and AF_INET6.
    ///
    /// # Safety
    ///
    /// `p` is readable for `len` bytes.
    pub unsafe fn read(p: *const libc::sockaddr, len: usize) -> Option<Addr> {
        if p.is_null() || len < 2 {
            return None;
        }
        // SAFETY: two bytes are there; sockaddr may be unaligned in a program's buffer.
        let family = i32::from(unsafe { p.cast::<u16>().read_unaligned() });
        if family == libc::AF_INET && len >= size_of::<libc::sockaddr_in>() {
            // SAFETY: as long as the struct by the check above.
            let a = unsafe { p.cast::<libc::sockaddr_in>().read_unaligned() };
            let v4 = std::net::Ipv4Addr::from(u32::from_be(a.sin_addr.s_addr));
            let ip = v4.to_ipv6_mapped().octets();
            return Some(Addr { ip, port: u16::from_be(a.sin_port), scope: 0 });
        }
        if family == libc::AF_INET6 && len >= size_of::<libc::sockaddr_in6>() {
            // SAFETY: as long as the struct by the check above.
            let a = unsafe { p.cast::<libc::sockaddr_in6>().read_unaligned() };
            return Some(Addr {
                ip: a.sin6_addr.s6_addr,
                port: u16::from_be(a.sin6_port),
                scope: a.sin6_scope_id,
            });
        }
        None
    }

    /// As std has it; v4-mapped becomes IPv4.
    pub fn ip(&self) -> std::net::IpAddr {
        std::net::Ipv6Addr::from(self.ip).to_canonical()
    }

    /// 127/8 or ::1.
    pub fn is_loopback(&self) -> bool {
        self.ip().is_loopback()
    }

    /// The same as the destination of a connect: to no address is to this host.
    pub fn towards(&self) -> std::net::IpAddr {
        match self.ip() {
            std::net::IpAddr::V4(ip) if ip.is_unspecified() => std::net::Ipv4Addr::LOCALHOST.into(),
            std::net::IpAddr::V6(ip) if ip.is_unspecified() => std::net::Ipv6Addr::LOCALHOST.into(),
            ip => ip,
        }
    }

    /// 0.0.0.0 or ::.
    pub fn is_any(&self) -> bool {
        self.ip().is_unspecified()
    }
}

/// A socket's name as the kernel writes it, whatever belongs to it.
pub struct Name {
    bytes: [u64; 16],
    len: u32,
}

impl Name {
    fn of(fd: i32, call: libc::c_long) -> Option<Name> {
        let mut n = Name { bytes: [0; 16], len: 128 };
        let args = [fd as usize, n.bytes.as_mut_ptr() as usize, &raw mut n.len as usize, 0, 0, 0];
        // SAFETY: the buffer is as long as `len` says.
        unsafe { raw::call(call, args) }.ok()?;
        n.len = n.len.min(128);
        Some(n)
    }

    /// getsockname(2).
    pub fn local(fd: i32) -> Option<Name> {
        Name::of(fd, libc::SYS_getsockname)
    }

    /// getpeername(2).
    pub fn peer(fd: i32) -> Option<Name> {
        Name::of(fd, libc::SYS_getpeername)
    }

    fn ptr(&self) -> *const libc::sockaddr {
        self.bytes.as_ptr().cast()
    }

    /// As this crate keeps it; `None` for anything but AF_INET and AF_INET6.
    pub fn addr(&self) -> Option<Addr> {
        // SAFETY: `len` bytes were written there, and no more than there is room for.
        unsafe { Addr::read(self.ptr(), self.len as usize) }
    }

    /// AF_INET and the like.
    pub fn family(&self) -> i32 {
        // SAFETY: every address begins with its family.
        i32::from(unsafe { (*self.ptr()).sa_family })
    }

    /// The same address with port 0: both families of TCP keep it in the same place.
    pub fn any_port(mut self) -> Name {
        // SAFETY: 128 bytes, longer than either address.
        unsafe { (*self.bytes.as_mut_ptr().cast::<libc::sockaddr_in>()).sin_port = 0 };
        self
    }

    /// bind(2).
    pub fn bind(&self, fd: i32) -> raw::Res {
        // SAFETY: the name outlives the call.
        unsafe { raw::bind(fd, self.ptr(), self.len) }
    }

    /// connect(2).
    pub fn connect(&self, fd: i32) -> raw::Res {
        // SAFETY: as above.
        unsafe { raw::connect(fd, self.ptr(), self.len) }
    }
}

/// getsockname(2).
pub fn local(fd: i32) -> Option<Addr> {
    Name::local(fd)?.addr()
}

/// getpeername(2).
pub fn peer(fd: i32) -> Option<Addr> {
    Name::peer(fd)?.addr()
}

/// The connection's tuple as its client sees it.
pub fn tuple(client: Addr, server: Addr) -> Tuple {
    Tuple {
        client: client.ip,
        server: server.ip,
        client_port: client.port,
        server_port: server.port,
        scope: client.scope.max(server.scope),
    }
}
