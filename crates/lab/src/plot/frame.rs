//! The frame around the data: title, legend, grid, axes.

use super::Axis;
use super::colour::Colour;
use super::picture::{Anchor, Picture, Point, Rect, Stroke};
use super::text::Font;
use super::ticks::Ticks;

/// Pixels. A figure 13 cm wide in print has its ticks written in 6 point.
const WIDTH: f64 = 760.0;
const PLOT_HEIGHT: f64 = 340.0;
const MARGIN: f64 = 16.0;
const TITLE_SIZE: f64 = 17.0;
const TEXT_SIZE: f64 = 14.0;
const TICK_SIZE: f64 = 13.0;
const TICK_LENGTH: f64 = 5.0;
/// A line of the legend: from one to the next, the key, and the space behind an entry.
const ROW: f64 = 21.0;
const KEY: f64 = 32.0;
const SPACE: f64 = 22.0;
/// A label below the axis has at least this much room.
const LABEL_MIN: f64 = 40.0;

/// How far apart ticks are along the axes, about, in pixels.
pub(super) const X_TICK: f64 = 85.0;
pub(super) const Y_TICK: f64 = 62.0;
pub(super) const Y_TICKS: f64 = PLOT_HEIGHT / Y_TICK;
pub(super) const X_TICKS: f64 = 650.0 / X_TICK;

/// Radius of the markers.
pub(super) const MARKER: f64 = 4.0;

/// An entry of the legend.
pub(super) struct Entry<'a> {
    pub(super) name: &'a str,
    pub(super) key: Key,
}

/// The symbol before the name.
pub(super) enum Key {
    /// A line, with the marker of a series.
    Line { stroke: Stroke, marker: Option<(usize, Colour)>, band: Option<Colour> },
    /// A bar.
    Swatch(Colour),
    /// A marker alone.
    Marker(usize, Colour),
}

/// A picture whose surroundings are laid out, and where the data go.
pub(super) struct Frame {
    pub(super) picture: Picture,
    pub(super) plot: Rect,
    y: Ticks,
    font: Font,
}

