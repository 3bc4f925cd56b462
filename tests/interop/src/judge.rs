//! Whether two simulators agree.
//!
//! The criteria, as they were written before the first comparison. Everything is averaged over the seeds first, and
//! counts from [`Setting::from`] to the end.
//!
//! - Goodput of all flows together: within 5 %.
//! - Flows that have *settled* (the first flow's share in the two halves of the time differs by at most a tenth of
//!   the whole, in both simulators): the larger share within 10 % of ns-3's value.
//!   Of more than two flows the first is judged so against all others together.
//! - Flows that have not settled: the trajectories of the first flow's share, in steps of ten seconds from the
//!   last one's start on, differ by at most a tenth of the whole on average.

use serde::Serialize;

use crate::{Outcome, Setting};

/// Goodput may differ by this part of ns-3's.
pub const GOODPUT_TOLERANCE: f64 = 0.05;
/// Shares may differ by this much: of ns-3's, when settled; of the whole, on trajectories.
pub const SHARE_TOLERANCE: f64 = 0.10;
/// Step of a trajectory, in seconds.
const TRAJECTORY_STEP_S: f64 = 10.0;

/// A figure from both.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Both {
    /// Ours.
    pub ours: f64,
    /// ns-3's.
    pub ns3: f64,
}

impl Both {
    fn of(ours: &[Outcome], ns3: &[Outcome], figure: impl Fn(&Outcome) -> f64) -> Self {
        let mean = |outcomes: &[Outcome]| outcomes.iter().map(&figure).sum::<f64>() / outcomes.len().max(1) as f64;
        Self { ours: mean(ours), ns3: mean(ns3) }
    }

    /// By how much of ns-3's value ours differs.
    pub fn difference(self) -> f64 {
        self.ours / self.ns3 - 1.0
    }

    /// The same figure of the other flow, when this one is a share.
    fn rest(self) -> Self {
        Self { ours: 1.0 - self.ours, ns3: 1.0 - self.ns3 }
    }
}

/// How flows share.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Shares {
    /// The first flow's part of the goodput.
    pub first: Both,
    /// Whether they have settled in both simulators.
    pub settled: bool,
    /// Mean difference of the trajectories of the first flow's share.
    pub trajectory_difference: f64,
    /// The trajectories: the first flow's share in each step of ten seconds.
    pub trajectory: Vec<Both>,
}

/// The result of a setting's comparison.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Judgement {
    /// Goodput of all flows together, in Mbit/s.
    pub goodput_mbps: Both,
    /// Mean congestion window of the first flow, in packets. For information.
    pub window_packets: Both,
    /// Packets that the bottleneck's queue dropped from the start on. For information.
    pub queue_drops: Both,
    /// For more than one flow: how they share.
    pub shares: Option<Shares>,
    /// Whether all criteria hold.
    pub agrees: bool,
}

/// Compares the outcomes of a setting, one for each seed.
pub fn compare(setting: &Setting, ours: &[Outcome], ns3: &[Outcome]) -> Judgement {
    let (from, end) = (setting.from.as_secs_f64(), setting.duration.as_secs_f64());
    let flows = setting.flows.len();
    let goodput_mbps =
        Both::of(ours, ns3, |o| (0..flows).map(|flow| received(o, flow, from, end)).sum::<f64>() * 8e-6 / (end - from));
    let shares = (flows >= 2).then(|| compare_shares(setting, ours, ns3));
    let shares_agree = shares.as_ref().is_none_or(|shares| {
        if !shares.settled {
            return shares.trajectory_difference <= SHARE_TOLERANCE;
        }
        let larger = if shares.first.ns3 >= 0.5 { shares.first } else { shares.first.rest() };
        larger.difference().abs() <= SHARE_TOLERANCE
    });
    Judgement {
        goodput_mbps,
        window_packets: Both::of(ours, ns3, |o| mean_window(o, from)),
        queue_drops: Both::of(ours, ns3, |o| o.queue_drops as f64),
        agrees: goodput_mbps.difference().abs() <= GOODPUT_TOLERANCE && shares_agree,
        shares,
    }
}

