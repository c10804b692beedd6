//! Frames of all flows with a node, in turns, on their way to a route.
//!
//! Flows stand in *lines*, one for those that go by whatever route is the first, and one for each route that some are to go by
//! (an edge's `route` in the graph, what a program says of its endpoint, or of a message: a flow stands where the message that it
//! sends next is to go). Each line has a batch of its own, which goes by one route and passes one guard, so a route
//! that has no room holds up only those that go by it.

use std::collections::VecDeque;
use std::time::Duration;

use dp_route::{Batch, Frames, Reason, Route, FRAME_MAX};

use super::lengths::Fitted;
use super::Peer;
use crate::local::Message;
use crate::traffic::Traffic;

/// Frames of one flow in a row, while others wait.
const TURN: u32 = 16;
/// Batches of a line in a row, while other nodes wait.
const BATCHES: u32 = 4;
/// A queue below that has no room is tried again after this time, nanoseconds.
const NO_ROOM: u64 = 50_000;

/// Flows that are to go by one route, and their frames on the way to it.
#[derive(Debug)]
pub(super) struct Line {
    /// Its name; none: the first that works.
    route: Option<String>,
    /// Those that may have a frame to send.
    ready: VecDeque<usize>,
    /// Frames that wait for room below, without the first `sent`.
    batch: Batch,
    sent: usize,
    /// The way whose guard they have passed.
    sealed: usize,
    /// There was no room: when to try again.
    no_room: Option<u64>,
    /// How long its flows' parts are, and for which way; none: nobody asked yet.
    pub(super) fitted: Option<Fitted>,
}

impl Line {
    /// Of a route that has a name, or of the first that works.
    pub fn new(route: Option<&str>) -> Line {
        let route = route.map(str::to_string);
        let batch = Batch::new(FRAME_MAX);
        Line { route, ready: VecDeque::new(), batch, sent: 0, sealed: 0, no_room: None, fitted: None }
    }

    /// The route's name.
    pub fn route(&self) -> Option<&str> {
        self.route.as_deref()
    }

    /// A flow may have a frame to send.
    pub fn push(&mut self, at: usize) {
        self.ready.push_back(at);
    }

    /// A flow is none of this line's any more.
    pub fn remove(&mut self, at: usize) {
        self.ready.retain(|ready| *ready != at);
    }

    /// Whether a flow may have a frame to send.
    pub fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// When to try again what found no room.
    pub fn next_try(&self) -> Option<u64> {
        self.no_room
    }

    fn is_empty(&self) -> bool {
        self.batch.frames().is_empty()
    }

    fn left(&self) -> Frames<'_> {
        self.batch.frames().after(self.sent)
    }

    fn clear(&mut self) {
        self.batch.clear();
        self.sent = 0;
    }
}

impl<M: Message> Peer<M> {
    /// What guards send by themselves. A route that is dead may be so for want of keys.
    pub(super) fn own_packets(&mut self, now: u64, routes: &mut [Box<dyn Route>]) {
        let mut packet = [0; 1500];
        for (place, way) in self.ways.iter_mut().enumerate() {
            while let Some(length) = way.guard.next(now, &mut packet) {
                let lengths = [length as u16];
                let Some(frames) = Frames::new(&packet[..length], &lengths) else { break };
                if let Err(error) = routes[way.route].send(&way.address, frames) {
                    self.choice.failed(Duration::from_nanos(now), place, Reason::of(&error));
                    break;
                }
            }
        }
    }

    /// Sends what flows have to send. True: there is more at once.
    pub(super) fn transmit(&mut self, now: u64, routes: &mut [Box<dyn Route>]) -> bool {
        for _ in 0..BATCHES {
            // A flow whose messages name several routes in turn fills the batches of all their lines before any leaves.
            while self.fill_lines(now, routes) {}
            let mut more = false;
            for line in 0..self.lines.len() {
                more |= self.send_line(now, line, routes);
            }
            if !more {
                return false;
            }
        }
        true
    }

    /// Whether a flow went over to another line, which may have had its turn.
    fn fill_lines(&mut self, now: u64, routes: &mut [Box<dyn Route>]) -> bool {
        let mut moved = false;
        for at in 0..self.lines.len() {
            let line = &self.lines[at];
            if line.ready.is_empty() || line.sent > 0 || line.no_room.is_some_and(|until| until > now) {
                continue;
            }
            let Some(place) = self.way_of(at) else {
                self.drop_datagrams(at);
                continue;
            };
            // One guard seals all of a batch.
            let is_others = !self.lines[at].is_empty() && self.lines[at].sealed != place;
            if is_others || !self.ways[place].guard.is_open(now) {
                continue;
            }
            if self.lines[at].fitted.is_none_or(|fitted| fitted.by != place) {
                self.fit_line(now, at, routes);
            }
            moved |= self.fill(now, at, place);
        }
        moved
    }

