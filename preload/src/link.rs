//! Links: the connection by which a client's process said hello to a server's, kept to hand over events.
//!
//! A bell is a byte over TCP, and costs as much as the message would have. An epoll set that sleeps is woken for a third
//! of that by an eventfd. The set's process makes it, and tells the process at the other end of each link once:
//!
//! ```text
//!   set's process                                    sender's process
//!   eventfd, in the set edge-triggered               (number, eventfd) of each set it was told of
//!        |------- number, eventfd (SCM_RIGHTS) ----------->|
//!   group in the arena: asleep, number <----------- clears it, writes 1 to the eventfd
//! ```
//!
//! A sender that does not know the number rings a bell instead, so nothing depends on a link.
//!
//! A process that can write to an eventfd can also fill it and clear its O_NONBLOCK, and a write to it would then block. So
//! an eventfd is taken only of a process that could stop us anyway, by a signal: by the kernel's word (SCM_CREDENTIALS) one of
//! our own user, or the superuser, in our own pid namespace. All others send an end of a socket pair ([`crate::poke`]), to
//! which a send never waits. It must be the sender's own, by the kernel's word again (SO_PEERCRED): a byte of ours, with our
//! credentials, is for nobody else. (Of another pid or user namespace that word is no more than that it is another one.)
//!
//! All of it is this process's own; a forked child has copies, descriptors included.

use core::mem::size_of;
use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

use dp_channel::family::Conn;
use dp_channel::slot::LINK_MAKER;
use dp_edge::sys::{process, raw};

use crate::own::{self, Named};
use crate::rights::{self, Passed};
use crate::{intro, poke, proof, state};

/// Links of a process: the processes that it has channels with.
const LINKS: usize = 256;
/// Events of the other process that are known, and events of ours that it was told of.
const SETS: usize = 32;
/// Ends of socket pairs that a stranger may have us keep.
const FROM_A_STRANGER: usize = 4;
/// Places of links that are for processes of our own user, or the superuser's, alone.
const OWN_USERS: usize = LINKS / 2;
/// Messages taken in one look.
const FEW: usize = 4;
/// Turns of a loop for which a thread that is writing to an event is waited for.
const PATIENCE: u32 = 10_000;
/// Hellos of ours that may lie unread at one door. Where several processes look at it, each takes one of them.
const UNREAD: usize = 4;
/// Links that are looked at, when a new one is made, for a process at the other end that is gone, and when a connection
/// is over.
const SWEPT: [usize; 2] = [8, 1];

struct Link {
    /// As [`Named`] has it; 0: free; [`TAKEN`].
    fd: AtomicU32,
    /// The upper half of its name.
    serial: AtomicU32,
    /// Threads that may be about to write to one of the events.
    users: AtomicU32,
    /// One thread at a time takes messages.
    reading: AtomicU32,
    /// Their sets, each a [`Known`].
    theirs: [AtomicU64; SETS],
    /// Our sets that were told, by number.
    ours: [AtomicU32; SETS],
    /// [`crate::fdtable::starts`] before the connection was made.
    starts: AtomicU32,
    /// The hello that was said by it, and nothing else since; 0: none, or something else was.
    hello: AtomicU64,
}

const TAKEN: u32 = u32::MAX;
const _: () = assert!(Named::BITS <= 31);

/// A set of the other process, and how it is woken, as one word; 0: none.
///
/// ```text
///   63          32   31    30          0
///  +--------------+------+--------------+
///  |    number    | pair |  Named, or 0 |
///  +--------------+------+--------------+
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Known {
    number: u32,
    how: How,
}

/// How somebody is woken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum How {
    /// Not by what it sent.
    Refused,
    /// By an eventfd.
    Event(Named),
    /// By an end of a socket pair.
    Pair(Named),
}

impl Known {
    const PAIR: u64 = 1 << 31;

    fn pack(self) -> u64 {
        let how = match self.how {
            How::Refused => 0,
            How::Event(fd) => u64::from(fd.word()),
            How::Pair(fd) => Known::PAIR | u64::from(fd.word()),
        };
        u64::from(self.number) << 32 | how
    }

    fn unpack(word: u64) -> Known {
        let fd = Named::from_word((word & (Known::PAIR - 1)) as u32);
        let how = match word & Known::PAIR {
            _ if fd == Named::NONE => How::Refused,
            0 => How::Event(fd),
            _ => How::Pair(fd),
        };
        Known { number: (word >> 32) as u32, how }
    }

