//! Mirrors that answer late, or are lost and return. The transfer continues from the data that has arrived.
//!
//! A thread beside the transfer opens a lost mirror again (`Roster`). If its data set is still the same, the mirror
//! joins as a new flow, whether or not other mirrors are active. A data set without any mirror waits for
//! `--retry-for`.

use std::sync::Arc;

use inhaul_base::Time;
use inhaul_transport::FlowId;

use super::{Haul, Joining};
use inhaul_engine::engine::Engine;
use inhaul_engine::engine::port::Port;
use inhaul_session::api::error::MoveError;
use inhaul_session::api::options::{SourceProgress, Waiting};
use inhaul_session::api::report::SourceStatus;
use inhaul_sources::opener::{MirrorId, Reached};
use inhaul_sources::{Away, News, Sameness, next_fall};

impl Haul {
    /// Has the engine woken by mirrors that answer, and takes note of those that have not yet.
    pub(super) fn begin_returning(&mut self, engine: &Engine) {
        self.roster.wake(engine.waker());
        for object in &self.objects {
            for server in &object.sought.late {
                let mirror = MirrorId { request: object.sought.request, server: server.clone() };
                self.roster.expect(self.started, mirror, object.sought.unheard.contains(server));
            }
        }
    }

    /// Has a mirror that is lost tried again; false when it is not to be.
    pub(super) fn reopen(&mut self, engine: &Engine, flow: FlowId, reason: &str) -> Result<bool, MoveError> {
        let Some(mirror) = self.mirrors.get_mut(&flow) else { return Ok(false) };
        let now = engine.now();
        let falls = next_fall(now, mirror.opened, mirror.falls);
        let id = MirrorId { request: self.objects[mirror.object].sought.request, server: mirror.server.clone() };
        if !self.roster.reopen(now, id, (falls, reason), Some(flow))? {
            return Ok(false);
        }
        mirror.falls = falls;
        mirror.status = SourceStatus::Waiting;
        Ok(true)
    }

    /// Takes in what has become of mirrors that are being tried.
    pub(super) fn take_tried(&mut self, engine: &mut Engine) -> Result<(), MoveError> {
        loop {
            let (objects, is_over) = (&self.objects, self.disconnecting.is_some());
            let at = |mirror: &MirrorId| objects.iter().position(|object| object.sought.request == mirror.request);
            let news = self.roster.next(|mirror| {
                let object = &objects[at(mirror)?];
                let sameness = Sameness { identity: object.sought.identity, groups: &object.groups };
                (!object.done && !is_over).then_some(sameness)
            });
            let Some(news) = news else { return Ok(()) };
            match news {
                News::Waits { .. } => {}
                News::Back { mirror, candidate, away } => {
                    let Some(index) = at(&mirror) else { continue };
                    self.rejoin(engine, index, &mirror, candidate.reached, &away)?;
                }
                News::Gone { mirror, away, status, error } => {
                    let Some(index) = at(&mirror) else { continue };
                    self.stay_without(index, &mirror, away.as_ref(), status, error)?;
                }
            }
        }
    }

    /// A mirror that was being tried does not come.
    fn stay_without(
        &mut self,
        index: usize,
        mirror: &MirrorId,
        away: Option<&Away>,
        status: SourceStatus,
        error: MoveError,
    ) -> Result<(), MoveError> {
        if let Some(former) = away.and_then(|away| away.former).and_then(|former| self.mirrors.get_mut(&former)) {
            former.status = status;
        }
        if !self.has_running(index) && !self.has_away(index) {
            return self.fail(index, error);
        }
        self.warn(format!("going on without {}: {error}", mirror.server));
        Ok(())
    }

