//! A server with several addresses that listens on all of them: what is asked at one of them is answered from it, or
//! else no datagram would come through. And addresses of a link, which mean nothing without the interface.

use std::fs;
use std::time::Duration;

use inhaul_hostile_tests::{Namespace, Network, Outcome, Scratch, Server, Start, figures, inhaul, noise, wait_for};

/// How long each command may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// Far more than comes with the answer over TCP.
const BYTES: usize = 3 << 20;
const PORT: u16 = 4321;

/// The server's addresses, as the client writes them. Its device is `s0`, the client's `c0`.
const ADDRESSES: [&str; 5] = ["10.9.1.2", "10.9.1.3", "[fd09::2]", "[fd09::3]", "[fe80::2%c0]"];

/// A network, the host of a client in it, and that of a server with five addresses.
fn two_hosts() -> Option<(Network, Namespace, Namespace)> {
    let mut network = Network::new()?;
    let (client, server) = (network.namespace("c"), network.namespace("s"));
    if !client.within(|| fs::exists("/proc/sys/net/ipv6").unwrap()) {
        println!("skipped: this kernel has no IPv6");
        return None;
    }
    network.join((&client, "c0", "10.9.1.1/24"), (&server, "s0", "10.9.1.2/24"));
    server.ip(&["addr", "add", "10.9.1.3/24", "dev", "s0"]);
    // Without the wait for others that might have the same address.
    let ipv6 = |host: &Namespace, device, address| host.ip(&["addr", "add", address, "dev", device, "nodad"]);
    ["fd09::1/64", "fe80::1/64"].into_iter().for_each(|address| ipv6(&client, "c0", address));
    ["fd09::2/64", "fd09::3/64", "fe80::2/64"].into_iter().for_each(|address| ipv6(&server, "s0", address));
    Some((network, client, server))
}

/// What a server offers and where it takes puts, and what a client fetches.
struct Places {
    from: Scratch,
    inbox: Scratch,
    to: Scratch,
    bytes: Vec<u8>,
}

impl Places {
    fn new() -> Self {
        let (from, bytes) = (Scratch::new(), noise(BYTES, 11));
        from.file("f", &bytes);
        Self { from, inbox: Scratch::new(), to: Scratch::new(), bytes }
    }

    /// Serves in `host`, with these arguments too.
    fn serve(&self, host: &Namespace, args: &[&str]) -> Server {
        let start = inhaul(["serve", "--grace", "0"]).args(args).arg("--accept-puts").arg(self.inbox.path());
        start.arg(self.from.path()).by(host.prefix()).serve()
    }

    /// A get and a put whose data may go over UDP only.
    fn get_and_put(&self, client: &Namespace, server: &str) {
        let succeeds = |what: &str, start: Start| {
            let outcome = start.by(client.prefix()).finish(PATIENCE);
            assert_eq!(outcome.code, Some(0), "{what} {server}: {}", outcome.summary());
        };
        let (got, name) = (self.to.path().join("f"), "put");
        let udp_only = ["--quiet", "--overwrite", "--fallback", "never"];
        succeeds("get", inhaul(["get"]).args(udp_only).arg(format!("inhaul://{server}/f")).arg(&got));
        let put = inhaul(["put"]).args(udp_only).arg(self.from.path().join("f"));
        succeeds("put", put.arg(format!("inhaul://{server}/{name}")));
        for landed in [got, self.inbox.path().join(name)] {
            assert!(fs::read(&landed).unwrap() == self.bytes, "{server}: {}", landed.display());
            fs::remove_file(landed).unwrap();
        }
    }
}

/// The verdict of one of a doctor's checks.
fn verdict(outcome: &Outcome, check: &str) -> String {
    let report = outcome.json();
    let finding = report["findings"].as_array().unwrap().iter().find(|finding| finding["check"] == check);
    finding.unwrap_or_else(|| panic!("no '{check}': {report}"))["verdict"].as_str().unwrap().to_owned()
}

#[test]
fn a_server_is_reached_by_each_of_its_addresses() {
    let Some((_network, client, server)) = two_hosts() else { return };
    let places = Places::new();
    let _server = places.serve(&server, &[]);
    for address in ADDRESSES {
        places.get_and_put(&client, address);
        let doctor = inhaul(["doctor", "--json", address]).by(client.prefix()).finish(PATIENCE);
        assert_eq!(doctor.code, Some(0), "doctor {address}: {}", doctor.summary());
        for check in ["udp", "path-mtu"] {
            assert_eq!(verdict(&doctor, check), "ok", "doctor {address}, {check}: {}", doctor.stdout);
        }
    }
    figures("get, put and doctor by each of a server's five addresses, default listen", "5 of 5 each, over UDP");
}

#[test]
fn an_address_of_a_link_can_be_listened_on() {
    let Some((_network, client, server)) = two_hosts() else { return };
    let places = Places::new();
    let served = places.serve(&server, &["--listen", &format!("[fe80::2%s0]:{PORT}")]);
    // The address comes a moment after the line by which the server is known to listen.
    let address = format!("inhaul://[fe80::2%s0]:{PORT}/");
    let is_printed = wait_for(PATIENCE, || served.running.stdout().contains(&address));
    assert!(is_printed, "what is printed has no interface: {}", served.running.stdout());
    places.get_and_put(&client, "[fe80::2%c0]");
    figures("--listen '[fe80::2%s0]:4321'", "get and put over UDP");
}
