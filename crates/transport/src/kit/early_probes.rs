//! Probes that leave before their flow exists, while the session is still being agreed on (WIRE.md 4.2): they spare
//! the flow a round trip. They are for the sender's port itself, which answers them without knowing any flow.

use std::net::SocketAddr;

use super::Challenges;
use super::mtu_check::mtu_candidates;
use super::wire::{PATH_HEADER_LEN, PathDatagram};
use crate::{ConnectionId, ENVELOPE_LEN, Envelope, PathSpec, TAG_LEN};

/// One probe of each size that the path may carry, as whole datagrams in the clear. If the flow will be `sealed`, they
/// end with padding of a tag's length. Echoes must carry `reply_to`. A flow that is later joined with this path, this
/// connection id and the time of sending counts their echoes.
pub fn early_probes(path: PathSpec, sealed: bool, reply_to: ConnectionId) -> Vec<Vec<u8>> {
    let tag_len = if sealed { TAG_LEN } else { 0 };
    let probe = |(number, size): (u32, u16)| {
        let probe = PathDatagram::Probe { token: tag_len as u64, number, reply_to };
        let mut datagram = Envelope { number, connection: ConnectionId::PORT }.before(&probe.emit());
        let behind = usize::from(size.saturating_sub(path.overhead)).max(PATH_HEADER_LEN + tag_len);
        datagram.resize(ENVELOPE_LEN + behind, 0);
        datagram
    };
    (1..).zip(mtu_candidates(path.mtu)).map(probe).collect()
}

/// Whether a datagram may be an early probe.
pub fn is_for_port(datagram: &[u8]) -> bool {
    Envelope::parse(datagram).is_some_and(|envelope| envelope.connection == ConnectionId::PORT)
}

/// The echo of an early probe from `from`, of the same length; `None` if `datagram` is something else.
pub fn echo_early(challenges: &Challenges, from: SocketAddr, datagram: &[u8]) -> Option<Vec<u8>> {
    let (envelope, rest) = Envelope::parse(datagram).zip(datagram.get(ENVELOPE_LEN..))?;
    let Some(PathDatagram::Probe { token: tag_len, number, reply_to }) = PathDatagram::parse(rest) else { return None };
    let tag_len = usize::try_from(tag_len).ok().filter(|len| [0, TAG_LEN].contains(len))?;
    if envelope.connection != ConnectionId::PORT || reply_to == ConnectionId::PORT {
        return None;
    }
    let len = u16::try_from(rest.len().checked_sub(tag_len).filter(|&len| len >= PATH_HEADER_LEN)?).ok()?;
    let echo = PathDatagram::Echo { number, len, challenge: challenges.of(from) };
    let mut bytes = Envelope { number: envelope.number, connection: reply_to }.before(&echo.emit());
    bytes.resize(datagram.len(), 0);
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_size_is_probed_and_echoed_in_full() {
        let path = PathSpec::clear(9000, std::net::Ipv4Addr::LOCALHOST.into());
        let probes = early_probes(path, true, ConnectionId(77));
        assert_eq!(probes.iter().map(Vec::len).collect::<Vec<_>>(), [9000, 1500, 1280, 576].map(|size| size - 28));
        let (challenges, from) = (Challenges::new(7), SocketAddr::from(([192, 0, 2, 1], 9)));
        for (number, probe) in (1..).zip(&probes) {
            assert!(is_for_port(probe));
            let echo = echo_early(&challenges, from, probe).unwrap();
            assert_eq!(echo.len(), probe.len());
            assert_eq!(Envelope::parse(&echo).map(|envelope| envelope.connection), Some(ConnectionId(77)));
            let expected = PathDatagram::Echo {
                number,
                len: (probe.len() - ENVELOPE_LEN - TAG_LEN) as u16,
                challenge: challenges.of(from),
            };
            assert_eq!(PathDatagram::parse(&echo[ENVELOPE_LEN..]), Some(expected));
            assert_eq!(echo_early(&challenges, from, &echo), None, "no echo of an echo");
        }
    }

    #[test]
    fn nothing_else_is_echoed() {
        let (challenges, from) = (Challenges::new(7), SocketAddr::from(([192, 0, 2, 1], 9)));
        let probe = |connection, token, reply_to| {
            let probe = PathDatagram::Probe { token, number: 1, reply_to: ConnectionId(reply_to) };
            Envelope { number: 1, connection: ConnectionId(connection) }.before(&probe.emit())
        };
        assert!(echo_early(&challenges, from, &probe(0, 0, 77)).is_some());
        for other in [probe(5, 0, 77), probe(0, 1, 77), probe(0, 0, 0), probe(0, 0, 77)[..31].to_vec(), Vec::new()] {
            assert_eq!(echo_early(&challenges, from, &other), None);
        }
    }
}
