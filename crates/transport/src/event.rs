//! Events of an endpoint for its user.

use inhaul_base::{Bitrate, ByteRange};

use crate::ids::{FlowId, ObjectId};

/// Something that the user or the control stream must hear of.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// Send this message, whole and in order, on the flow's control stream.
    Control {
        /// The flow.
        flow: FlowId,
        /// The message.
        message: Vec<u8>,
    },
    /// Have a source that is no sender ([`Command::JoinSource`](crate::Command::JoinSource)) do this.
    Source {
        /// The flow.
        flow: FlowId,
        /// What.
        order: SourceOrder,
    },
    /// The path is open both ways: data can come.
    Opened {
        /// The flow.
        flow: FlowId,
    },
    /// Every byte of the object has been placed.
    Complete {
        /// The object.
        object: ObjectId,
    },
    /// The flow has ended well: the receiver needs nothing more from it.
    Closed {
        /// The flow.
        flow: FlowId,
    },
    /// The flow has failed. Its outstanding ranges go to the object's other flows.
    Failed {
        /// The flow.
        flow: FlowId,
        /// Why.
        error: FlowError,
    },
    /// No flow is left that could bring the rest of the object.
    Starved {
        /// The object.
        object: ObjectId,
    },
}

/// An order to a source that is no sender.
#[derive(Clone, Debug, PartialEq)]
pub enum SourceOrder {
    /// Deliver these ranges, in any pieces and order.
    Ask {
        /// The request's number: one more than the last one's.
        request: u32,
        /// Ascending and disjoint.
        ranges: Vec<ByteRange>,
    },
    /// The ranges of requests up to this one are no longer wanted.
    Unask {
        /// The last of these requests.
        through: u32,
    },
    /// Read no faster than this, over all connections together.
    Pace(Bitrate),
}

/// Why a flow ended badly.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FlowError {
    /// The control stream ended.
    #[error("the sender closed the connection")]
    Disconnected,
    /// Datagrams do not come through though the control stream stands.
    #[error("no UDP datagram came through in {seconds} s; a firewall between the hosts may block UDP")]
    NoPath {
        /// How long it was tried, in seconds.
        seconds: u64,
    },
    /// Nothing was heard from the peer for too long.
    #[error("nothing was heard from the peer for {seconds} s")]
    Silent {
        /// For how long, in seconds.
        seconds: u64,
    },
    /// The peer broke the protocol.
    #[error("the peer broke the protocol: {0}")]
    Protocol(&'static str),
    /// The peer speaks another version.
    #[error(
        "the peer speaks version {theirs} of the protocol, this program speaks {ours}: install the same release on both"
    )]
    Version {
        /// Our version.
        ours: u8,
        /// The peer's version.
        theirs: u8,
    },
}
