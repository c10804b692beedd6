//! The memory that channels lie in, and whose it is.
//!
//! Any program can make such memory, and write into it what it likes. So a connection's is not the one that looks like it:
//! a client made it itself, and a server has noted which it is. In it, the offer has the random number that both ends have
//! noted, which nobody else was shown.

use std::collections::HashSet;
use std::fs::File;
use std::rc::Rc;

use dp_channel::family::{Snapshot, View};
use dp_channel::observed::Memory;
use dp_channel::tcp::Addr;
use dp_edge::sync::Ordering;

/// So many are kept of one family, with those that nothing is followed in. A process has 64 of its own at most, and 256 of
/// its clients.
pub const KEPT: usize = 1024;

struct Arena {
    memory: Rc<Memory>,
    /// Those of which a process had it, by the inodes of their memory.
    families: HashSet<u64>,
}

impl Arena {
    fn inode(&self) -> u64 {
        self.memory.key()[1]
    }

    fn is_followed(&self) -> bool {
        Rc::strong_count(&self.memory) > 1
    }
}

/// All that are known.
pub struct Arenas {
    /// The oldest first.
    all: Vec<Arena>,
    /// Of one family.
    kept: usize,
}

impl Arenas {
    /// Of each family it keeps so many.
    pub fn new(kept: usize) -> Arenas {
        Arenas { all: Vec::new(), kept }
    }

    /// A process of `family` has `file`.
    pub fn add(&mut self, family: u64, file: File) {
        // One of another version is nobody's who is seen here.
        if let Ok(memory) = Memory::open(file) {
            let families = HashSet::from([family]);
            self.all.push(Arena { memory: Rc::new(memory), families });
            self.limit(family);
        }
    }

    /// A process of `family` has the one with that inode, too.
    pub fn share(&mut self, family: u64, inode: u64) {
        if let Some(arena) = self.all.iter_mut().find(|arena| arena.inode() == inode) {
            arena.families.insert(family);
            self.limit(family);
        }
    }

    /// A family that has too many loses the oldest.
    fn limit(&mut self, family: u64) {
        let of = |arena: &&mut Arena| arena.families.contains(&family);
        let more = self.all.iter_mut().filter(of).count().saturating_sub(self.kept);
        let unused = self.all.iter_mut().filter(of).filter(|arena| !arena.is_followed());
        unused.take(more).for_each(|arena| {
            arena.families.remove(&family);
        });
    }

    /// Drops what nothing is followed in, and none has of the families that live. Their inodes.
    pub fn put_away(&mut self, lives: impl Fn(u64) -> bool) -> Vec<u64> {
        let mut gone = Vec::new();
        self.all.retain(|arena| {
            let stays = arena.is_followed() || arena.families.iter().any(|&family| lives(family));
            if !stays {
                gone.push(arena.inode());
            }
            stays
        });
        gone
    }

    /// That of the connection `seen` of `family`, in whose memory it is noted with this slot and generation.
    pub fn find(
        &self,
        family: u64,
        view: &View,
        seen: &Snapshot,
        [slot, generation]: [u32; 2],
    ) -> Option<&Rc<Memory>> {
        let offer = view.offer(seen.entry);
        let is_whose = |arena: &&Arena| match offer.memory {
            Some(inode) => arena.inode() == inode,
            None => arena.families.contains(&family),
        };
        let mut memories = self.all.iter().filter(is_whose).map(|arena| &arena.memory);
        memories.find(|memory| is_there(memory, seen, offer.nonce, slot, generation))
    }
}

/// Whether that connection is the one in that slot of the memory.
fn is_there(memory: &Memory, seen: &Snapshot, nonce: u64, slot: u32, generation: u32) -> bool {
    let end = |addr: Addr| (addr.ip, addr.port);
    let (own, other) = (end(seen.local), end(seen.peer));
    memory.slot(slot).is_some_and(|slot| {
        slot.is_of(generation)
            && slot.nonce.load(Ordering::Relaxed) == nonce
            && slot.ends().is_some_and(|ends| ends == (own, other) || ends == (other, own))
    })
}

#[cfg(test)]
mod tests;
