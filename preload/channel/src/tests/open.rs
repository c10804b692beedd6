//! Arenas that somebody else made: what is refused, and with which errno (E12); and where their parts lie.

use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::fs::{FileExt, MetadataExt};

use dp_edge::ring::{Lines, Pos, Tail, LINE};
use dp_edge::segment::{sealed_memory, Mapped};
use dp_edge::sync::{AtomicU64, Ordering};
use libc::{EBADMSG, EINVAL, EPROTONOSUPPORT, F_SEAL_GROW, F_SEAL_SHRINK};

use super::ends::{Feed, Room};
use crate::arena::{populate, Arena, Geometry, MAGIC, MAX_SLOTS, SHORT};
use crate::layouts::ARENA;
use crate::slot::Side;
use crate::spare::SPARES;
use crate::stream;
use crate::unmapped::Unmapped;

const NAME: &CStr = c"dp-test";
const SEALS: i32 = F_SEAL_SHRINK | F_SEAL_GROW;

fn memory(len: usize, seals: i32) -> io::Result<OwnedFd> {
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    // SAFETY: a C string and flags.
    let fd = unsafe { libc::memfd_create(NAME.as_ptr(), flags) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: just made, owned by nobody else.
    let file = unsafe { File::from_raw_fd(fd) };
    file.set_len(len as u64)?;
    // SAFETY: a plain call on our own descriptor.
    assert_eq!(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, seals) }, 0);
    Ok(file.into())
}

/// As a server opens the arena of a client that has proven itself.
fn open(fd: BorrowedFd<'_>) -> io::Result<Arena> {
    Unmapped::look(fd, usize::MAX).map_err(io::Error::from_raw_os_error)?.0.map()
}

fn errno<T>(result: io::Result<T>) -> i32 {
    result.map(|_| ()).expect_err("refused").raw_os_error().expect("an errno")
}

/// A good arena's first bytes, with one of its fields changed.
fn arena(change: impl Fn(&mut [u8; 28])) -> io::Result<Arena> {
    let geo = Geometry { slots: 16, lines: 64, spare: 256 };
    let mut header = [0u8; 28];
    header[..8].copy_from_slice(&MAGIC.to_le_bytes());
    header[8..12].copy_from_slice(&ARENA[0].to_le_bytes());
    header[12..16].copy_from_slice(&geo.slots.to_le_bytes());
    header[16..20].copy_from_slice(&geo.lines.to_le_bytes());
    header[20..24].copy_from_slice(&geo.spare.to_le_bytes());
    change(&mut header);
    let fd = memory(geo.len(), SEALS).unwrap();
    let file = File::from(fd.try_clone().unwrap());
    file.write_all_at(&header, 0).unwrap();
    open(fd.as_fd())
}

#[test]
#[cfg_attr(miri, ignore)]
fn what_is_no_sealed_memory_is_no_arena() {
    let len = Geometry { slots: 16, lines: 64, spare: 256 }.len();
    for seals in [0, F_SEAL_SHRINK, F_SEAL_GROW] {
        assert_eq!(errno(open(memory(len, seals).unwrap().as_fd())), EBADMSG, "seals {seals:x}");
    }
    let socket = std::os::unix::net::UnixDatagram::unbound().unwrap();
    let fds: [OwnedFd; 2] = [File::open("/dev/null").unwrap().into(), socket.into()];
    for fd in fds {
        assert_eq!(errno(open(fd.as_fd())), EBADMSG);
    }
}

#[test]
#[cfg_attr(miri, ignore)]
fn arenas_of_another_version_are_told_apart() {
    assert!(arena(|_| ()).is_ok());
    let [oldest, newest] = ARENA;
    let told = |version: u32, to: u32| {
        move |h: &mut [u8; 28]| {
            h[8..12].copy_from_slice(&version.to_le_bytes());
            h[24..].copy_from_slice(&to.to_le_bytes());
        }
    };
    for (version, to) in [(newest + 1, 0), (newest + 1, u32::MAX), (u32::MAX, 0), (0, 0), (0, oldest - 1)] {
        assert_eq!(errno(arena(told(version, to))), EPROTONOSUPPORT, "versions {version} to {to}");
    }
    for (version, to) in [(oldest, 0), (newest, newest), (newest, u32::MAX), (0, newest), (0, u32::MAX)] {
        assert!(arena(told(version, to)).is_ok(), "versions {version} to {to}");
    }
}

