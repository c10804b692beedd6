//! Edges that endpoints of other nodes have here. Whoever is the gateway next has a proxy of the same address, which asks for an edge
//! of its own. It gets none while the former one is unread: the receiver takes from its edges in turns, and would read what was sent
//! later first (N20).

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use super::incoming::SenderEnd;
use crate::addr::Addr;

/// Edges that are gone are forgotten when there are twice as many entries as the last time, and so many.
const FEW: usize = 64;

/// The edge that each sender was given last, by its receiver, which keeps the sender's end as long as it keeps the edge.
#[derive(Debug, Default)]
pub struct Earlier {
    ends: HashMap<(u32, Addr), Weak<SenderEnd>>,
    most: usize,
}

impl Earlier {
    /// A sender has one now.
    pub fn add(&mut self, serial: u32, from: Addr, end: &Arc<SenderEnd>) {
        if self.ends.len() >= self.most {
            self.ends.retain(|_, end| end.strong_count() > 0);
            self.most = 2 * self.ends.len() + FEW;
        }
        self.ends.insert((serial, from), Arc::downgrade(end));
    }

    /// Whether its receiver may have it still. Without a lock: nearly always there is none.
    pub fn has(&self, serial: u32, from: Addr) -> bool {
        self.ends.get(&(serial, from)).is_some_and(|end| end.strong_count() > 0)
    }
}
