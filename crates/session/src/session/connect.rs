//! The client's set-up: from a server's name to a session that is open.

use std::net::SocketAddr;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use inhaul_identity::{Fingerprint, Token};
use inhaul_protocols::registry;
use inhaul_store::digest::group_count;
use inhaul_store::{Listed, Manifest};
use inhaul_udp::Socket;

use crate::api::error::MoveError;
use crate::api::options::{Fallback, NetOptions, Stop};
use crate::api::proxy::Proxy;
use crate::api::source::Server;
use crate::api::trust::{Trust, UnknownServer};
use crate::session::control_stream::{ControlStream, StreamError};
use crate::session::dial::{dial, dial_at};
use crate::session::early::{Early, GROUPS_MAX};
use crate::session::early_path::{EarlyFlow, EarlyPath};
use crate::session::frame::{Frame, GroupDigest, MAX_PIECE, Memory, RefusalCode, SessionRole, VERSION};
use crate::session::handshake::HandshakeError;
use crate::session::patience::Patience;
use crate::session::proxy;
use crate::session::secured;
use crate::session::tls::Distrust;
use crate::system::sockets::{self, Ends, with_port};
use crate::system::threads;

/// How long a server may take to greet.
const GREETING_SECONDS: u64 = 10;
/// How often the stop flag is looked at.
const STOP_LOOK: Duration = Duration::from_millis(50);
/// A mirror has a head start of this before the next is asked too.
const STAGGER: Duration = Duration::from_millis(250);
/// Largest manifest that is taken, in bytes: of some ten million files. What a server claims to have to say has no end.
const MANIFEST_BYTES_MAX: u64 = 256 << 20;
/// Memory that a manifest may take, unless somebody says less. What it takes is in proportion to its bytes too.
const MANIFEST_MEMORY_MAX: u64 = 4 << 30;

/// The transport that is to carry a session's data.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'o> {
    /// Its name in the registry.
    pub(crate) transport: &'o str,
    /// Its parameters, names and values, for both ends.
    pub(crate) parameters: &'o [(String, String)],
    /// Which servers are believed.
    pub(crate) trust: &'o Trust,
    /// The largest packet, in bytes, if the user says so.
    pub(crate) mtu: Option<u16>,
}

impl<'o> Wanted<'o> {
    /// What the user has chosen.
    pub fn of(options: &'o NetOptions) -> Self {
        Self { transport: &options.transport, parameters: &options.parameters, trust: &options.trust, mtu: options.mtu }
    }

    /// What a session names that brings no data.
    pub fn no_data(trust: &'o Trust) -> Self {
        Self { transport: registry::DEFAULT.name, parameters: &[], trust, mtu: None }
    }
}

/// An open session with a server, before any data flows.
#[derive(Debug)]
pub struct Session {
    pub server: Server,
    pub stream: ControlStream,
    /// Where the server takes datagrams.
    pub datagrams: SocketAddr,
    /// Memory that its data set's manifest may take, in bytes.
    pub manifest_memory_max: u64,
    /// What came of its data set with the description.
    pub early: Option<Early>,
    /// The way of datagrams from the server, while it is probed.
    pub early_path: Option<EarlyPath>,
    /// The server has answered the greeting.
    pub greeted: bool,
    /// The fingerprint of the raw key that the server says it has.
    pub said_key: Option<Fingerprint>,
    /// We have connected to it, and may again.
    pub is_dialled: bool,
    /// Of which version the files of its data set are, if it was asked and has said so.
    pub files_version: Option<[u8; 32]>,
}

impl Session {
    /// Finds the server, connects and greets. What is asked for first leaves without waiting for the server's
    /// greeting, which comes before the answer: see [`Session::await_greeting`].
    pub fn connect(server: &Server, role: SessionRole, wanted: Wanted<'_>) -> Result<Self, MoveError> {
        Self::connect_at(server, None, role, wanted)
    }

