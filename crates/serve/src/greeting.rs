//! The server's set-up: one client's session up to the point where data can flow. Blocking, on a thread of its own.
//!
//! A transport's parameters travel in the greeting. The server applies them to the one flow, unless its user keeps a
//! value (`serve --set`).

use std::cell::Cell;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use inhaul_base::byte_text::bytes_of;
use inhaul_identity::audit::Event;
use inhaul_identity::{Fingerprint, Right, Token};
use inhaul_protocols::registry::{self, Protocols};
use inhaul_store::{DataSet, ListOptions, ScanOptions, printable};
use inhaul_transport::{Protocol, Role};

use crate::attaching::{self, Carries};
use crate::catalogue::Catalogue;
use crate::early::content_frames;
use crate::gate::{Caller, Reach};
use crate::half_open::Waiting;
use crate::house::{House, Service};
use crate::orders::Orders;
use crate::passes::Pass;
use crate::serving::{Described, Fetcher};
use inhaul_engine::engine::net::{self, Transport};
use inhaul_engine::engine::probe::ProbeDesk;
use inhaul_session::session::control_stream::{ControlStream, StreamError};
use inhaul_session::session::frame::{
    Frame, FrameError, MAX_FRAME, MIDDLE_FRAME, Memory, RefusalCode, SMALL_FRAME, SessionRole, VERSION,
};
use inhaul_session::session::handshake::HandshakeError;
use inhaul_session::session::refusal::{GreetingError, refused};
use inhaul_session::session::slots::{Full, Slot};

/// How long a client may take, in all, until it is let in: for its handshake, its greeting and its request.
const ENTRY: Duration = Duration::from_secs(10);
/// How long a client may take for each step from then on.
const STEP: Duration = Duration::from_secs(10);
/// How long a client that was refused may take to close.
const LINGER: Duration = Duration::from_secs(1);
/// Most bytes that it may still send: a long order, and no more.
const LINGER_BYTES: usize = 2 * MAX_FRAME;
/// How long a client may take for a piece of a listing; for a manifest so long, and as long as its bytes take at ...
const PIECE: Duration = Duration::from_secs(30);
/// ... so many in a second: a client that takes them more slowly holds a place for nothing.
const MANIFEST_BYTES_PER_SEC_MIN: u64 = 8 * 1024;
/// Most bytes of a manifest in one frame: what waits for a client that does not read is no more than that.
const MANIFEST_PIECE: usize = 64 * 1024;
/// The same of a listing.
const LISTING_PIECE: usize = MANIFEST_PIECE;
/// How long a server may take to ask for what a client brings.
const ATTACHED: Duration = Duration::from_secs(60);
/// How long files may have to be left alone at most before their version is told.
const SETTLED: Duration = Duration::from_millis(25);
/// How long a client may probe.
const PROBING: Duration = Duration::from_secs(60);

/// A client's way in: it waits among those who are half open, and has a session's place once it is let in.
struct Entry {
    by: Instant,
    waiting: Cell<Option<Waiting>>,
    slot: Cell<Option<Slot>>,
}

impl Entry {
    /// Lets a client in that may have what it wants. From now on its right is watched.
    fn admit(&self, house: &House, caller: &Caller, right: Right, path: &str) -> Result<Pass, GreetingError> {
        self.take_place(house, caller)?;
        Ok(house.passes.issue(caller, right, path))
    }

    fn take_place(&self, house: &House, caller: &Caller) -> Result<(), Full> {
        let slot = house.slots.take(caller.address.ip(), caller.name())?;
        self.slot.set(Some(slot));
        self.waiting.take();
        house.counters.sessions.add(1);
        Ok(())
    }
}

/// A session that is set up, and waits for the data thread.
#[derive(Debug)]
pub enum Arrival {
    /// Its client wants a data set.
    Fetcher(Fetcher),
    /// Its client wants a bench.
    Bencher(Bencher),
    /// It carries the datagrams of the session that was granted the token.
    Tunnel(ControlStream, u128),
}

