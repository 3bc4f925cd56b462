//! The data thread's side of all reads of a client: data sets that stay open, what is wanted of them, what has come.

mod joining;
mod mirrors;
mod proofs;
mod set;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError};

use inhaul_base::{ByteRange, Span, Time};
use inhaul_store::printable;
use inhaul_transport::{Command, Event, FlowId, ObjectId, Place};

use self::set::{Mirror, Set};
use super::cache::{Cache, Keep};
use super::check::{Check, Checked, Checker};
use super::memory::{Active, Parts, Proof};
use super::order::{Order, Read, SetId, SetStats, Ticket};
use super::parts::{Taker, Wanted, plan};
use inhaul_engine::engine::net::Rates;
use inhaul_engine::engine::port::NoBodies;
use inhaul_engine::engine::{Application, BodySource, EndCause, EndpointId, Engine, PollResult, Sink};
use inhaul_engine::paths::{PathNews, Paths};
use inhaul_session::api::error::{FileProblem, MoveError};
use inhaul_session::api::options::NetOptions;
use inhaul_session::session::frame::Frame;
use inhaul_sources::Fate;
use inhaul_sources::opener::MirrorId;

/// Memory for parts that are being fetched, of all data sets together. What 10 Gbit/s bring in 200 ms.
const AHEAD_BYTES: u64 = 256 << 20;
/// What somebody waits for may take so much beside what is fetched ahead.
const URGENT_BYTES: u64 = 2 * AHEAD_BYTES;
/// A part that comes wrong so often is given up.
const TRIES_MAX: u32 = 3;
/// How often it is looked whether a data set has waited too long for a mirror.
const LOOK: Span = Span::from_millis(100);
/// The data thread has nothing to do for so long at most.
const REST: Span = Span::from_secs(1);
/// How long the servers may take to take in that all is done.
const CLOSING: Span = Span::from_millis(500);

/// How a client uses the network and how long it waits.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub(super) net: NetOptions,
    pub(super) rates: Rates,
    pub(super) retry_for: Span,
}

/// See the module's description.
pub(super) struct Reading {
    settings: Settings,
    orders: Receiver<Order>,
    endpoint: Option<EndpointId>,
    sets: BTreeMap<SetId, Set>,
    mirrors: BTreeMap<FlowId, Mirror>,
    parts: Parts,
    paths: Paths,
    checker: Checker,
    cache: Option<Cache>,
    /// What was checked on this thread.
    checked: Vec<Checked>,
    bodies: NoBodies,
    next_set: u32,
    next_look: Time,
    /// The data sets in which there may be something to begin or to ask for.
    stirred: BTreeSet<SetId>,
    /// The client is gone: until when the servers are told.
    closing: Option<Time>,
}

impl Reading {
    pub(super) fn new(
        settings: Settings,
        cache: Option<Cache>,
        orders: Receiver<Order>,
        engine: &Engine,
    ) -> Result<Self, MoveError> {
        Ok(Self {
            orders,
            endpoint: None,
            sets: BTreeMap::new(),
            mirrors: BTreeMap::new(),
            parts: Parts::default(),
            paths: Paths::new(engine.waker(), &settings.net),
            checker: Checker::start(engine.waker())?,
            cache,
            checked: Vec::new(),
            bodies: NoBodies,
            next_set: 0,
            next_look: Time::ZERO,
            stirred: BTreeSet::new(),
            closing: None,
            settings,
        })
    }

    // --- What callers want ------------------------------------------------------------------------------------------

    /// Takes orders; false when nobody can give any more.
    fn take_orders(&mut self, engine: &mut Engine) -> Result<bool, MoveError> {
        loop {
            match self.orders.try_recv() {
                Ok(Order::Open(opening)) => self.open(engine, *opening)?,
                Ok(Order::Read(read)) => self.read(engine, read)?,
                Ok(Order::Cancel(ticket)) => self.cancel(engine, ticket),
                Ok(Order::Close(set)) => self.close(engine, set),
                Ok(Order::Ask(set, reply)) => self.tell(engine, set, &reply),
                Err(TryRecvError::Empty) => return Ok(true),
                Err(TryRecvError::Disconnected) => return Ok(false),
            }
        }
    }

