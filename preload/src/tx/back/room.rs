//! Room in a socket's send buffer, and more of it for a moment.

use dp_channel::leaving::{free, ORDINARY};
use dp_edge::sys::raw;

/// Words of SO_MEMINFO: the send buffer's limit, and what is queued.
const SNDBUF: usize = 3;
const QUEUED: usize = 5;
/// linux/socket.h; a later kernel's.
const SO_BUF_LOCK: i32 = 72;

/// A send buffer, with the settings that it had before.
pub struct Room {
    fd: i32,
    /// SO_SNDBUF, SO_BUF_LOCK, TCP_NOTSENT_LOWAT.
    before: Option<[Option<i32>; 3]>,
}

impl Room {
    /// That of `fd`.
    pub fn new(fd: i32) -> Room {
        Room { fd, before: None }
    }

    /// Limit and queued bytes.
    fn memory(&self) -> Option<(u32, u32)> {
        let mut words = [0u32; 9];
        raw::getsockopt(self.fd, libc::SOL_SOCKET, libc::SO_MEMINFO, &mut words).ok()?;
        Some((words[SNDBUF], words[QUEUED]))
    }

    /// Whether `bytes` go there at once.
    pub fn has(&self, bytes: u64) -> bool {
        self.memory().is_some_and(|(limit, queued)| free(limit, queued) >= bytes)
    }

    /// Makes room for `bytes`, if that needs no more than an ordinary buffer. The ring's memory held them before, and the
    /// limit is put back by [`Room::put_back`], which takes nothing from what is queued by then.
    pub fn widen(&mut self, bytes: u64) -> bool {
        let Some((limit, queued)) = self.memory().filter(|m| u64::from(m.1) + bytes <= ORDINARY.into())
        else {
            return false;
        };
        let get = |level, name| raw::getsockopt_int(self.fd, level, name).ok();
        // What was set is doubled by the kernel.
        let wanted = (u64::from(queued) + bytes).div_ceil(2) as i32;
        if wanted as u32 * 2 > limit {
            self.before = Some([
                get(libc::SOL_SOCKET, libc::SO_SNDBUF).map(|n| n / 2),
                get(libc::SOL_SOCKET, SO_BUF_LOCK),
                get(libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT),
            ]);
            let _ = raw::setsockopt_int(self.fd, libc::SOL_SOCKET, libc::SO_SNDBUF, wanted);
        } else {
            self.before = Some([None, None, get(libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT)]);
        }
        let _ = raw::setsockopt_int(self.fd, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, -1);
        self.has(bytes)
    }

    /// The settings are as they were.
    pub fn put_back(&mut self) {
        let names = [
            (libc::SOL_SOCKET, libc::SO_SNDBUF),
            (libc::SOL_SOCKET, SO_BUF_LOCK),
            (libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT),
        ];
        for ((level, name), value) in names.into_iter().zip(self.before.take().into_iter().flatten()) {
            if let Some(value) = value {
                let _ = raw::setsockopt_int(self.fd, level, name, value);
            }
        }
    }
}
