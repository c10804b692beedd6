use dp_channel::arena::Geometry;
use dp_channel::slot::Tuple;
use dp_edge::sys::raw;

use super::*;
use crate::client::given::{with_memory, MAPPED};
use crate::own::tests::another_has;
use crate::{client, own, testing};

/// A relative has given the entry to another arena: what the memory of the former says of a slot, it does not say of that one's.
#[test]
fn a_slot_is_not_freed_by_the_word_of_a_former_arena() {
    testing::start();
    let family = state::family().expect("started");
    let i = ARENAS - 1;
    let (own, server) = (family.arena(i), tcp::Addr { ip: [1; 16], port: 1, scope: 0 });
    let former = own.claim(server, 0).expect("an entry");
    let (arena, _memory) = Arena::create(Geometry { slots: 64, lines: 64, spare: 1024 }).expect("an arena");
    assert!(arena.bring(0), "no addresses");
    let slot = arena.slot(0).expect("mapped");
    let generation = slot.offer(&Tuple::default(), 1, 1, 1);
    let left = [Side::Client, Side::Server].map(|side| slot.leave(generation, side));
    assert_eq!(left, [false, true]);
    assert!(both_left(&arena, 0));
    // One that both sides have left, and that has a spare ring.
    arena.edge(0, Side::Client).expect("mapped").tx.go_over(1);
    MAPPED[i].serial.store(former, Ordering::Release);
    MAPPED[i].arena.store(state::leak_value(arena).expect("a page") as usize, Ordering::Release);

    assert!(own.retire(former, |_| true));
    own.release();
    let next = own.claim(server, 0).expect("an entry");
    assert_eq!(own.slot(|_| false), Some(0));
    own.close(0);
    client::walking(|| {
        look_in_passing(family, i, &arena);
        look_through(family, i, &arena, &mut 1);
        recover_spares(family, i, &arena);
    });
    assert!(own.closing().eq([0]), "its server has not left");
    // As if that were the arena.
    MAPPED[i].serial.store(next, Ordering::Release);
    client::walking(|| recover_spares(family, i, &arena));
    assert_eq!(own.closings(), 0);
    MAPPED[i].arena.store(0, Ordering::Release);
    assert!(own.retire(next, |_| true));
    own.release();
}

/// The program has put something at the number of an arena's memory, and closed that; then the number is that of another arena's
/// memory, which must neither be emptied in its place nor handed to its server.
#[test]
fn the_memory_of_another_arena_is_not_taken_for_that_of_a_former() {
    testing::start();
    let (i, asked) = (ARENAS - 2, core::cell::Cell::new(0));
    let ask = || with_memory(i, |_| asked.set(asked.get() + 1));
    let fd = own::high(dp_edge::sys::raw::eventfd().expect("a descriptor")).expect("room");
    MAPPED[i].fd.hold(fd);
    ask();
    assert_eq!(asked.get(), 1);
    let other = another_has(fd);
    ask();
    assert_eq!(asked.get(), 1, "it is another's");
    MAPPED[i].fd.take().close();
    assert_eq!(other.fd(), Some(fd), "closed in place of its own");
    other.close();
}

/// An arena of this family's with a slot that its client has left, and of whose server's end the kernel knows nothing.
struct Left {
    i: usize,
    arena: Arena,
    generation: u32,
}

impl Left {
    fn new(i: usize) -> Left {
        testing::start();
        let own = state::family().expect("started").arena(i);
        let serial = own.claim(tcp::Addr { ip: [1; 16], port: 1, scope: 0 }, 0).expect("an entry");
        let (arena, _memory) =
            Arena::create(Geometry { slots: 64, lines: 64, spare: 1024 }).expect("an arena");
        assert!(arena.bring(0), "no addresses");
        MAPPED[i].serial.store(serial, Ordering::Release);
        MAPPED[i].arena.store(state::leak_value(arena).expect("a page") as usize, Ordering::Release);
        let generation = arena.slot(0).expect("mapped").offer(&Tuple::default(), 1, 1, 1);
        assert_eq!(own.slot(|_| false), Some(0));
        Left { i, arena, generation }
    }

    /// `of`: which process took the offer, in the generation, by its own word. `minutes`: for how long the kernel knows nothing.
    fn is_free(&self, of: Option<(u32, u32, u32)>, shared: u32, minutes: u64) -> bool {
        let family = state::family().expect("started");
        let (own, slot) = (family.arena(self.i), self.arena.slot(0).expect("mapped"));
        if let Some((generation, pid, space)) = of {
            slot.is_taken_by(generation, pid, space);
        }
        slot.shared.store(shared, Ordering::Relaxed);
        slot.leave(self.generation, Side::Client);
        own.close(0);
        // Minutes are counted modulo 255, and the machine may not have run for so long.
        own.is_gone_now(0, state::now() + (255 - minutes) * 60_000_000_000);
        client::walking(|| look_through(family, self.i, &self.arena, &mut 1));
        let free = own.closings() == 0;
        assert_eq!(own.slot(|_| true), Some(0), "it can be had again");
        free
    }
}

impl Drop for Left {
    fn drop(&mut self) {
        let own = state::family().expect("started").arena(self.i);
        own.free(0);
        MAPPED[self.i].arena.store(0, Ordering::Release);
        own.release();
    }
}

