//! What is asked of files, before it is known where it comes from.

use std::ops::Range;

use inhaul_base::ByteRange;
use inhaul_store::digest::GROUP_BYTES;
use inhaul_store::digest::proof::CHUNK_BYTES;

/// A range of a file that is wanted, and where it belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Asked {
    /// By its index in the manifest.
    pub(super) file: usize,
    pub range: ByteRange,
    /// The range of its read, ...
    pub(super) index: usize,
    /// ... and where in it this begins.
    pub(super) offset: u64,
}

impl Asked {
    /// The ranges of a read.
    pub(super) fn all_of(ranges: Vec<(usize, ByteRange)>) -> Vec<Self> {
        let asked = |(index, (file, range))| Self { file, range, index, offset: 0 };
        ranges.into_iter().enumerate().map(asked).collect()
    }

    /// Where in the range of its read a place of the file is, which lies in this.
    pub(super) fn offset_of(&self, place: u64) -> u64 {
        self.offset + (place - self.range.start)
    }

    /// A part of it.
    pub(super) fn part(&self, range: ByteRange) -> Self {
        Self { range, offset: self.offset_of(range.start), ..*self }
    }
}

/// What lies within one group.
pub(super) struct Piece {
    /// By its number in the file.
    pub(super) group: u64,
    /// The chunks of the group that it needs.
    pub(super) chunks: Range<u64>,
    /// Its bytes in the file.
    pub(super) range: ByteRange,
}

/// Cuts a range of a file into what lies within its groups: into nothing if it is empty.
pub(super) fn cut(range: ByteRange) -> impl Iterator<Item = Piece> {
    let groups = range.start / GROUP_BYTES..range.end.div_ceil(GROUP_BYTES);
    // An empty range within a group is in none of its chunks.
    let groups = if range.is_empty() { 0..0 } else { groups };
    groups.map(move |group| {
        let of_group = ByteRange::at(group * GROUP_BYTES, GROUP_BYTES);
        let range = range.intersection(of_group);
        let (from, to) = (range.start - of_group.start, range.end - of_group.start);
        Piece { group, chunks: from / CHUNK_BYTES..to.div_ceil(CHUNK_BYTES), range }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn pieces_are_the_range_in_chunks_and_none_is_empty(start in 0..3 * GROUP_BYTES, len in 0..3 * GROUP_BYTES, aligned: bool) {
            let start = if aligned { start / CHUNK_BYTES * CHUNK_BYTES } else { start };
            for range in [ByteRange::at(start, len), ByteRange::at(start, 0)] {
                let mut at = range.start;
                for piece in cut(range) {
                    prop_assert_eq!(piece.range.start, at);
                    prop_assert!(!piece.range.is_empty() && piece.chunks.start < piece.chunks.end);
                    let chunks = ByteRange::new(
                        piece.group * GROUP_BYTES + piece.chunks.start * CHUNK_BYTES,
                        piece.group * GROUP_BYTES + piece.chunks.end * CHUNK_BYTES,
                    );
                    prop_assert!(chunks.start <= at && piece.range.end <= chunks.end);
                    at = piece.range.end;
                }
                prop_assert_eq!(at, range.end);
            }
        }
    }
}
