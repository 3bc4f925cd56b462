//! How this machine's network is put to use: packet sizes and sockets.
//!
//! Sockets of systemd outlive the server and belong to another user. So a flow's socket gets beside them by
//! SO_REUSEADDR, which is set for that moment only.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6, UdpSocket};
use std::sync::{Mutex, PoisonError};

use inhaul_transport::{Offloads, PathSpec};
use inhaul_udp::{DatagramSocket, Interface, Offload, Socket, SocketOptions, checksum};
use rustix::net::sockopt;

use crate::api::error::MoveError;
use crate::api::options::NetOptions;

/// Packets are not larger than this unless the user says so: a jumbo frame. Loopback would carry 64 KiB.
const MTU_MAX: u16 = 9000;
/// The packet size where the interface does not tell: Ethernet's.
const MTU_UNKNOWN: u16 = 1500;

/// The largest IP packet to use from or to `interface`, in bytes.
fn mtu(options: &NetOptions, interface: std::io::Result<Option<Interface>>) -> u16 {
    let carried = interface.ok().flatten().map_or(MTU_UNKNOWN, |i| u16::try_from(i.mtu).unwrap_or(u16::MAX));
    options.mtu.unwrap_or(MTU_MAX).min(carried)
}

/// What packets cost on the path to `peer`.
pub fn path_toward(options: &NetOptions, peer: SocketAddr) -> PathSpec {
    PathSpec::clear(mtu(options, Interface::toward(peer)), peer.ip())
}

/// What packets cost on a path from our own address `local`.
pub fn path_from(options: &NetOptions, local: IpAddr) -> PathSpec {
    PathSpec::clear(mtu(options, Interface::with_address(local)), local)
}

/// A socket bound to `address`.
pub fn bind(options: &NetOptions, address: SocketAddr) -> Result<Socket, MoveError> {
    bind_with(options, address, SocketOptions::default())
}

/// A socket bound to `address`, which sockets for single peers may have too: see [`branch`].
pub fn bind_shared(options: &NetOptions, address: SocketAddr) -> Result<Socket, MoveError> {
    bind_with(options, address, SocketOptions { share_port: true, ..SocketOptions::default() })
}

/// The socket that a service manager has made for this server, if it has.
static ADOPTED: Mutex<Option<UdpSocket>> = Mutex::new(None);

/// Takes over a socket that a service manager has bound.
pub fn adopt(options: &NetOptions, udp: &UdpSocket) -> Result<Socket, MoveError> {
    let failed = MoveError::system("a socket of the service manager cannot be used");
    let (own, kept) = udp.try_clone().and_then(|own| Ok((own, udp.try_clone()?))).map_err(failed)?;
    let failed = MoveError::system("a socket of the service manager cannot be used");
    let socket = Socket::adopt(own.into(), &socket_options(options, SocketOptions::default()));
    let socket = socket.map_err(std::io::Error::other).map_err(failed)?;
    *ADOPTED.lock().unwrap_or_else(PoisonError::into_inner) = Some(kept);
    Ok(socket)
}

/// The two ends of a way. A host may have several addresses: datagrams come and go where the control stream does, or
/// the peer, and the firewalls on the way, do not know them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends {
    /// Our address.
    pub local: SocketAddr,
    /// The peer's.
    pub peer: SocketAddr,
}

impl Ends {
    /// The same, at the address `asked` of this host, if it is known.
    pub fn asked_at(self, asked: Option<IpAddr>) -> Self {
        let local = match asked {
            Some(ip) if ip != self.local.ip() => in_zone_of(ip, self.local.port(), self.peer),
            _ => self.local,
        };
        Self { local, ..self }
    }
}

/// The same address with another port. Its zone stays, without which a link-local address means nothing.
pub fn with_port(mut address: SocketAddr, port: u16) -> SocketAddr {
    address.set_port(port);
    address
}

/// An address that stands on the same link as `peer`.
fn in_zone_of(ip: IpAddr, port: u16, peer: SocketAddr) -> SocketAddr {
    match (ip, peer) {
        (IpAddr::V6(ip), SocketAddr::V6(peer)) if ip.is_unicast_link_local() => {
            SocketAddrV6::new(ip, port, 0, peer.scope_id()).into()
        }
        _ => SocketAddr::new(ip, port),
    }
}

/// A socket that takes the peer's datagrams that come to our end, where a [shared](bind_shared) one is bound that takes
/// all others: the peer needs to know one port only, and so do the firewalls on the way.
pub fn branch(options: &NetOptions, ends: Ends) -> Result<Socket, MoveError> {
    let Ends { local: address, peer } = ends;
    let adopted = ADOPTED.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(adopted) = adopted.as_ref() else { return connected(bind_shared(options, address)?, peer) };
    // It belongs to the service manager, that is to another user, and sockets of one user only may share a port by
    // SO_REUSEPORT. SO_REUSEADDR lets those of any user; so it is set for this moment only.
    let share = |on| sockopt::set_socket_reuseaddr(adopted, on).map_err(std::io::Error::from);
    share(true).map_err(MoveError::system("a socket of the service manager cannot be shared"))?;
    let beside = SocketOptions { share_port: true, beside_others: true, ..SocketOptions::default() };
    let branch = bind_with(options, address, beside);
    share(false).map_err(MoveError::system("a socket of the service manager cannot be shared"))?;
    connected(branch?, peer)
}

