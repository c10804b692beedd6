//! The flows with a node: begun when they are wanted, and forgotten when nobody has used them for long.

use std::collections::HashMap;

use dp_route::Route;
use dpfd::driver::user::route::code;

use super::sending::Line;
use super::{Around, Peer};
use crate::local::{Local, Message};
use crate::places::Ends;
use crate::traffic::{Like, Traffic, BEGIN, LEAST};

/// A flow on which nothing happened for so long makes room for others, or is forgotten for nothing, nanoseconds.
const UNUSED: u64 = 10_000_000_000;
const IDLE: u64 = 60_000_000_000;
/// Unused flows are looked for no more often than this, nanoseconds.
const SWEEP: u64 = 100_000_000;

/// How messages of an edge are to go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Wished {
    /// By the route of this line; none: as all do.
    line: Option<usize>,
    /// Without a flow.
    raw: bool,
}

impl<M: Message> Peer<M> {
    /// What endpoint `ends.here` sends to `ends.there` goes by this route while that works, and else as everything does; and
    /// raw, or not.
    pub fn wish(&mut self, ends: Ends, route: Option<&str>, raw: bool) {
        let line = route.map(|route| self.line_named(route));
        self.wishes.insert(ends, Wished { line, raw });
    }

    /// A program names a route of its endpoint, from now on, or does not any more.
    pub fn ask_for(&mut self, ends: Ends, route: Option<&str>) {
        let line = route.map(|route| self.line_named(route));
        self.ask_with(ends, |asked| asked.line = line);
    }

    /// A program says that its endpoint sends raw from now on, or another one has its number.
    pub fn ask_raw(&mut self, ends: Ends, raw: bool) {
        self.ask_with(ends, |asked| asked.raw = raw);
    }

    fn ask_with(&mut self, ends: Ends, change: impl FnOnce(&mut Wished)) {
        let mut asked = self.asked.get(&ends).copied().unwrap_or_default();
        change(&mut asked);
        if asked == Wished::default() {
            self.asked.remove(&ends);
        } else {
            self.asked.insert(ends, asked);
        }
        self.ended.remove(&ends);
        if let Some(&at) = self.by_ends.get(&ends) {
            self.stand_in(at, self.line_of(ends));
            let raw = self.is_raw(ends);
            self.traffic[at].iter_mut().for_each(|traffic| traffic.set_raw(raw));
        }
    }

    /// The link of a program that asked for something ended. What it had sent may not even have been taken from it.
    pub fn link_ended(&mut self, now: u64, ends: Ends) {
        // The next endpoint with this number has not asked for raw mode, and must lose nothing.
        self.ask_raw(ends, false);
        if self.asked.contains_key(&ends) {
            self.ended.insert(ends, now);
        }
    }

    /// Drops what those had asked for whose links ended, once nothing of theirs waits any more.
    fn drop_asked(&mut self, now: u64) {
        let is_busy = |ends: &Ends| {
            let traffic = self.by_ends.get(ends).and_then(|&at| self.traffic[at].as_ref());
            traffic.is_some_and(|traffic| !traffic.is_quiet())
        };
        let over = self.ended.iter().filter(|(ends, at)| now >= **at + UNUSED && !is_busy(ends));
        let over: Vec<Ends> = over.map(|(ends, _)| *ends).collect();
        over.into_iter().for_each(|ends| self.ask_with(ends, |asked| *asked = Wished::default()));
    }

    fn line_named(&mut self, route: &str) -> usize {
        let known = self.lines.iter().position(|line| line.route() == Some(route));
        known.unwrap_or_else(|| {
            self.lines.push(Line::new(Some(route)));
            let line = self.lines.len() - 1;
            self.codes.push((code(route), line));
            line
        })
    }

    /// A flow has a message that names the route of this code. One on which the node has no address has no line.
    pub(super) fn mix(&mut self, now: u64, at: usize, route: u64, routes: &mut [Box<dyn Route>]) {
        if !self.codes.iter().any(|(code, _)| *code == route) {
            let mut names = self.ways.iter().map(|way| way.address.route());
            if let Some(name) = names.find(|name| code(name) == route).map(str::to_string) {
                self.line_named(&name);
            }
        }
        self.has_mixed = true;
        if self.traffic[at].as_ref().is_some_and(|traffic| !traffic.is_mixed()) {
            self.cut(now, at, self.longest(|_| true, routes));
        }
    }

    /// The line of such a flow.
    pub(super) fn line_of(&self, ends: Ends) -> usize {
        let line = |wished: &HashMap<Ends, Wished>| wished.get(&ends)?.line;
        line(&self.asked).or_else(|| line(&self.wishes)).unwrap_or(0)
    }

    /// Whether what the program here sends goes raw.
    fn is_raw(&self, ends: Ends) -> bool {
        let raw = |wished: &HashMap<Ends, Wished>| wished.get(&ends).is_some_and(|wished| wished.raw);
        raw(&self.asked) || raw(&self.wishes)
    }

