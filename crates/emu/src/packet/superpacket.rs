//! A packet, and how a superpacket is cut into segments.

use std::net::IpAddr;
use std::ops::Range;

use super::checksum::{fold, sum};
use super::headers::{GSO_ECN, Layout, NEEDS_CHECKSUM, Refused, Transport, VNET_LEN, VnetHeader, destination, layout};

/// Room for the largest packet that a device hands over.
pub(crate) const BUFFER_LEN: usize = 66 << 10;

/// Flags in the fourteenth byte of a TCP header.
const TCP_FIN: u8 = 0x01;
const TCP_PSH: u8 = 0x08;
const TCP_CWR: u8 = 0x80;

/// A packet as a device handed it over: its `virtio_net_hdr` and the IP packet. A superpacket is many segments under
/// one header; any other packet is one segment.
#[derive(Debug)]
pub(crate) struct Packet {
    bytes: Vec<u8>,
    layout: Option<Layout>,
    /// Where it is to go.
    pub(crate) destination: IpAddr,
}

impl Packet {
    /// Parses a packet from a device.
    pub(crate) fn parse(bytes: Vec<u8>) -> Result<Self, Refused> {
        let (vnet, ip) = bytes.split_first_chunk::<VNET_LEN>().ok_or(Refused::Malformed)?;
        let destination = destination(ip)?;
        let layout = layout(VnetHeader::read(*vnet), ip)?;
        Ok(Self { bytes, layout, destination })
    }

    /// Number of segments.
    pub(crate) fn segments(&self) -> u16 {
        self.layout.map_or(1, |layout| layout.count)
    }

    /// Bytes of a segment on the wire, from IP up.
    pub(crate) fn segment_bytes(&self, index: u16) -> u32 {
        let ip_len = self.bytes.len() - VNET_LEN;
        let bytes = self.layout.map_or(ip_len, |layout| {
            let before = usize::from(index) * layout.segment_len;
            (ip_len - before).min(layout.headers_len + layout.segment_len)
        });
        bytes as u32
    }

    /// The bytes to give to a device to deliver all of it.
    pub(crate) fn whole(&self) -> &[u8] {
        &self.bytes
    }

    /// Memory that it takes.
    pub(crate) fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.bytes.capacity()
    }

    /// The bytes given to [`parse`](Self::parse).
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// The bytes to give to a device to deliver some of the segments: one packet, or a smaller superpacket.
    ///
    /// It equals the packet that the sender's kernel would have made of them: lengths, sequence number and IP
    /// identification continue, FIN and PSH are on the last segment only, CWR is on the first only (RFC 3168 section
    /// 6.1.2). Its checksum is still to be completed, as in the original; that of the IPv4 header is complete.
    pub(crate) fn cut(&self, segments: Range<u16>) -> Vec<u8> {
        let Some(layout) = self.layout else { return self.bytes.clone() };
        let (ip, first) = (&self.bytes[VNET_LEN..], usize::from(segments.start));
        let (headers, payload) = ip.split_at(layout.headers_len);
        let part = payload_range(&layout, payload.len(), &segments);
        let mut piece = Vec::with_capacity(VNET_LEN + headers.len() + part.len());
        piece.extend_from_slice(&self.vnet_header(&layout, &segments).write());
        piece.extend_from_slice(headers);
        piece.extend_from_slice(&payload[part.clone()]);
        let piece_ip = &mut piece[VNET_LEN..];
        correct_ip(piece_ip, &layout, segments.start);
        let is_last = segments.end >= layout.count;
        correct_transport(piece_ip, &layout, part.start, first == 0, is_last);
        piece
    }

    fn vnet_header(&self, layout: &Layout, segments: &Range<u16>) -> VnetHeader {
        let vnet = self.bytes.first_chunk::<VNET_LEN>().map_or(VnetHeader::default(), |bytes| VnetHeader::read(*bytes));
        let header_len = layout.headers_len as u16;
        if segments.len() == 1 {
            return VnetHeader { flags: NEEDS_CHECKSUM, gso_type: 0, gso_size: 0, header_len, ..vnet };
        }
        let gso_type = if segments.start == 0 { vnet.gso_type } else { vnet.gso_type & !GSO_ECN };
        VnetHeader { flags: NEEDS_CHECKSUM, gso_type, header_len, ..vnet }
    }
}

/// The bytes of the payload that some segments are.
fn payload_range(layout: &Layout, payload_len: usize, segments: &Range<u16>) -> Range<usize> {
    let at = |segment: u16| (usize::from(segment) * layout.segment_len).min(payload_len);
    at(segments.start)..at(segments.end)
}

/// Length, identification and header checksum.
fn correct_ip(ip: &mut [u8], layout: &Layout, first: u16) {
    let len = ip.len();
    if layout.is_v6 {
        put(ip, 4, (len - layout.ip_len) as u16);
        return;
    }
    put(ip, 2, len as u16);
    let identification = u16::from_be_bytes([ip[4], ip[5]]);
    put(ip, 4, identification.wrapping_add(first));
    put(ip, 10, 0);
    let checksum = !fold(sum(&ip[..layout.ip_len]));
    put(ip, 10, checksum);
}

