//! From measured points to parameters.

use super::model::{half_peak, LogP};
use super::probe::{Point, Survey, What};
use crate::stats::{line, middle, At, Estimate};

/// A parameter and half the width of its 95 % interval, ns.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Value {
    /// The parameter.
    pub ns: f64,
    /// Half the width.
    pub half: f64,
}

impl Value {
    fn plus(self, factor: f64, other: Value) -> Value {
        Value { ns: self.ns + factor * other.ns, half: self.half.hypot(factor * other.half) }
    }
}

impl From<Estimate> for Value {
    fn from(e: Estimate) -> Value {
        Value { ns: e.ns, half: e.half }
    }
}

/// The parameters of one way for its small messages.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Parameters {
    /// Send overhead, from bursts that end before the window is full.
    pub o_s: Value,
    /// Receive overhead, beside computations that are longer than what a sender idles.
    pub o_r: Value,
    /// A round trip less four overheads, halved. Less than 0 if what the two processors do overlaps.
    pub l: Value,
    /// Gap: how much longer a burst behind the window is for each further request.
    pub g: Value,
    /// A round trip.
    pub rtt: Value,
    /// What one request costs that is sent alone; more than `o_s` if it has to wake its receiver.
    pub alone: Value,
}

impl Parameters {
    /// The same without their intervals.
    pub fn model(&self, p: u32) -> LogP {
        LogP { o_s: self.o_s.ns, o_r: self.o_r.ns, l: self.l.ns, g: self.g.ns, p }
    }
}

/// What messages of one length cost.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bulk {
    /// Bytes of a request.
    pub size: usize,
    /// Send overhead.
    pub o_s: Value,
    /// Gap.
    pub g: Value,
    /// From sending `size` bytes until their reply is there; the reply has the length of a small message.
    pub t: Value,
}

impl Bulk {
    /// Bytes in a second if each request waits for its reply: size / T.
    pub fn bandwidth(&self) -> f64 {
        1e9 * self.size as f64 / self.t.ns
    }

    /// Bytes in a second if requests follow each other: size / g.
    pub fn stream(&self) -> f64 {
        1e9 * self.size as f64 / self.g.ns
    }
}

/// Everything that is read off one survey.
#[derive(Debug, Clone, PartialEq)]
pub struct Fit {
    /// Of small messages.
    pub small: Parameters,
    /// By size, ascending; the small messages are the first.
    pub bulk: Vec<Bulk>,
    /// The size that reaches half of the largest bandwidth, bytes. `None` of one size only.
    pub half_peak: Option<f64>,
}

/// Reads off what a survey has measured. `None` while points are missing: before the end of its first pass, or if its
/// bursts are all within the window, or all behind it.
pub fn fit(survey: &Survey) -> Option<Fit> {
    let sizes = &survey.plan().sizes;
    let bulk: Vec<Bulk> = sizes.iter().map(|&size| of_size(survey, size)).collect::<Option<_>>()?;
    let times: Vec<(usize, f64)> = bulk.iter().map(|b| (b.size, b.t.ns)).collect();
    Some(Fit { small: small(survey)?, half_peak: half_peak(&times), bulk })
}

fn small(survey: &Survey) -> Option<Parameters> {
    let load = survey.load(survey.plan().sizes[0]);
    let plain = survey.burst_points(load, 0);
    let (o_s, g) = (overhead(&plain)?, gap(&plain)?);
    let alone = plain.iter().find(|p| messages(p) == 1)?.cost().into();
    let rtt: Value = survey.round_trip(load)?.cost().into();
    let half_trip = Value { ns: rtt.ns / 2.0, half: rtt.half / 2.0 };
    let o_r = receive_overhead(survey, g.ns.max(half_trip.ns) - o_s.ns)?;
    Some(Parameters { o_s, o_r, l: half_trip.plus(-1.0, o_s).plus(-1.0, o_r), g, rtt, alone })
}

fn of_size(survey: &Survey, size: usize) -> Option<Bulk> {
    let load = survey.load(size);
    let points = survey.burst_points(load, 0);
    let t = survey.round_trip(load)?.cost().into();
    Some(Bulk { size, o_s: overhead(&points)?, g: gap(&points)?, t })
}

fn messages(point: &Point) -> u32 {
    match point.what {
        What::Burst { messages, .. } => messages,
        What::RoundTrip | What::Reply { .. } => 0,
    }
}

/// The send-only regime of a curve: what a request costs while the window is not full. The middle half of the points, because the first ones may have to wake the receiver.
pub fn overhead(curve: &[&Point]) -> Option<Value> {
    let begin = curve.iter().filter(|p| messages(p) <= p.load.window);
    middle(&begin.map(|p| p.cost()).collect::<Vec<_>>()).map(Value::from)
}

/// The steady state of a curve: how much longer a burst is for each further request. Bursts
/// that end just behind the window are left out: there replies still come as they were sent, all at once.
pub fn gap(curve: &[&Point]) -> Option<Value> {
    let steady: Vec<At> = curve
        .iter()
        .filter(|p| messages(p) >= 2 * p.load.window)
        .map(|p| {
            let (m, cost) = (f64::from(messages(p)), p.cost());
            At { x: m, y: m * cost.ns, half: m * cost.half }
        })
        .collect();
    line(&steady).map(|line| Value { ns: line.slope, half: line.slope_half })
}

/// What replies cost beside computations longer than a sender idles: then they are there before they are wanted. Idle =
/// g - o_s - o_r is not known here, but `idle` is at least that. Of several lengths, the mean weighted by how sure each
/// is; where noise has made `idle` longer than all of them, the longest.
fn receive_overhead(survey: &Survey, idle: f64) -> Option<Value> {
    let replies = survey.replies();
    let longest = replies.len().saturating_sub(1);
    let first = replies.iter().position(|p| p.delay() >= idle).unwrap_or(longest);
    let (mut sum, mut weights) = (0.0, 0.0);
    for point in &replies[first..] {
        let cost = point.cost();
        let weight = cost.half.clamp(1e-3 * point.delay(), 1e6 * point.delay()).powi(-2);
        sum += weight * cost.ns;
        weights += weight;
    }
    (weights > 0.0).then(|| Value { ns: sum / weights, half: weights.powf(-0.5) })
}
