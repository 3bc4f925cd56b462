//! Probes: less is asked for through an interval, to see whether loss that was forgiven is lost whatever the rate
//! (PROTOCOL.md 7.4).

/// Intervals from what was forgiven to its first probe; the next come ever more seldom, ...
const GAP_MIN: u32 = 4;
/// ... up to so many.
const GAP_MAX: u32 = 128;
/// The part that is asked for in a probe.
pub(super) const PROBE: f64 = 0.75;

/// When probes are made: of all flows at once, so that there is one experiment at a time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Probes {
    /// Intervals to go, and how many there were to be; 0: nothing is forgiven.
    left: u32,
    gap: u32,
    on: bool,
}

impl Probes {
    /// Whether the interval that runs is a probe.
    pub(super) fn is_on(&self) -> bool {
        self.on
    }

    /// The part of what flows may have that is asked for.
    pub(super) fn part(&self) -> f64 {
        if self.on { PROBE } else { 1.0 }
    }

    /// An interval has ended; `forgiven`: loss is forgiven, `anew`: since this interval. Whether the next is a probe.
    pub(super) fn on_interval(&mut self, forgiven: bool, anew: bool) -> bool {
        self.on = false;
        if !forgiven {
            *self = Self::default();
        } else if anew || self.gap == 0 {
            (self.left, self.gap) = (GAP_MIN, GAP_MIN);
        } else {
            self.left = self.left.saturating_sub(1);
            if self.left == 0 {
                self.gap = (2 * self.gap).min(GAP_MAX);
                (self.left, self.on) = (self.gap, true);
            }
        }
        self.on
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probes_come_ever_more_seldom_while_loss_is_forgiven() {
        let mut probes = Probes::default();
        assert!(!(0..100).any(|_| probes.on_interval(false, false)), "nothing to find out");
        probes.on_interval(true, true);
        let at: Vec<u32> = (1..400).filter(|_| probes.on_interval(true, false)).collect();
        assert_eq!(at, [4, 12, 28, 60, 124, 252, 380]);
        assert!(!probes.on_interval(true, true), "what is forgiven anew is probed soon, not at once");
        let next = (1..400).find(|_| probes.on_interval(true, false));
        assert_eq!(next, Some(GAP_MIN));
    }
}
