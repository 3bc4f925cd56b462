//! `put`: orders a server to fetch from this host. The server is the receiver, and sets the rates. See
//! [`crate::delegated`].

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;

use inhaul_base::Span;
use inhaul_store::{Offered, printable};
use inhaul_transport::{Event, FlowId};
use inhaul_udp::Socket;

use crate::carrier::{Carrier, introduction_patience};
use crate::follow::follow;
use crate::order::{Order, Origin, SOURCES_MAX};
use crate::retry::repeat;
use inhaul_engine::engine::net::{self, Transport};
use inhaul_engine::engine::port::Discard;
use inhaul_engine::engine::probe;
use inhaul_engine::engine::{Application, BodySource, EndCause, Engine, PollResult, Sink};
use inhaul_haul::haul::destination;
use inhaul_serve::catalogue::Catalogue;
use inhaul_serve::greeting::be_opened;
use inhaul_serve::server::{later, offered_error};
use inhaul_serve::serving::{Fetcher, Serving};
use inhaul_session::api::error::{ErrorKind, MoveError};
use inhaul_session::api::options::{Fallback, NetOptions, PutOptions, Stop, Update};
use inhaul_session::api::report::Report;
use inhaul_session::api::source::Server;
use inhaul_session::session::connect::{Session, Wanted, at_once};
use inhaul_session::session::frame::{Frame, RefusalCode, SessionRole};
use inhaul_session::session::refusal::GreetingError;
use inhaul_session::system::threads;
use inhaul_session::system::{process, sockets};

/// How long the server may take to echo a probe.
const ECHO_MAX: Span = Span::from_secs(10);

/// Has the server of `options.destination` fetch `options.paths`, until `stop` is set. Calls `hear` with the server's
/// updates, on the calling thread. The report is the server's.
///
/// # Errors
/// What ended the transfer. The server keeps what was verified: the same call continues from there.
pub fn put(options: &PutOptions, stop: &Stop, hear: &mut dyn FnMut(Update)) -> (Report, Result<(), MoveError>) {
    let transfer = match process::random_u64() {
        Ok(transfer) => transfer,
        Err(error) => return (Report::failed(&error), Err(error)),
    };
    repeat(options.retry_for, stop, hear, |hear, goes_on| {
        let options = PutOptions { fresh: options.fresh && !goes_on, ..options.clone() };
        match begin(&options, transfer, stop) {
            Ok(mut put) => {
                let (report, result) = follow(&mut put.session, stop, hear);
                put.end();
                (report, result.map_err(seen_from_here))
            }
            Err(error) => (Report::failed(&error), Err(error)),
        }
    })
}

/// A server that has lost its sender has lost this host.
fn seen_from_here(error: MoveError) -> MoveError {
    match error {
        MoveError::Delegated { server, kind: ErrorKind::Unreachable | ErrorKind::TimedOut, detail } => {
            MoveError::ServerLost { server, detail: format!("it has lost this host: {detail}") }
        }
        error => error,
    }
}

/// A put under way.
struct Put {
    /// Over which it was ordered.
    session: Session,
    /// The thread that sends, and how to end it.
    sending: JoinHandle<Result<(), MoveError>>,
    stop_sending: Stop,
}

impl Put {
    fn end(self) {
        self.stop_sending.stop();
        match self.sending.join() {
            Ok(Err(error)) => log::warn!("sending ended badly: {error}"),
            Ok(Ok(())) => {}
            Err(_) => log::error!("the data thread has died"),
        }
    }
}

/// Orders the transfer, and sets it up until data can flow.
fn begin(options: &PutOptions, transfer: u64, stop: &Stop) -> Result<Put, MoveError> {
    net::check(&options.net, net::Rates::default())?;
    destination::check(options.destination.path.as_ref(), options.paths.len())?;
    let server = &options.destination.server;
    let offered: Vec<Arc<Catalogue>> = options
        .paths
        .iter()
        .map(|path| {
            let offered = Offered::new(std::slice::from_ref(path)).map_err(offered_error)?;
            Ok(Arc::new(Catalogue::unbounded(offered).at_rate(options.rate)))
        })
        .collect::<Result<_, MoveError>>()?;
    let mut session = Session::connect(server, SessionRole::Delegate, Wanted::of(&options.net))?;
    let token = session.order(order(options, transfer)?.encode()?)?;
    let socket = introduce(&options.net, &session, token)?;
    let fetchers = attach_all(options, server, token, offered, stop)?;
    let stop_sending = Stop::new();
    let (options, stop) = (options.clone(), stop_sending.clone());
    let addresses = (session.stream.peer(), session.datagrams);
    let sending = threads::spawn_helper("inhaul-data", move || send(&options, socket, addresses, fetchers, stop))?;
    Ok(Put { session, sending, stop_sending })
}

fn order(options: &PutOptions, transfer: u64) -> Result<Order, MoveError> {
    let count = options.paths.len();
    if !(1..=SOURCES_MAX).contains(&count) {
        return Err(MoveError::Usage(format!(
            "at most {SOURCES_MAX} paths can be put at once: put a directory of them"
        )));
    }
    Ok(Order {
        transfer,
        origin: Origin::Client { sources: count as u16 },
        destination: options.destination.path.clone(),
        rules: options.rules.iter().cloned().map(Into::into).collect(),
        existing: options.existing,
        checksum: false,
        attributes: options.attributes,
        fresh: options.fresh,
        dry_run: options.dry_run,
        rate_bps: None,
        retry_seconds: 0,
        fallback: fallback(&options.net, &options.destination.server),
    })
}

