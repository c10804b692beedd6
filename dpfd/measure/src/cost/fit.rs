//! From measured points to pieces of straight lines, and to what these predict.

use super::model::{error, Bound, Costs, Linear};
use super::probe::{Load, Survey, What};
use crate::stats::{line, median, quartile_half, weighted_median, At, Estimate};

/// Where the machinery changes: a name for what lies below, and the longest packet that does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Border {
    /// What does the work up to here.
    pub name: &'static str,
    /// The longest packet, bytes.
    pub upto: usize,
}

/// A straight line for the packets between two borders.
#[derive(Debug, Clone, PartialEq)]
pub struct Piece {
    /// What does the work.
    pub name: &'static str,
    /// The shortest and the longest packet it is for, bytes.
    pub range: [usize; 2],
    /// The line; NaN, as what follows, where fewer than two lengths were measured: nothing is known of the cost there.
    pub line: Linear,
    /// Half the width of the 95 % interval of its slope, ns for each byte.
    pub t_half: f64,
    /// How far the measured points are from it, the middle one of them: 0.1 is a tenth of the point.
    pub error: f64,
    /// The same, the farthest.
    pub worst: f64,
}

/// A cost, piece by piece.
#[derive(Debug, Clone, PartialEq)]
pub struct Pieces(pub Vec<Piece>);

impl Pieces {
    /// Lines through these points, lengths ascending. A piece with fewer than two of them is unknown: what its neighbour
    /// costs says nothing of it. `None` if all are.
    pub fn fit(points: &[(usize, Estimate)], borders: &[Border]) -> Option<Pieces> {
        let mut from = 1;
        let piece = |border: &Border| {
            let range = [from, border.upto];
            from = border.upto.saturating_add(1);
            let inside = points.iter().filter(|p| (range[0]..=range[1]).contains(&p.0)).copied();
            Piece::fit(border.name, range, &inside.collect::<Vec<_>>())
        };
        let pieces = Pieces(borders.iter().map(piece).collect());
        pieces.0.iter().any(Piece::known).then_some(pieces)
    }

    /// The piece for packets of `m` bytes.
    pub fn piece(&self, m: usize) -> &Piece {
        self.0.iter().find(|p| m <= p.range[1]).unwrap_or(&self.0[self.0.len() - 1])
    }

    /// The cost of a packet of `m` bytes, ns; NaN where it is unknown.
    pub fn at(&self, m: usize) -> f64 {
        self.piece(m).line.at(m)
    }
}

impl Piece {
    /// Whether anything was measured that its line goes through.
    pub fn known(&self) -> bool {
        self.line.k.is_finite()
    }

    fn fit(name: &'static str, range: [usize; 2], points: &[(usize, Estimate)]) -> Piece {
        const NAN: f64 = f64::NAN;
        let unknown =
            Piece { name, range, line: Linear { k: NAN, t: NAN }, t_half: NAN, error: NAN, worst: NAN };
        Piece::through(name, range, points).unwrap_or(unknown)
    }

    /// `None` of fewer than two points.
    fn through(name: &'static str, range: [usize; 2], points: &[(usize, Estimate)]) -> Option<Piece> {
        let at = |&(m, e): &(usize, Estimate)| At { x: m as f64, y: e.ns, half: e.half };
        let found = line(&points.iter().map(at).collect::<Vec<_>>())?;
        // The start that is, in parts of each point, next to them: short packets count as long ones do.
        let mut starts: Vec<(f64, f64)> = points
            .iter()
            .map(|&(m, e)| (e.ns - found.slope * m as f64, 1.0 / e.ns.abs().max(1e-9)))
            .collect();
        let line = Linear { k: weighted_median(&mut starts)?, t: found.slope };
        let off = |&(m, e): &(usize, Estimate)| (line.at(m) / e.ns - 1.0).abs();
        let off: Vec<f64> = points.iter().map(off).collect();
        let worst = off.iter().copied().fold(0.0, f64::max);
        Some(Piece { name, range, line, t_half: found.slope_half, error: median(&off), worst })
    }
}

/// B_L: what is taken in while nobody receives.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Room {
    /// Bytes that all packets together take.
    pub bytes: f64,
    /// Bytes that a packet takes beside its own.
    pub beside: f64,
    /// How far the measured points are from bytes / (m + beside), the middle one of them.
    pub error: f64,
}

