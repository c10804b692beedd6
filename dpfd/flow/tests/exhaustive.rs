//! All that can happen to a few frames between two flows with windows of up to four, which is what the receiver has memory for:
//! every order in which they arrive, with each of them lost, each come twice, each time-out, each restart, with or without what was
//! kept of the receiver's place, and each new beginning by itself at every moment, as far as the counts below go. States that were
//! seen are not looked at again.

use std::collections::hash_map::DefaultHasher;
use std::collections::HashSet;
use std::hash::{Hash, Hasher};

use dp_flow::{crc32c, Address, Config, Event, Flow, Outgoing, Part, Place};

const A: Address = Address { nid: 1, dpid: 1024 };
const B: Address = Address { nid: 2, dpid: 2048 };
const PART: u16 = 6;
/// Parts for which both sides have memory: the receiver's is the sender's window.
const MEMORIES: [usize; 3] = [1, 2, 4];

/// What may still go wrong.
#[derive(Clone, Copy, Default, Hash)]
struct Luck {
    losses: u8,
    repeats: u8,
    timeouts: u8,
    restarts: [u8; 2],
    /// Times that a side begins anew by itself.
    renewals: [u8; 2],
}

/// What the programs know: the one that sends from a side, and the one that receives at the other.
#[derive(Clone, Default, Hash)]
struct Way {
    sent: u8,
    /// What the messages of this flow's life are, by number, and the first that the sender was told nothing of.
    ids: Vec<u8>,
    told: usize,
    delivered: Vec<u8>,
    /// What the receiver has: whole messages, and the one that comes.
    came: Vec<u8>,
    partial: Vec<u8>,
}

#[derive(Clone, Hash)]
struct State {
    now: u64,
    /// Parts for which a side has memory.
    memory: usize,
    flows: [Flow<Vec<u8>, 4>; 2],
    incarnations: u32,
    wire: Vec<(usize, Vec<u8>)>,
    /// By who sends.
    ways: [Way; 2],
    /// Where each side was behind its last whole message, and whether it is told that when it is restarted. Then what its peer is told
    /// to be lost did not come, and is sent again.
    places: [Option<Place>; 2],
    keeps: bool,
    luck: Luck,
}

fn config(side: usize, incarnation: u32, resume: Option<Place>) -> Config {
    let (from, to) = if side == 0 { (A, B) } else { (B, A) };
    Config {
        part_max: PART,
        first_number: u32::MAX - 1,
        ack_every: 2,
        keepalive: 0,
        dead_after: u64::MAX,
        resume,
        ..Config::new(from, to, incarnation, Some(crc32c))
    }
}

fn flow(side: usize, incarnation: u32, memory: usize, resume: Option<Place>) -> Flow<Vec<u8>, 4> {
    Flow::new(config(side, incarnation, resume), vec![0; memory * usize::from(PART)]).unwrap()
}

/// Message `id`: some bytes that say so; every other one takes two parts.
fn len(id: u8) -> usize {
    if id % 2 == 0 {
        3
    } else {
        7
    }
}

impl State {
    fn new(memory: usize, luck: Luck) -> State {
        State {
            now: 1,
            memory,
            flows: [flow(0, 1, memory, None), flow(1, 2, memory, None)],
            incarnations: 2,
            wire: Vec::new(),
            ways: Default::default(),
            places: [None; 2],
            keeps: false,
            luck,
        }
    }

    fn send(&mut self, side: usize, messages: u8) {
        for _ in 0..messages {
            self.put(side, self.ways[side].sent);
            self.ways[side].sent += 1;
        }
        self.settle();
    }

    fn put(&mut self, side: usize, id: u8) {
        self.flows[side].send(self.now, Outgoing { total: len(id) as u32, immediate: None }).unwrap();
        self.ways[side].ids.push(id);
    }

    fn settle(&mut self) {
        for side in 0..2 {
            self.transmit(side);
            while self.hear_events(side) {
                self.transmit(side);
            }
        }
        self.wire.sort();
    }

    fn transmit(&mut self, side: usize) {
        let mut out = [0; 256];
        let ids = &self.ways[side].ids;
        let mut source = |number: u64, _: u32, out: &mut [u8]| {
            out.fill(ids[number as usize]);
            out.len()
        };
        while let Some(len) = self.flows[side].poll_transmit(self.now, &mut source, &mut out) {
            self.wire.push((1 - side, out[..len].to_vec()));
        }
    }

    /// Whether something was lost, and sent again.
    fn hear_events(&mut self, side: usize) -> bool {
        let mut again = Vec::new();
        let way = &mut self.ways[side];
        while let Some(event) = self.flows[side].poll_event() {
            match event {
                Event::Delivered { before } => {
                    way.delivered.extend(&way.ids[way.told..before as usize]);
                    way.told = before as usize;
                }
                // The program goes on with other messages, unless these did not come.
                Event::Lost { from, before } => {
                    assert_eq!(way.told, from as usize);
                    again.extend(&way.ids[way.told..before as usize]);
                    way.told = before as usize;
                }
                Event::Up | Event::Down(_) => {}
            }
        }
        again.retain(|_| self.keeps);
        again.iter().for_each(|id| self.put(side, *id));
        !again.is_empty()
    }

