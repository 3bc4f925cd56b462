//! A server with several addresses that listens on all of them: it answers from the address that the client asked,
//! otherwise no datagram would come through. Addresses of a link, which have no meaning without the interface. Hosts
//! whose IPv6 is off, or apart from IPv4. And paths on which large packets vanish.

use std::fs;
use std::time::Duration;

use inhaul_hostile_tests::{
    Namespace, Network, Outcome, Scratch, Server, Start, figures, inhaul, noise, wait_for, without_ipv6,
};

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

/// A server's offered directory and its inbox, and a client's destination.
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
    let served = places.serve(&server, &["--listen", &format!("[fe80::2%25s0]:{PORT}")]);
    // The address comes a moment after the line by which the server is known to listen.
    let address = format!("inhaul://[fe80::2%s0]:{PORT}/");
    let is_printed = wait_for(PATIENCE, || served.running.stdout().contains(&address));
    assert!(is_printed, "the printed address has no interface: {}", served.running.stdout());
    places.get_and_put(&client, "[fe80::2%25c0]");
    figures("--listen '[fe80::2%25s0]:4321'", "get and put over UDP");
}

/// The output of a command that must succeed.
fn done(start: &Start) -> String {
    let outcome = start.finish(PATIENCE);
    assert_eq!(outcome.code, Some(0), "{start:?}: {}", outcome.summary());
    outcome.stdout
}

#[test]
fn a_kernel_without_ipv6_serves_and_fetches_over_ipv4() {
    let places = Places::new();
    without_ipv6(|| {
        let serve = inhaul(["serve", "--grace", "0", "--listen", "[::]:0", "--accept-puts"]).arg(places.inbox.path());
        let server = serve.arg(places.from.path()).serve();
        assert!(server.address.ip() == std::net::Ipv4Addr::UNSPECIFIED, "{}", server.address);
        let told = wait_for(PATIENCE, || server.running.stderr().contains("this system has no IPv6"));
        assert!(told, "{}", server.running.stderr());
        let at = format!("127.0.0.1:{}", server.address.port());
        let (got, udp_only) = (places.to.path().join("f"), ["--quiet", "--fallback", "never"]);
        done(&inhaul(["get"]).args(udp_only).arg(format!("inhaul://{at}/f")).arg(&got));
        assert!(fs::read(got).unwrap() == places.bytes);
        done(&inhaul(["put"]).args(udp_only).arg(places.from.path().join("f")).arg(format!("inhaul://{at}/put")));
        assert!(fs::read(places.inbox.path().join("put")).unwrap() == places.bytes);
        done(&inhaul(["doctor", "--json", &at]));
        let refused = inhaul(["serve", "--listen", "[::1]:0"]).arg(places.from.path()).finish(PATIENCE);
        assert_eq!(refused.code, Some(5), "{}", refused.summary());
        assert!(refused.stderr.contains("this system has no IPv6"), "{}", refused.stderr);
        let bench = inhaul(["bench", "--server", "--listen", "[::]:0"]).serve();
        done(&inhaul([
            "bench",
            "--bytes",
            "1M",
            "--fallback",
            "never",
            &format!("127.0.0.1:{}", bench.address.port()),
        ]));
    });
    figures("no IPv6 in the kernel, default listen", "get, put, doctor and bench over IPv4");
}

#[test]
fn ipv4_is_served_with_any_setting_of_the_host_s_ipv6() {
    for (setting, hosts) in [("bindv6only", &["127.0.0.1", "[::1]"][..]), ("conf/all/disable_ipv6", &["127.0.0.1"][..])]
    {
        let Some(mut network) = Network::new() else { return };
        let host = network.namespace("h");
        let path = format!("/proc/sys/net/ipv6/{setting}");
        if !host.within(|| fs::exists(&path).unwrap()) {
            println!("skipped: this kernel has no IPv6");
            return;
        }
        host.within(|| fs::write(&path, "1").unwrap());
        let places = Places::new();
        let _server = places.serve(&host, &["--metrics", "[::]:9321"]);
        hosts.iter().for_each(|at| places.get_and_put(&host, at));
        let is_open = host.within(|| std::net::TcpStream::connect("127.0.0.1:9321").is_ok());
        assert!(is_open, "{setting}: metrics are not served over IPv4");
        figures(&format!("net.ipv6.{setting} = 1, default listen"), "get and put over IPv4, metrics too");
    }
}

/// Two hosts with a path between them on which packets of more than 1300 bytes vanish silently, both ways.
fn black_hole() -> Option<(Network, Namespace, Namespace)> {
    let (network, a, b, router) = Network::routed()?;
    for device in ["ra", "rb"] {
        // A virtual device drops packets above its MTU.
        router.ip(&["link", "set", device, "mtu", "1300"]);
    }
    for (host, device) in [(&a, "a0"), (&b, "b0")] {
        // Single packets: packets for later segmentation would pass whole.
        host.ip(&["link", "set", device, "gso_max_segs", "1"]);
    }
    Some((network, a, b))
}

#[test]
fn a_path_that_swallows_large_packets_is_got_over() {
    let Some((_network, client, server)) = black_hole() else { return };
    let places = Places::new();
    let _server = places.serve(&server, &[]);
    let get = |args: &[&str]| {
        let to = places.to.path().join("f");
        let get = inhaul(["get", "--quiet", "--overwrite"]).args(args).arg("inhaul://10.7.2.1/f").arg(&to);
        let outcome = get.by(client.prefix()).finish(PATIENCE);
        assert_eq!(outcome.code, Some(0), "get {args:?}: {}", outcome.summary());
        assert!(fs::read(to).unwrap() == places.bytes);
        outcome
    };
    // As large as passes, and over TCP alone.
    let told = get(&["--mtu", "1300", "--fallback", "always"]);
    assert!(told.took < Duration::from_secs(3) && told.stderr.is_empty(), "{:?}: {}", told.took, told.stderr);
    let found = get(&[]);
    let words = "large packets of TCP vanish on the way";
    assert_eq!(found.stderr.matches(words).count(), 1, "{}", found.stderr);
    figures("packets above 1300 bytes vanish", &format!("get after {:.1} s", found.took.as_secs_f64()));
}
