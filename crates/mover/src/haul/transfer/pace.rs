//! How fast a transfer goes, for those who watch it and for its report.

use std::collections::{BTreeMap, VecDeque};

use inhaul_base::{Span, Throughput, Time};
use inhaul_transport::FlowId;

use super::{Haul, Mirror, TICK, total};
use crate::api::fairness::Together;
use crate::api::options::{Progress, SourceProgress, Update};
use crate::api::report::{SourceStatus, known_ms};
use crate::engine::Engine;

/// Reported rates are averages over this number of ticks.
const RATE_TICKS: usize = 10;

/// What has come by when, and how the flows share it.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// How long the set-up took before the transfer began: times are told from its start.
    set_up: Span,
    /// The latest ticks.
    history: VecDeque<Sample>,
    together: Together<FlowId>,
}

/// What had come at a tick.
#[derive(Debug, Default)]
struct Sample {
    at: Time,
    bytes: u64,
    by_flow: BTreeMap<FlowId, u64>,
}

impl Pace {
    /// That of a transfer which begins after a set-up of this length.
    pub(super) fn after(set_up: Span) -> Self {
        Self { set_up, ..Self::default() }
    }

    /// Takes note of what has come by `at`, of all flows and of each.
    fn note(&mut self, at: Time, bytes: u64, by_flow: BTreeMap<FlowId, u64>) {
        if self.history.len() > RATE_TICKS {
            self.history.pop_front();
        }
        self.history.push_back(Sample { at, bytes, by_flow });
    }

    /// The recent rate of all, and of each flow over the same time, in bits per second.
    fn recent(&self) -> (f64, BTreeMap<FlowId, f64>) {
        let (Some(first), Some(last)) = (self.history.front(), self.history.back()) else {
            return (0.0, BTreeMap::new());
        };
        let rate = |now: u64, before: u64| Throughput::of(now.saturating_sub(before), last.at.since(first.at)).bps();
        let of_flow = |(&flow, &bytes): (&FlowId, &u64)| {
            (flow, rate(bytes, first.by_flow.get(&flow).copied().unwrap_or_default()))
        };
        (rate(last.bytes, first.bytes), last.by_flow.iter().map(of_flow).collect())
    }
}

impl Haul {
    /// Tells how far things are, and how fast they have been going.
    pub(super) fn tick(&mut self, engine: &Engine, now: Time) {
        self.next_tick = now + TICK;
        self.measure(engine);
        let came = total(&self.objects, |object| object.placed_bytes);
        let held = total(&self.objects, |object| object.held_bytes);
        let received = came.saturating_add(held).saturating_add(total(&self.objects, |object| object.hole_bytes));
        self.pace.note(now, came, self.mirrors.iter().map(|(&flow, mirror)| (flow, mirror.placed_bytes)).collect());
        let active = self.mirrors.iter().filter(|(_, mirror)| mirror.is_active());
        self.pace.together.note(now, active.map(|(&flow, mirror)| (flow, mirror.placed_bytes)));
        let (goodput_bps, of_flows) = self.pace.recent();
        let source = |(flow, mirror): (&FlowId, &Mirror)| SourceProgress {
            address: mirror.server.to_string(),
            bytes: mirror.placed_bytes,
            goodput_bps: of_flows.get(flow).copied().unwrap_or_default(),
            received_bps: mirror.stats.received_rate.as_f64(),
            target_bps: mirror.stats.target_rate.as_f64(),
            loss_ratio: mirror.loss_ratio(),
            rtt_ms: known_ms(mirror.stats.rtt),
            status: mirror.status,
            path: self.paths.report(*flow, now),
        };
        let so_far = Throughput::of(came, self.pace.set_up + now.since(self.started));
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
            sources: self.mirrors.iter().map(source).chain(self.late_mirrors()).collect(),
            waiting: self.waiting(now),
        };
        // The listener may be gone.
        let _ = self.updates.send(Update::Progress(progress));
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
        self.pace.together.jain_index(delivered().map(|(&flow, _)| flow), ended.since(began))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recent_rates_of_flows_are_over_the_same_time_and_add_up() {
        let (a, b) = (FlowId(1), FlowId(2));
        let mut pace = Pace::default();
        assert_eq!(pace.recent().0, 0.0);
        for tick in 0..25u64 {
            let at = Time::ZERO + TICK * tick;
            // The second one joins late.
            let of_b = tick.saturating_sub(20) * 1000;
            let mut by_flow = BTreeMap::from([(a, tick * 3000)]);
            if tick >= 20 {
                by_flow.insert(b, of_b);
            }
            pace.note(at, tick * 3000 + of_b, by_flow);
        }
        let (all, of_flows) = pace.recent();
        assert!((of_flows[&a] - 240_000.0).abs() < 1.0, "{of_flows:?}");
        assert!((all - of_flows.values().sum::<f64>()).abs() < 1.0, "{all}, {of_flows:?}");
    }
}
