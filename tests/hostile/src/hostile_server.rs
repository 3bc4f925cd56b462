//! A server that answers its clients by a script.

use std::collections::VecDeque;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use inhaul_mover::frame::{Frame, GroupDigest, PartOf};
use inhaul_protocols::gtp::wire::{DataHeader, HEADER_LEN, OwnMessage, VERSION};
use inhaul_store::digest;
use inhaul_store::digest::proof::{Outboard, prove};
use inhaul_transport::ConnectionId;
use inhaul_transport::kit::wire::{Message, PathDatagram, Reader, rate_field};

use crate::datagram::FlowSeal;
use crate::gtp::OURS;
use crate::manifest::RawManifest;
use crate::session::{Heard, Session, session_version};

/// How long a client may take for its greeting and for its request to open.
const STEP: Duration = Duration::from_secs(10);
/// The secret with which a client's probes open the path.
const TOKEN: u64 = 0x1122_3344_5566_7788;
/// Datagrams that leave in one go.
const BURST: usize = 64;

/// A server on loopback whose every session is left to a script.
pub struct HostileServer {
    /// Where it listens, TCP and UDP.
    pub address: SocketAddr,
    endpoint: Arc<Endpoint>,
    accepting: Option<JoinHandle<()>>,
}

/// A script's data beside its session.
#[derive(Debug)]
pub struct Endpoint {
    /// The socket at the server's UDP port; it never blocks.
    pub udp: UdpSocket,
    udp_port: u16,
    sent: AtomicU64,
    sessions: AtomicU64,
    stop: AtomicBool,
}

impl HostileServer {
    /// Starts one; `script` is run for each connection, on a thread of its own, and the connection closed when it
    /// returns.
    pub fn start(script: impl Fn(&mut Session, &Endpoint) + Send + Sync + 'static) -> Self {
        let (tcp, udp) = bind_both();
        let address = tcp.local_addr().unwrap();
        udp.set_nonblocking(true).unwrap();
        let endpoint = Arc::new(Endpoint {
            udp,
            udp_port: address.port(),
            sent: AtomicU64::new(0),
            sessions: AtomicU64::new(0),
            stop: AtomicBool::new(false),
        });
        let shared = Arc::clone(&endpoint);
        let script = Arc::new(script);
        let accepting = std::thread::spawn(move || {
            while let Ok((stream, _)) = tcp.accept() {
                if shared.stopped() {
                    return;
                }
                shared.sessions.fetch_add(1, Ordering::Relaxed);
                let (endpoint, script) = (Arc::clone(&shared), Arc::clone(&script));
                let Ok(mut session) = Session::over(stream) else { continue };
                std::thread::spawn(move || script(&mut session, &endpoint));
            }
        });
        Self { address, endpoint, accepting: Some(accepting) }
    }

    /// A server that answers every request to open with `offer`, and serves it.
    pub fn offer(offer: Offer) -> Self {
        Self::start(move |session, endpoint| {
            if endpoint.greet(session).is_some() {
                endpoint.serve(session, &offer);
            }
        })
    }

    /// The address of `path`, which begins with a slash.
    pub fn source(&self, path: &str) -> String {
        format!("inhaul://{}{path}", self.address)
    }

    /// Bytes of data that it has sent.
    pub fn sent(&self) -> u64 {
        self.endpoint.sent.load(Ordering::Relaxed)
    }

    /// Connections that it has had.
    pub fn sessions(&self) -> u64 {
        self.endpoint.sessions.load(Ordering::Relaxed)
    }
}

impl Drop for HostileServer {
    fn drop(&mut self) {
        self.endpoint.stop.store(true, Ordering::Relaxed);
        // Wakes the thread that accepts.
        let _ = std::net::TcpStream::connect(self.address);
        self.accepting.take().and_then(|thread| thread.join().ok());
    }
}

/// A TCP and a UDP socket on one free port of loopback.
fn bind_both() -> (TcpListener, UdpSocket) {
    for _ in 0..100 {
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        if let Ok(udp) = UdpSocket::bind(tcp.local_addr().unwrap()) {
            return (tcp, udp);
        }
    }
    panic!("no port is free for both TCP and UDP");
}

/// The data that a hostile server serves by GTP.
pub struct Offer {
    /// The manifest's bytes.
    pub manifest: Vec<u8>,
    /// How large it says the data set is.
    pub size: u64,
    /// The bytes of the data set.
    pub bytes: Vec<u8>,
    /// The digest of a group; `None`: it is never sent.
    pub digest: Box<dyn Fn(u64) -> Option<GroupDigest> + Send + Sync>,
    /// Its answer to a request for a part's proof; `None`: no answer.
    pub proof: Box<dyn Fn(PartOf) -> Option<Frame> + Send + Sync>,
    /// Time between two datagrams, if they are not sent as fast as they can be.
    pub drip: Option<Duration>,
}

