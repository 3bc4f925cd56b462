//! The placed ranges of each object, and whether they match the sent ones.

use inhaul_base::{ByteRange, RangeSet, Time};
use inhaul_transport::{ObjectId, Place};

use crate::error::SimError;
use crate::ids::EndpointId;
use crate::packet::{Datagram, Load};

/// An object at a receiver.
#[derive(Debug)]
pub(crate) struct Object {
    pub(crate) receiver: EndpointId,
    pub(crate) object: ObjectId,
    pub(crate) size: u64,
    pub(crate) placed: RangeSet,
    /// Ranges that the receiver has had from the beginning; they count as placed.
    pub(crate) held: RangeSet,
    /// Whether the receiver has been told to fetch it.
    pub(crate) fetched: bool,
    pub(crate) complete: Option<Time>,
}

/// Every object that is transferred.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    objects: Vec<Object>,
}

impl Ledger {
    /// The index of an object; it is entered if it is new.
    pub(crate) fn enter(&mut self, receiver: EndpointId, object: ObjectId, size: u64) -> u32 {
        let at = self.find(receiver, object).unwrap_or_else(|| {
            let (placed, held) = (RangeSet::new(), RangeSet::new());
            self.objects.push(Object { receiver, object, size, placed, held, fetched: false, complete: None });
            self.objects.len() - 1
        });
        at as u32
    }

    fn find(&self, receiver: EndpointId, object: ObjectId) -> Option<usize> {
        // From the back: callers with many transfers add the mirrors of one object together.
        self.objects.iter().rposition(|o| o.receiver == receiver && o.object == object)
    }

    pub(crate) fn object(&self, index: u32) -> &Object {
        &self.objects[index as usize]
    }

    pub(crate) fn object_mut(&mut self, index: u32) -> &mut Object {
        &mut self.objects[index as usize]
    }

    /// The receiver's object of that name.
    pub(crate) fn named(&mut self, receiver: EndpointId, object: ObjectId) -> Option<&mut Object> {
        self.find(receiver, object).map(|at| &mut self.objects[at])
    }

    /// Records the `place` of `datagram` in the object with that index; returns how many bytes are new.
    pub(crate) fn place(&mut self, now: Time, index: u32, place: &Place, datagram: &Datagram) -> Result<u64, SimError> {
        let Load::Data { flow, body, .. } = datagram.load else { return Ok(0) };
        if let Some(reason) = fault(place, datagram) {
            return Err(SimError::WrongPlace { at: now, flow, body, placed: place.range, reason });
        }
        let object = self.object_mut(index);
        let new = object.placed.insert(place.range);
        if new < place.range.len() {
            return Err(SimError::PlacedTwice { at: now, flow, object: object.object, range: place.range });
        }
        Ok(new)
    }

    /// Bytes of memory that it takes.
    pub(crate) fn memory_bytes(&self) -> usize {
        let fragments: usize = self.objects.iter().map(|object| object.placed.fragments()).sum();
        self.objects.capacity() * size_of::<Object>() + fragments * 32
    }
}

/// The fault of a place, if it has one.
fn fault(place: &Place, datagram: &Datagram) -> Option<&'static str> {
    let Load::Data { flow, body, .. } = datagram.load else { return Some("the datagram carries no data") };
    if place.flow != flow {
        return Some("the datagram belongs to another flow");
    }
    if place.first != 0 {
        return Some("the message has one datagram only");
    }
    let Some(into) = u64::from(place.skip).checked_sub(datagram.head().len() as u64) else {
        return Some("part of the head would be placed");
    };
    if place.range.start != body.start + into {
        return Some("the bytes belong elsewhere");
    }
    (!body.contains(ByteRange::new(place.range.start, place.range.end))).then_some("more bytes than were sent")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::NodeId;
    use crate::packet::{Around, Pool};
    use inhaul_transport::FlowId;

    #[test]
    fn place_refuses_what_was_not_sent_and_what_is_there_already() {
        let flow = FlowId(3);
        let body = ByteRange::new(1_000, 2_000);
        let load = Load::Data { around: Around::new(12, false), flow, from: EndpointId(0), to: EndpointId(1), body };
        let datagram = Pool::default().packet(NodeId(0), 1_040, load, (&[], &[0; 12])).datagram;
        let good = Place { flow, message: 0, first: 0, skip: 12, head_len: 12, range: body };
        let mut ledger = Ledger::default();
        let index = ledger.enter(EndpointId(1), ObjectId(7), 5_000);
        let mut check = |place| ledger.place(Time::ZERO, index, &place, &datagram);

        for bad in [
            Place { flow: FlowId(4), ..good },
            Place { first: 1, ..good },
            Place { skip: 11, ..good },
            Place { skip: 13, ..good },
            Place { range: ByteRange::new(1_000, 2_001), ..good },
        ] {
            assert!(matches!(check(bad), Err(SimError::WrongPlace { .. })), "{bad:?}");
        }
        // The last 900 bytes, then the rest, then again.
        assert_eq!(check(Place { skip: 112, range: ByteRange::new(1_100, 2_000), ..good }).ok(), Some(900));
        assert_eq!(check(Place { range: ByteRange::new(1_000, 1_100), ..good }).ok(), Some(100));
        assert!(matches!(check(good), Err(SimError::PlacedTwice { .. })));
    }
}
