//! The endpoints of a server: each made when a client first asks for its protocol.

use inhaul_base::Bitrate;
use inhaul_protocols::registry::Protocols;
use inhaul_transport::{Command, Endpoint, EndpointConfig, Role};
use inhaul_udp::Socket;

use crate::engine::net::{self, Transport};
use crate::engine::{EndpointId, Engine};
use inhaul_session::api::error::MoveError;
use inhaul_session::system::process;

/// Most endpoints that there are at a time. One that has no flow any more makes way for the next: what it has learnt of
/// its paths goes with it, so the one that was asked for longest ago goes first.
const MADE_MAX: usize = 64;

/// Endpoints over one socket, by role and protocol. They share the socket: each knows its own datagrams by their keys.
pub struct Endpoints {
    protocols: Protocols,
    socket_buffer: u64,
    /// Secret of all challenges that this host makes.
    challenge_seed: u64,
    /// What this host sends and takes in at most. Holds for each protocol by itself.
    send_rate: Option<Bitrate>,
    receive_rate: Option<Bitrate>,
    /// The one that was asked for last stands last.
    made: Vec<(Role, Transport, EndpointId)>,
}

impl Endpoints {
    /// No endpoint yet, over `socket`, of any of these protocols.
    pub fn new(
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
    pub fn challenge_seed(&self) -> u64 {
        self.challenge_seed
    }

    /// The endpoint that plays `role` of a protocol. Senders take the parameters of each flow by itself; of receivers
    /// there is one for all flows of the same parameters.
    pub fn of(&mut self, engine: &mut Engine, role: Role, wanted: &Transport) -> Result<EndpointId, MoveError> {
        let mut transport = wanted.clone();
        if role == Role::Sender {
            transport.parameters = Vec::new().into();
        }
        if let Some(index) = self.made.iter().position(|made| made.0 == role && made.1 == transport) {
            let made = self.made.remove(index);
            let endpoint = made.2;
            self.made.push(made);
            return Ok(endpoint);
        }
        let host_rate = if role == Role::Sender { self.send_rate } else { self.receive_rate };
        let config = EndpointConfig {
            host_rate,
            socket_buffer_bytes: self.socket_buffer,
            challenge_seed: self.challenge_seed,
            parameters: transport.parameters.to_vec(),
            ..EndpointConfig::new(role, process::random_u64()?)
        };
        let endpoint = net::endpoint(self.protocols, transport.name, &config)?;
        let endpoint = if self.made.len() < MADE_MAX {
            engine.add_endpoint(role, endpoint)
        } else {
            self.replace_one(engine, role, endpoint)?
        };
        self.made.push((role, transport, endpoint));
        Ok(endpoint)
    }

    /// Puts an endpoint into the place of one that has no flow any more.
    fn replace_one(
        &mut self,
        engine: &mut Engine,
        role: Role,
        endpoint: Box<dyn Endpoint + Send>,
    ) -> Result<EndpointId, MoveError> {
        let Some(index) = self.made.iter().position(|made| engine.is_free_of_flows(made.2)) else {
            let text = format!("sessions of {MADE_MAX} different parameters are open, and no more may be");
            return Err(MoveError::Usage(text));
        };
        let (_, _, id) = self.made.remove(index);
        engine.replace_endpoint(id, role, endpoint);
        Ok(id)
    }

    /// Changes what this host sends at most, for all protocols, now and later.
    pub fn limit_send(&mut self, engine: &mut Engine, rate: Bitrate) {
        if self.send_rate == Some(rate) {
            return;
        }
        self.send_rate = Some(rate);
        for (_, _, endpoint) in self.made.iter().filter(|made| made.0 == Role::Sender) {
            engine.command(*endpoint, Command::LimitSend(Some(rate)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::port::Port;
    use inhaul_session::api::options::NetOptions;
    use inhaul_session::session::control_stream::ControlStream;
    use inhaul_session::system::sockets;
    use std::net::{TcpListener, TcpStream};

    fn transport(n: usize) -> Transport {
        Transport { name: "reno", parameters: vec![("segment".to_owned(), (256 + n).to_string())].into() }
    }

    #[test]
    fn endpoints_without_flows_make_way_and_those_with_flows_stay() {
        let net = NetOptions::default();
        let mut engine = Engine::new().unwrap();
        let socket = sockets::bind_shared(&net, "127.0.0.1:0".parse().unwrap()).unwrap();
        let mut endpoints = Endpoints::new(Protocols::ALL, &socket, None, None).unwrap();
        let port = engine.add_port(Port::new(socket, false)).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let begin = |engine: &mut Engine, endpoint| {
            let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let stream = ControlStream::new(listener.accept().unwrap().0).unwrap();
            let flow = engine.new_flow();
            engine.add_flow(flow, endpoint, port, stream).unwrap();
            client
        };
        let busy = endpoints.of(&mut engine, Role::Receiver, &transport(0)).unwrap();
        let mut clients = vec![begin(&mut engine, busy)];
        // Whatever comes and goes, the one with a flow is the same, and the others are no more than there may be.
        for n in 1..3 * MADE_MAX {
            assert_ne!(endpoints.of(&mut engine, Role::Receiver, &transport(n)).unwrap(), busy);
        }
        assert_eq!(endpoints.made.len(), MADE_MAX);
        assert_eq!(endpoints.of(&mut engine, Role::Receiver, &transport(0)).unwrap(), busy);
        // The one that was asked for last is there still.
        let last = endpoints.of(&mut engine, Role::Receiver, &transport(3 * MADE_MAX - 1)).unwrap();
        let next = endpoints.of(&mut engine, Role::Receiver, &transport(1000)).unwrap();
        assert_ne!(next, last);
        let all: Vec<_> = endpoints.made.iter().map(|made| made.2).filter(|&made| made != busy).collect();
        clients.extend(all.into_iter().map(|endpoint| begin(&mut engine, endpoint)));
        let error = endpoints.of(&mut engine, Role::Receiver, &transport(2000)).unwrap_err().to_string();
        assert!(error.contains("64 different parameters"), "{error}");
        assert_eq!(endpoints.of(&mut engine, Role::Receiver, &transport(1000)).unwrap(), next);
    }
}