/// A session of somebody who wants a bench.
#[derive(Debug)]
pub struct Bencher {
    pub stream: ControlStream,
    /// The protocol that is to carry the data.
    pub transport: Transport,
    /// [`SessionRole::BenchFetch`] or [`SessionRole::BenchPush`].
    pub role: SessionRole,
    pub size: u64,
    pub memory: Memory,
}

/// What a client wants, once it is known that it can have it.
enum ClientRequest {
    /// A data set.
    Fetch(Described, String, Pass),
    /// To bring one of the data sets that were ordered from it.
    Attach { orders: Arc<dyn Orders>, token: u64, source: u16 },
    /// To carry another session's datagrams.
    Tunnel(u128),
    /// A bench.
    Bench { role: SessionRole, size: u64, memory: Memory },
    /// Nothing more.
    Nothing,
}

/// Greets a client and finds out what it wants; `None` when it wanted no data and has had what it wanted. A client
/// that cannot have it is told why. It is `waiting` until it is let in; then the session holds a slot as long as it is
/// open.
pub(crate) fn greet(tcp: TcpStream, waiting: Waiting, house: &House) -> Result<Option<Arrival>, GreetingError> {
    let mut stream = ControlStream::new(tcp).map_err(StreamError::Io)?;
    // Who has shown no right yet has this side hold little.
    stream.limit_frames(SMALL_FRAME);
    let by = Instant::now() + ENTRY;
    let entry = Entry { by, waiting: Cell::new(Some(waiting)), slot: Cell::default() };
    let secured = stream.accept_tls(house.gate.tls(), by).map_err(not_secured);
    match secured.and_then(|()| converse(&mut stream, house, &entry)) {
        Ok((transport, request)) => {
            stream.limit_frames(MIDDLE_FRAME);
            entry.slot.take().into_iter().for_each(|slot| stream.hold(slot));
            Ok(request.grant(stream, transport))
        }
        Err(error) => {
            house.counters.refuse(error.cause());
            let (client, reason) = (stream.peer().to_string(), error.to_string());
            log::info!("{client}: no session: {error}");
            // What a client may not do has been written down with what it wanted.
            if !matches!(&error, GreetingError::Refused { code: RefusalCode::NoRight, .. }) {
                house.gate.audit().write(&Event::NoSession { client: &client, reason: &reason });
            }
            if let Some((code, text)) = error.refusal() {
                // The client may be gone already.
                let _ = stream.send(&Frame::Refused { code, text }, Instant::now() + STEP);
                // What the client has asked for already is taken in: unread, it would have the kernel reset the
                // connection, and the refusal might be lost.
                stream.discard(LINGER_BYTES, Instant::now() + LINGER);
            }
            Err(error)
        }
    }
}

/// Why a client could not be secured. One that speaks in the clear is told so in the clear.
fn not_secured(error: HandshakeError) -> GreetingError {
    match error {
        HandshakeError::Stream(StreamError::InClear) => {
            refused(RefusalCode::Version, "this server secures all connections: install the same release on both")
        }
        HandshakeError::Stream(error) => error.into(),
        HandshakeError::NoTls
        | HandshakeError::Disagreed(_)
        | HandshakeError::Distrust(_)
        | HandshakeError::Refused { .. } => refused(RefusalCode::Malformed, error.to_string()),
    }
}

impl ClientRequest {
    /// Hands the session over to whoever fulfils it; to the data thread, when one comes out of it.
    fn grant(self, stream: ControlStream, transport: Transport) -> Option<Arrival> {
        match self {
            Self::Fetch(described, path, pass) => {
                Some(Arrival::Fetcher(Fetcher { stream, transport, described, path, pass: Some(pass) }))
            }
            Self::Tunnel(token) => Some(Arrival::Tunnel(stream, token)),
            Self::Bench { role, size, memory } => {
                Some(Arrival::Bencher(Bencher { stream, transport, role, size, memory }))
            }
            Self::Attach { orders, token, source } => {
                orders.attach(token, source, stream);
                None
            }
            Self::Nothing => None,
        }
    }
}

