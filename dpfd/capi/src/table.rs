//! From a descriptor to the endpoint of this process behind it.
//!
//! ```text
//!   CHUNKS[fd / 1024] -> [slot; 1024] -> Shell { users sending | users receiving | endpoint, key }
//! ```
//!
//! A call loads the slot, counts itself among the shell's users, and loads the slot again: either it still names
//! the shell, and then whoever takes the endpoint out sees the user and leaves the endpoint to it; or it does not,
//! and the call looks again from the start. Shells are never given back to the allocator, only used again, so
//! counting on a stale one does no harm. Sending and receiving threads count on lines of their own.
//!
//! A slot is a shortcut. The truth is the list of live shells, by the inode of their sockets or the count of the
//! kernel driver (`key`): it knows copies made by dup(2), and numbers beyond the table. A shell leaves the list when
//! the endpoint is over, however its descriptors were closed (`over`). An endpoint that was ever used through a copy has
//! no shortcut any more: its calls cost an fstat(2), and an ioctl(2) with the kernel driver.
//!
//! A child of a fork has the parent's table, but none of its endpoints: they carry the parent's generation. The
//! driver's ends of their sockets are closed there, or the child would wait for a parent that is gone.

pub mod key;
mod over;
mod slots;

use std::cell::UnsafeCell;
use std::collections::HashMap;
use std::ffi::c_int;
use std::ops::Deref;
use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU32, Ordering::*};
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};

use dp_edge::sys::{process, raw};
use dpfd::driver::Served;
use dpfd::Error;

use crate::fault::{Fault, Res};
use crate::foreign::{self, Foreign};
use key::{key, Key};
pub use over::closed;
use slots::slot;

/// What a call is about to do; each has a line of its own to count on.
#[derive(Debug, Clone, Copy)]
pub enum Direction {
    /// Sending, and everything else.
    Out,
    /// Receiving and releasing.
    In,
}

#[repr(align(64))]
struct Line(AtomicU32);

/// An endpoint's place. Lives for ever; what is in it does not.
pub struct Shell {
    users: [Line; 2],
    /// The endpoint is to be dropped by the last user.
    leaving: AtomicBool,
    /// The driver's end of the socket, or -1, where there is none; for [`forked`] alone.
    back: AtomicI32,
    /// The shell that was made before this one.
    next: *const Shell,
    /// Its only slot, and what tells it from others.
    name: UnsafeCell<(c_int, Key)>,
    /// There from before the shell is published until it has no user.
    served: UnsafeCell<Option<Served>>,
}

// SAFETY: the cells are written with the list locked, while no slot names the shell and nobody uses it; `next` is
// never written again.
unsafe impl Sync for Shell {}

/// What the endpoints of a process are, besides the slots.
#[derive(Default)]
struct List {
    by_key: HashMap<Key, &'static Shell>,
    /// Those of the user-space driver, as its service calls them.
    by_serial: HashMap<u32, &'static Shell>,
    free: Vec<&'static Shell>,
    /// With how many endpoints it is looked next for those that are over.
    next_sweep: usize,
    /// Endpoints of other processes: the first number here, and what was read and not released.
    foreign: HashMap<Key, (c_int, Arc<Foreign>)>,
}

struct Lists {
    generation: u32,
    list: Mutex<List>,
}

/// What a descriptor is.
pub enum Found {
    /// An endpoint that this process opened.
    Own(Use),
    /// One that another process opened.
    Foreign(Arc<Foreign>),
}

/// An endpoint, kept as long as this lives.
pub struct Use {
    shell: &'static Shell,
    direction: Direction,
}

impl Use {
    /// Whether the number still means this endpoint. If not, its slot is cleared.
    pub fn is_behind(&self, fd: c_int) -> Res<bool> {
        // SAFETY: counted among the users, so nobody writes it.
        let (_, name) = unsafe { *self.shell.name.get() };
        let same = key(fd)? == name;
        if !same {
            self.shell.clear_slot();
        }
        Ok(same)
    }
}

impl Deref for Use {
    type Target = Served;
    #[inline(always)]
    fn deref(&self) -> &Served {
        // SAFETY: counted among the users, so nobody takes it out.
        unsafe { (*self.shell.served.get()).as_ref().expect("a shell in use has an endpoint") }
    }
}

impl Drop for Use {
    #[inline(always)]
    fn drop(&mut self) {
        self.shell.leave(self.direction);
    }
}

