//! Requirements on every registered protocol, with any control law. A protocol that is added to the registry is tested
//! here without a further line.

use std::collections::BTreeSet;
use std::sync::Arc;

use inhaul_base::{Bitrate, ByteRange, RandomStream, Span};
use inhaul_contract_tests::{Aggregated, MIB, Nagged, Scene, SenderSpec, Spec, Strangers, noise, protocols};
use inhaul_protocols::registry::{self, PROTOCOLS};
use inhaul_sim::Change;
use inhaul_transport::{Command, EndpointConfig, ObjectId, Protocol, Role, SetupError};

/// Size of the object in most tests: not a multiple of any block.
const SIZE: u64 = 2 * MIB + 12_345;
/// A transfer that takes longer will never end. At 30 % loss each way TCP is nearly always waiting for a timer that
/// has been doubled again and again.
const PATIENCE: Span = Span::from_secs(4 * 3_600);

/// Two mirrors of one object and a small object from a third sender, over 200 Mbit/s.
fn scene(protocol: &'static Protocol) -> Spec {
    let senders = vec![SenderSpec::new(0, SIZE, 10), SenderSpec::new(0, SIZE, 50), SenderSpec::new(1, 777, 30)];
    let access = Bitrate::from_mbps(200);
    Spec {
        protocol: protocol.name,
        access,
        queue_bytes: access.bytes_in(Span::from_millis(20)),
        control_apart: true,
        ..Spec::new(senders)
    }
}

/// Runs the scene to its end: every byte is in place, and there are no errors.
fn complete(case: &str, spec: &Spec) -> Scene {
    let mut scene = Scene::new(spec);
    let done = scene.run(PATIENCE);
    let case = format!("{}, {case}, seed {}", spec.protocol, spec.seed);
    assert!(done, "{case}: {} of {SIZE} bytes after {}", scene.placed(0), scene.now());
    assert_eq!((scene.placed(0), scene.placed(1)), (SIZE, 777), "{case}");
    assert!(scene.failed().is_empty(), "{case}: {:?}", scene.failed());
    // Bounded by the data in flight, not by the transferred data.
    assert!(scene.memory_max < 2_000_000, "{case}: {} bytes of state", scene.memory_max);
    scene
}