    /// The same, at one of its addresses.
    pub(crate) fn connect_at(
        server: &Server,
        address: Option<SocketAddr>,
        role: SessionRole,
        wanted: Wanted<'_>,
    ) -> Result<Self, MoveError> {
        let dial = |packet| match (wanted.trust.proxy_for(server), address) {
            (Some(proxy), _) => proxy::connect(proxy, server, packet),
            (None, None) => dial(server, packet),
            (None, Some(address)) => dial_at(server, address, packet),
        };
        let patience = Duration::from_secs(GREETING_SECONDS);
        match secured::connect(server, wanted.trust, wanted.mtu, patience, dial) {
            Ok(stream) => Self::greet(server, stream, role, wanted),
            Err(secured::Failure::Unreached(error)) => Err(error),
            Err(secured::Failure::Handshake(error)) => Err(handshake_error(server, error)),
        }
    }

    /// A session whose datagrams come from where its stream does.
    pub fn over(server: Server, stream: ControlStream) -> Self {
        let datagrams = stream.peer();
        Self {
            server,
            datagrams,
            stream,
            manifest_memory_max: MANIFEST_MEMORY_MAX,
            early: None,
            early_path: None,
            greeted: true,
            said_key: None,
            is_dialled: false,
            files_version: None,
        }
    }

    fn greet(server: &Server, stream: ControlStream, role: SessionRole, wanted: Wanted<'_>) -> Result<Self, MoveError> {
        let mut session = Self { greeted: false, is_dialled: true, ..Self::over(server.clone(), stream) };
        match (wanted.trust.plaintext, session.stream.is_plaintext()) {
            (true, true) => log::info!("{server}: data goes in the clear"),
            (true, false) => log::warn!("{server}: it does not allow --plaintext, so data is sealed"),
            (false, _) => {}
        }
        let (transport, parameters) = (wanted.transport.to_owned(), wanted.parameters.to_vec());
        session.queue(&Frame::Hello { version: VERSION, role, transport, parameters })?;
        if let Some(token) = &server.ticket.token {
            session.queue(&Frame::Authorize { token: token.to_bytes() })?;
        }
        // The end of the handshake leaves with it.
        session.write()?;
        Ok(session)
    }

    /// Probes the way of datagrams, which are to come over a socket of their own, while the session is agreed on. A
    /// server takes them where it takes connections, nearly always: if not, its flow probes anew.
    pub fn probe_early(&mut self, options: &NetOptions) {
        self.early_path = EarlyPath::probe(options, self.ends());
    }

    /// The ends of the way of its datagrams.
    pub fn ends(&self) -> Ends {
        Ends { local: self.stream.local(), peer: self.datagrams }
    }

    /// The socket for the session's datagrams; and what is known of its probes, if it has been probed.
    pub fn take_socket(&mut self, options: &NetOptions) -> Result<(Socket, Option<EarlyFlow>), MoveError> {
        let sealed = !self.stream.is_plaintext();
        if let Some(found) = self.early_path.take().and_then(|path| path.into_socket(self.datagrams, sealed)) {
            return Ok(found);
        }
        match sockets::connect(options, self.ends()) {
            // Streams will carry them, as on a path that does not pass any.
            Err(error) if options.fallback != Fallback::Never && self.is_dialled => {
                log::info!("{}: {error}", self.server);
                Ok((sockets::bind(options, with_port(self.stream.local(), 0))?, None))
            }
            socket => Ok((socket?, None)),
        }
    }

    /// Waits until the server has greeted, which says where it takes datagrams; or refused.
    pub fn await_greeting(&mut self) -> Result<(), MoveError> {
        if std::mem::replace(&mut self.greeted, true) {
            return Ok(());
        }
        match self.receive(GREETING_SECONDS)? {
            Frame::Welcome { version: VERSION, udp_port, key } => {
                self.said_key = key.map(Fingerprint::from_bytes);
                self.datagrams.set_port(udp_port);
                log::debug!("{}: session open, datagrams go to {}", self.server, self.datagrams);
                Ok(())
            }
            Frame::Welcome { version, .. } => {
                Err(self.protocol_error(format!("it speaks version {version}, not {VERSION}")))
            }
            frame => Err(self.unexpected(&frame)),
        }
    }

