//! Processes of a family: who is alive.

use dp_edge::sync::{AtomicU32, AtomicU64, Ordering};
use dp_edge::sys::raw;

/// Most processes of a family that take part at once; further ones leave their connections on TCP.
pub const MEMBERS: usize = 256;

/// One process.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Member {
    pid: AtomicU32,
    uid: AtomicU32,
    /// Start time from /proc/PID/stat, clock ticks: tells a reused pid.
    start: AtomicU64,
    name: [AtomicU64; 2],
    /// Pid namespace in which `pid` is a process; [`MOVING`] while both change.
    space: AtomicU32,
    /// Changes of its descriptor table: a child learns from it whether there were any during its fork.
    pub changes: AtomicU32,
}

/// A namespace that is nobody's: a member in it is not judged.
const MOVING: u32 = u32::MAX;
/// Of a process that could not find out which its namespace is.
const UNKNOWN: u32 = 1;

/// Our own pid namespace, 0 not looked up yet, 1 unknown (no /proc: then all unknown ones count as one).
static SPACE: AtomicU32 = AtomicU32::new(0);
/// Whether /proc speaks of our pid namespace. A child that was given a new one may still see the old /proc.
static PROC: AtomicU32 = AtomicU32::new(0);

/// The pid namespace of this process: a pid means something only together with it.
#[inline(always)]
pub fn space() -> u32 {
    match SPACE.load(Ordering::Acquire) {
        0 => find_space(),
        known => known,
    }
}

#[cold]
fn find_space() -> u32 {
    let found = raw::pid_namespace().unwrap_or(UNKNOWN);
    PROC.store(u32::from(raw::proc_is_ours()), Ordering::Relaxed);
    SPACE.store(found, Ordering::Release);
    found
}

/// In a forked child of process `parent`, if that is known: it may be the first of a namespace of its own. Whoever sees its
/// parent by the same number is not.
pub fn forked(parent: Option<u32>) {
    if parent.is_none_or(|pid| pid == 0 || raw::getppid() != pid) {
        SPACE.store(0, Ordering::Relaxed);
    }
}

/// What /proc/PID/stat says of a process.
struct Stat {
    /// Its first thread has ended, and waits for being reaped or for the others.
    ended: bool,
    /// Threads, the first one always among them.
    threads: u64,
    /// Start time, clock ticks.
    start: u64,
}

impl Stat {
    /// A process whose first thread has ended lives on in the others.
    fn dead(&self) -> bool {
        self.ended && self.threads <= 1
    }
}

fn stat_of(pid: u32) -> Option<Stat> {
    space();
    if PROC.load(Ordering::Relaxed) == 0 {
        return None;
    }
    let mut path = [0u8; 32];
    let text = {
        use std::io::Write;
        let mut w = &mut path[..31];
        write!(w, "/proc/{pid}/stat").ok()?;
        core::ffi::CStr::from_bytes_until_nul(&path).ok()?
    };
    let mut buf = [0u8; 512];
    let n = raw::read_file(text, &mut buf).ok()?;
    // The name may hold anything, so fields are counted from the last parenthesis.
    let rest = &buf[..n];
    let close = rest.iter().rposition(|&b| b == b')')?;
    let mut fields = rest.get(close + 2..)?.split(|&b| b == b' ');
    let state = *fields.next()?.first()?;
    let number = |field: &[u8]| {
        let digits = field.iter().filter(|b| b.is_ascii_digit());
        digits.fold(0u64, |n, b| n.wrapping_mul(10).wrapping_add(u64::from(b - b'0')))
    };
    let threads = number(fields.nth(16)?);
    let start = number(fields.nth(1)?);
    Some(Stat { ended: matches!(state, b'Z' | b'X'), threads, start })
}

/// When process `pid` of our pid namespace began, in clock ticks since boot.
pub fn start_of(pid: u32) -> Option<u64> {
    stat_of(pid).map(|stat| stat.start)
}

/// Whether thread `tid` of our pid namespace, of whatever process, has ended. Doubt counts as no.
pub fn is_gone_without_place(tid: u32) -> bool {
    raw::probe_process(tid) == Err(libc::ESRCH) || stat_of(tid).is_some_and(|stat| stat.dead())
}

/// Whether this process can tell whether one of pid namespace `its` has ended: by its number, there.
pub fn can_tell_of(its: u32) -> bool {
    its == space() && its != UNKNOWN
}

impl Member {
    /// Takes the place for this process if it is free. That of a process that ended is free when its marks are taken from
    /// the connections ([`Member::leave`]).
    pub fn claim(&self, pid: u32, uid: u32, name: &[u8]) -> bool {
        self.take(pid, uid, name, None)
    }

    /// `start`: when process `pid` began, if that is known.
    fn take(&self, pid: u32, uid: u32, name: &[u8], start: Option<u64>) -> bool {
        if self.pid.compare_exchange(0, pid, Ordering::AcqRel, Ordering::Relaxed).is_err() {
            return false;
        }
        self.space.store(space(), Ordering::SeqCst);
        self.uid.store(uid, Ordering::Relaxed);
        let start = start.or_else(|| stat_of(pid).map(|s| s.start));
        self.start.store(start.unwrap_or(0), Ordering::Release);
        let mut bytes = [0u8; 16];
        let n = name.len().min(16);
        bytes[..n].copy_from_slice(&name[..n]);
        for (i, w) in self.name.iter().enumerate() {
            let mut b = [0; 8];
            b.copy_from_slice(&bytes[i * 8..i * 8 + 8]);
            w.store(u64::from_le_bytes(b), Ordering::Relaxed);
        }
        true
    }

