//! The client of a bench. It receives from the servers and sets the rates, or it sends and the servers set the rates.

use std::collections::BTreeMap;
use std::sync::mpsc::{Sender, channel};

use inhaul_base::{Bitrate, Span, Throughput, Time};
use inhaul_transport::{Command, Event, FlowError, FlowId, OfferFlow, Policy, Role};

use super::memory::BenchMemory;
use super::{ENDLESS, Receiving, bench_stats};
use inhaul_engine::engine::net;
use inhaul_engine::engine::port::Port;
use inhaul_engine::engine::{Application, BodySource, EndCause, Engine, PollResult, Sink};
use inhaul_session::api::error::MoveError;
use inhaul_session::api::fairness::{Together, jain_index};
use inhaul_session::api::options::{BenchLimit, BenchOptions, Stop};
use inhaul_session::api::overload::Overload;
use inhaul_session::api::report::{BenchInterval, BenchReport, BenchSource, Status, known_ms, loss_ratio};
use inhaul_session::api::source::Server;
use inhaul_session::session::connect::{Session, Wanted, at_once};
use inhaul_session::session::frame::{BenchStats, Frame, SessionRole};
use inhaul_session::system::threads;
use inhaul_session::system::{process, sockets};

/// How often a line is printed.
const INTERVAL: Span = Span::from_secs(1);
/// How long a line waits for what the servers say of that second: they do so five times a second.
const TOLD: Span = Span::from_millis(500);
/// How often the stop flag and the clock are looked at.
const LOOK: Span = Span::from_millis(100);
/// How long the servers may take to say how it went.
const CLOSING: Span = Span::from_secs(2);

/// Something that a user may want to see while a bench is under way.
#[derive(Clone, Debug, PartialEq)]
pub enum BenchUpdate {
    /// Another second has passed.
    Interval(BenchInterval),
    /// Something went wrong that did not end the bench.
    Warning(String),
}

/// Runs a bench, until `stop` is set. Calls `hear` with updates, on the calling thread. The report is of use even when
/// the bench failed.
///
/// # Errors
/// What ended the bench.
pub fn bench(
    options: &BenchOptions,
    stop: &Stop,
    hear: &mut dyn FnMut(BenchUpdate),
) -> (BenchReport, Result<(), MoveError>) {
    let mut report = BenchReport::default();
    let result = run(options, stop, hear, &mut report);
    if let Err(error) = &result {
        report.status = Status::Failed;
        report.error = Some(error.into());
    }
    (report, result)
}

fn run(
    options: &BenchOptions,
    stop: &Stop,
    hear: &mut dyn FnMut(BenchUpdate),
    report: &mut BenchReport,
) -> Result<(), MoveError> {
    if options.reverse && options.receive_rate.is_some() {
        let text = "--receive-rate is for the side that receives: with -R give it to 'inhaul bench --server'";
        return Err(MoveError::Usage(text.to_owned()));
    }
    net::check(&options.net, net::Rates { host: options.receive_rate, flow: options.rate })?;
    let sessions = connect_all(options, stop)?;
    let (updates, incoming) = channel();
    let (options, stop) = (options.clone(), stop.clone());
    let run = move || run_bench(&options, sessions, updates, stop);
    let thread = threads::spawn_helper("inhaul-data", run)?;
    for update in incoming {
        match &update {
            BenchUpdate::Interval(interval) => report.intervals.push(*interval),
            BenchUpdate::Warning(text) => report.warnings.push(text.clone()),
        }
        hear(update);
    }
    let (part, result) = thread.join().map_err(|_| MoveError::Internal("the data thread has died".to_owned()))?;
    *report = BenchReport {
        intervals: std::mem::take(&mut report.intervals),
        warnings: std::mem::take(&mut report.warnings),
        ..part
    };
    result
}

