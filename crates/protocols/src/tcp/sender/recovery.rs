//! How a sender comes through losses: by selective acknowledgements (RFC 6675), with the window brought down in proportion
//! to what is delivered (PRR, RFC 6937), or after a timeout (RFC 6298) in slow start.

use super::super::wire::Timestamp;

/// Whether losses are being repaired.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Phase {
    /// Nothing is known to be lost, or only what was dealt with.
    Open,
    /// Repair by blocks, until everything up to `point` is acknowledged.
    Recovery {
        /// The first segment that had not been sent when it began (RecoveryPoint).
        point: u64,
        /// How the window comes down.
        reduction: ProportionalReduction,
        /// The rescue retransmission has been made (RFC 6675 NextSeg rule 4: once).
        rescued: bool,
    },
    /// Repair after a timeout, until everything up to `point` is acknowledged.
    Loss {
        /// The first segment that had not been sent at the timeout.
        point: u64,
        /// Whether the timeout was a mistake.
        spurious: Spurious,
    },
}

/// Whether a timeout was a mistake (the Eifel detection algorithm, RFC 3522): an acknowledgement that echoes an earlier
/// time than that of the retransmission answers the original.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Spurious {
    /// The first segment has not been sent again yet.
    NotResent,
    /// It was sent again at this time, and nothing has been acknowledged since.
    ResentAt(Timestamp),
    /// It was not, or it cannot be told.
    Decided,
}

/// Proportional rate reduction (RFC 6937), counted in segments.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct ProportionalReduction {
    /// The window to come down to (ssthresh).
    target: u64,
    /// What was on its way when it began (RecoverFS).
    flight: u64,
    /// Delivered since (prr_delivered).
    delivered: u64,
    /// Sent since (prr_out).
    out: u64,
    /// What may be on its way now.
    window: u64,
}

impl ProportionalReduction {
    /// Losses were found with `flight` segments on their way; the law gives `target` from now on.
    pub(super) fn new(target: u64, flight: u64) -> Self {
        Self { target, flight: flight.max(1), delivered: 0, out: 0, window: 0 }
    }

    /// An acknowledgement reports `delivered` more segments and leaves `pipe` on their way (RFC 6937 section 3).
    pub(super) fn on_ack(&mut self, delivered: u64, pipe: u64) {
        self.delivered += delivered;
        let may_send = if pipe > self.target {
            (self.delivered * self.target).div_ceil(self.flight).saturating_sub(self.out)
        } else {
            // PRR-SSRB: back up to the target, one segment faster than what is delivered.
            let limit = self.delivered.saturating_sub(self.out).max(delivered) + 1;
            limit.min(self.target - pipe)
        };
        // The first segment is sent again at once ("force a fast retransmit upon entering recovery").
        let may_send = if self.out == 0 { may_send.max(1) } else { may_send };
        self.window = pipe + may_send;
    }

    /// A segment was sent.
    pub(super) fn on_send(&mut self) {
        self.out += 1;
    }

    /// The window in force.
    pub(super) fn window(&self) -> u64 {
        self.window
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Plays a repair of `flight` segments of which those for which `lost` says so are lost: one delivery an ACK. Returns
    /// how many segments were sent after each ACK.
    fn play(flight: u64, target: u64, lost: impl Fn(u64) -> bool) -> Vec<u64> {
        let mut reduction = ProportionalReduction::new(target, flight);
        let mut pipe = flight - (0..flight).filter(|&n| lost(n)).count() as u64;
        let mut sent = Vec::new();
        let deliveries = pipe;
        for _ in 0..deliveries {
            pipe -= 1;
            reduction.on_ack(1, pipe);
            let now = reduction.window().saturating_sub(pipe);
            (0..now).for_each(|_| reduction.on_send());
            pipe += now;
            sent.push(now);
        }
        sent
    }

    #[test]
    fn on_ack_spreads_the_reduction_over_the_round_trip() {
        // RFC 6937 section 4's example: one loss of 20, halved: one segment for every second ACK after the retransmission.
        let sent = play(20, 10, |n| n == 0);
        assert_eq!(sent.iter().sum::<u64>(), 10, "{sent:?}");
        assert!(sent.iter().all(|&n| n <= 1), "{sent:?}");
    }

    #[test]
    fn on_ack_never_bursts_after_heavy_loss() {
        // RFC 6937: the pipe is below the target; it comes back like slow start, two for each delivery at most.
        let sent = play(20, 10, |n| n < 15);
        assert_eq!(sent.iter().max(), Some(&2), "{sent:?}");
    }
}
