//! The picture of pixels as another reader of PNG sees it.

use dp_graph::layout::{layout, Rect, Scene};
use dp_graph::picture::Picture;
use dp_graph::Graph;

use super::*;

/// The scene of a graph, and its picture: the size, and red, green, blue, row by row.
fn drawn(graph: &str) -> (Scene, (u32, u32), Vec<u8>) {
    let scene = layout(&Picture::of(&Graph::parse(graph).unwrap()));
    let file = png(&scene).unwrap();
    let mut reader = png::Decoder::new(std::io::Cursor::new(file)).read_info().unwrap();
    let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
    let info = reader.next_frame(&mut pixels).unwrap();
    assert_eq!((info.color_type, info.bit_depth), (png::ColorType::Rgb, png::BitDepth::Eight));
    assert_eq!(pixels.len(), 3 * info.width as usize * info.height as usize);
    (scene, (info.width, info.height), pixels)
}

/// The colours of a part of the scene.
fn part(at: Rect, size: (u32, u32), pixels: &[u8]) -> Vec<Colour> {
    let range = |from: f64, long: f64, most: u32| {
        let to = ((from + long) * SCALE).ceil() as u32;
        (from * SCALE) as u32..to.min(most)
    };
    let colour = |x: u32, y: u32| {
        let i = 3 * (y * size.0 + x) as usize;
        [pixels[i], pixels[i + 1], pixels[i + 2]]
    };
    range(at.y, at.h, size.1).flat_map(|y| range(at.x, at.w, size.0).map(move |x| colour(x, y))).collect()
}

const FIGURE1: &str = include_str!("../../../../../examples/figure1.toml");

#[test]
fn a_picture_has_the_scenes_size_and_all_that_is_in_it() {
    let (scene, size, pixels) = drawn(FIGURE1);
    assert_eq!(size, ((scene.width * SCALE).ceil() as u32, (scene.height * SCALE).ceil() as u32));
    assert_eq!((scene.frames.len(), scene.discs.len(), scene.wires.len()), (3 + 4, 10, 5));
    let of = |at| part(at, size, &pixels);
    assert_eq!(of(Rect { x: 0.0, y: 0.0, w: 1.0, h: 1.0 })[0], PAPER, "a corner is in no box");
    for frame in &scene.frames {
        let Rect { x, y, w, h } = frame.at;
        for (side, middle) in
            [("left", (x, y + h / 2.0)), ("top", (x + w / 2.0, y)), ("right", (x + w, y + h / 2.0))]
        {
            let border = of(Rect { x: middle.0 - 1.0, y: middle.1 - 1.0, w: 2.0, h: 2.0 });
            assert!(
                border.iter().any(|c| *c != PAPER && *c != frame.fill()),
                "{}: {side}: {border:?}",
                frame.title
            );
        }
        let title = of(Rect { x: frame.title_at().0, y: frame.title_at().1, w: LINE, h: LINE });
        assert!(title.contains(&INK) && title.contains(&frame.fill()), "{}: its title", frame.title);
    }
    for disc in &scene.discs {
        let within = of(disc.at);
        assert!(within.contains(&INK) && within.contains(&PAPER), "{}", disc.label);
    }
    for wire in &scene.wires {
        let (x, y) = *wire.corners.last().unwrap();
        let arrow = of(Rect { x: x - 1.0, y: y + ARROW.0 / 2.0, w: 2.0, h: 2.0 });
        assert!(arrow.contains(&wire.stroke().colour), "{wire:?}: {arrow:?}");
    }
}

#[test]
fn a_picture_that_is_too_large_is_refused() {
    let scene = Scene { width: 6000.0, height: 6000.0, ..Scene::default() };
    assert!(png(&scene).unwrap_err().contains("write a .svg or .dot"));
}
