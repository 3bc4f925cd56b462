//! Loss and delay that our rate does not cause (PROTOCOL.md 7.4).

use inhaul_base::{Bitrate, Span, Time};

use super::bound::MARGIN;
use super::probe::Trial;
use crate::gtp::monitor::Loss;

/// A loss is beyond chance if it is this many standard deviations above the ambient one.
const CHANCE: f64 = 2.5;
/// An ambient loss that becomes less is believed by this part at a time: it may be luck.
const HEALS: f64 = 0.125;
/// A rate counts as lower if it is below this part of the other.
pub(super) const LOWER: f64 = 0.99;
/// A cut that could have cured loss takes at least this part of it off the rate.
const CUT_PART: f64 = 0.5;
/// A queue still stands when this part of it is left, ...
const STANDING_PART: f64 = 0.75;
/// ... though the margin drains this much of each second.
const DRAIN_RATE: f64 = MARGIN;
/// Loss that a probe has cured is not forgiven for so long.
const DISTRUSTED: Span = Span::from_secs(30);
/// The forgiven loss counts as a new one if it is this many times its old value.
const ANOTHER: f64 = 1.5;
/// gtp-2004 4.2: loss ratio above which the estimate falls.
pub(super) const LOSS_THRESHOLD: f64 = 0.005;

/// Loss that does not depend on the rate: of a bad link, not of a full one. Learnt when a cut of the rate does not cut
/// the loss.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct AmbientLoss {
    pub(super) ratio: f64,
    last: Option<(f64, Bitrate)>,
    trial: Trial,
    distrusted_until: Time,
    /// Every loss counts, also by chance: gtp-2004 knows no other.
    by_the_paper: bool,
}

impl AmbientLoss {
    /// Nothing is forgiven.
    pub(super) fn by_the_paper() -> Self {
        Self { by_the_paper: true, ..Self::default() }
    }

    /// The part of a loss ratio that neither ambient loss nor chance explains.
    pub(super) fn excess(&self, loss: Loss) -> f64 {
        if self.by_the_paper {
            return loss.ratio;
        }
        let chance = CHANCE * (loss.ratio.max(self.ratio) / loss.packets.max(1) as f64).sqrt();
        (loss.ratio - self.ratio - chance).max(0.0)
    }

    /// Whether so much loss is forgiven that its cause must be known.
    pub(super) fn is_forgiven(&self) -> bool {
        self.ratio >= LOSS_THRESHOLD && !self.by_the_paper
    }

    /// Whether the forgiven loss occurred in probes as well.
    pub(super) fn is_proven(&self) -> bool {
        self.trial.is_decided()
    }

    /// Whether at least this part of its packets is lost of late.
    pub(super) fn loses(&self, ratio: f64) -> bool {
        self.trial.usual() >= ratio
    }

    /// Loss beyond this ratio counts from now on, whosever it is.
    pub(super) fn distrust(&mut self, now: Time, ratio: f64) {
        let ratio = ratio.min(self.ratio);
        *self = Self { ratio, distrusted_until: now + DISTRUSTED, by_the_paper: self.by_the_paper, ..Self::default() };
    }

    /// A probe has ended with this loss: loss that it cures comes from full queues.
    pub(super) fn on_probe(&mut self, loss: Loss) {
        self.trial.on_probe(loss);
    }

    /// An interval without a probe has ended with this loss.
    pub(super) fn note(&mut self, now: Time, loss: Loss) {
        if let Some(left) = self.trial.note(loss) {
            self.distrust(now, left);
        }
    }

    /// An interval with a loss and no queue, at a total rate. True if it shows that a cut was in vain.
    pub(super) fn learn(&mut self, now: Time, loss: Loss, rate: Bitrate) -> bool {
        let excess = self.excess(loss);
        let mut in_vain = false;
        if loss.ratio < self.ratio {
            self.ratio += (loss.ratio - self.ratio) * HEALS;
        } else if now < self.distrusted_until {
            return false;
        } else if let Some((before, at)) = self.last
            && rate < at.mul_f64(LOWER.min(1.0 - CUT_PART * before))
            && loss.ratio > before / 2.0
        {
            if loss.ratio > ANOTHER * self.ratio {
                self.trial.begin_anew();
            }
            self.ratio = loss.ratio;
            in_vain = true;
        } else if excess < LOSS_THRESHOLD && self.ratio > LOSS_THRESHOLD {
            // An ambient ratio learnt from a lucky sample is too low, and the difference would pass for congestion.
            self.ratio += (loss.ratio - self.ratio) * HEALS;
        }
        self.last = (excess >= LOSS_THRESHOLD).then_some((loss.ratio, rate));
        in_vain
    }
}

/// A queue that stands although everything sent comes through and the rate is below an earlier one that came through
/// with it. If our rate caused it, it would drain. If it does not drain, the delay has another cause (a host that
/// schedules the receiver late, a rival's queue), and is no reason to slow down.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct StandingQueue {
    first: Span,
    should_have_drained: Span,
    judged: Time,
}

