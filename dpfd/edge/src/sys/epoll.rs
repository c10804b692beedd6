//! Waiting in epoll(7) for a time in nanoseconds: epoll_pwait2(2), Linux 5.11. The time is part of the call, so that no timer has
//! to be set before, nor taken back when something else comes first. Older systems count milliseconds.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Events of one call.
const MOST: usize = 64;

/// What epoll tells.
pub struct Told {
    events: [libc::epoll_event; MOST],
    count: usize,
    /// There is no such call, or a filter of system calls that does not know it (seccomp(2)) forbids it.
    is_coarse: bool,
}

impl Told {
    /// Nothing yet.
    pub const fn new() -> Told {
        Told { events: [libc::epoll_event { events: 0, u64: 0 }; MOST], count: 0, is_coarse: false }
    }

    /// By what epoll knows that of which it tells.
    pub fn tokens(&self) -> impl Iterator<Item = u64> + '_ {
        self.events[..self.count].iter().map(|event| event.u64)
    }

    /// Waits until there is something, or for so many nanoseconds; nothing: for ever. How much there is.
    ///
    /// # Errors
    ///
    /// EINTR.
    pub fn wait(&mut self, epoll: BorrowedFd<'_>, time: Option<u64>) -> Result<usize, i32> {
        self.count = 0;
        let n = match self.is_coarse {
            true => self.wait_coarsely(epoll, time),
            false => self.wait_finely(epoll, time).or_else(|errno| {
                self.is_coarse = matches!(errno, libc::ENOSYS | libc::EPERM);
                if self.is_coarse {
                    self.wait_coarsely(epoll, time)
                } else {
                    Err(errno)
                }
            }),
        }?;
        self.count = n.min(MOST);
        Ok(self.count)
    }

    fn wait_finely(&mut self, epoll: BorrowedFd<'_>, time: Option<u64>) -> Result<usize, i32> {
        let time = time.map(|ns| libc::timespec {
            tv_sec: (ns / 1_000_000_000) as libc::time_t,
            tv_nsec: (ns % 1_000_000_000) as libc::c_long,
        });
        let time = time.as_ref().map_or(core::ptr::null(), |time| time as *const libc::timespec);
        let (fd, mask) = (epoll.as_raw_fd(), core::ptr::null::<u8>());
        // SAFETY: the kernel writes as many events as there is room for, and reads the time, and no mask of signals.
        counted(unsafe {
            libc::syscall(
                libc::SYS_epoll_pwait2,
                fd,
                self.events.as_mut_ptr(),
                MOST as libc::c_int,
                time,
                mask,
                8usize,
            )
        })
    }

    fn wait_coarsely(&mut self, epoll: BorrowedFd<'_>, time: Option<u64>) -> Result<usize, i32> {
        // Not less than that, or it would be asked again and again until it is over.
        let ms = time.map_or(-1, |ns| ns.div_ceil(1_000_000).min(60_000) as i32);
        // SAFETY: the kernel writes as many events as there is room for.
        let n = unsafe { libc::epoll_wait(epoll.as_raw_fd(), self.events.as_mut_ptr(), MOST as i32, ms) };
        counted(n.into())
    }
}

fn counted(n: libc::c_long) -> Result<usize, i32> {
    usize::try_from(n).map_err(|_| io::Error::last_os_error().raw_os_error().unwrap_or(libc::EINVAL))
}

impl Default for Told {
    fn default() -> Told {
        Told::new()
    }
}

impl core::fmt::Debug for Told {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Told").field("count", &self.count).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
    use std::os::unix::net::UnixStream;
    use std::time::{Duration, Instant};

    use super::super::raw;
    use super::*;

    #[test]
    fn it_tells_what_is_there_and_waits_no_longer_than_it_is_told() {
        let fd = raw::epoll_create().expect("an epoll");
        // SAFETY: made just now.
        let epoll = unsafe { OwnedFd::from_raw_fd(fd) };
        let (mut ours, mut theirs) = UnixStream::pair().expect("a pair");
        let event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: 4711 };
        raw::epoll_ctl(fd, libc::EPOLL_CTL_ADD, ours.as_raw_fd(), Some(event)).expect("added");
        for is_coarse in [false, true] {
            let mut told = Told { is_coarse, ..Told::new() };
            let begin = Instant::now();
            assert_eq!(told.wait(epoll.as_fd(), Some(1_500_000)), Ok(0));
            let took = begin.elapsed();
            assert!((Duration::from_micros(1500)..Duration::from_secs(5)).contains(&took), "{took:?}");
            theirs.write_all(b"x").expect("room");
            assert_eq!(told.wait(epoll.as_fd(), None), Ok(1));
            assert!(told.tokens().eq([4711]));
            assert_eq!(told.wait(epoll.as_fd(), Some(0)), Ok(1));
            let mut byte = [0; 1];
            ours.read_exact(&mut byte).expect("a byte");
        }
    }
}
