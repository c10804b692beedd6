//! Possession is proven, not claimed (PROTOCOLS I2): who answers an offer must hold the other end of that connection.
//!
//! A process that holds a TCP socket can set its SO_MAX_PACING_RATE, and everybody in the network namespace can read that of
//! the very socket. So each side has its socket show a number that the other one expects there, and reads the other's:
//!
//! ```text
//!   client                         slot                        server
//!   offers                         nonce ------------------->  has its socket show S
//!   reads S by sock_diag  <------- challenge ----------------  and answers
//!   has its socket show C          shown ------------------->  reads C by sock_diag, maps, accepts
//!   confirms                                                   puts back what its socket had
//!   puts back what its socket had
//! ```
//!
//! S and C are digests of the memory's own number, of who opened the door, and of both sides' random numbers. With the
//! random numbers alone, somebody in between could hand them on, in memory of his own or in the client's: a client of a
//! squatter's door and a server that the squatter said hello to would prove themselves to each other, while he has both
//! memories. The digests of the two differ, since the doors do, and 61 bits cannot be hit upon.
//!
//! Rates that large limit nothing, and a program that asks is told its own ([`hides`]). What cannot be put back: a socket
//! that ever had a rate paces itself (SK_PACING_NEEDED), from then on by what its congestion control reckons. Between short
//! messages that is nothing. A bulk stream over TCP on loopback, with reno, then sets thousands of timers where it set a few
//! (3200 instead of 5 for 500 MB, in writes of 64 KiB), and takes 1.5 to 2.1 times as long (medians of 31 to 41 pairs; in
//! writes of 16 KiB and less, no longer); with bbr, which paces anyway, it takes as long as before. It concerns connections
//! that have proven themselves and carry much over TCP all the same. The kernel has no call that takes it back: "no limit"
//! leaves the mark, another congestion control does too. No other setting that needs no right is told by sock_diag in as
//! many bits.

use core::sync::atomic::Ordering;

use dpfd::family::Conn;
use dpfd::sys::{process, tcp};

use crate::diag;

/// A number that nobody can guess, never 0.
pub fn random() -> Option<u64> {
    process::random().ok().map(|n| n | 1)
}

/// Has our socket show `number`.
pub fn show(fd: i32, c: &Conn, number: u64) -> bool {
    put_back(fd, c);
    let Some(before) = tcp::pacing(fd) else { return false };
    if !tcp::set_pacing(fd, number) {
        return false;
    }
    c.pacing.store(before, Ordering::Relaxed);
    // Release: what the socket had before.
    c.showing.store(number, Ordering::Release);
    true
}

/// Whether our socket shows a number.
pub fn is_shown(c: &Conn) -> bool {
    c.showing.load(Ordering::Acquire) != 0
}

/// Gives our socket back the rate it had, unless the program has set one meanwhile.
pub fn put_back(fd: i32, c: &Conn) {
    let shown = c.showing.load(Ordering::Acquire);
    if shown != 0 {
        if tcp::pacing(fd) == Some(shown) {
            tcp::set_pacing(fd, c.pacing.load(Ordering::Relaxed));
        }
        c.showing.store(0, Ordering::Release);
    }
}

/// The program's own rate, where our socket shows a number instead.
pub fn hides(fd: i32, c: &Conn) -> Option<u64> {
    let shown = c.showing.load(Ordering::Acquire);
    // The program may have set another one meanwhile.
    (shown != 0 && tcp::pacing(fd) == Some(shown)).then(|| c.pacing.load(Ordering::Relaxed))
}

/// Whether the socket at the other end of the connection that `c` was when its addresses were asked for shows `number`, by
/// the kernel's word. Whether a descriptor still stands for that connection, the caller asks afterwards.
pub fn other_shows(c: &Conn, netns: u64, number: u64) -> bool {
    diag::pacing(c.peer(), c.local(), netns) == Ok(number)
}