    fn read(&mut self, engine: &Engine, read: Read) -> Result<(), MoveError> {
        let Read { set: id, ticket, ranges, urgent, delivery } = read;
        let Some(set) = self.sets.get_mut(&id) else {
            delivery.fail(MoveError::Usage("the data set is closed".to_owned()));
            return Ok(());
        };
        if delivery.is_over() {
            // Nobody waits any more.
            return Ok(());
        }
        if let Some((file, problem)) = ranges.iter().find_map(|asked| Some((asked.file, *set.failed.get(&asked.file)?)))
        {
            delivery.fail(set.file_error(file, problem));
            return Ok(());
        }
        if let Some((since, _)) = &mut set.alone
            && set.waiting.is_empty()
        {
            // Who begins to wait waits as long as any other.
            *since = engine.now();
        }
        set.queue(plan(&set.groups, &ranges, (ticket, urgent), &delivery));
        if set.is_alone() && !set.roster.has_away(0) {
            // It was given up, or its servers had ended: they are tried anew.
            set.alone = Some((engine.now(), "no server has answered".to_owned()));
            for server in set.lacking(&self.mirrors) {
                set.roster.open(engine.now(), MirrorId { request: 0, server })?;
            }
        }
        self.stirred.insert(id);
        Ok(())
    }

    /// Ends what only this read has wanted.
    fn cancel(&mut self, engine: &mut Engine, ticket: Ticket) {
        let still = |takers: &mut Vec<Taker>| {
            takers.retain(|taker| taker.ticket != ticket);
            !takers.is_empty()
        };
        for set in self.sets.values_mut() {
            set.waiting.retain_mut(|part| still(&mut part.takers));
            set.ahead.retain_mut(|part| still(&mut part.takers));
            set.blocked.retain_mut(|part| still(&mut part.takers));
        }
        let of_it = |part: &Active| part.wanted.takers.iter().any(|taker| taker.ticket == ticket);
        let mine: Vec<_> = self.parts.active.iter().filter(|(_, part)| of_it(part)).map(|(&key, _)| key).collect();
        for (id, start) in mine {
            let Some(part) = self.parts.active.get_mut(&(id, start)) else { continue };
            if !still(&mut part.wanted.takers) && !part.is_checked {
                self.drop_part(engine, id, start);
            }
        }
    }

    /// A part is not fetched any more; what of it is on its way is not waited for.
    fn drop_part(&mut self, engine: &mut Engine, id: SetId, start: u64) -> Option<Active> {
        let part = self.parts.end(id, start)?;
        if let Some(endpoint) = self.endpoint.filter(|_| part.missing > 0) {
            let (object, range) = (ObjectId(id.0), part.wanted.range);
            engine.command(endpoint, Command::Unwant { object, range });
        }
        if let Some(set) = self.sets.get_mut(&id) {
            let again = std::mem::take(&mut set.blocked);
            set.queue(again);
        }
        // Its memory may be what parts of other data sets wait for.
        let waits = |set: &Set| !set.waiting.is_empty() || !set.ahead.is_empty();
        self.stirred.extend(self.sets.iter().filter(|(_, set)| waits(set)).map(|(&id, _)| id));
        Some(part)
    }

    fn close(&mut self, engine: &mut Engine, id: SetId) {
        let closed = || MoveError::Usage("the data set was closed".to_owned());
        self.fail_set(engine, id, &closed);
        let Some(set) = self.sets.remove(&id) else { return };
        for flow in set.mirrors {
            self.forget(engine, flow, true);
        }
    }

    fn tell(&self, engine: &Engine, id: SetId, reply: &Sender<SetStats>) {
        let Some(set) = self.sets.get(&id) else { return };
        let rtts = set.mirrors.iter().filter_map(|&flow| engine.flow_stats(flow)).map(|stats| stats.rtt);
        let rtt = rtts.filter(|rtt| *rtt > Span::ZERO).min().unwrap_or_default();
        let stats = SetStats { mirrors: set.mirrors.len(), rtt_seconds: rtt.as_secs_f64(), ..set.stats };
        // Who has asked may be gone.
        let _ = reply.send(stats);
    }

    // --- What is asked for ------------------------------------------------------------------------------------------

