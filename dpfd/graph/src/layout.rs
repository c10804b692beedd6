//! Where everything stands in a picture.
//!
//! Nodes are boxes side by side, in rows; processes are boxes in them; endpoints are discs at the lower border of their
//! process, so that nothing is below a disc. Below each row is a channel, in which the edges run: down from the sender, along
//! a track of its own, up to the receiver. An edge to another row takes a lane of its own beside the rows. So no edge
//! crosses a text, a box's title or a disc, and no two lie on each other, whatever the graph: they cross at right angles only.
//!
//! ```text
//!   +- node 1 -------------------+  +- node 2 ---------+ |
//!   | +- P1 ------+  +- P2 ----+ |  | +- P3 -----------+ |  lanes
//!   | | (1)(2)(3) |  | (5) (6) | |  | | (1)(2) (7)(8)  | |
//!   +----|--|-----------^--|-----+  +----------^--|----+ |
//!        |  +-----------|--|-------------------+  +------+  tracks
//!        +--------------+
//! ```

mod measured;

use std::collections::HashMap;

use crate::picture::{DrawnEdge, End, Mark, Picture};
use measured::{broken, Measured};

/// Width of a letter, and height of a line of text.
pub const LETTER: f64 = 7.0;
/// As above.
pub const LINE: f64 = 16.0;
/// Radius of a disc; one with a long number or many edges is wider.
pub const RADIUS: f64 = 15.0;
/// Between two tracks, lanes, or edges at one disc.
const STEP: f64 = 11.0;
const GAP: f64 = 12.0;
const TITLE: f64 = 24.0;
/// Of a title, from its box's left and top.
const INSET: (f64, f64) = (10.0, 4.0);
/// Wider rows are broken between nodes, and wider nodes between processes.
const ROW: f64 = 1000.0;

/// A rectangle.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rect {
    /// Left.
    pub x: f64,
    /// Top.
    pub y: f64,
    /// Width.
    pub w: f64,
    /// Height.
    pub h: f64,
}

/// A box with a title.
#[derive(Debug, Clone, PartialEq)]
pub struct Frame {
    /// Where.
    pub at: Rect,
    /// What stands in it, from the left.
    pub title: String,
    /// Of a process; else of a node.
    pub inner: bool,
    /// How it stands to what runs.
    pub mark: Mark,
}

/// An endpoint: a disc, or two half ones with lines between them.
#[derive(Debug, Clone, PartialEq)]
pub struct Disc {
    /// Where.
    pub at: Rect,
    /// What stands in its middle.
    pub label: String,
    /// How it stands to what runs.
    pub mark: Mark,
}

/// An edge: straight pieces from corner to corner, the last of which ends in an arrow.
#[derive(Debug, Clone, PartialEq)]
pub struct Wire {
    /// Its corners.
    pub corners: Vec<(f64, f64)>,
    /// Which process sends, counted over all: edges of one have one colour.
    pub sender: usize,
    /// How it stands to what runs.
    pub mark: Mark,
}

/// A line that explains a mark.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// Left end of a sample of it, in the middle of the line.
    pub at: (f64, f64),
    /// The mark.
    pub mark: Mark,
}

/// How long the sample is; the words follow.
pub const SAMPLE: f64 = 40.0;

/// All of it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Scene {
    /// Its width, in letters' units as everything here.
    pub width: f64,
    /// Its height.
    pub height: f64,
    /// Boxes, outer ones first.
    pub frames: Vec<Frame>,
    /// Endpoints.
    pub discs: Vec<Disc>,
    /// Edges.
    pub wires: Vec<Wire>,
    /// Explanations.
    pub samples: Vec<Sample>,
}

impl Frame {
    /// Left and top of its title.
    pub fn title_at(&self) -> (f64, f64) {
        (self.at.x + INSET.0, self.at.y + INSET.1)
    }
}

impl Disc {
    /// Left and top of its label.
    pub fn label_at(&self) -> (f64, f64) {
        let Rect { x, y, w, h } = self.at;
        (x + (w - width(&self.label)) / 2.0, y + (h - LINE) / 2.0)
    }
}

/// The width of a text.
pub fn width(text: &str) -> f64 {
    LETTER * text.chars().count() as f64
}

/// Lays a picture out.
pub fn layout(picture: &Picture) -> Scene {
    let mut plan = Plan::new(picture);
    plan.place();
    plan.pins();
    plan.route();
    plan.finish()
}

/// An edge's end at a disc.
#[derive(Debug, Clone, Copy, Default)]
struct Pin {
    x: f64,
    y: f64,
    row: usize,
}

/// One horizontal piece, in the channel below a row.
#[derive(Debug, Clone, Copy)]
struct Piece {
    edge: usize,
    /// At the receiver's row, of an edge between rows.
    second: bool,
    row: usize,
    from: f64,
    to: f64,
}