    /// The fingerprint of the server's raw key: it has proven to have it, or, if it has shown a certificate instead, it
    /// says so. `None`: it is of an earlier release, and does not.
    pub fn raw_key(&mut self) -> Result<Option<Fingerprint>, MoveError> {
        if let Some(key) = self.stream.peer_key() {
            return Ok(Some(key));
        }
        self.await_greeting()?;
        Ok(self.said_key)
    }

    /// Asks for the version of the files that are opened next. Servers of earlier releases do not answer.
    pub fn ask_version(&mut self) -> Result<(), MoveError> {
        self.send(&Frame::AskVersion)
    }

    /// Asks for a data set and takes its manifest in; and up to `early` bytes of its content.
    pub fn open(&mut self, path: &str, owner: bool, attributes: bool, early: u32) -> Result<Manifest, MoveError> {
        let asked = Instant::now();
        let mut patience = Patience::for_listing();
        self.send(&Frame::Open { path: format!("/{path}"), owner, attributes, early })?;
        let manifest = self.manifest(&mut patience)?;
        if early > 0 {
            self.early = self.content(&manifest, early, asked, &mut patience)?;
        }
        Ok(manifest)
    }

    fn manifest(&mut self, patience: &mut Patience) -> Result<Manifest, MoveError> {
        let bytes_max = MANIFEST_BYTES_MAX.min(self.manifest_memory_max);
        let mut bytes = Vec::new();
        loop {
            match self.receive_patiently(patience)? {
                Frame::FilesVersion { version } if self.files_version.is_none() => self.files_version = Some(version),
                Frame::DataSet { last, bytes: piece } => {
                    self.check_piece(patience, last, piece.len())?;
                    if (bytes.len() + piece.len()) as u64 > bytes_max {
                        return Err(self.protocol_error(format!(
                            "its list of files is longer than {} MiB: move the data set in several parts, each by its own path",
                            bytes_max >> 20
                        )));
                    }
                    append(&mut bytes, &piece);
                    // What is no list of files from the start does not become one.
                    Manifest::check_beginning(&bytes).map_err(|error| self.protocol_error(error.to_string()))?;
                    if last {
                        let manifest = Manifest::decode_within(&bytes, self.manifest_memory_max);
                        return manifest.map_err(|error| self.protocol_error(error.to_string()));
                    }
                }
                frame => return Err(self.unexpected(&frame)),
            }
        }
    }

    /// All content of a data set that has no more than `early` bytes of it, or the first bytes of a larger one; `None`
    /// if the server does not send them.
    fn content(
        &mut self,
        manifest: &Manifest,
        early: u32,
        asked: Instant,
        patience: &mut Patience,
    ) -> Result<Option<Early>, MoveError> {
        let count = manifest.entries().iter().fold(0, |sum: u64, entry| sum.saturating_add(group_count(entry.size)));
        let is_small = manifest.size() <= u64::from(early) && count <= GROUPS_MAX;
        let count = if is_small { count } else { 0 };
        let mut digests: Vec<GroupDigest> = Vec::new();
        loop {
            match self.receive_patiently(patience)? {
                Frame::Digests { first_group, mut values }
                    if first_group == digests.len() as u64 && first_group + values.len() as u64 <= count =>
                {
                    patience.take(values.len() as u64);
                    digests.append(&mut values);
                }
                Frame::Content { bytes }
                    if is_small && (digests.len() as u64, bytes.len() as u64) == (count, manifest.size()) =>
                {
                    return Ok(Some(Early { is_all: true, digests, bytes, took: asked.elapsed() }));
                }
                Frame::Content { bytes } if digests.is_empty() && bytes.is_empty() => return Ok(None),
                Frame::Content { bytes }
                    if bytes.len() as u64 <= u64::from(early)
                        && (bytes.len() as u64) < manifest.size()
                        && !is_small =>
                {
                    return Ok(Some(Early { is_all: false, digests, bytes, took: asked.elapsed() }));
                }
                frame => return Err(self.unexpected(&frame)),
            }
        }
    }

