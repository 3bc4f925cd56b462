//! A running transfer: its objects and their mirrors, digests, the verifier, and lost mirrors.

mod comparing;
mod comparison;
mod contradictions;
mod early;
mod failing;
mod failing_files;
mod landings;
mod mirror;
mod object;
mod pace;
mod pinned;
mod returning;
mod stream;
mod streaming;
mod telling;
mod wrong;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Instant;

use inhaul_base::{Bitrate, Span, Time};
use inhaul_transport::{Command, Event, FlowError, FlowId, ObjectId, Place, Policy};

use self::landings::{DiskPace, Landings};
pub(crate) use self::mirror::Mirror;
pub(crate) use self::object::{Object, Sought};
use self::pace::Pace;

use self::stream::Streamer;
use crate::haul::verify::{Finding, ToVerify, Verifier};
use inhaul_engine::engine::port::NoBodies;
use inhaul_engine::engine::{Application, BodySource, EndCause, EndpointId, Engine, PollResult, PortId, Sink};
use inhaul_engine::paths::{PathNews, Paths};
use inhaul_session::api::error::MoveError;
use inhaul_session::api::options::{GetOptions, NetOptions, PolicyDial, Stop, Update};
use inhaul_session::api::overload::Overload;
use inhaul_session::api::report::SourceStatus;
use inhaul_session::api::source::Server;
use inhaul_session::session::connect::Session;
use inhaul_session::session::early_path::EarlyFlow;
use inhaul_session::session::frame::Frame;
use inhaul_sources::opener::Opener;
use inhaul_sources::{Connected, Fate, RangeSource, Roster, add_ranges, connect};

/// How often progress is reported.
const TICK: Span = Span::from_millis(100);
/// How often the stop flag is looked at.
const STOP_LOOK: Span = Span::from_millis(25);
/// How long the servers may take to take in that all is done.
const CLOSING: Span = Span::from_millis(500);

/// Most warnings that a report keeps: a mirror that comes and goes all day has many.
const WARNINGS_MAX: usize = 1000;

/// A saturating sum over data sets. Each may claim nearly as many bytes as a number can count.
fn total(objects: &[Object], bytes: impl Fn(&Object) -> u64) -> u64 {
    objects.iter().map(bytes).fold(0, u64::saturating_add)
}

/// The transfer.
pub(crate) struct Haul {
    endpoint: EndpointId,
    /// Changes of the policy while data comes, if there may be any.
    pub(crate) policy_dial: Option<PolicyDial>,
    /// What the dial said last.
    dialled: Option<Policy>,
    /// The policy in use, if the transport has policies; and whether one may hold a rate.
    pub(crate) policy: Option<Policy>,
    pub(crate) may_hold: bool,
    overload: Overload,
    pub(crate) objects: Vec<Object>,
    pub(crate) mirrors: BTreeMap<FlowId, Mirror>,
    pub(crate) warnings: Vec<String>,
    started: Time,
    sink: Landings,
    bodies: NoBodies,
    verifier: Verifier,
    verified_bytes: u64,
    /// Of these, what an earlier transfer has brought.
    resumed_bytes: u64,
    updates: Sender<Update>,
    stop: Stop,
    next_tick: Time,
    pace: Pace,
    /// All is verified: the servers are being told.
    disconnecting: Option<Disconnecting>,
    /// When the first byte of any data set was in its place.
    pub(crate) first_byte: Option<Instant>,
    last_error: Option<FlowError>,
    /// The mirrors that are away.
    roster: Roster,
    net: Arc<NetOptions>,
    /// Most that each mirror may have (R_app).
    rate: Option<Bitrate>,
    /// Where the one file is written in order as well.
    stream: Option<Streamer>,
    /// How mirrors' data comes.
    pub(crate) paths: Paths,
}

/// How the servers are told that all is done.
#[derive(Clone, Copy, Debug)]
struct Disconnecting {
    /// They have been told on the session, too, after what the transport said.
    has_said: bool,
    until: Time,
}

/// A session and what it is good for.
pub struct Joining {
    pub object: usize,
    pub session: Session,
    /// What is known of the early probes over its socket.
    pub probed: Option<EarlyFlow>,
    /// The flow that its mirror was before it was lost.
    pub former: Option<FlowId>,
}

