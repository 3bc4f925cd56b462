//! One flow as every receiver sees it.

use std::net::SocketAddr;

use inhaul_base::{Bitrate, ByteRange, RangeSet, Span, Time};

use super::rules::Rules;
use crate::kit::Numbers;
use crate::kit::path::Path;
use crate::kit::wire::{BLOCK_MIN, Reader, WireError};
use crate::{ConnectionId, ENVELOPE_LEN, Expected, FlowStats, JoinFlow, JoinSource, PathSpec, Place, Route};

/// Silent for so long, a sender is gone: it answers probes.
const SILENCE_MAX: Span = Span::from_secs(30);

/// A receiver's state of a flow, for every protocol.
#[derive(Debug)]
pub struct FlowCore {
    /// The user's request.
    pub join: JoinFlow,
    /// Where its sender is, once that is known.
    pub peer: Option<SocketAddr>,
    /// The path to its sender.
    pub path: Path,
    /// The path is a byte stream: see [`Command::ChangePath`](crate::Command::ChangePath).
    pub reliable: bool,
    /// It has no sender: it stands for a source of another kind. See [`Command::JoinSource`](crate::Command::JoinSource).
    pub source: Option<SourceCore>,
    /// Bytes of data that a packet has room for: so long are the blocks that are asked for.
    pub block: u16,
    /// Longest block that the user wants.
    pub block_max: u16,
    /// Bytes that must not be asked of this sender: it brought them wrong, or does not have them.
    pub avoid: RangeSet,
    /// When the sender last gave a sign of life.
    pub last_heard: Time,
    /// When bytes were last wanted of it after a rest.
    roused: Time,
    /// Bytes that this flow was the first to deliver.
    pub placed_bytes: u64,
    /// Bytes that came though they were held already.
    pub duplicate_bytes: u64,
    /// Datagrams that the network has brought more than once: all but the first of each are dropped.
    pub duplicate_packets: u64,
    /// The packet numbers that have come.
    pub(super) numbers: Numbers,
    /// The sender's acceptance of the flow, once it has come.
    pub(super) accepted: Option<Accepted>,
    /// The timer that the receiver has noted for this flow.
    pub(super) noted: Option<Time>,
    header_len: u16,
    grain: u16,
}

/// A source that is no sender of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceCore {
    /// How many requests it serves at once.
    pub lanes: u32,
}

/// A sender's acceptance of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Accepted {
    /// What datagrams to it must carry.
    pub(super) connection: ConnectionId,
    /// The secret that opens the path.
    pub(super) token: u64,
}

impl FlowCore {
    pub(super) fn new(now: Time, join: JoinFlow, rules: &Rules) -> Self {
        let mut core = Self {
            peer: join.peer,
            path: Path::new(rules.path),
            reliable: false,
            source: None,
            block: 0,
            block_max: u16::MAX,
            avoid: RangeSet::new(),
            last_heard: now,
            roused: now,
            placed_bytes: 0,
            duplicate_bytes: 0,
            duplicate_packets: 0,
            numbers: Numbers::recent(),
            accepted: None,
            noted: None,
            header_len: rules.header_len as u16,
            grain: rules.grain,
            join,
        };
        if let Some(age) = join.probed {
            core.path.expect_early(now, age, join.path);
        }
        core.fit_block(core.join.path.mtu);
        core
    }

    /// The core of a flow that stands for a source. It has no path to open or watch.
    pub(super) fn of_source(now: Time, join: JoinSource, rules: &Rules) -> Self {
        let JoinSource { flow, object, lanes, limits, .. } = join;
        let path = PathSpec { mtu: u16::MAX, overhead: 0 };
        let connection = ConnectionId::NONE;
        let mut core =
            Self::new(now, JoinFlow { flow, object, peer: None, path, connection, probed: None, limits }, rules);
        core.source = Some(SourceCore { lanes: lanes.max(1) });
        core.reliable = true;
        core.path = Path::opened(rules.path);
        core
    }

    /// Whether the sender has accepted the flow.
    pub fn is_accepted(&self) -> bool {
        self.accepted.is_some()
    }

    /// Where datagrams to its sender go, once that is known.
    pub fn route(&self) -> Option<Route> {
        Some(Route::new(self.peer?, self.accepted?.connection))
    }

    /// Bytes of each data packet that are not data: all headers from IP up.
    pub fn overhead(&self) -> u64 {
        u64::from(self.join.path.overhead + self.header_len)
    }

    /// Until when a sender that answers probes may be silent; the control stream's own time-outs watch over it before
    /// it accepts.
    pub fn silence(&self) -> Option<Silence> {
        let (since, no_path) = (self.silent_since(), !self.path.is_open());
        self.is_accepted().then(|| Silence { until: since + SILENCE_MAX, since, no_path })
    }

