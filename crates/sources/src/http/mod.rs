//! HTTP servers, and S3's, as sources: one file, read by ranges over several connections (RFC 9110 14).
//!
//! What servers say is checked, not believed: a range that is not the one that was asked for, another version of the
//! file, a coded body. `client` follows redirects, and keeps secrets from other hosts; `answer` reads heads.

mod answer;
mod client;
mod netrc;
#[cfg(any(test, feature = "testing"))]
#[allow(clippy::unwrap_used, reason = "only tests use it")]
pub mod odd;
mod s3;

use std::io::Read;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use inhaul_base::{ByteRange, Span};
use inhaul_store::Manifest;

use self::answer::{Answer, Version};
use self::client::{Client, Failure, Found};
use super::ranges::{RangeSource, ReadFailure, Remedy, manifest_of_file};
use inhaul_session::api::error::MoveError;
use inhaul_session::api::source::Server;
use inhaul_session::api::trust::Trust;

/// Requests that a server with ranges is sent at once. More would help on few paths, and be unfair on many.
const LANES: u32 = 4;
/// Bytes that are read from a connection at once.
const BUFFER_BYTES: usize = 128 << 10;

/// A file at an HTTP server.
#[derive(Debug)]
struct HttpFile {
    server: Server,
    client: Client,
    size: u64,
    version: Version,
    rtt: Span,
    /// The server sends only the whole file: the connection on which it does, and how far it is.
    whole: Option<Mutex<Option<Whole>>>,
}

/// A body that is read from its beginning.
struct Whole {
    body: Box<dyn Read + Send + Sync>,
    at: u64,
}

impl std::fmt::Debug for Whole {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Whole(at {})", self.at)
    }
}

/// Opens the file at `url`.
///
/// # Errors
/// When there is none, or the server does not give it.
pub(super) fn open(server: &Server, url: &str, trust: &Trust) -> Result<(Manifest, Arc<dyn RangeSource>), MoveError> {
    let client = Client::new(server, url, trust)?;
    let began = Instant::now();
    // A server that is asked for the head alone may say something else than with the body, or nothing.
    let found = client.get(Some(ByteRange::new(0, 1)), None).map_err(|failure| failure.into_error(server))?;
    let rtt = Span::from(began.elapsed());
    let answer = Answer::of_first(&found).map_err(|failure| failure.into_error(server))?;
    let name = inhaul_session::api::url::file_name(url).map_err(|error| MoveError::Usage(error.to_string()))?;
    let name = inhaul_base::byte_text::bytes_of(&name).into_owned();
    let manifest = manifest_of_file(server, name, answer.size, 0o644, answer.version.modified())?;
    let whole = (!answer.has_ranges).then(|| {
        log::info!("{server}: it sends only the whole file, from its beginning");
        Mutex::new(Some(Whole { body: found.into_body(), at: 0 }))
    });
    let file = HttpFile { server: server.clone(), client, size: answer.size, version: answer.version, rtt, whole };
    Ok((manifest, Arc::new(file)))
}

impl HttpFile {
    fn failure(&self, failure: Failure) -> ReadFailure {
        let remedy = failure.remedy();
        ReadFailure { error: failure.into_error(&self.server), remedy }
    }

