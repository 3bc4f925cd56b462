//! Users' limits at the receiver: the limit of all flows together (C_r) is divided max-min fairly among the running
//! flows. Each flow is bounded by its application's limit (R_app) and by its measured use.
//!
//! Rates rise only after the falling rates have taken effect, so arrivals never exceed C_r.

use super::max_min;
use super::receiver::{Flows, ReceiverFlow};
use crate::FlowId;
use inhaul_base::{Bitrate, Span, Time};

/// A flow's use of its share is measured over this time, or this many round trips if that is longer.
const MEASURE_SPAN: Span = Span::from_millis(500);
const MEASURE_RTTS: u64 = 4;
/// A flow that uses this part of its share could use more ...
const USES_ALL: f64 = 0.9;
/// ... its share is this much more than its use, so that growing use shows ...
const ROOM: f64 = 1.25;
/// ... and at least this part of an equal share.
const LEAST_PART: u64 = 16;
/// The least rate for a sender: zero would mean no limit.
const LEAST: Bitrate = Bitrate::from_bps(1);
/// As good as no limit.
const ANY: Bitrate = Bitrate::from_bps(u64::MAX);

/// The share of one flow.
#[derive(Clone, Copy, Debug)]
pub struct Share {
    /// Whether the flow runs: its path is open, and it is asked for something or could be.
    running: bool,
    /// Its share now; zero: no requests to it.
    granted: Bitrate,
    /// Its share after the flows that must slow down have done so.
    next: Bitrate,
    /// Its measured use; `None`: its whole share.
    usable: Option<Bitrate>,
    /// Bytes that had come when the measurement began.
    counted: u64,
    /// The last rate that its sender was told. `None`: no limit.
    said: Option<Bitrate>,
}

impl Default for Share {
    fn default() -> Self {
        Self { running: false, granted: Bitrate::ZERO, next: Bitrate::ZERO, usable: None, counted: 0, said: None }
    }
}

impl Share {
    /// Whether the flow may be asked for anything.
    pub fn is_granted(&self) -> bool {
        self.granted > Bitrate::ZERO
    }

    /// The flow's share; zero while no limit applies, or while it may get no requests.
    pub fn target(&self) -> Bitrate {
        if self.granted == ANY { Bitrate::ZERO } else { self.granted }
    }

    /// The rate that its sender was told; zero: no limit.
    pub fn said(&self) -> Bitrate {
        self.said.unwrap_or(Bitrate::ZERO)
    }
}

/// How far the division has got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// There is nothing to divide.
    Still,
    /// Flows that must slow down were told; the others must wait.
    Slowing { until: Time },
    /// All were told; arrivals still show the old rates.
    Settling { until: Time },
    /// Each flow's use is measured.
    Measuring { since: Time, until: Time },
}

/// A rate to tell a sender, or that there is no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ToldRate(pub Option<Bitrate>);

/// Flows to serve next, and the rates to tell their senders.
pub type Changed = Vec<(FlowId, Option<ToldRate>)>;

/// A flow that has a share.
pub trait Shared: ReceiverFlow {
    /// Its share.
    fn share(&self) -> &Share;

    /// The same, to be changed.
    fn share_mut(&mut self) -> &mut Share;

    /// Bytes that have come, headers included.
    fn wire_bytes(&self) -> u64;
}

/// Divides C_r.
#[derive(Debug)]
pub struct Division {
    /// C_r; `None`: no limit.
    capacity: Option<Bitrate>,
    step: Step,
    /// How long it takes until the flows that have stopped are silent; `None`: all runs as it was divided.
    stale: Option<Span>,
}

impl Division {
    /// Divides `capacity`, if it is known.
    pub fn new(capacity: Option<Bitrate>) -> Self {
        Self { capacity, step: Step::Still, stale: None }
    }

    /// C_r has changed.
    pub fn set_capacity<F: Shared>(&mut self, capacity: Option<Bitrate>, flows: &mut Flows<F>) {
        if capacity.is_some() && self.capacity.is_none() {
            // Flows that do not run give back their shares.
            flows.values_mut().filter(|f| !f.share().running).for_each(|f| f.share_mut().granted = Bitrate::ZERO);
        }
        self.capacity = capacity;
        self.stale.get_or_insert(Span::ZERO);
    }

    /// A flow may have begun or ceased to run. Returns the rate to tell its sender at once.
    pub fn look_at<F: Shared>(&mut self, flow: &mut F, running: bool) -> Option<ToldRate> {
        if flow.share().running == running {
            return None;
        }
        *flow.share_mut() = Share { running, usable: None, ..*flow.share() };
        if self.capacity.is_none() {
            return running.then(|| unbounded(flow)).flatten();
        }
        // Data in flight still arrives.
        let wait = if running { Span::ZERO } else { patience(flow) };
        flow.share_mut().granted = Bitrate::ZERO;
        self.stale = Some(self.stale.unwrap_or(Span::ZERO).max(wait));
        None
    }

