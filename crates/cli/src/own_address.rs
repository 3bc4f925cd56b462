//! The address by which others reach this host, as far as it can tell.

use std::net::{SocketAddr, UdpSocket};

use inhaul_mover::written;

/// The host in an address for others: the address that is listened on, or one of this host's. An address of a link has
/// this host's interface; others write the name of theirs, which often is the same.
pub(crate) fn host_of(listening: SocketAddr) -> String {
    match listening {
        _ if listening.ip().is_unspecified() => own_address(),
        _ => written(listening),
    }
}

/// An address of this host, from which it would reach the rest of the world; its name, if it would not.
pub(crate) fn own_address() -> String {
    let toward = |from: &str, to: &str| {
        // Nothing is sent: the system only picks a route. The addresses are of documentation (RFC 5737, RFC 3849).
        let socket = UdpSocket::bind(from).ok()?;
        socket.connect(to).ok()?;
        socket.local_addr().ok().map(|address| address.ip()).filter(|ip| !ip.is_unspecified())
    };
    let address = toward("0.0.0.0:0", "192.0.2.1:9").or_else(|| toward("[::]:0", "[2001:db8::1]:9"));
    let name = || rustix::system::uname().nodename().to_string_lossy().into_owned();
    address.map_or_else(name, |address| address.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_of_keeps_the_interface_of_a_link() {
        let host = |text: &str| host_of(text.parse().unwrap());
        assert_eq!((host("10.0.0.1:7"), host("[2001:db8::1]:7")), ("10.0.0.1".into(), "2001:db8::1".into()));
        assert_eq!((host("[fe80::1%1]:7"), host("[fe80::1%99999]:7")), ("fe80::1%lo".into(), "fe80::1%99999".into()));
    }
}
