//! How much a receiver takes beside others' traffic (PROTOCOL.md 7.7).

/// One flow of TCP is fair.
const FAIR: f64 = 1.0;
/// Twice that.
const HIGH: f64 = 2.0;
/// Next to nothing.
const LOW: f64 = 0.04;

/// What a user has chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::gtp) enum Policy {
    /// What one TCP flow would have.
    #[default]
    Fair,
    /// What two would.
    High,
    /// What nobody else wants.
    Low,
}

impl Policy {
    /// As many TCP flows a data set counts as.
    pub(super) fn weight(self) -> f64 {
        match self {
            Self::Fair => FAIR,
            Self::High => HIGH,
            Self::Low => LOW,
        }
    }

    /// The policy of this name.
    pub(in crate::gtp) fn named(name: &str) -> Option<Self> {
        match name {
            "fair" => Some(Self::Fair),
            "high" => Some(Self::High),
            "low" => Some(Self::Low),
            _ => None,
        }
    }
}
