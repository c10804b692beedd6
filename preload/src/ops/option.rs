//! Socket options: those that would hold up or hide bells are remembered, not applied (W14).

use core::ffi::{c_int, c_void};
use core::sync::atomic::Ordering;

use dp_channel::family::{Conn, Reason, Stage};
use dp_channel::switch::in_ring;
use dp_edge::sys::raw;
use libc::socklen_t;

use crate::channel::Channel;
use crate::diag::PACING_AT;
use crate::tx::back::room;
use crate::walk::nowhere;
use crate::{epoll, fdtable, leave, real, socket};

/// setsockopt(2).
///
/// # Safety
///
/// As for the call it replaces.
pub unsafe fn setsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *const c_void,
    len: socklen_t,
) -> c_int {
    if let Some(c) = Channel::of(fd) {
        // What it left behind may have been read.
        c.ends_leave();
        let is_agreed = || matches!(c.stage(), Stage::Accepted | Stage::Live);
        // SAFETY: the program's int.
        let int = || (len >= 4 && !nowhere(value)).then(|| unsafe { value.cast::<c_int>().read_unaligned() });
        match (level, name) {
            // Nagle and cork hold a bell back; there is nothing for them to gather on a channel.
            (libc::IPPROTO_TCP, libc::TCP_NODELAY | libc::TCP_CORK)
                if c.stage() == Stage::Live && int().is_some() =>
            {
                let flag = if name == libc::TCP_NODELAY { Conn::NODELAY } else { Conn::CORK };
                match int() {
                    Some(0) => c.clear(flag),
                    _ => c.set(flag),
                }
                // Nothing of this end goes into the ring any more, and no bell over TCP. Asked behind the flag, which whoever leaves
                // reads behind the mark.
                if c.has(Conn::TX_TCP) && !in_ring(c.sending().tx.epoch()) {
                    c.holds_back_as_asked();
                }
                return 0;
            }
            // A low-water mark above one byte hides bells, and where to peek next the kernel counts: both are its own. When
            // bytes came, it can say of those alone that it delivers.
            (libc::SOL_SOCKET, _) if int().is_some_and(|n| is_kernels_own(name, n)) && !c.is_over() => {
                leave::leave(fd, Reason::Option);
            }
            (libc::IPPROTO_TCP, libc::TCP_ULP | libc::TCP_REPAIR | libc::TCP_MD5SIG) => {
                // Where the offer was taken, and not confirmed, our word has to be taken back, or the next send would confirm it.
                if !is_agreed() {
                    leave::leave_and_read(fd, Reason::Option);
                }
                // The kernel cannot encrypt what does not pass through it: the library does it itself.
                if is_agreed() {
                    return super::fail(libc::ENOPROTOOPT) as c_int;
                }
            }
            _ => {}
        }
    }
    // SAFETY: the program's arguments.
    let rc = beside_sends(fd, level, name, || unsafe { real::setsockopt()(fd, level, name, value, len) });
    if let Some(c) = Channel::of(fd).filter(|_| rc == 0) {
        match (level, name) {
            (libc::IPPROTO_TCP, libc::TCP_INQ) => c.note_inq(),
            (libc::SOL_SOCKET, libc::SO_RCVTIMEO | socket::RCVTIMEO_NEW) => c.set(Conn::LIMITED),
            // Another thread has made it a channel meanwhile, and may have looked at the option before.
            (libc::IPPROTO_TCP, libc::TCP_NODELAY | libc::TCP_CORK) if c.settled_stage() == Stage::Live => {
                // SAFETY: the kernel has read the program's int there.
                c.holds_nothing_back(name, unsafe { value.cast::<c_int>().read_unaligned() } != 0);
            }
            // A low-water mark that there are bytes enough for makes an edge.
            (libc::SOL_SOCKET, libc::SO_RCVLOWAT) => c.makes_an_edge(),
            (libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE) => c.rate_is_set_by_program(),
            // The peer cannot tell a reset that is meant from one that a bell drew which nobody took. It may see a channel
            // still where we have left.
            (libc::SOL_SOCKET, libc::SO_LINGER) if c.slot_live() => {
                c.sending().tx.ends_abruptly(raw::resets_at_close(fd));
                if c.has(Conn::OWES) {
                    c.as_sender(|| c.lingers_anew());
                }
            }
            _ => {}
        }
    }
    rc
}

/// Does `real`, a call for an option: before or behind what a send changes for a moment.
fn beside_sends(fd: c_int, level: c_int, name: c_int, real: impl Fn() -> c_int) -> c_int {
    let c = if room::changes(level, name) { Channel::of(fd) } else { None };
    c.filter(|c| c.slot_live()).and_then(|c| c.as_sender(&real)).unwrap_or_else(real)
}

/// Whether an option of sockets, set to `n`, changes how receives work in a way that the kernel alone can bring about.
pub fn is_kernels_own(name: c_int, n: c_int) -> bool {
    match name {
        libc::SO_RCVLOWAT => !matches!(n, 0 | 1),
        libc::SO_PEEK_OFF => n >= 0,
        _ => socket::TIMES.contains(&name) && n != 0,
    }
}

impl Channel {
    /// The call in hand wakes whoever waits for the socket, which is an edge of all that is ready. The kernel knows nothing of what
    /// lies in the ring.
    pub fn makes_an_edge(&self) {
        if !self.slot_live() || self.watched.load(Ordering::Relaxed) == 0 {
            return;
        }
        if let (false, Some(i)) = (self.is_below_mark(), fdtable::conn(self.fd)) {
            epoll::rises_anew(i);
        }
    }

