//! How far the receiver of each flow is, in a file that outlives this process.
//!
//! The next process tells it the other nodes ([`dp_flow::Config::resume`]), so what they had sent and this one had put into
//! pools is not sent again. It is stored in the moment in which a message comes into its receiver's pool, and before that is
//! acknowledged. The file is mapped, so that is one store.
//!
//! ```text
//!   word 0            word 1                 of 64 bits, in this machine's byte order
//!  +-----------------+-----------------+
//!  | "dpplace1"      | this node       |
//!  +-----------------+-----------------+
//!  | 1, node, there, | tag, taken      |  and so on: a slot for each flow, where it is
//!  | here: 16 bits   | : 32 bits each  |
//!  +-----------------+-----------------+
//!  | when the flow of a slot last began  |  and so on, behind all of these
//!  | or ended: 63 bits, a count of all   |
//!  | times; whether it had begun         |
//!  +-------------------------------------+
//! ```
//!
//! A file that is missing or is of no use is begun anew: then what was on its way to a gateway that was killed can come
//! twice, and nothing else is different. The same holds for a flow whose slot another one needed: where all are taken, that
//! of a flow makes room that nobody has used for long (`places/rest.rs`), in this process or the ones before: so a flow whose parts are
//! on their way while the gateway is killed keeps its place longer than all that had ended.
//!
//! The folder may be a group's. A file there that somebody else could write to, or make shorter, is not used: what he wrote would count
//! as delivered, and a store to what is missing ends the process. So does a store for which the file system has no room, which is
//! why that room is taken beforehand.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::Ordering::{Relaxed, Release};

use dp_edge::words::Words;
use dp_flow::Place;
use dpfd::{Dpid, Nid};
use nix::fcntl::posix_fallocate;

mod rest;
use rest::Rest;

const MAGIC: u64 = u64::from_be_bytes(*b"dpplace1");
/// Flows that it has room for: 1.5 MiB.
const MOST: usize = 65_535;
/// Of a slot that is used.
const USED: u64 = 1 << 48;
/// Of what says when the flow of a slot last began or ended: it had begun.
const BEGUN: u64 = 1;

/// Which endpoints a flow is between.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Ends {
    /// The endpoint here.
    pub here: Dpid,
    /// The endpoint there.
    pub there: Dpid,
}

/// Where a flow's place is kept, once it has one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slot {
    key: u64,
    at: Option<usize>,
}

impl Slot {
    /// Whether [`Places::claim`] was not called, or in vain.
    pub fn is_none(self) -> bool {
        self.at.is_none()
    }
}

/// The file.
#[derive(Debug)]
pub struct Places {
    words: Words,
    slots: HashMap<u64, usize>,
    /// Slots that have a key: these are the first ones.
    used: usize,
    rest: Rest,
    /// How many flows have begun or ended since the file was made.
    turns: u64,
    counts: Counts,
}

/// How often the file had no room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Places of former flows that others needed the room of.
    pub forgotten: u64,
    /// Messages that were taken by flows for whose places there was no room.
    pub unkept: u64,
}

/// The file, if nobody but this user can have it open for writing, and else a new one in its place.
fn open_own(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600).custom_flags(nix::libc::O_NOFOLLOW | nix::libc::O_NONBLOCK);
    let file = options.open(path);
    if let Ok(file) = file {
        let meta = file.metadata()?;
        let is_own = meta.uid() == nix::unistd::geteuid().as_raw();
        if meta.is_file() && is_own && meta.nlink() == 1 && meta.mode() & 0o077 == 0 {
            return Ok(file);
        }
    }
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    options.create_new(true).open(path)
}

fn key(nid: Nid, ends: Ends) -> u64 {
    USED | u64::from(nid) << 32 | u64::from(ends.there) << 16 | u64::from(ends.here)
}

/// Where it says when the flow of a slot last began or ended: behind what former gateways know.
fn stamp(most: usize, slot: usize) -> usize {
    2 * (most + 1) + slot
}

/// The node of a slot's key.
fn node_of(key: u64) -> Nid {
    (key >> 32) as Nid
}

impl Places {
    /// The file at `path`, of node `nid`; made, if it is not there or not this user's alone.
    ///
    /// # Errors
    ///
    /// Those of open(2), fallocate(2) (ENOSPC: there are not 1.5 MiB of room) and mmap(2).
    pub fn open(path: &Path, nid: Nid) -> io::Result<Places> {
        Places::with_room(path, nid, MOST)
    }

