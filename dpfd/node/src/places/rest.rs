//! Which slots of the file nobody uses at present, and which of them makes room.
//!
//! A slot *lies* while no flow has it. Where room is needed, the node that has most slots gives one up, of those that lie the
//! one that was used least lately: a node that names ever more endpoints takes its own, and not those of others. Those that flows had
//! when a former process was killed go last, whoever has them: their parts may still come again.

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
    /// The same of those that were in use when a former process ended.
    cut_off: VecDeque<(usize, u32)>,
}

/// The first one that lies. What is void before it is taken out.
fn first_of(queue: &mut VecDeque<(usize, u32)>, turns: &[u32]) -> Option<usize> {
    while queue.front().is_some_and(|(slot, turn)| turns[*slot] != *turn) {
        queue.pop_front();
    }
    queue.front().map(|(slot, _)| *slot)
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
        self.put(nid, slot, |of| &mut of.lying);
    }

    /// A flow had it when the former process ended.
    pub fn lie_cut_off(&mut self, nid: Nid, slot: usize) {
        self.put(nid, slot, |of| &mut of.cut_off);
    }

    fn put(&mut self, nid: Nid, slot: usize, queue: fn(&mut OfNode) -> &mut VecDeque<(usize, u32)>) {
        if self.lies(slot) {
            return;
        }
        self.turns[slot] = self.turns[slot].wrapping_add(1);
        self.lying += 1;
        let Rest { nodes, turns, .. } = self;
        let of = nodes.entry(nid).or_default();
        let most = 2 * of.slots + VOID;
        let queue = queue(of);
        queue.push_back((slot, turns[slot]));
        if queue.len() > most {
            queue.retain(|(slot, turn)| turns[*slot] == *turn);
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
        let mut fullest = |queue: fn(&mut OfNode) -> &mut VecDeque<(usize, u32)>| {
            let those = nodes.values_mut().filter_map(|of| Some((first_of(queue(of), turns)?, of)));
            let (slot, of) = those.max_by_key(|(_, of)| of.slots)?;
            queue(of).pop_front();
            of.slots -= 1;
            Some(slot)
        };
        let slot = fullest(|of| &mut of.lying).or_else(|| fullest(|of| &mut of.cut_off))?;
        self.rise(slot);
        Some(slot)
    }
}
