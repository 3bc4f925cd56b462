//! A network that takes no more.

use super::super::fake::WayOut;
use super::*;

/// The numbers of the datagrams that left a socket, in order.
fn numbers(bench: &Bench, socket: usize) -> Vec<u32> {
    let world = bench.fake.world();
    world.sent(socket).iter().map(|sent| u32::from_be_bytes(sent.bytes[..4].try_into().unwrap())).collect()
}

/// A flow of a role whose endpoint has `count` datagrams to send over a socket that is open to all.
fn with_datagrams(role: Role, count: usize) -> (Bench, Scripted, usize, FlowId, FakeWire) {
    let mut bench = Bench::new();
    let (side, endpoint) = bench.endpoint(role);
    let (port, socket) = bench.port(HERE, None);
    let (flow, theirs) = bench.flow(side, port);
    endpoint.send(flow, THERE.into(), count, 1000);
    // Any command has it asked.
    bench.engine.command(side, Command::LimitSend(None));
    (bench, endpoint, socket, flow, theirs)
}

#[test]
fn what_a_full_socket_does_not_take_leaves_once_it_is_writable_each_datagram_once() {
    for role in [Role::Sender, Role::Receiver] {
        let (mut bench, _endpoint, socket, _flow, _theirs) = with_datagrams(role, 600);
        bench.fake.world().set_way_out(Time::ZERO, socket, WayOut::Full);
        bench.fake.world().set_way_out(millis(50), socket, WayOut::Open);
        bench.run(Run::until(millis(100)));
        assert_eq!(numbers(&bench, socket), (0..600).collect::<Vec<_>>(), "{role:?}");
        let world = bench.fake.world();
        assert!(world.sent(socket).iter().all(|sent| sent.at >= millis(50) && sent.at < millis(51)), "{role:?}");
    }
}
