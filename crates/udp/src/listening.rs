//! Sockets on all addresses of a host, on every system: without IPv6 in the kernel, or with IPv6 apart from IPv4
//! (`net.ipv6.bindv6only`).

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with, sockopt};

use crate::sys::limit_packets;

/// Whether a socket was refused because the system has no IPv6: no sockets, or no addresses.
pub fn lacks_ipv6(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::AFNOSUPPORT | Errno::ADDRNOTAVAIL))
}

/// Binds to `address`. If that is `[::]` and the system has no IPv6, binds to `0.0.0.0` and the same port.
pub(crate) fn bind_any<T, E>(
    address: SocketAddr,
    mut bind: impl FnMut(SocketAddr) -> Result<T, E>,
    lacks: impl Fn(&E) -> bool,
) -> Result<T, E> {
    let bound = bind(address);
    let all_of_ipv4 = SocketAddr::from((Ipv4Addr::UNSPECIFIED, address.port()));
    let is_all = address.is_ipv6() && address.ip().is_unspecified();
    if is_all && bound.as_ref().err().is_some_and(lacks) { bind(all_of_ipv4) } else { bound }
}

/// Listens for TCP connections on `address`; at most `backlog` of them wait to be accepted. `[::]` takes IPv4 as well,
/// and is `0.0.0.0` if the system has no IPv6. `packet_bytes`, if given, is the largest packet in both directions.
///
/// # Errors
/// When the address cannot be used.
pub fn listen_tcp(address: SocketAddr, backlog: u16, packet_bytes: Option<u16>) -> io::Result<TcpListener> {
    bind_any(address, |address| listen_at(address, backlog, packet_bytes), lacks_ipv6)
}

fn listen_at(address: SocketAddr, backlog: u16, packet_bytes: Option<u16>) -> io::Result<TcpListener> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    if address.is_ipv6() {
        sockopt::set_ipv6_v6only(&socket, !address.ip().is_unspecified())?;
    }
    // As the standard library does: ended connections do not block the port.
    sockopt::set_socket_reuseaddr(&socket, true)?;
    rustix::net::bind(&socket, &address)?;
    if let Some(bytes) = packet_bytes {
        // Connections inherit it.
        limit_packets(&socket, address.ip(), bytes)?;
    }
    rustix::net::listen(&socket, i32::from(backlog))?;
    Ok(TcpListener::from(socket))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpStream;

    fn at(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[test]
    fn bind_any_is_ipv4_where_there_is_no_ipv6_and_nowhere_else() {
        let bind = |address: &str, errno: Errno| {
            let mut tried = Vec::new();
            let fails_of_ipv6 = |address: SocketAddr| {
                tried.push(address.to_string());
                if address.is_ipv6() { Err(io::Error::from(errno)) } else { Ok(()) }
            };
            let is_bound = bind_any(at(address), fails_of_ipv6, lacks_ipv6).is_ok();
            (is_bound, tried)
        };
        let both = vec!["[::]:7".to_owned(), "0.0.0.0:7".to_owned()];
        assert_eq!(bind("[::]:7", Errno::AFNOSUPPORT), (true, both.clone()));
        assert_eq!(bind("[::]:7", Errno::ADDRNOTAVAIL), (true, both));
        assert_eq!(bind("[::]:7", Errno::ADDRINUSE), (false, vec!["[::]:7".to_owned()]));
        assert_eq!(bind("[::1]:7", Errno::AFNOSUPPORT), (false, vec!["[::1]:7".to_owned()]));
        assert_eq!(bind("0.0.0.0:7", Errno::AFNOSUPPORT), (true, vec!["0.0.0.0:7".to_owned()]));
    }

    #[test]
    fn a_listener_s_connections_have_packets_of_the_size_that_was_asked() {
        for (listen, connect) in [("127.0.0.1:0", "127.0.0.1"), ("[::]:0", "127.0.0.1"), ("0.0.0.0:0", "127.0.0.1")] {
            let listener = listen_tcp(at(listen), 1, Some(1280)).unwrap();
            let client = TcpStream::connect((connect, listener.local_addr().unwrap().port())).unwrap();
            let (server, _) = listener.accept().unwrap();
            for (side, stream) in [("client", client), ("server", server)] {
                let segment = crate::tcp_counts(&stream).unwrap().segment_bytes;
                assert!((1160..=1240).contains(&segment), "{listen}, {side}: {segment}");
            }
        }
    }
}
