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
