//! Endpoints that another process opened, come here by fork(2), exec(3) or SCM_RIGHTS.
//!
//! Their pools are the opener's; here they are what their descriptors are: one packet is one message.
//! `dp_write` sends plainly, and the opener's service, or the kernel, takes it to the target; `dp_read` copies the next
//! message into memory of its own, which lasts until `dp_fsync`, and `dp_recvfrom` to the program.

use std::collections::VecDeque;
use std::ffi::c_int;
use std::sync::{Mutex, MutexGuard, PoisonError};

use dp_edge::sys::{raw, unix};
use dpfd::driver::user::endpoint::MAX_MESSAGE;
use dpfd::driver::user::tag::Tag;
use dpfd::driver::{Sleep, Step};
use dpfd::sys::device;
use dpfd::sys::loaned::Copied;
use dpfd::{Addr, Error};

use crate::fault::{Fault, Res};

/// What an endpoint's descriptor is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Descriptor {
    /// A socket: the user-space driver.
    Socket,
    /// An open /dev/dp: the kernel driver.
    Device,
}

/// What was read here and not released.
#[derive(Debug)]
pub struct Foreign {
    pub descriptor: Descriptor,
    read: Mutex<Read>,
}

#[derive(Debug, Default)]
struct Read {
    loaned: VecDeque<Box<[u8]>>,
    peer: Addr,
}

/// Takes any packet: another process may read the one whose length was asked for. One for all endpoints; whoever
/// finds it taken, in a child of a fork for ever, makes one for the moment.
static SCRATCH: Mutex<Vec<u8>> = Mutex::new(Vec::new());

impl Foreign {
    pub fn new(descriptor: Descriptor) -> Foreign {
        Foreign { descriptor, read: Mutex::default() }
    }

    fn read(&self) -> MutexGuard<'_, Read> {
        self.read.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next message, loaned: its first byte, and its length; or where to sleep for it.
    pub fn recv(&self, fd: c_int) -> Res<Step<(*const u8, usize)>> {
        self.next(fd, |message, from| self.lend(message, from))
    }

    /// The next message, as far as `into` has room: its length; or as above.
    pub fn recv_from(&self, fd: c_int, into: &mut [u8]) -> Res<Step<Copied>> {
        self.next(fd, |message, from| {
            let n = message.len().min(into.len());
            into[..n].copy_from_slice(&message[..n]);
            self.read().peer = from;
            Copied::new(message.len(), from)
        })
    }

    /// What is made of the next message, and of who sent it.
    fn next<T>(&self, fd: c_int, take: impl FnOnce(&[u8], Addr) -> T) -> Res<Step<T>> {
        let mut moment = Vec::new();
        let mut shared = SCRATCH.try_lock();
        let buf: &mut Vec<u8> = shared.as_deref_mut().unwrap_or(&mut moment);
        if self.descriptor == Descriptor::Device {
            return self.next_of_device(fd, buf, take);
        }
        loop {
            let there = raw::queued(fd).map_err(|e| Fault::system("ioctl", e))?.max(longest_packet(fd));
            if buf.len() < there {
                buf.resize(there, 0);
            }
            let mut got = match unix::recv(fd, buf, libc::MSG_DONTWAIT) {
                Ok(got) => got,
                Err(libc::EAGAIN) if raw::is_nonblocking(fd) => return Err(Error::WouldBlock.into()),
                Err(libc::EAGAIN) => return Ok(Step::Wait(Sleep::Socket(None))),
                Err(libc::EINTR) => continue,
                Err(libc::ECONNRESET) => return Err(Fault::OpenerGone(fd)),
                Err(errno) => return Err(Fault::system("recvmsg", errno)),
            };
            let tag = got.fds[0].take().and_then(Tag::read);
            if tag.is_none() && got.len == 0 {
                if unix::wait(fd, 0, 0).is_ok_and(|events| events & libc::POLLHUP != 0) {
                    return Err(Fault::OpenerGone(fd));
                }
                continue; // a bell
            }
            let len = got.len.min(buf.len());
            return Ok(Step::Done(take(&buf[..len], tag.map_or(Addr::default(), |t| t.from))));
        }
    }

    fn next_of_device<T>(
        &self,
        fd: c_int,
        buf: &mut Vec<u8>,
        take: impl FnOnce(&[u8], Addr) -> T,
    ) -> Res<Step<T>> {
        if buf.len() < MAX_MESSAGE {
            // Untouched memory is not there yet.
            *buf = vec![0; MAX_MESSAGE];
        }
        match device::read_now(fd, buf) {
            Ok(0) if device::stat(fd).is_ok_and(|stat| stat.in_place != 0) => Err(Fault::OnlyOpener(fd)),
            Ok(len) => {
                let (nid, dpid) = device::peer(fd).unwrap_or_default();
                Ok(Step::Done(take(&buf[..len], Addr { nid, dpid })))
            }
            Err(libc::EAGAIN) if raw::is_nonblocking(fd) => Err(Error::WouldBlock.into()),
            Err(libc::EAGAIN) => Ok(Step::Wait(Sleep::Device)),
            Err(errno) => Err(Fault::system("preadv2", errno)),
        }
    }

    /// Keeps a message until it is released; where it is kept.
    fn lend(&self, message: &[u8], from: Addr) -> (*const u8, usize) {
        // An empty one has an address, too.
        let bytes: Box<[u8]> = if message.is_empty() { [0].into() } else { message.into() };
        let place = (bytes.as_ptr(), message.len());
        let mut read = self.read();
        read.peer = from;
        read.loaned.push_back(bytes);
        place
    }

    /// Releases the `n` oldest messages.
    pub fn release(&self, n: usize) -> Res<()> {
        let mut read = self.read();
        let loaned = read.loaned.len();
        if n > loaned {
            return Err(Error::NotLoaned { asked: n, loaned }.into());
        }
        read.loaned.drain(..n);
        Ok(())
    }

    /// The sender of what was read last.
    pub fn peer(&self) -> Addr {
        self.read().peer
    }

    /// Messages read and not released.
    pub fn loaned(&self) -> usize {
        self.read().loaned.len()
    }
}

/// What it is, if it can be an endpoint: a SEQPACKET socket of AF_UNIX, or the device.
pub fn descriptor(fd: c_int) -> Option<Descriptor> {
    let option = |name| raw::getsockopt_int(fd, libc::SOL_SOCKET, name);
    if option(libc::SO_DOMAIN) == Ok(libc::AF_UNIX) && option(libc::SO_TYPE) == Ok(libc::SOCK_SEQPACKET) {
        return Some(Descriptor::Socket);
    }
    device::stat(fd).is_ok().then_some(Descriptor::Device)
}

/// Longest message that a plain write takes, bytes.
pub fn longest(fd: c_int) -> usize {
    device::stat(fd).map_or_else(|_| longest_packet(fd), |stat| stat.max_message as usize)
}

/// The same of a socket; unix(7) keeps 32 bytes of the buffer for itself.
fn longest_packet(fd: c_int) -> usize {
    let size = raw::getsockopt_int(fd, libc::SOL_SOCKET, libc::SO_SNDBUF).unwrap_or(0);
    (size.max(32) - 32) as usize
}

/// Why a plain send failed.
pub fn send_fault(fd: c_int, len: usize, errno: c_int) -> Fault {
    match errno {
        libc::EPIPE | libc::ECONNRESET => Fault::OpenerGone(fd),
        libc::EBADF => Fault::NotOpen(fd),
        libc::EMSGSIZE => Error::TooLong { len, to: Addr::default(), limit: longest(fd) }.into(),
        errno => Fault::system("send", errno),
    }
}
