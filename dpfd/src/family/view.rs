//! The family's memory as an observer (`dp ls`) reads it: through /proc, read-only, believing nothing.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;

use super::{Conn, Family, Member, Reason, Stage, LEN, MAGIC, MEMBERS, NAME, VERSION};
use crate::edge::ring::LINE;
use crate::edge::slot::Side;
use crate::edge::switch::in_ring;
use crate::sync::Ordering;
use crate::sys::tcp::Addr;

/// A family found on this machine.
#[derive(Debug)]
pub struct View {
    family: Family,
    // Keeps the mapping alive.
    _map: memmap2::MmapRaw,
    /// Inode of the memory: the same for all processes of the family.
    pub inode: u64,
    /// The process through which it was found.
    pub pid: u32,
}

/// One connection at one moment.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// Process and descriptor that had it first.
    pub pid: u32,
    /// See `pid`.
    pub fd: u32,
    /// How far it has come.
    pub stage: Stage,
    /// Client or server end; `None` unknown.
    pub side: Option<Side>,
    /// This end.
    pub local: Addr,
    /// The other end.
    pub peer: Addr,
    /// Bytes sent and received through the rings.
    pub tx_bytes: u64,
    /// See `tx_bytes`.
    pub rx_bytes: u64,
    /// Bells this end sent.
    pub bells: u64,
    /// Times this end's sender handed back to TCP.
    pub back: u64,
    /// Whether the receive direction is in its ring now.
    pub rx_ring: bool,
    /// Bytes of the ring into which this end sends, or sent; of a connection that never was a channel, anything.
    pub tx_ring: u64,
    /// Why it is on TCP.
    pub reason: Reason,
}

impl View {
    /// All families whose processes this user may look into, each once, ordered by pid.
    ///
    /// # Errors
    ///
    /// When /proc cannot be listed. Processes that vanish or are not ours to see are passed over.
    pub fn all() -> io::Result<Vec<View>> {
        let mut pids: Vec<u32> =
            fs::read_dir("/proc")?.flatten().filter_map(|e| e.file_name().to_str()?.parse().ok()).collect();
        pids.sort_unstable();
        let mut seen: Vec<u64> = Vec::new();
        let mut views = Vec::new();
        for pid in pids {
            let Ok(fds) = fs::read_dir(format!("/proc/{pid}/fd")) else { continue };
            for entry in fds.flatten() {
                let Ok(target) = fs::read_link(entry.path()) else { continue };
                let wanted = format!("/memfd:{} (deleted)", NAME.to_string_lossy());
                if target.as_os_str().to_str() != Some(wanted.as_str()) {
                    continue;
                }
                let Ok(file) = File::open(entry.path()) else { continue };
                let Ok(meta) = file.metadata() else { continue };
                if seen.contains(&meta.ino()) {
                    continue;
                }
                if let Some(view) = View::open(&file, meta.ino(), pid) {
                    seen.push(meta.ino());
                    views.push(view);
                }
            }
        }
        Ok(views)
    }

    fn open(file: &File, inode: u64, pid: u32) -> Option<View> {
        use std::os::fd::AsFd;
        let len = crate::edge::segment::sealed_len(file.as_fd()).ok()?;
        if len < LEN {
            return None;
        }
        let map = memmap2::MmapOptions::new().len(LEN).map_raw_read_only(file).ok()?;
        let family = Family { base: map.as_mut_ptr() };
        let h = family.header();
        if h.magic.load(Ordering::Acquire) != MAGIC || h.version.load(Ordering::Relaxed) != VERSION {
            return None;
        }
        Some(View { family, _map: map, inode, pid })
    }

    /// Its living processes.
    pub fn members(&self) -> Vec<&Member> {
        (0..MEMBERS).map(|i| self.family.member(i)).filter(|m| m.pid() != 0 && m.alive()).collect()
    }

    /// Counters: channels made; bytes sent, received; bells; hand-backs, in all.
    pub fn totals(&self) -> [u64; 5] {
        let h = self.family.header();
        let mut t = [
            h.channels.load(Ordering::Relaxed),
            h.tx_done.load(Ordering::Relaxed),
            h.rx_done.load(Ordering::Relaxed),
            h.bells_done.load(Ordering::Relaxed),
            h.back_done.load(Ordering::Relaxed),
        ];
        for c in self.connections() {
            t[1] += c.tx_bytes;
            t[2] += c.rx_bytes;
            t[3] += c.bells;
            t[4] += c.back;
        }
        t
    }

    /// Wake-ups that were lost, and found by a second look.
    pub fn lost(&self) -> u64 {
        self.family.header().lost.load(Ordering::Relaxed)
    }

    /// Reasons counted so far, without the zeros.
    pub fn reasons(&self) -> Vec<(Reason, u64)> {
        Reason::ALL.iter().map(|&r| (r, self.family.counted(r))).filter(|x| x.1 > 0).collect()
    }

    /// The connections it has now.
    pub fn connections(&self) -> Vec<Snapshot> {
        // Those of processes that ended are only there until one of the family looks.
        let alive: Vec<bool> = (0..MEMBERS).map(|n| self.family.member(n)).map(Member::alive).collect();
        let held = |i: &u32| {
            let c = self.family.conn(*i);
            c.has(Conn::UNCOUNTED) || self.family.holders(c).each().any(|n| alive[n as usize])
        };
        self.family
            .used()
            .filter(held)
            .map(|i| snapshot(self.family.conn(i)))
            .filter(|s| s.stage != Stage::Unused)
            .collect()
    }
}

fn snapshot(c: &Conn) -> Snapshot {
    Snapshot {
        pid: c.pid.load(Ordering::Relaxed),
        fd: c.fd.load(Ordering::Relaxed),
        stage: c.stage(),
        side: match c.side.load(Ordering::Relaxed) {
            1 => Some(Side::Client),
            2 => Some(Side::Server),
            _ => None,
        },
        local: c.local(),
        peer: c.peer(),
        tx_bytes: c.tx_bytes.load(Ordering::Relaxed),
        rx_bytes: c.rx_bytes.load(Ordering::Relaxed),
        bells: c.bells.load(Ordering::Relaxed),
        back: c.back.load(Ordering::Relaxed),
        rx_ring: in_ring(c.rx_epoch.load(Ordering::Relaxed)),
        tx_ring: c.tx_lines().saturating_mul(LINE as u64),
        reason: Reason::from_number(c.reason.load(Ordering::Relaxed)).unwrap_or(Reason::None),
    }
}
