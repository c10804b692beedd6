//! The end of a connection, its copies, and forks (PROTOCOLS E11, W12, L3).

mod begin;
mod copy;
pub mod dead;
mod fork;
mod late;
#[cfg(test)]
mod tests;

pub use begin::{keep_plain, track};
pub use copy::{copied, copying, not_copied, Copying};
pub use fork::{
    child_of_fork, forget_fork, fork_failed, hold, no_fork_yet, parent_of_fork, prepare_fork, register,
    reserve, Prepared,
};
pub use late::release_reserved;

use core::ffi::c_int;
use core::sync::atomic::Ordering;

use dp_channel::family::{Conn, End, Family, Lock, Reason, Stage, ARENAS};
use dp_channel::slot::{Side, Slot, State};
use dp_edge::sys::raw;

use crate::channel::Channel;
use crate::fdtable::{self, Entry};
use crate::inside::{self, Closing};
use crate::{client, door, ends, epoll, guests, link, own, rx, state};

/// Before the program's `close(fd)`: forgets the descriptor, and ends the connection with the last one.
pub fn before_close(fd: i32) {
    if fdtable::get(fd) == Entry::None || state::is_borrowed_memory() {
        return;
    }
    while !forgets(fd, fdtable::get(fd)) {}
}

/// The same of a number that was `what`. False: another thread has closed it since, and it is something else.
fn forgets(fd: i32, what: Entry) -> bool {
    let is_mine = || fdtable::replace(fd, what, Entry::None);
    match what {
        Entry::Conn(i) => {
            unregister(fd, i);
            if let Some(i) = drop_ref(fd, fd) {
                inside::closes(fd, || end(fd, i));
            }
        }
        Entry::Epoll(i) if is_mine() => epoll::close(fd, i),
        Entry::Listener(i) if is_mine() => door::release(i),
        Entry::Epoll(_) | Entry::Listener(_) => return false,
        Entry::Elsewhere | Entry::Unconnected(_) => return is_mine(),
        Entry::Internal | Entry::None => {}
    }
    true
}

/// Does `real`, by which the kernel closes `fd` or puts something else there, and what comes before that, as one step for
/// other threads: a call of theirs on the connection's number is before all of it, or waits until it is done. If it found the
/// number no more ours, and the file still open, its bytes would pass those in the ring.
///
/// In a program with one thread only a handler can come between.
///
/// `yields`: makes the kernel's alone what stands there afterwards. That is done where a call that was counted goes on for long: it
/// may still have to find its number.
pub fn in_one_step(fd: i32, yields: Option<&dyn Fn()>, real: impl FnOnce() -> i32) -> i32 {
    let conn = match fdtable::get(fd) {
        Entry::Conn(i) if !inside::alone() && !state::is_borrowed_memory() => i,
        _ => {
            before_close(fd);
            return real();
        }
    };
    unregister(fd, conn);
    // A handler of this thread would wait for what it has interrupted, and a cancellation would leave it half done.
    let blocked = raw::block_signals();
    let mut state = 0;
    // SAFETY: a variable of ours.
    unsafe { pthread_setcancelstate(CANCEL_DISABLE, &raw mut state) };
    let closing = Closing::begin(&state);
    let rc = match fdtable::change(fd) {
        Some(word) => {
            let (rc, lingering) = inside::closes(fd, || {
                if let Some(i) = let_fall(fd, word, closing) {
                    end(fd, i);
                }
                if let Some(yields) = yields.filter(|_| !is_quiet(fd, conn, word)) {
                    yields();
                }
                // A close that lingers goes on behind the step: nobody waits for that.
                let lingering = if raw::lingers_at_close(fd) { own::copy(fd) } else { None };
                (real(), lingering)
            });
            fdtable::changed(fd, word);
            if let Some(copy) = lingering {
                raw::set_blocked_signals(blocked);
                raw::close(copy);
            }
            rc
        }
        // Another thread was quicker.
        None => {
            closing.over();
            real()
        }
    };
    // SAFETY: as above.
    unsafe { pthread_setcancelstate(state, core::ptr::null_mut()) };
    raw::set_blocked_signals(blocked);
    rc
}

