//! The interface of a protocol's state machine.

use std::net::SocketAddr;

use inhaul_base::{Bitrate, ByteRange, Span, Time};

use crate::ids::FlowId;
use crate::{Command, CommandError, Event, Place, RxMessage, TcpFlows, TxBatch};

/// The expected next datagrams of a flow, without loss and reordering: lets an engine receive bodies straight into
/// their place. A wrong guess costs a copy, never correctness.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expected {
    /// Length of each envelope and head together, in bytes.
    pub head_len: usize,
    /// Length of each body but the last, in bytes.
    pub body_len: usize,
    /// Where the bodies belong: no byte of it has been placed, and no other data will be placed there before them.
    pub range: ByteRange,
}

/// How the host is doing that an endpoint runs on, since the last sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostSample {
    /// How late the endpoint's thread ran after it was due, at most.
    pub lateness: Span,
    /// Messages that the kernel has dropped because the thread had not read earlier ones.
    pub socket_drops: u64,
    /// When the thread will next not run for a while, if that is foreseen.
    pub pause: Option<Pause>,
    /// The rate of packets, headers included, that the host can receive on average now, by its processors and its disk
    /// (gtp-2004 2: the end system's capacity bounds C_r). `None`: neither bounds it.
    pub intake: Option<Bitrate>,
    /// The traffic of the host's own TCP, if it was just measured. `None`: nothing new.
    pub tcp: Option<TcpFlows>,
}

/// A time in which a host does not run an endpoint's thread: others have the processor, or a quota is used up
/// (rbudp-plus-2006 section 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pause {
    /// When it begins; it may have begun.
    pub start: Time,
    /// How long it lasts.
    pub length: Span,
}

impl Pause {
    /// When it ends.
    pub fn end(self) -> Time {
        self.start + self.length
    }
}

/// How a flow is doing. Counters run from the flow's start.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FlowStats {
    /// Receiver: bytes of the object that this flow was the first to deliver.
    pub placed_bytes: u64,
    /// Sender: bytes of the object that were sent because they were requested.
    pub sent_bytes: u64,
    /// Bytes received, or sent, with all headers from IP up.
    pub wire_bytes: u64,
    /// Receiver: data packets received.
    pub received_packets: u64,
    /// Sender: data packets sent.
    pub sent_packets: u64,
    /// Data packets found lost.
    pub lost_packets: u64,
    /// Bytes of the object that were asked for, or sent unasked, a second time or more.
    pub retransmitted_bytes: u64,
    /// Bytes that arrived though they were held already.
    pub duplicate_bytes: u64,
    /// Duplicates: datagrams with a packet number that had come already, copied by the network. No other counter
    /// includes them.
    pub duplicate_packets: u64,
    /// Smoothed round-trip time; zero until measured.
    pub rtt: Span,
    /// Rate at which data came in lately, headers included.
    pub received_rate: Bitrate,
    /// Rate that the flow may have (its scheduler's target).
    pub target_rate: Bitrate,
    /// Rate that the sender has been asked for.
    pub requested_rate: Bitrate,
    /// Bytes asked for that have not come, or have not been sent, yet.
    pub outstanding_bytes: u64,
    /// Standing queue on the path, as time; zero when unknown.
    pub queue_delay: Span,
    /// Bytes that may be in flight at once; zero where the protocol has no window, and on the side that does not keep
    /// it.
    pub window_bytes: u64,
    /// Sender: time for which it had data to send and sent none, because the receiver had said when it would not run.
    pub held: Span,
    /// What holds the flow's rate; `None` if the protocol does not say.
    pub held_by: Option<HeldBy>,
}

/// What holds a flow's rate: more would come, were it not for this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeldBy {
    /// Nothing yet: the flow has only begun, or its path is being measured.
    Starting,
    /// No known limit: the rate still rises, or the hosts send and receive as much as they can.
    Nothing,
    /// The receiver's capacity: its link, its processors or its disk.
    Receiver,
    /// The capacity of the path from this sender.
    Path,
    /// Others' traffic: the rate is a share beside it.
    Others,
    /// The sender gives no more.
    Sender,
    /// A rate that the user of the receiver has told.
    Policy,
}

impl HeldBy {
    /// Its name, in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Nothing => "nothing",
            Self::Receiver => "receiver",
            Self::Path => "path",
            Self::Others => "others",
            Self::Sender => "sender",
            Self::Policy => "policy",
        }
    }
}

/// A protocol's state machine for one host, with all its flows.
///
/// **The driving rule.** Change one thing, then [`drain`](crate::drain): call exactly one of the `handle_*` methods or
/// [`command`](Endpoint::command), then take events and transmissions until there are none, and sleep until the
/// deadline that [`poll_timeout`](Endpoint::poll_timeout) names or until something comes in. `now` never goes
/// backwards.
///
/// Calls are per batch, not per datagram, so the trait is used as an object.
pub trait Endpoint {
    /// Datagrams came in. For each body that belongs somewhere, a [`Place`] is appended to `places`, naming messages
    /// by their index in `batch`. Malformed, foreign and repeated datagrams are counted and otherwise ignored.
    fn handle_datagrams(&mut self, now: Time, batch: &[RxMessage<'_>], places: &mut Vec<Place>);

    /// A whole message came in on the flow's control stream. A bad one ends the flow with [`Event::Failed`].
    fn handle_control(&mut self, now: Time, flow: FlowId, message: &[u8]);

    /// A source delivered these bytes of its object. Appends a [`Place`] for each new part, as
    /// [`handle_datagrams`](Self::handle_datagrams) does: [`Place::skip`] counts from the first byte delivered.
    fn handle_delivery(&mut self, _now: Time, _flow: FlowId, _range: ByteRange, _places: &mut Vec<Place>) {}

    /// How the host is doing: told about once a second, and at once when something went wrong or a
    /// pause is newly foreseen.
    fn handle_host(&mut self, _now: Time, _sample: HostSample) {}

    /// A deadline may have passed. Calling it early or for nothing is harmless.
    fn handle_timeout(&mut self, now: Time);

    /// The user wants something.
    ///
    /// # Errors
    /// When the command does not fit the endpoint's role or names something unknown; the endpoint is unchanged then.
    fn command(&mut self, now: Time, command: Command) -> Result<(), CommandError>;

    /// Appends datagrams that may leave at `now`, until `out` is full. Leaves `out` unchanged if none may.
    fn poll_transmit(&mut self, now: Time, out: &mut TxBatch);

    /// The next thing that the user or the control stream must hear of.
    fn poll_event(&mut self) -> Option<Event>;

    /// When [`handle_timeout`](Endpoint::handle_timeout) or [`poll_transmit`](Endpoint::poll_transmit) is next due.
    fn poll_timeout(&self) -> Option<Time>;

    /// The flow's expected next datagrams, if the protocol can tell.
    fn expected(&self, _flow: FlowId) -> Option<Expected> {
        None
    }

    /// Where the flow's datagrams go, once its path is open.
    fn peer(&self, _flow: FlowId) -> Option<SocketAddr> {
        None
    }

    /// How the flow is doing; `None` when it is not known (any more).
    fn flow_stats(&self, flow: FlowId) -> Option<FlowStats>;

    /// Approximate bytes of memory of the endpoint's state. Its configuration bounds them, even with hostile peers.
    fn memory_bytes(&self) -> usize;
}
