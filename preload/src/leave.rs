//! Leaving the channel for good, because somebody else will use the descriptor who cannot see it: stdio,
//! an executed program, another process (PROTOCOLS E8).
//!
//! Both sides may leave at once, so each clears its own direction completely: the sender takes back what the
//! receiver has not committed (the cursor is frozen), puts it on TCP, and stays there ([`clear`]). For the
//! other direction the word says LEFT, bells already counted are waited for and drained, and the peer, who
//! gets one bell to look, clears its own in turn.
//!
//! It may not be able to: it has closed, or ended, or is back on TCP already with a rest in the ring. So while
//! there is something in the ring, the connection stays live for the calls that see it, and they read that rest,
//! or follow it onto TCP. Only who never looks again, an executed program or stdio, misses it.

use core::sync::atomic::Ordering;

use dpfd::edge::stream;
use dpfd::edge::switch::in_ring;
use dpfd::family::{Conn, Family, Held, Reason, Stage};
use dpfd::sys::{raw, tcp};

use crate::channel::{self, End};
use crate::fdtable::{self, Entry};
use crate::ops::{option, took};
use crate::walk::Walk;
use crate::{hooks, rx, state, tx};

/// Takes the connection behind `fd` to plain TCP for good.
pub fn leave(fd: i32, why: Reason) {
    let (Some(family), Some(i)) = (state::family(), fdtable::conn(fd)) else { return };
    let c = family.conn(i);
    match c.stage() {
        Stage::Candidate | Stage::Offered => option::plain(c, why),
        _ => {}
    }
    if c.stage() == Stage::Offered {
        // The server took the offer meanwhile; without our word it carries nothing. Under the lock: another
        // thread of ours may be about to give it.
        let held = c.rx_lock.lock(state::me(), family);
        if c.stage() == Stage::Offered {
            if let Some(s) = channel::slot(c) {
                s.kill(c.generation.load(Ordering::Relaxed));
            }
            c.set_stage(Stage::Plain);
        }
        if held != Held::Mine {
            c.rx_lock.unlock();
        }
    }
    match c.stage() {
        Stage::Accepted => {
            if let Some(s) = channel::slot(c) {
                s.refuse(c.generation.load(Ordering::Relaxed));
            }
            let slot = channel::slot_live(c);
            if slot {
                channel::check_live(family, fd, c);
            }
            gone(c, !slot || live(family, fd, c, why) || c.stage() != Stage::Live);
        }
        Stage::Live => gone(c, live(family, fd, c, why)),
        _ => {}
    }
}

/// Plain TCP for every call, unless something in the ring is still to be read.
fn gone(c: &Conn, entirely: bool) {
    if entirely {
        c.set_stage(Stage::Plain);
    }
}

/// Whether everything of the peer's is on TCP now, or was read.
fn live(family: Family, fd: i32, c: &Conn, why: Reason) -> bool {
    let again = c.has(Conn::TX_TCP);
    if !again {
        c.reason.store(why as u32, Ordering::Relaxed);
        state::count(why);
    }
    let inward = channel::receiving(c);
    inward.word.leave_raw();
    // The peer publishes, then looks at the word; we wrote the word, and look now: what is not here yet, it takes
    // back itself.
    c.rx_lock.lock(state::me(), family);
    let rest = rx::unread(fd, c, &inward);
    c.rx_lock.unlock();
    c.tx_lock.lock(state::me(), family);
    let out = channel::sending(c);
    // One bell, so that a sleeping peer looks and takes the rest back; it has to stand in a ring epoch.
    if rest && !again && (in_ring(out.tx.epoch()) || tx::to_ring(fd, c, &out)) {
        tx::announce(c, fd, &out);
    }
    clear(fd, c, &out);
    c.tx_lock.unlock();
    c.rx_lock.lock(state::me(), family);
    rx::drain_for_close(fd, c, &inward);
    let rest = rx::unread(fd, c, &inward) || bells_left(c, &inward);
    c.rx_lock.unlock();
    // What the program asked of TCP holds again.
    let _ = raw::setsockopt_int(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY, i32::from(c.has(Conn::NODELAY)));
    if c.has(Conn::CORK) {
        let _ = raw::setsockopt_int(fd, libc::IPPROTO_TCP, libc::TCP_CORK, 1);
    }
    !rest
}

/// Whether bells that were counted are not here yet. Under the lock.
fn bells_left(c: &Conn, inward: &End) -> bool {
    if in_ring(c.rx_epoch.load(Ordering::Relaxed)) {
        inward.word.bells() != c.drained.load(Ordering::Relaxed)
    } else {
        c.rx_data.load(Ordering::Relaxed) > c.rx_kernel.load(Ordering::Relaxed)
    }
}