/// Exchanges greetings: what the client has come for, and the transport that it wants.
fn exchange_greetings(
    stream: &mut ControlStream,
    house: &House,
    by: Instant,
) -> Result<(SessionRole, Transport), GreetingError> {
    let House { service, gate, net, udp_port, .. } = house;
    let Frame::Hello { version, role, transport, parameters } = stream.receive(by)? else {
        return Err(refused(RefusalCode::Malformed, "a client greets first"));
    };
    if version != VERSION {
        let text = format!(
            "this server speaks version {VERSION} of the session protocol, not {version}: install the same release on both"
        );
        return Err(refused(RefusalCode::Version, text));
    }
    check_role(service, role)?;
    let Some(transport) = net.protocols.find(&transport) else {
        let text = format!("this server does not know the transport '{transport}': see 'inhaul protocols' there");
        return Err(refused(RefusalCode::UnknownTransport, text));
    };
    let parameters = settle_parameters(net.protocols, transport, &net.parameters, parameters, role)?;
    if let Some(what) = registry::unfair(transport, &parameters).filter(|_| net.fair_only) {
        let text =
            format!("this server lets in only what is fair to other traffic: leave out {what} (its --fair-only)");
        return Err(refused(RefusalCode::NotAllowed, text));
    }
    let transport = Transport { name: transport.name, parameters: parameters.into() };
    let key = Some(*gate.key().bytes());
    stream.send(&Frame::Welcome { version: VERSION, udp_port: *udp_port, key }, by)?;
    Ok((role, transport))
}

