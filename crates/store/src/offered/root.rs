//! An offered directory or file, held open.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{Mode, OFlags};

use super::error::OfferedError;
use super::offer::Offer;
use crate::beneath::Beneath;
use crate::file_system::FileSystem;

#[derive(Clone, Debug)]
pub(super) struct Root {
    /// Its name in requests, which is also the name of its whole data set.
    pub(super) name: Vec<u8>,
    pub(super) dir: Arc<Beneath>,
    /// The name of the file in the directory, if only the file is offered.
    pub(super) file: Option<Vec<u8>>,
}

impl Root {
    pub(super) fn new(offer: &Offer) -> Result<Self, OfferedError> {
        let path = offer.path();
        let bytes = path.as_os_str().as_bytes();
        let open = |dir: &Path| Beneath::at(dir).map_err(|errno| OfferedError::from_errno(bytes, errno));
        let real = path.canonicalize().map_err(|e| OfferedError::from_io(bytes, &e))?;
        let kind = real.metadata().map_err(|e| OfferedError::from_io(bytes, &e))?;
        // The file system's root has no name of its own.
        let own_name = real.file_name().map_or(&b"root"[..], OsStrExt::as_bytes).to_vec();
        let name = offer.name().map_or_else(|| own_name.clone(), |name| name.as_bytes().to_vec());
        match real.parent() {
            _ if kind.is_dir() => Ok(Self { name, dir: Arc::new(open(&real)?), file: None }),
            Some(_) if kind.is_file() && is_of_generated(&real) => {
                Err(OfferedError::Generated { path: bytes.to_vec() })
            }
            Some(parent) if kind.is_file() => Ok(Self { name, dir: Arc::new(open(parent)?), file: Some(own_name) }),
            _ => Err(OfferedError::Unsupported { path: bytes.to_vec() }),
        }
    }
}

/// Whether a file's file system generates files when they are read.
fn is_of_generated(path: &Path) -> bool {
    let found = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
    found.is_ok_and(|found| FileSystem::of(found) == FileSystem::Generated)
}
