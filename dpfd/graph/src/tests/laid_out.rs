//! Pictures: edges cross neither text nor discs, and do not lie on each other.

use proptest::prelude::*;

use super::written::graphs;
use super::FIGURE1;
use crate::layout::{layout, width, Rect, Scene, LETTER, LINE};
use crate::live::{Running, RunningChannels, RunningProcess};
use crate::picture::Picture;
use crate::{dot, Graph};

/// One straight piece.
type Piece = ((f64, f64), (f64, f64));

fn pieces(scene: &Scene) -> Vec<(usize, Piece)> {
    let of = |(i, wire): (usize, &crate::layout::Wire)| {
        wire.corners.windows(2).map(|w| (i, (w[0], w[1]))).collect::<Vec<_>>()
    };
    scene.wires.iter().enumerate().flat_map(of).collect()
}

fn texts(scene: &Scene) -> Vec<Rect> {
    let title = |frame: &crate::layout::Frame| Rect {
        x: frame.title_at().0,
        y: frame.title_at().1,
        w: width(&frame.title),
        h: LINE,
    };
    let label = |disc: &crate::layout::Disc| Rect {
        x: disc.label_at().0,
        y: disc.label_at().1,
        w: width(&disc.label),
        h: LINE,
    };
    scene.frames.iter().map(title).chain(scene.discs.iter().map(label)).collect()
}

fn meets(((ax, ay), (bx, by)): Piece, rect: &Rect) -> bool {
    let (left, right) = (ax.min(bx), ax.max(bx));
    let (top, bottom) = (ay.min(by), ay.max(by));
    left < rect.x + rect.w && right > rect.x && top < rect.y + rect.h && bottom > rect.y
}

/// Whether two pieces share more than a point.
fn overlap(((ax, ay), (bx, by)): Piece, ((cx, cy), (dx, dy)): Piece) -> bool {
    let shared = |a: f64, b: f64, c: f64, d: f64| a.max(b).min(c.max(d)) - a.min(b).max(c.min(d)) > 0.1;
    let upright = ax == bx && cx == dx && (ax - cx).abs() < 1.0 && shared(ay, by, cy, dy);
    let level = ay == by && cy == dy && (ay - cy).abs() < 1.0 && shared(ax, bx, cx, dx);
    upright || level
}

fn inside(inner: &Rect, outer: &Rect) -> bool {
    inner.x >= outer.x
        && inner.y >= outer.y
        && inner.x + inner.w <= outer.x + outer.w
        && inner.y + inner.h <= outer.y + outer.h
}

/// What holds of every picture; of this one that it has so many edges and ends of edges.
fn check(edges: usize, ends: usize, scene: &Scene) -> Result<(), String> {
    let pieces = pieces(scene);
    let whole = Rect { x: 0.0, y: 0.0, w: scene.width, h: scene.height };
    for text in texts(scene) {
        if let Some((wire, piece)) = pieces.iter().find(|(_, piece)| meets(*piece, &text)) {
            return Err(format!("edge {wire} crosses the text at {text:?} with {piece:?}"));
        }
    }
    for disc in &scene.discs {
        // A line may touch the disc that it begins or ends at, from below.
        let heart = Rect { h: disc.at.h * 0.8, ..disc.at };
        let entered = pieces.iter().find(|(_, piece)| {
            meets(*piece, &heart) && piece.0 .1.min(piece.1 .1) < disc.at.y + disc.at.h / 2.0
        });
        if let Some((wire, piece)) = entered {
            return Err(format!(
                "edge {wire} crosses the disc {} at {:?} with {piece:?}",
                disc.label, disc.at
            ));
        }
        if !scene.frames.iter().any(|frame| frame.inner && inside(&disc.at, &frame.at)) {
            return Err(format!("disc {} is in no process", disc.label));
        }
        if width(&disc.label) > disc.at.w - LETTER {
            return Err(format!("{} does not fit into its disc", disc.label));
        }
    }
    for (n, (i, a)) in pieces.iter().enumerate() {
        if let Some((j, b)) = pieces[n + 1..].iter().find(|(j, b)| i != j && overlap(*a, *b)) {
            return Err(format!("edges {i} and {j} lie on each other: {a:?}, {b:?}"));
        }
        let within = |(x, y): (f64, f64)| (0.0..=whole.w).contains(&x) && (0.0..=whole.h).contains(&y);
        if !within(a.0) || !within(a.1) {
            return Err(format!("edge {i} leaves the picture: {a:?}"));
        }
    }
    if scene.frames.iter().any(|frame| !inside(&frame.at, &whole)) {
        return Err("a box leaves the picture".into());
    }
    if (scene.wires.len(), scene.discs.len()) != (edges, ends) {
        return Err("something is missing".into());
    }
    Ok(())
}

fn check_graph(graph: &Graph, scene: &Scene) -> Result<(), String> {
    check(graph.edges.len(), graph.processes.iter().map(|p| p.endpoints.len()).sum(), scene)
}

#[test]
fn many_clients_of_one_server_are_drawn_in_rows() {
    let process = |pid| RunningProcess { pid, title: format!("program {pid}"), ..RunningProcess::default() };
    let channels = |client| RunningChannels {
        client,
        server: 1,
        ports: [7000].into(),
        label: "1 channel, 12.5MiB out, 1.2GiB in".into(),
        ..RunningChannels::default()
    };
    let running = Running {
        nid: 1,
        processes: (1..=30).map(process).collect(),
        channels: (2..=30).map(channels).collect(),
        ..Running::default()
    };
    let scene = layout(&Picture::live(&running, None));
    check(29, 30, &scene).unwrap();
    assert!(scene.width < 2_000.0, "{}", scene.width);
    let nodes: Vec<_> = scene.frames.iter().filter(|frame| !frame.inner).collect();
    assert!(nodes.len() > 5 && nodes[1].title == "node 1, more of it", "{nodes:?}");
    assert!(nodes.windows(2).all(|w| w[0].at.y < w[1].at.y));
}

#[test]
fn figure_1_is_drawn_in_one_row() {
    let graph = Graph::parse(FIGURE1).unwrap();
    let scene = layout(&Picture::of(&graph));
    check_graph(&graph, &scene).unwrap();
    let nodes: Vec<_> = scene.frames.iter().filter(|frame| !frame.inner).collect();
    assert_eq!(nodes.iter().map(|n| &*n.title).collect::<Vec<_>>(), ["node 1", "node 2", "node 3"]);
    assert!(nodes.windows(2).all(|w| w[0].at.y == w[1].at.y && w[0].at.x < w[1].at.x));
}

#[test]
fn figure_1_in_graphviz_language() {
    let text = dot::text(&Picture::of(&Graph::parse(FIGURE1).unwrap()));
    assert_eq!(text, include_str!("golden/figure1.dot"));
}

#[test]
fn what_is_called_by_others_stays_within_its_quotes() {
    let mut picture = Picture::of(&Graph::parse(FIGURE1).unwrap());
    picture.nodes[0].processes[0].title = "a\"]; \\x\ny".into();
    assert!(dot::text(&picture).contains(r#"label="a\"]; \\x y";"#), "{}", dot::text(&picture));
}

proptest! {
    #[test]
    fn edges_cross_no_text_and_lie_on_nothing(graph in graphs()) {
        let scene = layout(&Picture::of(&graph));
        check_graph(&graph, &scene).map_err(TestCaseError::fail)?;
    }
}
