//! The pictures of what was measured, as SVG or PNG, where the feature `plot` is: what draws is many times all the rest of
//! this package, and whoever wants a median does not want it.
//!
//! Everything can be told apart without colour: curves by their marks and by their names beside them.
//!
//! | file | holds |
//! |---|---|
//! | [`logp`] | signatures, bandwidth, what one way is made of |
//! | [`cost`] | one-way times, predicted and measured, and the parameters |
//! | `canvas` | pixels and letters of a PNG |

mod canvas;
pub mod cost;
pub mod logp;

use std::fs;
use std::ops::Range;
use std::path::Path;

use plotters::coord::combinators::{LogCoord, WithKeyPoints};
use plotters::coord::{CoordTranslate, Shift};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

pub use canvas::encode;
use canvas::Canvas;

/// What goes wrong has a type of its own for each step of drawing.
pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Pixels below all panels: how sure it is, and where and when it was measured.
const FOOT: u32 = 44;

/// The names of curves stand at their right.
const NAMES: u32 = 105;

/// What is drawn on.
enum Paper<'a> {
    Pixels(DrawingArea<Canvas<'a>, Shift>),
    Svg(DrawingArea<SVGBackend<'a>, Shift>),
}

/// A picture of so many pixels, and two lines below it, into a file that ends in .png, then with twice as many, or is SVG; it
/// is drawn on the paper with the scale that says how many pixels one is.
fn save(
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
struct Panel<'a, B: DrawingBackend> {
    area: &'a DrawingArea<B, Shift>,
    scale: u32,
}

/// One axis of a chart, on a log scale.
struct Axis {
    title: &'static str,
    range: Range<f64>,
    /// How many values have a label, at most, and what it says.
    labels: (usize, fn(f64) -> String),
}

type Chart<'a, B> = ChartContext<'a, B, Cartesian2d<LogCoord<f64>, WithKeyPoints<LogCoord<f64>>>>;

impl<B: DrawingBackend> Panel<'_, B>
where
    B::ErrorType: 'static,
{
    fn text(&self, size: u32) -> TextStyle<'static> {
        ("sans-serif", f64::from(size * self.scale)).into_font().color(&BLACK)
    }

    fn at(&self, size: u32, h: HPos, v: VPos) -> TextStyle<'static> {
        self.text(size).pos(Pos::new(h, v))
    }

    /// A chart with both axes.
    fn axes<'c>(&self, area: &DrawingArea<B, Shift>, title: &str, x: Axis, y: Axis) -> Result<Chart<'c, B>> {
        let k = self.scale;
        let keys = ticks(y.range.start, y.range.end);
        let mut chart = ChartBuilder::on(area)
            .caption(title, self.text(13))
            .margin_top(4 * k)
            .margin_left(6 * k)
            .x_label_area_size(36 * k)
            .y_label_area_size(70 * k)
            .build_cartesian_2d(x.range.log_scale().base(2.0), y.range.log_scale().with_key_points(keys))?;
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(BLACK.mix(0.12))
            .x_desc(x.title)
            .y_desc(y.title)
            .x_labels(x.labels.0)
            .y_labels(y.labels.0)
            .x_label_formatter(&|n| (x.labels.1)(*n))
            .y_label_formatter(&|n| (y.labels.1)(*n))
            .label_style(self.text(11))
            .axis_desc_style(self.text(12))
            .draw()?;
        Ok(chart)
    }

    /// Names of curves beside them, moved where two would stand on each other.
    fn names(&self, area: &DrawingArea<B, Shift>, mut labels: Vec<(i32, String)>) -> Result<()> {
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
}

/// How a curve looks: its colour, dark to light, and its marks.
const LOOKS: [(RGBColor, &str); 7] = [
    (RGBColor(0, 0, 0), "disc"),
    (RGBColor(20, 70, 150), "ring"),
    (RGBColor(170, 40, 30), "triangle"),
    (RGBColor(60, 110, 40), "cross"),
    (RGBColor(150, 90, 150), "square"),
    (RGBColor(110, 110, 110), "disc"),
    (RGBColor(190, 120, 20), "ring"),
];

/// How sure a point is: the ends of its interval; `None` where it has none.
struct Bar {
    x: f64,
    y: f64,
    ends: Option<(f64, f64)>,
}

impl Bar {
    /// Of a value and half the width of its interval.
    fn of(x: f64, y: f64, half: f64) -> Bar {
        Bar { x, y, ends: half.is_finite().then_some((y - half, y + half)) }
    }
}

/// Intervals of points, as far as they are within the axis; a question mark beside a point without one.
fn bars<B: DrawingBackend, C: CoordTranslate<From = (f64, f64)>>(
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
fn marks<B: DrawingBackend, C: CoordTranslate<From = (f64, f64)>>(
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
fn decades(of: impl Iterator<Item = f64>) -> (f64, f64) {
    let (low, high) = of
        .filter(|x| x.is_finite() && *x > 0.0)
        .fold((f64::INFINITY, 0.0), |(low, high), x| (f64::min(low, x), f64::max(high, x)));
    if !low.is_finite() {
        return (1.0, 10.0);
    }
    (low / 1.3, (high * 1.6).max(low * 10.0))
}

/// Round numbers between these: 1, 2, 5 of each decade, or only its 1 where there are many.
fn ticks(low: f64, high: f64) -> Vec<f64> {
    let steps: &[f64] = if high / low > 3e3 { &[1.0] } else { &[1.0, 2.0, 5.0] };
    (-3..13)
        .flat_map(|decade| steps.iter().map(move |step| step * 10f64.powi(decade)))
        .filter(|x| (low..=high).contains(x))
        .collect()
}

/// Nanoseconds in the unit that suits them.
fn time(ns: f64) -> String {
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

fn bytes(n: f64) -> String {
    match n {
        n if n >= 1_048_576.0 => format!("{} Mi", number(n / 1_048_576.0)),
        n if n >= 1024.0 => format!("{} Ki", number(n / 1024.0)),
        n => number(n),
    }
}
