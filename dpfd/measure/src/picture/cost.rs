//! The picture: for each way one-way times, predicted and measured, and the parameters, against length.
//!
//! Without colour it can be read all the same: what is predicted is a line, what was measured a mark, and parameters have
//! marks of their own and their names beside them.

use std::ops::Range;
use std::path::Path;

use plotters::coord::Shift;
use plotters::prelude::*;

use super::{bars, bytes, decades, marks, save, time, Axis, Bar, Panel, Paper, Result, LOOKS, NAMES};
use crate::cost::report::{Findings, Message, Parameter, Report};

/// Pixels of each panel; twice as many in a PNG.
const PANEL: (u32, u32) = (620, 460);
/// Looks of O_s, g_s, L, g_r, O_r and U_r: those that lie close together have other marks.
const PARAMETERS: [usize; 6] = [0, 1, 2, 3, 5, 4];

/// Draws into a file that ends in .png or, otherwise, is SVG.
pub fn draw(report: &Report, path: &Path) -> Result<()> {
    let size = (2 * PANEL.0, report.ways.len() as u32 * PANEL.1);
    let foot = [
        format!(
            "{:.0} s. Bars: of times half the distance between the quartiles of the rounds' errors, of parameters 95 % \
             intervals; ? where there is none",
            report.seconds
        ),
        report.origin.line(),
    ];
    save(path, size, &foot, |paper, scale| match paper {
        Paper::Pixels(area) => all(report, scale, &area),
        Paper::Svg(area) => all(report, scale, &area),
    })
}

fn all<B: DrawingBackend>(report: &Report, scale: u32, area: &DrawingArea<B, Shift>) -> Result<()>
where
    B::ErrorType: 'static,
{
    let panels = area.split_evenly((report.ways.len(), 2));
    for (way, pair) in report.ways.iter().zip(panels.chunks(2)) {
        Panel { area: &pair[0], scale }.messages(report, way)?;
        Panel { area: &pair[1], scale }.parameters(way)?;
    }
    area.present()?;
    Ok(())
}

impl<B: DrawingBackend> Panel<'_, B>
where
    B::ErrorType: 'static,
{
    fn messages(&self, report: &Report, way: &Findings) -> Result<()> {
        let k = self.scale;
        let times = way.messages.iter().flat_map(|m| [m.predicted, m.measured]);
        let sizes = way.messages.iter().map(|m| m.size);
        let (plot, names) = self.area.split_horizontally(k * (PANEL.0 - NAMES));
        let rounds = if way.rounds == 1 { "1 round".to_string() } else { format!("{} rounds", way.rounds) };
        let title = format!("{}: one-way time, lines predicted, marks measured, {rounds}", way.way);
        let range = decades(times);
        let x = Axis { title: "message, bytes", range: upto(sizes), labels: (7, bytes) };
        let y = Axis { title: "one-way time", range: range.0..range.1, labels: (8, time) };
        let mut chart = self.axes(&plot, &title, x, y)?;
        let mut labels = Vec::new();
        let of = |whole: bool| way.messages.iter().filter(move |m| (m.k == 1) == whole);
        let names_of = ["one packet".to_string(), format!("packets of {}", bytes(report.packet as f64))];
        for ((whole, look), name) in [(true, LOOKS[0]), (false, LOOKS[1])].into_iter().zip(names_of) {
            let at = |value: fn(&Message) -> f64| {
                of(whole).map(|m| (m.size as f64, value(m))).filter(|p| p.1 > 0.0).collect::<Vec<_>>()
            };
            let predicted = at(|m| m.predicted);
            if let Some(&last) = predicted.last() {
                labels.push((chart.backend_coord(&last).1, name));
            }
            let style = look.0.stroke_width(k);
            if whole {
                chart.draw_series(LineSeries::new(predicted, style))?;
            } else {
                chart.draw_series(DashedLineSeries::new(predicted, 6 * k, 4 * k, style))?;
            }
            let sure: Vec<Bar> = of(whole).map(spread).collect();
            bars(&mut chart, &sure, range, look.0, k as i32)?;
            marks(&mut chart, &at(|m| m.measured), look, k as i32)?;
        }
        self.names(&names, labels)
    }

    fn parameters(&self, way: &Findings) -> Result<()> {
        let k = self.scale;
        let points = |p: &Parameter| {
            let points = p.points.iter().map(|at| (at.size as f64, at.ns));
            points.filter(|p| p.1 > 1.0).collect::<Vec<_>>()
        };
        let times = way.parameters.iter().flat_map(points).map(|p| p.1);
        let sizes = way.parameters.iter().flat_map(|p| p.points.iter().map(|at| at.size));
        let (plot, names) = self.area.split_horizontally(k * (PANEL.0 - NAMES));
        let title = format!("{}: parameters, lines fitted, marks measured", way.way);
        let range = decades(times);
        let x = Axis { title: "m: packet, bytes", range: upto(sizes), labels: (7, bytes) };
        let y = Axis { title: "cost of a packet", range: range.0..range.1, labels: (8, time) };
        let mut chart = self.axes(&plot, &title, x, y)?;
        let mut labels = Vec::new();
        for (parameter, look) in way.parameters.iter().zip(PARAMETERS.map(|i| LOOKS[i])) {
            let points = points(parameter);
            let Some(&last) = points.last() else { continue };
            labels.push((chart.backend_coord(&last).1, parameter.name.clone()));
            for piece in &parameter.pieces {
                let line = fitted(
                    &points,
                    |m| (piece.from..=piece.to.unwrap_or(usize::MAX)).contains(&m),
                    |m| piece.line().at(m),
                );
                chart.draw_series(LineSeries::new(line, look.0.stroke_width(k)))?;
            }
            let sure: Vec<Bar> =
                parameter.points.iter().map(|p| Bar::of(p.size as f64, p.ns, p.half)).collect();
            bars(&mut chart, &sure, range, look.0, k as i32)?;
            marks(&mut chart, &points, look, k as i32)?;
        }
        self.names(&names, labels)
    }
}

/// From one byte to a bit beyond the longest.
fn upto(sizes: impl Iterator<Item = usize>) -> Range<f64> {
    0.8..sizes.fold(2, usize::max) as f64 * 1.25
}

/// What would have been measured had the error been at either end of its spread.
fn spread(m: &Message) -> Bar {
    let times = 1.0 + m.error / 100.0;
    let of = |other: f64| if other > 0.0 { m.measured * times / other } else { f64::INFINITY };
    let half = m.half / 100.0;
    let ends = (times.is_finite() && half.is_finite()).then(|| (of(times + half), of(times - half)));
    Bar { x: m.size as f64, y: m.measured, ends }
}

/// The line of a piece between its points, as it looks on log scales.
fn fitted(
    points: &[(f64, f64)],
    inside: impl Fn(usize) -> bool,
    line: impl Fn(usize) -> f64,
) -> Vec<(f64, f64)> {
    let sizes = points.iter().map(|p| p.0 as usize).filter(|&m| inside(m));
    sizes.map(|m| (m as f64, line(m))).filter(|p| p.1 > 1.0).collect()
}
