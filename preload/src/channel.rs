//! A live channel as its process sees it: the two directions' words, lines and rings, and the slot they belong to.
//! How a connection comes that far is [`crate::candidate`]'s.

use core::sync::atomic::Ordering;

use dp_channel::arena::{self, Arena};
use dp_channel::bell::{Group, Word};
use dp_channel::family::{Conn, Family, ARENAS};
use dp_channel::slot::{Side, Slot, State};
use dp_channel::spare::Spares;
use dp_channel::switch::{RxLine, TxLine, OWN, SHORT};
use dp_edge::ring::{Cursor, Lines, LINE};
use dp_edge::segment::Mapped;
use dp_edge::sys::raw;

use crate::state;

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
        // SAFETY: attach() put it there; as in end().
        unsafe { Arena::unpack(self.c.mapping.load(Ordering::Relaxed)) }?.spares()
    }
}

#[inline(always)]
fn end(c: &Conn, at: usize) -> End<'_> {
    let p = |i: usize| c.edges[at + i].load(Ordering::Relaxed) as *mut u8;
    let word = p(0);
    // SAFETY: store_edges() put the addresses there before the stage said so; arenas stay mapped as long
    // as the family has a connection in them. Both lines follow the word.
    unsafe {
        End {
            word: &*word.cast::<Word>(),
            rx: &*word.add(LINE).cast::<RxLine>(),
            tx: &*word.add(2 * LINE).cast::<TxLine>(),
            short: p(1),
            c,
            at,
        }
    }
}

/// The direction this side sends on.
#[inline(always)]
pub fn sending(c: &Conn) -> End<'_> {
    end(c, 0)
}

/// The direction this side receives on.
#[inline(always)]
pub fn receiving(c: &Conn) -> End<'_> {
    end(c, 3)
}

/// Whether the connection's descriptor `fd` was made not to block.
#[inline]
pub fn is_nonblocking(fd: i32, c: &Conn) -> bool {
    c.mode.is_nonblocking(|| raw::is_nonblocking(fd))
}

/// Whether the slot still is this connection's, live or not.
#[inline(always)]
pub fn is_of_slot(c: &Conn) -> bool {
    slot(c).is_none_or(|s| s.is_of(c.generation.load(Ordering::Relaxed)))
}

/// The ring that `rx`, the direction this side receives on, is in. None where the slot has become another connection's; asked
/// for after the cursor was read, as that one's begins a lap further.
#[inline(always)]
pub fn ring_of(c: &Conn, rx: &End) -> Mapped {
    if is_of_slot(c) {
        rx.ring()
    } else {
        Mapped::none()
    }
}

/// The other side's watcher groups.
pub fn peer_groups(c: &Conn) -> &'static [Group] {
    // SAFETY: as in end(): the address of GROUPS groups in a row.
    unsafe { core::slice::from_raw_parts(c.groups.load(Ordering::Relaxed) as *const Group, arena::GROUPS) }
}

/// The offer's slot.
pub fn slot(c: &Conn) -> Option<&'static Slot> {
    let p = c.offer.load(Ordering::Acquire) as *const Slot;
    // SAFETY: as in end().
    (!p.is_null()).then(|| unsafe { &*p })
}

/// Whether the slot still is this connection's, and live.
#[inline(always)]
pub fn slot_live(c: &Conn) -> bool {
    slot(c).is_some_and(|s| s.is(c.generation.load(Ordering::Relaxed), State::Live))
}

/// Puts the arena's addresses into the connection. False: slot `n` is not mapped.
pub fn attach(c: &Conn, arena: &Arena, n: u32, side: Side, generation: u32) -> bool {
    let other = if side == Side::Client { Side::Server } else { Side::Client };
    let (Some(tx), Some(rx), Some(slot)) = (arena.edge(n, side), arena.edge(n, other), arena.slot(n)) else {
        return false;
    };
    let ring = |ring: &Mapped| std::ptr::from_ref(ring.header(Default::default())) as u64;
    let addresses = [&tx, &rx].map(|e| [std::ptr::from_ref(e.word) as u64, ring(&e.short), ring(&e.own)]);
    for (to, from) in c.edges.iter().zip(addresses.as_flattened()) {
        to.store(*from, Ordering::Relaxed);
    }
    c.lines.store(arena.geometry().lines, Ordering::Relaxed);
    c.tx_lines.store(arena::SHORT as u32, Ordering::Relaxed);
    c.mapping.store(arena.pack(), Ordering::Relaxed);
    c.slot.store(n, Ordering::Relaxed);
    c.generation.store(generation, Ordering::Relaxed);
    c.groups.store(arena.groups(other).as_ptr() as u64, Ordering::Relaxed);
    // The ring is empty: tail and cursor are the same place.
    let start = Cursor::unpack(tx.rx.cursor.load(Ordering::Relaxed)).pos;
    c.set_tail(dp_edge::ring::Tail { pos: start, seen: start });
    c.offer.store(std::ptr::from_ref(slot) as u64, Ordering::Release);
    true
}

/// Whether this process is the only living one that has the connection.
pub fn exclusive(family: Family, c: &Conn) -> bool {
    let Some(me) = state::member_if_joined() else { return false };
    if c.has(Conn::UNCOUNTED) {
        return false;
    }
    let holders = family.holders(c);
    holders.each().filter(|&n| n != me).all(|n| {
        let dead = !family.member(n as usize).alive();
        // We have it, so it was not the last.
        dead && !holders.remove(n)
    })
}

/// Where both rings are, in lines.
pub fn positions(c: &Conn) -> u32 {
    let taken = Cursor::unpack(receiving(c).rx.cursor.load(Ordering::Relaxed)).pos;
    c.tail().pos.raw().wrapping_add(taken.raw()) as u32
}

/// Client: the channel ends. Whether it has paid decides when later ones are offered.
pub fn count_worth(family: Family, c: &Conn) {
    let lines = positions(c).wrapping_sub(c.first.load(Ordering::Relaxed));
    let arena = c.arena.load(Ordering::Relaxed) as usize % ARENAS;
    family.arena(arena).worth.count(u64::from(lines));
}

/// Whether receives are to be told how much is left, which the kernel's own socket knows.
pub fn note_inq(fd: i32, c: &Conn) {
    match raw::getsockopt_int(fd, libc::IPPROTO_TCP, libc::TCP_INQ) {
        Ok(0) | Err(_) => c.clear(Conn::INQ),
        Ok(_) => c.set(Conn::INQ),
    }
}
