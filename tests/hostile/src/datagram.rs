//! What the engine does to datagrams on their way between endpoint and socket.

use inhaul_transport::{ConnectionId, ENVELOPE_LEN, Envelope};
use inhaul_udp::checksum;

use crate::session::session_version;

/// The first version of the session protocol whose datagrams have checksums.
const CHECKSUMS_SINCE: u16 = 5;

/// A datagram as it goes over the network, of what is behind its envelope: with envelope and checksum.
pub fn seal(connection: ConnectionId, behind: &[u8]) -> Vec<u8> {
    masked(&Envelope { number: 0, connection }.before(behind))
}

/// A datagram with its checksum put in, or taken out.
pub(crate) fn masked(datagram: &[u8]) -> Vec<u8> {
    let mut bytes = datagram.to_vec();
    if session_version() >= CHECKSUMS_SINCE {
        checksum::mask(&mut bytes);
    }
    bytes
}

/// What is behind the envelope of a datagram that came over the network for `connection`. `None`: it is another's,
/// damaged, or too short.
pub fn open(connection: ConnectionId, datagram: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = masked(datagram);
    let envelope = Envelope::parse(&bytes)?;
    (envelope.connection == connection).then(|| bytes.split_off(ENVELOPE_LEN))
}
