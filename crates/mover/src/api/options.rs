//! The options of all calls, and the updates that a caller receives meanwhile.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use inhaul_base::{Bitrate, Span};
use inhaul_store::{Existing, Filter, Inbox, Rule};
use serde::{Deserialize, Serialize};

use crate::api::report::SourceStatus;
use crate::api::request::Request;
use crate::api::source::{Destination, Server, Source};
use crate::api::stream_output::StreamOutput;

/// How the network is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetOptions {
    /// Largest IP packet to use, in bytes; `None`: what the interface carries, at most 9000.
    pub mtu: Option<u16>,
    /// Whether segmentation and receive offload may be used.
    pub offload: bool,
    /// The processor to pin the data thread to, counted from 0.
    pub cpu: Option<usize>,
    /// The transport protocol, by its name in the registry.
    pub transport: String,
    /// Parameters of the transport protocol, by name.
    pub parameters: Vec<(String, String)>,
}

/// A server of files.
#[derive(Clone, Debug)]
pub struct ServeOptions {
    /// The directories to offer.
    pub directories: Vec<PathBuf>,
    /// Address and port, TCP and UDP alike; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Most that leaves for all receivers together (R_send).
    pub send_rate: Option<Bitrate>,
    /// The directory in which digests of large files are remembered; `None`: they are computed each time.
    pub cache: Option<PathBuf>,
    /// What clients may have the server fetch; `None`: nothing.
    pub accept: Option<AcceptOptions>,
    /// Sessions that may be open, or in set-up, at once.
    pub sessions_max: usize,
    /// How many of them may be of one IPv4 address, or of one /64 of IPv6; `None`: a quarter of all.
    pub sessions_per_address_max: Option<usize>,
    /// Memory that the lists of files of all sessions may take together, in bytes.
    pub manifest_memory: u64,
    /// How long those that are under way may go on once the server is told to stop.
    pub grace: Span,
    /// Asks the server to open what it offers anew.
    pub reload: Ask,
    /// Asks the server to log the sessions that are under way.
    pub status: Ask,
    /// How the network is used.
    pub net: NetOptions,
}

/// What clients may have a server fetch.
#[derive(Clone, Debug)]
pub struct AcceptOptions {
    /// The directory into which they may bring data, and nowhere else.
    pub directory: PathBuf,
    /// The servers that it fetches from for them, beside themselves.
    pub copies_from: Vec<Server>,
    /// How many such transfers there may be at once.
    pub transfers_max: usize,
}

/// A put: what this host has, for a server to fetch.
#[derive(Clone, Debug)]
pub struct PutOptions {
    /// The files and directories.
    pub paths: Vec<PathBuf>,
    /// The server, and the path there.
    pub destination: Destination,
    /// What of the data sets is wanted.
    pub rules: Vec<Rule>,
    /// What becomes of files that exist there and differ.
    pub existing: Existing,
    /// Whether extended attributes are carried (`user.*`).
    pub attributes: bool,
    /// Only say what would be done.
    pub dry_run: bool,
    /// Whether to begin anew, rather than to go on from what an interrupted transfer has left.
    pub fresh: bool,
    /// Most that this host sends (R_send).
    pub rate: Option<Bitrate>,
    /// How long to go on trying without a byte when the server cannot be reached or is lost; zero: not at all.
    pub retry_for: Span,
    /// The directory in which digests of large files are remembered; `None`: they are computed each time.
    pub cache: Option<PathBuf>,
    /// How the network is used.
    pub net: NetOptions,
}

/// A transfer.
#[derive(Clone, Debug)]
pub struct GetOptions {
    /// The data sets, each with its mirrors.
    pub requests: Vec<Request>,
    /// What the one data set becomes; or, if it ends in `/`, the directory that all land in.
    pub destination: PathBuf,
    /// The directory that confines `destination`, if a client has named it.
    pub inbox: Option<Arc<Inbox>>,
    /// Most that this host takes in (C_r).
    pub receive_rate: Option<Bitrate>,
    /// Most that each sender may send (R_app).
    pub rate: Option<Bitrate>,
    /// What of the data sets is wanted.
    pub filter: Filter,
    /// What becomes of files that exist and differ.
    pub existing: Existing,
    /// Whether files that exist are compared by their bytes, rather than by size and time.
    pub checksum: bool,
    /// Whether files are to be whose they are at the source, by number.
    pub owner: bool,
    /// Whether extended attributes are carried (`user.*`).
    pub attributes: bool,
    /// Only say what would be done.
    pub dry_run: bool,
    /// Whether to begin anew, rather than to go on from what an interrupted transfer has left.
    pub fresh: bool,
    /// Where to write a list of the checksums of all that has come.
    pub manifest: Option<PathBuf>,
    /// Where to write the one file in order as well, while it comes.
    pub stream: Option<StreamOutput>,
    /// How long to go on trying without a byte when servers cannot be reached or are lost; zero: not at all.
    pub retry_for: Span,
    /// How the network is used.
    pub net: NetOptions,
}

/// A copy: what other servers have, for a server to fetch.
#[derive(Clone, Debug)]
pub struct CopyOptions {
    /// The data sets, each with its mirrors, as the server that fetches them knows them.
    pub sources: Vec<Source>,
    /// The server that fetches, and the path there.
    pub destination: Destination,
    /// What of the data sets is wanted.
    pub rules: Vec<Rule>,
    /// What becomes of files that exist there and differ.
    pub existing: Existing,
    /// Whether files that exist are compared by their bytes, rather than by size and time.
    pub checksum: bool,
    /// Whether extended attributes are carried (`user.*`).
    pub attributes: bool,
    /// Only say what would be done.
    pub dry_run: bool,
    /// Whether to begin anew, rather than to go on from what an interrupted transfer has left.
    pub fresh: bool,
    /// Most that each sender may send (R_app).
    pub rate: Option<Bitrate>,
    /// How long to go on trying without a byte when a server cannot be reached or is lost; zero: not at all.
    pub retry_for: Span,
    /// How the network is used; of the data, the transport alone.
    pub net: NetOptions,
}