/// A thread of a server may be between its look at the slot and its send, for as long as it is stopped, when the connection was reset
/// by its client.
#[test]
fn a_slot_waits_for_the_process_that_took_its_offer() {
    let left = Left::new(ARENAS - 3);
    let (now, here) = (left.generation, family::space());
    let mut child = std::process::Command::new("true").spawn().expect("a process");
    let ended = child.id();
    child.wait().expect("its end");
    let lives = std::process::id();

    assert!(!left.is_free(None, 0, 1), "nobody knows whose it is");
    assert!(!left.is_free(Some((now, lives, here)), 0, 1), "it lives");
    assert!(
        !left.is_free(Some((now, ended, here)), Side::Server as u32, 1),
        "others have the connection, too"
    );
    assert!(!left.is_free(Some((now, ended, here + 1)), 0, 1), "that number is another process's there");
    assert!(!left.is_free(Some((now.wrapping_sub(1), ended, here)), 0, 1), "it took a former offer");
    assert!(left.is_free(Some((now, ended, here)), 0, 1));
    assert!(left.is_free(Some((now, ended, here)), Side::Client as u32, 1), "that is our own end");
    assert!(!left.is_free(Some((now, lives, here)), 0, 60), "it may be stopped for so long");
    // Nobody can tell, for an hour.
    assert!(!left.is_free(Some((now, ended, here)), Side::Server as u32, 59));
    assert!(left.is_free(Some((now, ended, here)), Side::Server as u32, 60));
}

/// Its name, and its other end.
fn a_link() -> (u64, i32) {
    let mut pair = [0; 2];
    // SAFETY: two numbers.
    assert_eq!(unsafe { libc::socketpair(libc::AF_UNIX, libc::SOCK_SEQPACKET, 0, pair.as_mut_ptr()) }, 0);
    (link::begin(pair[0], 0).expect("room").0, pair[1])
}

/// In whatever pid namespace it is, and whoever of its children has the connection, too.
#[test]
fn a_slot_is_free_when_all_have_ended_that_had_its_servers_link() {
    let left = Left::new(ARENAS - 4);
    let slot = left.arena.slot(0).expect("mapped");
    let elsewhere = Some((left.generation, 1, family::space() + 1));
    let (name, other) = a_link();
    slot.is_linked_by(left.generation, name);
    // What it has said before is no sign of life.
    // SAFETY: a byte.
    assert_eq!(unsafe { raw::send(other, [0u8].as_ptr(), 1, 0) }, Ok(1));
    assert!(!left.is_free(elsewhere, Side::Server as u32, 1), "it lives");
    raw::close(other);
    for another in [0, name ^ 1 << 20, name & !(0x3f_ffff << 10)] {
        slot.is_linked_by(left.generation, another);
        assert!(!left.is_free(elsewhere, Side::Server as u32, 1), "{another:x}: nobody here can tell");
    }
    // A sibling of the server's process that was late, and has ended.
    slot.is_linked_by(left.generation.wrapping_sub(1), name);
    assert!(!left.is_free(elsewhere, Side::Server as u32, 1), "it took a former offer");
    slot.is_linked_by(left.generation, name);
    assert!(left.is_free(elsewhere, Side::Server as u32, 1));
    link::end(name);
    assert!(left.is_free(elsewhere, Side::Server as u32, 1), "the link is not there any more");
}

/// Where a server lives and has descriptors of many connections that are over.
#[test]
fn a_link_that_many_slots_have_is_asked_for_once_in_a_look() {
    const MANY: u32 = 8;
    let left = Left::new(ARENAS - 5);
    let family = state::family().expect("started");
    let own = family.arena(left.i);
    let (name, other) = a_link();
    for n in 0..MANY {
        assert!(left.arena.bring(n), "no addresses");
        let slot = left.arena.slot(n).expect("mapped");
        let new = || {
            assert_eq!(own.slot(|_| false), Some(n));
            slot.offer(&Tuple::default(), 1, 1, 1)
        };
        let generation = if n == 0 { left.generation } else { new() };
        slot.is_linked_by(generation, name);
        slot.leave(generation, Side::Client);
        own.close(n);
        own.is_gone_now(n, state::now());
    }
    let look = |mut questions| {
        client::walking(|| look_through(family, left.i, &left.arena, &mut questions));
        (questions, own.closings())
    };
    assert_eq!(look(3), (2, MANY as usize), "it lives");
    raw::close(other);
    assert_eq!(look(0), (0, MANY as usize), "nobody is asked");
    assert_eq!(look(3), (2, 0));
    link::end(name);
    assert_eq!(own.slot(|_| true), Some(0), "it can be had again");
}

/// Where servers that live have many connections that are over.
#[test]
fn questions_in_passing_that_find_nothing_become_rare() {
    let patience = Patience::new();
    let (began, mut asked) = (state::now(), 0);
    for _ in 0..100_000 {
        let mut questions = Questions::in_passing(1);
        assert!(!questions.ask(&patience, || false));
        asked += 1 - questions.left;
    }
    let most = EAGER as usize + 1 + (state::now() - began) as usize / REST as usize;
    assert!((EAGER as usize..=most).contains(&asked), "{asked} of {most}");
    let asks = |found| Questions { left: 1, in_passing: false }.ask(&patience, || found);
    assert!(asks(true) && !asks(false), "where a slot is needed it is asked, and it pays again");
    let mut questions = Questions::in_passing(1);
    assert!(questions.ask(&patience, || true) && questions.left == 0);
}
