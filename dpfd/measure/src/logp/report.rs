//! What is printed: a table for people, JSON for programs.

use serde::Serialize;

use super::fit::{Fit, Value};
use super::probe::{Point, Survey, What, BATCH, WITHIN};
use crate::origin::{Origin, Place};
use crate::printed::{half, round, tenth, Printed};
use crate::stats::{median, quartile_half};

/// What `dp logp --json` prints. Fields may be added; none changes its meaning while `version` stays.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// 1.
    pub version: u32,
    /// Where, when and by what.
    pub origin: Origin,
    /// Cores of the requesting and of the replying process, or the other one's node.
    #[serde(flatten)]
    pub place: Place,
    /// P: processors that can take part.
    pub p: u32,
    /// Bytes of a small message.
    pub size: usize,
    /// Small requests that may be unanswered.
    pub window: u32,
    /// Bursts in a batch.
    pub batch: u32,
    /// A point is done when its 95 % interval is within this part of its mean.
    pub within: f64,
    /// How long the measurement took.
    pub seconds: f64,
    /// One for each way of sending.
    pub ways: Vec<Findings>,
}

/// One way of sending. Times in nanoseconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Findings {
    /// Its name.
    pub way: String,
    /// The parameters of small messages.
    pub o_s: Ns,
    /// Receive overhead.
    pub o_r: Ns,
    /// Latency.
    pub l: Ns,
    /// Gap.
    pub g: Ns,
    /// Round trip.
    pub rtt: Ns,
    /// What one request costs that is sent alone.
    pub alone: Ns,
    /// What a sender waits for in each gap.
    pub idle: f64,
    /// Size in bytes that reaches half of the largest bandwidth.
    pub n_half: Option<f64>,
    /// The signature: one curve for each computation.
    pub signature: Vec<Curve>,
    /// By size of requests.
    pub bulk: Vec<Bulk>,
    /// By number of senders.
    pub k_to_1: Vec<Contended>,
    /// How many points there are.
    pub points: usize,
    /// Those whose interval stayed wide.
    pub wide: Vec<Wide>,
    /// What a reader should know of these numbers.
    pub notes: Vec<String>,
}

/// A time and half the width of its 95 % interval; null when there is none.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Ns {
    /// The time.
    pub ns: f64,
    /// Half the width.
    pub half: f64,
}

/// The cost of bursts with one computation between their requests.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Curve {
    /// D: how long that computation is.
    pub d: f64,
    /// By length of burst.
    pub points: Vec<Cost>,
}

/// One point of a curve.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Cost {
    /// M: requests in a burst.
    pub m: u32,
    /// Cost of each.
    pub ns: f64,
    /// Half the width of its interval.
    pub half: f64,
    /// Batches it stands on.
    pub batches: u32,
}

/// One size of requests; their replies are small messages.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Bulk {
    /// Bytes.
    pub size: usize,
    /// Requests of this size that may be unanswered.
    pub window: u32,
    /// Send overhead.
    pub o_s: Ns,
    /// Gap.
    pub g: Ns,
    /// T: until the reply is there.
    pub t: Ns,
    /// BW = size / T.
    pub bytes_per_s: f64,
    /// size / g; null where g was lost in noise.
    pub stream_bytes_per_s: Option<f64>,
}

/// Several senders, one receiver.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Contended {
    /// K.
    pub senders: u32,
    /// The gap each of them sees.
    pub g: f64,
    /// Half of the distance between the quartiles of all turns' gaps; null of one turn.
    pub g_half: f64,
    /// The gap over that of one.
    pub times: f64,
    /// Half of the distance between its quartiles; null of one turn.
    pub times_half: f64,
    /// Whether some of them had to share a core.
    pub shared_cores: bool,
}

/// A point whose interval stayed wide.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Wide {
    /// Bytes of its requests.
    pub size: usize,
    /// Requests in a burst; null of round trips, and of replies (their `d` is above 0).
    pub m: Option<u32>,
    /// The computation, ns.
    pub d: f64,
    /// Half the width of its interval, in percent of the mean; null of a single batch.
    pub percent: f64,
}

impl From<Value> for Ns {
    fn from(v: Value) -> Ns {
        Ns { ns: tenth(v.ns), half: tenth(v.half) }
    }
}

