//! Sessions of those who fetch from here: their flows, their data sets and their digests, over one socket.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use inhaul_base::{Bitrate, Span, Time};
use inhaul_identity::audit::Event as AuditEvent;
use inhaul_store::digest_cache::DigestCache;
use inhaul_transport::{Command, ConnectionId, Event, FlowError, FlowId, OfferFlow, Role};
use inhaul_udp::Socket;

use crate::audit::Audit;
use crate::bodies::{FailedFile, FileBodies};
use crate::carriers::Carriers;
use crate::catalogue::OpenSet;
use crate::client_rates::ClientRates;
use crate::digest_service::DigestService;
use crate::passes::Pass;
use crate::turns::Client;
use inhaul_engine::engine::endpoints::Endpoints;
use inhaul_engine::engine::net::Transport;
use inhaul_engine::engine::port::Port;
use inhaul_engine::engine::{EndCause, EndpointId, Engine, PortId};
use inhaul_session::api::counters::{Counters, Refusal};
use inhaul_session::api::error::MoveError;
use inhaul_session::api::options::NetOptions;
use inhaul_session::session::control_stream::{ControlStream, StreamError};
use inhaul_session::session::frame::{Frame, GroupRun, PartOf, RefusalCode};
use inhaul_session::system::threads;
use inhaul_session::system::{process, sockets};

/// Most that remembered digests may take on the disk when a server starts: those of some 6 TB.
const CACHE_BYTES_MAX: u64 = 256 << 20;

/// A session whose client says nothing, and which no protocol watches over, is ended after so long.
const IDLE_MAX: Span = Span::from_secs(30);
/// How often it is counted what has been sent.
const COUNT_LOOK: Span = Span::from_millis(200);
/// How a session ends that has brought all that was asked for.
const DONE: &str = "done";
/// How often it is looked for such sessions.
const IDLE_LOOK: Span = Span::from_secs(1);

/// A data set that a client has been told of.
#[derive(Debug)]
pub struct Described {
    pub data_set: Arc<OpenSet>,
    /// Bytes of its content that the client has been sent with the description.
    pub(crate) early_bytes: usize,
}

/// A session that is set up: somebody has come for this.
#[derive(Debug)]
pub struct Fetcher {
    pub stream: ControlStream,
    /// The protocol that is to carry the data.
    pub transport: Transport,
    pub described: Described,
    /// What the client has asked for, for people.
    pub path: String,
    /// The right that it is held by; `None` where this host has come to the client, and not the other way round.
    pub pass: Option<Pass>,
}

/// A session of somebody who fetches.
pub(super) struct Session {
    pub(super) client: SocketAddr,
    path: String,
    pass: Option<Pass>,
    /// Bytes of its flow that have been counted: all that were sent, and those that were sent again.
    counted: (u64, u64),
    data_set: Arc<OpenSet>,
    began: Time,
    /// When its client last said, or took, anything that is not the protocol's.
    heard: Time,
    watch: Watch,
    /// The client's transport has said that it has all.
    has_all: bool,
    pub(super) tunnel: TunnelOf,
}

impl Session {
    /// Whose it is.
    fn client_number(&self, rates: ClientRates) -> Client {
        let name = self.pass.as_ref().and_then(|pass| pass.caller().name());
        rates.client(self.client.ip(), name.as_deref())
    }
}

/// The streams that may carry a session's datagrams: see `serve::tunnels`.
#[derive(Debug, Default)]
pub(super) struct TunnelOf {
    /// What they show.
    pub(super) token: Option<u128>,
    /// When the client last tried UDP anew.
    pub(super) tried: Option<Time>,
}

/// Who notices that a session's client has gone silent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Watch {
    /// The protocol would, once its path is open; until then it has only been offered the flow.
    Offered,
    /// The protocol does.
    Protocol,
    /// Nobody but the server: the data set has no bytes, or the protocol has ended its part.
    Server,
}

/// All sessions of those who fetch.
pub struct Serving {
    endpoints: Endpoints,
    /// The socket that all flows share, until it is given up.
    port: Option<PortId>,
    net: NetOptions,
    pub bodies: FileBodies,
    pub(super) sessions: BTreeMap<FlowId, Session>,
    digests: DigestService,
    client_rates: ClientRates,
    /// The sessions whose datagrams streams may carry, by what those show.
    pub(super) tunnels: Carriers,
    idle_look: Time,
    count_look: Time,
    /// Where it is written down what was moved.
    audit: Arc<Audit>,
    counters: Arc<Counters>,
}

