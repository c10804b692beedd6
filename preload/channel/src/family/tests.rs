use super::*;

#[test]
fn an_entry_given_back_is_the_next_one_taken() {
    let (f, _fd) = Family::create().unwrap();
    let (a, b) = (f.claim().unwrap(), f.claim().unwrap());
    assert_ne!(a, b);
    f.free(a);
    assert!(!f.in_use(a) && f.in_use(b));
    assert_eq!(f.claim(), Some(a));
}

#[test]
fn all_entries_can_be_taken_and_no_more() {
    let (f, _fd) = Family::create().unwrap();
    for _ in 0..CONNS {
        assert!(f.claim().is_some());
    }
    assert_eq!(f.claim(), None);
}

#[test]
fn a_place_of_a_dead_process_is_taken_when_it_is_cleared() {
    let (f, _fd) = Family::create().unwrap();
    let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
    let me = std::process::id();
    let m = f.member(0);
    assert!(m.claim(child.id(), 0, b"sleep") && m.alive() && !m.is_gone());
    assert_eq!(f.enlist(|m| m.claim(me, 0, b"me")), Some(1), "the owner lives");
    child.kill().unwrap();
    // A zombie does not count as alive.
    while m.alive() {
        std::thread::yield_now();
    }
    assert!(!m.claim(me, 0, b"me"), "its marks may still be there");
    child.wait().unwrap();
    assert!(m.is_gone());
    m.leave(me);
    assert_eq!(m.pid(), child.id(), "somebody else's");
    m.leave(child.id());
    assert!(m.claim(me, 0, b"me"));
    assert_eq!(m.name(), "me");
    assert_eq!(f.members_used(), 0..2);
}

/// Its number is that of no process here, or of another one.
#[test]
fn a_member_of_another_pid_namespace_is_never_judged_dead() {
    let (f, _fd) = Family::create().unwrap();
    let m = f.member(0);
    let mut child = std::process::Command::new("true").spawn().unwrap();
    assert!(m.claim(child.id(), 0, b"elsewhere"));
    child.wait().unwrap();
    assert!(!m.alive());
    m.set_space(space() + 1);
    assert!(m.alive() && !m.is_gone() && m.has_thread(child.id()));
    assert!(!m.is(child.id()));
    let me = std::process::id();
    assert!(f.member(1).claim(me, 0, b"me"));
    assert!(!m.claim(me, 0, b"me") && !m.reserve(f.member(1), 0, b"me"));
    m.clear();
    assert!(!m.alive() && m.reserve(f.member(1), 0, b"me") && m.is(me) && m.alive());
}

/// A process whose first thread has ended while others run is a zombie to the kernel, and alive.
#[test]
fn a_process_lives_as_long_as_one_of_its_threads() {
    let (f, _fd) = Family::create().unwrap();
    // SAFETY: the child makes system calls only.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: a thread of its own, on a stack of its own, which sleeps; then the first one ends.
        unsafe {
            extern "C" fn sleeper(_: *mut libc::c_void) -> libc::c_int {
                raw::nap(999_999_999);
                0
            }
            let bytes = 1 << 16;
            let access = libc::PROT_READ | libc::PROT_WRITE;
            let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let stack = libc::mmap(core::ptr::null_mut(), bytes, access, kind, -1, 0);
            let flags = libc::CLONE_VM | libc::CLONE_SIGHAND | libc::CLONE_THREAD;
            libc::clone(sleeper, stack.byte_add(bytes), flags, core::ptr::null_mut());
            libc::syscall(libc::SYS_exit, 0);
        }
    }
    let m = f.member(0);
    assert!(m.claim(child as u32, 0, b"threads"));
    while m.has_thread(child as u32) {
        std::thread::yield_now();
    }
    assert!(m.alive() && !m.is_gone(), "its first thread has ended");
    while m.alive() {
        std::thread::yield_now();
    }
    // SAFETY: our own child.
    unsafe { libc::waitpid(child, core::ptr::null_mut(), 0) };
}

#[test]
fn one_and_only_one_is_told_that_it_was_the_last_holder() {
    let (f, _fd) = Family::create().unwrap();
    let c = f.conn(f.claim().unwrap());
    let holders = f.holders(c);
    for _ in 0..200 {
        holders.begin(3);
        holders.add(200);
        holders.add(200);
        let others = [3, 200, 200].map(|n| move || usize::from(holders.remove(n)));
        let last: usize = std::thread::scope(|s| {
            let started = others.map(|remove| s.spawn(remove));
            started.into_iter().map(|t| t.join().unwrap()).sum()
        });
        assert_eq!(last, 1);
        assert_eq!(holders.each().count(), 0);
    }
    holders.begin(70);
    assert!(holders.has(70) && !holders.has(6) && holders.each().eq([70]));
    assert!(!core::ptr::eq(f.holders(f.conn(1)), f.holders(f.conn(0))));
}

