//! AF_UNIX SEQPACKET sockets: pairs, doors, messages with descriptors.
//!
//! The calls that may sleep are libc's own, so that signals, SO_RCVTIMEO and cancellation are the kernel's.

use std::io::{self, IoSlice};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use super::raw;

/// Most descriptors in one message.
pub const MOST_FDS: usize = 2;

/// Room for the descriptors and credentials of one message, and little more: what does not fit is not installed.
#[repr(C, align(8))]
struct Control([u8; CONTROL]);

/// As CMSG_SPACE computes it, for credentials and [`MOST_FDS`] descriptors; a test compares.
const CONTROL: usize = 32 + 24;

fn last<T>(r: isize, ok: impl FnOnce(isize) -> T) -> Result<T, i32> {
    if r < 0 {
        // SAFETY: this thread's errno.
        Err(unsafe { *libc::__errno_location() })
    } else {
        Ok(ok(r))
    }
}

/// A connected pair, close-on-exec.
///
/// # Errors
///
/// EMFILE, ENFILE, ENOMEM.
pub fn pair() -> Result<(OwnedFd, OwnedFd), i32> {
    let mut fds = [0; 2];
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
    // SAFETY: fills two descriptors, both new and ours.
    let r = unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, fds.as_mut_ptr()) };
    // SAFETY: as above; only when the call succeeded.
    last(r as isize, |_| unsafe { (OwnedFd::from_raw_fd(fds[0]), OwnedFd::from_raw_fd(fds[1])) })
}

/// A socket address of a path; None if it is too long for one (108 bytes).
fn address(path: &Path) -> Option<(libc::sockaddr_un, u32)> {
    let bytes = path.as_os_str().as_bytes();
    // SAFETY: plain data.
    let mut un: libc::sockaddr_un = unsafe { core::mem::zeroed() };
    if bytes.len() >= un.sun_path.len() {
        return None;
    }
    un.sun_family = libc::AF_UNIX as _;
    for (to, from) in un.sun_path.iter_mut().zip(bytes) {
        *to = *from as _;
    }
    Some((un, size_of::<libc::sockaddr_un>() as u32))
}

fn socket() -> Result<OwnedFd, i32> {
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: makes a descriptor, ours if it succeeds.
    last(unsafe { libc::socket(libc::AF_UNIX, kind, 0) } as isize, |fd| unsafe {
        OwnedFd::from_raw_fd(fd as i32)
    })
}

/// A listener at `path`.
///
/// # Errors
///
/// ENAMETOOLONG; those of socket(2), bind(2), listen(2).
pub fn listen(path: &Path) -> Result<OwnedFd, i32> {
    let (un, len) = address(path).ok_or(libc::ENAMETOOLONG)?;
    let fd = socket()?;
    // SAFETY: the address outlives the call.
    last(unsafe { libc::bind(fd.as_raw_fd(), (&raw const un).cast(), len) } as isize, |_| ())?;
    // SAFETY: our own socket.
    last(unsafe { libc::listen(fd.as_raw_fd(), 1024) } as isize, |_| fd)
}

/// A connection to the listener at `path`, non-blocking; it waits in the backlog until it is taken.
///
/// # Errors
///
/// ECONNREFUSED (nobody listens), ENOENT, EAGAIN (the backlog is full); those of socket(2).
pub fn connect(path: &Path) -> Result<OwnedFd, i32> {
    let (un, len) = address(path).ok_or(libc::ENAMETOOLONG)?;
    let fd = socket()?;
    // SAFETY: the address outlives the call.
    last(unsafe { libc::connect(fd.as_raw_fd(), (&raw const un).cast(), len) } as isize, |_| fd)
}

