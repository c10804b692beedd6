//! Links: the connection by which a client's process said hello to a server's, kept to hand over events.
//!
//! A bell is a byte over TCP, and costs as much as the message would have. A sleeper is woken for a third of that by an
//! eventfd. The sleeper's process makes it, and tells the process at the other end of each link once:
//!
//! ```text
//!   sleeper's process                                sender's process
//!   eventfd, in the set edge-triggered               (number, descriptor) of each sleeper it was told of
//!        |------- number, eventfd (SCM_RIGHTS) ----------->|
//!   group in the arena: asleep, number <----------- clears it, writes 1 to the eventfd
//! ```
//!
//! A sender that does not know the number rings a bell instead, so nothing depends on a link.
//!
//! A process that can write to an eventfd can also fill it and clear its O_NONBLOCK, and a write to it would then block. So
//! an eventfd is taken only of a process that could stop us anyway, by a signal: by the kernel's word (SCM_CREDENTIALS) one
//! of our own user, or the superuser, in our own pid namespace. A stranger gives one end of a socket pair instead, which
//! costs half of what a bell does. Whatever it does to the socket, MSG_DONTWAIT is ours, and the sleeper reads from an end
//! that nobody else has. (An epoll set that holds an eventfd of the sender's would be cheaper still, but whoever has a set
//! can keep its mutex for as long as a page fault of his takes, and the sleeper would wait for that.)
//!
//! All of it is this process's own; a forked child has copies, descriptors included.

mod hear;
mod tell;

use core::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use dp_channel::family::Conn;
use dp_edge::sys::raw;

use crate::{fdtable, own, proof, state};

pub use hear::wake;
pub use tell::{drain, end_sockets, tell};

/// Links of a process: the processes that it has channels with.
const LINKS: usize = 256;
/// Events of the other process that are known, and events of ours that it was told of.
const SETS: usize = 32;
/// Turns of a loop for which a thread that is using a descriptor is waited for.
const PATIENCE: u32 = 10_000;
/// Links with the processes of one user that is a stranger. No user takes all the room there is.
const OF_A_STRANGER: usize = LINKS / 4;
/// Links that are looked at, when a new one is made, for a process at the other end that is gone, and when a connection
/// is over.
const SWEPT: [usize; 2] = [8, 1];

struct Link {
    /// Plus one; 0: free; [`TAKEN`].
    fd: AtomicI32,
    /// The upper half of its name.
    serial: AtomicU32,
    /// Threads that may be about to write to one of the events.
    users: AtomicU32,
    /// One thread at a time takes messages.
    reading: AtomicU32,
    /// The user at its other end.
    uid: AtomicU32,
    /// Their sleepers, as `hear` packs them.
    theirs: [AtomicU64; SETS],
    /// Our sleepers that were told, by number, and our end of the socket pair whose other end a stranger was given, plus one.
    ours: [(AtomicU32, AtomicI32); SETS],
}

const TAKEN: i32 = -1;

/// A fork copies memory page by page, by rising addresses, while other threads go on. So a child that has a link has the
/// bound above it, too.
#[repr(C)]
struct Links {
    all: [Link; LINKS],
    /// Links were made below this place only.
    high: AtomicUsize,
}

impl Link {
    const fn free() -> Link {
        Link {
            fd: AtomicI32::new(0),
            serial: AtomicU32::new(0),
            users: AtomicU32::new(0),
            reading: AtomicU32::new(0),
            uid: AtomicU32::new(0),
            theirs: [const { AtomicU64::new(0) }; SETS],
            ours: [const { (AtomicU32::new(0), AtomicI32::new(0)) }; SETS],
        }
    }
}

static TABLE: Links = Links { all: [const { Link::free() }; LINKS], high: AtomicUsize::new(0) };

/// Keeps the connection `fd` with a process of user `uid` as a link: its name, and the descriptor that it has from now on.
/// `None`: there is no room, and `fd` is still the caller's.
pub fn begin(fd: i32, uid: u32) -> Option<(u64, i32)> {
    sweep(SWEPT[0]);
    let is_of_them =
        |l: &&Link| l.serial.load(Ordering::Relaxed) != 0 && l.uid.load(Ordering::Relaxed) == uid;
    let strange = uid != 0 && uid != raw::getuid();
    if strange && made().iter().filter(is_of_them).count() >= OF_A_STRANGER {
        return None;
    }
    let free = |l: &Link| l.fd.compare_exchange(0, TAKEN, Ordering::AcqRel, Ordering::Relaxed).is_ok();
    let i = TABLE.all.iter().position(free)?;
    TABLE.high.fetch_max(i + 1, Ordering::Relaxed);
    let l = &TABLE.all[i];
    let kept = raw::setsockopt_int(fd, libc::SOL_SOCKET, libc::SO_PASSCRED, 1)
        .ok()
        .and_then(|_| Some((proof::random()?, own::copy(fd)?)));
    let Some((random, high)) = kept else {
        l.fd.store(0, Ordering::Release);
        return None;
    };
    raw::close(fd);
    fdtable::mark_internal(high);
    let serial = (random >> 32) as u32 | 1;
    l.uid.store(uid, Ordering::Relaxed);
    l.theirs.iter().for_each(|t| t.store(0, Ordering::Relaxed));
    l.ours.iter().for_each(|(number, _)| number.store(0, Ordering::Relaxed));
    l.serial.store(serial, Ordering::Release);
    l.fd.store(high + 1, Ordering::Release);
    Some((u64::from(serial) << 32 | (i as u64 + 1), high))
}

