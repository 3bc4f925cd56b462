//! Units on the command line.

use inhaul_base::{Bitrate, parse_bytes};

use super::samples;

/// A rate: `850M`, `2.5Gbit/s`.
pub fn bitrate(data: &[u8]) -> bool {
    let Some(rate) = str::from_utf8(data).ok().and_then(|text| text.parse::<Bitrate>().ok()) else { return false };
    // A rate is shown with one digit after the point, so 1.04 may come back as 1.0.
    let shown: Bitrate = rate.to_string().parse().expect("a rate that is shown can be read");
    assert!((shown.as_f64() - rate.as_f64()).abs() <= rate.as_f64() * 0.05, "{rate:?} is shown as {rate}");
    true
}

pub(super) fn bitrates() -> Vec<Vec<u8>> {
    samples::of_texts(&["850M", "2.5G", "64kbit", "10Gbit/s", "100 Mbps", "10000T", "1 bit/s"])
}

/// A size: `64MiB`, `1.5G`.
pub fn byte_count(data: &[u8]) -> bool {
    let Some(bytes) = str::from_utf8(data).ok().and_then(|text| parse_bytes(text).ok()) else { return false };
    assert_eq!(parse_bytes(&bytes.to_string()).ok(), Some(bytes));
    true
}

pub(super) fn byte_counts() -> Vec<Vec<u8>> {
    samples::of_texts(&["0", "4096", "64MiB", "1.5G", "512k", "2TiB", "1 GB", "9223372036854775808"])
}
