//! A whole port of UDT 4 with arbitrary input: handshakes, connections of its own and of clients, and their ends.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use inhaul_base::{Span, Time};
use inhaul_udt4::fuzzing::Port;
use inhaul_udt4::wire::{
    Control, ControlBody, HEADER_LEN, Handshake, HandshakeKind, Packet, Sequence, SocketId, Stamp,
};
use inhaul_udt4::{Kind, Options};

/// Most steps of a script.
const STEPS_MAX: usize = 200;
/// Most connections of the port.
const CONNECTIONS_MAX: usize = 4;
/// Most clients that wait to be accepted.
const BACKLOG: usize = 2;
/// Most datagrams sent at one instant; more would mean an endless loop.
const INSTANT_MAX: usize = 20_000;
/// The position of a handshake's cookie.
const COOKIE: std::ops::Range<usize> = HEADER_LEN + 28..HEADER_LEN + 32;

/// The rest of the world, and its observations of the port.
struct World {
    port: Port,
    now: Time,
    /// Cookies given to each address.
    cookies: BTreeMap<SocketAddr, BTreeSet<u32>>,
    last_cookie: BTreeMap<SocketAddr, u32>,
    /// The port's socket id for each address, as it told.
    ids: BTreeMap<SocketAddr, SocketId>,
    sockets: Vec<SocketId>,
    /// Bytes received from each address, and sent to it.
    exchanged: BTreeMap<SocketAddr, (usize, usize)>,
    /// Addresses that have shown a cookie, or that the port itself has contacted.
    proved: BTreeSet<SocketAddr>,
    /// Most connections allowed: shown cookies, and own connections.
    allowed: usize,
    last: Option<(SocketAddr, Vec<u8>)>,
    sent: Option<(SocketAddr, Vec<u8>)>,
}

/// A script of steps of four bytes. Some deliver the bytes behind them. Accepted if a client was let in.
pub fn udt4_port(data: &[u8]) -> bool {
    let Some((&kind, mut rest)) = data.split_first() else { return false };
    let kind = if kind % 2 == 0 { Kind::Stream } else { Kind::Message };
    let options = Options {
        kind,
        send_buffer: 16,
        receive_buffer: 16,
        connections_max: CONNECTIONS_MAX,
        linger: Span::from_secs(2),
        ..Options::default()
    };
    let mut world = World {
        port: Port::new(options, BACKLOG),
        now: Time::ZERO + Span::from_secs(1),
        cookies: BTreeMap::new(),
        last_cookie: BTreeMap::new(),
        ids: BTreeMap::new(),
        sockets: Vec::new(),
        exchanged: BTreeMap::new(),
        proved: BTreeSet::new(),
        allowed: 0,
        last: None,
        sent: None,
    };
    let mut accepted = false;
    for _ in 0..STEPS_MAX {
        let Some((&[op, a, b, c], behind)) = rest.split_first_chunk() else { break };
        rest = behind;
        let from = address(a);
        match op % 12 {
            0 => world.bring_handshake(from, HandshakeKind::Request, kind, b, c),
            1 => world.bring_handshake(from, HandshakeKind::Agreement, kind, b, c),
            2..=5 => {
                let (bytes, behind) = rest.split_at(rest.len().min(b.into()));
                rest = behind;
                world.bring(from, bytes, c);
            }
            6 => world.pass(Span::from_nanos(1 << (b % 36))),
            7 => world.repeat(a, b),
            8 => world.connect(from, b % 2 == 1),
            9 => world.use_sockets(b),
            10 => world.release(b),
            _ => accepted |= world.accept(),
        }
        world.settle();
    }
    accepted
}

fn address(a: u8) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, 1], 9000 + u16::from(a % 6)))
}

impl World {
    /// A sensible handshake, except for changes chosen by `b` and `c`.
    fn bring_handshake(&mut self, from: SocketAddr, step: HandshakeKind, kind: Kind, b: u8, c: u8) {
        let Some(socket) = SocketId::new(1 + u32::from(b % 3)) else { return };
        let cookie = self.last_cookie.get(&from).copied().unwrap_or(0);
        let handshake = Handshake {
            version: 4,
            kind: Some(kind).filter(|_| c != 1),
            initial_sequence: Sequence::truncate(if c == 2 { u64::from(u32::MAX) } else { 16 }),
            mss: if c == 3 { u16::from(b) } else { 200 },
            window: if c == 4 { 1 } else { 16 },
            step,
            socket,
            cookie: if c == 5 { cookie ^ 1 } else { cookie },
            peer: [0; 4],
        };
        let stamp = Stamp { timestamp: 0, destination: None };
        let mut bytes = Vec::new();
        Packet::Control(Control { stamp, body: ControlBody::Handshake(handshake) }).emit(&mut bytes);
        self.deliver(from, bytes);
    }

    /// Arbitrary bytes, with the id of a connection or the cookie by choice.
    fn bring(&mut self, from: SocketAddr, bytes: &[u8], c: u8) {
        let mut bytes = bytes.to_vec();
        if c & 1 != 0
            && let (Some(id), Some(at)) = (self.ids.get(&from), bytes.get_mut(12..16))
        {
            at.copy_from_slice(&id.get().to_be_bytes());
        }
        if c & 2 != 0
            && let (Some(cookie), Some(at)) = (self.last_cookie.get(&from), bytes.get_mut(COOKIE))
        {
            at.copy_from_slice(&cookie.to_be_bytes());
        }
        self.deliver(from, bytes);
    }

