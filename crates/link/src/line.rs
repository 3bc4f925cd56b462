//! The transmitter's clock: when the line is free, exactly.

use inhaul_base::{Bitrate, Span, Time};

/// Work per byte, in units of what a line of 1 bit/s sends in a nanosecond.
const WORK_PER_BYTE: u64 = 8_000_000_000;

/// A transmitter that sends one packet after the other at a rate.
///
/// The end of a transmission is kept in integers, as `whole + part / rate` nanoseconds. So any number of back-to-back
/// packets takes exactly the time of the rate. The visible time is rounded up.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    /// Bits per second; `None`: transmission takes no time.
    rate: Option<Bitrate>,
    /// End of the latest transmission, whole nanoseconds.
    whole: u64,
    /// The fraction of that end, in `1 / rate` nanoseconds: below the rate.
    part: u64,
    /// The end, rounded up; the far future while the rate is zero.
    free_at: Time,
    /// Remaining work of the transmission that rate zero stopped.
    held: u128,
    /// The last size and its transmission time (whole nanoseconds, part): a flow's packets have mostly one size.
    latest: (u32, u64, u64),
    /// When the current busy period began.
    busy_since: Time,
    /// The length of all earlier busy periods.
    busy_before: Span,
}

impl Line {
    pub(crate) fn new(rate: Option<Bitrate>) -> Self {
        Self {
            rate,
            whole: 0,
            part: 0,
            free_at: Time::ZERO,
            held: 0,
            latest: (0, 0, 0),
            busy_since: Time::ZERO,
            busy_before: Span::ZERO,
        }
    }

    /// The end of the current transmission, or of the last one.
    #[inline]
    pub(crate) fn free_at(&self) -> Time {
        self.free_at
    }

    /// How long the line transmitted until `now`.
    pub(crate) fn busy(&self, now: Time) -> Span {
        self.busy_before + self.free_at.min(now).since(self.busy_since)
    }

    /// Bits per second; `None` if transmission takes no time.
    #[inline]
    pub(crate) fn rate(&self) -> Option<Bitrate> {
        self.rate
    }

    /// Transmits `bytes` from `now` on a free line; returns the end.
    #[inline]
    pub(crate) fn transmit_at(&mut self, now: Time, bytes: u32) -> Time {
        // Exactly at the end of a transmission, the next one follows without the rounding of that end.
        if now > self.free_at {
            self.busy_before = self.busy(now);
            self.busy_since = now;
            self.free_at = now;
            self.whole = now.as_nanos();
            self.part = 0;
        }
        self.transmit_next(bytes)
    }

    /// Transmits `bytes` directly after the previous transmission; returns the end.
    #[inline]
    pub(crate) fn transmit_next(&mut self, bytes: u32) -> Time {
        let Some(rate) = self.rate else { return self.free_at };
        if rate == Bitrate::ZERO {
            self.held = u128::from(bytes) * u128::from(WORK_PER_BYTE);
            self.free_at = Time::FAR_FUTURE;
            return self.free_at;
        }
        if self.latest.0 != bytes {
            let (whole, part) = divide(u128::from(bytes) * u128::from(WORK_PER_BYTE), rate);
            self.latest = (bytes, whole, part);
        }
        let (_, whole, part) = self.latest;
        self.whole = self.whole.saturating_add(whole);
        // Both parts are below the rate: no sum of them reaches twice the rate, and `rate - part` does not wrap.
        if self.part >= rate.bps() - part {
            self.part -= rate.bps() - part;
            self.whole = self.whole.saturating_add(1);
        } else {
            self.part += part;
        }
        self.round();
        self.free_at
    }

    /// Changes the rate. The rest of the current transmission continues at the new one.
    pub(crate) fn set_rate(&mut self, now: Time, rate: Option<Bitrate>) {
        let left = self.work_left(now);
        self.rate = rate;
        self.latest = (0, 0, 0);
        self.held = 0;
        if left == 0 {
            self.part = 0;
            self.whole = self.free_at.as_nanos();
            return;
        }
        match rate {
            None => self.cut(now),
            Some(Bitrate::ZERO) => {
                self.held = left;
                self.free_at = Time::FAR_FUTURE;
            }
            Some(rate) => {
                let (whole, part) = divide(left, rate);
                self.whole = now.as_nanos().saturating_add(whole);
                self.part = part;
                self.round();
            }
        }
    }

