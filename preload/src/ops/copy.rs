//! sendfile and splice: the kernel cannot move bytes into or out of a ring. Files are copied into it; a pipe is
//! emptied onto TCP, and filled by copying. tee, vmsplice and copy_file_range take no sockets.

use core::ffi::{c_int, c_uint};

use dp_channel::family::{Family, Stage};
use dp_edge::sys::raw;
use libc::{off64_t, size_t, ssize_t};

use super::{errno, fail, took};
use crate::cancel::uncancelled;
use crate::channel::Channel;
use crate::inside::held::{self, Held};
use crate::inside::{self, Inside};
use crate::walk::{is_no_length, nowhere, MOST};
use crate::{kept, own, real, signals, socket, state};

#[cfg(test)]
mod tests;

/// Bytes copied at a time on the stack, which may be a small one.
const LITTLE: usize = 512;

/// A buffer for `n` bytes in pieces.
fn with_buffer<R>(n: usize, mut f: impl FnMut(&mut [u8]) -> R) -> R {
    // SAFETY: as many as there are, and any bytes are bytes.
    let large = |place| f(unsafe { core::slice::from_raw_parts_mut(place, kept::SIZE) });
    let result = if n > LITTLE { kept::with(large) } else { None };
    result.unwrap_or_else(|| f(&mut [0; LITTLE]))
}

/// The flags of splice(2) that there are.
const FLAGS: c_uint =
    libc::SPLICE_F_MOVE | libc::SPLICE_F_NONBLOCK | libc::SPLICE_F_MORE | libc::SPLICE_F_GIFT;

/// What a pipe counts in.
const PAGE: usize = 4096;

fn live(fd: c_int) -> bool {
    let conn = Channel::of(fd);
    conn.is_some_and(|c| !matches!(c.stage(), Stage::Plain | Stage::Unused))
}

/// sendfile(2).
///
/// # Safety
///
/// As for the call it replaces.
pub unsafe fn sendfile(out: c_int, from: c_int, offset: *mut off64_t, n: size_t) -> ssize_t {
    // SAFETY: the program's arguments, or another number of the same file.
    let real = |out| unsafe { real::sendfile()(out, from, offset, n) };
    if is_no_length(n) {
        // The kernel refuses it before it moves anything.
        return real(out);
    }
    // Into a pipe, sendfile is a splice. Out of anything else than a socket it need not be looked at.
    if live(from) && offset.is_null() && n > 0 {
        if let Some(size) = pipe(out) {
            return uncancelled(|| out_of_channel(from, (out, size), n, 0, real));
        }
    }
    if !live(out) || (!offset.is_null() && nowhere(offset)) {
        return real(out);
    }
    // It is no point of cancellation, and what it is made of here is.
    uncancelled(|| {
        if !is_file(from) {
            return super::send::by_kernel(out, real);
        }
        let frame = 0u8;
        // One call, and one open file: whatever becomes of the number between two pieces.
        let (Some(family), Some(at)) = (state::family(), Inside::enter(out, &frame)) else {
            return real(out);
        };
        // SAFETY: the buffer.
        let read =
            |buf: &mut [u8], at| unsafe { libc::pread64(from, buf.as_mut_ptr().cast(), buf.len(), at) };
        // SAFETY: the program's arguments.
        let done = with_buffer(n, |buf| unsafe { copy_file((family, at), (from, &read), offset, n, buf) });
        at.leave();
        done
    })
}

/// Whether it is a file with bytes in it. Of other things, and of files that are made as they are read, the kernel knows
/// which it can send.
fn is_file(fd: c_int) -> bool {
    // SAFETY: plain data, filled by the call.
    unsafe {
        let mut stat: libc::stat = core::mem::zeroed();
        libc::fstat(fd, &mut stat) == 0 && stat.st_mode & libc::S_IFMT == libc::S_IFREG && stat.st_size > 0
    }
}

/// Which file a number stands for. It is not held by a copy: the locks of fcntl(2) that the program has on a file go with the close
/// of any.
fn identity(fd: c_int) -> Option<(libc::dev_t, libc::ino_t)> {
    // SAFETY: plain data, filled by the call.
    unsafe {
        let mut stat: libc::stat = core::mem::zeroed();
        (libc::fstat(fd, &mut stat) == 0).then_some((stat.st_dev, stat.st_ino))
    }
}

