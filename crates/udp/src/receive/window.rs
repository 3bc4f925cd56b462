//! The user's memory, into which bodies are received directly.

use inhaul_transport::{Expected, FlowId};

/// Memory for the next datagrams that are expected of a flow.
///
/// Until [`Batch::deliver`](super::Batch::deliver) has returned, any byte of it may be overwritten by any datagram.
#[derive(Debug)]
pub struct Window<'w> {
    /// The flow.
    pub flow: FlowId,
    /// The expected datagrams.
    pub expected: Expected,
    /// The memory of exactly `expected.range`; if it is shorter, only its start is expected.
    pub memory: &'w mut [u8],
}

impl Window<'_> {
    /// How many bytes of the memory correspond to the expected range.
    pub(super) fn usable_len(&self) -> usize {
        let len = usize::try_from(self.expected.range.len()).unwrap_or(usize::MAX);
        self.memory.len().min(len)
    }
}
