//! What a set's decisions reach: the kernel's set, and the channels (`dp_channel::watch::World`).

use core::cell::Cell;
use core::ops::Range;
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use dp_channel::bell::Group;
use dp_channel::family::{Conn, Family, Stage, CONNS, MEMBERS};
use dp_channel::stream;
use dp_channel::switch::in_ring;
use dp_channel::watch::{Set, SetName, Settled, World};
use dp_edge::ring::{Cursor, Pos};
use dp_edge::sys::raw;
use libc::epoll_event;

use super::kick::kicker;
use super::list::Looked;
use super::Place;
use crate::channel::Channel;
use crate::{groups, link, rx, socket, state};

/// Sleeps of a set before it gets an event, which costs some system calls: some programs make a set for each wait.
const EVENTFUL: u32 = 4;

/// Where a connection is registered.
pub enum Registered {
    /// In no set of this process.
    Nowhere,
    /// In this one, if anywhere.
    In(u32),
    /// In several, perhaps.
    Anywhere,
}

const ANYWHERE: u32 = u32::MAX;
/// Of each connection: 0, a set's index plus one, or `ANYWHERE`. Reserved when the first is registered.
static BY_CONN: AtomicPtr<AtomicU32> = AtomicPtr::new(core::ptr::null_mut());

fn by_conn(conn: u32) -> Option<&'static AtomicU32> {
    let table = BY_CONN.load(Ordering::Acquire);
    // SAFETY: CONNS entries, never unmapped.
    (!table.is_null()).then(|| unsafe { &*table.add(conn as usize & (CONNS - 1)) })
}

/// Where connection `conn` is registered.
pub fn registered(conn: u32) -> Registered {
    match by_conn(conn).map_or(0, |at| at.load(Ordering::Acquire)) {
        0 => Registered::Nowhere,
        ANYWHERE => Registered::Anywhere,
        n => Registered::In(n - 1),
    }
}

/// Set `i` gives up the last registration of connection `conn`. Another set may have noted itself just now, and counts itself next:
/// what it noted stays, until the connection is over.
fn forget(conn: u32, i: u32) {
    if let Some(at) = by_conn(conn) {
        let _ = at.compare_exchange(i + 1, 0, Ordering::AcqRel, Ordering::Relaxed);
    }
}

/// Entry `conn` is another connection from now on, and in no set yet.
pub fn begins(conn: u32) {
    if let Some(at) = by_conn(conn) {
        at.store(0, Ordering::Release);
    }
}

/// Notes that connection `conn` is registered in set `i`. False without memory: then it cannot be found again.
pub(super) fn note(conn: u32, i: u32) -> bool {
    if BY_CONN.load(Ordering::Acquire).is_null() {
        let Some(new) = state::reserve::<AtomicU32>(CONNS * 4) else { return false };
        if BY_CONN.compare_exchange(core::ptr::null_mut(), new, Ordering::AcqRel, Ordering::Relaxed).is_err()
        {
            // SAFETY: ours, and nobody else has seen it.
            unsafe { libc::munmap(new.cast(), CONNS * 4) };
        }
    }
    let Some(at) = by_conn(conn) else { return false };
    if let Err(now) = at.compare_exchange(0, i + 1, Ordering::AcqRel, Ordering::Acquire) {
        if now != i + 1 {
            at.store(ANYWHERE, Ordering::Release);
        }
    }
    true
}

/// See the module. The set's lock is held.
pub struct Ground<'a> {
    place: &'a Place,
    index: u32,
    family: Option<Family>,
}

impl<'a> Ground<'a> {
    /// Of a locked set.
    pub fn new(place: &'a Place, index: u32) -> Ground<'a> {
        Ground { place, index, family: state::family() }
    }

    fn conn(&self, i: u32) -> Option<&'static Conn> {
        self.family.map(|family| family.conn(i))
    }

