//! The host's own TCP beside our flows: both have max-min fair shares of the host's link (PROTOCOL.md 7.9; gtp-2004 3.6
//! and 7 leave it open).
//!
//! The host measures the rate of each of its TCP flows. It cannot set their rates, but TCP takes the capacity left to
//! it. So each counts as a flow with a demand, and our flows get the rest.

use std::collections::VecDeque;

use inhaul_base::{Bitrate, Span, Time};
use inhaul_transport::TcpFlows;

/// Older measurements no longer count.
const FRESH: Span = Span::from_secs(1);
/// TCP that takes less than this part of the whole is left to itself.
const PART_MIN: f64 = 0.02;
/// The most that came of all is taken over this long, ...
const RECENT: Span = Span::from_secs(2);
/// ... and of TCP over this long: CUBIC takes seconds to return to its rate before a loss.
const TCP_RECENT: Span = Span::from_secs(10);
/// TCP is left this much more than it takes, ...
const ROOM: f64 = 1.25;
/// ... for so long, to see whether it takes more; ...
const TRIAL: Span = Span::from_secs(6);
/// ... again after this long; ...
const TRIAL_GAP: Span = Span::from_secs(18);
/// ... and at once if it takes this much more than it did.
const GREW: f64 = 1.05;
/// A flow had more before a loss, but no more than this: CUBIC falls to 0.7 of its window.
const BEFORE_LOSS: f64 = 1.0 / 0.7;
/// If less than this part of our granted rates comes, in this many intervals of congestion in a row, ...
const OURS_COMES: f64 = 0.75;
const MISSING_MAX: u32 = 5;
/// ... TCP takes another path, and does not count for this long.
const DOUBTED: Span = Span::from_secs(60);
/// Most reports that are kept.
const LOOKS_MAX: usize = 64;

/// One report of the host about its TCP.
#[derive(Clone, Copy, Debug)]
struct Report {
    at: Time,
    /// Arrivals of our flows and of TCP together, and of TCP.
    together: Bitrate,
    tcp: Bitrate,
}

/// Traffic and demands of the host's own TCP.
#[derive(Debug, Default)]
pub(super) struct HostTcp {
    flows: TcpFlows,
    reports: VecDeque<Report>,
    /// When all of our flows had received how many bytes.
    noted: Option<(Time, u64)>,
    /// TCP has room until this time; and its rate when the trial began, or less.
    trial: Time,
    took: Bitrate,
    /// Number of intervals in a row in which our rates did not come.
    missing: u32,
    doubted: Time,
}

impl HostTcp {
    /// The host has measured `flows` since it told of them last. Ours have received `wire_bytes` since the start.
    pub(super) fn note(&mut self, now: Time, wire_bytes: u64, flows: TcpFlows) {
        self.flows = flows;
        let Some((at, bytes)) = self.noted.replace((now, wire_bytes)) else { return };
        let ours = Bitrate::of(wire_bytes.saturating_sub(bytes), now.since(at).max(Span::from_millis(1)));
        let tcp = flows.total();
        if tcp > self.took.mul_f64(GREW) || now >= self.trial + TRIAL_GAP {
            (self.took, self.trial) = (tcp, now + TRIAL);
        }
        self.took = self.took.min(tcp);
        while self.reports.front().is_some_and(|report| now.since(report.at) > TCP_RECENT)
            || self.reports.len() >= LOOKS_MAX
        {
            self.reports.pop_front();
        }
        self.reports.push_back(Report { at: now, together: ours.saturating_add(tcp), tcp });
    }

    /// Whether the host's TCP takes a part that matters.
    fn is_there(&self, now: Time) -> bool {
        self.together(now).is_some()
    }

    /// The most that came of late, of our flows and of TCP; `None` where TCP does not matter.
    pub(super) fn together(&self, now: Time) -> Option<Bitrate> {
        let last = self.reports.back().filter(|report| now.since(report.at) <= FRESH && now >= self.doubted)?;
        let recent = self.reports.iter().filter(|report| now.since(report.at) <= RECENT);
        let most = recent.map(|report| report.together).max()?;
        (last.tcp > Bitrate::ZERO && last.tcp >= most.mul_f64(PART_MIN)).then_some(most)
    }

    /// Whether TCP is left more than it takes, of a capacity that is settled. Then it does not show how much there is to ask for more.
    pub(super) fn has_room(&self, now: Time) -> bool {
        now < self.trial && self.is_there(now)
    }

