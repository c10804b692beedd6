//! Which routes to a node work: asked by probes.
//!
//! The route in use is asked once a second while there is traffic with the node, and quickly where frames were sent and
//! nothing is heard. One that does not answer several times in a row is dead, and the next one is used. Dead ones are asked
//! when [`Choice`](dp_route::choice::Choice) says so, and are used again once they answer. A node without a route that lives is down: flows keep what
//! they have, and go on when it is back.

use std::time::Duration;

use dp_route::{Frames, PeerAddr, Reason, Route};

use super::{Around, Peer};
use crate::guard::Guard;
use crate::local::{Local, Message};
use crate::probe::{self, Probe};

/// How often the route in use is asked, nanoseconds, and how often where nothing is heard.
const ASK: [u64; 2] = [1_000_000_000, 200_000_000];
/// Questions in a row without an answer after which it is dead.
const SILENT: usize = 4;

/// A route to a node.
#[derive(Debug)]
pub struct Way {
    /// The route, by its place in the node's list.
    pub route: usize,
    /// Where that node is on it.
    pub address: PeerAddr,
    /// What frames on it pass.
    pub guard: Guard,
    /// The time from the latest question that was answered to its answer, nanoseconds; 0: none was.
    pub round_trip: u64,
    /// The questions since the last one that was answered: their numbers, and when they were sent. An answer to any of them
    /// says that the way works, however long it took.
    asked: Vec<(u32, u64)>,
    /// When the last one was sent.
    last: Option<u64>,
}

impl Way {
    /// Nothing is known of it.
    pub fn new(route: usize, address: PeerAddr, guard: Guard) -> Way {
        Way { route, address, guard, round_trip: 0, asked: Vec::with_capacity(SILENT), last: None }
    }
}

impl<M: Message> Peer<M> {
    /// A probe came from `place`.
    pub fn on_probe<L>(
        &mut self,
        now: u64,
        place: usize,
        probe: Probe,
        routes: &mut [Box<dyn Route>],
        around: &mut Around<'_, L>,
    ) {
        self.unheard = None;
        if probe.asks {
            let answer = Probe { from: around.nid, to: self.nid, number: probe.number, asks: false };
            self.say(now, place, answer, routes, around);
            return;
        }
        let way = &mut self.ways[place];
        let question = way.asked.iter().find(|(number, _)| *number == probe.number);
        if let Some(&(_, sent)) = question {
            way.round_trip = now.saturating_sub(sent).max(1);
            way.asked.clear();
            self.choice.answered(Duration::from_nanos(now), place);
        }
    }

    /// Asks the routes whose time has come.
    pub(super) fn ask<L: Local>(
        &mut self,
        now: u64,
        routes: &mut [Box<dyn Route>],
        around: &mut Around<'_, L>,
    ) {
        if self.by_ends.is_empty() {
            return;
        }
        let at = Duration::from_nanos(now);
        while let Some((place, _)) = self.current_due().filter(|(_, due)| *due <= now) {
            let way = &mut self.ways[place];
            if way.asked.len() < SILENT {
                self.question(now, place, routes, around);
            } else {
                way.asked.clear();
                self.choice.silent(at, place);
            }
        }
        while let Some(place) = self.choice.probe(at) {
            // An answer that came after this counts for nothing: an earlier question's was lost, or late.
            let _ = routes[self.ways[place].route].refresh();
            self.question(now, place, routes, around);
        }
    }

    /// When the next question is due.
    pub(super) fn next_question(&self) -> Option<u64> {
        if self.by_ends.is_empty() {
            return None;
        }
        let dead = self.choice.next_probe().map(|at| at.as_nanos() as u64);
        [self.current_due().map(|(_, due)| due), dead].into_iter().flatten().min()
    }

    /// The route in use, and when it is to be asked.
    fn current_due(&self) -> Option<(usize, u64)> {
        let place = self.choice.current()?;
        let way = &self.ways[place];
        let quickly = !way.asked.is_empty() || self.unheard.is_some();
        let due = way.last.map_or(0, |last| last.saturating_add(ASK[usize::from(quickly)]));
        Some((place, due))
    }

    fn question<L>(
        &mut self,
        now: u64,
        place: usize,
        routes: &mut [Box<dyn Route>],
        around: &mut Around<'_, L>,
    ) {
        let number = around.random.draw();
        let way = &mut self.ways[place];
        if way.asked.len() == SILENT {
            // Of one that is dead.
            way.asked.remove(0);
        }
        way.asked.push((number, now));
        way.last = Some(now);
        let question = Probe { from: around.nid, to: self.nid, number, asks: true };
        self.say(now, place, question, routes, around);
    }

    fn say<L>(
        &mut self,
        now: u64,
        place: usize,
        what: Probe,
        routes: &mut [Box<dyn Route>],
        around: &Around<'_, L>,
    ) {
        let bytes = probe::write(what, around.checksum);
        let mut packet = [0; 256];
        let guard = &mut self.ways[place].guard;
        packet[guard.head()..][..bytes.len()].copy_from_slice(&bytes);
        let length = match guard.is_open(now) {
            true => guard.seal(now, &mut packet, bytes.len()),
            false => 0,
        };
        let (way, lengths) = (&self.ways[place], [length as u16]);
        // A guard that has no keys yet lets no question pass; that counts as one that was not answered.
        let Some(frames) = Frames::new(&packet[..length], &lengths) else { return };
        if let Err(error) = routes[way.route].send(&way.address, frames) {
            self.choice.failed(Duration::from_nanos(now), place, Reason::of(&error));
        }
    }
}