fn converse(
    stream: &mut ControlStream,
    house: &House,
    entry: &Entry,
) -> Result<(Transport, ClientRequest), GreetingError> {
    let House { service, gate, udp_port, desk, .. } = house;
    let (role, transport) = exchange_greetings(stream, house, entry.by)?;
    let name_left_out = match service {
        Service::Files(catalogue, _) => catalogue.name_left_out(),
        Service::Bench => None,
    };
    let mut caller = Caller { address: stream.peer(), key: stream.peer_key(), token: None, name_left_out };
    let mut first = receive_request(stream, house, &caller, role, entry.by)?;
    if let Frame::Authorize { token } = &first {
        let token = Token::from_bytes(token).map_err(|error| refused(RefusalCode::NoRight, error.to_string()))?;
        caller.token = Some(token);
        first = receive_request(stream, house, &caller, role, entry.by)?;
    }
    let wants_version = matches!(first, Frame::AskVersion);
    if wants_version {
        first = stream.receive(entry.by)?;
    }
    let may = |right: Right, path: &str| -> Result<(Reach, Pass), GreetingError> {
        let reach = gate.check(&caller, right, path)?;
        Ok((reach, entry.admit(house, &caller, right, path)?))
    };
    let request = match (first, role, service) {
        (Frame::Open { path, owner, attributes, early }, SessionRole::Fetch, Service::Files(catalogue, _)) => {
            let (reach, pass) = may(Right::Read, &path)?;
            let bytes = bytes_of(&path);
            let shown = printable(&bytes);
            log::info!("{}: fetches {shown} over {}", stream.peer(), transport.name);
            let options = ScanOptions { owner, attributes, no_links: !reach.is_all() };
            let wanted = Wanted { early, version: wants_version };
            ClientRequest::Fetch(open(stream, catalogue, &bytes, options, wanted)?, shown, pass)
        }
        (Frame::List { recursive, path }, SessionRole::Fetch, Service::Files(catalogue, _)) => {
            let (reach, pass) = may(Right::Read, &path)?;
            let began = Instant::now();
            let options = ListOptions { recursive, no_links: !reach.is_all() };
            let bytes = bytes_of(&path);
            let items = send_listing(stream, catalogue, &bytes, options, &pass)?;
            let (shown, seconds) = (printable(&bytes), began.elapsed().as_secs_f64());
            log::info!("{}: listed {shown}: {items} items in {seconds:.1} s", stream.peer());
            ClientRequest::Nothing
        }
        (Frame::Probe, SessionRole::Fetch, Service::Files(..)) => {
            gate.check_any(&caller)?;
            entry.take_place(house, &caller)?;
            attaching::note(house, &caller, "probe");
            log::info!("{}: probes the path", stream.peer());
            attend_probes(stream, desk)?;
            ClientRequest::Nothing
        }
        (Frame::Delegate { order }, SessionRole::Delegate, Service::Files(_, Some(orders))) => {
            orders.attend(stream, &order, &transport, *udp_port, &may)?;
            ClientRequest::Nothing
        }
        (Frame::Attach { token, source }, SessionRole::Attach, Service::Files(_, Some(orders))) => {
            attaching::check(house, Some(&**orders), Carries::DataSet(token))?;
            entry.take_place(house, &caller)?;
            attaching::note(house, &caller, "attach");
            ClientRequest::Attach { orders: Arc::clone(orders), token, source }
        }
        // Who has the token has been let in.
        (Frame::AttachTunnel { token }, SessionRole::Tunnel, Service::Files(_, orders)) => {
            attaching::check(house, orders.as_deref(), Carries::Datagrams(token))?;
            entry.take_place(house, &caller)?;
            attaching::note(house, &caller, "carry datagrams");
            ClientRequest::Tunnel(token)
        }
        (Frame::AskToken { holder, path }, SessionRole::Fetch, Service::Files(..)) => {
            let token = gate.delegate(&caller, &path, Fingerprint::from_bytes(holder))?;
            let token = token.map(|token| token.to_bytes()).unwrap_or_default();
            stream.send(&Frame::TokenGrant { token }, Instant::now() + STEP)?;
            ClientRequest::Nothing
        }
        (Frame::Bench { size, memory }, SessionRole::BenchFetch | SessionRole::BenchPush, Service::Bench) => {
            may(Right::Read, "/")?;
            log::info!("{}: benches over {}", stream.peer(), transport.name);
            stream.send(&Frame::DataSet { last: true, bytes: Vec::new() }, Instant::now() + STEP)?;
            ClientRequest::Bench { role, size, memory }
        }
        _ => return Err(refused(RefusalCode::Malformed, "that is not what the client came for")),
    };
    Ok((transport, request))
}

/// What the client wants. An order may be long, of a client that has some right here: as long as not too many others
/// bring such orders just now.
fn receive_request(
    stream: &mut ControlStream,
    house: &House,
    caller: &Caller,
    role: SessionRole,
    by: Instant,
) -> Result<Frame, GreetingError> {
    let mut share = house.orders_being_read.share();
    let is_known = role == SessionRole::Delegate && house.gate.knows(caller);
    let has_room = is_known && share.hold(MAX_FRAME);
    stream.limit_frames(if has_room { MAX_FRAME } else { SMALL_FRAME });
    let received = stream.receive(by);
    stream.limit_frames(MIDDLE_FRAME);
    match received {
        Err(StreamError::Frame(FrameError::BadLength(bytes))) if is_known && bytes as usize <= MAX_FRAME => {
            Err(refused(RefusalCode::Busy, "it is reading as many long orders as it can: try again later"))
        }
        Err(StreamError::Frame(FrameError::BadLength(_))) if role == SessionRole::Delegate && !is_known => {
            // Its refusal says what is missing.
            house.gate.check_any(caller)?;
            Err(refused(RefusalCode::NoRight, "a client without a right here brings no long orders"))
        }
        received => Ok(received?),
    }
}

