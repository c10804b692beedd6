//! How wide everything is, before it has a place.

use std::collections::HashMap;

use super::{width, GAP, RADIUS, ROW, STEP};
use crate::picture::{DrawnNode, DrawnProcess, End, Mark};
use crate::Addr;

/// An end of edges, with its width.
pub struct MeasuredEnd {
    pub end: End,
    pub label: String,
    pub mark: Mark,
    pub width: f64,
}

/// A process, with its ends and its width.
pub struct Measured<'a> {
    pub process: &'a DrawnProcess,
    pub ends: Vec<MeasuredEnd>,
    pub width: f64,
}

impl<'a> Measured<'a> {
    pub fn of(node: &DrawnNode, process: &'a DrawnProcess, degrees: &HashMap<End, usize>) -> Measured<'a> {
        let measured = |end: End, label: String, mark| {
            let edges = degrees.get(&end).copied().unwrap_or(0);
            // Edges end on the flat part of a wide one, or on a disc's lower half.
            let flat = if edges > 2 { STEP * (edges - 1) as f64 + RADIUS } else { 0.0 };
            let inset = if matches!(end, End::Channels(_)) { 2.0 * RADIUS } else { 12.0 };
            MeasuredEnd { end, width: (width(&label) + inset).max(flat).max(2.0 * RADIUS), label, mark }
        };
        let endpoint = |(dpid, mark): &(u16, Mark)| {
            measured(End::Endpoint(Addr { nid: node.nid, dpid: *dpid }), dpid.to_string(), *mark)
        };
        let channels =
            |(number, label): &(u32, String)| measured(End::Channels(*number), label.clone(), process.mark);
        let endpoints = process.endpoints.iter().map(endpoint);
        let ends: Vec<MeasuredEnd> = endpoints.chain(process.channels.iter().map(channels)).collect();
        let inner = ends.iter().map(|end| end.width + GAP).sum::<f64>() + GAP;
        let width = inner.max(width(&process.title) + 2.0 * GAP);
        Measured { process, ends, width }
    }
}

/// The processes of a node in parts that fit into a row each, one at least.
pub fn broken<'a, 'b>(all: &'b [Measured<'a>]) -> Vec<&'b [Measured<'a>]> {
    let mut parts = Vec::new();
    let (mut from, mut used) = (0, 2.0 * GAP);
    for (i, one) in all.iter().enumerate() {
        if i > from && used + one.width + GAP > ROW {
            parts.push(&all[from..i]);
            (from, used) = (i, 2.0 * GAP);
        }
        used += one.width + GAP;
    }
    parts.push(&all[from..]);
    parts
}
