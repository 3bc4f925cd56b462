//! What a user can set.

use inhaul_transport::{Parameter, SetupError};

use super::core::{Control, LIGHT_ACK_EVERY, Variant};
use super::wire::WINDOW_MAX;
use crate::laws::{LawConfig, LawName};

/// What can be set.
pub(super) const PARAMETERS: &[Parameter] = &[
    Parameter {
        name: "law",
        unit: "native | reno | highspeed | scalable | bic | cubic | fhstcp",
        default: "native",
        summary: "The congestion control: UDT's own, or a law of TCP's; set at the receiver",
    },
    Parameter {
        name: "variant",
        unit: "4 | 2004",
        default: "4",
        summary: "UDT's own control as in UDT 4, or as in the paper of 2004; set at the receiver",
    },
    Parameter {
        name: "window-max",
        unit: "packets, 16 to 1000000",
        default: "1000000",
        summary: "Packets that may be on their way: the sender's largest window, and what the receiver takes",
    },
];

/// The laws that need no more than what UDT knows. BBR needs to know of each packet's delivery.
const LAWS: [(&str, LawName); 6] = [
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

/// Parameters that were read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Options {
    law: Option<LawName>,
    variant: Variant,
    /// Packets that may be on their way.
    pub(super) window_max: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self { law: None, variant: Variant::Udt4, window_max: u64::from(WINDOW_MAX) }
    }
}

impl Options {
    /// Reads the parameters.
    ///
    /// # Errors
    /// When a parameter is not known or its value is not legal.
    pub(super) fn read(parameters: &[(String, String)]) -> Result<Self, SetupError> {
        let protocol = super::PROTOCOL.name;
        let mut options = Self::default();
        for (name, value) in parameters {
            let Some(parameter) = PARAMETERS.iter().find(|p| p.name == name) else {
                let known = PARAMETERS.iter().map(|p| p.name).collect::<Vec<_>>().join(", ");
                return Err(SetupError::UnknownParameter { protocol, name: name.clone(), known });
            };
            if options.set(parameter.name, value).is_none() {
                let (name, expected) = (parameter.name, parameter.unit);
                return Err(SetupError::BadValue { protocol, name, value: value.clone(), expected });
            }
        }
        Ok(options)
    }

    /// Sets one parameter; `None` when the value is not legal.
    fn set(&mut self, name: &str, value: &str) -> Option<()> {
        match (name, value) {
            ("law", "native") => self.law = None,
            ("law", _) => self.law = Some(LAWS.into_iter().find(|(name, _)| *name == value)?.1),
            ("variant", "4") => self.variant = Variant::Udt4,
            ("variant", "2004") => self.variant = Variant::Paper2004,
            ("window-max", _) => {
                self.window_max = value.parse().ok().filter(|n| (16..=u64::from(WINDOW_MAX)).contains(n))?;
            }
            _ => return None,
        }
        Some(())
    }

    /// The same with what is set for one flow; what is not legal there was refused before.
    pub(super) fn for_flow(mut self, parameters: &[(String, String)]) -> Self {
        for (name, value) in parameters {
            self.set(name, value);
        }
        self
    }

    /// The congestion control.
    pub(super) fn control(&self) -> ControlName {
        self.law.map_or(ControlName::Native(self.variant), ControlName::Law)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(name: &str, value: &str) -> Result<Options, SetupError> {
        Options::read(&[(name.into(), value.into())])
    }

    #[test]
    fn read_takes_what_the_parameters_say_and_names_what_is_wrong() {
        assert_eq!(Options::read(&[]), Ok(Options::default()));
        assert_eq!(read("law", "cubic").map(|o| o.control()), Ok(ControlName::Law(LawName::Cubic)));
        assert_eq!(read("variant", "2004").map(|o| o.control()), Ok(ControlName::Native(Variant::Paper2004)));
        assert_eq!(read("window-max", "25600").map(|o| o.window_max), Ok(25_600));
        for (name, value) in [("law", "bbr"), ("law", ""), ("variant", "3"), ("window-max", "15")] {
            assert!(matches!(read(name, value), Err(SetupError::BadValue { .. })), "{name} {value}");
        }
        let error = read("rate", "5").unwrap_err().to_string();
        assert!(error.contains("variant"), "{error}");
    }

    #[test]
    fn every_default_in_the_table_is_what_is_used() {
        for parameter in PARAMETERS {
            assert_eq!(read(parameter.name, parameter.default), Ok(Options::default()), "{}", parameter.name);
        }
    }

    #[test]
    fn every_control_has_a_code() {
        let laws = LAWS.map(|(_, law)| ControlName::Law(law));
        for control in laws.into_iter().chain([Variant::Udt4, Variant::Paper2004].map(ControlName::Native)) {
            assert_eq!(ControlName::from_code(control.code()), Some(control));
        }
        assert_eq!(ControlName::from_code(LawName::Bbr.code()), None);
    }
}
