//! A line for somebody else's eyes: one write to a file, a terminal, a pipe or a socket that neither waits nor raises a
//! signal, however the other end is. The program around us has not asked for it and must not feel it.

use core::ffi::CStr;

use super::raw;

/// How a descriptor takes lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// By send(2), which can be told not to wait and to raise nothing.
    Socket,
    /// A pipe or FIFO: full it would hold the writer, and without a reader it raises SIGPIPE.
    Pipe,
    /// A terminal that is stopped, or has less room than a line takes, holds the writer, also one that poll(2) has said it could
    /// write: only by a descriptor of [`open`] or [`reopen`], which do not wait.
    Device,
    /// A file takes what it is given, up to RLIMIT_FSIZE, where it raises SIGXFSZ.
    File,
}

impl Kind {
    /// By `st_mode`.
    pub fn of(mode: u32) -> Kind {
        match mode & libc::S_IFMT {
            libc::S_IFSOCK => Kind::Socket,
            libc::S_IFIFO => Kind::Pipe,
            libc::S_IFCHR => Kind::Device,
            _ => Kind::File,
        }
    }

    /// The signal that a write raises as a bit of a set, and the error that tells of it; 0: none.
    fn raises(self) -> (u64, i32) {
        match self {
            Kind::Pipe => (bit(libc::SIGPIPE), libc::EPIPE),
            Kind::File => (bit(libc::SIGXFSZ), libc::EFBIG),
            Kind::Socket | Kind::Device => (0, 0),
        }
    }
}

fn bit(signal: i32) -> u64 {
    1 << (signal - 1)
}

/// Opens a file to add lines to its end; made, for its owner alone, if need be. Not through a symbolic link as its last part,
/// which somebody else may have put there. A FIFO without a reader is not waited for.
///
/// # Errors
///
/// Those of openat(2); ELOOP for a symbolic link.
pub fn open(path: &CStr) -> Result<i32, i32> {
    let to = libc::O_WRONLY | libc::O_APPEND | libc::O_CREAT | libc::O_CLOEXEC;
    let how = to | libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY;
    let args = [libc::AT_FDCWD as usize, path.as_ptr() as usize, how as usize, 0o600, 0, 0];
    // SAFETY: the path is a C string.
    unsafe { raw::call(libc::SYS_openat, args) }.map(|fd| fd as i32)
}

/// Opens a device, for which `fd` stands, once more: the open file behind `fd` is somebody else's, and so is whether it waits.
/// The caller has to look whether it is the same device: `fd` may stand for something else by then.
///
/// # Errors
///
/// Those of openat(2): ENOENT without /proc, EACCES where this user may not open a terminal that is another's.
pub fn reopen(fd: i32) -> Result<i32, i32> {
    let path = raw::numbered(b"/proc/self/fd/", fd as u32, b"");
    let how = libc::O_WRONLY | libc::O_NONBLOCK | libc::O_NOCTTY | libc::O_CLOEXEC;
    let args = [libc::AT_FDCWD as usize, path.as_ptr() as usize, how as usize, 0, 0, 0];
    // SAFETY: the path ends in a zero.
    unsafe { raw::call(libc::SYS_openat, args) }.map(|fd| fd as i32)
}

/// A datagram socket that sends to the socket at `path`.
///
/// # Errors
///
/// Those of socket(2) and connect(2); ENAMETOOLONG.
pub fn datagrams_to(path: &[u8]) -> Result<i32, i32> {
    let mut to = libc::sockaddr_un { sun_family: libc::AF_UNIX as u16, sun_path: [0; 108] };
    if path.len() >= to.sun_path.len() {
        return Err(libc::ENAMETOOLONG);
    }
    for (to, from) in to.sun_path.iter_mut().zip(path) {
        *to = *from as libc::c_char;
    }
    let fd = raw::socket(libc::AF_UNIX, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0)?;
    // SAFETY: the address outlives the call.
    match unsafe { raw::connect(fd, (&raw const to).cast(), size_of_val(&to) as u32) } {
        Ok(_) => Ok(fd),
        Err(e) => {
            raw::close(fd);
            Err(e)
        }
    }
}

