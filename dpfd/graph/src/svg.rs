//! A picture as SVG.

use std::fmt::Write;

use crate::layout::{layout, Rect, Scene, Wire, LETTER, LINE, SAMPLE};
use crate::look::{self, Colour, Stroke, ARROW, BEND, CORNER, INK, PAPER};
use crate::picture::Picture;

/// The text of an `.svg` file.
pub fn text(picture: &Picture) -> String {
    let scene = layout(picture);
    let mut out = Svg(String::new());
    out.all(&scene);
    out.0
}

struct Svg(String);

impl Svg {
    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        let _ = writeln!(self.0, "{line}");
    }

    fn all(&mut self, scene: &Scene) {
        let (w, h) = (scene.width.ceil(), scene.height.ceil());
        // Letters of a font that is a little wider or narrower are fitted, so nothing leaves its box.
        let size = LETTER / 0.6;
        self.line(format_args!(
            r#"<svg xmlns="http://www.w3.org/2000/svg" width="{w}" height="{h}" viewBox="0 0 {w} {h}" font-family="monospace" font-size="{size:.2}">"#
        ));
        self.line(format_args!(r#"<rect width="{w}" height="{h}" fill="white"/>"#));
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
            let path = format!("M{x} {y}H{}", x + SAMPLE);
            self.path(&path, look::stroke(sample.mark, INK));
            self.text((x + SAMPLE + 8.0, y - LINE / 2.0), sample.mark.words());
        }
        self.line(format_args!("</svg>"));
    }

    fn rect(&mut self, at: Rect, radius: f64, fill: Colour, stroke: Stroke) {
        let Rect { x, y, w, h } = at;
        self.line(format_args!(
            r#"<rect x="{x}" y="{y}" width="{w}" height="{h}" rx="{radius}" fill="{}"{}/>"#,
            hex(fill),
            attributes(stroke)
        ));
    }

    fn path(&mut self, path: &str, stroke: Stroke) {
        self.line(format_args!(r#"<path d="{path}" fill="none"{}/>"#, attributes(stroke)));
    }

    fn wire(&mut self, wire: &Wire) {
        let corners = &wire.corners;
        let (Some(first), Some(&(x, y))) = (corners.first(), corners.last()) else { return };
        let mut path = format!("M{:.1} {:.1}", first.0, first.1);
        for three in corners.windows(3) {
            let (before, after) = bend(three[0], three[1], three[2]);
            let (x, y) = three[1];
            let _ =
                write!(path, "L{:.1} {:.1}Q{x:.1} {y:.1} {:.1} {:.1}", before.0, before.1, after.0, after.1);
        }
        let _ = write!(path, "L{x:.1} {:.1}", y + ARROW.0 - 1.0);
        self.path(&path, wire.stroke());
        let (long, half) = ARROW;
        self.line(format_args!(
            r#"<path d="M{x:.1} {y:.1}L{:.1} {:.1}H{:.1}Z" fill="{}"/>"#,
            x - half,
            y + long,
            x + half,
            hex(wire.stroke().colour)
        ));
    }

    fn text(&mut self, (x, y): (f64, f64), text: &str) {
        let mut plain = String::new();
        for c in text.chars() {
            match c {
                '<' => plain += "&lt;",
                '>' => plain += "&gt;",
                '&' => plain += "&amp;",
                '"' => plain += "&quot;",
                c if c.is_control() => plain.push(' '),
                c => plain.push(c),
            }
        }
        let long = crate::layout::width(text);
        if long > 0.0 {
            self.line(format_args!(
                r#"<text x="{x}" y="{}" textLength="{long}" fill="{}">{plain}</text>"#,
                y + LINE * 0.75,
                hex(INK)
            ));
        }
    }
}

/// Where a line leaves a corner's two sides for a curve.
pub fn bend(a: (f64, f64), corner: (f64, f64), b: (f64, f64)) -> ((f64, f64), (f64, f64)) {
    let towards = |to: (f64, f64)| {
        let (dx, dy) = (to.0 - corner.0, to.1 - corner.1);
        let long = dx.hypot(dy);
        let part = if long > 0.0 { (BEND / long).min(0.5) } else { 0.0 };
        (corner.0 + dx * part, corner.1 + dy * part)
    };
    (towards(a), towards(b))
}

fn attributes(stroke: Stroke) -> String {
    let dash = stroke.dash.map(|n| format!(r#" stroke-dasharray="{n}""#)).unwrap_or_default();
    format!(r#" stroke="{}" stroke-width="{}"{dash}"#, hex(stroke.colour), stroke.thick)
}

fn hex([r, g, b]: Colour) -> String {
    format!("#{r:02x}{g:02x}{b:02x}")
}