impl Serving {
    /// No session yet, over `socket`; digests are remembered in the directory `cache`.
    pub fn new(
        engine: &mut Engine,
        socket: Socket,
        send_rate: Option<Bitrate>,
        net: &NetOptions,
        cache: Option<&Path>,
    ) -> Result<Self, MoveError> {
        Ok(Self {
            endpoints: Endpoints::new(net.protocols, &socket, send_rate, None)?,
            port: Some(engine.add_port(Port::new(socket, false))?),
            net: net.clone(),
            bodies: FileBodies::default(),
            sessions: BTreeMap::new(),
            // What earlier runs have computed is recalled.
            digests: DigestService::new(cache.and_then(open_cache), engine.waker()),
            client_rates: ClientRates::default(),
            tunnels: Carriers::default(),
            idle_look: Time::ZERO,
            count_look: Time::ZERO,
            audit: Arc::default(),
            counters: Arc::default(),
        })
    }

    /// Sends no more than this to each client.
    pub(crate) fn limit_clients(&mut self, rates: ClientRates) {
        self.client_rates = rates;
    }

    /// Writes down and counts there what is moved.
    pub(crate) fn report_to(&mut self, audit: Arc<Audit>, counters: Arc<Counters>) {
        (self.audit, self.counters) = (audit, counters);
    }

    /// The sessions that streams may belong to.
    pub(crate) fn tunnels(&self) -> Carriers {
        self.tunnels.clone()
    }

    /// The secret of all challenges that this host makes.
    pub(crate) fn challenge_seed(&self) -> u64 {
        self.endpoints.challenge_seed()
    }

    /// Begins a session. One that cannot be had is ended, with a word to its client.
    ///
    /// # Errors
    /// Why it cannot.
    pub fn welcome(&mut self, engine: &mut Engine, fetcher: Fetcher) -> Result<(), MoveError> {
        let Fetcher { stream, transport, described: Described { data_set, early_bytes }, path, pass } = fetcher;
        let Some(port) = self.port else {
            // Its datagrams would come to the successor. It can try again there: see `give_port_up`.
            log::info!("{}: {path}: no session any more: the server comes to its end", stream.peer());
            return Ok(());
        };
        let flow = engine.new_flow();
        let client = stream.peer();
        let name = pass.as_ref().and_then(|pass| pass.caller().name());
        let size = data_set.data_set().manifest().size();
        let offer = OfferFlow {
            flow,
            size,
            peer: None,
            only_from: Some(client.ip()),
            path: sockets::path_from(&self.net, stream.local().ip()),
            connection: ConnectionId::NONE,
            token: 0,
            client: self.client_rates.of(client.ip(), name.as_deref()),
            parameters: Arc::clone(&transport.parameters),
        };
        let (endpoint, offer) = match self.prepare(engine, &transport, offer) {
            Ok(prepared) => prepared,
            Err(error) => {
                let text = format!("it can begin no session now ({error}): try again later");
                stream.end_with(&Frame::Refused { code: RefusalCode::Busy, text });
                return Err(error);
            }
        };
        log::debug!("{client}: {path}: {size} bytes, MTU {}", offer.path.mtu);
        let tunnel = TunnelOf { token: stream.tunnel_token(), tried: None };
        engine.add_flow(flow, endpoint, port, stream)?;
        tunnel.token.into_iter().for_each(|token| self.tunnels.insert(token, flow));
        self.bodies.insert(flow, Arc::clone(data_set.data_set()), early_bytes as u64);
        let now = engine.now();
        let watch = if size > 0 { Watch::Offered } else { Watch::Server };
        let session = Session {
            client,
            path,
            pass,
            counted: (0, 0),
            data_set,
            began: now,
            heard: now,
            watch,
            has_all: false,
            tunnel,
        };
        self.sessions.insert(flow, session);
        // A data set without bytes is nothing for a protocol; its digests go over the control stream all the same.
        if size > 0 {
            engine.command(endpoint, Command::Offer(offer));
        }
        Ok(())
    }

    /// What an offer takes that may be had or not: an endpoint, and numbers that nobody can guess.
    fn prepare(
        &mut self,
        engine: &mut Engine,
        transport: &Transport,
        offer: OfferFlow,
    ) -> Result<(EndpointId, OfferFlow), MoveError> {
        let offer = OfferFlow { connection: engine.new_connection()?, token: process::random_u64()?, ..offer };
        Ok((self.endpoints.of(engine, Role::Sender, transport)?, offer))
    }

