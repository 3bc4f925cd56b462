//! Charts as in a paper: line charts, bar charts and heat maps, as SVG and as PNG of the same picture.
//!
//! A [`Chart`], [`BarChart`] or [`HeatMap`] is plain data. It is laid out into a list of lines, areas and texts, and that list is
//! written as SVG or drawn as PNG. Text is drawn from the outlines of a font that is part of the program (DejaVu
//! Sans), in both: a picture looks the same on a machine without any fonts, and the same chart gives the same SVG,
//! byte for byte.

mod bars;
mod colour;
mod frame;
mod heat;
mod lines;
mod picture;
mod png;
mod svg;
mod text;
mod ticks;

pub use bars::{Bar, BarChart, BarSeries};
pub use colour::PALETTE;
pub use heat::{Cell, HeatMap};
pub use lines::{BandPoint, Chart, Join, Mark, MarkShape, Series};
pub use png::PlotError;
pub(crate) use svg::escape;

/// The quantity of an axis.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Axis {
    /// The quantity, like `Goodput`.
    pub label: String,
    /// Its unit, like `Mbit/s`, written in parentheses behind the label; empty for a pure number.
    pub unit: String,
    /// How values are spaced.
    pub scale: Scale,
    /// The lowest and highest value shown; `None`: as the data need it.
    pub range: Option<(f64, f64)>,
}

/// How the values of an axis are spaced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scale {
    /// Evenly.
    #[default]
    Linear,
    /// By their logarithm; values that are not above zero are not shown.
    Log,
}

impl Axis {
    /// A linear axis that shows all data.
    pub fn new(label: &str, unit: &str) -> Self {
        Self { label: label.to_owned(), unit: unit.to_owned(), ..Self::default() }
    }

    /// A logarithmic axis that shows all data.
    pub fn log(label: &str, unit: &str) -> Self {
        Self { scale: Scale::Log, ..Self::new(label, unit) }
    }

    fn title(&self) -> String {
        if self.unit.is_empty() { self.label.clone() } else { format!("{} ({})", self.label, self.unit) }
    }
}
