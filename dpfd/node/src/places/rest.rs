//! Which slots of the file nobody uses at present, and which of them makes room.
//!
//! A slot *lies* while no flow has it. Where room is needed, the node that has most slots gives one up, of those that lie the
//! one that was used least lately, and last those that flows had when a former process was killed: a node that names ever more endpoints
//! takes its own, and not those of others.

use std::collections::{HashMap, VecDeque};

use dpfd::Nid;

/// Of each node as many entries that are void are kept, beside one for each of its slots.
const VOID: usize = 64;

#[derive(Debug)]
pub(super) struct Rest {
    pub(super) nodes: HashMap<Nid, OfNode>,
    /// Of each slot: how often it began or ceased to lie. It lies where that is odd.
    turns: Vec<u32>,
    lying: usize,
}

#[derive(Debug, Default)]
pub(super) struct OfNode {
    /// All that it has.
    slots: usize,
    /// Those that lie, in the order in which they ceased to be used, and their turns. What has another turn now is void.
    pub(super) lying: VecDeque<(usize, u32)>,
}

impl Rest {
    /// Of slots 1 to `most`.
    pub fn new(most: usize) -> Rest {
        Rest { nodes: HashMap::new(), turns: vec![0; most + 1], lying: 0 }
    }

    /// A node has one more.
    pub fn add(&mut self, nid: Nid) {
        self.nodes.entry(nid).or_default().slots += 1;
    }

    fn lies(&self, slot: usize) -> bool {
        self.turns[slot] % 2 == 1
    }

    /// No flow has it any more.
    pub fn lie(&mut self, nid: Nid, slot: usize) {
        if self.lies(slot) {
            return;
        }
        self.turns[slot] = self.turns[slot].wrapping_add(1);
        self.lying += 1;
        let Rest { nodes, turns, .. } = self;
        let of = nodes.entry(nid).or_default();
        of.lying.push_back((slot, turns[slot]));
        if of.lying.len() > 2 * of.slots + VOID {
            of.lying.retain(|(slot, turn)| turns[*slot] == *turn);
        }
    }

    /// A flow has it.
    pub fn rise(&mut self, slot: usize) {
        if self.lies(slot) {
            self.turns[slot] = self.turns[slot].wrapping_add(1);
            self.lying -= 1;
        }
    }

    /// The slot that is given up, if any lies. It does not any more, and is nobody's.
    pub fn make_room(&mut self) -> Option<usize> {
        if self.lying == 0 {
            return None;
        }
        let Rest { nodes, turns, .. } = self;
        let fullest = nodes.values_mut().filter_map(|of| {
            while of.lying.front().is_some_and(|(slot, turn)| turns[*slot] != *turn) {
                of.lying.pop_front();
            }
            (!of.lying.is_empty()).then_some(of)
        });
        let of = fullest.max_by_key(|of| of.slots)?;
        let (slot, _) = of.lying.pop_front()?;
        of.slots -= 1;
        self.rise(slot);
        Some(slot)
    }
}
