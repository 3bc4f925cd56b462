//! Thousands of flows, most of them idle.

use super::*;

const FLOWS: usize = 5_000;

#[test]
fn flows_that_are_idle_are_not_looked_at() {
    let mut bench = Bench::new();
    let (id, endpoint) = bench.endpoint(Role::Sender);
    let (port, _) = bench.port(HERE, None);
    let flows: Vec<(FlowId, FakeWire)> = (0..FLOWS).map(|_| bench.flow(id, port)).collect();
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
    let (id, endpoint) = bench.endpoint(Role::Sender);
    let (port, _) = bench.port(HERE, None);
    let flows: Vec<(FlowId, FakeWire)> = (0..FLOWS).map(|_| bench.flow(id, port)).collect();
    let word = encoded(&Frame::Protocol { message: b"more".to_vec() });
    flows.iter().for_each(|(_, theirs)| bench.fake.world().write(theirs.number(), &word));
    bench.run(Run::until(millis(10)));
    let heard: Vec<FlowId> = endpoint.script().heard.iter().map(|(flow, _)| *flow).collect();
    assert_eq!(heard, flows.iter().map(|(flow, _)| *flow).collect::<Vec<_>>());
}

/// What a datagram costs that comes to a port of `FLOWS` flows, which `endpoints` share: how many endpoints look at
/// it, and how many are asked whether they have something to send now.
fn cost_of_a_datagram(endpoints: usize, role: Role) -> (u64, u64) {
    const DATAGRAMS: u64 = 100;
    let mut bench = Bench::new();
    let all: Vec<(EndpointId, Scripted)> = (0..endpoints).map(|_| bench.endpoint(role)).collect();
    let (port, socket) = bench.port(HERE, None);
    let flows: Vec<_> = (0..FLOWS).map(|n| bench.flow(all[n % endpoints].0, port)).collect();
    // One at a time, all of one flow.
    let datagram = datagram_for(flows[FLOWS / 2].0);
    let mut left = DATAGRAMS;
    bench.fake.world().at(millis(1), move |world| {
        world.deliver(socket, THERE.into(), &datagram);
        left -= 1;
        (left > 0).then(|| world.now() + Span::from_millis(1))
    });
    bench.run(Run::until(millis(200)));
    let sum = |of: fn(&Script) -> u64| all.iter().map(|(_, endpoint)| of(&endpoint.script())).sum::<u64>();
    (sum(|script| script.shown) / DATAGRAMS, sum(|script| script.asked) / DATAGRAMS)
}

#[test]
fn a_datagram_costs_the_same_however_many_endpoints_and_flows_there_are() {
    for role in [Role::Sender, Role::Receiver] {
        for endpoints in [1, 10, FLOWS] {
            assert_eq!(cost_of_a_datagram(endpoints, role), (1, 1), "{endpoints} endpoints, {role:?}");
        }
    }
}

#[test]
fn strangers_datagrams_reach_no_endpoint() {
    let mut bench = Bench::new();
    let (id, endpoint) = bench.endpoint(Role::Sender);
    let (port, socket) = bench.port(HERE, None);
    let (flow, _theirs) = bench.flow(id, port);
    let changed = {
        let mut datagram = datagram_for(flow);
        datagram[7] ^= 1;
        datagram
    };
    let all = [changed, datagram_for(FlowId(flow.0 + 1)), vec![0; 7], Vec::new(), datagram_for(flow)];
    all.iter().for_each(|datagram| bench.fake.world().deliver(socket, THERE.into(), datagram));
    bench.run(Run::until(millis(10)));
    assert_eq!(endpoint.script().shown, 1, "the flow's own");
}

#[test]
fn a_foreign_protocol_has_a_port_of_its_own_and_datagrams_as_they_are() {
    let mut bench = Bench::new();
    let (id, endpoint) = bench.endpoint(Role::Sender);
    let (foreign, of_foreign) = bench.endpoint(Role::Receiver);
    let (port, _) = bench.port(HERE, None);
    let _flow = bench.flow(id, port);
    let socket = bench.fake.socket(SocketAddr::from(([192, 0, 2, 1], 9_000)), None);
    let number = socket.number();
    bench.engine.add_foreign_port(foreign, socket).unwrap();
    // It has no control streams: the engine knows nothing of its flows.
    of_foreign.send(FlowId(1), THERE.into(), 3, 20);
    bench.fake.world().deliver(number, THERE.into(), &[1, 2, 3]);
    bench.run(Run::until(millis(10)));
    assert_eq!((endpoint.script().shown, of_foreign.script().shown), (0, 1));
    let world = bench.fake.world();
    assert_eq!(world.sent(number).iter().map(|sent| sent.bytes.len()).collect::<Vec<_>>(), [20, 20, 20]);
}
