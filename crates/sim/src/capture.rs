//! Packet captures as pcapng files (draft-ietf-opsawg-pcapng), for tcpdump and Wireshark.
//!
//! Links carry no bytes below IP, so the link type is raw IP. Headers are constructed from the known facts: IPv4, then
//! UDP, or TCP for control streams. Of a datagram the head is written, bodies are cut off, and the original length
//! tells of them.

use std::io::{self, Write};

use inhaul_base::Time;

use crate::addresses::Addresses;
use crate::control::{HEADER_BYTES, Segment};
use crate::packet::{Direction, IP_UDP_BYTES, Load, Packet};

/// LINKTYPE_RAW: packets begin with an IP header.
const LINK_TYPE: u16 = 101;
/// if_tsresol: time stamps count nanoseconds.
const NANOSECONDS: u8 = 9;
/// Ports of control streams: at the sender, and the first at receivers, where each transfer has its own.
const CONTROL_PORT: u16 = 4321;
const CONTROL_PORT_FIRST: u16 = 10_000;
/// RFC 863: all data is discarded.
const DISCARD_PORT: u16 = 9;
const PROTOCOL_TCP: u8 = 6;
const PROTOCOL_UDP: u8 = 17;
const TCP_ACK: u8 = 0x10;

/// The capture of one link: what arrives at its far end, and when.
pub(crate) struct Capture {
    out: Box<dyn Write + Send>,
}

/// The made-up part of a packet, at most IPv4 and TCP header.
type Headers = Vec<u8>;

impl Capture {
    /// Writes the file's head, with the link's name.
    pub(crate) fn new(mut out: Box<dyn Write + Send>, link: &str) -> io::Result<Self> {
        // Section header: byte order, version 1.0, length not known.
        let mut section = Vec::new();
        section.extend(0x1A2B_3C4Du32.to_le_bytes());
        section.extend(1u16.to_le_bytes());
        section.extend(0u16.to_le_bytes());
        section.extend(u64::MAX.to_le_bytes());
        write_block(&mut out, 0x0A0D_0D0A, &section)?;
        // Interface description: link type, reserved, no snap length; options if_name (2), if_tsresol (9), end (0).
        let mut interface = Vec::new();
        interface.extend(LINK_TYPE.to_le_bytes());
        interface.extend(0u16.to_le_bytes());
        interface.extend(0u32.to_le_bytes());
        let name = &link.as_bytes()[..link.len().min(usize::from(u16::MAX))];
        write_option(&mut interface, 2, name);
        write_option(&mut interface, 9, &[NANOSECONDS]);
        write_option(&mut interface, 0, &[]);
        write_block(&mut out, 1, &interface)?;
        Ok(Self { out })
    }

