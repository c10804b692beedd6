//! A live connection's two directions as its family has them mapped: words, lines and rings, and the slot they belong to.

use core::sync::atomic::{AtomicU64, Ordering};

use super::conn::{Conn, Stage};
use crate::arena::{self, Arena};
use crate::bell::{Group, Word};
use crate::geometry::{EDGE, OFFER, PAGE, SLOT};
use crate::slot::{Side, Slot, State};
use crate::spare::Spares;
use crate::stream;
use crate::switch::{in_ring, RxLine, TxLine, OWN, SHORT};
use crate::tcp::Addr;
use dp_edge::ring::{Cursor, Lines, Tail, LINE};
use dp_edge::segment::Mapped;

/// One direction of a live channel, in this process's mapping.
#[derive(Clone, Copy)]
pub struct End<'a> {
    /// The wake word.
    pub word: &'static Word,
    /// The receiver's line.
    pub rx: &'static RxLine,
    /// The sender's line.
    pub tx: &'static TxLine,
    short: *mut u8,
    c: &'a Conn,
    at: usize,
}

impl End<'_> {
    /// Whether it stands in for a direction whose slot has become another connection's. No ring must begin there: all such have it.
    pub fn is_nobodys(&self) -> bool {
        core::ptr::eq(self.word, NOBODYS.0.as_ptr().cast())
    }

    /// The ring. Asked for at each look: a sender goes over to another one when there is nothing in it.
    #[inline(always)]
    pub fn ring(&self) -> Mapped {
        match self.tx.ring() {
            // SAFETY: as in end(): a short ring.
            SHORT => unsafe { Mapped::new(self.short, arena::SHORT) },
            n => self.longer(n),
        }
    }

    #[inline]
    fn longer(&self, n: u32) -> Mapped {
        match n {
            OWN => self.own(),
            n => self.spares().and_then(|spares| spares.ring(n)).unwrap_or_else(|| self.own()),
        }
    }

    /// The slot's own ring.
    #[inline]
    pub fn own(&self) -> Mapped {
        let at = self.c.edges[self.at + 2].load(Ordering::Relaxed) as *mut u8;
        // SAFETY: as in end().
        unsafe { Mapped::new(at, u64::from(self.c.lines.load(Ordering::Relaxed))) }
    }

    /// The arena's spare rings, if it has some.
    pub fn spares(&self) -> Option<Spares> {
        self.c.mapped()?.spares()
    }
}

/// What a connection has for a direction whose slot has become another connection's: nothing is ever in it, and nobody is told of
/// what is done there. A receiver that was in a ring finds no epoch of its sender's that could follow.
#[repr(C, align(4096))]
struct Nobodys([AtomicU64; PAGE / size_of::<u64>()]);

static NOBODYS: Nobodys = Nobodys([const { AtomicU64::new(0) }; PAGE / size_of::<u64>()]);

const _: () = assert!(EDGE <= PAGE / 2 && arena::SHORT as usize * LINE <= PAGE / 2);

impl Nobodys {
    fn end<'a>(&'static self, c: &'a Conn, at: usize) -> End<'a> {
        let p = self.0.as_ptr() as *mut u8;
        // SAFETY: a page of atomics, which stays; words and lines are made of such, and any bits are a value of them. The second
        // half is a short ring.
        unsafe {
            End {
                word: &*p.cast::<Word>(),
                rx: &*p.add(LINE).cast::<RxLine>(),
                tx: &*p.add(2 * LINE).cast::<TxLine>(),
                short: p.add(PAGE / 2),
                c,
                at,
            }
        }
    }
}

impl Conn {
    /// The arena that it is in, if it is in one.
    pub fn mapped(&self) -> Option<Arena> {
        // SAFETY: attach() put it there; as in end().
        unsafe { Arena::unpack(self.mapping.load(Ordering::Relaxed)) }
    }

    /// Whether this family's end is the client's.
    #[inline]
    pub fn is_client(&self) -> bool {
        self.side.load(Ordering::Relaxed) == Side::Client as u32
    }