    /// Divides anew if anything has changed.
    pub fn refresh<F: Shared>(&mut self, now: Time, flows: &mut Flows<F>) -> Option<Changed> {
        let wait = self.stale.take()?;
        if let Some(capacity) = self.capacity {
            return Some(self.divide(now, capacity, wait, flows));
        }
        self.step = Step::Still;
        let open = flows.iter_mut().filter(|(_, flow)| flow.core().path.is_open());
        Some(open.map(|(&id, flow)| (id, unbounded(flow))).collect())
    }

    fn divide<F: Shared>(&mut self, now: Time, capacity: Bitrate, wait: Span, flows: &mut Flows<F>) -> Changed {
        let running = || flows.values().filter(|f| f.share().running);
        let usable = |flow: &F| {
            let wanted = flow.core().join.limits.application_rate.unwrap_or(capacity);
            flow.share().usable.unwrap_or(capacity).min(wanted)
        };
        let shares = max_min(capacity, &running().map(usable).collect::<Vec<_>>());
        let (mut changed, mut wait, mut rises) = (Changed::new(), wait, false);
        for ((&id, flow), share) in flows.iter_mut().filter(|(_, f)| f.share().running).zip(shares) {
            flow.share_mut().next = share.max(LEAST);
            if flow.share().granted > flow.share().next {
                let next = flow.share().next;
                flow.share_mut().granted = next;
                wait = wait.max(patience(flow));
                changed.push((id, say(flow, Some(flow.share().granted))));
            }
            rises |= flow.share().granted < flow.share().next;
        }
        let until = match self.step {
            Step::Slowing { until } => until.max(now + wait),
            _ => now + wait,
        };
        self.step = Step::Slowing { until };
        if !rises || until <= now {
            changed.extend(self.raise(now, flows));
        }
        changed
    }

    /// The flows that must slow down have done so: the others get their shares.
    fn raise<F: Shared>(&mut self, now: Time, flows: &mut Flows<F>) -> Changed {
        let (mut changed, mut slowest) = (Changed::new(), Span::ZERO);
        for (&id, flow) in flows.iter_mut().filter(|(_, f)| f.share().running) {
            let next = flow.share().next;
            flow.share_mut().granted = next;
            changed.push((id, say(flow, Some(flow.share().granted))));
            slowest = slowest.max(patience(flow));
        }
        // One flow alone has everything.
        self.step = if changed.len() > 1 { Step::Settling { until: now + slowest } } else { Step::Still };
        changed
    }

    /// A timer may have passed.
    pub fn on_timer<F: Shared>(&mut self, now: Time, flows: &mut Flows<F>) -> Option<Changed> {
        if self.due().is_none_or(|due| due > now) {
            return None;
        }
        match self.step {
            Step::Still => None,
            Step::Slowing { .. } => Some(self.raise(now, flows)),
            Step::Settling { .. } => {
                let mut slowest = Span::ZERO;
                for flow in flows.values_mut() {
                    let counted = flow.wire_bytes();
                    flow.share_mut().counted = counted;
                    slowest = slowest.max(if flow.share().running { patience(flow) } else { Span::ZERO });
                }
                self.step = Step::Measuring { since: now, until: now + MEASURE_SPAN.max(slowest * MEASURE_RTTS) };
                None
            }
            Step::Measuring { since, .. } => {
                let capacity = self.capacity?;
                let count = flows.values().filter(|f| f.share().running).count() as u64;
                let least = Bitrate::from_bps(capacity.bps() / (LEAST_PART * count.max(1)));
                for flow in flows.values_mut().filter(|f| f.share().running) {
                    let used = Bitrate::of(flow.wire_bytes() - flow.share().counted, now.since(since));
                    let uses_all = used >= flow.share().granted.mul_f64(USES_ALL);
                    flow.share_mut().usable = (!uses_all).then(|| used.mul_f64(ROOM).max(least));
                }
                Some(self.divide(now, capacity, Span::ZERO, flows))
            }
        }
    }

    /// When a timer is due.
    pub fn due(&self) -> Option<Time> {
        match self.step {
            Step::Still => None,
            Step::Slowing { until } | Step::Settling { until } | Step::Measuring { until, .. } => Some(until),
        }
    }
}

/// The delay until a rate told to the flow's sender shows here.
fn patience<F: Shared>(flow: &F) -> Span {
    flow.core().path.rtt().patience().unwrap_or(Span::ZERO)
}

/// Sets a flow's limit of its application.
fn unbounded<F: Shared>(flow: &mut F) -> Option<ToldRate> {
    flow.share_mut().granted = ANY;
    say(flow, flow.core().join.limits.application_rate)
}

/// The message that its sender needs to keep to `rate`, if it does not know.
fn say<F: Shared>(flow: &mut F, rate: Option<Bitrate>) -> Option<ToldRate> {
    let rate = rate.map(|rate| rate.max(LEAST));
    let known = std::mem::replace(&mut flow.share_mut().said, rate) == rate;
    (!known).then_some(ToldRate(rate))
}
