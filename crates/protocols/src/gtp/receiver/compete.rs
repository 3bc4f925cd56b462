//! A flow that competes: its window, and what it does with it (PROTOCOL.md 7.7).

use inhaul_base::{Bitrate, Span, Time};
use inhaul_transport::FlowId;

use super::company::PULSE;
use super::flow::{Flow, Flows, Tick};
use super::shadow::Shadow;
use crate::gtp::wire::{OwnMessage, RATE_MAX};

/// The rate that is told is so much above what the window gives, so that the window bounds what comes.
const AHEAD: f64 = 1.2;
/// A window is kept for so long when competing ends: it may begin again.
const KEPT: Span = Span::from_secs(10);
/// Changes of the rate by less than this part are not told.
const TOLD_CHANGE: f64 = 0.02;
/// Blocks that a window has at least.
const BLOCKS_MIN: u64 = 2;

/// How a flow competes.
#[derive(Debug, Default)]
pub(super) struct Rivalry {
    shadow: Option<Shadow>,
    /// The window of the last time, and when that ended.
    kept: Option<(Time, f64)>,
    /// What came last while nobody else was there.
    pub(super) calm: Bitrate,
    /// What the flow may have of a capacity that was told.
    share: Option<Bitrate>,
    /// Part of the window that is asked for.
    ease: f64,
}

impl Rivalry {
    /// Whether it competes.
    pub(super) fn is_on(&self) -> bool {
        self.shadow.is_some()
    }
}

impl Flow {
    /// The RTT as it is now, queue included.
    pub(super) fn rtt_now(&self) -> Span {
        self.base_rtt() + self.monitor.recent_queue()
    }

    fn packet(&self) -> u64 {
        u64::from(self.core.block) + self.core.overhead()
    }

    fn seen(&self) -> (u64, u64) {
        (self.monitor.received_packets, self.monitor.lost_packets)
    }

    /// Begins to compete, for `weight` TCP flows; `came` is what came of late, and `lost` whether some was lost.
    pub(super) fn enter_rivalry(&mut self, now: Time, weight: f64, came: Bitrate, lost: bool) {
        let packet = self.packet();
        let (rtt, base) = (self.rtt_now(), self.base_rtt());
        let packets = |rate: Bitrate, rtt: Span| rate.bytes_in(rtt) as f64 / packet as f64;
        let kept = self.rivalry.kept.filter(|(at, _)| now.since(*at) <= KEPT).map_or(0.0, |(_, window)| window);
        let window = packets(self.rivalry.calm, base).max(packets(came, rtt)).max(kept);
        let mut shadow = Shadow::new(now, window, weight, self.seen());
        if lost {
            shadow.cut(now, rtt, self.reorder_window());
        }
        self.rivalry.ease = 1.0;
        self.rivalry.shadow = Some(shadow);
        self.pending_targets.clear();
    }

    /// Ends to compete.
    pub(super) fn leave_rivalry(&mut self, now: Time) {
        if let Some(shadow) = self.rivalry.shadow.take() {
            self.rivalry.kept = Some((now, shadow.window()));
        }
        self.rivalry.share = None;
    }

    /// Asks for a part of its window from now on.
    pub(super) fn ease_rivalry(&mut self, pulse: bool) {
        self.rivalry.ease = if pulse { PULSE } else { 1.0 };
    }

    /// The rate that the window gives.
    pub(super) fn rivalry_rate(&self) -> Option<Bitrate> {
        let shadow = self.rivalry.shadow.as_ref()?;
        Some(shadow.rate(self.packet(), self.rtt_now()).min(self.known_bound()))
    }

    /// Of a capacity that was told it may have so much.
    pub(super) fn set_rivalry_share(&mut self, share: Option<Bitrate>) {
        self.rivalry.share = share;
    }

    /// Blocks that may be outstanding, if it competes.
    pub(super) fn rivalry_blocks(&self) -> Option<u64> {
        let shadow = self.rivalry.shadow.as_ref()?;
        Some(((shadow.window() * self.rivalry.ease) as u64).max(BLOCKS_MIN))
    }

    /// An RTT has passed.
    pub(super) fn rivalry_tick(&mut self, now: Time) -> Tick {
        let (seen, rtt, reorder) = (self.seen(), self.rtt_now(), self.reorder_window());
        let pulsed = self.rivalry.ease < 1.0;
        let mut cut = false;
        if let Some(shadow) = &mut self.rivalry.shadow {
            cut = shadow.feed(now, seen, rtt, reorder, pulsed);
        }
        let message = self.rivalry_message();
        Tick { loss: 0.0, message, cut }
    }

    /// The message that tells the rate of the window, if it has changed.
    fn rivalry_message(&mut self) -> Option<OwnMessage> {
        let rate = self.rivalry_target();
        self.controller.set_target(rate);
        let change = (rate.as_f64() - self.told_rate.as_f64()).abs();
        (change > TOLD_CHANGE * self.told_rate.as_f64()).then(|| self.tell_rate(rate, false))
    }

    /// The rate that is told to it.
    pub(super) fn rivalry_target(&self) -> Bitrate {
        let rate = self.rivalry_rate().unwrap_or(self.estimate).mul_f64(AHEAD * self.rivalry.ease);
        rate.min(self.rivalry.share.unwrap_or(RATE_MAX)).min(self.known_bound()).min(RATE_MAX)
    }
}

/// Flow `id` has seen congestion: flows that bring the same data set are one TCP flow's worth, so they have too.
pub(super) fn cut_siblings(now: Time, id: FlowId, flows: &mut Flows) {
    let Some(object) = flows.get(&id).map(|flow| flow.core.join.object) else { return };
    for (_, flow) in flows.awake_mut().filter(|(other, flow)| **other != id && flow.core.join.object == object) {
        let (rtt, reorder) = (flow.rtt_now(), flow.reorder_window());
        if let Some(shadow) = &mut flow.rivalry.shadow {
            shadow.cut(now, rtt, reorder);
        }
    }
}