/// What holds for a flow: what the server's user has set, which no client may change, and what the client's has.
fn settle_parameters(
    protocols: Protocols,
    transport: &'static Protocol,
    own: &[(String, String)],
    asked: Vec<(String, String)>,
    role: SessionRole,
) -> Result<Vec<(String, String)>, GreetingError> {
    let mut settled = net::known_to(transport, own);
    // What only a receiver reads it has to know: it is not told what this server's user has set.
    let client_receives = matches!(role, SessionRole::Fetch | SessionRole::BenchFetch);
    let is_unknown = |(name, own): &&(String, String)| {
        let default = registry::receivers_default(name);
        default.is_some_and(|default| default != own) && !asked.iter().any(|(asked, _)| asked == name)
    };
    if let Some((name, own)) = settled.iter().find(is_unknown).filter(|_| client_receives) {
        let how = registry::how_to_ask(name, own, &asked);
        let text = format!("this server keeps '{name}' of {} at '{own}': {how}", transport.name);
        return Err(refused(RefusalCode::NotAllowed, text));
    }
    for (name, value) in asked {
        match settled.iter().find(|(own, _)| *own == name) {
            None => settled.push((name, value)),
            Some((_, own)) if *own == value => {}
            Some((_, own)) => {
                let text = format!("this server keeps '{name}' of {} at '{own}': leave it at that", transport.name);
                return Err(refused(RefusalCode::NotAllowed, text));
            }
        }
    }
    let tried = net::try_endpoint(protocols, transport.name, settled.clone(), Role::Sender, net::Rates::default());
    tried.map_err(|error| refused(RefusalCode::NotAllowed, error.to_string()))?;
    Ok(settled)
}

/// Whether this server is there for such clients.
fn check_role(service: &Service, role: SessionRole) -> Result<(), GreetingError> {
    match (service, role) {
        (Service::Files(..), SessionRole::Fetch | SessionRole::Tunnel)
        | (Service::Files(_, Some(_)), SessionRole::Delegate | SessionRole::Attach)
        | (Service::Bench, SessionRole::BenchFetch | SessionRole::BenchPush) => Ok(()),
        (Service::Files(_, None), SessionRole::Delegate | SessionRole::Attach) => Err(refused(
            RefusalCode::NotAllowed,
            "this server takes nothing in; its user can let it: inhaul serve --accept-puts DIR",
        )),
        (Service::Files(..), _) => Err(refused(
            RefusalCode::WrongService,
            "this server offers files: 'inhaul bench --server' on its host, with another --listen port, is what a bench needs",
        )),
        (Service::Bench, _) => Err(refused(
            RefusalCode::WrongService,
            "this server is for benches: 'inhaul serve DIR' on its host, with another --listen port, offers files",
        )),
    }
}

/// What a client wants beside the description of a data set.
#[derive(Clone, Copy)]
struct Wanted {
    /// Bytes of content, if there are no more.
    early: u32,
    /// The version of the files.
    version: bool,
}

/// Finds a data set and sends its manifest, and what else is wanted.
fn open(
    stream: &mut ControlStream,
    catalogue: &Catalogue,
    path: &[u8],
    options: ScanOptions,
    Wanted { early, version }: Wanted,
) -> Result<Described, GreetingError> {
    let data_set = catalogue.open(path, options, stream.peer().ip())?;
    if version {
        stream.queue(&Frame::FilesVersion { version: settled_version(data_set.data_set()) })?;
    }
    let content = if early == 0 { Vec::new() } else { content_frames(&data_set, early.min(catalogue.early_max())) };
    let early_bytes =
        content.iter().map(|frame| if let Frame::Content { bytes } = frame { bytes.len() } else { 0 }).sum();
    send_manifest(stream, data_set.encoding(), &content)?;
    Ok(Described { data_set, early_bytes })
}

