//! Arenas of clients that said hello. A stranger's costs a descriptor, of which each user has few; it is mapped when one
//! connection has proven to end in its client (PROTOCOLS I3), and then counts for its user's share.

mod hello;
mod room;
mod view;

use core::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::os::fd::{AsRawFd, BorrowedFd};

use dp_channel::arena::{Arena, Geometry};
use dp_channel::family::{Id, Reason};
use dp_channel::possession;
use dp_channel::slot::{Side, State};
use dp_channel::tcp;
use dp_channel::unmapped::{key, Key, Unmapped};
use dp_edge::sys::raw;

pub use self::hello::{count_other_version, receive};
use self::room::{bury, close_mapped, has_share, Buried};
use self::view::{slot, View};
use crate::channel::Channel;
use crate::retired::Retired;
use crate::{link, own, proof, state};

const GUESTS: usize = 256;
/// Guests of one user that are mapped.
const SHARE: usize = GUESTS / 2;
/// Bytes of our addresses that the arenas of one user may have.
const ADDRESSES: usize = 40 << 30;
/// Guests that have proven nothing yet, in all and of one user.
const UNPROVEN: usize = 16;
const UNPROVEN_OF_ONE: usize = 4;
/// An arena may be so many times as long as ours: settings differ.
const LARGER: usize = 8;

/// A client family's arena. Free when there is neither mapping nor descriptor.
struct Guest {
    /// Mapped: the address of a leaked [`Arena`], else 0.
    arena: AtomicUsize,
    /// Its memory as long as it is not mapped, else -1.
    fd: AtomicI32,
    uid: AtomicU32,
    pid: AtomicU32,
    key: [AtomicU64; 2],
    opener: [AtomicU64; 3],
    /// Its geometry, and the version that both speak.
    sizes: [AtomicU32; 4],
    /// The connection by which it said hello, if that is kept: our name of it, and the client's; else 0.
    links: [AtomicU64; 2],
    /// When the hello came, ns of the monotonic clock.
    since: AtomicU64,
}

static MET: [Guest; GUESTS] = [const {
    Guest {
        arena: AtomicUsize::new(0),
        fd: AtomicI32::new(-1),
        uid: AtomicU32::new(0),
        pid: AtomicU32::new(0),
        key: [const { AtomicU64::new(0) }; 2],
        opener: [const { AtomicU64::new(0) }; 3],
        sizes: [const { AtomicU32::new(0) }; 4],
        links: [const { AtomicU64::new(0) }; 2],
        since: AtomicU64::new(0),
    }
}; GUESTS];
/// Guests in use lie below this.
static HIGH: AtomicUsize = AtomicUsize::new(0);
/// Arenas of those that were taken away, and threads walking the guests: nobody unmaps or closes while there are any.
static RETIRED: Retired = Retired::new();

/// While there is one, no guest is taken away.
pub struct Walking(());

/// Does `f`, and keeps guests where they are meanwhile.
pub fn walking<R>(f: impl FnOnce(&Walking) -> R) -> R {
    RETIRED.walking(|| f(&Walking(())))
}

/// An offer for a connection of ours, by the client's word.
pub struct Offer {
    guest: usize,
    slot: u32,
    generation: u32,
    nonce: u64,
}

impl Guest {
    fn key(&self) -> Key {
        [0, 1].map(|i: usize| self.key[i].load(Ordering::Relaxed))
    }

    fn opener(&self) -> Id {
        [0, 1, 2].map(|i: usize| self.opener[i].load(Ordering::Relaxed))
    }

    fn geometry(&self) -> Geometry {
        let [slots, lines, spare] = [0, 1, 2].map(|i: usize| self.sizes[i].load(Ordering::Relaxed));
        Geometry { slots, lines, spare }
    }

    fn spoken(&self) -> u32 {
        self.sizes[3].load(Ordering::Relaxed)
    }

    fn in_use(&self) -> bool {
        self.arena.load(Ordering::Acquire) != 0 || self.fd.load(Ordering::Acquire) >= 0
    }

    fn arena(&self) -> Option<Arena> {
        let p = self.arena.load(Ordering::SeqCst) as *const Arena;
        // SAFETY: leaked by admit(), freed long after it was hidden, and only while nobody walks.
        (!p.is_null()).then(|| unsafe { *p })
    }

