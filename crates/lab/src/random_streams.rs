//! The numbers of random streams of the lab.

/// Random streams of the lab, apart from those of the simulator, which gets a seed of its own: of endpoints, of web
/// traffic and of UDP traffic.
pub(crate) const ENDPOINT_STREAMS: u64 = 1 << 40;
pub(crate) const WEB_STREAMS: u64 = 2 << 40;
pub(crate) const UDP_STREAMS: u64 = 3 << 40;
