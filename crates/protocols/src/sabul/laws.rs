//! The rate control laws that were published for SABUL, each by name. A law sets the interval between packets
//! of 1500 bytes.

use inhaul_base::{Span, Time};

/// The interval that all of them begin with, in microseconds: 1.2 Gbit/s in packets of 1500 bytes (gtp-2004 5.3.1: "a
/// fixed high initial rate").
const START_US: f64 = 10.0;

/// The laws there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LawName {
    /// That of SABUL's first paper (2002): multiplicative increase and decrease, once a second.
    Sabul2002,
    /// That of "Rate based congestion control over high bandwidth/delay links" (2002), every 20 ms.
    Rc,
    /// That of release 2.0 (2003): additive increase, multiplicative decrease, every 10 ms.
    Sabul2,
}

impl LawName {
    /// All of them, in the order of their codes.
    pub const ALL: [Self; 3] = [Self::Sabul2002, Self::Rc, Self::Sabul2];

    /// As a user writes it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sabul2002 => "sabul-2002",
            Self::Rc => "sabul-rc",
            Self::Sabul2 => "sabul-2",
        }
    }

    /// Its number in a Setup message.
    pub const fn code(self) -> u8 {
        self as u8 + 1
    }

    /// The law of that number.
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|law| law.code() == code)
    }

    /// Interval of reports of arrivals and losses.
    pub const fn period(self) -> Span {
        match self {
            Self::Sabul2002 => Span::from_secs(1),
            Self::Rc => Span::from_millis(20),
            Self::Sabul2 => Span::from_millis(10),
        }
    }

    /// Builds the law.
    pub fn build(self) -> Box<dyn RateLaw + Send> {
        match self {
            Self::Sabul2002 => Box::new(Sabul2002::default()),
            Self::Rc => Box::new(Rc::default()),
            Self::Sabul2 => Box::new(Sabul2::default()),
        }
    }
}

/// A rate control law.
pub trait RateLaw {
    /// The interval between packets, in microseconds.
    fn interval_us(&self) -> f64;

    /// A period is over, in which this part of the packets was found lost.
    fn on_period(&mut self, loss: f64);

    /// Losses were reported. The highest of their numbers; the next number to be sent.
    fn on_err(&mut self, _now: Time, _highest: u64, _next: u64) {}

    /// Nothing may be sent before this.
    fn frozen_until(&self) -> Time {
        Time::ZERO
    }
}

/// SABUL, 2002.
#[derive(Clone, Debug)]
pub struct Sabul2002 {
    interval_us: f64,
    /// The average of the loss ratio: LRA.
    average: f64,
    is_accelerating: bool,
}

impl Default for Sabul2002 {
    fn default() -> Self {
        Self { interval_us: START_US, average: 0.0, is_accelerating: true }
    }
}

impl RateLaw for Sabul2002 {
    fn interval_us(&self) -> f64 {
        self.interval_us
    }

    fn on_period(&mut self, loss: f64) {
        const LOW: f64 = 0.001;
        const HIGH: f64 = 0.01;
        self.average = 0.1 * self.average + 0.9 * loss;
        let factor = if self.is_accelerating {
            self.is_accelerating = loss < LOW;
            if loss < LOW {
                0.5
            } else if loss > HIGH {
                2.0
            } else {
                1.0
            }
        } else if self.average > HIGH {
            1.0 + (self.average - HIGH)
        } else if self.average < LOW {
            1.0 - (LOW - self.average)
        } else {
            1.0
        };
        self.interval_us = (self.interval_us * factor).clamp(1.0, 200.0);
    }
}

/// "Rate based congestion control over high bandwidth/delay links", 2002.
#[derive(Clone, Debug)]
pub struct Rc {
    interval_us: f64,
    loss_events: u32,
}

impl Default for Rc {
    fn default() -> Self {
        Self { interval_us: START_US, loss_events: 0 }
    }
}

impl RateLaw for Rc {
    fn interval_us(&self) -> f64 {
        self.interval_us
    }

    fn on_period(&mut self, loss: f64) {
        const A: f64 = 0.001;
        const K1: f64 = 0.125;
        const K2: f64 = 10.0;
        const B_US: f64 = 0.5;
        const C_US: f64 = 2.0;
        const D_US: f64 = 0.1;
        const V: u32 = 10;
        let i = self.interval_us;
        let mut next = if loss > A {
            i * (1.0 + K1 * (loss - A)) + C_US
        } else if loss < A {
            i * (1.0 + K2 * (loss - A))
        } else {
            i + D_US
        };
        if std::mem::take(&mut self.loss_events) > V {
            next += B_US;
        }
        // The paper has no bounds. These are ours.
        self.interval_us = next.clamp(1.0, 10_000.0);
    }

    fn on_err(&mut self, _now: Time, _highest: u64, _next: u64) {
        self.loss_events += 1;
    }
}

/// SABUL 2.0, 2003.
#[derive(Clone, Debug)]
pub struct Sabul2 {
    interval_us: f64,
    history: f64,
    /// The next number when the interval grew last: a loss from there on is a new epoch.
    epoch: u64,
    /// Reports in this epoch.
    errs: u64,
    frozen_until: Time,
}

impl Default for Sabul2 {
    fn default() -> Self {
        Self { interval_us: START_US, history: 0.0, epoch: 0, errs: 0, frozen_until: Time::ZERO }
    }
}

