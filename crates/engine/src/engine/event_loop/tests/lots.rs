//! Packets that gather before they are read, where processor time is scarce.

use inhaul_udp::watch::Forecast;

use super::*;
use inhaul_session::api::options::NetOptions;

/// A datagram comes every ten microseconds, from the first millisecond on until the last. Returns how often the engine
/// took a turn meanwhile, how many datagrams its endpoint was shown, and how late its timer was.
fn run(forecast: Option<Forecast>) -> (u64, u64, Span) {
    const DATAGRAMS: u64 = 10_000;
    let mut bench = Bench::new();
    bench.engine.watch_thread(&NetOptions::default(), false);
    let (id, endpoint) = bench.endpoint(Role::Receiver);
    let (port, socket) = bench.port(HERE, None);
    let (flow, _theirs) = bench.flow(id, port);
    let due = millis(100) + Span::from_micros(437);
    endpoint.script().timer = Some(due);
    let datagram = datagram_for(flow);
    let mut left = DATAGRAMS;
    bench.fake.world().at(millis(1), move |world| {
        world.deliver(socket, THERE.into(), &datagram);
        left -= 1;
        (left > 0).then(|| world.now() + Span::from_micros(10))
    });
    // The rate that comes in is known by then.
    bench.fake.world().at(millis(50), move |world| {
        forecast.into_iter().for_each(|forecast| world.foresee(forecast));
        None
    });
    bench.run(Run::until(millis(110)));
    let script = endpoint.script();
    (bench.fake.world().waits(), script.shown, script.fired[0].since(due))
}

#[test]
fn where_processor_time_is_scarce_the_loop_is_woken_for_many_packets_at_a_time() {
    let (turns, shown, _) = run(None);
    assert!(turns > 9_000 && shown == 10_000, "{turns} turns, {shown} datagrams");
    let (turns, shown, late) = run(Some(Forecast { scarce: true, ..Forecast::default() }));
    // A turn for each datagram in the first half, and one in each millisecond of the second.
    assert!((4_800..5_200).contains(&turns), "{turns} turns");
    assert_eq!(shown, 10_000);
    assert!(late < Span::from_micros(10), "timers do not wait for packets: {late}");
}
