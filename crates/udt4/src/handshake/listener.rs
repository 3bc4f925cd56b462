//! The side that listens. It remembers nothing: a client's address is proved by a cookie that only this host can make.

use std::net::SocketAddr;

use inhaul_base::{Span, Time};
use inhaul_transport::kit::Challenges;

use super::agreement::{Agreement, MSS_MIN, Terms, WINDOW_MAX};
use crate::wire::{Handshake, HandshakeKind, SocketId, VERSION};

/// A cookie is good for the period in which it was made and for the next: 60 to 120 seconds.
const PERIOD: Span = Span::from_secs(60);

/// Answers the requests of clients.
///
/// libudt's cookie is a hash of the client's address and the minute. Anybody can compute it, so an attacker can make
/// connections for addresses that are not its own. Ours has a key.
#[derive(Debug)]
pub struct Listener {
    terms: Terms,
    challenges: Challenges,
}

/// What to do about a handshake that came to the port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Nothing.
    Ignore,
    /// Send this back, to the socket that the request names.
    Reply(Handshake),
    /// The client receives at its address, and wants the listener's type of connection. If there is room, make a
    /// connection, unless there is one for this client's address, socket and sequence number already.
    Connect,
}

impl Listener {
    /// A listener that offers `terms`; `secret` must be unguessable.
    pub fn new(terms: Terms, secret: u64) -> Self {
        Self { terms, challenges: Challenges::new(secret) }
    }

    /// What to do about a handshake from `from`.
    pub fn handle(&self, request: &Handshake, from: SocketAddr, now: Time) -> Answer {
        match request.step {
            HandshakeKind::Request => Answer::Reply(Handshake { cookie: self.cookie(from, now), ..*request }),
            HandshakeKind::Agreement if self.made(request.cookie, from, now) => {
                let wanted = request.version == VERSION && request.kind == Some(self.terms.kind);
                if wanted && request.mss >= MSS_MIN { Answer::Connect } else { Answer::Reply(Self::reject(request)) }
            }
            _ => Answer::Ignore,
        }
    }

    /// The answer to a client that is not wanted.
    pub const fn reject(request: &Handshake) -> Handshake {
        Handshake { step: HandshakeKind::Rejection, ..*request }
    }

    /// The agreement between a client that may connect and its new socket `local`.
    pub fn agree(&self, request: &Handshake, from: SocketAddr, local: SocketId) -> Agreement {
        Agreement {
            kind: self.terms.kind,
            mss: self.terms.toward(from.ip()).mss.min(request.mss),
            peer_window: request.window.min(WINDOW_MAX),
            window: self.terms.window,
            // Both directions count from the client's number, and so the client knows that the answer is for it.
            first_sent: request.initial_sequence,
            first_expected: request.initial_sequence,
            local,
            remote: request.socket,
            peer: from,
            rendezvous: false,
        }
    }

    fn cookie(&self, from: SocketAddr, now: Time) -> u32 {
        self.cookie_of(from, period(now))
    }

    fn cookie_of(&self, from: SocketAddr, period: u64) -> u32 {
        // Its upper half: any half would do.
        (self.challenges.of_period(from, period) >> 32) as u32
    }

    fn made(&self, cookie: u32, from: SocketAddr, now: Time) -> bool {
        let now = period(now);
        cookie == self.cookie_of(from, now) || now.checked_sub(1).is_some_and(|p| cookie == self.cookie_of(from, p))
    }
}

const fn period(now: Time) -> u64 {
    now.as_nanos() / PERIOD.as_nanos()
}
