//! Which routes to a node work: asked by probes.
//!
//! The route in use is asked once a second while something is sent, or waits to be acknowledged, and quickly where frames were
//! sent and nothing is heard. Of a node that nobody here wants anything of nothing is asked. One that does not answer several
//! times in a row is dead, and the next one is used. Dead ones are asked when [`Choice`](dp_route::choice::Choice) says so,
//! and are used again once they answer. A node without a route that lives is down: flows keep what they have, and go on when
//! it is back. Whether long packets come through is asked by the way ([`Search`]).

use std::time::Duration;

use dp_flow::Link;
use dp_graph::trust::Users;
use dp_route::{Frames, PeerAddr, Reason, Route};

use super::search::Search;
use super::{Around, Peer};
use crate::guard::Guard;
use crate::local::{Local, Message};
use crate::probe::{self, Probe};

/// How often the route in use is asked, nanoseconds, and how often where nothing is heard.
const ASK: [u64; 2] = [1_000_000_000, 200_000_000];
/// For so long after the last frame a node is watched, nanoseconds.
const WATCHED: u64 = 2_000_000_000;
/// Questions in a row without an answer after which it is dead.
const SILENT: usize = 4;
/// A question or an answer that found no room is tried again after this time, nanoseconds; a question that has found none for so
/// long counts as one that was not answered, since a queue that takes nothing leads nowhere.
const AGAIN: u64 = 1_000_000;
const NO_ROOM: u64 = 200_000_000;

/// A route to a node.
#[derive(Debug)]
pub struct Way {
    /// The route, by its place in the node's list.
    pub route: usize,
    /// Where that node is on it.
    pub address: PeerAddr,
    /// What frames on it pass.
    pub guard: Guard,
    /// Who users of that node are who send by it.
    pub users: Users,
    /// Its link, where the graph says how quick that is.
    pub link: Option<Link>,
    /// The time from the latest question that was answered to its answer, nanoseconds; 0: none was.
    pub round_trip: u64,
    /// The shortest such time.
    pub(super) shortest: u64,
    /// The questions since the last one that was answered: their numbers, and when they were sent. An answer to any of them
    /// says that the way works, however long it took.
    asked: Vec<(u32, u64)>,
    /// When the last one was sent.
    last: Option<u64>,
    /// Since when one finds no room, and when it is tried again.
    no_room: Option<(u64, u64)>,
    /// The numbers of answers that found none, since when each, and when they are tried again.
    answers: Vec<(u32, u64)>,
    answer_at: Option<u64>,
    /// When frames last went by it; 0: never.
    pub(super) used: u64,
    /// How long packets may be, where it carries shorter ones than it says.
    pub(super) search: Search,
}

impl Way {
    /// Nothing is known of it, and users are squashed.
    pub fn new(route: usize, address: PeerAddr, guard: Guard) -> Way {
        Way {
            route,
            address,
            guard,
            users: Users::Squash,
            link: None,
            round_trip: 0,
            shortest: 0,
            asked: Vec::with_capacity(SILENT),
            last: None,
            no_room: None,
            answers: Vec::with_capacity(SILENT),
            answer_at: None,
            used: 0,
            search: Search::default(),
        }
    }

    /// Bytes of the longest packet that comes through, where that is less than the route says.
    pub fn shortened(&self) -> Option<usize> {
        self.search.shorter()
    }

    /// Its link carries so many bytes in a second.
    #[must_use]
    pub fn with_speed(self, speed: Option<u64>) -> Way {
        let below = match &self.address {
            PeerAddr::Udp(at) if at.is_ipv4() => Link::ETHERNET + 28,
            PeerAddr::Udp(_) => Link::ETHERNET + 48,
            _ => Link::ETHERNET,
        };
        let around = below + self.guard.around() as u16;
        Way { link: speed.map(|speed| Link { speed, around }), ..self }
    }

