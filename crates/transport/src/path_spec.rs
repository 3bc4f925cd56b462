//! A path's overhead for each packet.
//!
//! Sizes and rates on the wire follow from it, in the simulator too.

use std::net::IpAddr;

use crate::envelope::{ENVELOPE_LEN, TAG_LEN};

/// Bytes of IPv4 and UDP header.
const IPV4_UDP: u16 = 28;
/// Bytes of IPv6 and UDP header.
const IPV6_UDP: u16 = 48;

/// Most bytes that a receiver requests ahead if its path is a byte stream. Up to this much may wait at its sender while
/// streams stall.
pub const STREAM_AHEAD_MAX: u64 = 120 << 20;

/// The overhead of a packet on a flow's path, given by the port that carries it. With it, lengths of blocks, rates on
/// the wire and the simulator count the same bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathSpec {
    /// Largest IP packet that the path is believed to carry, in bytes.
    pub mtu: u16,
    /// Bytes of each packet that are not the protocol's: IP and UDP headers, the envelope, and what sealing adds.
    pub overhead: u16,
}

impl PathSpec {
    /// A path to `peer` whose datagrams are in the clear.
    pub fn clear(mtu: u16, peer: IpAddr) -> Self {
        let headers = if peer.is_ipv6() { IPV6_UDP } else { IPV4_UDP };
        Self { mtu, overhead: headers + ENVELOPE_LEN as u16 }
    }

    /// The same path, if datagrams are sealed.
    pub fn sealed(self) -> Self {
        Self { overhead: self.overhead + TAG_LEN as u16, ..self }
    }

    /// A path of a foreign protocol, which has no envelope.
    pub fn foreign(mtu: u16, peer: IpAddr) -> Self {
        Self { mtu, overhead: if peer.is_ipv6() { IPV6_UDP } else { IPV4_UDP } }
    }
}