    /// Whether one side has ended already: what comes is in the ring, and going back to TCP would meet resets.
    fn is_over(&self) -> bool {
        self.stage() == Stage::Live
            && (self.has(Conn::SHUT_RD) || self.receiving().tx.is_ending() || socket::ended(self.fd))
    }
}

/// getsockopt(2): an error the shim met is the program's.
///
/// # Safety
///
/// As for the call it replaces.
pub unsafe fn getsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    len: *mut socklen_t,
) -> c_int {
    if level == libc::IPPROTO_TCP && name == ZEROCOPY_RECEIVE {
        // SAFETY: as of this function.
        if let Some(rc) = unsafe { zerocopy_receive(fd, value, len) } {
            return rc;
        }
    }
    let paces = matches!(
        (level, name),
        (libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE) | (libc::IPPROTO_TCP, libc::TCP_INFO)
    );
    let hidden = || Channel::of(fd).filter(|_| paces).and_then(|c| c.hidden_rate());
    // Another thread may have a number shown, or put back, while the kernel is asked.
    let before = hidden();
    // SAFETY: the program's arguments.
    let rc = beside_sends(fd, level, name, || unsafe { real::getsockopt()(fd, level, name, value, len) });
    if let (0, Some(own)) = (rc, before.or_else(hidden)) {
        // SAFETY: as of this function; the kernel wrote that many bytes there.
        unsafe { tell_pacing(name, own, value, *len as usize) };
    }
    if let Some(c) = Channel::of(fd).filter(|_| rc == 0) {
        // SAFETY: the kernel wrote that many bytes there.
        let said = unsafe { (*len >= 4).then(|| &mut *value.cast::<[u8; 4]>()) };
        match ((level, name), said) {
            ((libc::IPPROTO_TCP, libc::TCP_NODELAY | libc::TCP_CORK), Some(said))
                if c.stage() == Stage::Live =>
            {
                let flag = if name == libc::TCP_NODELAY { Conn::NODELAY } else { Conn::CORK };
                *said = c_int::from(c.has(flag)).to_ne_bytes();
            }
            ((libc::SOL_SOCKET, libc::SO_ERROR), Some(said)) => match c_int::from_ne_bytes(*said) {
                0 => *said = c.take_error().to_ne_bytes(),
                e => c.was_told(e),
            },
            _ => {}
        }
    }
    rc
}

impl Channel {
    /// The error that the kernel does not have, and that the call in hand tells; 0 for none.
    pub fn take_error(&self) -> c_int {
        if self.error.load(Ordering::Relaxed) == 0 {
            self.hears_of_death();
        }
        self.error.swap(0, Ordering::Relaxed) as c_int
    }
}

/// Puts the program's own pacing rate where the kernel put another one, in its answer of `len` bytes.
///
/// # Safety
///
/// `value` has `len` bytes.
unsafe fn tell_pacing(name: c_int, own: u64, value: *mut c_void, len: usize) {
    let long = own.to_ne_bytes();
    let short = u32::try_from(own).unwrap_or(u32::MAX).to_ne_bytes();
    let (at, bytes) = match name {
        libc::TCP_INFO => (PACING_AT, &long[..]),
        _ if len < long.len() => (0, &short[..]),
        _ => (0, &long[..]),
    };
    let n = len.saturating_sub(at).min(bytes.len());
    // SAFETY: inside of these bytes.
    unsafe { value.cast::<u8>().add(at.min(len)).copy_from_nonoverlapping(bytes.as_ptr(), n) };
}

/// TCP_ZEROCOPY_RECEIVE (linux/tcp.h): a receive that is written as a question.
const ZEROCOPY_RECEIVE: c_int = 35;

/// TCP_ZEROCOPY_RECEIVE of a channel: nothing can be mapped, and recv(2) has all of it, as the kernel says of bytes that
/// fill no page. A connection that is no channel yet stays on TCP. `None`: the kernel's to answer.
///
/// # Safety
///
/// As for getsockopt(2).
unsafe fn zerocopy_receive(fd: c_int, value: *mut c_void, len: *mut socklen_t) -> Option<c_int> {
    let c = Channel::of(fd)?;
    if !matches!(c.stage(), Stage::Accepted | Stage::Live) {
        leave::leave_and_read(fd, Reason::Option);
        return None;
    }
    if nowhere(value) || nowhere(len) {
        return None;
    }
    // SAFETY: the program's.
    let room = unsafe { len.read_unaligned() } as usize;
    // struct tcp_zerocopy_receive: length, recv_skip_hint, inq, err, copybuf_len, msg_flags, where there is room for them.
    let words = [8usize, 12, 16, 20, 32, 56];
    if room < words[0] + 4 {
        return None; // EINVAL
    }
    let n = match c.readable_bytes() {
        Ok(n) => n.min(i32::MAX as usize) as u32,
        Err(e) => return Some(super::fail(e) as c_int),
    };
    for at in words.into_iter().filter(|at| at + 4 <= room) {
        let word = if at == 12 || at == 16 { n } else { 0 };
        // SAFETY: inside the program's struct.
        unsafe { value.byte_add(at).cast::<u32>().write_unaligned(word) };
    }
    Some(0)
}
