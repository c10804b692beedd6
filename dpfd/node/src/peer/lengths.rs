//! How long frames to a node may be: what all its routes say that they carry, and what was found out of the one by which they
//! go ([`Search`]).
//!
//! The routes' word counts for all flows, so that frames fit whichever comes next. What was found out of a route counts where
//! it is in use: the length of a path that nobody takes shortens nobody's frames. A flow that comes to it is told then.

use dp_abi::frame2::{HEADER, PART_HEAD};
use dp_route::Route;

use super::search::Search;
use super::Peer;
use crate::local::Message;
use crate::traffic::Traffic;

/// The longest part, bytes: what frames of 9000 carry.
const PART_MOST: usize = 9000 - HEADER - PART_HEAD;

/// What the flows of a line were told last.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fitted {
    /// The way by which they went.
    pub by: usize,
    /// The longest part.
    pub part_max: u16,
}

impl<M: Message> Peer<M> {
    /// The paths may be others: flows send no longer parts than the routes carry.
    pub fn fit(&mut self, now: u64, routes: &mut [Box<dyn Route>]) {
        self.too_long = false;
        for line in 0..self.lines.len() {
            // Where no way lives, what is found out of one meanwhile counts when it lives again.
            if self.by_ends.is_empty() || self.way_of(line).is_none() {
                self.lines[line].fitted = None;
            } else {
                self.fit_line(now, line, routes);
            }
        }
        if self.has_mixed {
            // A flow whose messages name several routes cuts its parts for the shortest of them.
            let part_max = self.longest(|_| true, routes);
            for at in 0..self.traffic.len() {
                if self.traffic[at].as_ref().is_some_and(Traffic::is_mixed) {
                    self.cut(now, at, part_max);
                }
            }
        }
    }

    /// The same for the flows of one line, whose way may be another one.
    pub(super) fn fit_line(&mut self, now: u64, line: usize, routes: &mut [Box<dyn Route>]) {
        // Where none lives nothing leaves, and the next one may be the former.
        let Some(by) = self.way_of(line) else { return };
        let fitted = Fitted { by, part_max: self.longest(|place| place == by, routes) };
        let former = self.lines[line].fitted.replace(fitted);
        if former.is_some_and(|former| (former.by, former.part_max) == (by, fitted.part_max)) {
            return;
        }
        let is_as_long = former.is_some_and(|former| former.part_max == fitted.part_max);
        for at in 0..self.traffic.len() {
            let follows = |traffic: &Traffic<M>| !traffic.is_mixed();
            if self.line[at] == line && self.traffic[at].as_ref().is_some_and(follows) {
                self.follow(now, at, by);
                if !is_as_long {
                    self.cut(now, at, fitted.part_max);
                }
            }
        }
    }

    /// A flow goes by that way from now on.
    pub(super) fn follow(&mut self, now: u64, at: usize, by: usize) {
        let (shortest, link) = (self.ways[by].shortest, self.ways[by].link);
        if let Some(traffic) = &mut self.traffic[at] {
            traffic.goes_by(now, by, shortest, link);
        }
    }

    /// A flow sends no longer parts than these from now on.
    pub(super) fn cut(&mut self, now: u64, at: usize, part_max: u16) {
        if let Some(traffic) = &mut self.traffic[at] {
            traffic.set_part_max(now, part_max);
            self.make_ready(at);
        }
    }

    /// The longest part that goes by all ways as routes say, and by these as far as was found out.
    pub(super) fn longest(&self, used: impl Fn(usize) -> bool, routes: &mut [Box<dyn Route>]) -> u16 {
        let around = self.ways.iter().map(|way| way.guard.around()).max().unwrap_or(0);
        let longest = |place: usize| {
            let (mtu, way) = (self.carries(place, routes)?, &self.ways[place]);
            let limit = if used(place) { way.search.limit(mtu) } else { mtu };
            Some(limit.saturating_sub(way.guard.around()))
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
