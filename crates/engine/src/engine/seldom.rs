//! Warnings that anybody could cause as often as they like: logged now and then, with how many there were.

use inhaul_base::{Span, Time};

/// How often one is logged at most.
const GAP: Span = Span::from_secs(10);

/// One kind of warning.
#[derive(Debug, Default)]
pub struct Seldom {
    next: Option<Time>,
    unsaid: u64,
}

impl Seldom {
    /// Logs `text`, or counts it if one like it was logged a short while ago.
    pub fn warn(&mut self, now: Time, text: &str) {
        match self.due(now) {
            Some(0) => log::warn!("{text}"),
            Some(unsaid) => log::warn!("{text}; {unsaid} more like it since the last such warning"),
            None => {}
        }
    }

    /// Whether it is time, and how often it was not since the last.
    fn due(&mut self, now: Time) -> Option<u64> {
        if self.next.is_some_and(|next| now < next) {
            self.unsaid += 1;
            return None;
        }
        self.next = Some(now + GAP);
        Some(std::mem::take(&mut self.unsaid))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn due_counts_what_is_not_said() {
        let mut seldom = Seldom::default();
        let at = |seconds| Time::ZERO + Span::from_secs(seconds);
        assert_eq!([0, 1, 9, 10, 11, 20].map(|s| seldom.due(at(s))), [Some(0), None, None, Some(2), None, Some(1)]);
    }
}
