//! The registry's description of a protocol.
//!
//! A protocol with a foreign wire format gets a port of its own, and datagrams as they are, without an envelope. A
//! protocol that measures the time between datagrams says so (`Protocol::offloads`, `TxDatagram::alone`): then nothing
//! is cut or joined on its way. A protocol whose time can be computed has a model (`Protocol::predict`), which `inhaul
//! plan` prints beside its measurement.

use inhaul_base::{Bitrate, Probability, Span};

use crate::{Endpoint, PathSpec};

/// Which side of a transfer an endpoint plays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Has objects and serves them.
    Sender,
    /// Fetches objects.
    Receiver,
}

/// The channels that a protocol needs to its peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channels {
    /// Datagrams alone.
    Datagrams,
    /// Datagrams and a reliable ordered stream of messages for each flow.
    DatagramsAndControl,
}

/// Offloads of the network stack that a protocol's datagrams allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offloads {
    /// It may cut and join datagrams: several leave, and come in, as one message.
    Any,
    /// Each datagram comes in on its own, with its own time of arrival: the receiver measures the time between them.
    None,
}

/// A protocol's parameter that a user can set.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// Its name, as written on a command line.
    pub name: &'static str,
    /// Its unit or its legal values.
    pub unit: &'static str,
    /// Its default.
    pub default: &'static str,
    /// Its effect, in a sentence.
    pub summary: &'static str,
}

/// Configuration of every endpoint.
#[derive(Clone, Debug)]
pub struct EndpointConfig {
    /// Which side it plays.
    pub role: Role,
    /// Seed of its random streams.
    pub seed: u64,
    /// Secret of its challenges (kit/WIRE.md section 6). A port that answers probes before there is a flow has the
    /// same.
    pub challenge_seed: u64,
    /// The capacity of this host for receiving or sending, all flows together, if known (C_r or R_send), headers
    /// included.
    pub host_rate: Option<Bitrate>,
    /// Limit of each flow (R_app), if the user set one for all of them, headers included. A flow's own limits hold as
    /// well.
    pub flow_rate: Option<Bitrate>,
    /// Bytes that this host's socket buffers hold for one flow: what may arrive while the program does something else.
    pub socket_buffer_bytes: u64,
    /// The protocol's own parameters, by name.
    pub parameters: Vec<(String, String)>,
}

impl EndpointConfig {
    /// A configuration with nothing known and nothing set.
    pub fn new(role: Role, seed: u64) -> Self {
        // 208 KiB is the default size for a socket in Linux.
        Self {
            role,
            seed,
            challenge_seed: seed,
            host_rate: None,
            flow_rate: None,
            socket_buffer_bytes: 208 * 1024,
            parameters: Vec::new(),
        }
    }
}

/// Why an endpoint could not be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SetupError {
    /// There is no such parameter.
    #[error("{protocol} has no parameter '{name}'; it has: {known}")]
    UnknownParameter {
        /// The protocol.
        protocol: &'static str,
        /// The parameter.
        name: String,
        /// What could be set.
        known: String,
    },
    /// The parameter's value is not legal.
    #[error("'{value}' is no value for {protocol}'s parameter '{name}': {expected}")]
    BadValue {
        /// The protocol.
        protocol: &'static str,
        /// The parameter.
        name: &'static str,
        /// The given value.
        value: String,
        /// The legal values.
        expected: &'static str,
    },
    /// It cannot work without a value, and none is known.
    #[error("{protocol} needs its parameter '{name}': {how}")]
    Missing {
        /// The protocol.
        protocol: &'static str,
        /// The parameter.
        name: &'static str,
        /// Why, and how it is given.
        how: &'static str,
    },
}

/// Conditions of a transfer that a model of its protocol needs.
#[derive(Clone, Copy, Debug)]
pub struct Conditions {
    /// Bytes to fetch.
    pub bytes: u64,
    /// Flows that bring them at the same time.
    pub flows: u64,
    /// Round-trip time.
    pub rtt: Span,
    /// Part of the data packets that is lost.
    pub loss: Probability,
    /// The overhead of a packet.
    pub path: PathSpec,
}

/// A registry entry: the only description of a protocol for the rest of the program.
pub struct Protocol {
    /// Its name, as written on a command line.
    pub name: &'static str,
    /// Its description, in a sentence.
    pub summary: &'static str,
    /// The channels that it needs to its peer.
    pub channels: Channels,
    /// Offloads that its datagrams allow.
    pub offloads: Offloads,
    /// Its parameters.
    pub parameters: &'static [Parameter],
    /// Its colour in plots, as `#rrggbb`.
    pub colour: &'static str,
    /// A model of a transfer's duration, if the protocol has one that is worth comparing with measurements. It takes a
    /// receiver's configuration, and returns nothing for conditions outside its range.
    pub predict: Option<fn(&EndpointConfig, &Conditions) -> Option<Span>>,
    /// Builds an endpoint.
    pub build: fn(&EndpointConfig) -> Result<Box<dyn Endpoint + Send>, SetupError>,
}
