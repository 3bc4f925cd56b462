//! Colours.

/// Colours that people with any kind of colour vision tell apart, dark enough for white paper (Okabe and Ito 2008,
/// without the yellow): for lines that have no colour of their own.
pub const PALETTE: [&str; 7] = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000"];

/// Red, green, blue, and opacity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Colour {
    pub(super) red: u8,
    pub(super) green: u8,
    pub(super) blue: u8,
    /// From 0, not seen, to 1.
    pub(super) opacity: f32,
}

impl Colour {
    pub(super) const WHITE: Self = Self::grey(255);
    /// Text and axes.
    pub(super) const INK: Self = Self::grey(34);
    /// For unmeasured values: references, published values.
    pub(super) const REFERENCE: Self = Self::grey(40);
    /// Grid lines.
    pub(super) const FAINT: Self = Self::grey(226);

    pub(super) const fn grey(level: u8) -> Self {
        Self { red: level, green: level, blue: level, opacity: 1.0 }
    }

    /// Reads `#rgb` or `#rrggbb`; any other text becomes the palette's colour `number`.
    pub(super) fn parse_or(text: &str, number: usize) -> Self {
        Self::parse(text).or_else(|| Self::parse(PALETTE[number % PALETTE.len()])).unwrap_or(Self::INK)
    }

    pub(super) fn parse(text: &str) -> Option<Self> {
        let hex = text.strip_prefix('#')?;
        let digits: Vec<u8> = hex.chars().map(|c| c.to_digit(16).map(|d| d as u8)).collect::<Option<_>>()?;
        let (red, green, blue) = match digits[..] {
            [r, g, b] => (r * 17, g * 17, b * 17),
            [r, s, g, h, b, c] => (r * 16 + s, g * 16 + h, b * 16 + c),
            _ => return None,
        };
        Some(Self { red, green, blue, opacity: 1.0 })
    }

    pub(super) const fn faded(self, opacity: f32) -> Self {
        Self { opacity, ..self }
    }

    pub(super) fn hex(self) -> String {
        format!("#{:02x}{:02x}{:02x}", self.red, self.green, self.blue)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parse_or_reads_hex_and_falls_back_to_the_palette() {
        assert_eq!(Colour::parse_or("#0072B2", 3).hex(), "#0072b2");
        assert_eq!(Colour::parse_or("#fa0", 3).hex(), "#ffaa00");
        for text in ["", "red", "#12", "#12345g", "#é1"] {
            assert_eq!(Colour::parse_or(text, 1).hex(), "#d55e00", "{text}");
        }
    }

    #[test]
    fn palette_is_readable() {
        assert!(PALETTE.iter().all(|text| Colour::parse(text).is_some()));
    }
}