/// Sequence number and flags, or length; and the sum of the pseudo header, which is the uncompleted checksum.
fn correct_transport(ip: &mut [u8], layout: &Layout, offset: usize, is_first: bool, is_last: bool) {
    let pseudo = pseudo_header_sum(ip, layout);
    let header = &mut ip[layout.ip_len..];
    match layout.transport {
        Transport::Tcp => {
            let sequence = u32::from_be_bytes([header[4], header[5], header[6], header[7]]);
            header[4..8].copy_from_slice(&sequence.wrapping_add(offset as u32).to_be_bytes());
            if !is_last {
                header[13] &= !(TCP_FIN | TCP_PSH);
            }
            if !is_first {
                header[13] &= !TCP_CWR;
            }
        }
        Transport::Udp => {
            let len = header.len() as u16;
            put(header, 4, len);
        }
    }
    put(header, layout.transport.checksum_offset(), pseudo);
}

/// The sum of the pseudo header (RFC 9293 section 3.1, RFC 8200 section 8.1).
fn pseudo_header_sum(ip: &[u8], layout: &Layout) -> u16 {
    let addresses = if layout.is_v6 { &ip[8..40] } else { &ip[12..20] };
    let len = (ip.len() - layout.ip_len) as u64;
    fold(sum(addresses) + u64::from(layout.transport.protocol()) + (len >> 16) + (len & 0xffff))
}

fn put(bytes: &mut [u8], at: usize, word: u16) {
    bytes[at..at + 2].copy_from_slice(&word.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::samples::{self, Sample};
    use proptest::prelude::*;

    #[test]
    fn parse_refuses_what_contradicts_itself() {
        let good = Sample { payload: 3000, segment: 1000, ..Sample::default() }.bytes();
        assert!(Packet::parse(good.clone()).is_ok());
        type Spoil = fn(&mut Vec<u8>);
        let cases: [(&str, Spoil, Refused); 9] = [
            ("cut short", |b| b.truncate(VNET_LEN + 19), Refused::Malformed),
            ("no IP", |b| b[VNET_LEN] = 0x15, Refused::Malformed),
            ("no segment length", |b| b[4..6].fill(0), Refused::Malformed),
            ("tiny segments", |b| b[4..6].copy_from_slice(&1u16.to_ne_bytes()), Refused::Unsupported),
            ("complete checksum", |b| b[0] = 0, Refused::Malformed),
            ("total length", |b| b[VNET_LEN + 3] ^= 1, Refused::Malformed),
            ("fragment", |b| b[VNET_LEN + 7] = 1, Refused::Unsupported),
            ("data offset beyond the packet", |b| b.truncate(VNET_LEN + 30), Refused::Malformed),
            ("TCP over IPv6 that is IPv4", |b| b[1] = 4, Refused::Unsupported),
        ];
        for (name, spoil, refused) in cases {
            let mut bytes = good.clone();
            spoil(&mut bytes);
            assert_eq!(Packet::parse(bytes).unwrap_err(), refused, "{name}");
        }
    }

    #[test]
    fn parse_takes_an_ordinary_packet_as_it_is() {
        let bytes = samples::ordinary(1500);
        let packet = Packet::parse(bytes.clone()).unwrap();
        assert_eq!((packet.segments(), packet.segment_bytes(0)), (1, 1500));
        assert_eq!(packet.cut(0..1), bytes);
    }

    proptest! {
        /// For all packets and all cuts: the pieces are legal packets, and together equal the original.
        #[test]
        fn cut_pieces_are_legal_and_come_to_the_whole(
            sample in samples::superpackets(),
            cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..6),
        ) {
            let packet = Packet::parse(sample.bytes()).unwrap();
            let count = packet.segments();
            let mut ends: Vec<u16> = cuts.iter().map(|cut| cut.index(usize::from(count)) as u16).collect();
            ends.extend([0, count]);
            ends.sort_unstable();
            ends.dedup();
            let (mut payload, mut bytes_on_wire) = (Vec::new(), 0);
            for range in ends.windows(2).map(|pair| pair[0]..pair[1]) {
                let piece = packet.cut(range.clone());
                let singles: Vec<Vec<u8>> = range.clone().map(|index| packet.cut(index..index + 1)).collect();
                prop_assert_eq!(samples::split(&piece), singles.clone(), "a run equals its segments");
                for (index, single) in range.zip(&singles) {
                    samples::check(single, &sample, index, count)?;
                    prop_assert_eq!(single.len() - VNET_LEN, packet.segment_bytes(index) as usize);
                    bytes_on_wire += single.len() - VNET_LEN;
                    payload.extend_from_slice(samples::payload(single));
                }
            }
            prop_assert_eq!(payload, samples::payload(packet.whole()));
            let headers = packet.whole().len() - VNET_LEN - samples::payload(packet.whole()).len();
            prop_assert_eq!(bytes_on_wire, samples::payload(packet.whole()).len() + usize::from(count) * headers);
        }

        /// No bytes from a device make the parser or the splitter panic.
        #[test]
        fn parse_and_cut_take_anything(
            mut bytes in samples::superpackets().prop_map(|sample| sample.bytes()),
            changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8),
            len in any::<prop::sample::Index>(),
        ) {
            for (at, byte) in changes {
                let at = at.index(bytes.len().min(90));
                bytes[at] = byte;
            }
            if len.index(4) == 0 {
                bytes.truncate(len.index(bytes.len()));
            }
            if let Ok(packet) = Packet::parse(bytes) {
                for index in 0..packet.segments() {
                    prop_assert!(packet.segment_bytes(index) > 0);
                    packet.cut(index..packet.segments());
                    packet.cut(index..index + 1);
                }
            }
        }
    }
}