extern "C-unwind" {
    /// pthread_setcancelstate(3).
    fn pthread_setcancelstate(state: c_int, old: *mut c_int) -> c_int;
}

/// PTHREAD_CANCEL_DISABLE.
const CANCEL_DISABLE: c_int = 1;

/// A descriptor number appears in the program's hands: whatever we thought it was, it is not any more.
pub fn forget_stale(fd: i32) {
    if fd < 0 {
        return;
    }
    // Where another thread is through with the change, but for saying so, the number is the caller's.
    match fdtable::get_at_once(fd) {
        Entry::None => {}
        // A child of vfork has descriptors of its own and the table of its parent, for whom nothing has changed.
        _ if state::is_borrowed_memory() => {}
        Entry::Conn(i) => {
            unregister(fd, i);
            if let Some(i) = drop_ref(fd, -1) {
                end(-1, i);
            }
        }
        _ => match fdtable::set(fd, Entry::None) {
            Entry::Epoll(i) => epoll::was_closed(fd, i),
            Entry::Listener(i) => door::release(i),
            _ => {}
        },
    }
}

/// The number `fd` does not stand for its connection any more; `file` is the same number as long as the kernel knows it,
/// else -1. The connection, if it is over, and nobody inside it will end it.
fn drop_ref(fd: i32, file: i32) -> Option<u32> {
    let closing = Closing::begin(&file);
    let word = fdtable::clear(fd);
    let Some(i) = fdtable::conn_of(word) else {
        closing.over();
        return None;
    };
    let last = fdtable::drop_ref(i);
    if closing.keep(file, word, last) {
        await_sections(i);
        // The last one inside may have left before there was anything for it to end.
        inside::sweep();
        return None;
    }
    last.then_some(i)
}

/// The same for a number that is being changed, and stood for a connection by the entry `word`.
fn let_fall(fd: i32, word: u32, closing: Closing) -> Option<u32> {
    let i = fdtable::conn_of(word)?;
    let last = fdtable::drop_ref(i);
    let kept = closing.keep(fd, word, last);
    // Also one that nobody notes: a bell of its would go where the number leads then.
    await_sections(i);
    if kept {
        inside::sweep();
    }
    (last && !kept).then_some(i)
}

/// A thread in a locked section of connection `i` may still use the number.
fn await_sections(i: u32) {
    if let Some(c) = state::family().map(|f| f.conn(i)) {
        wait_for(&c.rx_lock);
        wait_for(&c.tx_lock);
    }
}

/// Whether calls by number `fd`, which stood for connection `i` by the entry `word`, that only the kernel serves are over within
/// a moment. One that sleeps has found its number long ago; one that was just preempted has not.
fn is_quiet(fd: i32, i: u32, word: u32) -> bool {
    let Some(c) = state::family().map(|f| f.conn(i)) else { return true };
    let is_idle = || {
        let uncounted = c.tx_flight.load(Ordering::SeqCst) == 0 && c.rx_flight.load(Ordering::SeqCst) == 0;
        // On a connection that stays on TCP they are noted instead.
        uncounted && (c.stage() != Stage::Plain || !inside::is_used(fd, word))
    };
    (0..FLIGHTS).any(|turn| {
        let quiet = is_idle();
        match turn {
            _ if quiet => {}
            0..20 => core::hint::spin_loop(),
            _ => raw::nap(TRY),
        }
        quiet
    })
}

/// How often [`is_quiet`] looks: some 2 ms in all.
const FLIGHTS: u32 = 60;

/// How often a lock is tried, and how long is waited in between, ns. Locks are held for long only by the dead, and by a
/// sender that waits for room: that one looks whether its number still stands.
const TRIES: u32 = 400;
const TRY: u32 = 50_000;

/// Waits until nobody is in the section that was under `lock` now. False: somebody still is.
fn wait_for(lock: &Lock) -> bool {
    for turn in 0..TRIES {
        if lock.try_lock(state::me()) {
            lock.unlock();
            return true;
        }
        if lock.is_to_be_inherited() {
            return true;
        }
        if turn > 20 {
            raw::nap(TRY);
        } else {
            core::hint::spin_loop();
        }
    }
    false
}

/// This process has connection `i` no more, and others do.
pub fn forget(i: u32) {
    if let (Some(family), Some(me)) = (state::family(), state::member_if_joined()) {
        late::release(family, i, me, Whose::Ours);
    }
}

