//! The description of a link, as plain data.

use inhaul_base::{Bitrate, Probability, Span};

/// A one-way link: what it does to the packets that are sent into it.
///
/// A packet waits in the queue, is transmitted at the rate, and travels for the delay plus jitter and reordering. Loss
/// and duplication happen on the wire: a packet that will be lost waits and is transmitted like any other.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkSpec {
    /// Bits per second of the transmitter, for all bytes given to `send`; `None`: transmission takes no time and
    /// nothing ever waits. [`Bitrate::ZERO`] holds everything until the rate is changed.
    pub rate: Option<Bitrate>,
    /// Propagation delay: from the last bit sent to the last bit received.
    pub delay: Span,
    /// Random addition to the delay of each packet: uniform in `[0, jitter)`.
    pub jitter: Span,
    /// Whether jitter lets a packet overtake another. If not, a packet that would arrive before its predecessor arrives
    /// together with it, and dense traffic sees less jitter than drawn.
    pub jitter_reorders: bool,
    /// Where packets wait for the transmitter.
    pub queue: QueueSpec,
    /// Which packets are lost on the wire.
    pub loss: LossSpec,
    /// Which packets are held back on the wire, so that others overtake them.
    pub reordering: ReorderingSpec,
    /// Probability that a packet that can be marked is marked as if it had met congestion, as broken devices do (ECN,
    /// RFC 3168).
    pub marking: Probability,
    /// Probability that a packet arrives twice. The copy arrives together with the packet, and takes none of the rate.
    pub duplication: Probability,
}

impl LinkSpec {
    /// A link that takes no time and loses nothing.
    pub fn ideal() -> Self {
        Self {
            rate: None,
            delay: Span::ZERO,
            jitter: Span::ZERO,
            jitter_reorders: false,
            queue: QueueSpec::UNLIMITED,
            loss: LossSpec::None,
            reordering: ReorderingSpec::NONE,
            marking: Probability::ZERO,
            duplication: Probability::ZERO,
        }
    }

    /// A link of this rate and propagation delay with a drop-tail queue.
    pub fn drop_tail(rate: Bitrate, delay: Span, limit: QueueLimit) -> Self {
        let queue = QueueSpec { limit, discipline: Discipline::DropTail, marks: false };
        Self { rate: Some(rate), delay, queue, ..Self::ideal() }
    }

    /// Checks that the specification is valid. [`Link::new`](crate::Link::new) accepts any without a panic; check what
    /// a person wrote first.
    ///
    /// A [`SpecError`] for the first fault.
    pub fn check(&self) -> Result<(), SpecError> {
        match self.queue.discipline {
            Discipline::DropTail => Ok(()),
            Discipline::Red(red) => red.check(),
            Discipline::CoDel(codel) if codel.interval == Span::ZERO => Err(SpecError::CoDelInterval),
            Discipline::CoDel(_) => Ok(()),
        }
    }
}

/// The queue in front of the transmitter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QueueSpec {
    /// How much may wait. When it is full, arriving packets are dropped, under every discipline.
    pub limit: QueueLimit,
    /// Which packets are dropped earlier.
    pub discipline: Discipline,
    /// Packets whose senders declare that marks are read are marked instead of dropped by RED or CoDel (ECN, RFC 3168).
    pub marks: bool,
}

impl QueueSpec {
    /// Everything may wait.
    pub const UNLIMITED: Self = Self { limit: QueueLimit::Unlimited, discipline: Discipline::DropTail, marks: false };
}

/// How much may wait for the transmitter. The packet in transmission does not count (as in ns-2 and ns-3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueLimit {
    /// This many bytes; a packet that does not fit entirely is dropped.
    Bytes(u64),
    /// This many packets of any size.
    Packets(u64),
    /// Anything.
    Unlimited,
}

/// Queue discipline.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Discipline {
    /// First in, first out; no packet is dropped before the queue is full.
    DropTail,
    /// Random early detection, decided when a packet comes.
    Red(RedSpec),
    /// Controlled delay (RFC 8289), decided when a packet's turn comes: `send` answers `Ok`, the drop is in the
    /// statistics.
    CoDel(CoDelSpec),
}

