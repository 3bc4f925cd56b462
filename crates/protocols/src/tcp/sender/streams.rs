//! The kinds of sender: today's TCP, or that of ns-2.

use inhaul_base::{Bitrate, ByteRange, Sequence, Span, Time};
use inhaul_transport::kit::RateLimit;
use inhaul_transport::kit::sender::Allowance;
use inhaul_transport::{Law, Pace};

use super::ns2::Ns2Stream;
use super::stream::{Next, Stream};
use crate::tcp::options::{Options, SenderKind};
use crate::tcp::wire::AckHeader;

/// The sending half of a connection, of either kind.
#[allow(clippy::large_enum_variant, reason = "nearly every flow has the large one")]
pub(super) enum Streams {
    /// [`Stream`].
    Today(Stream),
    /// [`Ns2Stream`].
    Ns2(Ns2Stream),
}

/// The same for both kinds.
macro_rules! either {
    ($streams:expr, $stream:ident => $value:expr) => {
        match $streams {
            Streams::Today($stream) => $value,
            Streams::Ns2($stream) => $value,
        }
    };
}

impl Streams {
    pub(super) fn new(now: Time, law: Box<dyn Law + Send>, options: &Options) -> Self {
        match options.sender {
            SenderKind::Today => Self::Today(Stream::new(now, law, options)),
            SenderKind::Ns2 => Self::Ns2(Ns2Stream::new(law, options)),
        }
    }

    pub(super) fn next(&mut self, now: Time, new: bool, may: &mut Allowance<'_>) -> Option<Next> {
        either!(self, stream => stream.next(now, new, may))
    }

    pub(super) fn send(&mut self, now: Time, body: ByteRange) -> Sequence {
        either!(self, stream => stream.send(now, body))
    }

    pub(super) fn send_again(&mut self, now: Time, number: u64) -> Option<(Sequence, ByteRange)> {
        either!(self, stream => stream.send_again(now, number))
    }

    pub(super) fn on_ack(&mut self, now: Time, ack: &AckHeader) {
        either!(self, stream => stream.on_ack(now, ack));
    }

    pub(super) fn on_timeout(&mut self, now: Time) {
        either!(self, stream => stream.on_timeout(now));
    }

    pub(super) fn restart(&mut self, now: Time, from: Sequence) -> bool {
        either!(self, stream => stream.restart(now, from))
    }

    /// The receiver allows another rate.
    pub(super) fn allow(&mut self, now: Time, rate: Option<Bitrate>) {
        either!(self, stream => stream.allowed.set(now, rate));
    }

    /// The rate that the receiver allows.
    pub(super) fn allowed(&self) -> &RateLimit {
        either!(self, stream => &stream.allowed)
    }

    /// When a timer is due.
    pub(super) fn due(&self) -> Option<Time> {
        either!(self, stream => stream.loss_due().into_iter().chain(stream.pace_due()).min())
    }

    pub(super) fn set_packet_bytes(&mut self, now: Time, bytes: u64) {
        either!(self, stream => stream.set_packet_bytes(now, bytes));
    }

    pub(super) fn packet_bytes(&self) -> u64 {
        either!(self, stream => stream.packet_bytes())
    }

    pub(super) fn window(&self) -> u64 {
        either!(self, stream => stream.window())
    }

    pub(super) fn pace(&self) -> Pace {
        either!(self, stream => stream.pace())
    }

    pub(super) fn smoothed_rtt(&self) -> Span {
        either!(self, stream => stream.smoothed_rtt())
    }

    pub(super) fn lost(&self) -> u64 {
        either!(self, stream => stream.lost)
    }

    pub(super) fn memory_bytes(&self) -> usize {
        either!(self, stream => stream.memory_bytes())
    }
}
