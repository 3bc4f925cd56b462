//! What callers tell the data thread.

use std::sync::Arc;
use std::sync::mpsc::Sender;

use inhaul_store::digest;

use super::asked::Asked;
use super::delivery::Delivery;
use super::names::Names;
use inhaul_haul::haul::Found;
use inhaul_session::api::error::MoveError;
use inhaul_sources::opener::Opener;

/// A read's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Ticket(pub(super) u64);

/// An open data set's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SetId(pub(super) u32);

/// See the module's description.
pub(super) enum Order {
    /// A data set is to be kept open.
    Open(Box<Opening>),
    /// Bytes are wanted.
    Read(Read),
    /// Nobody waits for a read any more.
    Cancel(Ticket),
    /// A data set is not needed any more.
    Close(SetId),
    /// How a data set's flows are doing.
    Ask(SetId, Sender<SetStats>),
}

impl Order {
    /// It is not carried out: who waits for a read hears why. The others see their answer's sender go.
    pub(super) fn refuse(self, why: &str) {
        if let Self::Read(read) = self {
            read.delivery.fail(MoveError::Internal(why.to_owned()));
        }
    }
}

/// A data set that was found.
pub(super) struct Opening {
    pub(super) found: Found,
    pub(super) opener: Opener,
    /// How its files are named in the cache.
    pub(super) names: Arc<Names>,
    /// The hashes of its files that the user expects, by their index: whatever comes is proven by them.
    pub(super) roots: Vec<(usize, digest::Hash)>,
    pub(super) reply: Sender<Result<SetId, MoveError>>,
}

/// A read.
pub(super) struct Read {
    pub(super) set: SetId,
    pub(super) ticket: Ticket,
    /// What is wanted, within the files' sizes.
    pub(super) ranges: Vec<Asked>,
    pub(super) urgent: bool,
    pub(super) delivery: Arc<dyn Delivery>,
}

/// What has come for a data set.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct SetStats {
    /// Bytes of content that were asked for over the network.
    pub wanted_bytes: u64,
    /// Bytes that a cache had, and that were not asked for.
    pub cached_bytes: u64,
    /// Bytes of content that came and were new.
    pub placed_bytes: u64,
    /// Bytes of proofs.
    pub proof_bytes: u64,
    /// Messages that asked for proofs.
    pub proof_requests: u64,
    /// Parts that were asked for, each within one group.
    pub parts: u64,
    /// Mirrors whose sessions are open.
    pub mirrors: usize,
    /// The least round-trip time of the mirrors, in seconds; 0 while it is not known.
    pub rtt_seconds: f64,
}
