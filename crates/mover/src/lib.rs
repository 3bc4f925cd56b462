//! The product: servers that offer data, and the client that hauls it in.
//!
//! A session is one TCP connection ([`frame`]s over a [`control_stream`]) beside one UDP path.
//!
//! The crates beneath it, from which it takes its public names:
//!
//! - `inhaul-session`: what callers, clients and servers say to each other; `inhaul-engine`: the one real-time loop.
//! - `inhaul-haul`: a transfer at the receiver; `inhaul-read`: parts of data sets into memory.
//! - `inhaul-serve`: a server; `inhaul-delegate`: puts and copies, which one host orders and another carries out.
//! - `inhaul-tools`: doctor, bench, predictions, lists of checksums.
#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]
#![forbid(unsafe_code)]

pub mod fuzzing;

pub use inhaul_delegate::{Order, OrderError, OrderRule, Origin, SOURCES_MAX, copy, put, serve};
pub use inhaul_haul::fetch_list::{FETCH_LIST_BYTES_MAX, FetchListError, FetchListFormat, read_fetch_list};
pub use inhaul_haul::haul::{get, in_full, list, list_checksums};
pub use inhaul_protocols::registry::Protocols;
pub use inhaul_read::{
    Buffers, CacheOptions, Destination as ReadDestination, Handle, OpenSet, Pins, ReadOptions, ReadProgress, Reader,
    SetStats,
};
pub use inhaul_session::api::counters::{Count, Counters, Refusal};
pub use inhaul_session::api::error::{ErrorKind, MoveError};
pub use inhaul_session::api::fairness::jain_index;
pub use inhaul_session::api::options::{
    AcceptOptions, Ask, BenchLimit, BenchOptions, BenchServerOptions, CopyOptions, Fallback, GetOptions, Memory,
    Monitor, NetOptions, PolicyDial, Progress, PutOptions, RateDial, ServeOptions, SourceProgress, Stop, Update,
    Waiting,
};
pub use inhaul_session::api::proxy::{Proxy, ProxyError, ProxyKind, UnusableProxy};
pub use inhaul_session::api::report::{
    Action, BenchInterval, BenchReport, BenchSource, ErrorReport, FileReport, PathReport, Report, SourceReport,
    SourceStatus, Status,
};
pub use inhaul_session::api::request::{Known, Location, Part, Request};
pub use inhaul_session::api::secrets::{without_secrets, without_tickets};
pub use inhaul_session::api::service::{Inherited, LimitsAnew, SessionLimits, Surroundings};
pub use inhaul_session::api::source::{DEFAULT_PORT, Destination, Server, Source, SourceError};
pub use inhaul_session::api::stream_output::StreamOutput;
pub use inhaul_session::api::tickets::{NamedBy, Tickets, TicketsError};
pub use inhaul_session::api::trust::{Ca, Certificate, ServerIdentity, Trust, UnknownServer};
pub use inhaul_session::session::connect::server_key;
pub use inhaul_session::session::{control_stream, frame};
pub use inhaul_store::{Existing, Filter, FilterError, Inbox, Offer, OfferNameError, Rule};
pub use inhaul_tools::bench::{
    BenchUpdate, StagedFlow, StagedFlowReport, StagedOptions, StagedReport, bench, bench_server, staged,
};
pub use inhaul_tools::check::{ManifestFormat, Problem, ProblemKind, VerifyOptions, VerifyReport, manifest, verify};
pub use inhaul_tools::doctor::{Cost, DoctorOptions, DoctorReport, Finding, Verdict, doctor};
pub use inhaul_transport::Policy;
pub use inhaul_udp::{is_input_closed, is_output_closed, listen_tcp, written};
// How checksums of lists are computed.
pub use inhaul_store::checksums::Algorithm;
pub use inhaul_store::digest::Hash;
// What listings are made of.
pub use inhaul_store::{Listed, ListedKind, Timestamp, is_obeyed, printable, printable_lines};
pub use inhaul_tools::predict::{Limit, Model, Prediction, predict};
