use super::*;
use crate::testing;

/// The program has put something at the number `fd`, and closed that; now another one of ours has it.
pub fn another_has(fd: i32) -> Named {
    let other = raw::eventfd().expect("an event");
    // SAFETY: numbers.
    assert_eq!(unsafe { libc::dup3(other, fd, libc::O_CLOEXEC) }, fd);
    raw::close(other);
    Named::mark(fd)
}

#[test]
fn one_of_ours_is_not_taken_for_another_that_has_its_number() {
    testing::start();
    let place = Mine::none();
    assert!(place.fd().is_none() && !place.had_one());
    let fd = high(raw::eventfd().expect("an event")).expect("room");
    place.hold(fd);
    assert_eq!(place.fd(), Some(fd));
    let other = another_has(fd);
    assert!(place.fd().is_none() && place.had_one());
    place.take().close();
    assert!(!place.had_one());
    assert!(is(fd) && other.fd() == Some(fd) && raw::signal_event(fd), "it is open still");
    let new = place.or_make(raw::eventfd).expect("room");
    assert!(new != fd && place.fd() == Some(new));
    assert_eq!(place.or_make(|| panic!("it has one")), Some(new));
    place.take().close();
    other.close();
    assert!(!is(fd) && !is(new));
}

/// A thread of the program puts something at the number of one of ours that another thread is just closing.
#[test]
fn what_the_program_puts_at_a_number_is_not_closed_in_place_of_ours() {
    testing::start();
    let theirs = raw::eventfd().expect("an event");
    let (go, done) = (std::sync::Barrier::new(2), std::sync::Barrier::new(2));
    let at = AtomicU32::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..TURNS {
                go.wait();
                Named::from_word(at.load(Ordering::SeqCst)).close();
                done.wait();
            }
        });
        let mut lost = 0;
        for _ in 0..TURNS {
            // Where no other test has its own: that would be replaced as well.
            let event = raw::eventfd().expect("an event");
            let fd = copy_at(event, 5000).expect("room");
            raw::close(event);
            at.store(Named::mark(fd).word(), Ordering::SeqCst);
            go.wait();
            // SAFETY: numbers.
            assert_eq!(unsafe { crate::ops::fd::dup3(theirs, fd, libc::O_CLOEXEC) }, fd);
            done.wait();
            lost += u32::from(raw::fcntl(fd, libc::F_GETFD, 0).is_err() || is(fd));
            raw::close(fd);
        }
        assert_eq!(lost, 0);
    });
    raw::close(theirs);
}

/// So often it is tried.
const TURNS: u32 = 20_000;

#[test]
fn any_of_ours_is_replaced_in_the_table() {
    testing::start();
    let fd = keep(raw::eventfd().expect("an event")).expect("room");
    assert!(!fdtable::replace(fd, Entry::Elsewhere, Entry::None));
    assert!(fdtable::replace(fd, Entry::Internal, Entry::Elsewhere));
    assert!(!fdtable::replace(fd, Entry::Internal, Entry::None));
    // One that stands in for a connection's is not to be taken for another one of ours that had its number.
    fdtable::mark_kept(fd, u32::MAX);
    assert!(is(fd) && !fdtable::replace(fd, Entry::Internal, Entry::None));
    forget(fd);
}
