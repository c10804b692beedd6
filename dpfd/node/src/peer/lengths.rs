//! How long frames to a node may be.

use dp_abi::frame2::{HEADER, PART_HEAD};
use dp_route::Route;

use super::{Peer, Way};
use crate::local::Message;

/// The longest part, bytes: what frames of 9000 carry.
const PART_MOST: usize = 9000 - HEADER - PART_HEAD;

impl<M: Message> Peer<M> {
    /// The paths may be others: flows send no longer parts than all carry.
    pub fn fit(&mut self, now: u64, routes: &mut [Box<dyn Route>]) {
        self.too_long = false;
        if self.by_ends.is_empty() {
            self.part_max = 0;
            return;
        }
        let part_max = self.longest(routes);
        if core::mem::replace(&mut self.part_max, part_max) == part_max {
            return;
        }
        for at in 0..self.traffic.len() {
            if let Some(traffic) = &mut self.traffic[at] {
                traffic.set_part_max(now, part_max);
                self.make_ready(at);
            }
        }
    }

    /// The longest part that all routes carry.
    pub(super) fn longest(&self, routes: &mut [Box<dyn Route>]) -> u16 {
        let around = self.ways.iter().map(|way| way.guard.around()).max().unwrap_or(0);
        let longest =
            |way: &Way| Some(routes[way.route].mtu(&way.address).ok()?.saturating_sub(way.guard.around()));
        let frame = self.ways.iter().filter_map(longest).min().unwrap_or(1400 - around);
        frame.saturating_sub(HEADER + PART_HEAD).clamp(64, PART_MOST) as u16
    }
}
