//! The rules of this process: which connections, asked when one begins; and read anew where somebody has said so.
//!
//! There are two lists, one in use and one to read into, so that a thread that asks need not wait and nothing is allocated.
//! `ASKING` counts those inside a list: only while there are none is the other list written to, which nobody can find then.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::net::IpAddr;

use dp_channel::tcp;
use dp_edge::sys::{process, raw};
use dp_rules::config::{Marks, Places, Room, MAX_LEN};
use dp_rules::{Decision, Direction, Program, Question, Rules, Settings};

use crate::{log, state};

/// The longest path of a control group that rules are asked with; in one with a longer path the process counts as in none.
const LONGEST: usize = 1024;

/// Rules, and where this process was among control groups when they were read.
#[repr(C)]
struct Kept {
    cgroup_len: usize,
    rules: Rules,
    cgroup: [u8; LONGEST],
}

impl Kept {
    const NONE: Kept = Kept { cgroup_len: 0, rules: Rules::DEFAULT, cgroup: [0; LONGEST] };

    /// Finds out what the rules ask for, by way of `room`.
    fn complete(&mut self, room: &mut [u8]) {
        self.cgroup_len = 0;
        if !self.rules.asks_for_cgroups() {
            return;
        }
        let n = raw::read_file(c"/proc/self/cgroup", room).unwrap_or(0);
        let found = dp_rules::cgroup(&room[..n]);
        if let Some(kept) = self.cgroup.get_mut(..found.len()) {
            kept.copy_from_slice(found);
            self.cgroup_len = found.len();
        }
    }

    /// This process, as rules know it now: a daemon may have changed its user.
    fn program(&self) -> Program<'_> {
        let asked = ASKS.load(Ordering::Relaxed) & USERS != 0;
        let of = |id: fn() -> u32| if asked { id() } else { 0 };
        let (user, group) = (of(process::effective_user), of(process::effective_group));
        Program { name: state::program(), user, group, cgroup: &self.cgroup[..self.cgroup_len] }
    }
}

struct Lists([UnsafeCell<Kept>; 2]);

// SAFETY: the list that `NOW` names is only read; the other one is written by one thread, which has `READING`, from a moment on
// when `ASKING` said that nobody is in it.
unsafe impl Sync for Lists {}

static LISTS: Lists = Lists([const { UnsafeCell::new(Kept::NONE) }; 2]);
/// Which list holds; 2: none, everything stays on TCP.
static NOW: AtomicU32 = AtomicU32::new(2);
static ASKING: AtomicU32 = AtomicU32::new(0);
/// A thread looks whether there is something to read, or reads it.
static READING: AtomicBool = AtomicBool::new(false);

/// Bits of [`ASKS`].
const USERS: u32 = 1;
const ENDS_CONNECT: u32 = 2;
const ENDS_LISTEN: u32 = 4;
/// What the present rules are about, so that what no rule asks for is not asked of the kernel.
static ASKS: AtomicU32 = AtomicU32::new(0);

/// What to read anew; null: nothing.
static AGAIN: AtomicPtr<Again> = AtomicPtr::new(core::ptr::null_mut());
/// When marks are looked at next, by `state::now()`.
static NEXT: AtomicU64 = AtomicU64::new(0);
/// How often they are, ns: as often as an operator can tell from "at once", and seldom beside what connections cost.
const PAUSE: u64 = 100_000_000;

struct Again {
    places: Places,
    /// As they were when the rules were read.
    marks: UnsafeCell<Marks>,
    /// Room for a file, mapped when it is needed first.
    room: AtomicPtr<u8>,
}

const ROOM: usize = MAX_LEN + 1;

/// When the library is loaded, before anything can ask: takes the rules that `read` puts into the list, and where to read them
/// anew, if that can be. False: it found none to go by.
pub fn begin(read: impl FnOnce(&mut Rules) -> Option<Option<(Places, Marks)>>) -> bool {
    // SAFETY: nobody asks before `NOW` is set.
    let list = unsafe { &mut *LISTS.0[0].get() };
    let Some(places) = read(&mut list.rules) else { return false };
    if let Some((places, marks)) = places {
        let again = Again { places, marks: UnsafeCell::new(marks), room: AtomicPtr::default() };
        AGAIN.store(Box::into_raw(Box::new(again)), Ordering::Release);
    }
    list.complete(&mut vec![0; 4 * LONGEST]);
    take_into_use(0);
    true
}

