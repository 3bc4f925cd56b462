//! The memory that parts are received into, until they are proven.

use std::collections::BTreeMap;
use std::io::IoSlice;

use inhaul_base::{ByteRange, RangeSet};
use inhaul_store::digest::GROUP_BYTES;
use inhaul_transport::{Expected, FlowId, Place};
use inhaul_udp::seal::Seals;
use inhaul_udp::{Delivery, Window};

use super::order::SetId;
use super::parts::Wanted;
use inhaul_engine::engine::Sink;
use inhaul_engine::engine::port::{Port, Show};
use inhaul_session::api::error::MoveError;
use inhaul_session::session::frame::GroupDigest;

/// A piece of memory is lent to the kernel only if it is as long as this: shorter ones are not worth a call of their own.
const LENT_BYTES_MIN: usize = 64 << 10;

/// Parts of which the memory is kept: 64 MiB.
const SPARE_MAX: usize = 64;

/// What proves a part.
#[derive(Clone, Debug)]
pub(super) struct Proof {
    pub(super) digest: GroupDigest,
    pub(super) inside: Vec<GroupDigest>,
}

/// A part that is being fetched.
pub(super) struct Active {
    /// Tells it from another that begins at the same place, later.
    pub(super) number: u64,
    pub(super) wanted: Wanted,
    /// What has come of it: empty until something has, and while the verifier has it.
    pub(super) bytes: Vec<u8>,
    /// Bytes that have not come.
    pub(super) missing: u64,
    /// Not all of its bytes come: the others are zeros.
    has_holes: bool,
    /// It is not right without a proof.
    pub(super) needs_proof: bool,
    /// What proves it.
    pub(super) proof: Option<Proof>,
    /// What mirrors have sent as its proof. Which is right, all of them decide.
    pub(super) said: Vec<(FlowId, Proof)>,
    /// The mirrors that were asked for it, or will be, and have not answered.
    pub(super) awaited: Vec<FlowId>,
    /// Who brought the last of it.
    pub(super) from: Option<FlowId>,
    /// How often it came wrong.
    pub(super) tries: u32,
    /// How often its proof was asked for.
    pub(super) asked: u32,
    /// Its bytes are with the verifier.
    pub(super) is_checked: bool,
}

impl Active {
    /// The memory for its bytes, from the first of them on: a long read wants far more parts than arrive at once. Empty
    /// while the verifier has it.
    fn memory(&mut self, spare: &mut Vec<Vec<u8>>) -> &mut Vec<u8> {
        let len = self.wanted.range.len();
        if self.bytes.is_empty() && !self.is_checked {
            // What is left in spare memory is never handed out: all of it is overwritten, or is another part's bytes and
            // so not what is proven. Holes are not overwritten.
            if len == GROUP_BYTES && !self.has_holes {
                self.bytes = spare.pop().unwrap_or_default();
            }
            self.bytes.resize(len as usize, 0);
        }
        &mut self.bytes
    }

    /// All of its bytes, for the verifier.
    pub(super) fn take_bytes(&mut self) -> Vec<u8> {
        let bytes = std::mem::take(self.memory(&mut Vec::new()));
        self.is_checked = true;
        bytes
    }
}

/// All parts that are being fetched.
#[derive(Default)]
pub(super) struct Parts {
    pub(super) by_flow: BTreeMap<FlowId, SetId>,
    /// By their places in the byte space of their data set. They do not overlap.
    pub(super) active: BTreeMap<(SetId, u64), Active>,
    /// Bytes of those of all data sets.
    pub(super) bytes: u64,
    /// How many have begun.
    begun: u64,
    /// Memory of parts that have ended, for others: what is new has to be given to the process first.
    spare: Vec<Vec<u8>>,
}

impl Parts {
    /// Begins a part: the ranges that must come. What lies in `holes` need not.
    pub(super) fn begin(&mut self, set: SetId, wanted: Wanted, holes: &RangeSet) -> Vec<ByteRange> {
        let range = wanted.range;
        let ranges = if holes.is_empty() { vec![range] } else { holes.gaps(range) };
        let missing = ranges.iter().map(|range| range.len()).sum();
        self.begun += 1;
        let active = Active {
            number: self.begun,
            has_holes: missing < range.len(),
            wanted,
            bytes: Vec::new(),
            missing,
            needs_proof: false,
            proof: None,
            said: Vec::new(),
            awaited: Vec::new(),
            from: None,
            tries: 0,
            asked: 0,
            is_checked: false,
        };
        self.bytes += range.len();
        self.active.insert((set, range.start), active);
        ranges
    }

    /// A part is not fetched any more.
    pub(super) fn end(&mut self, set: SetId, start: u64) -> Option<Active> {
        let active = self.active.remove(&(set, start))?;
        self.bytes -= active.wanted.range.len();
        Some(active)
    }

