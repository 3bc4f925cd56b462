//! The report of a transfer: the numbers of the summary and of `--json`.

use inhaul_base::byte_text::quoted;
use inhaul_base::{Probability, Span, Throughput};
use inhaul_store::Fate;
use serde::{Deserialize, Serialize};

use super::error::MoveError;

/// The report of a transfer. Serialised, it is the object that `docs/json.md` documents.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// How it ended.
    pub status: Status,
    /// Bytes of data that are verified and in their files.
    pub bytes: u64,
    /// The part of these bytes that an interrupted transfer has left, and that still agrees with the source.
    pub resumed_bytes: u64,
    /// The bytes that this call has fetched: `bytes` without `resumed_bytes`, and without holes.
    #[serde(default)]
    pub fetched_bytes: u64,
    /// If this call failed: verified bytes that are kept, from which the same call continues.
    pub kept_bytes: u64,
    /// The whole call in seconds: from the start of the set-up until all is verified and in its place.
    pub seconds: f64,
    /// From the start of the set-up until the first byte of data was in its place, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_byte_seconds: Option<f64>,
    /// `fetched_bytes` over `seconds`, in bits per second.
    pub goodput_bps: f64,
    /// Data packets lost over data packets sent.
    pub loss_ratio: f64,
    /// Jain's fairness index of what the sources delivered while all of them sent: 1 when all were equal. `None` where
    /// there were not at least two, or where they did not send at the same time for most of the transfer.
    pub jain_index: Option<f64>,
    /// How much was taken beside others' traffic, at the end: `fair`, `low`, `high` or `fixed`. `None` if the transport has
    /// no policies, or if the transfer failed before it began.
    #[serde(default)]
    pub policy: Option<String>,
    /// Every file.
    pub files: Vec<FileReport>,
    /// Every server that took part.
    pub sources: Vec<SourceReport>,
    /// Problems that did not end the transfer.
    pub warnings: Vec<String>,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorReport>,
}

/// How a transfer ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// All data has come and is verified.
    #[default]
    Complete,
    /// It was only planned.
    Planned,
    /// Some of the data has come and is verified, and some has not come.
    Partial,
    /// It failed.
    Failed,
}

/// A file of a transfer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FileReport {
    /// Where the file is. Bytes that are not UTF-8 are U+FFFD.
    pub path: String,
    /// If that is not the path itself: the path as in an address, with `%XX` for bytes that are not UTF-8.
    #[serde(default)]
    pub path_url: Option<String>,
    /// What happened to it, or would happen.
    pub action: Action,
    /// Its size, in bytes.
    pub bytes: u64,
    /// The BLAKE3 hash of its content, in hexadecimal.
    pub blake3: Option<String>,
    /// Whether every byte agreed with the sources' digests, or the file with a checksum. False for a file that has come
    /// from sources that give no digests.
    pub verified: bool,
    /// The kinds of the published checksums that it agreed with, by name: those of `--expect`, of a Metalink or of an
    /// input file.
    #[serde(default)]
    pub checksums: Vec<String>,
    /// What these checksums find: `lies`, or only `damage`. `None` where there was none.
    #[serde(default)]
    pub strength: Option<String>,
}

/// What happens to a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    /// It is fetched.
    #[default]
    Fetch,
    /// It is fetched, and replaces an existing file.
    Replace,
    /// The existing file is kept.
    Keep,
    /// It is left out by a pattern.
    LeaveOut,
    /// The existing file differs and may not be replaced, or is a directory.
    Refuse,
}

impl From<Fate> for Action {
    fn from(fate: Fate) -> Self {
        match fate {
            Fate::Fetch => Self::Fetch,
            Fate::Replace => Self::Replace,
            Fate::Keep => Self::Keep,
            Fate::LeftOut => Self::LeaveOut,
            Fate::Refused | Fate::Blocked => Self::Refuse,
        }
    }
}

