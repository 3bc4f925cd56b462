//! Errors of a network, and of a run of it.

use std::net::SocketAddr;

use inhaul_base::{ByteRange, Time};
use inhaul_link::SpecError;
use inhaul_transport::{CommandError, FlowId, ObjectId};

/// Why a [`Topology`](crate::Topology) cannot be simulated.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum TopologyError {
    /// Two nodes or two links have the same name.
    #[error("there are two {what}s with the name '{name}': give each its own")]
    SameName {
        /// "node" or "link".
        what: &'static str,
        /// The name.
        name: String,
    },
    /// A link starts or ends at a node of another topology.
    #[error("the link '{link}' starts or ends at a node that is not in the topology: use ids that it has returned")]
    UnknownNode {
        /// The link's name.
        link: String,
    },
    /// A link leads from a node to itself.
    #[error("the link '{link}' ends where it starts: remove it")]
    Loop {
        /// The link's name.
        link: String,
    },
    /// A link's numbers make no sense.
    #[error("link '{link}': {error}")]
    BadLink {
        /// The link's name.
        link: String,
        /// The fault, and the legal values.
        error: SpecError,
    },
    /// A host's numbers make no sense.
    #[error("host '{host}': {reason}")]
    BadHost {
        /// The host's name.
        host: String,
        /// The fault, and the legal values.
        reason: &'static str,
    },
    /// More nodes than there are addresses for.
    #[error("a topology of {0} nodes is too large: at most 65536")]
    TooLarge(usize),
}

/// Why a run was refused or has ended.
///
/// The first group are errors of the caller; the second are errors of an endpoint: the run stops there.
#[derive(Debug, thiserror::Error)]
pub enum SimError {
    /// An id of another simulation.
    #[error("{0} is not in this simulation: use ids that it has returned")]
    Unknown(&'static str),
    /// An endpoint or the end of a traffic was put on a router.
    #[error("'{0}' is a router: endpoints and traffic live on hosts")]
    NotAHost(String),
    /// No path leads from one host to the other.
    #[error("there is no path from '{from}' to '{to}': add links, in both directions for a transfer")]
    NoRoute {
        /// Where it starts.
        from: String,
        /// Where it should lead.
        to: String,
    },
    /// A transfer between two endpoints of one host.
    #[error("transfer '{0}' has both ends on one host: it would use no link")]
    SameHost(String),
    /// Two transfers of one receiver and object say different sizes.
    #[error("transfer '{name}' gives {size} bytes for an object that has {known} bytes in another transfer")]
    SizeDiffers {
        /// The later transfer.
        name: String,
        /// Its size for the object, in bytes.
        size: u64,
        /// The earlier size, in bytes.
        known: u64,
    },
    /// Something was to happen before now.
    #[error("{what} was set for {at}, but it is {now} already")]
    Past {
        /// The scheduled event.
        what: &'static str,
        /// When.
        at: Time,
        /// Now.
        now: Time,
    },
    /// A number that makes no sense.
    #[error("{what}: {expected}")]
    BadValue {
        /// Which number.
        what: &'static str,
        /// The legal values.
        expected: &'static str,
    },
    /// The capture of a link could not be written.
    #[error("a packet capture could not be written: {0}")]
    Capture(#[from] std::io::Error),

    /// An endpoint refused a command of the simulation.
    #[error("at {at}, flow {}: the endpoint refused a command: {error}", .flow.0)]
    Refused {
        /// When.
        at: Time,
        /// The flow that the command was about.
        flow: FlowId,
        /// The endpoint's place.
        error: CommandError,
    },
    /// A [`Place`](inhaul_transport::Place) does not name the bytes that were sent there.
    #[error(
        "at {at}, flow {}: bytes {body} of the object were sent, and placed at {placed}: {reason}", .flow.0
    )]
    WrongPlace {
        /// When.
        at: Time,
        /// The flow that the datagram belongs to.
        flow: FlowId,
        /// The bytes of the object that the datagram carried.
        body: ByteRange,
        /// Where the endpoint says they belong.
        placed: ByteRange,
        /// Its fault.
        reason: &'static str,
    },
    /// Bytes were placed that had been placed before.
    #[error("at {at}, flow {}: the bytes {range} of object {} were placed a second time", .flow.0, .object.0)]
    PlacedTwice {
        /// When.
        at: Time,
        /// The flow.
        flow: FlowId,
        /// The object.
        object: ObjectId,
        /// The place.
        range: ByteRange,
    },
    /// An incomplete object was reported complete.
    #[error("at {at}: object {} was reported complete with {placed} of {size} bytes in place", .object.0)]
    NotComplete {
        /// When.
        at: Time,
        /// The object.
        object: ObjectId,
        /// Bytes in place.
        placed: u64,
        /// Bytes that it has.
        size: u64,
    },
    /// A datagram was sent to an unused address.
    #[error("at {at}: a datagram was sent to {to}, where no endpoint is")]
    NobodyThere {
        /// When.
        at: Time,
        /// Where to.
        to: SocketAddr,
    },
    /// An endpoint wants to be woken again and again without time passing.
    #[error("at {at}: an endpoint was woken {times} times without time passing, and wants to be woken again")]
    Stuck {
        /// When.
        at: Time,
        /// How often it was woken.
        times: u32,
    },
}
