//! How a stranger wakes a sleeper of ours: by a byte over a socket pair, of which it has one end.
//!
//! What it is for says [`crate::link`]. A send with MSG_DONTWAIT waits for nobody, whatever the other holders of either end do
//! to it, and nobody but this process has the near one. All they can do is to fill the pair or to shut it down: then the next
//! sender rings a bell, as if it had none.
//!
//! ```text
//!   this process                                   strangers
//!   near: in the epoll set, or beside a poll  <--  far: the same for all of them
//! ```

use core::sync::atomic::{AtomicI32, AtomicU32, Ordering};

use dp_edge::sys::raw;

use crate::rights::{self, Passed};
use crate::{own, state};

/// Wake-ups after which an epoll set, which hears of each byte by itself, takes those that there are. A pair holds some two
/// hundred.
const SOME: u32 = 32;
/// Bytes that are taken at a time, and how often at once: honest senders leave fewer.
const TAKEN: usize = 64;
const TIMES: usize = 4;

/// Both ends. All zero: none were made. One thread at a time.
pub struct Poke {
    /// Plus one.
    near: AtomicI32,
    /// Plus one.
    far: AtomicI32,
    /// Wake-ups since bytes were taken.
    heard: AtomicU32,
}

impl Poke {
    /// None.
    pub const fn new() -> Poke {
        Poke { near: AtomicI32::new(0), far: AtomicI32::new(0), heard: AtomicU32::new(0) }
    }

    /// The near end, if there is one.
    pub fn near(&self) -> Option<i32> {
        Some(self.near.load(Ordering::Relaxed) - 1).filter(|&fd| own::is(fd))
    }

    /// The far end, for strangers; `watch` says whether the near one can be watched, which is asked once.
    pub fn far(&self, watch: impl FnOnce(i32) -> bool) -> Option<i32> {
        let far = self.far.load(Ordering::Relaxed) - 1;
        if far >= 0 {
            return Some(far).filter(|&fd| own::is(fd));
        }
        // A child of vfork has its parent's memory, and descriptors of its own.
        if state::is_borrowed_memory() {
            return None;
        }
        let [near, far] = raw::socket_pair().ok()?.map(own::keep);
        if let (Some(near), Some(far)) = (near, far) {
            if watch(near) {
                self.heard.store(0, Ordering::Relaxed);
                self.near.store(near + 1, Ordering::Relaxed);
                self.far.store(far + 1, Ordering::Relaxed);
                return Some(far);
            }
        }
        [near, far].into_iter().flatten().for_each(own::close);
        None
    }

    /// Somebody was woken, perhaps by this.
    pub fn heard(&self) {
        let Some(near) = self.near() else { return };
        let heard = self.heard.load(Ordering::Relaxed) + 1;
        self.heard.store(heard % SOME, Ordering::Relaxed);
        if heard == SOME {
            self.take(near);
        }
    }

    /// Takes the bytes that there are. Where there are more than honest senders leave, or none will ever come, nobody is woken by
    /// this one any more: a poll would end at once, each time.
    pub fn take(&self, near: i32) {
        for _ in 0..TIMES {
            let mut bytes = [0u8; TAKEN];
            let refuse = |passed| {
                if let Passed::Descriptor(fd) = passed {
                    rights::refuse(fd);
                }
            };
            // SAFETY: bytes.
            match unsafe { rights::receive(near, &mut bytes, refuse) } {
                Ok(TAKEN) => {}
                Ok(1..) | Err(libc::EAGAIN) => return,
                Ok(0) | Err(_) => break,
            }
        }
        let _ = raw::shutdown(near, libc::SHUT_RDWR);
        rights::close_from_strangers(self.near.swap(0, Ordering::Relaxed) - 1);
    }

    /// Nobody sleeps by it any more, in this process or in those that were forked from it.
    pub fn end(&self) {
        rights::close_from_strangers(self.near.swap(0, Ordering::Relaxed) - 1);
        self.close();
    }

    /// Closes what a parent had.
    pub fn close(&self) {
        own::close(self.near.swap(0, Ordering::Relaxed) - 1);
        own::close(self.far.swap(0, Ordering::Relaxed) - 1);
    }
}

/// Wakes whoever sleeps by the pair with this far end; false where that cannot be.
pub fn wake(far: i32) -> bool {
    let byte = b'!';
    // SAFETY: one byte.
    unsafe { raw::send(far, &byte, 1, libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) }.is_ok()
}

#[cfg(test)]
mod tests;
