//! Congestion control laws, one file each. Laws that keep a window say how it grows in congestion avoidance and how it
//! is cut ([`Avoidance`]); slow start and its end are the same for all ([`Windowed`]).

mod bbr;
mod bbr3;
mod bic;
mod config;
mod cubic;
mod fhstcp;
mod highspeed;
mod hystart;
mod reno;
mod scalable;
mod windowed;

use inhaul_transport::Law;

pub use bbr::Bbr;
pub use bbr3::Bbr3;
pub use bic::Bic;
pub use config::{LawConfig, MakeLaw};
pub use cubic::Cubic;
pub use fhstcp::Fhstcp;
pub use highspeed::HighSpeed;
pub use reno::Reno;
pub use scalable::Scalable;
pub use windowed::{Avoidance, Windowed};

/// The laws there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LawName {
    /// Standard TCP (RFC 5681).
    Reno,
    /// HighSpeed TCP (RFC 3649).
    HighSpeed,
    /// Scalable TCP (Kelly 2003).
    Scalable,
    /// BIC (Xu, Harfoush, Rhee 2004).
    Bic,
    /// CUBIC (RFC 9438).
    Cubic,
    /// Fair HighSpeed TCP (fhstcp-2005).
    Fhstcp,
    /// BBR version 1 (Cardwell and others 2016).
    Bbr,
    /// BBR version 3 (draft-ietf-ccwg-bbr).
    Bbr3,
}

impl LawName {
    /// All of them, in the order of their codes.
    pub(crate) const ALL: [Self; 8] =
        [Self::Reno, Self::HighSpeed, Self::Scalable, Self::Bic, Self::Cubic, Self::Fhstcp, Self::Bbr, Self::Bbr3];

    /// Its number in a Setup message.
    pub const fn code(self) -> u8 {
        self as u8 + 1
    }

    /// The law of that number.
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|law| law.code() == code)
    }

    /// Builds the law.
    pub fn build(self, config: &LawConfig) -> Box<dyn Law + Send> {
        match self {
            Self::Reno => Box::new(Windowed::new(Reno, config)),
            Self::HighSpeed => Box::new(Windowed::new(HighSpeed, config)),
            Self::Scalable => Box::new(Windowed::new(Scalable, config)),
            Self::Bic => Box::new(Windowed::new(Bic::default(), config)),
            Self::Cubic => Box::new(Windowed::new(Cubic::new(config.hystart), config)),
            Self::Fhstcp => Box::new(Windowed::new(Fhstcp::new(config.fair_factor, config.block_pacing), config)),
            Self::Bbr => Box::new(Bbr::new(config)),
            Self::Bbr3 => Box::new(Bbr3::new(config)),
        }
    }
}

#[cfg(test)]
pub(crate) mod testing {
    //! What tests of laws share.

    use super::*;
    use inhaul_base::{Span, Time};
    use inhaul_transport::{AckSample, LossSample};

    pub(crate) const CONFIG: LawConfig = LawConfig {
        initial_window: 10,
        window_max: 1_000_000,
        fair_factor: 10.0,
        block_pacing: true,
        hystart: true,
        halves_slow_start: false,
        seed: 1,
    };

    /// An acknowledgement of `packets` on a path with round trips of `rtt`, by a sender that its window holds back.
    pub(crate) fn ack(now: Time, packets: u64, rtt: Span) -> AckSample {
        AckSample {
            now,
            delivered_packets: packets,
            packet_bytes: 1500,
            rtt: Some(rtt),
            smoothed_rtt: rtt,
            window_limited: true,
            ..AckSample::default()
        }
    }

    /// A law of a window in congestion avoidance, driven round trip by round trip.
    pub(crate) struct Drive<A> {
        pub(crate) law: Windowed<A>,
        pub(crate) now: Time,
        rtt: Span,
    }

    impl<A: Avoidance + Clone> Drive<A> {
        /// In congestion avoidance at `window` packets.
        pub(crate) fn at(avoidance: A, window: f64, rtt_ms: u64) -> Self {
            let law = Windowed::in_avoidance(avoidance, window, &CONFIG);
            Self { law, now: Time::ZERO + Span::from_secs(1), rtt: Span::from_millis(rtt_ms) }
        }

        /// One round trip without loss: each packet of the window is acknowledged, two at a time.
        pub(crate) fn round(&mut self) -> f64 {
            let acks = (self.law.window() / 2.0).round() as u64;
            for k in 0..acks {
                let now = self.now + self.rtt.mul_f64(k as f64 / acks as f64);
                self.law.on_ack(&ack(now, 2, self.rtt));
            }
            self.now += self.rtt;
            self.law.window()
        }

        /// A number of round trips.
        pub(crate) fn rounds(&mut self, count: u64) -> f64 {
            (0..count).fold(self.law.window(), |_, _| self.round())
        }

        /// A loss, and the window after it.
        pub(crate) fn lose(&mut self) -> f64 {
            let in_flight = self.law.window() as u64;
            self.law.on_loss(&LossSample { now: self.now, in_flight });
            self.law.window()
        }
    }
}
