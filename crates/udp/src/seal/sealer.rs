//! Seals outgoing datagrams.

use aws_lc_rs::aead::Aad;
use aws_lc_rs::aead::quic::HeaderProtectionKey;
use inhaul_transport::{ConnectionId, ENVELOPE_LEN, Envelope, TAG_LEN};

use super::epoch::{Epoch, epoch_of, mask_key};
use super::secrets::{Secret, Suite};

/// Seals the datagrams of one direction of a flow.
pub struct Sealer {
    suite: Suite,
    mask: HeaderProtectionKey,
    epoch: Epoch,
}

impl Sealer {
    /// A sealer with the secret of this direction.
    pub fn new(suite: Suite, secret: &Secret) -> Self {
        Self { suite, mask: mask_key(suite, secret), epoch: Epoch::first(suite, secret) }
    }

    /// Seals a datagram in place, and writes its envelope. `datagram` has room for the envelope at its front and for
    /// the tag at its end. Numbers never repeat, and never go back by an epoch.
    ///
    /// # Panics
    /// When the number is of an epoch that has ended.
    pub fn seal(&mut self, number: u64, connection: ConnectionId, datagram: &mut [u8]) {
        self.seal_with(number, connection, datagram, &[]);
    }

    /// Like [`Sealer::seal`], but `body` has the last bytes before the tag. They are sealed from there.
    ///
    /// # Panics
    /// When the number is of an epoch that has ended.
    pub fn seal_with(&mut self, number: u64, connection: ConnectionId, datagram: &mut [u8], body: &[u8]) {
        let epoch = epoch_of(number);
        while self.epoch.number < epoch {
            self.epoch = self.epoch.next();
        }
        assert_eq!(self.epoch.number, epoch, "packet numbers ascend");
        let envelope = Envelope { number: number as u32, connection }.emit();
        let (front, rest) = datagram.split_at_mut(ENVELOPE_LEN);
        let (body_at, body) = match self.suite {
            Suite::Aes128Gcm | Suite::Aes256Gcm => (rest.len() - body.len() - TAG_LEN, body),
            // The library is slow with a separate body.
            Suite::ChaCha20Poly1305 => {
                let end = rest.len() - TAG_LEN;
                rest[end - body.len()..end].copy_from_slice(body);
                (end, &[][..])
            }
        };
        let (plain, body_at) = rest.split_at_mut(body_at);
        let (nonce, data) = (self.epoch.nonce(number), Aad::from(envelope));
        let sealed = self.epoch.key.seal_in_place_scatter(nonce, data, plain, body, body_at);
        sealed.expect("a datagram is not too long");
        front.copy_from_slice(&envelope);
        apply_mask(&self.mask, front, rest);
    }
}

/// Masks the packet number of an envelope, or unmasks it, with the first sealed bytes behind the envelope (RFC 9001
/// 5.4).
pub(super) fn apply_mask(key: &HeaderProtectionKey, envelope: &mut [u8], sealed: &[u8]) {
    let mask = key.new_mask(&sealed[..TAG_LEN]).expect("the sample is as long as a tag");
    envelope.iter_mut().zip(mask).take(4).for_each(|(byte, mask)| *byte ^= mask);
}
