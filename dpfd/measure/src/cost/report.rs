//! What is printed by `dp cost --json`, and where it comes from; the tables are in `text`.

use serde::Serialize;

use super::fit::{compare, latencies, points, Border, Compared, Model, Pieces, Room};
use super::model::{Bound, Costs, Linear};
use super::probe::{Load, Survey, What};
use crate::origin::{Origin, Place};
use crate::printed::tenth;
use crate::stats::{median, quartile_half, Estimate};

/// What `dp cost --json` prints. Fields may be added; none changes its meaning while `version` stays. Times are
/// nanoseconds, lengths bytes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// 2.
    pub version: u32,
    /// Where, when and by what.
    pub origin: Origin,
    /// Cores of the process that sends first and of the other one, or the other one's node.
    #[serde(flatten)]
    pub place: Place,
    /// p: processes that take part.
    pub p: u32,
    /// What these cores' caches hold: the first, the second, the last level.
    pub caches: [usize; 3],
    /// b: the length of packets that messages are cut into.
    pub packet: usize,
    /// How long the measurement took, s.
    pub seconds: f64,
    /// Memory copies: M_ctc, M_ctm, M_mtm.
    pub copies: Vec<Parameter>,
    /// One for each way of sending.
    pub ways: Vec<Findings>,
}

/// One way of sending.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Findings {
    /// Its name.
    pub way: String,
    /// The driver that serves endpoints; null of other ways.
    pub driver: Option<String>,
    /// Rounds of measuring.
    pub rounds: u32,
    /// O_s, g_s, L, g_r, O_r, U_r, and T.
    pub parameters: Vec<Parameter>,
    /// B_L.
    pub b_l: Option<Capacity>,
    /// Gaps of packets of b bytes by the length of the program's buffers.
    pub spread: Vec<Spread>,
    /// What packets of b bytes cost, and what follows.
    pub condition: Condition,
    /// Messages: predicted and measured.
    pub messages: Vec<Message>,
    /// The middle ones of the messages' distances, without sign.
    pub median_error: Errors,
    /// The paper's tests of bandwidth.
    pub bandwidth: Vec<Bandwidth>,
    /// What a reader should know of these numbers.
    pub notes: Vec<String>,
}

/// A cost that was fitted.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Parameter {
    /// Its name.
    pub name: String,
    /// Straight lines.
    pub pieces: Vec<Segment>,
    /// What was measured.
    pub points: Vec<Measured>,
}

/// One straight line, k + t m. All but its borders is null where fewer than two lengths were measured.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Segment {
    /// What does the work there.
    pub piece: String,
    /// The shortest packet.
    pub from: usize,
    /// The longest packet; null of the last piece.
    pub to: Option<usize>,
    /// ns of a packet.
    pub k: f64,
    /// ns of a byte.
    pub t: f64,
    /// Half the width of the 95 % interval of t; null where there is none.
    pub t_half: f64,
    /// How far the points are from the line, the middle one of them, in percent of each.
    pub error: f64,
    /// The same, the farthest.
    pub worst: f64,
}

/// One point of a fit.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Measured {
    /// Bytes of a packet.
    pub size: usize,
    /// The cost.
    pub ns: f64,
    /// Half the width of its 95 % interval; null of a single batch.
    pub half: f64,
}

/// B_L.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Capacity {
    /// Bytes.
    pub bytes: f64,
    /// Bytes that a packet takes beside its own.
    pub beside: f64,
    /// How far the points are from bytes / (m + beside), the middle one of them, in percent.
    pub error: f64,
    /// Pairs of length and number of packets.
    pub packets: Vec<(usize, f64)>,
}

/// The gaps with buffers of one length.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Spread {
    /// Bytes of each buffer.
    pub buffers: usize,
    /// Transmit gap.
    pub g_s: f64,
    /// Receive gap.
    pub g_r: f64,
}

/// Packets of b bytes and the condition of the model.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Condition {
    /// What they cost, with buffers of b bytes.
    pub costs: Costs,
    /// O_s + O_r + U_r < g < L.
    pub holds: bool,
    /// The slowest stage.
    pub bound: Bound,
}

