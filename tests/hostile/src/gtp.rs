//! GTP by hand, as the receiving side.

use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use inhaul_base::{Bitrate, ByteRange};
use inhaul_mover::frame::{Frame, SessionRole};
use inhaul_protocols::gtp::wire::{HEADER_LEN, OwnMessage, SetupMore, VERSION};
use inhaul_transport::ConnectionId;
use inhaul_transport::kit::wire::{Message, PathDatagram};

use crate::datagram::FlowSeal;
use crate::session::Session;

/// The connection id of the server's datagrams of a hand-made flow.
pub const OURS: ConnectionId = ConnectionId(5);

/// A session whose data set is open and whose flow is set up. No datagram has been sent.
#[derive(Debug)]
pub struct GtpClient {
    /// The session.
    pub session: Session,
    /// The socket for the flow's datagrams, connected to nothing.
    pub udp: UdpSocket,
    /// The flow's keys.
    pub seal: FlowSeal,
    /// Where the server takes datagrams.
    pub server: SocketAddr,
    /// The connection id of the flow's datagrams to the server.
    pub connection: ConnectionId,
    /// The server's secret, which opens the path.
    pub token: u64,
    /// The object's size, as the server says it.
    pub size: u64,
    /// Largest IP packet that the server's side of the path carries, as it says.
    pub mtu: u16,
    /// The challenge of the last echo to the flow's own socket.
    pub challenge: u64,
    /// Requests so far.
    requests: u32,
    /// Probes so far.
    probes: u32,
}

/// The message by which a receiver that knows no rates sets a flow up.
pub fn setup(mtu: u16, size: u64) -> Vec<u8> {
    let more = SetupMore { receive_buffer: 1 << 20, access_rate: None, application_rate: None }.emit();
    Message::Setup { connection: OURS, mtu, size, more: &more }.emit(VERSION)
}

/// Arrivals in a stretch of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// Datagrams, of any kind.
    pub datagrams: u64,
    /// Their bytes, without those of IP and UDP.
    pub bytes: u64,
}

impl GtpClient {
    /// Opens `path` at `server` and sets up a flow for an MTU of 9000 bytes.
    pub fn open(server: SocketAddr, path: &str) -> Self {
        Self::open_with_mtu(server, path, 9000)
    }

    /// The same for another MTU.
    pub fn open_with_mtu(server: SocketAddr, path: &str, mtu: u16) -> Self {
        let mut session = Session::connect(server).unwrap();
        let udp_port = session.hello(SessionRole::Fetch, "gtp");
        session.open(path).unwrap_or_else(|heard| panic!("{path}: {heard:?}"));
        let udp = UdpSocket::bind((session.local_ip(), 0)).unwrap();
        let server = SocketAddr::new(server.ip(), udp_port);
        let seal = session.flow_seal();
        let mut client = Self {
            session,
            udp,
            seal,
            server,
            connection: OURS,
            token: 0,
            size: 0,
            mtu: 0,
            challenge: 0,
            requests: 0,
            probes: 0,
        };
        client.control_bytes(setup(mtu, 0));
        loop {
            let Frame::Protocol { message } = client.session.expect() else { continue };
            if let Ok(Message::Accept { connection, token, mtu, size, .. }) = Message::parse(VERSION, &message) {
                return Self { connection, token, mtu, size, ..client };
            }
        }
    }

    /// Sends a control message that every protocol has.
    pub fn control(&mut self, message: &Message<'_>) {
        self.control_bytes(message.emit(VERSION));
    }

    /// Sends these bytes as a control message. That the server has gone is for what follows to find out.
    pub fn control_bytes(&mut self, message: Vec<u8>) {
        let _ = self.session.send(&Frame::Protocol { message });
    }

    /// Sends a probe with `padding` bytes behind its header, from the flow's own socket.
    pub fn probe(&mut self, padding: usize) {
        let datagram = self.probe_datagram(padding);
        self.udp.send_to(&datagram, self.server).unwrap();
    }

    /// The next probe as on the network, for any socket.
    pub fn probe_datagram(&mut self, padding: usize) -> Vec<u8> {
        self.probes += 1;
        let probe = PathDatagram::Probe { token: self.token, number: self.probes, reply_to: OURS };
        let mut datagram = probe.emit().to_vec();
        datagram.resize(HEADER_LEN + padding, 0);
        self.seal.seal(self.connection, &datagram)
    }

    /// Returns the challenge from the flow's own socket: for a quarter of a second more, data may come.
    pub fn respond(&self) {
        self.udp.send_to(&self.response(), self.server).unwrap();
    }

    /// The response as on the network, for any socket.
    pub fn response(&self) -> Vec<u8> {
        self.seal.seal(self.connection, &PathDatagram::Response { token: self.token, challenge: self.challenge }.emit())
    }

    /// Opens the path from the flow's own socket, as an honest receiver does: probes until an echo has come, and
    /// returns its challenge.
    pub fn open_path(&mut self) {
        for _ in 0..20 {
            self.probe(0);
            let deadline = Instant::now() + Duration::from_millis(200);
            while let Some(datagram) = self.datagram(deadline.saturating_duration_since(Instant::now())) {
                if let Some(PathDatagram::Echo { challenge, .. }) = PathDatagram::parse(&datagram) {
                    self.challenge = challenge;
                    self.respond();
                    return;
                }
            }
        }
        panic!("no probe was echoed");
    }

    /// Asks for these ranges, given as start and length, in blocks of `block` bytes.
    pub fn request(&mut self, block: u16, ranges: &[(u64, u64)]) {
        self.requests += 1;
        let ranges = ranges.iter().map(|&(start, len)| ByteRange::at(start, len)).collect();
        self.control(&Message::Request { id: self.requests, block, ranges });
    }

    /// Asks for this rate and these bursts, in bytes.
    pub fn rate(&mut self, epoch: u16, bps: u64, burst: u32) {
        self.control_bytes(OwnMessage::Rate { epoch, rate: Bitrate::from_bps(bps), burst }.emit());
    }

    /// The part behind the envelope of the next undamaged datagram at the flow's own socket, within `within`.
    pub fn datagram(&self, within: Duration) -> Option<Vec<u8>> {
        let deadline = Instant::now() + within;
        let mut buffer = vec![0; 1 << 16];
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            self.udp.set_read_timeout(Some(left)).unwrap();
            let came = self.udp.recv(&mut buffer).ok();
            if let Some(datagram) = came.and_then(|len| self.seal.open(OURS, &buffer[..len])) {
                return Some(datagram);
            }
        }
    }
}

impl Received {
    /// Counts arrivals at `socket` for `stretch`.
    pub fn at(socket: &UdpSocket, stretch: Duration) -> Self {
        let deadline = Instant::now() + stretch;
        let mut buffer = vec![0; 1 << 16];
        let mut received = Self::default();
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return received;
            }
            socket.set_read_timeout(Some(left)).unwrap();
            if let Ok(len) = socket.recv(&mut buffer) {
                received.datagrams += 1;
                received.bytes += len as u64;
            }
        }
    }
}