    /// Its users are these.
    #[must_use]
    pub fn with_users(self, users: Users) -> Way {
        Way { users, ..self }
    }
}

/// What became of a question or an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Said {
    Left,
    /// The queue below is full.
    NoRoom,
    /// Its guard has no keys yet.
    NoKeys,
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
        (self.unheard, self.heard) = (None, now);
        if probe.asks {
            let answers = &mut self.ways[place].answers;
            if answers.len() < SILENT {
                answers.push((probe.number, now));
            }
            self.answer(now, place, routes, around);
            return;
        }
        let mtu = self.mtu(place, routes);
        let way = &mut self.ways[place];
        let question = way.asked.iter().find(|(number, _)| *number == probe.number);
        if let Some(&(_, sent)) = question {
            way.round_trip = now.saturating_sub(sent).max(1);
            way.shortest = if way.shortest == 0 { way.round_trip } else { way.shortest.min(way.round_trip) };
            way.asked.clear();
            way.search.short_answered(now, sent);
            self.choice.answered(Duration::from_nanos(now), place);
        } else {
            self.searches(place, mtu, |search| search.answered(now, mtu, probe.number));
        }
    }

    /// Answers what was asked by that way, as far as there is room.
    fn answer<L>(
        &mut self,
        now: u64,
        place: usize,
        routes: &mut [Box<dyn Route>],
        around: &mut Around<'_, L>,
    ) {
        self.ways[place].answer_at = None;
        while let Some(&(number, since)) = self.ways[place].answers.first() {
            let answer = Probe { from: around.nid, to: self.nid, number, asks: false };
            let said = self.say(now, place, answer, 0, routes, around);
            if said == Ok(Said::NoRoom) && now < since.saturating_add(NO_ROOM) {
                self.ways[place].answer_at = Some(now + AGAIN);
                return;
            }
            self.ways[place].answers.remove(0);
        }
    }

    /// Answers that found no room, whose time has come.
    pub(super) fn answer_again<L>(
        &mut self,
        now: u64,
        routes: &mut [Box<dyn Route>],
        around: &mut Around<'_, L>,
    ) {
        for place in 0..self.ways.len() {
            if self.ways[place].answer_at.is_some_and(|at| at <= now) {
                self.answer(now, place, routes, around);
            }
        }
    }

    /// When they are to be tried again.
    pub(super) fn next_answer(&self) -> Option<u64> {
        self.ways.iter().filter_map(|way| way.answer_at).min()
    }

    /// Asks the routes whose time has come.
    pub(super) fn ask<L: Local>(
        &mut self,
        now: u64,
        routes: &mut [Box<dyn Route>],
        around: &mut Around<'_, L>,
    ) {
        if self.watched.is_some_and(|until| until <= now) {
            // That a node is down need not be found out twice.
            let unheard = self.unheard.is_some() && self.choice.current().is_some();
            let waits = unheard || self.traffic().any(|traffic| !traffic.is_quiet());
            self.watched = waits.then(|| now + WATCHED);
        }
        if self.watched.is_none() {
            return;
        }
        let at = Duration::from_nanos(now);
        while let Some((place, _)) = self.next_due(now).filter(|(_, due)| *due <= now) {
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

    /// Somebody wants something of the node: its routes are asked.
    pub(super) fn watch(&mut self, now: u64) {
        if self.watched.is_none() {
            // Nobody waited for answers to those from before.
            self.ways.iter_mut().for_each(|way| way.asked.clear());
        }
        self.watched = Some(now + WATCHED);
    }

    /// When the next question is due.
    pub(super) fn next_question(&self) -> Option<u64> {
        let watched = self.watched?;
        let dead = self.choice.next_probe().map(|at| at.as_nanos() as u64);
        [self.next_due(self.now).map(|(_, due)| due), dead, Some(watched)].into_iter().flatten().min()
    }

    /// Of the routes in use, the one that is to be asked first, and when.
    fn next_due(&self, now: u64) -> Option<(usize, u64)> {
        let current = self.choice.current();
        let in_use = |place: usize| {
            let used = self.ways[place].used;
            Some(place) == current || (used > 0 && now < used + WATCHED && self.choice.is_alive(place))
        };
        let due = |place: usize| {
            let way = &self.ways[place];
            let quickly = !way.asked.is_empty() || self.unheard.is_some() || way.search.is_urgent();
            let due = way.last.map_or(0, |last| last.saturating_add(ASK[usize::from(quickly)]));
            (place, way.no_room.map_or(due, |(_, again)| again))
        };
        (0..self.ways.len()).filter(|&place| in_use(place)).map(due).min_by_key(|(_, due)| *due)
    }

    fn question<L>(
        &mut self,
        now: u64,
        place: usize,
        routes: &mut [Box<dyn Route>],
        around: &mut Around<'_, L>,
    ) {
        if self.choice.is_alive(place) {
            self.long_question(now, place, routes, around);
        }
        let number = around.random.draw();
        let question = Probe { from: around.nid, to: self.nid, number, asks: true };
        let said = self.say(now, place, question, 0, routes, around);
        let way = &mut self.ways[place];
        let since = way.no_room.map_or(now, |(since, _)| since);
        if said == Ok(Said::NoRoom) && now < since.saturating_add(NO_ROOM) {
            // What has the room is sent, and tells nothing of the way.
            way.no_room = Some((since, now + AGAIN));
            return;
        }
        way.no_room = None;
        if way.asked.len() == SILENT {
            // Of one that is dead.
            way.asked.remove(0);
        }
        way.asked.push((number, now));
        way.last = Some(now);
        if let Err(reason) = said {
            self.choice.failed(Duration::from_nanos(now), place, reason);
        }
    }

    /// It leaves before the short one: where packets keep their order, it is answered first.
    fn long_question<L>(
        &mut self,
        now: u64,
        place: usize,
        routes: &mut [Box<dyn Route>],
        around: &mut Around<'_, L>,
    ) {
        let (mtu, number) = (self.mtu(place, routes), around.random.draw());
        if mtu == 0 {
            return;
        }
        let Some(length) = self.searches(place, mtu, |search| search.ask(now, mtu, number)) else { return };
        let question = Probe { from: around.nid, to: self.nid, number, asks: true };
        // Of other errors the short one tells.
        let said = self.say(now, place, question, length, routes, around);
        self.too_long |= said == Err(Reason::TooLong);
        if said != Ok(Said::Left) {
            // A queue that was full is no black hole.
            self.ways[place].search.take_back();
        }
    }

    /// Sends a question or an answer, filled up to a packet of `length` bytes.
    fn say<L>(
        &mut self,
        now: u64,
        place: usize,
        what: Probe,
        length: usize,
        routes: &mut [Box<dyn Route>],
        around: &Around<'_, L>,
    ) -> Result<Said, Reason> {
        let bytes = probe::write(what, around.checksum);
        let way = &mut self.ways[place];
        let frame = length.saturating_sub(way.guard.around()).max(bytes.len());
        let mut packet = vec![0; frame + way.guard.around()];
        packet[way.guard.head()..][..bytes.len()].copy_from_slice(&bytes);
        let length = match way.guard.is_open(now) {
            true => way.guard.seal(now, &mut packet, frame),
            false => 0,
        };
        let lengths = [length as u16];
        // A guard that has no keys yet lets no question pass; that counts as one that was not answered.
        let Some(frames) = Frames::new(&packet[..length], &lengths) else { return Ok(Said::NoKeys) };
        match routes[way.route].send(&way.address, frames) {
            Ok(0) => Ok(Said::NoRoom),
            Ok(_) => Ok(Said::Left),
            Err(error) => match Reason::of(&error) {
                Reason::Full => Ok(Said::NoRoom),
                reason => Err(reason),
            },
        }
    }
}
