//! The pictures: a signature for each way, bandwidth against size, and what one way is made of.
//!
//! Everything can be told apart without colour: curves by their marks and by their names beside them, parts of a bar by
//! how dark they are.

use std::path::Path;

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, VPos};

use super::{bars, bytes, decades, marks, number, save, time, Axis, Bar, Panel, Paper, Result, LOOKS, NAMES};
use crate::logp::report::{Bulk, Findings, Ns, Report};

/// Signatures in a row, and pixels of each panel; twice as many in a PNG.
const COLUMNS: usize = 3;
const PANEL: (u32, u32) = (440, 330);

/// Draws into a file that ends in .png or, otherwise, is SVG.
pub fn draw(report: &Report, path: &Path) -> Result<()> {
    let rows = report.ways.len().div_ceil(COLUMNS) as u32 + 1;
    let points: usize = report.ways.iter().map(|way| way.points).sum();
    let wide: usize = report.ways.iter().map(|way| way.wide.len()).sum();
    let foot = [
        format!(
            "{:.0} s. Bars, and shades around levels: 95 % intervals; ? where there is none. Within {:.0} %: {} of {points} points",
            report.seconds,
            100.0 * report.within,
            points - wide
        ),
        report.origin.line(),
    ];
    save(path, (PANEL.0 * COLUMNS as u32, PANEL.1 * rows), &foot, |paper, scale| match paper {
        Paper::Pixels(area) => all(report, scale, area),
        Paper::Svg(area) => all(report, scale, area),
    })
}

fn all<B: DrawingBackend>(report: &Report, scale: u32, area: DrawingArea<B, Shift>) -> Result<()>
where
    B::ErrorType: 'static,
{
    let rows = report.ways.len().div_ceil(COLUMNS);
    let (signatures, below) = area.split_vertically(scale * PANEL.1 * rows as u32);
    for (way, area) in report.ways.iter().zip(signatures.split_evenly((rows, COLUMNS))) {
        Panel { area: &area, scale }.signature(report, way)?;
    }
    let below = below.split_evenly((1, COLUMNS));
    let titles = ["request by request: size / T", "one behind the other: size / g"];
    let rates: [Rate; 2] = [|b| (b.bytes_per_s, b.t), |b| (b.stream_bytes_per_s.unwrap_or(f64::NAN), b.g)];
    for ((area, title), rate) in below.iter().zip(titles).zip(rates) {
        Panel { area, scale }.bandwidth(report, title, rate)?;
    }
    Panel { area: &below[2], scale }.one_way(report)?;
    area.present()?;
    Ok(())
}