    /// A parent takes the entry for a child it is about to fork. Until [`Member::settle`] it counts as the
    /// parent's, so it is alive while the parent is.
    pub fn reserve(&self, parent: &Member, uid: u32, name: &[u8]) -> bool {
        let start = parent.start.load(Ordering::SeqCst);
        self.take(parent.pid(), uid, name, Some(start))
    }

    /// As if it were in another namespace.
    #[cfg(test)]
    pub fn set_space(&self, space: u32) {
        self.space.store(space, Ordering::SeqCst);
    }

    /// The child is there, in the place that has said `parent` until now. False: the parent ended meanwhile, and the place is
    /// free, or somebody else's. When it began is found out later ([`Member::complete`]): most children that end soon need
    /// not know.
    pub fn settle(&self, parent: u32, child: u32) -> bool {
        if self.pid() != parent {
            return false;
        }
        // Never a pid with another's start time or namespace: that would read as a dead process.
        self.space.store(MOVING, Ordering::SeqCst);
        self.start.store(0, Ordering::SeqCst);
        let ours = self.pid.compare_exchange(parent, child, Ordering::SeqCst, Ordering::SeqCst).is_ok();
        if ours || self.pid() != 0 {
            self.space.store(space(), Ordering::SeqCst);
        }
        ours
    }

    /// Notes when this process, which is alive, began.
    pub fn complete(&self) {
        if self.start.load(Ordering::SeqCst) == 0 {
            self.note(self.pid());
        }
    }

    fn note(&self, pid: u32) {
        let start = if pid == 0 { 0 } else { stat_of(pid).map_or(0, |s| s.start) };
        // Only that of the process that was asked for, and that has the place now.
        if start != 0 && self.is(pid) {
            let _ = self.start.compare_exchange(0, start, Ordering::SeqCst, Ordering::Relaxed);
        }
    }

    /// The process leaves (its connections went elsewhere, or it could not be forked after all).
    pub fn clear(&self) {
        self.leave(self.pid());
    }

    /// Process `pid`, if it is this one, is no member any more: no connection has its mark.
    pub fn leave(&self, pid: u32) {
        if self.pid() != pid {
            return;
        }
        // The next one's namespace and start time are not known at once.
        self.space.store(MOVING, Ordering::SeqCst);
        self.start.store(0, Ordering::SeqCst);
        let _ = self.pid.compare_exchange(pid, 0, Ordering::AcqRel, Ordering::Relaxed);
    }

    /// Whether the kernel knows no such process: a quick look that [`Member::alive`] completes.
    pub fn is_gone(&self) -> bool {
        let (place, pid) = (self.space.load(Ordering::SeqCst), self.pid());
        let gone = pid != 0 && place == space() && raw::probe_process(pid) == Err(libc::ESRCH);
        gone && self.pid() == pid && self.space.load(Ordering::SeqCst) == place
    }

    /// Its process id, 0 when the entry is free.
    pub fn pid(&self) -> u32 {
        self.pid.load(Ordering::Acquire)
    }

    /// Whether it is process `pid` of our own pid namespace.
    pub fn is(&self, pid: u32) -> bool {
        self.pid() == pid && self.space.load(Ordering::SeqCst) == space()
    }

    /// The pid namespace in which [`Member::pid`] is its number.
    pub fn space(&self) -> u32 {
        self.space.load(Ordering::SeqCst)
    }

    /// Whether [`Member::pid`] may be a number of pid namespace `space`: it is, nobody knows, or both change just now.
    pub fn may_be_in(&self, space: u32) -> bool {
        [space, UNKNOWN, MOVING].contains(&self.space())
    }

    /// Its effective user id when it joined.
    pub fn uid(&self) -> u32 {
        self.uid.load(Ordering::Relaxed)
    }

    /// The program's name, as far as 16 bytes go.
    pub fn name(&self) -> String {
        let bytes: Vec<u8> = self
            .name
            .iter()
            .flat_map(|w| w.load(Ordering::Relaxed).to_le_bytes())
            .take_while(|&b| b != 0)
            .collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Whether the process still runs. Doubt (no /proc, another pid namespace) counts as alive.
    pub fn alive(&self) -> bool {
        let place = self.space.load(Ordering::SeqCst);
        let pid = self.pid();
        let dead = match pid {
            0 => true,
            _ if place != space() => false,
            _ if raw::probe_process(pid) == Err(libc::ESRCH) => true,
            _ => match stat_of(pid) {
                Some(stat) => {
                    let ours = self.start.load(Ordering::SeqCst);
                    stat.dead() || (ours != 0 && ours != stat.start)
                }
                None => false,
            },
        };
        // A child settled in between: pid and start time were not of one process.
        let moved = || self.pid.load(Ordering::SeqCst) != pid || self.space.load(Ordering::SeqCst) != place;
        !dead || moved()
    }

    /// Whether its thread `tid` still runs. Doubt counts as alive, and so does a thread that has the number of one that
    /// ended.
    pub fn has_thread(&self, tid: u32) -> bool {
        let place = self.space.load(Ordering::SeqCst);
        let pid = self.pid();
        let ended = pid != 0
            && place == space()
            && match raw::probe_thread(pid, tid) {
                Err(e) => e == libc::ESRCH,
                // The first thread keeps its number until the last one has ended.
                Ok(()) => pid == tid && stat_of(pid).is_some_and(|stat| stat.ended),
            };
        let moved = || self.pid() != pid || self.space.load(Ordering::SeqCst) != place;
        !ended || moved()
    }
}
