//! A user's settings.

use inhaul_base::Span;
use inhaul_transport::{Parameter, SetupError};

use super::wire::{SEGMENT_MAX, SEGMENT_MIN};
use crate::laws::{LawConfig, LawName};

const SEGMENT: Parameter = Parameter {
    name: "segment",
    unit: "bytes, from 256",
    default: "as the path's MTU allows",
    summary: "Bytes of data in a packet; set at the receiver",
};
const INITIAL_WINDOW: Parameter = Parameter {
    name: "initial-window",
    unit: "packets, 1 to 1000",
    default: "10",
    summary: "Packets that are sent before anything is known (RFC 6928); set at the sender",
};
const WINDOW_MAX: Parameter = Parameter {
    name: "window-max",
    unit: "packets, 2 to 1000000",
    default: "1000000",
    summary: "Packets that may be in flight: the sender's largest window, the receiver's receive window",
};
const RTO_MIN: Parameter = Parameter {
    name: "rto-min",
    unit: "milliseconds, 1 to 60000",
    default: "200",
    summary: "Least variation that the retransmission timeout allows for: 200 as Linux, RFC 6298 has 1000; set at the sender",
};
const DELAYED_ACKS: Parameter = Parameter {
    name: "delayed-acks",
    unit: "on | off",
    default: "on",
    summary: "Whether only every second packet is acknowledged; set at the receiver",
};
const FAIR_FACTOR: Parameter = Parameter {
    name: "c",
    unit: "per second, 0.1 to 1000",
    default: "10",
    summary: "FHSTCP's c: the window grows c times the round-trip time as fast as HighSpeed TCP's; set at the sender",
};
const PACING: Parameter = Parameter {
    name: "pacing",
    unit: "blocks | off",
    default: "blocks",
    summary: "Whether FHSTCP spreads its window over the round trip in blocks; set at the sender",
};
const SENDER: Parameter = Parameter {
    name: "sender",
    unit: "today | ns2",
    default: "today",
    summary: "ns2: repairs losses and sends in bursts as ns-2.26 did, for papers that were simulated with it; set at the sender",
};

const HYSTART: Parameter = Parameter {
    name: "hystart",
    unit: "on | off",
    default: "on",
    summary: "Whether slow start ends when delays rise or acknowledgements fill the round trip (HyStart); set at the sender",
};

/// How long an acknowledgement may wait for a second segment (RFC 1122 4.2.3.2 allows 500 ms; 40 ms is Linux's).
pub(super) const ACK_DELAY: Span = Span::from_millis(40);
/// Number of segments; the first of them may wait [`ACK_DELAY`] for an acknowledgement (RFC 5681 4.2: every second at
/// least).
pub(super) const ACK_EVERY: u64 = 2;

/// Parameters of laws that need the path's delivery rate. ns-2's sender measures none.
pub(super) const RATE_PARAMETERS: &[Parameter] = &[SEGMENT, INITIAL_WINDOW, WINDOW_MAX, RTO_MIN, DELAYED_ACKS];
/// Parameters of laws with a window.
pub(super) const PARAMETERS: &[Parameter] = &[SEGMENT, INITIAL_WINDOW, WINDOW_MAX, RTO_MIN, DELAYED_ACKS, SENDER];
/// Parameters of CUBIC.
pub(super) const CUBIC_PARAMETERS: &[Parameter] =
    &[SEGMENT, INITIAL_WINDOW, WINDOW_MAX, RTO_MIN, DELAYED_ACKS, SENDER, HYSTART];
/// Parameters of FHSTCP.
pub(super) const FHSTCP_PARAMETERS: &[Parameter] =
    &[SEGMENT, INITIAL_WINDOW, WINDOW_MAX, RTO_MIN, DELAYED_ACKS, SENDER, FAIR_FACTOR, PACING];

/// Which sender it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SenderKind {
    /// TCP as hosts have it.
    Today,
    /// As that of ns-2.26.
    Ns2,
}

/// Parameters that were read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// Bytes of data in a packet; `None`: as the path's MTU allows.
    pub segment: Option<u16>,
    /// Packets that are sent before anything is known.
    pub initial_window: u64,
    /// Packets that may be in flight.
    pub window_max: u64,
    /// Least variation that the retransmission timeout allows for.
    pub rto_min: Span,
    /// Whether only every second packet is acknowledged.
    pub delayed_acks: bool,
    /// Which sender it is.
    pub sender: SenderKind,
    /// FHSTCP's c, per second.
    pub fair_factor: f64,
    /// Whether FHSTCP sends its window in blocks.
    pub block_pacing: bool,
    /// Whether CUBIC ends its first slow start by HyStart.
    pub hystart: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            segment: None,
            initial_window: 10,
            window_max: 1_000_000,
            rto_min: Span::from_millis(200),
            delayed_acks: true,
            sender: SenderKind::Today,
            fair_factor: 10.0,
            block_pacing: true,
            hystart: true,
        }
    }
}

