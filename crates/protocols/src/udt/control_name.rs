//! Which congestion control a flow has: the receiver names it.

use super::core::{Control, LIGHT_ACK_EVERY, Variant};
use crate::laws::{LawConfig, LawName};

/// The laws that need no more than what UDT knows. BBR needs to know of each packet's delivery.
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
/// A law is clocked by ACKs: one for so many packets, as a TCP receiver.
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
            Self::Law(law) => law.code(),
        }
    }

    /// The control of that number.
    pub fn from_code(code: u8) -> Option<Self> {
        match code {
            CODE_UDT4 => Some(Self::Native(Variant::Udt4)),
            CODE_2004 => Some(Self::Native(Variant::Paper2004)),
            _ => LAWS.into_iter().find(|(_, law)| law.code() == code).map(|(_, law)| Self::Law(law)),
        }
    }

    /// Builds it.
    pub(super) fn build(self, window_max: u64, seed: u64) -> Control {
        match self {
            Self::Native(variant) => Control::native(variant, window_max, seed),
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

    /// Packets for each light ACK.
    pub(super) fn light_ack_every(self) -> u64 {
        match self {
            Self::Native(_) => LIGHT_ACK_EVERY,
            Self::Law(_) => LAW_ACK_EVERY,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_control_has_a_code() {
        let laws = LAWS.map(|(_, law)| ControlName::Law(law));
        for control in laws.into_iter().chain([Variant::Udt4, Variant::Paper2004].map(ControlName::Native)) {
            assert_eq!(ControlName::from_code(control.code()), Some(control));
        }
        assert_eq!(ControlName::from_code(LawName::Bbr.code()), None);
    }
}
