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
    pub(super) range: ByteRange,
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

/// Cuts a range of a file into what lies within its groups.
pub(super) fn cut(range: ByteRange) -> impl Iterator<Item = Piece> {
    let groups = range.start / GROUP_BYTES..range.end.div_ceil(GROUP_BYTES);
    groups.map(move |group| {
        let of_group = ByteRange::at(group * GROUP_BYTES, GROUP_BYTES);
        let range = range.intersection(of_group);
        let (from, to) = (range.start - of_group.start, range.end - of_group.start);
        Piece { group, chunks: from / CHUNK_BYTES..to.div_ceil(CHUNK_BYTES), range }
    })
}
