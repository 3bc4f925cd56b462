//! Sequence numbers: 31 bits on the wire, 64 bits inside.

/// Sequence numbers on the wire are less than this.
pub const SEQUENCES: u32 = 1 << 31;

/// The sequence number of a data packet on the wire: 31 bits, and it wraps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sequence(u32);

impl Sequence {
    /// The low 31 bits of `n`: of a word that has another flag in its first bit, or of a number of 64 bits.
    pub const fn truncate(n: u64) -> Self {
        Self((n % SEQUENCES as u64) as u32)
    }

    /// The number that `word` is, if its first bit is 0.
    pub const fn parse(word: u32) -> Option<Self> {
        if word < SEQUENCES { Some(Self(word)) } else { None }
    }

    /// The number as it stands in a header.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// The number of 64 bits that is nearest to `near` and has these low 31 bits. `None` if that is below 0.
    pub const fn widen(self, near: u64) -> Option<u64> {
        // The distance, modulo 2^31, as a signed number of 31 bits.
        let ahead = (self.0.wrapping_sub(near as u32) << 1) as i32 >> 1;
        near.checked_add_signed(ahead as i64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn widen_finds_the_nearest_over_a_wrap() {
        let wrap = u64::from(SEQUENCES);
        assert_eq!(Sequence::truncate(3).widen(wrap - 2), Some(wrap + 3));
        assert_eq!(Sequence::truncate(wrap - 2).widen(wrap + 3), Some(wrap - 2));
        assert_eq!(Sequence::truncate(wrap - 1).widen(0), None, "before the first");
        assert_eq!(Sequence::parse(SEQUENCES), None);
    }

    proptest! {
        #[test]
        fn widen_undoes_truncate(near in (1u64 << 31)..(1 << 60), ahead in -(1i64 << 30)..(1 << 30)) {
            let number = near.checked_add_signed(ahead).unwrap();
            prop_assert_eq!(Sequence::truncate(number).widen(near), Some(number));
        }
    }
}
