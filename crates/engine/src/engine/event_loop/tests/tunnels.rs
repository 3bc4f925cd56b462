//! Flows with a tunnel beside their socket.

use super::super::fake::WayOut;
use super::*;

/// The address by which an endpoint knows what comes over a tunnel.
const SHOWN: ([u8; 4], u16) = ([192, 0, 2, 9], 0);

/// Two flows of a sender over one socket, the first of which has a tunnel. The socket and the tunnel, as the world knows
/// them.
fn two_flows() -> (Bench, EndpointId, Scripted, [usize; 2], [FlowId; 2], [FakeWire; 2]) {
    let mut bench = Bench::new();
    let (id, endpoint) = bench.endpoint(Role::Sender);
    let (port, socket) = bench.port(HERE, None);
    let (first, first_stream) = bench.flow(id, port);
    let (second, second_stream) = bench.flow(id, port);
    let tunnel = bench.fake.socket(HERE.into(), Some(SHOWN.into()));
    let number = tunnel.number();
    bench.engine.add_tunnel(first, tunnel).unwrap();
    (bench, id, endpoint, [socket, number], [first, second], [first_stream, second_stream])
}

fn sent(bench: &Bench, sockets: [usize; 2]) -> [usize; 2] {
    sockets.map(|socket| bench.fake.world().sent(socket).len())
}

#[test]
fn a_sender_s_datagrams_leave_by_the_way_by_which_the_receiver_s_came_last() {
    let (mut bench, id, endpoint, sockets, [flow, other], _streams) = two_flows();
    let mut until = 0;
    let mut send = |bench: &mut Bench, heard_at: Option<(usize, SocketAddr)>, to: SocketAddr| {
        let before = sent(bench, sockets);
        if let Some((socket, from)) = heard_at {
            bench.fake.world().deliver(socket, from, &datagram_for(flow));
            until += 10;
            bench.run(Run::until(millis(until)));
        }
        endpoint.send(flow, to, 10, 1000);
        endpoint.send(other, THERE.into(), 5, 1000);
        bench.engine.command(id, Command::LimitSend(None));
        until += 10;
        bench.run(Run::until(millis(until)));
        let after = sent(bench, sockets);
        [after[0] - before[0], after[1] - before[1]]
    };
    assert_eq!(send(&mut bench, None, THERE.into()), [15, 0], "nobody has used the tunnel");
    assert_eq!(send(&mut bench, Some((sockets[1], SHOWN.into())), THERE.into()), [5, 10]);
    assert_eq!(send(&mut bench, Some((sockets[0], THERE.into())), THERE.into()), [15, 0]);
    assert_eq!(send(&mut bench, None, SHOWN.into()), [5, 10], "the endpoint still knows the receiver there");
    bench.engine.drop_tunnel(flow);
    assert_eq!(send(&mut bench, None, SHOWN.into()), [5, 0], "that is no address of UDP");
}

#[test]
fn a_tunnel_that_is_full_delays_no_other_flow_and_what_waits_for_it_is_bounded() {
    let (mut bench, id, endpoint, sockets, [flow, other], _streams) = two_flows();
    bench.fake.world().set_way_out(Time::ZERO, sockets[1], WayOut::Full);
    endpoint.send(flow, SHOWN.into(), 60_000, 100);
    endpoint.send(other, THERE.into(), 100, 100);
    bench.engine.command(id, Command::LimitSend(None));
    bench.run(Run::until(millis(50)));
    assert_eq!(sent(&bench, sockets), [100, 0]);
    bench.fake.world().set_way_out(millis(60), sockets[1], WayOut::Open);
    bench.run(Run::until(millis(100)));
    let [_, came] = sent(&bench, sockets);
    assert!((8_000..9_000).contains(&came), "{came}");
}

#[test]
fn a_receiver_leaves_by_the_way_that_it_was_told() {
    let mut bench = Bench::new();
    let (id, endpoint) = bench.endpoint(Role::Receiver);
    let (port, socket) = bench.port(HERE, Some(THERE.into()));
    let (flow, _stream) = bench.flow(id, port);
    let tunnel = bench.fake.socket(HERE.into(), Some(THERE.into()));
    let sockets = [socket, tunnel.number()];
    bench.engine.add_tunnel(flow, tunnel).unwrap();
    for (round, to_tunnel) in [(0, None), (1, Some(true)), (2, None), (3, Some(false))] {
        to_tunnel.into_iter().for_each(|to_tunnel| bench.engine.turn_to(flow, to_tunnel, None));
        // What comes by the other way changes nothing.
        bench.fake.world().deliver(sockets[0], THERE.into(), &datagram_for(flow));
        endpoint.send(flow, THERE.into(), 3, 1000);
        bench.engine.command(id, Command::LimitSend(None));
        bench.run(Run::until(millis(10 * (round + 1))));
    }
    assert_eq!(sent(&bench, sockets), [6, 6]);
    // With the flow all its sockets go.
    bench.engine.close(flow);
    bench.run(Run::until(millis(100)));
    assert!(bench.engine.ports.is_empty());
}