impl Frame {
    /// Lays out title and legend, and the axis of values with its grid.
    pub(super) fn new(title: &str, legend: &[Entry<'_>], y_axis: &Axis, y: Ticks) -> Self {
        let font = Font::embedded();
        let widest = y.labels.iter().map(|(_, label)| font.width(label, TICK_SIZE)).fold(0.0, f64::max);
        let plot = Rect {
            left: MARGIN + TEXT_SIZE + 10.0 + widest + TICK_LENGTH + 4.0,
            right: WIDTH - 24.0,
            ..Rect::default()
        };
        let picture = Picture { title: title.to_owned(), width: WIDTH, ..Picture::default() };
        let mut frame = Self { picture, plot, y, font };
        let mut top = MARGIN;
        for line in frame.font.wrap(title, TITLE_SIZE, plot.width()) {
            frame.picture.text(&line, (plot.left, top + TITLE_SIZE * 0.8), TITLE_SIZE, Anchor::Start);
            top += TITLE_SIZE * 1.35;
        }
        top = frame.legend(legend, top);
        frame.plot.top = top + 8.0;
        frame.plot.bottom = frame.plot.top + PLOT_HEIGHT;
        frame.picture.window = frame.plot;
        frame.value_axis(y_axis);
        frame
    }

    /// Where a value lies on the axis of values, in pixels from the top.
    pub(super) fn y(&self, value: f64) -> Option<f64> {
        self.y.place(value).map(|place| self.plot.bottom - place * self.plot.height())
    }

    /// The line on which bars stand: zero, or the lowest value of a logarithmic axis.
    pub(super) fn base(&self) -> f64 {
        self.y(0.0).unwrap_or(self.plot.bottom)
    }

    fn legend(&mut self, entries: &[Entry<'_>], mut top: f64) -> f64 {
        let mut x = self.plot.left;
        for (number, entry) in entries.iter().enumerate() {
            let width = KEY + 7.0 + self.font.width(entry.name, TICK_SIZE);
            if number == 0 || x + width > self.plot.right {
                top += if number == 0 { 4.0 } else { ROW };
                x = self.plot.left;
            }
            let middle = top + ROW / 2.0;
            self.key(&entry.key, (x, middle));
            self.picture.text(entry.name, (x + KEY + 7.0, middle + TICK_SIZE * 0.36), TICK_SIZE, Anchor::Start);
            x += width + SPACE;
        }
        if entries.is_empty() { top } else { top + ROW }
    }

    fn key(&mut self, key: &Key, (x, y): Point) {
        let swatch = |half: f64| Rect { left: x, top: y - half, right: x + KEY, bottom: y + half }.corners();
        match key {
            Key::Line { stroke, marker, band } => {
                if let Some(band) = band {
                    self.picture.area(swatch(6.0), *band);
                }
                self.picture.line(vec![(x, y), (x + KEY, y)], *stroke);
                if let Some((number, colour)) = marker {
                    self.picture.marker(*number, (x + KEY / 2.0, y), MARKER, *colour);
                }
            }
            Key::Swatch(colour) => self.picture.area(swatch(6.0), *colour),
            Key::Marker(number, colour) => self.picture.marker(*number, (x + KEY / 2.0, y), MARKER, *colour),
        }
    }

    fn value_axis(&mut self, axis: &Axis) {
        let plot = self.plot;
        for (value, label) in std::mem::take(&mut self.y.labels) {
            let Some(y) = self.y(value) else { continue };
            self.picture.line(vec![(plot.left, y), (plot.right, y)], Stroke::solid(Colour::FAINT, 1.0));
            self.picture.line(vec![(plot.left - TICK_LENGTH, y), (plot.left, y)], Stroke::solid(Colour::INK, 1.0));
            let at = (plot.left - TICK_LENGTH - 4.0, y + TICK_SIZE * 0.36);
            self.picture.text(&label, at, TICK_SIZE, Anchor::End);
        }
        let middle = (plot.top + plot.bottom) / 2.0;
        self.picture.text_upwards(&axis.title(), (MARGIN + TEXT_SIZE * 0.8, middle), TEXT_SIZE);
    }

    /// Draws the axis along the bottom: ticks (with a grid line each, if `grid`) at places from 0 to 1, and its title.
    /// The picture is then as high as it has to be.
    pub(super) fn bottom_axis(&mut self, labels: &[(f64, String)], title: &str, grid: bool) {
        let plot = self.plot;
        let room = plot.width() / labels.len().max(1) as f64 - 6.0;
        // Words that are wider than their place would run into their neighbours: then labels are written upwards.
        let words = labels.iter().flat_map(|(_, label)| label.split_whitespace());
        let upright = words.map(|word| self.font.width(word, TICK_SIZE)).fold(0.0, f64::max) <= room.max(LABEL_MIN);
        let mut height = TICK_SIZE * 1.2;
        for (place, label) in labels {
            let x = plot.left + place * plot.width();
            let below = plot.bottom + TICK_LENGTH;
            if grid {
                self.picture.line(vec![(x, plot.top), (x, plot.bottom)], Stroke::solid(Colour::FAINT, 1.0));
                self.picture.line(vec![(x, plot.bottom), (x, below)], Stroke::solid(Colour::INK, 1.0));
            }
            if !upright {
                let length = self.font.width(label, TICK_SIZE);
                let middle = below + TICK_SIZE * 0.4 + length / 2.0;
                self.picture.text_upwards(label, (x + TICK_SIZE * 0.36, middle), TICK_SIZE);
                height = height.max(length + TICK_SIZE * 0.4);
                continue;
            }
            let lines = self.font.wrap(label, TICK_SIZE, room.max(LABEL_MIN));
            for (number, line) in lines.iter().enumerate() {
                let y = below + TICK_SIZE * (1.1 + 1.2 * number as f64);
                self.picture.text(line, (x, y), TICK_SIZE, Anchor::Middle);
            }
            height = height.max(TICK_SIZE * 1.2 * lines.len() as f64);
        }
        let mut bottom = plot.bottom + TICK_LENGTH + TICK_SIZE * 0.3 + height;
        if !title.is_empty() {
            let at = ((plot.left + plot.right) / 2.0, bottom + TEXT_SIZE * 1.2);
            self.picture.text(title, at, TEXT_SIZE, Anchor::Middle);
            bottom += TEXT_SIZE * 1.5;
        }
        self.picture.height = (bottom + MARGIN).ceil();
        let Rect { left, top, right, bottom } = self.plot;
        self.picture.line(vec![(left, top), (left, bottom), (right, bottom)], Stroke::solid(Colour::INK, 1.2));
    }

    /// Says in the middle that there is nothing to see.
    pub(super) fn say_empty(&mut self) {
        let Rect { left, top, right, bottom } = self.plot;
        self.picture.text("no data", ((left + right) / 2.0, (top + bottom) / 2.0), TEXT_SIZE, Anchor::Middle);
    }
}
