//! The product: servers that offer data, and the client that hauls it in.
//!
//! A session is one TCP connection ([`frame`]s over a [`control_stream`]) beside one UDP path.
//!
//! The rooms, each of which uses only those above it; `tests/house` has the exact list:
//!
//! - `api`: what callers say and hear; `system`: threads, random numbers, a disk's speed.
//! - `session`: what client and server say to each other; `engine`: the one real-time loop and its sockets.
//! - `check` and `fetch_list`: lists of checksums and of what to fetch, without any network.
//! - `paths`: how flows' data comes, over UDP or streams.
//! - `sources`: where the bytes of a data set come from, opened, lost and opened again.
//! - `haul`: a transfer at the receiver; `serve`: a server; `read`: parts of data sets into memory.
//! - `delegate`: puts and copies, which one host orders and another carries out.
//! - `doctor` and `bench`: what a path and its ends can do.
#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]
#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods, reason = "the engine is where the clock is read and where waiting happens")]

mod api;
mod bench;
mod check;
mod delegate;
mod doctor;
mod engine;
mod fetch_list;
pub mod fuzzing;
mod haul;
mod paths;
mod read;
mod serve;
mod session;
mod sources;
mod system;

pub use api::counters::{Count, Counters, Refusal};
pub use api::error::{ErrorKind, MoveError};
pub use api::fairness::jain_index;
pub use api::options::{
    AcceptOptions, Ask, BenchLimit, BenchOptions, BenchServerOptions, CopyOptions, Fallback, GetOptions, Memory,
    Monitor, NetOptions, PolicyDial, Progress, PutOptions, RateDial, ServeOptions, SourceProgress, Stop, Update,
    Waiting,
};
pub use api::proxy::{Proxy, ProxyError, ProxyKind, UnusableProxy};
pub use api::report::{
    Action, BenchInterval, BenchReport, BenchSource, ErrorReport, FileReport, PathReport, Report, SourceReport,
    SourceStatus, Status,
};
pub use api::request::{Known, Location, Part, Request};
pub use api::secrets::{without_secrets, without_tickets};
pub use api::service::{Inherited, LimitsAnew, SessionLimits, Surroundings};
pub use api::source::{DEFAULT_PORT, Destination, Server, Source, SourceError};
pub use api::stream_output::StreamOutput;
pub use api::tickets::{NamedBy, Tickets, TicketsError};
pub use api::trust::{Ca, Certificate, ServerIdentity, Trust, UnknownServer};
pub use bench::{BenchUpdate, StagedFlow, StagedFlowReport, StagedOptions, StagedReport, bench, bench_server, staged};
pub use check::{ManifestFormat, Problem, ProblemKind, VerifyOptions, VerifyReport, manifest, verify};
pub use delegate::{Order, OrderError, OrderRule, Origin, SOURCES_MAX, copy, put, serve};
pub use doctor::{Cost, DoctorOptions, DoctorReport, Finding, Verdict, doctor};
pub use fetch_list::{FETCH_LIST_BYTES_MAX, FetchListError, FetchListFormat, read_fetch_list};
pub use haul::{Limit, Model, Prediction, get, in_full, list, list_checksums, predict};
pub use inhaul_protocols::registry::Protocols;
pub use inhaul_store::{Existing, Filter, FilterError, Inbox, Offer, OfferNameError, Rule};
pub use inhaul_transport::Policy;
pub use inhaul_udp::{is_input_closed, is_output_closed, listen_tcp, written};
pub use read::{
    Buffers, CacheOptions, Destination as ReadDestination, Handle, OpenSet, Pins, ReadOptions, ReadProgress, Reader,
    SetStats,
};
pub use session::connect::server_key;
pub use session::{control_stream, frame};
// How checksums of lists are computed.
pub use inhaul_store::checksums::Algorithm;
pub use inhaul_store::digest::Hash;
// What listings are made of.
pub use inhaul_store::{Listed, ListedKind, Timestamp, is_obeyed, printable, printable_lines};