/// One message, predicted and measured.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Message {
    /// M.
    pub size: usize,
    /// Packets.
    pub k: usize,
    /// The piece of O_s, and the slowest stage where k > 1.
    pub piece: String,
    /// Which stage was taken to be the slowest; null where k = 1, and where it is unknown.
    pub bound: Option<Bound>,
    /// The one-way time by the parameters of one round: that whose prediction is the middle one of all by its error. Null, as
    /// the error is, where the parameters are unknown.
    pub predicted: f64,
    /// By the parameters of all rounds, if the network were the slowest stage: equation (1).
    pub network_bound: f64,
    /// The same, if the receiver were: equation (2).
    pub receiver_bound: f64,
    /// The one-way time that was measured in that round.
    pub measured: f64,
    /// How far the prediction is off, percent of what was measured; above 0: too long.
    pub error: f64,
    /// Half of the distance between the quartiles of all rounds' errors; null of one round.
    pub half: f64,
}

/// Percent; null where there are no such messages.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Errors {
    /// Of all messages.
    pub all: f64,
    /// Of those of one packet.
    pub whole: f64,
    /// Of those of several packets.
    pub cut: f64,
    /// By piece: of the messages of one packet there.
    pub pieces: Vec<(String, f64)>,
}

/// The tests of one length of packets, MB/s (10^6 bytes).
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Bandwidth {
    /// Bytes of a packet.
    pub packet: usize,
    /// One direction, the sender waits for room.
    pub one_direction: Rate,
    /// One direction, the sender is told EAGAIN and polls; endpoints only.
    pub one_direction_eagain: Option<Rate>,
    /// Both directions, each process by turns.
    pub exchange: Rate,
    /// Both directions, each process with a thread for either, which share the endpoint; endpoints only.
    pub exchange_threads: Option<Rate>,
}

/// MB/s of each process: the middle turn, and half of the distance between the quartiles.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Rate {
    /// 10^6 bytes in a second.
    pub mb_per_s: f64,
    /// Half of the distance between the quartiles; null of one turn.
    pub half: f64,
}

impl Rate {
    /// Of rates of several turns, bytes in a second.
    pub fn of(turns: &[f64]) -> Rate {
        Rate { mb_per_s: tenth(median(turns) / 1e6), half: tenth(quartile_half(turns) / 1e6) }
    }
}

impl Parameter {
    /// From its pieces and the points that these were fitted to.
    pub fn new(name: &str, fitted: &Pieces, points: &[(usize, Estimate)]) -> Parameter {
        let pieces = fitted.0.iter().map(|piece| Segment {
            piece: piece.name.to_string(),
            from: piece.range[0],
            to: Some(piece.range[1]).filter(|&to| to < usize::MAX),
            k: tenth(piece.line.k),
            t: digits(piece.line.t),
            t_half: digits(piece.t_half),
            error: tenth(100.0 * piece.error),
            worst: tenth(100.0 * piece.worst),
        });
        let points =
            points.iter().map(|&(size, e)| Measured { size, ns: digits(e.ns), half: digits(e.half) });
        Parameter { name: name.to_string(), pieces: pieces.collect(), points: points.collect() }
    }
}

impl Segment {
    /// The line itself.
    pub fn line(&self) -> Linear {
        Linear { k: self.k, t: self.t }
    }
}

impl Findings {
    /// From a survey and what was read off it.
    pub fn new(
        way: &str,
        driver: Option<&str>,
        survey: &Survey,
        borders: &[Border],
        model: &Model,
    ) -> Findings {
        let gaps = |which| {
            let mut gaps = points(survey, What::Gaps, which);
            gaps.retain(|p| survey.plan().sizes.contains(&p.0));
            gaps
        };
        let parameters = vec![
            Parameter::new("O_s", &model.o_s, &points(survey, What::Overheads, 0)),
            Parameter::new("g_s", &model.g_s, &gaps(0)),
            Parameter::new("L", &model.l, &latencies(survey, &model.o_r)),
            Parameter::new("g_r", &model.g_r, &gaps(1)),
            Parameter::new("O_r", &model.o_r, &points(survey, What::Slowdown, 0)),
            Parameter::new("U_r", &model.u_r, &points(survey, What::Overheads, 1)),
            Parameter::new("T", &model.t, &points(survey, What::Trip, 0)),
        ];
        let packet = survey.plan().packet;
        let spread = |&buffers: &usize| {
            let [g_s, g_r] = survey.point(What::Gaps, Load { packet, spread: buffers })?.costs();
            Some(Spread { buffers, g_s: tenth(g_s.ns), g_r: tenth(g_r.ns) })
        };
        let costs = model.costs(Load::whole(packet));
        let messages: Vec<Message> =
            compare(survey, borders).into_iter().map(|c| message(c, model)).collect();
        let median_error = Errors::of(&messages);
        Findings {
            way: way.to_string(),
            driver: driver.map(str::to_string),
            rounds: survey.rounds(),
            parameters,
            b_l: model.room.map(|room| capacity(room, survey)),
            spread: survey.plan().spreads.iter().filter_map(spread).collect(),
            condition: Condition { costs: rounded(costs), holds: costs.condition(), bound: costs.bound() },
            notes: notes(survey, model, &costs, &messages, &median_error),
            messages,
            median_error,
            bandwidth: Vec::new(),
        }
    }
}

