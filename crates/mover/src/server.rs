//! `serve`: offers directories to any number of receivers, over one TCP and one UDP port.

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use inhaul_base::{Span, Time};
use inhaul_store::digest_cache::DigestCache;
use inhaul_store::{Offered, OfferedError};
use inhaul_transport::{Command, Event, FlowId, OfferFlow, Role};
use inhaul_udp::Socket;

use crate::bodies::FileBodies;
use crate::digest_service::DigestService;
use crate::endpoints::Endpoints;
use crate::engine::{Application, Bodies, EndCause, Engine, PortId, Sink, Turn};
use crate::error::MoveError;
use crate::frame::{Frame, GroupRun, RefusalCode};
use crate::greeting::{Arrival, GreetingError, Service, Wish, greet};
use crate::net;
use crate::options::{NetOptions, ServeOptions, Stop};
use crate::port::Port;
use crate::probe::{Echoing, ProbeDesk};

/// Sessions that may be open or in set-up at once.
pub(crate) const SESSIONS_MAX: usize = 1024;
/// Most that remembered digests may take on the disk when a server starts: those of some 6 TB.
const CACHE_BYTES_MAX: u64 = 256 << 20;
/// How often the stop flag is looked at.
pub(crate) const STOP_INTERVAL: Span = Span::from_millis(100);
/// Digests wait while so many bytes of a control stream wait: requests for data must not queue behind them.
const DIGEST_BACKLOG: usize = 64 * 1024;

/// Offers `options.directories` until `stop` is set; calls `ready` with the address once it listens.
///
/// # Errors
/// When a directory cannot be offered, when the address cannot be listened on, or when the system fails.
pub fn serve(options: &ServeOptions, stop: &Stop, ready: impl FnOnce(SocketAddr)) -> Result<(), MoveError> {
    let offered = Offered::new(&options.directories).map_err(offered_error)?;
    let ListeningPair { tcp, udp, address } = listen(&options.net, options.listen)?;
    let mut engine = Engine::new()?;
    let endpoints = Endpoints::new(&udp, options.send_rate, None);
    let port = engine.add_port(Port::new(udp, false))?;
    engine.listen(tcp)?;
    let reception = Reception::new(Service::Files(Arc::new(offered)), address.port());
    let mut server = FileServer {
        sink: Echoing::new(Arc::clone(&reception.desk)),
        reception,
        endpoints,
        port,
        net: options.net.clone(),
        stop: stop.clone(),
        bodies: FileBodies::default(),
        digests: BTreeMap::new(),
        cache: options.cache.as_deref().and_then(open_cache),
    };
    net::become_data_thread(&options.net)?;
    ready(address);
    engine.run(&mut server)
}

/// Opens the cache of digests and makes room in it, on a thread of its own. Without one, everything is hashed.
fn open_cache(directory: &Path) -> Option<DigestCache> {
    let cache = DigestCache::open(directory).ok()?;
    let pruned = cache.clone();
    net::spawn_helper("inhaul-cache", move || pruned.prune(CACHE_BYTES_MAX)).ok()?;
    Some(cache)
}

fn offered_error(error: OfferedError) -> MoveError {
    match error {
        OfferedError::NotFound { .. } => MoveError::NothingToServe { detail: error.to_string() },
        error => MoveError::Usage(error.to_string()),
    }
}

/// A TCP and a UDP socket on the same address and port.
pub(crate) struct ListeningPair {
    pub(crate) tcp: TcpListener,
    pub(crate) udp: Socket,
    pub(crate) address: SocketAddr,
}

/// Listens on `address`; port 0 finds a number that is free for both.
pub(crate) fn listen(options: &NetOptions, address: SocketAddr) -> Result<ListeningPair, MoveError> {
    /// A free TCP port may be taken for UDP; another try finds another.
    const TRIES: usize = 16;
    let mut tries = if address.port() == 0 { TRIES } else { 1 };
    loop {
        tries -= 1;
        let tcp = TcpListener::bind(address);
        let failed = |source| MoveError::Listen { address: address.to_string(), source };
        let tcp = match tcp {
            // A system without IPv6: everything that it has is IPv4.
            Err(_) if address.ip() == std::net::Ipv6Addr::UNSPECIFIED && TcpListener::bind("[::]:0").is_err() => {
                return listen(options, SocketAddr::new(std::net::Ipv4Addr::UNSPECIFIED.into(), address.port()));
            }
            tcp => tcp.map_err(failed)?,
        };
        let bound = tcp.local_addr().map_err(failed)?;
        match net::bind(options, bound) {
            Ok(udp) => return Ok(ListeningPair { tcp, udp, address: bound }),
            Err(error) if tries == 0 => return Err(error),
            Err(_) => {}
        }
    }
}

/// Where clients arrive: each is greeted on a thread of its own, and then handed to the data thread.
pub(crate) struct Reception {
    service: Service,
    udp_port: u16,
    /// Where clients are admitted that only try the path.
    desk: Arc<ProbeDesk>,
    greeted: Sender<Result<Option<Arrival>, GreetingError>>,
    arrivals: Receiver<Result<Option<Arrival>, GreetingError>>,
    in_set_up: usize,
}

impl Reception {
    pub(crate) fn new(service: Service, udp_port: u16) -> Self {
        let (greeted, arrivals) = channel();
        Self { service, udp_port, desk: Arc::default(), greeted, arrivals, in_set_up: 0 }
    }

