//! A receiver's share beside others' traffic (PROTOCOL.md 7.7).

pub(in crate::gtp) use inhaul_transport::Policy;

/// One flow of TCP is fair.
const FAIR: f64 = 1.0;
/// Twice that.
const HIGH: f64 = 2.0;
/// Next to nothing.
const LOW: f64 = 0.04;

/// A policy's effect on a flow that competes.
pub(super) trait Weight {
    /// As many TCP flows a data set counts as.
    fn weight(self) -> f64;
}

impl Weight for Policy {
    fn weight(self) -> f64 {
        match self {
            Self::Fair => FAIR,
            Self::High => HIGH,
            Self::Low => LOW,
            // It does not compete.
            Self::Fixed => FAIR,
        }
    }
}