    /// The rate of the host's TCP now; zero if it does not matter.
    pub(super) fn takes(&self, now: Time) -> Bitrate {
        if self.is_there(now) { self.flows.total() } else { Bitrate::ZERO }
    }

    /// Each TCP flow's demand: its rate, raised to its rate before a loss, and room to grow.
    fn demands(&self, now: Time, settled: bool) -> impl Iterator<Item = Bitrate> + '_ {
        let most = self.reports.iter().map(|report| report.tcp).max().unwrap_or(Bitrate::ZERO);
        let before_loss = (most.as_f64() / self.flows.total().as_f64().max(1.0)).clamp(1.0, BEFORE_LOSS);
        let room = if settled && now < self.trial { ROOM } else { 1.0 };
        self.flows.rates().map(move |rate| rate.mul_f64(before_loss * room))
    }

    /// The part of `capacity` left to our data sets, each with its weight in TCP flows and its demand. TCP has no room
    /// while the capacity is not `settled`: unused room would hide the capacity.
    pub(super) fn left(&self, now: Time, capacity: Bitrate, settled: bool, ours: &[(f64, Bitrate)]) -> Bitrate {
        if !self.is_there(now) {
            return capacity;
        }
        left(capacity, &self.demands(now, settled).collect::<Vec<_>>(), ours)
    }

    /// There was congestion in an interval in which `came` arrived of our flows' `granted` rates.
    pub(super) fn on_congestion(&mut self, now: Time, came: Bitrate, granted: Bitrate) {
        self.missing = if came < granted.mul_f64(OURS_COMES) { self.missing + 1 } else { 0 };
        if self.missing >= MISSING_MAX {
            (self.missing, self.doubted) = (0, now + DOUBTED);
        }
    }
}

/// The part of `capacity` left to our data sets if TCP flows of these demands, and data sets of ours with a weight and
/// a demand, share it max-min fairly. Each side gets the capacity that the other does not demand.
fn left(capacity: Bitrate, theirs: &[Bitrate], ours: &[(f64, Bitrate)]) -> Bitrate {
    let level = level(capacity, theirs, ours);
    let granted = theirs.iter().fold(Bitrate::ZERO, |sum, demand| sum.saturating_add((*demand).min(level)));
    Bitrate::from_bps(capacity.bps().saturating_sub(granted.bps()))
}

