//! Line charts: trajectories and measured points.

use super::colour::Colour;
use super::frame::{Entry, Frame, Key, MARKER, X_TICKS, Y_TICKS};
use super::picture::{Picture, Point, Stroke};
use super::png::PlotError;
use super::ticks::{Ends, Ticks};
use super::{Axis, png, svg};

const LINE_WIDTH: f64 = 1.9;
const DASHES: &[f32] = &[7.0, 4.0];
const REFERENCE_DASHES: &[f32] = &[4.0, 3.0];
const REFERENCE_WIDTH: f64 = 1.4;
/// Pixels between the markers that tell lines apart.
const MARKER_GAP: f64 = 120.0;

/// A line chart.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Chart {
    /// The title.
    pub title: String,
    /// The axis along the bottom.
    pub x: Axis,
    /// The axis at the left.
    pub y: Axis,
    /// The data, drawn in this order.
    pub series: Vec<Series>,
    /// References for comparison.
    pub marks: Vec<Mark>,
}

/// A line of a chart.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    /// Its name in the legend.
    pub name: String,
    /// `#rrggbb` or `#rgb`; anything else takes the next of [`PALETTE`](super::PALETTE).
    pub colour: String,
    /// `(x, y)` in the units of the axes, from left to right. A pair that is not finite leaves a gap.
    pub points: Vec<(f64, f64)>,
    /// Whether the line is dashed.
    pub dashed: bool,
    /// A shaded band behind the line, as for confidence intervals; empty for none.
    pub band: Vec<BandPoint>,
    /// How points are joined.
    pub join: Join,
    /// Whether every point has a marker. If not, a chart of several lines has a few on each, to distinguish them
    /// without colour.
    pub markers: bool,
}

/// The band of a series at one place.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BandPoint {
    /// Where.
    pub x: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
}

/// How the points of a series are joined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Join {
    /// By straight lines.
    #[default]
    Straight,
    /// A value holds until the next point.
    Steps,
    /// Not at all: set `markers`.
    Apart,
}

impl Series {
    /// A plain line.
    pub fn line(name: &str, colour: &str, points: Vec<(f64, f64)>) -> Self {
        Self { name: name.to_owned(), colour: colour.to_owned(), points, ..Self::default() }
    }
}

/// Something that the data are compared with: a published value, the fair share, the time of a change.
#[derive(Clone, Debug, PartialEq)]
pub struct Mark {
    /// Its name in the legend; a mark without a name is not in it.
    pub name: String,
    /// As for a series; anything but a colour is grey.
    pub colour: String,
    /// The series.
    pub shape: MarkShape,
}

/// The drawing of a [`Mark`].
#[derive(Clone, Debug, PartialEq)]
pub enum MarkShape {
    /// A dashed line at this y.
    Horizontal(f64),
    /// A dashed line at this x.
    Vertical(f64),
    /// A dashed line that holds each y until the next x, the last to the end.
    Steps(Vec<(f64, f64)>),
    /// Diamonds.
    Points(Vec<(f64, f64)>),
}

/// The diamond.
const MARK_MARKER: usize = 3;

impl Mark {
    fn colour(&self) -> Colour {
        Colour::parse(&self.colour).unwrap_or(Colour::REFERENCE)
    }

    fn stroke(&self) -> Stroke {
        Stroke { colour: self.colour(), width: REFERENCE_WIDTH, dashes: REFERENCE_DASHES }
    }

    fn key(&self) -> Key {
        match self.shape {
            MarkShape::Points(_) => Key::Marker(MARK_MARKER, self.colour()),
            _ => Key::Line { stroke: self.stroke(), marker: None, band: None },
        }
    }

    fn values(&self) -> Vec<(Option<f64>, Option<f64>)> {
        match &self.shape {
            MarkShape::Horizontal(y) => vec![(None, Some(*y))],
            MarkShape::Vertical(x) => vec![(Some(*x), None)],
            MarkShape::Steps(points) | MarkShape::Points(points) => {
                points.iter().map(|(x, y)| (Some(*x), Some(*y))).collect()
            }
        }
    }
}