    /// Asks what there is at `path`: see [`Session::listing`].
    pub fn list(&mut self, path: &str, recursive: bool) -> Result<(), MoveError> {
        self.send(&Frame::List { recursive, path: format!("/{path}") })
    }

    /// The next of what there is, and whether that is all.
    pub fn listing(&mut self, patience: &mut Patience) -> Result<(Vec<Listed>, bool), MoveError> {
        loop {
            match self.receive_patiently(patience)? {
                Frame::Listing { last, bytes } => {
                    self.check_piece(patience, last, bytes.len())?;
                    let items = Listed::decode_all(&bytes).map_err(|error| self.protocol_error(error.to_string()))?;
                    if last || !items.is_empty() {
                        return Ok((items, last));
                    }
                }
                frame => return Err(self.unexpected(&frame)),
            }
        }
    }

    /// Orders a transfer for which this host has the data; gives the token that probes carry, and the sessions that
    /// bring it.
    pub fn order(&mut self, order: Vec<u8>) -> Result<u64, MoveError> {
        self.delegate(order)?;
        match self.receive(GREETING_SECONDS)? {
            Frame::ProbeGrant { token } => Ok(token),
            frame => Err(self.unexpected(&frame)),
        }
    }

    /// Orders a transfer.
    pub fn delegate(&mut self, order: Vec<u8>) -> Result<(), MoveError> {
        if order.len() > MAX_PIECE {
            return Err(MoveError::Usage("these are too many patterns and sources for one transfer".to_owned()));
        }
        self.send(&Frame::Delegate { order })
    }

    /// Asks for leave to probe the server's UDP port; gives the token that probes carry.
    pub fn ask_to_probe(&mut self) -> Result<u64, MoveError> {
        self.send(&Frame::Probe)?;
        match self.receive(GREETING_SECONDS)? {
            Frame::ProbeGrant { token } => Ok(token),
            frame => Err(self.unexpected(&frame)),
        }
    }

    /// Says that there will be no more probes.
    pub fn finish_probing(mut self) {
        // A server that is gone has no need to know.
        let _ = self.send(&Frame::Finish);
    }

    /// Asks for a bench.
    pub fn open_bench(&mut self, size: u64, memory: Memory) -> Result<(), MoveError> {
        self.send(&Frame::Bench { size, memory })?;
        match self.receive(GREETING_SECONDS)? {
            Frame::DataSet { last: true, .. } => Ok(()),
            frame => Err(self.unexpected(&frame)),
        }
    }

    /// The digests of the next groups of a run that was asked for, which goes on at group `next` for `left` more.
    pub fn digests(&mut self, next: u64, left: u64, patience: &mut Patience) -> Result<Vec<GroupDigest>, MoveError> {
        match self.receive_patiently(patience)? {
            Frame::Digests { first_group, values }
                if first_group == next && !values.is_empty() && values.len() as u64 <= left =>
            {
                patience.take(values.len() as u64);
                Ok(values)
            }
            frame => Err(self.unexpected(&frame)),
        }
    }

    /// A piece of a long answer: those that say nothing are for nobody.
    fn check_piece(&self, patience: &mut Patience, last: bool, len: usize) -> Result<(), MoveError> {
        if patience.take(len as u64) || last {
            return Ok(());
        }
        Err(self.protocol_error("it sends pieces of an answer with nothing in them".to_owned()))
    }

