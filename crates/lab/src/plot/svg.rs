//! Writes a picture as SVG.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::colour::Colour;
use super::picture::{Anchor, Picture, Point, Shape, Stroke, Text};
use super::text::{Font, Segment};

/// The picture as an SVG document. It uses no fonts, scripts or style sheets.
pub(super) fn write(picture: &Picture) -> String {
    let font = Font::embedded();
    let mut out = String::new();
    let (width, height) = (number(picture.width), number(picture.height));
    put(
        &mut out,
        &format!(
            r#"<svg xmlns="http://www.w3.org/2000/svg" role="img" width="{width}" height="{height}" viewBox="0 0 {width} {height}">"#
        ),
    );
    put(&mut out, &format!("<title>{}</title>", escape(&picture.title)));
    put(&mut out, "<defs>");
    let window = points(&picture.window.corners());
    put(&mut out, &format!(r#"<clipPath id="window"><polygon points="{window}"/></clipPath>"#));
    let outlines = font.outlines(picture.texts());
    for (glyph, outline) in &outlines {
        put(&mut out, &format!(r#"<path id="g{glyph}" d="{}"/>"#, path(outline)));
    }
    put(&mut out, "</defs>");
    put(&mut out, &format!(r#"<rect width="{width}" height="{height}" fill="{}"/>"#, Colour::WHITE.hex()));
    for shape in &picture.shapes {
        match shape {
            Shape::Line { points, stroke, clipped } => put(&mut out, &line(points, *stroke, *clipped)),
            Shape::Area { points, fill, clipped } => put(&mut out, &area(points, *fill, *clipped)),
            Shape::Text(text) => put(&mut out, &self::text(text, &font, &outlines)),
        }
    }
    put(&mut out, "</svg>");
    out
}

fn put(out: &mut String, line: &str) {
    out.push_str(line);
    out.push('\n');
}

fn line(through: &[Point], stroke: Stroke, clipped: bool) -> String {
    let Stroke { colour, width, dashes } = stroke;
    let mut line = format!(
        r#"<polyline points="{}" fill="none" stroke="{}" stroke-width="{}" stroke-linejoin="round""#,
        points(through),
        colour.hex(),
        number(width)
    );
    if !dashes.is_empty() {
        let dashes: Vec<String> = dashes.iter().map(|length| number(f64::from(*length))).collect();
        let _ = write!(line, r#" stroke-dasharray="{}""#, dashes.join(" "));
    }
    if colour.opacity < 1.0 {
        let _ = write!(line, r#" stroke-opacity="{}""#, number(f64::from(colour.opacity)));
    }
    line + end(clipped)
}

fn area(corners: &[Point], fill: Colour, clipped: bool) -> String {
    let mut area = format!(r#"<polygon points="{}" fill="{}""#, points(corners), fill.hex());
    if fill.opacity < 1.0 {
        let _ = write!(area, r#" fill-opacity="{}""#, number(f64::from(fill.opacity)));
    }
    area + end(clipped)
}

fn end(clipped: bool) -> &'static str {
    if clipped { r#" clip-path="url(#window)"/>"# } else { "/>" }
}

fn text(text: &Text, font: &Font, outlines: &BTreeMap<u16, Vec<Segment>>) -> String {
    let (glyphs, length) = font.shape(&text.text);
    let scale = text.size / font.units();
    let start = match text.anchor {
        Anchor::Start => 0.0,
        Anchor::Middle => -length / 2.0,
        Anchor::End => -length,
    };
    let (x, y) = text.at;
    let turn = if text.upwards { " rotate(-90)" } else { "" };
    let mut out = format!(
        r#"<g aria-label="{}" fill="{}" transform="translate({} {}){turn} scale({scale:.6} -{scale:.6})">"#,
        escape(&text.text),
        Colour::INK.hex(),
        number(x),
        number(y)
    );
    // A space has no outline.
    for (glyph, at) in glyphs.into_iter().filter(|(glyph, _)| outlines.contains_key(glyph)) {
        let _ = write!(out, r##"<use href="#g{glyph}" x="{}"/>"##, number(start + at));
    }
    out + "</g>"
}

fn path(outline: &[Segment]) -> String {
    let mut path = String::new();
    for segment in outline {
        let _ = match *segment {
            Segment::Move(x, y) => write!(path, "M{x} {y}"),
            Segment::Line(x, y) => write!(path, "L{x} {y}"),
            Segment::Quad(x1, y1, x, y) => write!(path, "Q{x1} {y1} {x} {y}"),
            Segment::Cubic(x1, y1, x2, y2, x, y) => write!(path, "C{x1} {y1} {x2} {y2} {x} {y}"),
            Segment::Close => write!(path, "Z"),
        };
    }
    path
}

fn points(points: &[Point]) -> String {
    let pairs: Vec<String> = points.iter().map(|(x, y)| format!("{},{}", number(*x), number(*y))).collect();
    pairs.join(" ")
}

/// Two decimals at most.
fn number(value: f64) -> String {
    let text = format!("{value:.2}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // XML 1.0 allows no other control characters, and neither of these two.
            '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_leaves_no_markup_and_no_control_characters() {
        assert_eq!(escape("a<b>&\"c'\u{0}\u{7f}\n\u{ffff}"), "a&lt;b&gt;&amp;&quot;c&#39;   \u{fffd}");
    }

    #[test]
    fn number_is_short() {
        let short: Vec<String> = [0.0, -0.001, 12.0, 0.126, -3.5].into_iter().map(number).collect();
        assert_eq!(short, ["0", "0", "12", "0.13", "-3.5"]);
    }
}
