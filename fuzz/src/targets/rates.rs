//! SABUL and RBUDP: received datagrams and control messages.

use inhaul_base::{Bitrate, ByteRange, Span};
use inhaul_protocols::{rbudp, sabul};
use inhaul_transport::kit::receiver::DataHead;
use inhaul_transport::kit::wire::{Message, Reader, rate_field};

use super::kit;

/// A datagram's header, of either.
pub fn rates_datagram(data: &[u8]) -> bool {
    if let Some(header) = sabul::wire::DataHeader::parse(data) {
        assert_eq!(sabul::wire::DataHeader::parse(&header.emit()), Some(header));
    }
    let Some(header) = rbudp::wire::DataHeader::parse(data) else { return false };
    assert_eq!(rbudp::wire::DataHeader::parse(&header.emit()), Some(header));
    true
}

pub(super) fn own_datagrams() -> Vec<Vec<u8>> {
    let sabul = sabul::wire::DataHeader { rate_kbps: 1_000_000, number: 1 << 16, offset: 1 << 40 };
    let rbudp = rbudp::wire::DataHeader { number: u32::MAX, offset: 1 << 40 };
    vec![sabul.emit().to_vec(), rbudp.emit().to_vec()]
}

pub(super) fn datagrams() -> Vec<Vec<u8>> {
    own_datagrams()
}

/// A control message of RBUDP.
pub fn rbudp_control(data: &[u8]) -> bool {
    use rbudp::wire::{OwnMessage, VERSION, setup_rate};
    let Ok(message) = Message::parse(VERSION, data) else { return false };
    match message {
        Message::Own { kind, body } => {
            OwnMessage::parse(kind, Reader(body)).is_ok_and(|own| own.emit() == data || panic!("{own:?}"))
        }
        Message::Setup { more, .. } => setup_rate(Reader(more)).is_ok_and(|rate| rate_field(rate) == *more),
        Message::Accept { more, .. } => more.is_empty(),
        _ => true,
    }
}

pub(super) fn rbudp_controls() -> Vec<Vec<u8>> {
    use rbudp::wire::{HOLD_AFTER_MAX, HOLD_MAX, OwnMessage, Section, VERSION};
    let mut all = kit::controls(VERSION, &rate_field(Some(Bitrate::from_mbps(100))), &[]);
    let sections = vec![
        Section::Run(ByteRange::new(0, 2_896)),
        Section::Bitmap { start: 14_480, blocks: 9, bits: vec![0xA1, 0x80] },
    ];
    all.push(OwnMessage::Rate { rate: Some(Bitrate::from_mbps(100)) }.emit());
    all.push(OwnMessage::Done { through: 1, next: 70 }.emit());
    all.push(OwnMessage::Missing { is_last: true, block: 1_448, sections }.emit());
    all.push(OwnMessage::Missing { is_last: false, block: 256, sections: Vec::new() }.emit());
    all.push(OwnMessage::Hold { after: Span::from_millis(1), length: Span::from_millis(400) }.emit());
    all.push(OwnMessage::Hold { after: HOLD_AFTER_MAX, length: HOLD_MAX }.emit());
    // The largest possible claim.
    let whole = Section::Run(ByteRange::at(1 << 50, (1 << 31) - 1));
    all.push(OwnMessage::Missing { is_last: false, block: u16::MAX, sections: vec![whole; 15] }.emit());
    all
}

/// A control message of SABUL.
pub fn sabul_control(data: &[u8]) -> bool {
    use sabul::wire::{OwnMessage, VERSION, setup_law};
    let Ok(message) = Message::parse(VERSION, data) else { return false };
    match message {
        Message::Own { kind, body } => {
            OwnMessage::parse(kind, Reader(body)).is_ok_and(|own| own.emit() == data || panic!("{own:?}"))
        }
        Message::Setup { more, .. } => setup_law(Reader(more)).is_ok_and(|law| [law.code()] == *more),
        Message::Accept { more, .. } => more.is_empty(),
        _ => true,
    }
}

pub(super) fn sabul_controls() -> Vec<Vec<u8>> {
    use sabul::wire::{OwnMessage, VERSION};
    let mut all = kit::controls(VERSION, &[sabul::LawName::Sabul2.code()], &[]);
    all.push(OwnMessage::Rate { rate: None }.emit());
    all.push(OwnMessage::Ack { before: 3 }.emit());
    all.push(OwnMessage::Err { ranges: vec![(0, 2), (5, 1), (1 << 40, u32::MAX)] }.emit());
    all.push(OwnMessage::Err { ranges: vec![(0, 1)] }.emit());
    all.push(OwnMessage::Syn { received: 10, lost: 2 }.emit());
    all.push(OwnMessage::Restart { from: 1 << 17 }.emit());
    all
}
