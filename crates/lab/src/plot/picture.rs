//! A picture: lines, areas and texts on white, in drawing order.

use super::colour::Colour;

/// A place, in pixels from the upper left corner.
pub(super) type Point = (f64, f64);

/// What both writers draw.
#[derive(Clone, Debug, Default)]
pub(super) struct Picture {
    pub(super) title: String,
    pub(super) width: f64,
    pub(super) height: f64,
    /// Where clipped shapes are seen.
    pub(super) window: Rect,
    pub(super) shapes: Vec<Shape>,
}

/// A rectangle, in pixels.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Rect {
    pub(super) left: f64,
    pub(super) top: f64,
    pub(super) right: f64,
    pub(super) bottom: f64,
}

impl Rect {
    pub(super) fn width(self) -> f64 {
        self.right - self.left
    }

    pub(super) fn height(self) -> f64 {
        self.bottom - self.top
    }

    pub(super) fn corners(self) -> Vec<Point> {
        vec![(self.left, self.top), (self.right, self.top), (self.right, self.bottom), (self.left, self.bottom)]
    }
}

/// Something to draw.
#[derive(Clone, Debug)]
pub(super) enum Shape {
    /// A line through points.
    Line { points: Vec<Point>, stroke: Stroke, clipped: bool },
    /// A filled polygon.
    Area { points: Vec<Point>, fill: Colour, clipped: bool },
    /// A line of text.
    Text(Text),
}

/// How a line is drawn.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stroke {
    pub(super) colour: Colour,
    pub(super) width: f64,
    /// Lengths of dashes and gaps; empty for a line without gaps.
    pub(super) dashes: &'static [f32],
}

impl Stroke {
    pub(super) const fn solid(colour: Colour, width: f64) -> Self {
        Self { colour, width, dashes: &[] }
    }
}

/// A line of text.
#[derive(Clone, Debug)]
pub(super) struct Text {
    pub(super) text: String,
    /// Where the baseline is: its start, middle or end as anchored.
    pub(super) at: Point,
    /// Pixels an em.
    pub(super) size: f64,
    pub(super) anchor: Anchor,
    /// Whether it runs upwards.
    pub(super) upwards: bool,
}

/// Which part of a text stands at its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

impl Picture {
    pub(super) fn line(&mut self, points: Vec<Point>, stroke: Stroke) {
        self.shapes.push(Shape::Line { points, stroke, clipped: false });
    }

    pub(super) fn clipped_line(&mut self, points: Vec<Point>, stroke: Stroke) {
        self.shapes.push(Shape::Line { points, stroke, clipped: true });
    }

    pub(super) fn area(&mut self, points: Vec<Point>, fill: Colour) {
        self.shapes.push(Shape::Area { points, fill, clipped: false });
    }

    pub(super) fn clipped_area(&mut self, points: Vec<Point>, fill: Colour) {
        self.shapes.push(Shape::Area { points, fill, clipped: true });
    }

    pub(super) fn text(&mut self, text: &str, at: Point, size: f64, anchor: Anchor) {
        self.shapes.push(Shape::Text(Text { text: text.to_owned(), at, size, anchor, upwards: false }));
    }

    pub(super) fn text_upwards(&mut self, text: &str, at: Point, size: f64) {
        self.shapes.push(Shape::Text(Text { text: text.to_owned(), at, size, anchor: Anchor::Middle, upwards: true }));
    }

    /// Every text of the picture.
    pub(super) fn texts(&self) -> impl Iterator<Item = &str> {
        self.shapes.iter().filter_map(|shape| if let Shape::Text(text) = shape { Some(&*text.text) } else { None })
    }

    /// A marker of series number `number`: a shape of its own on a white rim, to distinguish lines without colour.
    pub(super) fn marker(&mut self, number: usize, (x, y): Point, radius: f64, fill: Colour) {
        for (radius, fill) in [(radius + 1.2, Colour::WHITE), (radius, fill)] {
            let points = outline(number).iter().map(|(dx, dy)| (x + dx * radius, y + dy * radius)).collect();
            self.area(points, fill);
        }
    }
}

/// Circle, square, triangle, diamond, triangle upside down, hexagon; about the same area each.
fn outline(number: usize) -> Vec<Point> {
    match number % 6 {
        0 => regular(20, 0.0, 1.0),
        1 => regular(4, 0.125, 1.25),
        2 => regular(3, -0.25, 1.4),
        3 => regular(4, 0.0, 1.35),
        4 => regular(3, 0.25, 1.4),
        _ => regular(6, 0.0, 1.1),
    }
}

/// A regular polygon of radius `radius` whose first corner lies `turn` turns clockwise from the right.
fn regular(corners: u32, turn: f64, radius: f64) -> Vec<Point> {
    let corner = |k| (f64::from(k) / f64::from(corners) + turn) * std::f64::consts::TAU;
    (0..corners).map(|k| (radius * corner(k).cos(), radius * corner(k).sin())).collect()
}