/// A read of a file at an offset, as pread(2) is.
type ReadAt<'a> = &'a dyn Fn(&mut [u8], off64_t) -> ssize_t;

/// Reads at the offset (or the file's own) and sends; what was not sent is not read, either.
///
/// # Safety
///
/// `offset` is the program's, or null.
unsafe fn copy_file(
    (family, at_out): (Family, Inside),
    (from, read): (c_int, ReadAt),
    offset: *mut off64_t,
    n: size_t,
    buf: &mut [u8],
) -> ssize_t {
    let (mut done, n) = (0usize, n.min(MOST));
    // Another thread may put another file at the number between two pieces.
    let file = if n > buf.len() && !inside::alone() { identity(from) } else { None };
    let is_same = || file.is_none() || identity(from) == file;
    let mut interrupted = false;
    signals::begin();
    // SAFETY: no pointers but the program's offset.
    let mut at = unsafe {
        if offset.is_null() {
            libc::lseek64(from, 0, libc::SEEK_CUR)
        } else {
            *offset
        }
    };
    if at < 0 {
        // Not the ESPIPE of a pipe: sendfile calls that an unfit argument.
        return fail(if offset.is_null() && errno() == libc::EBADF { libc::EBADF } else { libc::EINVAL });
    }
    while done < n {
        let want = (n - done).min(buf.len());
        let got = read(&mut buf[..want], at);
        if done > 0 && !is_same() {
            break;
        }
        if got <= 0 {
            if got < 0 && done == 0 {
                return if errno() == libc::ESPIPE { fail(libc::EINVAL) } else { -1 };
            }
            break;
        }
        // On TCP a handler ends the call where it waits for room next, or has it begin anew. A piece forgets what came before it.
        interrupted |= signals::came() && (done > 0 || ends_by_handler(at_out.fd()));
        let flags = if interrupted { libc::MSG_DONTWAIT } else { 0 };
        let sent = super::send::piece(family, at_out, &buf[..got as usize], flags);
        if sent < 0 {
            if done == 0 {
                let c = Channel::new(family, at_out.fd(), at_out.conn());
                let waits = interrupted && errno() == libc::EAGAIN && !c.is_nonblocking();
                return if waits { fail(libc::EINTR) } else { -1 };
            }
            break;
        }
        at += sent as off64_t;
        done += sent as usize;
        if (sent as usize) < got as usize {
            let c = Channel::new(family, at_out.fd(), at_out.conn());
            if !interrupted && !signals::came() && !c.is_nonblocking() {
                // The kernel's own tries the rest of what it has read once more, and that takes the error which has ended the wait.
                let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
                let more =
                    super::send::piece(family, at_out, &buf[sent as usize..got as usize], flags).max(0);
                at += more as off64_t;
                done += more as usize;
            }
            break;
        }
    }
    // SAFETY: the program's offset, or the file's own.
    unsafe {
        if !offset.is_null() {
            *offset = at;
        } else if is_same() {
            libc::lseek64(from, at, libc::SEEK_SET);
        }
    }
    done as ssize_t
}

/// Whether the handlers that have run end a send that has sent nothing.
fn ends_by_handler(fd: c_int) -> bool {
    signals::interrupted() || socket::limit(fd, libc::SO_SNDTIMEO).is_some()
}

