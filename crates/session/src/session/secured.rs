//! A client's connection until it is secured, also on a path on which large packets vanish without a word: a path MTU
//! black hole (RFC 2923 2.1).
//!
//! TCP's own packets are small until the handshake, whose messages fill the largest. Where it does not come through, the
//! client connects again and asks for smaller packets, both ways: the limit is in its SYN (RFC 9293 3.7.1). Whichever
//! connection is secured first is taken, so a server that is merely slow costs nothing but a connection or two. The
//! kernel could find such paths by itself (RFC 4821), but only for all connections of the host:
//! `net.ipv4.tcp_mtu_probing`; a socket cannot ask for it.

use std::collections::BTreeMap;
use std::net::TcpStream;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::api::error::MoveError;
use crate::api::source::Server;
use crate::api::trust::Trust;
use crate::session::control_stream::{ControlStream, StreamError};
use crate::session::handshake::{ClientHandshake, HandshakeError};
use crate::session::tls::ClientSide;

/// When smaller packets are tried first.
pub const FIRST_TRY: Duration = Duration::from_secs(3);
/// When smaller packets are tried, since the beginning, and how small: what IPv6 carries at least (RFC 8200 5), and what
/// IPv4 does (RFC 791 3.1).
const SMALLER: [(Duration, u16); 2] = [(FIRST_TRY, 1280), (Duration::from_secs(6), 576)];
/// How long one of several connections is listened to before the next.
const LOOK: Duration = Duration::from_millis(20);
/// Most servers whose paths are remembered.
const SERVERS_MAX: usize = 1024;

/// Servers to which only small packets come through, and how large they may be, in bytes.
static SMALL: Mutex<BTreeMap<(String, u16), u16>> = Mutex::new(BTreeMap::new());

/// The largest packet that connections to `server` use, if something else than the interface bounds it: what the user
/// says, and what was found out.
pub fn packet_to(server: &Server, asked: Option<u16>) -> Option<u16> {
    let small = SMALL.lock().unwrap_or_else(PoisonError::into_inner);
    let found = small.get(&(server.host.clone(), server.port)).copied();
    asked.into_iter().chain(found).min()
}

/// Remembers that packets of more than `bytes` do not come through, and says so once.
fn remember(server: &Server, bytes: u16) {
    let mut small = SMALL.lock().unwrap_or_else(PoisonError::into_inner);
    let key = (server.host.clone(), server.port);
    let is_new = !small.contains_key(&key);
    if small.len() < SERVERS_MAX || !is_new {
        small.insert(key, bytes);
    }
    if is_new {
        log::warn!(
            "{server}: large packets of TCP vanish on the way, and nobody says so; connections use packets of {bytes} bytes \
             from now on. '--mtu {bytes}' does so from the start"
        );
    }
}

/// A connection on its way to be secured.
struct Attempt {
    stream: ControlStream,
    handshake: ClientHandshake,
    /// The largest packet that it may have.
    packet: Option<u16>,
}

/// How far an attempt has come.
enum Turn {
    Going,
    Ended(Result<(), HandshakeError>),
}

impl Attempt {
    fn begin(server: &Server, trust: &Trust, tcp: TcpStream, packet: Option<u16>) -> Result<Self, Failure> {
        let gone = |error: std::io::Error| MoveError::Unreachable { server: server.clone(), detail: error.to_string() };
        let mut stream = ControlStream::new(tcp).map_err(gone)?;
        let side = ClientSide::new(server, trust).map_err(HandshakeError::Distrust)?;
        let handshake = stream.begin_tls(side);
        Ok(Self { stream, handshake, packet })
    }

    fn go_on(&mut self, until: Instant) -> Turn {
        match self.stream.shake_hands(&mut self.handshake, until) {
            Err(HandshakeError::Stream(StreamError::TimedOut)) => Turn::Going,
            ended => Turn::Ended(ended),
        }
    }
}

/// Why there is no secure connection.
pub(crate) enum Failure {
    /// The server could not be reached.
    Unreached(MoveError),
    /// It was, and no handshake came about.
    Handshake(HandshakeError),
}

impl From<MoveError> for Failure {
    fn from(error: MoveError) -> Self {
        Self::Unreached(error)
    }
}

impl From<HandshakeError> for Failure {
    fn from(error: HandshakeError) -> Self {
        Self::Handshake(error)
    }
}

/// Connects to `server` by `dial`, which takes the largest packet that a connection may have, and secures the connection
/// within `patience`. `asked` is the largest packet that the user wants.
pub(crate) fn connect(
    server: &Server,
    trust: &Trust,
    asked: Option<u16>,
    patience: Duration,
    dial: impl Fn(Option<u16>) -> Result<TcpStream, MoveError>,
) -> Result<ControlStream, Failure> {
    connect_with(server, trust, packet_to(server, asked), (&SMALLER, patience), dial)
}

fn connect_with(
    server: &Server,
    trust: &Trust,
    packet: Option<u16>,
    (smaller, patience): (&[(Duration, u16)], Duration),
    dial: impl Fn(Option<u16>) -> Result<TcpStream, MoveError>,
) -> Result<ControlStream, Failure> {
    let mut attempts = vec![Attempt::begin(server, trust, dial(packet)?, packet)?];
    let began = Instant::now();
    let end = began + patience;
    let mut smaller = smaller.iter().filter(|(_, bytes)| packet.is_none_or(|packet| *bytes < packet)).peekable();
    loop {
        // The first is listened to without a break as long as it is alone.
        let next_at = smaller.peek().map_or(end, |(after, _)| began + *after);
        for k in (0..attempts.len()).rev() {
            let until = if attempts.len() == 1 { next_at } else { Instant::now() + LOOK };
            match attempts[k].go_on(until.min(end)) {
                Turn::Going => {}
                Turn::Ended(Ok(())) => {
                    let Attempt { mut stream, handshake, packet: used } = attempts.swap_remove(k);
                    stream.settle_tls(handshake)?;
                    if let Some(bytes) = used.filter(|_| used != packet) {
                        remember(server, bytes);
                    }
                    return Ok(stream);
                }
                // The others may do better.
                Turn::Ended(Err(_)) if attempts.len() > 1 => drop(attempts.remove(k)),
                Turn::Ended(Err(error)) => return Err(error.into()),
            }
        }
        let now = Instant::now();
        if now >= end {
            return Err(HandshakeError::Stream(StreamError::TimedOut).into());
        }
        if let Some((_, bytes)) = smaller.next_if(|(after, _)| began + *after <= now) {
            log::debug!("{server}: no handshake yet: another with packets of {bytes} bytes");
            // Those before it go on if it does not connect.
            let further = dial(Some(*bytes)).map_err(Failure::from);
            attempts.extend(further.and_then(|tcp| Attempt::begin(server, trust, tcp, Some(*bytes))));
        }
    }
}

#[cfg(test)]
mod tests;
