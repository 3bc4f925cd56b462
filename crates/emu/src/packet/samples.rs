//! Superpackets for tests, and checks of every packet that is cut out of one.

use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

use super::Packet;
use super::checksum::{fold, sum};
use super::headers::{NEEDS_CHECKSUM, Transport, VNET_LEN, VnetHeader};

/// A superpacket.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    pub(crate) udp: bool,
    pub(crate) v6: bool,
    /// Words of options in the TCP header.
    pub(crate) options: usize,
    pub(crate) payload: usize,
    pub(crate) segment: usize,
    pub(crate) sequence: u32,
    pub(crate) identification: u16,
    pub(crate) flags: u8,
}

impl Default for Sample {
    fn default() -> Self {
        let (sequence, identification) = (1_000_000, 77);
        Self { udp: false, v6: false, options: 3, payload: 0, segment: 1448, sequence, identification, flags: 0x10 }
    }
}

pub(crate) fn superpackets() -> impl Strategy<Value = Sample> {
    let kind = (any::<bool>(), any::<bool>(), 0..=10usize);
    let sizes = (100..1500usize).prop_flat_map(|segment| (segment + 1..(60_000).min(segment * 40), Just(segment)));
    (kind, sizes, any::<u32>(), any::<u16>(), any::<u8>()).prop_map(
        |((udp, v6, options), (payload, segment), sequence, identification, flags)| Sample {
            udp,
            v6,
            options,
            payload,
            segment,
            sequence,
            identification,
            flags,
        },
    )
}

impl Sample {
    fn transport(&self) -> Transport {
        if self.udp { Transport::Udp } else { Transport::Tcp }
    }

    fn ip_len(&self) -> usize {
        if self.v6 { 40 } else { 20 }
    }

    fn headers_len(&self) -> usize {
        self.ip_len() + if self.udp { 8 } else { 20 + 4 * self.options }
    }

    /// The superpacket as a device hands it over. It is from 10.0.0.1 to 10.0.0.2, or from fd67:7269:64::1 to ::2.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let total = self.headers_len() + self.payload;
        let mut ip = vec![0u8; total];
        if self.v6 {
            ip[0] = 0x60;
            ip[4..6].copy_from_slice(&((total - 40) as u16).to_be_bytes());
            (ip[6], ip[7]) = (self.transport().protocol(), 64);
            ip[8..24].copy_from_slice(&crate::grid::ipv6_of(0).octets());
            ip[24..40].copy_from_slice(&crate::grid::ipv6_of(1).octets());
        } else {
            ip[0] = 0x45;
            ip[2..4].copy_from_slice(&(total as u16).to_be_bytes());
            ip[4..6].copy_from_slice(&self.identification.to_be_bytes());
            (ip[6], ip[8], ip[9]) = (0x40, 64, self.transport().protocol());
            ip[12..16].copy_from_slice(&[10, 0, 0, 1]);
            ip[16..20].copy_from_slice(&[10, 0, 0, 2]);
        }
        let header = &mut ip[self.ip_len()..];
        header[..4].copy_from_slice(&[0x80, 0, 0x14, 0x51]);
        if !self.udp {
            header[4..8].copy_from_slice(&self.sequence.to_be_bytes());
            header[12] = ((5 + self.options) as u8) << 4;
            header[13] = self.flags;
        }
        for (at, byte) in ip[self.headers_len()..].iter_mut().enumerate() {
            *byte = (at * 7 + at / 251) as u8;
        }
        let gso_type = if self.udp { 5 } else { 1 + 3 * u8::from(self.v6) };
        let vnet = VnetHeader {
            flags: NEEDS_CHECKSUM,
            gso_type: if self.flags & 0x80 != 0 && !self.udp { gso_type | 0x80 } else { gso_type },
            header_len: self.headers_len() as u16,
            gso_size: self.segment as u16,
            checksum_start: self.ip_len() as u16,
            checksum_offset: self.transport().checksum_offset() as u16,
        };
        [&vnet.write()[..], &ip].concat()
    }
}

/// An ordinary packet of `len` bytes from 10.0.0.1 to 10.0.0.2.
pub(crate) fn ordinary(len: usize) -> Vec<u8> {
    let mut bytes = vec![0; VNET_LEN + len];
    bytes[VNET_LEN] = 0x45;
    bytes[VNET_LEN + 12..VNET_LEN + 20].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
    bytes
}

/// The single packets that a run of segments is made of.
pub(crate) fn split(bytes: &[u8]) -> Vec<Vec<u8>> {
    let packet = Packet::parse(bytes.to_vec()).unwrap();
    (0..packet.segments()).map(|index| packet.cut(index..index + 1)).collect()
}

/// The payload above the headers.
pub(crate) fn payload(bytes: &[u8]) -> &[u8] {
    let ip = &bytes[VNET_LEN..];
    let (ip_len, protocol) = if ip[0] >> 4 == 6 { (40, ip[6]) } else { (20, ip[9]) };
    let above = &ip[ip_len..];
    &above[if protocol == 17 { 8 } else { usize::from(above[12] >> 4) * 4 }..]
}

/// That a single packet is the segment `index` of `count` of the sample, with every field as it must be.
pub(crate) fn check(bytes: &[u8], sample: &Sample, index: u16, count: u16) -> Result<(), TestCaseError> {
    let vnet = VnetHeader::read(*bytes.first_chunk().unwrap());
    prop_assert_eq!((vnet.flags, vnet.gso_type, vnet.gso_size), (NEEDS_CHECKSUM, 0, 0));
    prop_assert_eq!(usize::from(vnet.checksum_start), sample.ip_len());
    let ip = &bytes[VNET_LEN..];
    let word = |bytes: &[u8], at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
    if sample.v6 {
        prop_assert_eq!(usize::from(word(ip, 4)), ip.len() - 40);
    } else {
        prop_assert_eq!(usize::from(word(ip, 2)), ip.len());
        prop_assert_eq!(word(ip, 4), sample.identification.wrapping_add(index));
        prop_assert_eq!(fold(sum(&ip[..20])), 0xffff, "the checksum of the IPv4 header");
    }
    let above = &ip[sample.ip_len()..];
    if sample.udp {
        prop_assert_eq!(usize::from(word(above, 4)), above.len());
    } else {
        let sequence = u32::from_be_bytes(above[4..8].try_into().unwrap());
        prop_assert_eq!(sequence, sample.sequence.wrapping_add(u32::from(index) * sample.segment as u32));
        let (first, last) = (index == 0, index + 1 == count);
        let expected = sample.flags & !(if last { 0 } else { 0x09 }) & !(if first { 0 } else { 0x80 });
        prop_assert_eq!(above[13], expected, "flags of segment {} of {}", index, count);
    }
    prop_assert!(checksum_completes(ip, sample), "the checksum, completed");
    Ok(())
}

/// Completes the checksum as the receiving kernel would, and verifies the packet as a host without offload would.
fn checksum_completes(ip: &[u8], sample: &Sample) -> bool {
    let mut above = ip[sample.ip_len()..].to_vec();
    let at = sample.transport().checksum_offset();
    let checksum = !fold(sum(&above));
    above[at..at + 2].copy_from_slice(&checksum.to_be_bytes());
    let addresses = if sample.v6 { &ip[8..40] } else { &ip[12..20] };
    let pseudo = sum(addresses) + u64::from(sample.transport().protocol()) + above.len() as u64;
    fold(pseudo + sum(&above)) == 0xffff
}