    /// Writes a packet that arrives at `at`.
    pub(crate) fn packet(&mut self, at: Time, packet: &Packet, addresses: &Addresses<'_>) -> io::Result<()> {
        let mut bytes = headers(packet, addresses);
        if let Load::Data { .. } = packet.datagram.load {
            bytes.extend_from_slice(packet.datagram.head());
        }
        let mut block = Vec::with_capacity(bytes.len() + 24);
        block.extend(0u32.to_le_bytes());
        block.extend(((at.as_nanos() >> 32) as u32).to_le_bytes());
        block.extend((at.as_nanos() as u32).to_le_bytes());
        block.extend((bytes.len() as u32).to_le_bytes());
        block.extend(packet.wire_bytes.to_le_bytes());
        block.extend_from_slice(&bytes);
        pad(&mut block);
        write_block(&mut self.out, 6, &block)
    }

    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// A block: type, length, body, length again.
fn write_block(out: &mut impl Write, kind: u32, body: &[u8]) -> io::Result<()> {
    let len = (body.len() as u32 + 12).to_le_bytes();
    out.write_all(&kind.to_le_bytes())?;
    out.write_all(&len)?;
    out.write_all(body)?;
    out.write_all(&len)
}

fn write_option(body: &mut Vec<u8>, code: u16, value: &[u8]) {
    body.extend(code.to_le_bytes());
    body.extend((value.len() as u16).to_le_bytes());
    body.extend_from_slice(value);
    pad(body);
}

/// Blocks and options are made of 32-bit words.
fn pad(bytes: &mut Vec<u8>) {
    bytes.resize(bytes.len().next_multiple_of(4), 0);
}

fn headers(packet: &Packet, addresses: &Addresses<'_>) -> Headers {
    let to = addresses.of_node(packet.to);
    match packet.datagram.load {
        Load::Data { from, to, .. } => {
            let (from, to) = (addresses.of_endpoint(from), addresses.of_endpoint(to));
            let mut bytes = ipv4(packet.wire_bytes, PROTOCOL_UDP, from.ip().octets(), to.ip().octets());
            udp(&mut bytes, packet, from.port(), to.port());
            bytes
        }
        Load::Background(traffic) => {
            let from = addresses.of_node(addresses.source_of(traffic));
            let mut bytes = ipv4(packet.wire_bytes, PROTOCOL_UDP, from, to);
            udp(&mut bytes, packet, DISCARD_PORT, DISCARD_PORT);
            bytes
        }
        Load::Control { transfer, lane, segment } => {
            let to_receiver = Direction { transfer, lane }.to_receiver();
            let from = addresses.of_node(addresses.control_source(transfer, to_receiver));
            let mut bytes = ipv4(packet.wire_bytes, PROTOCOL_TCP, from, to);
            // Port numbers come round again after 50,000 transfers; a capture is for people.
            let receiver = CONTROL_PORT_FIRST + (transfer.0 % 50_000) as u16;
            let (from, to) = if to_receiver { (CONTROL_PORT, receiver) } else { (receiver, CONTROL_PORT) };
            tcp(&mut bytes, from, to, segment);
            bytes
        }
    }
}

fn ipv4(total_bytes: u32, protocol: u8, from: [u8; 4], to: [u8; 4]) -> Headers {
    let mut bytes = Vec::with_capacity(HEADER_BYTES as usize);
    let total = u16::try_from(total_bytes).unwrap_or(u16::MAX);
    bytes.extend([0x45, 0]);
    bytes.extend(total.to_be_bytes());
    // No identification; do not fragment; time to live 64; the checksum follows.
    bytes.extend([0, 0, 0x40, 0, 64, protocol, 0, 0]);
    bytes.extend(from);
    bytes.extend(to);
    let checksum = internet_checksum(&bytes);
    bytes[10..12].copy_from_slice(&checksum.to_be_bytes());
    bytes
}

fn udp(bytes: &mut Headers, packet: &Packet, from: u16, to: u16) {
    let len = u16::try_from(packet.wire_bytes.saturating_sub(IP_UDP_BYTES - 8)).unwrap_or(u16::MAX);
    bytes.extend(from.to_be_bytes());
    bytes.extend(to.to_be_bytes());
    bytes.extend(len.to_be_bytes());
    // Checksum zero: none was computed (RFC 768); the body is not there to be summed.
    bytes.extend([0, 0]);
}

fn tcp(bytes: &mut Headers, from: u16, to: u16, segment: Segment) {
    let (sequence, acknowledgement) = match segment {
        Segment::Data(range) => (range.start as u32, 0),
        Segment::Ack(through) => (0, through as u32),
    };
    bytes.extend(from.to_be_bytes());
    bytes.extend(to.to_be_bytes());
    bytes.extend(sequence.to_be_bytes());
    bytes.extend(acknowledgement.to_be_bytes());
    // Five words of header; a window of 64 KiB less one; no checksum, nothing urgent.
    bytes.extend([0x50, TCP_ACK, 0xFF, 0xFF, 0, 0, 0, 0]);
}

/// RFC 1071.
fn internet_checksum(bytes: &[u8]) -> u16 {
    let sum: u32 = bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0))).sum();
    let folded = (sum & 0xFFFF) + (sum >> 16);
    !((folded & 0xFFFF) + (folded >> 16)) as u16
}
