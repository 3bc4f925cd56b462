//! What leaves.

use aws_lc_rs::aead::Aad;
use aws_lc_rs::aead::quic::HeaderProtectionKey;
use inhaul_transport::{ConnectionId, ENVELOPE_LEN, Envelope, TAG_LEN};

use super::epoch::{Epoch, epoch_of, mask_key};
use super::secrets::{Secret, Suite};

/// Seals the datagrams of one direction of a flow.
pub struct Sealer {
    mask: HeaderProtectionKey,
    epoch: Epoch,
}

impl Sealer {
    /// By the secret of that direction.
    pub fn new(suite: Suite, secret: &Secret) -> Self {
        Self { mask: mask_key(suite, secret), epoch: Epoch::first(suite, secret) }
    }

    /// Seals a datagram in place, and writes its envelope: `datagram` has room for that at its front, and for the tag
    /// at its end. Numbers never repeat, and never go back by an epoch.
    ///
    /// # Panics
    /// When the number is of an epoch that has ended.
    pub fn seal(&mut self, number: u64, connection: ConnectionId, datagram: &mut [u8]) {
        let epoch = epoch_of(number);
        while self.epoch.number < epoch {
            self.epoch = self.epoch.next();
        }
        assert_eq!(self.epoch.number, epoch, "packet numbers ascend");
        let envelope = Envelope { number: number as u32, connection }.emit();
        let (front, rest) = datagram.split_at_mut(ENVELOPE_LEN);
        let (plain, tag_at) = rest.split_at_mut(rest.len() - TAG_LEN);
        let tag = self.epoch.key.seal_in_place_separate_tag(self.epoch.nonce(number), Aad::from(envelope), plain);
        tag_at.copy_from_slice(tag.expect("a datagram is not too long").as_ref());
        front.copy_from_slice(&envelope);
        apply_mask(&self.mask, front, rest);
    }
}

/// Masks the packet number of an envelope, or takes the mask away: by the first bytes behind the envelope, as they are
/// on the way (RFC 9001 5.4).
pub(super) fn apply_mask(key: &HeaderProtectionKey, envelope: &mut [u8], sealed: &[u8]) {
    let mask = key.new_mask(&sealed[..TAG_LEN]).expect("the sample is as long as a tag");
    envelope.iter_mut().zip(mask).take(4).for_each(|(byte, mask)| *byte ^= mask);
}
