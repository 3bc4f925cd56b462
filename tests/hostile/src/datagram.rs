//! What the engine does to datagrams on their way between endpoint and socket.

use inhaul_udp::checksum;

use crate::session::session_version;

/// The first version of the session protocol whose datagrams have checksums.
const CHECKSUMS_SINCE: u16 = 5;

/// A datagram as it goes over the network, of one as an endpoint gives it: with its checksum.
pub fn seal(datagram: &[u8]) -> Vec<u8> {
    let mut bytes = datagram.to_vec();
    if session_version() >= CHECKSUMS_SINCE {
        checksum::mask(&mut bytes);
    }
    bytes
}

/// A datagram as an endpoint takes it, of one as it came over the network: if it came damaged, its key is no flow's. `None`: it is
/// too short to have a key.
pub fn open(datagram: &[u8]) -> Option<Vec<u8>> {
    (datagram.len() >= 8).then(|| seal(datagram))
}
