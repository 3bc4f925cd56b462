//! GTP: what comes in as datagrams and on the control stream.

use inhaul_base::{Bitrate, ByteRange, Sequence};
use inhaul_protocols::gtp::wire::{Control, DataHeader, Datagram};

/// A datagram's header.
pub fn gtp_datagram(data: &[u8]) -> bool {
    let Ok(datagram) = Datagram::parse(data) else { return false };
    assert_eq!(Datagram::parse(&datagram.emit()), Ok(datagram));
    true
}

pub(super) fn datagrams() -> Vec<Vec<u8>> {
    let sequence = Sequence::new(u32::MAX);
    [
        Datagram::Data(DataHeader { key: 7, epoch: 3, request: 2, sequence, offset: 1 << 40, sent: 1_000_000_007 }),
        Datagram::Edge { key: 7, epoch: 3, request: 2, sequence },
        Datagram::Probe { key: 7, token: 0x0123_4567_89ab_cdef, number: 1, sent: 99 },
        Datagram::Echo { key: 7, number: 1, probe_sent: 99, challenge: 0xfedc_ba98_7654_3210, len: 1472 },
        Datagram::Response { key: 7, token: 0x0123_4567_89ab_cdef, challenge: 0xfedc_ba98_7654_3210 },
        Datagram::Open { key: 7, token: 0x0123_4567_89ab_cdef },
    ]
    .iter()
    .map(|datagram| datagram.emit().to_vec())
    .collect()
}

/// A control message.
pub fn gtp_control(data: &[u8]) -> bool {
    let Ok(message) = Control::parse(data) else { return false };
    assert_eq!(message.emit(), data, "a message has one form on the wire: {message:?}");
    true
}

pub(super) fn controls() -> Vec<Vec<u8>> {
    let rate = Some(Bitrate::from_mbps(850));
    [
        Control::Setup {
            key: 7,
            mtu: 9000,
            size: 1 << 32,
            receive_buffer: 212_992,
            access_rate: rate,
            application_rate: None,
        },
        Control::Accept { token: u64::MAX, mtu: 1500, size: 1 << 32, send_rate: rate },
        Control::Request { id: 1, block: 1440, ranges: vec![ByteRange::new(0, 14_400), ByteRange::at(1 << 30, 1)] },
        Control::Rate { epoch: 1, rate: Bitrate::from_gbps(10), burst: 63_360 },
        Control::Limit { send_rate: None },
        Control::Cancel { through: 1 },
        Control::Close,
    ]
    .iter()
    .map(Control::emit)
    .collect()
}

/// Legal messages whose numbers are as large as they can be.
pub(super) fn extreme_controls() -> Vec<Vec<u8>> {
    let rate = Bitrate::from_bps(u64::MAX);
    [
        Control::Rate { epoch: u16::MAX, rate, burst: u32::MAX },
        Control::Rate { epoch: 1, rate: Bitrate::from_bps(1), burst: 0 },
        Control::Request { id: 1, block: 256, ranges: vec![ByteRange::new(0, u64::MAX)] },
        Control::Limit { send_rate: Some(rate) },
        Control::Accept { token: 0, mtu: u16::MAX, size: u64::MAX, send_rate: Some(rate) },
        Control::Cancel { through: u32::MAX },
    ]
    .iter()
    .map(Control::emit)
    .collect()
}
