//! The addresses of hosts.

use std::net::{Ipv4Addr, SocketAddrV4};

use crate::ids::{EndpointId, NodeId, TrafficId, TransferId};
use crate::packet::{Datagram, Load};
use crate::traffic::Source;
use crate::transfer::Running;

/// Nodes have addresses 10.1.0.0 and up, by number.
const FIRST_ADDRESS: u32 = 0x0A01_0000;
/// Most nodes of a topology: the range of the addresses' lower half.
pub(crate) const NODES_MAX: usize = 1 << 16;
/// Port of a host's first endpoint.
const FIRST_PORT: u16 = 1024;
/// Most endpoints of a host.
pub(crate) const ENDPOINTS_MAX: usize = (u16::MAX - FIRST_PORT) as usize;

/// The address of endpoint number `index` of a node.
pub(crate) fn address(node: NodeId, index: usize) -> SocketAddrV4 {
    SocketAddrV4::new(node_address(node), FIRST_PORT.saturating_add(index as u16))
}

fn node_address(node: NodeId) -> Ipv4Addr {
    Ipv4Addr::from_bits(FIRST_ADDRESS + node.0)
}

/// The node, and the number of its endpoint, that an address names.
pub(crate) fn located(address: SocketAddrV4) -> Option<(NodeId, usize)> {
    let node = address.ip().to_bits().checked_sub(FIRST_ADDRESS)?;
    let index = address.port().checked_sub(FIRST_PORT)?;
    Some((NodeId(node), usize::from(index)))
}

/// Where a datagram comes from.
pub(crate) fn sender_address(addresses: &[(NodeId, SocketAddrV4)], datagram: &Datagram) -> SocketAddrV4 {
    match datagram.load {
        Load::Data { from, .. } => addresses[from.0 as usize].1,
        _ => SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0),
    }
}

/// The addresses of hosts, for captures.
pub(crate) struct Addresses<'a> {
    pub(crate) endpoints: &'a [(NodeId, SocketAddrV4)],
    pub(crate) transfers: &'a [Running],
    pub(crate) traffic: &'a [Source],
}

impl Addresses<'_> {
    pub(crate) fn of_node(&self, node: NodeId) -> [u8; 4] {
        node_address(node).octets()
    }

    pub(crate) fn of_endpoint(&self, endpoint: EndpointId) -> SocketAddrV4 {
        self.endpoints[endpoint.0 as usize].1
    }

    /// Where a background traffic comes from.
    pub(crate) fn source_of(&self, traffic: TrafficId) -> NodeId {
        self.traffic[traffic.0 as usize].traffic.from
    }

    /// Where segments of a control stream come from.
    pub(crate) fn control_source(&self, transfer: TransferId, to_receiver: bool) -> NodeId {
        let (at_sender, at_receiver) = self.transfers[transfer.0 as usize].control_nodes;
        if to_receiver { at_sender } else { at_receiver }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn located_is_the_inverse_of_address() {
        for (node, index) in [(0, 0), (1, 7), (255, 300), (256, ENDPOINTS_MAX - 1), (65_535, 1)] {
            assert_eq!(located(address(NodeId(node), index)), Some((NodeId(node), index)));
        }
        assert_eq!(located(SocketAddrV4::new(Ipv4Addr::new(10, 0, 255, 255), 2000)), None);
        assert_eq!(located(SocketAddrV4::new(Ipv4Addr::new(10, 1, 0, 0), 1023)), None);
    }
}
