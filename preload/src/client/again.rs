//! Slots that we left: which of them are free to be used again (PROTOCOLS E11), and what they give back.
//!
//! A server that closes says so in the slot. One whose process ends without a close says nothing, as the children of a server
//! that forks for each connection: then the kernel is asked, a slot or two at a time, by whoever takes a slot or leaves one. That it
//! knows nothing of the server's socket is not enough: it knows nothing of a connection that is over in both directions, or was
//! reset, and a server that has a descriptor of that may be in the middle of a call. So the server's process must have
//! ended, and whoever of its children has the slot's memory.
//!
//! Two things tell that. The link by which the process was said hello to, which it names in the slot: the kernel closes its other end
//! with the last process that has it, in whatever pid namespace, and children have it where they have the memory. Only who
//! has made a link can ask. And the process's number, of a process that alone had the connection, in our own pid namespace.

use core::sync::atomic::{fence, AtomicU32, AtomicU64, Ordering};

use dp_channel::arena::Arena;
use dp_channel::family::{self, Family, OwnArena, ARENAS};
use dp_channel::slot::{Side, Slot};
use dp_channel::stream;
use dp_channel::switch::{in_ring, OWN, SHORT};
use dp_channel::tcp;

use super::given;
use crate::{diag, link, state};

/// So many slots may wait for servers that are about to close: the kernel is asked about none of them.
const MANY: usize = 32;
/// Where there is no slot otherwise: how many are looked at in one call of the program, and how many the kernel is asked about.
const LOOKS: usize = 1024;
pub(super) const QUESTIONS: usize = 64;
/// How many are looked at, in passing, for one that was left since.
const NEWS: usize = 256;

/// Questions in a row by which nothing was found; after so many there is one in [`REST`] nanoseconds in passing. Where many servers have
/// connections that are over, each connection that begins or ends would pay for a question.
const EAGER: u32 = 256;
const REST: u64 = 1_000_000;

/// Minutes after which a slot is free of which the kernel has known nothing for so long, where it is not known whether its server
/// lives: the link is another process's, and it has another pid namespace, or several processes had the connection. One that lives may have a descriptor of a connection
/// that was reset, and read there this late: it finds that the slot is another's, and a reset. One that has half-closed may work
/// through what it was sent for as long as it likes.
const ABANDONED: u32 = 60;

/// Where the next look at an arena begins, and the next one for slots of which the kernel is not known to know nothing.
static AT: [AtomicU32; ARENAS] = [const { AtomicU32::new(0) }; ARENAS];
static NEW: [AtomicU32; ARENAS] = [const { AtomicU32::new(0) }; ARENAS];

/// When to ask.
struct Patience {
    in_vain: AtomicU32,
    last: AtomicU64,
}

/// Of the kernel, about sockets; and about processes.
static SOCKETS: Patience = Patience::new();
static PROCESSES: Patience = Patience::new();

impl Patience {
    const fn new() -> Patience {
        Patience { in_vain: AtomicU32::new(0), last: AtomicU64::new(0) }
    }

    /// Whether it is time for another question in passing.
    fn is_over(&self) -> bool {
        if self.in_vain.load(Ordering::Relaxed) < EAGER {
            return true;
        }
        let now = state::now();
        let over = now.saturating_sub(self.last.load(Ordering::Relaxed)) >= REST;
        if over {
            self.last.store(now, Ordering::Relaxed);
        }
        over
    }

    /// The answer, which is given back.
    fn told(&self, found: bool) -> bool {
        let in_vain = if found { 0 } else { self.in_vain.load(Ordering::Relaxed).saturating_add(1) };
        self.in_vain.store(in_vain, Ordering::Relaxed);
        found
    }
}

/// Whether a link has ended, of which it was asked last in one look: nearly all slots of an arena have the same.
#[derive(Default)]
struct Asked {
    link: u64,
    ended: bool,
}

impl Asked {
    /// The answer where it is known, which costs no system call.
    fn known(&self, link: u64) -> Option<bool> {
        if link == self.link && link != 0 {
            return Some(self.ended);
        }
        if link::may_be_ours(link) {
            None
        } else {
            Some(false)
        }
    }

    fn has_ended(&mut self, link: u64) -> bool {
        self.known(link).unwrap_or_else(|| {
            *self = Asked { link, ended: link::has_ended(link) };
            self.ended
        })
    }
}

