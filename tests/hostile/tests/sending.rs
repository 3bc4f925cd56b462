//! A server's sending: rates beyond all reason, ports that never answered, receivers that fall silent, paths whose MTU
//! falls.

use std::net::UdpSocket;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use inhaul_hostile_tests::{
    GtpClient, Namespace, Network, Received, Scratch, Server, Signal, figures, heavy, holds_for, inhaul, noise,
    wait_for,
};

const PATIENCE: Duration = Duration::from_secs(60);
const BIG: u64 = 64 << 20;

/// A server that offers `/big` and `/small`.
fn server(from: &Scratch, args: &[&str]) -> Server {
    from.file("big", &noise(BIG as usize, 1));
    from.file("small", &noise(1_000, 2));
    Server::offer_with(from.path(), args)
}

/// Asks for as much as a server lets wait, at a rate beyond all reason.
fn ask_for_too_much(client: &mut GtpClient) {
    for _ in 0..31 {
        client.request(8920, &[(0, BIG)]);
    }
    client.rate(1, u64::MAX, u32::MAX);
}

/// Runs `work` while `client` responds as an honest receiver does.
fn responding<T>(client: &GtpClient, work: impl FnOnce() -> T) -> T {
    let (working, ended) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            client.respond();
            while ended.recv_timeout(Duration::from_millis(50)) == Err(RecvTimeoutError::Timeout) {
                client.respond();
            }
        });
        let result = work();
        drop(working);
        result
    })
}

#[test]
fn an_endless_rate_leaves_others_and_the_stop_flag_their_turn() {
    let _alone = heavy();
    let (from, to) = (Scratch::new(), Scratch::new());
    let server = server(&from, &[]);
    let mut client = GtpClient::open(server.address, "/big");
    client.open_path();
    ask_for_too_much(&mut client);
    let (beside, stopped) = responding(&client, || {
        let beside = server.get("/small", &to.path().join("small"), PATIENCE);
        let asked = Instant::now();
        server.running.signal(Signal::TERM);
        wait_for(PATIENCE, || !server.running.is_running());
        (beside, asked.elapsed())
    });
    figures(
        "rate 2^64 bit/s, burst 2^32 bytes, 2 GiB requested: a get beside it, SIGTERM",
        &format!("{:.1} s, ended after {:.1} s", beside.took.as_secs_f64(), stopped.as_secs_f64()),
    );
    assert_eq!(beside.code, Some(0), "{}", beside.summary());
    assert!(beside.took < Duration::from_secs(15) && stopped < Duration::from_secs(10), "{stopped:?}");
}

#[test]
fn data_ends_when_its_receiver_falls_silent() {
    let _alone = heavy();
    let from = Scratch::new();
    let server = server(&from, &[]);
    let mut client = GtpClient::open(server.address, "/big");
    client.open_path();
    ask_for_too_much(&mut client);
    let begun = Received::at(&client.udp, Duration::from_secs(1));
    // The session stays open, the socket too: only responses are missing.
    assert!(wait_for(PATIENCE, || client.datagram(Duration::from_millis(300)).is_none()), "it goes on and on");
    let after = Received::at(&client.udp, Duration::from_secs(2));
    let before = server.readings().cpu;
    assert!(holds_for(Duration::from_secs(1), || server.running.is_running()));
    let cpu = server.readings().cpu.saturating_sub(before);
    figures(
        "a receiver that falls silent in mid-transfer",
        &format!(
            "{} MB in 1 s, then {} B in 2 s, {:.0} % of a core",
            begun.bytes >> 20,
            after.bytes,
            cpu.as_secs_f64() * 100.0
        ),
    );
    assert!(begun.bytes > 1 << 20, "{begun:?}");
    assert!(after.bytes == 0 && cpu < Duration::from_millis(300), "{after:?}, {cpu:?}");
}

#[test]
fn a_port_that_never_answered_gets_no_more_than_came_from_it() {
    let from = Scratch::new();
    let server = server(&from, &[]);
    let mut client = GtpClient::open(server.address, "/big");
    let victim = UdpSocket::bind((client.session.local_ip(), 0)).unwrap();
    let probe = client.probe_datagram(0);
    victim.send_to(&probe, client.server).unwrap();
    ask_for_too_much(&mut client);
    let silent = Received::at(&victim, Duration::from_secs(1));
    // The challenge of another port does not work either.
    client.open_path();
    victim.send_to(&client.response(), client.server).unwrap();
    let guessed = Received::at(&victim, Duration::from_secs(1));
    figures("one probe from a port that never answers", &format!("{} B sent there", silent.bytes + guessed.bytes));
    assert!(silent.bytes <= probe.len() as u64 && guessed.bytes == 0, "{silent:?}, {guessed:?}");
}

