//! Packet captures, read back by a strict parser of pcapng (draft-ietf-opsawg-pcapng).

use std::io::Write;
use std::sync::{Arc, Mutex};

use crate::common::{BLOCK, Collector, ConstantSender, HEAD};
use inhaul_base::{Bitrate, Span, Time};
use inhaul_link::{LinkSpec, QueueLimit};
use inhaul_sim::{HostSpec, Pattern, Simulation, Topology, Transfer, UdpTraffic};
use inhaul_transport::{FlowLimits, ObjectId};

/// A file that the test can look into.
#[derive(Clone, Default)]
struct File(Arc<Mutex<Vec<u8>>>);

impl Write for File {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// A packet of a capture: nanoseconds, original length, captured bytes.
struct Captured(u64, usize, Vec<u8>);

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(bytes[at..at + 2].try_into().unwrap())
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

/// Reads a file of one section with one interface of raw IP and nanoseconds; returns the interface's name and its
/// packets.
fn read(mut file: &[u8]) -> (String, Vec<Captured>) {
    let (mut name, mut packets) = (String::new(), Vec::new());
    let mut blocks = 0;
    while !file.is_empty() {
        let (kind, len) = (u32_at(file, 0), u32_at(file, 4) as usize);
        assert!(len % 4 == 0 && len >= 12 && len <= file.len(), "block of {len} bytes");
        assert_eq!(u32_at(file, len - 4) as usize, len, "the length behind a block is the one before it");
        let body = &file[8..len - 4];
        match (blocks, kind) {
            (0, 0x0A0D_0D0A) => {
                assert_eq!((u32_at(body, 0), u16_at(body, 4), u16_at(body, 6)), (0x1A2B_3C4D, 1, 0));
                assert_eq!(body[8..], [0xFF; 8]);
            }
            (1, 1) => {
                assert_eq!((u16_at(body, 0), u16_at(body, 2), u32_at(body, 4)), (101, 0, 0));
                let options = read_options(&body[8..]);
                assert_eq!(options[1], (9, vec![9]), "time stamps are in nanoseconds");
                assert_eq!(options[0].0, 2);
                name = String::from_utf8(options[0].1.clone()).unwrap();
            }
            (2.., 6) => {
                assert_eq!(u32_at(body, 0), 0, "the only interface");
                let at = u64::from(u32_at(body, 4)) << 32 | u64::from(u32_at(body, 8));
                let (captured, original) = (u32_at(body, 12) as usize, u32_at(body, 16) as usize);
                assert!(captured <= original && body.len() == 20 + captured.next_multiple_of(4));
                packets.push(Captured(at, original, body[20..20 + captured].to_vec()));
            }
            other => panic!("block {other:?}"),
        }
        file = &file[len..];
        blocks += 1;
    }
    (name, packets)
}

fn read_options(mut bytes: &[u8]) -> Vec<(u16, Vec<u8>)> {
    let mut options = Vec::new();
    loop {
        let (code, len) = (u16_at(bytes, 0), usize::from(u16_at(bytes, 2)));
        if code == 0 {
            assert_eq!((len, bytes.len()), (0, 4), "the end of options is the last");
            return options;
        }
        options.push((code, bytes[4..4 + len].to_vec()));
        bytes = &bytes[4 + len.next_multiple_of(4)..];
    }
}

/// Checks an IPv4 header and returns protocol, ports, and what follows the UDP or TCP header.
fn parse_ip(packet: &Captured) -> (u8, [u16; 2], &[u8]) {
    let Captured(_, original, bytes) = packet;
    assert_eq!(bytes[0], 0x45);
    let word = |at: usize| u16::from_be_bytes(bytes[at..at + 2].try_into().unwrap());
    assert_eq!(usize::from(word(2)), *original, "the total length is that of the whole packet");
    let sum: u32 = (0..20).step_by(2).map(|at| u32::from(word(at))).sum();
    assert_eq!((sum & 0xFFFF) + (sum >> 16), 0xFFFF, "the header checksum");
    assert_eq!((&bytes[12..14], &bytes[16..18]), (&[10, 1][..], &[10, 1][..]));
    let header = match bytes[9] {
        17 => {
            assert_eq!(usize::from(word(24)), original - 20, "the UDP length");
            28
        }
        6 => {
            assert_eq!(bytes[32], 0x50, "a TCP header of five words");
            40
        }
        other => panic!("protocol {other}"),
    };
    (bytes[9], [word(20), word(22)], &bytes[header..])
}

#[test]
fn capture_is_a_valid_file_of_everything_that_arrived() {
    let mut t = Topology::new();
    let [a, b] = ["a", "b"].map(|name| t.host(name, HostSpec::default()));
    let link = LinkSpec::drop_tail(Bitrate::from_mbps(100), Span::from_millis(5), QueueLimit::Packets(1000));
    let (there, _) = t.duplex("odd", a, b, link.clone(), link);
    let mut sim = Simulation::new(t, 1).unwrap();
    let sender = sim.endpoint(a, Box::new(ConstantSender::new(Bitrate::from_mbps(50)))).unwrap();
    let receiver = sim.endpoint(b, Box::new(Collector::default())).unwrap();
    let transfer = Transfer {
        name: "flow".into(),
        sender,
        receiver,
        object: ObjectId(0),
        size: 30 * BLOCK,
        start: Time::ZERO,
        stop: None,
        leaves: false,
        mtu: 1500,
        limits: FlowLimits::default(),
    };
    sim.transfer(transfer).unwrap();
    sim.background_udp(UdpTraffic {
        from: a,
        to: b,
        rate: Bitrate::from_mbps(1),
        packet_bytes: 125,
        pattern: Pattern::Constant,
        start: Time::ZERO,
        stop: Some(Time::ZERO + Span::from_millis(10)),
    })
    .unwrap();
    let file = File::default();
    sim.capture(there, Box::new(file.clone())).unwrap();
    sim.run_until(Time::ZERO + Span::from_secs(1)).unwrap();

    if let Some(path) = std::env::var_os("INHAUL_CAPTURE") {
        std::fs::write(path, &*file.0.lock().unwrap()).unwrap();
    }
    let (name, packets) = read(&file.0.lock().unwrap());
    assert_eq!((name.as_str(), packets.len() as u64), ("odd", sim.link_stats(there).carried.packets));
    assert!(packets.is_sorted_by_key(|packet| packet.0) && packets[0].0 == 5_010_000);
    let (mut data, mut background, mut control) = (0, 0, 0);
    for packet in &packets {
        match parse_ip(packet) {
            (17, [9, 9], rest) => {
                assert_eq!((packet.1, rest.len()), (125, 0));
                background += 1;
            }
            (17, [from, to], rest) => {
                assert_eq!((from, to, packet.1), (1024, 1024, 28 + HEAD + BLOCK as usize));
                // The head as the sender wrote it: flow 0, offset.
                assert_eq!(rest.len(), HEAD);
                assert_eq!(u32_at(rest, 8), data * BLOCK as u32);
                data += 1;
            }
            _ => control += 1,
        }
    }
    assert_eq!((data, background, control), (30, 10, 2));
}
