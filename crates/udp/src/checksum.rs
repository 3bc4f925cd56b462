//! Detection of datagrams that were changed on their way.
//!
//! UDP's own checksum has 16 bits, is weak, and every middle box that rewrites a packet recomputes it. So each datagram
//! carries a CRC-32C of all its bytes. It takes no extra byte: it is hidden in the envelope's connection id
//! ([`CONNECTION_FIELD`]). On the wire this field is the id XOR the CRC-32C of the whole datagram, padding included,
//! with zeros in place of the id. A changed datagram then shows a connection that does not exist (except for one in
//! 2^32), and is dropped.
//!
//! It is a checksum, not a seal: an attacker can make a datagram that passes.
//!
//! A changed datagram reaches no endpoint and counts as lost. Endpoints and the simulator do not know about checksums.

use crc_fast::{CrcAlgorithm, Digest, crc32_iscsi};
use inhaul_transport::CONNECTION_FIELD;

/// Masks the datagram's connection id with its checksum, or unmasks it: a second call restores the datagram. One that
/// is too short for an envelope is not changed; every port drops it.
pub fn mask(datagram: &mut [u8]) {
    let Some(id) = take_id(datagram) else { return };
    put_id(datagram, id ^ crc32_iscsi(datagram));
}

/// Masks or unmasks each datagram of a message: all are `datagram_len` bytes long, the last may be shorter.
pub fn mask_each(message: &mut [u8], datagram_len: usize) {
    message.chunks_mut(datagram_len.max(1)).for_each(mask);
}

/// As [`mask`], for a datagram in pieces. The first piece has the connection id.
pub(crate) fn mask_pieces<'p>(head: &mut [u8], rest: impl Iterator<Item = &'p [u8]>) {
    let Some(id) = take_id(head) else { return };
    let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
    digest.update(head);
    rest.for_each(|piece| digest.update(piece));
    put_id(head, id ^ digest.finalize() as u32);
}

/// Takes the connection id out of a datagram and leaves zeros.
fn take_id(datagram: &mut [u8]) -> Option<u32> {
    let field = datagram.get_mut(CONNECTION_FIELD)?.first_chunk_mut()?;
    Some(u32::from_be_bytes(std::mem::take(field)))
}

fn put_id(datagram: &mut [u8], id: u32) {
    datagram[CONNECTION_FIELD].copy_from_slice(&id.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The example of kit/WIRE.md 8.
    #[test]
    fn mask_gives_the_example_of_the_specification() {
        assert_eq!(crc32_iscsi(b"123456789"), 0xE306_9283, "CRC-32C as RFC 3720 has it");
        let head = [0x11, 0, 0, 7, 0xC0, 0xFF, 0xEE, 1];
        let mut datagram = [&head[..], b"The quick brown fox jumps over the lazy dog."].concat();
        mask(&mut datagram);
        assert_eq!(datagram[CONNECTION_FIELD], [0x41, 0xC1, 0xFD, 0xA8], "the checksum is 813E13A9");
        assert_eq!(
            (&datagram[..4], &datagram[8..]),
            (&head[..4], &b"The quick brown fox jumps over the lazy dog."[..])
        );
    }

    proptest! {
        #[test]
        fn mask_undoes_itself_however_the_datagram_lies(
            datagram in prop::collection::vec(any::<u8>(), 0..3_000),
            cuts in prop::collection::vec(8usize..3_000, 0..4),
        ) {
            let mut masked = datagram.clone();
            mask(&mut masked);
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(datagram.len())).collect();
            cuts.extend([8.min(datagram.len()), datagram.len()]);
            cuts.sort_unstable();
            let mut head = masked[..cuts[0]].to_vec();
            mask_pieces(&mut head, cuts.windows(2).map(|pair| &masked[pair[0]..pair[1]]));
            prop_assert_eq!(&head, &datagram[..cuts[0]]);
            mask(&mut masked);
            prop_assert_eq!(masked, datagram);
        }

        #[test]
        fn mask_shows_another_connection_after_any_change(
            datagram in prop::collection::vec(any::<u8>(), 8..2_000),
            at in any::<prop::sample::Index>(),
            change in 1u8..=255,
            lost in 0usize..20,
        ) {
            let id = |datagram: &[u8]| <[u8; 4]>::try_from(&datagram[CONNECTION_FIELD]).unwrap();
            let mut on_the_wire = datagram.clone();
            mask(&mut on_the_wire);
            // One byte, wherever it lies: head, id, body or padding. A CRC finds every change within 32 bits.
            let mut changed = on_the_wire.clone();
            changed[at.index(datagram.len())] ^= change;
            mask(&mut changed);
            prop_assert_ne!(id(&changed), id(&datagram));
            if lost > 0 {
                let mut cut = on_the_wire[..on_the_wire.len().saturating_sub(lost).max(8)].to_vec();
                let shorter = cut.len() < on_the_wire.len();
                mask(&mut cut);
                prop_assert!(!shorter || id(&cut) != id(&datagram));
            }
        }
    }

    #[test]
    fn mask_each_takes_a_shorter_last_datagram_and_none() {
        let mut message: Vec<u8> = (0..50).collect();
        let before = message.clone();
        mask_each(&mut message, 20);
        let mut alone = before[40..].to_vec();
        mask(&mut alone);
        assert_eq!(message[40..], alone);
        mask_each(&mut message, 20);
        assert_eq!(message, before);
        mask_each(&mut [], 0);
    }
}