/// Takes a connection.
///
/// # Errors
///
/// EAGAIN when none waits; EMFILE, ENFILE.
pub fn accept(fd: BorrowedFd<'_>) -> Result<OwnedFd, i32> {
    let flags = libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: no address is asked for; the result is ours.
    let r = unsafe { libc::accept4(fd.as_raw_fd(), core::ptr::null_mut(), core::ptr::null_mut(), flags) };
    // SAFETY: just made.
    last(r as isize, |fd| unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// The process and user at the other end.
pub fn peer(fd: BorrowedFd<'_>) -> Option<(i32, u32)> {
    let mut cred = libc::ucred { pid: 0, uid: 0, gid: 0 };
    super::raw::getsockopt(fd.as_raw_fd(), libc::SOL_SOCKET, libc::SO_PEERCRED, &mut cred).ok()?;
    Some((cred.pid, cred.uid))
}

/// Asks for the sender's credentials with every message: a message without is no message, but the end.
pub fn mark_messages(fd: BorrowedFd<'_>) {
    let _ = super::raw::setsockopt_int(fd.as_raw_fd(), libc::SOL_SOCKET, libc::SO_PASSCRED, 1);
}

/// Sends one message made of `parts`, with up to [`MOST_FDS`] descriptors. MSG_NOSIGNAL is added.
///
/// # Errors
///
/// Those of sendmsg(2): EAGAIN, EMSGSIZE, EPIPE, ECONNRESET, ETOOMANYREFS, EINTR.
pub fn send(fd: i32, parts: &[IoSlice<'_>], fds: &[BorrowedFd<'_>], flags: i32) -> Result<usize, i32> {
    let mut control = Control([0; CONTROL]);
    // SAFETY: plain data.
    let mut msg: libc::msghdr = unsafe { core::mem::zeroed() };
    // QEMU's emulation of programs (7.2) says of a message without any piece that it was sent, and sends none.
    let empty = [IoSlice::new(&[])];
    let parts = if parts.is_empty() { &empty } else { parts };
    // IoSlice is iovec by its documentation; sendmsg only reads it.
    msg.msg_iov = parts.as_ptr() as *mut libc::iovec;
    msg.msg_iovlen = parts.len() as _;
    let fds = &fds[..fds.len().min(MOST_FDS)];
    if !fds.is_empty() {
        let bytes = size_of_val(fds) as u32;
        msg.msg_control = control.0.as_mut_ptr().cast();
        // SAFETY: CMSG_* compute sizes and places inside `control`, which is large enough for MOST_FDS.
        unsafe {
            msg.msg_controllen = libc::CMSG_SPACE(bytes) as _;
            let head = libc::CMSG_FIRSTHDR(&msg);
            (*head).cmsg_level = libc::SOL_SOCKET;
            (*head).cmsg_type = libc::SCM_RIGHTS;
            (*head).cmsg_len = libc::CMSG_LEN(bytes) as _;
            let to = libc::CMSG_DATA(head).cast::<i32>();
            for (i, fd) in fds.iter().enumerate() {
                to.add(i).write_unaligned(fd.as_raw_fd());
            }
        }
    }
    // SAFETY: everything the header points to outlives the call.
    last(unsafe { libc::sendmsg(fd, &msg, flags | libc::MSG_NOSIGNAL) }, |n| n as usize)
}

/// A received message.
#[derive(Debug)]
pub struct Received {
    /// Its length, which may be more than the buffer took.
    pub len: usize,
    /// Descriptors that came with it.
    pub fds: [Option<OwnedFd>; MOST_FDS],
    /// Whether credentials came with it ([`mark_messages`]).
    pub marked: bool,
    /// Descriptors came that this process could not be given.
    pub short: bool,
}

/// Takes one message; with MSG_PEEK, looks at it. MSG_TRUNC is added, so that the length is the message's.
///
/// # Errors
///
/// Those of recvmsg(2): EAGAIN, EINTR, ECONNRESET.
pub fn recv(fd: i32, buf: &mut [u8], flags: i32) -> Result<Received, i32> {
    let mut control = Control([0; CONTROL]);
    let mut piece = libc::iovec { iov_base: buf.as_mut_ptr().cast(), iov_len: buf.len() };
    // SAFETY: plain data.
    let mut msg: libc::msghdr = unsafe { core::mem::zeroed() };
    msg.msg_iov = &mut piece;
    msg.msg_iovlen = 1;
    msg.msg_control = control.0.as_mut_ptr().cast();
    msg.msg_controllen = control.0.len() as _;
    let flags = flags | libc::MSG_CMSG_CLOEXEC | libc::MSG_TRUNC;
    // SAFETY: everything the header points to outlives the call.
    let len = last(unsafe { libc::recvmsg(fd, &mut msg, flags) }, |n| n as usize)?;
    let mut got = Received { len, fds: [const { None }; MOST_FDS], marked: false, short: false };
    let mut installed = 0;
    // SAFETY: the kernel filled the control buffer; CMSG_* stay inside msg_controllen.
    unsafe {
        let mut head = libc::CMSG_FIRSTHDR(&msg);
        while let Some(h) = head.as_ref() {
            if h.cmsg_level == libc::SOL_SOCKET && h.cmsg_type == libc::SCM_CREDENTIALS {
                got.marked = true;
            } else if h.cmsg_level == libc::SOL_SOCKET && h.cmsg_type == libc::SCM_RIGHTS {
                let bytes = h.cmsg_len - libc::CMSG_LEN(0) as usize;
                let from = libc::CMSG_DATA(h).cast::<i32>();
                installed = bytes / size_of::<i32>();
                for i in 0..installed {
                    // Each is new and ours; one too many is closed at once.
                    let fd = OwnedFd::from_raw_fd(from.add(i).read_unaligned());
                    if let Some(slot) = got.fds.iter_mut().find(|f| f.is_none()) {
                        *slot = Some(fd);
                    }
                }
            }
            head = libc::CMSG_NXTHDR(&msg, head);
        }
    }
    // A process that sends more than any message of ours has is not short of anything.
    got.short = msg.msg_flags & libc::MSG_CTRUNC != 0 && installed < MOST_FDS;
    Ok(got)
}

/// Takes one message whole, with all that came with it, without waiting; `buf` grows to hold it.
///
/// It is looked at first: to a process that has no descriptors left, the kernel gives the bytes and drops the rest,
/// for good. So nothing is taken then, and the call works again once there are some.
///
/// # Errors
///
/// EAGAIN (there is none), EMFILE, ENOMEM; EINTR, ECONNRESET.
pub fn take(fd: i32, buf: &mut Vec<u8>) -> Result<Received, i32> {
    let mut seen = recv(fd, &mut [], libc::MSG_PEEK | libc::MSG_DONTWAIT)?;
    for _ in 0..2 {
        if !seen.short {
            break;
        }
        drop(seen);
        if !descriptors_left(fd) {
            return Err(libc::EMFILE);
        }
        seen = recv(fd, &mut [], libc::MSG_PEEK | libc::MSG_DONTWAIT)?;
    }
    // Still short, with descriptors left: somebody forbids these to be had, and waiting would not help.
    if let Some(more) = seen.len.checked_sub(buf.len()) {
        buf.try_reserve(more).map_err(|_| libc::ENOMEM)?;
        buf.resize(seen.len, 0);
    }
    let mut got = recv(fd, buf, libc::MSG_DONTWAIT)?;
    if got.short {
        got.fds = seen.fds;
    }
    Ok(got)
}

/// Whether this process can have as many descriptors as a message brings.
fn descriptors_left(fd: i32) -> bool {
    // SAFETY: a copy of a descriptor, or -1.
    let copy = || last(unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 0) } as isize, |fd| fd as i32);
    let both = [copy(), copy()];
    for fd in both.into_iter().flatten() {
        // SAFETY: just made.
        drop(unsafe { OwnedFd::from_raw_fd(fd) });
    }
    both.iter().all(Result::is_ok)
}