/// A server that took part in a transfer, or a flow of a bench.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SourceReport {
    /// The server, as host and port.
    pub address: String,
    /// Bytes that it was the first to deliver.
    pub bytes: u64,
    /// `bytes` over the `seconds` of the report, in bits per second: so the sources' rates add up to that of the whole.
    pub goodput_bps: f64,
    /// How long it was active, in seconds.
    #[serde(default)]
    pub active_seconds: f64,
    /// Its data packets lost over its data packets sent.
    pub loss_ratio: f64,
    /// Smoothed round-trip time, in milliseconds; `None` when it was never measured.
    pub rtt_ms: Option<f64>,
    /// Bytes that were requested more than once.
    pub retransmitted_bytes: u64,
    /// Bytes from this server that had already come, from this or another server.
    pub duplicate_bytes: u64,
    /// Datagrams that the network brought more than once, not counting the first of each. They were dropped.
    #[serde(default)]
    pub duplicate_packets: u64,
    /// Whether its datagrams were left in the clear (`--plaintext` at both ends).
    #[serde(default)]
    pub plaintext: bool,
    /// Bytes that were not compared with what this server has, because it did not say that in time. 0 if there was no
    /// other server.
    #[serde(default)]
    pub uncompared_bytes: u64,
    /// What held its rate for most of the time: see [`SourceProgress::held_by`](crate::api::options::SourceProgress::held_by).
    #[serde(default)]
    pub held_by: Option<String>,
    /// How its part ended.
    pub status: SourceStatus,
    /// How its data came at the end.
    #[serde(default)]
    pub path: PathReport,
}

/// How a server's data comes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PathReport {
    /// `udp`, or `tcp`: over streams to its control port. Of a source by URL, its scheme: `http`, `https`, `s3`, `file`.
    pub over: String,
    /// Why it comes over TCP, in words.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub why: Option<String>,
    /// How long it has, in seconds.
    pub since_seconds: f64,
    /// How often that has changed.
    pub changes: u32,
}

impl Default for PathReport {
    fn default() -> Self {
        Self { over: "udp".to_owned(), why: None, since_seconds: 0.0, changes: 0 }
    }
}

/// The state of a server in a transfer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SourceStatus {
    /// It is running.
    #[default]
    Running,
    /// It cannot be reached at the moment, and is tried again. Never in a report.
    Waiting,
    /// It sent until nothing more was needed.
    Complete,
    /// It could not be reached, or it was lost on the way.
    Lost,
    /// Some of its data differs from what the other mirrors have. If much of it does, or its files or sizes do, it was left
    /// out.
    Different,
}

/// Why a transfer failed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorReport {
    /// The cause, by name: see docs/exit-codes.md.
    pub code: String,
    /// The same in words.
    pub message: String,
}

impl Report {
    /// The report of a transfer that failed before it had begun.
    #[doc(hidden)]
    pub fn failed(error: &MoveError) -> Self {
        Self { status: Status::Failed, error: Some(error.into()), ..Self::default() }
    }

    /// The call took `span`: its rates follow from that, all over the same time.
    #[doc(hidden)]
    pub fn take_time(&mut self, span: Span) {
        let rate = |bytes| Throughput::of(bytes, span).bps();
        self.seconds = span.as_secs_f64();
        self.goodput_bps = rate(self.fetched_bytes);
        for source in &mut self.sources {
            source.goodput_bps = rate(source.bytes);
        }
    }
}

impl From<&MoveError> for ErrorReport {
    fn from(error: &MoveError) -> Self {
        Self { code: error.kind().code().to_owned(), message: error.to_string() }
    }
}

