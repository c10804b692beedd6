//! Systems with chosen parameters: what is read off them is what was chosen, within 3 %, and so are the times that follow.

use std::convert::Infallible;

use super::pipeline::{linear, Pipeline};
use crate::cost::fit::{compare, Border, Model};
use crate::cost::model::Bound;
use crate::cost::probe::{Load, Plan, Survey, System, What};

const PACKET: usize = 1024;

fn surveyed(system: &mut Pipeline, rounds: usize) -> Survey {
    let mut survey = Survey::new(Plan::new(PACKET, 1 << 20, false));
    for _ in 0..rounds {
        let Ok(()) = survey.round(system, |_| false);
    }
    survey
}

fn borders(knee: usize) -> [Border; 2] {
    [Border { name: "below", upto: knee }, Border { name: "above", upto: usize::MAX }]
}

fn fitted(system: &mut Pipeline, rounds: usize) -> (Model, Survey) {
    let survey = surveyed(system, rounds);
    (Model::fit(&survey, &borders(4096)).unwrap(), survey)
}

#[track_caller]
fn near(what: &str, found: f64, chosen: f64) {
    assert!((found / chosen - 1.0).abs() <= 0.03, "{what}: {found:.2}, and {chosen:.2} was chosen");
}

/// Predictions against the simulation, packet by packet.
#[track_caller]
fn predicts(model: &Model, survey: &Survey, system: &Pipeline, bound: Bound) {
    for point in survey.of(What::Message) {
        let (measured, _) = system.run(point.load, point.load.packets());
        let found = model.predict(point.load);
        near(&format!("T of {:?}", point.load), found.ns, measured);
        if found.k > 1 {
            assert_eq!(found.bound, bound, "{found:?}");
        }
    }
}

/// The network is the slowest stage: the paper's Fast Ethernet.
fn slow_network() -> Pipeline {
    Pipeline::new([
        linear(1500.0, 3.0),
        linear(7000.0, 80.0),
        linear(9900.0, 95.0),
        linear(4000.0, 9.0),
        linear(70.0, 1.0),
    ])
}

#[test]
fn a_system_with_a_slow_network() {
    let mut system = slow_network();
    let (model, survey) = fitted(&mut system, 3);
    for m in [1, 100, 3000, 5000, 900_000] {
        near("O_s", model.o_s.at(m), system.o_s.at(m));
        near("g_s", model.g_s.at(m), system.g.at(m));
        near("g_r", model.g_r.at(m), system.g.at(m));
        near("L", model.l.at(m), system.l.at(m));
        near("O_r", model.o_r.at(m), system.o_r.at(m));
        near("U_r", model.u_r.at(m), system.u_r.at(m));
    }
    for piece in [&model.o_s, &model.g_s, &model.l, &model.u_r, &model.t].into_iter().flat_map(|p| &p.0) {
        assert!(piece.error < 0.01, "{piece:?}");
    }
    let room = model.room.unwrap();
    near("B_L", room.bytes, system.queue.0);
    near("beside", room.packets(64), system.queue.0 / (64.0 + system.queue.1));
    assert!(model.predict(Load::whole(PACKET)).costs.condition());
    predicts(&model, &survey, &system, Bound::Network);
}

#[test]
fn a_system_with_a_slow_receiver() {
    let mut system = slow_network();
    (system.g, system.l) = (linear(2000.0, 20.0), linear(9900.0, 95.0));
    (system.o_r, system.u_r) = (linear(9000.0, 25.0), linear(100.0, 5.0));
    let (model, survey) = fitted(&mut system, 3);
    near("O_r", model.o_r.at(PACKET), system.o_r.at(PACKET));
    near("U_r", model.u_r.at(PACKET), system.u_r.at(PACKET));
    predicts(&model, &survey, &system, Bound::Receiver);
}

#[test]
fn a_system_with_a_slow_sender() {
    let mut system = slow_network();
    (system.o_s, system.g) = (linear(9000.0, 25.0), linear(2000.0, 20.0));
    let (model, survey) = fitted(&mut system, 3);
    near("O_s", model.o_s.at(PACKET), system.o_s.at(PACKET));
    predicts(&model, &survey, &system, Bound::Sender);
}