impl Haul {
    /// Prepares the transfer of `objects` by `endpoint`; the set-up took as long as `set_up` so far.
    pub(crate) fn new(
        engine: &mut Engine,
        (endpoint, set_up): (EndpointId, Span),
        objects: Vec<Object>,
        opener: Option<Opener>,
        options: &GetOptions,
        updates: Sender<Update>,
        stop: Stop,
    ) -> Result<Self, MoveError> {
        let to_verify = |object: &Object| ToVerify {
            groups: object.groups.clone(),
            landing: Arc::clone(&object.landing),
            sums: object.sums.clone(),
            hash_holes: object.hash_holes,
            has_mirrors: object.source.mirrors.len() > 1,
        };
        let landings = objects.iter().map(to_verify).collect();
        let verified_bytes = total(&objects, |object| object.hole_group_bytes);
        let verifier = Verifier::start(landings, engine.waker())?;
        let now = engine.now();
        let mut haul = Self {
            endpoint,
            policy_dial: None,
            dialled: None,
            policy: None,
            may_hold: false,
            overload: Overload::default(),
            objects,
            mirrors: BTreeMap::new(),
            warnings: Vec::new(),
            started: now,
            sink: Landings { by_flow: BTreeMap::new(), writer: verifier.writer().clone(), pace: DiskPace::default() },
            bodies: NoBodies,
            verifier,
            verified_bytes,
            resumed_bytes: 0,
            updates,
            stop,
            next_tick: now,
            pace: Pace::after(set_up),
            disconnecting: None,
            first_byte: None,
            last_error: None,
            paths: Paths::new(engine.waker(), &options.net),
            roster: Roster::new(opener),
            net: Arc::new(options.net.clone()),
            rate: options.rate,
            stream: None,
        };
        haul.begin_returning(engine);
        Ok(haul)
    }

    /// Takes over the policy that the user has changed to.
    fn take_policy(&mut self, engine: &mut Engine) {
        let dialled = self.policy_dial.as_ref().and_then(PolicyDial::get);
        let Some(policy) = dialled.filter(|_| dialled != self.dialled) else { return };
        self.dialled = dialled;
        let why_not = match policy {
            _ if dialled == self.policy => return,
            _ if self.policy.is_none() => "this transport has no policies",
            Policy::Fixed if !self.may_hold => "no receive rate was given that it could hold",
            _ => {
                self.policy = Some(policy);
                return engine.command(self.endpoint, Command::SetPolicy(policy));
            }
        };
        self.warn(format!("the policy is not changed to '{policy}': {why_not}"));
    }

    /// Has the endpoint fetch all objects.
    pub(crate) fn fetch_all(&self, engine: &mut Engine) {
        for (index, object) in self.objects.iter().enumerate().filter(|(_, object)| object.size() > 0) {
            let held = object.held_ranges();
            engine.command(self.endpoint, Command::Fetch { object: ObjectId(index as u32), size: object.size(), held });
        }
    }

    /// Adds a mirror with which there is a session.
    pub(crate) fn join(&mut self, engine: &mut Engine, joining: Joining, port: PortId) -> Result<FlowId, MoveError> {
        let Joining { object, mut session, probed, former } = joining;
        let early = session.early.take();
        let (endpoint, rate) = (self.endpoint, self.rate);
        let fetches = (ObjectId(object as u32), rate);
        let joined = connect(engine, &mut self.paths, &self.net, (endpoint, port), (session, probed), fetches)?;
        let Connected { flow, server, join, plaintext } = joined;
        self.add_mirror(flow, Mirror::new(server, object, plaintext));
        self.objects[object].comparison.join(flow, former);
        self.objects[object].contradictions.join(flow, former);
        if self.objects[object].is_early {
            if let Some(mirror) = self.mirrors.get_mut(&flow) {
                mirror.deferred = Some(join);
            }
            if let Some(early) = early.filter(|early| early.is_all) {
                self.take_early(engine, object, flow, early)?;
            }
        } else if self.objects[object].size() > 0 {
            if let Some(early) = early.filter(|early| early.bytes.len() as u64 >= self.objects[object].first_bytes) {
                self.take_first_bytes(object, flow, &early)?;
            }
            self.paths.begin(engine, self.endpoint, join);
        }
        Ok(flow)
    }

    /// Adds a mirror that is read by ranges.
    pub(crate) fn join_ranges(
        &mut self,
        engine: &mut Engine,
        object: usize,
        (server, source): (Server, Arc<dyn RangeSource>),
    ) -> Result<FlowId, MoveError> {
        let flow = engine.new_flow();
        self.add_mirror(flow, Mirror::new(server, object, false));
        if self.objects[object].size() > 0 {
            add_ranges(engine, self.endpoint, flow, source, (ObjectId(object as u32), self.rate))?;
        }
        Ok(flow)
    }

