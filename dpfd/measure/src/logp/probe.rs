//! Which bursts are sent, and how often: the microbenchmark as published, over anything that can send bursts.
//!
//! A [`Survey`] is all that is measured of one way. A first pass gives every point its first batches; then those whose
//! interval is still wide get further ones. Whoever measures several ways gives these in turns, so that all of them meet
//! the same states of the machine.

use serde::{Deserialize, Serialize};

use super::fit;
use super::model;
use crate::stats::{trimmed_mean, Estimate};

/// One burst, or round trip, as a system is asked for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Load {
    /// Bytes of a request.
    pub size: usize,
    /// Bytes of a reply.
    pub reply: usize,
    /// Requests that may be unanswered.
    pub window: u32,
}

/// What can be measured: a way of sending between two processors, or the simulation of one.
pub trait System {
    /// What can go wrong; a survey passes it on.
    type Error;

    /// Gets ready for a batch with this load; nothing here is timed.
    fn begin(&mut self, load: Load) -> Result<(), Self::Error>;

    /// Sends `messages` requests with a computation of `turns` behind each, and takes in a reply only where the window
    /// asks for it: nanoseconds from the first request to behind the last computation. Then, untimed, takes in all
    /// replies that are missing.
    fn burst(&mut self, messages: u32, turns: u32) -> Result<f64, Self::Error>;

    /// So many round trips, one after the other: nanoseconds for all.
    fn round_trips(&mut self, trips: u32) -> Result<f64, Self::Error>;

    /// So many computations of `turns`, and nothing else: nanoseconds for all.
    fn compute(&mut self, times: u32, turns: u32) -> Result<f64, Self::Error>;

    /// The batch is over.
    fn end(&mut self) -> Result<(), Self::Error>;
}

/// What a survey covers.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Lengths of requests, ascending; the signature is that of the first, whose replies have the same length.
    pub sizes: Vec<usize>,
    /// Requests that may be unanswered, if they are small.
    pub window: u32,
    /// Lengths of bursts, ascending.
    pub bursts: Vec<u32>,
    /// Lengths of computations, as multiples of the gap; the first is 0. Receiving is also measured with half a round
    /// trip, where that is longer than all of them: a replier that has gone to sleep needs that time, however short its
    /// gaps are while it is kept busy, and until it keeps up the requester idles.
    pub delays: Vec<f64>,
}

/// Bursts in a batch.
pub const BATCH: u32 = 50;
/// A point is done when its interval is within this part of its mean.
pub const WITHIN: f64 = 0.05;
/// Batches a point gets in the first pass: with one trimmed at either end an interval wants three more.
const FIRST: u32 = 5;
/// Bursts of a batch that was cut short, at least.
const SHORT: usize = 10;
/// Round trips timed as one: reading the clock takes about as long as a message in the cache does.
const TRIPS: u32 = 8;
/// Computations timed as one, to know their length; as often as there are bursts, and trimmed as these are.
const COMPUTATIONS: u32 = 8;
/// A gap or half a round trip, ns, is not taken to be longer for computations: bursts would take minutes.
const LONGEST: f64 = 1e6;
/// Turns to learn from how long a turn takes.
const CALIBRATION: u32 = 20_000;

/// What one point is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// Bursts of so many requests with a computation of so many turns.
    Burst {
        /// M.
        messages: u32,
        /// What D is made of.
        turns: u32,
    },
    /// Round trips.
    RoundTrip,
    /// What a reply costs its receiver beside computations of so many turns: what bursts that take in two windows of
    /// replies cost more than bursts that take in none, which are sent in between.
    Reply {
        /// What D is made of.
        turns: u32,
    },
}

impl What {
    /// Turns of the computation between two requests.
    pub fn turns(self) -> u32 {
        match self {
            What::Burst { turns, .. } | What::Reply { turns } => turns,
            What::RoundTrip => 0,
        }
    }
}

/// One point of the survey: nanoseconds for each message, round trip or reply.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    /// With what load.
    pub load: Load,
    /// What was done.
    pub what: What,
    /// Means of batches, trimmed.
    batches: Vec<f64>,
    /// How long a computation took beside each batch: the mean, trimmed.
    delays: Vec<f64>,
}

