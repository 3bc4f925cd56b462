//! What leaves a socket, as seen by a plain socket at the other end.

use std::fs::File;
use std::io::{Seek, Write};
use std::net::UdpSocket;
use std::time::Duration;

use super::*;
use crate::socket::{Offload, SocketOptions};
use crate::sys::{MappedFile, set_option};

const MEMORY: FlowId = FlowId(1);
const FILE: FlowId = FlowId(2);
const BROKEN: FlowId = FlowId(3);
const SHORT: FlowId = FlowId(4);
const SPLIT: FlowId = FlowId(5);

/// One object of each kind.
struct Source {
    memory: Vec<u8>,
    file: MappedFile,
}

impl BodySource for Source {
    fn body<'a>(&'a self, flow: FlowId, range: ByteRange, out: &mut IoVecs<'a>) -> io::Result<()> {
        if flow == FILE {
            return self.file.read(range, out);
        }
        let memory = &self.memory[range.start as usize..range.end as usize];
        match flow {
            MEMORY => out.push(memory),
            SPLIT => memory.chunks(1).for_each(|byte| out.push(byte)),
            SHORT => out.push(&memory[1..]),
            _ => return Err(io::ErrorKind::PermissionDenied.into()),
        }
        Ok(())
    }
}

fn contents(len: usize) -> Vec<u8> {
    (0..len).map(|n| (n * 7 + n / 253) as u8).collect()
}

/// A source, and the file under it.
fn source(len: usize) -> (Source, File) {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&contents(len)).unwrap();
    file.rewind().unwrap();
    let mapped = MappedFile::new(&file).unwrap();
    (Source { memory: contents(len), file: mapped }, file)
}

fn socket(offload: Offload) -> Socket {
    Socket::bind("127.0.0.1:0".parse().unwrap(), &SocketOptions { offload, ..Default::default() }).unwrap()
}

/// A plain socket that gives up after five seconds.
fn plain() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    socket
}

fn next(socket: &UdpSocket) -> Vec<u8> {
    let mut bytes = vec![0; 65_536];
    let len = socket.recv(&mut bytes).unwrap();
    bytes.truncate(len);
    bytes
}

fn nothing_more(socket: &UdpSocket) {
    socket.set_nonblocking(true).unwrap();
    assert_eq!(socket.recv(&mut [0; 4]).unwrap_err().kind(), io::ErrorKind::WouldBlock);
}

#[test]
fn run_length_takes_equal_datagrams_and_a_shorter_one_after_them() {
    let count = |lens: &[u64], pad: u16| {
        let mut batch = TxBatch::default();
        let peer = SocketAddr::from(([192, 0, 2, 1], 7));
        lens.iter().for_each(|&len| batch.push(MEMORY, peer, b"ab", ByteRange::at(0, len), pad));
        run_length(batch.transmits().next().unwrap().datagrams)
    };
    assert_eq!(count(&[10], 0), 1);
    assert_eq!(count(&[10, 10, 5, 10], 0), 3);
    assert_eq!(count(&[10, 11, 10], 0), 1);
    assert_eq!(count(&[5, 10], 0), 1);
    assert_eq!(count(&[1470; 50], 0), 44);
    assert_eq!(count(&[10; 70], 3), 64);
    assert_eq!(count(&[65_505, 1], 0), 1);
}

#[test]
fn transmit_sends_head_body_and_zeros_in_order_with_and_without_offload() {
    let (source, _file) = source(200_000);
    for offload in [Offload::Auto, Offload::Off] {
        let (sender, peers) = (socket(offload), [plain(), plain()]);
        let mut batch = TxBatch::default();
        let mut wanted = [Vec::new(), Vec::new()];
        for n in 0..160usize {
            let flow = [MEMORY, FILE, SPLIT][n / 20 % 3];
            let to = n / 50 % 2;
            let len = if n % 9 == 8 { 77 } else { 400 };
            let (body, pad) = (ByteRange::at(n as u64 * 999, len), if n % 31 < 3 { 12 } else { 0 });
            let head = [n as u8, 1, 2];
            batch.push(flow, peers[to].local_addr().unwrap(), &head, body, pad);
            let bytes = &source.memory[body.start as usize..body.end as usize];
            wanted[to].push([&head, bytes, &vec![0; usize::from(pad)]].concat());
        }
        assert!(Transmitter::new(&sender).transmit(&sender, &mut batch, &source).unwrap());
        assert!(batch.is_empty());
        for (peer, wanted) in peers.iter().zip(wanted) {
            wanted.into_iter().for_each(|wanted| assert_eq!(next(peer), wanted));
            nothing_more(peer);
        }
    }
}

