//! The law round trip by round trip, against draft-cardwell-iccrg-bbr-congestion-control-00.

use super::*;
use crate::laws::testing::{CONFIG, ack};

const RTT: Span = Span::from_millis(100);

struct Drive {
    law: Bbr,
    now: Time,
    delivered: u64,
}

impl Drive {
    fn new() -> Self {
        Self { law: Bbr::new(&CONFIG), now: Time::ZERO + Span::from_secs(1), delivered: 0 }
    }

    /// A round trip later, one acknowledgement of a whole round: delivered at `rate` packets a second, with
    /// `in_flight` left.
    fn round(&mut self, rate: f64, in_flight: u64) {
        self.round_of(rate, in_flight, RTT, false);
    }

    fn round_of(&mut self, rate: f64, in_flight: u64, rtt: Span, app_limited: bool) {
        // A little more than RTprop, which a phase of the cycle must exceed.
        self.now += rtt + Span::from_millis(1);
        let prior_delivered = self.delivered;
        let count = (rate * rtt.as_secs_f64()) as u64;
        self.delivered += count;
        let rate = Some(RateSample {
            packets_per_second: rate,
            prior_delivered,
            delivered: self.delivered,
            app_limited,
            ..RateSample::default()
        });
        self.law.on_ack(&AckSample { in_flight, rate, ..ack(self.now, count, rtt) });
    }

    /// Packets a second that may leave.
    fn pacing(&self) -> f64 {
        match self.law.limits().pace {
            Pace::Rate(rate) => rate.as_f64() / (1500.0 * 8.0),
            other => panic!("{other:?}"),
        }
    }

    /// In ProbeBW at 1000 packets a second: 100 packets in a round trip.
    fn in_probe_bw() -> Self {
        let mut drive = Self::new();
        (0..5).for_each(|_| drive.round(1_000.0, 200));
        drive.round(1_000.0, 100);
        assert!(matches!(drive.law.mode, Mode::ProbeBw { .. }), "{:?}", drive.law.mode);
        drive
    }
}

fn near(a: f64, b: f64) -> bool {
    (a / b - 1.0).abs() < 1e-3
}

#[test]
fn startup_paces_at_twice_over_ln_2_and_ends_after_three_rounds_without_a_quarter_more() {
    // 4.3.2: BBRHighGain; 4.3.2.2: BBRCheckFullPipe.
    let mut drive = Drive::new();
    assert_eq!(drive.law.limits(), Limits { window_packets: 10, pace: Pace::Unpaced });
    for rate in [100.0, 200.0, 400.0, 500.0] {
        drive.round(rate, 50);
        assert!(drive.law.mode == Mode::Startup && near(drive.pacing(), HIGH_GAIN * rate), "{rate}");
    }
    // 24 % more than 500 is not a quarter.
    for rate in [620.0, 620.0] {
        drive.round(rate, 300);
        assert_eq!(drive.law.mode, Mode::Startup);
    }
    drive.round(620.0, 300);
    assert_eq!(drive.law.mode, Mode::Drain);
}

#[test]
fn startup_does_not_end_while_the_application_is_the_limit() {
    let mut drive = Drive::new();
    (0..10).for_each(|_| drive.round_of(500.0, 50, RTT, true));
    assert_eq!(drive.law.mode, Mode::Startup);
}

#[test]
fn drain_undoes_startup_until_the_path_holds_no_more_than_its_product() {
    // 4.3.3: pacing_gain = 1 / BBRHighGain, until packets_in_flight <= BBRInflight(1.0).
    let mut drive = Drive::new();
    (0..4).for_each(|_| drive.round(1_000.0, 200));
    assert_eq!(drive.law.mode, Mode::Drain);
    assert!(near(drive.pacing(), 1_000.0 / HIGH_GAIN));
    drive.round(1_000.0, 107);
    assert_eq!(drive.law.mode, Mode::Drain, "100 packets and room for three pairs");
    drive.round(1_000.0, 106);
    assert!(matches!(drive.law.mode, Mode::ProbeBw { .. }));
}

#[test]
fn probe_bw_goes_through_eight_phases_of_a_round_trip() {
    // 4.3.4: 5/4, 3/4, then six of 1; it does not begin with 3/4, and the window is twice the product.
    let mut drive = Drive::in_probe_bw();
    assert!(!near(drive.pacing(), 750.0));
    // Enough in flight for the phase that probes to end after a round trip.
    let rates: Vec<f64> = (0..16).map(|_| (drive.round(1_000.0, 130), drive.pacing()).1).collect();
    let probe = rates.iter().position(|rate| near(*rate, 1_250.0)).unwrap();
    assert!(probe < 8, "{rates:?}");
    let expected = CYCLE.map(|gain| gain * 1_000.0);
    assert!(rates[probe..probe + 8].iter().zip(expected).all(|(a, b)| near(*a, b)), "{rates:?}");
    assert_eq!(drive.law.limits().window_packets, 206);
}