/// What the user has chosen for all sockets.
fn socket_options(options: &NetOptions, socket_options: SocketOptions) -> SocketOptions {
    let offload = if options.offload { Offload::Auto } else { Offload::Off };
    let receive_buffer_bytes = options.receive_buffer_bytes.unwrap_or(socket_options.receive_buffer_bytes);
    SocketOptions { offload, receive_buffer_bytes, ..socket_options }
}

fn bind_with(options: &NetOptions, address: SocketAddr, own: SocketOptions) -> Result<Socket, MoveError> {
    let socket_options = socket_options(options, own);
    let socket = Socket::bind(address, &socket_options)
        .map_err(|error| MoveError::Listen { address: address.to_string(), source: std::io::Error::other(error) })?;
    log::debug!(
        "UDP socket {}: receives {} bytes, sends {}, segmentation {}, aggregation {}",
        socket.local_address(),
        socket.receive_buffer_bytes(),
        socket.send_buffer_bytes(),
        socket.segments(),
        socket.aggregates()
    );
    Ok(socket)
}

/// A socket that takes datagrams of the peer only, for the transport that was chosen: its receiver may want each by
/// itself. It has the address of our end, and a port of its own.
pub fn connect(options: &NetOptions, ends: Ends) -> Result<Socket, MoveError> {
    let Ends { local, peer } = ends;
    let entry = options.protocols.find(&options.transport);
    let joined = entry.is_none_or(|entry| entry.offloads == Offloads::Any);
    let options = &NetOptions { offload: options.offload && joined, ..options.clone() };
    if local.is_ipv4() == peer.is_ipv4() {
        match bind(options, with_port(local, 0)).and_then(|socket| connected(socket, peer)) {
            Ok(socket) => return Ok(socket),
            // It may have lost that address since: another is better than none.
            Err(error) => log::debug!("{peer}: no datagrams from {}: {error}", local.ip()),
        }
    }
    let any = match peer {
        SocketAddr::V4(_) => IpAddr::from(Ipv4Addr::UNSPECIFIED),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    connected(bind(options, SocketAddr::new(any, 0))?, peer)
}

fn connected(mut socket: Socket, peer: SocketAddr) -> Result<Socket, MoveError> {
    let failed = MoveError::system("there is no way to a peer over UDP");
    socket.connect(peer).map_err(std::io::Error::other).map_err(failed)?;
    Ok(socket)
}

/// A datagram that answers one, and leaves from the address of this host that was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub to: SocketAddr,
    pub asked: Option<IpAddr>,
    pub bytes: Vec<u8>,
}

impl Answer {
    /// Sends it.
    pub fn send(mut self, socket: &impl DatagramSocket) -> std::io::Result<usize> {
        checksum::mask_each(&mut self.bytes, usize::MAX);
        socket.send([socket.outgoing(self.to, &self.bytes, None).leaving_from(self.asked)])
    }
}

/// Sends datagrams to `to` in one message, which the kernel cuts if `segment` says where.
pub fn send(
    socket: &impl DatagramSocket,
    to: SocketAddr,
    datagrams: &[&[u8]],
    segment: Option<u16>,
) -> std::io::Result<usize> {
    let mut message = datagrams.concat();
    checksum::mask_each(&mut message, segment.map_or(usize::MAX, usize::from));
    socket.send([socket.outgoing(to, &message, segment)])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(mtu: Option<u16>) -> NetOptions {
        NetOptions { mtu, ..NetOptions::default() }
    }

    #[test]
    fn our_end_is_the_one_that_was_asked_in_the_zone_of_the_peer() {
        let ends = |local: &str, peer: &str| Ends { local: local.parse().unwrap(), peer: peer.parse().unwrap() };
        let asked = |ends: Ends, ip: &str| ends.asked_at(Some(ip.parse().unwrap())).local.to_string();
        let plain = ends("192.0.2.1:9", "192.0.2.7:1");
        assert_eq!((plain.asked_at(None), asked(plain, "192.0.2.2").as_str()), (plain, "192.0.2.2:9"));
        let near = ends("[fe80::1%3]:9", "[fe80::7%3]:1");
        assert_eq!((asked(near, "fe80::1"), asked(near, "fe80::2")), ("[fe80::1%3]:9".into(), "[fe80::2%3]:9".into()));
        assert_eq!(asked(near, "2001:db8::2"), "[2001:db8::2]:9");
        assert_eq!(with_port(near.local, 0).to_string(), "[fe80::1%3]:0");
    }

    #[test]
    fn datagrams_have_the_address_of_the_control_stream() {
        let ends = |local: &str, peer: &str| Ends { local: local.parse().unwrap(), peer: peer.parse().unwrap() };
        let from = |ends| connect(&options(None), ends).unwrap().local_address().ip().to_string();
        assert_eq!(from(ends("127.0.0.2:9", "127.0.0.1:9")), "127.0.0.2");
        assert_eq!(from(ends("192.0.2.1:9", "127.0.0.1:9")), "127.0.0.1", "it is not of this host");
        assert_eq!(from(ends("[::1]:9", "127.0.0.1:9")), "127.0.0.1", "it is of another family");
    }

    #[test]
    fn mtu_is_a_jumbo_frame_at_most_unless_the_user_says_so() {
        let interface = |mtu| Ok(Some(Interface { name: "x".to_owned(), mtu, speed: None }));
        assert_eq!(mtu(&options(None), interface(1500)), 1500);
        assert_eq!(mtu(&options(None), interface(65_536)), 9000);
        assert_eq!(mtu(&options(Some(20_000)), interface(65_536)), 20_000);
        assert_eq!(mtu(&options(Some(9000)), interface(1500)), 1500);
        assert_eq!(mtu(&options(None), Ok(None)), 1500);
    }
}
