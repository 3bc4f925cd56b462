//! A user's settings.

use inhaul_transport::{Parameter, SetupError};

use super::control_name::{ControlName, LAWS};
use super::core::{Variant, WINDOW_MORE};
use super::wire::WINDOW_MAX;
use crate::laws::LawName;

/// The protocol's name in the registry.
pub(super) const NAME: &str = "udt";

/// The parameters.
pub(super) const PARAMETERS: &[Parameter] = &[
    Parameter {
        name: "law",
        unit: "native | reno | highspeed | scalable | bic | cubic | fhstcp",
        default: "native",
        summary: "The congestion control: UDT's own, or a law of TCP's; set at the receiver",
    },
    Parameter {
        name: "variant",
        unit: "4 | 2004 | 1",
        default: "4",
        summary: "UDT's own control: of UDT 4, the paper of 2004, or UDT 1 (by delay too); set at the receiver",
    },
    Parameter {
        name: "window-max",
        unit: "packets, 16 to 1000000",
        default: "1000000",
        summary: "Most packets in flight: the sender's largest window, and the receiver's window",
    },
    Parameter {
        name: "window-more",
        unit: "packets, 0 to 1000",
        default: "16",
        summary: "What variant 4 adds to its window: less, and a slow flow may stay slow; set at the sender",
    },
];

/// Most packets that a user may add to a window.
const WINDOW_MORE_MAX: u64 = 1_000;

/// Parameters that were read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Options {
    law: Option<LawName>,
    variant: Variant,
    /// Packets that may be in flight.
    pub(super) window_max: u64,
    /// Packets that variant 4 adds to its window.
    pub(super) window_more: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self { law: None, variant: Variant::Udt4, window_max: u64::from(WINDOW_MAX), window_more: WINDOW_MORE }
    }
}

impl Options {
    /// Reads the parameters.
    ///
    /// # Errors
    /// When a parameter is not known or its value is not legal.
    pub(super) fn read(parameters: &[(String, String)]) -> Result<Self, SetupError> {
        let protocol = NAME;
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
            ("variant", "1") => self.variant = Variant::Udt1,
            ("window-max", _) => {
                self.window_max = value.parse().ok().filter(|n| (16..=u64::from(WINDOW_MAX)).contains(n))?;
            }
            ("window-more", _) => {
                self.window_more = value.parse().ok().filter(|n| *n <= WINDOW_MORE_MAX)?;
            }
            _ => return None,
        }
        Some(())
    }

    /// The same with the parameters of one flow; illegal values were refused before.
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
        assert_eq!(read("variant", "1").map(|o| o.control()), Ok(ControlName::Native(Variant::Udt1)));
        assert_eq!(read("window-max", "25600").map(|o| o.window_max), Ok(25_600));
        assert_eq!(read("window-more", "0").map(|o| o.window_more), Ok(0));
        for (name, value) in
            [("window-more", "1001"), ("law", "bbr"), ("law", ""), ("variant", "3"), ("window-max", "15")]
        {
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
}
