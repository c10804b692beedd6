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
//!  | 1, node, there, | name, taken     |  and so on: a slot for each flow, where it is
//!  | here: 16 bits   | : 32 bits each  |
//!  +-----------------+-----------------+
//! ```
//!
//! A file that is missing or is of no use is begun anew: then what was on its way to a gateway that was killed can come
//! twice, and nothing else is different.

use std::collections::HashMap;
use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;

use dp_edge::words::Words;
use dp_flow::Place;
use dpfd::{Dpid, Nid};

const MAGIC: u64 = u64::from_be_bytes(*b"dpplace1");
/// Flows that it has room for: 1 MiB. Others begin where nobody knows.
const MOST: usize = 65_535;
/// Of a slot that is used.
const USED: u64 = 1 << 48;

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
}

impl Places {
    /// The file at `path`, made if it is not there, of node `nid`.
    ///
    /// # Errors
    ///
    /// Those of open(2) and mmap(2).
    pub fn open(path: &Path, nid: Nid) -> io::Result<Places> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(nix::libc::O_NOFOLLOW)
            .open(path)?;
        let words = Words::map(&file, 2 * (MOST + 1))?;
        let all = words.all();
        let mut slots = HashMap::new();
        if all[0].load(Relaxed) == MAGIC && all[1].load(Relaxed) == u64::from(nid) {
            for slot in 1..=MOST {
                let key = all[2 * slot].load(Relaxed);
                if key & USED == 0 {
                    break;
                }
                slots.insert(key, slot);
            }
        } else {
            // From the front: a slot is used only if all before it are.
            all[0].store(0, Relaxed);
            let used = all[2..].iter().step_by(2).take_while(|word| word.load(Relaxed) != 0);
            used.for_each(|word| word.store(0, Relaxed));
            all[1].store(nid.into(), Relaxed);
            all[0].store(MAGIC, Relaxed);
        }
        Ok(Places { words, slots })
    }

    /// Where a flow's place is kept, and how far it was.
    pub fn find(&self, nid: Nid, ends: Ends) -> (Slot, Option<Place>) {
        let key = USED | u64::from(nid) << 32 | u64::from(ends.there) << 16 | u64::from(ends.here);
        let at = self.slots.get(&key).copied();
        let place = at.map(|at| {
            let word = self.words.all()[2 * at + 1].load(Relaxed);
            Place { name: (word >> 32) as u32, taken: word as u32 }
        });
        (Slot { key, at }, place.filter(|place| place.name != 0))
    }

    /// Has a place kept from now on, where there is room.
    pub fn claim(&mut self, slot: &mut Slot) {
        let (all, next) = (self.words.all(), self.slots.len() + 1);
        if let Some(&at) = self.slots.get(&slot.key) {
            slot.at = Some(at);
        } else if next <= MOST {
            all[2 * next + 1].store(0, Relaxed);
            all[2 * next].store(slot.key, Relaxed);
            self.slots.insert(slot.key, next);
            slot.at = Some(next);
        }
    }

    /// A flow is there now.
    #[inline]
    pub fn set(&self, slot: Slot, place: Place) {
        if let Some(at) = slot.at {
            // This process is the only one that writes, and the next one starts when this one has ended.
            self.words.all()[2 * at + 1].store(u64::from(place.name) << 32 | u64::from(place.taken), Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_process_reads_what_this_one_wrote() {
        let path = std::env::temp_dir().join(format!("dp-places-{}", std::process::id()));
        let ends = |n: u16| Ends { here: n, there: n + 1 };
        let place = |taken| Place { name: u32::MAX, taken };
        let get = |nid, n| Places::open(&path, 1).unwrap().find(nid, ends(n)).1;
        let mut places = Places::open(&path, 1).unwrap();
        for n in 1..100 {
            let (mut slot, before) = places.find(2, ends(n));
            assert_eq!(before, None);
            places.claim(&mut slot);
            assert_eq!(places.find(2, ends(n)).1, None);
            places.set(slot, place(n.into()));
        }
        let (slot, before) = places.find(2, ends(7));
        assert_eq!(before, Some(place(7)));
        places.set(slot, place(700));
        let (mut slot, _) = places.find(3, ends(7));
        places.claim(&mut slot);
        places.set(slot, place(701));
        // Read while it is mapped: it is in the file with the store.
        assert_eq!(get(2, 6), Some(place(6)));
        assert_eq!(get(2, 7), Some(place(700)));
        assert_eq!(get(3, 7), Some(place(701)));
        assert_eq!(get(4, 7), None);
        drop(places);
        Places::open(&path, 9).unwrap();
        assert_eq!(get(2, 7), None, "another node's file is begun anew");
        std::fs::write(&path, b"something else").unwrap();
        assert_eq!(get(2, 7), None);
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn flows_beyond_its_room_are_not_kept() {
        let path = std::env::temp_dir().join(format!("dp-places-full-{}", std::process::id()));
        let mut places = Places::open(&path, 1).unwrap();
        for n in 0..MOST {
            let (mut slot, _) = places.find(2, Ends { here: n as u16, there: 1 });
            places.claim(&mut slot);
            assert!(!slot.is_none());
        }
        let (mut slot, _) = places.find(3, Ends { here: 1, there: 1 });
        places.claim(&mut slot);
        assert!(slot.is_none());
        places.set(slot, Place { name: 1, taken: 1 });
        drop(places);
        assert_eq!(Places::open(&path, 1).unwrap().slots.len(), MOST);
        std::fs::remove_file(path).unwrap();
    }
}
