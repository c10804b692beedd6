//! How many proxies each node has for its endpoints, and may have for what its frames bring.
//!
//! Those to which programs here can send are the programs' own, also where a frame opened them and a server answered it: they
//! stand in no frame's way. Of all nodes together there may be so many of them; then frames open no more until some have ended.

use std::collections::HashMap;

use dpfd::Nid;

/// Where a node has as many as it may, it is looked that often whether it has fewer, nanoseconds.
const LOOK: u64 = 50_000_000;

/// The proxies of one node.
#[derive(Clone, Copy, Debug, Default)]
struct Share {
    all: usize,
    /// Those with senders here, when that was last looked at.
    attached: usize,
    /// When it may be looked at again.
    look: u64,
}

#[derive(Debug)]
pub(super) struct Shares {
    of: HashMap<Nid, Share>,
    most: usize,
    most_attached: usize,
}

impl Shares {
    /// Frames of a node may open `most`, while there are fewer than `most_attached` that programs can send to.
    pub fn new(most: usize, most_attached: usize) -> Shares {
        Shares { of: HashMap::new(), most: most.max(1), most_attached }
    }

    pub fn opened(&mut self, nid: Nid) {
        self.of.entry(nid).or_default().all += 1;
    }

    pub fn ended(&mut self, nid: Nid) {
        if let Some(share) = self.of.get_mut(&nid) {
            share.all = share.all.saturating_sub(1);
            // Whether it was one of these is not known; more than there are they cannot be.
            share.attached = share.attached.min(share.all);
        }
    }

    /// So many of this node's have senders.
    pub fn count(&mut self, nid: Nid, attached: usize) {
        self.of.entry(nid).or_default().attached = attached;
    }

    /// Those with senders, of all nodes: whose each of them is.
    pub fn count_all(&mut self, attached: impl Iterator<Item = Nid>) {
        self.of.values_mut().for_each(|share| share.attached = 0);
        attached.for_each(|nid| self.of.entry(nid).or_default().attached += 1);
    }

    /// Whether a node has few, whoever uses them.
    pub fn are_few(&self, nid: Nid) -> bool {
        self.of.get(&nid).is_none_or(|share| share.all < self.most)
    }

    /// Whether to look which of this node's have senders, or have ended: each node has its own time for that.
    pub fn is_time(&mut self, nid: Nid, now: u64) -> bool {
        let share = self.of.entry(nid).or_default();
        let time = now >= share.look;
        if time {
            share.look = now.saturating_add(LOOK);
        }
        time
    }

    /// Whether a frame of this node may open another.
    pub fn have_room(&self, nid: Nid) -> bool {
        let share = self.of.get(&nid).copied().unwrap_or_default();
        share.all.saturating_sub(share.attached) < self.most && !self.are_many_attached()
    }

    /// Whether programs here can send to as many, of all nodes, as may be.
    pub fn are_many_attached(&self) -> bool {
        self.of.values().map(|share| share.attached).sum::<usize>() >= self.most_attached
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_that_programs_send_to_do_not_keep_a_node_out_until_there_are_too_many() {
        let mut shares = Shares::new(4, 10);
        (0..4).for_each(|_| shares.opened(1));
        assert!(!shares.are_few(1) && !shares.have_room(1));
        shares.count(1, 3);
        assert!(shares.have_room(1), "a server answered three of them");
        (0..3).for_each(|_| shares.opened(1));
        assert!(!shares.have_room(1), "four that only frames use");
        shares.ended(1);
        assert!(shares.have_room(1));
        (0..9).for_each(|_| shares.opened(2));
        shares.count(2, 7);
        assert!(!shares.have_room(1) && !shares.have_room(2), "ten in all are attached");
        assert!(shares.are_few(3), "a node that has none opens one in any case");
    }

    /// Node 1 opens few ever after, so nothing of it would be counted again.
    #[test]
    fn those_that_ended_keep_no_other_node_out() {
        let mut shares = Shares::new(2, 4);
        (0..6).for_each(|_| shares.opened(1));
        (0..2).for_each(|_| shares.opened(2));
        shares.count(1, 4);
        assert!(!shares.have_room(2) && shares.are_many_attached());
        (0..5).for_each(|_| shares.ended(1));
        shares.count(2, 1);
        assert!(shares.have_room(2), "node 1 has one, whoever sends to it");
    }

    #[test]
    fn those_whose_senders_left_keep_no_other_node_out() {
        let mut shares = Shares::new(2, 4);
        (0..6).for_each(|_| shares.opened(1));
        (0..2).for_each(|_| shares.opened(2));
        shares.count(1, 4);
        shares.count(2, 1);
        assert!(!shares.have_room(2));
        shares.count_all([1, 2].into_iter());
        assert!(shares.have_room(2) && !shares.have_room(1));
    }

    #[test]
    fn one_crowded_node_does_not_take_another_ones_time() {
        let mut shares = Shares::new(1, 10);
        assert!(shares.is_time(1, 0));
        assert!(!shares.is_time(1, LOOK - 1));
        assert!(shares.is_time(2, LOOK - 1), "the other one was not looked at");
        assert!(shares.is_time(1, LOOK));
    }
}