#[test]
fn a_knee_is_kept_to_its_border() {
    let mut system = slow_network();
    // O_r is measured of short packets only, and is one piece.
    (system.knee, system.o_r) = ((4097, 3.0), linear(0.0, 0.0));
    let (model, survey) = fitted(&mut system, 3);
    for m in [100, 4096, 5000, 500_000] {
        near("O_s", model.o_s.at(m), system.cost(system.o_s, m));
        near("L", model.l.at(m), system.cost(system.l, m));
    }
    predicts(&model, &survey, &system, Bound::Network);
    // One line for all is not told to be right.
    let blind = Model::fit(&survey, &[Border { name: "all", upto: usize::MAX }]).unwrap();
    assert!(blind.o_s.0[0].worst > 0.2, "{:?}", blind.o_s);
}

/// The longest message alone lies behind a border, where all costs are twelve times as high.
fn far_at_the_end() -> (Pipeline, [Border; 2]) {
    let mut system = slow_network();
    (system.knee, system.o_r) = (((1 << 20) - 100, 12.0), linear(0.0, 0.0));
    (system, borders((1 << 20) - 101))
}

fn survey_of(plan: Plan, mut system: Pipeline) -> Survey {
    let mut survey = Survey::new(plan);
    for _ in 0..3 {
        let Ok(()) = survey.round(&mut system, |_| false);
    }
    survey
}

#[test]
fn a_piece_with_nothing_but_the_longest_message_is_measured() {
    let (system, borders) = far_at_the_end();
    let plan = Plan::new(PACKET, 1 << 20, true).covering(&borders, 16 << 20);
    let survey = survey_of(plan, system.clone());
    let model = Model::fit(&survey, &borders).unwrap();
    predicts(&model, &survey, &system, Bound::Network);
    let whole = Load::whole(1 << 20);
    let told = compare(&survey, &borders).into_iter().find(|c| c.load == whole).unwrap();
    assert!(told.error.abs() < 0.03, "{told:?}");
    // As far off as the model says it is.
    assert!(model.t.piece(1 << 20).worst < 0.03, "{:?}", model.t);
}

#[test]
fn where_nothing_was_measured_nothing_is_predicted() {
    let (system, borders) = far_at_the_end();
    let survey = survey_of(Plan::new(PACKET, 1 << 20, true), system);
    let model = Model::fit(&survey, &borders).unwrap();
    let whole = Load::whole(1 << 20);
    assert!(model.o_s.at(1 << 20).is_nan() && model.predict(whole).ns.is_nan());
    assert!(model.predict(Load::whole(1 << 18)).ns.is_finite());
    let told = compare(&survey, &borders).into_iter().find(|c| c.load == whole).unwrap();
    assert!(told.predicted.is_nan() && told.error.is_nan() && told.measured > 1e6, "{told:?}");
    // Nor is the gap of buffers that are longer than those that were measured.
    let load = Load { packet: PACKET, spread: 4 << 20 };
    assert!(model.costs(load).g.is_nan() && model.predict(load).ns.is_nan());
}

#[test]
fn the_gap_grows_with_the_programs_buffers() {
    let mut system = slow_network();
    system.doubling = 9000.0;
    let (model, survey) = fitted(&mut system, 3);
    let load = Load { packet: PACKET, spread: 64 * PACKET };
    near("g", model.costs(load).g, system.gap(load));
    predicts(&model, &survey, &system, Bound::Network);
}

#[test]
fn the_longer_gap_counts() {
    for (uneven, times) in [(1.5, 1.5), (0.5, 1.0)] {
        let mut system = slow_network();
        system.uneven = uneven;
        let (model, _) = fitted(&mut system, 3);
        for load in [Load::whole(PACKET), Load { packet: PACKET, spread: 16 * PACKET }] {
            near("g", model.costs(load).g, times * system.gap(load));
        }
    }
}

#[test]
fn noise_and_disturbances_move_nothing_by_more_than_3_percent() {
    let mut system = slow_network();
    // Each result longer by a uniform twentieth at most, and every fourth twice as long. What counts is the faster half,
    // which lies a hundredth above.
    system.noise = 0.05;
    let (model, survey) = fitted(&mut system, 40);
    for m in [10, 1000, 100_000] {
        near("O_s", model.o_s.at(m), 1.015 * system.o_s.at(m));
        near("g_s", model.g_s.at(m), 1.015 * system.g.at(m));
        near("L", model.l.at(m), 1.015 * system.l.at(m));
        near("U_r", model.u_r.at(m), 1.015 * system.u_r.at(m));
    }
    for point in survey.of(What::Message) {
        near("T", model.predict(point.load).ns, point.cost().ns);
    }
}