    /// An endpoint has said something.
    pub fn on_event(&mut self, engine: &mut Engine, event: &Event) {
        let now = engine.now();
        match event {
            Event::Opened { flow } => self.set_watch(*flow, Watch::Protocol, now),
            Event::Closed { flow } => {
                self.set_watch(*flow, Watch::Server, now);
                self.sessions.get_mut(flow).into_iter().for_each(|session| session.has_all = true);
            }
            Event::Failed { flow, error } => match self.sessions.get_mut(flow) {
                // Its client may have come for digests only.
                Some(session) if session.watch == Watch::Offered && matches!(error, FlowError::Silent { .. }) => {
                    session.watch = Watch::Server;
                }
                // It may have been away, and may come back.
                _ if matches!(error, FlowError::Silent { .. }) => self.close_for_now(engine, *flow, &error.to_string()),
                _ => self.close(engine, *flow, &Frame::malformed(error), &error.to_string()),
            },
            Event::Complete { .. } | Event::Starved { .. } | Event::Control { .. } | Event::Source { .. } => {}
        }
    }

    /// Counts what all flows have sent.
    fn count_flows(&mut self, engine: &Engine) {
        let flows: Vec<FlowId> = self.sessions.keys().copied().collect();
        flows.into_iter().for_each(|flow| self.count_flow(engine, flow));
        self.counters.sent_datagrams.raise(engine.datagrams_sent());
    }

    fn set_watch(&mut self, flow: FlowId, watch: Watch, now: Time) {
        if let Some(session) = self.sessions.get_mut(&flow) {
            session.watch = watch;
            session.heard = now;
        }
    }

    /// A session's frame came in.
    pub fn on_frame(&mut self, engine: &mut Engine, flow: FlowId, frame: Frame) {
        if let Some(session) = self.sessions.get_mut(&flow) {
            session.heard = engine.now();
        }
        match frame {
            Frame::DigestsOf { runs } => self.start_digests(engine, flow, runs),
            Frame::ProofsOf { parts } => self.start_proofs(engine, flow, parts),
            Frame::Finish => self.close(engine, flow, &Frame::Bye, DONE),
            _ => self.close(engine, flow, &Frame::out_of_place(), "it sent a frame that has no place here"),
        }
    }

    /// A session has ended by itself.
    pub fn on_end(&mut self, engine: &Engine, flow: FlowId, cause: &EndCause) {
        // A client does not wait for an answer to its last words, and they may be lost with the connection.
        let has_all = self.sessions.get(&flow).is_some_and(|session| session.has_all);
        let is_end = has_all && matches!(cause, EndCause::Stream(StreamError::Closed));
        let outcome = if is_end { DONE.to_owned() } else { format!("ended early: {cause}") };
        self.forget(engine, flow, &outcome);
    }

    /// Ends a session, with a word to the client.
    fn close(&mut self, engine: &mut Engine, flow: FlowId, close_reason: &Frame, outcome: &str) {
        engine.close_with(flow, close_reason);
        self.forget(engine, flow, outcome);
    }

    /// Ends a session whose client has done nothing wrong: it may connect anew.
    fn close_for_now(&mut self, engine: &mut Engine, flow: FlowId, why: &str) {
        self.close(engine, flow, &Frame::Refused { code: RefusalCode::Busy, text: why.to_owned() }, why);
    }

    /// A session is over.
    fn forget(&mut self, engine: &Engine, flow: FlowId, outcome: &str) {
        self.count_flow(engine, flow);
        if let Some(session) = self.sessions.remove(&flow) {
            let counter = if outcome == DONE { &self.counters.fetches_done } else { &self.counters.fetches_broken };
            counter.add(1);
            log::info!("{}, {outcome}", self.describe(engine, flow, &session));
            session.tunnel.token.into_iter().for_each(|token| self.tunnels.remove(token));
            self.note_moved(flow, session, engine.now(), outcome.to_owned());
        }
        self.bodies.remove(flow);
        self.digests.forget(flow);
    }

    /// Writes down what was moved. Elsewhere: the data thread waits for no disk.
    fn note_moved(&self, flow: FlowId, session: Session, now: Time, outcome: String) {
        let Session { client, path, began, pass: Some(pass), .. } = session else { return };
        let (audit, bytes) = (Arc::clone(&self.audit), self.bodies.sent_bytes(flow));
        let (client, seconds) = (client.to_string(), now.since(began).as_secs_f64());
        let write = move || {
            let access = pass.caller().access(&client, pass.right(), &path);
            audit.write(&AuditEvent::Moved { access, bytes, seconds, outcome: &outcome });
        };
        threads::beside_or_here("inhaul-audit", write);
    }