    fn read_ranges(&self, mut range: ByteRange, take: &mut dyn FnMut(&[u8]) -> ControlFlow<()>) -> Result<(), Failure> {
        while !range.is_empty() {
            let found = self.client.get(Some(range), self.version.condition())?;
            let part = Answer::check_range(&found, range, self.size, &self.version)?;
            let came = read_body(&mut found.into_body(), part.len(), take)?;
            range.start += came.bytes;
            if came.broken_off {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Reads from the one body there is, as long as what is wanted lies behind what was read of it.
    fn read_whole(
        &self,
        whole: &Mutex<Option<Whole>>,
        range: ByteRange,
        take: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<(), Failure> {
        // One lane reads: nobody waits here for long.
        let mut kept = whole.lock().unwrap_or_else(PoisonError::into_inner);
        let mut whole = match kept.take().filter(|whole| whole.at <= range.start) {
            Some(whole) => whole,
            None => {
                let found = self.client.get(None, None)?;
                Answer::check_whole(&found, self.size, &self.version)?;
                Whole { body: found.into_body(), at: 0 }
            }
        };
        let skipped = range.start - whole.at;
        whole.at += read_body(&mut whole.body, skipped, &mut |_| ControlFlow::Continue(()))?.bytes;
        let came = read_body(&mut whole.body, range.len(), take)?;
        whole.at += came.bytes;
        *kept = Some(whole);
        Ok(())
    }
}

/// What came of reading a body.
struct Came {
    bytes: u64,
    broken_off: bool,
}

/// Hands over `len` bytes of a body, or fewer if `take` breaks off.
fn read_body(body: &mut dyn Read, len: u64, take: &mut dyn FnMut(&[u8]) -> ControlFlow<()>) -> Result<Came, Failure> {
    let mut buffer = vec![0; BUFFER_BYTES.min(len as usize)];
    let mut came = 0;
    while came < len {
        let most = buffer.len().min((len - came) as usize);
        let count = match body.read(&mut buffer[..most]) {
            Ok(0) => return Err(Failure::Broken("it closed the connection too early".to_owned())),
            Ok(count) => count,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(Failure::Broken(error.to_string())),
        };
        came += count as u64;
        if take(&buffer[..count]).is_break() {
            return Ok(Came { bytes: came, broken_off: true });
        }
    }
    Ok(Came { bytes: came, broken_off: false })
}

impl RangeSource for HttpFile {
    fn lanes(&self) -> u32 {
        if self.whole.is_some() { 1 } else { LANES }
    }

    fn rtt(&self) -> Span {
        self.rtt
    }

    fn seeks(&self) -> bool {
        self.whole.is_none()
    }

    fn version(&self) -> Option<String> {
        self.version.text()
    }

    fn read(&self, range: ByteRange, take: &mut dyn FnMut(&[u8]) -> ControlFlow<()>) -> Result<(), ReadFailure> {
        let result = match &self.whole {
            Some(whole) => self.read_whole(whole, range, take),
            None => self.read_ranges(range, take),
        };
        result.map_err(|failure| self.failure(failure))
    }
}

/// A time that a server may ask to be left alone, when it does not say which.
const REST: Duration = Duration::from_secs(1);

impl Failure {
    fn remedy(&self) -> Remedy {
        match self {
            // The next request goes over a connection of its own, and goes on from where this one ended.
            Self::Broken(_) => Remedy::AskAgain,
            Self::Busy { after, .. } => Remedy::AskAfter(after.unwrap_or(REST)),
            Self::Unreached(_)
            | Self::NotFound(_)
            | Self::NoRight(_)
            | Self::Changed
            | Self::Untrusted(_)
            | Self::Rules(_) => Remedy::GiveUp,
        }
    }

    fn into_error(self, server: &Server) -> MoveError {
        let server = server.clone();
        match self {
            Self::Broken(detail) | Self::Unreached(detail) => MoveError::Unreachable { server, detail },
            Self::Busy { detail, .. } => MoveError::Busy { server, detail },
            Self::NotFound(detail) => MoveError::PathNotFound { server, detail },
            Self::NoRight(detail) => MoveError::NoRight { server, detail },
            Self::Changed => MoveError::SourceChanged { server },
            Self::Untrusted(detail) => MoveError::Untrusted { server, detail },
            Self::Rules(detail) => MoveError::BadSource { server, detail },
        }
    }
}

impl Found {
    fn into_body(self) -> Box<dyn Read + Send + Sync> {
        Box::new(self.response.into_body().into_with_config().limit(u64::MAX).reader())
    }
}
