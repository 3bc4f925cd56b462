//! The rate of recent arrivals.

use inhaul_base::{Bitrate, Span, Time};

/// Over so long a rate is measured.
const SPAN: Span = Span::from_millis(250);

/// Measures the arrival rate, over a quarter of a second at a time.
#[derive(Clone, Copy, Debug)]
pub struct Meter {
    since: Time,
    bytes: u64,
    rate: Option<Bitrate>,
}

impl Meter {
    /// A meter that has seen nothing until `now`.
    pub fn new(now: Time) -> Self {
        Self { since: now, bytes: 0, rate: None }
    }

    /// No data was expected until `now`: the measurement begins anew.
    pub fn rest(&mut self, now: Time) {
        (self.since, self.bytes) = (now, 0);
    }

    /// Begins the next measurement, if it is time.
    pub fn refresh(&mut self, now: Time) {
        let span = now.since(self.since);
        if span >= SPAN {
            *self = Self { since: now, bytes: 0, rate: Some(Bitrate::of(self.bytes, span)) };
        }
    }

    /// `bytes` more came at `now`.
    pub fn add(&mut self, now: Time, bytes: u64) {
        self.refresh(now);
        self.bytes += bytes;
    }

    /// The rate of the last measurement; zero before the first.
    pub fn rate(&self) -> Bitrate {
        self.rate.unwrap_or(Bitrate::ZERO)
    }

    /// The rate of the last measurement, once there was one.
    pub fn measured(&self) -> Option<Bitrate> {
        self.rate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_is_that_of_the_last_quarter_of_a_second() {
        let mut meter = Meter::new(Time::ZERO);
        for k in 0..=50 {
            meter.add(Time::ZERO + Span::from_millis(10 * k), 12_500);
        }
        assert_eq!(meter.rate(), Bitrate::from_mbps(10));
        meter.refresh(Time::ZERO + Span::from_secs(2));
        meter.refresh(Time::ZERO + Span::from_secs(3));
        assert_eq!(meter.rate(), Bitrate::ZERO);
    }
}
