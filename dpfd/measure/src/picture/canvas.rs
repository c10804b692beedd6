//! Pixels: what plotters draws on for a PNG. Letters come ready-made, so the machine needs no fonts, and the picture is the
//! same everywhere.

use std::convert::Infallible;
use std::io::Write;

use noto_sans_mono_bitmap::{get_raster, get_raster_width, FontWeight, RasterHeight};
use plotters_backend::text_anchor::{HPos, VPos};
use plotters_backend::{BackendColor, BackendCoord, BackendTextStyle, DrawingBackend, DrawingErrorKind};

type Result<T> = std::result::Result<T, DrawingErrorKind<Infallible>>;

/// White at first.
pub struct Canvas<'a> {
    pub width: u32,
    pub height: u32,
    /// Red, green, blue, row by row.
    pub pixels: &'a mut Vec<u8>,
}

impl<'a> Canvas<'a> {
    pub fn new(pixels: &'a mut Vec<u8>, (width, height): (u32, u32)) -> Canvas<'a> {
        pixels.clear();
        pixels.resize(3 * width as usize * height as usize, 255);
        Canvas { width, height, pixels }
    }
}

/// The letters that come next to this size in pixels.
fn letters(size: f64) -> RasterHeight {
    if size < 20.0 {
        RasterHeight::Size24
    } else {
        RasterHeight::Size32
    }
}

impl DrawingBackend for Canvas<'_> {
    type ErrorType = Infallible;

    fn get_size(&self) -> (u32, u32) {
        (self.width, self.height)
    }

    fn ensure_prepared(&mut self) -> Result<()> {
        Ok(())
    }

    fn present(&mut self) -> Result<()> {
        Ok(())
    }

    fn draw_pixel(&mut self, (x, y): BackendCoord, color: BackendColor) -> Result<()> {
        if x < 0 || y < 0 || x as u32 >= self.width || y as u32 >= self.height {
            return Ok(());
        }
        let at = 3 * (y as usize * self.width as usize + x as usize);
        let (r, g, b) = color.rgb;
        for (pixel, new) in self.pixels[at..at + 3].iter_mut().zip([r, g, b]) {
            let mixed = f64::from(*pixel) * (1.0 - color.alpha) + f64::from(new) * color.alpha;
            *pixel = mixed.round() as u8;
        }
        Ok(())
    }

    fn draw_text<S: BackendTextStyle>(&mut self, text: &str, style: &S, pos: BackendCoord) -> Result<()> {
        let size = letters(style.size());
        let (width, height) = self.estimate_text_size(text, style)?;
        let (width, height) = (width as i32, height as i32);
        let dx = match style.anchor().h_pos {
            HPos::Left => 0,
            HPos::Center => -width / 2,
            HPos::Right => -width,
        };
        let dy = match style.anchor().v_pos {
            VPos::Top => 0,
            VPos::Center => -height / 2,
            VPos::Bottom => -height,
        };
        let (turned, color) = (style.transform(), style.color());
        let step = get_raster_width(FontWeight::Regular, size) as i32;
        for (i, letter) in (0..).zip(text.chars()) {
            let Some(raster) = get_raster(letter, FontWeight::Regular, size) else { continue };
            for (y, row) in (0..).zip(raster.rows()) {
                for (x, &ink) in (0..).zip(row.iter()).filter(|(_, &ink)| ink > 0) {
                    let (x, y) = turned.transform(dx + i * step + x, dy + y);
                    let alpha = color.alpha * f64::from(ink) / 255.0;
                    self.draw_pixel((pos.0 + x, pos.1 + y), BackendColor { alpha, rgb: color.rgb })?;
                }
            }
        }
        Ok(())
    }

    fn estimate_text_size<S: BackendTextStyle>(&self, text: &str, style: &S) -> Result<(u32, u32)> {
        let size = letters(style.size());
        let width = get_raster_width(FontWeight::Regular, size);
        Ok(((width * text.chars().count()) as u32, size.val() as u32))
    }
}

/// Pixels as a PNG file.
pub fn encode(pixels: &[u8], (width, height): (u32, u32), into: impl Write) -> super::Result<()> {
    let mut encoder = png::Encoder::new(into, width, height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.write_header()?.write_image_data(pixels)?;
    Ok(())
}