/// How many there may be in one call of the program.
struct Questions {
    left: usize,
    in_passing: bool,
}

impl Questions {
    fn in_passing(left: usize) -> Questions {
        Questions { left, in_passing: true }
    }

    /// Asks one, unless there were enough: what it found.
    fn ask(&mut self, patience: &Patience, question: impl FnOnce() -> bool) -> bool {
        if self.left == 0 || (self.in_passing && !patience.is_over()) {
            return false;
        }
        self.left -= 1;
        patience.told(question())
    }
}

/// Looks at a slot or two of arena `i` that we left, whenever one is taken or left: so those whose servers ended do not
/// become more and more.
pub(super) fn look_in_passing(family: Family, i: usize, arena: &Arena) {
    let own = family.arena(i);
    let many = own.closings() > MANY;
    if many {
        // Many may wait for an hour. Those that were left since are not to wait until it is their turn among all of them.
        let now = state::now();
        let new = from(own, &NEW[i]).take(NEWS).filter(|&n| own.gone_for(n, now).is_none()).take(1);
        look(family, i, arena, new, &mut Questions::in_passing(1));
    }
    look(family, i, arena, from(own, &AT[i]).take(2), &mut Questions::in_passing(usize::from(many)));
}

/// Looks at many, where one is needed. `questions`: as many as the kernel is asked at most.
pub(super) fn look_through(family: Family, i: usize, arena: &Arena, questions: &mut usize) {
    let mut some = Questions { left: *questions, in_passing: false };
    look(family, i, arena, from(family.arena(i), &AT[i]).take(LOOKS), &mut some);
    *questions = some.left;
}

/// The slots that we left, from `at` on, which goes along.
fn from<'a>(own: &'a OwnArena, at: &'a AtomicU32) -> impl Iterator<Item = u32> + 'a {
    own.closing_from(at.load(Ordering::Relaxed)).inspect(|n| at.store(n + 1, Ordering::Relaxed))
}

/// Frees those of some slots that are free.
fn look(
    family: Family,
    i: usize,
    arena: &Arena,
    slots: impl Iterator<Item = u32>,
    questions: &mut Questions,
) {
    let (own, mut asked) = (family.arena(i), Asked::default());
    for n in slots {
        reclaim(family, i, arena, n, |n| {
            both_left(arena, n) || has_no_server(i, own, arena, n, questions, &mut asked)
        });
    }
}

/// All spare rings are taken: those of slots that both ends have left, or of which the server's process has ended, and that were not
/// taken again, are free. What the kernel says of the server's end is not enough: it knows nothing of a connection that is closed
/// on both sides, and whoever has a descriptor of that may still read what is in the ring.
pub(super) fn recover_spares(family: Family, i: usize, arena: &Arena) {
    let Some(spares) = arena.spares() else { return };
    let has_some = |&n: &u32| {
        let ends = [Side::Client, Side::Server].map(|side| arena.edge(n, side));
        ends.into_iter().flatten().any(|e| [e.tx.ring(), e.tx.wants()].iter().any(|&ring| spares.has(ring)))
    };
    let mut asked = Asked::default();
    for n in family.arena(i).closing().filter(has_some) {
        reclaim(family, i, arena, n, |n| {
            both_left(arena, n) || asked.has_ended(named_link(arena, n)) || its_process_has_ended(arena, n)
        });
    }
}

/// Both ends of the connection before are gone: the spare rings they had are free.
pub(super) fn clear(arena: &Arena, n: u32) {
    for e in [Side::Client, Side::Server].iter().filter_map(|&side| arena.edge(n, side)) {
        if let Some(spares) = arena.spares() {
            spares.give_back(e.tx.ring());
            if e.tx.wants() != e.tx.ring() {
                spares.give_back(e.tx.wants());
            }
        }
        e.tx.reset();
    }
}

/// Both ends are through with slot `n`, and it is ours: what its own rings have of memory is given back, if there is much
/// such memory.
pub(super) fn shrink(i: usize, own: &OwnArena, arena: &Arena, n: u32) {
    let grew = [Side::Client, Side::Server].iter().any(|&side| {
        // What ring its sender says it is in, costs its own side when it lies.
        arena.edge(n, side).is_some_and(|e| e.tx.ring() != SHORT)
    });
    if grew {
        own.grew(n);
    }
    if own.shrinks(n) {
        given::with_memory(i, |memory| arena.shrink(memory, n));
    }
}

