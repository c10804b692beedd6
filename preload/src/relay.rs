//! When a descriptor is given away and its channel cannot follow.
//!
//! Who leaves a channel asks the sender to take back what is unread ([`crate::leave`]). A sender that is on TCP
//! already, has shut down, closed or died cannot: what it put on TCP would come before the rest of the ring. Then
//! a small process of our own goes on reading the channel, and the stranger gets an end of a plain connection to
//! it:
//!
//! ```text
//!   peer ==== channel, TCP ==== relay ---- TCP on the same addresses ---- stranger
//! ```
//!
//! The relay is a program that uses hooked calls like any other, so order, switches, FIN and reset are what they
//! always are. It is a copy of the process that gave the descriptor, without its descriptors, signals and
//! session, and ends when both directions have. The stranger's end is kept here, out of the program's way, for
//! further copies of the same connection, as long as the program has the connection itself.

mod run;

use core::sync::atomic::{AtomicI32, AtomicPtr, Ordering};

use dpfd::family::{Conn, Family, CONNS, MEMBERS};
use dpfd::sys::{raw, tcp};

use crate::fdtable::{self, Entry};
use crate::{channel, life, state};

/// The stranger's end by connection, plus one; 0 none. Null as long as there was no relay.
static ENDS: AtomicPtr<AtomicI32> = AtomicPtr::new(core::ptr::null_mut());

/// The table of [`ENDS`] is there from now on, unless there is no memory for it.
fn prepare() {
    let bytes = CONNS * size_of::<AtomicI32>();
    if !ENDS.load(Ordering::Acquire).is_null() {
        return;
    }
    let Some(p) = state::reserve(bytes) else { return };
    if ENDS.compare_exchange(core::ptr::null_mut(), p, Ordering::AcqRel, Ordering::Relaxed).is_err() {
        // SAFETY: just mapped; another thread was faster, and nobody has seen this one.
        let _ = unsafe { raw::call(libc::SYS_munmap, [p as usize, bytes, 0, 0, 0, 0]) };
    }
}

fn kept(i: u32) -> Option<&'static AtomicI32> {
    let p = ENDS.load(Ordering::Acquire);
    // SAFETY: CONNS entries, zero at first; the index is masked to them.
    (!p.is_null()).then(|| unsafe { &*p.add(i as usize & (CONNS - 1)) })
}

/// The end to give away in place of connection `i`, if there is a relay for it.
pub fn end(i: u32) -> Option<i32> {
    kept(i).and_then(|k| k.load(Ordering::Acquire).checked_sub(1)).filter(|fd| *fd >= 0)
}

/// The program has no descriptor of connection `i` any more.
pub fn forget(i: u32) {
    let Some(k) = kept(i) else { return };
    if let fd @ 1.. = k.swap(0, Ordering::AcqRel) {
        fdtable::set(fd - 1, Entry::None);
        raw::close(fd - 1);
    }
}

/// Starts a relay for connection `i` behind `fd`: the end to give away.
pub fn start(family: Family, fd: i32, i: u32) -> Option<i32> {
    let c = family.conn(i);
    let (ours, theirs) = pair(fd, c)?;
    let started = reserve(family, c).is_some_and(|n| {
        let started = split(family, n, || run::relay(family, fd, i, theirs, n));
        if !started {
            release(family, c, n);
        }
        started
    });
    raw::close(theirs);
    if !started {
        raw::close(ours);
        return None;
    }
    let ours = state::high_fd(ours)?;
    // A child of vfork shares the table with a parent that does not have this descriptor.
    if !state::is_borrowed_memory() {
        prepare();
        if let Some(k) = kept(i) {
            fdtable::mark_internal(ours);
            k.store(ours + 1, Ordering::Release);
        }
    }
    Some(ours)
}