    fn arrive(&mut self, frame: usize, stays: bool) {
        let (to, bytes) = if stays { self.wire[frame].clone() } else { self.wire.remove(frame) };
        let (Way { came, partial, .. }, place) = (&mut self.ways[1 - to], &mut self.places[to]);
        let mut sink = |part: Part<'_>| {
            if part.begin == 0 {
                partial.clear();
            }
            assert_eq!(partial.len(), part.begin as usize);
            partial.extend_from_slice(part.bytes);
            if part.is_last() {
                let id = partial[0];
                assert!(partial.iter().all(|byte| *byte == id) && partial.len() == len(id), "whole");
                assert!(came.last().is_none_or(|last| *last < id), "once and in order: {id} after {came:?}");
                came.push(id);
                partial.clear();
                *place = Some(part.place);
            }
            true
        };
        let _ = self.flows[to].on_frame(self.now, &bytes, &mut sink);
        self.settle();
    }

    /// False: nothing waits for the clock.
    fn time_out(&mut self) -> bool {
        let Some(next) = self.flows.iter().filter_map(Flow::next_timeout).min() else { return false };
        self.now = self.now.max(next);
        self.settle();
        true
    }

    fn restart(&mut self, side: usize) {
        self.incarnations += 1;
        let resume = self.places[side].filter(|_| self.keeps);
        self.flows[side] = flow(side, self.incarnations * 0x1234_5677, self.memory, resume);
        (self.ways[side].ids, self.ways[side].told) = (Vec::new(), 0);
        self.ways[1 - side].partial.clear();
    }

    fn check(&self) {
        for Way { came, delivered, .. } in &self.ways {
            for id in delivered {
                assert!(came.contains(id), "{id} was told to be delivered, and {came:?} came");
            }
        }
    }

    /// From now on nothing goes wrong: all that was sent and not lost by a restart must come, and what is sent now.
    fn goes_well(mut self, begin: &State) {
        let all = self.ways.each_ref().map(|way| way.sent);
        let restarts = begin.luck.restarts != [0, 0];
        for _ in 0..2000 {
            if self.wire.is_empty() {
                let done = self.ways.iter().all(|Way { sent, came, delivered, .. }| {
                    came.last().map_or(0, |last| last + 1) == *sent && delivered.last() == came.last()
                });
                if done {
                    for (side, all) in all.into_iter().enumerate() {
                        // What it has not lost itself.
                        let whole = if begin.keeps { begin.luck.restarts[side] == 0 } else { !restarts };
                        let came = self.ways[side].came.iter().copied();
                        assert!(!whole || came.clone().take(all.into()).eq(0..all), "{came:?} of {all}");
                    }
                    return self.check();
                }
                if !self.time_out() && restarts {
                    (0..2).filter(|side| all[*side] > 0).for_each(|side| self.send(side, 1));
                }
            } else {
                self.arrive(0, false);
            }
        }
        let told = self.ways.each_ref().map(|way| (&way.came, &way.delivered));
        panic!("of {all:?} there came, and were told to: {told:?}");
    }
}

/// Looks at all that can become of a state; how many there are.
fn explore(begin: State) -> usize {
    let first = begin.clone();
    let mut seen = HashSet::new();
    let mut todo = vec![begin];
    let mut visit = |todo: &mut Vec<State>, state: State| {
        let mut hasher = DefaultHasher::new();
        state.hash(&mut hasher);
        if seen.insert(hasher.finish()) {
            state.check();
            todo.push(state);
        }
        seen.len()
    };
    let mut states = 0;
    while let Some(state) = todo.pop() {
        let mut next = |change: &dyn Fn(&mut State)| {
            let mut state = state.clone();
            change(&mut state);
            states = visit(&mut todo, state);
        };
        for frame in 0..state.wire.len() {
            if frame > 0 && state.wire[frame] == state.wire[frame - 1] {
                continue;
            }
            next(&|state| state.arrive(frame, false));
            if state.luck.losses > 0 {
                next(&|state| {
                    state.luck.losses -= 1;
                    state.wire.remove(frame);
                });
            }
            if state.luck.repeats > 0 {
                next(&|state| {
                    state.luck.repeats -= 1;
                    state.arrive(frame, true);
                });
            }
        }
        if state.luck.timeouts > 0 {
            next(&|state| {
                state.luck.timeouts -= 1;
                state.time_out();
            });
        }
        for side in 0..2 {
            if state.luck.restarts[side] > 0 {
                next(&|state| {
                    state.luck.restarts[side] -= 1;
                    state.restart(side);
                    if state.ways[side].sent > 0 {
                        state.send(side, 1);
                    }
                    state.settle();
                });
            }
            if state.luck.renewals[side] > 0 {
                next(&|state| {
                    state.luck.renewals[side] -= 1;
                    state.flows[side].renew(state.now);
                    state.settle();
                });
            }
        }
        if state.wire.is_empty() {
            state.goes_well(&first);
        }
    }
    states
}