struct Plan<'a> {
    picture: &'a Picture,
    edges: Vec<DrawnEdge>,
    scene: Scene,
    /// By address: the disc, its row and its process.
    ends: HashMap<End, (usize, usize, usize)>,
    /// The row of each node's box and of each process's.
    frame_rows: Vec<usize>,
    rows: usize,
    pins: Vec<[Pin; 2]>,
    /// Right end of the boxes.
    right: f64,
    lanes: HashMap<usize, f64>,
}

impl<'a> Plan<'a> {
    fn new(picture: &'a Picture) -> Plan<'a> {
        Plan {
            picture,
            edges: Vec::new(),
            scene: Scene::default(),
            ends: HashMap::new(),
            frame_rows: Vec::new(),
            rows: 0,
            pins: Vec::new(),
            right: 0.0,
            lanes: HashMap::new(),
        }
    }

    /// How many edges each disc has.
    fn degrees(&self) -> HashMap<End, usize> {
        let mut degrees = HashMap::new();
        for edge in &self.picture.edges {
            for end in [edge.from, edge.to] {
                *degrees.entry(end).or_insert(0) += 1;
            }
        }
        degrees
    }

    /// Boxes and discs, each row with its top at 0.
    fn place(&mut self) {
        let degrees = self.degrees();
        let (mut x, mut row, mut process_number) = (GAP, 0, 0);
        let height = 2.0 * RADIUS;
        for node in &self.picture.nodes {
            let all: Vec<Measured> = node.processes.iter().map(|p| Measured::of(node, p, &degrees)).collect();
            for (part, some) in broken(&all).into_iter().enumerate() {
                let title =
                    if part == 0 { node.title.clone() } else { format!("{}, more of it", node.title) };
                let total = some.iter().map(|one| one.width + GAP).sum::<f64>() + GAP;
                let total = total.max(width(&title) + 2.0 * GAP);
                if x > GAP && x + total > ROW {
                    (x, row) = (GAP, row + 1);
                }
                let h = TITLE + TITLE + height + 2.0 * GAP;
                let at = Rect { x, y: 0.0, w: total, h };
                self.scene.frames.push(Frame { at, title, inner: false, mark: Mark::Agreed });
                self.frame_rows.push(row);
                let mut left = x + GAP;
                for Measured { process, ends, width: w } in some {
                    let at = Rect { x: left, y: TITLE, w: *w, h: TITLE + height + GAP };
                    let title = process.title.clone();
                    self.scene.frames.push(Frame { at, title, inner: true, mark: process.mark });
                    self.frame_rows.push(row);
                    let used = ends.iter().map(|end| end.width + GAP).sum::<f64>() - GAP;
                    let mut at_x = left + (w - used.max(0.0)) / 2.0;
                    for end in ends {
                        let at = Rect { x: at_x, y: TITLE + TITLE, w: end.width, h: height };
                        at_x += end.width + GAP;
                        self.ends.insert(end.end, (self.scene.discs.len(), row, process_number));
                        self.scene.discs.push(Disc { at, label: end.label.clone(), mark: end.mark });
                    }
                    left += w + GAP;
                    process_number += 1;
                }
                x += total + GAP;
                self.right = self.right.max(x);
            }
        }
        self.rows = if self.picture.nodes.is_empty() { 0 } else { row + 1 };
        self.edges = self.picture.edges.clone();
        self.edges.retain(|edge| self.ends.contains_key(&edge.from) && self.ends.contains_key(&edge.to));
    }

    /// Where at its disc each edge begins and ends: those that go far are outside, so that fewer cross.
    fn pins(&mut self) {
        let mut at: HashMap<usize, Vec<(usize, usize)>> = HashMap::new();
        for (i, edge) in self.edges.iter().enumerate() {
            at.entry(self.ends[&edge.from].0).or_default().push((i, 0));
            at.entry(self.ends[&edge.to].0).or_default().push((i, 1));
        }
        self.pins = vec![[Pin::default(); 2]; self.edges.len()];
        for (disc, mut pins) in at {
            let rect = self.scene.discs[disc].at;
            let middle = rect.x + rect.w / 2.0;
            let far = |(i, end): &(usize, usize)| {
                let (edge, here) =
                    (&self.edges[*i], if *end == 0 { self.edges[*i].from } else { self.edges[*i].to });
                let other = if *end == 0 { edge.to } else { edge.from };
                let (there, row, _) = self.ends[&other];
                let there = self.scene.discs[there].at;
                // To another row by a lane at the right.
                if row != self.ends[&here].1 {
                    return self.right - middle;
                }
                there.x + there.w / 2.0 - middle
            };
            // To the left the near ones first, to the right the far ones first.
            let order = |pin: &(usize, usize)| {
                let far = far(pin);
                (far >= 0.0, -far)
            };
            let key = |pin: &(usize, usize)| {
                let (right, far) = order(pin);
                (right, if right { far } else { far.abs() }, *pin)
            };
            pins.sort_by(|a, b| {
                let (a, b) = (key(a), key(b));
                a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)).then(a.2.cmp(&b.2))
            });
            let step = if pins.len() == 2 { 14.0 } else { STEP };
            let first = middle - step * (pins.len() - 1) as f64 / 2.0;
            for (k, (i, end)) in pins.into_iter().enumerate() {
                let x = first + step * k as f64;
                let edge = &self.edges[i];
                let row = self.ends[if end == 0 { &edge.from } else { &edge.to }].1;
                self.pins[i][end] = Pin { x, y: lower_border(rect, x), row };
            }
        }
    }

    /// Tracks and lanes, then where the rows are.
    fn route(&mut self) {
        let between = |pins: &[Pin; 2]| pins[0].row != pins[1].row;
        let mut lane = self.right + STEP;
        for (i, _) in self.pins.iter().enumerate().filter(|(_, pins)| between(pins)) {
            self.lanes.insert(i, lane);
            lane += STEP;
        }
        let mut pieces = Vec::new();
        for (i, pins) in self.pins.iter().enumerate() {
            match self.lanes.get(&i) {
                None => pieces.push(piece(i, false, pins[0].row, pins[0].x, pins[1].x)),
                Some(&lane) => {
                    pieces.push(piece(i, false, pins[0].row, pins[0].x, lane));
                    pieces.push(piece(i, true, pins[1].row, pins[1].x, lane));
                }
            }
        }
        // Short ones nearest to the boxes.
        pieces.sort_by(|a, b| (a.to - a.from).total_cmp(&(b.to - b.from)).then(a.edge.cmp(&b.edge)));
        let mut tracks: Vec<Vec<Vec<(f64, f64)>>> = vec![Vec::new(); self.rows];
        let mut depth: HashMap<(usize, bool), usize> = HashMap::new();
        for piece in &pieces {
            let row = &mut tracks[piece.row];
            let free = |taken: &Vec<(f64, f64)>| {
                taken.iter().all(|(from, to)| piece.to + STEP / 2.0 < *from || to + STEP / 2.0 < piece.from)
            };
            let k = row.iter().position(free).unwrap_or(row.len());
            if k == row.len() {
                row.push(Vec::new());
            }
            row[k].push((piece.from, piece.to));
            depth.insert((piece.edge, piece.second), k);
        }
        let box_height = self.scene.frames.first().map_or(0.0, |frame| frame.at.h);
        let mut tops = Vec::new();
        let mut y = GAP;
        for row in &tracks {
            tops.push(y);
            y += box_height + GAP + STEP * row.len() as f64 + GAP;
        }
        for (frame, row) in self.scene.frames.iter_mut().zip(&self.frame_rows) {
            frame.at.y += tops[*row];
        }
        for (disc, row, _) in self.ends.values() {
            self.scene.discs[*disc].at.y += tops[*row];
        }
        for (i, edge) in self.edges.iter().enumerate() {
            let [from, to] = self.pins[i];
            let track = |row: usize, second| {
                tops[row] + box_height + GAP + STEP * depth.get(&(i, second)).copied().unwrap_or(0) as f64
            };
            let down = track(from.row, false);
            let mut corners = vec![(from.x, from.y + tops[from.row]), (from.x, down)];
            if let Some(&lane) = self.lanes.get(&i) {
                let up = track(to.row, true);
                corners.extend([(lane, down), (lane, up), (to.x, up)]);
            } else {
                corners.push((to.x, down));
            }
            corners.push((to.x, to.y + tops[to.row]));
            let sender = self.ends[&edge.from].2;
            self.scene.wires.push(Wire { corners, sender, mark: edge.mark });
        }
        self.scene.width = if self.lanes.is_empty() { self.right } else { lane };
        self.scene.height = y;
    }

    /// The legend.
    fn finish(mut self) -> Scene {
        if self.picture.legend {
            let processes = self.picture.nodes.iter().flat_map(|node| &node.processes);
            let mut marks: Vec<Mark> =
                processes.flat_map(|p| p.endpoints.iter().map(|(_, mark)| *mark)).collect();
            marks.extend(self.edges.iter().map(|edge| edge.mark));
            marks.sort_unstable();
            marks.dedup();
            for mark in marks {
                let y = self.scene.height + LINE / 2.0;
                self.scene.samples.push(Sample { at: (2.0 * GAP, y), mark });
                self.scene.height += LINE + 4.0;
                let words = 2.0 * GAP + SAMPLE + 8.0 + width(mark.words()) + GAP;
                self.scene.width = self.scene.width.max(words);
            }
            self.scene.height += GAP;
        }
        self.scene
    }
}

fn piece(edge: usize, second: bool, row: usize, a: f64, b: f64) -> Piece {
    Piece { edge, second, row, from: a.min(b), to: a.max(b) }
}

/// The lower border of a disc, or of two half ones with a line between them.
fn lower_border(at: Rect, x: f64) -> f64 {
    let radius = at.h / 2.0;
    let (left, right) = (at.x + radius, at.x + at.w - radius);
    let beyond = (left - x).max(x - right).max(0.0).min(radius);
    at.y + radius + (radius * radius - beyond * beyond).sqrt()
}
