//! Changes of an object's wanted ranges during a transfer: bytes were wrong, are no longer needed, or cannot come from
//! every flow.

use inhaul_base::{ByteRange, RangeSet, Time};

use super::core::Core;
use super::flow::ReceiverFlow;
use crate::kit::Object;
use crate::{CommandError, Event, FlowId, ObjectId};

impl<F: ReceiverFlow> Core<F> {
    /// An object is wanted, except for its held ranges.
    pub(super) fn fetch(&mut self, id: ObjectId, size: u64, held: RangeSet) -> Result<(), CommandError> {
        if self.objects.contains_key(&id) {
            return Err(CommandError::ObjectExists(id));
        }
        if let Some(beyond) = held.iter().next_back().filter(|range| range.end > size) {
            return Err(CommandError::OutOfRange(beyond));
        }
        let mut object = Object::new(size, held);
        if object.is_all_held() {
            object.complete = true;
            self.events.push_back(Event::Complete { object: id });
        }
        self.objects.insert(id, object);
        Ok(())
    }

    fn object_with(&mut self, id: ObjectId, range: ByteRange) -> Result<&mut Object, CommandError> {
        let object = self.objects.get_mut(&id).ok_or(CommandError::UnknownObject(id))?;
        if range.end > object.size { Err(CommandError::OutOfRange(range)) } else { Ok(object) }
    }

    /// Bytes need not come any more: they count as held.
    pub(super) fn unwant(&mut self, id: ObjectId, range: ByteRange) -> Result<(), CommandError> {
        let object = self.object_with(id, range)?;
        object.hold(range, |_| {});
        for flow in object.flows.clone() {
            self.touched.insert(flow);
            if let Some(flow) = self.flows.get_mut(&flow) {
                flow.forget(range);
            }
        }
        Ok(())
    }

    /// Bytes are wanted, whether or not they were held. Returns the object's flows.
    pub(super) fn want(
        &mut self,
        now: Time,
        id: ObjectId,
        ranges: &[ByteRange],
        urgent: bool,
    ) -> Result<Vec<FlowId>, CommandError> {
        for &range in ranges {
            self.object_with(id, range)?;
        }
        let object = self.objects.get_mut(&id).ok_or(CommandError::UnknownObject(id))?;
        for &range in ranges.iter().filter(|range| !range.is_empty()) {
            object.unhold(range);
            if urgent {
                object.hurry(range);
            }
        }
        let flows = object.flows.clone();
        self.rouse(now, id, &flows);
        Ok(flows)
    }

    /// More is wanted of an object: its flows that rest are to bring it.
    fn rouse(&mut self, now: Time, id: ObjectId, flows: &[FlowId]) {
        if flows.is_empty() {
            self.events.push_back(Event::Starved { object: id });
        }
        for flow_id in flows {
            self.touched.insert(*flow_id);
            if let Some(flow) = self.flows.get_mut(flow_id).filter(|flow| flow.rests()) {
                flow.core_mut().rouse(now);
            }
        }
    }

    /// A flow is not asked for these bytes, as long as there are others.
    pub(super) fn avoid(&mut self, id: FlowId, range: ByteRange) -> Result<(), CommandError> {
        let object = self.flows.get(&id).ok_or(CommandError::UnknownFlow(id))?.core().join.object;
        let flows = self.object_with(object, range)?.flows.clone();
        if flows.len() > 1
            && let Some(flow) = self.flows.get_mut(&id)
        {
            flow.core_mut().avoid.insert(range);
        }
        self.touched.extend(flows);
        Ok(())
    }

    /// A flow may be asked for these bytes again.
    pub(super) fn allow(&mut self, id: FlowId, range: ByteRange) -> Result<(), CommandError> {
        let flow = self.flows.get_mut(&id).ok_or(CommandError::UnknownFlow(id))?;
        flow.core_mut().avoid.remove(range);
        self.touched.insert(id);
        Ok(())
    }

    /// Wrong bytes are wanted again, if possible from a flow other than `suspect` that does not avoid them. Returns the
    /// object's flows.
    pub(super) fn refetch(
        &mut self,
        now: Time,
        id: ObjectId,
        range: ByteRange,
        suspect: Option<FlowId>,
    ) -> Result<Vec<FlowId>, CommandError> {
        let object = self.object_with(id, range)?;
        object.unhold(range);
        let flows = object.flows.clone();
        self.rouse(now, id, &flows);
        let suspect = suspect.filter(|_| flows.len() > 1);
        if let Some(flow) = suspect.and_then(|suspect| self.flows.get_mut(&suspect)) {
            flow.core_mut().avoid.insert(range);
        }
        let avoids =
            |id: &FlowId| self.flows.get(id).is_none_or(|flow| flow.core().avoid.within(range).next().is_some());
        if flows.iter().all(avoids) {
            // Only the last that was wrong is left out, so that there is always one to ask.
            for flow_id in flows.iter().filter(|&&flow| Some(flow) != suspect) {
                if let Some(flow) = self.flows.get_mut(flow_id) {
                    flow.core_mut().avoid.remove(range);
                }
            }
        }
        Ok(flows)
    }
}