/// splice(2). Into a channel the kernel moves the bytes itself, over TCP: what a pipe gives up cannot be put back
/// when there is no room. Out of one they are copied.
///
/// # Safety
///
/// As for the call it replaces.
pub unsafe fn splice(
    from: c_int,
    off_in: *mut off64_t,
    out: c_int,
    off_out: *mut off64_t,
    n: size_t,
    flags: c_uint,
) -> ssize_t {
    // SAFETY: the program's arguments.
    let to = |out| unsafe { real::splice()(from, off_in, out, off_out, n, flags) };
    if flags & !FLAGS != 0 {
        // Without a file: a kernel that knows more flags is not to move doorbells by them.
        // SAFETY: no pointers.
        let refused =
            unsafe { real::splice()(-1, core::ptr::null_mut(), -1, core::ptr::null_mut(), 1, flags) };
        if n > 0 && refused < 0 && errno() == libc::EINVAL {
            return -1;
        }
    }
    if live(out) && pipe(from).is_some() && off_out.is_null() {
        return super::send::by_kernel(out, to);
    }
    match pipe(out) {
        Some(_) if is_no_length(n) && live(from) && is_refused_length(out, n) => fail(libc::EINVAL),
        Some(size) if live(from) && off_in.is_null() && off_out.is_null() && n > 0 => {
            out_of_channel(from, (out, size), n, flags, to)
        }
        // The kernel knows what is wrong, and takes nothing.
        _ => to(out),
    }
}

/// Whether this kernel fills no pipe by that length: older ones move what there is. Asked with a file behind its end, of which
/// nothing comes.
fn is_refused_length(out: c_int, n: usize) -> bool {
    let (file, no_wait) = (state::family_fd(), libc::SPLICE_F_NONBLOCK);
    let mut end = 1 << 40;
    // SAFETY: a variable of ours.
    own::is(file)
        && unsafe { real::splice()(file, &raw mut end, out, core::ptr::null_mut(), n, no_wait) } < 0
        && errno() == libc::EINVAL
}

/// The pipe that a call fills.
#[derive(Clone, Copy)]
struct Pipe {
    number: c_int,
    size: usize,
    /// Another number for it, once the call waits.
    held: Option<&'static Held>,
}

impl Pipe {
    /// Asked for again after every sleep. -1: it could not be kept.
    fn fd(&self) -> c_int {
        self.held.map_or(self.number, Held::fd)
    }

    /// The call is about to wait, in which time the program may close the number.
    fn hold(&mut self) {
        if self.held.is_none() {
            self.held = held::hold(self.number, &self.number);
        }
    }
}

/// How many bytes a pipe holds; `None`: `fd` is none.
fn pipe(fd: c_int) -> Option<usize> {
    raw::fcntl(fd, libc::F_GETPIPE_SZ, 0).ok()
}

/// From a channel into the pipe `out`, which holds `size` bytes; or `real`, by which the kernel does it.
fn out_of_channel(
    from: c_int,
    (out, size): (c_int, usize),
    n: usize,
    flags: c_uint,
    real: impl Fn(c_int) -> ssize_t,
) -> ssize_t {
    let mode = raw::fcntl(out, libc::F_GETFL, 0).unwrap_or(0) as c_int;
    if mode & libc::O_ACCMODE == libc::O_RDONLY {
        return fail(libc::EBADF);
    }
    // SAFETY: no arguments; nothing is to be dropped.
    unsafe { super::pthread_testcancel() };
    signals::begin();
    let frame = 0u8;
    // One call, and one open file.
    let (Some(family), Some(at)) = (state::family(), Inside::enter(from, &frame)) else {
        return real(out);
    };
    let wait = mode & libc::O_NONBLOCK == 0 && flags & libc::SPLICE_F_NONBLOCK == 0;
    let pipe = Pipe { number: out, size, held: None };
    let done = with_buffer(n.min(size), |buf| into_pipe((family, at), pipe, (n, wait), buf));
    at.leave();
    done
}

/// From a channel: no more is taken than the pipe has room for, or bytes would be in nobody's hands.
fn into_pipe(
    (family, at): (Family, Inside),
    mut pipe: Pipe,
    (n, wait): (usize, bool),
    buf: &mut [u8],
) -> ssize_t {
    let c = || Channel::new(family, at.fd(), at.conn());
    if !c().is_nonblocking() && !c().has_bytes() {
        pipe.hold();
    }
    let done = match room_in_pipe(pipe, false) {
        Ok(0) if wait => {
            pipe.hold();
            await_room(pipe)
        }
        pages => pages,
    }
    .map_or_else(fail, |pages| fill_pipe((family, at), pipe, (n, pages), buf));
    if let Some(held) = pipe.held {
        held.release();
    }
    done
}

