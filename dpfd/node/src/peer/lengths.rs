//! How long frames to a node may be: what all its routes carry, as they say, and as was found out ([`Search`]).

use dp_abi::frame2::{HEADER, PART_HEAD};
use dp_route::Route;

use super::search::Search;
use super::Peer;
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
        self.shortest_of_all(routes, |search, mtu| search.limit(mtu))
    }

    /// The same, as they say: what it may be once nothing is shortened.
    pub(super) fn longest_said(&self, routes: &mut [Box<dyn Route>]) -> u16 {
        self.shortest_of_all(routes, |_, mtu| mtu)
    }

    fn shortest_of_all(&self, routes: &mut [Box<dyn Route>], limit: impl Fn(&Search, usize) -> usize) -> u16 {
        let around = self.ways.iter().map(|way| way.guard.around()).max().unwrap_or(0);
        let longest = |place: usize| {
            let (mtu, way) = (self.carries(place, routes)?, &self.ways[place]);
            Some(limit(&way.search, mtu).saturating_sub(way.guard.around()))
        };
        let frame = (0..self.ways.len()).filter_map(longest).min().unwrap_or(1400 - around);
        frame.saturating_sub(HEADER + PART_HEAD).clamp(64, PART_MOST) as u16
    }

    /// Bytes of the longest packet of that route, as it says.
    fn carries(&self, place: usize, routes: &mut [Box<dyn Route>]) -> Option<usize> {
        let way = &self.ways[place];
        routes[way.route].mtu(&way.address).ok()
    }

    /// The same, up to what is used of it; 0: it is not known.
    pub(super) fn mtu(&self, place: usize, routes: &mut [Box<dyn Route>]) -> usize {
        let most = HEADER + PART_HEAD + PART_MOST + self.ways[place].guard.around();
        self.carries(place, routes).unwrap_or(0).min(most)
    }

    /// A part of so many bytes came through, by the way of its flow.
    pub(super) fn part_arrived(&mut self, at: usize, part: usize) {
        if let Some(place) = self.way_of(self.line[at]) {
            let way = &mut self.ways[place];
            way.search.arrived(HEADER + PART_HEAD + part + way.guard.around());
        }
    }

    /// Something is found out of that route, or asked; parts are as long as it carries then.
    pub(super) fn searches<R>(&mut self, place: usize, mtu: usize, step: impl FnOnce(&mut Search) -> R) -> R {
        let search = &mut self.ways[place].search;
        let before = search.limit(mtu);
        let result = step(search);
        self.too_long |= search.limit(mtu) != before;
        result
    }
}