    fn close(self) {
        match self.how {
            How::Refused => {}
            How::Event(fd) => fd.close(),
            How::Pair(fd) => fd.fd().into_iter().for_each(rights::close_from_strangers),
        }
    }
}

/// A fork copies memory page by page, by rising addresses, while other threads go on. So a child that has a link has the
/// bound above it, too.
#[repr(C)]
struct Links {
    all: [Link; LINKS],
    /// Links were made below this place only.
    high: AtomicUsize,
}

static TABLE: Links = Links {
    all: [const {
        Link {
            fd: AtomicU32::new(0),
            serial: AtomicU32::new(0),
            users: AtomicU32::new(0),
            reading: AtomicU32::new(0),
            theirs: [const { AtomicU64::new(0) }; SETS],
            ours: [const { AtomicU32::new(0) }; SETS],
            starts: AtomicU32::new(0),
            hello: AtomicU64::new(0),
        }
    }; LINKS],
    high: AtomicUsize::new(0),
};

/// Keeps the connection `fd` as a link: its name, and the descriptor that it has from now on. `None`: there is no room,
/// and `fd` is still the caller's. `starts`: [`crate::fdtable::starts`] before the connection was made.
pub fn begin(fd: i32, starts: u32) -> Option<(u64, i32)> {
    sweep(SWEPT[0]);
    let free = |l: &Link| l.fd.compare_exchange(0, TAKEN, Ordering::AcqRel, Ordering::Relaxed).is_ok();
    let from = if is_strangers(fd) { OWN_USERS } else { 0 };
    let i = from + TABLE.all[from..].iter().position(free)?;
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
    let named = Named::mark(high);
    let serial = (random >> 32) as u32 | 1;
    let maker = maker(random as u32);
    l.theirs.iter().for_each(|t| t.store(0, Ordering::Relaxed));
    l.ours.iter().for_each(|t| t.store(0, Ordering::Relaxed));
    l.starts.store(starts, Ordering::Relaxed);
    l.hello.store(0, Ordering::Relaxed);
    l.serial.store(serial, Ordering::Release);
    // Where it cannot be ours, nobody finds it.
    l.fd.store(named.word(), Ordering::Release);
    Some((u64::from(serial) << 32 | u64::from(maker << INDEX) | (i as u64 + 1), high))
}

/// Bits of a name that say which place it has, from 1 on; above them is who has made it, and above that the serial number.
const INDEX: u32 = LINK_MAKER;
const _: () = assert!(LINKS < 1 << INDEX);
/// The process that has made links here, above a random number of its own that is in their names; 0: none has.
static MAKER: AtomicU64 = AtomicU64::new(0);

/// That number of this process; `random`, if it has none yet.
fn maker(random: u32) -> u32 {
    let new = u64::from(raw::getpid()) << 32 | u64::from((random >> INDEX).max(1));
    let now = MAKER.load(Ordering::Relaxed);
    let is_ours = now >> 32 == new >> 32;
    if is_ours || MAKER.compare_exchange(now, new, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
        return if is_ours { now } else { new } as u32;
    }
    // Another thread has, just now.
    MAKER.load(Ordering::Relaxed) as u32
}

/// Whether the process at the other end is of another user.
fn is_strangers(fd: i32) -> bool {
    let ours = raw::getuid();
    intro::peer_credentials(fd).is_none_or(|them| them.uid != 0 && ours != 0 && them.uid != ours)
}

/// The link `name`, if it still is that one.
fn named(name: u64) -> Option<&'static Link> {
    let place = name as u32 & ((1 << INDEX) - 1);
    let l = TABLE.all.get((place as usize).checked_sub(1)?)?;
    let serial = (name >> 32) as u32;
    (serial != 0 && l.serial.load(Ordering::Acquire) == serial).then_some(l)
}

impl Link {
    fn fd(&self) -> Option<i32> {
        Named::from_word(self.fd.load(Ordering::Acquire)).fd()
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
        let over = !matches!(fd, 0 | TAKEN)
            && self.serial.load(Ordering::SeqCst) == 0
            && self.users.load(Ordering::SeqCst) == 0;
        if over && self.fd.compare_exchange(fd, TAKEN, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            for t in &self.theirs {
                Known::unpack(t.swap(0, Ordering::Relaxed)).close();
            }
            match Named::from_word(fd).fd() {
                Some(fd) if is_gone(fd) => rights::close_from_strangers(fd),
                // A parent, or a child, may have it still, and rings bells where it has not heard of an event.
                Some(fd) => rights::close_unless_shared(fd, self.starts.load(Ordering::Relaxed)),
                None => {}
            }
            self.fd.store(0, Ordering::Release);
        }
    }

