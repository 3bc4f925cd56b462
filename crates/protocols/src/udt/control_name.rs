//! The name of a flow's congestion control, which the receiver chooses.

use super::core::{Control, Native, Reporting, Variant};
use crate::laws::{LawConfig, LawName};

/// The laws that need only UDT's measurements. BBR needs each packet's delivery.
pub(super) const LAWS: [(&str, LawName); 6] = [
    ("reno", LawName::Reno),
    ("highspeed", LawName::HighSpeed),
    ("scalable", LawName::Scalable),
    ("bic", LawName::Bic),
    ("cubic", LawName::Cubic),
    ("fhstcp", LawName::Fhstcp),
];
const CODE_UDT4: u8 = 128;
const CODE_2004: u8 = 129;
const CODE_UDT1: u8 = 130;
const VARIANTS: [Variant; 3] = [Variant::Udt4, Variant::Paper2004, Variant::Udt1];
/// A law is clocked by ACKs: one for this many packets, as from a TCP receiver.
const LAW_ACK_EVERY: u64 = 2;

/// The congestion control of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControlName {
    /// UDT's own.
    Native(Variant),
    /// A law of TCP's.
    Law(LawName),
}

impl ControlName {
    /// Its number in a Setup message.
    pub fn code(self) -> u8 {
        match self {
            Self::Native(Variant::Udt4) => CODE_UDT4,
            Self::Native(Variant::Paper2004) => CODE_2004,
            Self::Native(Variant::Udt1) => CODE_UDT1,
            Self::Law(law) => law.code(),
        }
    }

    /// The control of that number.
    pub fn from_code(code: u8) -> Option<Self> {
        let laws = LAWS.into_iter().map(|(_, law)| Self::Law(law));
        VARIANTS.into_iter().map(Self::Native).chain(laws).find(|control| control.code() == code)
    }

    /// Builds it.
    pub(super) fn build(self, window_max: u64, window_more: u64, seed: u64) -> Control {
        match self {
            Self::Native(variant) => {
                Control::Native(Native::new(variant, window_max, seed).with_window_more(window_more))
            }
            Self::Law(law) => Control::law(law.build(&LawConfig {
                initial_window: 10,
                window_max,
                fair_factor: 10.0,
                block_pacing: true,
                hystart: true,
                halves_slow_start: false,
                seed,
            })),
        }
    }

    /// The receiver's reports.
    pub(super) fn reporting(self) -> Reporting {
        match self {
            Self::Native(Variant::Udt1) => Reporting::UDT1,
            Self::Native(Variant::Paper2004) => Reporting::PAPER_2004,
            Self::Native(Variant::Udt4) => Reporting::UDT4,
            Self::Law(_) => Reporting { light_ack_every: LAW_ACK_EVERY, ..Reporting::UDT4 },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_control_has_a_code() {
        let laws = LAWS.map(|(_, law)| ControlName::Law(law));
        for control in laws.into_iter().chain(VARIANTS.map(ControlName::Native)) {
            assert_eq!(ControlName::from_code(control.code()), Some(control));
        }
        assert_eq!(ControlName::from_code(LawName::Bbr.code()), None);
    }
}