/// The version of a data set's files. Where a moment suffices, it is waited for: what is written to them after that gives
/// them another one.
fn settled_version(data_set: &DataSet) -> [u8; 32] {
    let now_ms = || {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        since.as_millis() as i64
    };
    let wait = Duration::from_millis(data_set.settles_in_ms(now_ms()));
    if wait <= SETTLED {
        std::thread::sleep(wait);
    }
    data_set.files_version(now_ms())
}

/// The other way round: the session's server asks for what this client has come to bring, and is shown all of
/// `catalogue`.
pub fn be_opened(stream: &mut ControlStream, catalogue: &Catalogue) -> Result<Described, GreetingError> {
    match stream.receive(Instant::now() + ATTACHED)? {
        Frame::Open { path, owner: false, attributes, early } if path == "/" => {
            let options = ScanOptions { owner: false, attributes, no_links: false };
            let opened = open(stream, catalogue, b"/", options, Wanted { early, version: false });
            if let Err(GreetingError::Refused { code, text }) = &opened {
                let refusal = Frame::Refused { code: *code, text: text.clone() };
                stream.send(&refusal, Instant::now() + STEP)?;
            }
            opened
        }
        // It may be tried again.
        Frame::Refused { code: RefusalCode::Busy, text } => Err(refused(RefusalCode::Busy, text)),
        Frame::Refused { text, .. } => Err(refused(RefusalCode::Malformed, text)),
        _ => Err(refused(RefusalCode::Malformed, "it asked for something else than what was put")),
    }
}

/// Sends a manifest as fast as the client takes it, and `content` in one go with the last piece: TCP's first flights
/// count packets.
fn send_manifest(stream: &mut ControlStream, encoding: &[u8], content: &[Frame]) -> Result<(), StreamError> {
    let deadline = Instant::now() + PIECE + Duration::from_secs(encoding.len() as u64 / MANIFEST_BYTES_PER_SEC_MIN);
    let mut pieces = encoding.chunks(MANIFEST_PIECE).peekable();
    while let Some(piece) = pieces.next() {
        let last = pieces.peek().is_none();
        stream.queue(&Frame::DataSet { last, bytes: piece.to_vec() })?;
        for frame in content.iter().filter(|_| last) {
            stream.queue(frame)?;
        }
        stream.write_all(deadline)?;
    }
    Ok(())
}

/// Sends what there is at `path` while it is read, and says how many items that were.
fn send_listing(
    stream: &mut ControlStream,
    catalogue: &Catalogue,
    path: &[u8],
    options: ListOptions,
    pass: &Pass,
) -> Result<u64, GreetingError> {
    let mut piece = Vec::new();
    let mut broken = None;
    let mut items = 0;
    let listed = catalogue.list(path, options, &mut |item| {
        items += 1;
        if piece.len() + item.encoded_len() > LISTING_PIECE {
            let frame = Frame::Listing { last: false, bytes: std::mem::take(&mut piece) };
            let sent = stream.send(&frame, Instant::now() + PIECE).map_err(GreetingError::from);
            broken = pass.check().and(sent).err();
        }
        item.encode(&mut piece);
        broken.is_none()
    });
    if let Some(error) = broken {
        return Err(error);
    }
    listed?;
    stream.send(&Frame::Listing { last: true, bytes: piece }, Instant::now() + PIECE)?;
    Ok(items)
}

/// Lets a client probe until it has seen enough.
fn attend_probes(stream: &mut ControlStream, desk: &Arc<ProbeDesk>) -> Result<(), GreetingError> {
    let admission =
        desk.admit(stream.peer().ip()).map_err(|error| refused(RefusalCode::Unreadable, error.to_string()))?;
    stream.send(&Frame::ProbeGrant { token: admission.token }, Instant::now() + STEP)?;
    match stream.receive(Instant::now() + PROBING)? {
        Frame::Finish => Ok(stream.send(&Frame::Bye, Instant::now() + STEP)?),
        _ => Err(refused(RefusalCode::Malformed, "a client that probes says nothing but that it has finished")),
    }
}

#[cfg(test)]
mod tests;