fn compare_shares(setting: &Setting, ours: &[Outcome], ns3: &[Outcome]) -> Shares {
    let (from, end) = (setting.from.as_secs_f64(), setting.duration.as_secs_f64());
    let share = |from, to| Both::of(ours, ns3, |o| first_share(o, from, to));
    let middle = (from + end) / 2.0;
    let (early, late) = (share(from, middle), share(middle, end));
    let settled = (early.ours - late.ours).abs().max((early.ns3 - late.ns3).abs()) <= SHARE_TOLERANCE;

    let partner = setting.flows.iter().map(|flow| flow.start.as_secs_f64()).fold(0.0, f64::max);
    let steps = ((end - partner) / TRAJECTORY_STEP_S).floor() as u32;
    let step_end = |k: u32| end - f64::from(steps - k) * TRAJECTORY_STEP_S;
    let trajectory: Vec<_> = (0..steps).map(|k| share(step_end(k), step_end(k + 1))).collect();
    let differences = trajectory.iter().map(|both| (both.ours - both.ns3).abs());
    let trajectory_difference = differences.sum::<f64>() / f64::from(steps.max(1));
    Shares { first: share(from, end), settled, trajectory_difference, trajectory }
}

/// Bytes that a flow received between two times, in seconds.
fn received(outcome: &Outcome, flow: usize, from: f64, to: f64) -> f64 {
    let until = |t: f64| match (t / outcome.step_s).round() as usize {
        0 => 0,
        step => outcome.flows[flow].received_bytes.get(step - 1).copied().unwrap_or(0),
    };
    until(to) as f64 - until(from) as f64
}

fn first_share(outcome: &Outcome, from: f64, to: f64) -> f64 {
    let all: f64 = (0..outcome.flows.len()).map(|flow| received(outcome, flow, from, to)).sum();
    received(outcome, 0, from, to) / all.max(1.0)
}

fn mean_window(outcome: &Outcome, from: f64) -> f64 {
    let counted = &outcome.flows[0].window_packets;
    let counted = &counted[counted.len().min((from / outcome.step_s).round() as usize)..];
    counted.iter().sum::<u64>() as f64 / counted.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use inhaul_base::Span;

    use super::*;
    use crate::{Flow, FlowOutcome, Loss};

    fn setting(flows: usize) -> Setting {
        let flow = Flow { law: "reno", rtt: Span::from_millis(20), start: Span::ZERO };
        Setting {
            name: "test".into(),
            rate_mbps: 100,
            queue_packets: 100,
            flows: vec![flow; flows],
            loss: Loss::None,
            duration: Span::from_secs(60),
            from: Span::from_secs(20),
            known_difference: None,
            rtt_spread: Span::ZERO,
            seeds: 1,
        }
    }

    /// Flows with rates in Mbit/s as functions of the second.
    fn outcome(rates: &[&dyn Fn(u64) -> u64]) -> Outcome {
        let flow = |rate: &dyn Fn(u64) -> u64| FlowOutcome {
            received_bytes: (1..=60).map(|s| (0..s).map(|k| rate(k) * 125_000).sum()).collect(),
            window_packets: (0..60).map(rate).collect(),
        };
        Outcome { step_s: 1.0, flows: rates.iter().map(|rate| flow(rate)).collect(), ..Outcome::default() }
    }

    #[test]
    fn compare_counts_goodput_from_the_time_that_the_setting_says() {
        let ns3 = outcome(&[&|_| 100]);
        for (late, agrees) in [(96, true), (94, false), (104, true), (106, false)] {
            let ours = outcome(&[&move |s| if s < 20 { 1 } else { late }]);
            let judgement = compare(&setting(1), &[ours], std::slice::from_ref(&ns3));
            assert!((judgement.goodput_mbps.ours - late as f64).abs() < 1e-9);
            assert!((judgement.window_packets.ours - late as f64).abs() < 1e-9);
            assert_eq!(judgement.agrees, agrees, "{late}");
        }
    }

    #[test]
    fn compare_judges_settled_pairs_by_the_larger_share() {
        let ns3 = outcome(&[&|_| 20, &|_| 80]);
        for (first, agrees) in [(27, true), (29, false), (13, true), (11, false)] {
            let ours = outcome(&[&move |_| first, &move |_| 100 - first]);
            let judgement = compare(&setting(2), &[ours], std::slice::from_ref(&ns3));
            assert!(judgement.shares.unwrap().settled);
            assert_eq!(judgement.agrees, agrees, "{first}");
        }
    }

    #[test]
    fn compare_judges_pairs_that_move_by_their_trajectories() {
        let ns3 = outcome(&[&|s| 20 + s, &|s| 80 - s]);
        for (ahead, agrees) in [(9, true), (11, false)] {
            let ours = outcome(&[&move |s| 20 + s + ahead, &move |s| 80 - s - ahead]);
            let judgement = compare(&setting(2), &[ours], std::slice::from_ref(&ns3));
            let shares = judgement.shares.unwrap();
            assert!(!shares.settled && shares.trajectory.len() == 6);
            assert!((shares.trajectory_difference - ahead as f64 / 100.0).abs() < 1e-9);
            assert_eq!(judgement.agrees, agrees, "{ahead}");
        }
    }
}