    fn live(&self, i: u32) -> Option<&'static Conn> {
        self.conn(i).filter(|c| c.stage() == Stage::Live)
    }

    /// The same as it is reached by `io`.
    fn channel(&self, i: u32, io: i32) -> Option<Channel> {
        self.family.map(|family| Channel::new(family, io, i))
    }

    /// What is looked at without the lock, if anything is.
    pub fn looked(&self) -> Option<&'a Looked> {
        let p = self.place.looked.load(Ordering::Acquire);
        // SAFETY: made by looked_or_make(), never unmapped.
        (!p.is_null()).then(|| unsafe { &*p })
    }

    fn looked_or_make(&self) -> Option<&'a Looked> {
        if self.looked().is_none() {
            self.place.looked.store(state::reserve::<Looked>(size_of::<Looked>())?, Ordering::Release);
        }
        self.looked()
    }

    /// Calls `f` with the words by which the set says that it sleeps.
    pub fn each_group(&self, f: impl Fn(&Group)) {
        if let Some(looked) = self.looked() {
            // SAFETY: the set's lock is held.
            unsafe { looked.each_group(f) };
        }
    }

    /// The sender of a hot connection hears by which event it wakes whoever sleeps in the set.
    fn tell(&self, c: &Conn) {
        if c.link.load(Ordering::Relaxed) != 0 {
            let (own, set) = (&self.place.event, self.place.fd.load(Ordering::Relaxed));
            if let Some((number, event)) = own.of(set) {
                link::tell(c, number, event, || own.far(set));
            }
        }
    }

    /// The set is about to sleep, once more: how it is woken.
    pub fn falls_asleep(&self, set: &Set) -> u32 {
        let slept = self.place.slept.load(Ordering::Relaxed);
        if slept <= EVENTFUL {
            self.place.slept.store(slept + 1, Ordering::Relaxed);
        }
        if slept == EVENTFUL {
            set.hot_rows().filter_map(|row| self.live(row.conn()?)).for_each(|c| self.tell(c));
        }
        self.place.event.how()
    }

    /// The set is woken by bells alone from now on.
    pub fn end_event(&self) {
        self.place.event.end(self.place.fd.load(Ordering::Relaxed));
    }

    /// Wakes whoever sleeps in the set, if nothing of it can tell him ([`Set::bell_was_taken`]) and none but this process's threads
    /// sleeps there. A child that begins to use it meanwhile knows the event by its value.
    #[cold]
    pub fn wake_by_event(&self, set: &Set) {
        let alone = !set.is_inherited() && !self.place.relatives.began();
        if alone && set.is_slept_in() {
            if let Some((_, fd)) = self.place.event.of(self.place.fd.load(Ordering::Relaxed)) {
                raw::signal_event(fd);
            }
        }
    }

    /// The set ends: its groups are free. Those of an inherited one are the parent's.
    pub fn leave_groups(&self, inherited: bool) {
        if !inherited {
            self.each_group(|g| g.taken.store(0, Ordering::Release));
        }
        if let Some(looked) = self.looked() {
            // SAFETY: the set's lock is held.
            unsafe { looked.forget_groups() };
        }
    }

    /// An arena is about to be unmapped: its groups go.
    pub fn forget_groups_in(&self, range: &Range<usize>) {
        if let Some(looked) = self.looked() {
            // SAFETY: the set's lock is held.
            unsafe { looked.keep_groups(|at| !range.contains(&at)) };
        }
    }

    /// This set's group in the connection's arena, from 1 on.
    fn group(&self, c: &Conn) -> Option<u8> {
        let looked = self.looked_or_make()?;
        let of_arena = c.my_groups();
        let at = of_arena.as_ptr() as usize;
        // SAFETY: the set's lock is held.
        if let Some(i) = unsafe { looked.group(at) } {
            return Some(i);
        }
        if looked.has_no_room() {
            // Until something is cold: each bell of a connection beyond comes here.
            return None;
        }
        let family = self.family?;
        // SAFETY: the set's lock is held.
        let room = unsafe {
            looked.has_room() || {
                // Those of arenas in which nothing is hot any more make room.
                looked.keep_groups(|at| {
                    looked.connections().any(|conn| family.conn(conn).my_groups().as_ptr() as usize == at)
                });
                looked.has_room()
            }
        };
        if !room {
            looked.found_no_room();
            return None;
        }
        let i = groups::take(family, c)?;
        // While there are descriptors: those who sleep rely on each other from now on, and are to be woken when there are none.
        let _ = kicker();
        // SAFETY: the set's lock is held; the arena stays mapped while the connection is live, and forget_arena() comes
        // before it goes.
        unsafe { looked.add_group(at, i as u8 + 1) };
        Some(i as u8 + 1)
    }
}

