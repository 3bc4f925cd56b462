//! Receiving from real sockets.

use std::time::{Duration, Instant};

use inhaul_transport::kit::Connections;
use inhaul_transport::{Route, TxBatch};

use super::*;
use crate::{BodySource, Clock, Event, Interest, Offload, Poller, Socket, SocketOptions, Transmitter};

/// An object in memory.
struct Memory(Vec<u8>);

impl BodySource for Memory {
    fn read(&mut self, _flow: FlowId, offset: u64, bodies: &mut [IoSliceMut<'_>]) -> io::Result<()> {
        let mut rest = &self.0[offset as usize..];
        for body in bodies {
            let (now, later) = rest.split_at(body.len());
            body.copy_from_slice(now);
            rest = later;
        }
        Ok(())
    }
}

/// Sends the object over real sockets and receives it by prediction, in bursts that the receive buffer holds.
fn haul(address: &str, offload: Offload, body: usize, sealed: bool) {
    let options = SocketOptions { offload, ..Default::default() };
    let receiving = Socket::bind(address.parse().unwrap(), &options).unwrap();
    let sending = Socket::bind(address.parse().unwrap(), &options).unwrap();
    let size = 300 * body + 37;
    let mut source = Memory((0..size as u64).map(|offset| pattern(FLOW, offset)).collect());
    let mut object = vec![0u8; size];
    let mut batch = TxBatch::default();
    let mut transmitter = Transmitter::new(&sending);
    let mut connections = Connections::default();
    connections.insert(ConnectionId(1), FLOW);
    let (_, mut seals) = Wire::new(sealed);
    let mut sending_seals = Seals::default();
    if sealed {
        let [incoming, outgoing] = secrets();
        let secrets = FlowSecrets { suite: Suite::Aes128Gcm, outgoing, incoming };
        sending_seals.insert(FLOW, ConnectionId(1), &secrets, false);
    }
    let route = Route::new(receiving.local_address(), ConnectionId(CONNECTION)).reading_marks();
    let mut receiver = Receiver::new(&receiving, HEAD + body + TAG_LEN);
    let mut endpoint = Endpoint::default();
    let (clock, mut poller, mut events) = (Clock::start(), Poller::new().unwrap(), Vec::<Event>::new());
    poller.add(&receiving, 0, Interest::Read).unwrap();
    let deadline = clock.now() + Span::from_secs(20);

    let mut bodies = (0..size).step_by(body).map(|at| ByteRange::new(at as u64, (at + body).min(size) as u64));
    let mut asked = 0;
    while endpoint.held[1].covered() < size as u64 {
        assert!(clock.now() < deadline, "only {} of {size} bytes came", endpoint.held[1].covered());
        if endpoint.held[1].covered() == asked {
            for range in bodies.by_ref().take(50) {
                batch.push(FLOW, route, &head(HEAD, FLOW, range.start)[ENVELOPE_LEN..], range, 0);
                asked = range.end;
            }
            assert_eq!(
                transmitter.transmit(&sending, &mut batch, &mut connections, &mut sending_seals, &mut source).unwrap(),
                crate::Sent::All
            );
        }
        poller.wait_until(clock, deadline, &mut events).unwrap();
        let first = endpoint.held[1].covered();
        let expected = Expected { head_len: HEAD, body_len: body, range: ByteRange::new(first, size as u64) };
        let window = Window { flow: FLOW, expected, memory: &mut object[first as usize..] };
        let batch = receiver.receive_into(&receiving, &mut seals, window).unwrap();
        assert!(batch.messages().iter().all(|message| message.from == sending.local_address()));
        let places = endpoint.handle(batch.messages());
        batch.deliver(&places, |delivery| Err(delivery.range)).unwrap();
    }
    assert!(object == source.0);
}

#[test]
fn sockets_haul_an_object_over_ipv4_and_ipv6_with_and_without_offloads() {
    for address in ["127.0.0.1:0", "[::1]:0"] {
        for offload in [Offload::Auto, Offload::Off] {
            for body in [1_400, 8_900] {
                haul(address, offload, body, false);
                haul(address, offload, body, true);
            }
        }
    }
}

/// A marked message of a socket of this address to one of that address.
fn is_marked(from: &str, to: &str, mark: u8) -> bool {
    let options = SocketOptions::default();
    let receiving = Socket::bind(to.parse().unwrap(), &options).unwrap();
    let sender = std::net::UdpSocket::bind(from).unwrap();
    if from.starts_with('[') {
        rustix::net::sockopt::set_ipv6_tclass(&sender, mark.into()).unwrap();
    } else {
        rustix::net::sockopt::set_ip_tos(&sender, mark).unwrap();
    }
    let local = std::net::UdpSocket::bind(from).unwrap().local_addr().unwrap().ip();
    sender.send_to(b"marked", SocketAddr::new(local, receiving.local_address().port())).unwrap();
    let mut receiver = Receiver::new(&receiving, 100);
    receiver.receive(&receiving, &mut Seals::default()).unwrap().messages()[0].congested
}

#[test]
fn messages_tell_whether_a_queue_has_marked_them() {
    // RFC 3168 section 5: both bits. The others of the byte are not ECN's.
    for (mark, marked) in [(0b00, false), (0b01, false), (0b10, false), (0b11, true), (0b1011_1011, true)] {
        for (from, to) in [("127.0.0.1:0", "127.0.0.1:0"), ("[::1]:0", "[::1]:0"), ("127.0.0.1:0", "[::]:0")] {
            assert_eq!(is_marked(from, to, mark), marked, "{mark:#b} from {from} to {to}");
        }
    }
}

#[test]
fn messages_tell_how_long_they_waited_for_their_reader() {
    // When the first socket of a machine asks for stamps, the kernel switches them on a while later, in the
    // background. Until then it stamps what is read as it is read.
    const STAMPS_ON: Duration = Duration::from_secs(10);
    // Far more than reading takes.
    const LATE: Duration = Duration::from_millis(2);
    for offload in [Offload::Auto, Offload::Off] {
        let options = SocketOptions { offload, ..Default::default() };
        let receiving = Socket::bind("127.0.0.1:0".parse().unwrap(), &options).unwrap();
        let sender = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut receiver = Receiver::new(&receiving, 100);
        let mut late_by = || {
            let sent = Instant::now();
            sender.send_to(b"late", receiving.local_address()).unwrap();
            // The message is there already: it waits for a reader that has something else to do.
            let arrived = Instant::now();
            while arrived.elapsed() < LATE {
                std::hint::spin_loop();
            }
            let waited = receiver.receive(&receiving, &mut Seals::default()).unwrap().messages()[0].waited;
            let most = Span::from_nanos(sent.elapsed().as_nanos() as u64);
            assert!(waited <= most, "{waited:?} of {most:?}");
            waited
        };
        let (began, late) = (Instant::now(), Span::from_nanos(LATE.as_nanos() as u64));
        while late_by() < late {
            assert!(began.elapsed() < STAMPS_ON, "no stamp is from before the message was read");
        }
    }
}