    /// Who has fetched what by now.
    fn describe(&self, engine: &Engine, flow: FlowId, session: &Session) -> String {
        let Session { client, path, began, .. } = session;
        let (bytes, seconds) = (self.bodies.sent_bytes(flow), engine.now().since(*began).as_secs_f64());
        format!("{client}: {path}: sent {bytes} bytes in {seconds:.1} s")
    }

    /// Logs who is fetching what.
    pub(crate) fn log_sessions(&self, engine: &Engine) {
        for (&flow, session) in &self.sessions {
            log::info!("{} so far", self.describe(engine, flow, session));
        }
    }

    fn start_digests(&mut self, engine: &mut Engine, flow: FlowId, runs: Vec<GroupRun>) {
        let Some(session) = self.sessions.get(&flow) else { return };
        if !self.digests.request((session.client_number(self.client_rates), flow), &session.data_set, runs) {
            self.close_for_now(engine, flow, "too many digests were asked for at once");
        }
    }

    fn start_proofs(&mut self, engine: &mut Engine, flow: FlowId, parts: Vec<PartOf>) {
        let Some(session) = self.sessions.get(&flow) else { return };
        if !self.digests.request_proofs((session.client_number(self.client_rates), flow), &session.data_set, parts) {
            self.close_for_now(engine, flow, "too many proofs were asked for at once");
        }
    }

    /// What is to be done each turn: digests that are ready, clients that are silent.
    pub fn tend(&mut self, engine: &mut Engine) {
        self.pass_digests(engine);
        for FailedFile { flow, file, problem } in self.bodies.take_failed() {
            engine.send(flow, &Frame::FileFailed { file: file as u64, problem });
        }
        let now = engine.now();
        if now >= self.count_look {
            self.count_look = now + COUNT_LOOK;
            self.count_flows(engine);
        }
        if now >= self.idle_look {
            self.idle_look = now + IDLE_LOOK;
            self.end_idle(engine, now);
            self.end_without_right(engine);
        }
    }

    /// Passes on digests that are ready, as far as the clients take them.
    fn pass_digests(&mut self, engine: &mut Engine) {
        let now = engine.now();
        for flow in self.digests.ready() {
            // Requests for data must not queue behind them.
            while engine.room(flow) > 0
                && let Some(frame) = self.digests.next_frame(flow)
            {
                engine.send(flow, &frame);
                if let Some(session) = self.sessions.get_mut(&flow) {
                    session.heard = now;
                }
            }
        }
    }

    /// Ends the sessions whose clients hold a place and do nothing with it.
    fn end_idle(&mut self, engine: &mut Engine, now: Time) {
        let is_idle = |(flow, session): &(&FlowId, &Session)| {
            session.watch == Watch::Server && now.since(session.heard) >= IDLE_MAX && !self.digests.is_hashing(**flow)
        };
        let idle: Vec<FlowId> = self.sessions.iter().filter(is_idle).map(|(&flow, _)| flow).collect();
        for flow in idle {
            let text = format!("nothing was heard for {:.0} s", IDLE_MAX.as_secs_f64());
            self.close_for_now(engine, flow, &text);
        }
    }

    /// Ends the sessions whose rights have ended.
    fn end_without_right(&mut self, engine: &mut Engine) {
        let ended = |session: &Session| session.pass.as_ref()?.check().err()?.refusal();
        let ended: Vec<_> = self.sessions.iter().filter_map(|(&flow, session)| Some((flow, ended(session)?))).collect();
        for (flow, (code, text)) in ended {
            self.counters.refuse(Refusal::NoRight);
            self.close(engine, flow, &Frame::Refused { code, text: text.clone() }, &text);
        }
    }

    /// Counts what a flow has sent since it was counted last.
    fn count_flow(&mut self, engine: &Engine, flow: FlowId) {
        let Some(session) = self.sessions.get_mut(&flow) else { return };
        let sent = self.bodies.sent_bytes(flow);
        // A transport that has ended its part knows nothing of it any more.
        let again = engine.flow_stats(flow).map_or(session.counted.1, |stats| stats.retransmitted_bytes);
        let before = std::mem::replace(&mut session.counted, (sent, again));
        self.counters.sent_bytes.add(sent.saturating_sub(before.0));
        self.counters.retransmitted_bytes.add(again.saturating_sub(before.1));
    }

