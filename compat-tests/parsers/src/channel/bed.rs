//! The memory that runs share.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::rc::Rc;

use dp_channel::arena::{Arena, Edge, Geometry, SHORT};
use dp_channel::family::{Conn, Family, Holders, View};
use dp_channel::observed::{Memory, Observed};
use dp_channel::slot::Side;
use dp_channel::switch;
use dp_edge::ring::{Pos, HEADER, LINE};
use dp_edge::segment::Mapped;
use dp_edge::sync::{AtomicU64, Ordering};

/// A spare ring has room for a longer token than any may be.
pub const GEOMETRY: Geometry = Geometry { slots: 16, lines: 64, spare: 512 };
pub const SLOT: u32 = 3;
/// Bytes of a slot.
pub const SLOT_BYTES: usize = 512;

/// Words in a row that somebody else may write.
#[derive(Clone, Copy)]
pub struct Words(&'static [AtomicU64]);

impl Words {
    /// # Safety
    ///
    /// Mapped for good, aligned to 8, and reached by everybody through atomics or copies.
    unsafe fn new(at: *const u8, bytes: usize) -> Words {
        // SAFETY: by the contract.
        Words(unsafe { core::slice::from_raw_parts(at.cast(), bytes / 8) })
    }

    pub fn poke(self, at: u16, word: u64) {
        self.0[usize::from(at) % self.0.len()].store(word, Ordering::Relaxed);
    }

    fn clear(self) {
        self.0.iter().for_each(|word| word.store(0, Ordering::Relaxed));
    }

    pub fn are_clear(self) -> bool {
        self.0.iter().all(|word| word.load(Ordering::Relaxed) == 0)
    }
}

/// Memory that all runs share: each begins with it as it was made.
pub struct Bed {
    pub arena: Arena,
    pub file: OwnedFd,
    pub edge: Edge,
    pub observed: Observed,
    /// What comes before the rings, and as it was; the slots; the rings of the direction, and spare ones.
    pub first: Words,
    as_made: Vec<u64>,
    pub slots: Words,
    pub short: Words,
    pub own: Words,
    pub spares: [Words; 2],
    /// The rings beside these.
    pub beside: Vec<Words>,
    pub view: View,
    pub family: File,
    /// Where in it the header, the first connection and its holders lie, and their lengths.
    pub parts: [(u64, usize); 3],
}

fn words(ring: Mapped, bytes: usize) -> Words {
    // SAFETY: a ring of an arena, which stays mapped.
    unsafe { Words::new(ring.payload(Pos::default()).wrapping_sub(HEADER), bytes) }
}

impl Bed {
    pub fn new() -> Bed {
        let (arena, file) = Arena::create(GEOMETRY).expect("an arena");
        assert!(arena.bring(SLOT));
        let memory =
            Rc::new(Memory::open(File::from(file.try_clone().expect("a descriptor"))).expect("an arena"));
        let edge = arena.edge(SLOT, Side::Client).expect("it is mapped");
        let spares = arena.spares().expect("there are some");
        assert!(spares.bring(1) && spares.bring(2));
        let spare = |n| words(spares.ring(n).expect("it is mapped"), GEOMETRY.spare as usize * LINE);
        let beside = [(SLOT - 1, Side::Server), (SLOT, Side::Server), (SLOT + 1, Side::Client)];
        let beside = beside.map(|(slot, side)| arena.edge(slot, side).expect("it is mapped"));
        let beside = beside.iter().flat_map(|edge| {
            [words(edge.short, SHORT as usize * LINE), words(edge.own, GEOMETRY.ring_bytes())]
        });
        let header = std::ptr::from_ref(arena.slot(0).expect("it is mapped")).cast::<u8>();
        // SAFETY: slots and what comes before the rings, in mappings that stay; all of it atomics.
        let (slots, first) = unsafe {
            (
                Words::new(header, GEOMETRY.slots as usize * SLOT_BYTES),
                Words::new(arena.first().start as *const u8, arena.first().len()),
            )
        };
        let (family, of_family) = Family::create().expect("a family");
        assert_eq!(family.claim(), Some(0));
        let conn = family.conn(0);
        let base = std::ptr::from_ref(family.header()) as usize;
        let at = |address: usize| (address - base) as u64;
        let holders = family.holders(conn);
        let parts = [
            (0, 4096),
            (at(std::ptr::from_ref(conn) as usize), size_of::<Conn>()),
            (at(std::ptr::from_ref(holders) as usize), size_of::<Holders>()),
        ];
        let of_family = File::from(of_family);
        Bed {
            arena,
            edge,
            observed: memory.channel(SLOT).expect("a slot"),
            as_made: first.0.iter().map(|word| word.load(Ordering::Relaxed)).collect(),
            first,
            slots,
            short: words(edge.short, SHORT as usize * LINE),
            own: words(edge.own, GEOMETRY.ring_bytes()),
            spares: [spare(1), spare(2)],
            beside: beside.collect(),
            file,
            view: View::open(&of_family).expect("a family"),
            family: of_family,
            parts,
        }
    }

    pub fn clear(&self) {
        self.first.0.iter().zip(&self.as_made).for_each(|(word, made)| word.store(*made, Ordering::Relaxed));
        [self.slots, self.short, self.own].into_iter().chain(self.spares).for_each(Words::clear);
        self.edge.tx.reset();
        self.edge.rx.reset(Pos::default());
    }

    /// As the shim asks for it at each look.
    pub fn ring(&self) -> Mapped {
        match self.edge.tx.ring() {
            switch::SHORT => self.edge.short,
            n => self.arena.spares().and_then(|spares| spares.ring(n)).unwrap_or(self.edge.own),
        }
    }
}