    /// How the set with this number is woken, if it is known.
    fn how(&self, number: u32) -> Option<How> {
        let them = self.theirs.iter().map(|t| Known::unpack(t.load(Ordering::Acquire)));
        them.filter(|known| known.number == number).map(|known| known.how).next()
    }

    /// Takes what the other side told. The caller is counted in `users`.
    #[cold]
    fn listen(&self) {
        if self.reading.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
            return;
        }
        for _ in 0..FEW {
            let Some(told) = self.fd().and_then(receive) else { break };
            self.keep(Known { number: told.number, how: told.how });
        }
        self.reading.store(0, Ordering::Release);
    }

    fn keep(&self, known: Known) {
        let places = if matches!(known.how, How::Pair(_)) { FROM_A_STRANGER } else { SETS };
        let places = &self.theirs[..places];
        let free = |t: &&AtomicU64| t.load(Ordering::Relaxed) == 0;
        let at = match places.iter().find(free) {
            Some(at) => at,
            // Numbers count up, so the lowest is the oldest.
            None => match places.iter().min_by_key(|t| t.load(Ordering::Relaxed) >> 32) {
                Some(at) => at,
                None => return known.close(),
            },
        };
        let before = Known::unpack(at.swap(known.pack(), Ordering::SeqCst));
        // Another thread may be about to write to it, which takes a moment; or it was ended just there, and the
        // descriptor stays open.
        let alone = || self.users.load(Ordering::SeqCst) == 1;
        if before.how == How::Refused {
            return;
        }
        for _ in 0..PATIENCE {
            if alone() {
                return before.close();
            }
            core::hint::spin_loop();
        }
    }
}

fn refuse(fd: i32) {
    if fd >= 0 {
        rights::refuse(fd);
    }
}

/// Whether there is such a link, and its other end is open.
pub fn lives(name: u64) -> bool {
    named(name).and_then(Link::fd).is_some_and(|fd| !is_gone(fd))
}

/// Whether `name` looks like one that this process has made; of another's nobody here can tell whether it has ended. Without a system call.
pub fn may_be_ours(name: u64) -> bool {
    name >> 32 != 0 && name as u32 >> INDEX == MAKER.load(Ordering::Relaxed) as u32
}

/// Whether the other end of link `name` of ours was closed: all processes that had it have ended, as nobody closes one whose other end
/// is open. Of a name that another process has made nobody here can tell, not of its parent's either.
pub fn has_ended(name: u64) -> bool {
    let maker = u64::from(raw::getpid()) << 32 | u64::from(name as u32 >> INDEX);
    // One that is no more had ended.
    name >> 32 != 0
        && maker == MAKER.load(Ordering::Relaxed)
        && named(name).is_none_or(|l| l.fd().is_some_and(is_gone))
}

/// By link `name` a hello was said; `hello`: to whom, and with what.
pub fn said(name: u64, hello: u64) {
    if let Some(l) = named(name) {
        l.hello.store(hello, Ordering::Relaxed);
    }
}

/// Whether that hello need not be said once more: enough of them lie unread. Who looks for one takes what came before, so another
/// would tell nobody more, and cost a descriptor as long as nobody looks; and no link can be ended then, as somebody may.
pub fn is_unread(hello: u64) -> bool {
    let high = TABLE.high.load(Ordering::Relaxed);
    let lies = |l: &Link| l.fd().is_some_and(|fd| raw::ioctl_int(fd, libc::TIOCOUTQ).is_ok_and(|n| n > 0));
    let unread = (1..).zip(&TABLE.all[..high]).filter(|(i, l)| {
        let name = u64::from(l.serial.load(Ordering::Acquire)) << 32 | i;
        l.hello.load(Ordering::Relaxed) == hello && used(name, lies) == Some(true)
    });
    unread.take(UNREAD).count() == UNREAD
}

