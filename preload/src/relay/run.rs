//! The relay's own process.

use core::ffi::c_void;

use dp_channel::family::Conn;
use dp_channel::tcp;
use dp_edge::sys::raw;

use crate::channel::Channel;
use crate::fdtable::{self, Entry};
use crate::{diag, errno, life, link, state};

/// The relay itself. Other threads of the program may have held any lock when it was copied: nothing here
/// allocates or calls into stdio.
pub fn relay(c: &Channel, i: u32, other: i32, n: u32) {
    join(n);
    if let Some([conn, other]) = alone([c.fd, other], i, c) {
        pump(conn, other, c);
        // SAFETY: descriptors of ours.
        unsafe { libc::close(conn) };
        raw::close(other);
    }
    c.family.member(n as usize).clear();
}

fn join(n: u32) {
    life::child_of_fork(life::Prepared::alone(n));
    forget_the_program();
}

/// Terminals, signals and handlers are the program's.
fn forget_the_program() {
    // SAFETY: numbers, and a name that outlives the call.
    unsafe {
        let _ = raw::call(libc::SYS_setsid, [0; 6]);
        let _ = raw::call(libc::SYS_chdir, [c"/".as_ptr() as usize, 0, 0, 0, 0, 0]);
        let name = c"dp-relay".as_ptr() as usize;
        let _ = raw::call(libc::SYS_prctl, [libc::PR_SET_NAME as usize, name, 0, 0, 0, 0]);
    }
    for signal in 1..65 {
        // Ignored first: what came for the program's group while all were blocked is not for us.
        raw::set_signal_action(signal, libc::SIG_IGN);
        raw::set_signal_action(signal, libc::SIG_DFL);
    }
    raw::set_blocked_signals(0);
}

/// Closes every descriptor but these, of which the first is connection `c`, the family's memory that `dp ls` reads, and the link of
/// `c`: as long as somebody has that, the client knows that the slot is not free. The first two have other numbers afterwards.
fn alone(fds: [i32; 2], i: u32, c: &Conn) -> Option<[i32; 2]> {
    let mut kept = [0; 2];
    let mut keep = [-1; 4];
    for (k, fd) in fds.into_iter().enumerate() {
        kept[k] = raw::fcntl(fd, libc::F_DUPFD_CLOEXEC, 8).ok()? as i32;
        keep[k] = kept[k];
    }
    keep[2] = state::family_fd();
    // Before the table forgets which number it has.
    keep[3] = link::descriptor(c).unwrap_or(-1);
    keep.sort_unstable();
    fdtable::each(|fd, _| {
        fdtable::set(fd, Entry::None);
    });
    let mut from = 0;
    for last in keep.into_iter().filter(|fd| *fd >= 0).map(|fd| fd as usize).chain([u32::MAX as usize]) {
        if last > from {
            // SAFETY: numbers.
            let _ = unsafe { raw::call(libc::SYS_close_range, [from, last - 1, 0, 0, 0, 0]) };
        }
        from = last + 1;
    }
    for _ in 0..3 {
        let args = [libc::AT_FDCWD as usize, c"/dev/null".as_ptr() as usize, libc::O_RDWR as usize, 0, 0, 0];
        // SAFETY: a C string.
        let _ = unsafe { raw::call(libc::SYS_openat, args) };
    }
    fdtable::set_refs(i, 1);
    fdtable::set(kept[0], Entry::Conn(i));
    Some(kept)
}

const PIECE: usize = 64 * 1024;

/// One direction.
struct Direction {
    from: i32,
    to: i32,
    buf: *mut u8,
    at: usize,
    end: usize,
    eof: bool,
    over: bool,
}

/// How often it is looked whether a stranger that has ended its direction is gone altogether, and for how long a look waits, ns: a close
/// sends the end before it gives the socket up.
const LOOKS: u32 = 20;
const LOOK: u32 = 500_000;

