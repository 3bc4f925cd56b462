//! Draws a picture as PNG.

use std::collections::BTreeMap;

use tiny_skia::{FillRule, LineCap, LineJoin, Mask, Paint, Path, PathBuilder, Pixmap, StrokeDash, Transform};

use super::colour::Colour;
use super::picture::{Anchor, Picture, Point, Shape, Stroke, Text};
use super::text::{Font, Segment};

/// Pixels of the image for each pixel of the picture: 760 become 1520, good for 13 cm in print at 300 dpi.
const SCALE: f32 = 2.0;

/// Why there is no PNG.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlotError {
    /// The image would be empty or too large.
    #[error("an image of {width} x {height} pixels cannot be drawn: give the chart fewer groups or a shorter legend")]
    Size {
        /// Pixels.
        width: u32,
        /// Pixels.
        height: u32,
    },
    /// The image could not be compressed.
    #[error("the image could not be written as PNG: {0}")]
    Encode(String),
}

/// The picture as a PNG image.
pub(super) fn draw(picture: &Picture) -> Result<Vec<u8>, PlotError> {
    let (width, height) = ((picture.width as f32 * SCALE) as u32, (picture.height as f32 * SCALE) as u32);
    let size = || PlotError::Size { width, height };
    if width > 1 << 14 || height > 1 << 14 {
        return Err(size());
    }
    let mut canvas = Canvas {
        pixels: Pixmap::new(width, height).ok_or_else(size)?,
        window: Mask::new(width, height).ok_or_else(size)?,
    };
    canvas.pixels.fill(colour(Colour::WHITE));
    if let Some(window) = polygon(&picture.window.corners()) {
        canvas.window.fill_path(&window, FillRule::Winding, false, scaled());
    }
    let font = Font::embedded();
    let outlines = font.outlines(picture.texts());
    for shape in &picture.shapes {
        match shape {
            Shape::Line { points, stroke, clipped } => canvas.line(points, *stroke, *clipped),
            Shape::Area { points, fill, clipped } => canvas.area(points, *fill, *clipped),
            Shape::Text(text) => canvas.text(text, &font, &outlines),
        }
    }
    canvas.pixels.encode_png().map_err(|error| PlotError::Encode(error.to_string()))
}

struct Canvas {
    pixels: Pixmap,
    /// Where clipped shapes are seen.
    window: Mask,
}

impl Canvas {
    fn line(&mut self, points: &[Point], stroke: Stroke, clipped: bool) {
        let Some(path) = open_line(points) else { return };
        let style = tiny_skia::Stroke {
            width: stroke.width as f32,
            line_cap: LineCap::Butt,
            line_join: LineJoin::Round,
            dash: StrokeDash::new(stroke.dashes.to_vec(), 0.0),
            ..tiny_skia::Stroke::default()
        };
        let window = clipped.then_some(&self.window);
        self.pixels.stroke_path(&path, &paint(stroke.colour), &style, scaled(), window);
    }

    fn area(&mut self, points: &[Point], fill: Colour, clipped: bool) {
        let Some(path) = polygon(points) else { return };
        let window = clipped.then_some(&self.window);
        self.pixels.fill_path(&path, &paint(fill), FillRule::Winding, scaled(), window);
    }

    fn text(&mut self, text: &Text, font: &Font, outlines: &BTreeMap<u16, Vec<Segment>>) {
        let (glyphs, length) = font.shape(&text.text);
        let start = match text.anchor {
            Anchor::Start => 0.0,
            Anchor::Middle => -length / 2.0,
            Anchor::End => -length,
        };
        let scale = (text.size / font.units()) as f32;
        let mut place = scaled().pre_translate(text.at.0 as f32, text.at.1 as f32);
        if text.upwards {
            place = place.pre_rotate(-90.0);
        }
        let place = place.pre_scale(scale, -scale);
        for (glyph, at) in glyphs {
            let Some(path) = outlines.get(&glyph).and_then(|outline| glyph_path(outline)) else { continue };
            let place = place.pre_translate((start + at) as f32, 0.0);
            self.pixels.fill_path(&path, &paint(Colour::INK), FillRule::Winding, place, None);
        }
    }
}

fn scaled() -> Transform {
    Transform::from_scale(SCALE, SCALE)
}

fn colour(colour: Colour) -> tiny_skia::Color {
    let opacity = (colour.opacity.clamp(0.0, 1.0) * 255.0).round() as u8;
    tiny_skia::Color::from_rgba8(colour.red, colour.green, colour.blue, opacity)
}

fn paint(fill: Colour) -> Paint<'static> {
    let mut paint = Paint { anti_alias: true, ..Paint::default() };
    paint.set_color(colour(fill));
    paint
}

fn builder(points: &[Point]) -> PathBuilder {
    let mut path = PathBuilder::new();
    let mut before = None;
    for point in points {
        // The rasteriser fails on slivers that are too thin to be seen.
        let (x, y) = (on_grid(point.0), on_grid(point.1));
        if before.replace((x, y)) == Some((x, y)) {
            continue;
        }
        if path.is_empty() { path.move_to(x, y) } else { path.line_to(x, y) }
    }
    path
}

/// A coordinate on the grid of sixteenths of a pixel, no further than a few pictures away.
fn on_grid(coordinate: f64) -> f32 {
    ((coordinate * 16.0).round() / 16.0).clamp(-65_536.0, 65_536.0) as f32
}

fn open_line(points: &[Point]) -> Option<Path> {
    builder(points).finish()
}

fn polygon(points: &[Point]) -> Option<Path> {
    let mut path = builder(points);
    path.close();
    path.finish()
}

fn glyph_path(outline: &[Segment]) -> Option<Path> {
    let mut path = PathBuilder::new();
    for segment in outline {
        match *segment {
            Segment::Move(x, y) => path.move_to(x, y),
            Segment::Line(x, y) => path.line_to(x, y),
            Segment::Quad(x1, y1, x, y) => path.quad_to(x1, y1, x, y),
            Segment::Cubic(x1, y1, x2, y2, x, y) => path.cubic_to(x1, y1, x2, y2, x, y),
            Segment::Close => path.close(),
        }
    }
    path.finish()
}
