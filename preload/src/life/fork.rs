//! Forks: what a child has of its parent's connections (PROTOCOLS E11, L3).
//!
//! Before a fork the parent marks each of its connections for the child, by a place among the members that it reserves.
//! The kernel copies the descriptors after that, and memory last, page by page; other threads go on all the while. So
//! what was accepted, copied or closed meanwhile may stand in the child's table without a descriptor, or the other way
//! round. The marks are what both agree on: where the table has changed since, the child keeps what has its mark, and
//! forgets everything else ([`agree`]).
//!
//! Handlers of pthread_atfork(3) are called before a fork in the reverse of the order in which they were registered, and behind it
//! in that order. Ours are the first ever: whoever else registers some comes by us ([`register`]). So other libraries have taken
//! their locks before our sets are held, and give them back when those are free again; none waits for a lock whose owner waits
//! for a set. And what their handlers do with descriptors, in the child too, finds everything as it is to be.
//!
//! From there on until we are through, in parent and child, no signal handler runs: the parent's would find sets that are held,
//! and the child's a process that does not know yet that it is one.

use core::cell::Cell;
use core::sync::atomic::{fence, AtomicBool, Ordering};

use dp_channel::family::{Added, Conn, Family, Member, Reason, Stage};
use dp_channel::slot::Side;
use dp_edge::sys::raw;

use super::{dead, late, Whose};
use crate::epoll::{self, Others};
use crate::fdtable::{self, Entry};
use crate::{client, diag, door, inside, leave, link, log, rules, socket, spin, state, wait};

/// What a parent prepared for its child.
#[derive(Clone, Copy)]
pub struct Prepared {
    /// The child's place among the members, and the process id that stands there until it settles.
    place: Option<(u32, u32)>,
    /// The parent's place, and [`fdtable::changes`] there before the first mark; `None`: it had no place.
    before: Option<(u32, u32)>,
    /// The program's signal mask, where another one is set meanwhile.
    mask: Option<u64>,
}

impl Prepared {
    /// Of a fork for which nothing was prepared.
    const NOTHING: Prepared = Prepared { place: None, before: None, mask: None };

    /// For a process of ours that has one connection, by place `n`, and will say itself which.
    pub fn alone(n: u32) -> Prepared {
        let pid = |family: Family| family.member(n as usize).pid();
        Prepared {
            place: state::family().map(|family| (n, pid(family))),
            before: Some((n, fdtable::changes(n))),
            mask: None,
        }
    }

    /// The program's handlers run again.
    fn let_handlers_run(&self) {
        if let Some(mask) = self.mask {
            raw::set_blocked_signals(mask);
        }
    }
}

/// Our handlers are registered.
static REGISTERED: AtomicBool = AtomicBool::new(false);

/// Registers our handlers of pthread_atfork(3), if they are not. When the library is loaded, or before another library's
/// constructor registers some, which may come first.
pub fn register() {
    if REGISTERED.swap(true, Ordering::AcqRel) {
        return;
    }
    let [prepare, parent, child] =
        [prepare_fork_c, parent_of_fork_c, child_of_fork_c].map(|f: unsafe extern "C" fn()| f as usize);
    // SAFETY: plain functions that stay loaded: the library is never unloaded while hooks point into it, which is what a
    // handle of null says.
    unsafe { crate::real::__register_atfork()(prepare, parent, child, core::ptr::null_mut()) };
}

thread_local! {
    /// Of this thread's last fork; others may fork at the same time. It stays: what is written to behind a fork is copied.
    static PREPARED: Cell<Prepared> = const { Cell::new(Prepared::NOTHING) };
}

unsafe extern "C" fn prepare_fork_c() {
    PREPARED.set(prepare_fork(Others::Wait));
}

#[link_section = "dp_forks"]
unsafe extern "C" fn child_of_fork_c() {
    child_of_fork(PREPARED.get());
}

unsafe extern "C" fn parent_of_fork_c() {
    parent_of_fork(&PREPARED.get());
}

/// Before a call that may fork, and may fail before that.
pub fn no_fork_yet() {
    PREPARED.set(Prepared::NOTHING);
}

/// fork(2) failed, after all handlers.
pub fn fork_failed() {
    forget_fork(PREPARED.get());
}

/// Before a fork: the child gets a member number and every connection we hold, if there is one to have, and something to
/// share. `others`: what threads do that are about to use a set.
pub fn prepare_fork(others: Others) -> Prepared {
    if !state::ON.load(Ordering::Relaxed) {
        return Prepared::NOTHING;
    }
    // Before the first mark.
    let before = state::member_if_joined().map(|me| (me, fdtable::changes(me)));
    let place = prepare_place();
    let mask = Some(raw::block_signals_but_faults());
    fdtable::count_start();
    // Last: leaving takes sets' locks.
    epoll::hold_still(others);
    Prepared { place, before, mask }
}

/// After [`prepare_fork`], in the parent, whether there is a child or not.
pub fn parent_of_fork(prepared: &Prepared) {
    if state::ON.load(Ordering::Relaxed) {
        epoll::go_on();
        // Sockets that other threads have made since may be the child's, too.
        if !inside::alone() {
            fdtable::count_start();
        }
    }
    prepared.let_handlers_run();
}

