//! What the tests share.

use std::cell::RefCell;
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::Once;
use std::time::{Duration, Instant};

use dpfd::driver::user::list::{self, Said, State};
use dpfd::driver::user::registry::Registry;
use dpfd::driver::Driver;
use dpfd::{Addr, Dpid, Endpoint};
use nix::poll::{poll, PollFd, PollFlags, PollTimeout};

/// How long anything may take that happens at all.
pub const SOON: Duration = Duration::from_secs(20);

/// Longest message, bytes.
const LONGEST: usize = 16 << 20;

/// A folder of this test run's own.
pub fn folder() -> std::path::PathBuf {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let dir = std::env::temp_dir().join(format!("dp-conformance-{}", std::process::id()));
        std::env::set_var("DP_RUNTIME_DIR", dir);
    });
    std::env::var_os("DP_RUNTIME_DIR").expect("set above").into()
}

/// `n` numbers that no other test of this process uses; the first of them.
pub fn numbers(n: u16) -> Dpid {
    static NEXT: AtomicU16 = AtomicU16::new(2000);
    NEXT.fetch_add(n, Ordering::Relaxed)
}

pub fn open(driver: Driver, dpid: Dpid) -> Endpoint {
    folder();
    Endpoint::open_on(driver, dpid).expect("a free number")
}

/// Opens a number that was closed: a child that another test forked meanwhile may hold it a little longer.
pub fn reopen(driver: Driver, dpid: Dpid) -> Endpoint {
    let mut opened = None;
    until("the number is free", || {
        opened = Endpoint::open_on(driver, dpid).ok();
        opened.is_some()
    });
    opened.expect("it was free")
}

/// Two endpoints, the first with the second as its target.
pub fn pair(driver: Driver) -> (Endpoint, Endpoint) {
    let first = numbers(2);
    let (a, b) = (open(driver, first), open(driver, first + 1));
    a.target(b.addr()).expect("a target");
    (a, b)
}

/// The same, the second in pool mode.
pub fn pooled(driver: Driver, pool: usize) -> (Endpoint, Endpoint) {
    let (a, b) = pair(driver);
    b.pool(pool).expect("a pool");
    (a, b)
}

/// The descriptor as a file, for plain calls.
pub fn file(e: &Endpoint) -> File {
    e.as_fd().try_clone_to_owned().expect("a duplicate").into()
}

pub fn write(e: &Endpoint, bytes: &[u8]) {
    assert_eq!(file(e).write(bytes).expect("a write"), bytes.len());
}

pub fn read(e: &Endpoint) -> Vec<u8> {
    thread_local! {
        static BUF: RefCell<Vec<u8>> = RefCell::new(vec![0; LONGEST + 1]);
    }
    BUF.with_borrow_mut(|buf| {
        let n = file(e).read(buf).expect("a read");
        buf[..n].to_vec()
    })
}

pub fn recv(e: &Endpoint) -> Vec<u8> {
    e.recv().expect("a message").to_vec()
}

/// A message that tells its number, of any length from 8 on.
pub fn numbered(i: u64, len: usize) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..len).map(|k| (i as usize * 31 + k * 7 + k / 251) as u8).collect();
    bytes[..8].copy_from_slice(&i.to_ne_bytes());
    bytes
}

pub fn number_of(bytes: &[u8]) -> u64 {
    u64::from_ne_bytes(bytes[..8].try_into().expect("eight bytes"))
}

pub fn events(fd: BorrowedFd<'_>, want: PollFlags, wait: Duration) -> PollFlags {
    let mut fds = [PollFd::new(fd, want)];
    let ms = PollTimeout::try_from(wait).expect("a short wait");
    loop {
        match poll(&mut fds, ms) {
            Ok(_) => return fds[0].revents().unwrap_or(PollFlags::empty()),
            Err(nix::Error::EINTR) => {}
            Err(e) => panic!("poll: {e}"),
        }
    }
}

pub fn readable(e: &Endpoint) -> bool {
    events(e.as_fd(), PollFlags::POLLIN, Duration::ZERO).contains(PollFlags::POLLIN)
}

