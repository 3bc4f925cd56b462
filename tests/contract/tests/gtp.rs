//! GTP end to end in virtual time: delivery under every kind of ill treatment, and senders that die.
//! Each test prints its measurements; `cargo test -p inhaul-contract-tests gtp:: -- --nocapture` shows it.

use inhaul_base::{Bitrate, ByteRange, Span};
use inhaul_contract_tests::{MIB, Scene, SenderSpec, Spec};
use inhaul_transport::{Command, FlowId, ObjectId};

const CONTROLS: [(&str, Option<Bitrate>); 2] = [("default", None), ("paper", Some(Bitrate::from_gbps(1)))];

// --- Delivery ---------------------------------------------------------------------------------------------------------

#[test]
fn every_byte_arrives_under_loss_reordering_duplication_and_delay() {
    // Nearly a third of all datagrams lost each way; but where the control stream meets with the same, no more than a
    // twentieth: TCP's timer, doubled again and again, would outlast the protocol's patience with a peer that is
    // silent.
    for (loss, reordering, duplication, control_apart) in [
        (0.0, 0.0, 0.0, false),
        (0.01, 0.0, 0.0, false),
        (0.3, 0.0, 0.0, true),
        (0.0, 0.3, 0.0, false),
        (0.0, 0.0, 0.3, false),
        (0.05, 0.3, 0.3, false),
        (0.3, 0.3, 0.3, true),
    ] {
        for (control, host_rate) in CONTROLS {
            for seed in 1..=3 {
                // Two mirrors of one object, whose size is not a multiple of any block, and a small one of another.
                let senders = vec![
                    SenderSpec::new(0, 8 * MIB + 12_345, 10),
                    SenderSpec::new(0, 8 * MIB + 12_345, 50),
                    SenderSpec::new(1, 777, 30),
                ];
                let access = Bitrate::from_mbps(200);
                let spec = Spec {
                    seed,
                    loss,
                    reordering,
                    duplication,
                    parameters: vec![("control", control)],
                    host_rate,
                    access,
                    control_apart,
                    ..Spec::new(senders)
                };
                let mut scene = Scene::new(&spec);
                let done = scene.run(Span::from_secs(600));
                let case =
                    format!("loss {loss} reordering {reordering} duplication {duplication} {control} seed {seed}");
                assert!(done, "{case}: not complete after {}", scene.now());
                assert_eq!(scene.placed(0), 8 * MIB + 12_345, "{case}");
                assert_eq!(scene.placed(1), 777, "{case}");
                assert!(scene.failed().is_empty(), "{case}: {:?}", scene.failed());
                // State is bounded by the outstanding bytes, not by the transferred ones: far below a byte per byte.
                assert!(scene.memory_max < 1_500_000, "{case}: {} bytes", scene.memory_max);
            }
        }
    }
}

#[test]
fn memory_does_not_grow_with_the_transfer() {
    let peak = |size| {
        let mut scene = Scene::new(&Spec { loss: 0.05, ..Spec::new(vec![SenderSpec::new(0, size, 20)]) });
        assert!(scene.run(Span::from_secs(100)));
        scene.memory_max
    };
    let (short, long) = (peak(64 * MIB), peak(512 * MIB));
    println!("peak memory: {short} bytes for 64 MiB, {long} bytes for 512 MiB");
    assert!(long < short * 2);
}

#[test]
fn the_last_blocks_are_recovered_as_fast_as_the_middle_ones() {
    // All but a few packets at the end of a transfer arrive: the time to the end is bounded by a few RTT, not by
    // time-outs. Control has a network of its own here: what TCP's timer adds where a request is lost is not recovery
    // of blocks.
    let mut worst = Span::ZERO;
    for seed in 1..=20 {
        let time = |loss| {
            let mut scene =
                Scene::new(&Spec { seed, loss, control_apart: true, ..Spec::new(vec![SenderSpec::new(0, MIB, 100)]) });
            assert!(scene.run(Span::from_secs(30)));
            scene.complete(0).unwrap()
        };
        worst = worst.max(time(0.05).saturating_sub(time(0.0)));
    }
    println!("5 % loss makes 1 MiB over 100 ms take {worst} longer at worst");
    // Recoveries of recoveries: 5 % of 728 packets, then 5 % of those, twice.
    assert!(worst < Span::from_millis(100 * 7), "{worst}");
}

#[test]
fn same_seed_same_trace_and_another_seed_another() {
    let trace = |seed| {
        let senders = vec![SenderSpec::new(0, 4 * MIB, 10), SenderSpec::new(0, 4 * MIB, 30)];
        let mut scene =
            Scene::new(&Spec { seed, loss: 0.02, reordering: 0.1, duplication: 0.01, ..Spec::new(senders) });
        assert!(scene.run(Span::from_secs(60)));
        (scene.sim.trace(), scene.sim.hops(), scene.now())
    };
    assert_eq!(trace(7), trace(7));
    assert_ne!(trace(7).0, trace(8).0);
}

#[test]
fn wrong_bytes_are_fetched_again_from_another_sender() {
    let size = 2 * MIB;
    let mut scene = Scene::new(&Spec::new(vec![SenderSpec::new(0, size, 10), SenderSpec::new(0, size, 12)]));
    assert!(scene.run(Span::from_secs(10)));
    let before = scene.placed_by();
    let wrong = ByteRange::new(MIB, MIB + 100_000);
    scene.command(Command::Refetch { object: ObjectId(0), range: wrong, suspect: Some(FlowId(0)) });
    assert!(scene.run(Span::from_secs(20)));
    assert_eq!(scene.placed(0), size);
    assert_eq!(scene.placed_by()[0], before[0], "the suspect was asked again");
}

// --- Senders that
// die ---------------------------------------------------------------------------------------------------

#[test]
fn a_killed_mirror_costs_only_its_own_share() {
    for noticed in [true, false] {
        let size = 128 * MIB;
        let mirrors = (0..3).map(|k| SenderSpec::new(0, size, 10 + 10 * k)).collect();
        let mut scene = Scene::new(&Spec::new(mirrors));
        scene.run_to(Span::from_millis(700));
        assert!(scene.complete(0).is_none());
        scene.kill(1, noticed);
        assert!(scene.run(Span::from_secs(30)), "noticed {noticed}");
        println!("a mirror dies at 0.7 s, noticed {noticed}: complete at {}", scene.now());
        assert_eq!(scene.placed(0), size);
        // 128 MiB take 1.1 s at 1 Gbit/s; an unnoticed death costs its outstanding blocks a stall time-out.
        assert!(scene.now() < Span::from_millis(2_500), "{}", scene.now());
        if noticed {
            assert_eq!(scene.failed().len(), 1);
        }
    }
}

#[test]
fn the_only_sender_falling_silent_is_reported() {
    let mut scene = Scene::new(&Spec::new(vec![SenderSpec::new(0, 128 * MIB, 10)]));
    scene.run_to(Span::from_millis(300));
    scene.kill(0, false);
    scene.run_to(Span::from_secs(20));
    assert_eq!(scene.sim.starved(), [(scene.receiver, ObjectId(0))]);
    assert!(scene.failed()[0].contains("nothing was heard"), "{:?}", scene.failed());
}
