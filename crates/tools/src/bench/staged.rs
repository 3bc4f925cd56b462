//! A receiver whose flows start and stop by a plan, and whose samples are kept. The laboratory runs it in hosts of
//! emulated networks. It moves data from memory to memory, against the servers of a bench.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, Sender, channel};

use inhaul_base::{Bitrate, Span, Time};
use inhaul_transport::{Command, Event, FlowId, FlowStats};
use inhaul_udp::Waker;
use serde::{Deserialize, Serialize};

use super::memory::BenchMemory;
use super::{ENDLESS, Receiving};
use inhaul_engine::engine::net;
use inhaul_engine::engine::{Application, BodySource, EndCause, EndpointId, Engine, PollResult, Sink};
use inhaul_session::api::error::MoveError;
use inhaul_session::api::options::{NetOptions, Stop};
use inhaul_session::api::source::Server;
use inhaul_session::session::connect::{Session, Wanted};
use inhaul_session::session::frame::{Frame, Memory, SessionRole};
use inhaul_session::system::process;
use inhaul_session::system::threads;

/// How often the stop flag is looked at.
const LOOK: Span = Span::from_millis(100);

/// What a receiver is to do. Times count from the call of [`staged`].
#[derive(Clone, Debug)]
pub struct StagedOptions {
    /// The flows.
    pub flows: Vec<StagedFlow>,
    /// When everything ends.
    pub end: Span,
    /// How often the flows' bytes are noted.
    pub sample: Span,
    /// Most that the receiver takes in (C_r).
    pub receive_rate: Option<Bitrate>,
    /// What that becomes, by when, in the order of time.
    pub receive_rates: Vec<(Span, Bitrate)>,
    /// How the network is used.
    pub net: NetOptions,
}

/// A flow of the plan.
#[derive(Clone, Debug)]
pub struct StagedFlow {
    /// Where it comes from.
    pub server: Server,
    /// When it starts: its session is set up then.
    pub start: Span,
    /// When it is stopped; `None`: with its object, or with the run.
    pub stop: Option<Span>,
    /// Size of its object in bytes; `None`: without end.
    pub size: Option<u64>,
    /// Most that it may have (R_app).
    pub rate: Option<Bitrate>,
}

/// What became of the flows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StagedReport {
    /// The flows, in the order of the plan.
    pub flows: Vec<StagedFlowReport>,
    /// Processor time that this process has spent, in seconds.
    pub cpu_s: f64,
}

/// What became of a flow.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StagedFlowReport {
    /// Seconds since the start of the run, and the bytes of data that had come by then.
    pub samples: Vec<(f64, u64)>,
    /// When it was complete, stopped or failed, in seconds; `None`: it ran to the end.
    pub stop_s: Option<f64>,
    /// Bytes of data, each counted once.
    pub bytes: u64,
    /// Everything that came, headers from IP up included, in bytes.
    pub wire_bytes: u64,
    /// The data in that, in bytes.
    pub data_bytes: u64,
    /// Data packets that came.
    pub received_packets: u64,
    /// Data packets that were lost.
    pub lost_packets: u64,
    /// Smoothed round-trip time at the end, in milliseconds; zero: unknown.
    pub rtt_ms: f64,
    /// Why it ended badly, if it did.
    pub failure: Option<String>,
}

/// Runs the plan to its end, or until `stop` is set.
///
/// # Errors
/// When the system fails, or `stop` was set. A flow that fails does not end the run: its report says why.
pub fn staged(options: &StagedOptions, stop: &Stop) -> Result<StagedReport, MoveError> {
    net::check(&options.net, net::Rates { host: options.receive_rate, flow: None })?;
    let (options, stop) = (options.clone(), stop.clone());
    // A thread of its own, as for every transfer: it may be pinned.
    let run = move || {
        let mut engine = Engine::new()?;
        threads::become_data_thread(&options.net)?;
        engine.watch_thread(&options.net, false);
        let (connected, sessions) = channel();
        let waker = engine.waker();
        let mut receiver = StagedReceiver {
            began: engine.now(),
            next_sample: engine.now(),
            changed: 0,
            cpu_before: process::cpu_time(),
            flows: options.flows.iter().map(|_| Flow::default()).collect(),
            by_id: BTreeMap::new(),
            endpoint: None,
            memory: BenchMemory::default(),
            connected,
            sessions,
            waker,
            options,
            stop,
        };
        engine.run(&mut receiver)?;
        Ok(receiver.report())
    };
    threads::spawn_helper("inhaul-data", run)?
        .join()
        .map_err(|_| MoveError::Internal("the data thread has died".to_owned()))?
}

