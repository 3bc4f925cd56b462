//! Numbers that name flows, ports and connections.

use inhaul_session::api::error::MoveError;
use inhaul_session::system::process;
use inhaul_transport::{ConnectionId, FlowId};

use super::Engine;
use super::outside::Outside;

impl<O: Outside> Engine<O> {
    /// A number that no flow and no port has.
    pub(super) fn next_number(&mut self) -> u32 {
        let id = self.next_id;
        self.next_id += 1;
        id
    }

    /// A new flow's name.
    pub fn new_flow(&mut self) -> FlowId {
        FlowId(self.next_number())
    }

    /// Whether no flow has this connection id.
    pub(crate) fn is_free(&self, id: ConnectionId) -> bool {
        id != ConnectionId::PORT && id != ConnectionId::NONE && self.connections.flow(id).is_none()
    }

    /// A connection id that no flow has.
    pub fn new_connection(&self) -> Result<ConnectionId, MoveError> {
        loop {
            let id = ConnectionId(process::random_u32()?);
            if self.is_free(id) {
                return Ok(id);
            }
        }
    }
}
