//! GTP, the Group Transport Protocol (gtp-2004): one receiver asks many senders for data and tells each its rate.
//!
//! PROTOCOL.md in this folder specifies it. The rooms have the paper's names: at the receiver a [`SingleFlowMonitor`] and a
//! [`SingleFlowController`] for each flow, a [`CapacityEstimator`] and a max-min fair scheduler across flows; a
//! simple [`sender`]. [`Bound`] is ours: it finds the capacities that the paper takes as known.

mod bound;
mod burst;
mod controller;
mod estimator;
mod monitor;
pub mod receiver;
pub mod sender;
pub mod wire;

pub use bound::{Bound, MARGIN};
pub use controller::SingleFlowController;
pub use estimator::CapacityEstimator;
pub use monitor::{Dispersion, Interval, Run, SingleFlowMonitor, TRAIN_SPAN_MIN};

use inhaul_base::{Bitrate, Span};
use inhaul_transport::{Channels, Endpoint, EndpointConfig, Parameter, Protocol, Role, SetupError};
use receiver::{Control, GtpReceiver};
use sender::GtpSender;

/// Smallest path MTU that the protocol works with: what every IPv4 host must take.
const MTU_MIN: u16 = 576;
/// Most ranges that wait to be sent to one receiver: bounds a flow's memory at its sender, which gives up on one that asks for more.
const QUEUED_RANGES_MAX: usize = 16_384;

/// Most bytes that wait to be sent to one receiver: twice what ours ever asks for ahead.
const QUEUED_BYTES_MAX: u64 = 2 << 30;
/// Rates asked for are never above this, and are never taken for more: "as fast as you can".
const RATE_MAX: Bitrate = Bitrate::from_gbps(1_000);
/// A receiver that waits for data responds to its sender so often, ...
const FEEDBACK_GAP: Span = Span::from_millis(50);
/// ... which sends no data to an address that did not respond for so long.
const FEEDBACK_MAX: Span = Span::from_millis(250);

/// Bytes of IP and UDP header in front of each datagram.
fn ip_overhead(ipv6: bool) -> u64 {
    if ipv6 { 48 } else { 28 }
}

/// The largest unit data block that fits a packet of `mtu` bytes.
fn largest_block(mtu: u16, ipv6: bool) -> u16 {
    let room = mtu.saturating_sub(ip_overhead(ipv6) as u16 + wire::HEADER_LEN as u16);
    (room - room % wire::BLOCK_GRAIN).clamp(wire::BLOCK_MIN, wire::BLOCK_MAX)
}

/// The registry entry.
pub const PROTOCOL: Protocol = Protocol {
    name: "gtp",
    summary: "Group Transport Protocol: the receiver asks many senders at once and shares its capacity max-min fairly",
    channels: Channels::DatagramsAndControl,
    parameters: &[Parameter {
        name: "control",
        unit: "default | paper",
        default: "default",
        summary: "'paper' is gtp-2004 to the letter and needs the receiver's capacity; 'default' finds capacities by itself",
    }],
    colour: "#1b6ca8",
    build,
};

fn build(config: &EndpointConfig) -> Result<Box<dyn Endpoint + Send>, SetupError> {
    let mut control = Control::Discover;
    for (name, value) in &config.parameters {
        if name != "control" {
            return Err(SetupError::UnknownParameter { protocol: "gtp", name: name.clone(), known: "control".into() });
        }
        control = match value.as_str() {
            "default" => Control::Discover,
            "paper" => Control::Paper,
            _ => return Err(bad_control(value, "default or paper")),
        };
    }
    if config.role == Role::Sender {
        return Ok(Box::new(GtpSender::new(config)));
    }
    if control == Control::Paper && config.host_rate.is_none() {
        return Err(bad_control(
            "paper",
            "it takes the receiver's capacity as known, so a receive rate must be given too",
        ));
    }
    Ok(Box::new(GtpReceiver::new(config, control)))
}

fn bad_control(value: &str, expected: &'static str) -> SetupError {
    SetupError::BadValue { protocol: "gtp", name: "control", value: value.into(), expected }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn largest_block_fills_the_packet() {
        assert_eq!(largest_block(1500, false), 1440);
        assert_eq!(largest_block(1500, true), 1416);
        assert_eq!(largest_block(9000, false), 8936);
        assert_eq!(largest_block(u16::MAX, false), 65_440);
    }

    #[test]
    fn build_names_what_is_wrong() {
        let mut config = EndpointConfig::new(Role::Receiver, 1);
        config.parameters = vec![("control".into(), "paper".into())];
        let error = build(&config).err().map(|e| e.to_string()).unwrap_or_default();
        assert!(error.contains("receive rate must be given"), "{error}");
        config.parameters = vec![("speed".into(), "fast".into())];
        assert!(matches!(build(&config).err(), Some(SetupError::UnknownParameter { .. })));
    }
}