    /// Begins parts as far as there is memory for them, and asks for what proves them.
    fn stir(&mut self, engine: &mut Engine) {
        while let Some(id) = self.stirred.pop_first() {
            for (urgent, room) in [(true, URGENT_BYTES), (false, AHEAD_BYTES)] {
                let ranges = self.begin_parts(id, urgent, room);
                if let (Some(endpoint), false) = (self.endpoint, ranges.is_empty()) {
                    engine.command(endpoint, Command::Want { object: ObjectId(id.0), ranges, urgent });
                }
            }
            self.ask_proofs(engine, id);
        }
    }

    /// Begins parts while there is `room` for their bytes; what must come of them.
    fn begin_parts(&mut self, id: SetId, urgent: bool, room: u64) -> Vec<ByteRange> {
        let mut ranges = Vec::new();
        let Some(set) = self.sets.get_mut(&id) else { return ranges };
        let (mut whole, mut unproven) = (Vec::new(), Vec::new());
        while self.parts.bytes < room
            && let Some(part) = if urgent { set.waiting.pop_front() } else { set.ahead.pop_front() }
        {
            if part.takers.iter().all(|taker| taker.delivery.is_over()) {
                continue;
            }
            let others = self.parts.overlapping(id, part.range);
            match others.as_slice() {
                [] => {}
                [only] => {
                    match self.parts.active.get_mut(&(id, *only)) {
                        Some(active) if active.wanted.covers(part.range) => active.wanted.add_takers(part),
                        _ => set.blocked.push(part),
                    }
                    continue;
                }
                _ => {
                    set.blocked.push(part);
                    continue;
                }
            }
            let start = part.range.start;
            set.stats.parts += 1;
            let wanted = self.parts.begin(id, part, &set.holes);
            if wanted.is_empty() {
                whole.push(start);
            }
            if let Some(part) = self.parts.active.get_mut(&(id, start)) {
                part.needs_proof = !set.needs_none(part);
                unproven.extend(part.needs_proof.then_some(start));
            }
            set.stats.wanted_bytes += wanted.iter().map(|range| range.len()).sum::<u64>();
            ranges.extend(wanted);
        }
        unproven.into_iter().for_each(|start| self.want_proof(id, start));
        whole.into_iter().for_each(|start| self.on_whole(id, start));
        ranges
    }

    // --- What comes -------------------------------------------------------------------------------------------------

    /// All bytes of a part are here: it is checked, if its proof is here too.
    fn on_whole(&mut self, id: SetId, start: u64) {
        let Some(set) = self.sets.get(&id) else { return };
        let Some(part) = self.parts.active.get_mut(&(id, start)).filter(|part| !part.is_checked) else { return };
        if part.needs_proof && part.proof.is_none() {
            return;
        }
        let proof = part.proof.clone().filter(|_| part.needs_proof);
        let Some(place) = set.groups.place(part.wanted.of.group) else { return };
        // Holes need no proof, and no room in a cache.
        let keep = self.cache.as_ref().filter(|_| proof.is_some()).map(|cache| Keep {
            cache: cache.clone(),
            names: Arc::clone(&set.names),
            file: part.wanted.file,
        });
        let check = Check {
            set: id,
            start,
            number: part.number,
            file_len: set.groups.manifest().entries()[place.file].size,
            group: place.group,
            of: part.wanted.of,
            bytes: part.take_bytes(),
            proof,
            keep,
            takers: std::mem::take(&mut part.wanted.takers),
        };
        if let Some(checked) = self.checker.check(check) {
            self.checked.push(checked);
        }
    }