    fn memory(&self) -> Option<BorrowedFd<'static>> {
        let fd = self.fd.load(Ordering::SeqCst);
        // SAFETY: ours as long as somebody walks, unless the program closed it; key() is asked before it is used.
        (fd >= 0).then(|| unsafe { BorrowedFd::borrow_raw(fd) })
    }

    /// Whether its client is gone, as far as one can tell: the processes that shared the connection by which it said hello, and the
    /// one that did.
    fn is_gone(&self) -> bool {
        let (link, pid) = (self.links[0].load(Ordering::Relaxed), self.pid.load(Ordering::Relaxed));
        // Of another pid namespace there is no number.
        let ended = if pid == 0 { link != 0 } else { raw::probe_process(pid) == Err(libc::ESRCH) };
        ended && !link::lives(link)
    }

    /// Only while somebody walks.
    fn view(&self) -> Option<View> {
        if let Some(arena) = self.arena() {
            return Some(View::Mapped(arena, self.uid.load(Ordering::Relaxed)));
        }
        let memory = self.memory()?;
        // The program may have closed all descriptors there are, and this may be a file of its own by now.
        (key(memory).ok()? == self.key()).then(|| View::Unmapped(Unmapped::again(memory, self.geometry())))
    }

    /// Another connection by which it said hello: of use if there is none yet, or the client has closed that.
    fn set_links(&self, links: [u64; 2]) {
        let before = self.links[0].load(Ordering::Relaxed);
        if link::lives(before) {
            return link::end(links[0]);
        }
        link::end(before);
        for (to, from) in self.links.iter().zip(links) {
            to.store(from, Ordering::Relaxed);
        }
    }

    /// Forgets the memory of a guest that is not mapped, or not any more. Only where nobody else walks.
    fn close(&self) {
        // The number may stand for another one of ours by now, as the program has closed this one.
        let memory = self.memory().filter(|&memory| key(memory) == Ok(self.key()));
        self.fd.store(-1, Ordering::SeqCst);
        memory.into_iter().for_each(|memory| own::close(memory.as_raw_fd()));
    }
}

/// Where a side looks that has no answer yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Search {
    /// Server: in what is mapped, which takes no system call.
    Mapped,
    /// Everywhere.
    Everywhere,
}

/// Which offers of those that proved to be wrong before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wrong {
    /// None of them.
    PassOver,
    /// All from the start, where there is no other one; a bounded number of times.
    TryAgain,
}

/// An offer for the connection.
pub fn find(c: &Channel, which: Wrong, search: Search, _: &Walking) -> Option<Offer> {
    let tuple = tcp::tuple(c.peer(), c.local());
    // Asked for only where something lies at all.
    let mut netns = None;
    let wrong = c.wrong.load(Ordering::Relaxed);
    let (mut seen, mut first) = (0, None);
    let high = HIGH.load(Ordering::Acquire).min(GUESTS);
    // The newest guest is the likeliest.
    for (guest, g) in MET[..high].iter().enumerate().rev() {
        if search == Search::Mapped && g.arena.load(Ordering::Relaxed) == 0 {
            continue;
        }
        let Some(view) = g.view() else { continue };
        let hash = tuple.hash(view.geometry().slots as usize * 4);
        let found = view.find(hash, |slot| {
            view.slot(slot, |s| {
                let Some((generation, State::Offered)) = s.get() else { return None };
                let nonce = s.nonce.load(Ordering::Relaxed);
                let netns = *netns.get_or_insert_with(|| tcp::netns(c.fd));
                s.matches(&tuple, netns).then_some(Offer { guest, slot, generation, nonce })
            })
        });
        if found.is_some() {
            if seen == wrong {
                return found;
            }
            seen += 1;
            first = first.or(found);
        }
    }
    first.filter(|_| {
        let again = which == Wrong::TryAgain && wrong < 64;
        if again {
            c.wrong.store(wrong + 1, Ordering::Relaxed);
        }
        again
    })
}

/// Our socket shows that we hold the connection, and the client is told to look.
pub fn answer(c: &Channel, offer: &Offer, _: &Walking) {
    let g = &MET[offer.guest];
    let (Some(view), Some(challenge)) = (g.view(), proof::random()) else { return };
    let number = possession::number(Side::Server, g.key(), g.opener(), offer.nonce, challenge);
    c.guest.store(offer.guest as u32, Ordering::Relaxed);
    c.memory.store(g.key()[1], Ordering::Relaxed);
    c.slot.store(offer.slot, Ordering::Relaxed);
    c.generation.store(offer.generation, Ordering::Relaxed);
    c.expected.store(offer.nonce, Ordering::Relaxed);
    c.nonce.store(challenge, Ordering::Relaxed);
    if c.show_proof(number) && !view.challenge(offer.slot, challenge) {
        c.put_proof_back();
    }
}