/// Whether both ends are through with a slot.
pub(super) fn both_left(arena: &Arena, n: u32) -> bool {
    arena.bring(n) && arena.slot(n).is_some_and(Slot::both_left)
}

/// Frees a slot if both ends are through with it, as `over` says once it is ours.
fn reclaim(family: Family, i: usize, arena: &Arena, n: u32, over: impl FnOnce(u32) -> bool) {
    let own = family.arena(i);
    // From here on it is ours, as if for a connection.
    if own.reclaim(n, |n| given::is_current(family, i, arena) && over(n)) {
        shrink(i, own, arena, n);
        clear(arena, n);
        own.free(n);
    }
}

/// Whether the server of a slot that is ours ended without a word.
fn has_no_server(
    i: usize,
    own: &OwnArena,
    arena: &Arena,
    n: u32,
    questions: &mut Questions,
    asked: &mut Asked,
) -> bool {
    let minutes = match own.gone_for(n, state::now()) {
        Some(minutes) => minutes,
        None if questions.ask(&SOCKETS, || is_unknown(arena, n)) => {
            own.is_gone_now(n, state::now());
            // It may have to wait for an hour, and what is in its rings is nobody's any more.
            if is_read(arena, n) {
                shrink(i, own, arena, n);
            }
            0
        }
        None => return false,
    };
    let (link, one) = (named_link(arena, n), server(arena, n).is_some());
    let ended = match asked.known(link) {
        Some(true) => true,
        Some(false) if !one => false,
        // One question: where there is but one, and the link lives, it would never be asked for the process.
        _ => questions.ask(&PROCESSES, || asked.has_ended(link) || its_process_has_ended(arena, n)),
    };
    ended || (!one && minutes >= ABANDONED && !is_ending(arena, n))
}

/// The link that the server has named; 0: none.
fn named_link(arena: &Arena, n: u32) -> u64 {
    let slot = arena.bring(n).then(|| arena.slot(n)).flatten();
    slot.map_or(0, Slot::link)
}

/// The process that alone has the server's end, if that is known, and we can tell when it ends.
fn server(arena: &Arena, n: u32) -> Option<u32> {
    let slot = arena.bring(n).then(|| arena.slot(n)).flatten();
    slot.and_then(Slot::only_server).filter(|&(_, space)| family::can_tell_of(space)).map(|(pid, _)| pid)
}

/// Whether the server's process has ended, which alone had the connection.
fn its_process_has_ended(arena: &Arena, n: u32) -> bool {
    // Asked again behind the question: it may have shared the connection before it ended.
    server(arena, n).is_some_and(family::is_gone_without_place) && {
        fence(Ordering::Acquire);
        server(arena, n).is_some()
    }
}

/// Whether the server has taken all that we sent, in the ring, and will not go on to work through it.
fn is_read(arena: &Arena, n: u32) -> bool {
    let [Some(ours), Some(theirs)] = [Side::Client, Side::Server].map(|side| arena.edge(n, side)) else {
        return false;
    };
    let ring = match ours.tx.ring() {
        SHORT => Some(ours.short),
        OWN => Some(ours.own),
        n => arena.spares().and_then(|spares| spares.ring(n)),
    };
    in_ring(ours.tx.epoch())
        && !theirs.tx.is_ending()
        && ring.is_some_and(|r| !stream::waiting(&r, &ours.rx.cursor))
}

fn is_ending(arena: &Arena, n: u32) -> bool {
    arena.edge(n, Side::Server).is_none_or(|theirs| theirs.tx.is_ending())
}

/// Whether the kernel does not know the server's end of a slot that we left.
fn is_unknown(arena: &Arena, n: u32) -> bool {
    let slot = arena.bring(n).then(|| arena.slot(n)).flatten();
    let Some((slot, (client, server))) = slot.and_then(|s| Some((s, s.ends()?))) else { return false };
    let a = |ip: [u8; 16], port: u16| tcp::Addr { ip, port, scope: 0 };
    let netns = slot.netns.load(Ordering::Relaxed);
    diag::is_gone(a(server.0, server.1), a(client.0, client.1), netns)
}

#[cfg(test)]
mod tests;