/// Whether the stranger has closed its end of `other`, and did not only shut it down.
fn is_closed(other: i32) -> bool {
    let (Some(ours), Some(theirs)) = (tcp::local(other), tcp::peer(other)) else { return true };
    let netns = tcp::netns(other);
    (0..LOOKS).any(|look| {
        if look > 0 {
            raw::nap(LOOK);
        }
        diag::is_closed(theirs, ours, netns)
    })
}

/// Which side broke.
struct Broken(i32);

impl Direction {
    fn new(from: i32, to: i32) -> Option<Direction> {
        Some(Direction { from, to, buf: state::reserve(PIECE)?, at: 0, end: 0, eof: false, over: false })
    }

    /// What to wait for on `fd`.
    fn wants(&self, fd: i32) -> i16 {
        match self.at < self.end {
            true if fd == self.to => libc::POLLOUT,
            false if fd == self.from && !self.eof => libc::POLLIN,
            _ => 0,
        }
    }

    /// Moves what can be moved without waiting.
    fn turn(&mut self) -> Result<(), Broken> {
        if self.at == self.end && !self.eof {
            // SAFETY: the buffer is that long.
            match errno::took(unsafe { libc::recv(self.from, self.buf.cast::<c_void>(), PIECE, DONT) }) {
                Ok(0) => self.eof = true,
                Ok(n) => (self.at, self.end) = (0, n),
                Err(libc::EAGAIN | libc::EINTR) => {}
                Err(_) => return Err(Broken(self.from)),
            }
        }
        if self.at < self.end {
            // SAFETY: what was received lies between the two.
            let rest = unsafe { self.buf.add(self.at) }.cast::<c_void>();
            // SAFETY: as above.
            match errno::took(unsafe { libc::send(self.to, rest, self.end - self.at, DONT) }) {
                Ok(n) => self.at += n,
                Err(libc::EAGAIN | libc::EINTR) => {}
                Err(_) => return Err(Broken(self.to)),
            }
        }
        Ok(())
    }

    /// Whether everything has gone on, and the end is to follow.
    fn is_at_end(&self) -> bool {
        self.eof && self.at == self.end && !self.over
    }

    fn end(&mut self) {
        if self.is_at_end() {
            self.over = true;
            // SAFETY: a descriptor of ours.
            let _ = unsafe { libc::shutdown(self.to, libc::SHUT_WR) };
        }
    }
}

const DONT: i32 = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;

/// Both directions, until both have ended or one end broke; the other one then learns it by a reset. Where relatives have the connection as
/// well, a stranger that closes its end has closed one descriptor of several.
fn pump(conn: i32, other: i32, c: &Channel) {
    let (Some(mut to), Some(mut from)) = (Direction::new(conn, other), Direction::new(other, conn)) else {
        return;
    };
    loop {
        let turned = to.turn().and_then(|()| from.turn());
        // What is over for the stranger goes on for relatives that have the connection as well.
        let goes_on = || !c.is_ours_alone();
        match turned {
            Err(Broken(side)) if side == other && goes_on() => return,
            Err(Broken(side)) => return raw::reset_at_close(if side == conn { other } else { conn }),
            Ok(()) if from.is_at_end() && goes_on() && is_closed(other) => return,
            Ok(()) => [&mut to, &mut from].into_iter().for_each(Direction::end),
        }
        if to.over && from.over {
            return;
        }
        let mut fds = [conn, other].map(|fd| {
            let owes = if fd == conn && c.has(Conn::OWES) { libc::POLLOUT } else { 0 };
            let events = to.wants(fd) | from.wants(fd) | owes;
            // One that nothing is wanted of would be reported as hung up, again and again.
            libc::pollfd { fd: if events == 0 { -1 } else { fd }, events, revents: 0 }
        });
        // SAFETY: two entries.
        unsafe { libc::poll(fds.as_mut_ptr(), 2, -1) };
    }
}

/// Ends the process; nobody's handlers run.
pub fn exit(failed: bool) -> ! {
    loop {
        // SAFETY: a number.
        let _ = unsafe { raw::call(libc::SYS_exit_group, [usize::from(failed), 0, 0, 0, 0, 0]) };
    }
}

#[cfg(test)]
mod tests;