#[test]
#[cfg_attr(miri, ignore)]
fn arenas_with_an_impossible_header_are_refused() {
    for bit in [0, 7, 31, 63] {
        assert_eq!(errno(arena(|h| h[bit / 8] ^= 1 << (bit % 8))), EBADMSG, "magic, bit {bit}");
    }
    for n in [0u32, 1, 8, 15, 17, 32, 1 << 17, 1 << 31, u32::MAX] {
        let set = |h: &mut [u8; 28]| h[12..16].copy_from_slice(&n.to_le_bytes());
        assert_eq!(errno(arena(set)), EBADMSG, "{n} slots");
        let set = |h: &mut [u8; 28]| h[16..20].copy_from_slice(&n.to_le_bytes());
        assert_eq!(errno(arena(set)), EBADMSG, "{n} lines");
        let set = |h: &mut [u8; 28]| h[20..24].copy_from_slice(&n.to_le_bytes());
        assert_eq!(errno(arena(set)), EBADMSG, "spare rings of {n} lines");
    }
    for len in [0, 1, 4095, 4096, 8192, 1 << 40] {
        let fd = sealed_memory(NAME, len).unwrap();
        assert_eq!(errno(open(fd.as_fd())), EBADMSG, "{len} bytes of zeros");
    }
}

#[test]
#[cfg_attr(miri, ignore)]
fn arenas_of_impossible_geometry_are_not_made() {
    for (slots, lines) in
        [(0, 64), (8, 64), (17, 64), (1 << 17, 64), (16, 0), (16, 32), (16, 96), (16, 1 << 21)]
    {
        let geo = Geometry { slots, lines, spare: 0 };
        assert_eq!(errno(Arena::create(geo)), EINVAL, "{slots} slots, {lines} lines");
    }
    for spare in [1, 32, 64, 96, 127, (1 << 20) + 1, 1 << 21, u32::MAX] {
        let geo = Geometry { slots: 16, lines: 64, spare };
        assert_eq!(errno(Arena::create(geo)), EINVAL, "spare rings of {spare} lines");
    }
}

/// Control lines and rings of all slots lie apart from each other, in both mappings alike, and are there when they are
/// brought.
#[test]
#[cfg_attr(miri, ignore)]
fn arena_parts_do_not_overlap() {
    let geo = Geometry { slots: 64, lines: 64, spare: 256 };
    let (a, fd) = Arena::create(geo).unwrap();
    let b = open(fd.as_fd()).unwrap();
    assert_eq!(b.geometry(), geo);
    // In another order, so that what is mapped before differs.
    let order: Vec<u32> = (0..geo.slots).collect();
    for (arena, order) in [(&a, order.clone()), (&b, order.into_iter().rev().collect())] {
        for i in order {
            assert!(arena.bring(i));
        }
    }
    let ring = |ring: &Mapped| ring.header(Pos::default()) as *const _ as usize;
    let parts = |arena: &Arena| {
        let mut parts = Vec::new();
        for i in 0..geo.slots {
            let slot = arena.slot(i).unwrap() as *const _ as usize;
            assert!(arena.holds(slot) && !arena.holds(arena.id()));
            parts.push((slot, 128));
            for side in [Side::Client, Side::Server] {
                let e = arena.edge(i, side).unwrap();
                parts.extend([
                    (e.word as *const _ as usize, 8),
                    (e.rx as *const _ as usize, 64),
                    (e.tx as *const _ as usize, 64),
                    (ring(&e.short), SHORT as usize * LINE),
                    (ring(&e.own), geo.ring_bytes()),
                ]);
            }
        }
        let spares = arena.spares().unwrap();
        for n in 1..=SPARES {
            assert!(spares.bring(n));
            parts.push((ring(&spares.ring(n).unwrap()), 256 * LINE));
        }
        for side in [Side::Client, Side::Server] {
            parts.extend(arena.groups(side).iter().map(|g| (g as *const _ as usize, 64)));
        }
        parts
    };
    let (ours, theirs) = (parts(&a), parts(&b));
    // A number of its own in the first word of each, which is the same memory on the other side.
    let word = |at: usize| {
        // SAFETY: a part of an arena, which stays mapped.
        unsafe { &*(at as *const AtomicU64) }
    };
    ours.iter().zip(1..).for_each(|(&(at, _), n)| word(at).store(n, Ordering::Relaxed));
    for (&(at, len), n) in theirs.iter().zip(1..) {
        assert_eq!(word(at).load(Ordering::Relaxed), n, "a part of {len} bytes is out of line");
    }
    for mut parts in [ours, theirs] {
        parts.sort();
        assert!(parts.windows(2).all(|w| w[0].0 + w[0].1 <= w[1].0), "parts overlap");
    }
}