impl<B: DrawingBackend> Panel<'_, B>
where
    B::ErrorType: 'static,
{
    /// Cost against length of burst, one curve for each computation.
    fn signature(&self, report: &Report, way: &Findings) -> Result<()> {
        let k = self.scale;
        let costs = way.signature.iter().flat_map(|c| c.points.iter().map(|p| p.ns));
        let (low, high) = decades(costs.chain([way.o_s.ns, way.g.ns]));
        let most = way.signature.iter().flat_map(|c| c.points.iter().map(|p| p.m)).max().unwrap_or(1);
        let (area, names) = self.area.split_horizontally(k * (PANEL.0 - NAMES));
        let x = Axis {
            title: "M: requests in a burst",
            range: 1.0..f64::from(most) * 1.1,
            labels: (9, |m| format!("{m:.0}")),
        };
        let y = Axis { title: "cost of a request", range: low..high, labels: (8, time) };
        let mut chart = self.axes(&area, &format!("{}, {} bytes", way.way, report.size), x, y)?;
        // The regimes: until the window is full; until replies come one gap after the other.
        let window = f64::from(report.window);
        for m in [window, 2.0 * window] {
            chart.draw_series(DashedLineSeries::new(
                [(m, low), (m, high)],
                4 * k,
                4 * k,
                BLACK.mix(0.6).stroke_width(k),
            ))?;
        }
        let middle = 2f64.sqrt() * window;
        for (name, m, h) in [
            ("send-only", 1.15, HPos::Left),
            ("transition", middle, HPos::Center),
            ("steady", 2.1 * window, HPos::Left),
        ] {
            // The narrow one in the middle has a line of its own.
            let line = if name == "transition" { 12 } else { 0 };
            let at = EmptyElement::at((m, high * 0.97));
            chart.draw_series([at + Text::new(name, (0, line * k as i32), self.at(9, h, VPos::Top))])?;
        }
        let mut labels = Vec::new();
        for (curve, look) in way.signature.iter().zip(LOOKS) {
            let points: Vec<(f64, f64)> = curve.points.iter().map(|p| (f64::from(p.m), p.ns)).collect();
            if let Some(&last) = points.last() {
                labels.push((chart.backend_coord(&last).1, format!("D = {}", time(curve.d))));
            }
            let style = look.0.stroke_width(k);
            chart.draw_series(LineSeries::new(points.iter().copied(), style))?;
            let sure: Vec<Bar> = curve.points.iter().map(|p| Bar::of(f64::from(p.m), p.ns, p.half)).collect();
            bars(&mut chart, &sure, (low, high), look.0, k as i32)?;
            marks(&mut chart, &points, look, k as i32)?;
        }
        for level in [way.o_s, way.g].into_iter().filter(|level| level.half.is_finite()) {
            let (from, to) = (level.ns - level.half, level.ns + level.half);
            let corners = [from, to].map(|ns| ns.clamp(low, high));
            let band = [(1.0, corners[0]), (f64::from(most) * 1.1, corners[1])];
            chart.draw_series([Rectangle::new(band, BLACK.mix(0.12).filled())])?;
        }
        let levels = [("o_s", way.o_s.ns), ("g", way.g.ns)].map(|(name, ns)| {
            let y = chart.backend_coord(&(1.0, ns.clamp(low, high))).1;
            (name, ns, y)
        });
        for (_, ns, _) in levels.into_iter().filter(|(_, ns, _)| (low..high).contains(ns)) {
            let line = [(1.0, ns), (f64::from(most) * 1.1, ns)];
            chart.draw_series(DashedLineSeries::new(line, k, 3 * k, BLACK.mix(0.8).stroke_width(k)))?;
        }
        labels.extend(levels.map(|(name, ns, y)| (y, format!("{name} = {}", time(ns)))));
        self.names(&names, labels)
    }

    /// Bytes in a second against size, one curve for each way.
    fn bandwidth(&self, report: &Report, title: &str, of: Rate) -> Result<()> {
        let (k, rate) = (self.scale, |b: &Bulk| of(b).0);
        let rates = report.ways.iter().flat_map(|way| way.bulk.iter().map(|b| rate(b) / 1e6));
        let (low, high) = decades(rates);
        let sizes: Vec<usize> = report.ways.iter().flat_map(|way| way.bulk.iter().map(|b| b.size)).collect();
        let (least, most) =
            (sizes.iter().min().copied().unwrap_or(1), sizes.iter().max().copied().unwrap_or(2));
        let range = (least as f64 * 0.8)..(most as f64 * 1.25).max(least as f64 * 2.0);
        let (area, names) = self.area.split_horizontally(k * (PANEL.0 - NAMES));
        let x = Axis { title: "bytes of a request", range, labels: (7, bytes) };
        let y = Axis { title: "MB/s", range: low..high, labels: (8, number) };
        let mut chart = self.axes(&area, title, x, y)?;
        let mut labels = Vec::new();
        for (way, look) in report.ways.iter().zip(LOOKS) {
            let points: Vec<(f64, f64)> = way
                .bulk
                .iter()
                .map(|b| (b.size as f64, rate(b) / 1e6))
                .filter(|(_, rate)| rate.is_finite() && *rate > 0.0)
                .collect();
            if let Some(&last) = points.last() {
                labels.push((chart.backend_coord(&last).1, way.way.clone()));
            }
            chart.draw_series(LineSeries::new(points.iter().copied(), look.0.stroke_width(k)))?;
            let sure = way.bulk.iter().filter(|b| rate(b).is_finite()).map(|b| {
                let (rate, time) = of(b);
                let (rate, part) = (rate / 1e6, time.half / time.ns.abs());
                // A time that may be 0 is a rate without bounds.
                let high = if part < 1.0 { rate / (1.0 - part) } else { f64::INFINITY };
                let ends = part.is_finite().then_some((rate / (1.0 + part), high));
                Bar { x: b.size as f64, y: rate, ends }
            });
            bars(&mut chart, &sure.collect::<Vec<_>>(), (low, high), look.0, k as i32)?;
            marks(&mut chart, &points, look, k as i32)?;
        }
        self.names(&names, labels)
    }

    /// One way of each way as a bar: its parts in shares, because the wholes differ by orders of magnitude.
    fn one_way(&self, report: &Report) -> Result<()> {
        let (k, (width, height)) = (self.scale as i32, self.area.dim_in_pixel());
        let (left, right) = (84 * k, width as i32 - 62 * k);
        let (top, bottom) = (40 * k, height as i32 - 66 * k);
        let step = (bottom - top) / report.ways.len().max(1) as i32;
        let title = Text::new(
            "one way: shares of RTT / 2",
            (width as i32 / 2, 6 * k),
            self.at(13, HPos::Center, VPos::Top),
        );
        self.area.draw(&title)?;
        for (i, way) in (0..).zip(&report.ways) {
            let middle = top + i * step + step / 2;
            let half = (step / 3).min(16 * k);
            let parts = [way.o_s.ns, way.l.ns, way.o_r.ns].map(|part| part.max(0.0));
            let whole: f64 = parts.iter().sum();
            let mut x = left;
            let mut upto = 0.0;
            for (part, shade) in parts.into_iter().zip(SHADES) {
                upto += part;
                let end = left + (f64::from(right - left) * upto / whole.max(1e-9)).round() as i32;
                let corners = [(x, middle - half), (end, middle + half)];
                self.area.draw(&Rectangle::new(corners, shade.filled()))?;
                self.area.draw(&Rectangle::new(corners, BLACK.stroke_width(self.scale)))?;
                x = end;
            }
            let name = self.at(11, HPos::Right, VPos::Center);
            self.area.draw(&Text::new(way.way.clone(), (left - 6 * k, middle), name))?;
            let total = self.at(11, HPos::Left, VPos::Center);
            self.area.draw(&Text::new(time(way.rtt.ns / 2.0), (right + 6 * k, middle - 6 * k), total))?;
            let sure = match way.rtt.half / way.rtt.ns {
                part if part.is_finite() => format!("\u{b1} {} %", number((100.0 * part).ceil())),
                _ => "\u{b1} ?".to_string(),
            };
            let sure_at = (right + 6 * k, middle + 7 * k);
            self.area.draw(&Text::new(sure, sure_at, self.at(9, HPos::Left, VPos::Center)))?;
        }
        for (share, x) in [("0 %", left), ("50 %", (left + right) / 2), ("100 %", right)] {
            self.area.draw(&PathElement::new(
                [(x, bottom), (x, bottom + 5 * k)],
                BLACK.stroke_width(self.scale),
            ))?;
            self.area.draw(&Text::new(share, (x, bottom + 7 * k), self.at(11, HPos::Center, VPos::Top)))?;
        }
        self.area
            .draw(&PathElement::new([(left, bottom), (right, bottom)], BLACK.stroke_width(self.scale)))?;
        let third = (right - left) / 3;
        for ((i, name), shade) in (0..).zip(["o_s", "L", "o_r"]).zip(SHADES) {
            let (x, y) = (left + i * third, bottom + 36 * k);
            let corners = [(x, y), (x + 14 * k, y + 14 * k)];
            self.area.draw(&Rectangle::new(corners, shade.filled()))?;
            self.area.draw(&Rectangle::new(corners, BLACK.stroke_width(self.scale)))?;
            self.area.draw(&Text::new(
                name,
                (x + 20 * k, y + 7 * k),
                self.at(12, HPos::Left, VPos::Center),
            ))?;
        }
        Ok(())
    }
}

/// Of o_s, L and o_r.
const SHADES: [RGBColor; 3] = [RGBColor(50, 60, 90), RGBColor(235, 235, 235), RGBColor(150, 160, 190)];

/// A rate, and the time that it comes from.
type Rate = fn(&Bulk) -> (f64, Ns);
