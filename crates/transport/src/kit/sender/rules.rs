//! State common to all flows of a sender.

use inhaul_base::{Span, Time};

use crate::FlowId;

/// A flow in the agenda: flows are ordered by their due time, and flows due at the same time by their last service,
/// oldest first.
pub(super) type Entry = (Time, u64, FlowId);

/// Settings common to all flows of a protocol.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// Version that stands in the set-up messages.
    pub version: u8,
    /// Length of a data header in bytes, without the envelope.
    pub header_len: usize,
    /// Blocks are a multiple of this many bytes.
    pub grain: u16,
    /// Most bytes that wait to be sent to one receiver: twice what ours ever ask for ahead.
    pub queued_bytes_max: u64,
    /// No data goes to an address that did not respond for so long; `None`: it does.
    pub feedback_max: Option<Span>,
}