fn prepare_place() -> Option<(u32, u32)> {
    let (Some(family), Some(me)) = (state::family(), state::member_if_joined()) else { return None };
    dead::at_a_fork(family);
    let Some(n) = reserve(family, state::program()) else {
        // Nobody could tell when the child is through with them.
        fdtable::each(|fd, e| {
            if let Entry::Conn(i) = e {
                leave::leave_and_read(fd, Reason::Shared);
                // What is the kernel's alone needs nobody to tell.
                if family.conn(i).stage() != Stage::Plain {
                    family.conn(i).set(Conn::UNCOUNTED);
                    says_shared(family.conn(i));
                }
            }
        });
        return None;
    };
    let held = |c: &&Conn| family.holders(c).has(me) && !c.has(Conn::KEPT);
    for i in family.used().filter(|&i| held(&family.conn(i))) {
        hold(family, i, n, me);
    }
    Some((n, family.member(n as usize).pid()))
}

/// A place among the members for a process that is about to be started. Until it says who it is, it counts as alive
/// while this one is.
pub fn reserve(family: Family, name: &[u8]) -> Option<u32> {
    // SAFETY: no arguments, no failure.
    let (pid, uid) = (raw::getpid(), unsafe { libc::geteuid() });
    let parent = state::member_if_joined().map(|me| family.member(me as usize)).filter(|m| m.is(pid));
    let take = |m: &Member| match parent {
        Some(parent) => m.reserve(parent, uid, name),
        None => m.claim(pid, uid, name),
    };
    family.enlist(take).or_else(|| {
        dead::clear(family, true);
        family.enlist(take)
    })
}

/// Member `n` has connection `i`, too, if this process, member `me`, still has it: another thread may close it meanwhile, and its
/// entry may be another's then. False: it has not.
pub fn hold(family: Family, i: u32, n: u32, me: u32) -> bool {
    let c = family.conn(i);
    match family.holders(c).add_beside(n, me) {
        Added::Yes => {}
        Added::Not => return false,
        // The thread that closed it has counted us among its holders, and left the rest to us.
        Added::Last => {
            late::end(family, i, n, Whose::Ours);
            return false;
        }
    }
    says_shared(c);
    true
}

/// The other end is not to take the end of one process for the end of the connection. What takes an offer just now finds the holder
/// that was added, or is found here.
fn says_shared(c: &Conn) {
    fence(Ordering::SeqCst);
    if let (Stage::Accepted | Stage::Live, Some(s)) = (c.stage(), c.slot()) {
        let side = if c.is_client() { Side::Client } else { Side::Server };
        s.shared.fetch_or(side as u32, Ordering::Relaxed);
    }
}

/// There is no child after all.
pub fn forget_fork(prepared: Prepared) {
    let (Some((n, _)), Some(family)) = (prepared.place, state::family()) else { return };
    for i in family.used() {
        drop_mark(family, i, n);
    }
    family.member(n as usize).clear();
}

fn drop_mark(family: Family, i: u32, n: u32) {
    late::release(family, i, n, Whose::Ours);
}

/// After a fork, in the child.
#[link_section = "dp_forks"]
pub fn child_of_fork(prepared: Prepared) {
    if state::ON.load(Ordering::Relaxed) {
        find_out(&prepared);
    }
    prepared.let_handlers_run();
}

/// The child finds out what it has.
#[link_section = "dp_forks"]
fn find_out(prepared: &Prepared) {
    let family = state::family();
    // Before there are any of ours.
    let changed = fdtable::may_inherit_holds()
        || prepared.before.is_none_or(|(parent, before)| fdtable::changes(parent) != before);
    dp_channel::family::forked(prepared.place.map(|(_, pid)| pid));
    // A child that finds its parent dead gives the place away.
    let me = raw::getpid();
    let settled =
        |&(n, pid): &(u32, u32)| family.is_some_and(|family| family.member(n as usize).settle(pid, me));
    let n = prepared.place.filter(settled).map(|(n, _)| n);
    state::begin_as_child(n, me);
    inside::inherited(super::forget);
    epoll::inherited();
    client::inherited();
    door::inherited();
    link::inherited();
    wait::inherited();
    diag::inherited();
    spin::inherited();
    rules::inherited();
    log::inherited();
    if let Some(family) = family.filter(|_| changed || n.is_none()) {
        agree(family, n, changed);
    }
}

/// The child forgets what stands in its table and is not its own, and drops marks of what it does not have. `changed`:
/// an entry may be without its descriptor, too.
fn agree(family: Family, n: Option<u32>, changed: bool) {
    let ours = |c: &Conn| match n {
        Some(n) => family.holders(c).has(n),
        None => c.has(Conn::UNCOUNTED),
    };
    let marked = || family.used().filter(|&i| ours(family.conn(i)));
    for i in marked() {
        fdtable::set_refs(i, 0);
    }
    fdtable::each(|fd, e| match e {
        Entry::Conn(i) if ours(family.conn(i)) && (!changed || socket::stands_for(fd, family.conn(i))) => {
            fdtable::set_refs(i, fdtable::refs(i) + 1);
        }
        // The parent's, or that of whoever has its entry by now: nothing is said to anybody.
        Entry::Conn(_) => {
            fdtable::clear(fd);
        }
        Entry::Epoll(_) | Entry::Listener(_) | Entry::Internal
            if changed && raw::fcntl(fd, libc::F_GETFD, 0).is_err() =>
        {
            fdtable::clear(fd);
        }
        _ => {}
    });
    if let Some(n) = n {
        for i in marked().filter(|&i| fdtable::refs(i) == 0) {
            drop_mark(family, i, n);
        }
    }
}
