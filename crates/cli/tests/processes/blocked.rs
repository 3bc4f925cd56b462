//! A firewall that lets TCP through and UDP not: a relay in the test forwards connections and no datagram.

use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};

use crate::common::{Server, noise, run, tree, within};

/// Takes connections at an address of its own and passes their bytes on to `server`, both ways. Its threads end with
/// the connections, or with the test.
fn relay_tcp(server: &str) -> SocketAddr {
    // Another address than the server's, so that datagrams sent here do not reach it.
    let listener = TcpListener::bind("127.0.0.2:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = server.to_owned();
    std::thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let Ok(onward) = TcpStream::connect(&server) else { return };
            pump(client.try_clone().unwrap(), onward.try_clone().unwrap());
            pump(onward, client);
        }
    });
    address
}

fn pump(mut from: TcpStream, mut to: TcpStream) {
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut from, &mut to);
        let _ = to.shutdown(std::net::Shutdown::Both);
    });
}

fn assert_blocked(name: &str, swallow: bool) {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::write(from.path().join("f"), noise(1_000_000, 1)).unwrap();
    let server = Server::offer(from.path());
    let relay = relay_tcp(&server.address);
    let port = server.address.rsplit_once(':').unwrap().1.parse::<u16>().unwrap();
    // Takes the datagrams and says nothing, as a firewall that drops them; without it the kernel refuses them.
    let _silence = swallow.then(|| UdpSocket::bind(("127.0.0.2", port)).unwrap());
    let outcome = run(&["get", &format!("inhaul://{relay}/f"), &within(to.path()), "--json", "--fallback", "never"]);
    assert_eq!(outcome.code, Some(11), "{name}: {}", outcome.stderr);
    assert!(outcome.stderr.contains("let UDP port"), "{name}: {}", outcome.stderr);
    assert_eq!(outcome.json()["error"]["code"], "udp-blocked", "{name}");
    assert_eq!(tree(to.path()), [], "{name}");
}

#[test]
fn udp_that_is_dropped_is_11() {
    assert_blocked("dropped", true);
}

#[test]
fn udp_that_is_refused_is_11() {
    assert_blocked("refused", false);
}
