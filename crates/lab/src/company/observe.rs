//! A run over a shared network, with its bottleneck's rate and queue over time.

use inhaul_base::{Bitrate, Span};

use super::scenario::BOTTLENECK;
use crate::metrics::Trajectory;
use crate::result::RunResult;
use crate::scenario::{Plan, WhatChanges};
use crate::stepper::Stepper;

/// Looks at the bottleneck during a run.
const LOOKS: u64 = 4_000;
/// They are not nearer to each other than this.
const LOOK_MIN: Span = Span::from_millis(1);

/// The record of a run.
pub(super) struct Observed {
    pub(super) run: RunResult,
    /// Time in seconds, and what waited then, in seconds at the rate of then.
    queue: Vec<(f64, f64)>,
    /// Bytes that the bottleneck carried.
    carried: Trajectory,
    /// Time in seconds, and the bottleneck's rate from then on, in bits per second.
    rates: Vec<(f64, f64)>,
}

/// Makes a run. What breaks a rule of the simulator ends it early and makes it invalid.
pub(super) fn observe(plan: Plan, seed: u64) -> Observed {
    let rates = rates(&plan);
    let look = Span::from_nanos(plan.end.as_nanos() / LOOKS).max(LOOK_MIN);
    let mut seen = Observed { run: RunResult::default(), queue: Vec::new(), carried: Trajectory::default(), rates };
    let invalid = |reason: String| RunResult { seed, invalid_reason: Some(reason), ..RunResult::default() };
    let mut stepper = match Stepper::new(plan, seed, &Vec::new()) {
        Ok(stepper) => stepper,
        Err(error) => return Observed { run: invalid(error.to_string()), ..seen },
    };
    while !stepper.is_over() {
        if let Err(error) = stepper.advance(stepper.now() + look, || true) {
            return Observed { run: invalid(error.to_string()), ..seen };
        }
        let t_s = stepper.now().as_secs_f64();
        if let Some(link) = stepper.links().into_iter().find(|link| link.name == BOTTLENECK) {
            seen.carried.push(t_s, link.carried_bytes as f64);
            let rate_bps = seen.rate_bps(t_s);
            if rate_bps > 0.0 {
                seen.queue.push((t_s, link.queue_bytes as f64 * 8.0 / rate_bps));
            }
        }
    }
    seen.run = stepper.result();
    seen
}

/// The rates of the bottleneck, and from when on it has them.
fn rates(plan: &Plan) -> Vec<(f64, f64)> {
    let Some(link) = plan.topology.find_link(BOTTLENECK) else { return Vec::new() };
    let first = plan.topology.link_spec(link).and_then(|spec| spec.rate).map_or(0.0, Bitrate::as_f64);
    let (mut rate, mut is_up, mut rates) = (first, true, vec![(0.0, first)]);
    let mut changes: Vec<_> = plan.changes.iter().collect();
    changes.sort_by_key(|change| change.at);
    for change in changes {
        match change.what {
            WhatChanges::LinkRate(at, new) if at == link => rate = new.as_f64(),
            WhatChanges::LinkUp(at, up) if at == link => is_up = up,
            _ => continue,
        }
        rates.push((change.at.as_secs_f64(), if is_up { rate } else { 0.0 }));
    }
    rates
}

impl Observed {
    fn rate_bps(&self, t_s: f64) -> f64 {
        let after = self.rates.partition_point(|(from_s, _)| *from_s <= t_s);
        after.checked_sub(1).map_or(0.0, |at| self.rates[at].1)
    }

    /// Mean queue in a time, in milliseconds.
    pub(super) fn queue_ms(&self, [from_s, to_s]: [f64; 2]) -> f64 {
        let (mut sum, mut count) = (0.0, 0u32);
        for (_, queue_s) in self.queue.iter().filter(|(t_s, _)| (from_s..=to_s).contains(t_s)) {
            sum += queue_s * 1e3;
            count += 1;
        }
        sum / f64::from(count.max(1))
    }

    /// Mean rate that the bottleneck could have carried in a time, in bits per second.
    pub(super) fn capacity_bps(&self, [from_s, to_s]: [f64; 2]) -> f64 {
        let ends = self.rates.iter().skip(1).map(|(from_s, _)| *from_s).chain([f64::INFINITY]);
        let overlap = |start: f64, end: f64| (end.min(to_s) - start.max(from_s)).max(0.0);
        let bits: f64 = self.rates.iter().zip(ends).map(|((start, bps), end)| bps * overlap(*start, end)).sum();
        bits / (to_s - from_s)
    }

    /// Mean rate that it did not use, in bits per second.
    pub(super) fn idle_bps(&self, time: [f64; 2]) -> f64 {
        (self.capacity_bps(time) - self.carried.rate_bps(time[0], time[1])).max(0.0)
    }

    /// Mean rate of flows in a time, of data, in bits per second.
    pub(super) fn goodput_bps(&self, is_meant: impl Fn(&str) -> bool, [from_s, to_s]: [f64; 2]) -> f64 {
        let flows = self.run.flows.iter().filter(|flow| is_meant(&flow.name));
        flows.map(|flow| flow.trajectory.rate_bps(from_s, to_s)).sum()
    }

    /// The same with headers.
    pub(super) fn wire_bps(&self, is_meant: impl Fn(&str) -> bool, [from_s, to_s]: [f64; 2]) -> f64 {
        let flows = self.run.flows.iter().filter(|flow| is_meant(&flow.name) && flow.efficiency > 0.0);
        flows.map(|flow| flow.trajectory.rate_bps(from_s, to_s) / flow.efficiency).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capacity_and_idle_time_follow_the_rates() {
        let mut carried = Trajectory::starting_at(0.0);
        carried.push(4.0, 100.0);
        let seen = Observed {
            run: RunResult::default(),
            queue: vec![(0.5, 0.001), (1.5, 0.003), (3.5, 0.1)],
            carried,
            rates: vec![(0.0, 1000.0), (1.0, 0.0), (2.0, 500.0)],
        };
        assert_eq!(seen.capacity_bps([0.0, 4.0]), 500.0);
        assert_eq!(seen.capacity_bps([1.0, 3.0]), 250.0);
        assert_eq!(seen.idle_bps([0.0, 4.0]), 300.0);
        assert!((seen.queue_ms([0.0, 2.0]) - 2.0).abs() < 1e-9);
    }
}
