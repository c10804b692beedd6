//! The kernel's side of a socket: a counter of unread bells under a lock, and a sleep that is a wait on its condition.
//!
//! A lost wake-up is a receiver still asleep, and wanting more, when the senders are through: said by a panic of its own,
//! because a deadlock makes loom abort the process.

use loom::sync::{Condvar, Mutex};

/// What the kernel knows of the bells of one socket, or of two in one epoll set.
pub struct Kernel {
    bells: Mutex<Bells>,
    more: Condvar,
}

#[derive(Default)]
struct Bells {
    unread: [u32; 2],
    ever: u32,
    /// Senders that are through.
    over: u32,
    /// Senders in all.
    senders: u32,
}

impl Kernel {
    /// A socket (or a set of them) with so many senders.
    pub fn new(senders: u32) -> Kernel {
        Kernel { bells: Mutex::new(Bells { senders, ..Bells::default() }), more: Condvar::new() }
    }
    /// A sender is through.
    pub fn over(&self) {
        self.bells.lock().unwrap().over += 1;
        self.more.notify_all();
    }
    /// send(2) of one byte.
    pub fn ring(&self, socket: usize) {
        let mut bells = self.bells.lock().unwrap();
        bells.unread[socket] += 1;
        bells.ever += 1;
        self.more.notify_all();
    }
    /// FIONREAD.
    pub fn unread(&self, socket: usize) -> u32 {
        self.bells.lock().unwrap().unread[socket]
    }
    /// recv(2) of at most `n` bytes, MSG_DONTWAIT; how many there were.
    pub fn drain(&self, socket: usize, n: u32) -> u32 {
        let mut bells = self.bells.lock().unwrap();
        let n = n.min(bells.unread[socket]);
        bells.unread[socket] -= n;
        n
    }
    /// Sleeps until something is unread (poll, level-triggered epoll).
    pub fn readable(&self) {
        let mut bells = self.bells.lock().unwrap();
        while bells.unread == [0; 2] {
            assert!(bells.over < bells.senders, "lost wake-up");
            bells = self.more.wait(bells).unwrap();
        }
    }
    /// Sleeps until the first `n` sockets have something unread.
    pub fn readable_of(&self, n: usize) {
        let mut bells = self.bells.lock().unwrap();
        while bells.unread[..n] == [0; 2][..n] {
            assert!(bells.over < bells.senders, "lost wake-up");
            bells = self.more.wait(bells).unwrap();
        }
    }
    /// Sleeps until a bell arrived that was not among the `seen` first ones (edge-triggered epoll).
    pub fn edge(&self, seen: &mut u32) {
        let mut bells = self.bells.lock().unwrap();
        while bells.ever == *seen {
            assert!(bells.over < bells.senders, "lost wake-up");
            bells = self.more.wait(bells).unwrap();
        }
        *seen = bells.ever;
    }
}