/// Random early detection: Floyd and Jacobson, "Random Early Detection Gateways for Congestion Avoidance" (1993), with
/// the "gentle" slope above the upper threshold (Floyd 2000).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RedSpec {
    /// Average queue below which nothing is dropped; in bytes if the limit of the queue is in bytes, else in packets.
    pub min_threshold: f64,
    /// Average queue at which `max_probability` is reached, same unit. At twice this every packet is dropped.
    pub max_threshold: f64,
    /// Probability of a drop at `max_threshold` (max_p).
    pub max_probability: Probability,
    /// Weight of the newest queue length in the average (w_q), in `(0, 1]`; 0.002 in the paper.
    pub weight: f64,
    /// Bytes of a typical packet: how fast the average decays while the link is idle, and in a queue counted in
    /// bytes, which packets count as large.
    pub mean_packet: u32,
}

impl RedSpec {
    fn check(&self) -> Result<(), SpecError> {
        if !(self.min_threshold >= 0.0 && self.max_threshold > self.min_threshold && self.max_threshold.is_finite()) {
            return Err(SpecError::RedThresholds { min: self.min_threshold, max: self.max_threshold });
        }
        if !(self.weight > 0.0 && self.weight <= 1.0) {
            return Err(SpecError::RedWeight(self.weight));
        }
        if self.mean_packet == 0 {
            return Err(SpecError::RedMeanPacket);
        }
        Ok(())
    }
}

/// Controlled delay, RFC 8289.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoDelSpec {
    /// Acceptable standing queue delay (RFC 8289 section 4.4: 5 ms).
    pub target: Span,
    /// Time in which the delay must fall below the target (RFC 8289 section 4.3: 100 ms, in the order of the RTT).
    pub interval: Span,
}

impl CoDelSpec {
    /// The values that RFC 8289 recommends for the open Internet.
    pub const RFC_8289: Self = Self { target: Span::from_millis(5), interval: Span::from_millis(100) };
}

/// Which packets are lost on the wire.
#[derive(Clone, Debug, PartialEq)]
pub enum LossSpec {
    /// None.
    None,
    /// Each with this probability, independent of the others.
    Random(Probability),
    /// In bursts.
    GilbertElliott(GilbertElliottSpec),
    /// Exactly those with these numbers: 0 is the first packet ever sent into the link, even if it was dropped. Any
    /// order.
    Scripted(Vec<u64>),
}

/// The Gilbert-Elliott channel (Gilbert 1960, Elliott 1963): a Markov chain of two states that steps once for each
/// packet, starts in the good one, and loses packets with the probability of the state it is in after the step.
///
/// The share of the bad state is `to_bad / (to_bad + to_good)`, a stay in it lasts `1 / to_good` packets on average.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GilbertElliottSpec {
    /// Probability of a step from good to bad.
    pub to_bad: Probability,
    /// Probability of a step from bad to good.
    pub to_good: Probability,
    /// Probability of a loss in the good state.
    pub loss_in_good: Probability,
    /// Probability of a loss in the bad state.
    pub loss_in_bad: Probability,
}

/// Which packets are held back on the wire.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReorderingSpec {
    /// Probability that a packet is held back.
    pub probability: Probability,
    /// For how long, beyond delay and jitter. The order changes only if this is longer than the gap to the next packet.
    pub by: Span,
}

impl ReorderingSpec {
    /// No packet is held back.
    pub const NONE: Self = Self { probability: Probability::ZERO, by: Span::ZERO };
}

/// A fault of a [`LinkSpec`].
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum SpecError {
    /// The thresholds of RED are not ordered.
    #[error(
        "RED thresholds {min} and {max}: write 0 <= min_threshold < max_threshold, both in the unit of the queue's limit"
    )]
    RedThresholds {
        /// The lower one.
        min: f64,
        /// The upper one.
        max: f64,
    },
    /// The weight of RED's average is not in `(0, 1]`.
    #[error("RED weight {0}: write a number above 0 and at most 1, like 0.002")]
    RedWeight(f64),
    /// RED's typical packet has no bytes.
    #[error("RED mean_packet 0: write the bytes of a typical packet, like 1500")]
    RedMeanPacket,
    /// CoDel's interval is zero.
    #[error("CoDel interval 0: write a span in the order of the round-trip time, like 100 ms")]
    CoDelInterval,
}
