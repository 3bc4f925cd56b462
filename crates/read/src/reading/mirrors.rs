//! Mirrors of open data sets that are lost, come back, or owe something for too long; and who hears of it.

use inhaul_base::Span;
use inhaul_transport::{Command, FlowId};

use super::super::order::SetId;
use super::super::parts::Taker;
use super::{Mirror, Reading, Set};
use inhaul_engine::engine::Engine;
use inhaul_session::api::error::MoveError;
use inhaul_session::session::frame::Frame;
use inhaul_sources::opener::{MirrorId, Reached};
use inhaul_sources::{Away, News, Sameness, next_fall};

/// A mirror that is asked for proofs and sends none for so long is given up. It may have to read a file first, if the
/// file is pinned: so much of it in a second at least.
const PROOFS_MAX: Span = Span::from_secs(15);
const PINNED_BYTES_A_SECOND: u64 = 100 << 20;

impl Reading {
    /// A flow is over.
    pub(super) fn forget(&mut self, engine: &mut Engine, flow: FlowId, tell: bool) {
        if self.mirrors.remove(&flow).is_none() {
            return;
        }
        self.parts.by_flow.remove(&flow);
        self.paths.remove(flow);
        if let Some(endpoint) = self.endpoint.filter(|_| tell) {
            engine.command(endpoint, Command::Disconnect { flow });
            engine.send(flow, &Frame::Finish);
        }
        engine.close(flow);
    }

    /// A mirror is lost, and may come back; the data set's others go on.
    pub(super) fn lose(
        &mut self,
        engine: &mut Engine,
        flow: FlowId,
        why: &str,
        may_return: bool,
    ) -> Result<(), MoveError> {
        let Some(mirror) = self.mirrors.get(&flow) else { return Ok(()) };
        let (id, server, opened, falls) = (mirror.set, mirror.server.clone(), mirror.opened, mirror.falls);
        self.forget(engine, flow, false);
        let now = engine.now();
        let Some(set) = self.sets.get_mut(&id) else { return Ok(()) };
        set.mirrors.retain(|&other| other != flow);
        set.provers.retain(|&other| other != flow);
        self.stirred.insert(id);
        log::warn!("{server} is lost ({why})");
        if may_return {
            let falls = next_fall(now, opened, falls);
            set.roster.reopen(now, MirrorId { request: 0, server: server.clone() }, (falls, why), None)?;
        }
        if set.is_alone() && set.alone.is_none() {
            set.alone = Some((now, format!("{server}: {why}")));
        }
        if set.is_alone() && !set.roster.has_away(0) {
            self.give_up(engine, id);
        }
        self.ask_others(engine, id, flow)
    }

    /// No mirror is left, and none is expected: who waits hears that.
    fn give_up(&mut self, engine: &mut Engine, id: SetId) {
        let Some(set) = self.sets.get(&id) else { return };
        let (source, detail) = (set.source.clone(), set.alone.as_ref().map(|(_, why)| why.clone()).unwrap_or_default());
        let error = || MoveError::AllLost { data_set: Box::new(source.clone()), detail: detail.clone() };
        self.fail_set(engine, id, &error);
    }

    pub(super) fn fail_set(&mut self, engine: &mut Engine, id: SetId, error: &dyn Fn() -> MoveError) {
        let starts: Vec<u64> = self.parts.active.range((id, 0)..=(id, u64::MAX)).map(|(key, _)| key.1).collect();
        let mut takers: Vec<Taker> = Vec::new();
        for start in starts {
            takers.extend(self.drop_part(engine, id, start).into_iter().flat_map(|part| part.wanted.takers));
        }
        if let Some(set) = self.sets.get_mut(&id) {
            let waiting = set.waiting.drain(..).chain(set.ahead.drain(..)).chain(set.blocked.drain(..));
            takers.extend(waiting.flat_map(|wanted| wanted.takers));
        }
        takers.iter().for_each(|taker| taker.delivery.fail(error()));
    }

    /// Takes in what has become of mirrors that were tried again.
    pub(super) fn take_tried(&mut self, engine: &mut Engine) -> Result<(), MoveError> {
        let ids: Vec<SetId> = self.sets.keys().copied().collect();
        for id in ids {
            while let Some(set) = self.sets.get_mut(&id) {
                let sameness = Sameness { identity: set.identity, groups: &set.groups };
                let Some(news) = set.roster.next(|_| Some(sameness)) else { break };
                match news {
                    News::Back { mirror, candidate, away } => {
                        set.unheard.remove(&mirror.server);
                        self.take_back(engine, id, mirror, candidate.reached, &away)?;
                    }
                    News::Waits { mirror, error } | News::Gone { mirror, error, .. } => {
                        set.unheard.remove(&mirror.server);
                        if let Some((_, why)) = &mut set.alone {
                            *why = error.to_string();
                            if !set.roster.has_away(0) {
                                self.give_up(engine, id);
                            }
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// A mirror is there, late or again.
    fn take_back(
        &mut self,
        engine: &mut Engine,
        id: SetId,
        mirror: MirrorId,
        reached: Reached,
        away: &Away,
    ) -> Result<(), MoveError> {
        if let (Reached::Session(session), Some(cache), Some(set)) = (&reached, &self.cache, self.sets.get(&id)) {
            cache.hear(&set.names, session);
        }
        let joined = self.join(engine, id, reached, away.falls);
        let Err(error) = joined else { return Ok(()) };
        log::warn!("{error}");
        // The way is gone again already.
        if let Some(set) = self.sets.get_mut(&id) {
            set.roster.reopen(engine.now(), mirror, (away.falls.saturating_add(1), &error.to_string()), None)?;
        }
        Ok(())
    }

    /// Those who have waited too long for a mirror hear it.
    pub(super) fn give_up_waiting(&mut self, engine: &mut Engine) {
        let now = engine.now();
        let patience = self.settings.retry_for;
        let late = |set: &Set| set.alone.as_ref().is_some_and(|(since, _)| now.since(*since) >= patience);
        let late: Vec<SetId> = self.sets.iter().filter(|(_, set)| late(set)).map(|(&id, _)| id).collect();
        late.into_iter().for_each(|id| self.give_up(engine, id));
    }

    /// Does without mirrors that owe proofs for too long.
    pub(super) fn check_proofs(&mut self, engine: &mut Engine) -> Result<(), MoveError> {
        let now = engine.now();
        let is_owing = |mirror: &Mirror| {
            let Some((set, &(file, _))) = self.sets.get(&mirror.set).zip(mirror.proving.asked.front()) else {
                return false;
            };
            let bytes = set.groups.manifest().entries().get(file).map_or(0, |entry| entry.size);
            let reading = if set.roots.contains_key(&file) { bytes / PINNED_BYTES_A_SECOND } else { 0 };
            now.since(mirror.proving.since) > PROOFS_MAX + Span::from_secs(reading)
        };
        let owing: Vec<FlowId> =
            self.mirrors.iter().filter(|(_, mirror)| is_owing(mirror)).map(|(&flow, _)| flow).collect();
        owing.into_iter().try_for_each(|flow| self.lose(engine, flow, "it sends no proofs", false))
    }
}
