//! All that can happen to a few frames between two flows with windows of up to four, which is what the receiver has memory for:
//! every order in which they arrive, with each of them lost, each come twice, each time-out and each restart at every moment, as far
//! as the counts below go. States that were seen are not looked at again.

use std::collections::hash_map::DefaultHasher;
use std::collections::HashSet;
use std::hash::{Hash, Hasher};

use dp_flow::{crc32c, Address, Config, Event, Flow, Outgoing, Part};

const A: Address = Address { nid: 1, dpid: 1024 };
const B: Address = Address { nid: 2, dpid: 2048 };
const PART: u16 = 6;
/// Parts for which both sides have memory: the receiver's is the sender's window.
const MEMORIES: [usize; 3] = [1, 2, 4];

/// What may still go wrong.
#[derive(Clone, Copy, Hash)]
struct Luck {
    losses: u8,
    repeats: u8,
    timeouts: u8,
    restarts: [u8; 2],
}

#[derive(Clone, Hash)]
struct State {
    now: u64,
    /// Parts for which a side has memory.
    memory: usize,
    flows: [Flow<Vec<u8>, 4>; 2],
    incarnations: u32,
    wire: Vec<(usize, Vec<u8>)>,
    /// What the receiver's program has: whole messages, and the one that comes.
    came: Vec<u8>,
    partial: Vec<u8>,
    /// How many messages the sender's program was told to be delivered, and what the first of this flow's life is.
    delivered: Vec<u8>,
    first: u8,
    /// The first that it was told nothing of.
    next: u8,
    sent: u8,
    luck: Luck,
}

fn config(side: usize, incarnation: u32) -> Config {
    let (from, to) = if side == 0 { (A, B) } else { (B, A) };
    Config {
        part_max: PART,
        first_number: u32::MAX - 1,
        ack_every: 2,
        keepalive: 0,
        dead_after: u64::MAX,
        ..Config::new(from, to, incarnation, Some(crc32c))
    }
}

fn flow(side: usize, incarnation: u32, memory: usize) -> Flow<Vec<u8>, 4> {
    Flow::new(config(side, incarnation), vec![0; memory * usize::from(PART)]).unwrap()
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
            flows: [flow(0, 1, memory), flow(1, 2, memory)],
            incarnations: 2,
            wire: Vec::new(),
            came: Vec::new(),
            partial: Vec::new(),
            delivered: Vec::new(),
            first: 0,
            next: 0,
            sent: 0,
            luck,
        }
    }

    fn send(&mut self, messages: u8) {
        for _ in 0..messages {
            let total = len(self.sent) as u32;
            self.flows[0].send(self.now, Outgoing { total, immediate: None }).unwrap();
            self.sent += 1;
        }
        self.settle();
    }

    fn settle(&mut self) {
        let mut out = [0; 256];
        let first = self.first;
        let mut source = |number: u64, _: u32, out: &mut [u8]| {
            out.fill(first + number as u8);
            out.len()
        };
        for side in 0..2 {
            while let Some(len) = self.flows[side].poll_transmit(self.now, &mut source, &mut out) {
                self.wire.push((1 - side, out[..len].to_vec()));
            }
        }
        self.wire.sort();
        while let Some(event) = self.flows[0].poll_event() {
            match event {
                Event::Delivered { before } => {
                    let before = first + before as u8;
                    self.delivered.extend(self.next..before);
                    self.next = before;
                }
                // The program goes on with other messages.
                Event::Lost { from, before } => {
                    assert_eq!(self.next, first + from as u8);
                    self.next = first + before as u8;
                }
                Event::Up | Event::Down(_) => {}
            }
        }
    }

    fn arrive(&mut self, frame: usize, stays: bool) {
        let (to, bytes) = if stays { self.wire[frame].clone() } else { self.wire.remove(frame) };
        let State { came, partial, .. } = self;
        let mut sink = |part: Part<'_>| {
            if part.begin == 0 {
                partial.clear();
            }
            assert_eq!(partial.len(), part.begin as usize);
            partial.extend_from_slice(part.bytes);
            if part.is_last() {
                let id = partial[0];
                assert!(partial.iter().all(|byte| *byte == id) && partial.len() == len(id), "whole");
                assert!(came.last().is_none_or(|last| *last < id), "once and in order");
                came.push(id);
                partial.clear();
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
        self.flows[side] = flow(side, self.incarnations * 0x1234_5677, self.memory);
        if side == 0 {
            (self.first, self.next) = (self.sent, self.sent);
        }
    }

    fn check(&self) {
        for id in &self.delivered {
            assert!(self.came.contains(id), "{id} was told to be delivered, and {:?} came", self.came);
        }
    }

    /// From now on nothing goes wrong: all that was sent and not lost by a restart must come, and what is sent now.
    fn goes_well(mut self, restarts: bool) {
        let all = self.sent;
        for _ in 0..2000 {
            if self.wire.is_empty() {
                let done = self.came.last().is_some_and(|last| last + 1 == self.sent);
                if done && self.delivered.last() == self.came.last() {
                    if !restarts {
                        assert!(self.came.iter().copied().eq(0..all), "{:?} of {all}", self.came);
                    }
                    return self.check();
                }
                if !self.time_out() && restarts {
                    self.send(1);
                }
            } else {
                self.arrive(0, false);
            }
        }
        panic!("{:?} of {all} came, {:?} were told to", self.came, self.delivered);
    }
}

/// Looks at all that can become of a state; how many there are.
fn explore(begin: State) -> usize {
    let restarts = begin.luck.restarts != [0, 0];
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
                    if side == 0 {
                        state.send(1);
                    }
                    state.settle();
                });
            }
        }
        if state.wire.is_empty() {
            state.goes_well(restarts);
        }
    }
    states
}

/// A flow that is open already, with nothing on the wire.
fn open(memory: usize, luck: Luck) -> State {
    let mut state = State::new(memory, luck);
    state.send(1);
    while state.delivered.is_empty() {
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
        let mut state = open(memory, Luck { losses, repeats, timeouts, restarts: [0, 0] });
        state.send(messages);
        let states = explore(state);
        println!("{states} states of {messages} messages, memory for {memory}");
        assert!(states > 100);
    }
}

#[test]
fn whatever_happens_to_the_first_frames_the_two_sides_meet() {
    for memory in MEMORIES {
        let mut state = State::new(memory, Luck { losses: 1, repeats: 1, timeouts: 1, restarts: [0, 0] });
        state.send(1);
        let states = explore(state);
        println!("{states} states, memory for {memory}");
        assert!(states > 100);
    }
}

#[test]
fn whenever_a_side_is_restarted_what_was_acknowledged_came_and_the_rest_goes_on() {
    for memory in MEMORIES {
        for (restarts, losses, timeouts) in [([1, 0], 1, 1), ([0, 1], 1, 1), ([1, 1], 0, 0)] {
            let mut state = open(memory, Luck { losses, repeats: 0, timeouts, restarts });
            state.send(1);
            let states = explore(state);
            println!("{states} states with {restarts:?} restarts, memory for {memory}");
            assert!(states > 100);
        }
    }
}