impl Options {
    /// Reads the parameters of `protocol`, which uses `law`.
    ///
    /// # Errors
    /// When a parameter is not known or its value is not legal.
    pub fn read(law: LawName, protocol: &'static str, parameters: &[(String, String)]) -> Result<Self, SetupError> {
        let known = match law {
            LawName::Fhstcp => FHSTCP_PARAMETERS,
            LawName::Cubic => CUBIC_PARAMETERS,
            LawName::Bbr | LawName::Bbr3 => RATE_PARAMETERS,
            _ => PARAMETERS,
        };
        let mut options = Self::default();
        for (name, value) in parameters {
            let Some(parameter) = known.iter().find(|p| p.name == name) else {
                let known = known.iter().map(|p| p.name).collect::<Vec<_>>().join(", ");
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
        let switch = |on: &str| if value == on { Some(true) } else { (value == "off").then_some(false) };
        match name {
            "segment" => self.segment = Some(within(value, SEGMENT_MIN, SEGMENT_MAX)?),
            "initial-window" => self.initial_window = within(value, 1, 1_000)?,
            "window-max" => self.window_max = within(value, 2, 1_000_000)?,
            "rto-min" => self.rto_min = Span::from_millis(within(value, 1, 60_000)?),
            "delayed-acks" => self.delayed_acks = switch("on")?,
            "sender" => {
                self.sender = match value {
                    "today" => SenderKind::Today,
                    "ns2" => SenderKind::Ns2,
                    _ => return None,
                };
            }
            "c" => self.fair_factor = within(value, 0.1, 1_000.0)?,
            "hystart" => self.hystart = switch("on")?,
            "pacing" => self.block_pacing = switch("blocks")?,
            _ => return None,
        }
        Some(())
    }

    /// These, replaced by a flow's own parameters. They were checked before: illegal values are skipped.
    pub(super) fn for_flow(mut self, parameters: &[(String, String)]) -> Self {
        for (name, value) in parameters {
            let _ = self.set(name, value);
        }
        self
    }

    /// Configuration of a flow's law.
    pub(super) fn law_config(&self, seed: u64) -> LawConfig {
        LawConfig {
            initial_window: self.initial_window,
            window_max: self.window_max,
            fair_factor: self.fair_factor,
            block_pacing: self.block_pacing,
            hystart: self.hystart,
            halves_slow_start: self.sender == SenderKind::Ns2,
            seed,
        }
    }
}

fn within<T: std::str::FromStr + PartialOrd + Copy>(value: &str, least: T, most: T) -> Option<T> {
    value.parse().ok().filter(|n| *n >= least && *n <= most)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(law: LawName, name: &str, value: &str) -> Result<Options, SetupError> {
        Options::read(law, "test", &[(name.into(), value.into())])
    }

    #[test]
    fn read_takes_what_the_parameters_say_and_names_what_is_wrong() {
        assert_eq!(Options::read(LawName::Reno, "reno", &[]), Ok(Options::default()));
        assert_eq!(read(LawName::Reno, "segment", "1000").map(|o| o.segment), Ok(Some(1000)));
        assert_eq!(read(LawName::Fhstcp, "c", "5").map(|o| o.fair_factor), Ok(5.0));
        assert_eq!(read(LawName::Fhstcp, "pacing", "off").map(|o| o.block_pacing), Ok(false));
        for (name, value) in
            [("segment", "10"), ("initial-window", "0"), ("delayed-acks", "blocks"), ("c", "NaN"), ("rto-min", "-1")]
        {
            assert!(matches!(read(LawName::Fhstcp, name, value), Err(SetupError::BadValue { .. })), "{name} {value}");
        }
        assert_eq!(read(LawName::Cubic, "hystart", "off").map(|o| o.hystart), Ok(false));
        assert_eq!(read(LawName::Reno, "sender", "ns2").map(|o| o.sender), Ok(SenderKind::Ns2));
        assert!(matches!(read(LawName::Bbr, "sender", "ns2"), Err(SetupError::UnknownParameter { .. })));
        assert!(matches!(read(LawName::Reno, "hystart", "off"), Err(SetupError::UnknownParameter { .. })));
        let error = read(LawName::Reno, "c", "5").unwrap_err().to_string();
        assert!(error.contains("initial-window"), "{error}");
    }

    #[test]
    fn every_default_in_the_table_is_what_is_used() {
        for (law, parameters) in [(LawName::Fhstcp, FHSTCP_PARAMETERS), (LawName::Cubic, CUBIC_PARAMETERS)] {
            for parameter in parameters.iter().filter(|p| p.name != "segment") {
                let set = read(law, parameter.name, parameter.default);
                assert_eq!(set, Ok(Options::default()), "{}", parameter.name);
            }
        }
    }
}
