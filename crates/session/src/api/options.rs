//! The options of all calls, and the updates that a caller receives meanwhile.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use inhaul_base::{Bitrate, Span};
use inhaul_protocols::registry::{self, Protocols};
use inhaul_store::{Existing, Filter, Inbox, Offer, Rule};
use inhaul_transport::Policy;
use serde::{Deserialize, Serialize};

use crate::api::report::{PathReport, SourceStatus};
use crate::api::request::Request;
use crate::api::service::{SessionLimits, Surroundings};
use crate::api::source::{Destination, Server, Source};
use crate::api::stream_output::StreamOutput;
use crate::api::trust::{ServerIdentity, Trust};

/// How the network is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetOptions {
    /// Size of the largest IP packet to send, in bytes; `None`: the interface's MTU, at most 9000.
    pub mtu: Option<u16>,
    /// Whether segmentation and receive offload may be used.
    pub offload: bool,
    /// The processor to pin the data thread to, counted from 0.
    pub cpu: Option<usize>,
    /// The transport protocols that may be used.
    pub protocols: Protocols,
    /// The transport protocol, by its name.
    pub transport: String,
    /// Parameters of the transport protocol, by name.
    pub parameters: Vec<(String, String)>,
    /// Which servers are believed, and who this host is to them.
    pub trust: Trust,
    /// Receive buffer of each UDP socket to ask for, in bytes; `None`: 8 MiB. The kernel gives at most
    /// `net.core.rmem_max`.
    pub receive_buffer_bytes: Option<usize>,
    /// Whether a receiver watches its host, and tells senders of pauses that it foresees.
    pub monitor: Monitor,
    /// Whether data may go over TCP streams to servers' control ports.
    pub fallback: Fallback,
    /// Whether this process may have as many files and connections open as the system lets it: its own limit is raised
    /// to that. A server's allocator then keeps little of what was freed, too.
    pub raise_limits: bool,
    /// A server: whether only transports and policies are let in that leave TCP flows beside them their share.
    pub fair_only: bool,
}

/// Whether data goes over TCP streams to servers' control ports, where UDP does not pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fallback {
    /// It does while UDP does not pass, or loses so much that streams carry more. Through a proxy it always does.
    #[default]
    Auto,
    /// It does not.
    Never,
    /// It does from the start, and UDP is not used.
    Always,
}

/// Whether a receiver foresees what its host cannot take in: [`inhaul_udp::watch`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Monitor {
    /// It does, and tells senders of a pause where that pays: where more would come in meanwhile than its socket
    /// buffer is sure to take (rbudp-plus-2006 6, discussion).
    #[default]
    Auto,
    /// It does, and tells senders of every pause.
    On,
    /// It looks at every source, whatever that costs, logs what each foresees, and does nothing about it.
    Log,
    /// It does not.
    Off,
}

impl Default for NetOptions {
    /// The default protocol, with offloads, unpinned.
    fn default() -> Self {
        Self {
            mtu: None,
            offload: true,
            cpu: None,
            protocols: Protocols::ALL,
            transport: registry::DEFAULT.name.to_owned(),
            parameters: Vec::new(),
            trust: Trust::default(),
            receive_buffer_bytes: None,
            monitor: Monitor::Auto,
            fallback: Fallback::Auto,
            raise_limits: false,
            fair_only: false,
        }
    }
}

