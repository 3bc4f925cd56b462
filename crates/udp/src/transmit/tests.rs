//! What leaves a socket, as seen by a plain socket at the other end.

use std::io::IoSliceMut;
use std::net::UdpSocket;
use std::time::Duration;

use inhaul_base::ByteRange;
use inhaul_transport::{ConnectionId, ENVELOPE_LEN, Envelope, Route};

use super::staged::{Framing, run_length};
use super::*;
use crate::checksum;
use crate::seal::{FlowSecrets, Opener, Seals, Secret, Suite, TAG_LEN};
use crate::socket::{Offload, Socket, SocketOptions};
use crate::sys::set_option;
use crate::{Arrival, Outgoing};

const MEMORY: FlowId = FlowId(1);
const OTHER: FlowId = FlowId(2);
const BROKEN: FlowId = FlowId(3);

/// One object for all flows but the broken one.
struct Source {
    memory: Vec<u8>,
    /// From here on the object cannot be read.
    readable: u64,
    /// What was asked for: where, and how many bytes.
    reads: Vec<(u64, usize)>,
    /// Up to here the object may be sealed from where it lies.
    lent: u64,
}

impl BodySource for Source {
    fn read(&mut self, flow: FlowId, offset: u64, bodies: &mut [IoSliceMut<'_>]) -> io::Result<()> {
        let len: usize = bodies.iter().map(|body| body.len()).sum();
        self.reads.push((offset, len));
        if flow == BROKEN || offset + len as u64 > self.readable {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let mut rest = &self.memory[offset as usize..];
        for body in bodies {
            let (now, later) = rest.split_at(body.len());
            body.copy_from_slice(now);
            rest = later;
        }
        Ok(())
    }

    fn lend(&self, _: FlowId, range: ByteRange) -> Option<&[u8]> {
        self.memory.get(range.start as usize..range.end as usize).filter(|_| range.end <= self.lent)
    }
}

fn contents(len: usize) -> Vec<u8> {
    (0..len).map(|n| (n * 7 + n / 253) as u8).collect()
}

fn source(len: usize) -> Source {
    Source { memory: contents(len), readable: len as u64, reads: Vec::new(), lent: 0 }
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

const CONNECTION: ConnectionId = ConnectionId(0xC0FF_EE01);

/// To a peer that knows every flow by the same connection id.
fn route(to: SocketAddr) -> Route {
    Route::new(to, CONNECTION)
}

/// All flows are known, and none is sealed.
fn connections() -> Connections {
    let mut connections = Connections::default();
    (1..).zip([MEMORY, OTHER, BROKEN]).for_each(|(id, flow)| connections.insert(ConnectionId(id), flow));
    connections
}

/// The next datagram, as an endpoint would see it.
fn next(socket: &UdpSocket) -> Vec<u8> {
    let mut bytes = vec![0; 65_536];
    let len = socket.recv(&mut bytes).unwrap();
    bytes.truncate(len);
    checksum::mask(&mut bytes);
    assert_eq!(Envelope::parse(&bytes).unwrap().connection, CONNECTION);
    bytes.split_off(ENVELOPE_LEN)
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
        lens.iter().for_each(|&len| {
            batch.push(MEMORY, Route::foreign(peer), b"ab", ByteRange::at(0, len), pad);
        });
        run_length(batch.transmits().next().unwrap().datagrams, Framing::default())
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
fn what_must_leave_alone_is_not_merged() {
    let mut batch = TxBatch::default();
    let to = Route::foreign(SocketAddr::from(([192, 0, 2, 1], 7)));
    for n in 0..6u64 {
        batch.push(MEMORY, to, b"ab", ByteRange::at(n * 10, 10), 0);
        if n == 2 || n == 3 {
            batch.set_alone();
        }
    }
    let datagrams = batch.transmits().next().unwrap().datagrams;
    let mut lengths = Vec::new();
    let mut at = 0;
    while at < datagrams.len() {
        lengths.push(run_length(&datagrams[at..], Framing::default()));
        at += lengths[lengths.len() - 1];
    }
    assert_eq!(lengths, [2, 1, 1, 2]);
}

#[test]
fn each_datagram_has_the_next_number_of_its_flow_and_a_foreign_one_no_envelope() {
    let mut source = source(10_000);
    let (sender, peer) = (socket(Offload::Auto), plain());
    let to = peer.local_addr().unwrap();
    let mut connections = Connections::default();
    connections.insert(ConnectionId(1), MEMORY);
    connections.insert(ConnectionId(2), OTHER);
    let mut batch = TxBatch::default();
    for (flow, count) in [(MEMORY, 3), (OTHER, 2), (MEMORY, 2)] {
        (0..count).for_each(|n| batch.push(flow, route(to), &[flow.0 as u8], ByteRange::at(n * 100, 100), 0));
    }
    batch.push(MEMORY, Route::foreign(to), b"bare", ByteRange::default(), 0);
    let mut transmitter = Transmitter::new(&sender);
    assert_eq!(
        transmitter.transmit(&sender, &mut batch, &mut connections, &mut Seals::default(), &mut source).unwrap(),
        Sent::All
    );
    let mut numbers = Vec::new();
    for _ in 0..7 {
        let mut bytes = [0; 200];
        let len = peer.recv(&mut bytes).unwrap();
        checksum::mask(&mut bytes[..len]);
        numbers.push((bytes[ENVELOPE_LEN], Envelope::parse(&bytes).unwrap().number));
    }
    assert_eq!(numbers, [(1, 0), (1, 1), (1, 2), (2, 0), (2, 1), (1, 3), (1, 4)]);
    let mut bytes = [0; 200];
    assert_eq!(peer.recv(&mut bytes).unwrap(), 4);
    assert_eq!(&bytes[..4], b"bare");
}

#[test]
fn transmit_sends_head_body_and_zeros_in_order_with_and_without_offload() {
    let mut source = source(200_000);
    for offload in [Offload::Auto, Offload::Off] {
        let (sender, peers) = (socket(offload), [plain(), plain()]);
        let mut batch = TxBatch::default();
        let mut wanted = [Vec::new(), Vec::new()];
        for n in 0..160usize {
            let flow = [MEMORY, OTHER][n / 20 % 2];
            let to = n / 50 % 2;
            let len = if n % 9 == 8 { 77 } else { 400 };
            let (body, pad) = (ByteRange::at(n as u64 * 999, len), if n % 31 < 3 { 12 } else { 0 });
            let head = [n as u8, 1, 2, 3, 4, 5, 6, 7, 8];
            batch.push(flow, route(peers[to].local_addr().unwrap()), &head, body, pad);
            let bytes = &source.memory[body.start as usize..body.end as usize];
            wanted[to].push([&head, bytes, &vec![0; usize::from(pad)]].concat());
        }
        assert_eq!(
            Transmitter::new(&sender)
                .transmit(&sender, &mut batch, &mut connections(), &mut Seals::default(), &mut source)
                .unwrap(),
            Sent::All
        );
        assert!(batch.is_empty());
        for (peer, wanted) in peers.iter().zip(wanted) {
            wanted.into_iter().for_each(|wanted| assert_eq!(next(peer), wanted));
            nothing_more(peer);
        }
    }
}

#[test]
fn transmit_reads_consecutive_bodies_as_one_and_finds_the_one_that_cannot_be_had() {
    let mut source = Source { readable: 10_250, ..source(20_000) };
    let (sender, peer) = (socket(Offload::Auto), plain());
    let mut batch = TxBatch::default();
    for n in 0..8 {
        batch.push(
            MEMORY,
            route(peer.local_addr().unwrap()),
            &[n; 8],
            ByteRange::at(9_000 + 300 * u64::from(n), 300),
            0,
        );
    }
    let mut transmitter = Transmitter::new(&sender);
    let mut errors = 0;
    while let Err(error) =
        transmitter.transmit(&sender, &mut batch, &mut connections(), &mut Seals::default(), &mut source)
    {
        assert!(matches!(error, SendError::Body { flow: MEMORY, .. }), "{error:?}");
        errors += 1;
    }
    assert_eq!((source.reads[0], errors), ((9_000, 2_400), 4));
    // 9,000 to 10,200 can be read: four bodies of 300 bytes.
    for n in 0..4u8 {
        let datagram = next(&peer);
        let start = 9_000 + 300 * usize::from(n);
        assert_eq!((&datagram[..8], &datagram[8..]), (&[n; 8][..], &source.memory[start..start + 300]));
    }
    nothing_more(&peer);
}

#[test]
fn transmit_goes_on_behind_what_failed() {
    let mut source = source(3 << 20);
    let (sender, peer) = (socket(Offload::Auto), plain());
    let to = route(peer.local_addr().unwrap());
    let mut batch = TxBatch::default();
    for flow in [MEMORY, BROKEN, OTHER, BROKEN, MEMORY] {
        batch.push(flow, to, &[flow.0 as u8; 8], ByteRange::at(1 << 20, 50), 0);
    }
    let mut transmitter = Transmitter::new(&sender);
    let mut errors = Vec::new();
    loop {
        match transmitter.transmit(&sender, &mut batch, &mut connections(), &mut Seals::default(), &mut source) {
            Ok(sent) => break assert_eq!(sent, Sent::All),
            Err(error) => errors.push(error.flow()),
        }
    }
    assert_eq!(errors, [BROKEN, BROKEN]);
    for flow in [MEMORY, OTHER, MEMORY] {
        assert_eq!(next(&peer)[0], flow.0 as u8);
    }
    nothing_more(&peer);
    assert!(transmitter.segments());
}

/// A socket on which the next calls to send fail like this.
struct Reported {
    socket: Socket,
    errors: std::cell::RefCell<Vec<Errno>>,
}

impl DatagramSocket for Reported {
    fn local_address(&self) -> SocketAddr {
        self.socket.local_address()
    }

    fn segments(&self) -> bool {
        self.socket.segments()
    }

    fn aggregates(&self) -> bool {
        self.socket.aggregates()
    }

    fn receive_buffer_bytes(&self) -> usize {
        self.socket.receive_buffer_bytes()
    }

    fn outgoing<'m>(&self, peer: SocketAddr, bytes: &'m [u8], segment: Option<u16>) -> Outgoing<'m> {
        self.socket.outgoing(peer, bytes, segment)
    }

    fn send<'m>(&self, messages: impl IntoIterator<Item = Outgoing<'m>>) -> io::Result<usize> {
        match self.errors.borrow_mut().pop() {
            Some(errno) => Err(errno.into()),
            None => self.socket.send(messages),
        }
    }

    fn receive(&self, slices: &mut [IoSliceMut<'_>], ends: &[usize], arrivals: &mut Vec<Arrival>) -> io::Result<()> {
        self.socket.receive(slices, ends, arrivals)
    }
}

#[test]
fn a_forged_report_that_datagrams_are_too_large_loses_none() {
    let mut source = source(200_000);
    let peer = plain();
    let to = route(peer.local_addr().unwrap());
    let errors = vec![Errno::MSGSIZE; usize::from(TOO_LARGE_BELIEVED) - 1];
    let sender = Reported { socket: socket(Offload::Auto), errors: errors.into() };
    let mut transmitter = Transmitter::new(&sender);
    for _ in 0..2 {
        let mut batch = TxBatch::default();
        batch.push(MEMORY, to, b"data", ByteRange::at(0, 400), 0);
        let sent = transmitter.transmit(&sender, &mut batch, &mut connections(), &mut Seals::default(), &mut source);
        assert_eq!(sent.unwrap(), Sent::All);
        assert_eq!(next(&peer).len(), 404);
        // What is counted is counted in a row.
        sender.errors.borrow_mut().extend([Errno::MSGSIZE; TOO_LARGE_BELIEVED as usize - 1]);
    }
}

#[test]
fn transmit_drops_probes_that_are_too_large_and_reports_data_that_is() {
    let mut source = source(200_000);
    let (sender, peer) = (socket(Offload::Auto), plain());
    let to = route(peer.local_addr().unwrap());
    let mut transmitter = Transmitter::new(&sender);
    let mut batch = TxBatch::default();
    batch.push(MEMORY, to, b"probe", ByteRange::default(), u16::MAX);
    batch.push(MEMORY, to, b"after", ByteRange::default(), 0);
    assert_eq!(
        transmitter.transmit(&sender, &mut batch, &mut connections(), &mut Seals::default(), &mut source).unwrap(),
        Sent::All
    );
    assert_eq!(next(&peer), b"after");
    // Those behind it that are as long are not tried; shorter ones are.
    for len in [66_000, 66_000, 66_001, 400, 66_000] {
        batch.push(MEMORY, to, b"data", ByteRange::at(0, len), 0);
    }
    let error =
        transmitter.transmit(&sender, &mut batch, &mut connections(), &mut Seals::default(), &mut source).unwrap_err();
    assert!(matches!(error, SendError::TooLarge { flow: MEMORY, bytes: 66_012, .. }), "{error:?}");
    let error =
        transmitter.transmit(&sender, &mut batch, &mut connections(), &mut Seals::default(), &mut source).unwrap_err();
    assert!(matches!(error, SendError::TooLarge { .. }), "{error:?}");
    assert_eq!(
        transmitter.transmit(&sender, &mut batch, &mut connections(), &mut Seals::default(), &mut source).unwrap(),
        Sent::All
    );
    assert_eq!(next(&peer).len(), 404);
    nothing_more(&peer);
}

#[test]
fn transmit_gives_segmentation_up_once_it_has_failed_and_loses_nothing() {
    let mut source = source(100_000);
    let (sender, peer) = (socket(Offload::Auto), plain());
    // The kernel cuts no message whose datagrams have no checksum: it says EINVAL, as for a device that cannot do it.
    set_option(std::os::fd::AsFd::as_fd(&sender), libc::SOL_SOCKET, libc::SO_NO_CHECK, 1).unwrap();
    let mut transmitter = Transmitter::new(&sender);
    let mut batch = TxBatch::default();
    for n in 0..30 {
        batch.push(MEMORY, route(peer.local_addr().unwrap()), &[n], ByteRange::at(u64::from(n) * 100, 100), 0);
    }
    assert!(transmitter.segments());
    assert_eq!(
        transmitter.transmit(&sender, &mut batch, &mut connections(), &mut Seals::default(), &mut source).unwrap(),
        Sent::All
    );
    assert!(!transmitter.segments());
    for n in 0..30 {
        assert_eq!(next(&peer)[0], n);
    }
    nothing_more(&peer);
}

#[test]
fn transmit_keeps_segmentation_when_the_peer_is_to_blame() {
    let mut source = source(1_000);
    let sender = socket(Offload::Auto);
    let mut transmitter = Transmitter::new(&sender);
    let mut batch = TxBatch::default();
    for n in 0..4 {
        // Port 0 cannot be sent to: EINVAL, segmented or not.
        batch.push(MEMORY, route("127.0.0.1:0".parse().unwrap()), &[n], ByteRange::at(0, 100), 0);
    }
    let mut errors = 0;
    while let Err(error) =
        transmitter.transmit(&sender, &mut batch, &mut connections(), &mut Seals::default(), &mut source)
    {
        assert!(matches!(error, SendError::Network { flow: MEMORY, .. }), "{error:?}");
        errors += 1;
    }
    assert!(errors > 0 && transmitter.segments());
}

#[test]
fn transmit_keeps_its_place_when_the_network_takes_no_more() {
    let (sender, peer) = (socket(Offload::Off), plain());
    let mut transmitter = Transmitter::new(&sender);
    let mut source = source(1_000);
    let mut batch = TxBatch::default();
    for n in 0..9 {
        batch.push(MEMORY, route(peer.local_addr().unwrap()), &[n; 8], ByteRange::at(u64::from(n) * 100, 92), 0);
    }
    transmitter.stage(&batch, &mut connections(), &mut Seals::default(), &mut source).unwrap();
    transmitter.advance(5);
    let reads = source.reads.len();
    for (errno, sent) in [(Errno::AGAIN, Sent::Full), (Errno::NOBUFS, Sent::NoMemory)] {
        assert_eq!(transmitter.blocked_by(&errno.into(), &batch).unwrap(), Some(sent));
        assert_eq!((transmitter.done, transmitter.staged.runs().len()), (5, 4));
    }
    assert_eq!(transmitter.blocked_by(&Errno::CONNREFUSED.into(), &batch).unwrap(), None);
    assert_eq!(transmitter.done, 5);
    // What was made ready leaves; it is not read again.
    assert_eq!(
        transmitter.transmit(&sender, &mut batch, &mut connections(), &mut Seals::default(), &mut source).unwrap(),
        Sent::All
    );
    (5..9).for_each(|n| assert_eq!(next(&peer)[0], n));
    nothing_more(&peer);
    assert_eq!(source.reads.len(), reads);
}

#[test]
fn what_a_sealed_flow_sends_opens_at_its_peer_and_nothing_of_a_forgotten_one_leaves() {
    let mut source = source(100_000);
    let secrets =
        |a, b| FlowSecrets { suite: Suite::Aes128Gcm, outgoing: Secret::new([a; 32]), incoming: Secret::new([b; 32]) };
    // Bodies are read, or sealed from where they lie, all or those before the 61st.
    for (offload, lent) in
        [Offload::Auto, Offload::Off].into_iter().flat_map(|it| [0, 30_000, 100_000].map(|n| (it, n)))
    {
        (source.lent, source.reads) = (lent, Vec::new());
        let (sender, peer) = (socket(offload), plain());
        let (mut connections, mut seals) = (connections(), Seals::default());
        seals.insert(MEMORY, ConnectionId(1), &secrets(1, 2), false);
        connections.remove(OTHER);
        let mut batch = TxBatch::default();
        for n in 0..100 {
            let flow = if n % 10 == 3 { OTHER } else { MEMORY };
            batch.push(flow, route(peer.local_addr().unwrap()), b"head", ByteRange::at(n * 500, 500), 0);
        }
        let sent = Transmitter::new(&sender).transmit(&sender, &mut batch, &mut connections, &mut seals, &mut source);
        assert_eq!(sent.unwrap(), Sent::All);
        let mut opener = Opener::new(Suite::Aes128Gcm, &Secret::new([1; 32]), false);
        let kept = (0..100).filter(|n| n % 10 != 3);
        for (number, n) in kept.enumerate() {
            let mut bytes = vec![0; 2000];
            let len = peer.recv(&mut bytes).unwrap();
            bytes.truncate(len);
            let body = &source.memory[n * 500..n * 500 + 500];
            assert!(!bytes.windows(8).any(|window| window == &body[..8]), "it can be read on the way");
            opener.open(&mut bytes);
            let envelope = Envelope::parse(&bytes).unwrap();
            assert_eq!((envelope.number, envelope.connection), (number as u32, CONNECTION));
            assert_eq!(bytes[ENVELOPE_LEN..len - TAG_LEN], [b"head", body].concat());
        }
        assert_eq!(source.reads.is_empty(), lent == 100_000);
    }
}
