//! What a running transfer tells of itself.

use inhaul_base::Time;
use inhaul_transport::{FlowId, FlowStats};

use super::{Haul, Mirror, TICK, total};
use inhaul_engine::engine::Engine;
use inhaul_session::api::options::{Progress, SourceProgress, Update};
use inhaul_session::api::report::{PathReport, SourceStatus, known_ms};

impl Haul {
    /// Tells how far things are, and how fast they have been going.
    pub(super) fn tick(&mut self, engine: &Engine, now: Time) {
        self.next_tick = now + TICK;
        self.measure(engine);
        self.mirrors.values_mut().for_each(Mirror::note_held);
        self.warn_of_overload(now);
        let came = total(&self.objects, |object| object.placed_bytes);
        let held = total(&self.objects, |object| object.held_bytes);
        let received = came.saturating_add(held).saturating_add(total(&self.objects, |object| object.hole_bytes));
        let placed = |(&flow, mirror): (&FlowId, &Mirror)| (flow, mirror.placed_bytes);
        let active = self.mirrors.iter().filter(|(_, mirror)| mirror.is_active()).map(placed);
        self.pace.note(now, came, self.mirrors.iter().map(placed).collect(), active);
        let (goodput_bps, of_flows) = self.pace.recent();
        let source = |(flow, mirror): (&FlowId, &Mirror)| SourceProgress {
            address: mirror.server.to_string(),
            bytes: mirror.placed_bytes,
            goodput_bps: of_flows.get(flow).copied().unwrap_or_default(),
            received_bps: mirror.stats.received_rate.as_f64(),
            target_bps: mirror.stats.target_rate.as_f64(),
            loss_ratio: mirror.loss_ratio(),
            rtt_ms: known_ms(mirror.stats.rtt),
            held_by: mirror.stats.held_by.map(|held| held.name().to_owned()),
            status: mirror.status,
            path: self.path_of(*flow, mirror, now),
        };
        let so_far = self.pace.so_far(came, now.since(self.started));
        let progress = Progress {
            seconds: so_far.seconds(),
            bytes: self.verified_bytes,
            received_bytes: received,
            resumed_bytes: held,
            fetched_bytes: came,
            total_bytes: total(&self.objects, |object| object.bytes),
            files: self.objects.iter().map(|object| object.finished.len()).sum(),
            total_files: self.objects.iter().map(|object| object.files).sum(),
            goodput_bps,
            average_bps: so_far.bps(),
            policy: self.policy.map(|policy| policy.name().to_owned()),
            sources: self.mirrors.iter().map(source).chain(self.late_mirrors()).collect(),
            waiting: self.waiting(now),
        };
        // The listener may be gone.
        let _ = self.updates.send(Update::Progress(progress));
    }

    /// How a mirror's data comes; from a source by ranges, this is the scheme of its URL.
    pub(crate) fn path_of(&self, flow: FlowId, mirror: &Mirror, now: Time) -> PathReport {
        let path = self.paths.report(flow, now);
        match mirror.server.url.as_ref().and_then(|url| url.split_once("://")) {
            Some((scheme, _)) => PathReport { over: scheme.to_owned(), ..path },
            None => path,
        }
    }

    /// Warns if a rate is held that the paths do not bear.
    fn warn_of_overload(&mut self, now: Time) {
        let sum = |packets: fn(&FlowStats) -> u64| self.mirrors.values().map(|mirror| packets(&mirror.stats)).sum();
        let (lost, received) = (sum(|stats| stats.lost_packets), sum(|stats| stats.received_packets));
        if let Some(warning) = self.overload.note(now, self.policy, lost, received) {
            self.warn(warning);
        }
    }

    /// Jain's index of the mirrors that delivered, if they competed.
    pub(crate) fn jain_index(&self) -> Option<f64> {
        let delivered = || self.mirrors.iter().filter(|(_, mirror)| mirror.placed_bytes > 0);
        let is_lost = |mirror: &Mirror| matches!(mirror.status, SourceStatus::Lost | SourceStatus::Different);
        if delivered().any(|(_, mirror)| is_lost(mirror)) {
            return None;
        }
        let began = delivered().filter_map(|(_, mirror)| mirror.opened).min()?;
        let ended = delivered().filter_map(|(_, mirror)| mirror.ended).max()?;
        self.pace.jain_index(delivered().map(|(&flow, _)| flow), ended.since(began))
    }
}