/// The memory that a bench moves bytes from and into.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Memory {
    /// One small buffer, sent again and again; received bodies are dropped. Shows the protocol and the network stack.
    #[default]
    Hot,
    /// 1 GiB, walked from end to end at both sides. Shows what real data costs.
    Cold,
}

/// When a bench ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum BenchLimit {
    /// After this number of seconds.
    Seconds(f64),
    /// After this number of bytes, all flows together.
    Bytes(u64),
}

/// A bench, at the side that calls.
#[derive(Clone, Debug)]
pub struct BenchOptions {
    /// The servers.
    pub servers: Vec<Server>,
    /// When it ends.
    pub limit: BenchLimit,
    /// Flows to each server.
    pub flows: u16,
    /// Most for each flow.
    pub rate: Option<Bitrate>,
    /// Most that the receiver takes in (C_r).
    pub receive_rate: Option<Bitrate>,
    /// Send to the servers, rather than receive from them.
    pub reverse: bool,
    /// The memory that is moved from and into.
    pub memory: Memory,
    /// How the network is used.
    pub net: NetOptions,
}

/// A bench's server.
#[derive(Clone, Debug)]
pub struct BenchServerOptions {
    /// Address and port, TCP and UDP alike; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Most that this host takes in (C_r) from clients that push.
    pub receive_rate: Option<Bitrate>,
    /// Most that leaves for all clients that fetch together (R_send).
    pub send_rate: Option<Bitrate>,
    /// Where that is changed while the server runs, if it is.
    pub send_dial: Option<RateDial>,
    /// How the network is used.
    pub net: NetOptions,
}

/// A rate limit that can be changed while it is in force. Clones share it. Its users read it every [`RateDial::LOOK`].
#[derive(Clone, Debug, Default)]
pub struct RateDial(Arc<AtomicU64>);

impl RateDial {
    /// How late a change may be noticed.
    pub const LOOK: Span = Span::from_millis(10);

    /// Changes the rate.
    pub fn set(&self, rate: Bitrate) {
        self.0.store(rate.bps(), Ordering::Relaxed);
    }

    /// The rate that was set last, if there was any.
    pub fn get(&self) -> Option<Bitrate> {
        Some(self.0.load(Ordering::Relaxed)).filter(|bps| *bps > 0).map(Bitrate::from_bps)
    }
}

/// A flag by which a user stops what is under way. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// A flag that is not set.
    pub fn new() -> Self {
        Self::default()
    }

    /// The flag itself, for a signal handler to set.
    pub fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.0)
    }

    /// Sets it.
    pub fn stop(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether it is set.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// A flag by which a user asks for something to be done once, while all goes on. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Ask(Arc<AtomicBool>);

impl Ask {
    /// The flag itself, for a signal handler to set.
    pub fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.0)
    }

    /// Whether it has been asked for since the last look.
    pub(crate) fn take(&self) -> bool {
        self.0.swap(false, Ordering::Relaxed)
    }
}

/// Something that a user may want to see while a transfer is under way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Update {
    /// How far it is; several times a second.
    Progress(Progress),
    /// Something went wrong that did not end the transfer.
    Warning(String),
}

/// How far a transfer is. Serialised, it is the line that `docs/json.md` documents.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// Since the first request, in seconds.
    pub seconds: f64,
    /// Bytes that are verified.
    pub bytes: u64,
    /// Bytes that have been received, verified or not, by this transfer or by one that it goes on from.
    pub received_bytes: u64,
    /// Bytes of these that an interrupted transfer has left.
    pub resumed_bytes: u64,
    /// Bytes of the whole transfer.
    pub total_bytes: u64,
    /// Files of the whole transfer that are verified and have their names.
    pub files: usize,
    /// Files that the whole transfer brings.
    pub total_files: usize,
    /// Rate at which data came in lately, in bits per second.
    pub goodput_bps: f64,
    /// Rate at which data came in since the first request, in bits per second.
    pub average_bps: f64,
    /// Every server that takes part.
    pub sources: Vec<SourceProgress>,
    /// What is waited for, when a data set has no server that could be reached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting: Option<Waiting>,
}

/// Servers that a transfer waits for: nothing can come before one of them is there again.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Waiting {
    /// The servers, as host and port.
    pub servers: Vec<String>,
    /// For how long now, in seconds.
    pub seconds: f64,
    /// Why the last try came to nothing.
    pub reason: String,
}

/// How a server is doing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SourceProgress {
    /// The server, as host and port.
    pub address: String,
    /// Bytes that it was the first to deliver.
    pub bytes: u64,
    /// Rate at which its data came in lately, headers included, in bits per second.
    pub received_bps: f64,
    /// Rate that it may have, headers included, in bits per second.
    pub target_bps: f64,
    /// Its data packets lost over its data packets sent, since the start.
    pub loss_ratio: f64,
    /// Smoothed round-trip time, in milliseconds; `None` while it has not been measured.
    pub rtt_ms: Option<f64>,
    /// Whether it still takes part: `running`, `waiting`, or how its part ended.
    pub status: SourceStatus,
}