impl Findings {
    /// What a survey has found, by its fit, and several senders.
    pub fn new(way: &str, survey: &Survey, fit: &Fit, k_to_1: Vec<Contended>) -> Findings {
        let small = survey.load(survey.plan().sizes[0]);
        let found = &fit.small;
        let wide: Vec<Wide> = survey.points().iter().filter(|p| !p.settled()).map(Wide::of).collect();
        Findings {
            way: way.to_string(),
            o_s: found.o_s.into(),
            o_r: found.o_r.into(),
            l: found.l.into(),
            g: found.g.into(),
            rtt: found.rtt.into(),
            alone: found.alone.into(),
            idle: tenth(found.model(2).idle()),
            n_half: fit.half_peak.map(tenth),
            signature: survey
                .turns()
                .iter()
                .map(|&turns| Curve::of(&survey.burst_points(small, turns)))
                .collect(),
            bulk: fit.bulk.iter().map(|b| bulk(survey, b)).collect(),
            k_to_1,
            points: survey.points().len(),
            notes: notes(fit, small.window, wide.len(), survey.points().len()),
            wide,
        }
    }
}

impl Contended {
    /// From gaps by number of senders, which begin with 1, and round. `times` is made round by round: the machine's speed
    /// may change between two.
    pub fn all(counts: &[u32], rounds: &[Vec<f64>], shares: impl Fn(u32) -> bool) -> Vec<Contended> {
        let one = |count: (&u32, &Vec<f64>)| {
            let (&senders, gaps) = count;
            let times: Vec<f64> = gaps.iter().zip(&rounds[0]).map(|(gap, of_one)| gap / of_one).collect();
            Contended {
                senders,
                g: tenth(median(gaps)),
                g_half: tenth(quartile_half(gaps)),
                times: round(median(&times), 100.0),
                times_half: round(quartile_half(&times), 100.0),
                shared_cores: shares(senders),
            }
        };
        counts.iter().zip(rounds).map(one).collect()
    }
}

fn bulk(survey: &Survey, b: &super::fit::Bulk) -> Bulk {
    Bulk {
        size: b.size,
        window: survey.load(b.size).window,
        o_s: b.o_s.into(),
        g: b.g.into(),
        t: b.t.into(),
        bytes_per_s: b.bandwidth().round(),
        stream_bytes_per_s: (b.g.half < b.g.ns).then(|| b.stream().round()),
    }
}

impl Curve {
    fn of(points: &[&Point]) -> Curve {
        let d = points.iter().map(|p| p.delay()).sum::<f64>() / points.len().max(1) as f64;
        let cost = |p: &&Point| {
            let What::Burst { messages: m, .. } = p.what else { return None };
            let cost = p.cost();
            Some(Cost { m, ns: tenth(cost.ns), half: tenth(cost.half), batches: cost.batches })
        };
        Curve { d: tenth(d), points: points.iter().filter_map(cost).collect() }
    }
}

impl Wide {
    fn of(point: &Point) -> Wide {
        let m = match point.what {
            What::Burst { messages, .. } => Some(messages),
            What::RoundTrip | What::Reply { .. } => None,
        };
        let cost = point.cost();
        Wide {
            size: point.load.size,
            m,
            d: tenth(point.delay()),
            percent: tenth(100.0 * cost.half / cost.ns.abs()),
        }
    }
}

/// Where LogP's assumptions do not hold for what was found.
fn notes(fit: &Fit, window: u32, wide: usize, points: usize) -> Vec<String> {
    let (small, mut notes) = (&fit.small, Vec::new());
    let overheads = small.o_s.ns + small.o_r.ns;
    if 2 * wide > points {
        notes.push(
            "most points stayed wide: the time was too short, or these cores have other work to do"
                .to_string(),
        );
    }
    if small.l.ns < 0.0 {
        notes.push("L is below 0: sending and receiving overlap, the overheads hide the latency".to_string());
    }
    if small.o_r.ns < 0.0 {
        notes.push("o_r is below 0: it is too small to be told from the computation beside it".to_string());
    }
    if small.g.ns <= 1.05 * overheads {
        notes.push(
            "the processor is the slowest stage: g is o_s + o_r, and nothing is left to idle in".to_string(),
        );
    }
    // Where the window is the slowest stage, g is the round trip over the window.
    if small.model(2).in_flight() > 0.95 * f64::from(window) {
        notes.push(format!(
            "a round trip is {window} gaps or longer: g may be that of the window, try a larger --window"
        ));
    }
    notes
}