    /// Asks for a token with which the host with the key `holder` may fetch what is at `path`; `None`: it needs none.
    pub fn ask_token(&mut self, path: &str, holder: Fingerprint) -> Result<Option<Token>, MoveError> {
        self.send(&Frame::AskToken { holder: *holder.bytes(), path: format!("/{path}") })?;
        match self.receive(GREETING_SECONDS)? {
            Frame::TokenGrant { token } if token.is_empty() => Ok(None),
            Frame::TokenGrant { token } => {
                let token = Token::from_bytes(&token);
                token.map(Some).map_err(|error| self.protocol_error(error.to_string()))
            }
            frame => Err(self.unexpected(&frame)),
        }
    }

    pub fn send(&mut self, frame: &Frame) -> Result<(), MoveError> {
        self.queue(frame)?;
        self.write()
    }

    fn queue(&mut self, frame: &Frame) -> Result<(), MoveError> {
        self.stream.queue(frame).map_err(|error| self.stream_error(&error, GREETING_SECONDS))
    }

    fn write(&mut self) -> Result<(), MoveError> {
        let sent = self.stream.write_all(Instant::now() + Duration::from_secs(GREETING_SECONDS));
        if sent.is_err() {
            // A server that turns clients away closes before it has read what they ask for. What it said first says
            // more.
            self.await_greeting()?;
        }
        sent.map_err(|error| self.stream_error(&error, GREETING_SECONDS))
    }

    fn receive(&mut self, seconds: u64) -> Result<Frame, MoveError> {
        self.await_greeting()?;
        let received = self.next_frame(Instant::now() + Duration::from_secs(seconds));
        received.map_err(|error| self.stream_error(&error, seconds))
    }

    /// Receives by the deadline of `patience`, unless the user stops it before.
    fn receive_patiently(&mut self, patience: &Patience) -> Result<Frame, MoveError> {
        self.await_greeting()?;
        let deadline = patience.deadline();
        loop {
            if patience.is_stopped() {
                return Err(MoveError::Interrupted);
            }
            match self.next_frame(deadline.min(Instant::now() + STOP_LOOK)) {
                Err(StreamError::TimedOut) if Instant::now() < deadline => {}
                received => return received.map_err(|error| self.stream_error(&error, patience.seconds())),
            }
        }
    }

    /// The next frame that is not the transport's: those are kept until the flow begins, if it does.
    fn next_frame(&mut self, deadline: Instant) -> Result<Frame, StreamError> {
        loop {
            match self.stream.receive(deadline)? {
                Frame::Protocol { message } => self.stream.keep(message)?,
                frame => return Ok(frame),
            }
        }
    }

    fn stream_error(&self, error: &StreamError, seconds: u64) -> MoveError {
        stream_error(&self.server, error, seconds)
    }

    fn protocol_error(&self, detail: String) -> MoveError {
        MoveError::Protocol { server: self.server.clone(), detail }
    }

    /// What a frame means that is not the answer hoped for.
    fn unexpected(&self, frame: &Frame) -> MoveError {
        unexpected(&self.server, frame)
    }
}

/// Appends to what may become long: there is little room in vain.
fn append(bytes: &mut Vec<u8>, piece: &[u8]) {
    if bytes.capacity() - bytes.len() < piece.len() {
        bytes.reserve_exact(piece.len().max(bytes.len() / 8));
    }
    bytes.extend_from_slice(piece);
}

fn handshake_error(server: &Server, error: HandshakeError) -> MoveError {
    match error {
        HandshakeError::NoTls => MoveError::Protocol { server: server.clone(), detail: error.to_string() },
        HandshakeError::Disagreed(_) => MoveError::Untrusted { server: server.clone(), detail: error.to_string() },
        HandshakeError::Stream(error) => stream_error(server, &error, GREETING_SECONDS),
        HandshakeError::Distrust(error) => distrusted(server, error),
        HandshakeError::Refused { code, text } => unexpected(server, &Frame::Refused { code, text }),
    }
}

