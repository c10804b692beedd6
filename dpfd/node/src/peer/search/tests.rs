use super::*;

const STEP: u64 = 200_000_000;

/// A route that says `mtu`, and swallows what is longer than `carries`; long packets are sent all the time.
struct Path {
    search: Search,
    now: u64,
    number: u32,
    carries: usize,
    /// How many long questions were asked.
    asked: u32,
}

const MTU: usize = 1472;

impl Path {
    fn new(carries: usize) -> Path {
        Path { search: Search::default(), now: 1_000, number: 0, carries, asked: 0 }
    }

    /// A short question and its answer, and what goes with it. `lost`: of the long one, the short one.
    fn step(&mut self, lost: [bool; 2]) {
        self.search.sent(self.search.limit(MTU));
        self.number += 1;
        let long = self.search.ask(self.now, MTU, self.number);
        let sent = self.now;
        self.now += 1_000_000;
        if let Some(length) = long {
            self.asked += 1;
            if length <= self.carries && !lost[0] {
                self.search.answered(self.now, MTU, self.number);
            }
        }
        if !lost[1] {
            self.search.short_answered(self.now, sent);
        }
        self.now += STEP;
    }

    fn steps(&mut self, n: usize) -> usize {
        (0..n).for_each(|_| self.step([false; 2]));
        self.search.limit(MTU)
    }
}

#[test]
fn a_path_that_carries_all_is_left_as_it_is() {
    let mut path = Path::new(MTU);
    assert_eq!(path.steps(100), MTU);
    assert!(!path.search.is_urgent());
}

#[test]
fn packets_are_shortened_soon_and_then_as_long_as_come_through() {
    for carries in [1471, 1450, 1422, 1232, 1200, 1199, 900, 548, 300, 256] {
        let mut path = Path::new(carries);
        path.steps(1 + MISSED as usize * 4);
        assert!(path.search.limit(MTU) <= carries, "{carries}: {}", path.search.limit(MTU));
        let found = path.steps(40);
        assert!(found <= carries && found + CLOSE >= carries, "{carries}: {found}");
        assert!(!path.search.is_urgent(), "{carries}");
    }
}

#[test]
fn a_path_that_carries_long_ones_again_is_found_out_after_a_minute() {
    let mut path = Path::new(1300);
    let found = path.steps(60);
    assert!(found < 1301);
    path.carries = MTU;
    assert_eq!(path.steps(30), found, "not at once");
    assert_eq!(path.steps(300), MTU);
    path.carries = 800;
    assert!(path.steps(60) <= 800, "and again");
}

#[test]
fn packets_of_every_base_are_long_enough_to_try_longer_ones() {
    for carries in BASES.into_iter().chain([100]) {
        let mut path = Path::new(carries);
        let found = path.steps(60);
        assert!(found < MTU, "{carries}");
        path.carries = MTU;
        assert_eq!(path.steps(400), MTU, "from {found}, of {carries}");
    }
}

#[test]
fn losses_alone_are_no_black_hole() {
    let mut path = Path::new(MTU);
    for i in 0..1000 {
        // Whole seconds in which nothing comes, and every other long question besides.
        let gone = i % 40 < 10;
        path.step([gone || i % 2 == 0, gone]);
        assert_eq!(path.search.limit(MTU), MTU, "step {i}");
    }
}

#[test]
fn a_path_that_carries_nothing_long_ends_with_the_shortest_and_is_not_asked_all_the_time() {
    let mut path = Path::new(100);
    assert_eq!(path.steps(200), 256);
    assert!(path.search.shortened().is_some());
    let before = path.asked;
    path.steps(3000);
    assert!(path.asked - before < 600, "{} in ten minutes", path.asked - before);
    assert_eq!(path.search.limit(MTU), 256);
}

#[test]
fn nobody_asks_who_sends_short_packets() {
    let mut search = Search::default();
    search.sent(200);
    assert_eq!(search.ask(1, MTU, 1), None);
    search.sent(257);
    assert_eq!(search.ask(2, MTU, 2), Some(MTU));
    assert_eq!(search.ask(3, MTU, 3), None, "one at a time");
    search.answered(4, MTU, 2);
    assert_eq!(search.ask(5, MTU, 4), None, "what was sent is known to come through");
}

#[test]
fn an_interface_that_becomes_shorter_during_a_search_ends_it() {
    let mut path = Path::new(1400);
    path.steps(8);
    assert!(path.search.is_urgent());
    for number in 100..200 {
        path.now += STEP;
        if let Some(length) = path.search.ask(path.now, 1000, number) {
            assert!(length <= 1000);
            path.search.answered(path.now, 1000, number);
        }
    }
    assert!(!path.search.is_urgent());
    assert_eq!(path.search.limit(1000), 1000);
    assert!(path.search.shortened().is_some());
    assert_eq!(path.search.shorter(), None, "the route says the same");
    path.search.ask(path.now, MTU, 200);
    assert_eq!(path.search.shorter(), path.search.shortened(), "it says more again");
}

#[test]
fn a_question_that_did_not_leave_is_not_missed() {
    let mut search = Search::default();
    for number in 0..100 {
        let now = u64::from(number) * STEP;
        search.sent(MTU);
        if search.ask(now, MTU, number).is_some() {
            search.take_back();
        }
        search.short_answered(now + 1, now);
    }
    assert_eq!(search.shortened(), None);
    assert!(!search.is_urgent());
}

#[test]
fn data_that_comes_through_outweighs_questions_that_do_not() {
    let mut path = Path::new(1000);
    for _ in 0..100 {
        path.step([false; 2]);
        path.search.arrived(MTU);
    }
    assert_eq!(path.search.shortened(), None);
    for _ in 0..20 {
        path.step([false; 2]);
        path.search.arrived(900);
    }
    assert!(path.search.limit(MTU) <= 1000, "shorter data is no evidence");
}
