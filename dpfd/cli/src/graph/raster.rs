//! A picture of pixels: shapes by their distance from each pixel, so that borders are smooth; letters ready-made, so the
//! machine needs no fonts.

use dp_graph::layout::{Rect, Scene, Wire, LINE, SAMPLE};
use dp_graph::look::{self, Colour, Stroke, ARROW, CORNER, INK, PAPER};
use dp_graph::svg::bend;
use noto_sans_mono_bitmap::{get_raster, get_raster_width, FontWeight, RasterHeight};

use dp_measure::picture::encode;

/// Pixels of one unit of the scene.
const SCALE: f64 = 2.0;
const LETTERS: RasterHeight = RasterHeight::Size32;
/// Pixels of the largest picture, three bytes each.
const MOST: f64 = 100e6;

/// The bytes of a PNG file.
pub fn png(scene: &Scene) -> Result<Vec<u8>, String> {
    let (width, height) = ((scene.width * SCALE).ceil().max(1.0), (scene.height * SCALE).ceil().max(1.0));
    if width * height > MOST {
        return Err(format!(
            "a picture of {width} x {height} pixels is too large for PNG; write a .svg or .dot"
        ));
    }
    let size = (width as u32, height as u32);
    let mut raster = Raster { size, pixels: vec![255; 3 * size.0 as usize * size.1 as usize] };
    raster.all(scene);
    let mut file = Vec::new();
    encode(&raster.pixels, size, &mut file).map_err(|error| error.to_string())?;
    Ok(file)
}

type Point = (f64, f64);

struct Raster {
    size: (u32, u32),
    /// Red, green, blue, row by row.
    pixels: Vec<u8>,
}

impl Raster {
    fn all(&mut self, scene: &Scene) {
        for frame in &scene.frames {
            self.rect(frame.at, CORNER, frame.fill(), frame.stroke());
        }
        for wire in &scene.wires {
            self.wire(wire);
        }
        for disc in &scene.discs {
            self.rect(disc.at, disc.at.h / 2.0, PAPER, look::stroke(disc.mark, INK));
            self.text(disc.label_at(), &disc.label);
        }
        for frame in &scene.frames {
            self.text(frame.title_at(), &frame.title);
        }
        for sample in &scene.samples {
            let (x, y) = sample.at;
            self.line(&[(x, y), (x + SAMPLE, y)], look::stroke(sample.mark, INK));
            self.text((x + SAMPLE + 8.0, y - LINE / 2.0), sample.mark.words());
        }
    }

    fn mix(&mut self, x: i64, y: i64, colour: Colour, alpha: f64) {
        if alpha <= 0.0 || x < 0 || y < 0 || x >= i64::from(self.size.0) || y >= i64::from(self.size.1) {
            return;
        }
        let at = 3 * (y as usize * self.size.0 as usize + x as usize);
        for (pixel, new) in self.pixels[at..at + 3].iter_mut().zip(colour) {
            *pixel = (f64::from(*pixel) * (1.0 - alpha) + f64::from(new) * alpha).round() as u8;
        }
    }

    /// All pixels of a part of the scene, with their distance from a shape's border in pixels, negative inside.
    fn shape(&mut self, part: Rect, colour: Colour, distance: impl Fn(Point) -> f64) {
        let pixel = |n: f64| (n * SCALE) as i64;
        for y in pixel(part.y) - 2..=pixel(part.y + part.h) + 2 {
            for x in pixel(part.x) - 2..=pixel(part.x + part.w) + 2 {
                let middle = ((x as f64 + 0.5) / SCALE, (y as f64 + 0.5) / SCALE);
                let covered = (0.5 - distance(middle) * SCALE).clamp(0.0, 1.0);
                self.mix(x, y, colour, covered);
            }
        }
    }

    fn rect(&mut self, at: Rect, radius: f64, fill: Colour, stroke: Stroke) {
        let (cx, cy) = (at.x + at.w / 2.0, at.y + at.h / 2.0);
        let border = |(x, y): Point| {
            let (dx, dy) = ((x - cx).abs() - at.w / 2.0 + radius, (y - cy).abs() - at.h / 2.0 + radius);
            dx.max(0.0).hypot(dy.max(0.0)) + dx.max(dy).min(0.0) - radius
        };
        self.shape(at, fill, border);
        match stroke.dash {
            None => self.shape(at, stroke.colour, |p| border(p).abs() - stroke.thick / 2.0),
            Some(_) => self.line(&around(at, radius), stroke),
        }
    }

