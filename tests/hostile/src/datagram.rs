//! The engine's processing of datagrams between endpoint and socket.

use std::sync::{Mutex, MutexGuard, PoisonError};

use inhaul_transport::{ConnectionId, ENVELOPE_LEN, Envelope, TAG_LEN};
use inhaul_udp::checksum;
use inhaul_udp::seal::{FlowSecrets, Opener, Sealer};

/// A datagram in the clear as on the network, made from the part behind its envelope: with envelope and checksum.
pub fn in_clear(connection: ConnectionId, behind: &[u8]) -> Vec<u8> {
    masked(&Envelope { number: 0, connection }.before(behind))
}

/// A datagram with its checksum put in, or taken out.
pub(crate) fn masked(datagram: &[u8]) -> Vec<u8> {
    let mut bytes = datagram.to_vec();
    checksum::mask(&mut bytes);
    bytes
}

/// The keys of one end of a flow, as its session has agreed on them.
pub struct FlowSeal {
    outgoing: Mutex<(Sealer, u64)>,
    incoming: Mutex<Opener>,
}

impl FlowSeal {
    pub(crate) fn new(secrets: &FlowSecrets) -> Self {
        let FlowSecrets { suite, outgoing, incoming } = secrets;
        Self {
            outgoing: Mutex::new((Sealer::new(*suite, outgoing), 0)),
            incoming: Mutex::new(Opener::new(*suite, incoming, false)),
        }
    }

    /// A datagram as on the network, made from the part behind its envelope: sealed, with the next packet number.
    pub fn seal(&self, connection: ConnectionId, behind: &[u8]) -> Vec<u8> {
        let (sealer, number) = &mut *locked(&self.outgoing);
        let mut datagram = [&[0; ENVELOPE_LEN], behind, &[0; TAG_LEN]].concat();
        sealer.seal(*number, connection, &mut datagram);
        *number += 1;
        datagram
    }

    /// The part behind the envelope of a datagram that came for `connection`. `None`: it belongs to another connection,
    /// is damaged, or has come before.
    pub fn open(&self, connection: ConnectionId, datagram: &[u8]) -> Option<Vec<u8>> {
        let mut bytes = datagram.to_vec();
        locked(&self.incoming).open(&mut bytes);
        let envelope = Envelope::parse(&bytes)?;
        let end = bytes.len().checked_sub(TAG_LEN)?;
        (envelope.connection == connection).then(|| bytes[ENVELOPE_LEN..end].to_vec())
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl std::fmt::Debug for FlowSeal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("FlowSeal")
    }
}
