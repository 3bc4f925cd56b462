//! The tools themselves, between honest sides: what fails here is no finding.

use std::time::Duration;

use inhaul_hostile_tests::{
    GtpClient, HostileServer, Network, Offer, Received, Relay, Scratch, Server, figures, inhaul, noise,
};
use inhaul_protocols::gtp::wire::{DataHeader, HEADER_LEN};
use inhaul_transport::kit::receiver::DataHead;

const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn a_relay_between_honest_sides_changes_nothing() {
    let (from, to, bytes) = (Scratch::new(), Scratch::new(), noise(4 << 20, 1));
    from.file("f", &bytes);
    let server = Server::offer(from.path());
    let relay = Relay::honest(server.address);
    relay.delay(Duration::from_millis(5));
    let outcome = inhaul(["get", "-q", &relay.source("/f")]).arg(to.inside()).finish(PATIENCE);
    assert_eq!(outcome.code, Some(0), "{}", outcome.summary());
    assert!(std::fs::read(to.path().join("f")).unwrap() == bytes);
    assert!(relay.passed() > 400, "{} datagrams", relay.passed());
    let readings = server.readings();
    assert!(readings.memory > 0 && readings.threads > 0, "{readings:?}");
    figures("honest get by way of a relay", &format!("{:.1} s", outcome.took.as_secs_f64()));
}

#[test]
fn a_hand_made_client_is_served() {
    let (from, bytes) = (Scratch::new(), noise(100_000, 2));
    from.file("f", &bytes);
    let server = Server::offer(from.path());
    let mut client = GtpClient::open_with_mtu(server.address, "/f", 1500);
    assert_eq!(client.size, 100_000);
    client.open_path();
    client.rate(1, 10_000_000, 9000);
    client.request(1424, &[(1424, 14_240)]);
    let mut came = vec![0; 14_240];
    let mut left = 10;
    while left > 0 {
        let datagram = client.datagram(PATIENCE).unwrap();
        let Some(header) = DataHeader::parse(&datagram) else { continue };
        let at = header.offset as usize - 1424;
        came[at..at + 1424].copy_from_slice(&datagram[HEADER_LEN..]);
        left -= 1;
    }
    assert!(came == bytes[1424..][..14_240]);
    assert!(Received::at(&client.udp, Duration::from_millis(50)).bytes < 2000);
}

#[test]
fn a_server_by_a_script_is_fetched_from() {
    let (to, bytes) = (Scratch::new(), noise(3_000_000, 3));
    let server = HostileServer::offer(Offer::file("f", bytes.clone()));
    let outcome = inhaul(["get", "-q", &server.source("/f")]).arg(to.inside()).finish(PATIENCE);
    assert_eq!(outcome.code, Some(0), "{}", outcome.summary());
    assert!(std::fs::read(to.path().join("f")).unwrap() == bytes);
    assert!(server.sent() >= 3_000_000 && server.sessions() >= 1);
}

#[test]
fn hosts_in_namespaces_reach_each_other_through_a_router() {
    let Some((_network, a, b, _router)) = Network::routed() else { return };
    let (from, to) = (Scratch::new(), Scratch::new());
    from.file("f", &noise(1 << 20, 4));
    let server = inhaul(["serve", "--listen", "10.7.1.1:0", "--grace", "0"]).arg(from.path()).by(a.prefix()).serve();
    let get = inhaul(["get", "-q", &server.source("/f")]).arg(to.inside()).by(b.prefix());
    let outcome = get.finish(PATIENCE);
    assert_eq!(outcome.code, Some(0), "{}", outcome.summary());
    let address = server.address;
    let size = b.within(move || GtpClient::open(address, "/f").size);
    assert_eq!(size, 1 << 20);
}
