//! The limit that holds a flow's rate, for displays and reports.

use inhaul_base::Bitrate;
use inhaul_transport::HeldBy;

use super::flow::{Flow, Phase};
use crate::gtp::discover::BINDS;
use crate::gtp::wire::RATE_MAX;

/// A sender counts as its flow's limit if it has fallen short this many times in a row.
const SHORT_TIMES: u32 = 2;

/// The limit of a flow that the scheduler grants `target`; `holder` is the limit of the flows that share the receiver.
pub(super) fn of(flow: &Flow, target: Bitrate, holder: HeldBy) -> HeldBy {
    let found = &flow.found;
    let estimate = found.wanted(&flow.sample()).min(RATE_MAX);
    if target < estimate.mul_f64(BINDS) {
        // Where hosts are all there is, the bound moves out of the way.
        return if holder == HeldBy::Receiver && found.overshoots_freely() { HeldBy::Nothing } else { holder };
    }
    let limits = flow.core.join.limits;
    let told = limits.application_rate.into_iter().chain(limits.link_rate).min();
    if flow.known_bound() < RATE_MAX && target >= flow.known_bound().mul_f64(BINDS) {
        return if flow.send_limit.is_some() && flow.send_limit <= told.or(flow.send_limit) {
            HeldBy::Sender
        } else {
            HeldBy::Policy
        };
    }
    if found.competes() {
        HeldBy::Others
    } else if found.limited {
        HeldBy::Sender
    } else if found.path.limit().is_some() && !found.overshoots_freely() {
        HeldBy::Path
    } else {
        HeldBy::Nothing
    }
}

impl Flow {
    /// What holds its rate now.
    pub(super) fn held_by(&self) -> HeldBy {
        match self.phase {
            Phase::Opening | Phase::Train { .. } => HeldBy::Starting,
            Phase::Idle => HeldBy::Nothing,
            Phase::Steady if self.told_rate == Bitrate::ZERO => HeldBy::Starting,
            Phase::Steady if self.found.fell_short >= SHORT_TIMES && !self.found.competes() => HeldBy::Sender,
            Phase::Steady => self.held_by,
        }
    }
}