    /// The time from which its sender must show that it is alive; a resting sender need not.
    pub fn silent_since(&self) -> Time {
        self.last_heard.max(self.roused)
    }

    /// Something is wanted of the flow after a rest.
    pub(super) fn rouse(&mut self, now: Time) {
        self.roused = now;
    }

    /// The flow's datagrams go another way.
    pub(super) fn change_path(&mut self, now: Time, reliable: bool, peer: Option<SocketAddr>) {
        self.reliable = reliable;
        self.peer = peer.or(self.peer);
        self.last_heard = now;
        self.path.reopen(now);
        self.fit_block(self.join.path.mtu);
    }

    /// Counters that are everybody's.
    pub fn stats(&self) -> FlowStats {
        FlowStats {
            placed_bytes: self.placed_bytes,
            duplicate_bytes: self.duplicate_bytes,
            duplicate_packets: self.duplicate_packets,
            rtt: self.path.rtt().smoothed().unwrap_or(Span::ZERO),
            ..FlowStats::default()
        }
    }

    /// Blocks are as long as packets of `mtu` bytes allow.
    pub(super) fn fit_block(&mut self, mtu: u16) {
        let path = PathSpec { mtu, ..self.join.path };
        self.block = largest_block(path, self.header_len, self.grain).min(self.block_max);
    }

    /// The sender has accepted; the path carries packets of no more than `mtu` bytes, as far as is known.
    pub(super) fn accept(&mut self, now: Time, accepted: Accepted, mtu: u16) {
        self.accepted = Some(accepted);
        self.last_heard = now;
        self.path.begin(now, PathSpec { mtu: self.join.path.mtu.min(mtu), ..self.join.path });
    }

    /// The sender, which connected, told its address by a datagram with `token`. Returns whether that is news.
    pub(super) fn learn_peer(&mut self, now: Time, from: SocketAddr, token: u64) -> bool {
        let is_news =
            self.join.peer.is_none() && self.accepted.is_some_and(|a| a.token == token) && !self.path.is_open();
        if is_news {
            self.peer = Some(from);
            self.last_heard = now;
        }
        is_news
    }
}

/// The longest block that fits a packet of the path behind a protocol's header, as a multiple of `grain`.
pub fn largest_block(path: PathSpec, header_len: u16, grain: u16) -> u16 {
    let room = path.mtu.saturating_sub(path.overhead.saturating_add(header_len));
    (room - room % grain).max(BLOCK_MIN)
}

/// Until when a sender may be silent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Silence {
    /// The flow is given up at this time ...
    pub until: Time,
    /// ... after nothing came from this one on.
    pub since: Time,
    /// Whether the path is to blame: the sender is heard, but its data does not come.
    pub no_path: bool,
}

/// A protocol's state of a flow at the receiver.
pub trait ReceiverFlow {
    /// What all protocols keep.
    fn core(&self) -> &FlowCore;

    /// The same, to be changed.
    fn core_mut(&mut self) -> &mut FlowCore;

    /// Requested bytes that have neither come nor been given up.
    fn pending_bytes(&self) -> u64;

    /// The last request made; 0 before the first.
    fn last_request(&self) -> u32;

    /// Gives up pending ranges: other flows are to bring them.
    fn abandon(&mut self) -> Vec<ByteRange>;

    /// Bytes are no longer needed: the flow stops waiting for them, if the protocol can tell.
    fn forget(&mut self, _range: ByteRange) {}

    /// Whether it could bring more than it is asked for: it helps others that are slower.
    fn is_idle(&self) -> bool;

    /// Whether nothing will be asked of it for a while.
    fn rests(&self) -> bool {
        self.pending_bytes() == 0
    }

    /// How long `bytes` more would take.
    fn time_for(&self, bytes: u64) -> Span;

    /// A probe took this long.
    fn on_rtt(&mut self, _now: Time, _rtt: Span) {}

    /// The rate to which the sender keeps its echoes.
    fn echo_rate(&self) -> Bitrate {
        Bitrate::MAX
    }

    /// When it next needs attention, beside its path.
    fn due(&self) -> Option<Time>;

    /// Until when its sender may be silent once it has accepted. Half a minute, unless the protocol knows better.
    fn silence(&self) -> Option<Silence> {
        self.core().silence()
    }

    /// See [`Endpoint::expected`](crate::Endpoint::expected).
    fn expected(&self) -> Option<Expected> {
        None
    }

    /// See [`Endpoint::flow_stats`](crate::Endpoint::flow_stats).
    fn stats(&self) -> FlowStats;

    /// Bytes of memory, about, beside the flow itself and the [`FlowCore`]'s.
    fn memory_bytes(&self) -> usize;
}

/// The header of a data packet.
pub trait DataHead: Copy {
    /// Its length in bytes.
    const LEN: usize;

