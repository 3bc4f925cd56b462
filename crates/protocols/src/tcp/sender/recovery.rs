//! A sender's recovery from losses: by selective acknowledgements, with the window reduced in proportion to deliveries
//! (PRR, RFC 9937), or after a timeout (RFC 6298) in slow start.

use crate::tcp::options::ACK_EVERY;
use crate::tcp::wire::Timestamp;

/// Whether losses are being repaired.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Phase {
    /// There are no known losses, or only handled ones.
    Open,
    /// Repair by blocks, until everything up to `point` is acknowledged.
    Recovery {
        /// The first segment that had not been sent when it began (RecoveryPoint).
        point: u64,
        /// How the window comes down.
        reduction: ProportionalReduction,
    },
    /// Repair after a timeout, until everything up to `point` is acknowledged.
    Loss {
        /// The first segment that had not been sent at the timeout.
        point: u64,
        /// Whether the timeout was a mistake.
        spurious: Spurious,
    },
}

/// Whether a timeout was a mistake (the Eifel detection algorithm, RFC 3522): an acknowledgement that echoes an
/// earlier time than that of the retransmission answers the original.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Spurious {
    /// The first segment has not been sent again yet.
    NotResent,
    /// It was sent again at this time, and nothing has been acknowledged since.
    ResentAt(Timestamp),
    /// It was not, or it cannot be told.
    Decided,
}

/// A loss probe (RFC 8985 section 7): a segment sent because no acknowledgement came for two round trips.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct LossProbe {
    /// The first segment that had not been sent then (TLP.end_seq).
    pub(super) end: u64,
    /// It was the last segment once more, not a new one (TLP.is_retrans).
    pub(super) again: bool,
}

/// Detects a spurious repair or timeout: all its retransmissions had already come (RFC 2883, as Linux uses it).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Duplicates {
    /// Segments sent again since it began.
    pub(super) resent: u64,
    /// Of those, segments that the receiver reported as duplicates.
    pub(super) reported: u64,
}

impl Duplicates {
    /// Whether everything that was sent again was sent in vain.
    pub(super) fn all_in_vain(&self) -> bool {
        self.resent > 0 && self.reported >= self.resent
    }
}

/// Proportional rate reduction (RFC 9937), counted in segments.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct ProportionalReduction {
    /// The window to come down to (ssthresh).
    target: u64,
    /// The outstanding segments, lost or not, when it began (RecoverFS).
    flight: u64,
    /// Delivered since (prr_delivered).
    delivered: u64,
    /// Sent since (prr_out).
    out: u64,
    /// What acknowledgements let leave (SndCnt) and has not left.
    may_send: u64,
    /// The limit of segments in flight now.
    window: u64,
}

impl ProportionalReduction {
    /// Losses were found of `flight` segments; the law gives `target` from now on. `pipe` are on their way still.
    pub(super) fn new(target: u64, flight: u64, pipe: u64) -> Self {
        // The first lost segment is sent again at once ("force a fast retransmit upon entering recovery").
        Self { target, flight: flight.max(1), delivered: 0, out: 0, may_send: 0, window: pipe + 1 }
    }

    /// An acknowledgement reports `delivered` more segments and leaves `pipe` on their way (RFC 9937 section 6.2).
    /// `safe`: it is for something new in order, and no further loss was found (SafeACK).
    pub(super) fn on_ack(&mut self, delivered: u64, pipe: u64, safe: bool) {
        if delivered == 0 {
            return;
        }
        self.delivered += delivered;
        let may_send = if pipe > self.target {
            (self.delivered * self.target).div_ceil(self.flight).saturating_sub(self.out)
        } else {
            // Back up to the target: as much as is delivered, and faster while the repair makes progress, by one
            // segment for each acknowledgement that RFC 5681 4.2 asks for. A busy host sends one for many segments, or
            // reads many before it sends.
            let faster = if safe { delivered.div_ceil(ACK_EVERY) } else { 0 };
            let limit = self.delivered.saturating_sub(self.out).max(self.may_send + delivered) + faster;
            limit.min(self.target - pipe)
        };
        self.may_send = if self.out == 0 { may_send.max(1) } else { may_send };
        self.window = pipe + self.may_send;
    }

    /// A segment was sent.
    pub(super) fn on_send(&mut self) {
        self.out += 1;
        self.may_send = self.may_send.saturating_sub(1);
    }

    /// The window in force.
    pub(super) fn window(&self) -> u64 {
        self.window
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Plays a repair of `flight` segments; `lost` says which ones are lost. Each ACK reports one delivery. Returns how
    /// many segments were sent after each ACK.
    fn play(flight: u64, target: u64, safe: bool, lost: impl Fn(u64) -> bool) -> Vec<u64> {
        let mut pipe = flight - (0..flight).filter(|&n| lost(n)).count() as u64;
        let mut reduction = ProportionalReduction::new(target, flight, pipe);
        let mut sent = Vec::new();
        let deliveries = pipe;
        for _ in 0..deliveries {
            pipe -= 1;
            reduction.on_ack(1, pipe, safe);
            let now = reduction.window().saturating_sub(pipe);
            (0..now).for_each(|_| reduction.on_send());
            pipe += now;
            sent.push(now);
        }
        sent
    }

    #[test]
    fn on_ack_spreads_the_reduction_over_the_round_trip() {
        // RFC 9937's rule above the target: one loss of 20, halved: one segment for every second ACK after the
        // retransmission.
        let sent = play(20, 10, false, |n| n == 0);
        assert_eq!(sent.iter().sum::<u64>(), 10, "{sent:?}");
        assert!(sent.iter().all(|&n| n <= 1), "{sent:?}");
    }

    #[test]
    fn on_ack_never_bursts_after_heavy_loss() {
        // The pipe is below the target: two for each delivery while the repair makes progress, else one (SafeACK).
        assert_eq!(play(20, 10, true, |n| n < 15).iter().max(), Some(&2));
        assert_eq!(play(20, 10, false, |n| n < 15).iter().max(), Some(&1));
    }

    #[test]
    fn a_repair_is_as_fast_where_acknowledgements_come_in_lumps() {
        // 999 of 1,000 segments are lost. Retransmissions arrive a round trip later, all at once: each delivery
        // releases another segment, as if the host had read the acknowledgements one by one.
        for lump in [1, 2, 64] {
            let (mut pipe, mut rounds, mut out) = (0, 0, 0);
            let mut reduction = ProportionalReduction::new(500, 1_000, pipe);
            while out < 500 {
                let sent = reduction.window() - pipe;
                (0..sent).for_each(|_| reduction.on_send());
                (pipe, out) = (pipe + sent, out + sent);
                let mut delivered = pipe;
                while delivered > 0 {
                    let of_ack = delivered.min(lump);
                    (pipe, delivered) = (pipe - of_ack, delivered - of_ack);
                    reduction.on_ack(of_ack, pipe, true);
                }
                rounds += 1;
            }
            // Growth by half at least: 1, 2, 3, 5, 8, 12 ...
            assert!(rounds <= 14, "{rounds} round trips with {lump} segments an acknowledgement");
        }
    }

    #[test]
    fn an_acknowledgement_of_nothing_new_lets_nothing_leave() {
        let mut reduction = ProportionalReduction::new(10, 20, 18);
        reduction.on_send();
        let window = reduction.window();
        reduction.on_ack(0, 5, true);
        assert_eq!(reduction.window(), window);
    }
}
