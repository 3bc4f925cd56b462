//! The first burst of a flow measures its path and the receiver's link (PROTOCOL.md 7.2).

use inhaul_base::{Bitrate, Span};
use inhaul_transport::FlowId;

use super::capacities::{Capacities, EVIDENCE};
use super::found::Sample;
use super::member::Group;
use crate::gtp::monitor::{Dispersion, Loss, TRAIN_SPAN_MIN};
use crate::gtp::wire::RATE_MAX;

/// Packets of the first burst that measures a path, ...
const TRAIN_BLOCKS: u64 = 16;
/// ... and where others use the receiver, or are measured as well, at least.
const TRAIN_BLOCKS_MIN: u64 = 4;
/// It then fills the receiver's queue by no more than this.
const TRAIN_QUEUE: Span = Span::from_millis(2);
/// If it gives too little, another burst with GROWTH times the packets; ...
const TRAIN_GROWTH: u64 = 4;
/// ... bytes of the longest.
const TRAIN_BYTES_MAX: u64 = 256 * 1024;
/// A burst is not more than a flow may have in this time.
const TRAIN_SPAN_MAX: Span = Span::from_millis(50);
/// A burst that lost more than this part was too long.
const TRAIN_LOSS_MAX: f64 = 0.5;
/// If a burst gives no sample, assume that it took this many RTTs.
const LOST_TRAIN_RTTS: u64 = 4;
/// Others that were slowed by more than this were not slowed by the burst.
const SLOWED_MAX: f64 = 4.0;
/// A path that is at least this part of the receiver's capacity is not what bounds its flow.
const UNBOUND: f64 = 0.9;

/// A burst that has come, as far as it ever will.
#[derive(Clone, Copy, Debug)]
pub(in crate::gtp) struct Burst {
    /// Packets that it had.
    pub(in crate::gtp) blocks: u64,
    /// How it came; `None` if too little came, or all at once.
    pub(in crate::gtp) seen: Option<Dispersion>,
    pub(in crate::gtp) lost: Loss,
    /// The smoothed RTT.
    pub(in crate::gtp) rtt: Span,
}

impl Capacities {
    /// Packets of the burst that measures the path of a flow; `None` if its limits are so low that there is nothing to
    /// measure. `trains` are in flight already.
    pub(in crate::gtp) fn train_blocks(
        &self,
        sample: &Sample,
        capacity: Option<Bitrate>,
        trains: usize,
    ) -> Option<u64> {
        let Sample { packet, bound, .. } = *sample;
        let slow = capacity.map_or(bound, |c| c.min(bound)).bytes_in(TRAIN_SPAN_MAX) < TRAIN_BLOCKS * packet;
        let queue = self.access.cap().map_or(TRAIN_BLOCKS, |cap| cap.bytes_in(TRAIN_QUEUE) / packet);
        let share = TRAIN_BLOCKS / (trains as u64 + 1);
        (!slow).then(|| queue.min(share).clamp(TRAIN_BLOCKS_MIN, TRAIN_BLOCKS))
    }

    /// The burst of flow `id` has come. Returns how many packets a longer one has if this one was too short to tell.
    pub(in crate::gtp) fn on_train(&mut self, id: FlowId, burst: Burst, group: &mut Group<'_>) -> Option<u64> {
        let others = group.told();
        // Loss that all flows see belongs to the receiver's link, and must not be charged to a new flow.
        let least = group.running().map(|member| member.found.ambient).min_by(|a, b| a.ratio.total_cmp(&b.ratio));
        let sample = group.get_mut(id)?.sample;
        let bound = sample.bound.bytes_in(TRAIN_SPAN_MAX).min(TRAIN_BYTES_MAX);
        let longest = (bound / sample.packet).max(TRAIN_BLOCKS);
        let Burst { blocks, seen, lost, rtt } = burst;
        if seen.is_none() && blocks < longest && lost.ratio <= TRAIN_LOSS_MAX {
            return Some((blocks * TRAIN_GROWTH).min(longest));
        }
        let was_lost = seen.is_none() && lost.ratio > TRAIN_LOSS_MAX;
        let seen = seen.unwrap_or_else(|| {
            // A burst that the host handed over all at once shows that the path is at least this fast. A lost burst
            // shows that the path is slow; tests will find its capacity.
            let took = if was_lost { rtt * LOST_TRAIN_RTTS } else { TRAIN_SPAN_MIN };
            let rate = Bitrate::of(blocks * sample.packet, took);
            Dispersion { own: rate, all_flows: rate, proven: rate }
        });
        // Where the burst met others it came as much slower than it left as they did.
        let others_seen = seen.all_flows.as_f64() - seen.own.as_f64();
        let slowed = if others_seen > 0.0 { (others.as_f64() / others_seen).clamp(1.0, SLOWED_MAX) } else { 1.0 };
        let path = seen.own.mul_f64(slowed);
        let known = self.access.cap();
        let proven = seen.proven.max(seen.own);
        // A burst that came at the flow's own limit shows neither the receiver's nor the path's capacity.
        let told = sample.bound < RATE_MAX && seen.own >= sample.bound.mul_f64(UNBOUND);
        if known.is_none_or(|cap| proven > cap.mul_f64(EVIDENCE)) && !(told && known.is_none()) {
            if let Some(cap) = known {
                // Their paths were assumed to carry the receiver's capacity, which is now higher.
                for other in group.scheduled_mut().filter(|other| other.found.path.cap().is_none()) {
                    other.found.path.guess(cap);
                    other.estimate_by_path();
                }
            }
            self.access.guess(proven);
        } else {
            self.access.break_off();
        }
        let cap = self.access.cap();
        let member = group.get_mut(id)?;
        // A burst that was lost where others are says nothing of its own path.
        let told_nothing = was_lost && others > Bitrate::ZERO;
        if !told_nothing && !told && cap.is_some_and(|cap| path < cap.mul_f64(UNBOUND)) {
            member.found.path.guess(path);
        }
        if let Some(least) = least.filter(|least| least.ratio > member.found.ambient.ratio) {
            member.found.ambient = least;
        }
        member.estimate_by_path();
        None
    }
}
