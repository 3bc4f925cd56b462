//! The TCP family: received datagrams and control messages.

use inhaul_base::{Bitrate, Sequence};
use inhaul_protocols::laws::LawName;
use inhaul_protocols::tcp::wire::{AckHeader, Blocks, DataHeader, OwnMessage, Timestamp, VERSION, setup_law};
use inhaul_transport::kit::receiver::DataHead;
use inhaul_transport::kit::wire::{Message, Reader};

use super::kit;

/// A datagram's header.
pub fn tcp_datagram(data: &[u8]) -> bool {
    if let Some(header) = DataHeader::parse(data) {
        assert_eq!(DataHeader::parse(&header.emit()), Some(header));
        return true;
    }
    let Some(ack) = AckHeader::parse(data) else { return false };
    assert_eq!(AckHeader::parse(&ack.emit()), Some(ack));
    true
}

pub(super) fn own_datagrams() -> Vec<Vec<u8>> {
    let sequence = Sequence::new(u32::MAX);
    let sent = Timestamp::new(1_000_007);
    let mut blocks = Blocks::default();
    blocks.push(sequence.plus(3), sequence.plus(9));
    blocks.push(sequence.plus(20), sequence.plus(21));
    let data = DataHeader { window_log: 21, sequence, sent, offset: 1 << 40 };
    let ack = AckHeader { acknowledged: sequence, echo: sent, window: 1_000_000, sent, blocks };
    vec![data.emit().to_vec(), ack.emit().to_vec()]
}

pub(super) fn datagrams() -> Vec<Vec<u8>> {
    [own_datagrams(), kit::path_datagrams()].concat()
}

/// A control message.
pub fn tcp_control(data: &[u8]) -> bool {
    let Ok(message) = Message::parse(VERSION, data) else { return false };
    assert_eq!(message.emit(VERSION), data, "a message has one form on the wire: {message:?}");
    match message {
        Message::Own { kind, body } => {
            OwnMessage::parse(kind, Reader(body)).is_ok_and(|own| own.emit() == data || panic!("{own:?}"))
        }
        Message::Setup { more, .. } => setup_law(Reader(more)).is_ok_and(|law| [law.code()] == *more),
        Message::Accept { more, .. } => more.is_empty(),
        _ => true,
    }
}

pub(super) fn controls() -> Vec<Vec<u8>> {
    let mut all = kit::controls(VERSION, &[LawName::Fhstcp.code()], &[]);
    all.push(OwnMessage::Restart { from: Sequence::new(u32::MAX) }.emit());
    all.push(OwnMessage::Rate { rate: Some(Bitrate::from_mbps(100)) }.emit());
    all.push(OwnMessage::Rate { rate: None }.emit());
    all
}
