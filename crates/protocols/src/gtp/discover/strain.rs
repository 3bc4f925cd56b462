//! Losses of a flow that holds its rate (PROTOCOL.md 7.8).

use inhaul_base::{Span, Time};

/// Loss that is borne for ever.
const BORNE: f64 = 0.05;
/// More loss is tolerated until this time's worth of sent data would have been lost: 15 % for a second and a half, or
/// all for 150 ms.
const STRAIN_MAX: f64 = 0.15;
/// Lost data is requested on top of the given rate, up to this part.
const MADE_UP_MAX: f64 = 0.05;
/// The part of a new loss ratio that counts at once.
const LOSS_GAIN: f64 = 0.25;

/// The loss of a flow that holds its rate, beyond the tolerated one.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Strain {
    /// Seconds in which all would have been lost.
    seconds: f64,
    judged: Option<Time>,
    /// The smoothed loss ratio.
    loss: f64,
}

impl Strain {
    /// An interval of `span` has ended. `loss` is its loss ratio, and `excess` the part that is not ambient. Whether
    /// that is more than the tolerated loss.
    pub(super) fn on_interval(&mut self, now: Time, span: Span, loss: f64, excess: f64) -> bool {
        let passed = self.judged.replace(now).map_or(span, |at| now.since(at)).as_secs_f64();
        self.seconds = (self.seconds + (excess - BORNE) * passed).max(0.0);
        self.loss += LOSS_GAIN * (loss - self.loss);
        let is_too_much = self.seconds > STRAIN_MAX;
        if is_too_much {
            (self.seconds, self.loss) = (0.0, 0.0);
        }
        is_too_much
    }

    /// The factor on the requested rate, because some of it is lost.
    pub(super) fn made_up(&self) -> f64 {
        // In whole percents: each change of a rate is measured anew.
        1.0 + ((100.0 * self.loss / (1.0 - self.loss.min(0.5))).round() / 100.0).clamp(0.0, MADE_UP_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Span = Span::from_millis(50);

    /// Intervals until this loss is too much.
    fn bears(loss: f64, most: u64) -> Option<u64> {
        let mut strain = Strain::default();
        (1..=most).find(|k| strain.on_interval(Time::ZERO + INTERVAL * *k, INTERVAL, loss, loss))
    }

    #[test]
    fn little_loss_is_borne_for_ever_and_much_not_for_long() {
        assert_eq!(bears(0.04, 10_000), None);
        assert!(matches!(bears(0.15, 100), Some(30 | 31))); // 0.1 of 1.5 s, except for rounding
        assert_eq!(bears(0.88, 100), Some(4)); // a link of 100 Mbit/s, told 850
    }

    #[test]
    fn loss_is_made_up_for_by_some_percents() {
        let mut strain = Strain::default();
        assert_eq!(strain.made_up(), 1.0);
        (1..50).for_each(|k| _ = strain.on_interval(Time::ZERO + INTERVAL * k, INTERVAL, 0.02, 0.0));
        assert_eq!(strain.made_up(), 1.02);
        (50..200).for_each(|k| _ = strain.on_interval(Time::ZERO + INTERVAL * k, INTERVAL, 0.3, 0.0));
        assert_eq!(strain.made_up(), 1.0 + MADE_UP_MAX);
    }
}
