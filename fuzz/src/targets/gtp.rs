//! GTP: received datagrams and control messages.

use inhaul_base::{Bitrate, ByteRange, Span};
use inhaul_protocols::gtp::wire::{DataHeader, Edge, OwnMessage, SetupMore, VERSION, accept_rate};
use inhaul_transport::ConnectionId;
use inhaul_transport::kit::receiver::DataHead;
use inhaul_transport::kit::wire::{Message, Reader, rate_field};

use super::kit;

/// A datagram's header.
pub fn gtp_datagram(data: &[u8]) -> bool {
    if let Some(header) = DataHeader::parse(data) {
        assert_eq!(DataHeader::parse(&header.emit()), Some(header));
        return true;
    }
    let Some(edge) = Edge::parse(data) else { return false };
    assert_eq!(Edge::parse(&edge.emit()), Some(edge));
    true
}

pub(super) fn own_datagrams() -> Vec<Vec<u8>> {
    let (epoch, request) = (3, 2);
    let data = DataHeader { epoch, request, offset: 1 << 40, sent: 1_000_000_007 };
    vec![data.emit().to_vec(), Edge { epoch, request }.emit().to_vec()]
}

pub(super) fn datagrams() -> Vec<Vec<u8>> {
    [own_datagrams(), kit::path_datagrams()].concat()
}

/// A control message.
pub fn gtp_control(data: &[u8]) -> bool {
    let Ok(message) = Message::parse(VERSION, data) else { return false };
    assert_eq!(message.emit(VERSION), data, "a message has one form on the wire: {message:?}");
    match message {
        Message::Own { kind, body } => {
            OwnMessage::parse(kind, Reader(body)).is_ok_and(|own| own.emit() == data || panic!("{own:?}"))
        }
        Message::Setup { more, .. } => SetupMore::parse(Reader(more)).is_ok_and(|setup| setup.emit() == more),
        Message::Accept { more, .. } => accept_rate(Reader(more)).is_ok_and(|rate| rate_field(rate) == *more),
        _ => true,
    }
}

pub(super) fn controls() -> Vec<Vec<u8>> {
    let rate = Some(Bitrate::from_mbps(850));
    let setup = SetupMore { receive_buffer: 212_992, access_rate: rate, application_rate: None }.emit();
    let mut all = kit::controls(VERSION, &setup, &rate_field(rate));
    all.push(OwnMessage::Rate { epoch: 1, rate: Bitrate::from_gbps(10), burst: 63_360 }.emit());
    all.push(OwnMessage::Limit { send_rate: None }.emit());
    all.push(OwnMessage::Hold { epoch: 2, after: Span::from_millis(3), length: Span::from_millis(50) }.emit());
    all
}

/// Legal messages with the largest possible numbers.
pub(super) fn extreme_controls() -> Vec<Vec<u8>> {
    let rate = Bitrate::from_bps(u64::MAX);
    let all = rate_field(Some(rate));
    vec![
        OwnMessage::Rate { epoch: u16::MAX, rate, burst: u32::MAX }.emit(),
        OwnMessage::Rate { epoch: 1, rate: Bitrate::from_bps(1), burst: 0 }.emit(),
        OwnMessage::Limit { send_rate: Some(rate) }.emit(),
        OwnMessage::Hold { epoch: u16::MAX, after: Span::ZERO, length: Span::from_micros(u32::MAX.into()) }.emit(),
        Message::Request { id: 1, block: 256, ranges: vec![ByteRange::new(0, u64::MAX)] }.emit(VERSION),
        Message::Accept { connection: ConnectionId(0), token: 0, mtu: u16::MAX, size: u64::MAX, more: &all }
            .emit(VERSION),
        Message::Cancel { through: u32::MAX }.emit(VERSION),
    ]
}
