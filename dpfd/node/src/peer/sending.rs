//! Frames of all flows with a node, in turns, on their way to a route.
//!
//! Flows stand in *lines*, one for those that go by whatever route is the first, and one for each route that some are to go by
//! (an edge's `route` in the graph). A batch is of one line, so it goes by one route, and passes one guard.

use std::time::Duration;

use dp_route::{Frames, Reason, Route};

use super::{note, Peer};
use crate::local::Message;

/// Frames of one flow in a row, while others wait.
const TURN: u32 = 16;
/// Batches in a row, while other nodes wait.
const BATCHES: u32 = 4;
/// A queue below that has no room is tried again after this time, nanoseconds.
const NO_ROOM: u64 = 50_000;

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
        if self.no_room.is_some_and(|until| until > now) {
            return false;
        }
        self.no_room = None;
        for _ in 0..BATCHES {
            let some = !self.batch.frames().is_empty() || self.fill_next(now);
            if !some || !self.flush(now, routes) {
                return false;
            }
        }
        self.lines.iter().any(|line| !line.ready.is_empty())
    }

    /// The next line whose turn it is and whose way carries frames fills the batch. Whether there is one.
    fn fill_next(&mut self, now: u64) -> bool {
        for _ in 0..self.lines.len() {
            let at = self.turn % self.lines.len();
            self.turn = at + 1;
            if self.lines[at].ready.is_empty() {
                continue;
            }
            let Some(place) = self.way_of(at).filter(|&place| self.ways[place].guard.is_open(now)) else {
                continue;
            };
            self.fill(now, at, place);
            if !self.batch.frames().is_empty() {
                return true;
            }
        }
        false
    }

    /// The way by which the frames of a line go now; none if all are dead.
    pub(super) fn way_of(&self, line: usize) -> Option<usize> {
        match &self.lines[line].route {
            None => self.choice.current(),
            Some(route) => self.choice.current_of(|place| self.ways[place].address.route() == route),
        }
    }

    /// Has flows write frames, in turns, until the batch is full, and the guard of the way at `place` seal them.
    fn fill(&mut self, now: u64, line: usize, place: usize) {
        (self.filled, self.sealed) = (line, place);
        let (guard, ready) = (&mut self.ways[place].guard, &mut self.lines[line].ready);
        let mut turn = 0;
        while let Some(&at) = ready.front() {
            let mut done = true;
            if let Some(traffic) = self.traffic[at].as_mut() {
                let room = traffic.frame_max() + guard.around();
                done = false;
                let pushed =
                    self.batch.push(room, |out| match traffic.poll_transmit(now, &mut out[guard.head()..]) {
                        Some(length) => guard.seal(now, out, length),
                        None => {
                            done = true;
                            0
                        }
                    });
                if !pushed && !done {
                    return; // full
                }
                let timeout = traffic.next_timeout().filter(|_| done);
                if let Some(time) = timeout {
                    note(&mut self.timer, &mut self.timers, at, time);
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

    /// Sends the batch. False: not all of it went, or no route carries it.
    fn flush(&mut self, now: u64, routes: &mut [Box<dyn Route>]) -> bool {
        while let Some(place) = self.way_of(self.filled) {
            let around = self.ways[place].guard.around();
            let frames = self.batch.frames().after(self.sent);
            // What one guard has sealed the other end opens by no other: their flows send them again.
            if place != self.sealed && (around > 0 || self.ways[self.sealed].guard.around() > 0) {
                let left = frames.len() as u64;
                self.empty(left);
                return true;
            }
            let way = &mut self.ways[place];
            match routes[way.route].send(&way.address, frames) {
                Ok(n) if n < frames.len() => {
                    self.sent += n;
                    self.no_room = Some(now + NO_ROOM);
                    return false;
                }
                Ok(_) => {
                    way.used = now;
                    self.unheard.get_or_insert(now);
                    self.empty(0);
                    return true;
                }
                Err(error) => {
                    let reason = Reason::of(&error);
                    if reason == Reason::Full {
                        self.no_room = Some(now + NO_ROOM);
                        return false;
                    }
                    let left = frames.len() as u64;
                    if !self.choice.failed(Duration::from_nanos(now), place, reason) {
                        // Too long: the path became shorter. Their flows cut them anew.
                        self.too_long |= reason == Reason::TooLong;
                        self.empty(left);
                        return true;
                    }
                }
            }
        }
        let left = self.batch.frames().len() - self.sent;
        self.empty(left as u64);
        false
    }

    fn empty(&mut self, unsent: u64) {
        self.counts.unsent += unsent;
        self.batch.clear();
        self.sent = 0;
    }
}
