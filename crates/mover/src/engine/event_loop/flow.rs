//! A flow, as the engine has it.

use inhaul_base::Time;

use super::outside::Wire;
use crate::engine::ids::{EndpointId, PortId};
use crate::session::control_stream::ControlStream;

/// A flow's control stream and its place among endpoints and sockets.
pub(super) struct Flow<W> {
    pub(super) endpoint: EndpointId,
    pub(super) port: PortId,
    pub(super) stream: ControlStream<W>,
    /// The endpoint knows the flow: what its peer's transport says before that is kept.
    pub(super) has_begun: bool,
    pub(super) waits_to_write: bool,
    /// Since when the connection has taken nothing of what waits, and how much it had taken by then.
    pub(super) read: (Time, u64),
    /// It stands among the engine's `unread`.
    pub(super) is_unread: bool,
    /// The stream is closed once all is sent, or at this time.
    pub(super) closing: Option<Time>,
    /// The log has it that its datagrams are too large for the interface.
    pub(super) warned_of_size: bool,
}

impl<W: Wire> Flow<W> {
    /// Takes note of whether the peer has read since this was asked last.
    pub(super) fn note_reading(&mut self, now: Time) {
        let taken = self.stream.taken_bytes();
        if taken != self.read.1 {
            self.read = (now, taken);
        }
    }
}
