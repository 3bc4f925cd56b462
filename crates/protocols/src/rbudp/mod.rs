//! RBUDP, Reliable Blast UDP (He, Leigh, Yu, DeFanti 2002): everything is sent at a rate that the user gives, what is
//! missing is sent again, in rounds, until nothing is.
//!
//! PROTOCOL.md in this folder specifies it.

mod model;
mod receiver;
mod sender;
mod tally;
pub mod wire;

use inhaul_base::{Bitrate, Span};
use inhaul_transport::kit::receiver::largest_block;
use inhaul_transport::{
    Channels, Conditions, Endpoint, EndpointConfig, Offloads, Parameter, Protocol, Role, SetupError,
};

pub use model::Blast;
use receiver::RbudpReceiver;
use sender::RbudpSender;

/// The registry entry.
pub const RBUDP: Protocol = Protocol {
    name: "rbudp",
    summary: "Reliable Blast UDP: sends at the rate that you give, in rounds, until nothing is missing",
    channels: Channels::DatagramsAndControl,
    offloads: Offloads::Any,
    parameters: &[Parameter {
        name: "rate",
        unit: "a rate, like 800M",
        default: "what --rate or --receive-rate says: one of the three must be given",
        summary: "What each flow is sent at, headers included. It never adapts; set at the receiver",
    }],
    colour: "#b8860b",
    predict: Some(predict),
    build,
};

const HOW: &str = "it sends at a rate that its user gives and does not adapt, so say one: --set rate=800M, \
                   --rate 800M or --receive-rate 800M ('put' takes --set only)";

/// The rate that parameters give.
fn given_rate(config: &EndpointConfig) -> Result<Option<Bitrate>, SetupError> {
    let mut rate = None;
    for (name, value) in &config.parameters {
        if name != "rate" {
            return Err(SetupError::UnknownParameter {
                protocol: RBUDP.name,
                name: name.clone(),
                known: "rate".into(),
            });
        }
        let parsed = value.parse::<Bitrate>().ok().filter(|rate| *rate > Bitrate::ZERO);
        rate = Some(parsed.ok_or_else(|| SetupError::BadValue {
            protocol: RBUDP.name,
            name: "rate",
            value: value.clone(),
            expected: "a rate in bits per second with k, M, G or T, like 850M",
        })?);
    }
    Ok(rate.into_iter().chain(config.flow_rate).min())
}

fn build(config: &EndpointConfig) -> Result<Box<dyn Endpoint + Send>, SetupError> {
    let rate = given_rate(config)?;
    Ok(match config.role {
        Role::Sender => Box::new(RbudpSender::new(sender::Rbudp::new(config), config.challenge_seed)),
        Role::Receiver if rate.is_none() && config.host_rate.is_none() => {
            return Err(SetupError::Missing { protocol: RBUDP.name, name: "rate", how: HOW });
        }
        Role::Receiver => Box::new(RbudpReceiver::new(receiver::Rbudp::new(config, rate))),
    })
}

/// The model's time for a receiver: see [`Blast::time`].
fn predict(config: &EndpointConfig, conditions: &Conditions) -> Option<Span> {
    let flows = conditions.flows.max(1);
    let each = given_rate(config).ok()?;
    let all = each.map(|rate| Bitrate::from_bps(rate.bps().saturating_mul(flows)));
    let rate = all.into_iter().chain(config.host_rate).min()?;
    let block = u64::from(largest_block(conditions.path, wire::HEADER_LEN as u16, 1));
    let overhead = u64::from(conditions.path.overhead) + wire::HEADER_LEN as u64;
    let Conditions { bytes, rtt, loss, .. } = *conditions;
    Blast { bytes, block, overhead, rate, rtt, loss }.time()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn build_wants_a_rate_and_takes_it_from_wherever_it_was_given() {
        let build = |change: fn(&mut EndpointConfig)| {
            let mut config = EndpointConfig::new(Role::Receiver, 1);
            change(&mut config);
            build(&config).err().map(|error| error.to_string())
        };
        let missing = build(|_| {}).unwrap();
        assert!(missing.contains("--set rate=800M") && missing.contains("needs its parameter 'rate'"), "{missing}");
        assert_eq!(build(|config| config.host_rate = Some(Bitrate::from_mbps(1))), None);
        assert_eq!(build(|config| config.flow_rate = Some(Bitrate::from_mbps(1))), None);
        assert_eq!(build(|config| config.parameters = vec![("rate".into(), "1G".into())]), None);
        assert_eq!(build(|config| config.role = Role::Sender), None, "its receivers say the rate");
        for value in ["", "fast", "0M", "800"] {
            let mut config = EndpointConfig::new(Role::Receiver, 1);
            config.parameters = vec![("rate".into(), value.into())];
            assert!(matches!(super::build(&config).err(), Some(SetupError::BadValue { .. })), "{value}");
        }
    }
}
