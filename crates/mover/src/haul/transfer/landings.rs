//! Writes the bodies of datagrams into the landing files.

use std::collections::BTreeMap;
use std::io::IoSlice;
use std::sync::Arc;

use inhaul_store::Landing;
use inhaul_transport::{Expected, FlowId, Place};

use crate::api::error::MoveError;
use crate::engine::Sink;
use crate::engine::port::{Port, Show};
use crate::haul::verify::Writer;

/// Files as the destination of datagrams' bodies.
pub(super) struct Landings {
    pub(super) by_flow: BTreeMap<FlowId, Arc<Landing>>,
    pub(super) writer: Writer,
}

impl Landings {
    /// Writes what came by other ways.
    pub(super) fn write(&self, landing: &Arc<Landing>, offset: u64, bytes: &[u8]) -> Result<(), MoveError> {
        let slices = [IoSlice::new(bytes)];
        if landing.is_in_small_file(offset) {
            self.writer.write(landing, offset, &slices);
            return Ok(());
        }
        landing.write(offset, &slices).map_err(MoveError::from)
    }
}

impl Sink for Landings {
    fn receive(
        &mut self,
        port: &mut Port,
        _expected: Option<Expected>,
        show: &mut Show<'_>,
        places: &mut Vec<Place>,
    ) -> Result<bool, MoveError> {
        let Some(batch) = port.receive(show, places)? else { return Ok(false) };
        batch.deliver(places, |delivery| match self.by_flow.get(&delivery.flow) {
            Some(landing) if landing.is_in_small_file(delivery.range.start) => {
                self.writer.write(landing, delivery.range.start, delivery.bodies);
                Ok(())
            }
            Some(landing) => landing.write(delivery.range.start, delivery.bodies).map_err(MoveError::from),
            None => Ok(()),
        })?;
        Ok(true)
    }
}