impl Chart {
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

    fn picture(&self) -> Picture {
        let data = || self.series.iter().flat_map(|series| series.points.iter().copied());
        let bands = || self.series.iter().flat_map(|series| &series.band);
        let marks: Vec<_> = self.marks.iter().flat_map(Mark::values).collect();
        let xs = data().map(|(x, _)| x).chain(bands().map(|b| b.x)).chain(marks.iter().filter_map(|(x, _)| *x));
        let ys = data().map(|(_, y)| y).chain(bands().flat_map(|b| [b.low, b.high]));
        let ys = ys.chain(marks.iter().filter_map(|(_, y)| *y));
        let x = Ticks::fit(&self.x, xs, Ends::Tight, X_TICKS);
        let y = Ticks::fit(&self.y, ys, Ends::Nice, Y_TICKS);
        let frame = Frame::new(&self.title, &self.legend(), &self.y, y);
        let mut plot = Plot { frame, x, several: self.series.len() > 1 };
        let labels: Vec<_> =
            plot.x.labels.iter().filter_map(|(at, label)| Some((plot.x.place(*at)?, label.clone()))).collect();
        plot.frame.bottom_axis(&labels, &self.x.title(), true);
        for (number, series) in self.series.iter().enumerate() {
            plot.band(&series.band, series.ink(number));
        }
        for (number, series) in self.series.iter().enumerate() {
            plot.series(series, number, self.series.len());
        }
        // Over the data: a reference that is met must still be seen.
        for mark in &self.marks {
            plot.mark_line(mark);
            plot.mark_points(mark);
        }
        if data().next().is_none() {
            plot.frame.say_empty();
        }
        plot.frame.picture
    }

    fn legend(&self) -> Vec<Entry<'_>> {
        let several = self.series.len() > 1;
        let series = self.series.iter().enumerate().map(|(number, series)| {
            let ink = series.ink(number);
            let marker = (several || series.markers).then_some((number, ink));
            let band = (!series.band.is_empty()).then_some(ink.faded(BAND_OPACITY));
            let line = Key::Line { stroke: series.stroke(number), marker, band };
            let key = if series.join == Join::Apart { Key::Marker(number, ink) } else { line };
            Entry { name: &series.name, key }
        });
        let marks = self.marks.iter().map(|mark| Entry { name: &mark.name, key: mark.key() });
        series.chain(marks).filter(|entry| !entry.name.is_empty()).collect()
    }
}

const BAND_OPACITY: f32 = 0.2;

impl Series {
    fn ink(&self, number: usize) -> Colour {
        Colour::parse_or(&self.colour, number)
    }

    fn stroke(&self, number: usize) -> Stroke {
        Stroke { dashes: if self.dashed { DASHES } else { &[] }, ..Stroke::solid(self.ink(number), LINE_WIDTH) }
    }
}

/// The inside of a line chart.
struct Plot {
    frame: Frame,
    x: Ticks,
    several: bool,
}

impl Plot {
    fn at(&self, (x, y): (f64, f64)) -> Option<Point> {
        let plot = self.frame.plot;
        Some((plot.left + self.x.place(x)? * plot.width(), self.frame.y(y)?))
    }

    /// The points in pixels, cut where one cannot be shown.
    fn runs(&self, points: &[(f64, f64)]) -> Vec<Vec<Point>> {
        let placed: Vec<Option<Point>> = points.iter().map(|point| self.at(*point)).collect();
        placed
            .split(Option::is_none)
            .filter(|run| !run.is_empty())
            .map(|run| run.iter().flatten().copied().collect())
            .collect()
    }

    fn band(&mut self, band: &[BandPoint], ink: Colour) {
        let low: Vec<_> = band.iter().filter_map(|b| Some((self.at((b.x, b.low))?, self.at((b.x, b.high))?))).collect();
        let mut points: Vec<Point> = low.iter().map(|(low, _)| *low).collect();
        points.extend(low.iter().rev().map(|(_, high)| *high));
        self.frame.picture.clipped_area(points, ink.faded(BAND_OPACITY));
    }

