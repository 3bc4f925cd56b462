//! UDT's constants, and what a receiver tells its sender.

use inhaul_base::Span;

/// The constant interval of rate control and of full ACKs (udt-2004 2.3).
pub const SYN: Span = Span::from_millis(10);
/// The first of a packet pair has a number that is a multiple of this; the second is the next (udt-2004 2.3).
pub const PAIR_EVERY: u64 = 16;
/// A light ACK for so many packets (UDT 4).
pub const LIGHT_ACK_EVERY: u64 = 64;
/// A range of packet numbers, first and last.
pub type Losses = (u64, u64);

/// What a receiver tells its sender in full, each [`SYN`].
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
}
