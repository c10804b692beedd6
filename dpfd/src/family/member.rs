//! Processes of a family: who is alive.

use crate::sync::{AtomicU32, AtomicU64, Ordering};
use crate::sys::raw;

/// Most processes of a family that take part at once; further ones leave their connections on TCP.
pub const MEMBERS: usize = 64;

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
}

/// A namespace that is nobody's: a member in it is not judged.
const MOVING: u32 = u32::MAX;

/// Our own pid namespace, 0 not looked up yet, 1 unknown (no /proc: then all unknown ones count as one).
static SPACE: AtomicU32 = AtomicU32::new(0);
/// Whether /proc speaks of our pid namespace. A child that was given a new one may still see the old /proc.
static PROC: AtomicU32 = AtomicU32::new(0);

/// The pid namespace of this process: a pid means something only together with it.
pub fn space() -> u32 {
    match SPACE.load(Ordering::Acquire) {
        0 => {
            let found = raw::pid_namespace().unwrap_or(1);
            PROC.store(u32::from(raw::proc_is_ours()), Ordering::Relaxed);
            SPACE.store(found, Ordering::Release);
            found
        }
        known => known,
    }
}

/// In a forked child: it may be the first of a namespace of its own.
pub fn forked() {
    SPACE.store(0, Ordering::Relaxed);
}

/// Process state and start time from /proc/PID/stat.
fn stat_of(pid: u32) -> Option<(u8, u64)> {
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
    let start = fields.nth(18)?;
    Some((
        state,
        start
            .iter()
            .filter(|b| b.is_ascii_digit())
            .fold(0u64, |n, b| n.wrapping_mul(10).wrapping_add(u64::from(b - b'0'))),
    ))
}

/// When process `pid` of our pid namespace began, in clock ticks since boot.
pub fn start_of(pid: u32) -> Option<u64> {
    stat_of(pid).map(|(_, start)| start)
}

impl Member {
    /// Takes the entry for this process if it is free or its owner is dead.
    pub fn claim(&self, pid: u32, uid: u32, name: &[u8]) -> bool {
        let old = self.pid.load(Ordering::Acquire);
        if self.is(pid) || (old != 0 && self.alive()) {
            return false;
        }
        // The dead owner's start time must not be taken for ours.
        self.start.store(0, Ordering::SeqCst);
        if self.pid.compare_exchange(old, pid, Ordering::AcqRel, Ordering::Relaxed).is_err() {
            return false;
        }
        self.space.store(space(), Ordering::SeqCst);
        self.uid.store(uid, Ordering::Relaxed);
        self.start.store(stat_of(pid).map_or(0, |s| s.1), Ordering::Release);
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
    pub fn reserve(&self, parent: u32, uid: u32, name: &[u8]) -> bool {
        let old = self.pid.load(Ordering::Acquire);
        if self.is(parent) || (old != 0 && self.alive()) {
            return false;
        }
        self.pid.compare_exchange(old, 0, Ordering::AcqRel, Ordering::Relaxed).is_ok()
            && self.claim(parent, uid, name)
    }

    /// As if it were in another namespace.
    #[cfg(test)]
    pub fn set_space(&self, space: u32) {
        self.space.store(space, Ordering::SeqCst);
    }

    /// The child is there.
    pub fn settle(&self, child: u32) {
        // Never a pid with another's start time or namespace: that would read as a dead process.
        self.space.store(MOVING, Ordering::SeqCst);
        self.start.store(0, Ordering::SeqCst);
        self.pid.store(child, Ordering::SeqCst);
        self.start.store(stat_of(child).map_or(0, |s| s.1), Ordering::SeqCst);
        self.space.store(space(), Ordering::SeqCst);
    }

    /// The process leaves (its connections went elsewhere, or it could not be forked after all).
    pub fn clear(&self) {
        self.pid.store(0, Ordering::Release);
    }

    /// Its process id, 0 when the entry is free.
    pub fn pid(&self) -> u32 {
        self.pid.load(Ordering::Acquire)
    }

    /// Whether it is process `pid` of our own pid namespace.
    pub fn is(&self, pid: u32) -> bool {
        self.pid() == pid && self.space.load(Ordering::SeqCst) == space()
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
                Some((b'Z' | b'X', _)) => true,
                Some((_, start)) => {
                    let ours = self.start.load(Ordering::SeqCst);
                    ours != 0 && ours != start
                }
                None => false,
            },
        };
        // A child settled in between: pid and start time were not of one process.
        let moved = || self.pid.load(Ordering::SeqCst) != pid || self.space.load(Ordering::SeqCst) != place;
        !dead || moved()
    }
}
