//! The connecting side: to a listener, or to a peer that connects to it at the same time.

use std::net::SocketAddr;

use inhaul_base::{Span, Time};

use super::agreement::{Agreement, ConnectError, MSS_MIN, Terms, WINDOW_MAX};
use crate::wire::{Control, ControlBody, Handshake, HandshakeKind, Packet, Sequence, SocketId, Stamp, VERSION};

/// Time between two requests that are alike.
const REPEAT: Span = Span::from_millis(250);

/// A connection that is being set up.
///
/// Show it each packet for its socket id ([`handle`](Self::handle)), in a rendezvous also those of the peer for no id.
/// Ask it for what to send ([`poll_transmit`](Self::poll_transmit)) then, and at its [`deadline`](Self::deadline).
#[derive(Debug)]
pub struct Connecting {
    terms: Terms,
    local: SocketId,
    peer: SocketAddr,
    initial: Sequence,
    rendezvous: bool,
    /// The content of the next request.
    step: HandshakeKind,
    cookie: u32,
    /// The handshake of the other side of a rendezvous.
    seen: Option<Handshake>,
    request_at: Time,
    give_up_at: Time,
}

/// Where the setting up of a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// More packets are needed.
    Waiting,
    /// Done.
    Connected(Agreement),
    /// There will be no connection.
    Failed(ConnectError),
}

impl Connecting {
    /// Begins at `now` and gives up after `timeout`. `initial` is the number of the first data packet. It must be
    /// unguessable, and so must `local`.
    pub fn new(
        terms: Terms,
        local: SocketId,
        initial: Sequence,
        peer: SocketAddr,
        rendezvous: bool,
        (now, timeout): (Time, Span),
    ) -> Self {
        let step = if rendezvous { HandshakeKind::Rendezvous } else { HandshakeKind::Request };
        let give_up_at = now + timeout;
        let (cookie, seen, request_at) = (0, None, now);
        let terms = terms.toward(peer.ip());
        Self { terms, local, peer, initial, rendezvous, step, cookie, seen, request_at, give_up_at }
    }

    /// Where the other side is.
    pub const fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// Whether both sides connect.
    pub const fn is_rendezvous(&self) -> bool {
        self.rendezvous
    }

    /// When to ask for packets or for an end again.
    pub fn deadline(&self) -> Time {
        self.request_at.min(self.give_up_at)
    }

    /// Whether it took too long.
    pub fn poll(&self, now: Time) -> Progress {
        if now >= self.give_up_at { Progress::Failed(ConnectError::TimedOut) } else { Progress::Waiting }
    }

    /// The packet to send now, if any.
    pub fn poll_transmit(&mut self, now: Time) -> Option<Control<'static>> {
        if now < self.request_at || now >= self.give_up_at {
            return None;
        }
        self.request_at = now + REPEAT;
        let destination = if self.rendezvous { self.seen.map(|seen| seen.socket) } else { None };
        let handshake = Handshake {
            version: VERSION,
            kind: Some(self.terms.kind),
            initial_sequence: self.initial,
            mss: self.terms.mss,
            window: self.terms.window,
            step: self.step,
            socket: self.local,
            cookie: self.cookie,
            peer: Handshake::address(self.peer.ip()),
        };
        Some(Control { stamp: Stamp { timestamp: 0, destination }, body: ControlBody::Handshake(handshake) })
    }

    /// A packet has come from the peer's address.
    pub fn handle(&mut self, packet: &Packet<'_>, now: Time) -> Progress {
        let handshake = match packet {
            Packet::Control(Control { body: ControlBody::Handshake(handshake), .. }) => handshake,
            // The other side of a rendezvous is connected already: its earlier handshake counts.
            _ if packet.stamp().destination == Some(self.local) && self.step == HandshakeKind::Agreement => {
                return match self.seen.filter(|_| self.rendezvous) {
                    Some(seen) => self.agree(&seen),
                    None => Progress::Waiting,
                };
            }
            _ => return Progress::Waiting,
        };
        if handshake.step == HandshakeKind::Rejection {
            // A rejection repeats the request. Only the peer knows the numbers.
            let ours = handshake.socket == self.local && handshake.initial_sequence == self.initial;
            return if ours { Progress::Failed(ConnectError::Rejected) } else { Progress::Waiting };
        }
        if self.rendezvous { self.meet(handshake, now) } else { self.answered(handshake, now) }
    }

    /// A listener has answered.
    fn answered(&mut self, handshake: &Handshake, now: Time) -> Progress {
        if handshake.initial_sequence != self.initial {
            return Progress::Waiting;
        }
        match handshake.step {
            HandshakeKind::Request if self.step == HandshakeKind::Request && handshake.socket == self.local => {
                self.step = HandshakeKind::Agreement;
                self.cookie = handshake.cookie;
                self.request_at = now;
                Progress::Waiting
            }
            HandshakeKind::Agreement if self.step == HandshakeKind::Agreement => self.agree(handshake),
            _ => Progress::Waiting,
        }
    }

    /// The other side of a rendezvous has said something.
    fn meet(&mut self, handshake: &Handshake, now: Time) -> Progress {
        if handshake.step == HandshakeKind::Request {
            return Progress::Waiting;
        }
        // libudt sends its type in its first packets, and leaves it out in repetitions.
        let seen = match self.seen.filter(|seen| seen.socket == handshake.socket) {
            Some(seen) if handshake.kind.is_none() => Handshake { step: handshake.step, ..seen },
            _ => *handshake,
        };
        self.seen = Some(seen);
        let looking = |step| step == HandshakeKind::Rendezvous;
        if looking(self.step) || looking(handshake.step) {
            self.step = HandshakeKind::Agreement;
            self.request_at = now;
            return Progress::Waiting;
        }
        self.agree(&seen)
    }

    fn agree(&self, theirs: &Handshake) -> Progress {
        if theirs.version != VERSION && theirs.version != 0 {
            return Progress::Failed(ConnectError::Version(theirs.version));
        }
        if theirs.kind.is_some_and(|kind| kind != self.terms.kind) {
            return Progress::Failed(ConnectError::Kind);
        }
        if theirs.mss < MSS_MIN || theirs.socket == self.local && !self.rendezvous {
            return Progress::Failed(ConnectError::Mismatch);
        }
        Progress::Connected(Agreement {
            kind: self.terms.kind,
            mss: self.terms.mss.min(theirs.mss),
            peer_window: theirs.window.min(WINDOW_MAX),
            window: self.terms.window,
            first_sent: self.initial,
            first_expected: theirs.initial_sequence,
            local: self.local,
            remote: theirs.socket,
            peer: self.peer,
            rendezvous: self.rendezvous,
        })
    }
}
