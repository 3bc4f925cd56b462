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
    let (id, endpoint) = bench.endpoint(role);
    let (port, socket) = bench.port(HERE, None);
    let (flow, theirs) = bench.flow(id, port);
    endpoint.send(flow, THERE.into(), count, 1000);
    // Any command has it asked.
    bench.engine.command(id, Command::LimitSend(None));
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

#[test]
fn enobufs_is_asked_again_after_a_moment_and_does_not_keep_the_loop_awake() {
    for role in [Role::Sender, Role::Receiver] {
        let (mut bench, _endpoint, socket, _flow, _theirs) = with_datagrams(role, 600);
        bench.fake.world().set_way_out(Time::ZERO, socket, WayOut::NoMemory);
        bench.run(Run::until(millis(100)));
        let turns = bench.fake.world().waits();
        let tries = bench.fake.world().tries(socket);
        // Once a millisecond, and a little for what goes with it.
        assert!((90..=220).contains(&tries) && turns <= 220, "{role:?}: {turns} turns, tried {tries} times");
        bench.fake.world().set_way_out(millis(200), socket, WayOut::Open);
        bench.run(Run::until(millis(300)));
        assert_eq!(numbers(&bench, socket), (0..600).collect::<Vec<_>>(), "{role:?}");
        let late = bench.fake.world().sent(socket).iter().filter(|sent| sent.at > millis(202)).count();
        assert_eq!(late, 0, "{role:?}");
    }
}

#[test]
fn a_socket_that_was_full_and_then_has_no_memory_is_not_waited_for() {
    let (mut bench, _endpoint, socket, _flow, _theirs) = with_datagrams(Role::Sender, 600);
    let mut world = bench.fake.world();
    world.set_way_out(Time::ZERO, socket, WayOut::Full);
    world.set_way_out(millis(20), socket, WayOut::NoMemory);
    world.set_way_out(millis(60), socket, WayOut::Full);
    world.set_way_out(millis(80), socket, WayOut::Open);
    drop(world);
    bench.run(Run::until(millis(100)));
    assert_eq!(numbers(&bench, socket), (0..600).collect::<Vec<_>>());
    let turns = bench.fake.world().waits();
    assert!(turns < 220, "{turns} turns");
}

#[test]
fn timers_fire_while_the_network_takes_nothing() {
    for way_out in [WayOut::Full, WayOut::NoMemory] {
        let (mut bench, endpoint, socket, flow, _theirs) = with_datagrams(Role::Sender, 600);
        let datagram = datagram_for(flow);
        bench.fake.world().set_way_out(Time::ZERO, socket, way_out);
        // Datagrams come in all the while, and after each the endpoint is asked.
        bench.fake.world().at(Time::ZERO, move |world| {
            world.deliver(socket, THERE.into(), &datagram);
            Some(world.now() + Span::from_micros(200))
        });
        // The peer is given up after a while; what may leave has been due for long.
        endpoint.script().timer = Some(millis(500));
        bench.run(Run::until(millis(600)));
        let fired = endpoint.script().fired.clone();
        assert!(matches!(fired[..], [at] if (millis(500)..millis(502)).contains(&at)), "{way_out:?}: {fired:?}");
    }
}

#[test]
fn what_is_overdue_and_waits_for_the_network_does_not_keep_the_loop_awake() {
    let (mut bench, endpoint, socket, _flow, _theirs) = with_datagrams(Role::Sender, 600);
    endpoint.script().sends_for = Some(Time::ZERO);
    bench.fake.world().set_way_out(Time::ZERO, socket, WayOut::Full);
    bench.run(Run::until(millis(100)));
    let turns = bench.fake.world().waits();
    assert!(turns <= 220, "{turns} turns");
}

#[test]
fn what_waited_for_a_socket_that_is_gone_makes_way_for_the_others() {
    // As a server has it that leaves its port to another: each flow has a socket of its own.
    let mut bench = Bench::new();
    let (id, endpoint) = bench.endpoint(Role::Sender);
    let peers = [SocketAddr::from(THERE), SocketAddr::from(([192, 0, 2, 3], 3))];
    let [(one, one_socket), (other, other_socket)] = peers.map(|peer| bench.port(HERE, Some(peer)));
    let ((one, _one_theirs), (other, _other_theirs)) = (bench.flow(id, one), bench.flow(id, other));
    bench.fake.world().set_way_out(Time::ZERO, one_socket, WayOut::Full);
    endpoint.send(one, peers[0], 264, 1000);
    bench.engine.command(id, Command::LimitSend(None));
    bench.run(Run::until(millis(10)));
    // The network of the one has been dead for long: it is given up. The other is asked for data.
    endpoint.send(other, peers[1], 100, 1000);
    bench.engine.close(one);
    bench.run(Run::until(millis(100)));
    assert_eq!(bench.engine.streams(), 1);
    let world = bench.fake.world();
    let to_other = world.sent(other_socket).iter().filter(|sent| sent.to == peers[1]).count();
    assert_eq!(to_other, 100, "of {} datagrams", world.sent(other_socket).len());
}
