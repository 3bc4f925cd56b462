//! What RBUDP claims of itself: its time can be predicted.

use inhaul_base::{Bitrate, Probability, Span};
use inhaul_contract_tests::{GIVEN_RATE, Scene, SenderSpec, Spec};
use inhaul_protocols::rbudp::{Blast, RBUDP};
use inhaul_transport::{Conditions, EndpointConfig, PathSpec, Role};

const RTT_MS: u64 = 50;

/// When an object of `bytes` has come, over a path on which only data is lost.
fn measured(bytes: u64, loss: f64, seed: u64) -> f64 {
    let senders = vec![SenderSpec::new(0, bytes, RTT_MS)];
    let spec = Spec { protocol: RBUDP.name, seed, loss, control_apart: true, ..Spec::new(senders) };
    let mut scene = Scene::new(&spec);
    assert!(scene.run(Span::from_secs(600)));
    scene.complete(0).unwrap().as_secs_f64()
}

/// Set-up, which the model leaves out: until the path is open and the first request leaves.
fn setup(seed: u64) -> f64 {
    // A byte takes a round trip from its request on.
    measured(1, 0.0, seed) - Span::from_millis(RTT_MS).as_secs_f64()
}

fn predicted(bytes: u64, loss: f64) -> f64 {
    let config = EndpointConfig { flow_rate: Some(GIVEN_RATE), ..EndpointConfig::new(Role::Receiver, 1) };
    let path = PathSpec::clear(1500, std::net::Ipv4Addr::LOCALHOST.into());
    let (rtt, loss) = (Span::from_millis(RTT_MS), Probability::new(loss).unwrap());
    let predict = RBUDP.predict.expect("RBUDP has a model");
    predict(&config, &Conditions { bytes, flows: 1, rtt, loss, path }).unwrap().as_secs_f64()
}

#[test]
fn its_time_is_what_the_model_says() {
    let bytes = 40_000_000;
    for loss in [0.0, 0.001, 0.01, 0.05] {
        let predicted = predicted(bytes, loss);
        let mut sum = 0.0;
        for seed in 1..=3 {
            let measured = measured(bytes, loss, seed) - setup(seed);
            let error = measured / predicted - 1.0;
            println!("loss {loss}, seed {seed}: {measured:.3} s, predicted {predicted:.3} s, {:+.1} %", error * 100.0);
            assert!(error.abs() < 0.05, "loss {loss}, seed {seed}: {measured} s, predicted {predicted} s");
            sum += error;
        }
        println!("loss {loss}: {:+.1} % on average", sum / 3.0 * 100.0);
    }
    // A prediction for another rate is wrong: the comparison can fail.
    let blast = Blast {
        bytes,
        block: 1_448,
        overhead: 52,
        rate: Bitrate::from_mbps(90),
        rtt: Span::from_millis(RTT_MS),
        loss: Probability::ZERO,
    };
    assert!((blast.time().unwrap().as_secs_f64() / predicted(bytes, 0.0) - 1.0) > 0.05);
}

/// A queue that drains slowly: Done, whose network is empty, arrives long before the last packet.
#[test]
fn what_still_waits_in_a_queue_is_not_asked_for_again() {
    let senders = vec![SenderSpec::new(0, 1_500_000, 10)];
    // 100 Mbit/s into 40: at the end 0.9 MB wait, which take 0.18 s.
    let access = Bitrate::from_mbps(40);
    let spec = Spec { protocol: RBUDP.name, access, queue_bytes: 2_000_000, control_apart: true, ..Spec::new(senders) };
    let mut scene = Scene::new(&spec);
    assert!(scene.run(Span::from_secs(60)));
    let stats = scene.stats(0);
    assert_eq!((stats.retransmitted_bytes, stats.duplicate_bytes, stats.lost_packets), (0, 0, 0), "{stats:?}");
}
