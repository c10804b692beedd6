//! POSIX message queues: the kernel's own messages, with a number instead of a name.
#![expect(unsafe_code, reason = "descriptors of message queues, which have no safe form")]

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};

use nix::mqueue::{mq_open, mq_receive, mq_send, mq_unlink, MQ_OFlag, MqAttr, MqdT};
use nix::sys::stat::Mode;

use super::link::{again, Link};

/// Messages a queue holds, where the machine allows no more: what `msg_max` is unless somebody changed it.
const DEPTH: i64 = 10;

/// The longest message of a queue on this machine, bytes.
pub fn longest() -> usize {
    let limit = fs::read_to_string("/proc/sys/fs/mqueue/msgsize_max").unwrap_or_default();
    limit.trim().parse().unwrap_or(0)
}

/// Two queues, one each way, without names: both ends of both.
pub fn make(size: usize) -> io::Result<[Vec<OwnedFd>; 2]> {
    let (ab, ba) = (queue(size)?, queue(size)?);
    Ok([vec![ab.try_clone()?, ba.try_clone()?], vec![ba, ab]])
}

fn queue(size: usize) -> io::Result<OwnedFd> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let name = format!("/dp-bench-{}-{number}", std::process::id());
    let flags = MQ_OFlag::O_CREAT | MQ_OFlag::O_EXCL | MQ_OFlag::O_RDWR | MQ_OFlag::O_CLOEXEC;
    let attributes = MqAttr::new(0, DEPTH, size as i64, 0);
    let queue = mq_open(name.as_str(), flags, Mode::S_IRUSR | Mode::S_IWUSR, Some(&attributes))?;
    mq_unlink(name.as_str())?;
    // SAFETY: on Linux a queue's descriptor is a file descriptor, and this one is nobody else's.
    Ok(unsafe { OwnedFd::from_raw_fd(queue.into_raw_fd()) })
}

/// One end of both queues.
pub struct Queues {
    to: MqdT,
    from: MqdT,
}

impl Queues {
    pub fn new(fds: [OwnedFd; 2]) -> Queues {
        // SAFETY: the descriptors are of queues, and end in drop().
        let [to, from] = fds.map(|fd| unsafe { MqdT::from_raw_fd(fd.into_raw_fd()) });
        Queues { to, from }
    }
}

impl Link for Queues {
    fn send(&mut self, message: &[u8]) -> io::Result<()> {
        again(|| mq_send(&self.to, message, 0))
    }

    /// Only into a buffer that would hold the longest message.
    fn recv(&mut self, into: &mut [u8]) -> io::Result<usize> {
        again(|| mq_receive(&self.from, into, &mut 0))
    }
}

impl Drop for Queues {
    fn drop(&mut self) {
        for queue in [&self.to, &self.from] {
            // SAFETY: neither is used after this, and nothing else closes them.
            drop(unsafe { OwnedFd::from_raw_fd(queue.as_raw_fd()) });
        }
    }
}