impl Sabul2 {
    const DECREASE: f64 = 1.125;
    /// Reports of one epoch at which the interval grows again: this, and twice as many each time.
    const ERRS_AGAIN: u64 = 1 << 4;

    fn grow(&mut self) {
        self.interval_us = (self.interval_us * Self::DECREASE).clamp(10.0, 1_000.0);
    }
}

impl RateLaw for Sabul2 {
    fn interval_us(&self) -> f64 {
        self.interval_us
    }

    fn on_period(&mut self, loss: f64) {
        const LOSS_MAX: f64 = 0.001;
        const INCREASE_MIN: f64 = 1.0 / 1_500.0;
        self.history = 0.1 * self.history + 0.9 * loss;
        if self.history > LOSS_MAX {
            return;
        }
        let (i, syn) = (self.interval_us, LawName::Sabul2.period().as_nanos() as f64 / 1e3);
        let increase = (10f64.powf((syn / i).log10().ceil()) / 1_000.0).max(INCREASE_MIN);
        self.interval_us = (i * syn / (i * increase + syn)).clamp(10.0, 1_000.0);
    }

    fn on_err(&mut self, now: Time, highest: u64, next: u64) {
        if highest >= self.epoch {
            (self.epoch, self.errs) = (next, 1);
            self.grow();
            self.frozen_until = now + LawName::Sabul2.period();
            return;
        }
        self.errs += 1;
        if self.errs >= Self::ERRS_AGAIN && self.errs.is_power_of_two() {
            self.grow();
        }
    }

    fn frozen_until(&self) -> Time {
        self.frozen_until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: f64, b: f64) {
        assert!((a / b - 1.0).abs() < 1e-9, "{a} is not {b}");
    }

    #[test]
    fn names_and_codes_are_unique_and_found() {
        for law in LawName::ALL {
            assert_eq!(LawName::from_code(law.code()), Some(law));
            close(law.build().interval_us(), START_US);
        }
        assert_eq!((LawName::from_code(0), LawName::from_code(4)), (None, None));
    }

    #[test]
    fn sabul_2002_halves_until_a_loss_and_then_moves_by_the_average() {
        let mut law = Sabul2002::default();
        law.on_period(0.0);
        close(law.interval_us(), 5.0);
        law.on_period(0.02);
        close(law.interval_us(), 10.0);
        // LRA is 0.018 after the loss, and 0.0918 after the next.
        law.on_period(0.1);
        close(law.interval_us(), 10.0 * (1.0 + 0.0918 - 0.01));
        let mut calm = Sabul2002 { is_accelerating: false, ..Sabul2002::default() };
        calm.on_period(0.0);
        close(calm.interval_us(), 10.0 * (1.0 - 0.001));
        let mut middle = Sabul2002::default();
        middle.on_period(0.005);
        middle.on_period(0.005);
        close(middle.interval_us(), 10.0);
        (0..100).for_each(|_| middle.on_period(1.0));
        close(middle.interval_us(), 200.0);
    }

    #[test]
    fn sabul_rc_follows_the_loss_of_each_period() {
        let mut law = Rc::default();
        law.on_period(0.101);
        close(law.interval_us(), 10.0 * 1.0125 + 2.0);
        let mut law = Rc::default();
        law.on_period(0.0);
        close(law.interval_us(), 9.9);
        law.on_period(0.001);
        close(law.interval_us(), 10.0);
        (0..11).for_each(|_| law.on_err(Time::ZERO, 0, 0));
        law.on_period(0.001);
        close(law.interval_us(), 10.6);
        law.on_period(0.001);
        close(law.interval_us(), 10.7);
    }

    #[test]
    fn sabul_2_adds_packets_to_a_syn_by_the_order_of_its_rate() {
        // 20 us: 500 packets in a SYN, so one is added. 150 us: 66.7, so a tenth. 1 ms: ten, so a hundredth.
        for (interval_us, added) in [(20.0, 1.0), (150.0, 0.1), (1_000.0, 0.01)] {
            let mut law = Sabul2 { interval_us, ..Sabul2::default() };
            law.on_period(0.0);
            close(10_000.0 / law.interval_us(), 10_000.0 / interval_us + added);
        }
        let mut law = Sabul2 { interval_us: 20.0, ..Sabul2::default() };
        law.on_period(0.1);
        close(law.interval_us(), 20.0);
        // 0.09, 0.009 and 0.0009: the third period without loss is below 0.1 %.
        law.on_period(0.0);
        law.on_period(0.0);
        assert!(law.interval_us() < 20.0);
    }

    #[test]
    fn sabul_2_slows_down_once_an_epoch_and_at_powers_of_two() {
        let mut law = Sabul2 { interval_us: 100.0, ..Sabul2::default() };
        let now = Time::ZERO + Span::from_secs(1);
        law.on_err(now, 50, 1_000);
        close(law.interval_us(), 112.5);
        assert_eq!(law.frozen_until(), now + Span::from_millis(10));
        (2..16).for_each(|_| law.on_err(now, 999, 2_000));
        close(law.interval_us(), 112.5);
        law.on_err(now + Span::from_secs(1), 999, 2_000);
        close(law.interval_us(), 112.5 * 1.125);
        assert_eq!(law.frozen_until(), now + Span::from_millis(10), "only the first of an epoch freezes");
        law.on_err(now, 1_000, 3_000);
        close(law.interval_us(), 112.5 * 1.125 * 1.125);
    }
}
