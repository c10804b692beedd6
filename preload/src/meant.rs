//! Connections that a process means to hand on to the program that it becomes: it has itself made a number of one inheritable, or made
//! an inheritable copy of it. Most others that a program inherits are there because nobody has closed them, and it uses none of these.
//!
//! A forked child has said nothing yet: what its parent said was about another program.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use dp_edge::sys::raw;

use crate::fdtable;

/// Between what a process says of connections and its exec there is little else.
const MARKS: usize = 16;
/// The process and the entry of each; the oldest gives way. A child of vfork has these together with its parent.
static MARKED: [AtomicU64; MARKS] = [const { AtomicU64::new(0) }; MARKS];
static NEXT: AtomicU32 = AtomicU32::new(0);

fn mark_of(fd: i32) -> Option<u64> {
    let entry = fdtable::settled(fd);
    fdtable::conn(fd)?;
    Some(u64::from(raw::getpid()) << 32 | u64::from(entry))
}

fn is_marked(mark: u64) -> bool {
    MARKED.iter().any(|m| m.load(Ordering::Relaxed) == mark)
}

/// `fd` was made inheritable by this process.
pub fn note(fd: i32) {
    if let Some(mark) = mark_of(fd).filter(|&mark| !is_marked(mark)) {
        let n = NEXT.fetch_add(1, Ordering::Relaxed) as usize;
        MARKED[n % MARKS].store(mark, Ordering::Relaxed);
    }
}

/// The same of `fd` that was made just now, if it is inheritable.
pub fn note_copy(fd: i32) {
    let stays = |flags: usize| flags as i32 & libc::FD_CLOEXEC == 0;
    if fdtable::conn(fd).is_some() && raw::fcntl(fd, libc::F_GETFD, 0).is_ok_and(stays) {
        note(fd);
    }
}

/// Whether this process means to hand on the connection behind `fd`.
pub fn is(fd: i32) -> bool {
    mark_of(fd).is_some_and(is_marked)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{self, Pair};

    #[test]
    fn what_a_process_makes_inheritable_is_meant_by_that_process_and_by_no_child() {
        testing::start();
        let (one, other) = (Pair::live(), Pair::live());
        note(one.server.fd);
        note(one.server.fd);
        assert!(is(one.server.fd) && !is(other.server.fd) && !is(one.client.fd));
        // SAFETY: the child makes system calls only.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: a number.
            unsafe { libc::_exit(is(one.server.fd).into()) };
        }
        let mut status = -1;
        // SAFETY: the status outlives the call.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(status, 0);
    }

    #[test]
    fn copies_that_close_at_an_exec_are_not_meant() {
        testing::start();
        let pair = Pair::live();
        let _ = raw::fcntl(pair.server.fd, libc::F_SETFD, libc::FD_CLOEXEC as usize);
        note_copy(pair.server.fd);
        assert!(!is(pair.server.fd));
        let _ = raw::fcntl(pair.server.fd, libc::F_SETFD, 0);
        note_copy(pair.server.fd);
        assert!(is(pair.server.fd));
        note_copy(-1);
    }
}