fn take_into_use(which: u32) {
    // SAFETY: written, and not written to any more while it is in use.
    let rules = unsafe { &(*LISTS.0[which as usize].get()).rules };
    let flag = |holds, flag| if holds { flag } else { 0 };
    let asks = flag(rules.asks_for_users(), USERS)
        | flag(rules.may_end(Direction::Connect), ENDS_CONNECT)
        | flag(rules.may_end(Direction::Listen), ENDS_LISTEN);
    state::set_for_rules(rules.iter().map(|rule| rule.settings()));
    ASKS.store(asks, Ordering::SeqCst);
    NOW.store(which, Ordering::SeqCst);
}

/// Does `f` with the rules that hold.
fn ask<R>(f: impl FnOnce(&Kept) -> R) -> Option<R> {
    ASKING.fetch_add(1, Ordering::SeqCst);
    let list = LISTS.0.get(NOW.load(Ordering::SeqCst) as usize);
    // SAFETY: the list in use is not written to, nor the other one while we are counted.
    let result = list.map(|list| f(unsafe { &*list.get() }));
    ASKING.fetch_sub(1, Ordering::SeqCst);
    result
}

/// What happens to a connection, within this host if it is `here`; `None`: there are no rules to go by.
pub fn decide(direction: Direction, addr: IpAddr, port: u16, here: bool) -> Option<Decision> {
    ask(|kept| kept.rules.decide(&Question { program: kept.program(), direction, addr, port, here }))
}

/// How channels to a server are to be.
pub fn settings(server: tcp::Addr) -> Settings {
    decide(Direction::Connect, server.ip(), server.port, true)
        .map_or(Settings::NONE, |decision| decision.settings)
}

/// Whether a listener bound there could accept a connection that gets a channel.
pub fn may_accept(bound: IpAddr, port: u16) -> bool {
    ask(|kept| kept.rules.may_accept(kept.program(), bound, port)).unwrap_or(false)
}

/// Whether connections in this direction may have to be ended.
#[inline]
pub fn may_end(direction: Direction) -> bool {
    let bit = if direction == Direction::Connect { ENDS_CONNECT } else { ENDS_LISTEN };
    ASKS.load(Ordering::Relaxed) & bit != 0
}

/// A connection or a listener begins: reads the rules anew if somebody has said so since they were read. True: other ones hold
/// now. What cannot be read changes nothing.
pub fn renew() -> bool {
    let again = AGAIN.load(Ordering::Acquire);
    if again.is_null() || state::now() < NEXT.load(Ordering::Relaxed) {
        return false;
    }
    // A process that has forbidden itself system calls makes none for us; a child of vfork has its parent's memory.
    if state::ended().is_some() || state::is_borrowed_memory() {
        return false;
    }
    // SAFETY: leaked when the library was loaded.
    look(unsafe { &*again })
}

#[cold]
fn look(again: &Again) -> bool {
    if READING.swap(true, Ordering::Acquire) {
        return false;
    }
    NEXT.store(state::now() + PAUSE, Ordering::Relaxed);
    let marks = again.places.marks();
    // SAFETY: only whoever has `READING` comes here.
    let known = unsafe { &mut *again.marks.get() };
    // A thread that asks just now may be in the list that is to be written, and a signal stack be too short for what reads:
    // a later connection tries again.
    let may = *known != marks && ASKING.load(Ordering::SeqCst) == 0 && !raw::on_signal_stack_above(0);
    let room = if may { room(again) } else { None };
    let renewed = room.is_some_and(|room| {
        // What cannot be read now is not read again before it changes.
        *known = marks;
        read_anew(again, room)
    });
    READING.store(false, Ordering::Release);
    renewed
}

fn read_anew(again: &Again, room: *mut u8) -> bool {
    // SAFETY: as long as that, zeroed, and used by whoever has `READING`.
    let room = unsafe { core::slice::from_raw_parts_mut(room, ROOM) };
    let other = u32::from(NOW.load(Ordering::Relaxed) == 0);
    // SAFETY: not in use, and nobody is in it (`look`).
    let list = unsafe { &mut *LISTS.0[other as usize].get() };
    if again.places.read(Room::Given(room), &mut list.rules, &mut |_, _| {}).is_err() {
        log::warning("the rules cannot be read anew, and the former hold: dp rules check says why");
        return false;
    }
    list.complete(room);
    take_into_use(other);
    log::told("rules", "read anew");
    true
}

/// Where a file is read to; mapped for good.
fn room(again: &Again) -> Option<*mut u8> {
    if again.room.load(Ordering::Relaxed).is_null() {
        again.room.store(state::reserve::<u8>(ROOM)?, Ordering::Relaxed);
    }
    Some(again.room.load(Ordering::Relaxed))
}

/// In a forked child: threads of the parent may have been at work.
pub fn inherited() {
    state::clear(&ASKING);
    if READING.load(Ordering::Relaxed) {
        READING.store(false, Ordering::Relaxed);
    }
}