/// A session for every flow to every server.
fn connect_all(options: &BenchOptions, stop: &Stop) -> Result<Vec<(Session, u64)>, MoveError> {
    type Job = Box<dyn FnOnce() -> Result<(Session, u64), MoveError> + Send>;
    let role = if options.reverse { SessionRole::BenchPush } else { SessionRole::BenchFetch };
    let memory = options.memory;
    let flows = options.servers.len() as u64 * u64::from(options.flows);
    let servers = options.servers.iter().flat_map(|server| std::iter::repeat_n(server, usize::from(options.flows)));
    let jobs = servers.cloned().zip(0..).map(|(server, number): (Server, u64)| {
        let size = match options.limit {
            BenchLimit::Seconds(_) => ENDLESS,
            // The first ones take the bytes that cannot be divided.
            BenchLimit::Bytes(bytes) => (bytes / flows + u64::from(number < bytes % flows)).max(1),
        };
        let net = options.net.clone();
        Box::new(move || {
            let mut session = Session::connect(&server, role, Wanted::of(&net))?;
            session.open_bench(size, memory)?;
            Ok((session, size))
        }) as Job
    });
    at_once(jobs.collect(), stop)?.into_iter().collect()
}

/// The data thread.
fn run_bench(
    options: &BenchOptions,
    sessions: Vec<(Session, u64)>,
    updates: Sender<BenchUpdate>,
    stop: Stop,
) -> (BenchReport, Result<(), MoveError>) {
    let mut engine = match Engine::new() {
        Ok(engine) => engine,
        Err(error) => return (BenchReport::default(), Err(error)),
    };
    let mut client = BenchClient::new(options, updates, stop);
    let result = client.begin(options, &mut engine, sessions).and_then(|()| engine.run(&mut client));
    (client.report(), result)
}

/// One flow of the bench.
struct Flow {
    server: Server,
    size: u64,
    /// How it did by its receiver.
    stats: BenchStats,
    /// When the server said so, if it is the receiver.
    told: Option<Time>,
    /// What the server's process spent.
    server_cpu: Span,
    opened: Option<Time>,
    ended: Option<Time>,
    lost: bool,
    disconnected: bool,
}

struct BenchClient {
    flows: BTreeMap<FlowId, Flow>,
    role: Role,
    limit: BenchLimit,
    memory: BenchMemory,
    updates: Sender<BenchUpdate>,
    stop: Stop,
    /// When data could first flow.
    started: Option<Time>,
    /// When no more was wanted.
    ended: Option<Time>,
    cpu_before: Span,
    cpu: Span,
    interval_start: Time,
    interval_before: Totals,
    together: Together<FlowId>,
    last_error: Option<FlowError>,
    /// The policy in use, if the transport has policies.
    policy: Option<Policy>,
    overload: Overload,
}

/// Sums over all flows.
#[derive(Clone, Copy, Default)]
struct Totals {
    bytes: u64,
    received: u64,
    lost: u64,
}

impl BenchClient {
    fn new(options: &BenchOptions, updates: Sender<BenchUpdate>, stop: Stop) -> Self {
        Self {
            flows: BTreeMap::new(),
            role: if options.reverse { Role::Sender } else { Role::Receiver },
            limit: options.limit,
            memory: BenchMemory::default(),
            updates,
            stop,
            started: None,
            ended: None,
            cpu_before: Span::ZERO,
            cpu: Span::ZERO,
            interval_start: Time::ZERO,
            interval_before: Totals::default(),
            together: Together::default(),
            last_error: None,
            policy: net::policy(&options.net),
            overload: Overload::default(),
        }
    }

    /// Builds the endpoint and gives it all flows.
    fn begin(
        &mut self,
        options: &BenchOptions,
        engine: &mut Engine,
        sessions: Vec<(Session, u64)>,
    ) -> Result<(), MoveError> {
        threads::become_data_thread(&options.net)?;
        if self.role == Role::Receiver {
            engine.watch_thread(&options.net, false);
        }
        if self.role == Role::Sender {
            self.begin_sending(options, engine, sessions)?;
        } else {
            self.begin_receiving(options, engine, sessions)?;
        }
        self.cpu_before = process::cpu_time();
        Ok(())
    }

    fn begin_receiving(
        &mut self,
        options: &BenchOptions,
        engine: &mut Engine,
        sessions: Vec<(Session, u64)>,
    ) -> Result<(), MoveError> {
        let mut endpoint = None;
        for (session, size) in sessions {
            let server = session.server.clone();
            let mut receiving = Receiving {
                net: &options.net,
                rates: net::Rates { host: options.receive_rate, flow: options.rate },
                endpoint: &mut endpoint,
                memory: &mut self.memory,
            };
            let flow = receiving.join(engine, session, (size, options.memory), options.rate)?;
            self.add(flow, server, size);
        }
        Ok(())
    }

