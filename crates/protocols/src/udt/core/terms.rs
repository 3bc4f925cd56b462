//! UDT's constants, and a receiver's reports to its sender.

use inhaul_base::Span;

/// The constant interval of rate control and of full ACKs (udt-2004 2.3).
pub const SYN: Span = Span::from_millis(10);
/// The first of a packet pair has a number that is a multiple of this; the second is the next (udt-2004 2.3).
pub const PAIR_EVERY: u64 = 16;
/// A light ACK for this many packets (UDT 4).
pub const LIGHT_ACK_EVERY: u64 = 64;
/// How a receiver finds the speed at which packets arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpeedRule {
    /// The last 16 intervals, by UDT's median filter (UDT 1 and UDT 4).
    Filtered,
    /// The median of the intervals since the last full ACK (udt-2004 2.3).
    SinceAck,
}

/// A receiver's reports to its sender, and their measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reporting {
    /// A light ACK for this many packets; `u64::MAX`: none.
    pub light_ack_every: u64,
    /// How the speed of arrival is found.
    pub speed: SpeedRule,
    /// Whether it warns of delay that grows (UDT 1).
    pub warns: bool,
}

impl Reporting {
    /// As UDT 4 does.
    pub const UDT4: Self = Self { light_ack_every: LIGHT_ACK_EVERY, speed: SpeedRule::Filtered, warns: false };
    /// As udt-2004 has it: an ACK each SYN and no others.
    pub const PAPER_2004: Self = Self { light_ack_every: u64::MAX, speed: SpeedRule::SinceAck, warns: false };
    /// As UDT 1: no light ACKs, and warnings of delay.
    pub const UDT1: Self = Self { light_ack_every: u64::MAX, speed: SpeedRule::Filtered, warns: true };
}

/// A range of packet numbers, first and last.
pub type Losses = (u64, u64);

/// A receiver's full report to its sender, each [`SYN`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ack {
    /// The ACK's own number, which the ACK2 that answers it has.
    pub number: u32,
    /// The first packet that has not come.
    pub next: u64,
    /// Smoothed round-trip time.
    pub rtt: Span,
    /// Its variation.
    pub rtt_variation: Span,
    /// How many packets from `next` on the receiver takes.
    pub window: u64,
    /// Arrival speed, packets a second; 0: not known.
    pub arrival_speed: u32,
    /// Capacity of the path by packet pairs, packets a second; 0: not known.
    pub capacity: u32,
}

/// What a receiver tells its sender.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Feedback {
    /// A full ACK. The sender answers it with an ACK2.
    Ack(Ack),
    /// Between two full ones: only that all packets before `next` have come.
    LightAck {
        /// The first packet that has not come.
        next: u64,
    },
    /// These packets are missing.
    Nak(Vec<Losses>),
    /// The delay of packets grows, as the answer to the ACK of this number showed.
    Warning {
        /// The ACK's number.
        ack: u32,
    },
}
