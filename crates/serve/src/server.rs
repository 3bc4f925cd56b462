//! `serve`: offers directories to any number of receivers, over one TCP and one UDP port.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use inhaul_base::{Bitrate, Span, Time};
use inhaul_identity::Right;
use inhaul_identity::audit::{Event as AuditEvent, Log};
use inhaul_store::{Offer, Offered, OfferedError, printable};
use inhaul_transport::{Event, FlowId};
use inhaul_udp::{Socket, give_back_memory, keep_little_memory, limit_packets, listen_tcp};

use crate::audit::Audit;
use crate::budget::Budget;
use crate::catalogue::Catalogue;
use crate::client_rates::ClientRates;
use crate::gate::Gate;
use crate::greeting::Arrival;
use crate::house::Service;
use crate::orders::Orders;
use crate::reception::{Places, Reception};
use crate::serving::{Fetcher, Serving};
use crate::tunnels::{UNKNOWN, Unwanted};
use inhaul_engine::engine::early_echoes::EarlyEchoes;
use inhaul_engine::engine::net;
use inhaul_engine::engine::probe::{Echoing, ProbeDesk};
use inhaul_engine::engine::seldom::Seldom;
use inhaul_engine::engine::{Application, BodySource, EndCause, Engine, PollResult, Sink};
use inhaul_session::api::counters::{Counters, Refusal};
use inhaul_session::api::error::MoveError;
use inhaul_session::api::options::{AcceptOptions, Ask, NetOptions, ServeOptions, Stop};
use inhaul_session::api::service::{Inherited, LimitsAnew, SessionLimits};
use inhaul_session::api::trust::ServerIdentity;
use inhaul_session::session::control_stream::ControlStream;
use inhaul_session::session::frame::Frame;
use inhaul_session::session::slots::Limits;
use inhaul_session::system::threads;
use inhaul_session::system::{process, sockets};

/// Sessions that may be open or in set-up at once, where nobody has said how many.
pub const SESSIONS_MAX: usize = 1024;
/// The part of all sessions that one address may have, where nobody has said how many.
const ADDRESS_PART: usize = 4;
/// Descriptors that a server needs beside those of its sessions: its own sockets, directories and caches.
const DESCRIPTORS_OWN: u64 = 32;
/// Descriptors of a session: its connection, and a file that it reads or a socket of its own.
const DESCRIPTORS_OF_SESSION: u64 = 2;
/// Clients that have connected and not been let in, at most; each costs a thread.
const HALF_OPEN_MAX: usize = 512;
/// Descriptors of such a client: its connection, and a handle by which that is closed.
const DESCRIPTORS_HALF_OPEN: u64 = 2;
/// The part of all descriptors that they may have.
const DESCRIPTORS_PART: u64 = 4;
/// How long what clients have ordered may take to put away what can be gone on from.
const CLOSING: Span = Span::from_secs(5);

/// How long those who have just come may take to open their path when the server is told to stop: less than a
/// successor waits for the port.
const SETTLING: Span = Span::from_millis(500);
/// How often the stop flag is looked at.
pub(crate) const STOP_INTERVAL: Span = Span::from_millis(100);
/// How often lists of files that nobody needs any more are looked for.
const TIDY_INTERVAL: Span = Span::from_secs(1);
/// How often memory is given back after a put or a copy: its threads end a little later than it does.
const TIDYINGS: u32 = 5;
/// How long a server that is about to give the port up may take for it.
const PREDECESSOR: Duration = Duration::from_secs(1);