/// The share of weight 1 for all with enough demand.
fn level(capacity: Bitrate, theirs: &[Bitrate], ours: &[(f64, Bitrate)]) -> Bitrate {
    let theirs = theirs.iter().map(|demand| (1.0, demand.as_f64()));
    let ours = ours.iter().map(|(weight, demand)| (weight.max(1e-3), demand.as_f64()));
    let mut all: Vec<(f64, f64)> = theirs.chain(ours).collect();
    all.sort_unstable_by(|a, b| (a.1 / a.0).total_cmp(&(b.1 / b.0)));
    let mut left = capacity.as_f64();
    let mut weights: f64 = all.iter().map(|(weight, _)| weight).sum();
    for (weight, demand) in all {
        if demand / weight >= left / weights {
            return Bitrate::from_f64(left / weights);
        }
        left -= demand;
        weights -= weight;
    }
    Bitrate::MAX
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ANY: Bitrate = Bitrate::MAX;

    fn mbps(rate: u64) -> Bitrate {
        Bitrate::from_mbps(rate)
    }

    fn at(millis: u64) -> Time {
        Time::ZERO + Span::from_millis(millis)
    }

    #[test]
    fn one_beside_one_is_half_and_who_wants_less_leaves_the_rest() {
        assert_eq!(left(mbps(200), &[mbps(190)], &[(1.0, ANY)]), mbps(100));
        assert_eq!(left(mbps(200), &[mbps(20)], &[(1.0, ANY)]), mbps(180));
        // Ours want little: a bound for them, not a promise.
        assert_eq!(left(mbps(200), &[mbps(190)], &[(1.0, mbps(30))]), mbps(30));
        assert_eq!(left(mbps(200), &[], &[(1.0, ANY)]), mbps(200));
    }

    #[test]
    fn data_sets_and_policies_count_as_tcp_flows() {
        assert_eq!(left(mbps(300), &[mbps(300)], &[(1.0, ANY), (1.0, ANY)]), mbps(200));
        assert_eq!(left(mbps(300), &[mbps(300)], &[(2.0, ANY)]), mbps(200));
        assert!(left(mbps(300), &[mbps(400)], &[(0.04, ANY)]) < mbps(12));
    }

    proptest! {
        #[test]
        fn max_min_holds(
            capacity in 1u64..1_000_000,
            theirs in prop::collection::vec(0u64..1_000_000, 0..20),
            ours in prop::collection::vec((1u32..40, 0u64..1_000_000), 1..5),
        ) {
            let capacity = Bitrate::from_bps(capacity * 1_000);
            let theirs: Vec<_> = theirs.into_iter().map(|bps| Bitrate::from_bps(bps * 1_000)).collect();
            let ours: Vec<_> =
                ours.into_iter().map(|(weight, bps)| (f64::from(weight) / 10.0, Bitrate::from_bps(bps * 1_000))).collect();
            let level = level(capacity, &theirs, &ours);
            let rest = left(capacity, &theirs, &ours);
            let granted: u64 = theirs.iter().map(|demand| (*demand).min(level).bps()).sum();
            // The sum is at most the capacity, except for rounding.
            prop_assert!(granted + rest.bps() <= capacity.bps() + theirs.len() as u64);
            // No TCP flow has less than its demand and its fair share.
            let weights = theirs.len() as f64 + ours.iter().map(|(weight, _)| weight).sum::<f64>();
            let fair = capacity.as_f64() / weights;
            for demand in &theirs {
                prop_assert!((*demand).min(level).as_f64() >= demand.as_f64().min(fair) - 2.0);
            }
            // Nor do ours.
            let wanted: f64 = ours.iter().map(|(weight, demand)| demand.as_f64().min(weight * fair)).sum();
            prop_assert!(rest.as_f64() >= wanted - (2 + theirs.len()) as f64);
        }
    }

    /// Ours take 100 Mbit/s, and TCP what `tcp` says, each 250 ms.
    fn told(tcp: &[u64]) -> (HostTcp, Time) {
        let (mut host, mut now, mut bytes) = (HostTcp::default(), at(0), 0);
        host.note(now, bytes, TcpFlows::default());
        for rate in tcp {
            now += Span::from_millis(250);
            bytes += mbps(100).bytes_in(Span::from_millis(250));
            host.note(now, bytes, TcpFlows::of(vec![mbps(*rate)]));
        }
        (host, now)
    }

    #[test]
    fn a_host_without_tcp_and_one_that_says_nothing_any_more_change_nothing() {
        let (host, now) = told(&[0, 0, 1]);
        assert_eq!((host.takes(now), host.together(now)), (Bitrate::ZERO, None));
        assert_eq!(host.left(now, mbps(200), true, &[(1.0, ANY)]), mbps(200));
        let (host, now) = told(&[50, 50]);
        assert_eq!(host.takes(now), mbps(50));
        assert_eq!(host.takes(now + Span::from_millis(1_001)), Bitrate::ZERO);
        // It ends, and all is ours.
        let (host, now) = told(&[50, 50, 0]);
        assert_eq!(host.left(now, mbps(200), true, &[(1.0, ANY)]), mbps(200));
    }

    #[test]
    fn tcp_has_room_to_grow_until_it_does_not_take_it() {
        let (host, now) = told(&[20, 20]);
        assert_eq!(host.left(now, mbps(200), true, &[(1.0, ANY)]), mbps(175));
        let (host, now) = told(&[20; 30]);
        assert_eq!(host.left(now, mbps(200), true, &[(1.0, ANY)]), mbps(180));
        // Now and then it is asked again.
        let asked = (30..222).filter(|reports| {
            let (host, now) = told(&vec![20; *reports]);
            host.left(now, mbps(200), true, &[(1.0, ANY)]) < mbps(180)
        });
        let asked = asked.count();
        assert!((40..=56).contains(&asked), "{asked} of 192 reports");
        // Its rate before a loss is still granted to it.
        let (host, now) = told(&[100, 100, 100, 70]);
        assert_eq!(host.left(now, mbps(200), true, &[(1.0, ANY)]), mbps(100));
    }

    #[test]
    fn where_tcp_goes_another_way_it_does_not_count() {
        let (mut host, now) = told(&[900, 900]);
        (0..4).for_each(|_| host.on_congestion(now, mbps(100), mbps(500)));
        assert_eq!(host.takes(now), mbps(900));
        host.on_congestion(now, mbps(100), mbps(500));
        assert_eq!(host.takes(now), Bitrate::ZERO);
    }
}