    /// Greets a client, unless there are too many: then the connection is closed.
    pub(crate) fn greet(&mut self, engine: &Engine, tcp: TcpStream) {
        if engine.streams() + self.in_set_up >= SESSIONS_MAX {
            log::warn!("{SESSIONS_MAX} sessions are open: another client is turned away");
            return;
        }
        let (service, udp_port, desk) = (self.service.clone(), self.udp_port, Arc::clone(&self.desk));
        let (greeted, waker) = (self.greeted.clone(), engine.waker());
        let run = move || {
            // The data thread may have ended meanwhile.
            let _ = greeted.send(greet(tcp, &service, udp_port, &desk));
            waker.wake();
        };
        if net::spawn_helper("inhaul-greeting", run).is_ok() {
            self.in_set_up += 1;
        }
    }

    /// The next client that is ready for data. Those that were refused have been told.
    pub(crate) fn next(&mut self) -> Option<Arrival> {
        while let Ok(result) = self.arrivals.try_recv() {
            self.in_set_up -= 1;
            if let Ok(Some(arrival)) = result {
                return Some(arrival);
            }
        }
        None
    }
}

/// What a server of files does beside the engine's work.
struct FileServer {
    reception: Reception,
    endpoints: Endpoints,
    port: PortId,
    net: NetOptions,
    stop: Stop,
    sink: Echoing,
    bodies: FileBodies,
    digests: BTreeMap<FlowId, Digests>,
    /// Digests that earlier runs have computed.
    cache: Option<DigestCache>,
}

/// The digests of one session.
struct Digests {
    data_set: Arc<inhaul_store::DataSet>,
    /// Made when the client first asks.
    service: Option<DigestService>,
}

impl FileServer {
    fn welcome(&mut self, engine: &mut Engine, arrival: Arrival) -> Result<(), MoveError> {
        let Wish::Fetch(data_set) = arrival.wish else { return Ok(()) };
        let flow = engine.new_flow();
        let mtu = net::mtu_from(&self.net, arrival.stream.local().ip());
        let only_from = Some(arrival.stream.peer().ip());
        let size = data_set.manifest().size();
        log::debug!("flow {} goes to {}: {size} bytes, MTU {mtu}", flow.0, arrival.stream.peer());
        self.bodies.insert(flow, Arc::clone(&data_set));
        self.digests.insert(flow, Digests { data_set, service: None });
        let side = self.endpoints.of(engine, Role::Sender, arrival.transport)?;
        engine.add_flow(flow, side, self.port, arrival.stream)?;
        // A data set without bytes is nothing for a protocol; its digests go over the control stream all the same.
        if size > 0 {
            let offer = OfferFlow { flow, size, peer: None, only_from, mtu, token: net::random_u64()? };
            engine.command(side, Command::Offer(offer));
        }
        Ok(())
    }

    /// Ends a session, with a word to the client.
    fn part(&mut self, engine: &mut Engine, flow: FlowId, farewell: &Frame) {
        engine.dismiss(flow, farewell);
        self.forget(flow);
    }

    fn forget(&mut self, flow: FlowId) {
        log::debug!("flow {} is over", flow.0);
        self.bodies.remove(flow);
        self.digests.remove(&flow);
    }

    fn start_digests(&mut self, engine: &mut Engine, flow: FlowId, runs: Vec<GroupRun>) {
        let Some(digests) = self.digests.get_mut(&flow) else { return };
        if digests.service.is_none() {
            let data_set = Arc::clone(&digests.data_set);
            digests.service = DigestService::start(data_set, self.cache.clone(), engine.waker()).ok();
        }
        let taken = digests.service.as_ref().is_some_and(|service| service.request(runs));
        if !taken {
            let text = "too many digests were asked for at once".to_owned();
            self.part(engine, flow, &Frame::Refused { code: RefusalCode::Busy, text });
        }
    }

    /// Passes on digests that are ready, as far as the clients take them.
    fn pass_digests(&mut self, engine: &mut Engine) {
        for (&flow, digests) in &self.digests {
            let Some(service) = &digests.service else { continue };
            while engine.backlog(flow) < DIGEST_BACKLOG
                && let Some(frame) = service.next_frame()
            {
                engine.send(flow, &frame);
            }
        }
    }
}

impl Application for FileServer {
    fn sink(&mut self) -> &mut dyn Sink {
        &mut self.sink
    }

    fn bodies(&mut self) -> &mut dyn Bodies {
        &mut self.bodies
    }

    fn on_event(&mut self, engine: &mut Engine, event: Event) -> Result<(), MoveError> {
        if let Event::Failed { flow, error } = event {
            self.part(engine, flow, &Frame::malformed(&error));
        }
        Ok(())
    }

    fn on_frame(&mut self, engine: &mut Engine, flow: FlowId, frame: Frame) -> Result<(), MoveError> {
        match frame {
            Frame::DigestsOf { runs } => self.start_digests(engine, flow, runs),
            Frame::Finish => self.part(engine, flow, &Frame::Bye),
            _ => self.part(engine, flow, &Frame::out_of_place()),
        }
        Ok(())
    }

    fn on_end(&mut self, _engine: &mut Engine, flow: FlowId, cause: &EndCause) -> Result<(), MoveError> {
        log::info!("flow {} ended early: {cause}", flow.0);
        self.forget(flow);
        Ok(())
    }

    fn on_accept(&mut self, engine: &mut Engine, tcp: TcpStream) -> Result<(), MoveError> {
        self.reception.greet(engine, tcp);
        Ok(())
    }

    fn on_turn(&mut self, engine: &mut Engine) -> Result<Turn, MoveError> {
        if self.stop.is_set() {
            return Ok(Turn::Done);
        }
        while let Some(arrival) = self.reception.next() {
            self.welcome(engine, arrival)?;
        }
        self.pass_digests(engine);
        Ok(Turn::Wait(later(engine)))
    }
}

/// When the stop flag is looked at next.
pub(crate) fn later(engine: &Engine) -> Time {
    engine.now() + STOP_INTERVAL
}
