//! The plain connection between a relay and the stranger.

use dp_channel::family::Conn;
use dp_channel::tcp::{self, Name};
use dp_edge::sys::raw;

use crate::channel::Channel;

/// A TCP connection between the addresses of `fd`'s, on other ports: (the stranger's end, the relay's end).
pub fn pair(c: &Channel) -> Option<(i32, i32)> {
    let local = Name::local(c.fd)?.any_port();
    if !matches!(local.family(), libc::AF_INET | libc::AF_INET6) {
        return None;
    }
    let socket = || raw::socket(local.family(), libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0).ok();
    let listener = socket()?;
    let far = socket();
    let near = far.and_then(|far| {
        local.bind(listener).ok()?;
        raw::listen(listener, 8).ok()?;
        connect(c.fd, far, listener)?;
        accepted(listener, far)
    });
    raw::close(listener);
    match (near, far) {
        (Some(near), Some(far)) => {
            like(near, c);
            let _ = raw::setsockopt_int(far, libc::IPPROTO_TCP, libc::TCP_NODELAY, 1);
            Some((near, far))
        }
        (_, far) => {
            far.into_iter().for_each(raw::close);
            None
        }
    }
}

// These two have frames of their own: a thread's stack may be a small one.

/// Connects `far`, under the name of the peer of `fd` if possible. Both ends are ours, so it does not wait.
#[inline(never)]
fn connect(fd: i32, far: i32, listener: i32) -> Option<usize> {
    let _ = Name::peer(fd)?.any_port().bind(far);
    Name::local(listener)?.connect(far).ok()
}

/// The other end of `far`: somebody else may have come in between.
#[inline(never)]
fn accepted(listener: i32, far: i32) -> Option<i32> {
    (0..16).find_map(|_| {
        let near = raw::accept(listener, libc::SOCK_CLOEXEC).ok()?;
        if tcp::peer(near) == tcp::local(far) {
            return Some(near);
        }
        raw::close(near);
        None
    })
}

/// Gives `to` what the program had set on the connection.
fn like(to: i32, c: &Channel) {
    if raw::is_nonblocking(c.fd) {
        let flags = raw::fcntl(to, libc::F_GETFL, 0).unwrap_or(0);
        let _ = raw::fcntl(to, libc::F_SETFL, flags | libc::O_NONBLOCK as usize);
    }
    let _ = raw::setsockopt_int(to, libc::IPPROTO_TCP, libc::TCP_NODELAY, i32::from(c.has(Conn::NODELAY)));
    for name in [libc::SO_KEEPALIVE, libc::SO_LINGER, libc::SO_RCVTIMEO, libc::SO_SNDTIMEO] {
        let mut value = [0u64; 4];
        if let Ok(len) = raw::getsockopt(c.fd, libc::SOL_SOCKET, name, &mut value) {
            let _ = raw::setsockopt(to, libc::SOL_SOCKET, name, &value, len);
        }
    }
}
