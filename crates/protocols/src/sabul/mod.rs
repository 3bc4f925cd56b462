//! SABUL, Simple Available Bandwidth Utilization Library (Grossman and others 2002 and 2003): data over UDP at a rate
//! that the sender adapts to loss, control over TCP.
//!
//! PROTOCOL.md in this folder specifies it.

mod laws;
mod receiver;
mod sender;
pub mod wire;

use inhaul_transport::{Channels, Endpoint, EndpointConfig, Offloads, Parameter, Protocol, Role, SetupError};

pub use laws::{LawName, RateLaw, Rc, Sabul2, Sabul2002};
use receiver::SabulReceiver;
use sender::SabulSender;

const LAWS: &str = "sabul-2 | sabul-rc | sabul-2002";

/// The registry entry.
pub const SABUL: Protocol = Protocol {
    name: "sabul",
    summary: "SABUL: UDP at a rate that the sender adapts to loss, by one of three published laws",
    channels: Channels::DatagramsAndControl,
    offloads: Offloads::Any,
    parameters: &[Parameter {
        name: "law",
        unit: LAWS,
        default: "sabul-2",
        summary: "How the sender adapts its rate: as in release 2.0, in the paper on rate control, or in the first \
                  paper; set at the receiver",
    }],
    colour: "#44aa99",
    predict: None,
    build,
};

fn build(config: &EndpointConfig) -> Result<Box<dyn Endpoint + Send>, SetupError> {
    let mut law = LawName::Sabul2;
    for (name, value) in &config.parameters {
        if name != "law" {
            return Err(SetupError::UnknownParameter { protocol: SABUL.name, name: name.clone(), known: "law".into() });
        }
        let found = LawName::ALL.into_iter().find(|law| law.name() == value);
        let (protocol, value) = (SABUL.name, value.clone());
        law = found.ok_or(SetupError::BadValue { protocol, name: "law", value, expected: LAWS })?;
    }
    Ok(match config.role {
        Role::Sender => Box::new(SabulSender::new(sender::Sabul, config)),
        Role::Receiver => Box::new(SabulReceiver::new(receiver::Sabul::new(config, law))),
    })
}