/// A server of files.
#[derive(Clone, Debug)]
pub struct ServeOptions {
    /// The directories and files to offer, with or without names.
    pub directories: Vec<Offer>,
    /// Address and port for TCP and UDP; port 0 chooses a free one.
    pub listen: SocketAddr,
    /// Limit of what this host sends to all receivers together (R_send).
    pub send_rate: Option<Bitrate>,
    /// Limit of what it sends to each client over all its sessions: to each key or token, or to each address where
    /// everybody may read.
    pub client_rate: Option<Bitrate>,
    /// The directory of the digest cache for large files; `None`: digests are computed each time.
    pub cache: Option<PathBuf>,
    /// What clients may order the server to fetch; `None`: nothing.
    pub accept: Option<AcceptOptions>,
    /// Maximum number of sessions at once.
    pub limits: SessionLimits,
    /// Maximum memory for the lists of files of all sessions together, in bytes.
    pub manifest_memory: u64,
    /// How long running sessions may continue after the server is told to stop.
    pub grace: Span,
    /// Who the server is, and whom it lets in.
    pub identity: ServerIdentity,
    /// Asks the server to open its directories again, and to read its certificate, its limits, and whom it lets in
    /// again.
    pub reload: Ask,
    /// Asks the server to log the running sessions.
    pub status: Ask,
    /// What its service manager gives it, and who watches it.
    pub surroundings: Surroundings,
    /// How the network is used.
    pub net: NetOptions,
}

/// What clients may order a server to fetch.
#[derive(Clone, Debug)]
pub struct AcceptOptions {
    /// The directory that their data lands in, and nowhere else.
    pub directory: PathBuf,
    /// The servers that it may fetch from in their order, besides the clients themselves.
    pub copies_from: Vec<Server>,
    /// Maximum number of such transfers at once.
    pub transfers_max: usize,
    /// How many of these a client keeps when all are taken and others wait: a key or a token, or, where everybody may, an
    /// address. `None`: a quarter.
    pub transfers_per_client: Option<usize>,
}

/// A put: a server fetches files from this host.
#[derive(Clone, Debug)]
pub struct PutOptions {
    /// The files and directories.
    pub paths: Vec<PathBuf>,
    /// The server, and the destination's path there.
    pub destination: Destination,
    /// Selects files of the data sets.
    pub rules: Vec<Rule>,
    /// What happens to files that exist there and differ.
    pub existing: Existing,
    /// Whether to transfer extended attributes (`user.*`).
    pub attributes: bool,
    /// Whether to report only what would be done.
    pub dry_run: bool,
    /// Whether to start from the beginning, and not from the verified data of an interrupted transfer.
    pub fresh: bool,
    /// Limit of what this host sends (R_send).
    pub rate: Option<Bitrate>,
    /// How long to retry without a byte if the server cannot be reached or is lost; zero: no retry.
    pub retry_for: Span,
    /// The directory of the digest cache for large files; `None`: digests are computed each time.
    pub cache: Option<PathBuf>,
    /// How the network is used.
    pub net: NetOptions,
}

/// A transfer.
#[derive(Clone, Debug)]
pub struct GetOptions {
    /// The data sets, each with its mirrors.
    pub requests: Vec<Request>,
    /// The new name of the one data set; or, if it ends in `/`, the directory for all data sets.
    pub destination: PathBuf,
    /// The directory that confines `destination`, if a client has named it.
    pub inbox: Option<Arc<Inbox>>,
    /// Limit of what this host takes in from all senders (C_r).
    pub receive_rate: Option<Bitrate>,
    /// Limit of each sender (R_app).
    pub rate: Option<Bitrate>,
    /// Selects files of the data sets.
    pub filter: Filter,
    /// What happens to files that exist and differ.
    pub existing: Existing,
    /// Whether to compare existing files by size and hash, and not by size and time.
    pub checksum: bool,
    /// Whether to keep owner and group, by number.
    pub owner: bool,
    /// Whether to transfer extended attributes (`user.*`).
    pub attributes: bool,
    /// Whether to report only what would be done.
    pub dry_run: bool,
    /// Whether to start from the beginning, and not from the verified data of an interrupted transfer.
    pub fresh: bool,
    /// Where to write a list of checksums of all fetched files.
    pub manifest: Option<PathBuf>,
    /// Where to write the one file in order as well, while it arrives.
    pub stream: Option<StreamOutput>,
    /// How long to retry without a byte if servers cannot be reached or are lost; zero: no retry.
    pub retry_for: Span,
    /// A dial that changes how much is taken beside others' traffic while data comes, if there is one.
    pub policy_dial: Option<PolicyDial>,
    /// How the network is used.
    pub net: NetOptions,
}

