//! Transfers that a server carries out for a client: puts, where the client has the data, and copies, where another
//! server has it. Both are a `get` by the server into its inbox. The client receives the progress.
//!
//! For a put, the client opens a session for each data set (`Attach`). On this session the two ends change roles: the
//! server acts like every receiver. Datagrams go in both directions between the server's own port and the socket from
//! which the client has sent probes ([`inhaul_engine::engine::probe`]). So firewalls need only one open port, and the client
//! may be behind a NAT. Where UDP does not pass, the server asks the client for streams ([`inhaul_engine::paths`]).
//!
//! Each such transfer has its own engine and data thread, so a slow or full disk does not affect other clients. Its
//! socket shares the server's port and is connected to the client. No path leads out of the inbox
//! (`store/src/inbox.rs`).

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use inhaul_base::byte_text::{bytes_of, text_of};
use inhaul_base::{Bitrate, Span};
use inhaul_identity::audit::Event;
use inhaul_identity::{Right, Rights};
use inhaul_store::{Inbox, printable};
use inhaul_udp::written;

use crate::order::{Order, OrderError, OrderHead, Origin};
use crate::places::{Place, Places};
use inhaul_engine::engine::net::Transport;
use inhaul_engine::engine::port::NO_PORT;
use inhaul_engine::engine::probe::{Admission, ProbeDesk, Seen};
use inhaul_engine::paths::{Callers, Hall, NotAwaited};
use inhaul_haul::haul::get::{get, get_attached};
use inhaul_serve::audit::Audit;
use inhaul_serve::gate::{Caller, Reach};
use inhaul_serve::orders::{May, Orders};
use inhaul_serve::passes::Pass;
use inhaul_serve::tunnels::{ENOUGH, UNKNOWN, Unwanted};
use inhaul_session::api::error::MoveError;
use inhaul_session::api::options::{AcceptOptions, Fallback, GetOptions, NetOptions, Progress, Update};
use inhaul_session::api::report::Report;
use inhaul_session::api::request::Request;
use inhaul_session::api::source::Server;
use inhaul_session::session::connect::Session;
use inhaul_session::session::control_stream::{ControlStream, StreamError};
use inhaul_session::session::frame::{Frame, MAX_PIECE, RefusalCode};
use inhaul_session::session::refusal::{GreetingError, refused};
use inhaul_session::session::slots;
use inhaul_session::system::sockets::{self, Ends};
use inhaul_session::system::threads;

/// How long a client may take to open each of its sessions, and to read an update.
const STEP: Duration = Duration::from_secs(30);
/// How often it is looked whether the client is still there.
const LOOK: Duration = Duration::from_millis(100);
/// The part of all places that a client keeps when others wait, if nothing else was said.
const CLIENT_PART: usize = 4;
/// How long servers that a copy is made from are waited for at most, whatever the client says.
const RETRY_MAX_SECONDS: u64 = 30 * 86_400;
/// A client that follows gets an update at least this often.
const HEARTBEAT: Duration = Duration::from_secs(5);
/// How long a look may take.
const GLANCE: Duration = Duration::from_millis(1);

/// What a server does for clients, and what it is doing.
#[derive(Debug)]
pub(crate) struct Delegations {
    inbox: Arc<Inbox>,
    /// The servers that data may be fetched from.
    copies_from: Vec<Server>,
    places: Arc<Places>,
    /// What everybody may order: who does so is known by its address.
    public: Rights,
    /// Memory that the manifests of one transfer may take, in bytes.
    manifest_memory_max: u64,
    net: NetOptions,
    desk: Arc<ProbeDesk>,
    /// Where streams arrive that carry puts' datagrams.
    hall: Arc<Hall>,
    audit: Arc<Audit>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Where sessions go that attach with a token.
    awaited: BTreeMap<u64, Sender<Attached>>,
}

/// A session for the data set of this number.
type Attached = (u16, ControlStream);

/// What carries the data of a transfer.
enum Paths {
    /// Sessions that the client has attached, the socket for its datagrams, and where it brings streams.
    Attached(Vec<Session>, inhaul_udp::Socket, Callers),
    /// The server dials itself.
    Dialled,
}