    fn on_checked(&mut self, engine: &mut Engine, checked: Checked) {
        let Checked { set: id, start, number, bytes, is_right, takers } = checked;
        self.stirred.insert(id);
        if self.parts.active.get(&(id, start)).is_none_or(|part| part.number != number) {
            // It has ended meanwhile, and those who have not got theirs are told by nobody else.
            let lost = || MoveError::Usage("a part of the data set came in wrong while it was given up".to_owned());
            takers.iter().for_each(|taker| taker.delivery.fail(lost()));
            return self.parts.give_back(bytes);
        }
        if is_right {
            // Some may have come while it was checked.
            if let Some(part) = self.drop_part(engine, id, start) {
                part.wanted.takers.iter().for_each(|taker| taker.deliver(&bytes));
            }
            return self.parts.give_back(bytes);
        }
        let Some(part) = self.parts.active.get_mut(&(id, start)) else { return };
        part.wanted.takers.extend(takers);
        part.bytes = bytes;
        part.is_checked = false;
        part.tries += 1;
        let Some(set) = self.sets.get_mut(&id) else { return };
        let range = part.wanted.range;
        if part.tries >= TRIES_MAX || part.missing > 0 {
            let file = part.wanted.file;
            let first = set.groups.manifest().file_range(file).map_or(0, |of_file| of_file.start);
            let (from, to) = (range.start - first, range.end - first);
            let (path, times) = (printable(&set.groups.manifest().entries()[file].path), part.tries);
            let error = || MoveError::Integrity { path: path.clone(), start: from, end: to, times };
            let takers = std::mem::take(&mut part.wanted.takers);
            takers.iter().for_each(|taker| taker.delivery.fail(error()));
            self.drop_part(engine, id, start);
            return;
        }
        let again = if set.holes.is_empty() { vec![range] } else { set.holes.gaps(range) };
        part.missing = again.iter().map(|range| range.len()).sum();
        log::warn!("{}: bytes {range} came in wrong: fetching them again", set.source);
        let suspect = self.avoid_unproven(engine, id, start);
        if let Some(part) = self.parts.active.get_mut(&(id, start)) {
            // The proof may be what is wrong: another is asked for too.
            (part.proof, part.said) = (None, Vec::new());
        }
        for range in again {
            if let Some(endpoint) = self.endpoint {
                engine.command(endpoint, Command::Refetch { object: ObjectId(id.0), range, suspect });
            }
        }
        self.want_proof(id, start);
    }

    fn on_file_failed(&mut self, engine: &mut Engine, flow: FlowId, file: u64, problem: FileProblem) {
        let Some(id) = self.mirrors.get(&flow).map(|mirror| mirror.set) else { return };
        let Some(set) = self.sets.get_mut(&id) else { return };
        let Ok(file) = usize::try_from(file) else { return };
        if set.mirrors.len() > 1 {
            // Another one may have it.
            let _ = self.lose(engine, flow, "it cannot send one of its files", false);
            return;
        }
        set.failed.insert(file, problem);
        if let Some(mirror) = self.mirrors.get_mut(&flow) {
            mirror.proving.asked.retain(|&(asked, _)| asked != file);
        }
        let of_file = |wanted: &Wanted| wanted.file == file;
        let parts = self.parts.active.range((id, 0)..=(id, u64::MAX)).filter(|(_, part)| of_file(&part.wanted));
        let starts: Vec<u64> = parts.map(|(key, _)| key.1).collect();
        let mut takers: Vec<Taker> = Vec::new();
        for start in starts {
            let Some(part) = self.drop_part(engine, id, start) else { continue };
            takers.extend(part.wanted.takers);
        }
        let Some(set) = self.sets.get_mut(&id) else { return };
        for queue in [&mut set.waiting, &mut set.ahead] {
            let (of_it, others): (Vec<_>, Vec<_>) = queue.drain(..).partition(of_file);
            queue.extend(others);
            takers.extend(of_it.into_iter().flat_map(|wanted| wanted.takers));
        }
        let error = || set.file_error(file, problem);
        takers.iter().for_each(|taker| taker.delivery.fail(error()));
    }

    fn tend_paths(&mut self, engine: &mut Engine) -> Result<(), MoveError> {
        let Some(endpoint) = self.endpoint else { return Ok(()) };
        let mirrors = &self.mirrors;
        self.paths.tend(engine, endpoint, |flow| mirrors.contains_key(&flow))?;
        self.hear_of_paths(engine)
    }

    fn hear_of_paths(&mut self, engine: &mut Engine) -> Result<(), MoveError> {
        for news in self.paths.take_news() {
            match news {
                PathNews::Warning(text) => log::warn!("{text}"),
                PathNews::Lost(flow, why) => self.lose(engine, flow, why, true)?,
            }
        }
        Ok(())
    }

    /// The data thread ends with an error: who waits hears of it.
    pub(super) fn end(&mut self, error: &MoveError) {
        let text = error.to_string();
        let parts = std::mem::take(&mut self.parts.active).into_values().map(|part| part.wanted);
        let waiting = self.sets.values_mut().flat_map(|set| {
            set.waiting.drain(..).chain(set.ahead.drain(..)).chain(set.blocked.drain(..)).collect::<Vec<_>>()
        });
        for taker in parts.chain(waiting).flat_map(|wanted| wanted.takers) {
            taker.delivery.fail(MoveError::Internal(text.clone()));
        }
        while let Ok(order) = self.orders.try_recv() {
            order.refuse(&text);
        }
    }

