//! Another node: the routes that lead there, which of them is used, and the traffic with its endpoints.

use std::collections::HashMap;

use dp_abi::frame2::{Header, KIND_PART, KIND_RAW};
use dp_flow::Checksum;
use dp_graph::trust::Users;
use dp_route::choice::{Choice, Want};
use dp_route::Route;
use dpfd::Nid;

use crate::guard::Guard;
use crate::incoming::Budget;
use crate::local::{Local, Message};
use crate::nart::Edges;
use crate::places::{Ends, Places};
use crate::traffic::{Shared, Traffic};
use crate::Limits;

mod flows;
mod lengths;
mod search;
mod sending;
mod timers;
mod ways;
use flows::Wished;
use sending::Line;
use timers::Timers;
pub use ways::Way;

/// How often messages that are in others' way are looked for, nanoseconds.
const RECLAIM: u64 = 100_000_000;

/// What a peer has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Frames that its guard refused, or of messages along an edge that a strict graph has not.
    pub refused: u64,
    /// Frames that a flow refused.
    pub unsound: u64,
    /// Frames for a flow more than [`Limits::flows`].
    pub crowded: u64,
    /// Frames that no route carried; their flows send them again.
    pub unsent: u64,
}

/// What the calls below need of the node that this peer is of.
#[derive(Debug)]
pub struct Around<'a, L> {
    /// This node.
    pub nid: Nid,
    /// Whose endpoints these are.
    pub user: u32,
    /// Its endpoints.
    pub local: &'a mut L,
    /// Where places of flows are kept.
    pub places: &'a mut Places,
    /// The checksum of all frames.
    pub checksum: Option<Checksum>,
    /// Where random numbers come from.
    pub random: &'a mut Random,
}

fn shared<'a, L>(
    around: &'a mut Around<'_, L>,
    budget: &'a mut Budget,
    limits: Limits,
    users: &'a Users,
) -> Shared<'a, L> {
    let (owner, local, places) = (around.user, &mut *around.local, &mut *around.places);
    Shared { owner, users, local, budget, most: limits.bytes / 2, places }
}

/// Numbers that do not come again soon; nothing secret depends on them.
#[derive(Debug)]
pub struct Random(pub u64);

impl Random {
    /// The next (SplitMix64).
    pub fn draw(&mut self) -> u32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ mixed >> 31) as u32
    }
}

/// Another node.
#[derive(Debug)]
pub struct Peer<M> {
    nid: Nid,
    name: Option<String>,
    ways: Vec<Way>,
    choice: Choice,
    traffic: Vec<Option<Traffic<M>>>,
    free: Vec<usize>,
    by_ends: HashMap<Ends, usize>,
    /// How many of them frames of that node began.
    theirs: usize,
    /// The only edges that messages may come along, if the graph is strict.
    edges: Option<Edges>,
    /// Those that may have a frame to send, and which they are.
    lines: Vec<Line>,
    is_ready: Vec<bool>,
    /// The line of each, and the one in which it stands where no message names another.
    line: Vec<usize>,
    home: Vec<usize>,
    /// Lines by the codes of their routes' names. Some flow has messages that name one.
    codes: Vec<(u64, usize)>,
    has_mixed: bool,
    /// Flows that go over to another line, while they do.
    moved: Vec<(usize, usize)>,
    /// How messages of some edges are to go: as the graph says, and as programs of this node do, which counts for more.
    wishes: HashMap<Ends, Wished>,
    asked: HashMap<Ends, Wished>,
    /// Whose programs' links have ended, and when.
    ended: HashMap<Ends, u64>,
    timers: Timers,
    limits: Limits,
    budget: Budget,
    parts_left: usize,
    swept: u64,
    /// When messages were last looked for that are in others' way.
    reclaimed: u64,
    /// The time of the last turn.
    now: u64,
    /// Frames were too long for their route, or it was found out that it carries longer ones.
    too_long: bool,
    /// Its routes are asked whether they work until then; nothing: nobody needs to know.
    watched: Option<u64>,
    /// Since when frames were sent and nothing was heard.
    unheard: Option<u64>,
    /// When something was last heard; 0: never.
    heard: u64,
    counts: Counts,
}

