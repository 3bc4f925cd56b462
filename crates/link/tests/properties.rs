//! What holds for every link, whatever is sent into it and whatever is done to it.

use inhaul_base::{Bitrate, Probability, RandomStream, Span, Time};
use inhaul_link::{
    CoDelSpec, Discipline, GilbertElliottSpec, Link, LinkSpec, LossSpec, Mark, QueueLimit, QueueSpec, RedSpec,
    ReorderingSpec,
};
use proptest::prelude::*;

/// Something that is done to a link.
#[derive(Clone, Copy, Debug)]
enum Step {
    Send(u32),
    SetRate(Option<Bitrate>),
    SetUp(bool),
    Look,
}

/// Steps, each so many nanoseconds after the one before.
type Script = Vec<(u64, Step)>;

/// A packet that came out: when, and its number among those sent.
type Arrival = (Time, u64);

fn p(p: f64) -> Probability {
    Probability::new(p).expect("a constant of these tests")
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => (1u32..9_000).prop_map(Step::Send),
        1 => rate().prop_map(Step::SetRate),
        1 => any::<bool>().prop_map(Step::SetUp),
        2 => Just(Step::Look),
    ]
}

fn rate() -> impl Strategy<Value = Option<Bitrate>> {
    prop_oneof![
        8 => (1_000_000u64..3_000_000_000).prop_map(|bps| Some(Bitrate::from_bps(bps))),
        1 => Just(Some(Bitrate::ZERO)),
        1 => Just(None),
    ]
}

fn script() -> impl Strategy<Value = Script> {
    prop::collection::vec((0u64..60_000, step()), 1..120)
}

fn queue() -> impl Strategy<Value = QueueSpec> {
    let limit = prop_oneof![
        (0u64..60_000).prop_map(QueueLimit::Bytes),
        (0u64..30).prop_map(QueueLimit::Packets),
        Just(QueueLimit::Unlimited),
    ];
    let red =
        RedSpec { min_threshold: 2.0, max_threshold: 20.0, max_probability: p(0.1), weight: 0.1, mean_packet: 1_500 };
    let codel = CoDelSpec { target: Span::from_micros(50), interval: Span::from_micros(400) };
    let discipline =
        prop_oneof![Just(Discipline::DropTail), Just(Discipline::Red(red)), Just(Discipline::CoDel(codel))];
    (limit, discipline, any::<bool>()).prop_map(|(limit, discipline, marks)| QueueSpec { limit, discipline, marks })
}

fn loss() -> impl Strategy<Value = LossSpec> {
    let bursts =
        GilbertElliottSpec { to_bad: p(0.05), to_good: p(0.3), loss_in_good: Probability::ZERO, loss_in_bad: p(0.9) };
    prop_oneof![
        Just(LossSpec::None),
        Just(LossSpec::Random(p(0.2))),
        Just(LossSpec::GilbertElliott(bursts)),
        prop::collection::vec(0u64..100, 0..20).prop_map(LossSpec::Scripted),
    ]
}

prop_compose! {
    fn any_link()(
        rate in rate(),
        delay in 0u64..2_000_000,
        jitter in prop_oneof![Just(0u64), 1u64..500_000],
        jitter_reorders in any::<bool>(),
        queue in queue(),
        loss in loss(),
        held_back in prop_oneof![Just(0.0), Just(0.2)],
        twice in prop_oneof![Just(0.0), Just(0.2)],
    ) -> LinkSpec {
        LinkSpec {
            rate,
            delay: Span::from_nanos(delay),
            jitter: Span::from_nanos(jitter),
            jitter_reorders,
            queue,
            loss,
            reordering: ReorderingSpec { probability: p(held_back), by: Span::from_micros(100) },
            marking: p(twice),
            duplication: p(twice),
        }
    }
}

fn without_reordering(spec: LinkSpec) -> LinkSpec {
    LinkSpec { jitter_reorders: false, reordering: ReorderingSpec::NONE, ..spec }
}

/// A packet by its number. Every other one can be marked.
#[derive(Clone, Debug)]
struct Numbered {
    number: u64,
    marked: bool,
}

impl Mark for Numbered {
    fn mark(&mut self) -> bool {
        self.marked = self.number.is_multiple_of(2);
        self.marked
    }
}

/// A link that is driven through a script, its packets numbered.
struct Run {
    link: Link<Numbered>,
    now: Time,
    sent: u64,
    arrived: Vec<Arrival>,
    marked: u64,
}

