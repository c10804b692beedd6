//! Descriptors that a process is to have alone. A child of a fork that executes nothing has copies of all: as long as it lives, a
//! socket that its parent has closed has its address still, and takes what comes there.

use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

use super::raw;

/// So many at most: a gateway has one for each queue of each interface, and a large machine's have one for each processor.
const MOST: usize = 1024;

/// A descriptor's number, -1 for none, and which file that was.
struct Kept {
    fd: AtomicI32,
    file: [AtomicU64; 2],
}

static KEPT: [Kept; MOST] =
    [const { Kept { fd: AtomicI32::new(-1), file: [const { AtomicU64::new(0) }; 2] } }; MOST];

/// Children of this process, from now on, have nothing of these descriptors, and of no others that an earlier call named: there the
/// numbers are of `/dev/null`, since what owns them may close them there, too. None: of none. Only the first 1024; and only for forks
/// by fork(3), after [`super::watch_forks`]. One thread calls this at a time.
pub fn keep_from_children(descriptors: &[BorrowedFd<'_>]) {
    let all =
        || descriptors.iter().filter_map(|fd| Some((fd.as_raw_fd(), file_of(fd.as_raw_fd())?))).take(MOST);
    // A fork while they are written would leave the child some: nearly always they are there already.
    if all().map(Some).chain([None]).zip(&KEPT).all(|(one, kept)| kept.now() == one) {
        return;
    }
    // A fork in the middle finds no number with the file of another one.
    KEPT.iter().take_while(|kept| kept.now().is_some()).for_each(|kept| kept.fd.store(-1, Ordering::SeqCst));
    for (kept, (fd, file)) in KEPT.iter().zip(all()) {
        kept.file.iter().zip(file).for_each(|(word, value)| word.store(value, Ordering::SeqCst));
        kept.fd.store(fd, Ordering::SeqCst);
    }
}

impl Kept {
    /// Number and file; nothing: none, and none behind it.
    fn now(&self) -> Option<(i32, [u64; 2])> {
        let fd = self.fd.load(Ordering::SeqCst);
        (fd >= 0).then(|| (fd, [0, 1].map(|at: usize| self.file[at].load(Ordering::SeqCst))))
    }
}

/// In the child: async-signal-safe, and by the kernel's own calls, since others of this name may be a library's.
pub(super) fn in_child() {
    let mut nothing = None;
    for kept in &KEPT {
        let Some((fd, file)) = kept.now() else { break };
        kept.fd.store(-1, Ordering::SeqCst);
        // The program may have closed it, and have another file of its own there.
        if file_of(fd) != Some(file) {
            continue;
        }
        let nothing = *nothing.get_or_insert_with(|| raw::open_null().unwrap_or(-1));
        if nothing < 0 || raw::dup_over(nothing, fd).is_err() {
            raw::close(fd);
        }
    }
    if let Some(nothing) = nothing.filter(|fd| *fd >= 0) {
        raw::close(nothing);
    }
}

/// Device and number of the file that a descriptor is of.
fn file_of(fd: i32) -> Option<[u64; 2]> {
    raw::file_of(fd).ok()
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use std::io::Read;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    use super::super::watch_forks;
    use super::*;

    #[test]
    fn a_child_has_nothing_of_what_its_parent_keeps() {
        watch_forks();
        let (ours, mut theirs) = UnixStream::pair().expect("a pair");
        let (copied, mut end) = UnixStream::pair().expect("a pair");
        keep_from_children(&[ours.as_fd()]);
        // SAFETY: the child sleeps by itself, in calls of the kernel, until it is killed.
        let child = unsafe { libc::fork() };
        if child == 0 {
            loop {
                // SAFETY: no memory.
                unsafe { libc::pause() };
            }
        }
        drop((ours, copied));
        for (end, has_copy) in [(&mut theirs, false), (&mut end, true)] {
            end.set_read_timeout(Some(
                std::time::Duration::from_secs(if has_copy { 0 } else { 5 })
                    .max(std::time::Duration::from_millis(100)),
            ))
            .expect("a socket");
            assert_eq!(end.read(&mut [0]).is_err(), has_copy, "an end, or a time-out");
        }
        keep_from_children(&[]);
        // SAFETY: our own child.
        unsafe { (libc::kill(child, libc::SIGKILL), libc::waitpid(child, core::ptr::null_mut(), 0)) };
    }
}
