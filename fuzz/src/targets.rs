//! The parsers, one function and a few samples each. A new parser is one function and one line in [`TARGETS`].

use inhaul_base::{Bitrate, parse_bytes};

/// A parser under test.
#[derive(Debug)]
pub struct Target {
    /// Its name: of the function here, of the file in `fuzz_targets/`, of the folder of its corpus.
    pub name: &'static str,
    /// Feeds bytes to the parser and says whether it accepted them. Panics when the parser does, or when it accepts what it
    /// cannot stand by: what was read, when written and read again, must be the same.
    pub run: fn(&[u8]) -> bool,
    /// Samples that the parser accepts, from which mutations start.
    pub corpus: fn() -> Vec<Vec<u8>>,
}

/// Every parser of the house.
pub const TARGETS: &[Target] = &[
    Target { name: "bitrate", run: bitrate, corpus: bitrate_corpus },
    Target { name: "byte_count", run: byte_count, corpus: byte_count_corpus },
];

/// A rate on the command line: `850M`, `2.5Gbit/s`.
pub fn bitrate(data: &[u8]) -> bool {
    let Some(rate) = str::from_utf8(data).ok().and_then(|text| text.parse::<Bitrate>().ok()) else { return false };
    // A rate is shown with one digit after the point, so 1.04 may come back as 1.0.
    let shown: Bitrate = rate.to_string().parse().expect("a rate that is shown can be read");
    assert!((shown.as_f64() - rate.as_f64()).abs() <= rate.as_f64() * 0.05, "{rate:?} is shown as {rate}");
    true
}

fn bitrate_corpus() -> Vec<Vec<u8>> {
    texts(&["850M", "2.5G", "64kbit", "10Gbit/s", "100 Mbps", "1000000", "10000T", "1"])
}

/// A length on the command line: `64MiB`, `1.5G`.
pub fn byte_count(data: &[u8]) -> bool {
    let Some(bytes) = str::from_utf8(data).ok().and_then(|text| parse_bytes(text).ok()) else { return false };
    assert_eq!(parse_bytes(&bytes.to_string()).ok(), Some(bytes));
    true
}

fn byte_count_corpus() -> Vec<Vec<u8>> {
    texts(&["0", "4096", "64MiB", "1.5G", "512k", "2TiB", "1 GB", "9223372036854775808"])
}

fn texts(texts: &[&str]) -> Vec<Vec<u8>> {
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}
