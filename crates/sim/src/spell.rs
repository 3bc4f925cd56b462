//! Lengths of time that are fixed or random.

use inhaul_base::{RandomStream, Span};

/// A length of time that is always the same or drawn anew each time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spell {
    /// Always so long.
    Fixed(Span),
    /// Exponentially distributed with this mean.
    Exponential(Span),
}

impl Spell {
    /// Its length, or the mean of it.
    pub fn mean(self) -> Span {
        match self {
            Self::Fixed(span) | Self::Exponential(span) => span,
        }
    }

    /// The next length.
    pub fn draw(self, random: &mut RandomStream) -> Span {
        match self {
            Self::Fixed(span) => span,
            Self::Exponential(mean) => mean.mul_f64(exponential(random)),
        }
    }
}

/// An exponentially distributed number with mean 1, by comparisons alone (von Neumann 1951): a logarithm is not the
/// same to the last bit on every machine.
fn exponential(random: &mut RandomStream) -> f64 {
    let mut whole = 0.0;
    loop {
        let first = random.unit();
        let mut last = first;
        let mut run = 1u32;
        loop {
            let next = random.unit();
            if next >= last {
                break;
            }
            last = next;
            run += 1;
        }
        // A descending run of odd length is accepted.
        if run % 2 == 1 {
            return whole + first;
        }
        whole += 1.0;
    }
}
