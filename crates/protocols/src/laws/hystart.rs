//! HyStart (Ha and Rhee: *Taming the Elephants: New TCP Slow Start*, Computer Networks 2011), as Linux's CUBIC has it
//! by default, with both of its tests: slow start ends before the queue overflows. RFC 9406 (HyStart++) has the test
//! of delays only, and the kernel that CUBIC stands for does not run it.

use inhaul_base::{Span, Time};
use inhaul_transport::AckSample;

/// Smaller windows are left alone (hystart_low_window).
const WINDOW_MIN: f64 = 16.0;
/// Acknowledgements that are no farther apart belong to one train (hystart_ack_delta).
const TRAIN_GAP: Span = Span::from_millis(2);
/// Samples of the round-trip time that are taken before they are judged (HYSTART_MIN_SAMPLES).
const SAMPLES: u32 = 8;
/// A rise in delay that ends slow start: an eighth of the least, within these.
const RISE_MIN: Span = Span::from_millis(4);
const RISE_MAX: Span = Span::from_millis(16);
/// Packets that a host holds back at its own rate do not count for the train: four segments of segmentation offload, at
/// most this.
const OFFLOAD_BYTES: f64 = 4.0 * 65_536.0;
const OFFLOAD_MAX: Span = Span::from_millis(1);

/// Observations of a slow start.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct HyStart {
    /// The least round-trip time (delay_min). It is kept from one slow start to the next.
    least: Option<Span>,
    round: Option<Round>,
}

/// One round trip.
#[derive(Clone, Copy, Debug)]
struct Round {
    began: Time,
    /// The last acknowledgement of the train that began with the round.
    train: Time,
    /// Something that was sent for this round trip was spread over time.
    paced: bool,
    least: Option<Span>,
    samples: u32,
}

impl HyStart {
    /// An acknowledgement came, in any state of the window.
    pub(super) fn on_rtt(&mut self, rtt: Span) {
        self.least = Some(self.least.map_or(rtt, |least| least.min(rtt)));
    }

    /// Another slow start begins.
    pub(super) fn restart(&mut self) {
        self.round = None;
    }

    /// An acknowledgement came in slow start, at a window of `window` packets. Returns whether slow start is to end.
    pub(super) fn is_full(&mut self, window: f64, ack: &AckSample) -> bool {
        let (Some(rtt), Some(least)) = (ack.rtt, self.least) else { return false };
        let fresh = Round { began: ack.now, train: ack.now, paced: false, least: None, samples: 0 };
        let round = self.round.get_or_insert(fresh);
        if ack.round_began {
            *round = fresh;
        }
        round.paced |= ack.paced;
        if window < WINDOW_MIN {
            return false;
        }
        // Linux paces at twice the window in slow start as far as offload is concerned.
        let rate = 2.0 * window * ack.packet_bytes as f64 / ack.smoothed_rtt.as_secs_f64().max(1e-9);
        let offload = Span::from_secs_f64(OFFLOAD_BYTES / rate.max(1.0)).min(OFFLOAD_MAX);
        if ack.now.since(round.train) <= TRAIN_GAP {
            round.train = ack.now;
            // Acknowledgements come in an unbroken train for half a round trip: the path is half full, the next round
            // fills it. Pacing alone spreads them over up to half a round trip, so a train of paced packets has to be
            // twice as long (as Linux).
            let parts = if round.paced { 1 } else { 2 };
            if ack.now.since(round.began) > (least + offload) / parts {
                return true;
            }
        }
        let of_round = round.least.map_or(rtt, |of_round| of_round.min(rtt));
        round.least = Some(of_round);
        if round.samples < SAMPLES {
            round.samples += 1;
            return false;
        }
        of_round > least + (least / 8).clamp(RISE_MIN, RISE_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::ack;
    use super::*;

    const RTT: Span = Span::from_millis(100);

    /// A round of acknowledgements at this distance; returns the one at which slow start must end.
    fn round(hystart: &mut HyStart, now: Time, window: f64, gap: Span, rtt: impl Fn(u64) -> Span) -> Option<u64> {
        (0..200).find(|&k| {
            hystart.on_rtt(rtt(k));
            let ack = AckSample { round_began: k == 0, ..ack(now + gap * k, 1, rtt(k)) };
            hystart.is_full(window, &ack)
        })
    }

    #[test]
    fn a_train_of_half_a_round_trip_ends_slow_start() {
        let mut hystart = HyStart::default();
        let gap = Span::from_micros(400);
        // 50 ms and half a millisecond for offload, in steps of 0.4 ms.
        assert_eq!(round(&mut hystart, Time::ZERO, 100.0, gap, |_| RTT), Some(127));
        // Farther apart than 2 ms they are no train, and below 16 packets nothing is judged.
        let later = Time::ZERO + Span::from_secs(1);
        assert_eq!(round(&mut hystart, later, 100.0, Span::from_micros(2_001), |_| RTT), None);
        assert_eq!(round(&mut hystart, later + Span::from_secs(1), 15.9, gap, |_| RTT), None);
    }

    #[test]
    fn a_train_of_packets_that_were_paced_has_to_fill_the_round_trip() {
        let mut hystart = HyStart::default();
        let gap = Span::from_micros(800);
        let mut paced = |k: u64| {
            hystart.on_rtt(RTT);
            let ack = AckSample { round_began: k == 0, paced: k == 1, ..ack(Time::ZERO + gap * k, 1, RTT) };
            hystart.is_full(100.0, &ack)
        };
        // 100 ms and a millisecond for offload; that one packet of the round was paced is enough.
        assert_eq!((0..200).find(|&k| paced(k)), Some(127));
    }

    #[test]
    fn a_round_whose_least_delay_has_risen_by_an_eighth_ends_slow_start() {
        let (mut hystart, gap) = (HyStart::default(), Span::from_micros(2_001));
        assert_eq!(round(&mut hystart, Time::ZERO, 100.0, gap, |_| RTT), None);
        let later = Time::ZERO + Span::from_secs(1);
        // The first eight samples only count towards the least.
        let risen = |by| move |_| RTT + Span::from_micros(by);
        assert_eq!(round(&mut hystart, later, 100.0, gap, risen(12_500)), None);
        assert_eq!(round(&mut hystart, later, 100.0, gap, risen(12_501)), Some(8));
        assert_eq!(
            round(&mut hystart, later, 100.0, gap, |k| RTT + Span::from_millis(if k == 5 { 0 } else { 50 })),
            None
        );
    }
}
