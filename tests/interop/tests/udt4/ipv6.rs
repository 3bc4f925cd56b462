//! Over IPv6, in each role.

use std::net::{IpAddr, Ipv6Addr, SocketAddr, UdpSocket};

use inhaul_udt4::{Endpoint, Kind};

use crate::peer::{Peer, program};
use crate::{accept, bytes, options, patient, same};

const LOOPBACK: IpAddr = IpAddr::V6(Ipv6Addr::LOCALHOST);
const VARIABLES: &[(&str, &str)] = &[("PEER_LOCAL", "::1"), ("PEER_REMOTE", "::1")];

fn endpoint(at: IpAddr) -> Option<Endpoint> {
    if UdpSocket::bind((LOOPBACK, 0)).is_err() {
        println!("SKIPPED: there is no IPv6 here");
        return None;
    }
    Some(Endpoint::bind(SocketAddr::new(at, 0), options(Kind::Stream)).unwrap())
}

fn echo(socket: &inhaul_udt4::Socket, peer: Peer) {
    patient(socket);
    let data = bytes(1_000_000, 6);
    socket.write_all(&data).unwrap();
    let mut back = vec![0; data.len()];
    socket.read_exact(&mut back).unwrap();
    same(&back, &data);
    peer.finish();
}

#[test]
fn we_connect_over_ipv6() {
    let (Some(program), Some(endpoint)) = (program(), endpoint(LOOPBACK)) else { return };
    let peer = Peer::with(program, VARIABLES, &["listen", "stream", "0", "0", "echo", "1000000"]);
    echo(&endpoint.connect(SocketAddr::new(LOOPBACK, peer.port())).unwrap(), peer);
}

#[test]
fn they_connect_over_ipv6() {
    for at in [LOOPBACK, IpAddr::V6(Ipv6Addr::UNSPECIFIED)] {
        let (Some(program), Some(endpoint)) = (program(), endpoint(at)) else { return };
        let incoming = endpoint.listen(10).unwrap();
        let port = endpoint.local_address().port().to_string();
        let peer = Peer::with(program, VARIABLES, &["connect", "stream", "0", &port, "echo", "1000000"]);
        echo(&accept(&incoming), peer);
    }
}

#[test]
fn both_connect_over_ipv6() {
    let (Some(program), Some(endpoint)) = (program(), endpoint(LOOPBACK)) else { return };
    let theirs = UdpSocket::bind((LOOPBACK, 0)).unwrap().local_addr().unwrap();
    let (own, port) = (endpoint.local_address().port().to_string(), theirs.port().to_string());
    let peer = Peer::with(program, VARIABLES, &["rendezvous", "stream", &port, &own, "echo", "1000000"]);
    echo(&endpoint.rendezvous(theirs).unwrap(), peer);
}

#[test]
fn a_port_of_both_families_takes_ipv4_too() {
    let (Some(program), Some(endpoint)) = (program(), endpoint(IpAddr::V6(Ipv6Addr::UNSPECIFIED))) else { return };
    let incoming = endpoint.listen(10).unwrap();
    let port = endpoint.local_address().port().to_string();
    let peer = Peer::start(program, &["connect", "stream", "0", &port, "echo", "1000000"]);
    echo(&accept(&incoming), peer);
}