fn each(mut test: impl FnMut(&'static Protocol)) {
    protocols().for_each(&mut test);
}

#[test]
fn every_byte_arrives_under_loss_reordering_and_duplication() {
    each(|protocol| {
        for (loss, reordering, duplication) in
            [(0.0, 0.0, 0.0), (0.01, 0.0, 0.0), (0.3, 0.0, 0.0), (0.0, 0.3, 0.0), (0.0, 0.0, 0.3), (0.3, 0.3, 0.3)]
        {
            for seed in 1..=2 {
                let case = format!("loss {loss} reordering {reordering} duplication {duplication}");
                complete(&case, &Spec { seed, loss, reordering, duplication, ..scene(protocol) });
            }
        }
    });
}

#[test]
fn control_streams_may_meet_with_what_the_data_meets() {
    each(|protocol| {
        let spec = Spec { control_apart: false, loss: 0.02, reordering: 0.1, duplication: 0.1, ..scene(protocol) };
        complete("control in band", &spec);
    });
}

#[test]
fn bytes_that_turn_out_wrong_after_a_rest_come_again() {
    each(|protocol| {
        // A path at rest is probed every 15 s.
        for rest in [1, 4, 6, 10, 14, 40, 100] {
            let mut scene = complete("before a rest", &scene(protocol));
            scene.run_to(scene.now() + Span::from_secs(rest));
            let wrong = ByteRange::new(MIB, MIB + 300_000);
            scene.command(Command::Refetch { object: ObjectId(0), range: wrong, suspect: None });
            let case = format!("{}, {rest} s of rest", protocol.name);
            assert!(scene.run(PATIENCE), "{case}: {:?}", scene.failed());
            assert!(scene.failed().is_empty(), "{case}: {:?}", scene.failed());
            assert_eq!(scene.placed(0), SIZE, "{case}");
        }
    });
}

#[test]
fn bytes_come_again_from_those_alone_that_may_bring_them() {
    each(|protocol| {
        let mut scene = complete("before", &scene(protocol));
        let range = ByteRange::new(MIB, MIB + 300_000);
        let flow = |scene: &Scene, number: usize| scene.sim.flow_of(scene.transfers[number]);
        // Each has been avoided before it is the only flow that may bring them.
        for (asked, avoided) in [(0, 1), (1, 0), (0, 1)] {
            scene.command(Command::Allow { flow: flow(&scene, asked), range });
            scene.command(Command::Avoid { flow: flow(&scene, avoided), range });
            let before = scene.placed_by();
            scene.command(Command::Refetch { object: ObjectId(0), range, suspect: None });
            let case = format!("{}, from {asked}", protocol.name);
            assert!(scene.run(PATIENCE), "{case}: {:?}", scene.failed());
            let after = scene.placed_by();
            let came = [asked, avoided].map(|number| after[number] - before[number]);
            assert_eq!(came, [range.len(), 0], "{case}");
        }
    });
}

#[test]
fn a_receiver_that_leaves_ends_all_traffic() {
    each(|protocol| {
        for loss in [0.0, 0.1] {
            let mut scene = complete("leaves", &Spec { leaves: true, loss, ..scene(protocol) });
            // Data in flight arrives, and the sender learns of it, if need be at the third attempt.
            scene.run_to(scene.now() + Span::from_secs(10));
            let hops = scene.sim.hops();
            scene.run_to(scene.now() + Span::from_secs(60));
            assert_eq!((scene.sim.hops(), scene.failed().len()), (hops, 0), "{}: {:?}", protocol.name, scene.failed());
        }
    });
}

#[test]
fn every_byte_arrives_through_delay_spikes() {
    each(|protocol| {
        let mut scene = Scene::new(&scene(protocol));
        // Four times the access link nearly stops for 300 ms: queued packets arrive that much later.
        for k in 0..4 {
            for (offset, rate) in [(0, Bitrate::from_bps(20_000)), (300, Bitrate::from_mbps(200))] {
                let at = inhaul_base::Time::ZERO + Span::from_millis(100 + 400 * k + offset);
                scene.sim.at(at, Change::LinkRate(scene.star.access.0, Some(rate))).unwrap();
            }
        }
        assert!(scene.run(PATIENCE), "{}: {} bytes", protocol.name, scene.placed(0));
        assert_eq!((scene.placed(0), scene.failed().len()), (SIZE, 0), "{}: {:?}", protocol.name, scene.failed());
    });
}

#[test]
fn a_link_that_dies_and_returns_costs_time_and_nothing_else() {
    each(|protocol| {
        let mut scene = Scene::new(&Spec { access: Bitrate::from_mbps(20), ..scene(protocol) });
        let (access, dead) = (scene.star.access.0, Span::from_millis(1_500));
        let dies = inhaul_base::Time::ZERO + Span::from_millis(400);
        scene.sim.at(dies, Change::LinkDown(access)).unwrap();
        scene.sim.at(dies + dead, Change::LinkUp(access)).unwrap();
        assert!(scene.run(PATIENCE), "{}: {} bytes after {}", protocol.name, scene.placed(0), scene.now());
        assert_eq!((scene.placed(0), scene.failed().len()), (SIZE, 0), "{}: {:?}", protocol.name, scene.failed());
        assert!(scene.complete(0) > Some(Span::from_millis(400) + dead), "{}: the link was dead", protocol.name);
    });
}

#[test]
fn a_mirror_that_dies_leaves_its_part_to_the_other() {
    each(|protocol| {
        for noticed in [true, false] {
            let mut scene = Scene::new(&Spec { access: Bitrate::from_mbps(20), ..scene(protocol) });
            scene.run_to(Span::from_millis(300));
            scene.kill(0, noticed);
            assert!(scene.run(PATIENCE), "{} noticed {noticed}: {} bytes", protocol.name, scene.placed(0));
            assert_eq!((scene.placed(0), scene.placed(1)), (SIZE, 777), "{} noticed {noticed}", protocol.name);
        }
    });
}

#[test]
fn a_sender_that_dies_alone_is_reported_in_bounded_time() {
    each(|protocol| {
        let spec = Spec {
            access: Bitrate::from_mbps(20),
            protocol: protocol.name,
            control_apart: true,
            ..Spec::new(vec![SenderSpec::new(0, SIZE, 10)])
        };
        let mut scene = Scene::new(&spec);
        scene.run_to(Span::from_millis(300));
        scene.kill(0, false);
        scene.run_to(Span::from_secs(180));
        assert_eq!(scene.failed().len(), 1, "{}", protocol.name);
        assert_eq!(scene.sim.starved().len(), 1, "{}: the receiver must say that no flow is left", protocol.name);
    });
}

#[test]
fn datagrams_may_come_together_as_receive_offload_hands_them_over() {
    // Enough for several requests, so that packets that come together may answer more than one.
    const LONG: u64 = 24 * MIB + 777;
    each(|protocol| {
        for (loss, reordering, duplication) in [(0.0, 0.0, 0.0), (0.02, 0.1, 0.0), (0.02, 0.1, 0.3)] {
            let spec = Spec {
                loss,
                reordering,
                duplication,
                // A host that takes fewer packets than come in finds several at a time.
                packet_rate: Some(8_000.0),
                decorate: |endpoint| Box::new(Aggregated(endpoint)),
                senders: vec![SenderSpec::new(0, LONG, 10)],
                ..scene(protocol)
            };
            let mut scene = Scene::new(&spec);
            assert!(scene.run(PATIENCE), "{}, loss {loss}: {} bytes", protocol.name, scene.placed(0));
            assert_eq!((scene.placed(0), scene.failed().len()), (LONG, 0), "{}, loss {loss}", protocol.name);
        }
    });
}

#[test]
fn every_byte_arrives_at_random_stars_whose_hosts_run_late() {
    each(|protocol| {
        for seed in 1..=6 {
            let mut random = RandomStream::new(seed, 0);
            let senders = (0..1 + random.below(6) as u32)
                .map(|k| {
                    let sender = SenderSpec::new(k, 1 + random.below(2 * MIB), 1 + random.below(100));
                    sender.link(Bitrate::from_mbps(10 + random.below(990)))
                })
                .collect();
            let access = Bitrate::from_mbps(10 + random.below(990));
            let spec = Spec {
                protocol: protocol.name,
                seed,
                access,
                queue_bytes: access.bytes_in(Span::from_millis(1 + random.below(30))).max(15_000),
                loss: if seed % 2 == 0 { 0.01 } else { 0.0 },
                noise: Some(Arc::new(noise(&mut random))),
                ..Spec::new(senders)
            };
            let mut scene = Scene::new(&spec);
            assert!(scene.run(PATIENCE), "{}, seed {seed}: {:?}", protocol.name, scene.placed_by());
            assert_eq!(scene.failed(), [""; 0], "{}, seed {seed}", protocol.name);
        }
    });
}

#[test]
fn calls_for_nothing_change_nothing() {
    each(|protocol| {
        let end = |decorate| {
            let spec = Spec { loss: 0.01, decorate, ..scene(protocol) };
            let scene = complete("nagged", &spec);
            (scene.complete(0), scene.sim.trace())
        };
        assert_eq!(end(|endpoint| Box::new(Nagged(endpoint))), end(|endpoint| endpoint), "{}", protocol.name);
    });
}

#[test]
fn datagrams_with_another_key_change_nothing() {
    each(|protocol| {
        let end = |decorate| {
            let spec = Spec { loss: 0.01, decorate, ..scene(protocol) };
            let scene = complete("strangers", &spec);
            (scene.complete(0), scene.sim.trace())
        };
        assert_eq!(end(|endpoint| Box::new(Strangers(endpoint))), end(|endpoint| endpoint), "{}", protocol.name);
    });
}

#[test]
fn same_seed_same_trace_and_another_seed_another() {
    each(|protocol| {
        let trace = |seed| {
            let spec = Spec { seed, loss: 0.02, reordering: 0.1, duplication: 0.01, ..scene(protocol) };
            let scene = complete("traced", &spec);
            (scene.sim.trace(), scene.now())
        };
        assert_eq!(trace(7), trace(7), "{}", protocol.name);
        assert_ne!(trace(7).0, trace(8).0, "{}", protocol.name);
    });
}

#[test]
fn memory_does_not_grow_with_the_transfer() {
    each(|protocol| {
        let peak = |size| {
            let spec = Spec { protocol: protocol.name, loss: 0.005, ..Spec::new(vec![SenderSpec::new(0, size, 20)]) };
            let mut scene = Scene::new(&spec);
            assert!(scene.run(PATIENCE), "{}", protocol.name);
            scene.memory_max
        };
        let (short, long) = (peak(16 * MIB), peak(64 * MIB));
        assert!(long < 2 * short, "{}: {short} bytes for 16 MiB, {long} bytes for 64 MiB", protocol.name);
    });
}

#[test]
fn entries_are_whole_and_refuse_what_they_do_not_know() {
    let names: BTreeSet<_> = PROTOCOLS.iter().map(|protocol| protocol.name).collect();
    let colours: BTreeSet<_> = PROTOCOLS.iter().map(|protocol| protocol.colour).collect();
    assert_eq!((names.len(), colours.len()), (PROTOCOLS.len(), PROTOCOLS.len()), "names and colours are unique");
    assert!(registry::find("pigeon").is_none());
    assert!(PROTOCOLS.iter().all(|protocol| registry::find(protocol.name).is_some_and(|p| p.name == protocol.name)));
    each(|protocol| {
        assert!(!protocol.summary.is_empty());
        let is_hex = |text: &str| text.len() == 7 && text[1..].chars().all(|digit| digit.is_ascii_hexdigit());
        assert!(protocol.colour.starts_with('#') && is_hex(protocol.colour), "{}", protocol.colour);
        for role in [Role::Sender, Role::Receiver] {
            let build = |name: &str, value: &str| {
                let mut config = EndpointConfig::new(role, 1);
                config.parameters = vec![(name.to_owned(), value.to_owned())];
                (protocol.build)(&config).err()
            };
            let unknown = build("no-such-parameter", "1");
            assert!(matches!(unknown, Some(SetupError::UnknownParameter { .. })), "{}: {unknown:?}", protocol.name);
            for parameter in protocol.parameters {
                let bad = build(parameter.name, "");
                assert!(matches!(bad, Some(SetupError::BadValue { .. })), "{} {}", protocol.name, parameter.name);
            }
        }
    });
}
