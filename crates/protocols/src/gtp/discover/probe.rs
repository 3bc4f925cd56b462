//! Probes: less is requested for an interval, to see whether forgiven loss occurs at any rate (PROTOCOL.md 7.4).

use crate::gtp::monitor::Loss;

/// Intervals from a forgiven loss to its first probe; the intervals between further probes grow, ...
const GAP_MIN: u32 = 4;
/// ... up to this many; ...
const GAP_MAX: u32 = 128;
/// ... or up to this many while others may cause the loss.
const GAP_TRIED: u32 = 16;
/// The part that is asked for in a probe.
pub(in crate::gtp) const PROBE: f64 = 0.75;
/// A loss is cured if a probe removes this part of it, or this part of the reduction that a full link would show, ...
const CURED: (f64, f64) = (0.5, 0.25);
/// ... and if the difference is at least this many standard deviations.
const CURE_CHANCE: f64 = 3.0;
/// It is not cured if it is no less in probes, and a cure would differ by at least this many standard deviations.
const SAME_CHANCE: f64 = 1.5;
/// The usual loss is an average of intervals; each counts for this part of the next.
const USUAL_FADES: f64 = 0.97;
/// Loss that this many probes could not explain is left alone.
const PROBES_WORTHWHILE: f64 = 8.0;
/// This many lost packets are more than a test leaves behind.
const NOTICED: f64 = 4.0;

/// Packets, and how many of them were lost.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    packets: f64,
    lost: f64,
}

impl Tally {
    /// Present values count for this part from now on.
    fn fade(&mut self, part: f64) {
        *self = Self { packets: self.packets * part, lost: self.lost * part };
    }

    fn add(&mut self, loss: Loss) {
        self.packets += loss.packets as f64;
        self.lost += loss.ratio * loss.packets as f64;
    }

    fn ratio(&self) -> f64 {
        if self.packets > 0.0 { self.lost / self.packets } else { 0.0 }
    }
}

/// Loss while less was requested, compared with the usual loss.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Trial {
    usual: Tally,
    probed: Tally,
    /// Probes lost less than chance explains; the loss since then shows whether it comes back.
    since: Option<Tally>,
}

impl Trial {
    /// How much less must be lost in probes for the loss to be cured, and by how much it may be less by chance.
    fn cure(&self) -> (f64, f64) {
        let usual = self.usual.ratio();
        let cure = (usual * CURED.0).min((1.0 - PROBE) * (1.0 - usual) * CURED.1);
        let chance = usual * (1.0 - usual) * (1.0 / self.usual.packets + 1.0 / self.probed.packets);
        (cure, CURE_CHANCE * chance.sqrt())
    }

    /// Whether enough was seen in probes to tell that they cure nothing.
    pub(super) fn is_decided(&self) -> bool {
        let (cure, chance) = self.cure();
        let same = self.probed.ratio() > self.usual.ratio() - cure;
        self.probed.packets > 0.0 && same && chance * (SAME_CHANCE / CURE_CHANCE) <= cure
    }

    /// The usual loss.
    pub(super) fn usual(&self) -> f64 {
        self.usual.ratio()
    }

    /// Whether there is a loss that probes of this many packets could explain before long.
    pub(super) fn is_worthwhile(&self, packets: u64) -> bool {
        let needed = CURE_CHANCE * CURE_CHANCE / self.usual.ratio();
        self.usual.lost >= NOTICED && needed <= PROBES_WORTHWHILE * packets as f64
    }

    fn is_cured(&self, without: f64) -> bool {
        let (cure, chance) = self.cure();
        self.probed.packets > 0.0 && without - self.probed.ratio() > cure.max(chance)
    }

    /// A probe has ended with this loss.
    pub(super) fn on_probe(&mut self, loss: Loss) {
        if self.is_decided() {
            self.probed.fade(0.5);
        }
        self.probed.add(loss);
        self.since = self.is_cured(self.usual.ratio()).then(Tally::default);
    }

    /// An interval without a probe has ended with this loss. The part that was lost in probes, if those cure it: it is
    /// lost where queues are full.
    pub(super) fn note(&mut self, loss: Loss) -> Option<f64> {
        self.usual.fade(USUAL_FADES);
        self.usual.add(loss);
        let since = self.since.as_mut()?;
        since.add(loss);
        // Something else may have ended with the probe: then it does not come back.
        let (ratio, enough) = (since.ratio(), since.packets >= self.probed.packets);
        if since.lost < NOTICED && !enough {
            return None;
        }
        self.since = None;
        if ratio > self.probed.ratio() + self.cure().0 {
            return Some(self.probed.ratio());
        }
        if enough {
            *self = Self::default();
        }
        None
    }