/// Nothing is mapped before somebody needs it, and nothing twice.
#[test]
#[cfg_attr(miri, ignore)]
fn an_arena_takes_addresses_as_it_is_used() {
    let geo = Geometry { slots: MAX_SLOTS, lines: 2048, spare: 65_536 };
    let (a, fd) = Arena::create(geo).unwrap();
    let (none, chunk) = (a.addresses(), 16 * (512 + 4096 + 2 * geo.ring_bytes()));
    assert!(none < 2 << 20 && a.slot(0).is_none() && a.edge(17, Side::Client).is_none());
    assert_eq!(a.more_for(40_000), chunk);
    for (brought, chunks) in [(40_000, 1), (39_999, 2), (40_015, 2), (0, 3), (MAX_SLOTS - 1, 4)] {
        assert!(a.bring(brought) && a.slot(brought).is_some());
        assert_eq!((a.more_for(brought), a.addresses()), (0, none + chunks * chunk));
    }
    // Without its descriptor.
    let b = open(fd.as_fd()).unwrap();
    drop(fd);
    assert!(b.bring(40_001));
    a.slot(40_001).unwrap().shared.store(7, Ordering::Relaxed);
    assert_eq!(b.slot(40_001).unwrap().shared.load(Ordering::Relaxed), 7);
    // Two threads at once have the same.
    let at = |i| std::ptr::from_ref(b.slot(i).unwrap()) as usize;
    for i in (0..4096).step_by(16) {
        let both = std::thread::scope(|s| {
            let bring = || s.spawn(|| (b.bring(i), at(i)));
            [bring(), bring()].map(|thread| thread.join().unwrap())
        });
        assert_eq!(both, [(true, at(i)); 2]);
    }
    assert_eq!(b.addresses(), none + 257 * chunk);
    // SAFETY: nothing of it is used any more.
    unsafe { b.unmap() };
}

/// What has memory is what is used: lines and short rings, until a sender goes over.
#[test]
#[cfg_attr(miri, ignore)]
fn an_idle_slot_has_one_page_of_rings() {
    let geo = Geometry { slots: 4096, lines: 2048, spare: 0 };
    let (arena, fd) = Arena::create(geo).unwrap();
    let file = File::from(fd);
    let memory = || file.metadata().unwrap().blocks() * 512;
    let before = memory();
    for i in 0..1024 {
        assert!(arena.bring(i));
        arena.populate(file.as_fd(), i).unwrap();
        for side in [Side::Client, Side::Server] {
            let e = arena.edge(i, side).unwrap();
            let (mut tail, mut room) = (Tail::default(), Room::room(500, 500));
            let sent = stream::push(&e.short, &mut tail, &e.rx.cursor, &mut Feed::one(&[1; 500]));
            assert_eq!(sent, Ok(500));
            assert_eq!(stream::pull(&e.short, &e.rx.cursor, &mut room, false), Ok(500));
        }
    }
    let idle = memory() - before;
    assert_eq!(idle, 1024 * (512 + 4096));
    let own = arena.edge(5, Side::Client).unwrap().own;
    let at = std::ptr::from_ref(own.header(Pos::default())).cast_mut().cast();
    // SAFETY: a ring of the arena's.
    unsafe { populate(at, geo.ring_bytes()) }.unwrap();
    assert_eq!(memory() - before, idle + geo.ring_bytes() as u64);
    arena.shrink(file.as_fd(), 5);
    assert_eq!(memory() - before, idle);
}
