//! Heat maps: a value for each pair of a row and a column, as a colour with its words.

use super::colour::Colour;
use super::picture::{Anchor, Picture, Rect};
use super::png::PlotError;
use super::text::Font;
use super::{png, svg};

/// Pixels.
const WIDTH: f64 = 760.0;
const MARGIN: f64 = 16.0;
const TITLE_SIZE: f64 = 17.0;
const TEXT_SIZE: f64 = 13.0;
/// Height of a line in a cell, and the space above and below all of them.
const LINE: f64 = 15.0;
const CELL_MARGIN: f64 = 8.0;
/// A cell's text has one of these sizes: the largest that fits.
const CELL_SIZES: [f64; 4] = [12.0, 11.0, 10.0, 9.0];

/// A heat map.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HeatMap {
    /// The title.
    pub title: String,
    /// The legend of colours and words, below the title.
    pub caption: String,
    /// The names of the rows, from top to bottom.
    pub rows: Vec<String>,
    /// The names of the columns, from left to right.
    pub columns: Vec<String>,
    /// For each row its cells; `None` leaves a place empty.
    pub cells: Vec<Vec<Option<Cell>>>,
}

/// A cell.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cell {
    /// From 0 (orange) over 0.5 (white) to 1 (blue).
    pub value: f64,
    /// Its text, a line each.
    pub words: Vec<String>,
}

impl HeatMap {
    /// The map as an SVG document: the same map, the same text.
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
        let font = Font::embedded();
        let mut picture = Picture { title: self.title.clone(), width: WIDTH, ..Picture::default() };
        let mut top = MARGIN;
        for (text, size) in [(&self.title, TITLE_SIZE), (&self.caption, TEXT_SIZE)] {
            for line in font.wrap(text, size, WIDTH - 2.0 * MARGIN) {
                picture.text(&line, (MARGIN, top + size * 0.8), size, Anchor::Start);
                top += size * 1.35;
            }
            top += 4.0;
        }
        let widest = |names: &[String]| names.iter().map(|name| font.width(name, TEXT_SIZE)).fold(0.0, f64::max);
        let left = MARGIN + widest(&self.rows) + 8.0;
        let width = (WIDTH - MARGIN - left) / self.columns.len().max(1) as f64;
        let upright = widest(&self.columns) <= width - 6.0;
        top += if upright { TEXT_SIZE * 1.4 } else { widest(&self.columns) + 8.0 };
        for (k, name) in self.columns.iter().enumerate() {
            let middle = left + (k as f64 + 0.5) * width;
            if upright {
                picture.text(name, (middle, top - 6.0), TEXT_SIZE, Anchor::Middle);
            } else {
                let length = font.width(name, TEXT_SIZE);
                picture.text_upwards(name, (middle + TEXT_SIZE * 0.36, top - 6.0 - length / 2.0), TEXT_SIZE);
            }
        }
        let lines = self.cells.iter().flatten().flatten().map(|cell| cell.words.len()).max().unwrap_or(1);
        let height = LINE * lines as f64 + CELL_MARGIN;
        for (name, cells) in self.rows.iter().zip(&self.cells) {
            let middle = top + height / 2.0;
            picture.text(name, (left - 8.0, middle + TEXT_SIZE * 0.36), TEXT_SIZE, Anchor::End);
            for (k, cell) in cells.iter().take(self.columns.len()).enumerate() {
                let Some(cell) = cell else { continue };
                let place = Rect {
                    left: left + k as f64 * width,
                    top,
                    right: left + (k + 1) as f64 * width,
                    bottom: top + height,
                };
                draw(&mut picture, &font, cell, place);
            }
            top += height;
        }
        picture.height = (top + MARGIN).ceil();
        picture
    }
}

fn draw(picture: &mut Picture, font: &Font, cell: &Cell, place: Rect) {
    let inner =
        Rect { left: place.left + 1.0, top: place.top + 1.0, right: place.right - 1.0, bottom: place.bottom - 1.0 };
    picture.area(inner.corners(), colour(cell.value));
    let fits = |size: &&f64| cell.words.iter().all(|line| font.width(line, **size) <= inner.width() - 4.0);
    let size = CELL_SIZES.iter().find(fits).copied().unwrap_or(CELL_SIZES[CELL_SIZES.len() - 1]);
    let lines = cell.words.len() as f64;
    let middle = (place.left + place.right) / 2.0;
    for (k, line) in cell.words.iter().enumerate() {
        let y = (place.top + place.bottom) / 2.0 + (k as f64 - (lines - 1.0) / 2.0) * size * 1.25 + size * 0.36;
        picture.text(line, (middle, y), size, Anchor::Middle);
    }
}

/// Orange, white, blue: the middle is light enough for dark words at both ends.
fn colour(value: f64) -> Colour {
    let value = value.clamp(0.0, 1.0);
    let (end, part) =
        if value < 0.5 { ((230.0, 140.0, 40.0), 1.0 - 2.0 * value) } else { ((86.0, 160.0, 220.0), 2.0 * value - 1.0) };
    let mix = |end: f64| (255.0 + (end - 255.0) * part).round() as u8;
    Colour { red: mix(end.0), green: mix(end.1), blue: mix(end.2), opacity: 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colour_goes_from_orange_over_white_to_blue() {
        assert_eq!([0.0, 0.5, 1.0, 7.0].map(|value| colour(value).hex()), ["#e68c28", "#ffffff", "#56a0dc", "#56a0dc"]);
    }

    #[test]
    fn picture_has_every_name_and_word_and_leaves_out_what_is_empty() {
        let cell = |value, word: &str| Some(Cell { value, words: vec![word.to_owned(), "0.1 %".to_owned()] });
        let map = HeatMap {
            title: "Pairs".to_owned(),
            caption: "share".to_owned(),
            rows: vec!["gtp".to_owned(), "udt".to_owned()],
            columns: vec![
                "gtp".to_owned(),
                "a very long name that does not fit above a cell of its own at all".to_owned(),
            ],
            cells: vec![vec![cell(0.5, "50 %"), cell(0.9, "90 %")], vec![None, cell(0.4, "40 %")]],
        };
        let picture = map.picture();
        let texts: Vec<&str> = picture.texts().collect();
        for text in ["Pairs", "share", "gtp", "udt", "50 %", "90 %", "40 %"] {
            assert!(texts.contains(&text), "{text}: {texts:?}");
        }
        assert_eq!(texts.iter().filter(|text| **text == "0.1 %").count(), 3);
        assert!(map.to_svg().starts_with("<svg") && map.to_png().is_ok());
        assert!(HeatMap::default().to_png().is_ok());
    }
}