    /// The loss is another now.
    pub(super) fn begin_anew(&mut self) {
        self.probed = Tally::default();
    }
}

/// When probes are made: of all flows at once, so that there is one experiment at a time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Probes {
    /// Intervals until the next probe, and their planned number; 0: nothing is forgiven.
    left: u32,
    gap: u32,
    on: bool,
}

impl Probes {
    /// Whether the interval that runs is a probe.
    pub(super) fn is_on(&self) -> bool {
        self.on
    }

    /// An interval has ended; `forgiven`: loss is forgiven, `proven`: all of that was lost in probes too. Whether the
    /// next is a probe.
    pub(super) fn on_interval(&mut self, forgiven: bool, proven: bool, tried: bool) -> bool {
        self.on = false;
        if !forgiven {
            *self = Self::default();
            return false;
        }
        if self.gap == 0 || self.gap == GAP_MAX && !proven {
            (self.left, self.gap) = (GAP_MIN, GAP_MIN);
        }
        if self.gap < GAP_MAX && proven {
            (self.left, self.gap) = (GAP_MAX, GAP_MAX);
        }
        self.left = self.left.saturating_sub(1);
        if self.left == 0 {
            let most = if tried { GAP_TRIED } else { GAP_MAX / 2 };
            self.gap = if proven { GAP_MAX } else { (2 * self.gap).min(most) };
            (self.left, self.on) = (self.gap, true);
        }
        self.on
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probes_become_rarer_while_loss_is_forgiven() {
        let mut probes = Probes::default();
        assert!(!(0..100).any(|_| probes.on_interval(false, true, false)), "nothing to find out");
        let at: Vec<u32> = (1..200).filter(|_| probes.on_interval(true, false, false)).collect();
        assert_eq!(at, [4, 12, 28, 60, 124, 188]);
        let at: Vec<u32> = (1..300).filter(|_| probes.on_interval(true, true, false)).collect();
        assert_eq!(at, [128, 256], "a proven loss is left alone for long");
        assert_eq!((1..400).find(|_| probes.on_interval(true, false, false)), Some(4));
        let mut probes = Probes::default();
        let at: Vec<u32> = (1..64).filter(|_| probes.on_interval(true, false, true)).collect();
        assert_eq!(at, [4, 12, 28, 44, 60], "whose loss it is should be known soon");
    }

    fn of(ratio: f64, packets: u64) -> Loss {
        Loss { ratio, packets }
    }

    fn tried(usual: f64) -> Trial {
        let mut trial = Trial::default();
        (0..40).for_each(|_| assert_eq!(trial.note(of(usual, 2000)), None));
        trial
    }

    #[test]
    fn a_loss_that_stops_for_a_probe_and_comes_back_is_others() {
        let mut trial = tried(0.003);
        assert!(trial.is_worthwhile(2000) && !trial.is_decided());
        trial.on_probe(of(0.0, 2000));
        assert_eq!(trial.note(of(0.003, 2000)), None, "six packets fewer may be luck");
        trial.on_probe(of(0.0, 2000));
        assert_eq!(trial.note(of(0.0, 2000)), None, "it may come back yet");
        assert_eq!(trial.note(of(0.003, 2000)), Some(0.0));
        let mut gone = tried(0.003);
        (0..2).for_each(|_| gone.on_probe(of(0.0, 2000)));
        (0..4).for_each(|_| assert_eq!(gone.note(of(0.0, 2000)), None));
        assert!(!gone.is_worthwhile(2000), "it has gone by itself");
    }

    #[test]
    fn a_loss_that_a_probe_does_not_cure_is_the_links_own() {
        let mut trial = tried(0.003);
        (0..2).for_each(|_| trial.on_probe(of(0.003, 2000)));
        assert!(trial.is_decided());
        assert_eq!(trial.note(of(0.003, 2000)), None);
        // Loss so small that probes would take long to explain it is left alone.
        assert!(!tried(0.0).is_worthwhile(2000) && !tried(0.0002).is_worthwhile(2000));
    }
}