#[test]
fn a_lock_is_inherited_from_a_dead_owner() {
    let (f, _fd) = Family::create().unwrap();
    let mut child = std::process::Command::new("true").spawn().unwrap();
    f.member(1).claim(child.id(), 0, b"true");
    f.member(0).claim(std::process::id(), 0, b"me");
    let lock = Lock::default();
    assert_eq!(lock.lock(lock::owner(1, child.id()), f), Held::Clean);
    child.wait().unwrap();
    assert_eq!(lock.lock(lock::owner(0, 7), f), Held::Inherited);
    lock.unlock();
    assert_eq!(lock.lock(lock::owner(0, 7), f), Held::Clean);
}

/// A process that found no place among the members.
#[test]
fn a_lock_is_inherited_from_a_dead_stranger() {
    let (f, _fd) = Family::create().unwrap();
    let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
    let lock = Lock::default();
    assert!(lock.try_lock(stranger(child.id())));
    assert!(!lock.take_from_dead(lock::owner(0, 7), f), "its owner lives");
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(lock.lock(lock::owner(0, 7), f), Held::Inherited);
}

#[test]
fn a_child_settles_only_where_its_parent_still_stands() {
    let (f, _fd) = Family::create().unwrap();
    let me = std::process::id();
    assert!(f.member(0).claim(me, 0, b"parent"));
    let place = f.member(1);
    assert!(place.reserve(f.member(0), 0, b"child"));
    assert!(place.settle(me, 4_000_000) && place.is(4_000_000));
    place.clear();
    assert!(!place.settle(me, 4_000_000) && place.pid() == 0, "it was given back");
    assert!(place.claim(me + 1, 0, b"another"));
    assert!(!place.settle(me, 4_000_000) && place.is(me + 1), "it was given away");
}

#[test]
fn another_has_what_a_holder_has_only_as_long_as_that_does() {
    let (f, _fd) = Family::create().unwrap();
    let holders = f.holders(f.conn(f.claim().unwrap()));
    holders.begin(1);
    assert_eq!([2, 2].map(|n| holders.add_beside(n, 1)), [Added::Yes; 2]);
    assert!(!holders.remove(1) && holders.add_beside(3, 1) == Added::Not);
    assert!(holders.each().eq([2]) && holders.remove(2), "they were counted once each");
    // The entry may be another connection's from here on.
    assert_eq!((holders.add_beside(3, 1), holders.add_beside(3, 2)), (Added::Not, Added::Not));
    holders.begin(7);
    assert!(holders.each().eq([7]) && holders.remove(7));
}

#[test]
fn a_holder_comes_back_only_to_what_others_still_have() {
    let (f, _fd) = Family::create().unwrap();
    let holders = f.holders(f.conn(f.claim().unwrap()));
    holders.begin(1);
    holders.add(200);
    assert!(!holders.remove(200) && holders.add_again(200) && holders.add_again(200));
    assert!(!holders.remove(200) && holders.remove(1));
    assert!(!holders.add_again(200) && !holders.has(200));
}

#[test]
fn a_lock_is_inherited_from_a_thread_that_ended() {
    let (f, _fd) = Family::create().unwrap();
    f.member(0).claim(std::process::id(), 0, b"me");
    let lock = Lock::default();
    let tid = std::thread::scope(|s| {
        let ended = s.spawn(|| {
            let tid = raw::gettid();
            assert_eq!(lock.lock(lock::owner(0, tid), f), Held::Clean);
            assert!(f.member(0).has_thread(tid));
            tid
        });
        ended.join().unwrap()
    });
    // The kernel may take a moment to forget a thread that was joined.
    while f.member(0).has_thread(tid) {
        std::thread::yield_now();
    }
    assert_eq!(lock.lock(lock::owner(0, raw::gettid()), f), Held::Inherited);
}

