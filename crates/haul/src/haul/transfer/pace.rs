//! How fast a transfer goes, for those who watch it and for its report.

use std::collections::{BTreeMap, VecDeque};

use inhaul_base::{Span, Throughput, Time};
use inhaul_transport::FlowId;

use inhaul_session::api::fairness::Together;

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

    /// Takes note of what has come by `at`, of all flows and of each; and of those that are active.
    pub(super) fn note(
        &mut self,
        at: Time,
        bytes: u64,
        by_flow: BTreeMap<FlowId, u64>,
        active: impl IntoIterator<Item = (FlowId, u64)>,
    ) {
        self.together.note(at, active);
        if self.history.len() > RATE_TICKS {
            self.history.pop_front();
        }
        self.history.push_back(Sample { at, bytes, by_flow });
    }

    /// What has come in all the time since the set-up began; `running`: since the transfer did.
    pub(super) fn so_far(&self, bytes: u64, running: Span) -> Throughput {
        Throughput::of(bytes, self.set_up + running)
    }

    /// Jain's index of the flows that delivered, if they competed for most of `whole`.
    pub(super) fn jain_index(&self, delivered: impl IntoIterator<Item = FlowId>, whole: Span) -> Option<f64> {
        self.together.jain_index(delivered, whole)
    }

    /// The recent rate of all, and of each flow over the same time, in bits per second.
    pub(super) fn recent(&self) -> (f64, BTreeMap<FlowId, f64>) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recent_rates_of_flows_are_over_the_same_time_and_add_up() {
        let (a, b) = (FlowId(1), FlowId(2));
        let mut pace = Pace::default();
        assert_eq!(pace.recent().0, 0.0);
        for tick in 0..25u64 {
            let at = Time::ZERO + Span::from_millis(100) * tick;
            // The second one joins late.
            let of_b = tick.saturating_sub(20) * 1000;
            let mut by_flow = BTreeMap::from([(a, tick * 3000)]);
            if tick >= 20 {
                by_flow.insert(b, of_b);
            }
            pace.note(at, tick * 3000 + of_b, by_flow, []);
        }
        let (all, of_flows) = pace.recent();
        assert!((of_flows[&a] - 240_000.0).abs() < 1.0, "{of_flows:?}");
        assert!((all - of_flows.values().sum::<f64>()).abs() < 1.0, "{all}, {of_flows:?}");
    }
}