#[test]
fn transmit_goes_on_behind_what_failed() {
    let (source, file) = source(3 << 20);
    file.set_len(100).unwrap();
    let (sender, peer) = (socket(Offload::Auto), plain());
    let to = peer.local_addr().unwrap();
    let mut batch = TxBatch::default();
    for flow in [MEMORY, BROKEN, FILE, SHORT, MEMORY] {
        batch.push(flow, to, &[flow.0 as u8], ByteRange::at(1 << 20, 50), 0);
    }
    // Beyond the end that the file had when it was mapped: the map itself says no.
    batch.push(FILE, to, b"!", ByteRange::at((3 << 20) - 1, 2), 0);
    // More pieces than the kernel takes in one message.
    batch.push(SPLIT, to, b"!", ByteRange::at(0, 1100), 0);
    let mut transmitter = Transmitter::new(&sender);
    let mut errors = Vec::new();
    loop {
        match transmitter.transmit(&sender, &mut batch, &source) {
            Ok(done) => break assert!(done),
            Err(error) => errors.push(error),
        }
    }
    assert!(
        matches!(
            &errors[..],
            [
                SendError::Body { flow: BROKEN, .. },
                SendError::FileTruncated { flow: FILE },
                SendError::WrongBody { flow: SHORT, wanted: 50, got: 49, .. },
                SendError::Body { flow: FILE, .. },
                SendError::WrongBody { flow: SPLIT, pieces: 1101, .. },
            ]
        ),
        "{errors:?}"
    );
    assert!(errors.iter().map(SendError::flow).eq([BROKEN, FILE, SHORT, FILE, SPLIT]));
    for _ in 0..2 {
        assert_eq!(next(&peer)[0], 1);
    }
    nothing_more(&peer);
    assert!(transmitter.segments());
}

#[test]
fn transmit_drops_probes_that_are_too_large_and_reports_data_that_is() {
    let (source, _file) = source(70_000);
    let (sender, peer) = (socket(Offload::Auto), plain());
    let to = peer.local_addr().unwrap();
    let mut transmitter = Transmitter::new(&sender);
    let mut batch = TxBatch::default();
    batch.push(MEMORY, to, b"probe", ByteRange::default(), u16::MAX);
    batch.push(MEMORY, to, b"after", ByteRange::default(), 0);
    assert!(transmitter.transmit(&sender, &mut batch, &source).unwrap());
    assert_eq!(next(&peer), b"after");
    batch.push(MEMORY, to, b"data", ByteRange::at(0, 66_000), 0);
    let error = transmitter.transmit(&sender, &mut batch, &source).unwrap_err();
    assert!(matches!(error, SendError::TooLarge { flow: MEMORY, bytes: 66_004, .. }), "{error:?}");
}

#[test]
fn transmit_gives_segmentation_up_once_it_has_failed_and_loses_nothing() {
    let (source, _file) = source(100_000);
    let (sender, peer) = (socket(Offload::Auto), plain());
    // The kernel cuts no message whose datagrams have no checksum: it says EINVAL, as for a device that cannot do it.
    set_option(std::os::fd::AsFd::as_fd(&sender), libc::SOL_SOCKET, libc::SO_NO_CHECK, 1).unwrap();
    let mut transmitter = Transmitter::new(&sender);
    let mut batch = TxBatch::default();
    for n in 0..30 {
        batch.push(MEMORY, peer.local_addr().unwrap(), &[n], ByteRange::at(u64::from(n) * 100, 100), 0);
    }
    assert!(transmitter.segments());
    assert!(transmitter.transmit(&sender, &mut batch, &source).unwrap());
    assert!(!transmitter.segments());
    for n in 0..30 {
        assert_eq!(next(&peer)[0], n);
    }
    nothing_more(&peer);
}

#[test]
fn transmit_keeps_segmentation_when_the_peer_is_to_blame() {
    let (source, _file) = source(1_000);
    let sender = socket(Offload::Auto);
    let mut transmitter = Transmitter::new(&sender);
    let mut batch = TxBatch::default();
    for n in 0..4 {
        // Port 0 cannot be sent to: EINVAL, segmented or not.
        batch.push(MEMORY, "127.0.0.1:0".parse().unwrap(), &[n], ByteRange::at(0, 100), 0);
    }
    let mut errors = 0;
    while let Err(error) = transmitter.transmit(&sender, &mut batch, &source) {
        assert!(matches!(error, SendError::Network { flow: MEMORY, .. }), "{error:?}");
        errors += 1;
    }
    assert!(errors > 0 && transmitter.segments());
}

#[test]
fn transmit_keeps_its_place_when_the_network_takes_no_more() {
    let sender = socket(Offload::Off);
    let mut transmitter = Transmitter::new(&sender);
    let run =
        |datagrams| Run { flow: MEMORY, peer: sender.local_address(), datagrams, datagram_len: 100, padded: false };
    transmitter.runs = vec![run(3), run(2), run(4)];
    transmitter.messages = vec![sender.outgoing(sender.local_address(), 0..1, None); 3];
    transmitter.advance(2);
    for errno in [Errno::AGAIN, Errno::NOBUFS] {
        assert!(transmitter.is_blocked_by(&errno.into()).unwrap());
        assert_eq!(transmitter.done, 5);
    }
    assert!(!transmitter.is_blocked_by(&Errno::CONNREFUSED.into()).unwrap());
    assert_eq!(transmitter.done, 5);
}