/// What the client says about its own proof.
pub enum Shown {
    /// Nothing yet.
    NotYet,
    /// That its socket shows it.
    Said,
    /// The offer was withdrawn, or its arena is not here any more.
    Gone,
}

/// The guest that `c` was offered by, if it still is that one.
fn guest_of(c: &Channel) -> Option<&'static Guest> {
    let g = &MET[c.guest.load(Ordering::Relaxed) as usize % GUESTS];
    (g.in_use() && g.key()[1] == c.memory.load(Ordering::Relaxed)).then_some(g)
}

/// Whether the client has answered.
pub fn is_shown(c: &Channel, _: &Walking) -> Shown {
    let (slot, generation) = (c.slot.load(Ordering::Relaxed), c.generation.load(Ordering::Relaxed));
    let Some(view) = guest_of(c).and_then(Guest::view) else { return Shown::Gone };
    let found = view.slot(slot, |s| {
        let said = s.shown.load(Ordering::Acquire) == c.nonce.load(Ordering::Relaxed);
        Some(match s.get() {
            Some((now, State::Offered)) if now == generation && said => Shown::Said,
            Some((now, State::Offered)) if now == generation => Shown::NotYet,
            _ => Shown::Gone,
        })
    });
    found.unwrap_or(Shown::Gone)
}

/// What the client's socket shows if it holds the other end. The nonce is that of the moment when it was answered.
pub fn expected(c: &Channel, _: &Walking) -> Option<u64> {
    let g = guest_of(c)?;
    let (nonce, challenge) = (c.expected.load(Ordering::Relaxed), c.nonce.load(Ordering::Relaxed));
    Some(possession::number(Side::Client, g.key(), g.opener(), nonce, challenge))
}

/// The link to the client of `c`: our name of it, and the client's.
pub fn links(c: &Channel) -> [u64; 2] {
    guest_of(c).map_or([0; 2], |g| [0, 1].map(|i: usize| g.links[i].load(Ordering::Relaxed)))
}

/// Whether the client of `c` is of our own family: a process of it said hello.
pub fn is_a_relatives(c: &Channel) -> bool {
    let said_hello = guest_of(c).map_or(0, |g| g.pid.load(Ordering::Relaxed));
    // Of another pid namespace there is no number.
    said_hello != 0 && c.family.members_used().any(|n| c.family.member(n as usize).is(said_hello))
}

/// The version of layouts that the client of `c` and we speak.
pub fn spoken(c: &Channel) -> Option<u32> {
    guest_of(c).map(Guest::spoken)
}

/// Whether a guest is let in.
pub enum Admission {
    /// Its arena, mapped.
    Yes(Arena),
    /// There is no room for it.
    No,
    /// Another thread is in the way at this moment.
    Later,
}

/// The client of `c` has proven itself. One thread at a time.
pub fn admit(c: &Channel, _: &Walking) -> Admission {
    let n = c.slot.load(Ordering::Relaxed);
    let Some(g) = guest_of(c) else { return Admission::No };
    let uid = g.uid.load(Ordering::Relaxed);
    if let Some(arena) = g.arena() {
        return slot(&arena, uid, n).map_or(Admission::No, |_| Admission::Yes(arena));
    }
    let Some(View::Unmapped(memory)) = g.view() else { return Admission::No };
    let no = |why| {
        state::count(why);
        Admission::No
    };
    if !has_share(uid, 1, 0) {
        match bury(Some(uid)) {
            Buried::One if has_share(uid, 1, 0) => {}
            Buried::NotNow => return Admission::Later,
            _ => return no(Reason::Slots),
        }
    }
    let Ok(arena) = memory.map() else { return no(Reason::Memory) };
    let p = slot(&arena, uid, n).and_then(|_| state::leak_value(arena));
    let Some(p) = p else {
        // SAFETY: nobody else knows of it.
        unsafe { arena.unmap() };
        return no(Reason::Memory);
    };
    g.arena.store(p as usize, Ordering::SeqCst);
    close_mapped();
    Admission::Yes(arena)
}

fn alone() -> bool {
    RETIRED.is_alone()
}

/// Whether a guest's arena is mapped there.
pub fn maps(address: usize, _: &Walking) -> bool {
    MET.iter().filter_map(Guest::arena).any(|a| a.holds(address))
}

/// In a forked child: threads of the parent may have been at work. A page that was not changed stays shared.
pub fn inherited() {
    RETIRED.inherited();
}