    /// Sends the batch of a line. True: the next one can follow.
    fn send_line(&mut self, now: u64, at: usize, routes: &mut [Box<dyn Route>]) -> bool {
        let line = &mut self.lines[at];
        if line.no_room.is_some_and(|until| until > now) {
            return false;
        }
        line.no_room = None;
        !self.lines[at].is_empty() && self.flush(now, at, routes) && self.lines[at].has_ready()
    }

    /// The way by which the frames of a line go now; none if all are dead.
    pub(super) fn way_of(&self, line: usize) -> Option<usize> {
        match &self.lines[line].route {
            None => self.choice.current(),
            Some(route) => self.choice.current_of(|place| self.ways[place].address.route() == route),
        }
    }

    /// Has flows write frames, in turns, until the batch is full, and the guard of the way at `place` seal them. Whether one
    /// went over to another line, since its next message names that one's route.
    fn fill(&mut self, now: u64, line: usize, place: usize) -> bool {
        let mut moved = core::mem::take(&mut self.moved);
        self.fill_until(now, line, place, &mut moved);
        let any = !moved.is_empty();
        for (at, to) in moved.drain(..) {
            self.line[at] = to;
            self.lines[to].push(at);
        }
        self.moved = moved;
        any
    }

    fn fill_until(&mut self, now: u64, line: usize, place: usize, moved: &mut Vec<(usize, usize)>) {
        let Line { ready, batch, sealed, .. } = &mut self.lines[line];
        let guard = &mut self.ways[place].guard;
        *sealed = place;
        let mut turn = 0;
        while let Some(&at) = ready.front() {
            let mut done = true;
            if let Some(traffic) = self.traffic[at].as_mut() {
                let to = if self.has_mixed { traffic.next_route() } else { None };
                let of =
                    |route: u64| self.codes.iter().find(|(code, _)| *code == route).map(|(_, line)| *line);
                let to = to.map_or(line, |route| of(route).unwrap_or(self.home[at]));
                if to != line {
                    ready.pop_front();
                    moved.push((at, to));
                    turn = 0;
                    continue;
                }
                let room = traffic.frame_max() + guard.around();
                done = false;
                let pushed =
                    batch.push(room, |out| match traffic.poll_transmit(now, &mut out[guard.head()..]) {
                        Some(length) => guard.seal(now, out, length),
                        None => {
                            done = true;
                            0
                        }
                    });
                if !pushed && !done {
                    return; // full
                }
                if done {
                    self.timers.set(at, traffic.next_timeout());
                }
            }
            if done {
                ready.pop_front();
                self.is_ready[at] = false;
                turn = 0;
            } else {
                turn += 1;
                if turn == TURN {
                    ready.rotate_left(1);
                    turn = 0;
                }
            }
        }
    }

    /// Sends the batch of a line. False: not all of it went, or no route carries it.
    fn flush(&mut self, now: u64, at: usize, routes: &mut [Box<dyn Route>]) -> bool {
        while let Some(place) = self.way_of(at) {
            let line = &mut self.lines[at];
            // What one guard has sealed the other end opens by no other: their flows send them again.
            let is_sealed = |place: usize| self.ways[place].guard.around() > 0;
            if place != line.sealed && (is_sealed(place) || is_sealed(line.sealed)) {
                self.drop_left(at);
                return true;
            }
            let (way, frames) = (&mut self.ways[place], line.left());
            match routes[way.route].send(&way.address, frames) {
                Ok(n) if n < frames.len() => {
                    line.sent += n;
                    line.no_room = Some(now + NO_ROOM);
                    return false;
                }
                Ok(_) => {
                    way.used = now;
                    let longest = frames.lengths().iter().max().copied();
                    way.search.sent(longest.map_or(0, usize::from));
                    self.unheard.get_or_insert(now);
                    line.clear();
                    return true;
                }
                Err(error) => {
                    let reason = Reason::of(&error);
                    if reason == Reason::Full {
                        line.no_room = Some(now + NO_ROOM);
                        return false;
                    }
                    if !self.choice.failed(Duration::from_nanos(now), place, reason) {
                        // Too long: the path became shorter. Their flows cut them anew.
                        self.too_long |= reason == Reason::TooLong;
                        self.drop_left(at);
                        return true;
                    }
                }
            }
        }
        self.drop_left(at);
        false
    }

    /// Nobody waits for a node that is down to take what would go raw.
    fn drop_datagrams(&mut self, line: usize) {
        for &at in &self.lines[line].ready {
            self.traffic[at].iter_mut().for_each(Traffic::drop_datagrams);
        }
    }

    /// Drops the frames of a line's batch that have not left, and counts them.
    fn drop_left(&mut self, at: usize) {
        self.counts.unsent += self.lines[at].left().len() as u64;
        self.lines[at].clear();
    }
}
