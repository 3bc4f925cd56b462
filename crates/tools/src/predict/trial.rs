//! A short trial: fetches bytes of the requested data sets, and throws them away.

use std::time::Duration;

use inhaul_base::{Probability, Span, Time};
use inhaul_store::Plan;
use inhaul_transport::{Command, Conditions, Event, FlowId, FlowLimits, JoinFlow, ObjectId, PathSpec};

use inhaul_engine::engine::net;
use inhaul_engine::engine::port::{Discard, NoBodies};
use inhaul_engine::engine::{Application, BodySource, EndCause, EndpointId, Engine, PollResult, PortId, Sink};
use inhaul_haul::haul::get::{self, Found};
use inhaul_haul::haul::transfer::Joining;
use inhaul_session::api::error::MoveError;
use inhaul_session::api::options::{GetOptions, Stop};
use inhaul_session::session::frame::Frame;
use inhaul_session::system::process;
use inhaul_sources::add_ranges;

/// How long data is taken in.
const TRIAL: Span = Span::from_secs(2);
/// How long the first byte may take.
const PATIENCE: Span = Span::from_secs(10);
/// How often the received bytes are sampled.
const LOOK: Span = Span::from_millis(50);
/// How often is looked for the first byte.
const FIRST_LOOK: Span = Span::from_millis(2);
/// The part of the trial that counts as steady, in looks: what comes before is the start.
const STEADY_PART: usize = 2;
/// Looks that are taken together to see how the rate goes up and down.
const WINDOW: usize = 5;

/// What a trial has shown.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Trial {
    /// From its start to the first byte.
    pub(super) opening: Duration,
    /// Bytes that came, and in how many seconds since the first.
    pub(super) bytes: u64,
    pub(super) seconds: f64,
    /// The rate at which they came once it had settled.
    pub(super) steady_bytes_per_second: f64,
    /// What this process spent on each.
    pub(super) cpu_seconds_per_byte: f64,
    /// By which part of it the rate went up and down.
    pub(super) spread: f64,
    /// What a model of the protocol asks for: `None` where nothing was tried.
    pub(super) conditions: Option<Conditions>,
}

impl Trial {
    /// How long `bytes` take from the first one on.
    pub(super) fn seconds_for(&self, bytes: u64) -> f64 {
        match bytes.saturating_sub(self.bytes) {
            0 if self.bytes > 0 => self.seconds * bytes as f64 / self.bytes as f64,
            0 => 0.0,
            rest if self.steady_bytes_per_second > 0.0 => self.seconds + rest as f64 / self.steady_bytes_per_second,
            _ => f64::INFINITY,
        }
    }
}

/// Hauls for [`TRIAL`], or until all has come.
pub(super) fn run(options: &GetOptions, planned: Vec<(Found, Plan)>, stop: &Stop) -> Result<Trial, MoveError> {
    let mut engine = Engine::new()?;
    let mut wanted = Vec::new();
    let (mut joinings, mut ranges) = (Vec::new(), Vec::new());
    for (object, (data_set, plan)) in planned.into_iter().enumerate() {
        let size = plan.manifest().size();
        let mut held = plan.unwanted();
        for hole in plan.manifest().holes().iter() {
            held.insert(hole);
        }
        // Where nothing is left to come there is nothing to try.
        if held.covered() < size {
            wanted.push((ObjectId(object as u32), size, held));
            ranges.extend(data_set.ranges.into_iter().map(|(_, source)| (ObjectId(object as u32), source)));
            joinings.extend(data_set.sessions.into_iter().map(|session| Joining {
                object,
                session,
                probed: None,
                former: None,
            }));
        }
    }
    let (endpoint, joinings) = get::open_ports(options, &mut engine, joinings, None)?;
    let began = engine.now();
    let cpu_before = process::cpu_time();
    let mut hauling = Hauling {
        flows: Vec::new(),
        path: None,
        began,
        looks: Vec::new(),
        objects_left: wanted.len(),
        stop: stop.clone(),
        sink: Discard,
        bodies: NoBodies,
    };
    for (object, size, held) in wanted {
        engine.command(endpoint, Command::Fetch { object, size, held });
    }
    for (joining, port) in joinings {
        hauling.join(options, &mut engine, endpoint, joining, port)?;
    }
    for (object, source) in ranges {
        let flow = engine.new_flow();
        add_ranges(&mut engine, endpoint, flow, source, (object, options.rate))?;
        hauling.flows.push(flow);
    }
    engine.run(&mut hauling)?;
    let conditions = hauling.conditions(&engine);
    let cpu = process::cpu_time().saturating_sub(cpu_before);
    for &flow in &hauling.flows {
        engine.send(flow, &Frame::Finish);
    }
    Ok(Trial { conditions, ..hauling.trial(cpu)? })
}

/// A trial under way.
struct Hauling {
    flows: Vec<FlowId>,
    /// That of the last flow.
    path: Option<PathSpec>,
    began: Time,
    /// Bytes that had come, from the look before the first byte on.
    looks: Vec<(Time, u64)>,
    objects_left: usize,
    stop: Stop,
    sink: Discard,
    bodies: NoBodies,
}