#[test]
fn whoever_has_waited_for_long_is_let_in() {
    let (f, _fd) = Family::create().unwrap();
    f.member(0).claim(std::process::id(), 0, b"me");
    let (lock, tid) = (Lock::default(), raw::gettid());
    assert_eq!(lock.lock(lock::owner(0, tid), f), Held::Clean);
    std::thread::scope(|s| {
        let waiter = s.spawn(|| {
            let held = lock.lock(lock::owner(0, raw::gettid()), f);
            lock.unlock();
            held
        });
        // An owner that is back at once, as a thread that sends small pieces is.
        let mut ways = 0;
        while !waiter.is_finished() {
            while !lock.is_wanted() && !waiter.is_finished() {
                std::thread::yield_now();
            }
            lock.unlock_to_others();
            ways += 1;
            assert_eq!(lock.lock(lock::owner(0, tid), f), Held::Clean);
        }
        assert_eq!(waiter.join().unwrap(), Held::Clean);
        assert!(ways < 1000, "{ways}");
    });
    lock.unlock_to_others();
}

#[test]
fn a_lock_that_is_wanted_is_inherited_from_a_dead_owner() {
    let (f, _fd) = Family::create().unwrap();
    let mut child = std::process::Command::new("true").spawn().unwrap();
    f.member(1).claim(child.id(), 0, b"true");
    let lock = Lock::default();
    assert_eq!(lock.lock(lock::owner(1, child.id()), f), Held::Clean);
    lock.want();
    assert!(!lock.take_from_dead(lock::owner(1, child.id()), f), "its own");
    child.wait().unwrap();
    assert!(lock.take_from_dead(lock::owner(0, 7), f) && !lock.is_wanted());
}

#[test]
fn a_lock_is_taken_at_once_from_all_but_the_living() {
    let (f, _fd) = Family::create().unwrap();
    let mut child = std::process::Command::new("sleep").arg("100").spawn().unwrap();
    f.member(1).claim(child.id(), 0, b"sleep");
    let (lock, me) = (Lock::default(), lock::owner(0, 7));
    assert_eq!(lock.lock_at_once(lock::owner(1, child.id()), f), Some(Held::Clean));
    assert_eq!(lock.lock_at_once(me, f), None, "its owner lives");
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(lock.lock_at_once(me, f), Some(Held::Inherited));
    assert_eq!(deeper_at_once(&lock, f), Some(Held::Mine));
    lock.unlock();
    assert_eq!(deeper_at_once(&lock, f), Some(Held::Clean));
    assert_eq!(lock.lock_at_once(me, f), Some(Held::Inherited), "left by longjmp");
}

/// As [`deeper`].
#[inline(never)]
fn deeper_at_once(lock: &Lock, f: Family) -> Option<Held> {
    let room = core::hint::black_box([0u8; 4096]);
    let held = lock.lock_at_once(lock::owner(0, 7), f);
    core::hint::black_box(&room);
    held
}

/// As deep on the stack as a handler would be.
#[inline(never)]
fn deeper(lock: &Lock, f: Family) -> Held {
    let room = core::hint::black_box([0u8; 4096]);
    let held = lock.lock(lock::owner(0, 7), f);
    core::hint::black_box(&room);
    held
}

#[test]
fn a_handler_inside_a_lock_is_told_and_leaves_it() {
    let (f, _fd) = Family::create().unwrap();
    let lock = Lock::default();
    assert_eq!(lock.lock(lock::owner(0, 7), f), Held::Clean);
    assert_eq!(deeper(&lock, f), Held::Mine);
    assert!(!lock.try_lock(lock::owner(0, 8)), "still locked");
}

#[test]
fn a_lock_left_by_longjmp_is_inherited() {
    let (f, _fd) = Family::create().unwrap();
    let lock = Lock::default();
    assert_eq!(deeper(&lock, f), Held::Clean);
    assert_eq!(lock.lock(lock::owner(0, 7), f), Held::Inherited);
    lock.unlock();
    assert!(lock.try_lock(lock::owner(0, 7)));
}

