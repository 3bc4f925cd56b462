//! Content that came with the description of its data set: it is placed at once, as if a flow had brought it. If it is
//! all, no flow begins unless something has to be fetched after all.

use std::sync::Arc;
use std::time::Instant;

use inhaul_base::{ByteRange, RangeSet};
use inhaul_transport::FlowId;

use super::{Haul, Joining, Object};
use crate::haul::verify::Task;
use inhaul_engine::engine::Engine;
use inhaul_session::api::error::MoveError;
use inhaul_session::session::early::Early;

impl Haul {
    /// Takes note of the data sets of which content is here; before anything is fetched.
    pub(crate) fn expect_early<'j>(&mut self, joinings: impl IntoIterator<Item = &'j Joining>) {
        for Joining { object, session, .. } in joinings {
            let object = &mut self.objects[*object];
            object.first_mirrors += 1;
            match &session.early {
                Some(early) if early.is_all => object.is_early = true,
                Some(early) if object.first_bytes == 0 => object.first_bytes = early.bytes.len() as u64,
                _ => {}
            }
        }
    }

    /// Places the first bytes of a data set, which `flow` has brought with its description. Their digests come with
    /// those of the rest.
    pub(super) fn take_first_bytes(&mut self, index: usize, flow: FlowId, early: &Early) -> Result<(), MoveError> {
        let bytes = std::mem::take(&mut self.objects[index].first_bytes).min(early.bytes.len() as u64);
        self.place(index, flow, &early.bytes[..bytes as usize])
    }

    /// Places what `flow` has brought of its data set, which is all that is missing, unless another mirror has; and
    /// compares it.
    pub(super) fn take_early(
        &mut self,
        engine: &mut Engine,
        index: usize,
        flow: FlowId,
        early: Early,
    ) -> Result<(), MoveError> {
        let Early { digests, bytes, took, .. } = early;
        if self.objects[index].complete_since.is_some() {
            return self.take_all(engine, index, flow, &digests);
        }
        self.objects[index].complete_since = Some(engine.now());
        self.place(index, flow, &bytes)?;
        self.take_all(engine, index, flow, &digests)?;
        if let Some(mirror) = self.mirrors.get_mut(&flow) {
            mirror.active_before += took.as_secs_f64();
        }
        Ok(())
    }

    /// Places what is missing of a data set's first bytes.
    fn place(&mut self, index: usize, flow: FlowId, bytes: &[u8]) -> Result<(), MoveError> {
        let object = &self.objects[index];
        let landing = Arc::clone(&object.landing);
        for range in object.tally.free().gaps(ByteRange::new(0, bytes.len() as u64)) {
            self.sink.write(&landing, range.start, &bytes[range.start as usize..range.end as usize])?;
            self.note_placed(flow, range);
        }
        Ok(())
    }

    /// Takes note of bytes that a flow has brought. They have been written, or will be before what is told behind
    /// them.
    pub(super) fn note_placed(&mut self, flow: FlowId, range: ByteRange) {
        let Some(mirror) = self.mirrors.get_mut(&flow) else { return };
        self.first_byte.get_or_insert_with(Instant::now);
        let index = mirror.object;
        mirror.placed_bytes += range.len();
        let Object { tally, groups, placed_bytes, come_groups, .. } = &mut self.objects[index];
        *placed_bytes += range.len();
        let writer = self.verifier.writer();
        tally.place(groups, range, flow, |group| {
            *come_groups += 1;
            writer.tell(Task::Whole { object: index, group });
        });
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
        joins.into_iter().for_each(|join| self.paths.begin(engine, self.endpoint, join));
    }
}

impl Object {
    /// The bytes that the transport does not fetch.
    pub(super) fn held_ranges(&self) -> RangeSet {
        if self.is_early {
            return [ByteRange::new(0, self.size())].into_iter().collect();
        }
        let mut held = self.tally.free().clone();
        held.insert(ByteRange::new(0, self.first_bytes));
        held
    }
}
