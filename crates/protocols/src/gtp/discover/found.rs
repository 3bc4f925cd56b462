//! The law's input about a flow, and its findings.

use inhaul_base::{Bitrate, Span};
use inhaul_transport::ObjectId;

use super::ambient::{AmbientLoss, StandingQueue};
use super::bound::Bound;
use super::rivalry::Rivalry;
use super::strain::Strain;
use crate::gtp::monitor::{Interval, Loss};
use crate::gtp::wire::RATE_MAX;

/// gtp-2004 4.2: a rate has been achieved when this part of it was.
pub(super) const ACHIEVED: f64 = 0.95;
/// On a path that is bound by requests this part is enough.
pub(super) const ACHIEVED_FREE: f64 = 0.5;
/// A sender counts as its flow's limit if it has fallen short this many times in a row.
const LIMITED_AFTER: u32 = 2;
/// The rate that a limited sender is expected to use is the highest of this many intervals ...
const USED_INTERVALS: usize = 4;
/// ... and this much more (gtp-2004 4.2: 0.02 r_total).
const LIMITED_STEP: f64 = 1.02;
/// A path is short if its RTT is at most this.
const SHORT_RTT: Span = Span::from_millis(5);
/// A queue up to this length is tolerated: if all requested bytes make no longer one.
const WINDOW_QUEUE: Span = Span::from_millis(2);
/// A target binds when it is this close to the bound.
pub(in crate::gtp) const BINDS: f64 = 0.99;

/// The law's input about a flow.
#[derive(Clone, Copy, Debug)]
pub(in crate::gtp) struct Sample {
    /// Whose data it brings: the flows of a data set are one TCP flow's worth.
    pub(in crate::gtp) object: ObjectId,
    /// Bytes of a block, and of a packet on the wire.
    pub(in crate::gtp) block: u64,
    pub(in crate::gtp) packet: u64,
    /// The scheduler gives it a rate.
    pub(in crate::gtp) runs: bool,
    /// The path is a byte stream, which finds its own rate ...
    pub(in crate::gtp) is_stream: bool,
    /// ... and is expected to use this much, as far as that is known.
    pub(in crate::gtp) stream_use: Option<Bitrate>,
    /// The rate that its sender was told.
    pub(in crate::gtp) told: Bitrate,
    /// The scheduler's target.
    pub(in crate::gtp) target: Bitrate,
    /// Its bound by given limits: min(C_i, R_app, R_send).
    pub(in crate::gtp) bound: Bitrate,
    /// The smoothed RTT, and the path's own; guesses before the first echo.
    pub(in crate::gtp) rtt: Span,
    pub(in crate::gtp) base_rtt: Span,
    /// The queue that stood all through the last RTT and since.
    pub(in crate::gtp) recent_queue: Span,
    /// The loss of the last RTT or since.
    pub(in crate::gtp) recent_loss: Loss,
    /// How late skipped data may come before it counts as lost.
    pub(in crate::gtp) reorder: Span,
    /// Packets that came, and packets that were lost or came with a mark of congestion, since the start.
    pub(in crate::gtp) packets: (u64, u64),
}

impl Sample {
    /// The RTT as it is now, queue included.
    pub(in crate::gtp) fn rtt_now(&self) -> Span {
        self.base_rtt + self.recent_queue
    }

    /// Whether the law must find the flow's rate, and the flow has been told a rate.
    pub(super) fn is_under_way(&self) -> bool {
        self.runs && !self.is_stream && self.told > Bitrate::ZERO
    }
}

/// The law's orders to a flow's monitor and plans after examining the flow.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::gtp) struct Orders {
    /// A queue of this length no longer counts: it becomes part of the path's delay.
    pub(in crate::gtp) delay_is_base: Option<Span>,
    /// The delay without a queue stays known.
    pub(in crate::gtp) keep_base: bool,
    /// Targets that were planned are void.
    pub(in crate::gtp) drop_plans: bool,
}

/// The law's findings about a flow.
#[derive(Debug, Default)]
pub(in crate::gtp) struct Found {
    /// The known bound of the path's capacity (C_i).
    pub(in crate::gtp) path: Bound,
    /// The estimate in force (r_hat).
    pub(in crate::gtp) estimate: Bitrate,
    pub(super) ambient: AmbientLoss,
    pub(super) standing: StandingQueue,
    /// How it competes with others' traffic.
    pub(super) rivalry: Rivalry,
    /// Its losses while it holds a given rate; `None`: it follows measured capacities.
    pub(super) strain: Option<Strain>,
    /// The path is short, and holds little compared with the socket buffer: requests bound the bytes in flight, not the
    /// rate.
    pub(in crate::gtp) window_bound: bool,
    /// The requested bytes would drain in a short time.
    drains_soon: bool,
    /// Packets were lost nevertheless: something on the path holds less than the requests let through.
    overran: bool,
    /// The sender gives less than it is asked for.
    pub(in crate::gtp) limited: bool,
    /// How often in a row it did.
    pub(in crate::gtp) fell_short: u32,
    /// Total rates of the last intervals in which it did.
    used: [Bitrate; USED_INTERVALS],
    /// Number of queues that most of the traffic saw and this flow did not.
    pub(super) unmoved: u32,
    orders: Orders,
}