    fn series(&mut self, series: &Series, number: usize, of: usize) {
        let ink = series.ink(number);
        for run in self.runs(&series.points) {
            let drawn = match series.join {
                Join::Straight => run.clone(),
                Join::Steps => steps(&run),
                Join::Apart => Vec::new(),
            };
            if !drawn.is_empty() {
                self.frame.picture.clipped_line(thinned(&drawn), series.stroke(number));
            }
            if series.markers {
                self.markers(&run, number, ink, 0.0, 0.0);
            } else if self.several {
                self.markers(&run, number, ink, MARKER_GAP * (0.3 + number as f64 / of as f64), MARKER_GAP);
            }
        }
    }

    /// Markers on points of a run that are at least `gap` pixels apart, the first `first` pixels from the left end of
    /// the axis.
    fn markers(&mut self, run: &[Point], number: usize, ink: Colour, first: f64, gap: f64) {
        let plot = self.frame.plot;
        let mut next = plot.left + first;
        if let Some((start, _)) = run.first().filter(|(start, _)| gap > 0.0 && *start > next) {
            next += ((start - next) / gap).ceil() * gap;
        }
        for (x, y) in run.iter().copied() {
            let seen = x >= plot.left - 0.5 && x <= plot.right + 0.5 && y >= plot.top - 0.5 && y <= plot.bottom + 0.5;
            if gap > 0.0 && x < next {
                continue;
            }
            if gap > 0.0 {
                next += ((x - next) / gap).floor() * gap + gap;
            }
            if seen {
                self.frame.picture.marker(number, (x, y), MARKER, ink);
            }
        }
    }

    fn mark_line(&mut self, mark: &Mark) {
        let (ends, levels) = ((self.x.low, self.x.high), self.frame.plot);
        let points = match &mark.shape {
            MarkShape::Horizontal(y) => self.runs(&[(ends.0, *y), (ends.1, *y)]),
            MarkShape::Vertical(x) => {
                let x = self.x.place(*x).map(|place| levels.left + place * levels.width());
                x.map(|x| vec![(x, levels.bottom), (x, levels.top)]).into_iter().collect()
            }
            MarkShape::Steps(points) => {
                let end = points.last().map(|(_, y)| (ends.1, *y));
                let points: Vec<_> = points.iter().copied().chain(end).collect();
                self.runs(&points).iter().map(|run| steps(run)).collect()
            }
            MarkShape::Points(_) => Vec::new(),
        };
        for run in points {
            self.frame.picture.clipped_line(run, mark.stroke());
        }
    }

    fn mark_points(&mut self, mark: &Mark) {
        let MarkShape::Points(points) = &mark.shape else { return };
        for run in self.runs(points) {
            self.markers(&run, MARK_MARKER, mark.colour(), 0.0, 0.0);
        }
    }
}

/// The corners of steps through the points.
fn steps(points: &[Point]) -> Vec<Point> {
    let mut corners: Vec<Point> = points.first().copied().into_iter().collect();
    for pair in points.windows(2) {
        corners.extend([(pair[1].0, pair[0].1), pair[1]]);
    }
    corners
}

/// Leaves out points that cannot be seen: of all points in one half of a pixel's column, only the first, the lowest,
/// the highest and the last are kept.
fn thinned(points: &[Point]) -> Vec<Point> {
    let mut kept = Vec::new();
    for column in points.chunk_by(|a, b| (a.0 * 2.0).floor() == (b.0 * 2.0).floor()) {
        let by_height = |a: &(usize, &Point), b: &(usize, &Point)| a.1.1.total_cmp(&b.1.1);
        let lowest = column.iter().enumerate().min_by(by_height).map_or(0, |(index, _)| index);
        let highest = column.iter().enumerate().max_by(by_height).map_or(0, |(index, _)| index);
        let mut indices = [0, lowest.min(highest), lowest.max(highest), column.len() - 1].to_vec();
        indices.dedup();
        kept.extend(indices.into_iter().map(|index| column[index]));
    }
    kept
}

#[cfg(test)]
mod tests;
