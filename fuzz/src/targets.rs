//! The parsers, one function and a few samples each. A new parser is one function, one line in [`TARGETS`], and one
//! file in `fuzz_targets/`.

mod endpoints;
mod gtp;
mod identity;
mod kit;
mod lab;
mod mover;
mod rates;
mod samples;
mod sealed;
mod store;
mod tcp;
mod text;
mod udt;
mod udt4;
mod udt4_port;

pub use endpoints::endpoints;
pub use gtp::{gtp_control, gtp_datagram};
pub use identity::{ticket, token, trust_file};
pub use kit::path_datagram;
pub use lab::{kept_result, scenario};
pub use mover::{
    bookkeeping, input_file, metalink, order, order_filter, probe, proxy, session_frame, session_stream, source, update,
};
pub use rates::{rates_datagram, rbudp_control, sabul_control};
pub use sealed::sealed;
pub use store::{checksums, digest_cache, filter, journal, listing, manifest, payload_manifest};
pub use tcp::{tcp_control, tcp_datagram};
pub use text::{bitrate, byte_count};
pub use udt::{udt_control, udt_datagram};
pub use udt4::{udt4_connection, udt4_packet};
pub use udt4_port::udt4_port;

/// A parser under test.
#[derive(Debug)]
pub struct Target {
    /// Its name, which is also the name of the function here, of the file in `fuzz_targets/`, and of the folder of its
    /// corpus.
    pub name: &'static str,
    /// Feeds bytes to the parser and returns whether it accepted them. Panics if the parser does, or if the parsed
    /// value differs after writing and parsing it again.
    pub run: fn(&[u8]) -> bool,
    /// Samples that the parser accepts, from which mutations start.
    pub corpus: fn() -> Vec<Vec<u8>>,
    /// Its time per input, in units of the fastest parser's. The smoke test tries fewer inputs by this factor.
    pub cost: u64,
}

/// Every parser of the program.
pub const TARGETS: &[Target] = &[
    Target { name: "bitrate", run: bitrate, corpus: text::bitrates, cost: 1 },
    Target { name: "byte_count", run: byte_count, corpus: text::byte_counts, cost: 1 },
    Target { name: "checksums", run: checksums, corpus: store::checksum_lists, cost: 1 },
    Target { name: "endpoints", run: endpoints, corpus: endpoints::scripts, cost: 200 },
    Target { name: "bookkeeping", run: bookkeeping, corpus: mover::data_sets, cost: 2 },
    Target { name: "probe", run: probe, corpus: mover::probes, cost: 1 },
    Target { name: "proxy", run: proxy, corpus: mover::proxies, cost: 1 },
    Target { name: "filter", run: filter, corpus: store::filters, cost: 20 },
    Target { name: "digest_cache", run: digest_cache, corpus: store::damages, cost: 20 },
    Target { name: "update", run: update, corpus: mover::updates, cost: 2 },
    Target { name: "gtp_datagram", run: gtp_datagram, corpus: gtp::own_datagrams, cost: 1 },
    Target { name: "gtp_control", run: gtp_control, corpus: gtp::controls, cost: 1 },
    Target { name: "input_file", run: input_file, corpus: mover::input_files, cost: 1 },
    Target { name: "journal", run: journal, corpus: store::journals, cost: 1 },
    Target { name: "kept_result", run: kept_result, corpus: lab::kept_results, cost: 2 },
    Target { name: "listing", run: listing, corpus: store::listings, cost: 1 },
    Target { name: "manifest", run: manifest, corpus: store::manifests, cost: 1 },
    Target { name: "metalink", run: metalink, corpus: mover::metalinks, cost: 2 },
    Target { name: "path_datagram", run: path_datagram, corpus: kit::path_datagrams, cost: 1 },
    Target { name: "order", run: order, corpus: mover::orders, cost: 2 },
    Target { name: "order_filter", run: order_filter, corpus: mover::orders, cost: 20 },
    Target { name: "payload_manifest", run: payload_manifest, corpus: store::payload_lists, cost: 1 },
    Target { name: "rates_datagram", run: rates_datagram, corpus: rates::own_datagrams, cost: 1 },
    Target { name: "rbudp_control", run: rbudp_control, corpus: rates::rbudp_controls, cost: 1 },
    Target { name: "sabul_control", run: sabul_control, corpus: rates::sabul_controls, cost: 1 },
    Target { name: "scenario", run: scenario, corpus: lab::scenarios, cost: 2 },
    Target { name: "sealed", run: sealed, corpus: sealed::scripts, cost: 20 },
    Target { name: "session_frame", run: session_frame, corpus: mover::frames, cost: 1 },
    Target { name: "session_stream", run: session_stream, corpus: mover::streams, cost: 4 },
    Target { name: "source", run: source, corpus: mover::sources, cost: 1 },
    Target { name: "tcp_datagram", run: tcp_datagram, corpus: tcp::own_datagrams, cost: 1 },
    Target { name: "tcp_control", run: tcp_control, corpus: tcp::controls, cost: 1 },
    Target { name: "ticket", run: ticket, corpus: identity::tickets, cost: 1 },
    Target { name: "token", run: token, corpus: identity::tokens, cost: 4 },
    Target { name: "trust_file", run: trust_file, corpus: identity::trust_files, cost: 4 },
    Target { name: "udt_datagram", run: udt_datagram, corpus: udt::own_datagrams, cost: 1 },
    Target { name: "udt_control", run: udt_control, corpus: udt::controls, cost: 1 },
    Target { name: "udt4_packet", run: udt4_packet, corpus: udt4::packets, cost: 1 },
    Target { name: "udt4_connection", run: udt4_connection, corpus: udt4::scripts, cost: 20 },
    Target { name: "udt4_port", run: udt4_port, corpus: udt4_port::scripts, cost: 50 },
];