    /// Reads it from the front of the part behind the envelope. `None`: the datagram is of another kind.
    fn parse(bytes: &[u8]) -> Option<Self>;

    /// Where its body starts in the object.
    fn offset(&self) -> u64;

    /// Whether `next`, this many packets on, continues a run that began with this one, packet numbers and places
    /// aside.
    fn leads_to(&self, next: &Self, packets: u64) -> bool;
}

/// Consecutive data packets of one message whose bodies follow each other in the object.
#[derive(Clone, Copy, Debug)]
pub struct Run<H> {
    /// The first packet's header.
    pub head: H,
    /// How many packets.
    pub packets: u64,
    /// Bytes of all bodies.
    pub body_bytes: u64,
    /// Length of all bodies but the last.
    pub body_len: u64,
    /// The first packet's number.
    pub number: u32,
    /// How long they had waited in this host when they were read.
    pub waited: Span,
    /// They came with a mark of congestion.
    pub congested: bool,
    message: u32,
    first: u32,
}

impl<H: DataHead> Run<H> {
    /// A run of one packet: datagram `first` of `message`, with this number and a body of `body` bytes.
    pub(super) fn new(head: H, number: u32, message: &crate::RxMessage<'_>, first: usize, body: u64) -> Self {
        let &crate::RxMessage { index, waited, congested, .. } = message;
        let first = first as u32;
        Self {
            head,
            packets: 1,
            body_bytes: body,
            body_len: body.max(1),
            number,
            waited,
            congested,
            message: index,
            first,
        }
    }

    /// Adds datagram `k`, if it continues the run.
    pub(super) fn takes(&mut self, head: &H, number: u32, k: usize, body: u64) -> bool {
        let follows = u64::from(self.first) + self.packets == k as u64
            && number == self.number.wrapping_add(self.packets as u32)
            && head.offset() == self.head.offset().wrapping_add(self.body_bytes)
            && self.body_bytes == self.packets * self.body_len
            && self.head.leads_to(head, self.packets);
        if follows {
            self.packets += 1;
            self.body_bytes += body;
        }
        follows
    }

    /// The bytes of the object that came.
    pub fn range(&self) -> ByteRange {
        ByteRange::at(self.head.offset(), self.body_bytes)
    }

    /// Each packet of the run, which belongs to this message, as a run of its own.
    pub(super) fn each<'m>(self, message: &'m crate::RxMessage<'_>) -> impl Iterator<Item = Self> + use<'m, H> {
        (0..self.packets).filter_map(move |n| {
            let k = (u64::from(self.first) + n) as usize;
            let head = H::parse(message.head(k))?;
            let body = (message.len_of(k) - H::LEN) as u64;
            Some(Self::new(head, self.number.wrapping_add(n as u32), message, k, body))
        })
    }

    /// Where the engine finds `part` of this run, and where it belongs.
    pub(super) fn place(&self, flow: crate::FlowId, part: ByteRange) -> Place {
        let into = part.start - self.head.offset();
        Place {
            flow,
            message: self.message,
            first: self.first + (into / self.body_len) as u32,
            skip: (ENVELOPE_LEN + H::LEN) as u32 + (into % self.body_len) as u32,
            head_len: (ENVELOPE_LEN + H::LEN) as u32,
            range: part,
        }
    }
}

/// The flow's error for an unreadable message.
pub(crate) fn refusal(error: WireError, ours: u8) -> crate::FlowError {
    match error {
        WireError::Version(theirs) => crate::FlowError::Version { ours, theirs },
        _ => crate::FlowError::Protocol("a control message could not be understood"),
    }
}

/// Reads the protocol's part of a message. Bytes left over are an error.
///
/// # Errors
/// When it is not exactly that.
pub fn read_all<'a, T>(
    bytes: &'a [u8],
    read: impl FnOnce(&mut Reader<'a>) -> Result<T, WireError>,
) -> Result<T, WireError> {
    let mut reader = Reader(bytes);
    let value = read(&mut reader)?;
    reader.end().map(|()| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn largest_block_fills_the_packet() {
        let path = |mtu| PathSpec::clear(mtu, std::net::Ipv4Addr::LOCALHOST.into());
        assert_eq!(largest_block(path(1500), 24, 8), 1440, "in the clear");
        assert_eq!(largest_block(PathSpec { overhead: 28 + 8 + 16, ..path(1500) }, 24, 8), 1424, "sealed");
        assert_eq!(largest_block(PathSpec::clear(1500, std::net::Ipv6Addr::LOCALHOST.into()), 24, 8), 1416);
        assert_eq!(largest_block(path(9000), 24, 8), 8936);
        assert_eq!(largest_block(path(u16::MAX), 24, 8), 65_472);
        assert_eq!(largest_block(path(1500), 16, 1), 1448);
        assert_eq!(largest_block(path(100), 16, 1), BLOCK_MIN);
    }
}