/// Whether it is a connected AF_UNIX socket that keeps messages apart, as every one of ours.
pub fn keeps_messages(fd: BorrowedFd<'_>) -> bool {
    let option = |name| super::raw::getsockopt_int(fd.as_raw_fd(), libc::SOL_SOCKET, name);
    option(libc::SO_DOMAIN) == Ok(libc::AF_UNIX) && option(libc::SO_TYPE) == Ok(libc::SOCK_SEQPACKET)
}

/// Whether every copy of the other end was closed.
pub fn hung_up(fd: BorrowedFd<'_>) -> bool {
    wait(fd.as_raw_fd(), 0, 0).is_ok_and(|events| events & libc::POLLHUP != 0)
}

/// Waits until one of `events` or an end, or for `ms` (-1: without end); what there is.
///
/// # Errors
///
/// EINTR.
pub fn wait(fd: i32, events: i16, ms: i32) -> Result<i16, i32> {
    let mut p = libc::pollfd { fd, events, revents: 0 };
    // SAFETY: one entry.
    last(unsafe { libc::poll(&mut p, 1, ms) } as isize, |_| p.revents)
}

/// Waits until there is something to read, or an end, on one of the two (a negative number: on the other alone), or for `time`.
/// Whether there is. No cancellation point.
///
/// # Errors
///
/// EINTR.
pub fn await_either(one: i32, other: i32, time: Option<Duration>) -> Result<bool, i32> {
    let look = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    let mut both = [look(one), look(other)];
    // The kernel writes there how much is left.
    let mut time = time.map(|time| libc::timespec {
        tv_sec: time.as_secs() as libc::time_t,
        tv_nsec: time.subsec_nanos() as libc::c_long,
    });
    let time = time.as_mut().map_or(core::ptr::null_mut(), core::ptr::from_mut);
    // SAFETY: two entries, and a time that outlives the call; no mask of signals.
    let n = unsafe { raw::call(libc::SYS_ppoll, [both.as_mut_ptr() as usize, 2, time as usize, 0, 0, 0]) };
    n.map(|n| n > 0)
}