#[test]
fn the_phase_that_probes_lasts_until_the_path_is_full_and_the_one_that_drains_until_it_is_not() {
    // 4.3.4.3, BBRIsNextCyclePhase.
    let mut drive = Drive::in_probe_bw();
    while !near(drive.pacing(), 1_250.0) {
        drive.round(1_000.0, 130);
    }
    drive.round(200.0, 50);
    assert!(near(drive.pacing(), 1_250.0), "1.25 times the product is not in flight yet");
    drive.round(1_000.0, 130);
    assert!(near(drive.pacing(), 750.0));
    // Less than a round trip later nothing more than the product is in flight.
    drive.now += Span::from_millis(5);
    drive.law.on_ack(&AckSample { in_flight: 90, ..ack(drive.now, 1, RTT) });
    assert!(near(drive.pacing(), 1_000.0));
}

#[test]
fn bandwidth_is_the_greatest_of_the_last_ten_rounds() {
    let mut drive = Drive::in_probe_bw();
    (0..10).for_each(|_| drive.round(500.0, 130));
    assert_eq!(drive.law.bandwidth(), 1_000.0);
    drive.round(500.0, 130);
    assert_eq!(drive.law.bandwidth(), 500.0);
}

#[test]
fn probe_rtt_comes_after_ten_seconds_without_a_lower_one_and_takes_200_ms() {
    // 4.3.5: RTpropFilterLen, BBRMinPipeCwnd, ProbeRTTDuration; and the bandwidth estimate stays.
    let mut drive = Drive::in_probe_bw();
    let since = drive.law.rt_prop_at;
    let longer = Span::from_millis(110);
    while drive.now + longer + Span::from_millis(1) <= since + RT_PROP_SPAN {
        drive.round_of(1_000.0, 130, longer, false);
        assert!(matches!(drive.law.mode, Mode::ProbeBw { .. }), "{:?} at {}", drive.law.mode, drive.now);
    }
    let window = drive.law.limits().window_packets;
    drive.round_of(1_000.0, 130, longer, false);
    assert!(matches!(drive.law.mode, Mode::ProbeRtt { until: None, .. }));
    assert_eq!(drive.law.limits().window_packets, 4);
    // The queue is gone: the round-trip time is 10 ms now, and 200 ms are twenty rounds of four packets.
    let short = Span::from_millis(10);
    drive.round_of(400.0, 4, short, false);
    let began = drive.now;
    while matches!(drive.law.mode, Mode::ProbeRtt { .. }) {
        assert_eq!(drive.law.limits().window_packets, 4);
        drive.round_of(400.0, 4, short, false);
    }
    let took = drive.now.since(began);
    assert!(took > PROBE_RTT_SPAN && took < PROBE_RTT_SPAN + short * 2, "{took}");
    assert!(matches!(drive.law.mode, Mode::ProbeBw { .. }));
    assert_eq!((drive.law.bandwidth(), drive.law.rt_prop), (1_000.0, Some(short)));
    assert!(window >= 200, "{window}");
    assert!(near(drive.pacing() / CYCLE[phase(&drive.law)], 1_000.0));
}

fn phase(law: &Bbr) -> usize {
    match law.mode {
        Mode::ProbeBw { phase, .. } => phase,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_timeout_leaves_one_packet_and_a_mistaken_one_nothing() {
    let mut drive = Drive::in_probe_bw();
    let window = drive.law.limits().window_packets;
    drive.law.on_timeout(&LossSample { now: drive.now, in_flight: 0 }, false);
    assert_eq!(drive.law.limits().window_packets, 1);
    drive.law.on_spurious(drive.now);
    assert_eq!(drive.law.limits().window_packets, window);
}

#[test]
fn a_repair_keeps_what_is_in_flight_for_a_round_and_gives_the_window_back() {
    // 4.2.3.4, and tcp_bbr.c's bbr_set_cwnd_to_recover_or_restore.
    let mut drive = Drive::in_probe_bw();
    let (window, pacing) = (drive.law.limits().window_packets, drive.law.bandwidth());
    drive.law.on_loss(&LossSample { now: drive.now, in_flight: 90 });
    assert_eq!(drive.law.limits().window_packets, window, "it is the acknowledgement that moves it");
    let part = |drive: &mut Drive, delivered: u64, lost: u64, in_flight: u64| {
        drive.delivered += delivered;
        let (prior_delivered, delivered_all) = (drive.delivered - 100, drive.delivered);
        let rate = RateSample {
            packets_per_second: 900.0,
            prior_delivered,
            delivered: delivered_all,
            ..RateSample::default()
        };
        drive.now += Span::from_millis(1);
        let ack = AckSample { in_flight, lost_packets: lost, rate: Some(rate), ..ack(drive.now, delivered, RTT) };
        drive.law.on_ack(&ack);
        drive.law.limits().window_packets
    };
    assert_eq!(part(&mut drive, 2, 10, 80), 82, "as much as is delivered");
    assert_eq!(part(&mut drive, 2, 5, 80), 82);
    // A round later the window grows again by the delivered packets, less the lost ones.
    drive.delivered += 100;
    assert_eq!(part(&mut drive, 10, 4, 80), 82 - 4 + 10);
    drive.law.on_recovered(drive.now);
    assert_eq!(part(&mut drive, 1, 0, 80), window);
    assert_eq!(drive.law.bandwidth(), pacing, "loss does not change the estimate of the path");
}
