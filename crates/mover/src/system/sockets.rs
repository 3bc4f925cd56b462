//! How this machine's network is put to use: packet sizes and sockets.

use std::net::{IpAddr, SocketAddr, UdpSocket};
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
pub(crate) fn path_toward(options: &NetOptions, peer: SocketAddr) -> PathSpec {
    PathSpec::clear(mtu(options, Interface::toward(peer)), peer.ip())
}

/// What packets cost on a path from our own address `local`.
pub(crate) fn path_from(options: &NetOptions, local: IpAddr) -> PathSpec {
    PathSpec::clear(mtu(options, Interface::with_address(local)), local)
}

/// A socket bound to `address`.
pub(crate) fn bind(options: &NetOptions, address: SocketAddr) -> Result<Socket, MoveError> {
    bind_with(options, address, SocketOptions::default())
}

/// A socket bound to `address`, which sockets for single peers may have too: see [`branch`].
pub(crate) fn bind_shared(options: &NetOptions, address: SocketAddr) -> Result<Socket, MoveError> {
    bind_with(options, address, SocketOptions { share_port: true, ..SocketOptions::default() })
}

/// The socket that a service manager has made for this server, if it has.
static ADOPTED: Mutex<Option<UdpSocket>> = Mutex::new(None);

/// Takes over a socket that a service manager has bound.
pub(crate) fn adopt(options: &NetOptions, udp: &UdpSocket) -> Result<Socket, MoveError> {
    let failed = MoveError::system("a socket of the service manager cannot be used");
    let (own, kept) = udp.try_clone().and_then(|own| Ok((own, udp.try_clone()?))).map_err(failed)?;
    let failed = MoveError::system("a socket of the service manager cannot be used");
    let socket = Socket::adopt(own.into(), &socket_options(options, SocketOptions::default()));
    let socket = socket.map_err(std::io::Error::other).map_err(failed)?;
    *ADOPTED.lock().unwrap_or_else(PoisonError::into_inner) = Some(kept);
    Ok(socket)
}

/// A socket that takes the datagrams of `peer` that come to `address`, where a [shared](bind_shared) one is bound that
/// takes all others: the peer needs to know one port only, and so do the firewalls on the way.
pub(crate) fn branch(options: &NetOptions, address: SocketAddr, peer: SocketAddr) -> Result<Socket, MoveError> {
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

/// A socket that takes datagrams of `peer` only, for the transport that was chosen: its receiver may want each by
/// itself.
pub(crate) fn connect(options: &NetOptions, peer: SocketAddr) -> Result<Socket, MoveError> {
    let entry = options.protocols.find(&options.transport);
    let joined = entry.is_none_or(|entry| entry.offloads == Offloads::Any);
    let options = &NetOptions { offload: options.offload && joined, ..options.clone() };
    let any = match peer {
        SocketAddr::V4(_) => IpAddr::from(std::net::Ipv4Addr::UNSPECIFIED),
        SocketAddr::V6(_) => std::net::Ipv6Addr::UNSPECIFIED.into(),
    };
    connected(bind(options, SocketAddr::new(any, 0))?, peer)
}

fn connected(mut socket: Socket, peer: SocketAddr) -> Result<Socket, MoveError> {
    let failed = MoveError::system("there is no way to a peer over UDP");
    socket.connect(peer).map_err(std::io::Error::other).map_err(failed)?;
    Ok(socket)
}

/// Sends datagrams to `to` in one message, which the kernel cuts if `segment` says where.
pub(crate) fn send(
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
    fn mtu_is_a_jumbo_frame_at_most_unless_the_user_says_so() {
        let interface = |mtu| Ok(Some(Interface { name: "x".to_owned(), mtu, speed: None }));
        assert_eq!(mtu(&options(None), interface(1500)), 1500);
        assert_eq!(mtu(&options(None), interface(65_536)), 9000);
        assert_eq!(mtu(&options(Some(20_000)), interface(65_536)), 20_000);
        assert_eq!(mtu(&options(Some(9000)), interface(1500)), 1500);
        assert_eq!(mtu(&options(None), Ok(None)), 1500);
    }
}
