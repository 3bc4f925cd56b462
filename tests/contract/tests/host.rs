//! A receiver whose host has pauses, and foresees them, or reports its capacity (rbudp-plus-2006 3 and 4, and gtp-2004
//! 2). Each test prints its measurements; `cargo test -p inhaul-contract-tests host:: -- --nocapture` shows it.

use inhaul_base::{Bitrate, Span, Time};
use inhaul_contract_tests::{Forewarned, MIB, Scene, SenderSpec, Spec};
use inhaul_sim::{CompetingTask, Spell};
use inhaul_transport::{Endpoint, Pause};

const SIZE: u64 = 256 * MIB;
/// Pauses of a quota of one half, and the packets that wait meanwhile at most: 208 KiB, as stock kernels have.
const PAUSE: Span = Span::from_millis(50);
const EVERY: Span = Span::from_millis(100);
const FIRST: Time = Time::from_nanos(300_000_000);
const RING: usize = 144;

struct Run {
    seconds: f64,
    lost: u64,
    goodput_mbps: f64,
}

/// Fetches from senders with these RTTs, to a host that does not run in each pause.
fn run(rtts: &[u64], decorate: fn(Box<dyn Endpoint + Send>) -> Box<dyn Endpoint + Send>) -> Run {
    let senders = rtts.iter().map(|rtt| SenderSpec::new(0, SIZE, *rtt)).collect();
    let task = CompetingTask { share: 1.0, on: Spell::Fixed(PAUSE), off: Spell::Fixed(PAUSE), start: FIRST };
    let spec = Spec { packet_rate: Some(400_000.0), competitors: Some((task, RING)), decorate, ..Spec::new(senders) };
    let mut scene = Scene::new(&spec);
    assert!(scene.run(Span::from_secs(600)), "not complete after {}: {:?}", scene.now(), scene.failed());
    let lost = (0..rtts.len()).map(|flow| scene.stats(flow).lost_packets).sum();
    let seconds = scene.complete(0).unwrap().as_secs_f64();
    Run { seconds, lost, goodput_mbps: SIZE as f64 * 8e-6 / seconds }
}

fn forewarned(endpoint: Box<dyn Endpoint + Send>, ahead: u64) -> Box<dyn Endpoint + Send> {
    let first = Pause { start: FIRST, length: PAUSE };
    Box::new(Forewarned::new(endpoint, first, EVERY, Span::from_millis(ahead)))
}

#[test]
fn gtp_holds_its_senders_through_pauses_that_are_foreseen() {
    for rtts in [&[20][..], &[40], &[10, 40], &[20, 20, 20]] {
        let without = run(rtts, |endpoint| endpoint);
        let with = run(rtts, |endpoint| forewarned(endpoint, 90));
        println!(
            "RTT {rtts:?} ms: without, {} packets lost, {:.0} Mbit/s in {:.2} s; with, {} lost, {:.0} Mbit/s in {:.2} s",
            without.lost, without.goodput_mbps, without.seconds, with.lost, with.goodput_mbps, with.seconds
        );
        assert!(with.lost * 10 <= without.lost, "{rtts:?}: {} and {} lost", with.lost, without.lost);
        assert!(with.goodput_mbps >= 1.25 * without.goodput_mbps, "{rtts:?}");
    }
}

#[test]
fn gtp_stays_whole_when_forecasts_are_wrong() {
    // Pauses are reported that never come, of a host that always runs.
    let senders = || vec![SenderSpec::new(0, SIZE, 20)];
    let told: fn(Box<dyn Endpoint + Send>) -> Box<dyn Endpoint + Send> = |endpoint| forewarned(endpoint, 90);
    let mut calm = Scene::new(&Spec::new(senders()));
    let mut alarmed = Scene::new(&Spec { decorate: told, ..Spec::new(senders()) });
    assert!(calm.run(Span::from_secs(60)) && alarmed.run(Span::from_secs(60)));
    let (calm, alarmed) = (calm.complete(0).unwrap(), alarmed.complete(0).unwrap());
    println!("without {calm}, with {alarmed}");
    // Half of the time is given away, and no more.
    assert!(alarmed.as_secs_f64() < 2.3 * calm.as_secs_f64());
}

#[test]
fn gtp_does_not_hold_where_its_window_keeps_what_comes_within_the_buffer() {
    // On a short path requests bound the arrivals in a pause.
    let told: fn(Box<dyn Endpoint + Send>) -> Box<dyn Endpoint + Send> = |endpoint| forewarned(endpoint, 90);
    let spec = |decorate| Spec {
        decorate,
        access: Bitrate::from_mbps(50),
        ..Spec::new(vec![SenderSpec::new(0, 16 * MIB, 2)])
    };
    let mut calm = Scene::new(&spec(|endpoint| endpoint));
    let mut alarmed = Scene::new(&spec(told));
    assert!(calm.run(Span::from_secs(60)) && alarmed.run(Span::from_secs(60)));
    assert_eq!(calm.complete(0), alarmed.complete(0));
}