/// The connection behind `fd` has left for TCP, and is the kernel's alone from now on.
pub fn let_be(fd: i32) {
    if let Some(i) = drop_ref(fd, fd) {
        ends::forget(i);
        forget(i);
    }
}

/// connect(2) has dissolved connection `i`: the socket stays open, and is no connection any more. Whoever is inside goes on with the
/// socket, of which the kernel says what it says of one that is not connected.
pub fn dissolved(i: u32) {
    let Some(family) = state::family().filter(|_| !state::is_borrowed_memory()) else { return };
    let c = family.conn(i);
    if c.stage() == Stage::Live {
        // A send of several pieces would put the next one into a ring that nobody reads.
        let locked = late::take_locks(family, c, TRIES);
        c.kill_slot();
        c.set_stage(Stage::Plain);
        if locked {
            c.tx_lock.unlock();
            c.rx_lock.unlock();
        }
    }
    // Copies stand for the same socket.
    fdtable::each(|n, e| {
        if e == Entry::Conn(i) {
            unregister(n, i);
            if let Some(i) = drop_ref(n, n) {
                end(-1, i);
            }
        }
    });
}

/// What epoll sets have of connection `i` by number `fd`, which is about to go: a registration lives as long as the file.
fn unregister(fd: i32, i: u32) {
    let Some(c) = state::family().map(|family| Channel::new(family, fd, i)) else { return };
    if c.watched.load(Ordering::SeqCst) == 0 {
        return;
    }
    let mut other = None;
    let several = fdtable::refs(i) > 1;
    if several {
        fdtable::each(|n, e| {
            if n != fd && e == Entry::Conn(i) {
                other = Some(n);
            }
        });
    }
    // The file lives on, too, where another number of it is just being made.
    epoll::closing(fd, i, other, several || !c.is_ours_alone() || c.may_be_given_away());
}

impl Channel {
    /// Whether its open file may live on with somebody whom the family does not know: it has left for a stranger's sake, or is
    /// on its way to another process.
    fn may_be_given_away(&self) -> bool {
        match self.stage() {
            Stage::Accepted | Stage::Live => self.receiving().word.has_left(),
            _ => true,
        }
    }
}

/// The descriptor was closed behind our back: nothing can be said to the kernel any more.
fn abandon(i: u32) {
    let (Some(family), Some(me)) = (state::family(), state::member_if_joined()) else { return };
    let c = Channel::new(family, -1, i);
    // The dead are no holders.
    c.is_ours_alone();
    late::release(family, i, me, Whose::Ours);
}

/// The last close of connection `i` in this process. `fd` is its open file; -1: that is closed.
pub fn end(fd: i32, i: u32) {
    late::look_again();
    ends::forget(i);
    if fd < 0 {
        return abandon(i);
    }
    let (Some(family), Some(me)) = (state::family(), state::member_if_joined()) else { return };
    let c = Channel::new(family, fd, i);
    let last = c.is_ours_alone();
    if c.stage() == Stage::Live {
        if last {
            c.before_end();
            c.ends_paid();
            let left = c.receiving().word.is_raw();
            if !left {
                c.farewell();
            } else if c.reason.load(Ordering::Relaxed) == Reason::Option as u32 {
                // It left for the sake of an option, and what it had not read is still in the ring.
                let edge = c.receiving();
                c.as_receiver(|| {
                    if c.has_unread(&edge) {
                        raw::reset_at_close(fd);
                    }
                });
            }
            // A process that left otherwise has given the socket to others: how it ends is not for us to say.
        } else {
            c.ends_paid();
            // The process that has it may be dead, or end without a word: a bell it leaves would be a reset.
            c.settle(true);
        }
    }
    link::look_after(&c);
    // The others may have left at the same moment.
    late::release(family, i, me, Whose::Ours);
}

impl Channel {
    /// The last close of a live channel: FIN or RST, as TCP would have chosen (W12).
    fn farewell(&self) {
        let edge = self.receiving();
        // From here on the peer rings no more; what it sends goes to TCP, where the kernel answers.
        edge.word.leave();
        self.as_receiver(|| self.last_words(&edge));
    }

