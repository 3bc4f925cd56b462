//! A listener of ours, a client of libudt, and an attacker between them who sends forged packets.

use std::net::UdpSocket;
use std::sync::{Arc, Mutex};

use inhaul_base::RandomStream;
use inhaul_fuzz::Mutator;
use inhaul_udt4::wire::{
    Control, ControlBody, HEADER_LEN, Handshake, HandshakeKind, Packet, Sequence, SocketId, Stamp,
};
use inhaul_udt4::{Endpoint, Kind, Socket};

use crate::peer::{Peer, program};
use crate::relay::{Forged, Harm, Relay, Tap};
use crate::{accept, bytes, endpoint, local, same};

/// Datagrams of the client that are kept to be used again.
const KEPT: usize = 512;

/// The attacker's knowledge.
#[derive(Clone, Copy, PartialEq)]
enum Knows {
    /// It knows neither the socket id of our end nor the form of the client's address, but it sees and repeats all
    /// packets.
    Little,
    /// Everything that the client knows. UDT has nothing against that.
    Everything,
}

struct Attacker {
    random: RandomStream,
    mutator: Mutator,
    knows: Knows,
    seen: Vec<Vec<u8>>,
    next: usize,
    sent: usize,
}

impl Attacker {
    fn new(seed: u64, knows: Knows) -> Arc<Mutex<Self>> {
        let (random, mutator) = (RandomStream::new(seed, 7), Mutator::new(seed, 8, vec![shutdown(), cookie_shown(1)]));
        Arc::new(Mutex::new(Self { random, mutator, knows, seen: Vec::new(), next: 0, sent: 0 }))
    }

    /// A datagram that the client sent, lately or long ago.
    fn kept(&mut self) -> Vec<u8> {
        let at = self.random.below(self.seen.len().max(1) as u64) as usize;
        self.seen.get(at).cloned().unwrap_or_default()
    }

    fn forgery(&mut self) -> Forged {
        let mut datagram = self.kept();
        let is_data = datagram.first().is_some_and(|byte| byte & 0x80 == 0);
        let choices = if self.knows == Knows::Everything { 8 } else { 6 };
        let mut from_client = true;
        match self.random.below(choices) {
            // Replayed.
            0 => {}
            // Truncated: the rest of a data packet would still be data.
            1 => datagram.truncate(self.random.below(if is_data { HEADER_LEN as u64 + 1 } else { 80 }) as usize),
            // Malformed, for an end that is not there.
            2 => {
                datagram = self.mutator.next_input();
                datagram.resize(datagram.len().clamp(HEADER_LEN, 1472), 0);
                datagram[12..16].copy_from_slice(&(self.random.next_u64() as u32 >> 1).to_be_bytes());
            }
            // A guessed cookie.
            3 => datagram = cookie_shown(self.random.next_u64() as u32),
            // All that the client could say, from elsewhere.
            4 => (datagram, from_client) = (self.with_name(shutdown()), false),
            5 => (datagram, from_client) = (self.mutated(), false),
            _ => datagram = self.mutated(),
        }
        self.sent += 1;
        Forged { datagram, from_client }
    }

    /// With the socket id of our end, from the client's packets.
    fn with_name(&self, mut datagram: Vec<u8>) -> Vec<u8> {
        if let (Some(name), Some(at)) = (self.seen.last().and_then(|seen| seen.get(12..16)), datagram.get_mut(12..16)) {
            at.copy_from_slice(name);
        }
        datagram
    }

    /// A control packet of the client with other words behind its header: data would be believed.
    fn mutated(&mut self) -> Vec<u8> {
        let mut datagram = self.kept();
        if let Some(first) = datagram.first_mut() {
            *first |= 0x80;
        }
        for _ in 0..=self.random.below(4) {
            let at = self.random.below(datagram.len().max(1) as u64) as usize;
            if !(12..16).contains(&at)
                && let Some(byte) = datagram.get_mut(at.max(1))
            {
                *byte = self.random.next_u64() as u8;
            }
        }
        datagram
    }
}

impl Tap for Attacker {
    fn see(&mut self, to_server: bool, datagram: &[u8]) {
        if to_server {
            if self.seen.len() < KEPT {
                self.seen.push(datagram.to_vec());
            } else {
                self.seen[self.next % KEPT] = datagram.to_vec();
            }
            self.next += 1;
        }
    }

    fn forge(&mut self) -> Vec<Forged> {
        (0..self.random.below(3)).map(|_| self.forgery()).collect()
    }
}

fn control(body: ControlBody<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    Packet::Control(Control { stamp: Stamp { timestamp: 0, destination: None }, body }).emit(&mut bytes);
    bytes
}

fn shutdown() -> Vec<u8> {
    control(ControlBody::Shutdown)
}