impl Hauling {
    fn join(
        &mut self,
        options: &GetOptions,
        engine: &mut Engine,
        endpoint: EndpointId,
        joining: Joining,
        port: PortId,
    ) -> Result<(), MoveError> {
        let Joining { object, session, probed, .. } = joining;
        let flow = engine.new_flow();
        let join = JoinFlow {
            object: ObjectId(object as u32),
            limits: FlowLimits { application_rate: options.rate, link_rate: None },
            ..net::join_toward(&options.net, engine, flow, session.datagrams, probed)?
        };
        self.path = Some(join.path);
        engine.add_flow(flow, endpoint, port, session.stream)?;
        engine.command(endpoint, Command::Join(join));
        self.flows.push(flow);
        Ok(())
    }

    /// What the flows have met: the longest of their round trips, and the loss of all together.
    fn conditions(&self, engine: &Engine) -> Option<Conditions> {
        let stats = || self.flows.iter().filter_map(|&flow| engine.flow_stats(flow));
        let (lost, received) = stats().fold((0, 0), |(a, b), s| (a + s.lost_packets, b + s.received_packets));
        let rtt = stats().map(|stats| stats.rtt).max()?;
        let (flows, loss) = (self.flows.len() as u64, Probability::ratio(lost, lost + received));
        Some(Conditions { bytes: 0, flows, rtt, loss, path: self.path? })
    }

    /// Notes what has come, and says when to look again.
    fn look(&mut self, engine: &Engine, now: Time) -> PollResult {
        let came = self.flows.iter().filter_map(|&flow| engine.flow_stats(flow)).map(|stats| stats.placed_bytes).sum();
        if came == 0 {
            self.looks = vec![(now, 0)];
            return if now.since(self.began) > PATIENCE {
                PollResult::Done
            } else {
                PollResult::Wait(now + FIRST_LOOK)
            };
        }
        let is_due = self.looks.last().is_none_or(|&(last, _)| now.since(last) >= LOOK);
        let is_complete = self.objects_left == 0;
        if is_due || is_complete {
            self.looks.push((now, came));
        }
        let since = self.looks.first().map_or(now, |&(first, _)| first);
        if is_complete || now.since(since) >= TRIAL { PollResult::Done } else { PollResult::Wait(now + LOOK) }
    }

    /// What it all comes to.
    fn trial(&self, cpu: Span) -> Result<Trial, MoveError> {
        let (Some(&(first, _)), Some(&(last, bytes))) = (self.looks.first(), self.looks.last()) else {
            return Ok(Trial::default());
        };
        if bytes == 0 {
            let seconds = PATIENCE.as_secs_f64();
            return Err(MoveError::Usage(format!(
                "no data has come in {seconds:.0} s: 'inhaul doctor HOST' says more"
            )));
        }
        let steady = &self.looks[self.looks.len() / STEADY_PART..];
        let rate_of = |looks: &[(Time, u64)]| match (looks.first(), looks.last()) {
            (Some(a), Some(b)) if b.0 > a.0 => (b.1 - a.1) as f64 / b.0.since(a.0).as_secs_f64(),
            _ => 0.0,
        };
        let seconds = last.since(first).as_secs_f64();
        let steady_rate = if rate_of(steady) > 0.0 { rate_of(steady) } else { bytes as f64 / seconds.max(1e-6) };
        let mut windows: Vec<f64> = steady.windows(WINDOW + 1).map(rate_of).collect();
        windows.sort_unstable_by(f64::total_cmp);
        // Half of the windows lie between the quartiles.
        let quartile = |part: usize| windows.get(windows.len() * part / 4).copied().unwrap_or(steady_rate);
        Ok(Trial {
            opening: Duration::from_nanos(first.since(self.began).as_nanos()),
            bytes,
            seconds,
            steady_bytes_per_second: steady_rate,
            cpu_seconds_per_byte: cpu.as_secs_f64() / bytes as f64,
            conditions: None,
            spread: (quartile(3) - quartile(1)) / 2.0 / steady_rate,
        })
    }
}

impl Application for Hauling {
    fn sink(&mut self) -> &mut dyn Sink {
        &mut self.sink
    }

    fn bodies(&mut self) -> &mut dyn BodySource {
        &mut self.bodies
    }

    fn on_event(&mut self, _engine: &mut Engine, event: Event) -> Result<(), MoveError> {
        match event {
            Event::Complete { .. } => self.objects_left = self.objects_left.saturating_sub(1),
            // The others show what can be shown; without any, nothing comes, which is said then.
            Event::Failed { flow, error } => log::warn!("flow {} of the trial failed: {error}", flow.0),
            Event::Opened { .. }
            | Event::Starved { .. }
            | Event::Closed { .. }
            | Event::Control { .. }
            | Event::Source { .. } => {}
        }
        Ok(())
    }

    fn on_frame(&mut self, _engine: &mut Engine, flow: FlowId, frame: Frame) -> Result<(), MoveError> {
        if let Frame::Refused { text, .. } = frame {
            log::warn!("flow {} of the trial was refused: {text}", flow.0);
        }
        Ok(())
    }

    fn on_end(&mut self, _engine: &mut Engine, flow: FlowId, cause: &EndCause) -> Result<(), MoveError> {
        log::warn!("flow {} of the trial has ended: {cause}", flow.0);
        Ok(())
    }

    fn on_turn(&mut self, engine: &mut Engine) -> Result<PollResult, MoveError> {
        if self.stop.is_set() {
            return Err(MoveError::Interrupted);
        }
        let now = engine.now();
        Ok(self.look(engine, now))
    }
}