impl Found {
    /// Nothing is known of another path.
    pub(in crate::gtp) fn change_path(&mut self) {
        let Self { estimate, strain, window_bound, drains_soon, used, .. } = *self;
        *self = Self { estimate, strain, window_bound, drains_soon, used, ..Self::default() };
    }

    /// The flow rests: rivals may be gone when it wakes.
    pub(in crate::gtp) fn rest(&mut self) {
        self.standing = StandingQueue::default();
        self.rivalry = Rivalry::default();
    }

    /// Orders to the flow since the last call.
    pub(in crate::gtp) fn take_orders(&mut self) -> Orders {
        std::mem::take(&mut self.orders)
    }

    pub(super) fn order(&mut self) -> &mut Orders {
        &mut self.orders
    }

    /// Every loss counts from now on: gtp-2004 knows no ambient loss.
    pub(in crate::gtp) fn judge_by_the_paper(&mut self) {
        self.ambient = AmbientLoss::by_the_paper();
    }

    /// The part of a loss ratio that neither ambient loss nor chance explains.
    pub(in crate::gtp) fn excess(&self, loss: Loss) -> f64 {
        self.ambient.excess(loss)
    }

    /// Whether it holds a given rate, regardless of others.
    pub(in crate::gtp) fn holds_rate(&self) -> bool {
        self.strain.is_some()
    }

    /// Whether it competes with others' traffic.
    pub(in crate::gtp) fn competes(&self) -> bool {
        self.rivalry.is_on()
    }

    /// Whether its requested rate has jumped since the last call.
    pub(in crate::gtp) fn take_retell(&mut self) -> bool {
        std::mem::take(&mut self.rivalry.retell)
    }

    /// The part of sent data that is lost at any rate.
    pub(super) fn ambient_ratio(&self) -> f64 {
        self.ambient.ratio.min(0.9)
    }

    /// Whether more than the path can carry may be asked of it at no cost.
    pub(in crate::gtp) fn overshoots_freely(&self) -> bool {
        self.window_bound && self.drains_soon && !self.overran
    }

    /// The rate that the scheduler expects the flow to use: its target, without the extra room of a limited sender.
    pub(in crate::gtp) fn granted(&self, sample: &Sample) -> Bitrate {
        if let Some(rate) = self.rivalry_rate(sample) {
            return sample.target.min(rate);
        }
        if self.limited { sample.target.min(self.estimate) } else { sample.target }
    }

    /// The rate that the flow may reach: its window's rate if it competes, otherwise the known bound of its path.
    pub(in crate::gtp) fn wanted(&self, sample: &Sample) -> Bitrate {
        self.rivalry_rate(sample).unwrap_or(self.estimate)
    }

    /// Whether the known capacity of the path bounds the flow.
    pub(super) fn path_binds(&self, sample: &Sample) -> bool {
        self.path.limit().is_some_and(|limit| sample.target >= limit.mul_f64(BINDS))
    }

    /// Sets the estimate by the known bound of the path.
    pub(in crate::gtp) fn estimate_by_path(&mut self, sample: &Sample) {
        let path = if sample.is_stream { sample.stream_use } else { self.path.limit() };
        self.estimate = path.unwrap_or(RATE_MAX).min(sample.bound);
        if self.limited {
            let used = self.used.iter().copied().max().unwrap_or(Bitrate::ZERO);
            self.estimate = self.estimate.min(used.mul_f64(LIMITED_STEP));
        }
    }

    /// Determines whether requests bound the bytes in flight, and whether that bound suffices, after an interval with
    /// or without losses beyond the ambient ones. All flows together were told `all_told`.
    pub(super) fn judge_window(&mut self, sample: &Sample, socket_buffer: u64, all_told: Bitrate, lost: bool) {
        let rtt = sample.base_rtt;
        self.window_bound = rtt <= SHORT_RTT && sample.told.bytes_in(rtt) < socket_buffer / 4;
        self.overran |= self.window_bound && lost;
        self.drains_soon = all_told.time_for(socket_buffer / 2) <= WINDOW_QUEUE;
    }

    /// Determines whether the sender uses its share, in an interval with or without congestion of the path. True if it
    /// does. A flow that is `alone` never counts as limited by its sender: no other flow could use the rest.
    pub(super) fn judge_use(&mut self, sample: &Sample, interval: Interval, congested: bool, alone: bool) -> bool {
        // If requests bound the flow, its rate must only be high enough not to bound it, even with late wake-ups.
        let achieved = if self.window_bound { ACHIEVED_FREE } else { ACHIEVED };
        if interval.total() >= sample.target.mul_f64(achieved) {
            self.forget_limit();
            self.used = [Bitrate::ZERO; USED_INTERVALS];
            return true;
        }
        // It could have sent more, had it been asked to, or had the path let it through.
        if !interval.dry && !congested {
            // Time and again, it is the sender's limit: the rest is for others, if there are any. Once, it is chance.
            self.used[self.fell_short as usize % USED_INTERVALS] = interval.total();
            self.fell_short = self.fell_short.saturating_add(1);
            self.limited = self.fell_short >= LIMITED_AFTER && !alone;
        }
        false
    }

    /// Its sender has not fallen short.
    pub(super) fn forget_limit(&mut self) {
        (self.limited, self.fell_short) = (false, 0);
    }
}
