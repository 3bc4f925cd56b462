//! UDT: received datagrams and control messages.

use inhaul_base::{Bitrate, Span};
use inhaul_protocols::udt::ControlName;
use inhaul_protocols::udt::core::Variant;
use inhaul_protocols::udt::wire::{DataHeader, OwnMessage, Small, VERSION, setup_control};
use inhaul_transport::kit::receiver::DataHead;
use inhaul_transport::kit::wire::{Message, Reader};

use super::kit;

/// A datagram's header.
pub fn udt_datagram(data: &[u8]) -> bool {
    if let Some(header) = DataHeader::parse(data) {
        assert_eq!(DataHeader::parse(&header.emit()), Some(header));
        return true;
    }
    let Some(small) = Small::parse(data) else { return false };
    assert_eq!(small.emit(), data, "a datagram has one form on the wire: {small:?}");
    true
}

pub(super) fn own_datagrams() -> Vec<Vec<u8>> {
    let data = DataHeader { window_log: 21, offset: 1 << 40, number: u32::MAX >> 1 };
    let ack = Small::Ack {
        ack: 7,
        next: 16,
        rtt: Span::from_millis(100),
        rtt_variation: Span::from_millis(5),
        window: 1_000_000,
        arrival_speed: 83_333,
        capacity: 83_333,
    };
    let nak = Small::Nak(vec![2, 0x8000_0006, 0xB, 0xE]);
    let (range, warning) = (Small::Nak(vec![0x8000_0006]), Small::Warning { ack: 7 });
    let smalls = [ack, Small::LightAck { next: 64 }, nak, range, Small::Ack2 { ack: 1 }, warning];
    [vec![data.emit().to_vec()], smalls.map(|small| small.emit()).to_vec()].concat()
}

pub(super) fn datagrams() -> Vec<Vec<u8>> {
    [own_datagrams(), kit::path_datagrams()].concat()
}

/// A control message.
pub fn udt_control(data: &[u8]) -> bool {
    let Ok(message) = Message::parse(VERSION, data) else { return false };
    assert_eq!(message.emit(VERSION), data, "a message has one form on the wire: {message:?}");
    match message {
        Message::Own { kind, body } => {
            OwnMessage::parse(kind, Reader(body)).is_ok_and(|own| own.emit() == data || panic!("{own:?}"))
        }
        Message::Setup { more, .. } => setup_control(Reader(more)).is_ok_and(|control| [control.code()] == *more),
        Message::Accept { more, .. } => more.is_empty(),
        _ => true,
    }
}

pub(super) fn controls() -> Vec<Vec<u8>> {
    let mut all = kit::controls(VERSION, &[ControlName::Native(Variant::Paper2004).code()], &[]);
    all.push(OwnMessage::Restart { from: u32::MAX >> 1 }.emit());
    all.push(OwnMessage::Rate { rate: Some(Bitrate::from_mbps(100)) }.emit());
    all.push(OwnMessage::Rate { rate: None }.emit());
    all
}