/// Sender: what the receiver has not taken goes onto TCP, and so does everything after it. Under the
/// sender's lock. After a FIN nothing can: then it stays where it is.
pub fn clear(fd: i32, c: &Conn, out: &End) {
    if !c.has(Conn::TX_TCP | Conn::SHUT_WR) && in_ring(out.tx.epoch()) {
        let mut at = stream::freeze(&out.rx.cursor);
        // Data is data again from here on: told before the first of it is there.
        out.tx.to_tcp(at.pos, c.tx_kernel.load(Ordering::Relaxed));
        let end = c.tail().pos;
        let mut buf = [0u8; 4096];
        while at.pos != end {
            let mut w = Walk::one(buf.as_mut_ptr(), buf.len());
            let Ok(n) = stream::retrieve(&out.ring, &mut at, &mut w) else { break };
            if let Err(e) = put_on_tcp(fd, &buf[..n]) {
                // W13: the program's next call gets it.
                c.error.store(e as u32, Ordering::Relaxed);
                break;
            }
            if n == 0 {
                break;
            }
            c.tx_kernel.fetch_add(n as u64, Ordering::Relaxed);
        }
        c.back.fetch_add(1, Ordering::Relaxed);
    }
    c.set(Conn::TX_TCP);
}

/// Waits of 100 ms for room on TCP before the connection is given up.
const PATIENCE: u32 = 50;

/// All of it: the program's send returned long ago. Waits for room, but not for ever: the peer may be leaving
/// as well, and read nothing until it has.
fn put_on_tcp(fd: i32, mut bytes: &[u8]) -> Result<(), i32> {
    let mut waits = 0;
    while !bytes.is_empty() {
        // SAFETY: the buffer.
        match unsafe { raw::send(fd, bytes.as_ptr(), bytes.len(), libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) } {
            Ok(n) => bytes = &bytes[n..],
            Err(libc::EAGAIN | libc::EINTR) if waits < PATIENCE => {
                waits += 1;
                let mut p = libc::pollfd { fd, events: libc::POLLOUT, revents: 0 };
                // SAFETY: one entry.
                let _ = took(unsafe { hooks::poll::real()(&mut p, 1, 100) } as isize);
            }
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// The peer left: follows it. Under the sender's lock.
pub fn follow(fd: i32, c: &Conn, out: &End) {
    if !c.has(Conn::TX_TCP) {
        c.reason.store(Reason::PeerLeft as u32, Ordering::Relaxed);
        state::count(Reason::PeerLeft);
        clear(fd, c, out);
    }
}

/// If the peer left, follows it. Cheap when it did not; called where a bell may mean just that.
pub fn follow_if_left(family: Family, fd: i32, c: &Conn) {
    if c.stage() == Stage::Live && !c.has(Conn::TX_TCP) && channel::sending(c).word.is_raw() {
        // A signal handler inside our own send leaves that to the send's end.
        if c.tx_lock.lock(state::me(), family) != Held::Mine {
            follow(fd, c, &channel::sending(c));
            c.tx_lock.unlock();
        }
    }
}

/// Before a FIN: if the peer left, what it has not read goes onto TCP while that is possible.
pub fn before_end(fd: i32) {
    if let (Some(family), Some(i)) = (state::family(), fdtable::conn(fd)) {
        follow_if_left(family, fd, family.conn(i));
    }
}

/// Before this process becomes, or starts, another program: channels it would inherit leave.
pub fn before_exec() {
    if state::family().is_none() {
        return;
    }
    let stays = |fd: i32| raw::fcntl(fd, libc::F_GETFD, 0).is_ok_and(|f| f as i32 & libc::FD_CLOEXEC == 0);
    let mut kept = [0u64; 3];
    for (fd, cookie) in kept.iter_mut().enumerate() {
        // A child of vfork may have put a connection here without our seeing it.
        if stays(fd as i32) && !matches!(fdtable::get(fd as i32), Entry::Conn(_)) {
            *cookie = tcp::cookie(fd as i32).unwrap_or(0);
        }
    }
    fdtable::each(|fd, e| {
        if matches!(e, Entry::Conn(_)) {
            let here = kept != [0; 3] && tcp::cookie(fd).is_some_and(|k| kept.contains(&k));
            if here || stays(fd) {
                leave(fd, Reason::Exec);
            } else {
                // The kernel may close it without a word.
                before_end(fd);
            }
        }
    });
}
