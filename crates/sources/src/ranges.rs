//! Sources that can be read at any place, and speak no protocol of ours.

use std::fmt;
use std::ops::ControlFlow;
use std::time::Duration;

use inhaul_base::{ByteRange, Span};
use inhaul_store::{Contents, Entry, Kind, Manifest, Metadata, Timestamp, digest};

use inhaul_session::api::error::MoveError;
use inhaul_session::api::source::Server;

/// A source that is read by ranges of its data set's bytes. Several threads read from it at once.
pub trait RangeSource: Send + Sync + fmt::Debug {
    /// How many ranges it may be asked for at once.
    fn lanes(&self) -> u32;

    /// How long an answer took to begin, when it was opened.
    fn rtt(&self) -> Span;

    /// Whether it can be read at any place without reading all before it.
    fn seeks(&self) -> bool {
        true
    }

    /// The version of its bytes, in words of its own, if it has such: the same words mean the same bytes.
    fn version(&self) -> Option<String>;

    /// Reads `range` and hands it to `take`, in order, in pieces of any length, until that breaks off. A piece that was
    /// handed over is not asked for again, so it must lie where it belongs. How far it came is what `take` was given.
    ///
    /// # Errors
    /// When the source does not deliver all of it, and whether it may if it is asked for the rest.
    fn read(&self, range: ByteRange, take: &mut dyn FnMut(&[u8]) -> ControlFlow<()>) -> Result<(), ReadFailure>;
}

/// The manifest of one file of which nothing is known but this.
///
/// # Errors
/// When no file can have this name or size.
pub(super) fn manifest_of_file(
    server: &Server,
    name: Vec<u8>,
    size: u64,
    mode: u32,
    (seconds, nanos): (i64, i64),
) -> Result<Manifest, MoveError> {
    let modified = Timestamp { seconds, nanos: u32::try_from(nanos).unwrap_or(0) };
    let metadata = Metadata { mode, modified, ..Metadata::default() };
    let entry = Entry { path: name.clone(), size, metadata, holes: Vec::new() };
    let contents = Contents { files: vec![entry], ..Contents::default() };
    Manifest::new(name, Kind::File, contents)
        .map_err(|error| MoveError::BadSource { server: server.clone(), detail: error.to_string() })
}

/// Bytes of a sample, at the beginning, in the middle and at the end.
const SAMPLE_BYTES: u64 = 16 << 10;
/// Requests in a row that bring nothing of a sample before it is given up, and the longest rest that a source may ask for.
const SAMPLE_TRIES_MAX: u32 = 3;
const SAMPLE_REST_MAX: Duration = Duration::from_secs(10);

/// A hash of the size and of samples of the bytes. Sources that have no digests are compared by it, before any of
/// them counts: it finds another version, not a lie.
///
/// `wait` waits, and says false when there is no more use in it.
///
/// # Errors
/// When the samples cannot be read.
pub(crate) fn sample(
    source: &dyn RangeSource,
    manifest: &Manifest,
    wait: &dyn Fn(Duration) -> bool,
) -> Result<digest::Hash, MoveError> {
    let size = manifest.size();
    let starts = [0, size / 2, size.saturating_sub(SAMPLE_BYTES)];
    let mut hasher = blake3::Hasher::new();
    hasher.update(&size.to_le_bytes());
    for range in starts.map(|start| ByteRange::new(start, (start + SAMPLE_BYTES).min(size))) {
        let mut at = range.start;
        let mut tries = 0;
        while at < range.end {
            let before = at;
            let read = source.read(ByteRange::new(at, range.end), &mut |bytes| {
                hasher.update(bytes);
                at += bytes.len() as u64;
                if at < range.end { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            });
            tries = if at > before { 0 } else { tries + 1 };
            match read {
                Err(failure) => {
                    let rest = match failure.remedy {
                        Remedy::AskAgain => Duration::ZERO,
                        Remedy::AskAfter(rest) if rest <= SAMPLE_REST_MAX => rest,
                        _ => return Err(failure.error),
                    };
                    if tries > SAMPLE_TRIES_MAX || !wait(rest) {
                        return Err(failure.error);
                    }
                }
                Ok(()) if tries > SAMPLE_TRIES_MAX => {
                    return Err(MoveError::Internal("a source delivers nothing".to_owned()));
                }
                _ => {}
            }
        }
    }
    Ok(hasher.finalize())
}

/// Why a source did not deliver a range.
#[derive(Debug)]
pub struct ReadFailure {
    /// Why.
    pub(crate) error: MoveError,
    /// What to do about it.
    pub(crate) remedy: Remedy,
}

/// What may be done about a range that did not come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Remedy {
    /// Ask for the rest at once: a connection that was kept open had been closed.
    AskAgain,
    /// Ask for the rest after this time: the source said so (429 or 503 with Retry-After), or is short of something.
    AskAfter(Duration),
    /// Close the source. Whether it is opened again later, the error says ([`MoveError::is_passing`]).
    GiveUp,
}
