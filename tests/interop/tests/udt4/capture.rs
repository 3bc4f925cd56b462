//! What our packets are for somebody else: tshark's dissector of UDT.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use inhaul_base::Span;
use inhaul_udt4::{Kind, MessageOptions};

use crate::peer::{Peer, program};
use crate::relay::{Harm, Relay, Tap};
use crate::{BAD, accept, bytes, connect, endpoint, message, same};

/// The server's port in the written file, in place of the real one.
const PORT: u16 = 9000;

/// Writes captured packets in the format of libpcap: IPv4 packets without a link layer.
struct Capture {
    began: Instant,
    file: Vec<u8>,
}

impl Capture {
    fn new() -> Arc<Mutex<Self>> {
        let mut file = Vec::new();
        // Magic, version 2.4, UTC, accuracy, the longest packet, LINKTYPE_RAW.
        file.extend(0xa1b2_c3d4u32.to_be_bytes());
        file.extend([0, 2, 0, 4]);
        for word in [0, 0, 65_535, 101u32] {
            file.extend(word.to_be_bytes());
        }
        Arc::new(Mutex::new(Self { began: Instant::now(), file }))
    }
}

impl Tap for Capture {
    fn see(&mut self, to_server: bool, datagram: &[u8]) {
        let len = 28 + datagram.len() as u16;
        let (at, ports) = (self.began.elapsed(), if to_server { [40_000, PORT] } else { [PORT, 40_000] });
        for word in [at.as_secs() as u32, at.subsec_micros(), u32::from(len), u32::from(len)] {
            self.file.extend(word.to_be_bytes());
        }
        let address = |server| [10, 0, 0, 1 + u8::from(server)];
        self.file.extend([0x45, 0]);
        self.file.extend(len.to_be_bytes());
        // No fragment, time to live 64, UDP; checksums that say nothing.
        self.file.extend([0, 0, 0x40, 0, 64, 17, 0, 0]);
        self.file.extend([address(!to_server), address(to_server)].concat());
        self.file.extend(ports.iter().flat_map(|port: &u16| port.to_be_bytes()));
        self.file.extend((len - 20).to_be_bytes());
        self.file.extend([0, 0]);
        self.file.extend(datagram);
    }
}

/// The group of tshark's remarks on sequence numbers: it makes one of each loss that a NAK tells of.
const LOST: &str = "33554432";

/// What tshark sees in a capture: the types of the control packets, and whether there is data.
struct Seen {
    frames: usize,
    types: BTreeSet<u16>,
    data: usize,
}

/// `None`, with a word why, where there is no tshark.
fn dissect(capture: &Mutex<Capture>) -> Option<Seen> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("udt.pcap");
    std::fs::write(&path, &capture.lock().unwrap().file).unwrap();
    let lines = tshark(&path)?;
    let mut seen = Seen { frames: lines.len(), types: BTreeSet::new(), data: 0 };
    for line in &lines {
        let fields: Vec<&str> = line.split('\t').collect();
        let [protocols, is_control, kind, malformed, group] = fields[..] else { panic!("{line}") };
        assert!(protocols.starts_with("raw:ip:udp:udt"), "it is no UDT: {line}");
        let mut remarks = group.split(',').filter(|group| !group.is_empty());
        assert!(malformed.is_empty() && remarks.all(|group| group == LOST), "it is malformed: {line}");
        match is_control {
            "0" => seen.data += 1,
            _ => drop(seen.types.insert(u16::from_str_radix(kind.trim_start_matches("0x"), 16).unwrap())),
        }
    }
    Some(seen)
}

fn tshark(path: &Path) -> Option<Vec<String>> {
    let fields = ["frame.protocols", "udt.iscontrol", "udt.type", "_ws.malformed", "_ws.expert.group"];
    let mut command = Command::new("tshark");
    command.arg("-n").arg("-r").arg(path).args(["-d", &format!("udp.port=={PORT},udt"), "-T", "fields"]);
    command.args(fields.iter().flat_map(|field| ["-e", field]));
    match command.output() {
        Ok(output) if output.status.success() => {
            Some(String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect())
        }
        Ok(output) => panic!("{}", String::from_utf8_lossy(&output.stderr)),
        Err(error) => {
            println!("SKIPPED: tshark cannot be run: {error} (Debian: apt-get install tshark)");
            None
        }
    }
}

/// Types of control packets.
const HANDSHAKE: u16 = 0;
const ACK: u16 = 2;
const NAK: u16 = 3;
const SHUTDOWN: u16 = 5;
const ACK2: u16 = 6;
const DROP: u16 = 7;

fn check(capture: &Mutex<Capture>, expected: &[u16]) {
    let Some(seen) = dissect(capture) else { return };
    println!("{} frames, {} of them data; types {:?}", seen.frames, seen.data, seen.types);
    assert!(seen.data > 500);
    for kind in expected {
        assert!(seen.types.contains(kind), "there is no type {kind} in {:?}", seen.types);
    }
}

#[test]
fn a_stream_that_we_send_is_udt_for_tshark() {
    let Some(program) = program() else { return };
    let capture = Capture::new();
    let peer = Peer::start(program, &["listen", "stream", "0", "0", "echo", "600000"]);
    let relay = Relay::tapped(peer.port(), BAD, 11, &capture);
    let endpoint = endpoint(Kind::Stream);
    let socket = connect(&endpoint, relay.port());
    let data = bytes(600_000, 11);
    socket.write_all(&data).unwrap();
    let mut back = vec![0; data.len()];
    socket.read_exact(&mut back).unwrap();
    same(&back, &data);
    drop(socket);
    // The end of the endpoint waits until our shutdowns have left.
    drop(endpoint);
    peer.finish();
    drop(relay);
    check(&capture, &[HANDSHAKE, ACK, NAK, SHUTDOWN, ACK2]);
}

#[test]
fn what_a_listener_of_ours_says_is_udt_for_tshark() {
    let Some(program) = program() else { return };
    let capture = Capture::new();
    let endpoint = endpoint(Kind::Message);
    let incoming = endpoint.listen(10).unwrap();
    let harm = Harm { loss: 0.02, ..Harm::NONE };
    let relay = Relay::tapped(endpoint.local_address().port(), harm, 12, &capture);
    let peer = Peer::start(program, &["connect", "message", "0", &relay.port().to_string(), "collect"]);
    let socket = accept(&incoming);
    for number in 0..200 {
        socket.send_message(&message(number, 3000), MessageOptions::default()).unwrap();
    }
    // Those before them take longer than that.
    let options = MessageOptions { lifetime: Some(Span::from_millis(1)), unordered: false };
    for number in 200..220 {
        socket.send_message(&message(number, 3000), options).unwrap();
    }
    socket.send_message(&message(220, 3000), MessageOptions::default()).unwrap();
    socket.close().unwrap();
    peer.finish();
    drop((incoming, endpoint, relay));
    check(&capture, &[HANDSHAKE, ACK, NAK, SHUTDOWN, ACK2, DROP]);
}
