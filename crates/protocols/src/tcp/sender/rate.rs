//! Samples of the rate at which the path delivers (draft-cheng-iccrg-delivery-rate-estimation-02).

use inhaul_base::{Span, Time};
use inhaul_transport::RateSample;

/// The estimator's state when a segment was sent: the draft's `P.*`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Snapshot {
    /// When it was sent.
    pub(super) sent: Time,
    /// Its place in the order of sending: times alone do not tell apart what leaves at once.
    pub(super) order: u64,
    delivered: u64,
    /// Packets found lost by then.
    lost: u64,
    /// Packets on their way, with this one.
    in_flight: u64,
    delivered_at: Time,
    first_sent: Time,
    app_limited: bool,
}

/// The draft's `C.*`, counted in segments.
#[derive(Clone, Copy, Debug)]
pub(super) struct RateEstimator {
    /// Packets sent, however often.
    sent: u64,
    delivered: u64,
    /// Packets found lost.
    pub(super) lost: u64,
    delivered_at: Time,
    first_sent: Time,
    /// While `delivered` is not beyond this, samples are limited by the application.
    app_limited_until: u64,
}

impl RateEstimator {
    pub(super) fn new(now: Time) -> Self {
        Self { sent: 0, delivered: 0, lost: 0, delivered_at: now, first_sent: now, app_limited_until: 0 }
    }

    /// A segment leaves with which `in_flight` are on their way (draft 3.2, SendPacket).
    pub(super) fn on_send(&mut self, now: Time, in_flight: u64) -> Snapshot {
        self.sent += 1;
        Snapshot {
            sent: now,
            order: self.sent - 1,
            delivered: self.delivered,
            lost: self.lost,
            in_flight,
            delivered_at: self.delivered_at,
            first_sent: self.first_sent,
            app_limited: self.app_limited_until > self.delivered,
        }
    }

    /// The path was idle: everything sent has been acknowledged. That everything sent is taken for lost does not
    /// count, for some of it may be delivered yet.
    pub(super) fn on_restart(&mut self, now: Time) {
        self.first_sent = now;
        self.delivered_at = now;
    }

    /// The window has room and there is nothing to send, with `in_flight` on their way.
    pub(super) fn on_app_limited(&mut self, in_flight: u64) {
        self.app_limited_until = (self.delivered + in_flight).max(1);
    }

    /// `count` more segments are delivered; `newest` belongs to the last sent of them (draft 3.3, GenerateRateSample).
    /// `None` if the sample is invalid: shorter than the least round-trip time.
    pub(super) fn on_delivered(
        &mut self,
        now: Time,
        count: u64,
        newest: &Snapshot,
        least_rtt: Option<Span>,
    ) -> Option<RateSample> {
        self.delivered += count;
        self.delivered_at = now;
        self.first_sent = newest.sent;
        let sending = newest.sent.since(newest.first_sent);
        let arriving = now.since(newest.delivered_at);
        let interval = sending.max(arriving);
        if interval == Span::ZERO || least_rtt.is_some_and(|least| interval < least) {
            return None;
        }
        Some(RateSample {
            packets_per_second: (self.delivered - newest.delivered) as f64 / interval.as_secs_f64(),
            prior_delivered: newest.delivered,
            delivered: self.delivered,
            lost: self.lost - newest.lost,
            in_flight_at_send: newest.in_flight,
            app_limited: newest.app_limited,
        })
    }
}