impl Report {
    /// An empty one.
    pub fn new(origin: Origin, place: Place, p: u32, size: usize, window: u32) -> Report {
        Report {
            version: 1,
            origin,
            place,
            p,
            size,
            window,
            batch: BATCH,
            within: WITHIN,
            seconds: 0.0,
            ways: Vec::new(),
        }
    }
}

impl Printed for Report {
    fn text(&self) -> String {
        let mut text = format!(
            "LogP of {}-byte messages {}, P = {}, {:.0} s; nanoseconds, 95 % intervals\n\n",
            self.size,
            self.place.words(),
            self.p,
            self.seconds
        );
        text += &row("", &["o_s", "o_r", "L", "g", "RTT/2"].map(|title| format!("{title:>15}")));
        for way in &self.ways {
            let trip = Ns { ns: way.rtt.ns / 2.0, half: way.rtt.half / 2.0 };
            text += &row(&way.way, &[way.o_s, way.o_r, way.l, way.g, trip].map(with_interval));
        }
        text += &self.bulk_text();
        text += &self.contended_text();
        for way in &self.ways {
            for note in way.notes.iter().cloned().chain(way.wide_text()) {
                text += &format!("\n{}: {note}", way.way);
            }
        }
        if !text.ends_with('\n') {
            text.push('\n');
        }
        text + &format!("\n{}\n", self.origin.line())
    }
}

impl Report {
    fn bulk_text(&self) -> String {
        let mut text = String::new();
        for way in self.ways.iter().filter(|way| way.bulk.len() > 1) {
            let half_peak =
                way.n_half.map_or(String::new(), |n| format!(", half of the peak at {n:.0} bytes"));
            text += &format!("\n{} by size{half_peak}\n", way.way);
            text += &row(
                "BYTES",
                &["o_s ns", "g ns", "T ns", "BW MB/s", "STREAM MB/s"].map(|t| format!("{t:>15}")),
            );
            for b in &way.bulk {
                let cells = [b.o_s, b.g, b.t].map(with_interval);
                let rate = format!("{:>15.0}", b.bytes_per_s / 1e6);
                let stream =
                    b.stream_bytes_per_s.map_or("?".to_string(), |rate| format!("{:.0}", rate / 1e6));
                text += &row(&b.size.to_string(), &[cells.concat(), rate, format!("{stream:>15}")]);
            }
        }
        text
    }

    fn contended_text(&self) -> String {
        let Some(first) = self.ways.first().filter(|way| !way.k_to_1.is_empty()) else {
            return String::new();
        };
        let mut text =
            String::from("\ngap seen by each of K senders to one receiver, ns, \u{b1} half of what lies between quartiles, and over \
                          that of one\n");
        text += &row(
            "",
            &first.k_to_1.iter().map(|k| format!("{:>24}", format!("K = {}", k.senders))).collect::<Vec<_>>(),
        );
        for way in &self.ways {
            let cell = |k: &Contended| {
                format!("{:>24}", format!("{:.0} \u{b1} {} {:.2}x", k.g, half(k.g_half), k.times))
            };
            text += &row(&way.way, &way.k_to_1.iter().map(cell).collect::<Vec<_>>());
        }
        if first.k_to_1.iter().any(|k| k.shared_cores) {
            text += "fewer cores than senders: some took turns on one\n";
        }
        text
    }
}

impl Findings {
    fn wide_text(&self) -> Option<String> {
        let worst = self.wide.iter().max_by(|a, b| a.percent.total_cmp(&b.percent))?;
        let what = match worst.m {
            Some(m) => format!("M = {m}, D = {:.0} ns", worst.d),
            None if worst.d > 0.0 => format!("replies, D = {:.0} ns", worst.d),
            None => "round trips".to_string(),
        };
        Some(format!(
            "{} of {} points stayed wider than {:.0} %; the widest: {} bytes, {what}, {:.0} %",
            self.wide.len(),
            self.points,
            100.0 * WITHIN,
            worst.size,
            worst.percent,
        ))
    }
}

fn with_interval(value: Ns) -> String {
    format!("{:>15}", format!("{:.0} \u{b1} {}", value.ns, half(value.half.ceil())))
}

fn row(first: &str, cells: &[String]) -> String {
    format!("{first:<14}{}\n", cells.concat())
}