impl Shell {
    /// The list is locked.
    fn new(_: &List) -> &'static Shell {
        let shell = Box::leak(Box::new(Shell {
            users: [Line(AtomicU32::new(0)), Line(AtomicU32::new(0))],
            leaving: AtomicBool::new(false),
            back: AtomicI32::new(-1),
            next: SHELLS.load(Relaxed),
            name: UnsafeCell::new((-1, Key::Socket(0))),
            served: UnsafeCell::new(None),
        }));
        SHELLS.store(shell, Release);
        shell
    }

    #[inline(always)]
    fn enter(&'static self, direction: Direction) -> Use {
        // SeqCst: before the second look at the slot, for everybody. Pairs with reclaim().
        self.users[direction as usize].0.fetch_add(1, SeqCst);
        Use { shell: self, direction }
    }

    #[inline(always)]
    fn leave(&'static self, direction: Direction) {
        if self.users[direction as usize].0.fetch_sub(1, SeqCst) == 1 && self.leaving.load(SeqCst) {
            self.reclaim();
        }
    }

    /// Its number and its key.
    fn name(&self, _: &List) -> (c_int, Key) {
        // SAFETY: written with the list locked.
        unsafe { *self.name.get() }
    }

    /// Whether it is known to be closed.
    fn is_closed(&self, _: &List) -> bool {
        // SAFETY: written with the list locked.
        unsafe { (*self.served.get()).as_ref().is_some_and(Served::is_closed) }
    }

    /// Makes calls look for the endpoint by its key. The shell is in use, or in the locked list.
    fn clear_slot(&'static self) {
        // SAFETY: written before the shell came into the list, and not again while it is there or in use.
        let (fd, _) = unsafe { *self.name.get() };
        if let Some(slot) = slot(fd, false) {
            // Another endpoint may have the number by now.
            let named = ptr::from_ref(self).cast_mut();
            let _ = slot.compare_exchange(named, ptr::null_mut(), SeqCst, Relaxed);
        }
    }

    /// Drops the endpoint, if nobody uses it and nobody has dropped it yet.
    #[cold]
    fn reclaim(&'static self) {
        let mut list = list();
        let unused = self.users.iter().all(|line| line.0.load(SeqCst) == 0);
        if !unused || !self.leaving.swap(false, SeqCst) {
            return;
        }
        // SAFETY: no slot and no list names the shell, and no user was counted after that: nobody looks inside.
        let served = unsafe { (*self.served.get()).take() };
        self.back.store(-1, Relaxed);
        list.free.push(self);
        drop(list);
        drop(served);
    }
}

/// The shell that was made last: all of them, with their `next`. A child goes on with its parent's.
static SHELLS: AtomicPtr<Shell> = AtomicPtr::new(ptr::null_mut());
static WATCH: Once = Once::new();

/// In a child of a fork. The parent's endpoints stay in their shells here for ever, so nobody else closes these.
extern "C" fn forked() {
    // SAFETY: null, or a shell, and these live for ever.
    let mut next = unsafe { SHELLS.load(Acquire).cast_const().as_ref() };
    while let Some(shell) = next {
        let back = shell.back.swap(-1, Relaxed);
        if back >= 0 {
            raw::close(back);
        }
        // SAFETY: as above.
        next = unsafe { shell.next.as_ref() };
    }
}

static LISTS: AtomicPtr<Lists> = AtomicPtr::new(ptr::null_mut());

/// This process's list, locked. A child of a fork starts with an empty one: its parent's may have been locked.
fn list() -> MutexGuard<'static, List> {
    let generation = process::generation();
    loop {
        let now = LISTS.load(Acquire);
        // SAFETY: null, or leaked below.
        if let Some(lists) = unsafe { now.as_ref() }.filter(|l| l.generation == generation) {
            return lists.list.lock().unwrap_or_else(PoisonError::into_inner);
        }
        let new = Box::into_raw(Box::new(Lists { generation, list: Mutex::default() }));
        if LISTS.compare_exchange(now, new, AcqRel, Acquire).is_err() {
            // SAFETY: made above, and nobody else has seen it.
            drop(unsafe { Box::from_raw(new) });
        }
    }
}

