//! GTP, the Group Transport Protocol (gtp-2004): one receiver asks many senders for data and tells each its rate.
//!
//! PROTOCOL.md in this folder specifies it. The modules have the paper's names: at the receiver a [`SingleFlowMonitor`]
//! and a [`SingleFlowController`] for each flow, a [`CapacityEstimator`] and a max-min fair scheduler across flows; a
//! simple sender. What rates may be is found by one of two laws: `paper` takes capacities as known, `discover`, which
//! is ours, finds them.

mod burst;
mod discover;
mod marks;
mod monitor;
mod paper;
mod receiver;
mod sender;
pub mod wire;

pub use discover::{Bound, MARGIN};
pub use monitor::{Dispersion, Interval, Run, SingleFlowMonitor, TRAIN_SPAN_MIN};
pub use paper::{CapacityEstimator, Plans, SingleFlowController};

use discover::Policy;
use inhaul_transport::{Channels, Endpoint, EndpointConfig, Offloads, Parameter, Protocol, Role, SetupError};
use receiver::{Control, GtpReceiver};
use sender::GtpSender;

/// The registry entry.
pub const PROTOCOL: Protocol = Protocol {
    name: "gtp",
    summary: "Group Transport Protocol: the receiver asks many senders at once and shares its capacity max-min fairly",
    channels: Channels::DatagramsAndControl,
    offloads: Offloads::Any,
    parameters: &[
        Parameter {
            name: "control",
            unit: "default | paper",
            default: "default",
            summary: "'paper' is gtp-2004 to the letter and needs the receiver's capacity; 'default' finds capacities by itself",
        },
        Parameter {
            name: "policy",
            unit: "fair | low | high | fixed",
            default: "fair",
            summary: "beside others' traffic a data set takes as much as one TCP flow (fair), almost nothing (low), as \
            much as two (high), or the given receive rate, regardless of others (fixed); for 'default' control",
        },
    ],
    colour: "#1b6ca8",
    predict: None,
    build,
};

fn build(config: &EndpointConfig) -> Result<Box<dyn Endpoint + Send>, SetupError> {
    let (mut control, mut policy) = (Control::Discover, Policy::default());
    for (name, value) in &config.parameters {
        match name.as_str() {
            "control" => {
                control = match value.as_str() {
                    "default" => Control::Discover,
                    "paper" => Control::Paper,
                    _ => return Err(bad_value("control", value, "default or paper")),
                };
            }
            "policy" => {
                policy = value.parse().map_err(|_| bad_value("policy", value, "fair, low, high or fixed"))?;
            }
            _ => {
                let known = "control, policy".into();
                return Err(SetupError::UnknownParameter { protocol: "gtp", name: name.clone(), known });
            }
        }
    }
    if control == Control::Paper && config.parameters.iter().any(|(name, _)| name == Policy::PARAMETER) {
        return Err(bad_value("policy", policy.name(), "control=paper has no policies: leave one of the two out"));
    }
    if config.role == Role::Sender {
        return Ok(Box::new(GtpSender::new(sender::Gtp::new(config), config)));
    }
    if control == Control::Paper && config.host_rate.is_none() {
        return Err(bad_value(
            "control",
            "paper",
            "it takes the receiver's capacity as known, so a receive rate must be given too",
        ));
    }
    if policy == Policy::Fixed {
        if config.host_rate.is_none() {
            let expected = "it holds a given rate, so a receive rate must be given too (--receive-rate 850M)";
            return Err(bad_value("policy", "fixed", expected));
        }
        control = Control::Fixed;
    }
    Ok(Box::new(GtpReceiver::new(receiver::Gtp::new(config, control, policy))))
}

fn bad_value(name: &'static str, value: &str, expected: &'static str) -> SetupError {
    SetupError::BadValue { protocol: "gtp", name, value: value.into(), expected }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn build_names_what_is_wrong() {
        let mut config = EndpointConfig::new(Role::Receiver, 1);
        config.parameters = vec![("control".into(), "paper".into())];
        let error = build(&config).err().map(|e| e.to_string()).unwrap_or_default();
        assert!(error.contains("receive rate must be given"), "{error}");
        config.parameters = vec![("policy".into(), "rude".into())];
        let error = build(&config).err().map(|e| e.to_string()).unwrap_or_default();
        assert!(error.contains("fair, low, high or fixed"), "{error}");
        config.parameters = vec![("policy".into(), "fixed".into())];
        let error = build(&config).err().map(|e| e.to_string()).unwrap_or_default();
        assert!(error.contains("--receive-rate 850M"), "{error}");
        config.host_rate = Some(inhaul_base::Bitrate::from_mbps(850));
        assert!(build(&config).is_ok());
        config.parameters.push(("control".into(), "paper".into()));
        assert!(build(&config).is_err());
        config.parameters = vec![("speed".into(), "fast".into())];
        assert!(matches!(build(&config).err(), Some(SetupError::UnknownParameter { .. })));
    }
}