impl StandingQueue {
    /// An interval ended with this queue, above `threshold` or not; whether everything `sent` came through. True when
    /// the queue is not of our making.
    pub(super) fn is_foreign(&mut self, now: Time, queue: Span, threshold: Span, all_came: bool) -> bool {
        let passed = now.since(std::mem::replace(&mut self.judged, now));
        if queue <= threshold || queue < self.first.mul_f64(STANDING_PART) || self.first == Span::ZERO {
            *self = Self {
                first: if queue > threshold { queue } else { Span::ZERO },
                should_have_drained: Span::ZERO,
                judged: now,
            };
            return false;
        }
        if all_came {
            self.should_have_drained = self.should_have_drained + passed.mul_f64(DRAIN_RATE);
        }
        let foreign = self.should_have_drained > self.first / 2;
        if foreign {
            *self = Self { judged: now, ..Self::default() };
        }
        foreign
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Time {
        Time::ZERO + Span::from_millis(millis)
    }

    fn of(ratio: f64, packets: u64) -> Loss {
        Loss { ratio, packets }
    }

    #[test]
    fn ambient_loss_is_what_a_lower_rate_does_not_cure() {
        let mut ambient = AmbientLoss::default();
        let (loss, much) = (of(0.05, 10_000), of(0.2, 10_000));
        assert!(!ambient.learn(at(0), loss, Bitrate::from_mbps(1000)));
        assert!(!ambient.learn(at(0), loss, Bitrate::from_mbps(980)), "so small a cut could not have cured it");
        assert!(ambient.learn(at(0), loss, Bitrate::from_mbps(950)), "the cut was in vain");
        assert_eq!(ambient.excess(loss), 0.0);
        assert!(ambient.excess(much) > 0.1);
        // It heals, but one good interval may be luck.
        ambient.learn(at(0), of(0.0, 10_000), Bitrate::from_mbps(980));
        assert!((ambient.ratio - 0.05 * 0.875).abs() < 1e-12);
    }

    #[test]
    fn ambient_loss_is_not_learnt_from_loss_that_a_lower_rate_cures() {
        let mut ambient = AmbientLoss::default();
        ambient.learn(at(0), of(0.05, 10_000), Bitrate::from_mbps(1000));
        assert!(!ambient.learn(at(0), of(0.01, 10_000), Bitrate::from_mbps(980)));
        assert_eq!(ambient.ratio, 0.0);
    }

    #[test]
    fn what_a_probe_cures_was_no_ambient_loss() {
        let mut forgiven = AmbientLoss { ratio: 0.02, ..AmbientLoss::default() };
        (0..20).for_each(|_| forgiven.note(at(0), of(0.02, 5000)));
        let (mut chance, mut rivals) = (forgiven, forgiven);
        chance.on_probe(of(0.018, 5000));
        assert!(chance.is_forgiven() && chance.is_proven());
        rivals.on_probe(of(0.001, 200));
        assert!(rivals.is_forgiven() && !rivals.is_proven(), "it may be luck");
        rivals.on_probe(of(0.001, 5000));
        let mut spell = rivals;
        rivals.note(at(0), of(0.02, 5000));
        assert!(!rivals.is_forgiven());
        spell.note(at(0), of(0.001, 5000));
        assert!(spell.is_forgiven() && !spell.is_proven(), "it ended with the probe");
        // It is not forgiven again at once.
        let half = |k: u64| Bitrate::from_mbps(1000 >> k);
        assert!(!(0..5).any(|k| rivals.learn(at(k), of(0.02, 1000), half(k))));
        assert!((30_000..30_005).any(|k| rivals.learn(at(k), of(0.02, 1000), half(k - 30_000))));
    }

    #[test]
    fn excess_is_what_chance_cannot_explain() {
        let ambient = AmbientLoss { ratio: 0.02, ..AmbientLoss::default() };
        // Of 100 packets 5 may be lost where 2 are expected; of 10,000 not 500.
        assert_eq!(ambient.excess(of(0.05, 100)), 0.0);
        assert!(ambient.excess(of(0.05, 10_000)) > 0.02);
        // A single packet of few is no congestion, and nothing is no loss.
        assert_eq!(AmbientLoss::default().excess(of(0.1, 10)), 0.0);
        assert_eq!(AmbientLoss::default().excess(of(0.0, 0)), 0.0);
        assert_eq!(AmbientLoss::by_the_paper().excess(of(0.1, 10)), 0.1);
    }

    #[test]
    fn a_queue_that_drains_is_ours_and_one_that_does_not_is_foreign() {
        let (ms, threshold) = (Span::from_micros(1_000), Span::from_millis(1));
        let mut queue = StandingQueue::default();
        // 4 ms, draining by 1.5 % of the time that passes, which is more than the margin.
        let drains = (0..40).any(|k| {
            let left = Span::from_nanos(4_000_000u64.saturating_sub(k * 300_000));
            queue.is_foreign(at(k * 20), left, threshold, true)
        });
        assert!(!drains);
        let mut queue = StandingQueue::default();
        let forgiven = (0..40).position(|k| queue.is_foreign(at(k * 20), ms * 4, threshold, true));
        assert_eq!(forgiven, Some(11)); // 11 x 20 ms at 1 % are more than half of 4 ms
    }

    #[test]
    fn a_queue_is_ours_while_more_is_sent_than_comes_through() {
        let mut queue = StandingQueue::default();
        let four = Span::from_millis(4);
        assert!(!(0..100).any(|k| queue.is_foreign(at(k * 20), four, Span::from_millis(1), false)));
    }
}