/// Enters an endpoint of this process under its number; the number, now the program's.
pub fn enter(fd: OwnedFd, served: Served) -> Res<c_int> {
    let (key, back, serial) = match &served {
        Served::User(inner) => {
            let _ = inner.at_end.set(over::ended);
            (key(fd.as_raw_fd())?, inner.back.as_raw_fd(), Some(inner.entry.serial))
        }
        Served::Kernel(inner) => {
            over::make_room(fd.as_raw_fd());
            (Key::Device(inner.serial), -1, None)
        }
    };
    WATCH.call_once(|| {
        // SAFETY: the handler is async-signal-safe: loads, and close(2).
        unsafe { libc::pthread_atfork(None, None, Some(forked)) };
    });
    let mut list = list();
    let shell = list.free.pop().unwrap_or_else(|| Shell::new(&list));
    shell.back.store(back, Relaxed);
    let fd = fd.into_raw_fd();
    list.by_key.insert(key, shell);
    if let Some(serial) = serial {
        list.by_serial.insert(serial, shell);
    }
    // SAFETY: a new shell, or one that reclaim() found unused; a user of before looks at the slot, not inside.
    unsafe {
        *shell.name.get() = (fd, key);
        *shell.served.get() = Some(served);
    }
    if let Some(slot) = slot(fd, true) {
        slot.store(ptr::from_ref(shell).cast_mut(), SeqCst);
    }
    Ok(fd)
}

/// What `fd` is: the usual case here, the others below.
#[inline(always)]
pub fn find(fd: c_int, direction: Direction) -> Res<Found> {
    if let Some(own) = find_fast(fd, direction) {
        return Ok(Found::Own(own));
    }
    find_slow(fd, direction)
}

#[inline(always)]
fn find_fast(fd: c_int, direction: Direction) -> Option<Use> {
    let slot = slot(fd, false)?;
    // Acquire: pairs with the store in enter().
    let named = slot.load(Acquire);
    // SAFETY: null, or a shell, and these live for ever.
    let own = unsafe { named.as_ref() }?.enter(direction);
    if slot.load(SeqCst) != named {
        return None;
    }
    (own.generation() == process::generation() && !own.is_retired()).then_some(own)
}

#[cold]
fn find_slow(fd: c_int, direction: Direction) -> Res<Found> {
    let key = key(fd)?;
    let mut list = list();
    if let Some(shell) = list.by_key.get(&key) {
        let own = shell.enter(direction);
        // A copy: the first number can be closed, and come to mean something else, without an end to be seen.
        shell.clear_slot();
        // Its last user takes the list, too.
        drop(list);
        return if own.is_closed() { Err(Fault::NotAnEndpoint(fd)) } else { Ok(Found::Own(own)) };
    }
    let Some(descriptor) = foreign::descriptor(fd) else { return Err(Fault::NotAnEndpoint(fd)) };
    let foreign = &mut list.foreign;
    if foreign.len() >= 64 && foreign.len().is_power_of_two() && !foreign.contains_key(&key) {
        // Closed without dp_close: nothing was said. What is loaned stays, some copy may be open.
        foreign.retain(|key, (fd, of)| of.loaned() > 0 || self::key(*fd).is_ok_and(|now| now == *key));
    }
    Ok(Found::Foreign(
        foreign.entry(key).or_insert_with(|| (fd, Arc::new(Foreign::new(descriptor)))).1.clone(),
    ))
}

/// Does a call's work on the endpoint behind `fd`, ours or another process's.
#[inline(always)]
pub fn on<T>(
    fd: c_int,
    direction: Direction,
    ours: impl Fn(&Use) -> Result<T, Error>,
    theirs: impl Fn(&Foreign) -> Res<T>,
) -> Res<T> {
    loop {
        let own = match find(fd, direction)? {
            Found::Own(own) => own,
            Found::Foreign(foreign) => return theirs(&foreign),
        };
        match ours(&own) {
            Ok(value) => return Ok(value),
            // The descriptor's own words.
            Err(e @ (Error::WouldBlock | Error::Interrupted)) => return Err(e.into()),
            // The number may have been closed, or be another endpoint's, and the service not have seen it yet.
            Err(e) if own.is_behind(fd)? => return Err(e.into()),
            Err(_) => {}
        }
    }
}

/// Takes a number out, before it is closed.
pub fn forget(fd: c_int, found: &Found) {
    if let Some(slot) = slot(fd, false) {
        slot.store(ptr::null_mut(), SeqCst);
    }
    if let (Found::Foreign(_), Ok(key)) = (found, key(fd)) {
        list().foreign.remove(&key);
    }
}

#[cfg(test)]
mod tests;