    fn add_mirror(&mut self, flow: FlowId, mirror: Mirror) {
        let object = &mut self.objects[mirror.object];
        self.sink.by_flow.insert(flow, Arc::clone(&object.landing));
        object.mirrors.push(flow);
        self.mirrors.insert(flow, mirror);
    }

    /// Bytes that are verified.
    pub(crate) fn verified_bytes(&self) -> u64 {
        self.verified_bytes
    }

    /// Bytes of these that an earlier transfer has brought.
    pub(crate) fn resumed_bytes(&self) -> u64 {
        self.resumed_bytes
    }

    /// Bytes that are verified and had to come.
    pub(crate) fn fetched_bytes(&self) -> u64 {
        let holes = total(&self.objects, |object| object.hole_bytes);
        self.verified_bytes.saturating_sub(self.resumed_bytes.saturating_add(holes))
    }

    /// Tells the user of something that does not end the transfer.
    pub(crate) fn warn(&mut self, text: String) {
        // The listener may be gone; the report still has it.
        let _ = self.updates.send(Update::Warning(text.clone()));
        if self.warnings.len() < WARNINGS_MAX {
            self.warnings.push(text);
        }
    }

    /// Takes note of how all flows are doing.
    pub(crate) fn measure(&mut self, engine: &Engine) {
        for (&flow, mirror) in &mut self.mirrors {
            if let Some(stats) = engine.flow_stats(flow) {
                mirror.measure(stats);
            }
        }
    }

    /// A mirror is lost, and may come back; the object's others go on.
    fn lose(&mut self, engine: &mut Engine, flow: FlowId, detail: &str) -> Result<(), MoveError> {
        if !self.disconnect(engine, flow, SourceStatus::Lost) {
            return Ok(());
        }
        self.go_on_without(engine, flow, detail, true)
    }

    /// A mirror breaks the rules, or cannot be of any use: it is not asked again.
    fn give_up(&mut self, engine: &mut Engine, flow: FlowId, detail: &str) -> Result<(), MoveError> {
        if !self.disconnect(engine, flow, SourceStatus::Lost) {
            return Ok(());
        }
        self.go_on_without(engine, flow, detail, false)
    }

    /// A mirror's flow has ended.
    fn meet(&mut self, engine: &mut Engine, flow: FlowId, fate: &Fate) -> Result<(), MoveError> {
        let Fate { why, may_return } = fate;
        if *may_return { self.lose(engine, flow, why) } else { self.give_up(engine, flow, why) }
    }

    /// What follows when a mirror has ended early: another one's digests count, or the object waits, or it has failed.
    fn go_on_without(
        &mut self,
        engine: &mut Engine,
        flow: FlowId,
        detail: &str,
        may_return: bool,
    ) -> Result<(), MoveError> {
        let Some((server, index)) = self.mirrors.get(&flow).map(|mirror| (mirror.server.clone(), mirror.object)) else {
            return Ok(());
        };
        if self.disconnecting.is_some() || self.objects[index].done {
            return Ok(());
        }
        let returns = may_return && self.reopen(engine, flow, detail)?;
        let hope = if returns { "; trying it again" } else { "" };
        if self.has_running(index) {
            self.warn(format!("{server} is lost ({detail}){hope}; going on with the others"));
        } else if self.has_away(index) {
            self.warn(format!("{server} is lost ({detail}){hope}; Ctrl-C ends it, and keeps what is verified"));
        } else {
            let error = self.all_lost(index, &server, detail);
            return self.fail(index, error);
        }
        if !self.has_away(index) {
            self.give_up_what_nobody_has(index);
        }
        self.settle(engine, index)
    }

    /// Ends a mirror's part in the transfer, unless it has ended already.
    fn disconnect(&mut self, engine: &mut Engine, flow: FlowId, status: SourceStatus) -> bool {
        let Some(mirror) = self.mirrors.get_mut(&flow).filter(|mirror| mirror.status == SourceStatus::Running) else {
            return false;
        };
        mirror.status = status;
        mirror.ended = Some(engine.now());
        mirror.disconnected = true;
        let object = mirror.object;
        engine.close(flow);
        self.paths.end(flow);
        self.objects[object].comparison.leave(flow);
        true
    }

    /// No more comes of a data set. Others go on; without any, that is the end.
    fn fail(&mut self, index: usize, error: MoveError) -> Result<(), MoveError> {
        if self.objects.iter().enumerate().all(|(other, object)| other == index || object.has_failed()) {
            return Err(error);
        }
        self.warn(format!("going on with the others: {error}"));
        let object = &mut self.objects[index];
        object.done = true;
        object.failure = Some(error);
        Ok(())
    }