/// The report of a bench. Serialised, it is the object that `docs/json.md` documents.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct BenchReport {
    /// How it ended.
    pub status: Status,
    /// Bytes delivered.
    pub bytes: u64,
    /// From the first request to the end, in seconds.
    pub seconds: f64,
    /// `bytes` over `seconds`, in bits per second.
    pub goodput_bps: f64,
    /// Data packets lost over data packets sent.
    pub loss_ratio: f64,
    /// Processor time of this process meanwhile, in seconds.
    pub cpu_seconds: f64,
    /// Jain's fairness index of what the flows delivered while all of them were active; `None` where there were not at
    /// least two, or where they were not active at the same time for most of the bench.
    pub jain_index: Option<f64>,
    /// How much was taken beside others' traffic, as in [`Report::policy`].
    pub policy: Option<String>,
    /// Every flow.
    pub sources: Vec<BenchSource>,
    /// A line for each second.
    pub intervals: Vec<BenchInterval>,
    /// What went wrong without ending the bench.
    pub warnings: Vec<String>,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorReport>,
}

/// A flow of a bench.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct BenchSource {
    /// The server, as host and port.
    pub address: String,
    /// Bytes delivered.
    pub bytes: u64,
    /// `bytes` over the `seconds` of the report, in bits per second: so the flows' rates add up to that of the whole.
    pub goodput_bps: f64,
    /// How long it was active, in seconds.
    pub active_seconds: f64,
    /// Its data packets lost over its data packets sent.
    pub loss_ratio: f64,
    /// Smoothed round-trip time, in milliseconds; `None` when it was never measured.
    pub rtt_ms: Option<f64>,
    /// Bytes that were requested more than once.
    pub retransmitted_bytes: u64,
    /// Processor time of the server's process during the session, in seconds: shared by the flows of one server.
    pub cpu_seconds: f64,
}

/// A line of a bench.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct BenchInterval {
    /// Start, in seconds from the first request.
    pub start: f64,
    /// End, in seconds from the first request.
    pub end: f64,
    /// Bytes delivered meanwhile.
    pub bytes: u64,
    /// The rate of that, in bits per second.
    pub goodput_bps: f64,
    /// Data packets lost over data packets sent meanwhile.
    pub loss_ratio: f64,
}

/// A round-trip time in milliseconds, as reports have it; flows that have never measured theirs say zero.
pub fn known_ms(rtt: Span) -> Option<f64> {
    (rtt > Span::ZERO).then(|| rtt.as_millis_f64())
}

/// Data packets lost over data packets sent.
pub fn loss_ratio(lost: u64, received: u64) -> f64 {
    Probability::ratio(lost, lost + received).get()
}

/// What tells a path from others, if its bytes are not UTF-8: as it stands in an address.
pub fn path_url(path: &[u8]) -> Option<String> {
    str::from_utf8(path).is_err().then(|| quoted(path, |c| c == '#'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_never_measured_is_null() {
        assert_eq!((known_ms(Span::ZERO), known_ms(Span::from_millis(20))), (None, Some(20.0)));
        let source = serde_json::to_value(SourceReport::default()).unwrap();
        assert!(source["rtt_ms"].is_null(), "{source}");
    }

    #[test]
    fn rates_are_bytes_over_the_time_of_the_whole_and_add_up() {
        let source = |bytes| SourceReport { bytes, active_seconds: 0.2, ..SourceReport::default() };
        let mut report = Report {
            bytes: 400_000_000,
            resumed_bytes: 190_000_000,
            fetched_bytes: 210_000_000,
            sources: vec![source(140_000_000), source(70_000_000), source(0)],
            ..Report::default()
        };
        report.take_time(Span::from_millis(1470));
        assert_eq!((report.seconds, report.goodput_bps), (1.47, 210_000_000.0 * 8.0 / 1.47));
        let sum: f64 = report.sources.iter().map(|source| source.goodput_bps).sum();
        assert!((sum - report.goodput_bps).abs() < 1.0, "{sum}");
        // A call that never ran has no rate.
        report.take_time(Span::ZERO);
        assert_eq!((report.goodput_bps, report.sources[0].goodput_bps), (0.0, 0.0));
    }
}
