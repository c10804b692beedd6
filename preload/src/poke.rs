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

use core::sync::atomic::{AtomicU32, Ordering};

use dp_edge::sys::raw;

use crate::own::{self, Mine};
use crate::rights::{self, Passed};
use crate::state;

/// Wake-ups after which an epoll set, which hears of each byte by itself, takes those that there are. A pair holds some two
/// hundred.
const SOME: u32 = 32;
/// Bytes that are taken at a time, and how often at once: honest senders leave fewer.
const TAKEN: usize = 64;
const TIMES: usize = 4;

/// Both ends. All zero: none were made. One thread at a time.
pub struct Poke {
    near: Mine,
    far: Mine,
    /// Wake-ups since bytes were taken.
    heard: AtomicU32,
}

impl Poke {
    /// None.
    pub const fn new() -> Poke {
        Poke { near: Mine::none(), far: Mine::none(), heard: AtomicU32::new(0) }
    }

    /// The near end, if there is one.
    pub fn near(&self) -> Option<i32> {
        self.near.fd()
    }

    /// The far end, for strangers; `watch` says whether the near one can be watched, which is asked once.
    pub fn far(&self, watch: impl FnOnce(i32) -> bool) -> Option<i32> {
        if self.far.had_one() {
            return self.far.fd();
        }
        // A child of vfork has its parent's memory, and descriptors of its own.
        if state::is_borrowed_memory() {
            return None;
        }
        let [near, far] = raw::socket_pair().ok()?.map(own::high);
        if let (Some(near), Some(far)) = (near, far) {
            if watch(near) {
                self.heard.store(0, Ordering::Relaxed);
                self.near.hold(near);
                self.far.hold(far);
                return Some(far);
            }
        }
        [near, far].into_iter().flatten().for_each(raw::close);
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
        self.near.take().fd().into_iter().for_each(rights::close_from_strangers);
    }

    /// Nobody sleeps by it any more, in this process or in those that were forked from it.
    pub fn end(&self) {
        self.near.take().fd().into_iter().for_each(rights::close_from_strangers);
        self.close();
    }

    /// Closes what a parent had.
    pub fn close(&self) {
        self.near.take().close();
        self.far.take().close();
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