impl GetOptions {
    /// A transfer of `requests` to `destination`, with nothing else said: nothing is left out, what exists and differs
    /// is left alone, and each server is tried once.
    pub fn new(requests: Vec<Request>, destination: PathBuf) -> Self {
        Self {
            requests,
            destination,
            inbox: None,
            receive_rate: None,
            rate: None,
            filter: Filter::default(),
            existing: Existing::default(),
            checksum: false,
            owner: false,
            attributes: false,
            dry_run: false,
            fresh: false,
            manifest: None,
            stream: None,
            retry_for: Span::ZERO,
            policy_dial: None,
            net: NetOptions::default(),
        }
    }
}

/// A copy: a server fetches from other servers.
#[derive(Clone, Debug)]
pub struct CopyOptions {
    /// The data sets, each with its mirrors. The fetching server resolves their hosts.
    pub sources: Vec<Source>,
    /// The fetching server, and the destination's path there.
    pub destination: Destination,
    /// Selects files of the data sets.
    pub rules: Vec<Rule>,
    /// What happens to files that exist there and differ.
    pub existing: Existing,
    /// Whether to compare existing files by size and hash, and not by size and time.
    pub checksum: bool,
    /// Whether to transfer extended attributes (`user.*`).
    pub attributes: bool,
    /// Whether to report only what would be done.
    pub dry_run: bool,
    /// Whether to start from the beginning, and not from the verified data of an interrupted transfer.
    pub fresh: bool,
    /// Limit of each sender (R_app).
    pub rate: Option<Bitrate>,
    /// How long to retry without a byte if a server cannot be reached or is lost; zero: no retry.
    pub retry_for: Span,
    /// How the network is used. For the data, only the transport applies.
    pub net: NetOptions,
}

/// The memory that a bench moves bytes from and into.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Memory {
    /// One small buffer, sent again and again; received bodies are dropped. Shows the protocol and the network stack.
    #[default]
    Hot,
    /// 1 GiB, walked from end to end at both ends. Shows the cost of real data.
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

/// A bench, at the client.
#[derive(Clone, Debug)]
pub struct BenchOptions {
    /// The servers.
    pub servers: Vec<Server>,
    /// When it ends.
    pub limit: BenchLimit,
    /// Flows to each server.
    pub flows: u16,
    /// Limit of each flow.
    pub rate: Option<Bitrate>,
    /// Limit of what the receiver takes in (C_r).
    pub receive_rate: Option<Bitrate>,
    /// Send to the servers, rather than receive from them.
    pub reverse: bool,
    /// The memory that data is moved from and into.
    pub memory: Memory,
    /// How the network is used.
    pub net: NetOptions,
}

/// A bench's server.
#[derive(Clone, Debug)]
pub struct BenchServerOptions {
    /// Address and port for TCP and UDP; port 0 chooses a free one.
    pub listen: SocketAddr,
    /// Limit of what this host takes in from clients that send (C_r).
    pub receive_rate: Option<Bitrate>,
    /// Limit of what this host sends to all clients together (R_send).
    pub send_rate: Option<Bitrate>,
    /// A dial that changes this limit while the server runs, if there is one.
    pub send_dial: Option<RateDial>,
    /// Who the server is, and whom it lets in.
    pub identity: ServerIdentity,
    /// How the network is used.
    pub net: NetOptions,
}

/// A rate limit that can be changed while it is in force. Clones share it. Its users read it every [`RateDial::LOOK`].
#[derive(Clone, Debug, Default)]
pub struct RateDial(Arc<AtomicU64>);

impl RateDial {
    /// The longest time until a change takes effect.
    pub const LOOK: Span = Span::from_millis(10);

    /// Changes the rate.
    pub fn set(&self, rate: Bitrate) {
        self.0.store(rate.bps(), Ordering::Relaxed);
    }

    /// The rate that was set last, if there is one.
    pub fn get(&self) -> Option<Bitrate> {
        Some(self.0.load(Ordering::Relaxed)).filter(|bps| *bps > 0).map(Bitrate::from_bps)
    }
}

