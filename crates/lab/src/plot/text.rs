//! Text from the outlines of a font that is part of the program.

use std::collections::BTreeMap;

use ttf_parser::{Face, GlyphId, OutlineBuilder};

/// The font: DejaVu Sans, free to embed (Bitstream Vera licence).
pub(super) struct Font {
    /// `None` if the embedded font could not be read: text is then left out. A test sees to it that it can.
    face: Option<Face<'static>>,
}

/// A piece of a glyph's outline; y grows upwards.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Segment {
    Move(f32, f32),
    Line(f32, f32),
    Quad(f32, f32, f32, f32),
    Cubic(f32, f32, f32, f32, f32, f32),
    Close,
}

/// A glyph and where it begins, in font units from the start of the line.
pub(super) type Placed = (u16, f64);

impl Font {
    pub(super) fn embedded() -> Self {
        Self { face: Face::parse(dejavu::sans::regular(), 0).ok() }
    }

    /// Font units an em.
    pub(super) fn units(&self) -> f64 {
        self.face.as_ref().map_or(1000.0, |face| f64::from(face.units_per_em()))
    }

    /// The glyphs of a line of text, and its length in font units.
    pub(super) fn shape(&self, text: &str) -> (Vec<Placed>, f64) {
        let mut glyphs = Vec::new();
        let mut x = 0.0;
        let Some(face) = &self.face else { return (glyphs, x) };
        for character in text.chars() {
            let glyph = face.glyph_index(character).unwrap_or_default();
            glyphs.push((glyph.0, x));
            x += f64::from(face.glyph_hor_advance(glyph).unwrap_or_default());
        }
        (glyphs, x)
    }

    /// How long a line of text is in pixels at `size` pixels an em.
    pub(super) fn width(&self, text: &str, size: f64) -> f64 {
        self.shape(text).1 * size / self.units()
    }

    /// Breaks text at spaces so that lines are at most `width` pixels long, where words allow it: as few lines as can
    /// be, and those about equally long.
    pub(super) fn wrap(&self, text: &str, size: f64, width: f64) -> Vec<String> {
        let mut lines = self.wrap_greedily(text, size, width);
        for share in (50..100).rev() {
            let narrower = self.wrap_greedily(text, size, width * f64::from(share) / 100.0);
            if narrower.len() > lines.len() || narrower.iter().any(|line| self.width(line, size) > width) {
                break;
            }
            lines = narrower;
        }
        lines
    }

    fn wrap_greedily(&self, text: &str, size: f64, width: f64) -> Vec<String> {
        let mut lines: Vec<String> = Vec::new();
        for word in text.split_whitespace() {
            match lines.last_mut() {
                Some(line) if self.width(&format!("{line} {word}"), size) <= width => {
                    line.push(' ');
                    line.push_str(word);
                }
                _ => lines.push(word.to_owned()),
            }
        }
        lines
    }

    fn outline(&self, glyph: u16) -> Vec<Segment> {
        let mut outline = Outline(Vec::new());
        if let Some(face) = &self.face {
            // A glyph without an outline is a space.
            let _ = face.outline_glyph(GlyphId(glyph), &mut outline);
        }
        outline.0
    }

    /// The outlines of all glyphs that occur in the texts.
    pub(super) fn outlines<'a>(&self, texts: impl Iterator<Item = &'a str>) -> BTreeMap<u16, Vec<Segment>> {
        let glyphs = texts.flat_map(|text| self.shape(text).0).map(|(glyph, _)| glyph);
        glyphs.map(|glyph| (glyph, self.outline(glyph))).filter(|(_, outline)| !outline.is_empty()).collect()
    }
}

struct Outline(Vec<Segment>);

impl OutlineBuilder for Outline {
    fn move_to(&mut self, x: f32, y: f32) {
        self.0.push(Segment::Move(x, y));
    }

    fn line_to(&mut self, x: f32, y: f32) {
        self.0.push(Segment::Line(x, y));
    }

    fn quad_to(&mut self, x1: f32, y1: f32, x: f32, y: f32) {
        self.0.push(Segment::Quad(x1, y1, x, y));
    }

    fn curve_to(&mut self, x1: f32, y1: f32, x2: f32, y2: f32, x: f32, y: f32) {
        self.0.push(Segment::Cubic(x1, y1, x2, y2, x, y));
    }

    fn close(&mut self) {
        self.0.push(Segment::Close);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn embedded_has_what_charts_write() {
        let font = Font::embedded();
        let text = "Goodput (Mbit/s) 0123456789.\u{2212}µ×±äß⁰¹²³⁴⁵⁶⁷⁸⁹⁻";
        let missing: Vec<char> = text.chars().filter(|c| font.shape(&c.to_string()).0 == [(0, 0.0)]).collect();
        assert_eq!(missing, []);
        assert!(font.outlines(["A b"].into_iter()).len() == 2);
        assert!((40.0..60.0).contains(&font.width("Goodput", 12.0)), "{}", font.width("Goodput", 12.0));
    }

    #[test]
    fn wrap_breaks_at_spaces_only() {
        let font = Font::embedded();
        assert_eq!(font.wrap("equal shares  of alonglongword", 10.0, 70.0), ["equal shares", "of", "alonglongword"]);
        assert_eq!(font.wrap("one two three four", 10.0, 90.0), ["one two", "three four"]);
        assert_eq!(font.wrap("", 10.0, 70.0), [""; 0]);
    }
}