    /// A datagram arrives again, from another address; or one that the port itself has sent.
    fn repeat(&mut self, a: u8, b: u8) {
        let again = if b.is_multiple_of(2) { &self.last } else { &self.sent };
        if let Some((from, bytes)) = again.clone() {
            self.deliver(if b & 2 == 0 { from } else { address(a) }, bytes);
        }
    }

    fn deliver(&mut self, from: SocketAddr, bytes: Vec<u8>) {
        self.exchanged.entry(from).or_default().0 += bytes.len();
        let cookie = bytes.get(COOKIE).and_then(|bytes| bytes.first_chunk()).map(|bytes| u32::from_be_bytes(*bytes));
        if cookie.is_some_and(|cookie| self.cookies.get(&from).is_some_and(|given| given.contains(&cookie))) {
            self.proved.insert(from);
            self.allowed += 1;
        }
        self.port.handle(from, &bytes, self.now);
        self.last = Some((from, bytes));
    }

    /// Time passes. Due timers fire first.
    fn pass(&mut self, span: Span) {
        self.now = self.port.deadline().max(self.now).min(self.now + span);
        self.settle();
        self.now += span;
    }

    fn connect(&mut self, to: SocketAddr, rendezvous: bool) {
        if let Some(id) = self.port.connect(to, rendezvous, self.now) {
            self.allowed += 1;
            self.proved.insert(to);
            self.ids.insert(to, id);
            self.sockets.push(id);
        }
    }

    fn accept(&mut self) -> bool {
        let id = self.port.accept();
        self.sockets.extend(id);
        id.is_some()
    }

    fn use_sockets(&mut self, b: u8) {
        let lifetime = b.is_multiple_of(4).then_some(Span::from_millis(b.into()));
        for id in &self.sockets {
            let now = self.now;
            self.port.with(*id, now, |connection| {
                let _ = (connection.take_message(), connection.read(&mut [0; 300]));
                let _ = match connection.kind() {
                    Kind::Stream => connection.write(&[b; 500]).is_ok(),
                    Kind::Message => connection.send_message(&[b; 500], lifetime, b.is_multiple_of(2), now).is_ok(),
                };
            });
        }
    }

    fn release(&mut self, b: u8) {
        if b == 0 {
            self.port.listen_again(self.now);
        } else if !self.sockets.is_empty() {
            let id = self.sockets.swap_remove(usize::from(b) % self.sockets.len());
            self.port.release(id, self.now);
        }
    }

    /// The port sends what is due, and its promises are checked.
    fn settle(&mut self) {
        let mut count = 0;
        loop {
            let sent = self.port.transmit(self.now);
            if sent.is_empty() {
                break;
            }
            count += sent.len();
            assert!(count < INSTANT_MAX, "it sends for ever");
            for (to, bytes) in sent {
                self.note(to, bytes);
            }
        }
        let (open, most) = (self.port.connections(), self.allowed.min(CONNECTIONS_MAX));
        assert!(open <= most, "{open} connections, of which {most} may be");
        assert!(self.port.deadline() > self.now, "it has something to do and does nothing");
    }

    fn note(&mut self, to: SocketAddr, bytes: Vec<u8>) {
        let (came, went) = self.exchanged.entry(to).or_default();
        *went += bytes.len();
        assert!(self.proved.contains(&to) || *went <= *came, "{went} bytes for {came} to a stranger");
        match Packet::parse(&bytes) {
            Ok(Packet::Control(Control { body: ControlBody::Handshake(handshake), .. })) => match handshake.step {
                HandshakeKind::Request => {
                    self.cookies.entry(to).or_default().insert(handshake.cookie);
                    self.last_cookie.insert(to, handshake.cookie);
                }
                _ => drop(self.ids.insert(to, handshake.socket)),
            },
            Ok(_) => {}
            Err(error) => panic!("it sends no packet: {error}"),
        }
        self.sent = Some((to, bytes));
    }
}

pub(super) fn scripts() -> Vec<Vec<u8>> {
    // A client connects, sends packets of all kinds, and leaves; the port connects, also by rendezvous; time passes.
    let packets: Vec<u8> = super::udt4::packets()
        .into_iter()
        .flat_map(|packet| [&[2, 1, packet.len() as u8, 1][..], &packet, &[6, 0, 23, 0]].concat())
        .collect();
    let (knock, show, accept, write) = ([0, 1, 0, 0], [1, 1, 0, 0], [11, 0, 0, 0], [9, 0, 7, 0]);
    let comes_in = [knock, show, accept, write].concat();
    let (later, forget) = ([6, 0, 30, 0], [10, 0, 1, 0]);
    let connects = [[8, 1, 0, 0], [6, 0, 28, 0], [8, 2, 1, 0], [7, 0, 1, 0]].concat();
    let script = |kind: u8, parts: &[&[u8]]| [&[kind][..], &parts.concat()].concat();
    vec![
        script(0, &[&comes_in, &packets, &later, &forget, &later, &later]),
        script(1, &[&comes_in, &packets, &write, &packets, &forget]),
        script(0, &[&comes_in, &connects, &later, &packets]),
        script(1, &[&knock, &[7, 2, 3, 0], &show, &show, &[0, 2, 1, 0], &[1, 2, 1, 0], &accept, &accept, &packets]),
    ]
}