/// The same once there is room for so many pages.
fn fill_pipe(
    (family, at): (Family, Inside),
    pipe: Pipe,
    (n, mut pages): (usize, usize),
    buf: &mut [u8],
) -> ssize_t {
    let mut sum = 0;
    if pages == 0 {
        return fail(libc::EAGAIN);
    }
    while sum < n {
        if pages == 0 {
            // Past the first bytes a cancellation would lose them.
            match uncancelled(|| room_in_pipe(pipe, false)) {
                Ok(0) | Err(_) => break,
                Ok(more) => pages = more,
            }
        }
        let room = (n - sum).min(buf.len()).min(pages * PAGE);
        let c = Channel::new(family, at.fd(), at.conn());
        // What lies behind the last byte, an error or the end, is for the next call to tell.
        if sum > 0 && !c.has_bytes() {
            break;
        }
        // Whether the socket waits is for its own flag to say, not for that of the pipe's end.
        let flags = if sum > 0 { libc::MSG_DONTWAIT } else { 0 };
        let got = super::recv::piece(family, at, &mut buf[..room], flags);
        if got <= 0 {
            if sum == 0 {
                return got;
            }
            if got < 0 {
                c.keep_error(sum);
            }
            break;
        }
        let got = got as usize;
        uncancelled(|| write_all(pipe, &buf[..got]));
        sum += got;
        pages -= got.div_ceil(PAGE);
        // Nothing is left, or an urgent byte comes next, which no call goes across.
        if got < room {
            break;
        }
    }
    sum as ssize_t
}

impl Channel {
    /// Whether there are bytes for the program.
    fn has_bytes(&self) -> bool {
        let there = match self.stage() {
            Stage::Accepted | Stage::Live => self.readable_bytes(),
            _ => raw::queued(self.fd),
        };
        there.is_ok_and(|n| n > 0)
    }
}

/// The same once there is some. Other than poll(2), by which it waits, such a call goes on behind a handler with SA_RESTART.
fn await_room(pipe: Pipe) -> Result<usize, i32> {
    loop {
        if signals::interrupted() {
            return Err(libc::EINTR);
        }
        match room_in_pipe(pipe, true) {
            // By a handler that is not known here: nobody can tell.
            Err(libc::EINTR) if !signals::came() => return Err(libc::EINTR),
            Err(libc::EINTR) => {}
            pages => return pages,
        }
    }
}

/// Pages that a pipe takes for sure. It counts pages, not bytes: while something is in it, one is certain where
/// poll(2) says that there is room.
fn room_in_pipe(pipe: Pipe, wait: bool) -> Result<usize, i32> {
    let mut p = libc::pollfd { fd: pipe.fd(), events: libc::POLLOUT, revents: 0 };
    if p.fd < 0 {
        return Err(libc::EBADF);
    }
    // SAFETY: one entry.
    took(unsafe { real::poll()(&mut p, 1, if wait { -1 } else { 0 }) } as isize)?;
    if p.revents & libc::POLLERR != 0 {
        // Nobody will read it.
        // SAFETY: a signal to this thread, as the kernel would send it.
        unsafe { libc::raise(libc::SIGPIPE) };
        return Err(libc::EPIPE);
    }
    Ok(match raw::queued(pipe.fd()) {
        _ if p.revents & libc::POLLOUT == 0 => 0,
        Ok(0) => (pipe.size / PAGE).max(1),
        _ => 1,
    })
}

/// Writes everything. There is room, unless somebody else writes to the same pipe: then it waits, for the bytes
/// were taken already.
fn write_all(pipe: Pipe, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        let fd = pipe.fd();
        // SAFETY: the buffer.
        let n = unsafe { real::write()(fd, bytes.as_ptr().cast(), bytes.len()) };
        if n > 0 {
            bytes = &bytes[n as usize..];
        } else if errno() == libc::EAGAIN || errno() == libc::EINTR {
            let mut p = libc::pollfd { fd, events: libc::POLLOUT, revents: 0 };
            // SAFETY: one entry.
            unsafe { real::poll()(&mut p, 1, 1000) };
        } else {
            return;
        }
    }
}
