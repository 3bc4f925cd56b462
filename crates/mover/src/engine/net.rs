//! How this machine's network is put to use: packet sizes, sockets, endpoints.

use std::net::{IpAddr, SocketAddr};

use inhaul_base::Bitrate;
use inhaul_protocols::registry::Protocols;
use inhaul_transport::{Endpoint, EndpointConfig, Offloads, Parameters, PathSpec, Protocol, Role};
use inhaul_udp::{Interface, Offload, Socket, SocketOptions};

use crate::api::error::MoveError;
use crate::api::options::NetOptions;
use crate::engine::{EndpointId, Engine};
use crate::system::process;

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

/// A socket that takes the datagrams of `peer` that come to `address`, where a [shared](bind_shared) one is bound that
/// takes all others: the peer needs to know one port only, and so do the firewalls on the way.
pub(crate) fn branch(options: &NetOptions, address: SocketAddr, peer: SocketAddr) -> Result<Socket, MoveError> {
    connected(bind_shared(options, address)?, peer)
}

fn bind_with(options: &NetOptions, address: SocketAddr, socket_options: SocketOptions) -> Result<Socket, MoveError> {
    let offload = if options.offload { Offload::Auto } else { Offload::Off };
    let socket_options = SocketOptions { offload, ..socket_options };
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

/// An endpoint of the protocol `transport`; `socket_buffer_bytes` is what its socket holds for it.
pub(crate) fn endpoint(
    protocols: Protocols,
    transport: &str,
    parameters: &[(String, String)],
    role: Role,
    host_rate: Option<Bitrate>,
    socket_buffer_bytes: u64,
) -> Result<Box<dyn Endpoint + Send>, MoveError> {
    let entry = protocols
        .find(transport)
        .ok_or_else(|| MoveError::Usage(format!("there is no transport '{transport}': see 'inhaul protocols'")))?;
    let config = EndpointConfig {
        host_rate,
        socket_buffer_bytes,
        parameters: parameters.to_vec(),
        ..EndpointConfig::new(role, process::random_u64()?)
    };
    (entry.build)(&config).map_err(|error| MoveError::Usage(error.to_string()))
}

/// The transport of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Transport {
    /// Its name in the registry.
    pub(crate) name: &'static str,
    /// What the user at the receiving end has set.
    pub(crate) parameters: Parameters,
}

impl Transport {
    /// What the user of this host has chosen.
    pub(crate) fn of(options: &NetOptions) -> Result<Self, MoveError> {
        let entry = options.protocols.find(&options.transport);
        let name = entry.ok_or_else(|| MoveError::Internal("a transport has gone".to_owned()))?.name;
        Ok(Self { name, parameters: options.parameters.clone().into() })
    }
}

/// Of parameters for whatever transport, those that this one has.
pub(crate) fn known_to(entry: &Protocol, parameters: &[(String, String)]) -> Vec<(String, String)> {
    let known = |name: &str| entry.parameters.iter().any(|parameter| parameter.name == name);
    parameters.iter().filter(|(name, _)| known(name)).cloned().collect()
}

/// Whether a server may be told these parameters: some transport has each, and takes its value.
///
/// # Errors
/// `Usage` when not.
pub(crate) fn check_server(options: &NetOptions) -> Result<(), MoveError> {
    let all = options.protocols.0;
    for (name, _) in &options.parameters {
        if !all.iter().any(|entry| entry.parameters.iter().any(|parameter| parameter.name == name)) {
            return Err(MoveError::Usage(format!("no transport has a parameter '{name}': see 'inhaul protocols'")));
        }
    }
    for entry in all {
        endpoint(options.protocols, entry.name, &known_to(entry, &options.parameters), Role::Sender, None, 0)?;
    }
    Ok(())
}

/// Whether there is such a transport with such parameters, for a receiver that was given this rate.
///
/// # Errors
/// `Usage` when there is not.
pub(crate) fn check(options: &NetOptions, receive_rate: Option<Bitrate>) -> Result<(), MoveError> {
    endpoint(options.protocols, &options.transport, &options.parameters, Role::Receiver, receive_rate, 0).map(|_| ())
}

/// Has the engine drive an endpoint of the transport that was chosen; `socket` is the first of its sockets.
pub(crate) fn add_endpoint(
    options: &NetOptions,
    engine: &mut Engine,
    role: Role,
    host_rate: Option<Bitrate>,
    socket: &Socket,
) -> Result<EndpointId, MoveError> {
    let buffer = socket.receive_buffer_bytes() as u64;
    let NetOptions { protocols, transport, parameters, .. } = options;
    Ok(engine.add_endpoint(role, endpoint(*protocols, transport, parameters, role, host_rate, buffer)?))
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

    #[test]
    fn check_knows_what_only_a_given_rate_allows() {
        let mut options = options(None);
        options.parameters = vec![("control".to_owned(), "paper".to_owned())];
        let error = check(&options, None).err().unwrap();
        assert!(matches!(&error, MoveError::Usage(text) if text.contains("receive rate must be given")), "{error}");
        assert!(check(&options, Some(Bitrate::from_gbps(1))).is_ok());
    }

    #[test]
    fn endpoint_names_what_it_does_not_know() {
        let error = endpoint(Protocols::ALL, "carrier-pigeon", &[], Role::Sender, None, 1 << 18).err().unwrap();
        assert!(matches!(&error, MoveError::Usage(text) if text.contains("carrier-pigeon")), "{error}");
    }
}
