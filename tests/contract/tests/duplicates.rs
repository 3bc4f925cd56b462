//! Every registered protocol must count datagrams that the network brings twice only as copies. Three flows share an
//! access link whose queue is full. Each test prints its measurements;
//! `cargo test -p inhaul-contract-tests duplicates:: -- --nocapture` shows it.

use inhaul_base::{Bitrate, Span};
use inhaul_contract_tests::{ENDLESS, Scene, SenderSpec, Spec, jain, protocols};
use inhaul_transport::{FlowStats, Protocol};

const FLOWS: u32 = 3;
/// Parts of all datagrams that come twice.
const SHARES: [f64; 2] = [0.05, 0.3];

/// Protocols that send at the rate that they are given.
const GIVEN: [&str; 3] = ["rbudp", "rbudp+", "fixed-rate"];

/// Three senders of one object each, with an RTT of 20 ms, behind 100 Mbit/s with a queue of 20 ms. Those of given rates
/// have 114 Mbit/s together, and not the same: of packets that come in step one flow's would always find the queue full.
fn scene(protocol: &'static Protocol, seed: u64) -> Spec {
    let access = Bitrate::from_mbps(100);
    let limit = |k: u32| GIVEN.contains(&protocol.name).then(|| Bitrate::from_mbps(35 + 3 * u64::from(k)));
    let sender = |k| SenderSpec { send_limit: limit(k), ..SenderSpec::new(k, ENDLESS, 20) };
    let senders = (0..FLOWS).map(sender).collect();
    Spec {
        protocol: protocol.name,
        seed,
        access,
        queue_bytes: access.bytes_in(Span::from_millis(20)),
        control_apart: true,
        ..Spec::new(senders)
    }
}

/// The result of a scene.
struct Measured {
    scene: Scene,
    /// Goodput of each flow from 5 to 15 s, in Mbit/s.
    rates: Vec<f64>,
}

impl Measured {
    fn of(spec: &Spec) -> Self {
        let mut scene = Scene::new(spec);
        let rates = scene.goodputs(5_000, 15_000);
        assert!(scene.failed().is_empty(), "{}: {:?}", spec.protocol, scene.failed());
        Self { scene, rates }
    }

    fn goodput(&self) -> f64 {
        self.rates.iter().sum()
    }

    /// The sum over all flows of the receivers' counters.
    fn received(&self, figure: fn(&FlowStats) -> u64) -> u64 {
        (0..FLOWS as usize).map(|k| figure(&self.scene.stats(k))).sum()
    }

    /// The same of the senders' counters.
    fn sent(&self, figure: fn(&FlowStats) -> u64) -> u64 {
        self.scene.transfers.iter().map(|transfer| figure(&self.scene.sim.sender_stats(*transfer))).sum()
    }
}

fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = values.len() as f64;
    values.sum::<f64>() / count
}

#[test]
fn copies_behind_the_bottleneck_change_nothing_but_their_count() {
    for protocol in protocols() {
        let plain = Measured::of(&scene(protocol, 1));
        for share in SHARES {
            let mut copied = Measured::of(&Spec { access_duplication: share, ..scene(protocol, 1) });
            let (name, copies) = (protocol.name, copied.received(|flow| flow.duplicate_packets));
            println!(
                "{name}, {share} twice: {:.1?} Mbit/s, {:.1?} without; {copies} copies",
                copied.rates, plain.rates
            );
            // Not a byte comes earlier or later, and nothing is taken for a loss or an arrival that is none.
            let counts = |of: &Measured| {
                let packets = (of.received(|flow| flow.received_packets), of.received(|flow| flow.lost_packets));
                (of.scene.placed_by(), packets, of.received(|flow| flow.retransmitted_bytes))
            };
            assert_eq!(counts(&copied), counts(&plain), "{name}, {share}: bytes, packets got and lost, bytes again");
            // The link counts its copies. Copies of messages about the path are not counted.
            let (there, back) = copied.scene.star.access;
            let mut made = |link| copied.scene.sim.link_stats(link).duplicated.packets;
            let (made, made_of_feedback) = (made(there), made(back));
            assert!(copies <= made && made - copies <= made / 200, "{name}, {share}: {copies} copies, {made} made");
            let of_feedback = copied.sent(|flow| flow.duplicate_packets);
            assert!(
                of_feedback <= made_of_feedback,
                "{name}, {share}: {of_feedback} at senders, {made_of_feedback} made"
            );
        }
    }
}

#[test]
fn copies_before_the_bottleneck_cost_their_place_in_it_and_leave_the_shares_fair() {
    // The fairness of one seed shows little: laws that are slow to share are judged by the mean of three.
    let shares = if inhaul_contract_tests::is_long() { &SHARES[..] } else { &SHARES[..1] };
    for protocol in protocols() {
        let measured = |duplication| {
            (1..=3).map(|seed| Measured::of(&Spec { duplication, ..scene(protocol, seed) })).collect::<Vec<_>>()
        };
        let goodput = |runs: &[Measured]| mean(runs.iter().map(Measured::goodput));
        let fairness = |runs: &[Measured]| mean(runs.iter().map(|run| jain(&run.rates)));
        let plain = measured(0.0);
        let (plain_goodput, plain_fairness) = (goodput(&plain), fairness(&plain));
        for &share in shares {
            let copied = measured(share);
            let (name, part) = (protocol.name, goodput(&copied) * (1.0 + share) / plain_goodput);
            let fair = fairness(&copied);
            println!(
                "{name}, {share} twice: {:.1} Mbit/s, {part:.3} of what copies leave; Jain {fair:.3}, {plain_fairness:.3} without",
                goodput(&copied)
            );
            // The test's own protocol waits for a deadline whenever a request of it has lost something.
            if protocol.name != inhaul_contract_tests::FIXED_RATE.name {
                assert!(part > 0.95, "{name}, {share}: {part} of what copies leave of {plain_goodput} Mbit/s");
            }
            assert!(
                fair > plain_fairness - 0.05,
                "{name}, {share}: Jain's index {fair}, {plain_fairness} without copies"
            );
        }
    }
}