    fn begin_sending(
        &mut self,
        options: &BenchOptions,
        engine: &mut Engine,
        sessions: Vec<(Session, u64)>,
    ) -> Result<(), MoveError> {
        // A socket of IPv6 reaches both.
        let any = if sessions.iter().all(|(session, _)| session.datagrams.is_ipv4()) {
            std::net::IpAddr::from(std::net::Ipv4Addr::UNSPECIFIED)
        } else {
            std::net::Ipv6Addr::UNSPECIFIED.into()
        };
        let socket = sockets::bind(&options.net, std::net::SocketAddr::new(any, 0))?;
        // The limit is of all flows together here; they share it equally.
        let limit = options.rate.map(|rate| Bitrate::from_bps(rate.bps().saturating_mul(sessions.len() as u64)));
        let endpoint =
            net::add_endpoint(&options.net, engine, Role::Sender, net::Rates { host: limit, flow: None }, &socket)?;
        let port = engine.add_port(Port::new(socket, false))?;
        for (session, size) in sessions {
            let flow = engine.new_flow();
            let offer = OfferFlow {
                flow,
                size,
                peer: Some(session.datagrams),
                only_from: Some(session.datagrams.ip()),
                path: sockets::path_toward(&options.net, session.datagrams),
                connection: engine.new_connection()?,
                token: process::random_u64()?,
                client: None,
                parameters: Vec::new().into(),
            };
            self.memory.insert(flow, options.memory);
            self.add(flow, session.server.clone(), size);
            engine.add_flow(flow, endpoint, port, session.stream)?;
            engine.command(endpoint, Command::Offer(offer));
        }
        Ok(())
    }

    fn add(&mut self, flow: FlowId, server: Server, size: u64) {
        self.flows.insert(
            flow,
            Flow {
                server,
                size,
                stats: BenchStats::default(),
                told: None,
                server_cpu: Span::ZERO,
                opened: None,
                ended: None,
                lost: false,
                disconnected: false,
            },
        );
    }

    /// Takes note of how all flows are doing, where it is known here.
    fn measure(&mut self, engine: &Engine) {
        // What comes after the end is in no figure.
        if self.role == Role::Sender || self.ended.is_some() {
            return;
        }
        for (&id, flow) in &mut self.flows {
            if let Some(stats) = engine.flow_stats(id) {
                flow.stats = bench_stats(&stats, Span::ZERO);
            }
        }
        let active = self.flows.iter().filter(|(_, flow)| flow.opened.is_some() && flow.ended.is_none());
        self.together.note(engine.now(), active.map(|(&id, flow)| (id, flow.stats.placed_bytes)));
    }

    fn totals(&self) -> Totals {
        self.flows.values().fold(Totals::default(), |sum, flow| Totals {
            bytes: sum.bytes + flow.stats.placed_bytes,
            received: sum.received + flow.stats.received_packets,
            lost: sum.lost + flow.stats.lost_packets,
        })
    }

    /// Tells of the time since the last line.
    fn tell_interval(&mut self, now: Time) {
        let Some(started) = self.started else { return };
        let (before, totals) = (self.interval_before, self.totals());
        let bytes = totals.bytes.saturating_sub(before.bytes);
        let interval = BenchInterval {
            start: self.interval_start.since(started).as_secs_f64(),
            end: now.since(started).as_secs_f64(),
            bytes,
            goodput_bps: Throughput::of(bytes, now.since(self.interval_start)).bps(),
            loss_ratio: loss_ratio(
                totals.lost.saturating_sub(before.lost),
                totals.received.saturating_sub(before.received),
            ),
        };
        self.interval_start = now;
        self.interval_before = totals;
        // The listener may be gone.
        let _ = self.updates.send(BenchUpdate::Interval(interval));
        if let Some(warning) = self.overload.note(now, self.policy, totals.lost, totals.received) {
            let _ = self.updates.send(BenchUpdate::Warning(warning));
        }
    }

