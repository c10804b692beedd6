use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd};
use std::sync::{Mutex, MutexGuard};

use dp_edge::sys::files;

use super::*;
use crate::fdtable::Entry;
use crate::testing;

/// The places are the process's: one test at a time has them.
static TURN: Mutex<()> = Mutex::new(());

/// From here on the first place has a number that no other test takes.
fn begin() -> MutexGuard<'static, ()> {
    let turn = TURN.lock().unwrap();
    testing::start();
    NUMBERS[0].store(900, Ordering::Relaxed);
    turn
}

fn pipe() -> (File, File) {
    let mut fds = [0; 2];
    // SAFETY: room for two descriptors, which nobody else has.
    unsafe {
        assert_eq!(libc::pipe2(fds.as_mut_ptr(), libc::O_CLOEXEC), 0);
        (File::from_raw_fd(fds[0]), File::from_raw_fd(fds[1]))
    }
}

fn is_open(fd: i32) -> bool {
    raw::fcntl(fd, libc::F_GETFD, 0).is_ok()
}

/// Whether a child that is forked now, and does only what every forked child does with descriptors, finds it so.
fn holds_in_a_child(same_as: i32, found: impl FnOnce() -> bool) -> bool {
    let file = |fd| files::meta_of(fd).map(|meta| meta.file);
    let mut status = -1;
    // SAFETY: the child makes system calls, and nothing else, until it ends.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            inherited(|fd| file(fd) == file(same_as));
            libc::_exit(i32::from(!found()));
        }
        assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
    }
    status == 0
}

#[test]
fn a_copy_is_the_shims_own_and_gone_afterwards() {
    let _turn = begin();
    let (_reader, writer) = pipe();
    let mut number = 0;
    assert!(with(writer.as_raw_fd(), Kind::Pipe, |copy| {
        number = copy;
        is_open(copy) && fdtable::get(copy) == Entry::Internal
    }));
    assert!(!is_open(number));
    assert_eq!(fdtable::get(number), Entry::None);
    // The program has closed it, by ways that we do not see, and has a file of its own there.
    assert!(!with(writer.as_raw_fd(), Kind::Pipe, |copy| {
        fdtable::clear(copy);
        number = copy;
        false
    }));
    assert!(is_open(number), "not ours to close any more");
    raw::close(number);
}

/// Whether the first place is free, and has that number.
fn is_first(number: i32) -> bool {
    take().is_some_and(|(_, taken)| taken == number)
}

#[test]
fn a_forked_child_has_none_of_them() {
    let _turn = begin();
    let ((_reader, writer), (_other, others)) = (pipe(), pipe());
    let fd = writer.as_raw_fd();
    let mut number = 0;
    // In the middle of a line; another file by that number is not touched; and what was ours when descriptors were copied, and
    // no longer when memory was.
    assert!(with(fd, Kind::Pipe, |copy| {
        number = copy;
        holds_in_a_child(fd, || !is_open(copy) && !own::is(copy) && is_open(fd) && is_first(copy))
            && holds_in_a_child(others.as_raw_fd(), || is_open(copy))
    }));
    let late = raw::fcntl(fd, libc::F_DUPFD_CLOEXEC, number as usize).unwrap() as i32;
    assert_eq!(late, number);
    assert!(holds_in_a_child(fd, || !is_open(number) && is_first(number)));
    raw::close(late);
    assert!(with(fd, Kind::Pipe, |copy| copy == number), "the number of its place");
}

#[test]
fn with_all_places_taken_the_line_is_missed() {
    fn nested(fd: i32, depth: usize) -> usize {
        let mut deepest = depth;
        with(fd, Kind::Pipe, |_| {
            deepest = nested(fd, depth + 1);
            true
        });
        deepest
    }
    let _turn = begin();
    let (_reader, writer) = pipe();
    assert_eq!(nested(writer.as_raw_fd(), 0), PLACES);
    assert_eq!(nested(writer.as_raw_fd(), 0), PLACES, "they are free again");
}
