//! What carries messages or bytes from one process to the other: sockets, pipes.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use nix::fcntl::{fcntl, FcntlArg, OFlag};
use nix::unistd::{read, write};

use super::helper::alive;

/// One end of a transport that carries messages or bytes.
pub trait Link {
    /// Sends all of `message`, waiting for room.
    fn send(&mut self, message: &[u8]) -> io::Result<()>;

    /// Receives what comes first, waiting for it: a message; of a stream, what is there. Never 0.
    fn recv(&mut self, into: &mut [u8]) -> io::Result<usize>;

    /// Receives exactly `into`.
    #[inline(always)]
    fn recv_all(&mut self, into: &mut [u8]) -> io::Result<()> {
        let mut n = 0;
        while n < into.len() {
            n += self.recv(&mut into[n..])?;
        }
        Ok(())
    }
}

/// Where a system call for each message outweighs finding the function.
impl Link for Box<dyn Link> {
    fn send(&mut self, message: &[u8]) -> io::Result<()> {
        (**self).send(message)
    }

    fn recv(&mut self, into: &mut [u8]) -> io::Result<usize> {
        (**self).recv(into)
    }
}

/// What a call makes of it that a signal can end, that of the clock or of a process that was stopped and goes on: it does so
/// again, as long as the other process is there.
#[inline(always)]
pub fn again<T>(mut call: impl FnMut() -> nix::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(nix::Error::EINTR) => alive()?,
            other => return Ok(other?),
        }
    }
}

/// An end of a socket or of two pipes.
pub struct Fds {
    to: OwnedFd,
    from: OwnedFd,
}

impl Fds {
    pub fn new([to, from]: [OwnedFd; 2]) -> Fds {
        Fds { to, from }
    }
}

/// What to wait on for the next message.
impl AsFd for Fds {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.from.as_fd()
    }
}

impl Link for Fds {
    fn send(&mut self, mut message: &[u8]) -> io::Result<()> {
        while !message.is_empty() {
            message = &message[again(|| write(&self.to, message))?..];
        }
        Ok(())
    }

    fn recv(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match again(|| read(&self.from, into))? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            n => Ok(n),
        }
    }
}

/// An end of a socket that never sleeps.
pub struct Spinning(Fds);

impl Spinning {
    pub fn new(fds: [OwnedFd; 2]) -> io::Result<Spinning> {
        // Both are the same socket.
        fcntl(&fds[0], FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        Ok(Spinning(Fds::new(fds)))
    }
}

impl Link for Spinning {
    fn send(&mut self, mut message: &[u8]) -> io::Result<()> {
        while !message.is_empty() {
            match write(&self.0.to, message) {
                Ok(n) => message = &message[n..],
                Err(nix::Error::EAGAIN) => core::hint::spin_loop(),
                Err(e) => return Err(e.into()),
            }
        }
        Ok(())
    }

    fn recv(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.0.recv(into) {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => core::hint::spin_loop(),
                got => return got,
            }
        }
    }
}
