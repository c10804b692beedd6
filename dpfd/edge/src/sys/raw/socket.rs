//! Sockets.

use super::{call, ioctl_int, Res};

/// recvfrom(2) into `len` bytes at `buf`.
///
/// # Safety
///
/// `buf` is writable for `len` bytes.
#[inline]
pub unsafe fn recv(fd: i32, buf: *mut u8, len: usize, flags: i32) -> Res {
    sys!(SYS_recvfrom, fd, buf, len, flags)
}

/// sendto(2) from `len` bytes at `buf`.
///
/// # Safety
///
/// `buf` is readable for `len` bytes.
#[inline]
pub unsafe fn send(fd: i32, buf: *const u8, len: usize, flags: i32) -> Res {
    sys!(SYS_sendto, fd, buf, len, flags)
}

/// recvmsg(2).
///
/// # Safety
///
/// `msg` and everything it points to is valid for the call.
pub unsafe fn recvmsg(fd: i32, msg: *mut libc::msghdr, flags: i32) -> Res {
    sys!(SYS_recvmsg, fd, msg, flags)
}

/// sendmsg(2).
///
/// # Safety
///
/// `msg` and everything it points to is valid for the call.
pub unsafe fn sendmsg(fd: i32, msg: *const libc::msghdr, flags: i32) -> Res {
    sys!(SYS_sendmsg, fd, msg, flags)
}

/// Bytes the kernel holds for reading (FIONREAD).
#[inline]
pub fn queued(fd: i32) -> Result<usize, i32> {
    ioctl_int(fd, libc::FIONREAD).map(|n| n.max(0) as usize)
}

/// getsockopt(2) into a plain value; how many bytes the kernel filled in.
pub fn getsockopt<T: Copy>(fd: i32, level: i32, name: i32, value: &mut T) -> Res {
    let mut len = size_of::<T>() as libc::socklen_t;
    sys!(SYS_getsockopt, fd, level, name, value as *mut T, &mut len as *mut libc::socklen_t)?;
    Ok(len as usize)
}

/// An int socket option.
pub fn getsockopt_int(fd: i32, level: i32, name: i32) -> Result<i32, i32> {
    let mut v = 0i32;
    getsockopt(fd, level, name, &mut v).map(|_| v)
}

/// Sets an int socket option.
pub fn setsockopt_int(fd: i32, level: i32, name: i32, value: i32) -> Res {
    setsockopt(fd, level, name, &value, size_of::<i32>())
}

/// setsockopt(2) with the first `len` bytes of a plain value.
pub fn setsockopt<T: Copy>(fd: i32, level: i32, name: i32, value: &T, len: usize) -> Res {
    sys!(SYS_setsockopt, fd, level, name, value as *const T, len.min(size_of::<T>()))
}

/// Whether the close of this socket is a reset: SO_LINGER with no time.
pub fn resets_at_close(fd: i32) -> bool {
    linger(fd) == Some(0)
}

/// Whether the last close of this socket waits for what is to be sent: SO_LINGER with a time.
pub fn lingers_at_close(fd: i32) -> bool {
    linger(fd).is_some_and(|time| time != 0)
}

/// SO_LINGER's time, if it is on.
fn linger(fd: i32) -> Option<i32> {
    let mut linger = libc::linger { l_onoff: 0, l_linger: 0 };
    let told = getsockopt(fd, libc::SOL_SOCKET, libc::SO_LINGER, &mut linger).is_ok();
    (told && linger.l_onoff != 0).then_some(linger.l_linger)
}

/// From here on the close of this socket is a reset.
pub fn reset_at_close(fd: i32) {
    let linger = libc::linger { l_onoff: 1, l_linger: 0 };
    let _ = setsockopt(fd, libc::SOL_SOCKET, libc::SO_LINGER, &linger, size_of::<libc::linger>());
}

/// socket(2).
pub fn socket(domain: i32, kind: i32, protocol: i32) -> Result<i32, i32> {
    sys!(SYS_socket, domain, kind, protocol).map(|fd| fd as i32)
}

/// connect(2), bind(2): a call with an address.
///
/// # Safety
///
/// `addr` is readable for `len` bytes.
pub unsafe fn connect(fd: i32, addr: *const libc::sockaddr, len: u32) -> Res {
    sys!(SYS_connect, fd, addr, len)
}

/// bind(2).
///
/// # Safety
///
/// `addr` is readable for `len` bytes.
pub unsafe fn bind(fd: i32, addr: *const libc::sockaddr, len: u32) -> Res {
    sys!(SYS_bind, fd, addr, len)
}

/// listen(2).
pub fn listen(fd: i32, backlog: i32) -> Res {
    sys!(SYS_listen, fd, backlog)
}

/// accept4(2) without an address.
pub fn accept(fd: i32, flags: i32) -> Result<i32, i32> {
    sys!(SYS_accept4, fd, 0usize, 0usize, flags).map(|fd| fd as i32)
}

/// shutdown(2).
pub fn shutdown(fd: i32, how: i32) -> Res {
    sys!(SYS_shutdown, fd, how)
}

/// socketpair(2) of streams that block nobody and are closed on exec.
pub fn socket_pair() -> Result<[i32; 2], i32> {
    let mut pair = [0; 2];
    let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    sys!(SYS_socketpair, libc::AF_UNIX, kind, 0usize, pair.as_mut_ptr())?;
    Ok(pair)
}

/// Whether a descriptor is an AF_UNIX socket of streams.
pub fn is_unix_stream(fd: i32) -> bool {
    let is = |name, value| getsockopt_int(fd, libc::SOL_SOCKET, name) == Ok(value);
    is(libc::SO_DOMAIN, libc::AF_UNIX) && is(libc::SO_TYPE, libc::SOCK_STREAM)
}