/// Whether the other end of a link was closed, also where it has said something before.
fn is_gone(fd: i32) -> bool {
    let mut list = [libc::pollfd { fd, events: 0, revents: 0 }];
    raw::poll_now(&mut list).is_ok() && list[0].revents & libc::POLLHUP != 0
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

/// The descriptor of the link of `c`, if that is kept.
pub fn descriptor(c: &Conn) -> Option<i32> {
    named(c.link.load(Ordering::Relaxed)).and_then(Link::fd)
}

/// What is told: a set's number. The eventfd, or the end of a socket pair, goes beside it.
#[repr(C)]
struct Told {
    number: u32,
    _pad: u32,
}

/// The process at the other end of `c` is told of a set of ours that has `event`, unless it was; by `far`, an end of a pair,
/// if it would refuse the event.
pub fn tell(c: &Conn, number: u32, event: i32, far: impl FnOnce() -> Option<i32>) {
    used(c.link.load(Ordering::Relaxed), |l| tell_by(l, number, event, far));
}

fn tell_by(l: &Link, number: u32, event: i32, far: impl FnOnce() -> Option<i32>) {
    if l.ours.iter().any(|n| n.load(Ordering::Relaxed) == number) {
        return;
    }
    // Sets of two threads may be told at once; one of them is told once more later.
    let Some(oldest) = l.ours.iter().min_by_key(|n| n.load(Ordering::Relaxed)) else { return };
    oldest.store(number, Ordering::Relaxed);
    let Some(fd) = l.fd() else { return };
    l.hello.store(0, Ordering::Relaxed);
    let believes =
        intro::peer_credentials(fd).is_some_and(|them| process::may_be_signalled(them.pid as u32, them.uid));
    let by = if believes { Some(event) } else { far() };
    // Where it cannot be told, bells are rung.
    let _ = by.map(|by| rights::send(fd, &mut Told { number, _pad: 0 }, by));
}

/// One message of the link `fd`.
fn receive(fd: i32) -> Option<Known> {
    let mut told = Told { number: 0, _pad: 0 };
    let (mut by, mut sender) = (-1, None);
    let keep = |passed| match passed {
        // The last one is kept.
        Passed::Descriptor(fd) => refuse(core::mem::replace(&mut by, fd)),
        Passed::Sender(cred) => sender = Some(cred),
    };
    // SAFETY: numbers.
    let got = unsafe { rights::receive(fd, &mut told, keep) };
    if got != Ok(size_of::<Told>()) {
        refuse(by);
        return None;
    }
    let how = match sender {
        Some(them) if by >= 0 => believed(by, &them),
        _ => None,
    };
    let kept = match how {
        Some(how) => own::high(by).map(|fd| how(Named::mark(fd))),
        None => {
            refuse(by);
            None
        }
    };
    Some(Known { number: told.number, how: kept.unwrap_or(How::Refused) })
}

/// As what `by` is taken, which the process `them` has sent, if at all.
fn believed(by: i32, them: &libc::ucred) -> Option<fn(Named) -> How> {
    if raw::is_unix_stream(by) {
        let own =
            intro::peer_credentials(by).is_some_and(|made| (made.pid, made.uid) == (them.pid, them.uid));
        return own.then_some(How::Pair);
    }
    (process::may_signal_us(them.pid as u32, them.uid) && raw::is_eventfd(by)).then_some(How::Event)
}

/// Wakes the set with this number, of the process at the other end of `c`. False: a bell has to.
pub fn wake(c: &Conn, number: u32) -> bool {
    let woken = used(c.link.load(Ordering::Relaxed), |l| {
        let how = l.how(number).or_else(|| {
            l.listen();
            l.how(number)
        });
        match how {
            Some(How::Event(event)) => event.fd().is_some_and(raw::signal_event),
            Some(How::Pair(far)) => far.fd().is_some_and(poke::wake),
            Some(How::Refused) | None => false,
        }
    });
    woken == Some(true)
}

/// Does `f` with link `name`; its descriptors stay open meanwhile.
fn used<R>(name: u64, f: impl FnOnce(&Link) -> R) -> Option<R> {
    let l = named(name)?;
    l.users.fetch_add(1, Ordering::SeqCst);
    // It may have ended before we were counted.
    let result = if named(name).is_some() { Some(f(l)) } else { None };
    l.users.fetch_sub(1, Ordering::SeqCst);
    result
}

/// In a forked child: threads of the parent may have been at work.
pub fn inherited() {
    MAKER.store(0, Ordering::Relaxed);
    let high = TABLE.high.load(Ordering::Relaxed);
    TABLE.all[..high].iter().flat_map(|l| [&l.users, &l.reading]).for_each(state::clear);
}

#[cfg(test)]
mod tests;