/// A client's handshake that shows a cookie; 0 asks for one.
fn cookie_shown(cookie: u32) -> Vec<u8> {
    control(ControlBody::Handshake(Handshake {
        version: 4,
        kind: Some(Kind::Stream),
        initial_sequence: Sequence::truncate(u64::from(cookie)),
        mss: 1500,
        window: 8192,
        step: if cookie == 0 { HandshakeKind::Request } else { HandshakeKind::Agreement },
        socket: SocketId::new(5).unwrap(),
        cookie,
        peer: [0; 4],
    }))
}

/// A client of libudt that comes through a relay, with somebody at its side; and our end of the connection.
fn attacked(
    endpoint: &Endpoint,
    attacker: &Arc<Mutex<Attacker>>,
    seed: u64,
    size: &str,
) -> Option<(Relay, Peer, Socket)> {
    let program = program()?;
    let incoming = endpoint.listen(10).unwrap();
    let relay = Relay::tapped(endpoint.local_address().port(), Harm::NONE, seed, attacker);
    let peer = Peer::start(program, &["connect", "stream", "0", &relay.port().to_string(), "echo", size]);
    let socket = accept(&incoming);
    assert_eq!(endpoint.connections(), 1, "no other client has come in");
    Some((relay, peer, socket))
}

#[test]
fn who_sees_everything_and_cannot_take_the_address_changes_nothing() {
    for seed in [1, 2, 3] {
        let (endpoint, attacker) = (endpoint(Kind::Stream), Attacker::new(seed, Knows::Little));
        let Some((_relay, peer, socket)) = attacked(&endpoint, &attacker, seed, "3000000") else { return };
        let data = bytes(3_000_000, seed);
        socket.write_all(&data).unwrap();
        let mut back = vec![0; data.len()];
        socket.read_exact(&mut back).unwrap();
        same(&back, &data);
        peer.finish();
        let sent = attacker.lock().unwrap().sent;
        println!("{sent} forged datagrams; {:?}", socket.statistics());
        assert!(sent > 500, "{sent}");
        assert_eq!(endpoint.connections(), 1, "no other client has come in");
    }
}

/// The end of a transfer whose packets an attacker saw.
fn outcome(socket: &Socket, data: &[u8]) -> String {
    if let Err(error) = socket.write_all(data) {
        return format!("the write: {error}");
    }
    let mut back = vec![0; data.len()];
    match socket.read_exact(&mut back) {
        Ok(()) => {
            same(&back, data);
            "bit-exact".to_owned()
        }
        Err(error) => format!("the read: {error}"),
    }
}

#[test]
fn who_knows_everything_ends_a_connection_at_most() {
    let Some(program) = program() else { return };
    for seed in 1..=6 {
        let (endpoint, attacker) = (endpoint(Kind::Stream), Attacker::new(seed, Knows::Everything));
        {
            let Some((_relay, _peer, socket)) = attacked(&endpoint, &attacker, seed, "1000000") else { return };
            let patience = Some(inhaul_base::Span::from_secs(4));
            socket.set_read_timeout(patience);
            socket.set_write_timeout(patience);
            let ended = outcome(&socket, &bytes(1_000_000, seed));
            println!("{} forged datagrams; {ended}", attacker.lock().unwrap().sent);
        }
        // The port serves the next client as if nothing had been.
        let incoming = endpoint.listen(10).unwrap();
        let port = endpoint.local_address().port().to_string();
        let peer = Peer::start(program, &["connect", "stream", "0", &port, "echo", "100000"]);
        let (socket, data) = (accept(&incoming), bytes(100_000, seed));
        assert_eq!(outcome(&socket, &data), "bit-exact");
        peer.finish();
    }
}

#[test]
fn a_client_that_shows_no_cookie_costs_nothing() {
    let Some(program) = program() else { return };
    let endpoint = endpoint(Kind::Stream);
    let incoming = endpoint.listen(10).unwrap();
    let port = endpoint.local_address().port();
    let mut mutator = Mutator::new(1, 9, vec![cookie_shown(0), cookie_shown(1), shutdown()]);
    for stranger in 0..50 {
        let socket = UdpSocket::bind(local(0)).unwrap();
        for n in 0..100 {
            let mut datagram = if n % 3 == 0 { mutator.next_input() } else { cookie_shown(stranger * n) };
            datagram.truncate(1472);
            socket.send_to(&datagram, local(port)).unwrap();
        }
        assert_eq!(endpoint.connections(), 0);
    }
    let peer = Peer::start(program, &["connect", "stream", "0", &port.to_string(), "echo", "100000"]);
    let (socket, data) = (accept(&incoming), bytes(100_000, 1));
    assert_eq!((outcome(&socket, &data), endpoint.connections()), ("bit-exact".to_owned(), 1));
    peer.finish();
}