impl Room {
    /// From lengths and numbers of packets: (m + beside) / bytes is a straight line.
    pub fn fit(points: &[(usize, f64)]) -> Option<Room> {
        let at = |&(m, n): &(usize, f64)| At { x: m as f64, y: 1.0 / n, half: 0.0 };
        let found = line(&points.iter().map(at).collect::<Vec<_>>())?;
        let mut room = Room { bytes: 1.0 / found.slope, beside: found.start / found.slope, error: 0.0 };
        let off: Vec<f64> = points.iter().map(|&(m, n)| (room.packets(m) / n - 1.0).abs()).collect();
        room.error = median(&off);
        Some(room)
    }

    /// Packets of `m` bytes.
    pub fn packets(&self, m: usize) -> f64 {
        self.bytes / (m as f64 + self.beside)
    }
}

/// All that predictions are made of.
#[derive(Debug, Clone, PartialEq)]
pub struct Model {
    /// Send overhead.
    pub o_s: Pieces,
    /// Transmit gap.
    pub g_s: Pieces,
    /// Receive gap.
    pub g_r: Pieces,
    /// Latency: what is left of a one-way time.
    pub l: Pieces,
    /// The one-way time of a packet itself. How far its points are from its lines is how far predictions of one packet may be
    /// off, as far as the model can tell.
    pub t: Pieces,
    /// Asynchronous receive overhead, one piece.
    pub o_r: Pieces,
    /// User receive overhead.
    pub u_r: Pieces,
    /// B_L.
    pub room: Option<Room>,
    /// The longer of both gaps of packets of b bytes, by length of buffers, ascending.
    pub spread: Vec<(usize, f64)>,
}

impl Pieces {
    /// L: what the processors' costs leave of the one-way time, piece by piece: they are fitted to the same lengths, or are
    /// one piece. Not a fit of its own: a small difference of
    /// disturbed points would be a poor one, and the sum is to be the one-way time again.
    fn latency(trip: &Pieces, busy: [&Pieces; 3], points: &[(usize, Estimate)]) -> Pieces {
        let piece = |mut piece: Piece| {
            if !piece.known() {
                return piece;
            }
            for other in busy {
                let line = other.piece(piece.range[0]).line;
                piece.line = Linear { k: piece.line.k - line.k, t: piece.line.t - line.t };
            }
            let inside = points.iter().filter(|p| (piece.range[0]..=piece.range[1]).contains(&p.0));
            let off: Vec<f64> = inside.map(|&(m, e)| (piece.line.at(m) / e.ns - 1.0).abs()).collect();
            (piece.error, piece.worst) = (median(&off), off.iter().copied().fold(0.0, f64::max));
            piece
        };
        Pieces(trip.0.iter().cloned().map(piece).collect())
    }
}

/// What follows for one message.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Prediction {
    /// Packets.
    pub k: usize,
    /// The costs of each.
    pub costs: Costs,
    /// The slowest stage, by the condition.
    pub bound: Bound,
    /// The one-way time, ns; NaN where it is unknown.
    pub ns: f64,
}

/// The points of one kind as they are fitted: the first or the second result of whole messages, by length.
pub fn points(survey: &Survey, what: What, which: usize) -> Vec<(usize, Estimate)> {
    let whole = |p: &&super::probe::Point| p.load == Load::whole(p.load.packet);
    let mut points: Vec<_> =
        survey.of(what).filter(whole).map(|p| (p.load.packet, p.costs()[which])).collect();
    points.sort_by_key(|p| p.0);
    points
}

/// L at the sizes that were measured: the one-way time less what the processors are busy with, `o_r` for each.
pub fn latencies(survey: &Survey, o_r: &Pieces) -> Vec<(usize, Estimate)> {
    let of_size = |&m: &usize| {
        let load = Load::whole(m);
        let trip = survey.point(What::Trip, load)?.cost();
        let [o_s, u_r] = survey.point(What::Overheads, load)?.costs();
        let ns = trip.ns - o_s.ns - o_r.at(m) - u_r.ns;
        Some((m, Estimate { ns, half: trip.half.hypot(o_s.half).hypot(u_r.half), batches: trip.batches }))
    };
    survey.plan().sizes.iter().filter_map(of_size).collect()
}