    #[inline(always)]
    fn end(&self, at: usize) -> End<'_> {
        let p = |i: usize| self.edges[at + i].load(Ordering::Relaxed) as *mut u8;
        let word = p(0);
        // SAFETY: attach() put the addresses there before the stage said so; arenas stay mapped as long
        // as the family has a connection in them. Both lines follow the word.
        unsafe {
            End {
                word: &*word.cast::<Word>(),
                rx: &*word.add(LINE).cast::<RxLine>(),
                tx: &*word.add(2 * LINE).cast::<TxLine>(),
                short: p(1),
                c: self,
                at,
            }
        }
    }

    /// The same while the slot is this connection's. A server that finds late that its client has reset a connection may find the slot
    /// to be the next one's (PROTOCOLS E11), in which nothing is for it to change.
    #[inline]
    fn own_end(&self, at: usize) -> End<'_> {
        if self.is_of_slot() {
            self.end(at)
        } else {
            NOBODYS.end(self, at)
        }
    }

    /// The direction this side sends on.
    #[inline]
    pub fn sending(&self) -> End<'_> {
        self.own_end(0)
    }

    /// The direction this side receives on.
    #[inline]
    pub fn receiving(&self) -> End<'_> {
        self.own_end(3)
    }

    /// The direction this side sends on, for a caller that asks before it changes anything whether the slot still is this connection's,
    /// and live.
    #[inline(always)]
    pub fn sending_unasked(&self) -> End<'_> {
        self.end(0)
    }

    /// The direction this side receives on, for a caller that only looks, or asks for [`Conn::ring_of`].
    #[inline(always)]
    pub fn receiving_unasked(&self) -> End<'_> {
        self.end(3)
    }

    /// The word of the direction this side receives on, if the connection, which may be a relative's, lies in `arena` where that is
    /// mapped here. Its addresses may be those of another process, and what it is may change meanwhile: they are asked for once.
    pub fn word_in(&self, arena: &Arena) -> Option<&'static Word> {
        let at = self.offer.load(Ordering::Acquire) as usize;
        if !arena.holds(at) || at % SLOT != 0 {
            return None;
        }
        // SAFETY: where a slot may lie in a chunk that is mapped, and no slot lies across two pages; made of atomics, any bits are a
        // value of it.
        let slot = unsafe { &*(at as *const Slot) };
        let end = |a: Addr| (a.ip, a.port);
        let (ours, theirs) = (end(self.local()), end(self.peer()));
        let ends = if self.is_client() { (ours, theirs) } else { (theirs, ours) };
        if slot.ends() != Some(ends) {
            return None;
        }
        let direction = if self.is_client() { EDGE } else { 0 };
        // SAFETY: it follows the offer.
        Some(unsafe { &*((at + OFFER + direction) as *const Word) })
    }

    /// Whether the slot still is this connection's, live or not.
    #[inline(always)]
    pub fn is_of_slot(&self) -> bool {
        self.slot().is_none_or(|s| s.is_of(self.generation.load(Ordering::Relaxed)))
    }

    /// The ring that `rx`, the direction this side receives on, is in. None where the slot has become another connection's; asked
    /// for after the cursor was read, as that one's begins a lap further.
    #[inline(always)]
    pub fn ring_of(&self, rx: &End) -> Mapped {
        if self.is_of_slot() {
            rx.ring()
        } else {
            Mapped::none()
        }
    }

    /// The other side's watcher groups.
    #[inline]
    pub fn peer_groups(&self) -> &'static [Group] {
        // SAFETY: as in end(): the address of arena::GROUPS groups in a row.
        unsafe {
            core::slice::from_raw_parts(self.groups.load(Ordering::Relaxed) as *const Group, arena::GROUPS)
        }
    }

    /// The offer's slot.
    #[inline]
    pub fn slot(&self) -> Option<&'static Slot> {
        let p = self.offer.load(Ordering::Acquire) as *const Slot;
        // SAFETY: as in end().
        (!p.is_null()).then(|| unsafe { &*p })
    }

    /// Whether the slot still is this connection's, and live.
    #[inline(always)]
    pub fn slot_live(&self) -> bool {
        self.slot().is_some_and(|s| s.is(self.generation.load(Ordering::Relaxed), State::Live))
    }

    /// The slot is dead from here on: the kernel has it all.
    pub fn kill_slot(&self) {
        if let Some(s) = self.slot() {
            s.kill(self.generation.load(Ordering::Relaxed));
        }
    }

    /// Puts the arena's addresses into the connection. False: slot `n` is not mapped.
    pub fn attach(&self, arena: &Arena, n: u32, side: Side, generation: u32) -> bool {
        let other = if side == Side::Client { Side::Server } else { Side::Client };
        let (Some(tx), Some(rx), Some(slot)) = (arena.edge(n, side), arena.edge(n, other), arena.slot(n))
        else {
            return false;
        };
        let ring = |ring: &Mapped| std::ptr::from_ref(ring.header(Default::default())) as u64;
        let addresses = [&tx, &rx].map(|e| [std::ptr::from_ref(e.word) as u64, ring(&e.short), ring(&e.own)]);
        for (to, from) in self.edges.iter().zip(addresses.as_flattened()) {
            to.store(*from, Ordering::Relaxed);
        }
        self.lines.store(arena.geometry().lines, Ordering::Relaxed);
        self.tx_lines.store(arena::SHORT as u32, Ordering::Relaxed);
        self.mapping.store(arena.pack(), Ordering::Relaxed);
        self.slot.store(n, Ordering::Relaxed);
        self.generation.store(generation, Ordering::Relaxed);
        self.groups.store(arena.groups(other).as_ptr() as u64, Ordering::Relaxed);
        // The ring is empty: tail and cursor are the same place.
        let start = Cursor::unpack(tx.rx.cursor.load(Ordering::Relaxed)).pos;
        self.set_tail(Tail { pos: start, seen: start });
        self.offer.store(std::ptr::from_ref(slot) as u64, Ordering::Release);
        true
    }

    /// Where both rings are, in lines.
    pub fn positions(&self) -> u32 {
        let taken = Cursor::unpack(self.receiving().rx.cursor.load(Ordering::Relaxed)).pos;
        self.tail().pos.raw().wrapping_add(taken.raw()) as u32
    }

    /// This side's groups: client's and server's lie next to each other.
    #[inline]
    pub fn my_groups(&self) -> &'static [Group] {
        let theirs = self.peer_groups().as_ptr();
        // SAFETY: arena.rs lays the client's groups out before the server's.
        unsafe {
            let mine = if self.is_client() { theirs.sub(arena::GROUPS) } else { theirs.add(arena::GROUPS) };
            core::slice::from_raw_parts(mine, arena::GROUPS)
        }
    }

    /// Whether the direction's ring, or a switch, may have something to say. Two or three loads; the receiver knows.
    #[inline(always)]
    pub fn hint(&self, rx: &End) -> bool {
        let r = self.rx_epoch.load(Ordering::Relaxed);
        (in_ring(r) && stream::waiting(&rx.ring(), &rx.rx.cursor)) || rx.tx.moved(r)
    }

    /// Whether the ring has tokens, whatever lies on TCP before them.
    #[inline]
    pub fn has_tokens(&self) -> bool {
        self.stage() == Stage::Live && {
            let rx = self.receiving();
            stream::waiting(&rx.ring(), &rx.rx.cursor)
        }
    }
}