impl Delegations {
    /// Opens the inbox. What clients bring may take `manifest_memory` bytes for its lists of files, all together.
    pub(crate) fn new(
        options: &AcceptOptions,
        net: &NetOptions,
        desk: Arc<ProbeDesk>,
        manifest_memory: u64,
        public: Rights,
        audit: Arc<Audit>,
    ) -> Result<Self, MoveError> {
        let transfers_max = options.transfers_max.max(1);
        let share = options.transfers_per_client.unwrap_or(transfers_max.div_ceil(CLIENT_PART));
        Ok(Self {
            inbox: Arc::new(Inbox::open(&options.directory)?),
            copies_from: options.copies_from.clone(),
            places: Places::new(transfers_max, share),
            public,
            manifest_memory_max: manifest_memory / transfers_max as u64,
            net: net.clone(),
            desk,
            hall: Arc::default(),
            audit,
            state: Mutex::default(),
        })
    }

    fn options_of(&self, order: &Order, transport: &Transport, reach: &Reach) -> Result<GetOptions, GreetingError> {
        let malformed = |error: &dyn std::error::Error| refused(RefusalCode::Malformed, error.to_string());
        let inbox = self.inbox.within(&reach.scope()).map_err(|error| malformed(&error))?;
        let sources = order.sources().map_err(|error| malformed(&error))?;
        for server in sources.iter().flat_map(|source| &source.mirrors) {
            if !self.copies_from.contains(server) {
                let text = format!(
                    "this server does not copy from {server}; its user can let it: inhaul serve --accept-copies-from {server}"
                );
                return Err(refused(RefusalCode::NotAllowed, text));
            }
        }
        Ok(GetOptions {
            requests: sources.into_iter().map(Request::from).collect(),
            destination: OsStr::from_bytes(&bytes_of(&order.destination)).into(),
            inbox: Some(Arc::new(inbox)),
            receive_rate: None,
            rate: order.rate_bps.map(Bitrate::from_bps),
            filter: order.filter().map_err(|error| malformed(&error))?,
            existing: order.existing,
            checksum: order.checksum,
            owner: false,
            attributes: order.attributes,
            dry_run: order.dry_run,
            fresh: order.fresh,
            stream: None,
            manifest: None,
            // A client that brings data itself comes again by itself.
            retry_for: Span::from_secs(order.retry_seconds.min(RETRY_MAX_SECONDS)),
            policy_dial: None,
            net: NetOptions {
                // Whoever opens the streams says whether there are any.
                fallback: match order.origin {
                    Origin::Client { .. } => order.fallback,
                    Origin::Servers { .. } => self.net.fallback,
                },
                transport: transport.name.to_owned(),
                parameters: transport.parameters.to_vec(),
                ..self.net.clone()
            },
        })
    }

    /// Waits for a session for each data set, and for the address that the client's datagrams come from. None may
    /// come: if UDP does not pass, and the client brings streams.
    fn receive_sessions(
        &self,
        stream: &mut ControlStream,
        place: &Place,
        count: u16,
        fallback: Fallback,
        udp_port: u16,
    ) -> Result<Paths, GreetingError> {
        let failed = |error: MoveError| refused(RefusalCode::Unreadable, error.to_string());
        let admission = self.desk.admit(stream.peer().ip()).map_err(failed)?;
        let attached = self.await_sessions(stream, place, &admission, count)?;
        let local = sockets::with_port(stream.local(), udp_port);
        let seen = admission.seen().filter(|_| fallback != Fallback::Always);
        let socket = match seen {
            Some(Seen { from, to }) => sockets::branch(&self.net, Ends { local, peer: from }.asked_at(to)),
            None if fallback == Fallback::Never => {
                return Err(refused(RefusalCode::Malformed, "a client that brings data sends probes first"));
            }
            // Nothing comes over it.
            None => sockets::bind(&self.net, sockets::with_port(local, 0)),
        };
        let socket = socket.map_err(failed)?;
        let manifest_memory_max = self.manifest_memory_max / u64::from(count.max(1));
        let session = |stream: ControlStream| {
            let server = Server::new(written(stream.peer()), stream.peer().port());
            let datagrams = seen.map_or(sockets::with_port(stream.peer(), NO_PORT), |seen| seen.from);
            Session { datagrams, manifest_memory_max, ..Session::over(server, stream) }
        };
        let callers = Callers { hall: Arc::clone(&self.hall), desk: Arc::clone(&self.desk), local };
        Ok(Paths::Attached(attached.into_iter().map(session).collect(), socket, callers))
    }

