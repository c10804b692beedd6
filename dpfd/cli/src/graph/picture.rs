//! Which kind of picture, and where it goes.

use std::path::Path;

use dp_graph::picture::Picture;
use dp_graph::{dot, svg};

use super::{write_out, Stop};

/// A kind of picture.
#[derive(Clone, Copy, PartialEq)]
pub enum Kind {
    Dot,
    Svg,
    Png,
}

impl Kind {
    /// By the end of a file's name.
    pub fn of(out: Option<&Path>) -> Result<Kind, String> {
        let Some(path) = out else { return Ok(Kind::Dot) };
        match path.extension().and_then(|end| end.to_str()) {
            Some("dot" | "gv") => Ok(Kind::Dot),
            Some("svg") => Ok(Kind::Svg),
            Some("png") if cfg!(feature = "plot") => Ok(Kind::Png),
            Some("png") => Err("this dp was built without the feature plot; write a .svg or .dot".into()),
            _ => Err(format!(
                "{}: what kind of picture? let the name end in .dot, .svg or .png",
                super::name(path)
            )),
        }
    }
}

/// Draws a picture, and writes it to a file or to standard output.
pub fn put(picture: &Picture, kind: Kind, out: Option<&Path>) -> Result<(), Stop> {
    let bytes = match kind {
        Kind::Dot => dot::text(picture).into_bytes(),
        Kind::Svg => svg::text(picture).into_bytes(),
        Kind::Png => pixels(picture)?,
    };
    write_out(&bytes, out)
}

#[cfg(feature = "plot")]
fn pixels(picture: &Picture) -> Result<Vec<u8>, Stop> {
    super::raster::png(&dp_graph::layout::layout(picture)).map_err(Stop::Said)
}

#[cfg(not(feature = "plot"))]
fn pixels(_: &Picture) -> Result<Vec<u8>, Stop> {
    unreachable!("such a kind is not asked for")
}
