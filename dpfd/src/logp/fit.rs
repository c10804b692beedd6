//! From measured points to parameters.

use super::model::{half_peak, LogP};
use super::probe::{Point, Survey, What};
use super::stats::{line, middle, At, Estimate};

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
    /// Receive overhead, from curves whose computation is longer than what a sender idles.
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
        What::RoundTrip => 0,
    }
}

/// The send-only regime of one curve: what a request costs, without the computation behind it, while the window is not
/// full. The middle half of the points, because the first ones may have to wake the receiver.
pub fn overhead(curve: &[&Point]) -> Option<Value> {
    let begin = curve.iter().filter(|p| messages(p) <= p.load.window);
    middle(&begin.map(|p| p.net()).collect::<Vec<_>>()).map(Value::from)
}

/// The steady state of one curve: how much longer a burst is for each further request, computations taken off. Bursts
/// that end just behind the window are left out: there replies still come as they were sent, all at once.
pub fn gap(curve: &[&Point]) -> Option<Value> {
    let steady: Vec<At> = curve
        .iter()
        .filter(|p| messages(p) >= 2 * p.load.window)
        .map(|p| {
            let (m, net) = (f64::from(messages(p)), p.net());
            At { x: m, y: m * net.ns, half: m * net.half }
        })
        .collect();
    line(&steady).map(|line| Value { ns: line.slope, half: line.slope_half })
}

/// What a curve's steady state costs more than its beginning is the receiving of one reply, if the computation is
/// longer than a sender idles: then the reply is there before it is wanted. Idle = g - o_s - o_r is not known here, but
/// `idle` is at least that. Of several curves, the mean weighted by how sure each is; where noise has made `idle` longer
/// than every computation, the curve with the longest.
fn receive_overhead(survey: &Survey, idle: f64) -> Option<Value> {
    let load = survey.load(survey.plan().sizes[0]);
    let mut curves: Vec<(f64, Vec<&Point>)> = Vec::new();
    for turns in survey.turns().into_iter().filter(|&t| t > 0) {
        let curve = survey.burst_points(load, turns);
        curves.push((curve.iter().map(|p| p.delay()).sum::<f64>() / curve.len() as f64, curve));
    }
    let longest = curves.len().saturating_sub(1);
    let first = curves.iter().position(|(delay, _)| *delay >= idle).unwrap_or(longest);
    let (mut sum, mut weights) = (0.0, 0.0);
    for (delay, curve) in &curves[first..] {
        let (Some(steady), Some(begin)) = (gap(curve), overhead(curve)) else { continue };
        let o_r = steady.plus(-1.0, begin);
        let weight = o_r.half.clamp(1e-3 * delay, 1e6 * delay).powi(-2);
        sum += weight * o_r.ns;
        weights += weight;
    }
    (weights > 0.0).then(|| Value { ns: sum / weights, half: weights.powf(-0.5) })
}