impl Offer {
    /// One file, honestly.
    pub fn file(name: &str, bytes: Vec<u8>) -> Self {
        let len = bytes.len() as u64;
        let digests: Vec<GroupDigest> = (0..digest::group_count(len))
            .map(|group| {
                let range = digest::group_range(len, group);
                digest::group_digest(len, group, &bytes[range.start as usize..range.end as usize])
            })
            .collect();
        let digest = move |group: u64| digests.get(group as usize).copied();
        let manifest = RawManifest::file(name, len).encode();
        let proof = honest_proofs(bytes.clone());
        Self { manifest, size: len, bytes, digest: Box::new(digest), proof: Box::new(proof), drip: None }
    }

    /// A manifest with nothing behind it: no bytes, and no digest ever.
    pub fn manifest(manifest: &RawManifest) -> Self {
        let size = manifest.files.iter().fold(0, |sum: u64, file| sum.saturating_add(file.size));
        let (digest, proof) = (Box::new(|_| None), Box::new(|_| None));
        Self { manifest: manifest.encode(), size, bytes: Vec::new(), digest, proof, drip: None }
    }
}

/// The proofs of parts of a file that has these bytes.
pub fn honest_proofs(bytes: Vec<u8>) -> impl Fn(PartOf) -> Option<Frame> + Send + Sync {
    let len = bytes.len() as u64;
    let of_group = move |bytes: &[u8], group: u64| {
        let range = digest::group_range(len, group);
        bytes[range.start as usize..range.end as usize].to_vec()
    };
    let groups = (0..digest::group_count(len)).map(|group| digest::group_digest(len, group, &of_group(&bytes, group)));
    let outboard = Outboard::new(len, groups.collect());
    move |part| {
        let group = of_group(&bytes, part.group);
        let digest = digest::group_digest(len, part.group, &group);
        let inside = prove(len, part.group, &group, part.chunks());
        let path = outboard.as_ref()?.path(part.group, u32::from(part.levels));
        Some(Frame::Proof { part, digest, inside, path })
    }
}

impl Endpoint {
    /// Whether the test is done with the server.
    pub fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Does nothing for `stretch`, or until the test is done.
    pub fn wait(&self, stretch: Duration) {
        crate::wait_for(stretch, || self.stopped());
    }

    /// Takes the client's greeting, answers it by the rules, and returns the client's next message.
    pub fn greet(&self, session: &mut Session) -> Option<Frame> {
        let Heard::Frame(Frame::Hello { .. }) = session.receive(STEP) else { return None };
        session.send(&Frame::Welcome { version: session_version(), udp_port: self.udp_port, key: None }).ok()?;
        match session.receive(STEP) {
            Heard::Frame(frame) => Some(frame),
            _ => None,
        }
    }

    /// Sends a manifest.
    pub fn data_set(&self, session: &mut Session, manifest: &[u8]) {
        send_manifest(session, manifest);
    }

    /// Sends the manifest, and behind it these digests and this content, whether the client waits for them or not.
    pub fn data_set_with(&self, session: &mut Session, offer: &Offer, digests: Vec<GroupDigest>, content: &[u8]) {
        send_pieces(session, &offer.manifest);
        if !digests.is_empty() {
            let _ = session.send(&Frame::Digests { first_group: 0, values: digests });
        }
        let _ = session.send(&Frame::Content { bytes: content.to_vec() });
    }

    /// Serves requests until the client finishes or leaves.
    pub fn attend(&self, session: &mut Session, offer: &Offer) {
        serve(session, &self.udp, offer, &self.sent, || self.stopped());
    }

    /// Sends the manifest and serves requests until the client finishes or leaves.
    pub fn serve(&self, session: &mut Session, offer: &Offer) {
        send_manifest(session, &offer.manifest);
        serve(session, &self.udp, offer, &self.sent, || self.stopped());
    }
}

/// Sends a manifest, and says that the content does not come with it, if the client wants to know.
fn send_manifest(session: &mut Session, manifest: &[u8]) {
    send_pieces(session, manifest);
    if session.wants_content() {
        let _ = session.send(&Frame::Content { bytes: Vec::new() });
    }
}

/// Sends a manifest in pieces.
fn send_pieces(session: &mut Session, manifest: &[u8]) {
    let pieces = manifest.chunks(1 << 19).count().max(1);
    for (index, piece) in manifest.chunks(1 << 19).chain(manifest.is_empty().then_some(manifest)).enumerate() {
        let _ = session.send(&Frame::DataSet { last: index + 1 == pieces, bytes: piece.to_vec() });
    }
}

impl Offer {
    /// Brings it to a server over an attached session of a put, until the server has finished or is gone, or it is
    /// stopped.
    pub(crate) fn bring(&self, session: &mut Session, udp: &UdpSocket, stopped: impl Fn() -> bool) {
        send_manifest(session, &self.manifest);
        serve(session, udp, self, &AtomicU64::new(0), stopped);
    }
}