    /// What has failed, in words, while other data sets have landed.
    pub(crate) fn failures(&self) -> Vec<String> {
        let failure = |object: &Object| object.failure.as_ref().map(ToString::to_string);
        self.objects.iter().flat_map(|object| object.failing.texts().chain(failure(object))).collect()
    }

    fn all_lost(&self, index: usize, server: &Server, detail: &str) -> MoveError {
        // A path that was open once is not blocked: it was lost.
        let has_opened =
            self.objects[index].mirrors.iter().any(|flow| self.mirrors.get(flow).is_some_and(|m| m.has_opened));
        match &self.last_error {
            Some(error @ FlowError::NoPath { .. }) if !has_opened => {
                MoveError::UdpBlocked { server: server.clone(), detail: error.to_string() }
            }
            _ => MoveError::AllLost {
                data_set: Box::new(self.objects[index].source.clone()),
                detail: format!("{server}: {detail}"),
            },
        }
    }

    fn on_finding(&mut self, engine: &mut Engine, finding: Finding) -> Result<(), MoveError> {
        match finding {
            Finding::Verified { object, group, bytes, resumed } => {
                self.objects[object].verified_groups += 1;
                if let Some(stream) = &self.stream {
                    stream.verified(group);
                }
                self.objects[object].tally.settle(group);
                self.objects[object].comparison.forget_differing(group..group + 1);
                self.verified_bytes = self.verified_bytes.saturating_add(bytes);
                self.resumed_bytes += if resumed { bytes } else { 0 };
            }
            Finding::Gone { object, group } => self.fetch_gone(engine, object, group),
            Finding::Wrong { object, group } => self.on_wrong(engine, object, group)?,
            Finding::Unverified { object, group } => self.on_unverified(object, group)?,
            Finding::TooLate { object, group, decided } => self.on_too_late(object, group, decided)?,
            Finding::NotAsListed { object, file, error } => self.try_another(engine, object, file, error),
            Finding::FileDone { object, file, hash } => {
                self.objects[object].finished.insert(file, hash);
                self.name_others(engine, object, file)?;
            }
            Finding::ObjectDone { object } => {
                for note in self.objects[object].landing.take_notes() {
                    self.warn(note);
                }
                self.objects[object].done = true;
            }
            Finding::FileFailed { object, file, groups_left, error } => {
                self.take_failure(engine, object, file, groups_left, error)?;
            }
            Finding::Failed(error) => return Err(error),
        }
        Ok(())
    }

    /// Looks after how mirrors' data comes.
    fn tend_paths(&mut self, engine: &mut Engine) -> Result<(), MoveError> {
        if self.disconnecting.is_some() {
            return Ok(());
        }
        let mirrors = &self.mirrors;
        let runs = |flow: FlowId| {
            let runs = |mirror: &Mirror| mirror.status == SourceStatus::Running && mirror.ended.is_none();
            mirrors.get(&flow).is_some_and(runs)
        };
        self.paths.tend(engine, self.endpoint, runs)?;
        self.hear_of_paths(engine)
    }

    fn hear_of_paths(&mut self, engine: &mut Engine) -> Result<(), MoveError> {
        for news in self.paths.take_news() {
            match news {
                PathNews::Warning(text) => self.warn(text),
                PathNews::Lost(flow, why) => self.lose(engine, flow, why)?,
            }
        }
        Ok(())
    }

    /// Everything is verified: the transport tells the servers.
    fn disconnect_all(&mut self, engine: &mut Engine, now: Time) {
        self.measure(engine);
        self.disconnecting = Some(Disconnecting { has_said: false, until: now + CLOSING });
        for (&flow, mirror) in self.mirrors.iter_mut().filter(|(_, m)| m.status == SourceStatus::Running) {
            mirror.status = SourceStatus::Complete;
            mirror.ended = mirror.ended.or(Some(now));
            engine.command(self.endpoint, Command::Disconnect { flow });
        }
    }

    /// The servers are told, and not waited for: what they would answer says nothing. When to go on.
    fn finish(
        &mut self,
        engine: &mut Engine,
        now: Time,
        Disconnecting { has_said, until }: Disconnecting,
    ) -> PollResult {
        if !has_said {
            self.disconnecting = Some(Disconnecting { has_said: true, until });
            for (&flow, _) in self.mirrors.iter().filter(|(_, mirror)| !mirror.disconnected) {
                engine.send(flow, &Frame::Finish);
            }
        }
        let is_written = |(&flow, mirror): (&FlowId, &Mirror)| mirror.disconnected || engine.is_written(flow);
        if now >= until || self.mirrors.iter().all(is_written) {
            PollResult::Done
        } else {
            PollResult::Wait(until.min(now + STOP_LOOK))
        }
    }
}