    /// Ends the current transmission at `now`.
    pub(crate) fn cut(&mut self, now: Time) {
        if self.free_at > now {
            self.whole = now.as_nanos();
            self.part = 0;
            self.held = 0;
            self.free_at = now;
        }
    }

    fn work_left(&self, now: Time) -> u128 {
        match self.rate {
            Some(rate) if self.free_at > now && rate != Bitrate::ZERO => {
                let whole = self.whole.saturating_sub(now.as_nanos());
                u128::from(whole) * u128::from(rate.bps()) + u128::from(self.part)
            }
            _ => self.held,
        }
    }

    #[inline]
    fn round(&mut self) {
        self.free_at = Time::from_nanos(self.whole.saturating_add(u64::from(self.part > 0)));
    }
}

/// The time of a line of this rate, not zero, for `work`: whole nanoseconds and the rest in `1 / rate` nanoseconds.
fn divide(work: u128, rate: Bitrate) -> (u64, u64) {
    let rate = u128::from(rate.bps());
    // The remainder is below the rate, which is 64 bits wide.
    (u64::try_from(work / rate).unwrap_or(u64::MAX), (work % rate) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transmit_next_carries_the_remainder() {
        // 1500 bytes at 7 Mbit/s are 1,714,285.714... ns: a thousand of them 12,000,000 bits / 7 Mbit/s.
        let mut line = Line::new(Some(Bitrate::from_mbps(7)));
        let mut end = line.transmit_at(Time::ZERO, 1500);
        assert_eq!(end.as_nanos(), 1_714_286);
        for _ in 1..1000 {
            end = line.transmit_next(1500);
        }
        assert_eq!(end.as_nanos(), 1_714_285_715);
    }

    #[test]
    fn set_rate_is_exact_in_the_middle_of_a_packet() {
        // 1000 bytes: half at 8 Mbit/s (500 us), a quarter at 1 Mbit/s (2 ms), held for 1 ms, the rest at 16 Mbit/s
        // (125 us).
        let at = |micros: u64| Time::from_nanos(micros * 1_000);
        let mut line = Line::new(Some(Bitrate::from_mbps(8)));
        line.transmit_at(Time::ZERO, 1000);
        line.set_rate(at(500), Some(Bitrate::from_mbps(1)));
        assert_eq!(line.free_at(), at(4_500));
        line.set_rate(at(2_500), Some(Bitrate::ZERO));
        assert_eq!(line.free_at(), Time::FAR_FUTURE);
        line.set_rate(at(3_500), Some(Bitrate::from_mbps(16)));
        assert_eq!(line.free_at(), at(3_625));
        assert_eq!(line.busy(at(10_000)), Span::from_micros(3_625));
    }

    #[test]
    fn busy_counts_transmission_only() {
        let mut line = Line::new(Some(Bitrate::from_mbps(8)));
        line.transmit_at(Time::from_nanos(1_000), 1);
        line.transmit_next(1);
        line.transmit_at(Time::from_nanos(9_000), 1);
        assert_eq!(line.busy(Time::from_nanos(9_500)), Span::from_nanos(2_500));
        assert_eq!(line.busy(Time::from_nanos(20_000)), Span::from_nanos(3_000));
    }

    #[test]
    fn transmit_at_of_the_largest_packet_at_the_smallest_and_largest_rate() {
        let mut line = Line::new(Some(Bitrate::from_bps(1)));
        assert_eq!(line.transmit_at(Time::ZERO, u32::MAX), Time::FAR_FUTURE);
        let mut line = Line::new(Some(Bitrate::MAX));
        assert_eq!(line.transmit_at(Time::ZERO, u32::MAX).as_nanos(), 2);
        assert_eq!(line.transmit_next(u32::MAX).as_nanos(), 4);
    }
}
