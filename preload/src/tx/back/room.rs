//! Room in a socket's send buffer, and more of it for a moment.

use dp_channel::leaving::{free, ORDINARY};
use dp_edge::sys::raw;

use crate::channel::Channel;
use crate::inside;

/// Words of SO_MEMINFO: the send buffer's limit, and what is queued.
const SNDBUF: usize = 3;
const QUEUED: usize = 5;
/// linux/socket.h; a later kernel's.
const SO_BUF_LOCK: i32 = 72;

/// A connection's send buffer, with the settings that it had before. The number by which it is reached may come to mean something else
/// at any moment: whoever closes it waits for a section under the sender's lock, but not for ever.
pub struct Room {
    c: Channel,
    /// SO_SNDBUF, SO_BUF_LOCK, TCP_NOTSENT_LOWAT.
    before: Option<[Option<i32>; 3]>,
}

impl Room {
    /// That of `c`.
    pub fn new(c: Channel) -> Room {
        Room { c, before: None }
    }

    /// Limit and queued bytes.
    fn memory(&self) -> Option<(u32, u32)> {
        let mut words = [0u32; 9];
        raw::getsockopt(self.c.fd, libc::SOL_SOCKET, libc::SO_MEMINFO, &mut words).ok()?;
        Some((words[SNDBUF], words[QUEUED]))
    }

    /// Whether `bytes` go there at once.
    pub fn has(&self, bytes: u64) -> bool {
        self.memory().is_some_and(|(limit, queued)| free(limit, queued) >= bytes)
    }

    /// Makes room for `bytes`, if that needs no more than an ordinary buffer. The ring's memory held them before, and the
    /// limit is put back by [`Room::put_back`], which takes nothing from what is queued by then.
    ///
    /// Where the kernel does not say whether the limit is the program's, it would be from then on, and never grow again: the buffer
    /// stays as it is.
    pub fn widen(&mut self, bytes: u64) -> bool {
        self.widen_if(bytes, false)
    }

    /// The same, also where that ends the buffer's growth: what does not go there may be lost.
    pub fn widen_at_any_price(&mut self, bytes: u64) -> bool {
        self.widen_if(bytes, true)
    }

    fn widen_if(&mut self, bytes: u64, may_fix: bool) -> bool {
        let Some((limit, queued)) = self.memory().filter(|m| u64::from(m.1) + bytes <= ORDINARY.into())
        else {
            return false;
        };
        let fd = self.c.fd;
        let get = |level, name| raw::getsockopt_int(fd, level, name).ok();
        // What was set is doubled by the kernel.
        let wanted = (u64::from(queued) + bytes).div_ceil(2) as i32;
        let low_water = get(libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT);
        let mut before = [None, None, low_water];
        if wanted as u32 * 2 > limit {
            before = [
                get(libc::SOL_SOCKET, libc::SO_SNDBUF).map(|n| n / 2),
                get(libc::SOL_SOCKET, SO_BUF_LOCK),
                low_water,
            ];
            if before[1].is_none() && !may_fix {
                return false;
            }
        }
        if inside::is_another(fd, self.c.family, &self.c) {
            return false;
        }
        if before[0].is_some() {
            let _ = raw::setsockopt_int(fd, libc::SOL_SOCKET, libc::SO_SNDBUF, wanted);
        }
        let _ = raw::setsockopt_int(fd, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, -1);
        self.before = Some(before);
        self.has(bytes)
    }

    /// The settings are as they were.
    pub fn put_back(&mut self) {
        let Some(before) = self.before.take() else { return };
        let Some(fd) = self.c.number() else { return };
        let names = [
            (libc::SOL_SOCKET, libc::SO_SNDBUF),
            (libc::SOL_SOCKET, SO_BUF_LOCK),
            (libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT),
        ];
        for ((level, name), value) in names.into_iter().zip(before) {
            if let Some(value) = value {
                let _ = raw::setsockopt_int(fd, level, name, value);
            }
        }
    }
}

/// Whether it is an option that [`Room::widen`] changes for a moment, under the sender's lock: what the program sets or asks meanwhile
/// would be lost, or ours.
pub fn changes(level: i32, name: i32) -> bool {
    match level {
        libc::SOL_SOCKET => matches!(name, libc::SO_SNDBUF | libc::SO_SNDBUFFORCE | SO_BUF_LOCK),
        libc::IPPROTO_TCP => name == libc::TCP_NOTSENT_LOWAT,
        _ => false,
    }
}
