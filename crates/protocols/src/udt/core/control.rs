//! The congestion control of a flow: UDT's own, or a law that was made for TCP.

use inhaul_transport::Law;

use super::by_law::ByLaw;
use super::native::{Native, Variant};
use super::samples::{ControlLimits, Nak, Progress, Tick};

/// The congestion control of a flow.
pub enum Control {
    /// UDT's own.
    Native(Native),
    /// A law that was made for TCP.
    Law(ByLaw),
}

impl Control {
    /// UDT's own control, in one of its variants; `window_max` ends slow start.
    pub fn native(variant: Variant, window_max: u64, seed: u64) -> Self {
        Self::Native(Native::new(variant, window_max, seed))
    }

    /// Control by a law.
    pub fn law(law: Box<dyn Law + Send>) -> Self {
        Self::Law(ByLaw::new(law))
    }

    pub(super) fn on_ack(&mut self, progress: &Progress) {
        match self {
            Self::Native(native) => native.on_ack(progress),
            Self::Law(law) => law.on_ack(progress),
        }
    }

    /// Whether rate control has a timer of its own, which fires each SYN.
    pub(super) fn has_timer(&self) -> bool {
        matches!(self, Self::Native(native) if native.has_timer())
    }

    pub(super) fn on_tick(&mut self, tick: &Tick) {
        if let Self::Native(native) = self {
            native.on_tick(tick);
        }
    }

    /// The receiver warns of delay that grows.
    pub(super) fn on_warning(&mut self, nak: &Nak) {
        if let Self::Native(native) = self {
            native.on_warning(nak);
        }
    }

    pub(super) fn on_nak(&mut self, nak: &Nak) {
        match self {
            Self::Native(native) => native.on_nak(nak),
            Self::Law(law) => law.on_nak(nak),
        }
    }

    /// All that is on its way is taken for lost.
    pub(super) fn on_expired(&mut self, nak: &Nak, repeated: bool) {
        match self {
            Self::Native(native) => native.on_expired(nak),
            Self::Law(law) => law.on_expired(nak, repeated),
        }
    }

    pub(super) fn limits(&self) -> ControlLimits {
        match self {
            Self::Native(native) => native.limits(),
            Self::Law(law) => law.limits(),
        }
    }
}
