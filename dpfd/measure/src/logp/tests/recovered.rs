//! Links with chosen parameters: what is read off their bursts is what was chosen, within 3 %.

use std::convert::Infallible;

use super::link::{Cost, Link};
use crate::logp::fit::{fit, gap, Fit};
use crate::logp::probe::{Load, Plan, Survey, System};

fn plan() -> Plan {
    Plan {
        sizes: vec![8, 512, 4096, 65_536, 1 << 20],
        window: 32,
        bursts: vec![1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256],
        delays: vec![0.0, 0.5, 1.0, 2.0, 4.0],
    }
}

/// The first pass, and as many later ones as the link lets settle.
fn survey(link: &mut Link, plan: Plan) -> Survey {
    let mut survey = Survey::new(plan);
    let Ok(()) = survey.first(link, |_| false);
    for _ in 0..5000 {
        if survey.again(link, || false) == Ok(false) {
            break;
        }
    }
    survey
}

fn fitted(link: &mut Link) -> Fit {
    fit(&survey(link, plan())).unwrap()
}

#[track_caller]
fn near(what: &str, found: f64, chosen: f64) {
    assert!((found / chosen - 1.0).abs() <= 0.03, "{what}: {found:.2}, and {chosen:.2} was chosen");
}

#[test]
fn a_link_with_a_slow_wire() {
    // The paper's own: Paragon, Meiko CS-2, Myrinet, in nanoseconds; and memory between two cores.
    for (o_s, o_r, l, g) in [
        (1400.0, 2200.0, 6300.0, 7600.0),
        (1700.0, 1600.0, 7500.0, 13_600.0),
        (2000.0, 2600.0, 11_100.0, 12_400.0),
        (20.0, 35.0, 150.0, 90.0),
    ] {
        let found = fitted(&mut Link::new(Cost(o_s, 0.0), o_r, l, Cost(g, 0.0))).small;
        near("o_s", found.o_s.ns, o_s);
        near("o_r", found.o_r.ns, o_r);
        near("L", found.l.ns, l);
        near("g", found.g.ns, g);
        near("RTT", found.rtt.ns, 2.0 * (o_s + o_r + l));
        near("idle", found.model(2).idle(), g - o_s - o_r);
        near("alone", found.alone.ns, o_s);
    }
}

#[test]
fn a_link_whose_processors_are_the_slowest_stage_has_the_overheads_for_a_gap() {
    let found = fitted(&mut Link::new(Cost(300.0, 0.0), 400.0, 2000.0, Cost(10.0, 0.0))).small;
    near("g", found.g.ns, 700.0);
    near("o_s", found.o_s.ns, 300.0);
    near("o_r", found.o_r.ns, 400.0);
    near("L", found.l.ns, 2000.0);
    assert!(found.model(2).idle() < 0.03 * 700.0);
}

#[test]
fn noise_and_pauses_move_nothing_by_more_than_its_interval() {
    let mut link = Link::new(Cost(100.0, 0.0), 180.0, 900.0, Cost(500.0, 0.0));
    // Each sample is longer by a uniform tenth at most, computations too: by 5 % on average.
    link.noise = 0.1;
    let found = fitted(&mut link).small;
    near("o_s", found.o_s.ns, 1.05 * 100.0);
    near("g", found.g.ns, 1.05 * 500.0);
    near("RTT", found.rtt.ns, 1.05 * 2.0 * 1180.0);
    near("L", found.l.ns, 1.05 * 900.0);
    // A difference of sums that are ten times as long: what is 3 % of it is a third of a percent of those.
    assert!((found.o_r.ns - 1.05 * 180.0).abs() < found.o_r.half, "{:?}", found.o_r);
    for value in [found.o_s, found.g, found.rtt, found.l] {
        assert!(value.half < 0.05 * value.ns, "{value:?}");
    }
    link.noise = 0.01;
    near("o_r", fitted(&mut link).small.o_r.ns, 1.005 * 180.0);
}

#[test]
fn a_replier_that_must_be_woken_is_not_taken_for_receiving() {
    // Kept busy it is as fast as the requester; when it has waited, it takes longer than a window of the longest
    // computation that follows from the gap.
    let mut link = Link::new(Cost(1000.0, 0.0), 500.0, 2000.0, Cost(10.0, 0.0));
    link.wake = 300_000.0;
    let found = fitted(&mut link).small;
    near("o_s", found.o_s.ns, 1000.0);
    near("o_r", found.o_r.ns, 500.0);
    near("RTT", found.rtt.ns, 7000.0 + 300_000.0);
}

