//! UDT in the simulator: fast and fair, as udt-2004 section 1 defines it.
//! Each test prints its measurements; `cargo test -p inhaul-contract-tests udt:: -- --nocapture` shows it.

use inhaul_base::Bitrate;
use inhaul_contract_tests::{ENDLESS, Scene, SenderSpec, Spec, jain};

/// `flows` over one link of 1 Gbit/s with a queue of 5 ms, each with a round-trip time of 100 ms.
fn scene(flows: u32, parameters: &[(&'static str, &'static str)]) -> Scene {
    let senders = (0..flows).map(|k| SenderSpec::new(k, ENDLESS, 100)).collect();
    Scene::new(&Spec { protocol: "udt", parameters: parameters.to_vec(), control_apart: true, ..Spec::new(senders) })
}

#[test]
fn one_flow_fills_a_long_fat_path() {
    for variant in ["4", "2004", "1"] {
        let goodput = scene(1, &[("variant", variant)]).goodputs(2_000, 12_000)[0];
        println!("variant {variant}: {goodput:.1} Mbit/s");
        assert!(goodput > 900.0, "variant {variant}: {goodput} Mbit/s");
    }
}

#[test]
fn flows_of_one_path_have_equal_shares() {
    for variant in ["4", "2004", "1"] {
        let goodputs = scene(4, &[("variant", variant)]).goodputs(10_000, 30_000);
        let (all, jain): (f64, f64) = (goodputs.iter().sum(), jain(&goodputs));
        println!("variant {variant}: {goodputs:.0?} Mbit/s, together {all:.0}, Jain's index {jain:.4}");
        assert!(jain > 0.95 && all > 700.0, "variant {variant}: {goodputs:?} Mbit/s");
    }
}

#[test]
fn the_share_does_not_depend_on_the_round_trip_time() {
    // udt-2004 2.3: "this fairness is independent of RTT due to the constant rate control interval".
    // Variant 1 has no part in it: its control by delay makes shorter round trips give way more often.
    for (variant, rtts, least) in [("4", &[20, 100][..], 0.9), ("2004", &[10, 40, 160][..], 0.99)] {
        let senders = rtts.iter().zip(0..).map(|(rtt, k)| SenderSpec::new(k, ENDLESS, *rtt)).collect();
        let parameters = vec![("variant", variant)];
        let spec = Spec { protocol: "udt", parameters, control_apart: true, ..Spec::new(senders) };
        let goodputs = Scene::new(&spec).goodputs(10_000, 30_000);
        println!("variant {variant}, {rtts:?} ms: {goodputs:.0?} Mbit/s");
        assert!(jain(&goodputs) > least, "variant {variant}, {rtts:?} ms: {goodputs:?}");
    }
}

#[test]
fn every_law_moves_data_and_fills_a_short_path() {
    for law in ["reno", "highspeed", "scalable", "bic", "cubic", "fhstcp"] {
        let spec = Spec {
            protocol: "udt",
            parameters: vec![("law", law)],
            access: Bitrate::from_mbps(100),
            queue_bytes: 250_000,
            control_apart: true,
            ..Spec::new(vec![SenderSpec::new(0, ENDLESS, 20)])
        };
        let goodput = Scene::new(&spec).goodputs(2_000, 12_000)[0];
        println!("{law}: {goodput:.1} Mbit/s");
        assert!(goodput > 80.0, "{law}: {goodput} Mbit/s");
    }
}