fn stream_error(server: &Server, error: &StreamError, seconds: u64) -> MoveError {
    let server = server.clone();
    match error {
        StreamError::TimedOut | StreamError::Stuck => MoveError::TimedOut { server, seconds },
        // It has ended or its host has, or it is none of ours and hangs up on strangers.
        // What was damaged on the way is no better than a connection that broke: who the server is was settled by
        // the handshake.
        StreamError::Closed | StreamError::Io(_) | StreamError::Tls(_) => {
            MoveError::Unreachable { server, detail: error.to_string() }
        }
        StreamError::Frame(_) | StreamError::TooSoon | StreamError::TooMuchOptional | StreamError::InClear => {
            MoveError::Protocol { server, detail: error.to_string() }
        }
        StreamError::Spent => MoveError::Internal(error.to_string()),
        // An order with very many rules.
        StreamError::TooLong(_) => MoveError::Usage(error.to_string()),
    }
}

/// What a frame means that is not the answer hoped for.
fn unexpected(server: &Server, frame: &Frame) -> MoveError {
    let server = server.clone();
    match frame {
        Frame::Refused { code: RefusalCode::NotFound, text } => {
            MoveError::PathNotFound { server, detail: text.clone() }
        }
        Frame::Refused { code: RefusalCode::Busy, text } => MoveError::Busy { server, detail: text.clone() },
        Frame::Refused { code: RefusalCode::NoRight, text } => MoveError::NoRight { server, detail: text.clone() },
        Frame::Refused { text, .. } => MoveError::Refused { server, detail: text.clone() },
        _ => MoveError::Protocol { server, detail: "it answered out of turn".to_owned() },
    }
}

/// What to tell the user of a server that is not believed.
fn distrusted(server: &Server, error: Distrust) -> MoveError {
    let server = server.clone();
    match error {
        Distrust::Unknown(key) => MoveError::ServerKeyUnknown { server, key },
        Distrust::Changed { known, seen } => MoveError::ServerKeyChanged { server, known: Box::new(known), seen },
        Distrust::NotPinned { pinned, seen } => {
            MoveError::ServerKeyNotPinned { server, pinned: Box::new(pinned), seen }
        }
        Distrust::Here(detail) => MoveError::Untrusted { server, detail },
    }
}

/// The fingerprint of a server's key, which it has proven to have. Whether it is the right one is for the caller to
/// know.
///
/// # Errors
/// When the server cannot be reached, or no secure connection comes about.
pub fn server_key(server: &Server, proxy: Option<&Proxy>) -> Result<Fingerprint, MoveError> {
    let trust = Trust { unknown: UnknownServer::TakeAny, proxy: proxy.cloned(), ..Trust::default() };
    // No fingerprint that is expected stands in the way.
    let bare = Server::new(server.host.clone(), server.port);
    let session = Session::connect(&bare, SessionRole::Fetch, Wanted::no_data(&trust))?;
    session.stream.peer_key().ok_or_else(|| session.protocol_error("it has shown no key".to_owned()))
}

/// Runs the jobs at once, each on a thread, and gives their results in the jobs' order.
///
/// # Errors
/// When the user stops it: the threads are left to their time-outs.
pub fn at_once<T: Send + 'static>(jobs: Vec<Box<dyn FnOnce() -> T + Send>>, stop: &Stop) -> Result<Vec<T>, MoveError> {
    let (done, results) = mpsc::channel();
    let count = jobs.len();
    for (index, job) in jobs.into_iter().enumerate() {
        let done = done.clone();
        let run = move || {
            // Nobody listens any more once the user has stopped it.
            let _ = done.send((index, job()));
        };
        threads::spawn_helper("inhaul-connect", run)?;
    }
    drop(done);
    let mut ordered: Vec<Option<T>> = (0..count).map(|_| None).collect();
    let mut missing = count;
    while missing > 0 {
        if stop.is_set() {
            return Err(MoveError::Interrupted);
        }
        match results.recv_timeout(STOP_LOOK) {
            Ok((index, result)) => {
                ordered[index] = Some(result);
                missing -= 1;
            }
            Err(mpsc::RecvTimeoutError::Timeout) => {}
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                return Err(MoveError::Internal("a thread that connects has died".to_owned()));
            }
        }
    }
    Ok(ordered.into_iter().flatten().collect())
}

