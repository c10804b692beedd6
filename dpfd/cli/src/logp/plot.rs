//! The pictures: a signature for each way, bandwidth against size, and what one way is made of.
//!
//! Everything can be told apart without colour: curves by their marks and by their names beside them, parts of a bar by
//! how dark they are.

use std::fs;
use std::path::Path;

use dp_measure::logp::report::{Bulk, Findings, Ns, Report};
use plotters::coord::{CoordTranslate, Shift};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::canvas::{encode, Canvas};
use crate::bench::Result;

/// Signatures in a row, and pixels of each panel; twice as many in a PNG.
const COLUMNS: usize = 3;
const PANEL: (u32, u32) = (440, 330);
/// The names of curves stand at their right.
pub const NAMES: u32 = 105;
/// Pixels below all panels: how sure it is, and where and when it was measured.
const FOOT: u32 = 44;

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

/// What is drawn on.
pub enum Paper<'a> {
    Pixels(DrawingArea<Canvas<'a>, Shift>),
    Svg(DrawingArea<SVGBackend<'a>, Shift>),
}

/// A picture of so many pixels, and two lines below it, into a file that ends in .png, then with twice as many, or is SVG; it
/// is drawn on the paper with the scale that says how many pixels one is.
pub fn save(
    path: &Path,
    (width, height): (u32, u32),
    foot: &[String; 2],
    draw: impl FnOnce(Paper<'_>, u32) -> Result<()>,
) -> Result<()> {
    let (panels, height) = (height, height + FOOT);
    if path.extension().is_some_and(|e| e == "png") {
        let (mut pixels, size) = (Vec::new(), (2 * width, 2 * height));
        let area = Canvas::new(&mut pixels, size).into_drawing_area();
        draw(Paper::Pixels(above(&area, 2, panels, foot)?), 2)?;
        let mut file = Vec::new();
        encode(&pixels, size, &mut file)?;
        fs::write(path, file)?;
    } else {
        let mut text = String::new();
        let area = SVGBackend::with_string(&mut text, (width, height)).into_drawing_area();
        draw(Paper::Svg(above(&area, 1, panels, foot)?), 1)?;
        drop(area);
        fs::write(path, text)?;
    }
    Ok(())
}

/// The part for panels, so many pixels high; the lines below it are drawn.
fn above<B: DrawingBackend>(
    area: &DrawingArea<B, Shift>,
    scale: u32,
    panels: u32,
    lines: &[String; 2],
) -> Result<DrawingArea<B, Shift>>
where
    B::ErrorType: 'static,
{
    area.fill(&WHITE)?;
    let (upper, lower) = area.split_vertically(scale * panels);
    let panel = Panel { area: &lower, scale };
    for (i, line) in (0..).zip(lines) {
        let at = (10 * scale as i32, (4 + 18 * i) * scale as i32);
        lower.draw(&Text::new(line.clone(), at, panel.at(11, HPos::Left, VPos::Top)))?;
    }
    Ok(upper)
}

/// A part of the picture, and how many pixels one is.
pub struct Panel<'a, B: DrawingBackend> {
    pub area: &'a DrawingArea<B, Shift>,
    pub scale: u32,
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

/// How a curve looks: its colour, dark to light, and its marks.
pub const LOOKS: [(RGBColor, &str); 7] = [
    (RGBColor(0, 0, 0), "disc"),
    (RGBColor(20, 70, 150), "ring"),
    (RGBColor(170, 40, 30), "triangle"),
    (RGBColor(60, 110, 40), "cross"),
    (RGBColor(150, 90, 150), "square"),
    (RGBColor(110, 110, 110), "disc"),
    (RGBColor(190, 120, 20), "ring"),
];

impl<B: DrawingBackend> Panel<'_, B>
where
    B::ErrorType: 'static,
{
    pub fn text(&self, size: u32) -> TextStyle<'static> {
        ("sans-serif", f64::from(size * self.scale)).into_font().color(&BLACK)
    }

    fn at(&self, size: u32, h: HPos, v: VPos) -> TextStyle<'static> {
        self.text(size).pos(Pos::new(h, v))
    }

    /// Cost against length of burst, one curve for each computation.
    fn signature(&self, report: &Report, way: &Findings) -> Result<()> {
        let k = self.scale;
        let costs = way.signature.iter().flat_map(|c| c.points.iter().map(|p| p.ns));
        let (low, high) = decades(costs.chain([way.o_s.ns, way.g.ns]));
        let most = way.signature.iter().flat_map(|c| c.points.iter().map(|p| p.m)).max().unwrap_or(1);
        let (area, names) = self.area.split_horizontally(k * (PANEL.0 - NAMES));
        let mut chart = ChartBuilder::on(&area)
            .caption(format!("{}, {} bytes", way.way, report.size), self.text(13))
            .margin_top(4 * k)
            .margin_left(6 * k)
            .x_label_area_size(36 * k)
            .y_label_area_size(68 * k)
            .build_cartesian_2d(
                (1f64..f64::from(most) * 1.1).log_scale().base(2.0),
                (low..high).log_scale().with_key_points(ticks(low, high)),
            )?;
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(BLACK.mix(0.12))
            .x_desc("M: requests in a burst")
            .y_desc("cost of a request")
            .x_labels(9)
            .y_labels(8)
            .x_label_formatter(&|m| format!("{m:.0}"))
            .y_label_formatter(&|ns| time(*ns))
            .label_style(self.text(11))
            .axis_desc_style(self.text(12))
            .draw()?;
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
        let x = (least as f64 * 0.8)..(most as f64 * 1.25).max(least as f64 * 2.0);
        let (area, names) = self.area.split_horizontally(k * (PANEL.0 - NAMES));
        let mut chart = ChartBuilder::on(&area)
            .caption(title, self.text(13))
            .margin_top(4 * k)
            .margin_left(6 * k)
            .x_label_area_size(36 * k)
            .y_label_area_size(64 * k)
            .build_cartesian_2d(
                x.log_scale().base(2.0),
                (low..high).log_scale().with_key_points(ticks(low, high)),
            )?;
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(BLACK.mix(0.12))
            .x_desc("bytes of a request")
            .y_desc("MB/s")
            .x_labels(7)
            .y_labels(8)
            .x_label_formatter(&|n| bytes(*n))
            .y_label_formatter(&|rate| number(*rate))
            .label_style(self.text(11))
            .axis_desc_style(self.text(12))
            .draw()?;
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

    /// Names of curves beside them, moved where two would stand on each other.
    pub fn names(&self, area: &DrawingArea<B, Shift>, mut labels: Vec<(i32, String)>) -> Result<()> {
        let step = 15 * self.scale as i32;
        labels.sort();
        let top = area.get_pixel_range().1.start;
        let mut free = i32::MIN / 2;
        for (y, name) in labels {
            let y = y.max(free);
            free = y + step;
            area.draw(&Text::new(
                name,
                (4 * self.scale as i32, y - top),
                self.at(11, HPos::Left, VPos::Center),
            ))?;
        }
        Ok(())
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

/// How sure a point is: the ends of its interval; `None` where it has none.
pub struct Bar {
    pub x: f64,
    pub y: f64,
    pub ends: Option<(f64, f64)>,
}

impl Bar {
    /// Of a value and half the width of its interval.
    pub fn of(x: f64, y: f64, half: f64) -> Bar {
        Bar { x, y, ends: half.is_finite().then_some((y - half, y + half)) }
    }
}

/// Intervals of points, as far as they are within the axis; a question mark beside a point without one.
pub fn bars<B: DrawingBackend, C: CoordTranslate<From = (f64, f64)>>(
    chart: &mut ChartContext<'_, B, C>,
    points: &[Bar],
    (low, high): (f64, f64),
    color: RGBColor,
    k: i32,
) -> Result<()>
where
    B::ErrorType: 'static,
{
    let line = color.mix(0.7).stroke_width(k as u32);
    let inside = points.iter().filter(|bar| (low..=high).contains(&bar.y));
    for &Bar { x, y, ends } in inside {
        let Some((from, to)) = ends else {
            let letter = ("sans-serif", f64::from(11 * k)).into_font().color(&color);
            let mark = EmptyElement::at((x, y)) + Text::new("?", (3 * k, -13 * k), letter);
            chart.draw_series([mark])?;
            continue;
        };
        let (from, to) = (from.clamp(low, high), to.clamp(low, high));
        chart.draw_series([PathElement::new([(x, from), (x, to)], line)])?;
        for end in [from, to].into_iter().filter(|end| *end > low && *end < high) {
            let cap = PathElement::new([(-3 * k, 0), (3 * k, 0)], line);
            chart.draw_series([EmptyElement::at((x, end)) + cap])?;
        }
    }
    Ok(())
}

/// Marks at the points of a curve.
pub fn marks<B: DrawingBackend, C: CoordTranslate<From = (f64, f64)>>(
    chart: &mut ChartContext<'_, B, C>,
    points: &[(f64, f64)],
    (color, shape): (RGBColor, &str),
    k: i32,
) -> Result<()>
where
    B::ErrorType: 'static,
{
    let (size, line) = (3 * k, color.stroke_width(k as u32));
    let points = points.iter().copied();
    match shape {
        "disc" => chart.draw_series(points.map(|at| Circle::new(at, size, color.filled())))?,
        "ring" => chart.draw_series(points.map(|at| Circle::new(at, size, line)))?,
        "triangle" => {
            chart.draw_series(points.map(|at| TriangleMarker::new(at, size + k, color.filled())))?
        }
        "cross" => chart.draw_series(points.map(|at| Cross::new(at, size, line)))?,
        _ => chart.draw_series(points.map(|at| {
            EmptyElement::at(at) + Rectangle::new([(-size, -size), (size, size)], color.filled())
        }))?,
    };
    Ok(())
}

/// From a bit below the least of these to a bit above the largest; at least a decade, and above 0.
pub fn decades(of: impl Iterator<Item = f64>) -> (f64, f64) {
    let (low, high) = of
        .filter(|x| x.is_finite() && *x > 0.0)
        .fold((f64::INFINITY, 0.0), |(low, high), x| (f64::min(low, x), f64::max(high, x)));
    if !low.is_finite() {
        return (1.0, 10.0);
    }
    (low / 1.3, (high * 1.6).max(low * 10.0))
}

/// Round numbers between these: 1, 2, 5 of each decade, or only its 1 where there are many.
pub fn ticks(low: f64, high: f64) -> Vec<f64> {
    let steps: &[f64] = if high / low > 3e3 { &[1.0] } else { &[1.0, 2.0, 5.0] };
    (-3..13)
        .flat_map(|decade| steps.iter().map(move |step| step * 10f64.powi(decade)))
        .filter(|x| (low..=high).contains(x))
        .collect()
}

/// Nanoseconds in the unit that suits them.
pub fn time(ns: f64) -> String {
    match ns {
        n if n.abs() >= 999_500.0 => format!("{} ms", number(n / 1e6)),
        n if n.abs() >= 999.5 => format!("{} \u{b5}s", number(n / 1e3)),
        n => format!("{} ns", number(n)),
    }
}

/// Three digits where there are as many.
fn number(x: f64) -> String {
    match x.abs() {
        a if a >= 99.95 || a == a.round() => format!("{x:.0}"),
        a if a >= 9.995 => format!("{x:.1}"),
        _ => format!("{x:.2}"),
    }
}

pub fn bytes(n: f64) -> String {
    match n {
        n if n >= 1_048_576.0 => format!("{} Mi", number(n / 1_048_576.0)),
        n if n >= 1024.0 => format!("{} Ki", number(n / 1024.0)),
        n => number(n),
    }
}
