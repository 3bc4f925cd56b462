//! Commands of a user to an endpoint.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use inhaul_base::{Bitrate, ByteRange, RangeSet, Span};

use crate::ids::{ConnectionId, FlowId, ObjectId};
use crate::path_spec::PathSpec;
use crate::policy::Policy;

/// Limits of one flow that its user sets. `None`: no limit is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowLimits {
    /// Limit of the application (R_app), headers included.
    pub application_rate: Option<Bitrate>,
    /// Capacity of the link to this peer (C_i), if known.
    pub link_rate: Option<Bitrate>,
}

/// A receiver's new flow: see [`Command::Join`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JoinFlow {
    /// The new flow's name.
    pub flow: FlowId,
    /// The object to fetch, named in a [`Command::Fetch`].
    pub object: ObjectId,
    /// Where the sender's datagram socket is. `None`: it will open the path itself (it connected to us).
    pub peer: Option<SocketAddr>,
    /// What packets on its path cost.
    pub path: PathSpec,
    /// The connection id that the sender's datagrams carry.
    pub connection: ConnectionId,
    /// How long ago probes left for the sender's port, before the flow was there
    /// ([`early_probes`](crate::kit::early_probes())).
    pub probed: Option<Span>,
    /// Limits of the flow.
    pub limits: FlowLimits,
}

/// A receiver's new flow from a source that does not speak the protocol: see [`Command::JoinSource`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JoinSource {
    /// The new flow's name.
    pub flow: FlowId,
    /// The object to fetch; known from a [`Command::Fetch`].
    pub object: ObjectId,
    /// How many requests the source serves at once.
    pub lanes: u32,
    /// Its round-trip time, as it was measured when it was opened.
    pub rtt: Span,
    /// Limits of the flow.
    pub limits: FlowLimits,
}

/// Parameters of a protocol, names and values.
pub type Parameters = Arc<[(String, String)]>;

/// A sender's new flow: see [`Command::Offer`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OfferFlow {
    /// The new flow's name.
    pub flow: FlowId,
    /// Size of the object, in bytes.
    pub size: u64,
    /// Where the receiver's datagram socket is. `None`: it will open the path itself (it connected to us).
    pub peer: Option<SocketAddr>,
    /// The address that the receiver's datagrams must come from, so that no client can direct data to another host.
    /// `None`: any.
    pub only_from: Option<IpAddr>,
    /// What packets on its path cost.
    pub path: PathSpec,
    /// The connection id that the receiver's datagrams carry.
    pub connection: ConnectionId,
    /// Random number that the receiver's first datagrams must carry. Unguessable.
    pub token: u64,
    /// Limit on all of the receiver's flows together, if it has its own.
    pub client: Option<ClientRate>,
    /// Parameters that the receiver's user has set for this flow, over the endpoint's own. They are legal: the code
    /// that takes them from a peer has checked them.
    pub parameters: Parameters,
}

/// Limit on the rate to one client of a sender, over all its flows with a protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientRate {
    /// The client: a number that the sender's user has given it.
    pub client: u64,
    /// At most this rate, headers from IP up included.
    pub rate: Bitrate,
}

/// A command of a user to an endpoint.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Receiver: an object is wanted, except for the ranges that are held already.
    Fetch {
        /// Its name.
        object: ObjectId,
        /// Its size in bytes.
        size: u64,
        /// Ranges that are already held.
        held: RangeSet,
    },
    /// Receiver: a control stream to a sender of the object is up; fetch over it.
    Join(JoinFlow),
    /// Receiver: fetch from a source that is no sender of the protocol: an HTTP server, or a file. It is asked by
    /// [`Event::Source`](crate::Event::Source), and its deliveries come by
    /// [`Endpoint::handle_delivery`](crate::Endpoint::handle_delivery).
    JoinSource(JoinSource),
    /// Sender: a control stream to a receiver is up; serve the object over it.
    Offer(OfferFlow),
    /// The flow's control stream has ended, or the user gives the flow up.
    Disconnect {
        /// The flow.
        flow: FlowId,
    },
    /// Receiver: bytes that were placed turned out to be wrong; fetch them again, from another flow than `suspect` if
    /// there is one.
    Refetch {
        /// The object.
        object: ObjectId,
        /// The wrong bytes.
        range: ByteRange,
        /// The flow that delivered them.
        suspect: Option<FlowId>,
    },
    /// Receiver: these bytes are wanted (again), whether or not they were held. The object may have been complete, or
    /// held as a whole from the start, because nothing had been requested yet.
    Want {
        /// The object.
        object: ObjectId,
        /// The bytes.
        ranges: Vec<ByteRange>,
        /// A read waits for them: they are requested before other ranges.
        urgent: bool,
    },
    /// Receiver: these bytes are no longer needed; if they still come, they are dropped.
    Unwant {
        /// The object.
        object: ObjectId,
        /// The bytes.
        range: ByteRange,
    },
    /// Receiver: the flow's sender does not have these bytes; another flow is asked for them, if there is one.
    Avoid {
        /// The flow.
        flow: FlowId,
        /// The bytes.
        range: ByteRange,
    },
    /// Receiver: the flow may be asked for these bytes again, as if it had never been avoided.
    Allow {
        /// The flow.
        flow: FlowId,
        /// The bytes.
        range: ByteRange,
    },
    /// Receiver: the flow's datagrams take another path from now on. The path is opened anew. Outstanding ranges come
    /// over the old path, or are requested again.
    ChangePath {
        /// The flow.
        flow: FlowId,
        /// The new way is a byte stream, or several: it loses nothing, and controls its rate itself. How it delays
        /// data says nothing of a capacity.
        reliable: bool,
        /// Where the sender's datagrams come from by that way; `None`: from where they came before.
        peer: Option<SocketAddr>,
    },
    /// Receiver: the rate that all flows together may take (C_r) has changed. `None`: find it out.
    LimitReceive(Option<Bitrate>),
    /// Receiver: how much is taken beside others' traffic has changed.
    SetPolicy(Policy),
    /// Sender: the rate that all flows together may send (R_send) has changed. `None`: no limit.
    LimitSend(Option<Bitrate>),
}

/// Why a command was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    /// A sender got a receiver's command, or the other way round.
    #[error("this endpoint does not play that role")]
    WrongRole,
    /// The flow is not known.
    #[error("flow {} is not known", .0.0)]
    UnknownFlow(FlowId),
    /// The object is not known.
    #[error("object {} is not known", .0.0)]
    UnknownObject(ObjectId),
    /// The flow exists already.
    #[error("flow {} exists already", .0.0)]
    FlowExists(FlowId),
    /// The object exists already.
    #[error("object {} exists already", .0.0)]
    ObjectExists(ObjectId),
    /// The MTU leaves no room for data.
    #[error("an MTU of {0} bytes leaves no room for data: at least 576 is needed")]
    MtuTooSmall(u16),
    /// The protocol's headers cannot address every byte of an object of this size.
    #[error("an object of {0} bytes is larger than this protocol can carry")]
    ObjectTooLarge(u64),
    /// A range ends beyond its object.
    #[error("the range {0} ends beyond the object")]
    OutOfRange(ByteRange),
    /// The protocol fetches from its own senders only.
    #[error("this protocol fetches only from senders that speak it: HTTP servers and files need 'gtp'")]
    NoSources,
    /// The protocol has no policies.
    #[error("this protocol has no policies")]
    NoPolicies,
    /// The policy is to hold a rate, and no rate was given.
    #[error("the policy 'fixed' needs a receive rate")]
    NoRate,
}
