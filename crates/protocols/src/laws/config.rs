//! What laws are built from.

/// What laws are built from.
#[derive(Clone, Copy, Debug)]
pub struct LawConfig {
    /// Packets that may be sent before anything is known (RFC 6928).
    pub initial_window: u64,
    /// Packets that may be on their way at most.
    pub window_max: u64,
    /// FHSTCP's c, per second.
    pub fair_factor: f64,
    /// Whether FHSTCP sends its window in blocks.
    pub block_pacing: bool,
    /// Whether CUBIC ends its first slow start by HyStart.
    pub hystart: bool,
    /// Seed of the law's random stream.
    pub seed: u64,
}