/// Offers `options.directories` until `stop` is set; calls `ready` with the address once it listens. Orders of clients
/// are carried out by what `take_orders` makes, if `options.accept` says that there may be any.
pub fn serve(
    options: &ServeOptions,
    stop: &Stop,
    ready: impl FnOnce(SocketAddr),
    take_orders: impl FnOnce(&AcceptOptions, Arc<ProbeDesk>, Arc<Audit>) -> Result<Arc<dyn Orders>, MoveError>,
) -> Result<(), MoveError> {
    net::check_server(&options.net)?;
    if options.net.raise_limits {
        // The process is a server and nothing else.
        keep_little_memory();
    }
    let identity = options.identity.clone();
    let counters = Arc::clone(&options.surroundings.counters);
    let log = identity.state.as_ref().map(|state| Log::at(state.audit_log()).of_public(identity.public));
    let audit = Arc::new(Audit::new(log, Arc::clone(&counters)));
    let gate = Gate::new(&identity, Arc::clone(&audit))?;
    let offered = Offered::of(&options.directories).map_err(offered_error)?;
    warn_of_unclear(&offered);
    let desk: Arc<ProbeDesk> = Arc::default();
    let orders =
        options.accept.as_ref().map(|accept| take_orders(accept, Arc::clone(&desk), Arc::clone(&audit))).transpose()?;
    let descriptors = process::files_allowed(options.net.raise_limits);
    let places = places(options.limits, descriptors);
    let ListeningPair { tcp, udp, address } = match &options.surroundings.sockets {
        Some(inherited) => adopt(&options.net, inherited)?,
        None => listen(&options.net, options.listen)?,
    };
    let mut engine = Engine::new()?;
    let mut serving = Serving::new(&mut engine, udp, options.send_rate, &options.net, options.cache.as_deref())?;
    serving.report_to(Arc::clone(&audit), Arc::clone(&counters));
    let by_address = options.identity.public.has(Right::Read);
    serving.limit_clients(ClientRates { rate: options.client_rate, by_address });
    let least_rate = [options.send_rate, options.client_rate].into_iter().flatten().min();
    engine.listen(tcp)?;
    let budget = Budget::new(usize::try_from(options.manifest_memory).unwrap_or(usize::MAX));
    let catalogue = Arc::new(Catalogue::new(offered, Arc::clone(&budget)).at_rate(least_rate));
    let service = Service::Files(Arc::clone(&catalogue), orders.clone());
    let mut server = FileServer {
        sink: Echoing::new(Arc::clone(&desk), EarlyEchoes::new(serving.challenge_seed())),
        reception: Reception::new(service, gate, &options.net, address.port(), desk, places, Arc::clone(&counters)),
        directories: options.directories.clone(),
        least_rate,
        budget,
        catalogue,
        tidied: Time::ZERO,
        orders,
        orders_open: 0,
        tidyings_left: 0,
        serving,
        stop: stop.clone(),
        reload: options.reload.clone(),
        limits: options.surroundings.limits.clone(),
        descriptors,
        counters,
        status: options.status.clone(),
        identity,
        audit: Arc::clone(&audit),
        grace: options.grace,
        stopping: Stopping::No,
        unwelcome: Seldom::default(),
    };
    server.reception.know_tunnels(server.serving.tunnels());
    threads::become_data_thread(&options.net)?;
    let (key, public) = (options.identity.key.fingerprint().to_string(), options.identity.public.to_string());
    audit.write(&AuditEvent::Started { key, public });
    ready(address);
    engine.run(&mut server)
}

/// Says which directories are not reached by their names.
fn warn_of_unclear(offered: &Offered) {
    for name in offered.unclear().map(printable) {
        log::warn!(
            "'/{name}' is refused: another directory has a '{name}' in it, which had this address when that was offered alone; write NAME=DIR for this one"
        );
    }
}

pub fn offered_error(error: OfferedError) -> MoveError {
    match error {
        OfferedError::NotFound { .. } => MoveError::NothingToServe { detail: format!("{error}; check the path") },
        error => MoveError::Usage(error.to_string()),
    }
}

/// The places for clients, of which there are no more than `descriptors` are enough for.
fn places(asked: SessionLimits, descriptors: u64) -> Places {
    let half_open = usize::try_from(descriptors / DESCRIPTORS_PART / DESCRIPTORS_HALF_OPEN).unwrap_or(usize::MAX);
    let half_open = half_open.clamp(1, HALF_OPEN_MAX);
    let own = DESCRIPTORS_OWN + half_open as u64 * DESCRIPTORS_HALF_OPEN;
    let enough_for = descriptors.saturating_sub(own) / DESCRIPTORS_OF_SESSION;
    let enough_for = usize::try_from(enough_for).unwrap_or(usize::MAX).max(1);
    let sessions = asked.all.min(enough_for);
    if sessions < asked.all {
        log::warn!(
            "{sessions} sessions at once rather than {}: this process may have {descriptors} files open (ulimit -n)",
            asked.all
        );
    }
    let per_origin = asked.per_address.unwrap_or(sessions.div_ceil(ADDRESS_PART));
    let per_client = asked.per_client.unwrap_or(sessions);
    Places { sessions: Limits { sessions, per_origin, per_client }, half_open }
}

