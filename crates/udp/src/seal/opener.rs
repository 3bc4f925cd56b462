//! Opens incoming datagrams.

use aws_lc_rs::aead::quic::HeaderProtectionKey;
use aws_lc_rs::aead::{Aad, Nonce};
use inhaul_transport::kit::{Numbers, whole_number};
use inhaul_transport::{ConnectionId, ENVELOPE_LEN, Envelope, TAG_LEN};

use super::epoch::{Epoch, epoch_of, epoch_start, mask_key};
use super::sealer::apply_mask;
use super::secrets::{Secret, Suite};

/// Once this many packets of an epoch have come, the previous epoch's keys are forgotten. Its packets are too old for
/// the replay window anyway.
const OVERLAP: u64 = 1 << 20;

/// Limit of datagrams that fail to open; beyond it, nothing is opened (RFC 9001 6.6, for ChaCha20-Poly1305; AES-GCM
/// would bear more).
const REFUSED_MAX: u64 = 1 << 36;

/// Opens the datagrams of one direction of a flow.
pub struct Opener {
    mask: HeaderProtectionKey,
    before: Option<Epoch>,
    epoch: Epoch,
    /// Derived in advance, so that the first packet of an epoch opens as fast as any other (RFC 9001 6.3).
    after: Epoch,
    came: Numbers,
    refused: u64,
    /// Repeated datagrams.
    repeated: u64,
    /// Whether echoes in the clear may still come.
    early: bool,
}

/// A datagram's number and nonce.
struct Seen {
    number: u64,
    nonce: Nonce,
    envelope: [u8; ENVELOPE_LEN],
}

impl Opener {
    /// An opener with the secret of this direction. `early`: the path was probed in the clear before.
    pub fn new(suite: Suite, secret: &Secret, early: bool) -> Self {
        let epoch = Epoch::first(suite, secret);
        let after = epoch.next();
        let mask = mask_key(suite, secret);
        Self { mask, before: None, epoch, after, came: Numbers::new(), refused: 0, repeated: 0, early }
    }

    /// Opens a datagram in place. The bytes of its tag are unspecified then, and its envelope is in the clear. If it
    /// does not open, it gets the connection id that no flow has, and the bytes behind its envelope are unspecified.
    ///
    /// It does not open if the peer has not sealed it for this place, or if it has come before.
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

    /// Opens a datagram to `out`, which has the length between envelope and tag, and returns its envelope. `None` if it
    /// does not open, as for [`Opener::open`]; `out` is overwritten even so.
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

    /// How many datagrams had a number that came before, or came too late to tell: copies by the network, or replays.
    /// They count as refused, too.
    pub const fn repeated(&self) -> u64 {
        self.repeated
    }

    /// How many datagrams did not open.
    pub const fn refused(&self) -> u64 {
        self.refused
    }

    /// Counts a datagram that is not genuine.
    pub(crate) fn refuse(&mut self) {
        self.refused += 1;
    }

    /// Whether echoes in the clear count, for probes that were sent before there were keys: until the peer has sealed
    /// something.
    pub(crate) const fn takes_early_echoes(&self) -> bool {
        self.early
    }

    /// The packet's number and nonce, if its number is acceptable.
    fn look_at(&mut self, datagram: &[u8]) -> Option<Seen> {
        let (front, sealed) = datagram.split_first_chunk::<ENVELOPE_LEN>()?;
        if sealed.len() < TAG_LEN || self.refused >= REFUSED_MAX {
            return None;
        }
        let mut envelope = *front;
        apply_mask(&self.mask, &mut envelope, sealed);
        let number = whole_number(self.came.highest(), Envelope::parse(&envelope)?.number)?;
        let nonce = self.epoch_with(number)?.nonce(number);
        if !self.came.is_new(number) {
            self.repeated += 1;
            return None;
        }
        Some(Seen { number, nonce, envelope })
    }

    /// The epoch of a packet, if there are keys.
    fn epoch_with(&self, number: u64) -> Option<&Epoch> {
        let of = epoch_of(number);
        [Some(&self.epoch), Some(&self.after), self.before.as_ref()]
            .into_iter()
            .flatten()
            .find(|epoch| epoch.number == of)
    }

    /// Notes that a packet was opened.
    fn take(&mut self, number: u64) {
        self.early = false;
        self.came.note(number);
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
