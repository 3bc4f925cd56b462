//! The law round trip by round trip, against draft-ietf-ccwg-bbr.

use super::*;
use crate::laws::testing::{CONFIG, ack};

const RTT: Span = Span::from_millis(100);

struct Drive {
    law: Bbr3,
    now: Time,
    delivered: u64,
}

/// Deliveries and losses of a round.
#[derive(Clone, Copy, Default)]
struct Round {
    /// Packets a second.
    rate: f64,
    in_flight: u64,
    lost: u64,
    app_limited: bool,
}

impl Drive {
    fn new() -> Self {
        Self { law: Bbr3::new(&CONFIG), now: Time::ZERO + Span::from_secs(1), delivered: 0 }
    }

    /// A round trip later, one acknowledgement of a whole round.
    fn round(&mut self, round: Round) {
        self.now += RTT;
        let prior_delivered = self.delivered;
        let count = (round.rate * RTT.as_secs_f64()) as u64;
        self.delivered += count;
        let rate = RateSample {
            packets_per_second: round.rate,
            prior_delivered,
            delivered: self.delivered,
            lost: round.lost,
            in_flight_at_send: round.in_flight,
            app_limited: round.app_limited,
        };
        let sample = AckSample {
            in_flight: round.in_flight,
            lost_packets: round.lost,
            rate: Some(rate),
            ..ack(self.now, count, RTT)
        };
        self.law.on_ack(&sample);
    }

    /// A round without losses.
    fn clean(&mut self, rate: f64, in_flight: u64) {
        self.round(Round { rate, in_flight, ..Round::default() });
    }

    /// Packets a second that may leave.
    fn pacing(&self) -> f64 {
        match self.law.limits().pace {
            Pace::Rate(rate) => rate.as_f64() / (1500.0 * 8.0),
            other => panic!("{other:?}"),
        }
    }

    /// Cruising at 1000 packets a second: 100 packets in a round trip.
    fn cruising() -> Self {
        let mut drive = Self::new();
        (0..5).for_each(|_| drive.clean(1_000.0, 200));
        assert!(matches!(drive.law.state, State::Drain { .. }), "{:?}", drive.law.state);
        drive.clean(1_000.0, 100);
        assert_eq!(drive.law.state, State::Down);
        drive.clean(1_000.0, 90);
        assert_eq!(drive.law.state, State::Cruise);
        drive
    }

    /// Clean rounds until the law is in `state`.
    fn until(&mut self, state: State) -> u32 {
        (1..100)
            .find(|_| {
                self.clean(1_000.0, 95);
                self.law.state == state
            })
            .unwrap()
    }
}

fn near(a: f64, b: f64) -> bool {
    (a / b - 1.0).abs() < 1e-3
}

#[test]
fn startup_ends_at_a_plateau_and_drains() {
    let mut drive = Drive::new();
    for rate in [100.0, 200.0, 400.0, 500.0] {
        drive.clean(rate, 50);
        assert!(drive.law.state == State::Startup && near(drive.pacing(), 2.77 * 0.99 * rate), "{rate}");
    }
    (0..2).for_each(|_| drive.clean(600.0, 300));
    assert_eq!(drive.law.state, State::Startup);
    drive.clean(600.0, 300);
    assert!(matches!(drive.law.state, State::Drain { .. }));
    assert!(near(drive.pacing(), 0.5 * 0.99 * 600.0));
    // Three rounds at most, with any number of packets in flight.
    (0..3).for_each(|_| drive.clean(600.0, 300));
    assert_eq!(drive.law.state, State::Down);
}

#[test]
fn startup_does_not_end_while_the_application_is_the_limit() {
    let mut drive = Drive::new();
    (0..10).for_each(|_| drive.round(Round { rate: 500.0, in_flight: 50, app_limited: true, ..Round::default() }));
    assert_eq!(drive.law.state, State::Startup);
}

#[test]
fn a_round_of_many_losses_ends_startup_and_bounds_what_is_in_flight() {
    let mut drive = Drive::new();
    for rate in [100.0, 200.0, 400.0] {
        drive.clean(rate, 50);
    }
    drive.law.on_loss(&LossSample { now: drive.now, in_flight: 100 });
    drive.clean(800.0, 120);
    // Six acknowledgements with losses, in one round.
    for k in 0..6 {
        let rate = RateSample {
            packets_per_second: 1_200.0,
            prior_delivered: drive.delivered - 1,
            delivered: drive.delivered,
            lost: 5,
            in_flight_at_send: 150,
            app_limited: false,
        };
        let now = drive.now + Span::from_millis(k);
        drive.law.on_ack(&AckSample { in_flight: 150, lost_packets: 1, rate: Some(rate), ..ack(now, 1, RTT) });
    }
    drive.round(Round { rate: 1_600.0, in_flight: 150, lost: 5, app_limited: false });
    assert!(matches!(drive.law.state, State::Drain { .. }), "{:?}", drive.law.state);
    assert_eq!(drive.law.long_term, 160.0);
}