/// Whether it tells of nothing, all messages being read. One that was taken before its sender rang for it may have left a
/// bell, which goes with the next call.
pub fn is_quiet(e: &Endpoint) -> bool {
    if readable(e) {
        e.set_nonblocking(true).expect("a flag");
        assert!(e.recv().is_err_and(|error| error.errno() == libc::EAGAIN), "a message is left");
        e.set_nonblocking(false).expect("a flag");
    }
    !readable(e)
}

pub fn becomes_readable(e: &Endpoint) -> bool {
    events(e.as_fd(), PollFlags::POLLIN, SOON).contains(PollFlags::POLLIN)
}

pub fn writable(e: &Endpoint) -> bool {
    events(e.as_fd(), PollFlags::POLLOUT, Duration::ZERO).contains(PollFlags::POLLOUT)
}

/// Waits until `f`.
pub fn until(what: &str, mut f: impl FnMut() -> bool) {
    let end = Instant::now() + SOON;
    while !f() {
        assert!(Instant::now() < end, "{what}: not within {SOON:?}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Whether what `a` sends to `b` goes straight into its pool. With the kernel driver it always does; with the
/// library's once there is an edge: its process says so.
pub fn is_direct(driver: Driver, a: &Endpoint, b: &Endpoint) -> bool {
    if driver == Driver::Kernel {
        return true;
    }
    folder();
    let (from, to) = (a.dpid(), b.dpid());
    // In another process: one that has endpoints would give up its own lock by looking at it.
    child(|| {
        let registry = Registry::open_existing().expect("the folder").expect("a folder");
        list::list(&registry, SOON).into_iter().filter(|seen| seen.dpid == from).any(|seen| {
            let Said::Account(account) = seen.said else { return false };
            account.to.iter().flatten().any(|link| link.to.1 == to && link.state == State::Edge)
        })
    })
    .says()
}

/// Whether who reads plainly can have only what a packet of a socket carries.
pub fn is_plainly_limited(driver: Driver) -> bool {
    driver == Driver::User
}

/// Whether endpoints find each other in a folder.
pub fn needs_a_folder(driver: Driver) -> bool {
    driver == Driver::User
}

/// Bytes of messages that wait for a plain reader without a sender waiting for room, at least.
pub fn plain_room(driver: Driver) -> usize {
    match driver {
        Driver::User => 200_000,
        // Of a pool of 131072.
        Driver::Kernel => 100_000,
    }
}

pub fn is_would_block(e: &dpfd::Error) -> bool {
    e.errno() == libc::EAGAIN
}

pub fn read_would_block(e: &Endpoint) -> bool {
    matches!(file(e).read(&mut [0; 16]), Err(e) if e.kind() == ErrorKind::WouldBlock)
}

pub fn local(dpid: Dpid) -> Addr {
    Addr::local(dpid)
}

/// The bytes that FIONREAD tells.
pub fn fionread(e: &Endpoint) -> i32 {
    let mut n = 0;
    // SAFETY: FIONREAD fills an int.
    assert_eq!(unsafe { libc::ioctl(e.as_raw_fd(), libc::FIONREAD, &mut n) }, 0);
    n
}

/// Runs `f` in a forked child, which must say true.
#[must_use]
pub fn child(f: impl FnOnce() -> bool) -> Child {
    // SAFETY: the child runs `f` and leaves; what other threads held at the fork it does not touch but through
    // the library, which says what a child may call.
    match unsafe { nix::unistd::fork() }.expect("a fork") {
        nix::unistd::ForkResult::Child => {
            // One that runs for ever does not outlive a test that failed.
            let _ = nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL);
            let yes = std::panic::catch_unwind(std::panic::AssertUnwindSafe(f)).unwrap_or(false);
            // SAFETY: ends the child at once.
            unsafe { libc::_exit(i32::from(!yes)) }
        }
        nix::unistd::ForkResult::Parent { child } => Child(child),
    }
}

pub struct Child(pub nix::unistd::Pid);

impl Child {
    /// What the child found.
    pub fn says(self) -> bool {
        use nix::sys::wait::{waitpid, WaitStatus};
        waitpid(self.0, None).expect("a child") == WaitStatus::Exited(self.0, 0)
    }

    pub fn ok(self) {
        use nix::sys::wait::{waitpid, WaitStatus};
        let status = waitpid(self.0, None).expect("a child");
        assert_eq!(status, WaitStatus::Exited(self.0, 0), "what the child found");
    }
}
