//! The common part of all protocols: datagrams about the path, and the messages that set a flow up.

use inhaul_base::ByteRange;
use inhaul_transport::ConnectionId;
use inhaul_transport::kit::wire::{Message, PathDatagram};

/// A datagram about the path, behind its envelope.
pub fn path_datagram(data: &[u8]) -> bool {
    let Some(datagram) = PathDatagram::parse(data) else { return false };
    assert_eq!(PathDatagram::parse(&datagram.emit()), Some(datagram));
    true
}

/// Datagrams about the path.
pub(super) fn path_datagrams() -> Vec<Vec<u8>> {
    [
        PathDatagram::Probe { token: 0x0123_4567_89ab_cdef, number: 1, reply_to: ConnectionId(7) },
        PathDatagram::Echo { number: 1, len: 1472, challenge: 0xfedc_ba98_7654_3210 },
        PathDatagram::Response { token: 0x0123_4567_89ab_cdef, challenge: 0xfedc_ba98_7654_3210 },
        PathDatagram::Open { token: 0x0123_4567_89ab_cdef },
    ]
    .iter()
    .map(|datagram| datagram.emit().to_vec())
    .collect()
}

/// Complete messages of a protocol's `version`, with its additions to set-up.
pub(super) fn controls(version: u8, setup: &[u8], accept: &[u8]) -> Vec<Vec<u8>> {
    let ranges = vec![ByteRange::new(0, 14_400), ByteRange::at(1 << 30, 1)];
    [
        Message::Setup { connection: ConnectionId(7), mtu: 9000, size: 1 << 32, more: setup },
        Message::Accept { connection: ConnectionId(8), token: u64::MAX, mtu: 1500, size: 1 << 32, more: accept },
        Message::Request { id: 1, block: 1440, ranges },
        Message::Cancel { through: 1 },
        Message::Close,
    ]
    .iter()
    .map(|message| message.emit(version))
    .collect()
}
