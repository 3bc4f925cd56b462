//! A rate that is held, and that the path does not bear.

use inhaul_base::{Span, Time};
use inhaul_transport::Policy;

use super::report::loss_ratio;

/// Losses are counted over this time.
const WINDOW: Span = Span::from_secs(2);
/// From this part of lost packets on, the user is warned.
const LOSS: f64 = 0.05;

/// Watches what [`Policy::Fixed`] loses. Other policies give way to losses by themselves.
#[derive(Debug, Default)]
pub struct Overload {
    /// When the window began, and what all flows had lost and received by then.
    since: Option<(Time, u64, u64)>,
    has_warned: bool,
}

impl Overload {
    /// Takes note of the packets that all flows have lost and received so far. Returns a warning once, if the held rate
    /// loses much.
    pub fn note(&mut self, now: Time, policy: Option<Policy>, lost: u64, received: u64) -> Option<String> {
        if policy != Some(Policy::Fixed) || self.has_warned {
            self.since = None;
            return None;
        }
        let (began, lost_before, received_before) = *self.since.get_or_insert((now, lost, received));
        if now.since(began) < WINDOW {
            return None;
        }
        self.since = Some((now, lost, received));
        let loss = loss_ratio(lost.saturating_sub(lost_before), received.saturating_sub(received_before));
        self.has_warned = loss > LOSS;
        self.has_warned.then(|| {
            let percent = loss * 100.0;
            format!(
                "policy fixed has lost {percent:.0} % of the packets of the last {} s: the path does not bear the rate \
                 that it holds. Lower the receive rate, or choose another policy",
                WINDOW.as_secs_f64()
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_held_rate_that_loses_much_is_told_once() {
        let at = |ms| Time::ZERO + Span::from_millis(ms);
        let mut overload = Overload::default();
        let mut fixed = |ms, lost, received| overload.note(at(ms), Some(Policy::Fixed), lost, received);
        assert_eq!(fixed(0, 500, 500), None, "what was lost before is not counted");
        assert_eq!(fixed(1_999, 700, 1_300), None);
        assert_eq!(fixed(2_000, 520, 1_480), None, "2 % are few");
        let warning = fixed(4_000, 760, 2_240).unwrap();
        assert!(warning.starts_with("policy fixed has lost 24 % of the packets of the last 2 s"), "{warning}");
        assert_eq!(fixed(6_000, 9_000, 2_300), None, "once is enough");
    }

    #[test]
    fn other_policies_are_not_watched() {
        let mut overload = Overload::default();
        for ms in (0..10_000).step_by(500) {
            let at = Time::ZERO + Span::from_millis(ms);
            assert_eq!(overload.note(at, Some(Policy::High), ms, ms), None);
            assert_eq!(overload.note(at, None, ms, ms), None);
        }
        // The window begins with the policy.
        assert_eq!(overload.note(Time::ZERO + Span::from_secs(10), Some(Policy::Fixed), 9_999, 9_999), None);
    }
}
