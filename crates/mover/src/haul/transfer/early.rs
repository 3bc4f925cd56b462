//! Content that came with the description of its data set: it is placed at once, as if a flow had brought it. No flow
//! begins unless something has to be fetched after all.

use std::sync::Arc;

use inhaul_base::{ByteRange, RangeSet, Span};
use inhaul_transport::FlowId;

use super::{Haul, Joining, Object};
use crate::api::error::MoveError;
use crate::engine::Engine;
use crate::haul::verify::Task;
use crate::session::early::Early;

impl Haul {
    /// Takes note of the data sets of which all content is here; before anything is fetched.
    pub(crate) fn expect_early<'j>(&mut self, joinings: impl IntoIterator<Item = &'j Joining>) {
        for Joining { object, session, .. } in joinings {
            self.objects[*object].is_early |= session.early.is_some();
        }
    }

    /// Places what `flow` has brought of its data set, which is all that is missing, and has it verified.
    pub(super) fn take_early(&mut self, index: usize, flow: FlowId, early: Early) -> Result<(), MoveError> {
        let Early { digests, bytes, took } = early;
        let object = &mut self.objects[index];
        object.appoint(flow);
        (object.next_digest, object.asked_digests) = (object.plan.count(), object.plan.count());
        for run in object.plan.between(0, object.plan.count()) {
            let values = digests.get(run.first as usize..(run.first + run.count) as usize).unwrap_or_default();
            self.verifier.expect(index, run.first + run.count, &mut values.to_vec());
        }
        let landing = Arc::clone(&object.landing);
        for range in object.tally.free().gaps(ByteRange::new(0, object.size())) {
            let Some(part) = bytes.get(range.start as usize..range.end as usize) else { continue };
            self.sink.write(&landing, range.start, part)?;
            self.note_placed(flow, range);
        }
        if let Some(mirror) = self.mirrors.get_mut(&flow) {
            mirror.active_before += took.as_secs_f64();
        }
        self.early = self.early.max(Span::from_secs_f64(took.as_secs_f64()));
        Ok(())
    }

    /// Takes note of bytes that a flow has brought. They have been written, or will be before what is told behind
    /// them.
    pub(super) fn note_placed(&mut self, flow: FlowId, range: ByteRange) {
        let Some(mirror) = self.mirrors.get_mut(&flow) else { return };
        let index = mirror.object;
        mirror.placed_bytes += range.len();
        let Object { tally, groups, placed_bytes, .. } = &mut self.objects[index];
        *placed_bytes += range.len();
        let writer = self.verifier.writer();
        tally.place(groups, range, flow, |group| writer.tell(Task::Whole { object: index, group }));
    }

    /// Something has to be fetched although all had come: the flows begin.
    pub(super) fn begin_flows(&mut self, engine: &mut Engine, index: usize) {
        self.objects[index].is_early = false;
        let mut joins = Vec::new();
        for flow in &self.objects[index].mirrors {
            let Some(mirror) = self.mirrors.get_mut(flow) else { continue };
            if let Some(join) = mirror.deferred.take().filter(|_| !mirror.disconnected) {
                mirror.ended = None;
                joins.push(join);
            }
        }
        joins.into_iter().for_each(|join| self.begin_mirror(engine, join));
    }
}

impl Object {
    /// The bytes that the transport does not fetch.
    pub(super) fn held_ranges(&self) -> RangeSet {
        if self.is_early {
            return [ByteRange::new(0, self.size())].into_iter().collect();
        }
        self.tally.free().clone()
    }
}
