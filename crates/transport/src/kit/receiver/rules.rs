//! State common to all flows of a receiver.

use inhaul_base::Span;

use crate::kit::path::{OPENING_GAP, PathRules};
use crate::kit::{Object, Table};
use crate::{FlowId, ObjectId};

/// A host's flows.
pub type Flows<F> = Table<FlowId, F>;

/// Settings common to all flows of a protocol.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// Version that stands in the set-up messages.
    pub version: u8,
    /// Length of a data header in bytes, without the envelope.
    pub header_len: usize,
    /// Blocks are a multiple of this many bytes.
    pub grain: u16,
    /// Largest object, in bytes, in which a data header can name every place.
    pub object_max: u64,
    /// How paths are probed.
    pub path: PathRules,
    /// Ranges that a sender will bring within this time stay with it.
    pub relief_min: Span,
}

/// A guess at the round-trip time before it is measured.
pub const RTT_GUESS: Span = OPENING_GAP;

/// The objects of a receiver.
pub(super) type Objects = Table<ObjectId, Object>;