/// How a flow is doing.
#[derive(Default)]
struct Flow {
    id: Option<FlowId>,
    asked: bool,
    stats: FlowStats,
    report: StagedFlowReport,
}

impl Flow {
    fn has_ended(&self) -> bool {
        self.report.stop_s.is_some()
    }
}

struct StagedReceiver {
    began: Time,
    next_sample: Time,
    /// How many of the changes of the receiver's rate have been made.
    changed: usize,
    cpu_before: Span,
    flows: Vec<Flow>,
    by_id: BTreeMap<FlowId, usize>,
    endpoint: Option<EndpointId>,
    memory: BenchMemory,
    connected: Sender<(usize, Result<Session, MoveError>)>,
    sessions: Receiver<(usize, Result<Session, MoveError>)>,
    waker: Waker,
    options: StagedOptions,
    stop: Stop,
}

impl StagedReceiver {
    fn seconds(&self, now: Time) -> f64 {
        now.since(self.began).as_secs_f64()
    }

    /// Sets up the sessions whose time has come, beside the data thread.
    fn start_due(&mut self, now: Time) -> Result<(), MoveError> {
        for (number, (flow, plan)) in self.flows.iter_mut().zip(&self.options.flows).enumerate() {
            if flow.asked || self.began + plan.start > now {
                continue;
            }
            flow.asked = true;
            let (connected, waker) = (self.connected.clone(), self.waker.clone());
            let (server, options, size) = (plan.server.clone(), self.options.net.clone(), plan.size.unwrap_or(ENDLESS));
            threads::spawn_helper("inhaul-connect", move || {
                let connected_to = Session::connect(&server, SessionRole::BenchFetch, Wanted::of(&options));
                let session = connected_to.and_then(|mut session| {
                    session.open_bench(size, Memory::Hot)?;
                    Ok(session)
                });
                // If the run is over, it is not needed.
                let _ = connected.send((number, session));
                waker.wake();
            })?;
        }
        Ok(())
    }

    /// Joins the flows whose sessions are there.
    fn join_connected(&mut self, engine: &mut Engine, now: Time) -> Result<(), MoveError> {
        while let Ok((number, session)) = self.sessions.try_recv() {
            match session {
                Ok(session) => self.join(engine, number, session)?,
                Err(error) => self.end(engine, number, now, Some(error.to_string())),
            }
        }
        Ok(())
    }

    fn join(&mut self, engine: &mut Engine, number: usize, session: Session) -> Result<(), MoveError> {
        let Some(plan) = self.options.flows.get(number) else { return Ok(()) };
        let mut receiving = Receiving {
            net: &self.options.net,
            rates: net::Rates { host: self.options.receive_rate, flow: None },
            endpoint: &mut self.endpoint,
            memory: &mut self.memory,
        };
        let what = (plan.size.unwrap_or(ENDLESS), Memory::Hot);
        let flow = receiving.join(engine, session, what, plan.rate)?;
        self.flows[number].id = Some(flow);
        self.by_id.insert(flow, number);
        Ok(())
    }

    /// Ends a flow: as planned, or because of `failure`.
    fn end(&mut self, engine: &mut Engine, number: usize, now: Time, failure: Option<String>) {
        let at = self.seconds(now);
        let Some(flow) = self.flows.get_mut(number).filter(|flow| !flow.has_ended()) else { return };
        if let Some(id) = flow.id {
            if let Some(stats) = engine.flow_stats(id) {
                flow.stats = stats;
            }
            engine.close(id);
        }
        flow.report.samples.push((at, flow.stats.placed_bytes));
        flow.report.stop_s = Some(at);
        flow.report.failure = failure;
    }

    fn stop_due(&mut self, engine: &mut Engine, now: Time) {
        for number in 0..self.flows.len() {
            let due = self.options.flows[number].stop.is_some_and(|stop| self.began + stop <= now);
            if due && self.flows[number].asked {
                self.end(engine, number, now, None);
            }
        }
    }

    /// Makes the changes of the receiver's rate whose time has come.
    fn change_due(&mut self, engine: &mut Engine, now: Time) {
        while let Some((at, rate)) = self.options.receive_rates.get(self.changed)
            && self.began + *at <= now
        {
            self.changed += 1;
            match self.endpoint {
                Some(endpoint) => engine.command(endpoint, Command::LimitReceive(Some(*rate))),
                // The endpoint that is made later begins with it.
                None => self.options.receive_rate = Some(*rate),
            }
        }
    }

