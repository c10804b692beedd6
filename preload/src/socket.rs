//! What the kernel says of a socket, taking nothing from it.

use dp_channel::family::Conn;
use dp_channel::tcp;
use dp_edge::sys::raw;

#[cfg(test)]
mod tests;

/// What the kernel says of a descriptor, taking nothing: neither bytes nor a pending error (W13).
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kernel {
    /// Neither bytes nor an end.
    Nothing,
    /// Something to receive.
    Bytes,
    /// An end of the stream, and nothing before it.
    Fin,
    /// The connection is over, by an error.
    Error,
}

/// Whether the peer has shut down, closed or died. Bytes may still lie before that.
pub fn ended(fd: i32) -> bool {
    events(fd) & (libc::POLLRDHUP | libc::POLLHUP) != 0
}

/// Whether the connection is over in both directions. One that has not shut down was reset.
pub fn is_over(fd: i32) -> bool {
    events(fd) & libc::POLLHUP != 0
}

/// Whether a send by the kernel would find room, or fail at once.
pub fn has_room(fd: i32) -> bool {
    poll_now(fd, libc::POLLOUT) & libc::POLLOUT != 0
}

/// What there is to receive, in poll's bits.
fn events(fd: i32) -> i16 {
    poll_now(fd, libc::POLLIN | libc::POLLRDHUP)
}

/// What it says of `fd`.
pub fn state(fd: i32) -> Kernel {
    let revents = events(fd);
    // Something in the error queue alone (MSG_ZEROCOPY, time stamps) is no end: an error closes, and hangs up.
    if revents & libc::POLLNVAL != 0
        || revents & (libc::POLLERR | libc::POLLHUP) == libc::POLLERR | libc::POLLHUP
    {
        return Kernel::Error;
    }
    if revents & (libc::POLLIN | libc::POLLRDHUP | libc::POLLHUP) == 0 {
        return Kernel::Nothing;
    }
    match raw::queued(fd) {
        Ok(0) | Err(_) if revents & (libc::POLLRDHUP | libc::POLLHUP) != 0 => Kernel::Fin,
        Ok(0) if at_mark(fd) => Kernel::Bytes,
        Ok(0) => Kernel::Nothing,
        _ => Kernel::Bytes,
    }
}

/// poll(2) without waiting.
fn poll_now(fd: i32, events: i16) -> i16 {
    let mut list = [libc::pollfd { fd, events, revents: 0 }];
    match raw::poll_now(&mut list) {
        Ok(_) => list[0].revents,
        Err(libc::EINVAL) => without_poll(fd, events),
        Err(_) => 0,
    }
}

/// The same of a TCP socket where the process may not have a single descriptor, so that the kernel refuses any list: somebody else
/// has set that limit (`ops/sandbox.rs`).
#[cold]
fn without_poll(fd: i32, events: i16) -> i16 {
    let (ended, over) = tcp::ends(fd);
    let ending = if over { libc::POLLHUP } else { 0 } | if ended { libc::POLLRDHUP & events } else { 0 };
    let reads = ended || raw::queued(fd).is_ok_and(|n| n > 0);
    let writes = over || raw::ioctl_int(fd, libc::TIOCOUTQ).is_ok_and(|n| n == 0);
    ending | if reads { libc::POLLIN & events } else { 0 } | if writes { libc::POLLOUT & events } else { 0 }
}

/// Whether the next byte is the urgent one, or follows it (asm-generic/sockios.h).
const SIOCATMARK: libc::c_ulong = 0x8905;

/// Whether an urgent byte comes next, or was taken here: FIONREAD says 0 then.
pub fn at_mark(fd: i32) -> bool {
    raw::ioctl_int(fd, SIOCATMARK) == Ok(1)
}

/// What a receive of one byte would say now.
pub fn peek_one(fd: i32) -> Result<usize, i32> {
    let mut byte = 0u8;
    // SAFETY: one byte.
    unsafe { raw::recv(fd, &mut byte, 1, libc::MSG_PEEK | libc::MSG_DONTWAIT) }
}

/// SO_RCVTIMEO with a longer time of day (asm-generic/socket.h).
pub const RCVTIMEO_NEW: i32 = 66;

/// A time limit of the socket's in nanoseconds; `None` is for ever.
pub fn limit(fd: i32, name: i32) -> Option<u64> {
    let mut t = libc::timeval { tv_sec: 0, tv_usec: 0 };
    raw::getsockopt(fd, libc::SOL_SOCKET, name, &mut t).ok()?;
    let ns = (t.tv_sec as u64).saturating_mul(1_000_000_000).saturating_add(t.tv_usec as u64 * 1000);
    (ns > 0).then_some(ns)
}

/// Options by which a receive is told in its control message when bytes came.
pub const TIMES: [i32; 3] = [libc::SO_TIMESTAMP, libc::SO_TIMESTAMPNS, libc::SO_TIMESTAMPING];

/// A low-water mark above one byte: a bell alone would wake nobody (W14). Or peeks that go on where the last one ended,
/// which the kernel counts. Or receives that are told when bytes came. Or somebody who waits for SIGIO, which comes for the
/// kernel's bytes only (W3).
pub fn is_unsuited(fd: i32) -> bool {
    raw::getsockopt_int(fd, libc::SOL_SOCKET, libc::SO_RCVLOWAT).is_ok_and(|n| n > 1)
        || raw::getsockopt_int(fd, libc::SOL_SOCKET, libc::SO_PEEK_OFF).is_ok_and(|n| n >= 0)
        || TIMES.iter().any(|&name| raw::getsockopt_int(fd, libc::SOL_SOCKET, name).is_ok_and(|n| n != 0))
        || raw::fcntl(fd, libc::F_GETFL, 0).is_ok_and(|f| f as i32 & libc::O_ASYNC != 0)
}

/// Whether `fd` may be the socket of connection `c`, as far as addresses tell.
pub fn stands_for(fd: i32, c: &Conn) -> bool {
    // Not connected yet, or reset.
    is(fd, c) || tcp::peer(fd).is_none() && tcp::is_tcp(fd)
}

/// Whether `fd` is the socket of connection `c`, by its addresses: of one that was reset, nobody can tell.
pub fn is(fd: i32, c: &Conn) -> bool {
    let same = |known: u16, found: Option<tcp::Addr>| known == 0 || found.is_some_and(|a| a.port == known);
    tcp::peer(fd).is_some_and(|peer| peer.port == c.peer().port) && same(c.local().port, tcp::local(fd))
}