/// How long a receive waits on this socket (SO_RCVTIMEO); nothing: without end.
pub fn receive_timeout(fd: i32) -> Duration {
    let mut time = libc::timeval { tv_sec: 0, tv_usec: 0 };
    let mut len = size_of::<libc::timeval>() as libc::socklen_t;
    // SAFETY: writes a timeval at most.
    let failed = unsafe {
        libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_RCVTIMEO, (&raw mut time).cast(), &mut len)
    };
    if failed != 0 {
        return Duration::ZERO;
    }
    Duration::new(time.tv_sec as u64, time.tv_usec as u32 * 1000)
}

/// Sleeps in recv(2) until a message is there, taking nothing: signals and SO_RCVTIMEO hold as for a read.
///
/// # Errors
///
/// EINTR, EAGAIN (the time is over).
pub fn await_message(fd: i32) -> Result<(), i32> {
    // SAFETY: no byte is written.
    last(unsafe { libc::recv(fd, core::ptr::null_mut(), 0, libc::MSG_PEEK) }, |_| ())
}

/// Takes the bytes of one message, without waiting; what comes beside them is let go. The message's length.
///
/// # Errors
///
/// EAGAIN (there is none), EINTR, ECONNRESET.
pub fn recv_bytes(fd: i32, buf: &mut [u8]) -> Result<usize, i32> {
    let flags = libc::MSG_DONTWAIT | libc::MSG_TRUNC;
    // SAFETY: writes at most the slice's length.
    last(unsafe { libc::recv(fd, buf.as_mut_ptr().cast(), buf.len(), flags) }, |n| n as usize)
}

/// Duplicates a descriptor, close-on-exec.
///
/// # Errors
///
/// EMFILE.
pub fn dup(fd: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    fd.try_clone_to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    use nix::sys::socket::{sendmsg, ControlMessage, MsgFlags};

    #[test]
    fn control_has_room_for_credentials_and_two_descriptors() {
        // SAFETY: sizes are computed.
        let need = unsafe { libc::CMSG_SPACE(size_of::<libc::ucred>() as u32) + libc::CMSG_SPACE(8) };
        assert_eq!(need as usize, CONTROL);
    }

    /// However many descriptors somebody puts beside a message: two come at most, and none is lost track of.
    #[test]
    fn hostile_descriptors_beside_a_message() {
        let (a, b) = pair().unwrap();
        let file = std::fs::File::open("/dev/null").unwrap();
        let opened = || {
            let all = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
            all.filter(|e| std::fs::read_link(e.path()).is_ok_and(|to| to.ends_with("null"))).count()
        };
        let before = opened();
        for marked in [false, true] {
            if marked {
                mark_messages(b.as_fd());
            }
            for n in [0, 1, 2, 3, 10, 100, 253] {
                let fds = vec![file.as_raw_fd(); n];
                let beside = [ControlMessage::ScmRights(&fds)];
                let flags = MsgFlags::MSG_NOSIGNAL;
                sendmsg::<()>(a.as_raw_fd(), &[IoSlice::new(b"x")], &beside, flags, None).unwrap();
                let mut buf = Vec::new();
                let got = take(b.as_raw_fd(), &mut buf).unwrap();
                assert_eq!((got.len, got.marked, got.short), (1, marked, false), "{n} descriptors");
                assert_eq!(got.fds.iter().flatten().count(), n.min(2));
                drop(got);
                assert_eq!(opened(), before, "{n} descriptors");
            }
        }
        assert_eq!(take(b.as_raw_fd(), &mut Vec::new()).map(|_| ()), Err(libc::EAGAIN));
    }
}