    /// Memory that is not needed any more.
    pub(super) fn give_back(&mut self, bytes: Vec<u8>) {
        if bytes.len() as u64 == GROUP_BYTES && self.spare.len() < SPARE_MAX {
            self.spare.push(bytes);
        }
    }

    /// The places of a data set's parts that have bytes of `range`.
    pub(super) fn overlapping(&self, set: SetId, range: ByteRange) -> Vec<u64> {
        let before = self.active.range((set, 0)..(set, range.start)).next_back();
        let before = before.filter(|(_, part)| part.wanted.range.end > range.start);
        before
            .into_iter()
            .chain(self.active.range((set, range.start)..(set, range.end)))
            .map(|(key, _)| key.1)
            .collect()
    }

    /// Bytes have come: calls `whole` for the parts that have all of theirs now.
    pub(super) fn note(&mut self, set: SetId, range: ByteRange, flow: FlowId, mut whole: impl FnMut(u64)) {
        for start in self.overlapping(set, range) {
            let Some(part) = self.active.get_mut(&(set, start)) else { continue };
            part.missing = part.missing.saturating_sub(part.wanted.range.intersection(range).len());
            part.from = Some(flow);
            if part.missing == 0 {
                whole(start);
            }
        }
    }
}

/// Copies what of the bodies, which belong at `offset`, falls into a piece of memory that begins at `start`.
fn copy_into(memory: &mut [u8], start: u64, offset: u64, bodies: &[IoSlice<'_>]) {
    let mut at = offset;
    for body in bodies {
        let common = ByteRange::at(at, body.len() as u64).intersection(ByteRange::at(start, memory.len() as u64));
        if !common.is_empty() {
            let from = &body[(common.start - at) as usize..(common.end - at) as usize];
            memory[(common.start - start) as usize..(common.end - start) as usize].copy_from_slice(from);
        }
        at += body.len() as u64;
    }
}

impl Sink for Parts {
    fn receive(
        &mut self,
        port: &mut Port,
        seals: &mut Seals,
        expected: Option<Expected>,
        show: &mut Show<'_>,
        places: &mut Vec<Place>,
    ) -> Result<bool, MoveError> {
        let failed = MoveError::system("cannot receive");
        // The part that the next bodies are expected in, out of which a piece is lent to the kernel.
        let lent = port.flow.zip(expected).and_then(|(flow, expected)| {
            let set = *self.by_flow.get(&flow)?;
            let (&key, part) = self.active.range(..=(set, expected.range.start)).next_back()?;
            let common = part.wanted.range.intersection(expected.range);
            let is_worth = key.0 == set && common.len() >= LENT_BYTES_MIN as u64 && !part.is_checked;
            is_worth.then_some((flow, expected, key, common))
        });
        let Some((flow, expected, key, common)) = lent else {
            let batch = port.receiver.receive(&port.socket, seals).map_err(failed)?;
            if batch.is_empty() {
                return Ok(false);
            }
            show(batch.messages(), places);
            let Self { by_flow, active, spare, .. } = self;
            batch.deliver(places, |delivery| {
                copy_to_parts(by_flow, active, spare, &delivery);
                Ok::<(), MoveError>(())
            })?;
            return Ok(true);
        };
        let Some(mut part) = self.active.remove(&key) else { return Ok(false) };
        let mut bytes = std::mem::take(part.memory(&mut self.spare));
        let (before, rest) = bytes.split_at_mut((common.start - key.1) as usize);
        let (memory, after) = rest.split_at_mut(common.len() as usize);
        let window = Window { flow, expected, memory };
        let received = port.receiver.receive_into(&port.socket, seals, window).map_err(failed).and_then(|batch| {
            if batch.is_empty() {
                return Ok(false);
            }
            show(batch.messages(), places);
            let Self { by_flow, active, spare, .. } = &mut *self;
            batch.deliver(places, |delivery| {
                if by_flow.get(&delivery.flow) == Some(&key.0) {
                    copy_into(before, key.1, delivery.range.start, delivery.bodies);
                    copy_into(after, common.end, delivery.range.start, delivery.bodies);
                }
                copy_to_parts(by_flow, active, spare, &delivery);
                Ok::<(), MoveError>(())
            })?;
            Ok(true)
        });
        part.bytes = bytes;
        self.active.insert(key, part);
        received
    }

    fn deliver(&mut self, flow: FlowId, offset: u64, bytes: &[u8]) -> Result<(), MoveError> {
        let bodies = [IoSlice::new(bytes)];
        let range = ByteRange::at(offset, bytes.len() as u64);
        let delivery = Delivery { flow, range, bodies: &bodies };
        copy_to_parts(&self.by_flow, &mut self.active, &mut self.spare, &delivery);
        Ok(())
    }
}

/// Copies bodies to the parts that they are of.
fn copy_to_parts(
    by_flow: &BTreeMap<FlowId, SetId>,
    active: &mut BTreeMap<(SetId, u64), Active>,
    spare: &mut Vec<Vec<u8>>,
    delivery: &Delivery<'_>,
) {
    let Some(&set) = by_flow.get(&delivery.flow) else { return };
    let range = delivery.range;
    let first = active.range((set, 0)..=(set, range.start)).next_back().map_or(range.start, |(key, _)| key.1);
    for (key, part) in active.range_mut((set, first)..(set, range.end)) {
        if !part.wanted.range.intersection(range).is_empty() {
            copy_into(part.memory(spare), key.1, range.start, delivery.bodies);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use inhaul_session::session::frame::PartOf;

    fn wanted(range: ByteRange) -> Wanted {
        Wanted {
            file: 0,
            of: PartOf { group: 0, first: 0, count: 1, levels: 0 },
            range,
            urgent: true,
            takers: Vec::new(),
        }
    }

    #[test]
    fn parts_are_whole_when_all_but_their_holes_has_come() {
        let mut parts = Parts::default();
        let holes: RangeSet = [ByteRange::new(10, 20)].into_iter().collect();
        let ranges = parts.begin(SetId(1), wanted(ByteRange::new(0, 30)), &holes);
        assert_eq!(ranges, [ByteRange::new(0, 10), ByteRange::new(20, 30)]);
        parts.begin(SetId(1), wanted(ByteRange::new(30, 40)), &holes);
        parts.begin(SetId(2), wanted(ByteRange::new(0, 40)), &holes);
        let mut whole = Vec::new();
        parts.note(SetId(1), ByteRange::new(20, 40), FlowId(7), |start| whole.push(start));
        assert_eq!(whole, [30]);
        parts.note(SetId(1), ByteRange::new(0, 10), FlowId(7), |start| whole.push(start));
        assert_eq!((whole, parts.bytes), (vec![30, 0], 80));
        assert_eq!(parts.overlapping(SetId(1), ByteRange::new(5, 31)), [0, 30]);
        assert_eq!(parts.overlapping(SetId(1), ByteRange::new(30, 31)), [30]);
        assert!(parts.end(SetId(1), 0).is_some() && parts.end(SetId(1), 0).is_none());
        assert_eq!(parts.bytes, 50);
    }

    #[test]
    fn parts_take_memory_when_their_first_bytes_come() {
        let mut parts = Parts::default();
        let (set, flow, group) = (SetId(1), FlowId(7), GROUP_BYTES);
        parts.by_flow.insert(flow, set);
        let holes: RangeSet = [ByteRange::new(2 * group, 2 * group + 3)].into_iter().collect();
        for start in [0, group, 2 * group] {
            parts.begin(set, wanted(ByteRange::at(start, group)), &holes);
        }
        parts.give_back(vec![9; group as usize]);
        let begun = |parts: &Parts| parts.active.values().map(|part| part.bytes.len() as u64).collect::<Vec<_>>();
        assert_eq!(begun(&parts), [0, 0, 0]);
        let bodies = [IoSlice::new(b"abcdef")];
        let came = |parts: &mut Parts, start| {
            let delivery = Delivery { flow, range: ByteRange::at(start, 6), bodies: &bodies };
            copy_to_parts(&parts.by_flow, &mut parts.active, &mut parts.spare, &delivery);
        };
        came(&mut parts, 2 * group + 3);
        assert_eq!(begun(&parts), [0, 0, group]);
        assert_eq!(&parts.active[&(set, 2 * group)].bytes[..10], b"\0\0\0abcdef\0", "holes are not of spare memory");
        came(&mut parts, group - 3);
        assert_eq!(begun(&parts), [group, group, group]);
        assert_eq!(&parts.active[&(set, group)].bytes[..3], b"def");
        // What comes while the verifier has it is dropped.
        let first = parts.active.get_mut(&(set, 0)).unwrap();
        assert_eq!(first.take_bytes().len() as u64, group);
        came(&mut parts, 0);
        assert_eq!(begun(&parts), [0, group, group]);
    }

    #[test]
    fn copy_into_takes_what_falls_into_it() {
        let mut memory = [0u8; 4];
        let bodies = [b"ab", b"cd", b"ef"].map(|body| IoSlice::new(body));
        copy_into(&mut memory, 10, 9, &bodies);
        assert_eq!(&memory, b"bcde");
        copy_into(&mut memory, 10, 14, &bodies);
        copy_into(&mut memory, 10, 2, &bodies);
        assert_eq!(&memory, b"bcde");
    }
}