    /// How many sessions have opened their path, or need none.
    pub(crate) fn opened(&self) -> usize {
        self.sessions.values().filter(|session| session.watch != Watch::Offered).count()
    }

    /// Leaves the port to a successor: flows that are under way get sockets of their own, whose datagrams the kernel
    /// keeps apart from all others that come to the port. Where none is under way yet, the session is ended: its
    /// client can connect to the successor.
    pub(crate) fn give_port_up(&mut self, engine: &mut Engine) {
        let Some(port) = self.port.take() else { return };
        let net = self.net.clone();
        for flow in engine.branch_off(port, &|ends| Ok(sockets::branch(&net, ends)?.into())) {
            if self.sessions.get(&flow).is_some_and(|session| session.watch != Watch::Server) {
                engine.close(flow);
                self.forget(engine, flow, "no data had flown when the server was told to stop");
            }
        }
    }
}

/// Opens the cache of digests and makes room in it, on a thread of its own. Without one, everything is hashed.
fn open_cache(directory: &Path) -> Option<DigestCache> {
    let cache = DigestCache::open(directory).ok()?;
    let pruned = cache.clone();
    threads::spawn_helper("inhaul-cache", move || pruned.prune(CACHE_BYTES_MAX)).ok()?;
    Some(cache)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::Catalogue;
    use inhaul_store::{Offered, ScanOptions};
    use std::net::{TcpListener, TcpStream};

    /// What serves files of a directory, of which one is empty; and what their sessions come over.
    fn serving() -> (tempfile::TempDir, Catalogue, Engine, Serving) {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("empty"), b"").unwrap();
        std::fs::write(dir.path().join("full"), b"data").unwrap();
        let catalogue = Catalogue::unbounded(Offered::new(&[dir.path().to_path_buf()]).unwrap());
        let net = NetOptions::default();
        let mut engine = Engine::new().unwrap();
        let socket = sockets::bind_shared(&net, "127.0.0.1:0".parse().unwrap()).unwrap();
        let serving = Serving::new(&mut engine, socket, None, &net, None).unwrap();
        (dir, catalogue, engine, serving)
    }

    fn welcome(catalogue: &Catalogue, engine: &mut Engine, serving: &mut Serving, path: &str) -> TcpStream {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let stream = ControlStream::new(listener.accept().unwrap().0).unwrap();
        let data_set = catalogue.open(path.as_bytes(), ScanOptions::default(), stream.peer().ip()).unwrap();
        let transport = Transport { name: "gtp", parameters: Vec::new().into() };
        let described = Described { data_set, early_bytes: 0 };
        serving.welcome(engine, Fetcher { stream, transport, described, path: path.to_owned(), pass: None }).unwrap();
        client
    }

    #[test]
    fn sessions_that_nobody_watches_over_end_when_they_are_idle() {
        let (_dir, catalogue, mut engine, mut serving) = serving();
        let _clients = ["empty", "full"].map(|path| welcome(&catalogue, &mut engine, &mut serving, path));
        let began = engine.now();
        serving.end_idle(&mut engine, began + IDLE_MAX - Span::from_secs(1));
        assert_eq!(serving.sessions.len(), 2);
        serving.end_idle(&mut engine, began + IDLE_MAX + Span::from_secs(1));
        // The other one's protocol watches over it, and gives it up by itself.
        assert_eq!(serving.sessions.values().map(|session| session.path.as_str()).collect::<Vec<_>>(), ["full"]);
        let flow = *serving.sessions.keys().next().unwrap();
        serving.on_event(&mut engine, &Event::Failed { flow, error: FlowError::Silent { seconds: 30 } });
        serving.end_idle(&mut engine, began + IDLE_MAX + Span::from_secs(1));
        assert!(serving.sessions.is_empty());
    }

    #[test]
    fn port_is_given_up_and_what_has_no_flow_yet_with_it() {
        let (_dir, catalogue, mut engine, mut serving) = serving();
        let _clients = ["empty", "full"].map(|path| welcome(&catalogue, &mut engine, &mut serving, path));
        serving.give_port_up(&mut engine);
        assert_eq!(serving.sessions.values().map(|session| session.path.as_str()).collect::<Vec<_>>(), ["empty"]);
        let streams = engine.streams();
        let _late = welcome(&catalogue, &mut engine, &mut serving, "full");
        assert_eq!((serving.sessions.len(), engine.streams()), (1, streams), "it may try again at the successor");
    }
}
