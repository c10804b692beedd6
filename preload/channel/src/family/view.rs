//! The family's memory as an observer (`dp ls`) reads it: through /proc, read-only, believing nothing.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;

use super::{Conn, Family, Member, Reason, Sender, Stage, ARENAS_AT, LEN, MAGIC, MEMBERS, NAME};
use crate::layouts;
use crate::slot::Side;
use crate::switch::in_ring;
use crate::tcp::Addr;
use dp_edge::ring::LINE;
use dp_edge::sync::{AtomicU64, Ordering};

/// What is read of any layout, bytes; and the first one that says the shim's version.
const HEAD: usize = 4096;
const SINCE: u32 = 6;

/// A family's memory, found through one of its processes.
#[derive(Debug)]
pub struct View {
    family: Family,
    // Keeps the mapping alive.
    _map: memmap2::MmapRaw,
    /// Its layout. Of one that is not ours nothing is known but its version.
    pub layout: u32,
}

/// One connection at one moment.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// Number of its entry in this memory; see [`View::bytes`].
    pub entry: u32,
    /// Process that had it first, by its number in its own pid namespace, and its descriptor there.
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
    /// The members that have it; some may have ended.
    pub holders: Vec<u32>,
    /// Processes that are no members may have it, too.
    pub uncounted: bool,
}

/// The offer of a connection, as one end has noted it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offer {
    /// The client's random number, which both ends alone know.
    pub nonce: u64,
    /// Server: the inode of the memory that it is in.
    pub memory: Option<u64>,
}

impl View {
    /// The memory with that inode, which process `pid`, as /proc numbers it, has open. `None`: it has not, or is not ours
    /// to see.
    pub fn of_process(pid: u32, inode: u64) -> Option<View> {
        let wanted = format!("/memfd:{} (deleted)", NAME.to_string_lossy());
        let fds = fs::read_dir(format!("/proc/{pid}/fd")).ok()?;
        fds.flatten()
            .filter(|fd| fs::read_link(fd.path()).is_ok_and(|to| to.as_os_str() == wanted.as_str()))
            .filter_map(|fd| File::open(fd.path()).ok())
            .filter(|file| file.metadata().is_ok_and(|data| data.ino() == inode))
            .find_map(|file| View::open(&file))
    }

    /// The memory that `file` is. `None`: it is none.
    pub fn open(file: &File) -> Option<View> {
        use std::os::fd::AsFd;
        let len = dp_edge::segment::sealed_len(file.as_fd()).ok()?;
        if len < HEAD {
            return None;
        }
        let map = memmap2::MmapOptions::new().len(len.min(LEN)).map_raw_read_only(file).ok()?;
        let family = Family { base: map.as_mut_ptr() };
        let h = family.header();
        let layout = h.version.load(Ordering::Relaxed);
        if h.magic.load(Ordering::Acquire) != MAGIC || (is_known(layout) && len < ARENAS_AT) {
            return None;
        }
        Some(View { family, _map: map, layout })
    }

    /// Whether the layout is one that this program knows.
    pub fn is_readable(&self) -> bool {
        is_known(self.layout)
    }

    /// The version of its shim, if the layout has it.
    pub fn shim(&self) -> Option<String> {
        if self.layout < SINCE {
            return None;
        }
        let words = self.family.header().shim.iter().map(|w| w.load(Ordering::Relaxed));
        let bytes: Vec<u8> = words.flat_map(u64::to_le_bytes).take_while(|&b| b != 0).collect();
        let text = String::from_utf8(bytes).ok()?;
        (!text.is_empty() && text.bytes().all(|b| b.is_ascii_graphic())).then_some(text)
    }

    /// Places of members that are taken, with their numbers.
    pub fn members(&self) -> impl Iterator<Item = (u32, &Member)> + '_ {
        let places = if self.is_readable() { MEMBERS as u32 } else { 0 };
        (0..places).map(|n| (n, self.family.member(n as usize))).filter(|(_, m)| m.pid() != 0)
    }

    /// Counters: channels made; bytes sent, received; bells; hand-backs, in all.
    pub fn totals(&self) -> [u64; 5] {
        if !self.is_readable() {
            return [0; 5];
        }
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
        if !self.is_readable() {
            return 0;
        }
        self.family.header().lost.load(Ordering::Relaxed)
    }

    /// Reasons counted so far, without the zeros.
    pub fn reasons(&self) -> Vec<(Reason, u64)> {
        if !self.is_readable() {
            return Vec::new();
        }
        Reason::ALL.iter().map(|&r| (r, self.family.counted(r))).filter(|x| x.1 > 0).collect()
    }

    /// The entries of connections that are in use. Those of processes that ended are there until one of the family looks.
    pub fn connections(&self) -> Vec<Snapshot> {
        self.used().map(|i| self.connection(i)).filter(|s| s.stage != Stage::Unused).collect()
    }

    /// Their numbers.
    pub fn used(&self) -> impl Iterator<Item = u32> + '_ {
        let readable = self.is_readable().then_some(());
        readable.into_iter().flat_map(|()| self.family.used())
    }

    /// Entry `i`, one of these.
    pub fn connection(&self, i: u32) -> Snapshot {
        let c = self.family.conn(i);
        Snapshot {
            entry: i,
            holders: self.family.holders(c).each().collect(),
            uncounted: c.has(Conn::UNCOUNTED),
            ..snapshot(c)
        }
    }

    /// How far connection `i` has come, and its slot with the slot's generation.
    pub fn place(&self, i: u32) -> (Stage, u32, u32) {
        let c = self.family.conn(i);
        (c.stage(), c.slot.load(Ordering::Relaxed), c.generation.load(Ordering::Relaxed))
    }

    /// What connection `i` notes of its offer: what tells it from one that somebody forged.
    pub fn offer(&self, i: u32) -> Offer {
        let c = self.family.conn(i);
        let word = |word: &AtomicU64| word.load(Ordering::Relaxed);
        if c.side.load(Ordering::Relaxed) == Side::Server as u32 {
            Offer { nonce: word(&c.expected), memory: Some(word(&c.memory)) }
        } else {
            Offer { nonce: word(&c.nonce), memory: None }
        }
    }

    /// What connection `i` notes of its sending.
    pub fn sender(&self, i: u32) -> Sender<'_> {
        Sender::of(self.family.conn(i))
    }
}

impl View {
    /// Bytes sent and received through the rings by entry `entry`, whoever has it now: two loads, for those who look
    /// often. `None`: the layout is not known.
    pub fn bytes(&self, entry: u32) -> Option<[u64; 2]> {
        let c = self.is_readable().then(|| self.family.conn(entry))?;
        Some([c.tx_bytes.load(Ordering::Relaxed), c.rx_bytes.load(Ordering::Relaxed)])
    }
}

fn is_known(layout: u32) -> bool {
    layouts::family().has(layout)
}

fn snapshot(c: &Conn) -> Snapshot {
    Snapshot {
        entry: 0,
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
        tx_ring: u64::from(c.tx_lines.load(Ordering::Relaxed)).saturating_mul(LINE as u64),
        reason: Reason::from_number(c.reason.load(Ordering::Relaxed)).unwrap_or(Reason::None),
        holders: Vec::new(),
        uncounted: false,
    }
}
