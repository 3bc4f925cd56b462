//! The endpoints of a server: each made when a client first asks for its protocol.

use inhaul_base::Bitrate;
use inhaul_protocols::registry::Protocols;
use inhaul_transport::{Command, EndpointConfig, Role};
use inhaul_udp::Socket;

use crate::api::error::MoveError;
use crate::engine::net::{self, Transport};
use crate::engine::{EndpointId, Engine};
use crate::system::process;

/// Most endpoints that are made: all that come in are shown to each.
const MADE_MAX: usize = 64;

/// Endpoints over one socket, by role and protocol. They share the socket: each knows its own datagrams by their keys.
pub(crate) struct Endpoints {
    protocols: Protocols,
    socket_buffer: u64,
    /// Secret of all challenges that this host makes.
    challenge_seed: u64,
    /// What this host sends and takes in at most. Holds for each protocol by itself.
    send_rate: Option<Bitrate>,
    receive_rate: Option<Bitrate>,
    made: Vec<(Role, Transport, EndpointId)>,
}

impl Endpoints {
    /// No endpoint yet, over `socket`, of any of these protocols.
    pub(crate) fn new(
        protocols: Protocols,
        socket: &Socket,
        send_rate: Option<Bitrate>,
        receive_rate: Option<Bitrate>,
    ) -> Result<Self, MoveError> {
        Ok(Self {
            protocols,
            socket_buffer: socket.receive_buffer_bytes() as u64,
            challenge_seed: process::random_u64()?,
            send_rate,
            receive_rate,
            made: Vec::new(),
        })
    }

    /// The secret of all challenges.
    pub(crate) fn challenge_seed(&self) -> u64 {
        self.challenge_seed
    }

    /// The endpoint that plays `role` of a protocol. Senders take the parameters of each flow by itself; of receivers
    /// there is one for all flows of the same parameters.
    pub(crate) fn of(&mut self, engine: &mut Engine, role: Role, wanted: &Transport) -> Result<EndpointId, MoveError> {
        let mut transport = wanted.clone();
        if role == Role::Sender {
            transport.parameters = Vec::new().into();
        }
        if let Some(&(_, _, endpoint)) = self.made.iter().find(|made| made.0 == role && made.1 == transport) {
            return Ok(endpoint);
        }
        if self.made.len() >= MADE_MAX {
            return Err(MoveError::Usage("clients have asked for too many different parameters at once".to_owned()));
        }
        let host_rate = if role == Role::Sender { self.send_rate } else { self.receive_rate };
        let config = EndpointConfig {
            host_rate,
            socket_buffer_bytes: self.socket_buffer,
            challenge_seed: self.challenge_seed,
            parameters: transport.parameters.to_vec(),
            ..EndpointConfig::new(role, process::random_u64()?)
        };
        let endpoint = engine.add_endpoint(role, net::endpoint(self.protocols, transport.name, &config)?);
        self.made.push((role, transport, endpoint));
        Ok(endpoint)
    }

    /// Changes what this host sends at most, for all protocols, now and later.
    pub(crate) fn limit_send(&mut self, engine: &mut Engine, rate: Bitrate) {
        if self.send_rate == Some(rate) {
            return;
        }
        self.send_rate = Some(rate);
        for (_, _, endpoint) in self.made.iter().filter(|made| made.0 == Role::Sender) {
            engine.command(*endpoint, Command::LimitSend(Some(rate)));
        }
    }
}