/// Serves requests on a session; `sent` counts the bytes of data.
fn serve(session: &mut Session, udp: &UdpSocket, offer: &Offer, sent: &AtomicU64, stopped: impl Fn() -> bool) {
    udp.set_nonblocking(true).unwrap();
    let mut flow = Flow::new(session.flow_seal());
    while !stopped() {
        let patience = if flow.blocks.is_empty() { Duration::from_millis(5) } else { Duration::ZERO };
        match session.receive(patience) {
            Heard::Frame(Frame::Protocol { message }) => flow.control(session, &message, offer.size),
            Heard::Frame(Frame::DigestsOf { runs }) => {
                for group in runs.iter().flat_map(|run| run.first..run.first.saturating_add(run.count)) {
                    let Some(value) = (offer.digest)(group) else { break };
                    let _ = session.send(&Frame::Digests { first_group: group, values: vec![value] });
                }
            }
            Heard::Frame(Frame::ProofsOf { parts }) => {
                for frame in parts.into_iter().filter_map(&offer.proof) {
                    let _ = session.send(&frame);
                }
            }
            Heard::Frame(Frame::Finish) => {
                let _ = session.send(&Frame::Bye);
                return;
            }
            Heard::Frame(_) | Heard::Silence => {}
            Heard::End | Heard::Garbled(_) => return,
        }
        flow.probes(udp);
        sent.fetch_add(flow.data(udp, offer), Ordering::Relaxed);
    }
}

/// The sending side of one flow, without any care for rates.
struct Flow {
    seal: FlowSeal,
    /// The receiver's connection id of the flow.
    connection: ConnectionId,
    epoch: u16,
    peer: Option<SocketAddr>,
    /// The requests: number, offset and length.
    blocks: VecDeque<(u32, u64, u64)>,
    /// When the last datagram left.
    last: Option<Instant>,
}

impl Flow {
    fn new(seal: FlowSeal) -> Self {
        let (connection, epoch, peer, blocks, last) = Default::default();
        Self { seal, connection, epoch, peer, blocks, last }
    }

    fn control(&mut self, session: &mut Session, message: &[u8], size: u64) {
        match Message::parse(VERSION, message) {
            Ok(Message::Setup { connection, mtu, .. }) => {
                self.connection = connection;
                let accept = Message::Accept { connection: OURS, token: TOKEN, mtu, size, more: &rate_field(None) };
                let _ = session.send(&Frame::Protocol { message: accept.emit(VERSION) });
            }
            Ok(Message::Request { id, block, ranges }) => {
                for range in ranges {
                    let cuts = (range.start..range.end).step_by(usize::from(block));
                    self.blocks.extend(cuts.map(|at| (id, at, u64::from(block).min(range.end - at))));
                }
            }
            Ok(Message::Own { kind, body }) => {
                if let Ok(OwnMessage::Rate { epoch, .. }) = OwnMessage::parse(kind, Reader(body)) {
                    self.epoch = epoch;
                }
            }
            Ok(Message::Cancel { through }) => self.blocks.retain(|&(id, ..)| id > through),
            _ => {}
        }
    }

    /// Echoes probes.
    fn probes(&mut self, udp: &UdpSocket) {
        let mut buffer = [0; 1 << 16];
        while let Ok((len, from)) = udp.recv_from(&mut buffer) {
            let Some(datagram) = self.seal.open(OURS, &buffer[..len]) else { continue };
            let Some(PathDatagram::Probe { number, reply_to, .. }) = PathDatagram::parse(&datagram) else { continue };
            self.peer = Some(from);
            let echo = PathDatagram::Echo { number, challenge: 1, len: datagram.len() as u16 };
            let mut echo = echo.emit().to_vec();
            echo.resize(datagram.len(), 0);
            let _ = udp.send_to(&self.seal.seal(reply_to, &echo), from);
        }
    }

    /// Sends due datagrams, and returns the number of their bytes of data.
    fn data(&mut self, udp: &UdpSocket, offer: &Offer) -> u64 {
        let Some(peer) = self.peer else { return 0 };
        let due = match (offer.drip, self.last) {
            (Some(gap), Some(last)) => usize::from(last.elapsed() >= gap),
            (Some(_), None) => 1,
            (None, _) => BURST,
        };
        let mut sent = 0;
        for (request, offset, len) in self.blocks.drain(..due.min(self.blocks.len())) {
            let clock = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
            let header = DataHeader { epoch: self.epoch, request, offset, sent: clock.as_nanos() as u64 };
            let mut datagram = Vec::with_capacity(HEADER_LEN + len as usize);
            datagram.extend_from_slice(&header.emit());
            let (start, end) = (offset as usize, (offset + len) as usize);
            // Missing data is sent as zeros.
            let body = offer.bytes.get(start..end.min(offer.bytes.len())).unwrap_or_default();
            datagram.extend_from_slice(body);
            datagram.resize(HEADER_LEN + len as usize, 0);
            let _ = udp.send_to(&self.seal.seal(self.connection, &datagram), peer);
            sent += len;
            self.last = Some(Instant::now());
        }
        sent
    }
}
