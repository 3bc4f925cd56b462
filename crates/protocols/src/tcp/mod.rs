//! The TCP family over datagrams: a real TCP sender and receiver (SACK, RACK-TLP recovery, RFC 6298 timeouts, delayed
//! acknowledgements), with the congestion control law as a part that can be exchanged.
//!
//! PROTOCOL.md in this folder specifies it. All eight protocols speak the same on the wire; the receiver names the
//! law.
//!
//! The laws are small and pure, behind `inhaul_transport::Law`. Loss recovery (RFC 8985, 6298, 9937) is not inside
//! them, except BBR's own changes of its window. Control goes over the session's stream. So the same receiver's
//! requests drive the family as drive GTP, and it can fetch from mirrors. The registry and the wire name built-in laws
//! only; `sender_with_laws` takes laws from outside.

mod options;
mod receiver;
mod sender;
pub mod wire;

use inhaul_transport::{Channels, Endpoint, EndpointConfig, Offloads, Protocol, Role, SetupError};

use crate::laws::{LawName, MakeLaw};
pub use options::Options;
use receiver::TcpReceiver;
use sender::TcpSender;

/// Standard TCP.
pub const RENO: Protocol = Protocol {
    name: "reno",
    summary: "standard TCP: one segment more each round trip, half the window at a loss",
    channels: Channels::DatagramsAndControl,
    offloads: Offloads::Any,
    parameters: options::PARAMETERS,
    colour: "#7f7f7f",
    predict: None,
    build: |config| build(LawName::Reno, RENO.name, config),
};

/// HighSpeed TCP.
pub const HIGHSPEED: Protocol = Protocol {
    name: "highspeed",
    summary: "HighSpeed TCP (RFC 3649): larger windows grow faster and are cut less",
    colour: "#e69f00",
    build: |config| build(LawName::HighSpeed, HIGHSPEED.name, config),
    ..RENO
};

/// Scalable TCP.
pub const SCALABLE: Protocol = Protocol {
    name: "scalable",
    summary: "Scalable TCP: the window grows by a hundredth of itself each round trip",
    colour: "#56b4e9",
    build: |config| build(LawName::Scalable, SCALABLE.name, config),
    ..RENO
};

/// BIC.
pub const BIC: Protocol = Protocol {
    name: "bic",
    summary: "BIC TCP: searches by halves for the window at which packets were lost",
    colour: "#009e73",
    build: |config| build(LawName::Bic, BIC.name, config),
    ..RENO
};

/// CUBIC.
pub const CUBIC: Protocol = Protocol {
    name: "cubic",
    summary: "CUBIC (RFC 9438), what most hosts run: the window is a cubic function of the time since the last loss",
    parameters: options::CUBIC_PARAMETERS,
    colour: "#d55e00",
    build: |config| build(LawName::Cubic, CUBIC.name, config),
    ..RENO
};

/// FHSTCP.
pub const FHSTCP: Protocol = Protocol {
    name: "fhstcp",
    summary: "Fair HighSpeed TCP (2005): HighSpeed TCP that grows alike at every round-trip time",
    parameters: options::FHSTCP_PARAMETERS,
    colour: "#cc79a7",
    build: |config| build(LawName::Fhstcp, FHSTCP.name, config),
    ..RENO
};

/// BBR.
pub const BBR: Protocol = Protocol {
    name: "bbr",
    summary: "BBR version 1: keeps to the bandwidth and round-trip time that it measures",
    colour: "#332288",
    parameters: options::RATE_PARAMETERS,
    build: |config| build(LawName::Bbr, BBR.name, config),
    ..RENO
};

/// BBR, version 3.
pub const BBR3: Protocol = Protocol {
    name: "bbr3",
    summary: "BBR version 3: like bbr, but gives way where more than 2 % is lost, and probes seconds apart",
    colour: "#882255",
    parameters: options::RATE_PARAMETERS,
    build: |config| build(LawName::Bbr3, BBR3.name, config),
    ..RENO
};

/// The protocols of the family, and their laws.
const FAMILY: [(&str, LawName); 8] = [
    (RENO.name, LawName::Reno),
    (HIGHSPEED.name, LawName::HighSpeed),
    (SCALABLE.name, LawName::Scalable),
    (BIC.name, LawName::Bic),
    (CUBIC.name, LawName::Cubic),
    (FHSTCP.name, LawName::Fhstcp),
    (BBR.name, LawName::Bbr),
    (BBR3.name, LawName::Bbr3),
];

/// Whether a protocol is of the family, so that its law can be exchanged.
pub fn is_of_family(protocol: &str) -> bool {
    FAMILY.iter().any(|(name, _)| *name == protocol)
}

/// A sender whose flows may have laws that no registry knows, for experiments with them. `None`: `protocol` is not of
/// the family.
///
/// # Errors
/// As the protocol's own sender: when a parameter is not known or its value is not legal.
pub fn sender_with_laws(
    protocol: &str,
    config: &EndpointConfig,
    laws: &MakeLaw,
) -> Option<Result<Box<dyn Endpoint + Send>, SetupError>> {
    let (name, law) = FAMILY.iter().find(|(name, _)| *name == protocol)?;
    let sender = |options| {
        let tcp = sender::Tcp::new(config, options).with_laws(laws.clone());
        Box::new(TcpSender::new(tcp, config)) as Box<dyn Endpoint + Send>
    };
    Some(Options::read(*law, name, &config.parameters).map(sender))
}

fn build(
    law: LawName,
    protocol: &'static str,
    config: &EndpointConfig,
) -> Result<Box<dyn Endpoint + Send>, SetupError> {
    let options = Options::read(law, protocol, &config.parameters)?;
    Ok(match config.role {
        Role::Sender => Box::new(TcpSender::new(sender::Tcp::new(config, options), config)),
        Role::Receiver => Box::new(TcpReceiver::new(receiver::Tcp::new(config, law, options))),
    })
}
