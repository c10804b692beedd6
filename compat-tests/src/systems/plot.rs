//! Pictures of the tables: a curve for each system, over sizes or numbers.

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::Family;
use crate::measure::Error;

/// Pixels of a picture, and how much of its width is for the names of curves.
const SIZE: (u32, u32) = (900, 620);
const NAMES: u32 = 250;

/// One curve.
pub struct Curve {
    /// Its name.
    pub name: String,
    /// Whose it is, which decides on its colour.
    pub family: Family,
    /// From left to right.
    pub points: Vec<(f64, f64)>,
}

/// What an axis shows.
pub struct Axis {
    /// In words.
    pub title: &'static str,
    /// A value in words.
    pub label: fn(f64) -> String,
    /// Its scale is logarithmic to this base.
    pub base: f64,
}

/// What goes wrong in drawing has a type of its own for each step.
type Drawn<T> = Result<T, Box<dyn std::error::Error>>;

/// An SVG of these curves, both axes logarithmic. Curves are told apart by their marks, and by names at their right in the
/// order in which they end.
///
/// # Errors
/// No curve has a point.
pub fn draw(title: &str, x: &Axis, y: &Axis, curves: &[Curve]) -> Result<String, Error> {
    let mut svg = String::new();
    match curves.iter().any(|curve| !curve.points.is_empty()) {
        true => onto(&mut svg, title, x, y, curves)
            .map_err(|why| Error::words(format!("the plot of {title}"), &why.to_string()))?,
        false => return Err(Error::words(format!("the plot of {title}"), "nothing to draw")),
    }
    Ok(svg)
}

/// Does something with a curve's mark at a place.
macro_rules! marked {
    ($i:expr, $at:expr, $colour:expr, $mark:ident => $do:expr) => {
        match $i % 5 {
            0 => {
                let $mark = Circle::new($at, 4, $colour.filled());
                $do
            }
            1 => {
                let $mark = TriangleMarker::new($at, 6, $colour.filled());
                $do
            }
            2 => {
                let $mark = Circle::new($at, 4, $colour.stroke_width(2));
                $do
            }
            3 => {
                let $mark = Cross::new($at, 4, $colour.stroke_width(2));
                $do
            }
            _ => {
                let $mark = EmptyElement::at($at) + Rectangle::new([(-4, -4), (4, 4)], $colour.filled());
                $do
            }
        }
    };
}

fn onto(svg: &mut String, title: &str, x: &Axis, y: &Axis, curves: &[Curve]) -> Drawn<()> {
    let all = |of: fn(&(f64, f64)) -> f64| curves.iter().flat_map(|curve| curve.points.iter()).map(of);
    let (left, right) = range(all(|point| point.0), 1.3);
    let (low, high) = range(all(|point| point.1), 1.6);
    let root = SVGBackend::with_string(svg, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let (area, names) = root.split_horizontally(SIZE.0 - NAMES);
    let mut chart = ChartBuilder::on(&area)
        .caption(title, ("sans-serif", 16))
        .margin(8)
        .x_label_area_size(44)
        .y_label_area_size(78)
        .build_cartesian_2d((left..right).log_scale().base(x.base), (low..high).log_scale().base(y.base))?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(BLACK.mix(0.12))
        .x_desc(x.title)
        .y_desc(y.title)
        .x_label_formatter(&|value| (x.label)(*value))
        .y_label_formatter(&|value| (y.label)(*value))
        .label_style(("sans-serif", 12))
        .draw()?;
    let mut labels = Vec::new();
    for (i, curve) in curves.iter().enumerate() {
        let colour = colour(curves, i);
        chart.draw_series(LineSeries::new(curve.points.iter().copied(), colour.stroke_width(2)))?;
        for point in &curve.points {
            marked!(i, *point, colour, mark => chart.draw_series([mark]).map(drop))?;
        }
        if let Some(last) = curve.points.last() {
            labels.push((chart.backend_coord(last).1, i));
        }
    }
    label(&names, labels, curves)?;
    root.present()?;
    Ok(())
}

/// A name beside each curve's end, moved where two would stand on each other.
fn label(
    area: &DrawingArea<SVGBackend, Shift>,
    mut labels: Vec<(i32, usize)>,
    curves: &[Curve],
) -> Drawn<()> {
    const STEP: i32 = 17;
    labels.sort_unstable();
    // So much is needed below the first, that the last is still in the picture.
    let room = SIZE.1 as i32 - STEP * labels.len() as i32 - STEP;
    let mut free = STEP;
    for ((y, i), above) in labels.into_iter().zip(0..) {
        let y = y.min(room + STEP * above).max(free);
        free = y + STEP;
        let colour = colour(curves, i);
        marked!(i, (10, y), colour, mark => area.draw(&mark))?;
        let style = ("sans-serif", 12).into_font().color(&BLACK).pos(Pos::new(HPos::Left, VPos::Center));
        area.draw(&Text::new(curves[i].name.clone(), (22, y), style))?;
    }
    Ok(())
}

/// From below the least to above the most.
fn range(of: impl Iterator<Item = f64>, margin: f64) -> (f64, f64) {
    let wide = |(low, high): (f64, f64), value: f64| (low.min(value), high.max(value));
    let (low, high) = of.filter(|value| *value > 0.0).fold((f64::INFINITY, 0.0), wide);
    if low.is_finite() {
        (low / margin, high * margin)
    } else {
        (1.0, 10.0)
    }
}

/// A family's, from dark to light for each further curve of it.
fn colour(curves: &[Curve], i: usize) -> RGBColor {
    let family = curves[i].family;
    let nth = curves[..i].iter().filter(|curve| curve.family == family).count();
    let RGBColor(r, g, b) = match family {
        Family::Floor => RGBColor(0, 0, 0),
        Family::Dp => RGBColor(180, 20, 20),
        Family::Kernel => RGBColor(90, 90, 90),
        Family::Library => RGBColor(20, 70, 160),
    };
    let lighter = |part: u8| part + (255 - part) / 8 * (nth % 5) as u8;
    RGBColor(lighter(r), lighter(g), lighter(b))
}

#[cfg(test)]
mod tests;