    /// No more is wanted: asks the servers how it went.
    fn finish(&mut self, engine: &mut Engine, now: Time) {
        self.measure(engine);
        self.cpu = process::cpu_time().saturating_sub(self.cpu_before);
        self.ended = Some(now);
        for (&id, flow) in self.flows.iter_mut().filter(|(_, flow)| !flow.lost) {
            flow.ended = flow.ended.or(Some(now));
            engine.send(id, &Frame::Finish);
        }
        if self.role == Role::Receiver {
            self.tell_last_interval();
        }
    }

    /// The line of what has come since the last one: all lines together have all bytes. Where the servers receive, it is
    /// told once they have said how it went.
    fn tell_last_interval(&mut self) {
        let Some(ended) = self.ended else { return };
        let has_bytes = self.totals().bytes > self.interval_before.bytes;
        if has_bytes || ended.since(self.interval_start) > LOOK {
            self.tell_interval(ended);
        }
    }

    /// Whether a line is to be told. Where the servers receive, their figures come later than the second ends: a line
    /// ends when those have come, so that it has the bytes of its time.
    fn is_line_due(&self, now: Time) -> bool {
        let second = self.interval_start + INTERVAL;
        let is_known = |flow: &Flow| flow.lost || flow.ended.is_some() || flow.told.is_some_and(|told| told >= second);
        let all_known = || self.role == Role::Receiver || self.flows.values().all(is_known);
        self.started.is_some() && now >= second && (all_known() || now >= second + TOLD)
    }

    fn is_finished(&self, now: Time) -> bool {
        let Some(started) = self.started else { return false };
        match self.limit {
            BenchLimit::Seconds(seconds) => now.since(started) >= Span::from_secs_f64(seconds),
            BenchLimit::Bytes(_) => self.flows.values().all(|f| f.lost || f.stats.placed_bytes >= f.size),
        }
    }

    fn lose(&mut self, engine: &mut Engine, id: FlowId, detail: &str) -> Result<(), MoveError> {
        let now = engine.now();
        let Some(flow) = self.flows.get_mut(&id) else { return Ok(()) };
        flow.disconnected = true;
        if self.ended.is_some() || flow.lost {
            return Ok(());
        }
        flow.lost = true;
        flow.ended = Some(now);
        let server = flow.server.clone();
        engine.close(id);
        if self.flows.values().any(|flow| !flow.lost) {
            let _ = self.updates.send(BenchUpdate::Warning(format!("{server} is lost ({detail})")));
            return Ok(());
        }
        Err(match &self.last_error {
            Some(error @ FlowError::NoPath { .. }) => MoveError::UdpBlocked { server, detail: error.to_string() },
            _ => MoveError::BenchLost { server, detail: detail.to_owned() },
        })
    }

    fn report(&self) -> BenchReport {
        let (Some(started), Some(ended)) = (self.started, self.ended) else { return BenchReport::default() };
        let whole = ended.since(started);
        let totals = self.totals();
        let all = Throughput::of(totals.bytes, whole);
        BenchReport {
            bytes: all.bytes,
            seconds: all.seconds(),
            goodput_bps: all.bps(),
            loss_ratio: loss_ratio(totals.lost, totals.received),
            cpu_seconds: self.cpu.as_secs_f64(),
            jain_index: self.jain_index(started, whole),
            policy: self.policy.map(|policy| policy.name().to_owned()),
            sources: self.flows.values().map(|flow| flow.report(ended, whole)).collect(),
            ..BenchReport::default()
        }
    }

    /// Jain's index of the flows, if they competed.
    fn jain_index(&self, started: Time, whole: Span) -> Option<f64> {
        if self.flows.values().any(|flow| flow.lost) {
            return None;
        }
        match (self.role, self.limit) {
            (Role::Receiver, _) => self.together.jain_index(self.flows.keys().copied(), whole),
            // What each had is known at the end: only flows that were there all the time are equally long.
            (Role::Sender, BenchLimit::Seconds(_)) => {
                let is_whole = |flow: &Flow| flow.opened.is_some_and(|opened| opened.since(started) * 10 <= whole);
                let bytes = || self.flows.values().map(|flow| flow.stats.placed_bytes as f64);
                if self.flows.values().all(is_whole) { jain_index(bytes()) } else { None }
            }
            (Role::Sender, BenchLimit::Bytes(_)) => None,
        }
    }
}