/// A [`Policy`] that can be changed while it is in force. Clones share it, and each transfer that holds one follows it: from
/// the start, if it was set before, so that servers are asked with it; later within [`RateDial::LOOK`]. It does so if its
/// protocol has policies and, for [`Policy::Fixed`], if it was given a receive rate; else it warns, and goes on as before.
#[derive(Clone, Debug, Default)]
pub struct PolicyDial(Arc<Mutex<Option<Policy>>>);

impl PolicyDial {
    /// Changes the policy.
    pub fn set(&self, policy: Policy) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(policy);
    }

    /// The policy that was set last, if one was.
    pub fn get(&self) -> Option<Policy> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A flag by which a user stops a running call. Clones share it.
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

/// A flag by which a user requests a single action of a running server. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Ask(Arc<AtomicBool>);

impl Ask {
    /// The flag itself, for a signal handler to set.
    pub fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.0)
    }

    /// Whether it was set since the last call.
    pub fn take(&self) -> bool {
        self.0.swap(false, Ordering::Relaxed)
    }
}

/// News of a running transfer for the user.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Update {
    /// Its progress; several times a second.
    Progress(Progress),
    /// Something went wrong that did not end the transfer.
    Warning(String),
}

/// The progress of a transfer. Serialised, it is the line that `docs/json.md` documents.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// Since the start of the set-up, in seconds.
    pub seconds: f64,
    /// Bytes that are verified.
    pub bytes: u64,
    /// Bytes that were received, verified or not, by this transfer or by the interrupted one that it continues.
    pub received_bytes: u64,
    /// The part of these bytes that an interrupted transfer has left.
    pub resumed_bytes: u64,
    /// Bytes that this call has fetched, verified or not: `received_bytes` without `resumed_bytes` and holes.
    #[serde(default)]
    pub fetched_bytes: u64,
    /// Bytes of the whole transfer.
    pub total_bytes: u64,
    /// Files of the whole transfer that are verified and have their names.
    pub files: usize,
    /// Files of the whole transfer.
    pub total_files: usize,
    /// Rate of arriving data during the last second, in bits per second.
    pub goodput_bps: f64,
    /// `fetched_bytes` over `seconds`, in bits per second.
    pub average_bps: f64,
    /// How much is taken beside others' traffic now: see [`Policy::name`]. `None` if the transport has no policies.
    #[serde(default)]
    pub policy: Option<String>,
    /// Every server that takes part.
    pub sources: Vec<SourceProgress>,
    /// The servers that are waited for, if a data set has no reachable server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting: Option<Waiting>,
}

/// Servers that a transfer waits for: no data can come before one of them is back.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Waiting {
    /// The servers, as host and port.
    pub servers: Vec<String>,
    /// How long the wait has lasted, in seconds.
    pub seconds: f64,
    /// Why the last attempt failed.
    pub reason: String,
}

/// The state of a server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SourceProgress {
    /// The server, as host and port.
    pub address: String,
    /// Bytes that it was the first to deliver.
    pub bytes: u64,
    /// Rate of the data that it was the first to deliver, over the time of the transfer's `goodput_bps`: so the
    /// sources' rates add up to that.
    #[serde(default)]
    pub goodput_bps: f64,
    /// Recent rate of its packets, headers included, as the protocol measures it, in bits per second.
    pub received_bps: f64,
    /// Rate that the receiver allows it, headers included, in bits per second.
    pub target_bps: f64,
    /// Its data packets lost over its data packets sent, since the start.
    pub loss_ratio: f64,
    /// Smoothed round-trip time, in milliseconds; `None` while it has not been measured.
    pub rtt_ms: Option<f64>,
    /// What holds its rate: `starting`, `nothing`, `receiver`, `path`, `others`, `sender` or `policy`. `None` if the
    /// transport does not say.
    #[serde(default)]
    pub held_by: Option<String>,
    /// Whether it still takes part: `running`, `waiting`, or how its part ended.
    pub status: SourceStatus,
    /// How its data comes.
    #[serde(default)]
    pub path: PathReport,
}