    /// The client is gone: the servers are told.
    fn finish(&mut self, engine: &mut Engine) -> PollResult {
        let now = engine.now();
        let until = *self.closing.get_or_insert(now + CLOSING);
        let ids: Vec<SetId> = self.sets.keys().copied().collect();
        ids.into_iter().for_each(|id| self.close(engine, id));
        if now >= until || engine.streams() == 0 { PollResult::Done } else { PollResult::Wait(until) }
    }
}

impl Application for Reading {
    fn sink(&mut self) -> &mut dyn Sink {
        &mut self.parts
    }

    fn bodies(&mut self) -> &mut dyn BodySource {
        &mut self.bodies
    }

    fn on_places(&mut self, places: &[Place]) {
        for place in places {
            let Some(&id) = self.parts.by_flow.get(&place.flow) else { continue };
            if let Some(set) = self.sets.get_mut(&id) {
                set.stats.placed_bytes += place.range.len();
            }
            let mut whole = Vec::new();
            self.parts.note(id, place.range, place.flow, |start| whole.push(start));
            whole.into_iter().for_each(|start| self.on_whole(id, start));
        }
    }

    fn on_event(&mut self, engine: &mut Engine, event: Event) -> Result<(), MoveError> {
        match event {
            Event::Opened { flow } => {
                let now = engine.now();
                if let Some(mirror) = self.mirrors.get_mut(&flow) {
                    mirror.opened = mirror.opened.or(Some(now));
                }
                self.avoid_known(engine, flow);
                self.paths.note_open(flow);
                Ok(())
            }
            Event::Failed { flow, error } => {
                // A firewall that blocks UDP may be opened while a program runs.
                let Fate { why, may_return } = Fate::of_flow(&error, true);
                self.lose(engine, flow, &why, may_return)
            }
            Event::Complete { .. }
            | Event::Starved { .. }
            | Event::Closed { .. }
            | Event::Control { .. }
            | Event::Source { .. } => Ok(()),
        }
    }

    fn on_frame(&mut self, engine: &mut Engine, flow: FlowId, frame: Frame) -> Result<(), MoveError> {
        match frame {
            Frame::Proof { part, digest, inside, path } => {
                self.on_proof(engine, flow, part, &Proof { digest, inside }, &path)
            }
            Frame::FileFailed { file, problem } => {
                self.on_file_failed(engine, flow, file, problem);
                Ok(())
            }
            frame => {
                let Fate { why, may_return } = Fate::of_frame(frame);
                self.lose(engine, flow, &why, may_return)
            }
        }
    }

    fn on_end(&mut self, engine: &mut Engine, flow: FlowId, cause: &EndCause) -> Result<(), MoveError> {
        let Fate { why, may_return } = Fate::of_end(cause);
        self.lose(engine, flow, &why, may_return)
    }

    fn on_source_end(&mut self, engine: &mut Engine, flow: FlowId, error: MoveError) -> Result<(), MoveError> {
        self.lose(engine, flow, &error.to_string(), error.is_passing())
    }

    fn on_turn(&mut self, engine: &mut Engine) -> Result<PollResult, MoveError> {
        if self.closing.is_some() || !self.take_orders(engine)? {
            return Ok(self.finish(engine));
        }
        while let Some(checked) = self.checked.pop().or_else(|| self.checker.next()) {
            self.on_checked(engine, checked);
        }
        self.take_tried(engine)?;
        self.tend_paths(engine)?;
        let now = engine.now();
        if now >= self.next_look {
            self.next_look = now + LOOK;
            self.give_up_waiting(engine);
            self.check_proofs(engine)?;
            self.decide_late(engine)?;
        }
        self.stir(engine);
        if !self.checked.is_empty() {
            return Ok(PollResult::Wait(now));
        }
        let opens = |mirror: &Mirror| mirror.opened.is_none() && mirror.has_data;
        let is_busy = self.parts.bytes > 0
            || self.sets.values().any(|set| set.alone.is_some())
            || self.mirrors.values().any(opens);
        Ok(PollResult::Wait(if is_busy { self.paths.next_look().min(self.next_look) } else { now + REST }))
    }
}
