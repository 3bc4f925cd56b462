//! The control stream: frames over one TCP connection, first blocking (set-up), then polled (engine).
//!
//! TLS is in here, below the frames and above TCP: see `session::handshake`. What is read is opened before it
//! reaches `incoming`. What is sent is sealed as soon as it is queued, so `outgoing`, and every limit on it, counts
//! what really leaves.
//!
//! The engine does not know about TLS.

use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use inhaul_identity::Fingerprint;
use inhaul_udp::seal::FlowSecrets;
use rustix::net::sockopt;

use crate::session::allowance::Allowance;
use crate::session::frame::{Frame, FrameError, MAX_FRAME};
use crate::session::slots::Slot;
use crate::session::tls::Seal;

/// Most bytes that may wait to be written: a few of the largest frames. Nobody who asks for [`ControlStream::room`]
/// comes near it.
const MAX_OUTGOING: usize = 4 * MAX_FRAME;
/// There is room as long as less than this waits to be written: what is urgent must not wait long behind it.
const ROOM_BYTES: usize = 64 * 1024;
/// What stands before a frame and says how long it is.
const LENGTH_BYTES: usize = 4;
/// Bytes that are asked for in one call.
const CHUNK: usize = 64 * 1024;
/// The same where they are sealed: a record or more (RFC 8446 5.1). A server has many streams that wait with this.
const SEALED_CHUNK: usize = 17 * 1024;
/// The same before the peer is known: a first message, or more.
const RAW_CHUNK: usize = 2 * 1024;
/// Most bytes taken from the socket at one go, so that one busy stream does not starve the others.
const FILL_BYTES: usize = 256 * 1024;
/// Most bytes that a stream keeps for what is to come while nothing is under way.
const SPARE_BYTES: usize = 4 * 1024;

/// The purposes of numbers that only the two ends of a session know: see [`ControlStream::exporter`].
const TUNNELS: &str = "EXPORTER-inhaul-tunnels";
const PROBES: &str = "EXPORTER-inhaul-probes";

/// Control messages of a transport that may wait for the flow to begin here, and their bytes. A sender has to say two
/// or three things before it hears anything.
const KEPT_MAX: usize = 8;
const KEPT_BYTES_MAX: usize = 16 * 1024;

/// How long a stream is quiet before TCP asks whether the peer's host is still there.
const KEEPALIVE: Duration = Duration::from_secs(10);
/// How long TCP waits for an answer before it asks again.
const KEEPALIVE_PROBE: Duration = Duration::from_secs(5);
/// A host that answers nothing for so long is gone, or has another address now.
const UNANSWERED_MAX: Duration = Duration::from_secs(30);

