//! Mirrors that answer late, or are lost and return. The transfer continues from the data that has arrived.
//!
//! A thread beside the transfer opens a lost mirror again ([`Opener`]). If its data set is still the same, the mirror
//! joins as a new flow, whether or not other mirrors are active. A data set without any mirror waits for
//! `--retry-for`.

use inhaul_base::{Span, Time};
use inhaul_transport::FlowId;

use super::away::Away;
use super::{Haul, Joining};
use crate::api::error::MoveError;
use crate::api::options::{SourceProgress, Waiting};
use crate::api::report::SourceStatus;
use crate::engine::Engine;
use crate::engine::port::Port;
use crate::session::connect::Session;
use crate::session::opener::{MirrorId, Opener, Tried};

/// A flow that has stood for so long did not fall at once: the next loss is a new one.
const STEADY: Span = Span::from_secs(10);

impl Haul {
    /// Has the engine woken by mirrors that answer, and takes note of those that have not yet.
    pub(super) fn begin_reopening(&mut self, engine: &Engine) {
        let Some(opener) = &self.reopening.opener else { return };
        opener.wake(engine.waker());
        for object in &self.objects {
            for server in &object.sought.late {
                let mirror = MirrorId { request: object.sought.request, server: server.clone() };
                let is_unheard = object.sought.unheard.contains(server);
                let reason = "it has not answered yet".to_owned();
                let away = Away { since: self.started, reason, former: None, is_unheard };
                self.reopening.away.insert(mirror, away);
            }
        }
    }

    /// Has a mirror that is lost tried again; false when it is not to be.
    pub(super) fn reopen(&mut self, engine: &Engine, flow: FlowId, reason: &str) -> Result<bool, MoveError> {
        let Some(mirror) = self.mirrors.get_mut(&flow) else { return Ok(false) };
        let Some(opener) = self.reopening.opener.as_ref().filter(|opener| opener.retry_for() > Span::ZERO) else {
            return Ok(false);
        };
        let now = engine.now();
        let has_stood = mirror.opened.is_some_and(|opened| now.since(opened) >= STEADY);
        mirror.falls = if has_stood { 1 } else { mirror.falls.saturating_add(1) };
        mirror.status = SourceStatus::Waiting;
        let id = MirrorId { request: self.objects[mirror.object].sought.request, server: mirror.server.clone() };
        opener.reopen(id.clone(), mirror.falls)?;
        self.reopening
            .away
            .insert(id, Away { since: now, reason: reason.to_owned(), former: Some(flow), is_unheard: false });
        Ok(true)
    }

    /// Takes in what has become of mirrors that are being tried.
    pub(super) fn take_tried(&mut self, engine: &mut Engine) -> Result<(), MoveError> {
        while let Some(tried) = self.reopening.opener.as_ref().and_then(Opener::try_next) {
            let index = self.objects.iter().position(|object| object.sought.request == tried.mirror.request);
            // It is not waited for any more. Dropping an answer closes its session.
            if let Some(index) = index.filter(|&index| !self.objects[index].done && self.disconnecting.is_none()) {
                self.on_tried(engine, index, tried)?;
            }
        }
        Ok(())
    }

    fn on_tried(&mut self, engine: &mut Engine, index: usize, tried: Tried) -> Result<(), MoveError> {
        let Tried { mirror, result, again, .. } = tried;
        let candidate = match result {
            Ok(candidate) => candidate,
            Err(error) if again => {
                if let Some(away) = self.reopening.away.get_mut(&mirror) {
                    away.reason = error.to_string();
                    away.is_unheard = false;
                }
                return Ok(());
            }
            Err(error) => return self.stay_without(index, &mirror, SourceStatus::Lost, error),
        };
        let object = &self.objects[index];
        let error = if candidate.identity != object.sought.identity {
            Some(MoveError::SourceChanged { server: mirror.server.clone() })
        } else if !object.groups.manifest().has_holes_within(&candidate.manifest) {
            Some(MoveError::OtherHoles { server: mirror.server.clone() })
        } else {
            None
        };
        if let Some(error) = error {
            return self.stay_without(index, &mirror, SourceStatus::Different, error);
        }
        let Some(away) = self.reopening.away.remove(&mirror) else { return Ok(()) };
        self.rejoin(engine, index, candidate.session, &away)
    }

    /// A mirror that was being tried does not come.
    fn stay_without(
        &mut self,
        index: usize,
        mirror: &MirrorId,
        status: SourceStatus,
        error: MoveError,
    ) -> Result<(), MoveError> {
        let away = self.reopening.away.remove(mirror);
        if let Some(former) = away.and_then(|away| away.former).and_then(|former| self.mirrors.get_mut(&former)) {
            former.status = status;
        }
        if !self.has_running(index) && self.reopening.of_request(mirror.request).next().is_none() {
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
        mut session: Session,
        away: &Away,
    ) -> Result<(), MoveError> {
        let server = session.server.clone();
        let net = self.reopening.net.clone();
        let now = engine.now();
        let opened = session.take_socket(&net);
        let opened = opened.and_then(|(socket, probed)| Ok((engine.add_port(Port::new(socket, true))?, probed)));
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
        let joining = Joining { object: index, session, probed, former: away.former };
        let flow = self.join(engine, joining, port, &net, self.reopening.rate)?;
        if let Some(former) = away.former {
            self.succeed(former, flow);
        }
        let seconds = now.since(away.since).as_secs_f64();
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
        self.reopening.of_request(self.objects[index].sought.request).next().is_some()
    }

    /// Gives up data sets that have waited without a byte for `--retry-for`.
    pub(super) fn give_up_waiting(&mut self, now: Time) -> Result<(), MoveError> {
        for index in 0..self.objects.len() {
            let object = &mut self.objects[index];
            if object.placed_bytes != object.placed_then {
                (object.placed_then, object.placed_since) = (object.placed_bytes, now);
            }
            let waited = now.since(object.placed_since.max(self.started));
            if object.done || waited < self.reopening.retry_for() || self.has_running(index) {
                continue;
            }
            let request = self.objects[index].sought.request;
            let Some((mirror, away)) = self.reopening.of_request(request).next() else { continue };
            let error = self.all_lost(index, &mirror.server.clone(), &away.reason.clone());
            self.fail(index, error)?;
        }
        Ok(())
    }

    /// What is waited for: the mirrors of data sets that have none.
    pub(super) fn waiting(&self, now: Time) -> Option<Waiting> {
        let starved = (0..self.objects.len()).filter(|&index| !self.objects[index].done && !self.has_running(index));
        let away: Vec<_> =
            starved.flat_map(|index| self.reopening.of_request(self.objects[index].sought.request)).collect();
        let (_, first) = away.iter().min_by_key(|(_, away)| away.since)?;
        Some(Waiting {
            servers: away.iter().map(|(mirror, _)| mirror.server.to_string()).collect(),
            seconds: now.since(first.since).as_secs_f64(),
            reason: first.reason.clone(),
        })
    }

    /// Mirrors that have never answered yet, for the display.
    pub(super) fn late_mirrors(&self) -> impl Iterator<Item = SourceProgress> + '_ {
        let late = self.reopening.away.iter().filter(|(_, away)| away.former.is_none());
        late.map(|(mirror, _)| SourceProgress {
            address: mirror.server.to_string(),
            status: SourceStatus::Waiting,
            ..SourceProgress::default()
        })
    }
}
