//! The interface between a protocol's machinery and its congestion or rate control law.

use inhaul_base::{Bitrate, Span, Time};

/// An acknowledgement. Packets are the protocol's own: segments for TCP.
#[derive(Clone, Copy, Debug, Default)]
pub struct AckSample {
    /// When it came.
    pub now: Time,
    /// Packets that it is the first to report as delivered, in order or selectively.
    pub delivered_packets: u64,
    /// Packets found lost with its help.
    pub lost_packets: u64,
    /// Packets on their way, by the sender's reckoning, after it.
    pub in_flight: u64,
    /// Bytes of a full packet, headers from IP up included.
    pub packet_bytes: u64,
    /// The round-trip time that it measures, if it does.
    pub rtt: Option<Span>,
    /// Smoothed round-trip time; zero until measured.
    pub smoothed_rtt: Span,
    /// Whether a round trip has begun: everything that had been sent when the last one began is acknowledged.
    pub round_began: bool,
    /// Whether the window has limited the sender recently. If not, a larger window was not tested.
    pub window_limited: bool,
    /// Whether the window has to stay as it is: losses are being repaired, or packets came out of order and may turn
    /// out to be losses (RFC 5681 section 3.2 step 1, RFC 3042).
    pub held: bool,
    /// Whether the acknowledged packets were spread over time: acknowledgements then come spread as well, even on an
    /// empty path.
    pub paced: bool,
    /// Rate sample of the acknowledged packet.
    pub rate: Option<RateSample>,
}

/// A measurement of the rate at which the path delivers (draft-cheng-iccrg-delivery-rate-estimation).
#[derive(Clone, Copy, Debug, Default)]
pub struct RateSample {
    /// The rate, in packets a second.
    pub packets_per_second: f64,
    /// Packets that had been delivered when the packet that is now acknowledged was sent.
    pub prior_delivered: u64,
    /// Packets that have been delivered by now.
    pub delivered: u64,
    /// Packets that were found lost since the packet that is now acknowledged was sent.
    pub lost: u64,
    /// Packets that were on their way when it was sent, itself included.
    pub in_flight_at_send: u64,
    /// The sender had nothing more to send meanwhile: the path could deliver more.
    pub app_limited: bool,
}

/// A loss event: reported once for all losses of one round trip.
#[derive(Clone, Copy, Debug)]
pub struct LossSample {
    /// When it was noticed.
    pub now: Time,
    /// Packets in flight, by the sender's estimate, without lost ones.
    pub in_flight: u64,
}

/// How packets are spread over time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// No pacing: acknowledgements clock the packets. If these come in lumps, the sender may spread the packets that
    /// they release.
    Unpaced,
    /// Evenly, at this rate, headers from IP up included.
    Rate(Bitrate),
    /// The window leaves as this many blocks, spread over a round trip (fhstcp-2005 Figure 1).
    Blocks(u64),
}

/// A law's limits for its sender.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Packets that may be in flight at once.
    pub window_packets: u64,
    /// How they are spread over time.
    pub pace: Pace,
}

/// A congestion control law: small and pure. It neither repairs nor sends; it maps measurements to limits of sending.
pub trait Law {
    /// An acknowledgement reported something new.
    fn on_ack(&mut self, ack: &AckSample);

    /// Packets were lost. Called when a repair begins: once per round trip with losses. The window that
    /// [`limits`](Law::limits) gives from now on is the one to come down to.
    fn on_loss(&mut self, loss: &LossSample);

    /// No acknowledgement came for a timeout, so all packets in flight count as lost (RFC 6298), except the last ones.
    /// `repeated`: the threshold has been set for these losses already.
    fn on_timeout(&mut self, loss: &LossSample, repeated: bool);

    /// All packets that were lost, or in flight at the timeout, have been acknowledged.
    fn on_recovered(&mut self, _now: Time) {}

    /// The last loss or timeout was a mistake: nothing was lost, the packets or their acknowledgements were late
    /// (RFC 3522).
    fn on_spurious(&mut self, now: Time);

    /// Nothing was sent for longer than a retransmission timeout: the state of the path is stale (RFC 5681 4.1).
    fn on_idle(&mut self, now: Time);

    /// Whether the law itself limits the packets in flight while losses are repaired. Otherwise the sender brings the
    /// window down to the law's in proportion to deliveries (RFC 9937).
    fn rules_recovery(&self) -> bool {
        false
    }

    /// Whether the window may double in a round trip, so that its sender has to keep up with that.
    fn in_slow_start(&self) -> bool {
        false
    }

    /// The limits of sending.
    fn limits(&self) -> Limits;
}
