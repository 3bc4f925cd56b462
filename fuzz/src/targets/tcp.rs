//! The TCP family: what comes in as datagrams and on the control stream.

use inhaul_base::{Bitrate, ByteRange, Sequence};
use inhaul_protocols::tcp::laws::LawName;
use inhaul_protocols::tcp::wire::{AckHeader, Blocks, Control, DataHeader, Datagram, Timestamp};

/// A datagram's header.
pub fn tcp_datagram(data: &[u8]) -> bool {
    let Ok(datagram) = Datagram::parse(data) else { return false };
    assert_eq!(Datagram::parse(&datagram.emit()), Ok(datagram));
    true
}

pub(super) fn datagrams() -> Vec<Vec<u8>> {
    let sequence = Sequence::new(u32::MAX);
    let sent = Timestamp::new(1_000_007);
    let mut blocks = Blocks::default();
    blocks.push(sequence.plus(3), sequence.plus(9));
    blocks.push(sequence.plus(20), sequence.plus(21));
    [
        Datagram::Data(DataHeader { window_log: 21, key: 7, sequence, sent, offset: 1 << 40 }),
        Datagram::Ack(AckHeader { key: 7, acknowledged: sequence, echo: sent, window: 1_000_000, sent, blocks }),
        Datagram::Probe { key: 7, token: 0x0123_4567_89ab_cdef, number: 1 },
        Datagram::Echo { key: 7, number: 1, len: 1472, challenge: 0xfedc_ba98_7654_3210 },
        Datagram::Response { key: 7, token: 0x0123_4567_89ab_cdef, challenge: 0xfedc_ba98_7654_3210 },
        Datagram::Open { key: 7, token: 0x0123_4567_89ab_cdef },
    ]
    .iter()
    .map(|datagram| datagram.emit().to_vec())
    .collect()
}

/// A control message.
pub fn tcp_control(data: &[u8]) -> bool {
    let Ok(message) = Control::parse(data) else { return false };
    assert_eq!(message.emit(), data, "a message has one form on the wire: {message:?}");
    true
}

pub(super) fn controls() -> Vec<Vec<u8>> {
    [
        Control::Setup { key: 7, mtu: 9000, size: 1 << 32, law: LawName::Fhstcp },
        Control::Accept { token: u64::MAX, mtu: 1500, size: 1 << 32 },
        Control::Request { id: 1, segment: 1448, ranges: vec![ByteRange::new(0, 14_480), ByteRange::at(1 << 30, 1)] },
        Control::Cancel { through: 1 },
        Control::Restart { from: Sequence::new(u32::MAX) },
        Control::Close,
        Control::Rate { rate: Some(Bitrate::from_mbps(100)) },
        Control::Rate { rate: None },
    ]
    .iter()
    .map(Control::emit)
    .collect()
}
