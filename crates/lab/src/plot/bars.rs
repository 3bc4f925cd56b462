//! Bar charts: a value for each of several groups and series.

use super::colour::Colour;
use super::frame::{Entry, Frame, Key, MARKER, Y_TICKS};
use super::picture::{Picture, Rect, Stroke};
use super::png::PlotError;
use super::ticks::{Ends, Ticks};
use super::{Axis, png, svg};

/// Share of a group's place that its bars take.
const FILLED: f64 = 0.78;
/// A bar is not wider than this, in pixels.
const BAR_MAX: f64 = 70.0;
/// The diamond.
const PUBLISHED_MARKER: usize = 3;

/// A bar chart.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BarChart {
    /// The title.
    pub title: String,
    /// The label of the groups, below them; may be empty.
    pub groups_label: String,
    /// The axis at the left.
    pub y: Axis,
    /// The names of the groups, from left to right.
    pub groups: Vec<String>,
    /// The bars of one colour, one for each group.
    pub series: Vec<BarSeries>,
}

/// The bars of one colour.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BarSeries {
    /// Its name in the legend.
    pub name: String,
    /// `#rrggbb` or `#rgb`; anything else takes the next of [`PALETTE`](super::PALETTE).
    pub colour: String,
    /// One for each group, in order; `None` leaves its place empty.
    pub bars: Vec<Option<Bar>>,
}

/// A bar.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Bar {
    /// Its height, in the unit of the axis.
    pub value: f64,
    /// The ends of an error bar.
    pub error: Option<(f64, f64)>,
    /// The published value, drawn as a diamond.
    pub published: Option<f64>,
}

impl BarChart {
    /// The chart as an SVG document: the same chart, the same text.
    pub fn to_svg(&self) -> String {
        svg::write(&self.picture())
    }

    /// The same picture as PNG, two pixels for each of the SVG.
    ///
    /// # Errors
    /// When the image is too large to be drawn.
    pub fn to_png(&self) -> Result<Vec<u8>, PlotError> {
        png::draw(&self.picture())
    }

    fn bars(&self) -> impl Iterator<Item = &Bar> {
        self.series.iter().flat_map(|series| series.bars.iter().take(self.groups.len()).flatten())
    }

    fn picture(&self) -> Picture {
        let values = self.bars().flat_map(|bar| {
            let (low, high) = bar.error.unwrap_or((bar.value, bar.value));
            [bar.value, low, high, bar.published.unwrap_or(bar.value)]
        });
        let y = Ticks::fit(&self.y, values, Ends::FromZero, Y_TICKS);
        let mut frame = Frame::new(&self.title, &self.legend(), &self.y, y);
        let groups = self.groups.len().max(1) as f64;
        let place = |group: usize| (group as f64 + 0.5) / groups;
        let labels: Vec<_> = self.groups.iter().enumerate().map(|(group, name)| (place(group), name.clone())).collect();
        frame.bottom_axis(&labels, &self.groups_label, false);
        let series = self.series.len().max(1) as f64;
        let width = (frame.plot.width() / groups * FILLED / series).min(BAR_MAX);
        for group in 0..self.groups.len() {
            let left = frame.plot.left + place(group) * frame.plot.width() - width * series / 2.0;
            for (number, series) in self.series.iter().enumerate() {
                let Some(Some(bar)) = series.bars.get(group) else { continue };
                let colour = Colour::parse_or(&series.colour, number);
                draw(&mut frame, bar, left + number as f64 * width, width, colour);
            }
        }
        if self.bars().next().is_none() {
            frame.say_empty();
        }
        let (left, right, base) = (frame.plot.left, frame.plot.right, frame.base());
        frame.picture.line(vec![(left, base), (right, base)], Stroke::solid(Colour::INK, 1.2));
        frame.picture
    }

    fn legend(&self) -> Vec<Entry<'_>> {
        let series = self.series.iter().enumerate();
        let series = series.map(|(number, series)| Entry {
            name: &series.name,
            key: Key::Swatch(Colour::parse_or(&series.colour, number)),
        });
        let published = self.bars().any(|bar| bar.published.is_some());
        let published =
            published.then_some(Entry { name: "published", key: Key::Marker(PUBLISHED_MARKER, Colour::INK) });
        series.chain(published).filter(|entry| !entry.name.is_empty()).collect()
    }
}

fn draw(frame: &mut Frame, bar: &Bar, left: f64, width: f64, colour: Colour) {
    let gap = (width * 0.08).min(2.0);
    let middle = left + width / 2.0;
    if let Some(top) = frame.y(bar.value) {
        let body = Rect { left: left + gap, top, right: left + width - gap, bottom: frame.base() };
        frame.picture.clipped_area(body.corners(), colour);
    }
    let error = bar.error.and_then(|(low, high)| Some((frame.y(low)?, frame.y(high)?)));
    if let Some((low, high)) = error {
        let cap = (width * 0.2).min(7.0);
        // Dark on a white rim, to be seen on a bar of any colour.
        for stroke in [Stroke::solid(Colour::WHITE, 3.2), Stroke::solid(Colour::INK, 1.5)] {
            frame.picture.clipped_line(vec![(middle, low), (middle, high)], stroke);
            frame.picture.clipped_line(vec![(middle - cap, low), (middle + cap, low)], stroke);
            frame.picture.clipped_line(vec![(middle - cap, high), (middle + cap, high)], stroke);
        }
    }
    if let Some(y) = bar.published.and_then(|value| frame.y(value)) {
        frame.picture.marker(PUBLISHED_MARKER, (middle, y), MARKER, Colour::INK);
    }
}
