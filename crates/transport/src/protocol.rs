//! What a registry entry says of a protocol.

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

/// What a protocol needs to reach its peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channels {
    /// Datagrams alone.
    Datagrams,
    /// Datagrams and a reliable ordered stream of messages for each flow.
    DatagramsAndControl,
}

/// What the network stack may do for a protocol's datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offloads {
    /// It may cut and join datagrams: several leave, and come in, as one message.
    Any,
    /// Each datagram comes in by itself, with a time of arrival of its own: the receiver looks at the time between
    /// them.
    None,
}

/// A protocol's parameter that a user can set.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// Its name, as written on a command line.
    pub name: &'static str,
    /// Its unit or its legal values.
    pub unit: &'static str,
    /// What it is when not set.
    pub default: &'static str,
    /// What it does, in a sentence.
    pub summary: &'static str,
}

/// What every endpoint is built from.
#[derive(Clone, Debug)]
pub struct EndpointConfig {
    /// Which side it plays.
    pub role: Role,
    /// Seed of its random streams.
    pub seed: u64,
    /// Secret of its challenges (kit/WIRE.md section 6). A port that answers probes before there is a flow has the
    /// same.
    pub challenge_seed: u64,
    /// What this host can take in or send, all flows together, when somebody knows it (C_r or R_send), headers
    /// included.
    pub host_rate: Option<Bitrate>,
    /// What each flow may take at most (R_app), when its user set that for all of them, headers included. A flow's own
    /// limits hold beside it.
    pub flow_rate: Option<Bitrate>,
    /// Bytes that this host's socket buffers hold for one flow: what may arrive while the program does something else.
    pub socket_buffer_bytes: u64,
    /// The protocol's own parameters, by name.
    pub parameters: Vec<(String, String)>,
}

impl EndpointConfig {
    /// A configuration with nothing known and nothing set.
    pub fn new(role: Role, seed: u64) -> Self {
        // 208 KiB is what a stock Linux gives a socket.
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
        /// What was set.
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
        /// What it was set to.
        value: String,
        /// What would have been legal.
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

/// What a transfer meets, as far as a model of its protocol asks for it.
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
    /// What a packet costs.
    pub path: PathSpec,
}

/// A registry entry: all that the rest of the house knows of a protocol.
pub struct Protocol {
    /// Its name, as written on a command line.
    pub name: &'static str,
    /// What it is, in a sentence.
    pub summary: &'static str,
    /// What it needs to reach its peer.
    pub channels: Channels,
    /// What the network stack may do for it.
    pub offloads: Offloads,
    /// What can be set.
    pub parameters: &'static [Parameter],
    /// Its colour in plots, as `#rrggbb`.
    pub colour: &'static str,
    /// A model of how long a transfer takes, where the protocol has one that is worth comparing with measurements. It
    /// takes a receiver's configuration, and says nothing about conditions outside its range.
    pub predict: Option<fn(&EndpointConfig, &Conditions) -> Option<Span>>,
    /// Builds an endpoint.
    pub build: fn(&EndpointConfig) -> Result<Box<dyn Endpoint + Send>, SetupError>,
}
