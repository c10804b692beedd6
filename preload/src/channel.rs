//! A channel as a call sees it: the connection, and the descriptor by which the call reaches it.
//!
//! What is done with one is in `impl Channel` where it belongs: [`crate::rx`], [`crate::tx`], [`crate::candidate`] and so on.
//! How a connection comes to be one is [`crate::candidate`]'s.

use core::ops::Deref;

use dp_channel::family::{Conn, Family};
use dp_edge::sys::raw;

use crate::{fdtable, inside, socket, state};

/// A connection of the family's, in the hands of a call. What the connection itself has is reached through it.
#[derive(Clone, Copy)]
pub struct Channel {
    /// Whose table the connection is in.
    pub family: Family,
    /// The descriptor that stands for it, the program's or one of ours; -1: that is closed.
    pub fd: i32,
    /// Its entry there.
    pub conn: &'static Conn,
}

impl Deref for Channel {
    type Target = Conn;
    #[inline(always)]
    fn deref(&self) -> &Conn {
        self.conn
    }
}

impl Channel {
    /// Connection `i`, reached by `fd`.
    #[inline(always)]
    pub fn new(family: Family, fd: i32, i: u32) -> Channel {
        Channel { family, fd, conn: family.conn(i) }
    }

    /// What `fd` stands for, if that is a connection.
    #[inline]
    pub fn of(fd: i32) -> Option<Channel> {
        let i = fdtable::conn(fd)?;
        Some(Channel::new(state::family()?, fd, i))
    }

    /// The same by another number.
    #[inline]
    pub fn by(&self, fd: i32) -> Channel {
        Channel { fd, ..*self }
    }

    /// The number to make a call by that is for the connection's sake: the call's own, or, where that has come to mean something else,
    /// another one. `None`: there is none.
    pub fn number(&self) -> Option<i32> {
        if !inside::is_another(self.fd, self.family, self) {
            return Some(self.fd);
        }
        let is = |i| core::ptr::eq(self.family.conn(i), self.conn);
        // The last one of all, where another thread is just closing it: that one waits for whoever is in a section.
        fdtable::number_of(is).or_else(|| fdtable::is_being_changed(self.fd, is).then_some(self.fd))
    }

    /// Whether the descriptor was made not to block.
    #[inline]
    pub fn is_nonblocking(&self) -> bool {
        // Without a number nobody answers: that is not the answer for all who have the connection.
        self.fd >= 0 && self.mode.is_nonblocking(|| raw::is_nonblocking(self.fd))
    }

    /// Whether this process is the only living one that has the connection. The dead are no holders from here on.
    pub fn is_ours_alone(&self) -> bool {
        let Some(me) = state::member_if_joined() else { return false };
        if self.has(Conn::UNCOUNTED) {
            return false;
        }
        let holders = self.family.holders(self.conn);
        holders.each().filter(|&n| n != me).all(|n| {
            let dead = !self.family.member(n as usize).alive();
            // We have it, so it was not the last.
            dead && !holders.remove(n)
        })
    }

    /// Whether receives are to be told how much is left, which the kernel's own socket knows.
    pub fn note_inq(&self) {
        match raw::getsockopt_int(self.fd, libc::IPPROTO_TCP, libc::TCP_INQ) {
            Ok(0) | Err(_) => self.clear(Conn::INQ),
            Ok(_) => self.set(Conn::INQ),
        }
    }

    /// What the program may have asked for before the connection was known; later ones are noted when it asks.
    pub fn note_options(&self) {
        self.note_inq();
        if socket::limit(self.fd, libc::SO_RCVTIMEO).is_some() {
            self.set(Conn::LIMITED);
        }
    }
}
