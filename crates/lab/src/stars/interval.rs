//! The time over which stars are measured.

/// Central intervals are this many RTTmax, ...
pub(super) const INTERVAL_RTTS: f64 = 3.0;
/// ... and not shorter than this (PROTOCOL.md 6.5).
pub(super) const INTERVAL_S_MIN: f64 = 0.02;

/// Rates are means over a central interval, but over no fewer packets of the slowest flow than these: what is lost at
/// random makes a mean of n packets uncertain by sqrt(p / n (1 - p)), and it takes 1.6 % of that for chance alone not
/// to break a tolerance of a tenth.
pub(super) fn window_packets(loss: f64) -> f64 {
    50.0 + 4_000.0 * loss / (1.0 - loss)
}
