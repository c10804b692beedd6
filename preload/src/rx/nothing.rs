//! Receives that put no byte anywhere, and wait all the same: of no length, and at an address where no program has memory.

use super::limit::Sleeps;
use super::Sleep;
use crate::channel::Channel;
use crate::inside::Inside;
use crate::walk::Walk;

impl Channel {
    /// A receive of no bytes. Linux looks for bytes, waits once, and returns 0 whatever has ended that wait, also a time limit or a handler
    /// that restarts calls: it looks again only while there is room left. `sleep` must be such a receive itself.
    pub(super) fn receive_nothing(&self, at: &Inside, flags: i32, sleep: Sleep) -> Result<usize, i32> {
        let waits = flags & libc::MSG_DONTWAIT == 0 && !self.by(at.fd()).is_nonblocking();
        let once = |fd, there| sleep(fd, there).and(Err(libc::EINTR));
        match self.looks(at, flags, &once, Sleeps::one()) {
            Err(libc::EINTR | libc::EAGAIN) if waits => Ok(0),
            other => other.map(|_| 0),
        }
    }

    /// A receive at an address where no program has memory: that is found out when there are bytes to put there, and none is taken.
    pub fn receive_nowhere(&self, at: &Inside, flags: i32, sleep: Sleep) -> Result<usize, i32> {
        match self.looks(at, flags & !libc::MSG_WAITALL, sleep, Sleeps::default()) {
            Ok(n) if n > 0 => Err(libc::EFAULT),
            other => other,
        }
    }

    /// Whether there is a byte.
    fn looks(&self, at: &Inside, flags: i32, sleep: Sleep, sleeps: Sleeps) -> Result<usize, i32> {
        let mut byte = 0u8;
        self.receive_by(at, &mut Walk::one(&mut byte, 1), flags | libc::MSG_PEEK, sleep, sleeps)
    }
}