fn message(compared: Compared, model: &Model) -> Message {
    let load = compared.load;
    let found = model.predict(load);
    let by = |bound| tenth(found.costs.one_way(bound, found.k));
    Message {
        size: load.packets() * load.packet,
        k: found.k,
        piece: model.o_s.piece(load.packet).name.to_string(),
        bound: (found.k > 1 && found.ns.is_finite()).then_some(found.bound),
        predicted: tenth(compared.predicted),
        network_bound: by(Bound::Network),
        receiver_bound: by(Bound::Receiver),
        measured: tenth(compared.measured),
        error: tenth(100.0 * compared.error),
        half: tenth(100.0 * compared.half),
    }
}

impl Errors {
    /// Of these messages.
    pub fn of(messages: &[Message]) -> Errors {
        let middle = |which: &dyn Fn(&Message) -> bool| {
            let known = messages.iter().filter(|m| which(m) && m.error.is_finite());
            median(&known.map(|m| m.error.abs()).collect::<Vec<_>>())
        };
        let mut pieces: Vec<(String, f64)> = Vec::new();
        for m in messages.iter().filter(|m| m.k == 1) {
            if !pieces.iter().any(|(piece, _)| *piece == m.piece) {
                pieces.push((m.piece.clone(), middle(&|other| other.k == 1 && other.piece == m.piece)));
            }
        }
        Errors { all: middle(&|_| true), whole: middle(&|m| m.k == 1), cut: middle(&|m| m.k > 1), pieces }
    }
}

fn capacity(room: Room, survey: &Survey) -> Capacity {
    Capacity {
        bytes: room.bytes.round(),
        beside: tenth(room.beside),
        error: tenth(100.0 * room.error),
        packets: points(survey, What::Room, 0).iter().map(|p| (p.0, tenth(p.1.ns))).collect(),
    }
}

/// Where the model's assumptions do not hold for what was found.
fn notes(survey: &Survey, model: &Model, b: &Costs, messages: &[Message], errors: &Errors) -> Vec<String> {
    let mut notes = Vec::new();
    let unknown = messages.iter().filter(|m| !m.predicted.is_finite());
    let unknown: Vec<String> = unknown.map(|m| format!("{} ({})", m.size, m.piece)).collect();
    if !unknown.is_empty() {
        notes.push(format!(
            "fewer than two lengths were measured where these messages lie, so they are not predicted: {}",
            unknown.join(", ")
        ));
    }
    if !b.condition() {
        let slower = match b.bound() {
            Bound::Network => "no processor is slower than the gap, so the gap decides",
            Bound::Receiver => "the receiver is slower than the gap: equation (2) of the paper",
            Bound::Sender => "the sender is slower than the gap: k O_s",
        };
        notes.push(format!("O_s + O_r + U_r < g < L does not hold for packets of b bytes; {slower}"));
    }
    if model.l.0.iter().any(|piece| piece.line.at(piece.range[0]) < 0.0) {
        notes.push("L is below 0 somewhere: sending and receiving overlap there".to_string());
    }
    if points(survey, What::Slowdown, 0).iter().all(|(_, e)| e.ns.abs() <= e.half.max(1.0)) {
        notes.push(
            "O_r cannot be told from 0: packets are put in place by other processors than the receiver's"
                .to_string(),
        );
    }
    if errors.all > 10.0 {
        notes.push(
            "the median error is above 10 %: see it by piece, and the intervals of what was measured"
                .to_string(),
        );
    }
    notes
}

fn rounded(costs: Costs) -> Costs {
    let Costs { o_s, g, l, o_r, u_r } = costs;
    Costs { o_s: tenth(o_s), g: tenth(g), l: tenth(l), o_r: digits(o_r), u_r: tenth(u_r) }
}

/// Four digits behind the first.
fn digits(x: f64) -> f64 {
    if x == 0.0 || !x.is_finite() {
        return x;
    }
    let unit = 10f64.powi(x.abs().log10().floor() as i32 - 4);
    (x / unit).round() * unit
}