/// Why a control stream cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    /// The peer closed the connection.
    #[error("the connection was closed")]
    Closed,
    /// Nothing whole came in time.
    #[error("no answer in time")]
    TimedOut,
    /// The peer takes nothing of what is sent to it, for too long or while more waits for it than may.
    #[error("the peer does not read its control stream")]
    Stuck,
    /// A message was to be sent that is longer than a frame can be: a fault of this side.
    #[error("a message of {0} bytes is longer than a control stream carries")]
    TooLong(usize),
    /// A second flow was begun over it: a fault of this side.
    #[error("the stream has had its flow")]
    Spent,
    /// The peer's transport has said more than may wait before the flow begins.
    #[error("it sends control messages for a flow that has not begun")]
    TooSoon,
    /// The peer sends nothing but frames that may be ignored, or too many of them.
    #[error("it sends too many messages that mean nothing here: more than {frames} at once, or {kib} KiB of them",
        frames = Allowance::FRAMES, kib = Allowance::BYTES / 1024)]
    TooMuchOptional,
    /// The peer sent something that is no frame.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// What came was not what the peer had sealed: it was damaged on the way.
    #[error("the secure connection broke: {0}")]
    Tls(#[source] rustls::Error),
    /// The peer says something in the clear.
    #[error("it does not secure its connections")]
    InClear,
    /// The connection broke.
    #[error("the connection broke: {0}")]
    Io(#[source] io::Error),
}

/// A connection that carries frames both ways: over TCP, but in tests of the engine, which have connections of their
/// own.
#[derive(Debug)]
pub struct ControlStream<W = TcpStream> {
    wire: W,
    /// `None`: not secured yet, or in a test of the engine.
    seal: Option<Box<Seal>>,
    peer: SocketAddr,
    local: SocketAddr,
    /// What has come in; frames before `taken` have been handed out.
    incoming: Vec<u8>,
    taken: usize,
    /// What waits to go out, sealed; bytes before `written` are gone.
    outgoing: Vec<u8>,
    written: usize,
    /// Bytes that the connection has taken, of all that was ever sent.
    taken_bytes: u64,
    /// Most bytes that a frame of the peer may have just now.
    frame_max: usize,
    /// How many frames that may be ignored the peer has sent.
    ignored: Allowance,
    /// The transport's control messages that came before its flow began.
    kept: Vec<Vec<u8>>,
    /// What the keys of the stream's flow come from has been handed out.
    spent: bool,
    /// What they come from in a test without TLS.
    #[cfg(any(test, feature = "testing"))]
    given: Option<FlowSecrets>,
    /// The place among a server's sessions that it takes.
    slot: Option<Slot>,
}

impl ControlStream {
    /// Takes a connection over, in blocking mode.
    ///
    /// # Errors
    /// When the connection is gone already.
    pub fn new(tcp: TcpStream) -> io::Result<Self> {
        tcp.set_nodelay(true)?;
        // A peer that vanished without a word is found out. One that is only stopped is not gone: its host still
        // answers.
        sockopt::set_socket_keepalive(&tcp, true)?;
        sockopt::set_tcp_keepidle(&tcp, KEEPALIVE)?;
        sockopt::set_tcp_keepintvl(&tcp, KEEPALIVE_PROBE)?;
        sockopt::set_tcp_user_timeout(&tcp, UNANSWERED_MAX.as_millis() as u32)?;
        // An IPv4 peer of a socket for both is plain IPv4, as its datagrams will be.
        let plain = |address: SocketAddr| match address.ip().to_canonical() {
            ip @ IpAddr::V4(_) => SocketAddr::new(ip, address.port()),
            IpAddr::V6(_) => address,
        };
        let (peer, local) = (plain(tcp.peer_addr()?), plain(tcp.local_addr()?));
        Ok(Self::over(tcp, peer, local))
    }

    /// Blocking: sends a frame, all of it before `deadline`.
    ///
    /// # Errors
    /// When the connection breaks, the peer does not read, or the frame is too long.
    pub fn send(&mut self, frame: &Frame, deadline: Instant) -> Result<(), StreamError> {
        self.queue(frame)?;
        self.write_all(deadline)
    }

    /// Blocking: sends what was queued, all of it before `deadline`.
    ///
    /// # Errors
    /// When the connection breaks or the peer does not read.
    pub fn write_all(&mut self, deadline: Instant) -> Result<(), StreamError> {
        while self.written < self.outgoing.len() {
            self.wire.set_write_timeout(Some(left(deadline)?)).map_err(StreamError::Io)?;
            self.write_some()?;
        }
        self.trim_outgoing();
        Ok(())
    }

    /// Blocking: the next frame, if all of it comes before `deadline`.
    ///
    /// # Errors
    /// When the connection ends or breaks, time is up, or no frame comes.
    pub fn receive(&mut self, deadline: Instant) -> Result<Frame, StreamError> {
        loop {
            if let Some(frame) = self.next_frame()? {
                return Ok(frame);
            }
            self.wire.set_read_timeout(Some(left(deadline)?)).map_err(StreamError::Io)?;
            self.read_some()?;
        }
    }

    /// Blocking: bytes as they come from the connection, before `deadline`: for the handshake.
    pub(super) fn read_raw(&mut self, deadline: Instant) -> Result<Vec<u8>, StreamError> {
        let mut bytes = vec![0; RAW_CHUNK];
        loop {
            self.wire.set_read_timeout(Some(left(deadline)?)).map_err(StreamError::Io)?;
            match self.wire.read(&mut bytes) {
                Ok(0) => return Err(StreamError::Closed),
                Ok(len) => {
                    bytes.truncate(len);
                    return Ok(bytes);
                }
                Err(error) => _ = nothing_yet(error)?,
            }
        }
    }

    /// Blocking: drops what comes, so many bytes of it at most and until `deadline`, without a look at it.
    pub fn discard(&mut self, bytes_max: usize, deadline: Instant) {
        self.forget_incoming();
        let (mut left_bytes, mut bytes) = (bytes_max, vec![0; CHUNK]);
        while left_bytes > 0
            && let Ok(left) = left(deadline)
            && self.wire.set_read_timeout(Some(left)).is_ok()
        {
            match self.wire.read(&mut bytes) {
                Ok(0) | Err(_) => return,
                Ok(len) => left_bytes = left_bytes.saturating_sub(len),
            }
        }
    }

    /// What comes in and what goes out, for the handshake.
    pub(super) fn buffers(&mut self) -> (&mut Vec<u8>, &mut Vec<u8>) {
        (&mut self.incoming, &mut self.outgoing)
    }

    /// From now on everything is sealed, and opened.
    pub(super) fn set_seal(&mut self, seal: Seal) {
        self.seal = Some(Box::new(seal));
    }

    /// Closes the stream, with a last word. It fits into the connection's buffer, or is not said: nobody waits here.
    pub fn end_with(mut self, last: &Frame) {
        if self.set_polled().is_err() {
            return;
        }
        // A peer that is gone already needs no word. One whose own words are here unread would be reset rather than told.
        let _ = self.queue(last).and_then(|()| self.flush());
        let _ = self.fill();
    }

    /// Ends set-up: from now on the stream is polled.
    ///
    /// # Errors
    /// When the connection is gone.
    pub fn set_polled(&mut self) -> io::Result<()> {
        self.wire.set_nonblocking(true)
    }
}

impl<W: Read + Write> ControlStream<W> {
    /// Frames over `wire`, which leads from our address `local` to `peer`.
    pub fn over(wire: W, peer: SocketAddr, local: SocketAddr) -> Self {
        Self {
            wire,
            seal: None,
            peer,
            local,
            incoming: Vec::new(),
            taken: 0,
            outgoing: Vec::new(),
            written: 0,
            taken_bytes: 0,
            frame_max: MAX_FRAME,
            ignored: Allowance::default(),
            kept: Vec::new(),
            spent: false,
            #[cfg(any(test, feature = "testing"))]
            given: None,
            slot: None,
        }
    }

    /// The same, with keys for its flow.
    #[cfg(any(test, feature = "testing"))]
    pub fn with_flow_secrets(self, secrets: FlowSecrets) -> Self {
        Self { given: Some(secrets), ..self }
    }

    /// From now on a frame of the peer may have no more bytes than this: an unfinished one is memory that the peer has
    /// this side hold.
    pub fn limit_frames(&mut self, bytes_max: usize) {
        self.frame_max = bytes_max;
    }

    /// Holds a place among a server's sessions as long as the stream is open.
    pub fn hold(&mut self, slot: Slot) {
        self.slot = Some(slot);
    }

    /// Gives it another connection, for fuzzers: what has come in stays.
    pub fn replace_wire(&mut self, wire: W) {
        self.wire = wire;
    }

    /// Bytes of memory that it has for what comes in.
    pub fn held_bytes(&self) -> usize {
        self.incoming.capacity()
    }

    /// What its bytes go over: to wait for it.
    pub fn wire(&self) -> &W {
        &self.wire
    }

    /// The fingerprint of the peer's raw key; `None` if it has shown none, or a certificate.
    pub fn peer_key(&self) -> Option<Fingerprint> {
        self.seal.as_ref().and_then(|seal| seal.peer_key())
    }

    /// Bytes that only the two ends of this stream know, the same at both: keys for what goes beside it (RFC 8446 7.5,
    /// RFC 5705). Each purpose has a `label` of its own, which begins with `EXPORTER`; each flow and each direction a
    /// `context`. `None` if the stream is not secured.
    pub fn exporter<const N: usize>(&self, label: &str, context: &[u8]) -> Option<[u8; N]> {
        self.seal.as_ref().and_then(|seal| seal.export(label, context))
    }

    /// What the keys of the stream's one flow come from; `None`: its datagrams go in the clear, because the stream does,
    /// or because both sides have said so over it.
    ///
    /// # Errors
    /// When it was handed out before: with the same keys a second flow would repeat packet numbers.
    pub fn take_flow_secrets(&mut self) -> Result<Option<FlowSecrets>, StreamError> {
        if std::mem::replace(&mut self.spent, true) {
            return Err(StreamError::Spent);
        }
        #[cfg(any(test, feature = "testing"))]
        if let Some(secrets) = self.given.take() {
            return Ok(Some(secrets));
        }
        self.seal.as_ref().map_or(Ok(None), |seal| seal.flow_secrets().map_err(StreamError::Tls))
    }

    /// What streams show that are to carry the datagrams of this stream's session: nobody else can know it. `None` if
    /// the stream is not secured.
    pub fn tunnel_token(&self) -> Option<u128> {
        self.exporter(TUNNELS, &[]).map(u128::from_be_bytes)
    }

    /// What probes show by which the session's client says where its datagrams come from.
    pub fn probe_token(&self) -> Option<u64> {
        self.exporter(PROBES, &[]).map(u64::from_be_bytes)
    }

    /// Whether both sides have agreed to leave datagrams in the clear.
    pub fn is_plaintext(&self) -> bool {
        self.seal.as_ref().is_some_and(|seal| seal.is_plaintext())
    }

    /// The peer's address.
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// Our own address on this connection.
    pub fn local(&self) -> SocketAddr {
        self.local
    }

    /// Keeps a control message of the transport until its flow begins.
    ///
    /// # Errors
    /// When the peer has sent more of them than may wait.
    pub fn keep(&mut self, message: Vec<u8>) -> Result<(), StreamError> {
        let bytes: usize = self.kept.iter().map(Vec::len).sum();
        if self.kept.len() >= KEPT_MAX || bytes + message.len() > KEPT_BYTES_MAX {
            return Err(StreamError::TooSoon);
        }
        self.kept.push(message);
        Ok(())
    }

    /// The flow begins: what its transport has said before.
    pub fn take_kept(&mut self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.kept)
    }

    /// Whether bytes have been taken in that nobody has looked at: those who poll are not told of them.
    pub fn has_incoming(&self) -> bool {
        self.incoming.len() > self.taken
    }

    /// Drops what has been taken in and not looked at.
    pub fn forget_incoming(&mut self) {
        (self.incoming, self.taken) = (Vec::new(), 0);
    }

    /// Polled: takes in what has come. A bounded amount at a time; a readiness poller will call again.
    ///
    /// # Errors
    /// When the connection ended or broke. Frames that came before are still to be had from [`Self::next_frame`].
    pub fn fill(&mut self) -> Result<(), StreamError> {
        let mut taken = 0;
        while taken < FILL_BYTES {
            match self.read_some()? {
                0 => break,
                n => taken += n,
            }
        }
        Ok(())
    }

    /// The next frame that is here whole. Those that may be ignored are, as long as there are not too many of them: see
    /// `Allowance`.
    ///
    /// # Errors
    /// When the bytes are no frame, or there are too many of those.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, StreamError> {
        while let Some((frame, used)) = Frame::parse_within(&self.incoming[self.taken..], self.frame_max)? {
            self.taken += used;
            if !matches!(frame, Frame::Optional { .. }) {
                return Ok(Some(frame));
            }
            if !self.ignored.take(Instant::now(), used) {
                return Err(StreamError::TooMuchOptional);
            }
        }
        self.incoming.drain(..self.taken);
        self.taken = 0;
        if self.incoming.is_empty() && self.incoming.capacity() > SPARE_BYTES {
            self.incoming = Vec::new();
        }
        Ok(None)
    }

    /// Polled: queues a frame; [`Self::flush`] sends it.
    ///
    /// # Errors
    /// When it is too long; nothing is queued then.
    pub fn queue(&mut self, frame: &Frame) -> Result<(), StreamError> {
        let mut plain = Vec::new();
        frame.encode(&mut plain);
        let bytes = plain.len() - LENGTH_BYTES;
        if bytes > frame.len_max() {
            return Err(StreamError::TooLong(bytes));
        }
        self.queue_bytes(&plain)
    }

    /// Polled: queues bytes, frames or not: for tools and tests that break the rules.
    ///
    /// # Errors
    /// When TLS does not take them.
    pub fn queue_bytes(&mut self, plain: &[u8]) -> Result<(), StreamError> {
        match &mut self.seal {
            Some(seal) => seal.seal(plain, &mut self.outgoing).map_err(StreamError::Io),
            None => {
                self.outgoing.extend_from_slice(plain);
                Ok(())
            }
        }
    }

    /// Polled: writes what the connection takes just now.
    ///
    /// # Errors
    /// When the connection broke, or leaves more waiting than may.
    pub fn flush(&mut self) -> Result<(), StreamError> {
        while self.backlog() > 0 && self.write_some()? > 0 {}
        self.trim_outgoing();
        if self.backlog() > MAX_OUTGOING { Err(StreamError::Stuck) } else { Ok(()) }
    }

    /// Bytes that may be queued before whoever has much to send waits until more is written. It sends pieces, of any
    /// size that is not too long, while there is any room, and goes on when there is some again. What is small and
    /// urgent need not ask.
    pub fn room(&self) -> usize {
        ROOM_BYTES.saturating_sub(self.backlog())
    }

    /// Bytes that the connection has taken: it grows as long as the peer reads.
    pub fn taken_bytes(&self) -> u64 {
        self.taken_bytes
    }

    /// Bytes that wait to be written.
    pub fn backlog(&self) -> usize {
        self.outgoing.len() - self.written
    }

    /// Reads once; 0 when nothing has come yet.
    fn read_some(&mut self) -> Result<usize, StreamError> {
        if self.seal.is_some() {
            return self.read_sealed();
        }
        let held = self.incoming.len();
        self.incoming.resize(held + CHUNK, 0);
        let result = self.wire.read(&mut self.incoming[held..]);
        self.incoming.truncate(held + result.as_ref().copied().unwrap_or(0));
        match result {
            Ok(0) => Err(StreamError::Closed),
            Ok(n) => Ok(n),
            Err(error) => nothing_yet(error),
        }
    }

    /// The same where it is sealed: so many bytes have come as the network has carried.
    fn read_sealed(&mut self) -> Result<usize, StreamError> {
        let Self { wire, seal: Some(seal), incoming, outgoing, .. } = self else { return Ok(0) };
        let mut bytes = vec![0; SEALED_CHUNK];
        let len = match wire.read(&mut bytes) {
            Ok(0) => return Err(StreamError::Closed),
            Ok(len) => len,
            Err(error) => return nothing_yet(error),
        };
        if let Err(error) = seal.open(&bytes[..len], incoming, outgoing) {
            // The peer is told why, if it still listens.
            let _ = self.write_some();
            return Err(StreamError::Tls(error));
        }
        Ok(len)
    }

    /// Writes once; 0 when nothing is taken yet.
    fn write_some(&mut self) -> Result<usize, StreamError> {
        match self.wire.write(&self.outgoing[self.written..]) {
            Ok(0) => Err(StreamError::Closed),
            Ok(n) => {
                self.written += n;
                self.taken_bytes += n as u64;
                Ok(n)
            }
            Err(error) => nothing_yet(error),
        }
    }

    fn trim_outgoing(&mut self) {
        self.outgoing.drain(..self.written);
        self.written = 0;
        // Of a large frame nothing stays: a server has many streams, and most are quiet.
        if self.outgoing.is_empty() && self.outgoing.capacity() > SPARE_BYTES {
            self.outgoing = Vec::new();
        }
    }
}

/// Time left before `deadline`.
fn left(deadline: Instant) -> Result<Duration, StreamError> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(StreamError::TimedOut) } else { Ok(left) }
}

fn nothing_yet(error: io::Error) -> Result<usize, StreamError> {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted => Ok(0),
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => Err(StreamError::Closed),
        _ => Err(StreamError::Io(error)),
    }
}

#[cfg(test)]
mod tests;