/// A flow that is open already, with nothing on the wire.
fn open(memory: usize, luck: Luck) -> State {
    let mut state = State::new(memory, luck);
    state.send(0, 1);
    while state.ways[0].delivered.is_empty() {
        if state.wire.is_empty() {
            state.time_out();
        } else {
            state.arrive(0, false);
        }
    }
    while !state.wire.is_empty() {
        state.arrive(0, false);
    }
    state
}

#[test]
fn whatever_is_lost_repeated_or_overtaken_everything_comes_once() {
    // With memory for four, three parts with everything, four with less; where less is on its way at once there are fewer states, and
    // more can go wrong; more of it in the long check.
    let all = [(2, 1, 1, 1), (2, 2, 0, 1), (3, 1, 0, 0)];
    let mut all: Vec<_> = all.into_iter().map(|luck| (4, luck)).collect();
    all.extend([(1, (3, 2, 1, 2)), (2, (2, 1, 1, 1)), (2, (3, 1, 1, 0))]);
    if std::env::var_os("DP_LONG").is_some() {
        all.extend([(4, (2, 2, 0, 2)), (4, (3, 0, 0, 1)), (2, (3, 1, 1, 1)), (1, (4, 3, 2, 3))]);
    }
    for (memory, (messages, losses, repeats, timeouts)) in all {
        let mut state = open(memory, Luck { losses, repeats, timeouts, ..Luck::default() });
        state.send(0, messages);
        let states = explore(state);
        println!("{states} states of {messages} messages, memory for {memory}");
        assert!(states > 100);
    }
}

#[test]
fn whatever_happens_to_the_first_frames_the_two_sides_meet() {
    for memory in MEMORIES {
        let mut state = State::new(memory, Luck { losses: 1, repeats: 1, timeouts: 1, ..Luck::default() });
        state.send(0, 1);
        let states = explore(state);
        println!("{states} states, memory for {memory}");
        assert!(states > 100);
    }
}

#[test]
fn whenever_a_side_is_restarted_what_was_acknowledged_came_and_the_rest_goes_on() {
    for memory in MEMORIES {
        for (restarts, losses, timeouts) in [([1, 0], 1, 1), ([0, 1], 1, 1), ([1, 1], 0, 0)] {
            let mut state = open(memory, Luck { losses, timeouts, restarts, ..Luck::default() });
            state.send(0, 1);
            let states = explore(state);
            println!("{states} states with {restarts:?} restarts, memory for {memory}");
            assert!(states > 100);
        }
    }
}

/// The receiver's place is kept, as a gateway's file does it: nothing comes twice, and only what a sender that was restarted had is lost.
#[test]
fn whenever_a_side_is_restarted_that_knows_how_far_it_was_everything_comes_once() {
    for (restarts, both, memory, (losses, timeouts)) in [
        ([0, 1], false, 2, (1, 1)),
        ([0, 1], true, 1, (0, 0)),
        ([1, 0], true, 1, (0, 0)),
        ([0, 2], false, 1, (0, 0)),
    ] {
        let luck = Luck { losses, timeouts, restarts, ..Luck::default() };
        let mut state = State { keeps: true, ..open(memory, luck) };
        state.send(0, 2);
        if both {
            state.send(1, 1);
        }
        let states = explore(state);
        println!("{states} states with {restarts:?} restarts, both ways: {both}, memory for {memory}");
        assert!(states > 100);
    }
}

/// Before anybody knows who is there: a name is told to one that is gone, too.
#[test]
fn whenever_a_side_is_restarted_among_the_first_frames_nobody_is_told_what_came_of_another() {
    for (restarts, memory) in [([1, 0], 1), ([0, 1], 2)] {
        for keeps in [false, true] {
            let luck = Luck { restarts, ..Luck::default() };
            let mut state = State { keeps, ..State::new(memory, luck) };
            // The one that takes the sender's place has a message as short as the first.
            state.send(0, 2);
            let states = explore(state);
            println!("{states} states with {restarts:?} restarts, kept: {keeps}, memory for {memory}");
            assert!(states > 100);
        }
    }
}

#[test]
fn whenever_a_side_begins_anew_by_itself_everything_comes_once() {
    for (renewals, restarts, both, timeouts) in [
        ([1, 0], [0, 0], true, 1),
        ([0, 1], [0, 0], true, 1),
        ([1, 1], [0, 0], false, 0),
        ([1, 0], [0, 1], false, 0),
    ] {
        let luck = Luck { timeouts, restarts, renewals, ..Luck::default() };
        let mut state = State { keeps: true, ..open(1, luck) };
        state.send(0, 1);
        if both {
            state.send(1, 1);
        }
        let states = explore(state);
        println!("{states} states with {renewals:?} renewals and {restarts:?} restarts, both ways: {both}");
        assert!(states > 100);
    }
}
