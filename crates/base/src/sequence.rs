//! Packet sequence numbers that wrap (serial number arithmetic, RFC 1982).

/// A 32-bit packet sequence number. Two numbers are compared by the shorter way round,
/// so they must be less than 2^31 packets apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Sequence(u32);

impl Sequence {
    /// The number `n`.
    pub const fn new(n: u32) -> Self {
        Self(n)
    }

    /// The number as it stands in a header.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// The number that is `n` packets later.
    #[must_use]
    pub const fn plus(self, n: u32) -> Self {
        Self(self.0.wrapping_add(n))
    }

    /// How many packets this number is ahead of `other`; negative when it is behind.
    pub const fn ahead_of(self, other: Self) -> i32 {
        self.0.wrapping_sub(other.0) as i32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ahead_of_counts_across_the_wrap() {
        let before = Sequence::new(u32::MAX - 1);
        let after = before.plus(5);
        assert_eq!(after.get(), 3);
        assert_eq!(after.ahead_of(before), 5);
        assert_eq!(before.ahead_of(after), -5);
    }
}