    /// A mirror is there, late or again.
    fn rejoin(
        &mut self,
        engine: &mut Engine,
        index: usize,
        MirrorId { server, .. }: &MirrorId,
        reached: Reached,
        away: &Away,
    ) -> Result<(), MoveError> {
        let net = Arc::clone(&self.net);
        let flow = match reached {
            Reached::Ranges(server, source) => self.join_ranges(engine, index, (server, source))?,
            Reached::Session(mut session) => {
                let opened = session.take_socket(&net);
                let opened =
                    opened.and_then(|(socket, probed)| Ok((engine.add_port(Port::new(socket, true))?, probed)));
                let (port, probed) = match opened {
                    Ok(opened) => opened,
                    // The way is gone again already.
                    Err(error) => {
                        match away.former {
                            Some(former) => _ = self.reopen(engine, former, &error.to_string())?,
                            None => self.warn(format!("going on without {server}: {error}")),
                        }
                        return Ok(());
                    }
                };
                self.join(engine, Joining { object: index, session: *session, probed, former: away.former }, port)?
            }
        };
        if let Some(former) = away.former {
            self.succeed(former, flow);
        }
        let seconds = engine.now().since(away.since).as_secs_f64();
        match away.former {
            Some(_) => self.warn(format!("{server} is back after {seconds:.1} s: going on")),
            None => self.warn(format!("{server} has answered after {seconds:.1} s, and joins")),
        }
        Ok(())
    }

    /// The mirror that was the flow `former` is `flow` now.
    fn succeed(&mut self, former: FlowId, flow: FlowId) {
        let Some(old) = self.mirrors.remove(&former) else { return };
        let Some(new) = self.mirrors.get_mut(&flow) else { return };
        new.carry_on(&old);
        let object = &mut self.objects[old.object];
        object.mirrors.retain(|&other| other != flow);
        object.mirrors.iter_mut().filter(|place| **place == former).for_each(|place| *place = flow);
        self.sink.by_flow.remove(&former);
    }

    pub(super) fn is_running(&self, flow: FlowId) -> bool {
        self.mirrors.get(&flow).is_some_and(|mirror| mirror.status == SourceStatus::Running)
    }

    pub(super) fn has_running(&self, index: usize) -> bool {
        self.objects[index].mirrors.iter().any(|&flow| self.is_running(flow))
    }

    /// Whether a mirror of the object is being tried.
    pub(super) fn has_away(&self, index: usize) -> bool {
        self.roster.has_away(self.objects[index].sought.request)
    }

    /// Gives up data sets that have waited without a byte for `--retry-for`.
    pub(super) fn give_up_waiting(&mut self, now: Time) -> Result<(), MoveError> {
        for index in 0..self.objects.len() {
            let object = &mut self.objects[index];
            if object.placed_bytes != object.placed_then {
                (object.placed_then, object.placed_since) = (object.placed_bytes, now);
            }
            let waited = now.since(object.placed_since.max(self.started));
            if object.done || waited < self.roster.retry_for() || self.has_running(index) {
                continue;
            }
            let request = self.objects[index].sought.request;
            let Some((mirror, away)) = self.roster.of_request(request).next() else { continue };
            let error = self.all_lost(index, &mirror.server.clone(), &away.reason.clone());
            self.fail(index, error)?;
        }
        Ok(())
    }

    /// What is waited for: the mirrors of data sets that have none.
    pub(super) fn waiting(&self, now: Time) -> Option<Waiting> {
        let starved = (0..self.objects.len()).filter(|&index| !self.objects[index].done && !self.has_running(index));
        let away: Vec<_> =
            starved.flat_map(|index| self.roster.of_request(self.objects[index].sought.request)).collect();
        let (_, first) = away.iter().min_by_key(|(_, away)| away.since)?;
        Some(Waiting {
            servers: away.iter().map(|(mirror, _)| mirror.server.to_string()).collect(),
            seconds: now.since(first.since).as_secs_f64(),
            reason: first.reason.clone(),
        })
    }

    /// Mirrors that have never answered yet, for the display.
    pub(super) fn late_mirrors(&self) -> impl Iterator<Item = SourceProgress> + '_ {
        let late = self.roster.away().filter(|(_, away)| away.former.is_none());
        late.map(|(mirror, _)| SourceProgress {
            address: mirror.server.to_string(),
            status: SourceStatus::Waiting,
            ..SourceProgress::default()
        })
    }
}
