//! The first content of data sets, which travels with their description: a transport would need several round trips to
//! begin. Of small ones it is all.

use std::time::Duration;

use inhaul_base::{Bitrate, Span};

use crate::api::options::GetOptions;
use crate::session::frame::GroupDigest;

/// Bytes of content that a client takes so. With the description of a few files it is what TCP sends in its first two
/// flights (10 and 20 packets). No transport brings the first of these bytes sooner.
const WANTED_BYTES: u32 = 32 * 1024;
/// Most bytes that a server sends so.
pub const OFFERED_BYTES: u32 = 64 * 1024;
/// Most groups of which it does: each has a digest, which travels, too.
pub const GROUPS_MAX: u64 = 256;
/// TCP does not keep to the rates that users set. So no more is moved so than they allow in this time.
const AT_RATE: Span = Span::from_millis(100);

/// As many of `bytes` as a user lets move outside the transport, who has set `rate`.
pub fn within(bytes: u32, rate: Option<Bitrate>) -> u32 {
    let allowed = rate.map_or(u64::MAX, |rate| rate.bytes_in(AT_RATE));
    bytes.min(u32::try_from(allowed).unwrap_or(u32::MAX))
}

/// Bytes of content that whoever fetches takes so.
pub fn wanted(options: &GetOptions) -> u32 {
    let bytes = if options.dry_run { 0 } else { WANTED_BYTES };
    within(within(bytes, options.rate), options.receive_rate)
}

/// What came of a data set with its description.
#[derive(Debug)]
pub struct Early {
    /// Whether that is all of it.
    pub is_all: bool,
    /// The digests of all groups, if it is all.
    pub digests: Vec<GroupDigest>,
    /// Its first bytes.
    pub bytes: Vec<u8>,
    /// How long it took, from the question on.
    pub took: Duration,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_keeps_to_a_rate_takes_no_more_than_it_allows() {
        assert_eq!(within(WANTED_BYTES, None), WANTED_BYTES);
        assert_eq!(within(WANTED_BYTES, Some(Bitrate::from_mbps(100))), WANTED_BYTES);
        assert_eq!(within(WANTED_BYTES, Some(Bitrate::from_bps(80_000))), 1000);
        assert_eq!(within(WANTED_BYTES, Some(Bitrate::from_bps(u64::MAX))), WANTED_BYTES);
    }
}