    fn wire(&mut self, wire: &Wire) {
        let corners = &wire.corners;
        let (Some(&first), Some(&(x, y))) = (corners.first(), corners.last()) else { return };
        let mut points = vec![first];
        for three in corners.windows(3) {
            let (before, after) = bend(three[0], three[1], three[2]);
            points.extend((0..=8).map(|k| curve(before, three[1], after, f64::from(k) / 8.0)));
        }
        points.push((x, y + ARROW.0 - 1.0));
        self.line(&points, wire.stroke());
        let (long, half) = ARROW;
        let part = Rect { x: x - half, y, w: 2.0 * half, h: long };
        let slope = half.hypot(long);
        self.shape(part, wire.stroke().colour, |(px, py)| {
            let side = ((px - x).abs() * long - (py - y) * half) / slope;
            side.max(py - y - long)
        });
    }

    /// A line from point to point.
    fn line(&mut self, points: &[Point], stroke: Stroke) {
        let mut done = 0.0;
        for two in points.windows(2) {
            let (a, b) = (two[0], two[1]);
            let long = (b.0 - a.0).hypot(b.1 - a.1);
            if long == 0.0 {
                continue;
            }
            let along = |n: f64| (a.0 + (b.0 - a.0) * n / long, a.1 + (b.1 - a.1) * n / long);
            let Some(dash) = stroke.dash else {
                self.piece(a, b, stroke);
                continue;
            };
            // The pattern goes on around corners.
            let mut at = 0.0;
            while at < long {
                let phase = (done + at) / dash;
                let end = (at + (phase.floor() + 1.0 - phase) * dash).max(at + 1e-6).min(long);
                if phase.floor() as i64 % 2 == 0 {
                    self.piece(along(at), along(end), stroke);
                }
                at = end;
            }
            done += long;
        }
    }

    fn piece(&mut self, a: Point, b: Point, stroke: Stroke) {
        let half = stroke.thick / 2.0;
        let (left, top) = (a.0.min(b.0) - half, a.1.min(b.1) - half);
        let part = Rect {
            x: left,
            y: top,
            w: (a.0 - b.0).abs() + stroke.thick,
            h: (a.1 - b.1).abs() + stroke.thick,
        };
        let (dx, dy) = (b.0 - a.0, b.1 - a.1);
        let square = dx * dx + dy * dy;
        self.shape(part, stroke.colour, |(x, y)| {
            let along = (((x - a.0) * dx + (y - a.1) * dy) / square).clamp(0.0, 1.0);
            (x - a.0 - along * dx).hypot(y - a.1 - along * dy) - half
        });
    }

    fn text(&mut self, (x, y): Point, text: &str) {
        let step = get_raster_width(FontWeight::Regular, LETTERS) as i64;
        let (left, top) = ((x * SCALE).round() as i64, (y * SCALE).round() as i64);
        for (i, letter) in (0..).zip(text.chars()) {
            let known = get_raster(letter, FontWeight::Regular, LETTERS);
            let Some(raster) = known.or_else(|| get_raster('?', FontWeight::Regular, LETTERS)) else {
                continue;
            };
            for (dy, row) in (0..).zip(raster.rows()) {
                for (dx, &ink) in (0..).zip(row.iter()) {
                    self.mix(left + i * step + dx, top + dy, INK, f64::from(ink) / 255.0);
                }
            }
        }
    }
}

/// A point of the curve that leaves `a` and reaches `b`, towards a corner between them.
fn curve(a: Point, corner: Point, b: Point, t: f64) -> Point {
    let mix = |a: f64, c: f64, b: f64| (1.0 - t) * (1.0 - t) * a + 2.0 * t * (1.0 - t) * c + t * t * b;
    (mix(a.0, corner.0, b.0), mix(a.1, corner.1, b.1))
}

/// The border of a box with round corners, as points.
fn around(at: Rect, radius: f64) -> Vec<Point> {
    let middles = [
        (at.x + at.w - radius, at.y + radius, -90.0),
        (at.x + at.w - radius, at.y + at.h - radius, 0.0),
        (at.x + radius, at.y + at.h - radius, 90.0),
        (at.x + radius, at.y + radius, 180.0),
    ];
    let arc = |(x, y, from): (f64, f64, f64)| {
        (0..=12).map(move |k| {
            let angle = (from + 90.0 * f64::from(k) / 12.0).to_radians();
            (x + radius * angle.cos(), y + radius * angle.sin())
        })
    };
    let mut points: Vec<Point> = middles.into_iter().flat_map(arc).collect();
    points.push(points[0]);
    points
}

#[cfg(test)]
mod tests;
