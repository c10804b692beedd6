//! What the kernel says of the device `lo`, which carries each connection that could be a channel.

use dp_channel::tcp;
use dp_edge::sys::raw;

/// `lo` has this number in every network namespace (LOOPBACK_IFINDEX).
const LOOPBACK: i32 = 1;
/// nlmsghdr of 16 bytes, ifinfomsg of 16 with the device's number at 4. A reply has the same, and attributes behind.
const HEADERS: usize = 16 + 16;
/// The attribute with the name of the device's queueing discipline (linux/if_link.h).
const IFLA_QDISC: usize = 6;
/// That of a device that queues nothing, with the NUL that ends it.
const NOTHING: &[u8] = b"noqueue\0";

/// Whether `lo` queues nothing in the network namespace `netns`, as it does unless an administrator has changed that.
/// Takes five system calls, and waits for whoever changes devices.
pub fn queues_nothing(netns: u64) -> bool {
    let Ok(fd) = raw::socket(libc::AF_NETLINK, libc::SOCK_RAW | libc::SOCK_CLOEXEC, libc::NETLINK_ROUTE)
    else {
        return false;
    };
    // The answer is about the namespace that this thread is in, which need not be the connection's.
    let nothing = netns != 0 && tcp::netns(fd) == netns && is_noqueue(fd).is_ok_and(|is| is);
    raw::close(fd);
    nothing
}

fn is_noqueue(fd: i32) -> Result<bool, i32> {
    let mut request = [0u8; HEADERS];
    let mut put = |at: usize, bytes: &[u8]| request[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, &(HEADERS as u32).to_ne_bytes());
    put(4, &libc::RTM_GETLINK.to_ne_bytes());
    put(6, &(libc::NLM_F_REQUEST as u16).to_ne_bytes());
    put(20, &LOOPBACK.to_ne_bytes());
    // The name comes behind some 600 bytes; what follows is cut off. A thread's stack may be a small one.
    let mut reply = [0u8; 896];
    // SAFETY: the request's buffer.
    unsafe { raw::send(fd, request.as_ptr(), request.len(), 0)? };
    // The kernel has answered inside of the send.
    // SAFETY: the reply's buffer.
    let len = unsafe { raw::recv(fd, reply.as_mut_ptr(), reply.len(), libc::MSG_DONTWAIT)? };
    let reply = reply.get(..len).unwrap_or(&[]);
    Ok(attribute(reply, IFLA_QDISC) == Some(NOTHING))
}

fn attribute(reply: &[u8], kind: usize) -> Option<&[u8]> {
    let u16_at = |at: usize| Some(usize::from(u16::from_ne_bytes([*reply.get(at)?, *reply.get(at + 1)?])));
    if u16_at(4)? != usize::from(libc::RTM_NEWLINK) {
        return None;
    }
    let mut at = HEADERS;
    loop {
        let len = u16_at(at).filter(|&len| len >= 4)?;
        if u16_at(at + 2)? == kind {
            return reply.get(at + 4..at + len);
        }
        at += len.next_multiple_of(4);
    }
}