impl World for Ground<'_> {
    fn ctl(&mut self, op: i32, fd: i32, events: u32, data: u64) -> Result<(), i32> {
        let set = self.place.fd.load(Ordering::Relaxed);
        raw::epoll_ctl(set, op, fd, Some(epoll_event { events, u64: data })).map(|_| ())
    }

    fn watch(&mut self, conn: u32, more: bool) -> u32 {
        let Some(c) = self.conn(conn) else { return 0 };
        if more {
            if !note(conn, self.index) {
                self.uncounted(conn);
            }
            return Conn::registrations(c.watched.fetch_add(1, Ordering::SeqCst)) + 1;
        }
        let left = Conn::registrations(c.watched.fetch_sub(1, Ordering::SeqCst)).saturating_sub(1);
        if left == 0 {
            forget(conn, self.index);
        }
        left
    }

    fn watched(&self, conn: u32) -> u32 {
        self.conn(conn).map_or(0, |c| Conn::registrations(c.watched.load(Ordering::SeqCst)))
    }

    fn rests(&mut self, conn: u32, rests: bool) {
        if let Some(c) = self.conn(conn) {
            c.rests(rests);
        }
    }

    fn uncounted(&mut self, conn: u32) {
        uncounted(conn);
    }

    fn asks_for_one(&mut self, conn: u32) {
        if let Some(c) = self.conn(conn) {
            c.set(Conn::FOR_ONE);
        }
    }

    fn may_be_for_one(&self, conn: u32) -> bool {
        self.conn(conn).is_some_and(|c| c.has(Conn::FOR_ONE))
    }

    fn is_channel(&self, conn: u32) -> bool {
        self.conn(conn).is_some_and(|c| matches!(c.stage(), Stage::Accepted | Stage::Live))
    }

    fn make_hot(&mut self, conn: u32) -> bool {
        let (Some(family), Some(c)) = (self.family, self.live(conn)) else { return false };
        if !in_ring(c.rx_epoch.load(Ordering::Relaxed)) || c.waited_for() != 1 || armed(family, c) {
            return false;
        }
        if c.receiving().tx.is_ending() {
            return false;
        }
        let Some(group) = self.group(c) else { return false };
        if self.place.slept.load(Ordering::Relaxed) >= EVENTFUL {
            self.tell(c);
        }
        let word = c.receiving().word;
        if !word.heat_group(group) {
            return false;
        }
        // Another set, or a relative, counted itself first and cooled the word then: one of us sees the other.
        if c.waited_for() != 1 || c.armed_by.load(Ordering::SeqCst) != 0 {
            word.make_cold();
            return false;
        }
        true
    }

    fn make_cold(&mut self, conn: u32) {
        // A receive makes the word hot as soon as the other end is live, before this one has noticed.
        if let Some(c) = self.conn(conn).filter(|_| self.is_channel(conn)) {
            c.receiving().word.make_cold();
        }
    }

    fn make_cold_beside(&mut self, conn: u32) {
        if let Some(c) = self.conn(conn).filter(|_| self.is_channel(conn)) {
            c.receiving().word.make_cold_beside();
        }
    }

    fn is_told(&self) -> bool {
        let told = Cell::new(false);
        self.each_group(|g| told.set(told.get() | g.is_told()));
        told.get()
    }

    fn is_hot(&self, conn: u32) -> bool {
        self.live(conn).is_some_and(|c| c.receiving().word.is_hot())
    }

    fn has_tokens(&self, conn: u32) -> bool {
        self.conn(conn).is_some_and(|c| c.has_tokens())
    }

    fn waiting(&mut self, conn: u32, io: i32) -> bool {
        self.channel(conn, io).is_some_and(|c| c.has_reachable_tokens())
    }

    fn frontier(&self, conn: u32, from: Option<Pos>) -> Pos {
        let Some(c) = self.live(conn) else { return from.unwrap_or_default() };
        let rx = c.receiving();
        if !in_ring(c.rx_epoch.load(Ordering::Relaxed)) {
            // What lies behind bytes on their way through TCP was shown to nobody, whatever of those was.
            return Cursor::unpack(rx.rx.cursor.load(Ordering::Acquire)).pos;
        }
        stream::frontier(&rx.ring(), &rx.rx.cursor, from.unwrap_or_default())
    }

    fn writable(&self, conn: u32) -> bool {
        self.live(conn)
            .is_some_and(|c| c.has(Conn::SHUT_WR) || in_ring(c.sending().tx.epoch()) && c.slot_live())
    }

    fn has_room(&self, io: i32) -> bool {
        socket::has_room(io)
    }

    fn in_ring(&mut self, conn: u32, io: i32) -> bool {
        let Some(c) = self.channel(conn, io).filter(|c| c.stage() == Stage::Live) else { return false };
        let rx = c.receiving();
        if rx.tx.moved(c.rx_epoch.load(Ordering::Relaxed)) {
            c.has_news(&rx); // follows
        }
        let epoch = c.rx_epoch.load(Ordering::Relaxed);
        in_ring(epoch) && !rx.tx.moved(epoch) && !rx.tx.is_ending()
    }

    fn is_ending(&self, conn: u32) -> bool {
        // An end that has shut down itself is always readable, which only the kernel knows.
        self.live(conn).is_none_or(|c| c.receiving().tx.is_ending() || c.has(Conn::SHUT_RD))
    }

    fn has_error(&self, conn: u32) -> bool {
        self.conn(conn).is_some_and(|c| c.error.load(Ordering::Relaxed) != 0)
    }

    fn died(&mut self, conn: u32, io: i32) -> bool {
        self.channel(conn, io).is_some_and(|c| c.hears_of_death())
    }

    fn settle(&mut self, conn: u32, io: i32, arm: bool) -> Settled {
        let Some(c) = self.channel(conn, io) else { return Settled::Ready };
        c.follow_if_left();
        match c.settle(arm) {
            rx::Settled::Quiet => Settled::Quiet,
            _ => Settled::Ready,
        }
    }

    fn arm(&mut self, conn: u32) {
        // The other end may be live, and send into the ring, before this one has noticed.
        if let Some(c) = self.conn(conn).filter(|_| self.is_channel(conn)) {
            c.receiving().word.arm();
        }
    }

    fn has_bytes(&self, io: i32) -> bool {
        raw::queued(io).is_ok_and(|n| n > 0) || socket::ended(io)
    }

    fn has_end(&self, io: i32) -> bool {
        socket::ended(io)
    }

    fn woke_in_vain(&mut self, conn: u32, io: i32, times: u32) {
        if let Some(c) = self.channel(conn, io) {
            c.woke_in_vain(times);
        }
    }

    fn kick(&mut self, data: u64) -> bool {
        let events = (libc::EPOLLIN | libc::EPOLLONESHOT) as u32;
        let put = |w: &mut Self, fd| match w.ctl(libc::EPOLL_CTL_ADD, fd, events, data) {
            // Somebody has left the set before he took it back.
            Err(libc::EEXIST) => w.ctl(libc::EPOLL_CTL_MOD, fd, events, data),
            result => result,
        };
        let is_there = kicker().is_some_and(|fd| put(self, fd).is_ok());
        if !is_there {
            // Without a descriptor more: whoever it wakes looks at everything as well.
            self.place.event.signal();
        }
        is_there
    }

    fn unkick(&mut self) {
        if let Some(fd) = kicker() {
            let _ = self.ctl(libc::EPOLL_CTL_DEL, fd, 0, 0);
        }
    }

    fn is_readable(&self) -> bool {
        raw::is_readable(self.place.fd.load(Ordering::Relaxed))
    }

    fn is_set_ready(&mut self, set: SetName) -> bool {
        super::is_ready(set)
    }

    fn thread_lives(&self, tid: u32) -> bool {
        state::thread_lives(tid)
    }

    fn used_by_both(&mut self, wake: bool) {
        let fd = self.place.fd.load(Ordering::Relaxed);
        self.place.relatives.begin(wake.then_some((&self.place.event, fd)));
    }

    fn expose(&mut self, set: SetName, more: bool) {
        super::expose(set, more);
    }

    fn relatives_began(&self) -> bool {
        self.place.relatives.began()
    }

    fn relatives_may_come(&self) -> bool {
        self.place.relatives.may_come()
    }

    fn is_open(&self, set: SetName) -> bool {
        super::is_open(set)
    }

    fn list(&mut self, at: usize, conn: u32, reads: bool) {
        if let Some(looked) = self.looked() {
            looked.set(at, conn, reads);
        }
    }

    fn listed(&mut self, n: usize) {
        if let Some(looked) = self.looked() {
            looked.set_len(n);
        }
    }
}

/// [`World::uncounted`], also where there is no set of ours.
pub fn uncounted(conn: u32) {
    if let (Some(family), Some(me)) = (state::family(), state::member_if_joined()) {
        let c = family.conn(conn);
        c.armed_by.fetch_or(1 << (me % 64), Ordering::SeqCst);
        if matches!(c.stage(), Stage::Accepted | Stage::Live) {
            c.receiving().word.make_cold_beside();
        }
    }
}

/// Whether a living relative waits for it in a way that we cannot count.
fn armed(family: Family, c: &Conn) -> bool {
    let mut by = c.armed_by.load(Ordering::SeqCst);
    while by != 0 {
        let bit = by & by.wrapping_neg();
        let mut members = (bit.trailing_zeros() as usize..MEMBERS).step_by(64);
        if members.any(|i| family.member(i).pid() != 0 && family.member(i).alive()) {
            return true;
        }
        c.armed_by.fetch_and(!bit, Ordering::SeqCst);
        by &= !bit;
    }
    false
}
