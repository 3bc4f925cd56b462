//! Thousands of flows, most of them idle.

use super::*;

const FLOWS: usize = 5_000;

#[test]
fn flows_that_are_idle_are_not_looked_at() {
    let mut bench = Bench::new();
    let (side, endpoint) = bench.endpoint(Role::Sender);
    let (port, _) = bench.port(HERE, None);
    let flows: Vec<(FlowId, FakeWire)> = (0..FLOWS).map(|_| bench.flow(side, port)).collect();
    // Ten of them say something each millisecond.
    let busy: Vec<usize> = flows.iter().step_by(FLOWS / 10).map(|(_, theirs)| theirs.number()).collect();
    let word = encoded(&Frame::Protocol { message: b"more".to_vec() });
    let busy_too = busy.clone();
    bench.fake.world().at(millis(1), move |world| {
        busy_too.iter().for_each(|&wire| world.write(wire, &word));
        Some(world.now() + Span::from_millis(1))
    });
    let run = bench.run(Run::until(millis(100)));
    let world = bench.fake.world();
    for (_, theirs) in &flows {
        let reads = world.reads(theirs.number() ^ 1);
        // Each time there is something, and until there is nothing more.
        let expected = if busy.contains(&theirs.number()) { 2 * 99..=2 * 100 } else { 0..=0 };
        assert!(expected.contains(&reads), "{reads}");
    }
    assert!((990..=1000).contains(&endpoint.script().heard.len()));
    assert!(world.waits() < 250, "{} turns", world.waits());
    assert_eq!(run.ends, []);
}

#[test]
fn all_flows_are_served_though_more_are_ready_than_a_wait_reports() {
    let mut bench = Bench::new();
    let (side, endpoint) = bench.endpoint(Role::Sender);
    let (port, _) = bench.port(HERE, None);
    let flows: Vec<(FlowId, FakeWire)> = (0..FLOWS).map(|_| bench.flow(side, port)).collect();
    let word = encoded(&Frame::Protocol { message: b"more".to_vec() });
    flows.iter().for_each(|(_, theirs)| bench.fake.world().write(theirs.number(), &word));
    bench.run(Run::until(millis(10)));
    let heard: Vec<FlowId> = endpoint.script().heard.iter().map(|(flow, _)| *flow).collect();
    assert_eq!(heard, flows.iter().map(|(flow, _)| *flow).collect::<Vec<_>>());
}