#[test]
fn an_observer_finds_the_family_and_its_connections() {
    let (f, fd) = Family::create().unwrap();
    f.member(0).claim(std::process::id(), 0, b"observed");
    let i = f.claim().unwrap();
    let a = Addr { ip: [1; 16], port: 77, scope: 0 };
    f.conn(i).reset(1, a, a);
    f.holders(f.conn(i)).begin(0);
    f.count(Reason::NoDoor);
    let inode = std::fs::File::from(fd.try_clone().unwrap()).metadata().unwrap().ino();
    let view = View::of_process(std::process::id(), inode).unwrap();
    assert_eq!(view.shim().as_deref(), Some(SHIM));
    assert_eq!(view.members().map(|(n, m)| (n, m.name())).collect::<Vec<_>>(), [(0, "observed".to_string())]);
    let ports: Vec<_> = view.connections().into_iter().map(|c| (c.local.port, c.holders)).collect();
    assert_eq!(ports, [(77, vec![0])]);
    assert_eq!(view.reasons(), [(Reason::NoDoor, 1)]);
    // A former one that is read as well.
    f.header().version.store(layouts::FAMILY[0], Ordering::Relaxed);
    assert_eq!(View::of_process(std::process::id(), inode).unwrap().connections().len(), 1);
    // Another layout: only the version is read.
    f.header().version.store(layouts::FAMILY[1] + 1, Ordering::Relaxed);
    let view = View::of_process(std::process::id(), inode).unwrap();
    assert!(!view.is_readable() && view.connections().is_empty() && view.members().next().is_none());
    assert_eq!(view.shim().as_deref(), Some(SHIM));
    f.header().shim[0].store(u64::MAX, Ordering::Relaxed);
    assert_eq!(view.shim(), None, "that is no text");
    f.header().version.store(4, Ordering::Relaxed);
    assert_eq!(View::of_process(std::process::id(), inode).unwrap().shim(), None);
}

use std::os::unix::fs::MetadataExt;

use crate::tcp::Addr;
use dp_edge::sys::raw;

#[test]
fn what_a_rule_says_of_a_connection_is_kept_until_the_next_one() {
    let c = Conn::default();
    assert_eq!((c.after(), c.longest_spin()), (None, None));
    for (after, spin) in
        [(Some(0), None), (None, Some(0)), (Some(65_534), Some(1_000_000)), (Some(7), Some(160))]
    {
        c.choose(after, spin);
        assert_eq!((c.after(), c.longest_spin()), (after, spin));
    }
    // No more than there is room for, and sixteen nanoseconds are one.
    c.choose(Some(u32::MAX), Some(31));
    assert_eq!((c.after(), c.longest_spin()), (Some(65_534), Some(16)));
    c.reset(1, Addr::default(), Addr::default());
    assert_eq!((c.after(), c.longest_spin()), (None, None));
}

fn an_arena(f: &Family) -> &'static OwnArena {
    let server = crate::tcp::Addr { ip: [1; 16], port: 1, scope: 0 };
    assert!(f.arena(0).claim(server, 0).is_some());
    f.arena(0)
}

/// Another thread takes the slot, uses it, and leaves it to a server that is not through with it, between two steps of this one.
#[test]
fn a_slot_is_judged_when_it_is_taken() {
    let (f, _fd) = Family::create().unwrap();
    let own = an_arena(&f);
    let n = own.slot(|_| false).unwrap();
    own.close(n);
    let asked = core::cell::Cell::new(0);
    let over = |n| {
        asked.set(asked.get() + 1);
        if asked.get() == 1 {
            assert!(own.reclaim(n, |_| true));
            own.close(n);
        }
        asked.get() == 1
    };
    assert_ne!(own.slot(over), Some(n));
    assert!(own.closing().eq([n]));
    assert!(!own.reclaim(n, |_| false) && own.closing().eq([n]) && own.reclaim(n, |_| true));
    assert_eq!((own.closings(), own.reclaim(n, |_| true)), (0, false));
}

#[test]
fn an_arena_is_retired_only_where_every_slot_was_asked_about() {
    let (f, _fd) = Family::create().unwrap();
    let own = an_arena(&f);
    let [a, b] = [0, 0].map(|_| own.slot(|_| false).unwrap());
    own.close(b);
    let over = |n| {
        if n == b {
            own.close(a);
        }
        n == b
    };
    assert!(!own.retire(1, over));
    assert!(own.closing().eq([a, b]));
    assert!(own.retire(1, |_| true) && own.slot(|_| true).is_none());
}

/// A relative has given the entry to another arena since, and the memory of the former says that both sides are through.
#[test]
fn an_arena_is_not_retired_by_the_word_of_a_former_one() {
    let (f, _fd) = Family::create().unwrap();
    let own = an_arena(&f);
    let next = || {
        assert!(own.retire(1, |_| true));
        own.release();
        an_arena(&f);
    };
    next();
    for used in [false, true] {
        let slot = used.then(|| own.slot(|_| false).unwrap());
        slot.iter().for_each(|&n| own.close(n));
        assert!(!own.retire(1, |_| true) && own.is_serial(2));
        assert!(own.closing().eq(slot));
        let free = own.slot(|_| false).unwrap();
        assert_eq!(free, u32::from(used), "one that nobody has");
        own.free(free);
    }
    // It becomes another's while its slots are looked at.
    let (f, _fd) = Family::create().unwrap();
    let own = an_arena(&f);
    let n = own.slot(|_| false).unwrap();
    own.close(n);
    let gives = core::cell::Cell::new(true);
    let over = |_| {
        if gives.replace(false) {
            assert!(own.retire(1, |_| true));
            own.release();
            an_arena(&f);
            let n = own.slot(|_| false).unwrap();
            own.close(n);
        }
        true
    };
    assert!(!own.retire(1, over) && own.is_serial(2) && own.closing().eq([n]));
}

