//! Seeded random streams. Each component has its own, so adding a component does not change another's numbers.

use rand_core::{RngCore, SeedableRng};
use rand_pcg::Pcg64Mcg;

use crate::{Probability, Span};

/// A reproducible stream of random numbers (PCG, the same on every machine).
#[derive(Clone, Debug)]
pub struct RandomStream(Pcg64Mcg);

impl RandomStream {
    /// The stream number `stream` of the run with seed `seed`.
    pub fn new(seed: u64, stream: u64) -> Self {
        // Distinct streams of one seed: the golden-ratio step keeps them far apart in seed space.
        Self(Pcg64Mcg::seed_from_u64(seed.wrapping_add(stream.wrapping_mul(0x9E37_79B9_7F4A_7C15))))
    }

    /// A uniformly distributed 64-bit number.
    pub fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A uniformly distributed number in `[0, 1)`.
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A uniformly distributed number in `[0, below)`; 0 if `below` is 0.
    pub fn below(&mut self, below: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(below)) >> 64) as u64
    }

    /// True with probability `p`.
    pub fn chance(&mut self, p: Probability) -> bool {
        self.unit() < p.get()
    }

    /// A span uniformly distributed in `[0, below)`.
    pub fn span_below(&mut self, below: Span) -> Span {
        Span::from_nanos(self.below(below.as_nanos()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_same_seed_same_numbers_and_streams_differ() {
        let take = |seed, stream| {
            let mut r = RandomStream::new(seed, stream);
            [r.next_u64(), r.next_u64(), r.next_u64()]
        };
        assert_eq!(take(7, 1), take(7, 1));
        assert_ne!(take(7, 1), take(7, 2));
        assert_ne!(take(7, 1), take(8, 1));
    }

    #[test]
    fn chance_comes_out_as_often_as_asked() {
        let mut r = RandomStream::new(1, 1);
        let p = Probability::new(0.3).unwrap();
        let hits = (0..100_000).filter(|_| r.chance(p)).count();
        // 100,000 draws: five standard deviations are 725.
        assert!((29_275..=30_725).contains(&hits), "{hits}");
    }
}