/// Takes over the sockets of a service manager.
fn adopt(options: &NetOptions, inherited: &Inherited) -> Result<ListeningPair, MoveError> {
    let failed = MoveError::system("a socket of the service manager cannot be used");
    let (tcp, address) =
        inherited.tcp.try_clone().and_then(|tcp| tcp.local_addr().map(|at| (tcp, at))).map_err(failed)?;
    if let Some(bytes) = options.mtu {
        limit_packets(&tcp, address.ip(), bytes).map_err(MoveError::system("--mtu cannot be set for connections"))?;
    }
    let udp = match &inherited.udp {
        Some(udp) => sockets::adopt(options, udp)?,
        None => sockets::bind_shared(options, address)?,
    };
    if udp.local_address().port() != address.port() {
        let detail = format!(
            "the service manager gives TCP port {} and UDP port {}: inhaul needs both of the same number",
            address.port(),
            udp.local_address().port()
        );
        return Err(MoveError::Usage(detail));
    }
    Ok(ListeningPair { tcp, udp, address })
}

/// A TCP and a UDP socket on the same address and port.
pub struct ListeningPair {
    pub tcp: TcpListener,
    pub udp: Socket,
    pub address: SocketAddr,
}

/// Listens on `address`; port 0 finds a number that is free for both.
pub fn listen(options: &NetOptions, address: SocketAddr) -> Result<ListeningPair, MoveError> {
    /// A free TCP port may be taken for UDP; another try finds another.
    const TRIES: usize = 16;
    let mut tries = if address.port() == 0 { TRIES } else { 1 };
    loop {
        tries -= 1;
        let failed = |source| MoveError::Listen { address: address.to_string(), source };
        let tcp = bind_tcp(address, options.mtu).map_err(failed)?;
        let bound = tcp.local_addr().map_err(failed)?;
        // Flows have sockets of their own on this port: those of puts, and those of a predecessor that comes to its
        // end. Two servers cannot share it by mistake: only one can have the TCP port.
        match sockets::bind_shared(options, bound) {
            Ok(udp) => {
                if address.is_ipv6() && bound.is_ipv4() {
                    log::warn!("this system has no IPv6: only clients with IPv4 are served, at {bound}");
                }
                return Ok(ListeningPair { tcp, udp, address: bound });
            }
            Err(error) if tries == 0 => return Err(error),
            Err(_) => {}
        }
    }
}

/// Takes a TCP port; from a server that has just been told to stop, as soon as that gives it up.
fn bind_tcp(address: SocketAddr, mtu: Option<u16>) -> std::io::Result<TcpListener> {
    let deadline = Instant::now() + PREDECESSOR;
    loop {
        match listen_tcp(address, SESSIONS_MAX as u16, mtu) {
            Err(error) if error.kind() == std::io::ErrorKind::AddrInUse && Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(20));
            }
            bound => return bound,
        }
    }
}

/// What a server of files does beside the engine's work.
struct FileServer {
    reception: Reception,
    serving: Serving,
    directories: Vec<Offer>,
    /// The lower of the limits for all receivers together and for each.
    least_rate: Option<Bitrate>,
    /// Memory for lists of files.
    budget: Arc<Budget>,
    catalogue: Arc<Catalogue>,
    /// When the catalogue was tidied last.
    tidied: Time,
    orders: Option<Arc<dyn Orders>>,
    /// Orders that were under way when that was looked at last.
    orders_open: usize,
    /// How often memory is still given back after the last of those that ended.
    tidyings_left: u32,
    stop: Stop,
    reload: Ask,
    /// Where limits are found anew.
    limits: LimitsAnew,
    /// How many files this process may have open.
    descriptors: u64,
    counters: Arc<Counters>,
    status: Ask,
    identity: ServerIdentity,
    audit: Arc<Audit>,
    grace: Span,
    stopping: Stopping,
    unwelcome: Seldom,
    sink: Echoing,
}