/// Messages that are predicted take so many times as long as the costs say.
struct Liar(Pipeline, f64);

impl System for Liar {
    type Error = Infallible;
    fn overheads(&mut self, load: Load) -> Result<[f64; 2], Infallible> {
        self.0.overheads(load)
    }
    fn gaps(&mut self, load: Load) -> Result<[f64; 2], Infallible> {
        self.0.gaps(load)
    }
    fn one_way(&mut self, load: Load) -> Result<f64, Infallible> {
        let lie = if load.spread.is_power_of_two() { self.1 } else { 1.0 };
        Ok(lie * self.0.one_way(load)?)
    }
    fn slowdown(&mut self, packet: usize) -> Result<f64, Infallible> {
        self.0.slowdown(packet)
    }
    fn room(&mut self, packet: usize) -> Result<f64, Infallible> {
        self.0.room(packet)
    }
}

#[test]
fn predictions_do_not_look_at_what_they_are_compared_with() {
    let (honest, _) = fitted(&mut slow_network(), 3);
    let mut survey = Survey::new(Plan::new(PACKET, 1 << 20, false));
    for _ in 0..3 {
        let Ok(()) = survey.round(&mut Liar(slow_network(), 100.0), |_| false);
    }
    assert_eq!(Model::fit(&survey, &borders(4096)).unwrap(), honest);
    let compared = compare(&survey, &borders(4096));
    assert_eq!(compared.len(), survey.of(What::Message).count());
    for c in compared {
        near("T", c.predicted, honest.predict(c.load).ns);
        near("a hundred times T", c.measured, 100.0 * c.predicted);
        assert!((c.error + 0.99).abs() < 0.001, "{c:?}");
    }
}

#[test]
fn each_round_is_compared_with_itself_and_the_middle_one_is_told() {
    // The machine is five times as slow in the second round, and twice in the third, whose predictions are right.
    let mut survey = Survey::new(Plan::new(PACKET, 1 << 20, true));
    for (times, lie) in [(1.0, 0.5), (5.0, 2.0), (2.0, 1.0)] {
        let mut system = slow_network();
        for cost in [&mut system.o_s, &mut system.g, &mut system.l, &mut system.o_r, &mut system.u_r] {
            (cost.k, cost.t) = (times * cost.k, times * cost.t);
        }
        let Ok(()) = survey.round(&mut Liar(system, lie), |_| false);
    }
    for c in compare(&survey, &borders(4096)) {
        let (once, _) = slow_network().run(c.load, c.load.packets());
        near("measured", c.measured, 2.0 * once);
        near("predicted", c.predicted, 2.0 * once);
        // Errors of -0.5, 0 and 1, of which the quartiles are the last two.
        assert!(c.error.abs() < 0.03 && (c.half - 0.5).abs() < 0.03, "{c:?}");
    }
}

#[test]
fn a_round_is_cut_short_only_behind_the_first() {
    let mut system = slow_network();
    let mut survey = Survey::new(Plan::new(PACKET, 1 << 20, true));
    assert!(Model::fit(&survey, &borders(4096)).is_none());
    let Ok(()) = survey.round(&mut system, |_| true);
    assert_eq!(survey.rounds(), 1);
    assert!(Model::fit(&survey, &borders(4096)).is_some());
    let Ok(()) = survey.round(&mut system, |done| done == 5);
    assert_eq!(survey.rounds(), 1);
    // Downwards, so that the longest came first.
    let batches: Vec<u32> = survey.points().iter().map(|p| p.cost().batches).collect();
    let cut = batches.len() - 5;
    assert!(batches[..cut].iter().all(|&n| n == 1) && batches[cut..].iter().all(|&n| n == 2), "{batches:?}");
    let Ok(()) = survey.round(&mut system, |_| false);
    let Ok(()) = survey.round(&mut system, |done| done == 3);
    let batches: Vec<u32> = survey.points().iter().map(|p| p.cost().batches).collect();
    // And upwards. Of four batches the faster three count.
    assert!(batches[..3].iter().all(|&n| n == 3) && batches[3..cut].iter().all(|&n| n == 2), "{batches:?}");
}
