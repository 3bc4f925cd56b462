//! What is wanted of an object changes while it comes: bytes were wrong, need not come, or cannot come from everybody.

use inhaul_base::{ByteRange, Time};
use inhaul_transport::{CommandError, Event, FlowId, ObjectId};

use super::GtpReceiver;
use super::flow::Phase;

impl GtpReceiver {
    /// Bytes need not come any more. They count as held, and what was asked for of them is not waited for.
    pub(super) fn skip(&mut self, object_id: ObjectId, range: ByteRange) -> Result<(), CommandError> {
        let object = self.objects.get_mut(&object_id).ok_or(CommandError::UnknownObject(object_id))?;
        if range.end > object.size {
            return Err(CommandError::OutOfRange(range));
        }
        object.hold(range, |_| {});
        for id in &object.flows {
            self.touched.insert(*id);
            if let Some(flow) = self.flows.get_mut(id) {
                flow.requests.forget(range);
            }
        }
        Ok(())
    }

    /// A flow is not asked for these bytes, as long as there are others.
    pub(super) fn avoid(&mut self, id: FlowId, range: ByteRange) -> Result<(), CommandError> {
        let flow = self.flows.get_mut(&id).ok_or(CommandError::UnknownFlow(id))?;
        let object = self.objects.get(&flow.object).ok_or(CommandError::UnknownObject(flow.object))?;
        if range.end > object.size {
            return Err(CommandError::OutOfRange(range));
        }
        if object.flows.len() > 1 {
            flow.avoid.insert(range);
        }
        self.touched.extend(object.flows.iter().copied());
        Ok(())
    }

    /// Wrong bytes are wanted again, from another flow if there is one; resting flows take up work.
    pub(super) fn refetch(
        &mut self,
        now: Time,
        object_id: ObjectId,
        range: ByteRange,
        suspect: Option<FlowId>,
    ) -> Result<(), CommandError> {
        let object = self.objects.get_mut(&object_id).ok_or(CommandError::UnknownObject(object_id))?;
        if range.end > object.size {
            return Err(CommandError::OutOfRange(range));
        }
        object.unhold(range);
        if object.flows.is_empty() {
            self.events.push_back(Event::Starved { object: object_id });
        }
        for id in object.flows.clone() {
            self.touched.insert(id);
            let alone = self.objects.get(&object_id).is_some_and(|o| o.flows.len() == 1);
            let Some(flow) = self.flows.get_mut(&id) else { continue };
            // Only the last that was wrong is left out, so that there is always one to ask.
            if Some(id) == suspect && !alone {
                flow.avoid.insert(range);
            } else {
                flow.avoid.remove(range);
            }
            if flow.phase == Phase::Idle && flow.measured {
                flow.phase = Phase::Steady;
            } else if flow.phase == Phase::Idle {
                self.begin(now, id); // it was never measured
            }
        }
        self.central.schedule(now, &mut self.flows);
        Ok(())
    }
}