    fn await_sessions(
        &self,
        stream: &mut ControlStream,
        place: &Place,
        admission: &Admission,
        count: u16,
    ) -> Result<Vec<ControlStream>, GreetingError> {
        let (sender, attached) = channel();
        self.lock().awaited.insert(admission.token, sender);
        let token = admission.token;
        let result = collect_sessions(stream, place, token, &attached, count);
        self.lock().awaited.remove(&token);
        result
    }

    /// Who counts as one client: a key or a token; where everybody may, an address.
    fn name_of(&self, caller: &Caller, right: Right) -> String {
        let name = caller.name().filter(|_| !self.public.has(right));
        name.unwrap_or_else(|| format!("{:?}", slots::Origin::from(caller.address.ip())))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Orders for Delegations {
    fn attend(
        &self,
        stream: &mut ControlStream,
        order: &[u8],
        transport: &Transport,
        udp_port: u16,
        may: &May<'_>,
    ) -> Result<(), GreetingError> {
        let malformed = |error: OrderError| refused(RefusalCode::Malformed, error.to_string());
        // The rest of an order costs work and memory, and may come from anybody.
        let head = OrderHead::parse(order).map_err(malformed)?;
        let right = head.right();
        // As every path of these bytes is written, so that a right is for this one.
        let path = format!("/{}", text_of(&bytes_of(&head.destination)));
        let (reach, pass) = may(right, &path)?;
        let order = Order::parse(order).map_err(malformed)?;
        let options = self.options_of(&order, transport, &reach)?;
        let place = self.places.take(&self.name_of(pass.caller(), right), order.transfer)?;
        // Where it is after all links, which stay within the right's reach.
        let path = options.inbox.as_ref().and_then(|inbox| inbox.real_path(&options.destination));
        let path = path.map_or(format!("/{}", order.destination), |path| text_of(path.as_os_str().as_bytes()));
        let what = format!("{} to '{}'", describe(&order.origin), printable(&bytes_of(&order.destination)));
        log::info!("{}: has {what} fetched", stream.peer());
        let began = Instant::now();
        let paths = match order.origin {
            Origin::Client { sources } => self.receive_sessions(stream, &place, sources, order.fallback, udp_port)?,
            Origin::Servers { .. } => Paths::Dialled,
        };
        let (updates, incoming) = channel();
        let stop = place.stop().clone();
        let run = move || {
            // The client may be gone.
            let mut hear = |update| drop(updates.send(update));
            match paths {
                Paths::Attached(sessions, socket, callers) => {
                    get_attached(&options, sessions, (socket, callers), &stop, &mut hear)
                }
                Paths::Dialled => get(&options, &stop, &mut hear),
            }
        };
        let internal = |error: MoveError| refused(RefusalCode::Unreadable, error.to_string());
        let thread = threads::spawn_helper("inhaul-delegated", run).map_err(internal)?;
        let told = relay(stream, &incoming, &place, &pass);
        let (report, result) = thread.join().map_err(|_| refused(RefusalCode::Unreadable, "the transfer has died"))?;
        let (bytes, seconds) = (report.bytes, began.elapsed().as_secs_f64());
        self.audit.write(&Event::Moved {
            access: pass.caller().access(&stream.peer().to_string(), right, &printable(&bytes_of(&path))),
            bytes,
            seconds,
            outcome: &result.as_ref().map_or_else(ToString::to_string, |()| "done".to_owned()),
        });
        match &result {
            Ok(()) => log::info!("{}: {what}: {bytes} bytes in {seconds:.1} s, done", stream.peer()),
            Err(error) => log::warn!("{}: {what}: {bytes} bytes in {seconds:.1} s, failed: {error}", stream.peer()),
        }
        told?;
        Ok(tell_report(stream, &report)?)
    }

    fn awaits(&self, token: u64) -> bool {
        self.lock().awaited.contains_key(&token)
    }

    fn awaits_stream(&self, token: u128) -> bool {
        self.hall.awaits(token)
    }

    fn attach(&self, token: u64, source: u16, stream: ControlStream) {
        // A session that no transfer waits for is closed.
        if let Some(awaited) = self.lock().awaited.get(&token) {
            drop(awaited.send((source, stream)));
        }
    }

    fn carry(&self, token: u128, stream: ControlStream) -> Result<(), Unwanted> {
        self.hall.bring(token, stream).map_err(|(stream, why)| {
            let why = match why {
                NotAwaited::Unknown => UNKNOWN,
                NotAwaited::Enough => ENOUGH,
            };
            Unwanted { stream, why }
        })
    }

    fn open(&self) -> usize {
        self.places.count()
    }

    fn stop_all(&self) {
        self.places.stop_all();
    }
}

fn describe(origin: &Origin) -> String {
    match origin {
        Origin::Client { sources } => format!("{sources} of its data sets"),
        Origin::Servers { sources } => {
            // Without what is secret in them.
            let bare = sources.iter().map(|source| source.rsplit_once('#').map_or(&source[..], |(bare, _)| bare));
            printable(bare.collect::<Vec<_>>().join(" ").as_bytes())
        }
    }
}

/// Tells the client the token, and waits until sessions with the numbers 0 to `count` have come with it.
fn collect_sessions(
    stream: &mut ControlStream,
    place: &Place,
    token: u64,
    attached: &Receiver<Attached>,
    count: u16,
) -> Result<Vec<ControlStream>, GreetingError> {
    let deadline = Instant::now() + STEP;
    stream.send(&Frame::ProbeGrant { token }, deadline)?;
    let mut sessions: BTreeMap<u16, ControlStream> = BTreeMap::new();
    while sessions.len() < usize::from(count) {
        match attached.recv_timeout(LOOK) {
            Ok((source, session)) if source < count => drop(sessions.insert(source, session)),
            Ok(_) => {}
            Err(_) if Instant::now() > deadline => return Err(StreamError::TimedOut.into()),
            Err(_) if has_finished(stream)? => return Err(StreamError::Closed.into()),
            Err(_) => place.check()?,
        }
    }
    Ok(sessions.into_values().collect())
}

/// Passes on how the transfer goes, until it has ended. A client that goes away, or has had enough, ends it, and so
/// does the end of its right.
fn relay(
    stream: &mut ControlStream,
    incoming: &Receiver<Update>,
    place: &Place,
    pass: &Pass,
) -> Result<(), GreetingError> {
    let mut latest = Progress::default();
    let mut told_at = Instant::now();
    loop {
        let update = match incoming.recv_timeout(LOOK) {
            Ok(update) => Some(update),
            Err(RecvTimeoutError::Timeout) if told_at.elapsed() < HEARTBEAT => None,
            Err(RecvTimeoutError::Timeout) => Some(Update::Progress(latest.clone())),
            // It may have ended because it makes way.
            Err(RecvTimeoutError::Disconnected) => return place.check(),
        };
        if let Some(Update::Progress(progress)) = &update {
            place.note(progress);
            latest = progress.clone();
        }
        if update.is_some() {
            told_at = Instant::now();
        }
        let told = update.map_or(Ok(()), |update| tell(stream, &update));
        let finished = told.and_then(|()| has_finished(stream)).map_err(GreetingError::from);
        match pass.check().and_then(|()| place.check()).and(finished) {
            Ok(false) => {}
            Ok(true) => place.stop().stop(),
            Err(error) => {
                place.stop().stop();
                incoming.iter().for_each(drop);
                return Err(error);
            }
        }
    }
}

/// Whether the client has said by now that it wants nothing more.
fn has_finished(stream: &mut ControlStream) -> Result<bool, StreamError> {
    match stream.receive(Instant::now() + GLANCE) {
        Ok(_) => Ok(true),
        Err(StreamError::TimedOut) => Ok(false),
        Err(error) => Err(error),
    }
}

fn tell(stream: &mut ControlStream, update: &Update) -> Result<(), StreamError> {
    let update = serde_json::to_vec(update).map_err(|error| StreamError::Io(error.into()))?;
    stream.send(&Frame::Update { update }, Instant::now() + STEP)
}

fn tell_report(stream: &mut ControlStream, report: &Report) -> Result<(), StreamError> {
    // Clients of earlier releases read a number here. No index is 0, which says that there is none.
    let report = Report { jain_index: report.jain_index.or(Some(0.0)), ..report.clone() };
    let json = serde_json::to_vec(&report).map_err(|error| StreamError::Io(error.into()))?;
    let mut pieces = json.chunks(MAX_PIECE).peekable();
    while let Some(piece) = pieces.next() {
        let frame = Frame::Report { last: pieces.peek().is_none(), bytes: piece.to_vec() };
        stream.send(&frame, Instant::now() + STEP)?;
    }
    Ok(())
}