    /// A flow stands in that line, unless a message names another. What it has put into the batch of another leaves by that
    /// one.
    fn stand_in(&mut self, at: usize, line: usize) {
        self.home[at] = line;
        let former = core::mem::replace(&mut self.line[at], line);
        if former == line {
            return;
        }
        if self.is_ready[at] {
            self.lines[former].remove(at);
            self.lines[line].push(at);
        }
        let is_mixed = self.traffic[at].as_ref().is_some_and(Traffic::is_mixed);
        if let Some(fitted) = self.lines[line].fitted.filter(|_| !is_mixed) {
            self.follow(self.now, at, fitted.by);
            self.cut(self.now, at, fitted.part_max);
        }
    }

    /// Whether frames of that node began as many flows as they may, also after those that nobody uses are forgotten.
    pub(super) fn is_crowded<L>(&mut self, now: u64, around: &mut Around<'_, L>) -> bool {
        if self.theirs < self.limits.flows {
            return false;
        }
        if now >= self.swept.saturating_add(SWEEP) {
            self.sweep(now, true, around);
        }
        self.theirs >= self.limits.flows
    }

    /// Forgets unused flows. Where room is wanted, or of one that never came about, that is soon.
    pub(super) fn sweep<L>(&mut self, now: u64, crowded: bool, around: &mut Around<'_, L>) {
        self.swept = now;
        self.drop_asked(now);
        for at in 0..self.traffic.len() {
            let unused = |traffic: &Traffic<M>| {
                let soon = crowded || !traffic.state().open;
                let (unused, may) = if soon { (UNUSED, true) } else { (IDLE, traffic.keeps_place()) };
                may && now >= traffic.used() + unused && traffic.is_quiet()
            };
            if self.traffic[at].as_ref().is_some_and(unused) {
                self.forget(at, around);
            }
        }
    }

    /// Messages on which nothing happens make room for others: what waited for that is offered again by its own timer.
    pub(super) fn reclaim(&mut self, now: u64) {
        self.reclaimed = now;
        for at in 0..self.traffic.len() {
            let Some(traffic) = &mut self.traffic[at] else { continue };
            if traffic.give_up_stalled(now, &mut self.budget, self.limits.bytes / 2) {
                self.make_ready(at);
            }
        }
    }

    fn forget<L>(&mut self, at: usize, around: &mut Around<'_, L>) {
        if let Some(mut traffic) = self.traffic[at].take() {
            traffic.end(&mut self.budget, self.limits.bytes / 2, around.places);
            self.parts_left += traffic.charged();
            self.theirs -= usize::from(traffic.is_theirs());
            self.by_ends.remove(&traffic.ends());
            self.free.push(at);
        }
    }

    /// One that a frame of that node's begins.
    pub(super) fn begin_theirs<L: Local<Message = M>>(
        &mut self,
        now: u64,
        ends: Ends,
        routes: &mut [Box<dyn Route>],
        around: &mut Around<'_, L>,
    ) -> Option<usize> {
        let at = self.begin(now, ends, routes, around)?;
        self.theirs += 1;
        self.traffic[at].iter_mut().for_each(Traffic::begun_there);
        Some(at)
    }

    pub(super) fn begin<L: Local<Message = M>>(
        &mut self,
        now: u64,
        ends: Ends,
        routes: &mut [Box<dyn Route>],
        around: &mut Around<'_, L>,
    ) -> Option<usize> {
        let line = self.line_of(ends);
        let way = self.way_of(line);
        // Where all are dead, which one works first nobody knows.
        let longest = self.longest(|place| way.is_none_or(|way| way == place), routes);
        if self.lines[line].fitted.is_some_and(|fitted| fitted.part_max != longest) {
            // Another way may be in use by when it sends, of which its line was told before it came.
            self.lines[line].fitted = None;
        }
        // Of a way that is shortened now, longer ones may come once it is not: what a flow begins with is the most for its life.
        let part_max = self.longest(|_| false, routes);
        // One that is used has more soon: half of all is left for those. How many have the least, is bounded as flows are.
        let plenty = self.parts_left >= self.limits.bytes / 4;
        let memory = usize::from(part_max) * BEGIN;
        let memory = if plenty { memory } else { memory.min(LEAST).max(part_max.into()) };
        let (slot, resume) = around.places.begin(self.nid, ends);
        let incarnation = around.random.draw();
        let shortest = way.map_or(0, |place| self.ways[place].shortest);
        let (user, checksum) = (around.user, around.checksum);
        let like = Like { user, part_max, checksum, incarnation, shortest, resume, slot };
        // Addresses are checked by whoever calls, and parts are not empty.
        let mut traffic = Traffic::new(around.nid, self.nid, ends, like, memory).ok()?;
        traffic.set_part_max(now, longest);
        traffic.set_raw(self.is_raw(ends));
        if let Some(way) = way {
            traffic.goes_by(now, way, shortest, self.ways[way].link);
        }
        if plenty {
            traffic.charge(&mut self.parts_left);
        }
        let at = self.free.pop().unwrap_or_else(|| {
            self.traffic.push(None);
            self.is_ready.push(false);
            self.line.push(0);
            self.home.push(0);
            self.timers.grow();
            self.traffic.len() - 1
        });
        // One that was here before may still stand in its line, and finds nothing to do when it is its turn.
        self.stand_in(at, line);
        self.traffic[at] = Some(traffic);
        self.by_ends.insert(ends, at);
        Some(at)
    }

    /// When to look for unused ones next.
    pub(super) fn next_sweep(&self) -> u64 {
        self.swept.saturating_add(UNUSED)
    }
}