#[test]
fn slots_that_were_left_are_looked_at_in_turn() {
    let (f, _fd) = Family::create().unwrap();
    let own = an_arena(&f);
    assert_eq!(own.closing_from(7).next(), None);
    for n in 0..200 {
        assert_eq!(own.slot(|_| false), Some(n));
    }
    let left = [3, 63, 64, 100, 199];
    left.iter().for_each(|&n| own.close(n));
    assert!(own.closing().eq(left) && own.closings() == 5);
    assert!(own.closing_from(64).eq([64, 100, 199, 3, 63]));
    assert!(own.closing_from(65).eq([100, 199, 3, 63, 64]));
    assert!(own.closing_from(200).eq(left) && own.closing_from(u32::MAX).eq(left));
    // One is taken from the next look at the kernel's word; what is known of it is forgotten when it is left again.
    let minute = 60_000_000_000;
    assert_eq!(own.gone_for(64, minute), None);
    own.is_gone_now(64, 254 * minute);
    own.is_gone_now(63, 0);
    assert_eq!((own.gone_for(64, 254 * minute), own.gone_for(64, 257 * minute)), (Some(0), Some(3)));
    assert_eq!((own.gone_for(63, 5 * minute), own.gone_for(65, 5 * minute)), (Some(5), None));
    own.close(64);
    assert_eq!((own.gone_for(64, 254 * minute), own.gone_for(63, 9 * minute)), (None, Some(9)));
}

/// A program that forks a process for each task, of which each makes an arena.
#[test]
fn an_arena_of_a_process_that_ended_is_given_to_another() {
    let (f, _fd) = Family::create().unwrap();
    let server = crate::tcp::Addr { ip: [1; 16], port: 1, scope: 0 };
    let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
    assert!(f.member(3).claim(child.id(), 0, b"sleep"));
    let (own, theirs) = (f.arena(5), f.process(3));
    let serial = own.claim(server, theirs).unwrap();
    let release = || own.release_for_ended(|process| f.has_ended(process));
    assert!(!f.has_ended(theirs) && !release() && own.is_serial(serial));
    let n = own.slot(|_| false).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(f.has_ended(theirs) && !release() && own.is_serial(serial), "somebody has a slot");
    own.close(n);
    assert!(release() && !own.is_serial(serial));
    // Whoever made it is not known: no one else gives it back.
    assert!(own.claim(server, 0).is_some() && !release());
}

/// Whoever inherits a lock and leaves all as it is gives it back so: the next one inherits it, too, and need not ask whether anybody
/// lives.
#[test]
fn a_lock_that_is_given_back_as_it_was_is_inherited_again() {
    let (f, _fd) = Family::create().unwrap();
    assert!(f.member(0).claim(std::process::id(), 0, b"me"));
    let (lock, me) = (Lock::default(), lock::owner(0, raw::gettid()));
    assert!(lock.try_lock(me));
    lock.unlock_as_it_was(Held::Clean);
    assert!(lock.try_lock(me) && !lock.is_to_be_inherited());
    lock.unlock_as_it_was(Held::Inherited);
    for wanted in [false, true] {
        assert!(!lock.try_lock(me) && lock.is_to_be_inherited(), "what it guards is half done");
        if wanted {
            lock.want();
        }
        assert_eq!(lock.lock(me, f), Held::Inherited);
        lock.unlock_as_it_was(Held::Inherited);
        assert_eq!(lock.lock_at_once(me, f), Some(Held::Inherited));
        lock.unlock_as_it_was(Held::Inherited);
    }
    assert!(lock.take_from_dead(me, f) && !lock.is_to_be_inherited());
    lock.unlock();
    assert_eq!(lock.lock(me, f), Held::Clean);
    assert!(
        !f.member(0).has_thread(i32::MAX as u32),
        "no kernel has a thread with the number that stands there"
    );
}