impl<M: Message> Peer<M> {
    /// Node `nid` behind these routes, in the order in which they are wanted; not none.
    pub fn new(nid: Nid, name: Option<String>, ways: Vec<Way>, limits: Limits) -> Peer<M> {
        let names: Vec<String> = ways.iter().map(|way| way.address.route().to_string()).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        // Without a wish there is no name that could be missing.
        let choice = Choice::new(&names, Want::Order).unwrap_or_else(|error| unreachable!("{error}"));
        Peer {
            nid,
            name,
            ways,
            choice,
            traffic: Vec::new(),
            free: Vec::new(),
            by_ends: HashMap::new(),
            theirs: 0,
            edges: None,
            lines: vec![Line::new(None)],
            is_ready: Vec::new(),
            line: Vec::new(),
            home: Vec::new(),
            codes: Vec::new(),
            has_mixed: false,
            moved: Vec::new(),
            wishes: HashMap::new(),
            asked: HashMap::new(),
            ended: HashMap::new(),
            timers: Timers::default(),
            limits,
            budget: Budget::new(limits.bytes / 2),
            parts_left: limits.bytes / 2,
            swept: 0,
            reclaimed: 0,
            now: 0,
            too_long: false,
            watched: None,
            unheard: None,
            heard: 0,
            counts: Counts::default(),
        }
    }

    /// Messages may come along these edges alone.
    pub fn restrict(&mut self, edges: Edges) {
        self.edges = Some(edges);
    }

    /// Whether a frame of that kind may come from there. A flow has both directions: one of them is enough for what only greets and
    /// acknowledges.
    fn may_come(&self, ends: Ends, kind: u8) -> bool {
        let Some(edges) = &self.edges else { return true };
        let is_message = kind == KIND_PART || kind == KIND_RAW;
        edges.into.contains(&ends) || (!is_message && edges.out.contains(&ends))
    }

    /// Its number.
    pub fn nid(&self) -> Nid {
        self.nid
    }

    /// What people call it.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// When a frame of it was last let in; none: never. One that nobody here wants anything of is not asked, and can be gone
    /// without a word.
    pub fn heard(&self) -> Option<u64> {
        Some(self.heard).filter(|heard| *heard > 0)
    }

    /// Its guard on one of its routes.
    pub fn guard(&mut self, place: usize) -> &mut Guard {
        &mut self.ways[place].guard
    }

    /// The routes to it.
    pub fn ways(&self) -> &[Way] {
        &self.ways
    }

    /// Which of them is used now; none if all are dead.
    pub fn current(&self) -> Option<usize> {
        self.choice.current()
    }

    /// The one that such a flow uses.
    pub fn current_for(&self, ends: Ends) -> Option<usize> {
        self.way_of(self.line_of(ends))
    }

    /// Whether that one is not thought to be dead.
    pub fn is_alive(&self, place: usize) -> bool {
        self.choice.is_alive(place)
    }

    /// Flows with it.
    pub fn traffic(&self) -> impl Iterator<Item = &Traffic<M>> {
        self.traffic.iter().flatten()
    }

    /// What was counted.
    pub fn counts(&mut self) -> &mut Counts {
        &mut self.counts
    }

    /// A program here sends.
    pub fn send<L: Local<Message = M>>(
        &mut self,
        now: u64,
        ends: Ends,
        message: M,
        routes: &mut [Box<dyn Route>],
        around: &mut Around<'_, L>,
    ) {
        let at = match self.by_ends.get(&ends).copied() {
            Some(at) => Some(at),
            None => self.begin(now, ends, routes, around),
        };
        self.watch(now);
        let Some(at) = at else { return };
        if message.route() != 0 {
            self.mix(now, at, message.route(), routes);
        }
        if let Some(traffic) = self.traffic[at].as_mut() {
            traffic.send(now, message);
            traffic.again().into_iter().for_each(|time| self.note(at, time));
        }
        self.make_ready(at);
    }