#[test]
fn the_path_is_probed_every_two_to_three_seconds_for_a_round_trip_of_refilling_and_more() {
    let mut drive = Drive::cruising();
    let began = drive.now;
    assert!(near(drive.pacing(), 990.0));
    assert_eq!(drive.law.limits().window_packets, 200);
    drive.until(State::Refill);
    let waited = drive.now.since(began);
    assert!(waited + RTT * 2 >= PROBE_WAIT && waited <= PROBE_WAIT + PROBE_WAIT_RANDOM + RTT, "{waited}");
    assert_eq!(drive.until(State::Up), 1);
    assert!(near(drive.pacing(), 1.25 * 990.0));
    // Nothing more comes through: after three rounds that is a plateau.
    assert_eq!(drive.until(State::Down), 3);
    assert!(near(drive.pacing(), 0.9 * 990.0));
}

#[test]
fn standard_tcps_turn_on_a_short_path_is_a_probes_turn() {
    // 20 packets in flight: standard TCP would have grown by them in 20 rounds, which is sooner than two seconds at 10
    // ms.
    let mut drive = Drive::cruising();
    drive.law.min_rtt = Some(Span::from_millis(20));
    drive.law.rounds_since_probe = 18;
    assert!(!drive.law.is_time_to_probe(drive.now));
    drive.law.rounds_since_probe = 20;
    assert!(drive.law.is_time_to_probe(drive.now));
}

#[test]
fn a_probe_that_loses_more_than_two_percent_bounds_what_is_in_flight() {
    let mut drive = Drive::cruising();
    drive.until(State::Up);
    drive.round(Round { rate: 1_000.0, in_flight: 150, lost: 3, app_limited: false });
    assert_eq!((drive.law.state, drive.law.long_term), (State::Up, f64::INFINITY), "2 % is not too much");
    drive.round(Round { rate: 1_000.0, in_flight: 150, lost: 4, app_limited: false });
    assert_eq!((drive.law.state, drive.law.long_term), (State::Down, 150.0));
    // It leaves room for others while it cruises, and the next probe ends where this one failed.
    drive.until(State::Cruise);
    assert_eq!(drive.law.limits().window_packets, 127);
}

#[test]
fn the_bound_grows_by_one_two_four_packets_a_round_while_it_is_what_holds() {
    let mut drive = Drive::cruising();
    drive.law.long_term = 100.0;
    drive.until(State::Up);
    let mut bounds = vec![drive.law.long_term];
    for _ in 0..5 {
        // A round of acknowledgements of a packet each, with the window full.
        let window = drive.law.limits().window_packets;
        for k in 0..window {
            drive.delivered += 1;
            let now = drive.now + RTT.mul_f64(k as f64 / window as f64);
            let rate = RateSample {
                packets_per_second: 10.0 * window as f64,
                prior_delivered: drive.delivered - window,
                delivered: drive.delivered,
                in_flight_at_send: window,
                ..RateSample::default()
            };
            let in_flight = drive.law.limits().window_packets - 1;
            drive.law.on_ack(&AckSample { in_flight, rate: Some(rate), ..ack(now, 1, RTT) });
        }
        drive.now += RTT;
        assert_eq!(drive.law.state, State::Up);
        bounds.push(drive.law.long_term);
    }
    let steps: Vec<f64> = bounds.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(steps.windows(2).skip(1).all(|pair| pair[1] >= 1.5 * pair[0]), "{steps:?}");
}

#[test]
fn a_round_with_losses_while_cruising_brings_bounds_down_until_the_next_probe() {
    let mut drive = Drive::cruising();
    drive.round(Round { rate: 500.0, in_flight: 95, lost: 1, app_limited: false });
    drive.round(Round { rate: 500.0, in_flight: 95, lost: 1, app_limited: false });
    assert!(near(drive.law.bandwidth(), 700.0), "{}", drive.law.bandwidth());
    drive.round(Round { rate: 500.0, in_flight: 95, lost: 1, app_limited: false });
    assert!(near(drive.law.bandwidth(), 500.0), "the delivered rate is the minimum");
    drive.until(State::Refill);
    assert_eq!(drive.law.bandwidth(), 1_000.0);
}

#[test]
fn probe_rtt_comes_after_five_seconds_and_halves_what_is_in_flight_for_200_ms() {
    let mut drive = Drive::cruising();
    drive.law.min_rtt = Some(RTT);
    drive.law.probe_rtt_min = Some(Span::from_millis(99));
    let since = drive.law.probe_rtt_min_at;
    while !matches!(drive.law.state, State::ProbeRtt { .. }) {
        drive.clean(1_000.0, 95);
    }
    let waited = drive.now.since(since);
    assert!(waited > PROBE_RTT_GAP && waited < PROBE_RTT_GAP + RTT * 2, "{waited}");
    assert!(drive.law.limits().window_packets <= 50);
    let began = drive.now;
    while matches!(drive.law.state, State::ProbeRtt { .. }) {
        drive.clean(500.0, 40);
    }
    let took = drive.now.since(began);
    assert!(took > PROBE_RTT_SPAN && took <= PROBE_RTT_SPAN + RTT * 2, "{took}");
    assert_eq!((drive.law.state, drive.law.bandwidth()), (State::Cruise, 1_000.0));
    assert!(drive.law.limits().window_packets > 150, "{}", drive.law.limits().window_packets);
}

#[test]
fn a_timeout_leaves_one_packet_and_a_mistaken_one_nothing() {
    let mut drive = Drive::cruising();
    let window = drive.law.limits().window_packets;
    drive.law.on_timeout(&LossSample { now: drive.now, in_flight: 0 }, false);
    assert_eq!(drive.law.limits().window_packets, 1);
    drive.law.on_spurious(drive.now);
    assert_eq!(drive.law.limits().window_packets, window);
}
