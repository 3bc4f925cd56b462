//! Sealing: what of a datagram the way may read, and what it may change, which is nothing. See PROTOCOL.md.
//!
//! A flow whose control stream is secured has two secrets, one for each direction, which the stream has exported. A
//! [`Sealer`] seals what leaves: the packet number of the envelope is the nonce, the envelope the associated data, and
//! a tag of [`TAG_LEN`] bytes follows. The number is masked, so only the connection id can be read. An [`Opener`] opens
//! what comes, each number once. Keys change by the packet number alone, so the two sides cannot disagree on them.
//!
//! A port keeps the keys of its flows in [`Seals`]. Protocols know nothing of all this.

mod epoch;
mod opener;
mod replay;
mod sealer;
#[cfg(test)]
mod tests;

use aws_lc_rs::aead::quic;
use aws_lc_rs::aead::{AES_128_GCM, AES_256_GCM, Algorithm, CHACHA20_POLY1305};
pub use inhaul_transport::TAG_LEN;
use inhaul_transport::kit::{Index, Table};
use inhaul_transport::{ConnectionId, FlowId};
use zeroize::Zeroizing;

pub use opener::Opener;
pub(crate) use opener::refuse;
pub use sealer::Sealer;

/// Length of a secret, in bytes.
pub const SECRET_LEN: usize = 32;

/// What the keys of one direction of a flow come from. It is forgotten with its last copy.
pub type Secret = Zeroizing<[u8; SECRET_LEN]>;

/// How datagrams are sealed: as the TLS connection is over which the flow was agreed on (RFC 8446 B.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Suite {
    /// AES with keys of 128 bits, in Galois/Counter Mode.
    Aes128Gcm,
    /// AES with keys of 256 bits, in Galois/Counter Mode.
    Aes256Gcm,
    /// ChaCha20 with Poly1305: for processors without AES.
    ChaCha20Poly1305,
}

impl Suite {
    fn aead(self) -> &'static Algorithm {
        match self {
            Self::Aes128Gcm => &AES_128_GCM,
            Self::Aes256Gcm => &AES_256_GCM,
            Self::ChaCha20Poly1305 => &CHACHA20_POLY1305,
        }
    }

    fn mask(self) -> &'static quic::Algorithm {
        match self {
            Self::Aes128Gcm => &quic::AES_128,
            Self::Aes256Gcm => &quic::AES_256,
            Self::ChaCha20Poly1305 => &quic::CHACHA20,
        }
    }
}

/// What the keys of a flow come from. Only its two ends know them.
#[derive(Clone)]
pub struct FlowSecrets {
    /// How datagrams are sealed.
    pub suite: Suite,
    /// For what leaves here.
    pub outgoing: Secret,
    /// For what comes in here.
    pub incoming: Secret,
}

impl std::fmt::Debug for FlowSecrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FlowSecrets").field("suite", &self.suite).finish_non_exhaustive()
    }
}

/// The keys of a port's flows. A flow that is not in here sends and receives in the clear.
pub struct Seals {
    flows: Index<ConnectionId>,
    keys: Table<FlowId, FlowKeys>,
    /// Datagrams of flows that are forgotten which did not open.
    refused_before: u64,
}

struct FlowKeys {
    connection: ConnectionId,
    sealer: Sealer,
    opener: Opener,
}

impl Default for Seals {
    fn default() -> Self {
        Self { flows: Index::new(), keys: Table::new(), refused_before: 0 }
    }
}

impl Seals {
    /// The flow, whose peer's datagrams carry `connection`, is sealed from now on, in both directions. `probed_early`:
    /// it has probed the path in the clear before it had keys, and echoes may still come (WIRE.md 4.2).
    pub fn insert(&mut self, flow: FlowId, connection: ConnectionId, secrets: &FlowSecrets, probed_early: bool) {
        self.remove(flow);
        let FlowSecrets { suite, outgoing, incoming } = secrets;
        let (sealer, opener) = (Sealer::new(*suite, outgoing), Opener::new(*suite, incoming, probed_early));
        self.flows.insert(connection, flow);
        self.keys.insert(flow, FlowKeys { connection, sealer, opener });
    }

    /// Forgets a flow's keys.
    pub fn remove(&mut self, flow: FlowId) {
        if let Some(keys) = self.keys.remove(&flow) {
            self.flows.remove(&keys.connection);
            self.refused_before += keys.opener.refused();
        }
    }

    /// Whether the flow is sealed.
    pub fn is_sealed(&self, flow: FlowId) -> bool {
        self.keys.contains_key(&flow)
    }

    /// Seals what leaves of a flow; `None`: it goes in the clear.
    pub fn sealer(&mut self, flow: FlowId) -> Option<&mut Sealer> {
        self.keys.get_mut(&flow).map(|keys| &mut keys.sealer)
    }

    /// Opens what carries this connection id; `None`: no flow that has it is sealed.
    pub fn opener(&mut self, connection: ConnectionId) -> Option<&mut Opener> {
        let flow = self.flows.get(&connection)?;
        self.keys.get_mut(&flow).map(|keys| &mut keys.opener)
    }

    /// The connection id of a sealed flow, and what opens its datagrams.
    pub(crate) fn opener_of(&mut self, flow: FlowId) -> Option<(ConnectionId, &mut Opener)> {
        self.keys.get_mut(&flow).map(|keys| (keys.connection, &mut keys.opener))
    }

    /// How many datagrams had the connection id of a sealed flow and did not open: forged, changed on the way, or
    /// replayed.
    pub fn refused(&self) -> u64 {
        self.refused_before + self.keys.values().map(|keys| keys.opener.refused()).sum::<u64>()
    }
}
