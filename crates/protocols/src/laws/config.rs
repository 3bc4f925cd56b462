//! Configuration of laws.

use std::sync::Arc;

use inhaul_transport::{FlowId, Law};

/// Configuration of laws.
#[derive(Clone, Copy, Debug)]
pub struct LawConfig {
    /// Packets that may be sent before anything is known (RFC 6928).
    pub initial_window: u64,
    /// Packets that may be in flight at most.
    pub window_max: u64,
    /// FHSTCP's c, per second.
    pub fair_factor: f64,
    /// Whether FHSTCP sends its window in blocks.
    pub block_pacing: bool,
    /// Whether CUBIC ends its first slow start by HyStart.
    pub hystart: bool,
    /// Whether a cut in slow start, and the first cut, always halves the window, as in ns-2 (`slowdown`).
    pub halves_slow_start: bool,
    /// Seed of the law's random stream.
    pub seed: u64,
}

/// Builds the law of a sender's flow, when its receiver has asked for one; `None`: the flow gets the law that the
/// receiver wants. For laws that no registry knows.
pub type MakeLaw = Arc<dyn Fn(FlowId, &LawConfig) -> Option<Box<dyn Law + Send>> + Send + Sync>;
