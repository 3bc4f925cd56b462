//! The product: servers that offer data, and the client that hauls it in.
//!
//! A session is one TCP connection ([`frame`]s over a [`control_stream`]) beside one UDP path.
#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods, reason = "the engine is where the clock is read and where waiting happens")]

mod api;
mod bench;
mod check;
mod compare;
mod delegate;
mod destination;
mod digest_plan;
mod doctor;
mod engine;
mod fetch_list;
pub mod fuzzing;
mod get;
mod haul;
mod known;
mod list;
mod manifest_file;
mod naming;
mod predict;
mod recheck;
mod serve;
mod session;
mod stream;
mod sync;
mod system;
mod tally;
mod verify;
mod writer;

pub use api::error::{ErrorKind, MoveError};
pub use api::options::{
    AcceptOptions, Ask, BenchLimit, BenchOptions, BenchServerOptions, CopyOptions, GetOptions, Memory, NetOptions,
    Progress, PutOptions, RateDial, ServeOptions, SourceProgress, Stop, Update, Waiting,
};
pub use api::report::{
    Action, BenchInterval, BenchReport, BenchSource, ErrorReport, FileReport, Report, SourceReport, SourceStatus,
    Status, jain_index,
};
pub use api::request::{Known, Location, Part, Request};
pub use bench::{BenchUpdate, StagedFlow, StagedFlowReport, StagedOptions, StagedReport, bench, bench_server, staged};
pub use check::{ManifestFormat, Problem, ProblemKind, VerifyOptions, VerifyReport, manifest, verify};
pub use delegate::{Order, OrderError, OrderRule, Origin, SOURCES_MAX, copy, put, serve};
pub use doctor::{Cost, DoctorOptions, DoctorReport, Finding, Verdict, doctor};
pub use fetch_list::{FETCH_LIST_BYTES_MAX, FetchListError, FetchListFormat, read_fetch_list};
pub use get::get;
pub use inhaul_store::{Existing, Filter, FilterError, Inbox, Rule};
pub use list::{list, list_checksums};
pub use predict::{Limit, Prediction, predict};
pub use session::{control_stream, frame};
// How checksums of lists are computed.
pub use inhaul_store::checksums::Algorithm;
pub use inhaul_store::digest::Hash;
// What listings are made of.
pub use api::source::{DEFAULT_PORT, Destination, Server, Source, SourceError};
pub use api::stream_output::StreamOutput;
pub use inhaul_store::{Listed, ListedKind, Timestamp, printable};