    fn sample(&mut self, engine: &Engine, now: Time) {
        let at = self.seconds(now);
        for flow in self.flows.iter_mut().filter(|flow| !flow.has_ended()) {
            let Some(stats) = flow.id.and_then(|id| engine.flow_stats(id)) else { continue };
            flow.stats = stats;
            flow.report.samples.push((at, stats.placed_bytes));
        }
    }

    /// When there is next something to do by the plan.
    fn due(&self, now: Time) -> Time {
        let plans = self.flows.iter().zip(&self.options.flows);
        let starts = plans.clone().filter(|(flow, _)| !flow.asked).map(|(_, plan)| self.began + plan.start);
        let stops = plans.filter(|(flow, _)| !flow.has_ended()).filter_map(|(_, plan)| Some(self.began + plan.stop?));
        let change = self.options.receive_rates.get(self.changed).map(|(at, _)| self.began + *at);
        let always = [self.next_sample, self.began + self.options.end, now + LOOK];
        starts.chain(stops).chain(change).chain(always).min().unwrap_or(now + LOOK)
    }

    fn report(self) -> StagedReport {
        let cpu = process::cpu_time().saturating_sub(self.cpu_before);
        let flows = self.flows.into_iter().map(|Flow { stats, report, .. }| StagedFlowReport {
            bytes: stats.placed_bytes,
            wire_bytes: stats.wire_bytes,
            data_bytes: stats.placed_bytes + stats.duplicate_bytes,
            received_packets: stats.received_packets,
            lost_packets: stats.lost_packets,
            rtt_ms: stats.rtt.as_millis_f64(),
            ..report
        });
        StagedReport { flows: flows.collect(), cpu_s: cpu.as_secs_f64() }
    }
}

impl Application for StagedReceiver {
    fn sink(&mut self) -> &mut dyn Sink {
        &mut self.memory
    }

    fn bodies(&mut self) -> &mut dyn BodySource {
        &mut self.memory
    }

    fn on_event(&mut self, engine: &mut Engine, event: Event) -> Result<(), MoveError> {
        let now = engine.now();
        match event {
            Event::Complete { object } => {
                if let Some(&number) = self.by_id.get(&FlowId(object.0)) {
                    self.end(engine, number, now, None);
                }
            }
            Event::Failed { flow, error } => {
                if let Some(&number) = self.by_id.get(&flow) {
                    self.end(engine, number, now, Some(error.to_string()));
                }
            }
            Event::Opened { .. }
            | Event::Closed { .. }
            | Event::Starved { .. }
            | Event::Control { .. }
            | Event::Source { .. } => {}
        }
        Ok(())
    }

    fn on_frame(&mut self, engine: &mut Engine, id: FlowId, frame: Frame) -> Result<(), MoveError> {
        let failure = match frame {
            Frame::Stats(_) => return Ok(()),
            Frame::Refused { text, .. } => text,
            Frame::Bye => "the server ended the session".to_owned(),
            _ => "the server sent a frame that has no place here".to_owned(),
        };
        if let Some(&number) = self.by_id.get(&id) {
            self.end(engine, number, engine.now(), Some(failure));
        }
        Ok(())
    }

    fn on_end(&mut self, engine: &mut Engine, flow: FlowId, cause: &EndCause) -> Result<(), MoveError> {
        if let Some(&number) = self.by_id.get(&flow) {
            self.end(engine, number, engine.now(), Some(cause.to_string()));
        }
        Ok(())
    }

    fn on_turn(&mut self, engine: &mut Engine) -> Result<PollResult, MoveError> {
        if self.stop.is_set() {
            return Err(MoveError::Interrupted);
        }
        let now = engine.now();
        self.start_due(now)?;
        self.join_connected(engine, now)?;
        self.stop_due(engine, now);
        self.change_due(engine, now);
        if now >= self.next_sample {
            self.sample(engine, now);
            self.next_sample = now + self.options.sample;
        }
        let over = now >= self.began + self.options.end || self.flows.iter().all(Flow::has_ended);
        if over {
            self.sample(engine, now);
            return Ok(PollResult::Done);
        }
        Ok(PollResult::Wait(self.due(now)))
    }
}