impl Model {
    /// Reads off what a survey has measured; `None` before its first round is over. No measured time of a predicted message is
    /// looked at.
    pub fn fit(survey: &Survey, borders: &[Border]) -> Option<Model> {
        if survey.rounds() == 0 {
            return None;
        }
        let all = [Border { name: "all", upto: usize::MAX }];
        let o_r = Pieces::fit(&points(survey, What::Slowdown, 0), &all)?;
        let fit = |what, which| Pieces::fit(&points(survey, what, which), borders);
        let (o_s, u_r) = (fit(What::Overheads, 0)?, fit(What::Overheads, 1)?);
        // Those of b bytes are for messages of several packets.
        let sized = |which| {
            let sizes = &survey.plan().sizes;
            let points: Vec<_> =
                points(survey, What::Gaps, which).into_iter().filter(|p| sizes.contains(&p.0)).collect();
            Pieces::fit(&points, borders)
        };
        let rooms: Vec<(usize, f64)> = points(survey, What::Room, 0).iter().map(|p| (p.0, p.1.ns)).collect();
        let spread = |&spread: &usize| {
            let point = survey.point(What::Gaps, Load { packet: survey.plan().packet, spread })?;
            let [g_s, g_r] = point.costs();
            Some((spread, g_s.ns.max(g_r.ns)))
        };
        let t = fit(What::Trip, 0)?;
        Some(Model {
            g_s: sized(0)?,
            g_r: sized(1)?,
            l: Pieces::latency(&t, [&o_s, &o_r, &u_r], &latencies(survey, &o_r)),
            t,
            o_s,
            u_r,
            room: Room::fit(&rooms),
            spread: survey.plan().spreads.iter().filter_map(spread).collect(),
            o_r,
        })
    }

    /// What a packet of this load costs.
    pub fn costs(&self, load: Load) -> Costs {
        let m = load.packet;
        let g = match load.packets() {
            1 => self.g_s.at(m).max(self.g_r.at(m)),
            _ => between(&self.spread, load.spread),
        };
        Costs { o_s: self.o_s.at(m), g, l: self.l.at(m), o_r: self.o_r.at(m), u_r: self.u_r.at(m) }
    }

    /// The one-way time of a message.
    pub fn predict(&self, load: Load) -> Prediction {
        let (k, costs) = (load.packets(), self.costs(load));
        let bound = costs.bound();
        // Which stage is the slowest cannot be told without the gap.
        let ns = if k > 1 && costs.g.is_nan() { f64::NAN } else { costs.one_way(bound, k) };
        Prediction { k, costs, bound, ns }
    }
}

/// One message, predicted and measured in the same round: the one whose prediction is the middle one of all by its error.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Compared {
    /// The message.
    pub load: Load,
    /// By the parameters of that round, ns.
    pub predicted: f64,
    /// What was measured in it, ns.
    pub measured: f64,
    /// How far the prediction is off, in parts of what was measured.
    pub error: f64,
    /// Half of the distance between the quartiles of all rounds' errors.
    pub half: f64,
}

/// Predictions from the parameters of each round, beside what was measured in that round: the machine's speed may change
/// between two. In the order of the survey; empty before the first round.
pub fn compare(survey: &Survey, borders: &[Border]) -> Vec<Compared> {
    let mut rounds = vec![Vec::new(); survey.of(What::Message).count()];
    for round in 0..survey.rounds() {
        let only = survey.only(round);
        let Some(model) = Model::fit(&only, borders) else { continue };
        for (point, rounds) in only.of(What::Message).zip(&mut rounds) {
            let (load, predicted, measured) = (point.load, model.predict(point.load).ns, point.cost().ns);
            let error = error(predicted, measured);
            rounds.push(Compared { load, predicted, measured, error, half: 0.0 });
        }
    }
    let one = |mut rounds: Vec<Compared>| {
        rounds.sort_by(|a, b| a.error.total_cmp(&b.error));
        let errors: Vec<f64> = rounds.iter().map(|c| c.error).collect();
        let half = quartile_half(&errors);
        rounds.get(rounds.len() / 2).map(|&c| Compared { half, ..c })
    };
    rounds.into_iter().filter_map(one).collect()
}

/// Between two measured lengths the gap is taken to grow evenly with the logarithm: each doubling leaves as much more of the
/// buffers in the next memory. NaN outside of them: nothing is known there.
fn between(spread: &[(usize, f64)], at: usize) -> f64 {
    let behind = spread.iter().position(|&(s, _)| s >= at).unwrap_or(spread.len());
    match (behind.checked_sub(1).and_then(|i| spread.get(i)), spread.get(behind)) {
        (Some(&(s0, g0)), Some(&(s1, g1))) => {
            let log = |s: usize| (s as f64).ln();
            g0 + (g1 - g0) * (log(at) - log(s0)) / (log(s1) - log(s0))
        }
        (None, Some(&(s, g))) if s == at => g,
        _ => f64::NAN,
    }
}
