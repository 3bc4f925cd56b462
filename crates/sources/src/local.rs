//! A file of this host as a source: another copy, on a disk that is slower or faster than the network.

use std::fs::{File, Metadata};
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;

use inhaul_base::byte_text::bytes_of;
use inhaul_base::{ByteRange, Span};
use inhaul_store::Manifest;

use super::ranges::{RangeSource, ReadFailure, Remedy, manifest_of_file};
use inhaul_engine::engine::PIECE_BYTES_MAX;
use inhaul_session::api::error::MoveError;
use inhaul_session::api::source::Server;
use inhaul_session::api::url::decode_path;

/// A file that is open.
#[derive(Debug)]
struct LocalFile {
    server: Server,
    file: File,
    /// What it was when it was opened: bytes of two versions must not be mixed.
    version: (u64, i64, i64),
}

/// Opens the file at `path`, encoded as in a URL, which is the source called `server`.
///
/// # Errors
/// When there is no such file, or it cannot be read.
pub(super) fn open(server: &Server, path: &str) -> Result<(Manifest, Arc<dyn RangeSource>), MoveError> {
    let path = decode_path(path).map_err(|error| MoveError::Usage(error.to_string()))?;
    let path = Path::new(std::ffi::OsStr::from_bytes(&bytes_of(&path))).to_path_buf();
    let failed = |detail: String| MoveError::PathNotFound { server: server.clone(), detail };
    let file = File::open(&path).map_err(|error| failed(error.to_string()))?;
    let metadata = file.metadata().map_err(|error| failed(error.to_string()))?;
    if !metadata.is_file() {
        return Err(failed("it is no file, and only a file can be read by ranges".to_owned()));
    }
    let name = path.file_name().map_or_else(Vec::new, |name| name.as_bytes().to_vec());
    let modified = (metadata.mtime(), metadata.mtime_nsec());
    let manifest = manifest_of_file(server, name, metadata.len(), metadata.mode() & 0o777, modified)?;
    let version = version_of(&metadata);
    Ok((manifest, Arc::new(LocalFile { server: server.clone(), file, version })))
}

fn version_of(metadata: &Metadata) -> (u64, i64, i64) {
    (metadata.len(), metadata.mtime(), metadata.mtime_nsec())
}

impl LocalFile {
    fn failure(&self, error: &std::io::Error) -> ReadFailure {
        let error = MoveError::BadSource { server: self.server.clone(), detail: error.to_string() };
        ReadFailure { error, remedy: Remedy::GiveUp }
    }

    fn check_version(&self) -> Result<(), ReadFailure> {
        let now = self.file.metadata().map_err(|error| self.failure(&error))?;
        if version_of(&now) == self.version {
            return Ok(());
        }
        let error = MoveError::SourceChanged { server: self.server.clone() };
        Err(ReadFailure { error, remedy: Remedy::GiveUp })
    }
}

impl RangeSource for LocalFile {
    fn lanes(&self) -> u32 {
        1
    }

    fn rtt(&self) -> Span {
        Span::from_micros(100)
    }

    fn version(&self) -> Option<String> {
        Some(format!("{:?}", self.version))
    }

    fn read(&self, range: ByteRange, take: &mut dyn FnMut(&[u8]) -> ControlFlow<()>) -> Result<(), ReadFailure> {
        self.check_version()?;
        let mut buffer = vec![0; PIECE_BYTES_MAX.min(range.len() as usize)];
        let mut at = range.start;
        while at < range.end {
            let len = buffer.len().min((range.end - at) as usize);
            self.file.read_exact_at(&mut buffer[..len], at).map_err(|error| self.failure(&error))?;
            at += len as u64;
            if take(&buffer[..len]).is_break() {
                break;
            }
        }
        self.check_version()
    }
}