/// Puts the end at `fd`, in place of the connection, with the same flags.
pub fn put_at(end: i32, fd: i32) {
    let flags = raw::fcntl(fd, libc::F_GETFD, 0).unwrap_or(0);
    // With the last descriptor of the connection the kept one goes as well.
    let Ok(copy) = raw::fcntl(end, libc::F_DUPFD_CLOEXEC, 3) else { return };
    life::before_close(fd);
    let cloexec = if flags as i32 & libc::FD_CLOEXEC != 0 { libc::O_CLOEXEC } else { 0 };
    // SAFETY: descriptors only.
    let _ = unsafe { raw::call(libc::SYS_dup3, [copy, fd as usize, cloexec as usize, 0, 0, 0]) };
    raw::close(copy as i32);
}

/// A TCP connection between the addresses of `fd`'s, on other ports: (the stranger's end, the relay's end).
fn pair(fd: i32, c: &Conn) -> Option<(i32, i32)> {
    let (mut local, mut peer) = (Name::of(fd, libc::SYS_getsockname)?, Name::of(fd, libc::SYS_getpeername)?);
    local.any_port();
    peer.any_port();
    let socket = || raw::socket(local.family(), libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0).ok();
    let listener = socket()?;
    let far = socket();
    let near = far.and_then(|far| {
        local.bind(listener).then_some(())?;
        raw::listen(listener, 8).ok()?;
        peer.bind(far);
        let at = Name::of(listener, libc::SYS_getsockname)?;
        // SAFETY: the name outlives the call. Both ends are ours, so it does not wait.
        unsafe { raw::connect(far, at.ptr(), at.len) }.ok()?;
        // Somebody else may have come in between.
        (0..16).find_map(|_| {
            let near = raw::accept(listener, libc::SOCK_CLOEXEC).ok()?;
            if tcp::peer(near) == tcp::local(far) {
                return Some(near);
            }
            raw::close(near);
            None
        })
    });
    raw::close(listener);
    match (near, far) {
        (Some(near), Some(far)) => {
            like(near, fd, c);
            let _ = raw::setsockopt_int(far, libc::IPPROTO_TCP, libc::TCP_NODELAY, 1);
            Some((near, far))
        }
        (_, far) => {
            far.into_iter().for_each(raw::close);
            None
        }
    }
}

/// Gives `to` what the program had set on `from`.
fn like(to: i32, from: i32, c: &Conn) {
    if raw::is_nonblocking(from) {
        let flags = raw::fcntl(to, libc::F_GETFL, 0).unwrap_or(0);
        let _ = raw::fcntl(to, libc::F_SETFL, flags | libc::O_NONBLOCK as usize);
    }
    let _ = raw::setsockopt_int(to, libc::IPPROTO_TCP, libc::TCP_NODELAY, i32::from(c.has(Conn::NODELAY)));
    for name in [libc::SO_KEEPALIVE, libc::SO_LINGER, libc::SO_RCVTIMEO, libc::SO_SNDTIMEO] {
        let mut value = [0u64; 4];
        let mut len = size_of_val(&value) as libc::socklen_t;
        let (p, n) = (value.as_mut_ptr() as usize, &raw mut len as usize);
        let args = [from as usize, libc::SOL_SOCKET as usize, name as usize, p, n, 0];
        // SAFETY: the buffer is as long as `len` says.
        if unsafe { raw::call(libc::SYS_getsockopt, args) }.is_ok() {
            let args = [to as usize, libc::SOL_SOCKET as usize, name as usize, p, len as usize, 0];
            // SAFETY: as much as the kernel wrote.
            let _ = unsafe { raw::call(libc::SYS_setsockopt, args) };
        }
    }
}

/// A socket's name as the kernel writes it, scope and all.
struct Name {
    bytes: [u64; 16],
    len: u32,
}

impl Name {
    fn of(fd: i32, call: libc::c_long) -> Option<Name> {
        let mut n = Name { bytes: [0; 16], len: 128 };
        let args = [fd as usize, n.bytes.as_mut_ptr() as usize, &raw mut n.len as usize, 0, 0, 0];
        // SAFETY: the buffer is as long as `len` says.
        unsafe { raw::call(call, args) }.ok()?;
        matches!(n.family(), libc::AF_INET | libc::AF_INET6).then_some(n)
    }

    fn ptr(&self) -> *const libc::sockaddr {
        self.bytes.as_ptr().cast()
    }