    /// A frame of a flow came by the way at `place`, for these endpoints.
    pub fn on_frame<L: Local<Message = M>>(
        &mut self,
        now: u64,
        (place, ends): (usize, Ends),
        (header, frame): (&Header, &[u8]),
        routes: &mut [Box<dyn Route>],
        around: &mut Around<'_, L>,
    ) {
        (self.unheard, self.heard) = (None, now);
        if !self.may_come(ends, header.kind) {
            self.counts.refused += 1;
            return;
        }
        let at = match self.by_ends.get(&ends).copied() {
            Some(at) => Some(at),
            None if self.is_crowded(now, around) => {
                self.counts.crowded += 1;
                return;
            }
            None => self.begin_theirs(now, ends, routes, around),
        };
        self.watch(now);
        let Some((at, traffic)) = at.and_then(|at| Some((at, self.traffic[at].as_mut()?))) else { return };
        let mut shared = shared(around, &mut self.budget, self.limits, &self.ways[place].users);
        if header.kind == KIND_RAW {
            let taken = traffic.on_datagram(now, frame, &mut shared);
            self.counts.unsound += u64::from(taken.is_err());
            traffic.again().into_iter().for_each(|time| self.note(at, time));
            // Nobody acknowledges it; a stranger is greeted.
            self.make_ready(at);
            return;
        }
        if traffic.on_frame(now, place, frame, &mut shared).is_err() {
            self.counts.unsound += 1;
        }
        let memory = traffic.wants_memory();
        if let Some(memory) = memory.filter(|memory| self.parts_left + traffic.charged() >= *memory) {
            traffic.grow(now, memory, &mut self.parts_left);
        }
        let arrived = traffic.full_arrived();
        traffic.again().into_iter().for_each(|time| self.note(at, time));
        if let Some(part) = arrived {
            self.part_arrived(at, part.into());
        }
        self.make_ready(at);
    }

    fn make_ready(&mut self, at: usize) {
        if !core::mem::replace(&mut self.is_ready[at], true) {
            self.lines[self.line[at]].push(at);
        }
    }

    /// Look at it then.
    fn note(&mut self, at: usize, time: u64) {
        self.timers.note(at, time);
    }

    /// What the clock brings, and then all that can be sent. True: there is more to send at once.
    pub fn turn<L: Local<Message = M>>(
        &mut self,
        now: u64,
        routes: &mut [Box<dyn Route>],
        around: &mut Around<'_, L>,
    ) -> bool {
        self.now = now;
        while let Some(at) = self.timers.due(now) {
            let Some(traffic) = self.traffic[at].as_mut() else { continue };
            let users = &self.ways[traffic.by()].users;
            let mut shared = shared(around, &mut self.budget, self.limits, users);
            traffic.deliver(now, &mut shared);
            traffic.again().into_iter().for_each(|time| self.note(at, time));
            self.make_ready(at);
        }
        if now >= self.reclaimed.saturating_add(RECLAIM) && self.budget.was_wanted() {
            self.reclaim(now);
        }
        if now >= self.next_sweep() {
            self.sweep(now, false, around);
        }
        self.answer_again(now, routes, around);
        self.ask(now, routes, around);
        let mut more = self.transmit(now, routes);
        if self.too_long {
            self.fit(now, routes);
            more |= self.lines.iter().any(Line::has_ready);
        }
        self.own_packets(now, routes);
        self.timers.settle();
        more
    }

    /// When to call [`Peer::turn`] at the latest.
    pub fn next_timeout(&self) -> Option<u64> {
        let flows = self.timers.next();
        let guards = self.ways.iter().filter_map(|way| way.guard.next_timeout()).min();
        let sweeps = !self.by_ends.is_empty() || !self.ended.is_empty();
        let sweep = sweeps.then(|| self.next_sweep());
        let room = self.lines.iter().filter_map(Line::next_try).min();
        [flows, room, guards, sweep, self.next_answer(), self.next_question()].into_iter().flatten().min()
    }
}
