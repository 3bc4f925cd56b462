//! `serve`: offers directories to any number of receivers, over one TCP and one UDP port.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use inhaul_base::{Span, Time};
use inhaul_store::{Offered, OfferedError};
use inhaul_transport::{Event, FlowId};
use inhaul_udp::Socket;

use crate::control_stream::ControlStream;
use crate::delegated::Delegations;
use crate::engine::{Application, Bodies, EndCause, Engine, Sink, Turn};
use crate::error::MoveError;
use crate::frame::{Frame, RefusalCode};
use crate::greeting::{Arrival, GreetingError, Service, greet};
use crate::net;
use crate::options::{NetOptions, ServeOptions, Stop};
use crate::probe::{Echoing, ProbeDesk};
use crate::serving::Serving;

/// Sessions that may be open or in set-up at once, where nobody has said how many.
pub(crate) const SESSIONS_MAX: usize = 1024;
/// How long what clients have ordered may take to put away what can be gone on from.
const FAREWELL: Span = Span::from_secs(5);
/// How often the stop flag is looked at.
pub(crate) const STOP_INTERVAL: Span = Span::from_millis(100);

/// Offers `options.directories`, and takes in what `options.accept` says, until `stop` is set; calls `ready` with the address
/// once it listens.
///
/// # Errors
/// When a directory cannot be offered or taken into, when the address cannot be listened on, or when the system fails.
pub fn serve(options: &ServeOptions, stop: &Stop, ready: impl FnOnce(SocketAddr)) -> Result<(), MoveError> {
    let offered = Offered::new(&options.directories).map_err(offered_error)?;
    let desk: Arc<ProbeDesk> = Arc::default();
    let delegations = options.accept.as_ref().map(|accept| Delegations::new(accept, &options.net, Arc::clone(&desk)));
    let delegations = delegations.transpose()?.map(Arc::new);
    net::allow_many_files();
    let ListeningPair { tcp, udp, address } = listen(&options.net, options.listen)?;
    let mut engine = Engine::new()?;
    let serving = Serving::new(&mut engine, udp, options.send_rate, &options.net, options.cache.as_deref())?;
    engine.listen(tcp)?;
    let service = Service::Files(Arc::new(offered), delegations.clone());
    let mut server = FileServer {
        sink: Echoing::new(Arc::clone(&desk)),
        reception: Reception::new(service, address.port(), desk, options.sessions_max),
        delegations,
        serving,
        stop: stop.clone(),
        grace: options.grace,
        stopping: Stopping::No,
    };
    net::become_data_thread(&options.net)?;
    ready(address);
    engine.run(&mut server)
}