/// All that were ever made.
fn made() -> &'static [Link] {
    &TABLE.all[..TABLE.high.load(Ordering::Relaxed)]
}

/// The link `name`, if it still is that one.
fn named(name: u64) -> Option<&'static Link> {
    let l = TABLE.all.get((name as u32 as usize).checked_sub(1)?)?;
    let serial = (name >> 32) as u32;
    (serial != 0 && l.serial.load(Ordering::Acquire) == serial).then_some(l)
}

impl Link {
    fn fd(&self) -> Option<i32> {
        let fd = self.fd.load(Ordering::Acquire) - 1;
        own::is(fd).then_some(fd)
    }

    /// Nobody finds it from now on.
    fn end(&self, serial: u32) {
        if self.serial.compare_exchange(serial, 0, Ordering::SeqCst, Ordering::Relaxed).is_ok() {
            self.clear();
        }
    }

    /// An ended one gives back its descriptors, unless somebody may be using one: then the next sweep does it.
    fn clear(&self) {
        let fd = self.fd.load(Ordering::Acquire);
        // One that found it before it ended is counted, or finds another serial number.
        let over =
            fd > 0 && self.serial.load(Ordering::SeqCst) == 0 && self.users.load(Ordering::SeqCst) == 0;
        if over && self.fd.compare_exchange(fd, TAKEN, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            self.forget_theirs();
            self.forget_ours();
            own::close(fd - 1);
            self.fd.store(0, Ordering::Release);
        }
    }
}

/// Whether there is such a link, and its other end is open.
pub fn lives(name: u64) -> bool {
    named(name).and_then(Link::fd).is_some_and(|fd| !is_gone(fd))
}

/// Whether the other end of a link was closed.
fn is_gone(fd: i32) -> bool {
    let mut byte = 0u8;
    // SAFETY: one byte.
    let seen = unsafe { raw::recv(fd, &mut byte, 1, libc::MSG_PEEK | libc::MSG_DONTWAIT) };
    matches!(seen, Ok(0) | Err(libc::ECONNRESET))
}

/// Ends some links to processes that are gone.
fn sweep(n: usize) {
    static AT: AtomicUsize = AtomicUsize::new(0);
    let high = TABLE.high.load(Ordering::Relaxed);
    let from = AT.fetch_add(n, Ordering::Relaxed);
    for k in from..from + n.min(high) {
        let l = &TABLE.all[k % high];
        match l.serial.load(Ordering::Acquire) {
            0 => l.clear(),
            serial if l.fd().is_some_and(is_gone) => l.end(serial),
            _ => {}
        }
    }
}

/// Connection `c` is over: perhaps the process at its other end is, too.
pub fn look_after(c: &Conn) {
    let name = c.link.load(Ordering::Relaxed);
    if name != 0 && named(name).and_then(Link::fd).is_some_and(is_gone) {
        end(name);
    }
    if TABLE.high.load(Ordering::Relaxed) > 1 {
        sweep(SWEPT[1]);
    }
}

/// The link is of no use any more.
pub fn end(name: u64) {
    if let Some(l) = named(name) {
        l.end((name >> 32) as u32);
    }
}

/// What is told: a sleeper's number. The descriptor goes beside it.
#[repr(C)]
struct Told {
    number: u32,
    _pad: u32,
}

/// Does `f` with the link of `c`; its descriptors stay open meanwhile.
fn used<R>(c: &Conn, f: impl FnOnce(&Link) -> R) -> Option<R> {
    let name = c.link.load(Ordering::Relaxed);
    named(name)?.used((name >> 32) as u32, f)
}

impl Link {
    /// Does `f`, if the link still is that of `serial`; its descriptors stay open meanwhile.
    fn used<R>(&self, serial: u32, f: impl FnOnce(&Link) -> R) -> Option<R> {
        self.users.fetch_add(1, Ordering::SeqCst);
        // It may have ended before we were counted.
        let same = serial != 0 && self.serial.load(Ordering::SeqCst) == serial;
        let result = same.then(|| f(self));
        self.users.fetch_sub(1, Ordering::SeqCst);
        result
    }

    /// Closes a descriptor of the link's that nobody finds any more. The caller is counted in `users`. Another thread may be
    /// about to use it, which takes a moment; or it was ended just there, and the descriptor stays open.
    fn close_soon(&self, fd: i32) {
        for _ in 0..PATIENCE {
            if fd < 0 || self.users.load(Ordering::SeqCst) == 1 {
                return own::close(fd);
            }
            core::hint::spin_loop();
        }
    }
}

/// In a forked child: threads of the parent may have been at work.
pub fn inherited() {
    for l in made() {
        [&l.users, &l.reading].into_iter().for_each(state::clear);
        // The parent's sleepers read from those.
        l.forget_ours();
    }
}