impl Point {
    fn new(load: Load, what: What) -> Point {
        Point { load, what, batches: Vec::new(), delays: Vec::new() }
    }

    /// Nanoseconds, and how sure.
    pub fn cost(&self) -> Estimate {
        Estimate::of(&self.batches)
    }

    /// How long the computation behind each request took, ns; 0 of round trips.
    pub fn delay(&self) -> f64 {
        self.delays.iter().sum::<f64>() / self.delays.len().max(1) as f64
    }

    /// Whether its interval is narrow enough.
    pub fn settled(&self) -> bool {
        self.batches.len() as u32 >= FIRST && self.cost().within(WITHIN)
    }

    fn batch<S: System>(&mut self, system: &mut S, mut enough: impl FnMut() -> bool) -> Result<(), S::Error> {
        system.begin(self.load)?;
        let window = self.load.window;
        let cost = match self.what {
            What::RoundTrip => sampled(TRIPS, &mut enough, || system.round_trips(TRIPS))?,
            What::Burst { messages, turns } => {
                sampled(messages, &mut enough, || system.burst(messages, turns))?
            }
            What::Reply { turns } => sampled(2 * window, &mut enough, || {
                let without = system.burst(window, turns)?;
                Ok(system.burst(3 * window, turns)? - 3.0 * without)
            })?,
        };
        let delay = match self.what.turns() {
            0 => 0.0,
            turns => sampled(COMPUTATIONS, &mut enough, || system.compute(COMPUTATIONS, turns))?,
        };
        system.end()?;
        self.batches.push(cost);
        self.delays.push(delay);
        Ok(())
    }
}

/// A batch of samples, each of which is the time of `n`: the trimmed mean for one. Ends early if it must.
fn sampled<E>(
    n: u32,
    enough: &mut impl FnMut() -> bool,
    mut sample: impl FnMut() -> Result<f64, E>,
) -> Result<f64, E> {
    let mut samples = Vec::with_capacity(BATCH as usize);
    while samples.len() < BATCH as usize && (samples.len() < SHORT || !enough()) {
        samples.push(sample()?);
    }
    Ok(trimmed_mean(&mut samples) / f64::from(n))
}

/// Everything that is measured of one way.
#[derive(Debug, Clone, PartialEq)]
pub struct Survey {
    plan: Plan,
    points: Vec<Point>,
}

impl Survey {
    /// Of nothing yet.
    pub fn new(plan: Plan) -> Survey {
        Survey { plan, points: Vec::new() }
    }

    /// What it covers.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The load of requests of this size.
    pub fn load(&self, size: usize) -> Load {
        Load { size, reply: self.plan.sizes[0], window: model::window(size, self.plan.window) }
    }

    /// All points so far.
    pub fn points(&self) -> &[Point] {
        &self.points
    }

    /// The first pass: every point gets its first batches, or two short ones once `enough` says so, which is asked before
    /// each burst and told how many points are done. Lengths of computations follow from the gap, so the curve without
    /// one comes first.
    pub fn first<S: System>(
        &mut self,
        system: &mut S,
        mut enough: impl FnMut(usize) -> bool,
    ) -> Result<(), S::Error> {
        let small = self.load(self.plan.sizes[0]);
        self.add(system, small, What::RoundTrip, &mut enough)?;
        for messages in self.plan.bursts.clone() {
            self.add(system, small, What::Burst { messages, turns: 0 }, &mut enough)?;
        }
        system.begin(small)?;
        let turn = system.compute(1, CALIBRATION)? / f64::from(CALIBRATION);
        system.end()?;
        let gap = self.gap_for_delays(small);
        let turns_for = |delay: f64| (delay / turn).round().clamp(0.0, 1e9) as u32;
        for delay in self.plan.delays.clone() {
            let turns = turns_for(delay * gap);
            if turns == 0 {
                continue;
            }
            // Every other point will do: what these curves say is in their two ends.
            for messages in self.plan.bursts.clone().into_iter().filter(|m| m.is_power_of_two()) {
                self.add(system, small, What::Burst { messages, turns }, &mut enough)?;
            }
            self.add(system, small, What::Reply { turns }, &mut enough)?;
        }
        let longest = self.plan.delays.iter().fold(0.0, |longest, delay| f64::max(longest, delay * gap));
        let half_trip = self.round_trip(small).map_or(0.0, |p| p.cost().ns) / 2.0;
        if half_trip > longest {
            let turns = turns_for(half_trip.min(LONGEST));
            self.add(system, small, What::Reply { turns }, &mut enough)?;
        }
        for i in 1..self.plan.sizes.len() {
            let load = self.load(self.plan.sizes[i]);
            self.add(system, load, What::RoundTrip, &mut enough)?;
            for messages in bulk_bursts(load.window) {
                self.add(system, load, What::Burst { messages, turns: 0 }, &mut enough)?;
            }
        }
        Ok(())
    }