    pub(crate) fn with_room(path: &Path, nid: Nid, most: usize) -> io::Result<Places> {
        let file = open_own(path)?;
        let count = 3 * (most + 1);
        posix_fallocate(&file, 0, 8 * count as i64)?;
        let words = Words::map(&file, count)?;
        let all = words.all();
        let (mut slots, mut lying, mut rest) = (HashMap::new(), Vec::new(), Rest::new(most));
        if all[0].load(Relaxed) == MAGIC && all[1].load(Relaxed) == u64::from(nid) {
            for slot in 1..=most {
                let key = all[2 * slot].load(Relaxed);
                if key & USED == 0 {
                    break;
                }
                slots.insert(key, slot);
                rest.add(node_of(key));
                lying.push((all[stamp(most, slot)].load(Relaxed), slot));
            }
        } else {
            // From the front: a slot is used only if all before it are.
            all[0].store(0, Relaxed);
            let keys = all[2..2 * (most + 1)].iter().step_by(2);
            let used = keys.take_while(|word| word.load(Relaxed) != 0);
            used.for_each(|word| word.store(0, Relaxed));
            all[1].store(nid.into(), Relaxed);
            all[0].store(MAGIC, Relaxed);
        }
        let (used, turns) = (lying.len(), lying.iter().map(|(turn, _)| turn >> 1).max().unwrap_or(0));
        lying.sort_unstable();
        for (turn, slot) in lying {
            let nid = node_of(all[2 * slot].load(Relaxed));
            match turn & BEGUN {
                0 => rest.lie(nid, slot),
                _ => rest.lie_cut_off(nid, slot),
            }
        }
        Ok(Places { words, slots, used, rest, turns, counts: Counts::default() })
    }

    /// The flow of that slot begins or ends: what the next process is to know.
    fn turn(&mut self, at: usize, begun: u64) {
        self.turns += 1;
        let all = self.words.all();
        all[stamp(all.len() / 3 - 1, at)].store(self.turns << 1 | begun, Relaxed);
    }

    /// A flow begins: where its place is kept, and how far it was.
    pub fn begin(&mut self, nid: Nid, ends: Ends) -> (Slot, Option<Place>) {
        let key = key(nid, ends);
        let at = self.slots.get(&key).copied();
        let place = at.map(|at| {
            self.rest.rise(at);
            self.turn(at, BEGUN);
            let word = self.words.all()[2 * at + 1].load(Relaxed);
            Place { tag: (word >> 32) as u32, taken: word as u32 }
        });
        (Slot { key, at }, place.filter(|place| place.tag != 0))
    }

    /// It is forgotten. Its place is kept, for the next one or until the room is needed.
    pub fn end(&mut self, slot: Slot) {
        if let Some(at) = slot.at {
            self.rest.lie(node_of(slot.key), at);
            self.turn(at, 0);
        }
    }

    /// Has a place kept from now on, where there is room.
    pub fn claim(&mut self, slot: &mut Slot) {
        let at = match self.slots.get(&slot.key) {
            Some(&at) => Some(at),
            None => self.room(),
        };
        let Some(at) = at else { return };
        if self.slots.insert(slot.key, at).is_none() {
            let all = self.words.all();
            // In this order: the former key's place is none before the new key's could be taken for it.
            all[2 * at + 1].store(0, Relaxed);
            all[2 * at].store(slot.key, Release);
            self.rest.add(node_of(slot.key));
        }
        self.rest.rise(at);
        self.turn(at, BEGUN);
        slot.at = Some(at);
    }

    /// A message was taken whose flow has no slot.
    pub fn took_unkept(&mut self) {
        self.counts.unkept += 1;
    }

    /// A slot that nobody needs.
    fn room(&mut self) -> Option<usize> {
        let words = self.words.all();
        if self.used + 1 < words.len() / 3 {
            self.used += 1;
            return Some(self.used);
        }
        let at = self.rest.make_room()?;
        self.slots.remove(&words[2 * at].load(Relaxed));
        self.counts.forgotten += 1;
        Some(at)
    }

    /// A flow is there now.
    #[inline]
    pub fn set(&self, slot: Slot, place: Place) {
        if let Some(at) = slot.at {
            // This process is the only one that writes, and the next one starts when this one has ended.
            self.words.all()[2 * at + 1].store(u64::from(place.tag) << 32 | u64::from(place.taken), Relaxed);
        }
    }

    /// Flows whose places it has.
    pub fn kept(&self) -> usize {
        self.slots.len()
    }

    /// What was counted.
    pub fn counts(&self) -> Counts {
        self.counts
    }
}

#[cfg(test)]
mod tests;
