//! UDT: a rate that is adapted each 10 ms, selective negative acknowledgements, few positive ones (udt-2004,
//! draft-gg-udt-03).
//!
//! PROTOCOL.md in this folder specifies it. [`core`] is UDT itself; the rest carries it in inhaul's datagrams and has
//! it serve the ranges that a receiver asks for. It does not interoperate with libudt.

mod control_name;
pub mod core;
mod options;
mod receiver;
mod sender;
pub mod wire;

use inhaul_transport::{Channels, Endpoint, EndpointConfig, Offloads, Protocol, Role, SetupError};

pub use control_name::ControlName;
use options::Options;
use receiver::UdtReceiver;
use sender::UdtSender;

/// The registry entry.
pub const PROTOCOL: Protocol = Protocol {
    name: options::NAME,
    summary: "UDT: its rate rises each 10 ms by the capacity that is left, and falls by a ninth at a loss",
    channels: Channels::DatagramsAndControl,
    offloads: Offloads::Any,
    parameters: options::PARAMETERS,
    colour: "#117733",
    predict: None,
    build,
};

fn build(config: &EndpointConfig) -> Result<Box<dyn Endpoint + Send>, SetupError> {
    let options = Options::read(&config.parameters)?;
    Ok(match config.role {
        Role::Sender => Box::new(UdtSender::new(sender::Udt::new(config, options), config)),
        Role::Receiver => Box::new(UdtReceiver::new(receiver::Udt::new(config, options))),
    })
}
