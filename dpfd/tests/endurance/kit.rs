//! What the tests share: processes, what they tell each other, what the kernel tells of them.

use std::cell::Cell;
use std::fs;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, Once};
use std::time::{Duration, Instant};

use nix::sys::mman::{mmap_anonymous, MapFlags, ProtFlags};
use nix::sys::signal::{kill, Signal};
use nix::sys::wait::{waitpid, WaitPidFlag, WaitStatus};
use nix::unistd::Pid;

/// How long anything may take that happens at all.
pub const SOON: Duration = Duration::from_secs(20);

/// These tests look at times and loads, so they take turns.
pub fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Whether much time may be taken.
pub fn long() -> bool {
    std::env::var("DP_LONG").is_ok_and(|value| value == "1")
}

/// How long one attack goes on.
pub fn attack_time() -> Duration {
    if long() {
        Duration::from_secs(10)
    } else {
        Duration::from_millis(600)
    }
}

/// A folder of this test run's own.
pub fn folder() -> PathBuf {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let dir = std::env::temp_dir().join(format!("dp-endurance-{}", std::process::id()));
        std::env::set_var("DP_RUNTIME_DIR", dir);
    });
    std::env::var_os("DP_RUNTIME_DIR").expect("set above").into()
}

/// Numbers that differ from run to run, unless `DP_SEED` says which.
pub struct Random {
    /// Where it began.
    pub seed: u64,
    state: u64,
}

impl Random {
    pub fn new() -> Random {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
        let seed = std::env::var("DP_SEED").ok().and_then(|text| text.parse().ok());
        Random::from(seed.unwrap_or(u64::from(now.subsec_nanos())))
    }
    pub fn from(seed: u64) -> Random {
        Random { seed, state: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1 }
    }
    pub fn next(&mut self) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state
    }
    pub fn below(&mut self, limit: u64) -> u64 {
        (self.next() >> 16) % limit
    }
    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.below(256) as u8).collect()
    }
}

/// Numbers that a test and its processes share.
#[derive(Clone, Copy)]
pub struct Board(&'static [AtomicU64; 64]);

impl Board {
    pub fn new() -> Board {
        let len = size_of::<[AtomicU64; 64]>().try_into().expect("more than nothing");
        let (rw, shared) = (ProtFlags::PROT_READ | ProtFlags::PROT_WRITE, MapFlags::MAP_SHARED);
        // SAFETY: a new mapping where the kernel chooses, of zeros, which are atomics; it is never unmapped.
        Board(unsafe { mmap_anonymous(None, len, rw, shared).expect("a page").cast().as_ref() })
    }
    pub fn get(&self, at: usize) -> u64 {
        self.0[at].load(Ordering::SeqCst)
    }
    pub fn set(&self, at: usize, value: u64) {
        self.0[at].store(value, Ordering::SeqCst);
    }
    pub fn add(&self, at: usize, value: u64) {
        self.0[at].fetch_add(value, Ordering::SeqCst);
    }
}

/// A process that runs `f` and says whether it went well; killed when dropped.
pub struct Child {
    pid: Pid,
    status: Cell<Option<WaitStatus>>,
}

/// Forks.
pub fn child(f: impl FnOnce() -> bool) -> Child {
    folder();
    // SAFETY: the child runs `f` and leaves; what other threads held at the fork it touches only through the
    // library, which says what a child may call.
    match unsafe { nix::unistd::fork() }.expect("a fork") {
        nix::unistd::ForkResult::Child => {
            let _ = nix::sys::prctl::set_pdeathsig(Signal::SIGKILL);
            // It holds nothing of what the test has open by now. SAFETY: nothing that is used owns any of them.
            unsafe { libc::close_range(3, u32::MAX, 0) };
            let yes = std::panic::catch_unwind(std::panic::AssertUnwindSafe(f)).unwrap_or(false);
            // SAFETY: ends the child at once.
            unsafe { libc::_exit(i32::from(!yes)) }
        }
        nix::unistd::ForkResult::Parent { child } => Child { pid: child, status: Cell::new(None) },
    }
}

impl Child {
    pub fn pid(&self) -> i32 {
        self.pid.as_raw()
    }
    pub fn kill(&self) {
        let _ = kill(self.pid, Signal::SIGKILL);
    }
    /// How it ended, if it did.
    pub fn ended(&self) -> Option<WaitStatus> {
        if self.status.get().is_none() {
            match waitpid(self.pid, Some(WaitPidFlag::WNOHANG)).expect("a child") {
                WaitStatus::StillAlive => {}
                status => self.status.set(Some(status)),
            }
        }
        self.status.get()
    }
    /// Waits for its end, which must be a good one.
    pub fn ok(self) {
        until("a process ends", || self.ended().is_some());
        assert_eq!(self.ended(), Some(WaitStatus::Exited(self.pid, 0)), "what the process found");
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if self.ended().is_none() {
            self.kill();
            let _ = waitpid(self.pid, None);
        }
    }
}

/// Waits until `f`.
pub fn until(what: &str, mut f: impl FnMut() -> bool) {
    assert!(comes_true(SOON, &mut f), "{what}: not within {SOON:?}");
}

/// Waits until `f`, so long.
pub fn comes_true(limit: Duration, mut f: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + limit;
    while !f() {
        if Instant::now() >= end {
            return false;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    true
}

/// What the descriptors of a process stand for.
pub fn descriptors(pid: i32) -> Vec<String> {
    let entries = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let target = |e: fs::DirEntry| Some(fs::read_link(e.path()).ok()?.to_string_lossy().into_owned());
    entries.filter_map(target).collect()
}

/// Mappings of a process, and KiB of memory that it has touched.
pub fn memory(pid: i32) -> (usize, u64) {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let rss = status.lines().find_map(|l| l.strip_prefix("VmRSS:"));
    let kib = rss.and_then(|text| text.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0);
    (maps.lines().count(), kib)
}

/// Processor time of a process's service, or of all of it.
pub fn cpu(pid: i32, only_service: bool) -> Duration {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let ns = tasks.filter_map(|task| {
        let name = fs::read_to_string(task.path().join("comm")).ok()?;
        if only_service && name.trim() != "dp-service" {
            return None;
        }
        // On the processor, ns; waited; slices.
        fs::read_to_string(task.path().join("schedstat")).ok()?.split(' ').next()?.parse::<u64>().ok()
    });
    Duration::from_nanos(ns.sum())
}

/// Says what could not be tried here.
pub fn skip(what: &str) {
    use std::io::Write;
    println!("SKIP: {what}");
    if let Some(path) = std::env::var_os("DP_SKIPS") {
        let file = fs::File::options().append(true).create(true).open(path);
        let _ = file.and_then(|mut file| writeln!(file, "SKIP: {what}"));
    }
}

/// Descriptors this process may have from now on.
pub fn limit_descriptors(n: u64) {
    use nix::sys::resource::{getrlimit, setrlimit, Resource};
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).expect("a limit");
    setrlimit(Resource::RLIMIT_NOFILE, n.min(hard), hard).expect("a limit");
}

/// All the descriptors there may be but so many.
pub fn use_up_descriptors(but: usize) -> Vec<fs::File> {
    let null = fs::File::open("/dev/null").expect("/dev/null");
    let mut all = vec![null];
    while let Ok(copy) = all[0].try_clone() {
        all.push(copy);
    }
    all.truncate(all.len() - but);
    assert!(all.iter().all(|f| f.as_raw_fd() > 2));
    all
}