impl Application for Haul {
    fn sink(&mut self) -> &mut dyn Sink {
        &mut self.sink
    }

    fn bodies(&mut self) -> &mut dyn BodySource {
        &mut self.bodies
    }

    fn on_places(&mut self, places: &[Place]) {
        for place in places {
            self.note_placed(place.flow, place.range);
        }
    }

    fn on_event(&mut self, engine: &mut Engine, event: Event) -> Result<(), MoveError> {
        let now = engine.now();
        match event {
            Event::Opened { flow } => {
                if let Some(mirror) = self.mirrors.get_mut(&flow) {
                    mirror.opened = mirror.opened.or(Some(now));
                    mirror.has_opened = true;
                }
                self.paths.note_open(flow);
            }
            Event::Complete { object } => {
                self.measure(engine);
                if let Some(object) = self.objects.get_mut(object.0 as usize) {
                    object.complete_since = object.complete_since.or(Some(now));
                }
                // What is left to do is verification: rates are of the time in which data came.
                for mirror in self.mirrors.values_mut().filter(|mirror| mirror.object == object.0 as usize) {
                    mirror.ended = mirror.ended.or(Some(now));
                }
            }
            Event::Failed { flow, error } => {
                let has_opened = self.mirrors.get(&flow).is_some_and(|mirror| mirror.has_opened);
                let fate = Fate::of_flow(&error, has_opened);
                self.last_error = Some(error);
                self.meet(engine, flow, &fate)?;
            }
            // The last of its mirrors has failed, which says why; and what the engine sends by itself.
            Event::Starved { .. } | Event::Closed { .. } | Event::Control { .. } | Event::Source { .. } => {}
        }
        Ok(())
    }

    fn on_frame(&mut self, engine: &mut Engine, flow: FlowId, frame: Frame) -> Result<(), MoveError> {
        match frame {
            Frame::Digests { first_group, values } => self.on_digests(engine, flow, first_group, &values),
            Frame::TryDatagrams => {
                self.paths.on_introduced(engine, self.endpoint, flow)?;
                self.hear_of_paths(engine)
            }
            Frame::FileFailed { file, problem } => self.on_file_failed(engine, flow, file, problem),
            frame => {
                if let (Frame::Bye, Some(mirror)) = (&frame, self.mirrors.get_mut(&flow)) {
                    mirror.disconnected = true;
                }
                self.meet(engine, flow, &Fate::of_frame(frame))
            }
        }
    }

    fn on_end(&mut self, engine: &mut Engine, flow: FlowId, cause: &EndCause) -> Result<(), MoveError> {
        if let Some(mirror) = self.mirrors.get_mut(&flow) {
            mirror.disconnected = true;
        }
        self.meet(engine, flow, &Fate::of_end(cause))
    }

    fn on_source_end(&mut self, engine: &mut Engine, flow: FlowId, error: MoveError) -> Result<(), MoveError> {
        if let Some(mirror) = self.mirrors.get_mut(&flow) {
            mirror.disconnected = true;
        }
        self.meet(engine, flow, &Fate { why: error.to_string(), may_return: error.is_passing() })
    }

    fn on_turn(&mut self, engine: &mut Engine) -> Result<PollResult, MoveError> {
        if self.stop.is_set() {
            return Err(MoveError::Interrupted);
        }
        while let Some(finding) = self.verifier.next_finding() {
            self.on_finding(engine, finding)?;
        }
        self.take_policy(engine);
        self.take_tried(engine)?;
        self.tend_paths(engine)?;
        self.check_stream()?;
        let now = engine.now();
        self.ask_digests(engine);
        if now >= self.next_tick {
            self.check_digests(engine, now)?;
            self.give_up_waiting(now)?;
            self.tick(engine, now);
        }
        if self.disconnecting.is_none() && self.objects.iter().all(|object| object.done) {
            self.tell_uncompared();
            self.disconnect_all(engine, now);
            self.tick(engine, now);
            // Once the transport has said what it has to.
            return Ok(PollResult::Wait(now));
        }
        Ok(match self.disconnecting {
            Some(disconnecting) => self.finish(engine, now, disconnecting),
            None => PollResult::Wait(self.next_tick.min(now + STOP_LOOK)),
        })
    }
}