#[test]
fn bulk_by_size() {
    let (o_s, g) = (Cost(50.0, 0.02), Cost(200.0, 0.1));
    let (o_r, l) = (80.0, 400.0);
    let mut link = Link::new(o_s, o_r, l, g);
    let found = fitted(&mut link);
    for bulk in &found.bulk {
        near("o_s(n)", bulk.o_s.ns, o_s.of(bulk.size));
        near("g(n)", bulk.g.ns, g.of(bulk.size));
        let t = o_s.of(bulk.size) + o_s.of(8) + 2.0 * (o_r + l);
        near("T(n)", bulk.t.ns, t);
        near("BW(n)", bulk.bandwidth(), 1e9 * bulk.size as f64 / t);
        near("stream(n)", bulk.stream(), 1e9 * bulk.size as f64 / g.of(bulk.size));
    }
    // T(n) = start + n / rate has half of its largest bandwidth, which it has at N, at start N / (2 start + N / rate).
    let start = o_s.of(0) + o_s.of(8) + 2.0 * (o_r + l);
    let most = (1 << 20) as f64;
    near("n_1/2", found.half_peak.unwrap(), start * most / (2.0 * start + most * 0.02));
}

#[test]
fn a_quiet_link_settles_in_the_first_pass_and_a_loud_one_is_reported() {
    let mut quiet = Link::new(Cost(100.0, 0.0), 100.0, 500.0, Cost(300.0, 0.0));
    let mut one = Survey::new(plan());
    let Ok(()) = one.first(&mut quiet, |_| false);
    assert!(one.points().iter().all(|p| p.settled()));
    // Half a round trip is shorter than four gaps: no computation more.
    assert_eq!(one.points().len(), one.expected() - 1);
    assert_eq!(one.again(&mut quiet, || false), Ok(false));

    let mut loud = Link::new(Cost(100.0, 0.0), 100.0, 500.0, Cost(300.0, 0.0));
    loud.noise = 20.0;
    let mut two = Survey::new(plan());
    let Ok(()) = two.first(&mut loud, |_| false);
    let wide = two.points().iter().filter(|p| !p.settled()).count();
    assert!(wide > 0 && wide < two.points().len());
    // Those that have had the fewest come first.
    let batches = |survey: &Survey| survey.points().iter().map(|p| p.cost().batches).collect::<Vec<_>>();
    (0..wide).for_each(|_| assert_eq!(two.again(&mut loud, || false), Ok(true)));
    assert_eq!(batches(&two).iter().filter(|&&n| n == 6).count(), wide);
    // However loud: there are parameters, and their intervals say what they are worth.
    for noise in [20.0, 2000.0] {
        loud.noise = noise;
        let mut survey = Survey::new(plan());
        let Ok(()) = survey.first(&mut loud, |_| true);
        assert!(fit(&survey).is_some());
    }
}

/// A machine that had other work to do while all long bursts but the longest were measured.
struct Moody(Link);

impl System for Moody {
    type Error = Infallible;
    fn begin(&mut self, load: Load) -> Result<(), Infallible> {
        self.0.begin(load)
    }
    fn burst(&mut self, messages: u32, turns: u32) -> Result<f64, Infallible> {
        let busy = if (64..256).contains(&messages) { 1e7 } else { 0.0 };
        Ok(self.0.burst(messages, turns)? + busy)
    }
    fn round_trips(&mut self, trips: u32) -> Result<f64, Infallible> {
        self.0.round_trips(trips)
    }
    fn compute(&mut self, times: u32, turns: u32) -> Result<f64, Infallible> {
        self.0.compute(times, turns)
    }
    fn end(&mut self) -> Result<(), Infallible> {
        self.0.end()
    }
}

#[test]
fn computations_have_a_length_though_the_gap_was_lost() {
    let mut link = Moody(Link::new(Cost(100.0, 0.0), 100.0, 500.0, Cost(300.0, 0.0)));
    let mut survey = Survey::new(plan());
    let Ok(()) = survey.first(&mut link, |_| false);
    assert!(gap(&survey.burst_points(survey.load(8), 0)).unwrap().ns < 0.0);
    // Four gaps are 1200 ns; what requests of the longest bursts cost is less than that by what the window saves.
    assert_eq!(survey.turns().len(), 5);
    let longest = survey.replies().last().unwrap().delay();
    assert!((900.0..1300.0).contains(&longest), "{longest}");
}

#[test]
fn time_that_is_up_leaves_two_batches_to_each_point() {
    let mut link = Link::new(Cost(100.0, 0.0), 100.0, 500.0, Cost(300.0, 0.0));
    let mut survey = Survey::new(plan());
    let Ok(()) = survey.first(&mut link, |_| true);
    assert_eq!(survey.points().len(), survey.expected() - 1);
    assert!(survey.points().iter().all(|p| p.cost().batches == 2 && !p.settled()));
    near("o_s", fit(&survey).unwrap().small.o_s.ns, 100.0);
}

#[test]
fn bursts_that_never_fill_the_window_tell_no_gap() {
    let mut link = Link::new(Cost(100.0, 0.0), 100.0, 500.0, Cost(300.0, 0.0));
    let few = Plan { bursts: vec![1, 2, 4], sizes: vec![8], ..plan() };
    assert_eq!(fit(&survey(&mut link, few)), None);
}