    fn family(&self) -> i32 {
        // SAFETY: every address begins with its family.
        i32::from(unsafe { (*self.ptr()).sa_family })
    }

    /// Both families keep the port in the same place.
    fn any_port(&mut self) {
        // SAFETY: 128 bytes, longer than either address.
        unsafe { (*self.bytes.as_mut_ptr().cast::<libc::sockaddr_in>()).sin_port = 0 };
    }

    fn bind(&self, fd: i32) -> bool {
        // SAFETY: the name outlives the call.
        unsafe { raw::bind(fd, self.ptr(), self.len) }.is_ok()
    }
}

/// Starts a process that puts on TCP what this one cannot wait for; until it has, the connection is
/// [`Conn::PUSHED`]. `push` is given the descriptor, and the error it returns is for the program's next call. Under
/// the sender's lock.
pub fn push(family: Family, fd: i32, c: &Conn, push: impl FnOnce(i32) -> Result<(), i32>) -> bool {
    let (Some(i), Some(n)) = (fdtable::conn(fd), reserve(family, c)) else { return false };
    // Who it is comes before that there is one: whoever finds it dead resets the connection. So on the way back, too.
    c.pusher.store(n, Ordering::Release);
    c.set(Conn::PUSHED);
    let started = split(family, n, || run::push(family, fd, i, n, push));
    if !started {
        c.clear(Conn::PUSHED);
        release(family, c, n);
    }
    started
}

/// A place among the members for a process that has connection `c`. Until the process is there, it counts as alive
/// while this one is.
fn reserve(family: Family, c: &Conn) -> Option<u32> {
    // SAFETY: no arguments, no failure.
    let (pid, uid) = (raw::getpid(), unsafe { libc::geteuid() });
    let n = (0..MEMBERS as u32).find(|&n| family.member(n as usize).reserve(pid, uid, b"dp-relay"))?;
    c.holders.fetch_or(1 << n, Ordering::AcqRel);
    if let Some(s) = channel::slot(c) {
        s.shared.store(1, Ordering::Relaxed);
    }
    Some(n)
}

/// There is no such process after all.
fn release(family: Family, c: &Conn, n: u32) {
    c.holders.fetch_and(!(1 << n), Ordering::AcqRel);
    family.member(n as usize).clear();
}

/// How often it is looked whether a process that was started is there, and for how long a look waits, ns.
const LOOKS: u32 = 1000;
const LOOK: u32 = 50_000;

/// Starts a process, member `n` of the family. Its parent is gone at once, so nobody here has a child to wait for, and
/// the program is sent no SIGCHLD. Signals are blocked meanwhile: a handler of the program's must not run in a copy of
/// it. The child lets them in when the handlers are no longer its own ([`run`]).
fn split(family: Family, n: u32, child: impl FnOnce()) -> bool {
    let blocked = raw::block_signals();
    let started = split_unheard(family, n, child);
    raw::set_blocked_signals(blocked);
    started
}

fn split_unheard(family: Family, n: u32, child: impl FnOnce()) -> bool {
    let member = family.member(n as usize);
    let program = member.pid();
    match clone() {
        Ok(0) => match clone() {
            Ok(0) => {
                child();
                run::exit(false)
            }
            Ok(_) => {
                // The program may end as soon as this process has: its child must count by itself by then.
                (0..LOOKS).take_while(|_| member.pid() == program).for_each(|_| raw::nap(LOOK));
                run::exit(false)
            }
            Err(_) => run::exit(true),
        },
        Ok(first) => {
            let mut status = 0i32;
            let args = [first, &raw mut status as usize, libc::__WCLONE as usize, 0, 0, 0];
            // SAFETY: the status outlives the call.
            while unsafe { raw::call(libc::SYS_wait4, args) } == Err(libc::EINTR) {}
            status == 0
        }
        Err(_) => false,
    }
}

/// A fork that runs nobody's handlers, and whose end raises no signal.
fn clone() -> Result<usize, i32> {
    // SAFETY: no flags: memory is copied, the stack too.
    unsafe { raw::call(libc::SYS_clone, [0; 6]) }
}
