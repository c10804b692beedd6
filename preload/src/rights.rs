//! A descriptor sent over an AF_UNIX socket, beside a few numbers (SCM_RIGHTS).

use core::mem::{size_of, zeroed};

use dp_edge::sys::raw;

use crate::{fdtable, own};

#[repr(C, align(8))]
struct Control<const N: usize>([u8; N]);

/// Room for one descriptor.
const ONE: usize = 32;
/// Room for all that one message may bring: 253 descriptors (SCM_MAX_FD) and who sent them. What has no room the kernel closes in
/// the middle of this thread's call, and that may wait ([`refuse`]).
const ALL: usize = 1088;

// SAFETY: they only reckon.
const _: () = unsafe {
    assert!(libc::CMSG_SPACE(4) as usize <= ONE);
    assert!((libc::CMSG_SPACE(253 * 4) + libc::CMSG_SPACE(size_of::<libc::ucred>() as u32)) as usize <= ALL);
};

/// What came beside the numbers.
pub enum Passed {
    /// A descriptor, the receiver's to close; close-on-exec.
    Descriptor(i32),
    /// Who sent it, by the kernel's word, where it was asked for (SO_PASSCRED).
    Sender(libc::ucred),
}

/// Sends `value` and descriptor `fd` to the other end of `to`, if there is room: nobody waits.
pub fn send<T>(to: i32, value: &mut T, fd: i32) -> Result<usize, i32> {
    let mut iov = libc::iovec { iov_base: (&raw mut *value).cast(), iov_len: size_of::<T>() };
    let mut control = Control([0; ONE]);
    // SAFETY: plain data, filled in below; CMSG_* stay inside the room for one descriptor.
    unsafe {
        let mut msg: libc::msghdr = zeroed();
        msg.msg_iov = &mut iov;
        msg.msg_iovlen = 1;
        msg.msg_control = (&raw mut control).cast();
        msg.msg_controllen = libc::CMSG_SPACE(size_of::<i32>() as u32) as _;
        let head = libc::CMSG_FIRSTHDR(&msg);
        (*head).cmsg_level = libc::SOL_SOCKET;
        (*head).cmsg_type = libc::SCM_RIGHTS;
        (*head).cmsg_len = libc::CMSG_LEN(size_of::<i32>() as u32) as _;
        libc::CMSG_DATA(head).cast::<i32>().write_unaligned(fd);
        raw::sendmsg(to, &msg, libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL)
    }
}

/// Receives one message from `from`, if there is one, into `value`; `each` gets what came beside it. How many bytes there were.
///
/// # Safety
///
/// Any bytes are a value of `T`.
// Its room on the stack is nobody's but its own.
#[inline(never)]
pub unsafe fn receive<T>(from: i32, value: &mut T, mut each: impl FnMut(Passed)) -> Result<usize, i32> {
    let mut iov = libc::iovec { iov_base: (&raw mut *value).cast(), iov_len: size_of::<T>() };
    let mut control = Control([0; ALL]);
    // SAFETY: plain data; CMSG_* walk what the kernel wrote within msg_controllen.
    unsafe {
        let mut msg: libc::msghdr = zeroed();
        msg.msg_iov = &mut iov;
        msg.msg_iovlen = 1;
        msg.msg_control = (&raw mut control).cast();
        msg.msg_controllen = ALL as _;
        let got = raw::recvmsg(from, &mut msg, libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC)?;
        let mut head = libc::CMSG_FIRSTHDR(&msg);
        while !head.is_null() {
            let bytes = (*head).cmsg_len as usize - libc::CMSG_LEN(0) as usize;
            let data = libc::CMSG_DATA(head);
            match ((*head).cmsg_level, (*head).cmsg_type) {
                (libc::SOL_SOCKET, libc::SCM_RIGHTS) => (0..bytes / size_of::<i32>())
                    .for_each(|i| each(Passed::Descriptor(data.cast::<i32>().add(i).read_unaligned()))),
                (libc::SOL_SOCKET, libc::SCM_CREDENTIALS) if bytes == size_of::<libc::ucred>() => {
                    each(Passed::Sender(data.cast::<libc::ucred>().read_unaligned()));
                }
                _ => {}
            }
            head = libc::CMSG_NXTHDR(&msg, head);
        }
        Ok(got)
    }
}

/// Closes a descriptor that somebody handed over, and that is not what it should be. A TCP socket that lingers would keep us
/// until its bytes have arrived, which whoever sent it can put off: it lingers no more. (In a race with a sender who sets that
/// again, or for a file of a file system that its sender runs, the close can wait all the same: SECURITY.md.)
pub fn refuse(fd: i32) {
    let linger = libc::linger { l_onoff: 0, l_linger: 0 };
    let _ = raw::setsockopt(fd, libc::SOL_SOCKET, libc::SO_LINGER, &linger, size_of::<libc::linger>());
    raw::close(fd);
}

/// Messages that an AF_UNIX socket holds at most, as its sender can set that without the administrator.
const MOST: usize = 1024;

/// Closes a descriptor of ours, if the number still stands for it: a socket to which strangers can send, and on which nobody
/// receives any more, in no other process either. What they have put there would be closed with it, and that may wait as well
/// ([`refuse`]).
pub fn close_from_strangers(fd: i32) {
    if own::is(fd) {
        shut(fd);
        own::forget(fd);
    }
}

/// The same where its other end goes on, and a relative may wait for what comes there: only what no other process has is taken out.
/// `since`: [`fdtable::starts`] before it was made.
pub fn close_unless_shared(fd: i32, since: u32) {
    if fdtable::starts() == since {
        take_all(fd);
    }
    own::forget(fd);
}

/// The same of a connection that was just made to a stranger, and is not kept.
pub fn close_stranger(fd: i32) {
    shut(fd);
    raw::close(fd);
}

fn shut(fd: i32) {
    // Nothing more comes in.
    let _ = raw::shutdown(fd, libc::SHUT_RD);
    take_all(fd);
}

/// Takes what strangers have put into a socket, and does nothing with it: so many messages, or pieces of a stream.
pub fn take_all(fd: i32) -> usize {
    // So a message without a byte is told from the end. A stream has none, and its end would have credentials.
    let of_messages = !raw::is_unix_stream(fd);
    let _ = raw::setsockopt_int(fd, libc::SOL_SOCKET, libc::SO_PASSCRED, 1);
    for n in 0..MOST {
        let (mut bytes, mut came) = ([0u8; 64], false);
        let refuse = |passed| {
            came = true;
            if let Passed::Descriptor(fd) = passed {
                refuse(fd);
            }
        };
        // SAFETY: bytes.
        let got = unsafe { receive(fd, &mut bytes, refuse) };
        if !got.is_ok_and(|n| n > 0 || came && of_messages) {
            return n;
        }
    }
    MOST
}

#[cfg(test)]
mod tests;
