//! Input and output of a congestion control.

use inhaul_base::{Span, Time};

/// An ACK, full or light.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// When it came.
    pub now: Time,
    /// Whether it is a full one.
    pub full: bool,
    /// Packets that it is the first to acknowledge.
    pub delivered: u64,
    /// The first packet that is not acknowledged.
    pub first: u64,
    /// The next new packet.
    pub next: u64,
    /// Packets on their way: not acknowledged, and not known to be lost.
    pub in_flight: u64,
    /// Smoothed round-trip time.
    pub rtt: Span,
    /// Smoothed arrival speed, packets a second; 0: not known.
    pub arrival_speed: f64,
    /// Arrival speed as this ACK says it, packets a second; 0: not known, or not a full ACK.
    pub speed_said: f64,
    /// Smoothed capacity of the path, packets a second; 0: not known.
    pub capacity: f64,
    /// Bytes of a full packet, headers from IP up included.
    pub packet_bytes: u64,
    /// Whether only window or period held the sender back since the last full ACK. Otherwise a higher rate was not
    /// tested.
    pub held_back: bool,
}

/// Input at the timer of rate control.
#[derive(Clone, Copy, Debug)]
pub struct Tick {
    /// Packets sent since it fired last.
    pub sent: u64,
    /// Smoothed capacity of the path, packets a second; 0: not known.
    pub capacity: f64,
    /// Bytes of a full packet, headers from IP up included.
    pub packet_bytes: u64,
    /// As in [`Progress`], since the timer fired last.
    pub held_back: bool,
}

/// A NAK.
#[derive(Clone, Copy, Debug)]
pub struct Nak {
    /// When it came.
    pub now: Time,
    /// The first packet that it reports.
    pub first_lost: u64,
    /// Packets that it is the first to report.
    pub packets: u64,
    /// The next new packet.
    pub next: u64,
    /// Packets on their way, without those.
    pub in_flight: u64,
    /// Smoothed round-trip time.
    pub rtt: Span,
    /// Smoothed arrival speed, packets a second; 0: not known.
    pub arrival_speed: f64,
}

/// The limits of sending.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ControlLimits {
    /// Packets that may be unacknowledged.
    pub window: u64,
    /// Time between two packets, in nanoseconds.
    pub period_nanos: f64,
    /// Nothing may leave before this time.
    pub frozen_until: Time,
}