    /// The gap as far as it is known; where noise made it absurd, what requests of the longest bursts cost.
    fn gap_for_delays(&self, load: Load) -> f64 {
        let plain = self.burst_points(load, 0);
        let steady = plain.last().map_or(0.0, |p| p.cost().ns);
        let gap = fit::gap(&plain).map_or(0.0, |g| g.ns);
        if gap > 0.2 * steady && gap < 2.0 * steady { gap } else { steady }.min(LONGEST)
    }

    /// How many points a first pass has at most.
    pub fn expected(&self) -> usize {
        let curve = 1 + self.plan.bursts.iter().filter(|m| m.is_power_of_two()).count();
        let signature = 2 + self.plan.bursts.len() + curve * (self.plan.delays.len() - 1);
        let bulk = |&size: &usize| 1 + bulk_bursts(self.load(size).window).len();
        signature + self.plan.sizes[1..].iter().map(bulk).sum::<usize>()
    }

    fn add<S: System>(
        &mut self,
        system: &mut S,
        load: Load,
        what: What,
        enough: &mut impl FnMut(usize) -> bool,
    ) -> Result<(), S::Error> {
        let mut point = Point::new(load, what);
        let done = self.points.len();
        while (point.batches.len() as u32) < FIRST && (point.batches.len() < 2 || !enough(done)) {
            point.batch(system, || enough(done))?;
        }
        self.points.push(point);
        Ok(())
    }

    /// One batch more for the wide point that has had the fewest; whether there was one. `enough` is asked before each
    /// burst and ends the batch early.
    pub fn again<S: System>(
        &mut self,
        system: &mut S,
        enough: impl FnMut() -> bool,
    ) -> Result<bool, S::Error> {
        let wide = self.points.iter_mut().filter(|p| !p.settled());
        match wide.min_by_key(|p| p.batches.len()) {
            Some(point) => point.batch(system, enough).map(|()| true),
            None => Ok(false),
        }
    }

    /// The bursts with this load and this many turns, by their length.
    pub fn burst_points(&self, load: Load, turns: u32) -> Vec<&Point> {
        let same =
            |p: &&Point| matches!(p.what, What::Burst { turns: t, .. } if t == turns) && p.load == load;
        self.points.iter().filter(same).collect()
    }

    /// The round trips with this load.
    pub fn round_trip(&self, load: Load) -> Option<&Point> {
        self.points.iter().find(|p| p.load == load && p.what == What::RoundTrip)
    }

    /// What replies cost, for each computation.
    pub fn replies(&self) -> Vec<&Point> {
        self.points.iter().filter(|p| matches!(p.what, What::Reply { .. })).collect()
    }

    /// Lengths of computations that have a curve, in turns, ascending; 0 is the first.
    pub fn turns(&self) -> Vec<u32> {
        let mut turns: Vec<u32> = Vec::new();
        for point in &self.points {
            if let What::Burst { turns: t, .. } = point.what {
                if !turns.contains(&t) {
                    turns.push(t);
                }
            }
        }
        turns.sort_unstable();
        turns
    }
}

/// Bursts that tell o_s and g of one size: some that end before the window is full, some behind it.
fn bulk_bursts(window: u32) -> Vec<u32> {
    let mut bursts = vec![1, 2, window / 2, 2 * window, 3 * window, 4 * window];
    bursts.dedup();
    bursts
}
