//! sendfile and splice: the kernel cannot move bytes into a ring, so a live channel is served by copying.

use core::ffi::{c_int, c_uint, c_void};

use dpfd::family::Stage;
use dpfd::sys::raw;
use libc::{off64_t, size_t, ssize_t};

use super::{errno, fail};
use crate::{fdtable, hooks, state};

/// Bytes copied at a time.
const PIECE: usize = 64 * 1024;

fn live(fd: c_int) -> bool {
    let conn = fdtable::conn(fd).and_then(|i| state::family().map(|f| f.conn(i)));
    conn.is_some_and(|c| !matches!(c.stage(), Stage::Plain | Stage::Unused))
}

/// sendfile(2).
///
/// # Safety
///
/// As for the call it replaces.
pub unsafe fn sendfile(out: c_int, from: c_int, offset: *mut off64_t, n: size_t) -> ssize_t {
    if !live(out) {
        // SAFETY: the program's arguments.
        return unsafe { hooks::sendfile::real()(out, from, offset, n) };
    }
    // SAFETY: the program's arguments.
    unsafe { copy_file(out, from, offset, n) }
}

/// Reads at the offset (or the file's own) and sends; what was not sent is not read, either.
unsafe fn copy_file(out: c_int, from: c_int, offset: *mut off64_t, n: size_t) -> ssize_t {
    let mut buf = [0u8; PIECE];
    let mut done = 0usize;
    // SAFETY: no pointers but the program's offset.
    let mut at = unsafe {
        if offset.is_null() {
            libc::lseek64(from, 0, libc::SEEK_CUR)
        } else {
            *offset
        }
    };
    if at < 0 {
        return fail(libc::EINVAL);
    }
    while done < n {
        let want = (n - done).min(PIECE);
        // SAFETY: the buffer.
        let got = unsafe { libc::pread64(from, buf.as_mut_ptr().cast(), want, at) };
        if got <= 0 {
            if got < 0 && done == 0 {
                return -1;
            }
            break;
        }
        // SAFETY: the buffer, as far as it was filled.
        let sent = unsafe { super::send::write(out, buf.as_ptr().cast::<c_void>(), got as usize) };
        if sent < 0 {
            if done == 0 {
                return -1;
            }
            break;
        }
        at += sent as off64_t;
        done += sent as usize;
        if (sent as usize) < got as usize {
            break;
        }
    }
    // SAFETY: the program's offset, or the file's own.
    unsafe {
        if offset.is_null() {
            libc::lseek64(from, at, libc::SEEK_SET);
        } else {
            *offset = at;
        }
    }
    done as ssize_t
}

/// splice(2) between a pipe and a channel.
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
    let (source, sink) = (live(from), live(out));
    if !source && !sink {
        // SAFETY: the program's arguments.
        return unsafe { hooks::splice::real()(from, off_in, out, off_out, n, flags) };
    }
    if (source && !off_in.is_null()) || (sink && !off_out.is_null()) {
        return fail(libc::ESPIPE);
    }
    let wait = if flags & libc::SPLICE_F_NONBLOCK != 0 { libc::MSG_DONTWAIT } else { 0 };
    let mut buf = [0u8; PIECE];
    if source {
        // No more than the pipe takes for sure, or bytes would be in nobody's hands.
        let room = room_in_pipe(out).min(n).min(PIECE);
        if room == 0 {
            return fail(libc::EAGAIN);
        }
        // SAFETY: the buffer.
        let got = unsafe { super::recv::recv(from, buf.as_mut_ptr().cast(), room, wait) };
        if got <= 0 {
            return got;
        }
        // SAFETY: the buffer, as far as it was filled.
        unsafe { write_all(out, &buf[..got as usize]) };
        return got;
    }
    // From the pipe: what a send does not take must stay there, so the send is whole.
    let there = raw::queued(from).unwrap_or(0);
    let want = n.min(PIECE).min(if there == 0 { 1 } else { there });
    // SAFETY: the buffer; libc's read, the pipe is not ours.
    let got = unsafe { hooks::read::real()(from, buf.as_mut_ptr().cast(), want) };
    if got <= 0 {
        return got;
    }
    // SAFETY: the buffer, as far as it was filled.
    unsafe { write_all(out, &buf[..got as usize]) };
    got
}

fn room_in_pipe(fd: c_int) -> usize {
    let size = raw::fcntl(fd, libc::F_GETPIPE_SZ, 0).unwrap_or(4096);
    // A pipe counts pages; half of it is always room enough to promise when little is in it.
    size.saturating_sub(raw::queued(fd).unwrap_or(size)) / 2
}

/// Writes everything, waiting for room where need be: the bytes were taken already.
unsafe fn write_all(fd: c_int, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        // SAFETY: the buffer.
        let n = unsafe { super::send::write(fd, bytes.as_ptr().cast(), bytes.len()) };
        if n > 0 {
            bytes = &bytes[n as usize..];
        } else if errno() == libc::EAGAIN || errno() == libc::EINTR {
            let mut p = libc::pollfd { fd, events: libc::POLLOUT, revents: 0 };
            // SAFETY: one entry.
            unsafe { hooks::poll::real()(&mut p, 1, 1000) };
        } else {
            return;
        }
    }
}