/// How a server comes to its end.
enum Stopping {
    /// It has not been told to.
    No,
    /// Whoever it has just taken on may open its path until then: it takes nobody else on.
    Settling(Time),
    /// It takes nobody on, and what is under way may go on until then.
    Grace(Time),
    /// What is under way has been ended, and is put away until then at the latest.
    Closing(Time),
}

impl FileServer {
    fn has_orders(&self) -> bool {
        self.orders.as_ref().is_some_and(|orders| orders.open() > 0)
    }

    /// Takes the next step towards the end, when it is time for it; true at the end.
    fn come_to_an_end(&mut self, engine: &mut Engine) -> bool {
        let now = engine.now();
        match self.stopping {
            Stopping::No if self.stop.is_set() => {
                self.stopping = Stopping::Settling(now + SETTLING);
                self.come_to_an_end(engine)
            }
            Stopping::Settling(until)
                if now >= until
                    || (self.reception.half_open() == 0 && self.serving.opened() == self.reception.sessions()) =>
            {
                // In this order: a successor can have the port as soon as nobody listens there, and all datagrams that
                // come to it from then on are the successor's, but those of flows that have sockets of their own.
                self.serving.give_port_up(engine);
                engine.stop_listening();
                self.stopping = Stopping::Grace(now + self.grace);
                let sessions = self.reception.sessions();
                if sessions > 0 {
                    let seconds = self.grace.as_secs_f64();
                    log::warn!(
                        "told to stop: {sessions} sessions may go on for {seconds:.0} s; a second signal ends them"
                    );
                }
                sessions == 0
            }
            Stopping::Grace(until) if now >= until => {
                self.orders.iter().for_each(|orders| orders.stop_all());
                self.stopping = Stopping::Closing(now + CLOSING);
                !self.has_orders()
            }
            Stopping::No | Stopping::Settling(_) => false,
            Stopping::Grace(_) => self.reception.sessions() == 0,
            Stopping::Closing(until) => now >= until || !self.has_orders(),
        }
    }

    /// Begins a session. What stands in its way is one client's trouble, and nobody else's.
    fn welcome(&mut self, engine: &mut Engine, fetcher: Fetcher) {
        let client = fetcher.stream.peer();
        if let Err(error) = self.serving.welcome(engine, fetcher) {
            self.counters.refuse(Refusal::Busy);
            self.unwelcome.warn(engine.now(), &format!("{client}: no session comes about: {error}"));
        }
    }

    /// A stream is to carry datagrams of the session that `token` is of: of one that fetches from here, or of a put.
    fn attach_tunnel(&mut self, engine: &mut Engine, token: u128, stream: ControlStream) {
        let attached = match (self.serving.attach_tunnel(engine, token, stream), &self.orders) {
            (Err(Unwanted { stream, why: UNKNOWN }), Some(orders)) => orders.carry(token, *stream),
            (attached, _) => attached,
        };
        if let Err(unwanted) = attached {
            self.turn_stream_away(unwanted);
        }
    }

    /// Tells whoever has opened a stream that it is unwanted, and writes it down: elsewhere, as this thread waits for no
    /// disk.
    fn turn_stream_away(&self, unwanted: Unwanted) {
        self.counters.refuse(Refusal::NoSession);
        let (audit, client, why) = (Arc::clone(&self.audit), unwanted.stream.peer().to_string(), unwanted.why);
        unwanted.refuse();
        let write = move || audit.write(&AuditEvent::NoSession { client: &client, reason: why });
        if let Err(error) = threads::spawn_helper("inhaul-audit", write) {
            log::error!("the audit log cannot be written: {error}");
        }
    }

