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

    /// An interval has ended; `forgiven`: loss is forgiven, `proven`: all of that was lost in probes too. Whether the
    /// next is a probe.
    pub(super) fn on_interval(&mut self, forgiven: bool, proven: bool) -> bool {
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
            self.gap = if proven { GAP_MAX } else { (2 * self.gap).min(GAP_MAX / 2) };
            (self.left, self.on) = (self.gap, true);
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
        assert!(!(0..100).any(|_| probes.on_interval(false, true)), "nothing to find out");
        let at: Vec<u32> = (1..200).filter(|_| probes.on_interval(true, false)).collect();
        assert_eq!(at, [4, 12, 28, 60, 124, 188]);
        let at: Vec<u32> = (1..300).filter(|_| probes.on_interval(true, true)).collect();
        assert_eq!(at, [128, 256], "what is proven is left alone for long");
        assert_eq!((1..400).find(|_| probes.on_interval(true, false)), Some(4));
    }
}