pub(crate) fn offered_error(error: OfferedError) -> MoveError {
    match error {
        OfferedError::NotFound { .. } => MoveError::NothingToServe { detail: format!("{error}; check the path") },
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
        // The library asks for no more than 128 who may wait to be taken in; the system may still allow fewer.
        rustix::net::listen(&tcp, SESSIONS_MAX as i32).map_err(|errno| failed(errno.into()))?;
        let bound = tcp.local_addr().map_err(failed)?;
        // Puts have sockets of their own on this port.
        match net::bind_shared(options, bound) {
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
    sessions_max: usize,
}

impl Reception {
    pub(crate) fn new(service: Service, udp_port: u16, desk: Arc<ProbeDesk>, sessions_max: usize) -> Self {
        let (greeted, arrivals) = channel();
        Self { service, udp_port, desk, greeted, arrivals, in_set_up: 0, sessions_max }
    }

    /// Greets a client, unless there are too many: then it is told so, and the connection is closed.
    pub(crate) fn greet(&mut self, engine: &Engine, tcp: TcpStream) {
        if engine.streams() + self.in_set_up >= self.sessions_max {
            log::warn!("{} sessions are open: another client is turned away", self.sessions_max);
            turn_away(tcp, self.sessions_max);
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

    /// How many clients are being greeted, or have what they came for without the data thread.
    fn in_set_up(&self) -> usize {
        self.in_set_up
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

/// Tells a client that there is no room. A word that fits into the connection's buffer, or none: nobody waits here.
fn turn_away(tcp: TcpStream, sessions_max: usize) {
    let text =
        format!("it has {sessions_max} sessions open, and no more may be (serve --max-sessions): try again later");
    let refusal = Frame::Refused { code: RefusalCode::Busy, text };
    let Ok(mut stream) = ControlStream::new(tcp).and_then(|mut stream| stream.set_polled().map(|()| stream)) else {
        return;
    };
    // A client that is gone already needs no word.
    let _ = stream.queue(&refusal).and_then(|()| stream.flush());
}

/// What a server of files does beside the engine's work.
struct FileServer {
    reception: Reception,
    serving: Serving,
    delegations: Option<Arc<Delegations>>,
    stop: Stop,
    grace: Span,
    stopping: Stopping,
    sink: Echoing,
}

/// How a server comes to its end.
enum Stopping {
    /// It has not been told to.
    No,
    /// It takes nobody on, and what is under way may go on until then.
    Grace(Time),
    /// What is under way has been ended, and is put away until then at the latest.
    Farewell(Time),
}

impl FileServer {
    /// How many sessions there are.
    fn sessions(&self, engine: &Engine) -> usize {
        engine.streams() + self.reception.in_set_up()
    }

    fn is_delegating(&self) -> bool {
        self.delegations.as_ref().is_some_and(|delegations| !delegations.is_idle())
    }

    /// Takes the next step towards the end, when it is time for it; true at the end.
    fn come_to_an_end(&mut self, engine: &mut Engine) -> bool {
        let now = engine.now();
        let sessions = self.sessions(engine);
        match self.stopping {
            Stopping::No if self.stop.is_set() => {
                engine.stop_listening();
                self.stopping = Stopping::Grace(now + self.grace);
                if sessions > 0 {
                    let seconds = self.grace.as_secs_f64();
                    log::warn!(
                        "told to stop: {sessions} sessions may go on for {seconds:.0} s; a second signal ends them"
                    );
                }
                sessions == 0
            }
            Stopping::Grace(until) if now >= until => {
                self.delegations.iter().for_each(|delegations| delegations.stop_all());
                self.stopping = Stopping::Farewell(now + FAREWELL);
                !self.is_delegating()
            }
            Stopping::No => false,
            Stopping::Grace(_) => sessions == 0,
            Stopping::Farewell(until) => now >= until || !self.is_delegating(),
        }
    }
}

impl Application for FileServer {
    fn sink(&mut self) -> &mut dyn Sink {
        &mut self.sink
    }

    fn bodies(&mut self) -> &mut dyn Bodies {
        &mut self.serving.bodies
    }

    fn on_event(&mut self, engine: &mut Engine, event: Event) -> Result<(), MoveError> {
        self.serving.on_event(engine, &event);
        Ok(())
    }

    fn on_frame(&mut self, engine: &mut Engine, flow: FlowId, frame: Frame) -> Result<(), MoveError> {
        self.serving.on_frame(engine, flow, frame);
        Ok(())
    }

    fn on_end(&mut self, _engine: &mut Engine, flow: FlowId, cause: &EndCause) -> Result<(), MoveError> {
        log::info!("flow {} ended early: {cause}", flow.0);
        self.serving.forget(flow);
        Ok(())
    }

    fn on_accept(&mut self, engine: &mut Engine, tcp: TcpStream) -> Result<(), MoveError> {
        self.reception.greet(engine, tcp);
        Ok(())
    }

    fn on_turn(&mut self, engine: &mut Engine) -> Result<Turn, MoveError> {
        while let Some(arrival) = self.reception.next() {
            let Arrival::Fetcher(fetcher) = arrival else { continue };
            self.serving.welcome(engine, fetcher)?;
        }
        if self.come_to_an_end(engine) {
            return Ok(Turn::Done);
        }
        self.serving.pass_digests(engine);
        Ok(Turn::Wait(later(engine)))
    }
}

/// When the stop flag is looked at next.
pub(crate) fn later(engine: &Engine) -> Time {
    engine.now() + STOP_INTERVAL
}
