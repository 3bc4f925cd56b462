//! RBUDP, Reliable Blast UDP (He, Leigh, Yu, DeFanti 2002): everything is sent at the user's rate; missing blocks are
//! sent again, in rounds, until none is missing. And RBUDP+ (rbudp-plus-2006): its receiver also tells senders of
//! pauses in which it will not run.
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
    parameters: PARAMETERS,
    colour: "#b8860b",
    predict: Some(predict),
    build,
};

/// RBUDP with feedback.
pub const RBUDP_PLUS: Protocol = Protocol {
    name: "rbudp+",
    summary: "RBUDP whose receiver has senders stop while it will not run: for busy or limited receivers",
    colour: "#8b5a00",
    build: build_plus,
    ..RBUDP
};

const PARAMETERS: &[Parameter] = &[Parameter {
    name: "rate",
    unit: "a rate, like 800M",
    default: "what --rate or --receive-rate says: one of the three must be given",
    summary: "Rate of each flow, headers included. It never adapts; set at the receiver",
}];

const HOW: &str = "it sends at a rate that its user gives and does not adapt, so say one: --set rate=800M, \
                   --rate 800M or --receive-rate 800M ('put' takes --set only)";

/// The rate that parameters give to `protocol`.
fn given_rate(protocol: &'static str, config: &EndpointConfig) -> Result<Option<Bitrate>, SetupError> {
    let mut rate = None;
    for (name, value) in &config.parameters {
        if name != "rate" {
            return Err(SetupError::UnknownParameter { protocol, name: name.clone(), known: "rate".into() });
        }
        let parsed = value.parse::<Bitrate>().ok().filter(|rate| *rate > Bitrate::ZERO);
        rate = Some(parsed.ok_or_else(|| SetupError::BadValue {
            protocol,
            name: "rate",
            value: value.clone(),
            expected: "a rate in bits per second with k, M, G or T, like 850M",
        })?);
    }
    Ok(rate.into_iter().chain(config.flow_rate).min())
}

fn build(config: &EndpointConfig) -> Result<Box<dyn Endpoint + Send>, SetupError> {
    build_either(RBUDP.name, config, receiver::Rbudp::new)
}

fn build_plus(config: &EndpointConfig) -> Result<Box<dyn Endpoint + Send>, SetupError> {
    build_either(RBUDP_PLUS.name, config, receiver::Rbudp::plus)
}

fn build_either(
    protocol: &'static str,
    config: &EndpointConfig,
    receiver: fn(&EndpointConfig, Option<Bitrate>) -> receiver::Rbudp,
) -> Result<Box<dyn Endpoint + Send>, SetupError> {
    let rate = given_rate(protocol, config)?;
    Ok(match config.role {
        Role::Sender => Box::new(RbudpSender::new(sender::Rbudp::default(), config)),
        Role::Receiver if rate.is_none() && config.host_rate.is_none() => {
            return Err(SetupError::Missing { protocol, name: "rate", how: HOW });
        }
        Role::Receiver => Box::new(RbudpReceiver::new(receiver(config, rate))),
    })
}

/// The model's time for a receiver: see [`Blast::time`].
fn predict(config: &EndpointConfig, conditions: &Conditions) -> Option<Span> {
    let flows = conditions.flows.max(1);
    let each = given_rate(RBUDP.name, config).ok()?;
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