/// Writes one line, at most 4096 bytes, so that no other writer's comes into it.
///
/// # Errors
///
/// It was not written, or in part: EAGAIN where the writer would have had to wait, EPIPE where nobody reads, EFBIG, ENOSPC and
/// others of write(2).
pub fn write(fd: i32, kind: Kind, line: &[u8]) -> Result<(), i32> {
    match kind {
        Kind::Socket => send(fd, line),
        _ => Quiet::begin().write(fd, kind, line),
    }
}

fn send(fd: i32, line: &[u8]) -> Result<(), i32> {
    // SAFETY: the line.
    let sent = unsafe { raw::send(fd, line.as_ptr(), line.len(), libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT) };
    sent.and_then(|n| if n == line.len() { Ok(()) } else { Err(libc::EAGAIN) })
}

/// As long as it lives this thread takes no signals, a terminal's SIGTTOU neither.
#[derive(Debug)]
pub struct Quiet {
    /// The signals that the program blocks.
    blocked: u64,
}

impl Quiet {
    /// From here on.
    pub fn begin() -> Quiet {
        Quiet { blocked: raw::block_signals() }
    }

    /// As [`write()`]. The signal that a write raises is taken back; one that was there before stays.
    ///
    /// # Errors
    ///
    /// Those of [`write()`].
    pub fn write(&self, fd: i32, kind: Kind, line: &[u8]) -> Result<(), i32> {
        let (signal, error) = kind.raises();
        // Only what the program blocks can have been waiting.
        let is_waiting = self.blocked & signal != 0 && pending() & signal != 0;
        let result = match kind {
            Kind::Socket => return send(fd, line),
            Kind::Pipe => match write_at_once(fd, line) {
                // Before Linux 6.5 a pipe knows of no such writes; a filter, or what stands in for the kernel, may not know the call.
                Err(libc::EOPNOTSUPP | libc::ENOSYS | libc::EPERM) => write_if_writable(fd, line),
                other => other,
            },
            Kind::Device | Kind::File => write_now(fd, line),
        };
        if signal != 0 && result == Err(error) && !is_waiting {
            take(signal);
        }
        result.and_then(|n| if n == line.len() { Ok(()) } else { Err(libc::ENOSPC) })
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        raw::set_blocked_signals(self.blocked);
    }
}

fn write_now(fd: i32, line: &[u8]) -> raw::Res {
    // SAFETY: the line.
    unsafe { raw::call(libc::SYS_write, [fd as usize, line.as_ptr() as usize, line.len(), 0, 0, 0]) }
}

/// Another writer can take the room between the two calls; then this one waits as the program's own writes would.
fn write_if_writable(fd: i32, line: &[u8]) -> raw::Res {
    match raw::poll_now(&mut [libc::pollfd { fd, events: libc::POLLOUT, revents: 0 }])? {
        0 => Err(libc::EAGAIN),
        _ => write_now(fd, line),
    }
}

fn write_at_once(fd: i32, line: &[u8]) -> raw::Res {
    const RWF_NOWAIT: usize = 8;
    let piece = libc::iovec { iov_base: line.as_ptr() as *mut _, iov_len: line.len() };
    // The position -1, in two halves: where the file is now.
    let args = [fd as usize, &raw const piece as usize, 1, usize::MAX, usize::MAX, RWF_NOWAIT];
    // SAFETY: one piece, the line; the kernel only reads it.
    unsafe { raw::call(libc::SYS_pwritev2, args) }
}

/// Signals that are blocked and have come.
fn pending() -> u64 {
    let mut set = 0u64;
    let args = [&raw mut set as usize, size_of_val(&set), 0, 0, 0, 0];
    // SAFETY: the kernel fills the set.
    let _ = unsafe { raw::call(libc::SYS_rt_sigpending, args) };
    set
}

/// Takes a signal that has come, without waiting for one.
fn take(set: u64) {
    let now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let args = [&raw const set as usize, 0, &raw const now as usize, size_of_val(&set), 0, 0];
    // SAFETY: the set and the time outlive the call; nothing is told of the signal.
    let _ = unsafe { raw::call(libc::SYS_rt_sigtimedwait, args) };
}

#[cfg(test)]
mod tests;