/// Whether datagrams may go over streams: no proxy passes UDP.
fn fallback(net: &NetOptions, server: &Server) -> Fallback {
    if net.trust.proxy_for(server).is_some() { Fallback::Always } else { net.fallback }
}

/// A socket whose address the server has been shown, as where this host's datagrams come from; or, if UDP does not pass
/// and streams may carry them, one that is not used.
fn introduce(net: &NetOptions, session: &Session, token: u64) -> Result<Socket, MoveError> {
    let unused = || sockets::bind(net, sockets::with_port(session.stream.local(), 0));
    let knock = |patience: Span| {
        let socket = sockets::connect(net, session.ends())?;
        let known = probe::knock(&socket, session.datagrams, token, patience, 0);
        Ok::<_, MoveError>((socket, known.map_err(MoveError::system("cannot probe"))?))
    };
    match fallback(net, &session.server) {
        Fallback::Always => unused(),
        Fallback::Auto => {
            let rtt = inhaul_udp::tcp_counts(session.stream.wire()).map_or(0, |counts| u64::from(counts.rtt_us));
            match knock(introduction_patience(Span::from_micros(rtt))) {
                Ok((socket, true)) => Ok(socket),
                Ok((_, false)) => unused(),
                Err(error) => {
                    log::info!("{}: {error}", session.server);
                    unused()
                }
            }
        }
        Fallback::Never => match knock(ECHO_MAX)? {
            (socket, true) => Ok(socket),
            (_, false) => {
                let seconds = ECHO_MAX.as_nanos() / 1_000_000_000;
                let detail = format!("no UDP datagram came back in {seconds} s, though TCP passes");
                Err(MoveError::UdpBlocked { server: session.server.clone(), detail })
            }
        },
    }
}

/// Opens a session for each of the data sets, and waits until the server has asked for it.
fn attach_all(
    options: &PutOptions,
    server: &Server,
    token: u64,
    offered: Vec<Arc<Catalogue>>,
    stop: &Stop,
) -> Result<Vec<Fetcher>, MoveError> {
    type Job = Box<dyn FnOnce() -> Result<Fetcher, MoveError> + Send>;
    let transport = Transport::of(&options.net)?;
    let attach = |(source, offered): (u16, Arc<Catalogue>)| {
        let (server, transport, net) = (server.clone(), transport.clone(), options.net.clone());
        Box::new(move || {
            let mut session = Session::connect(&server, SessionRole::Attach, Wanted::of(&net))?;
            session.send(&Frame::Attach { token, source })?;
            session.await_greeting()?;
            let opened = be_opened(&mut session.stream, &offered);
            let described = opened.map_err(|error| not_opened(server, error))?;
            let path = printable(described.data_set.data_set().manifest().name());
            Ok(Fetcher { stream: session.stream, transport, described, path, pass: None })
        }) as Job
    };
    at_once((0..).zip(offered).map(attach).collect(), stop)?.into_iter().collect()
}

fn not_opened(server: Server, error: GreetingError) -> MoveError {
    match error {
        GreetingError::Stream(error) => MoveError::ServerLost { server, detail: error.to_string() },
        GreetingError::Refused { code: RefusalCode::Busy, text } => MoveError::Busy { server, detail: text },
        GreetingError::Refused { code: RefusalCode::Malformed, text } => MoveError::Refused { server, detail: text },
        // What was to be put cannot be read here.
        GreetingError::Refused { text, .. } => MoveError::NothingToServe { detail: text },
        GreetingError::Full(full) => MoveError::Internal(full.to_string()),
    }
}

/// The data thread.
fn send(
    options: &PutOptions,
    socket: Socket,
    addresses: (SocketAddr, SocketAddr),
    fetchers: Vec<Fetcher>,
    stop: Stop,
) -> Result<(), MoveError> {
    let mut engine = Engine::new()?;
    let serving = Serving::new(&mut engine, socket, options.rate, &options.net, options.cache.as_deref())?;
    let carrier = Carrier::new(options.destination.server.clone(), addresses, &options.net, engine.waker());
    let mut sender = Sender { serving, carrier, sink: Discard, stop };
    for fetcher in fetchers {
        sender.serving.welcome(&mut engine, fetcher)?;
    }
    threads::become_data_thread(&options.net)?;
    engine.run(&mut sender)
}

/// What the sending side of a put does beside the engine's work.
struct Sender {
    serving: Serving,
    carrier: Carrier,
    sink: Discard,
    stop: Stop,
}

impl Application for Sender {
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
        match frame {
            Frame::AskTunnel => self.carrier.on_ask(engine, flow),
            Frame::TryDatagrams => self.carrier.on_try(engine, flow),
            frame => self.serving.on_frame(engine, flow, frame),
        }
        Ok(())
    }

    fn on_end(&mut self, engine: &mut Engine, flow: FlowId, cause: &EndCause) -> Result<(), MoveError> {
        self.serving.on_end(engine, flow, cause);
        Ok(())
    }

    fn on_turn(&mut self, engine: &mut Engine) -> Result<PollResult, MoveError> {
        self.serving.tend(engine);
        self.carrier.tend(engine, &self.serving);
        let is_over = self.stop.is_set() || engine.streams() == 0;
        Ok(if is_over { PollResult::Done } else { PollResult::Wait(later(engine)) })
    }
}