/// Runs the jobs, each a moment after the one before, or at once when those before have failed; the first that ends
/// well wins.
///
/// # Errors
/// When all have failed: what the last to fail says.
pub fn first_of<T: Send + 'static>(
    jobs: Vec<Box<dyn FnOnce() -> Result<T, MoveError> + Send>>,
) -> Result<T, MoveError> {
    let (done, results) = mpsc::channel();
    let mut jobs = jobs.into_iter();
    let mut running = 0;
    let mut failure = MoveError::Usage("a source has at least one server".to_owned());
    loop {
        if let Some(job) = jobs.next() {
            let done = done.clone();
            // Nobody listens any more once another one has won.
            threads::spawn_helper("inhaul-connect", move || drop(done.send(job())))?;
            running += 1;
        }
        let received = match jobs.len() {
            _ if running == 0 => return Err(failure),
            0 => results.recv().map_err(|_| mpsc::RecvTimeoutError::Disconnected),
            _ => results.recv_timeout(STAGGER),
        };
        match received {
            Ok(Ok(result)) => return Ok(result),
            Ok(Err(error)) => {
                failure = error;
                running -= 1;
            }
            Err(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    fn server(host: &str, port: u16) -> Server {
        Server::new(host, port)
    }

    #[test]
    fn connect_tells_an_unknown_host_from_one_where_nothing_listens() {
        let unknown = Session::connect(
            &server("no-such-host.invalid", 1),
            SessionRole::Fetch,
            Wanted::no_data(&Trust::default()),
        )
        .unwrap_err();
        assert!(matches!(unknown, MoveError::UnknownHost { .. }), "{unknown}");
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let nothing =
            Session::connect(&server("127.0.0.1", port), SessionRole::Fetch, Wanted::no_data(&Trust::default()))
                .unwrap_err();
        assert!(matches!(nothing, MoveError::Unreachable { .. }), "{nothing}");
    }

    #[test]
    fn connect_says_when_something_else_listens() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let other = std::thread::spawn(move || {
            use std::io::Write;
            let (mut tcp, _) = listener.accept().unwrap();
            tcp.write_all(b"SSH-2.0-OpenSSH\r\n").unwrap();
        });
        let server = server("127.0.0.1", port);
        let error = Session::connect(&server, SessionRole::Fetch, Wanted::no_data(&Trust::default())).unwrap_err();
        other.join().unwrap();
        assert!(matches!(error, MoveError::Protocol { .. }), "{error}");
    }

    #[test]
    fn first_of_takes_who_answers_first_and_else_says_why_nobody_does() {
        type Job = Box<dyn FnOnce() -> Result<u8, MoveError> + Send>;
        let fails = |text: &'static str| Box::new(move || Err(MoveError::Usage(text.to_owned()))) as Job;
        let (release, wait) = mpsc::channel::<()>();
        let silent = Box::new(move || wait.recv().map(|()| 1u8).map_err(|_| MoveError::Interrupted)) as Job;
        assert_eq!(first_of(vec![silent, fails("no"), Box::new(|| Ok(3))]).unwrap(), 3);
        drop(release);
        let error = first_of(vec![fails("first"), fails("last")]).unwrap_err();
        assert_eq!(error.to_string(), "last");
        assert!(first_of(Vec::<Job>::new()).is_err());
    }

    #[test]
    fn at_once_keeps_the_order() {
        let jobs: Vec<Box<dyn FnOnce() -> usize + Send>> = (0..5usize).map(|k| Box::new(move || k) as _).collect();
        assert_eq!(at_once(jobs, &Stop::new()).unwrap(), [0, 1, 2, 3, 4]);
    }
}