impl Run {
    fn new(spec: LinkSpec) -> Self {
        Self {
            link: Link::new(spec, RandomStream::new(5, 5)),
            now: Time::ZERO,
            sent: 0,
            arrived: Vec::new(),
            marked: 0,
        }
    }

    /// Goes on to `until`, and takes what arrives when it arrives.
    fn wait(&mut self, until: Time) {
        while let Some(at) = self.link.next_arrival().filter(|at| *at <= until) {
            self.now = self.now.max(at);
            while let Some((at, packet)) = self.link.receive(self.now) {
                self.arrived.push((at, packet.number));
                self.marked += u64::from(packet.marked);
            }
        }
        self.now = until;
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Send(bytes) => {
                // Why it was dropped is in the statistics too.
                let _ = self.link.send(self.now, bytes, Numbered { number: self.sent, marked: false });
                self.sent += 1;
            }
            Step::SetRate(rate) => self.link.set_rate(self.now, rate),
            Step::SetUp(up) => self.link.set_up(self.now, up),
            Step::Look => drop(self.link.stats(self.now)),
        }
    }

    fn script(&mut self, script: &Script) {
        for (gap, step) in script {
            self.wait(self.now + Span::from_nanos(*gap));
            self.step(*step);
        }
    }

    /// Lets everything out that is still inside.
    fn finish(&mut self) {
        self.finish_at(Bitrate::from_gbps(1));
    }

    /// Lets everything out at this rate.
    fn finish_at(&mut self, rate: Bitrate) {
        self.link.set_rate(self.now, Some(rate));
        self.wait(self.now + Span::from_secs(10));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn order_is_kept_without_reordering(spec in any_link(), script in script()) {
        let mut run = Run::new(without_reordering(spec));
        run.script(&script);
        run.finish();
        prop_assert!(run.arrived.is_sorted(), "{:?}", run.arrived);
    }

    #[test]
    fn marks_take_the_place_of_early_drops(spec in any_link(), script in script()) {
        let mut spec = without_reordering(spec);
        (spec.loss, spec.marking, spec.duplication) = (LossSpec::None, Probability::ZERO, Probability::ZERO);
        let mut run = Run::new(spec.clone());
        run.script(&script);
        run.finish();
        let stats = run.link.stats(run.now);
        if !spec.queue.marks {
            prop_assert_eq!(stats.marked.packets, 0);
        }
        // What was marked and waited when the link went down does not arrive.
        prop_assert!(run.marked <= stats.marked.packets && stats.marked.packets - run.marked <= stats.down.packets);
    }

    #[test]
    fn nothing_appears_or_vanishes(spec in any_link(), script in script()) {
        let mut run = Run::new(spec);
        for (gap, step) in &script {
            run.wait(run.now + Span::from_nanos(*gap));
            run.step(*step);
            let stats = run.link.stats(run.now);
            let dropped = stats.dropped();
            prop_assert_eq!(stats.offered.packets, run.sent);
            prop_assert_eq!(stats.offered.packets, stats.carried.packets + dropped.packets + stats.queued.packets);
            prop_assert_eq!(stats.offered.bytes, stats.carried.bytes + dropped.bytes + stats.queued.bytes);
        }
        run.finish();
        let stats = run.link.stats(run.now);
        prop_assert_eq!(stats.queued.packets, 0);
        prop_assert_eq!(run.arrived.len() as u64, stats.carried.packets + stats.duplicated.packets);
        prop_assert_eq!(run.link.next_arrival(), None);
    }

    #[test]
    fn the_queue_keeps_its_bound(spec in any_link(), script in script()) {
        let limit = spec.queue.limit;
        let mut run = Run::new(spec);
        run.script(&script);
        let stats = run.link.stats(run.now);
        match limit {
            QueueLimit::Bytes(limit) => prop_assert!(stats.queue_bytes_max <= limit),
            QueueLimit::Packets(limit) => prop_assert!(stats.queue_packets_max <= limit),
            QueueLimit::Unlimited => prop_assert_eq!(stats.queue_full.packets, 0),
        }
    }

    #[test]
    fn same_seed_same_fate(spec in any_link(), script in script()) {
        let fate = |spec| {
            let mut run = Run::new(spec);
            run.script(&script);
            run.finish();
            (run.arrived, run.link.stats(run.now))
        };
        prop_assert_eq!(fate(spec.clone()), fate(spec));
    }

    #[test]
    fn it_does_not_matter_how_often_one_looks(spec in any_link(), script in script()) {
        let mut seldom = Run::new(spec.clone());
        seldom.script(&script);
        seldom.finish();
        let mut often = Run::new(spec);
        for (gap, step) in &script {
            for _ in 0..4 {
                often.wait(often.now + Span::from_nanos(gap / 4));
                often.link.queue_bytes(often.now);
            }
            often.wait(often.now + Span::from_nanos(gap % 4));
            often.step(*step);
        }
        often.finish();
        prop_assert_eq!(seldom.arrived, often.arrived);
        prop_assert_eq!(seldom.link.stats(seldom.now), often.link.stats(often.now));
    }

    #[test]
    fn loss_and_duplication_leave_the_jitter_alone(spec in any_link(), script in script()) {
        // The queue drops nobody at its turn, so that the same packets are transmitted in both runs.
        let queue = QueueSpec { discipline: Discipline::DropTail, ..spec.queue };
        let spec = LinkSpec { queue, ..spec };
        let mut faultless = Run::new(LinkSpec { loss: LossSpec::None, duplication: Probability::ZERO, ..spec.clone() });
        let mut faulty = Run::new(LinkSpec { loss: LossSpec::Random(p(0.3)), duplication: p(0.3), ..spec });
        faultless.script(&script);
        faulty.script(&script);
        faultless.finish();
        faulty.finish();
        for arrival in &faulty.arrived {
            prop_assert!(faultless.arrived.contains(arrival), "{arrival:?} is not in {:?}", faultless.arrived);
        }
    }

    #[test]
    fn never_faster_than_the_rate(bps in 1_000_000u64..20_000_000_000, script in script()) {
        let rate = Bitrate::from_bps(bps);
        let mut run = Run::new(LinkSpec::drop_tail(rate, Span::from_millis(1), QueueLimit::Bytes(100_000)));
        let mut sizes = Vec::new();
        for (gap, step) in script {
            run.wait(run.now + Span::from_nanos(gap));
            if let Step::Send(bytes) = step {
                sizes.push(bytes);
                run.step(step);
            }
        }
        run.finish_at(rate);
        for (first, (start, _)) in run.arrived.iter().enumerate() {
            let mut bytes = 0;
            for (end, number) in &run.arrived[first + 1..] {
                bytes += u128::from(sizes[*number as usize]);
                // An end is told up to one nanosecond late.
                let span = u128::from(end.since(*start).as_nanos() + 1);
                prop_assert!(bytes * 8_000_000_000 <= span * u128::from(bps), "{bytes} bytes in {span} ns");
            }
        }
    }

    #[test]
    fn a_changing_rate_serves_exactly_its_integral(
        sizes in prop::collection::vec(1u32..9_000, 1..40),
        changes in prop::collection::vec((1u64..400_000, 0u64..2_000_000_000), 0..20),
    ) {
        let mut run = Run::new(LinkSpec::drop_tail(Bitrate::from_bps(977_777_777), Span::ZERO, QueueLimit::Unlimited));
        for bytes in &sizes {
            run.step(Step::Send(*bytes));
        }
        // The rates, each with the time from which it holds.
        let mut rates = vec![(Time::ZERO, 977_777_777)];
        for (gap, bps) in changes {
            run.wait(run.now + Span::from_nanos(gap));
            run.step(Step::SetRate(Some(Bitrate::from_bps(bps))));
            rates.push((run.now, bps));
        }
        rates.push((run.now, 1_000_000_000));
        run.finish();
        let mut work = 0;
        for (bytes, (at, _)) in sizes.iter().zip(&run.arrived) {
            work += u128::from(*bytes) * 8_000_000_000;
            prop_assert!(served_by(&rates, *at) >= work);
            prop_assert!(served_by(&rates, *at - Span::from_nanos(1)) < work);
        }
        prop_assert_eq!(run.arrived.len(), sizes.len());
    }
}

/// Thousand millionths of bits that a line with these rates, each from its time on, has served by `at`.
fn served_by(rates: &[(Time, u64)], at: Time) -> u128 {
    let ends = rates[1..].iter().map(|(start, _)| *start).chain([Time::FAR_FUTURE]);
    rates
        .iter()
        .zip(ends)
        .map(|((start, bps), end)| u128::from(at.min(end).since(*start).as_nanos()) * u128::from(*bps))
        .sum()
}
