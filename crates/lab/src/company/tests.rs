use super::*;
use crate::scenario::Plan;
use crate::stars::Knowledge;
use inhaul_protocols::registry;

fn told() -> Contestant {
    Contestant { knowledge: Knowledge::Told, ..Contestant::of("gtp") }
}

fn plan(network: &Network, contestant: &Contestant) -> Plan {
    let text = network.scenario(contestant);
    let scenario = Scenario::parse("network", &text, &[]);
    let mut scenario = scenario.unwrap_or_else(|error| panic!("{}: {error}\n{text}", network.seed));
    scenario.cells.remove(0).plan
}

/// The cheapest of the first networks that are like this.
fn cheapest(is_wanted: impl Fn(&Network) -> bool) -> Network {
    let cost = |network: &Network| (network.rate_bps as f64 * network.duration_s()) as u64;
    (1..=200).map(Network::of).filter(is_wanted).min_by_key(cost).unwrap()
}

#[test]
fn every_network_is_a_scenario_and_the_same_each_time() {
    for seed in (1..=200).chain(1001..=1200) {
        let network = Network::of(seed);
        // To read all of them takes seconds: each network has one of three.
        let contestants = [Contestant::of("cubic"), Contestant::of("rbudp"), told()];
        let contestant = &contestants[seed as usize % 3];
        assert_eq!(network.scenario(contestant), Network::of(seed).scenario(contestant));
        let flows = plan(&network, contestant).flows;
        assert_eq!(flows.len(), network.own.len() + network.rivals.len(), "{seed}");
    }
}

#[test]
fn the_network_and_its_random_numbers_are_the_same_for_each_contestant() {
    for network in (1..=15).map(Network::of) {
        let cubic = plan(&network, &Contestant::of("cubic"));
        for protocol in registry::PROTOCOLS {
            let plan = plan(&network, &Contestant::of(protocol.name));
            // Endpoints have random numbers by their places. No rival may share one with the contestant.
            assert_eq!(plan.endpoints.len(), cubic.endpoints.len(), "{}", network.seed);
            for (other, reference) in plan.endpoints.iter().zip(&cubic.endpoints) {
                assert_eq!((other.host, other.sends), (reference.host, reference.sends));
            }
            for (other, reference) in plan.flows.iter().zip(&cubic.flows) {
                assert!(other.name.starts_with("own") || other.protocol.name == reference.protocol.name);
                assert_eq!((&other.name, other.start, other.stop), (&reference.name, reference.start, reference.stop));
                assert_eq!((&other.path, other.rtt, other.mtu), (&reference.path, reference.rtt, reference.mtu));
            }
        }
    }
}

#[test]
fn networks_are_of_every_kind_and_cheap() {
    for first in [1, 1001] {
        let networks: Vec<Network> = (first..first + 200).map(Network::of).collect();
        let count = |is_wanted: &dyn Fn(&Network) -> bool| networks.iter().filter(|network| is_wanted(network)).count();
        for (kind, least) in [(Kind::Elastic, 90), (Kind::Steady, 25), (Kind::Changing, 20)] {
            assert!(count(&|network| network.kind == kind) >= least, "{}", kind.name());
            assert_eq!(kind.name().parse(), Ok(kind));
        }
        for protocol in ["reno", "cubic", "bbr", "bbr3", "udt", "mixed"] {
            assert!(count(&|network| network.rivals() == protocol) >= 5, "{protocol}");
        }
        for discipline in [Discipline::Tail, Discipline::CoDel, Discipline::Red] {
            assert!(count(&|network| network.discipline == discipline) >= 10, "{discipline:?}");
        }
        assert!(count(&|network| network.leave_s.is_some()) >= 30);
        assert!(count(&|network| network.has_goals()) >= 15);
        let bits = |network: &Network| network.rate_bps as f64 * network.end_s;
        let mean = networks.iter().map(bits).sum::<f64>() / 200.0;
        assert!(mean < 25e9, "{mean:e} bits each");
    }
}

#[test]
fn cubic_is_exactly_fair_to_cubic() {
    let network = cheapest(|network| network.rival_count() > 1 && network.leave_s.is_some());
    let verdict = &network.run(&[Contestant::of("cubic")], &[]).unwrap()[0];
    assert!(verdict.valid && verdict.rivals.len() > 1, "{verdict:?}");
    assert_eq!(verdict.share, Some(1.0));
    assert!(verdict.rivals.iter().all(|rival| rival.kept == Some(1.0)), "{verdict:?}");
    // Not only by the shortcut: a second run with the same numbers is the same.
    let set = [("flows.own*.mtu".to_owned(), "1500".to_owned())];
    let again = &network.run(&[Contestant::of("cubic")], &set).unwrap()[0];
    assert_eq!((again.share, &again.trace), (Some(1.0), &verdict.trace));
    let total = total([verdict]);
    assert_eq!((total.company.fair, total.company.kept_half), (1, verdict.rivals.len()));
    // Other random numbers are the contestant's alone.
    let other = &network.run(&[Contestant::of("cubic")], &[("seed".to_owned(), "12345".to_owned())]).unwrap()[0];
    assert_eq!(other.reference.goodput_bps, verdict.reference.goodput_bps);
    assert_ne!(other.trace, verdict.trace);
}

#[test]
fn rbudp_at_the_full_rate_is_unfair() {
    let is_wanted = |network: &Network| network.rivals() == "cubic" && network.leave_s.is_some();
    let verdict = &cheapest(is_wanted).run(&[Contestant::of("rbudp")], &[]).unwrap()[0];
    let total = total([verdict]);
    assert!(verdict.valid && verdict.share > Some(1.5), "{verdict:?}");
    assert_eq!((total.company.fair, total.company.kept_half), (0, 0), "{verdict:?}");
    assert!(criteria(&[verdict]).iter().any(|criterion| !criterion.met));
}

#[test]
fn gtp_that_is_told_the_capacities_is_right_alone() {
    // On slower links an interval of 20 ms holds too few packets for anybody.
    let is_wanted = |network: &Network| {
        let is_plain = network.place == Place::Receiver && network.udp.is_none() && network.own.len() > 1;
        network.has_goals() && is_plain && network.rate_bps >= 5_000_000
    };
    let verdict = &cheapest(is_wanted).run(&[told()], &[]).unwrap()[0];
    let total = total([verdict]);
    assert!(verdict.valid && total.alone.joins[0] > 0, "{verdict:?}");
    assert_eq!((total.alone.joins[2], total.alone.leaves[2]), (total.alone.joins[0], total.alone.leaves[0]));
    assert!(total.alone.aggregate > Some(0.95) && total.alone.worst > Some(0.9), "{verdict:?}");
}