#[test]
fn a_rest_does_not_break_the_send_rate() {
    let _alone = heavy();
    let from = Scratch::new();
    let server = server(&from, &["--send-rate", "100M"]);
    let mut client = GtpClient::open(server.address, "/big");
    client.open_path();
    client.rate(1, 100_000_000, u32::MAX);
    assert!(holds_for(Duration::from_secs(3), || server.running.is_running()));
    client.open_path();
    client.request(8920, &[(0, BIG)]);
    let came = responding(&client, || Received::at(&client.udp, Duration::from_secs(2)));
    let mbit = came.bytes as f64 * 8e-6;
    figures("a burst of 2^32 bytes after 3 s of rest, against --send-rate 100M", &format!("{mbit:.0} Mbit in 2 s"));
    assert!((50.0..210.0).contains(&mbit), "{mbit} Mbit in two seconds");
}

/// A get of `/big` by `transport` at 100 Mbit/s from host `a` to host `b`, with `change` made of the network after a
/// second.
fn get_while(a: &Namespace, b: &Namespace, address: &str, transport: &str, change: impl FnOnce()) -> String {
    let (from, to) = (Scratch::new(), Scratch::new());
    let bytes = noise(32 << 20, 7);
    from.file("big", &bytes);
    let listen = format!("{address}:0");
    let server = inhaul(["serve", "--listen", &listen, "--grace", "0"]).arg(from.path()).by(a.prefix()).serve();
    let args = ["get", "-q", "--transport", transport, "--receive-rate", "100M", &server.source("/big")];
    let get = inhaul(args).arg(to.path().join("big")).by(b.prefix()).start();
    let partial = to.path().join("big.partial");
    assert!(wait_for(PATIENCE, || std::fs::metadata(&partial).is_ok_and(|found| found.len() > 0)), "no data");
    assert!(holds_for(Duration::from_secs(1), || get.is_running()), "{}", get.stderr());
    change();
    let outcome = get.finish(PATIENCE);
    assert_eq!(outcome.code, Some(0), "{transport}: {}", outcome.summary());
    assert!(std::fs::read(to.path().join("big")).unwrap() == bytes);
    // 2.7 s at 100 Mbit/s, and the time lost by the change.
    assert!(outcome.took < Duration::from_secs(20), "{transport}: {:?}", outcome.took);
    format!("{transport} {:.1} s", outcome.took.as_secs_f64())
}

fn set_mtu(namespace: &Namespace, device: &str, mtu: &str) {
    namespace.ip(&["link", "set", device, "mtu", mtu]);
}

#[test]
fn a_path_mtu_that_falls_at_a_router_costs_a_moment() {
    let _alone = heavy();
    let took: Vec<String> = ["gtp", "cubic"]
        .into_iter()
        .filter_map(|transport| {
            let (_network, a, b, router) = Network::routed()?;
            for (namespace, device) in [(&a, "a0"), (&b, "b0"), (&router, "ra"), (&router, "rb")] {
                set_mtu(namespace, device, "9000");
            }
            Some(get_while(&a, &b, "10.7.1.1", transport, || set_mtu(&router, "rb", "1400")))
        })
        .collect();
    if !took.is_empty() {
        figures("path MTU 9000 to 1400 at a router in mid-transfer", &took.join(", "));
    }
}

#[test]
fn an_mtu_that_falls_at_both_hosts_costs_a_moment() {
    let _alone = heavy();
    let Some((_network, a, b)) = Network::pair() else { return };
    set_mtu(&a, "a0", "9000");
    set_mtu(&b, "b0", "9000");
    let took = get_while(&a, &b, "10.9.0.1", "gtp", || {
        set_mtu(&a, "a0", "1400");
        set_mtu(&b, "b0", "1400");
    });
    figures("MTU 9000 to 1400 at both hosts in mid-transfer", &took);
}
