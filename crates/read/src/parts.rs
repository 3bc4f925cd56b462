//! How a read is cut into parts: each lies within one group, begins and ends with chunks, and is fetched and proven by
//! itself.

use std::ops::Range;
use std::sync::Arc;

use inhaul_base::ByteRange;
use inhaul_store::digest::proof::chunk_bytes;
use inhaul_store::digest::{GROUP_BYTES, group_range};

use super::asked::{Asked, Piece, cut};
use super::delivery::Delivery;
use super::order::Ticket;
use inhaul_session::session::frame::PartOf;
use inhaul_session::session::groups::Groups;

/// Who wants bytes of a part.
#[derive(Clone)]
pub(super) struct Taker {
    pub(super) ticket: Ticket,
    pub(super) delivery: Arc<dyn Delivery>,
    /// The range of its read, ...
    pub(super) index: usize,
    /// ... where in it the bytes belong, ...
    pub(super) offset: u64,
    /// ... and where in the part they lie.
    pub(super) bytes: Range<usize>,
}

impl Taker {
    /// Gives it its bytes.
    pub(super) fn deliver(&self, part: &[u8]) {
        self.delivery.write(self.index, self.offset, &part[self.bytes.clone()]);
    }
}

/// A part that is wanted.
#[derive(Clone)]
pub(super) struct Wanted {
    pub(super) file: usize,
    pub(super) of: PartOf,
    /// Its bytes in the data set's byte space.
    pub(super) range: ByteRange,
    /// Somebody waits for it.
    pub(super) urgent: bool,
    pub(super) takers: Vec<Taker>,
}

/// The parts for ranges of files, which lie within them, in the order of the byte space. Those that touch each other
/// within a group are one, so that no chunk comes twice.
pub(super) fn plan(
    groups: &Groups,
    ranges: &[Asked],
    (ticket, urgent): (Ticket, bool),
    delivery: &Arc<dyn Delivery>,
) -> Vec<Wanted> {
    let mut parts = Vec::new();
    for asked in ranges {
        let Some(of_file) = groups.manifest().file_range(asked.file) else { continue };
        let first = groups.of_file(asked.file).start;
        for Piece { group, chunks, range } in cut(asked.range) {
            let bytes = chunk_bytes(of_file.len(), group, &chunks);
            let skip = group * GROUP_BYTES + bytes.start;
            let taker = Taker {
                ticket,
                delivery: Arc::clone(delivery),
                index: asked.index,
                offset: asked.offset_of(range.start),
                bytes: (range.start - skip) as usize..(range.end - skip) as usize,
            };
            let of = PartOf {
                group: first + group,
                first: chunks.start as u16,
                count: (chunks.end - chunks.start) as u16,
                levels: 0,
            };
            let range = ByteRange::at(of_file.start + skip, bytes.end - bytes.start);
            debug_assert!(range.len() <= group_range(of_file.len(), group).len());
            parts.push(Wanted { file: asked.file, of, range, urgent, takers: vec![taker] });
        }
    }
    parts.sort_by_key(|part| part.range.start);
    let mut merged: Vec<Wanted> = Vec::with_capacity(parts.len());
    for part in parts {
        match merged.last_mut() {
            Some(last) if last.of.group == part.of.group && part.range.start <= last.range.end => last.take_in(part),
            _ => merged.push(part),
        }
    }
    merged
}

impl Wanted {
    /// Whether all of `other` is in it.
    pub(super) fn covers(&self, other: ByteRange) -> bool {
        self.range.start <= other.start && other.end <= self.range.end
    }

    /// Adds a part of the same group that begins in it, or at its end.
    fn take_in(&mut self, other: Self) {
        let end = self.of.chunks().end.max(other.of.chunks().end);
        self.of.count = (end - u64::from(self.of.first)) as u16;
        self.range.end = self.range.end.max(other.range.end);
        self.add_takers(other);
    }

    /// Adds those who want what begins in it.
    pub(super) fn add_takers(&mut self, other: Self) {
        let shift = (other.range.start - self.range.start) as usize;
        self.takers.extend(
            other
                .takers
                .into_iter()
                .map(|taker| Taker { bytes: taker.bytes.start + shift..taker.bytes.end + shift, ..taker }),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::super::handle::{Buffers, Shared};
    use super::*;
    use inhaul_session::session::groups::testing::manifest;
    use inhaul_store::digest::proof::CHUNK_BYTES;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn parts_cover_exactly_what_is_asked_for_in_chunks_and_deliver_it(
            sizes in prop::collection::vec(1..2 * GROUP_BYTES + 5, 1..4),
            asked in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), 1..40_000u64), 1..30),
        ) {
            let groups = Groups::new(manifest(&sizes));
            let content: Vec<Vec<u8>> = sizes.iter().map(|&size| (0..size).map(|k| (k * 31 % 253) as u8).collect()).collect();
            let ranges: Vec<(usize, ByteRange)> = asked.iter().map(|(file, at, len)| {
                let file = file.index(sizes.len());
                let start = at.index(sizes[file] as usize) as u64;
                (file, ByteRange::new(start, (start + len).min(sizes[file])))
            }).collect();
            let buffers = Buffers(ranges.iter().map(|(_, range)| vec![0; range.len() as usize]).collect());
            let shared = Shared::new(buffers, ranges.iter().map(|(_, range)| range.len()).sum());
            let delivery: Arc<dyn Delivery> = shared.clone();
            let parts = plan(&groups, &Asked::all_of(ranges), (Ticket(1), true), &delivery);
            let object: Vec<u8> = content.concat();
            let mut before = ByteRange::default();
            for part in &parts {
                prop_assert!(part.range.start >= before.end, "no byte comes twice");
                before = part.range;
                let place = groups.place(part.of.group).unwrap();
                prop_assert_eq!(place.file, part.file);
                let bytes = chunk_bytes(sizes[place.file], place.group, &part.of.chunks());
                prop_assert_eq!(part.range, ByteRange::new(place.range.start + bytes.start, place.range.start + bytes.end));
                let of_part = &object[part.range.start as usize..part.range.end as usize];
                part.takers.iter().for_each(|taker| taker.deliver(of_part));
                let wanted: usize = part.takers.iter().map(|taker| taker.bytes.len()).sum();
                prop_assert!(wanted as u64 + 2 * CHUNK_BYTES * part.takers.len() as u64 >= part.range.len());
            }
            prop_assert!(shared.is_over());
        }
    }

    #[test]
    fn parts_that_touch_are_one() {
        let groups = Groups::new(manifest(&[10 * CHUNK_BYTES]));
        let delivery: Arc<dyn Delivery> = Shared::new(Buffers::default(), 1);
        let ranges = [(0, ByteRange::new(3000, 5000)), (0, ByteRange::new(0, 10)), (0, ByteRange::new(5000, 6000))];
        let parts = plan(&groups, &Asked::all_of(ranges.to_vec()), (Ticket(1), true), &delivery);
        let of: Vec<_> = parts.iter().map(|part| (part.of.first, part.of.count, part.takers.len())).collect();
        assert_eq!(of, [(0, 1, 1), (2, 4, 2)]);
    }
}
