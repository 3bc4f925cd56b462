//! Positions of the header fields in a packet: the `virtio_net_hdr` in front of it, IP, TCP and UDP.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Length of the `virtio_net_hdr` in front of each packet.
pub(super) const VNET_LEN: usize = 10;

/// `VIRTIO_NET_HDR_F_NEEDS_CSUM`: the checksum is that of the pseudo header only, and to be completed.
pub(super) const NEEDS_CHECKSUM: u8 = 1;

const GSO_NONE: u8 = 0;
const GSO_TCPV4: u8 = 1;
const GSO_TCPV6: u8 = 4;
const GSO_UDP: u8 = 5;
/// The first segment has CWR set.
pub(super) const GSO_ECN: u8 = 0x80;

const PROTOCOL_TCP: u8 = 6;
const PROTOCOL_UDP: u8 = 17;

/// Most segments of a superpacket: 64 KiB in segments of 64 bytes.
const SEGMENTS_MAX: usize = 1024;

/// Why a packet is not carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// It is no IP packet, or its headers contradict each other.
    Malformed,
    /// It is a superpacket of a kind that cannot be cut.
    Unsupported,
}

/// `struct virtio_net_hdr`, in the byte order of the machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct VnetHeader {
    pub(super) flags: u8,
    pub(super) gso_type: u8,
    pub(super) header_len: u16,
    pub(super) gso_size: u16,
    pub(super) checksum_start: u16,
    pub(super) checksum_offset: u16,
}

impl VnetHeader {
    pub(super) fn read(bytes: [u8; VNET_LEN]) -> Self {
        let word = |at: usize| u16::from_ne_bytes([bytes[at], bytes[at + 1]]);
        Self {
            flags: bytes[0],
            gso_type: bytes[1],
            header_len: word(2),
            gso_size: word(4),
            checksum_start: word(6),
            checksum_offset: word(8),
        }
    }

    pub(super) fn write(self) -> [u8; VNET_LEN] {
        let mut bytes = [self.flags, self.gso_type, 0, 0, 0, 0, 0, 0, 0, 0];
        let words = [self.header_len, self.gso_size, self.checksum_start, self.checksum_offset];
        for (place, word) in bytes[2..].chunks_exact_mut(2).zip(words) {
            place.copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }
}

/// The protocol above IP in a superpacket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transport {
    Tcp,
    Udp,
}

impl Transport {
    pub(super) const fn protocol(self) -> u8 {
        match self {
            Self::Tcp => PROTOCOL_TCP,
            Self::Udp => PROTOCOL_UDP,
        }
    }

    /// Where its checksum stands in its header.
    pub(super) const fn checksum_offset(self) -> usize {
        match self {
            Self::Tcp => 16,
            Self::Udp => 6,
        }
    }
}

/// How a superpacket is made up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) transport: Transport,
    pub(super) is_v6: bool,
    /// Length of the IP header.
    pub(super) ip_len: usize,
    /// Length of the IP header and the one above it.
    pub(super) headers_len: usize,
    /// Payload of each segment except the last, which has the rest.
    pub(super) segment_len: usize,
    /// Number of segments.
    pub(super) count: u16,
}

/// Where an IP packet is to go.
pub(super) fn destination(ip: &[u8]) -> Result<IpAddr, Refused> {
    match ip.first().map(|byte| byte >> 4) {
        Some(4) if ip.len() >= 20 => {
            let octets: [u8; 4] = ip[16..20].try_into().map_err(|_| Refused::Malformed)?;
            Ok(Ipv4Addr::from(octets).into())
        }
        Some(6) if ip.len() >= 40 => {
            let octets: [u8; 16] = ip[24..40].try_into().map_err(|_| Refused::Malformed)?;
            Ok(Ipv6Addr::from(octets).into())
        }
        _ => Err(Refused::Malformed),
    }
}

/// The layout of a packet, if it is a superpacket. Its writer may be hostile: each length is checked against the
/// others.
pub(super) fn layout(vnet: VnetHeader, ip: &[u8]) -> Result<Option<Layout>, Refused> {
    let (transport, is_v6) = match (vnet.gso_type & !GSO_ECN, ip[0] >> 4) {
        (GSO_NONE, _) => return Ok(None),
        (GSO_TCPV4, 4) => (Transport::Tcp, false),
        (GSO_TCPV6, 6) => (Transport::Tcp, true),
        (GSO_UDP, version) => (Transport::Udp, version == 6),
        _ => return Err(Refused::Unsupported),
    };
    let ip_len = if is_v6 { v6_header_len(ip, transport) } else { v4_header_len(ip, transport) }?;
    let above = ip.get(ip_len..).ok_or(Refused::Malformed)?;
    let headers_len = ip_len + transport_header_len(above, transport)?;
    let payload = ip.len().checked_sub(headers_len).filter(|len| *len > 0).ok_or(Refused::Malformed)?;
    let segment_len = usize::from(vnet.gso_size);
    let partial = vnet.flags & NEEDS_CHECKSUM != 0
        && usize::from(vnet.checksum_start) == ip_len
        && usize::from(vnet.checksum_offset) == transport.checksum_offset();
    if segment_len == 0 || !partial {
        return Err(Refused::Malformed);
    }
    match payload.div_ceil(segment_len) {
        count @ 1..=SEGMENTS_MAX => {
            Ok(Some(Layout { transport, is_v6, ip_len, headers_len, segment_len, count: count as u16 }))
        }
        _ => Err(Refused::Unsupported),
    }
}

fn v4_header_len(ip: &[u8], transport: Transport) -> Result<usize, Refused> {
    let len = usize::from(ip[0] & 0x0f) * 4;
    if len < 20 || usize::from(u16::from_be_bytes([ip[2], ip[3]])) != ip.len() {
        return Err(Refused::Malformed);
    }
    let fragment = u16::from_be_bytes([ip[6], ip[7]]) & 0x3fff != 0;
    if fragment || ip[9] != transport.protocol() { Err(Refused::Unsupported) } else { Ok(len) }
}

fn v6_header_len(ip: &[u8], transport: Transport) -> Result<usize, Refused> {
    const LEN: usize = 40;
    if LEN + usize::from(u16::from_be_bytes([ip[4], ip[5]])) != ip.len() {
        return Err(Refused::Malformed);
    }
    if ip[6] == transport.protocol() { Ok(LEN) } else { Err(Refused::Unsupported) }
}

fn transport_header_len(header: &[u8], transport: Transport) -> Result<usize, Refused> {
    match transport {
        Transport::Udp if header.len() >= 8 => Ok(8),
        Transport::Tcp if header.len() >= 20 => {
            let len = usize::from(header[12] >> 4) * 4;
            if len >= 20 { Ok(len) } else { Err(Refused::Malformed) }
        }
        _ => Err(Refused::Malformed),
    }
}