impl Flow {
    fn report(&self, end: Time, whole: Span) -> BenchSource {
        let active = self.opened.map_or(Span::ZERO, |opened| self.ended.unwrap_or(end).since(opened));
        BenchSource {
            address: self.server.to_string(),
            bytes: self.stats.placed_bytes,
            goodput_bps: Throughput::of(self.stats.placed_bytes, whole).bps(),
            active_seconds: active.as_secs_f64(),
            loss_ratio: loss_ratio(self.stats.lost_packets, self.stats.received_packets),
            rtt_ms: known_ms(self.stats.rtt),
            retransmitted_bytes: self.stats.retransmitted_bytes,
            cpu_seconds: self.server_cpu.as_secs_f64(),
        }
    }
}

impl Application for BenchClient {
    fn sink(&mut self) -> &mut dyn Sink {
        &mut self.memory
    }

    fn bodies(&mut self) -> &mut dyn BodySource {
        &mut self.memory
    }

    fn on_event(&mut self, engine: &mut Engine, event: Event) -> Result<(), MoveError> {
        let now = engine.now();
        match event {
            Event::Opened { flow } => {
                if let Some(flow) = self.flows.get_mut(&flow) {
                    flow.opened = flow.opened.or(Some(now));
                }
                if self.started.is_none() {
                    self.started = Some(now);
                    self.interval_start = now;
                }
                self.measure(engine);
            }
            Event::Complete { object } => {
                self.measure(engine);
                if let Some(flow) = self.flows.get_mut(&FlowId(object.0)) {
                    flow.ended = flow.ended.or(Some(now));
                }
            }
            Event::Failed { flow, error } => {
                let detail = error.to_string();
                self.last_error = Some(error);
                self.lose(engine, flow, &detail)?;
            }
            Event::Closed { .. } | Event::Starved { .. } | Event::Control { .. } | Event::Source { .. } => {}
        }
        Ok(())
    }

    fn on_frame(&mut self, engine: &mut Engine, id: FlowId, frame: Frame) -> Result<(), MoveError> {
        match frame {
            Frame::Stats(stats) => {
                if let Some(flow) = self.flows.get_mut(&id) {
                    flow.server_cpu = stats.cpu;
                    if self.role == Role::Sender {
                        flow.told = Some(engine.now());
                        flow.stats = stats;
                    }
                }
                Ok(())
            }
            Frame::Refused { text, .. } => self.lose(engine, id, &text),
            Frame::Bye => self.lose(engine, id, "it ended the session"),
            _ => self.lose(engine, id, "it sent a frame that has no place here"),
        }
    }

    fn on_end(&mut self, engine: &mut Engine, flow: FlowId, cause: &EndCause) -> Result<(), MoveError> {
        self.lose(engine, flow, &cause.to_string())
    }

    fn on_turn(&mut self, engine: &mut Engine) -> Result<PollResult, MoveError> {
        if self.stop.is_set() {
            return Err(MoveError::Interrupted);
        }
        let now = engine.now();
        if let Some(ended) = self.ended {
            let disconnected = self.flows.values().all(|flow| flow.disconnected || flow.lost);
            let until = ended + CLOSING;
            return Ok(if disconnected || now >= until {
                if self.role == Role::Sender {
                    self.tell_last_interval();
                }
                PollResult::Done
            } else {
                PollResult::Wait(until.min(now + LOOK))
            });
        }
        if let (Some(started), BenchLimit::Seconds(seconds)) = (self.started, self.limit)
            && now < started + Span::from_secs_f64(seconds)
            && now < self.interval_start + INTERVAL
        {
            let end = started + Span::from_secs_f64(seconds);
            return Ok(PollResult::Wait(end.min(self.interval_start + INTERVAL).min(now + LOOK)));
        }
        self.measure(engine);
        if self.is_finished(now) {
            self.finish(engine, now);
        } else if self.is_line_due(now) {
            self.tell_interval(now);
        }
        Ok(PollResult::Wait(now + LOOK))
    }
}