    fn last_words(&self, edge: &End) {
        if self.has_unread(edge) {
            raw::reset_at_close(self.fd);
        } else {
            self.drain_for_close(edge, rx::Patience::Close);
        }
    }
}

/// Whose connection an entry is that goes back.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Whose {
    Ours,
    /// That of a process that ended. Its arena may be mapped elsewhere here, or not at all.
    Another,
}

/// The entry goes back; the slot too. False: nothing was done, as somebody was in a section of it during so many tries.
fn let_go(family: Family, i: u32, c: &Conn, whose: Whose, tries: u32) -> bool {
    if c.has(Conn::UNCOUNTED) {
        // Somebody who is not counted may still look here.
        return true;
    }
    // What began before the number changed is over then, and what comes after finds under the lock that the entry is gone.
    if !late::take_locks(family, c, tries) {
        return false;
    }
    let h = family.header();
    for (to, from) in [
        (&h.tx_done, &c.tx_bytes),
        (&h.rx_done, &c.rx_bytes),
        (&h.bells_done, &c.bells),
        (&h.back_done, &c.back),
    ] {
        to.fetch_add(from.load(Ordering::Relaxed), Ordering::Relaxed);
    }
    let client = c.is_client();
    match whose {
        Whose::Ours => leave_slot(family, c, c.slot()),
        // Where we cannot say that we have left, the other side learns it from the kernel. What is mapped there must stay
        // while we do.
        Whose::Another => client::walking(|| {
            guests::walking(|walking| {
                if mapped_here(c, walking) {
                    return leave_slot(family, c, c.slot());
                }
                leave_slot(family, c, None);
                if client && c.offer.load(Ordering::Relaxed) != 0 {
                    client::leave_for_ended(family, c);
                }
            });
        }),
    }
    c.offer.store(0, Ordering::Release);
    c.set_stage(Stage::Unused);
    c.tx_lock.unlock();
    c.rx_lock.unlock();
    family.free(i);
    if !client {
        door::sweep();
    }
    true
}

/// The slot goes back.
fn leave_slot(family: Family, c: &Conn, slot: Option<&Slot>) {
    match (c.stage(), slot) {
        (Stage::Candidate, _) => family.count(Reason::Closed),
        (Stage::Offered, Some(s)) if s.withdraw(c.generation.load(Ordering::Relaxed)) => {
            client::release(c);
            family.count(Reason::Closed);
        }
        (stage, Some(_)) if c.is_client() => {
            match stage {
                Stage::Live => count_worth(family, c),
                // The server took the offer, and nobody called afterwards.
                Stage::Offered => family.count(Reason::Closed),
                // Counted when it was a channel, or when it ended.
                _ => {}
            }
            client::leave(c);
        }
        (stage, Some(s)) => {
            let generation = c.generation.load(Ordering::Relaxed);
            match stage {
                // The client has confirmed, and sent nothing more: it counts a channel, so this end does. Of one that has left
                // as well only its own count tells.
                Stage::Accepted if s.is(generation, State::Live) => {
                    family.header().channels.fetch_add(1, Ordering::Relaxed);
                }
                Stage::Accepted => family.count(Reason::Closed),
                _ => {}
            }
            s.leave(generation, Side::Server);
        }
        _ => {}
    }
}

/// Client: the channel ends. Whether it has paid decides when later ones are offered.
fn count_worth(family: Family, c: &Conn) {
    let lines = c.positions().wrapping_sub(c.first.load(Ordering::Relaxed));
    let arena = c.arena.load(Ordering::Relaxed) as usize % ARENAS;
    family.arena(arena).worth.count(u64::from(lines));
}

/// Whether the connection's slot is where the entry says, in this process too. Also for a walker of the client's.
fn mapped_here(c: &Conn, walking: &guests::Walking) -> bool {
    let at = c.offer.load(Ordering::Acquire) as usize;
    let end = |a: dp_channel::tcp::Addr| (a.ip, a.port);
    (client::maps(at) || guests::maps(at, walking))
        && c.slot().and_then(Slot::ends).is_some_and(|(client, server)| {
            let (ours, theirs) = (end(c.local()), end(c.peer()));
            (client, server) == (ours, theirs) || (client, server) == (theirs, ours)
        })
}
