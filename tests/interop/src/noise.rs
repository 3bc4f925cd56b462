//! A stream of bytes that both sides of a transfer can make, so that each byte is compared and none is stored.

/// Words of xorshift64, little-endian. `udt4/peer.cc` makes the same.
#[derive(Clone, Debug)]
pub struct Noise {
    state: u64,
}

impl Noise {
    /// The stream of this seed.
    pub fn new(seed: u64) -> Self {
        Self { state: seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1 }
    }

    /// Fills `piece` with the next bytes. Its length should be a multiple of 8: the rest of a word is lost.
    pub fn fill(&mut self, piece: &mut [u8]) {
        for chunk in piece.chunks_mut(8) {
            self.state ^= self.state << 13;
            self.state ^= self.state >> 7;
            self.state ^= self.state << 17;
            chunk.copy_from_slice(&self.state.to_le_bytes()[..chunk.len()]);
        }
    }
}
