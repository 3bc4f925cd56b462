//! What comes in.

use aws_lc_rs::aead::quic::HeaderProtectionKey;
use aws_lc_rs::aead::{Aad, Nonce};
use inhaul_transport::{ConnectionId, ENVELOPE_LEN, Envelope, TAG_LEN};

use super::epoch::{Epoch, epoch_of, epoch_start, mask_key};
use super::replay::Replay;
use super::sealer::apply_mask;
use super::secrets::{Secret, Suite};

/// Packets of an epoch that have to come before the keys of the one before are forgotten: older ones are too old for
/// the replay window anyway.
const OVERLAP: u64 = 1 << 20;

/// Datagrams that may fail to open before nothing more is opened (RFC 9001 6.6, for ChaCha20-Poly1305; AES-GCM would
/// bear more).
const REFUSED_MAX: u64 = 1 << 36;

/// Opens the datagrams of one direction of a flow.
pub struct Opener {
    mask: HeaderProtectionKey,
    before: Option<Epoch>,
    epoch: Epoch,
    /// Made ahead, so that opening the first packet of an epoch takes no longer than any other (RFC 9001 6.3).
    after: Epoch,
    replay: Replay,
    refused: u64,
    /// Echoes in the clear may still come.
    early: bool,
}

/// What is needed to open a datagram.
struct Seen {
    number: u64,
    nonce: Nonce,
    envelope: [u8; ENVELOPE_LEN],
}

impl Opener {
    /// By the secret of that direction. `early`: the path was probed in the clear before.
    pub fn new(suite: Suite, secret: &Secret, early: bool) -> Self {
        let epoch = Epoch::first(suite, secret);
        let after = epoch.next();
        let mask = mask_key(suite, secret);
        Self { mask, before: None, epoch, after, replay: Replay::new(), refused: 0, early }
    }

    /// Opens a datagram in place: what is left of its tag is unspecified, and its envelope is in the clear. One that
    /// does not open gets the connection id that no flow has, and what is behind its envelope is unspecified.
    ///
    /// It does not open if it was not sealed by the peer, for this place, or has come before.
    pub fn open(&mut self, datagram: &mut [u8]) {
        if self.try_open(datagram).is_none() {
            self.refuse();
            refuse(datagram);
        }
    }

    fn try_open(&mut self, datagram: &mut [u8]) -> Option<()> {
        let Seen { number, nonce, envelope } = self.look_at(datagram)?;
        let (front, sealed) = datagram.split_at_mut(ENVELOPE_LEN);
        let (sealed, tag) = sealed.split_at_mut(sealed.len() - TAG_LEN);
        let key = &self.epoch_with(number)?.key;
        key.open_in_place_separate_tag(nonce, Aad::from(envelope), tag, sealed).ok()?;
        front.copy_from_slice(&envelope);
        self.take(number);
        Some(())
    }

    /// Opens a datagram to `out`, which is as long as what it holds between envelope and tag, and returns its
    /// envelope. `None` as for [`Opener::open`]; `out` is overwritten all the same.
    pub fn open_to(&mut self, datagram: &[u8], out: &mut [u8]) -> Option<[u8; ENVELOPE_LEN]> {
        let opened = self.try_open_to(datagram, out);
        if opened.is_none() {
            self.refuse();
        }
        opened
    }

    fn try_open_to(&mut self, datagram: &[u8], out: &mut [u8]) -> Option<[u8; ENVELOPE_LEN]> {
        let Seen { number, nonce, envelope } = self.look_at(datagram)?;
        let sealed = &datagram[ENVELOPE_LEN..];
        let (sealed, tag) = sealed.split_at(sealed.len() - TAG_LEN);
        let key = &self.epoch_with(number)?.key;
        key.open_separate_gather(nonce, Aad::from(envelope), sealed, tag, out).ok()?;
        self.take(number);
        Some(envelope)
    }

    /// How many datagrams did not open.
    pub const fn refused(&self) -> u64 {
        self.refused
    }

    /// Counts a datagram that is not genuine.
    pub(crate) fn refuse(&mut self) {
        self.refused += 1;
    }

    /// Whether echoes in the clear count, of probes that left before there were keys: until the peer has sealed
    /// something.
    pub(crate) const fn takes_early_echoes(&self) -> bool {
        self.early
    }

    /// The packet's number and nonce, if it may be opened.
    fn look_at(&self, datagram: &[u8]) -> Option<Seen> {
        let (front, sealed) = datagram.split_first_chunk::<ENVELOPE_LEN>()?;
        if sealed.len() < TAG_LEN || self.refused >= REFUSED_MAX {
            return None;
        }
        let mut envelope = *front;
        apply_mask(&self.mask, &mut envelope, sealed);
        let number = whole_number(self.replay.highest(), Envelope::parse(&envelope)?.number)?;
        let nonce = self.epoch_with(number)?.nonce(number);
        self.replay.is_new(number).then_some(Seen { number, nonce, envelope })
    }

    /// The epoch of a packet, if its keys are here.
    fn epoch_with(&self, number: u64) -> Option<&Epoch> {
        let of = epoch_of(number);
        [Some(&self.epoch), Some(&self.after), self.before.as_ref()]
            .into_iter()
            .flatten()
            .find(|epoch| epoch.number == of)
    }

    /// A packet was opened.
    fn take(&mut self, number: u64) {
        self.early = false;
        self.replay.note(number);
        if epoch_of(number) > self.epoch.number {
            let after = self.after.next();
            let epoch = std::mem::replace(&mut self.after, after);
            self.before = Some(std::mem::replace(&mut self.epoch, epoch));
        }
        if self.before.is_some() && number >= epoch_start(self.epoch.number) + OVERLAP {
            self.before = None;
        }
    }
}

/// Gives a datagram the connection id that no flow has.
pub(crate) fn refuse(datagram: &mut [u8]) {
    if let Some(id) = datagram.get_mut(inhaul_transport::CONNECTION_FIELD) {
        id.copy_from_slice(&ConnectionId::NONE.0.to_be_bytes());
    }
}

/// The packet number that ends with these 32 bits and lies nearest behind the highest that has come (RFC 9000 A.3).
fn whole_number(highest: Option<u64>, low: u32) -> Option<u64> {
    const SPAN: u64 = 1 << 32;
    let expected = highest.map_or(Some(0), |highest| highest.checked_add(1))?;
    let candidate = (expected & !(SPAN - 1)) | u64::from(low);
    if candidate + SPAN / 2 <= expected {
        candidate.checked_add(SPAN)
    } else if candidate > expected + SPAN / 2 && candidate >= SPAN {
        Some(candidate - SPAN)
    } else {
        Some(candidate)
    }
}

#[cfg(test)]
mod unit_tests {
    use super::*;

    #[test]
    fn whole_number_is_the_nearest() {
        // The example of RFC 9000 A.3, with 32 bits.
        assert_eq!(whole_number(Some(0xA82F_30EA_9B32), 0x30EA_0000), Some(0xA82F_30EA_0000));
        assert_eq!(whole_number(None, 7), Some(7));
        assert_eq!(whole_number(None, u32::MAX), Some(u64::from(u32::MAX)));
        assert_eq!(whole_number(Some(u64::from(u32::MAX)), 2), Some((1 << 32) + 2));
        assert_eq!(whole_number(Some(1 << 32), u32::MAX), Some(u64::from(u32::MAX)));
        assert_eq!(whole_number(Some(u64::MAX), 0), None);
    }
}
