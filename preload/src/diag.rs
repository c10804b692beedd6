//! Who owns a TCP socket: sock_diag, the kernel's own word (PROTOCOLS I: nobody is believed).

use core::mem::size_of;

use dpfd::sys::{raw, tcp::Addr};

const SOCK_DIAG_BY_FAMILY: u16 = 20;
const REQUEST: usize = 16 + 56;
/// Offset of idiag_uid behind the two headers' worth of reply: nlmsghdr 16, inet_diag_msg: 4 + 48 id,
/// expires, rqueue, wqueue.
const UID_AT: usize = 16 + 4 + 48 + 12;

/// Offset of idiag_state, and two of its values (linux/tcp_states.h).
const STATE_AT: usize = 16 + 1;
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

/// The owner of the TCP socket whose own end is `own` and whose other end is `other`.
///
/// # Errors
///
/// ENOENT when there is no such socket; else why the kernel could not be asked.
pub fn owner(own: Addr, other: Addr) -> Result<u32, i32> {
    let mapped = own.ip[..10] == [0; 10] && own.ip[10..12] == [0xff, 0xff];
    let result = ask(own, other, mapped);
    // A v4-mapped tuple may belong to an AF_INET or to a dual-stack AF_INET6 socket; the kernel's exact
    // look-up finds either by its IPv4 addresses, so there is nothing to ask twice.
    result
}

fn ask(own: Addr, other: Addr, v4: bool) -> Result<u32, i32> {
    let fd = raw::socket(libc::AF_NETLINK, libc::SOCK_RAW | libc::SOCK_CLOEXEC, libc::NETLINK_SOCK_DIAG)?;
    let result = exchange(fd, own, other, v4);
    raw::close(fd);
    result
}

fn exchange(fd: i32, own: Addr, other: Addr, v4: bool) -> Result<u32, i32> {
    let mut req = [0u8; REQUEST];
    put(&mut req, 0, &(REQUEST as u32).to_ne_bytes());
    put(&mut req, 4, &SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    put(&mut req, 6, &(libc::NLM_F_REQUEST as u16).to_ne_bytes());
    let family = if v4 { libc::AF_INET } else { libc::AF_INET6 };
    req[16] = family as u8;
    req[17] = libc::IPPROTO_TCP as u8;
    put(&mut req, 20, &u32::MAX.to_ne_bytes()); // all states
    put(&mut req, 24, &own.port.to_be_bytes());
    put(&mut req, 26, &other.port.to_be_bytes());
    address(&mut req, 28, &own, v4);
    address(&mut req, 44, &other, v4);
    put(&mut req, 60, &own.scope.to_ne_bytes());
    put(&mut req, 64, &[0xff; 8]); // no cookie
                                   // SAFETY: the request buffer.
    unsafe { raw::send(fd, req.as_ptr(), req.len(), 0)? };
    let mut reply = [0u8; 512];
    // SAFETY: the reply buffer.
    let n = unsafe { raw::recv(fd, reply.as_mut_ptr(), reply.len(), 0)? };
    let u16_at = |at: usize| u16::from_ne_bytes([reply[at], reply[at + 1]]);
    let i32_at = |at: usize| i32::from_ne_bytes([reply[at], reply[at + 1], reply[at + 2], reply[at + 3]]);
    if n >= 20 && u16_at(4) == libc::NLMSG_ERROR as u16 {
        return Err(-i32_at(16));
    }
    if n < UID_AT + size_of::<u32>() || u16_at(4) != SOCK_DIAG_BY_FAMILY {
        return Err(libc::EPROTO);
    }
    // Where there is no such connection, its listener answers; and what is left of one that is over is nobody's.
    if other.port != 0 && matches!(reply[STATE_AT], LISTEN | TIME_WAIT) {
        return Err(libc::ENOENT);
    }
    Ok(i32_at(UID_AT) as u32)
}