    /// Does what the user has asked for by a signal.
    fn obey(&mut self, engine: &Engine) {
        if self.reload.take() {
            match Offered::of(&self.directories) {
                Ok(offered) => {
                    warn_of_unclear(&offered);
                    // Sessions keep what they have open.
                    let catalogue = Catalogue::new(offered, Arc::clone(&self.budget)).at_rate(self.least_rate);
                    self.catalogue = Arc::new(catalogue);
                    self.reception.offer(Service::Files(Arc::clone(&self.catalogue), self.orders.clone()));
                    log::info!("what is offered has been opened anew");
                }
                Err(error) => log::warn!("what was offered before still is: {error}"),
            }
            match Gate::new(&self.identity, Arc::clone(&self.audit)) {
                Ok(gate) => self.reception.set_gate(gate),
                Err(error) => log::warn!("the certificate stays the one before: {error}"),
            }
            match self.limits.read() {
                None => {}
                Some(Ok(limits)) => self.reception.set_limits(places(limits, self.descriptors).sessions),
                Some(Err(error)) => log::warn!("the limits stay what they were: {error}"),
            }
            self.reception.review();
        }
        if self.status.take() {
            log::info!("{} sessions are open or in set-up", self.reception.sessions());
            self.serving.log_sessions(engine);
        }
    }
}

impl FileServer {
    /// What is done once a second: lists of files that nobody needs are dropped, elsewhere, as that takes a while.
    /// Rights of open sessions are looked at, and what is open is counted.
    fn tidy(&mut self, now: Time, kernel_drops: u64) {
        if now.since(self.tidied) >= TIDY_INTERVAL {
            self.tidied = now;
            self.reception.review();
            self.reception.count();
            self.counters.kernel_drops.raise(kernel_drops);
            let orders = self.orders.as_ref().map_or(0, |orders| orders.open());
            self.counters.orders_open.set(orders as u64);
            let stale = self.catalogue.take_stale();
            if orders < std::mem::replace(&mut self.orders_open, orders) {
                self.tidyings_left = TIDYINGS;
            }
            let after_order = self.tidyings_left > 0;
            self.tidyings_left = self.tidyings_left.saturating_sub(1);
            if after_order || !stale.is_empty() {
                threads::beside_or_here("inhaul-tidy", move || {
                    drop(stale);
                    // Lists of files are large, and what held them is kept by the allocator otherwise.
                    give_back_memory();
                });
            }
        }
    }
}

impl Application for FileServer {
    fn sink(&mut self) -> &mut dyn Sink {
        &mut self.sink
    }

    fn bodies(&mut self) -> &mut dyn BodySource {
        &mut self.serving.bodies
    }

    fn on_event(&mut self, engine: &mut Engine, event: Event) -> Result<(), MoveError> {
        self.serving.on_event(engine, &event);
        Ok(())
    }

    fn on_frame(&mut self, engine: &mut Engine, flow: FlowId, frame: Frame) -> Result<(), MoveError> {
        if matches!(frame, Frame::TryDatagrams) {
            let client = self.serving.tries_datagrams(engine, flow);
            client.into_iter().for_each(|client| self.sink.early.expect(client));
            return Ok(());
        }
        self.serving.on_frame(engine, flow, frame);
        Ok(())
    }

    fn on_end(&mut self, engine: &mut Engine, flow: FlowId, cause: &EndCause) -> Result<(), MoveError> {
        self.serving.on_end(engine, flow, cause);
        Ok(())
    }

    fn on_accept(&mut self, engine: &mut Engine, tcp: TcpStream) -> Result<(), MoveError> {
        // Dropped, it is tried again by its client: at the successor, if there is one.
        if matches!(self.stopping, Stopping::No) {
            if let Ok(peer) = tcp.peer_addr() {
                self.sink.early.expect(peer.ip());
            }
            self.reception.greet(engine, tcp);
        }
        Ok(())
    }

    fn on_turn(&mut self, engine: &mut Engine) -> Result<PollResult, MoveError> {
        while let Some(arrival) = self.reception.arrival() {
            match arrival {
                Arrival::Fetcher(fetcher) => self.welcome(engine, fetcher),
                Arrival::Tunnel(stream, token) => self.attach_tunnel(engine, token, stream),
                Arrival::Bencher(_) => {}
            }
        }
        if self.come_to_an_end(engine) {
            return Ok(PollResult::Done);
        }
        self.obey(engine);
        self.serving.tend(engine);
        self.counters.turns.add(1);
        self.tidy(engine.now(), engine.kernel_drops());
        Ok(PollResult::Wait(later(engine)))
    }
}

/// When the stop flag is looked at next.
pub fn later(engine: &Engine) -> Time {
    engine.now() + STOP_INTERVAL
}
