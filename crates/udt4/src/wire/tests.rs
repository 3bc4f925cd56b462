//! Written packets can be read again, and the parser accepts any bytes without a panic.

use proptest::prelude::*;

use super::*;

fn stamp() -> impl Strategy<Value = Stamp> {
    (any::<u32>(), any::<u32>()).prop_map(|(timestamp, id)| Stamp { timestamp, destination: SocketId::new(id) })
}

fn sequence() -> impl Strategy<Value = Sequence> {
    (0..SEQUENCES).prop_map(|n| Sequence::truncate(u64::from(n)))
}

fn range() -> impl Strategy<Value = LossRange> {
    (sequence(), sequence()).prop_map(|(first, last)| LossRange { first, last })
}

fn handshake() -> impl Strategy<Value = Handshake> {
    let step = prop::sample::select(vec![
        HandshakeKind::Request,
        HandshakeKind::Rendezvous,
        HandshakeKind::Agreement,
        HandshakeKind::Confirmation,
        HandshakeKind::Rejection,
    ]);
    let kind = prop::sample::select(vec![None, Some(Kind::Stream), Some(Kind::Message)]);
    let numbers = (any::<u32>(), sequence(), any::<u16>(), 1..SEQUENCES, 1..SEQUENCES, any::<u32>(), any::<[u32; 4]>());
    (kind, step, numbers).prop_map(|(kind, step, (version, initial_sequence, mss, window, id, cookie, peer))| {
        let socket = SocketId::new(id).unwrap();
        Handshake { version, kind, initial_sequence, mss, window, step, socket, cookie, peer }
    })
}

fn ack() -> impl Strategy<Value = Ack> {
    let capacity = (any::<bool>(), 0..SEQUENCES, 0..SEQUENCES);
    (any::<u32>(), sequence(), 0..SEQUENCES, 0..SEQUENCES, 0..SEQUENCES, capacity).prop_map(
        |(number, next, rtt, rtt_variance, window, (full, arrival, link))| {
            let capacity = full.then_some(Capacity { arrival, link });
            Ack { number, next, rtt, rtt_variance, window, capacity }
        },
    )
}

fn check(body: ControlBody<'_>, stamp: Stamp) {
    let packet = Packet::Control(Control { stamp, body });
    let mut bytes = Vec::new();
    packet.emit(&mut bytes);
    assert_eq!(Packet::parse(&bytes), Ok(packet.clone()));
    for len in 0..HEADER_LEN {
        assert_eq!(Packet::parse(&bytes[..len]), Err(ParseError::Short));
    }
}

proptest! {
    #[test]
    fn data_packets_come_back(
        stamp in stamp(), sequence in sequence(), flags in any::<u32>(),
        payload in prop::collection::vec(any::<u8>(), 1..50),
    ) {
        let position = Position { first: flags & 1 != 0, last: flags & 2 != 0 };
        let (message, ordered) = (MessageNumber::truncate(flags >> 3), flags & 4 != 0);
        let packet = Packet::Data(Data { stamp, sequence, message, position, ordered, payload: &payload });
        let mut bytes = Vec::new();
        packet.emit(&mut bytes);
        prop_assert_eq!(Packet::parse(&bytes), Ok(packet));
    }

    #[test]
    fn control_packets_come_back(
        stamp in stamp(), handshake in handshake(), ack in ack(), next in sequence(), number in any::<u32>(),
        ranges in prop::collection::vec(range(), 1..20), dropped in range(),
        payload in prop::collection::vec(any::<u8>(), 0..50),
    ) {
        let message = MessageNumber::truncate(number);
        let bodies = [
            ControlBody::Handshake(handshake),
            ControlBody::KeepAlive,
            ControlBody::Ack(ack),
            ControlBody::LightAck(next),
            ControlBody::Nak(ranges),
            ControlBody::CongestionWarning,
            ControlBody::Shutdown,
            ControlBody::Ack2(number),
            ControlBody::Drop { message, range: dropped },
            ControlBody::PeerError(number),
            ControlBody::User { code: number as u16, info: number, payload: &payload },
        ];
        for body in bodies {
            check(body, stamp);
        }
    }

    #[test]
    fn any_bytes_may_be_read(bytes in prop::collection::vec(any::<u8>(), 0..100), kind in 0u8..10, data in any::<bool>()) {
        let mut bytes = bytes;
        if !data && let [first, second, ..] = bytes.as_mut_slice() {
            (*first, *second) = (0x80, kind);
        }
        if let Ok(packet) = Packet::parse(&bytes) {
            let mut again = Vec::new();
            packet.emit(&mut again);
            prop_assert_eq!(Packet::parse(&again), Ok(packet));
        }
    }
}

#[test]
fn a_data_packet_looks_like_libudt_s() {
    let packet = Packet::Data(Data {
        stamp: Stamp { timestamp: 0x0102_0304, destination: SocketId::new(0x1122_3344) },
        sequence: Sequence::truncate(0x7fff_fffe),
        message: MessageNumber::FIRST,
        position: Position { first: true, last: false },
        ordered: true,
        payload: b"ab",
    });
    let mut bytes = Vec::new();
    packet.emit(&mut bytes);
    let header = [0x7f, 0xff, 0xff, 0xfe, 0xa0, 0, 0, 1, 1, 2, 3, 4, 0x11, 0x22, 0x33, 0x44];
    assert_eq!(bytes, [&header[..], b"ab"].concat());
}

#[test]
fn a_loss_list_is_compressed_as_in_the_draft() {
    // draft-gg-udt: "0x00000002, 0x80000006, 0x0000000B, 0x0000000E" are 2, 6 to 11 and 14.
    let range = |first, last| LossRange { first: Sequence::truncate(first), last: Sequence::truncate(last) };
    let body = ControlBody::Nak(vec![range(2, 2), range(6, 11), range(14, 14)]);
    let stamp = Stamp { timestamp: 0, destination: SocketId::new(5) };
    let mut bytes = Vec::new();
    Packet::Control(Control { stamp, body }).emit(&mut bytes);
    let words: Vec<u32> = bytes.as_chunks::<4>().0.iter().map(|word| u32::from_be_bytes(*word)).collect();
    assert_eq!(words, [0x8003_0000, 0, 0, 5, 2, 0x8000_0006, 0xb, 0xe]);
    let cut = &bytes[..bytes.len() - 8];
    assert_eq!(Packet::parse(cut), Err(ParseError::Field("loss list")), "a range without its end");
}

#[test]
fn message_numbers_leave_0_out() {
    assert_eq!(MessageNumber::truncate(MESSAGES - 1).next(), MessageNumber::FIRST);
    assert_eq!(MessageNumber::FIRST.next().get(), 2);
}
