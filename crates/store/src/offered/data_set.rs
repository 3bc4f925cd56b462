//! An offered data set: its manifest, and its bytes.

use std::fs::File;
use std::io::{self, IoSliceMut};
use std::num::NonZeroU64;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, PoisonError};

use inhaul_base::ByteRange;
use rustix::io::Errno;

use super::error::OfferedError;
use super::kept::{granted_of, is_generated};
use super::options::{MayHold, ScanOptions};
use super::root::Root;
use super::scan::{Tree, entry, shown};
use crate::beneath::{Beneath, Links};
use crate::digest::group_range;
use crate::digest_cache::{FileVersion, Versions};
use crate::open_files::OpenFiles;
use crate::sparse::stored_within;
use crate::{Contents, Kind, Manifest};

/// Most buffers of one system call (`IOV_MAX`).
const SLICES_MAX: usize = 1024;

/// A data set that [`crate::Offered::scan`] found. Can be read from several threads at once.
#[derive(Debug)]
pub struct DataSet {
    manifest: Arc<Manifest>,
    /// The base of paths.
    base: Base,
    /// The path of a single file there.
    file: Option<Vec<u8>>,
    links: Links,
    /// The request.
    request: Vec<u8>,
    versions: Versions,
    pub(super) open: Mutex<OpenFiles>,
}

/// The location of a data set's files.
#[derive(Debug)]
pub(super) enum Base {
    /// In one directory.
    One(Arc<Beneath>),
    /// In several ones. The paths begin with their names.
    All(Vec<Root>),
}

impl Base {
    /// The base directory of `path`, and the path in it.
    pub(super) fn find<'p>(&'p self, path: &'p [u8]) -> Option<(&'p Beneath, &'p [u8])> {
        let roots = match self {
            Self::One(base) => return Some((base, path)),
            Self::All(roots) => roots,
        };
        let name = path.split(|&byte| byte == b'/').next()?;
        let root = roots.iter().find(|root| root.name == name)?;
        let rest = path[name.len()..].strip_prefix(b"/").unwrap_or_default();
        Some((&root.dir, root.file.as_deref().unwrap_or(rest)))
    }

    /// Whether the directories are the same ones.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        let place = |dir: &Arc<Beneath>| rustix::fs::fstat(dir.fd()).map(|stat| (stat.st_dev, stat.st_ino)).ok();
        let places = |base: &Self| match base {
            Self::One(dir) => place(dir).map(|place| vec![place]),
            Self::All(roots) => roots.iter().map(|root| place(&root.dir)).collect(),
        };
        places(self).is_some_and(|here| Some(here) == places(other))
    }
}

impl DataSet {
    pub(super) fn of_file(
        base: &Arc<Beneath>,
        name: &[u8],
        path: &[u8],
        links: Links,
        request: &[u8],
        options: ScanOptions,
    ) -> Result<Self, OfferedError> {
        let failed = |errno| OfferedError::from_errno(request, errno);
        let file = base.open_for_reading(path, links).map_err(failed)?;
        let stat = rustix::fs::fstat(&file).map_err(failed)?;
        if is_generated(&file, &stat).map_err(failed)? {
            return Err(OfferedError::Generated { path: request.to_vec() });
        }
        let files = vec![entry(name.to_vec(), &stat, granted_of(&file, &stat), Some(&file), options)];
        let mut versions = Versions::default();
        versions.add(b"", &FileVersion::of_stat(&stat));
        let manifest = Manifest::new(name.to_vec(), Kind::File, Contents { files, ..Contents::default() })?;
        Ok(Self {
            manifest: Arc::new(manifest),
            base: Base::One(Arc::clone(base)),
            file: Some(path.to_vec()),
            links,
            request: request.to_vec(),
            versions,
            open: Mutex::new(OpenFiles::with_share(OpenFiles::LIMIT)),
        })
    }

    pub(super) fn of_directory(
        base: Beneath,
        name: &[u8],
        request: &[u8],
        options: ScanOptions,
        may_hold: &mut MayHold<'_>,
    ) -> Result<Self, OfferedError> {
        let found = Tree::walk(&base, request, options, may_hold)?;
        Self::of_tree(Base::One(Arc::new(base)), name, request, found)
    }

    /// The data set that a walk has found beneath `base`.
    pub(super) fn of_tree(
        base: Base,
        name: &[u8],
        request: &[u8],
        (contents, versions): (Contents, Versions),
    ) -> Result<Self, OfferedError> {
        let manifest = Manifest::new(name.to_vec(), Kind::Directory, contents)?;
        Ok(Self {
            manifest: Arc::new(manifest),
            base,
            file: None,
            links: Links::Refuse,
            request: request.to_vec(),
            versions,
            open: Mutex::new(OpenFiles::with_share(OpenFiles::LIMIT)),
        })
    }

    /// The manifest.
    pub fn manifest(&self) -> &Arc<Manifest> {
        &self.manifest
    }

    /// Identifies the listed state of the files, at `now_ms` in milliseconds since 1970. It is opaque: other servers
    /// have other versions, even of the same content.
    pub fn files_version(&self, now_ms: i64) -> [u8; 32] {
        self.versions.hash(now_ms)
    }

    /// Time in milliseconds until every write to a file changes [`DataSet::files_version`].
    pub fn settles_in_ms(&self, now_ms: i64) -> u64 {
        self.versions.settle_in_ms(now_ms)
    }

    /// Whether `other` is this data set, with the same sizes, times and versions of all files.
    pub fn is_same(&self, other: &Self) -> bool {
        self.file == other.file
            && self.request == other.request
            && self.manifest == other.manifest
            && self.versions == other.versions
            && self.base.is_same(&other.base)
    }

    /// Opens file `index` for reading.
    ///
    /// When there is no such file, when it has another size than in the manifest or is not a file any more
    /// ([`OfferedError::Changed`]), or when it may not be read.
    pub fn open(&self, index: usize) -> Result<File, OfferedError> {
        let entry = self.manifest.entries().get(index).ok_or(OfferedError::NoSuchFile(index))?;
        let path = self.file.as_ref().unwrap_or(&entry.path);
        let changed = || OfferedError::Changed { path: self.shown(index) };
        let (base, path) = self.base.find(path).ok_or_else(changed)?;
        let file = match base.open_for_reading(path, self.links) {
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::NXIO) => return Err(changed()),
            opened => opened.map_err(|errno| OfferedError::from_errno(&self.shown(index), errno))?,
        };
        let metadata = file.metadata().map_err(|e| OfferedError::from_io(&self.shown(index), &e))?;
        if metadata.is_file() && metadata.len() == entry.size { Ok(file) } else { Err(changed()) }
    }

    /// Fills `buf` with the bytes from `offset` of the byte space on, across files. Keeps the last used files open.
    ///
    /// # Errors
    /// As [`DataSet::open`], when a file has become shorter, and when `buf` reaches beyond the end.
    pub fn read(&self, offset: u64, buf: &mut [u8]) -> Result<(), OfferedError> {
        let range = ByteRange::at(offset, buf.len() as u64);
        if range.end > self.manifest.size() {
            return Err(OfferedError::OutOfRange(range));
        }
        let mut rest = buf;
        for piece in self.manifest.locate(range) {
            let (part, after) = rest.split_at_mut(piece.len as usize);
            self.read_file(piece.file, piece.offset, part)?;
            rest = after;
        }
        Ok(())
    }

    /// Fills `bufs`, one after the other, with the bytes from `offset` of the byte space on, across files, with one
    /// system call per file. Keeps the last used files open.
    ///
    /// # Errors
    /// As [`DataSet::read`].
    pub fn read_vectored(&self, offset: u64, bufs: &mut [IoSliceMut<'_>]) -> Result<(), OfferedError> {
        let range = ByteRange::at(offset, bufs.iter().map(|buf| buf.len() as u64).sum());
        if range.end > self.manifest.size() {
            return Err(OfferedError::OutOfRange(range));
        }
        // A separate list: on failure the caller's slices must have their old lengths.
        let mut slices: Vec<_> = bufs.iter_mut().map(|buf| IoSliceMut::new(buf)).collect();
        let mut rest = &mut slices[..];
        for piece in self.manifest.locate(range) {
            let file = self.opened(piece.file)?;
            read_exact_vectored(&file, piece.offset, piece.len as usize, &mut rest)
                .map_err(|error| self.read_error(piece.file, &error))?;
        }
        Ok(())
    }

    /// Asks the kernel to read what lies in `range` of file `index` from disk, without waiting for it.
    pub fn read_ahead(&self, index: usize, range: ByteRange) {
        if let (Ok(file), Some(len)) = (self.opened(index), NonZeroU64::new(range.len())) {
            // Without it, reads wait longer.
            let _ = rustix::fs::fadvise(&file, range.start, Some(len), rustix::fs::Advice::WillNeed);
        }
    }

    /// Reads group `group` of file `index` into `buf`, which gets the group's length (see [`crate::digest`]).
    ///
    /// # Errors
    /// As [`DataSet::read`], and when the file has another size by now.
    pub fn read_group(&self, index: usize, group: u64, buf: &mut Vec<u8>) -> Result<(), OfferedError> {
        let size = self.manifest.entries().get(index).ok_or(OfferedError::NoSuchFile(index))?.size;
        let range = group_range(size, group);
        buf.resize(range.len() as usize, 0);
        self.version(index)?;
        self.read_file(index, range.start, buf)
    }

    /// Whether group `group` of file `index` is a hole: all zeros, which need not be read. Looks only at files that had
    /// holes when they were listed.
    ///
    /// # Errors
    /// As [`DataSet::read_group`].
    pub fn is_hole(&self, index: usize, group: u64) -> Result<bool, OfferedError> {
        let entry = self.manifest.entries().get(index).ok_or(OfferedError::NoSuchFile(index))?;
        let range = group_range(entry.size, group);
        // They are in order.
        let at = entry.holes.partition_point(|hole| hole.end < range.end);
        if range.is_empty() || entry.holes.get(at).is_none_or(|hole| hole.start > range.start) {
            return Ok(false);
        }
        self.version(index)?;
        let stored = stored_within(&*self.opened(index)?, range);
        stored.map(|stored| stored.is_none()).map_err(|error| self.read_error(index, &error))
    }

    /// The current version of file `index`: of the open file that is read.
    ///
    /// As [`DataSet::open`], even if it was opened before.
    pub fn version(&self, index: usize) -> Result<FileVersion, OfferedError> {
        let file = self.opened(index)?;
        let version = FileVersion::of(&file).map_err(|error| OfferedError::from_io(&self.shown(index), &error))?;
        let is_as_listed = version.size() == self.manifest.entries()[index].size;
        if is_as_listed { Ok(version) } else { Err(OfferedError::Changed { path: self.shown(index) }) }
    }

    fn read_file(&self, index: usize, offset: u64, buf: &mut [u8]) -> Result<(), OfferedError> {
        if buf.is_empty() {
            return Ok(());
        }
        self.opened(index)?.read_exact_at(buf, offset).map_err(|error| self.read_error(index, &error))
    }

    fn read_error(&self, index: usize, error: &io::Error) -> OfferedError {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => OfferedError::Changed { path: self.shown(index) },
            _ => OfferedError::from_io(&self.shown(index), error),
        }
    }

    fn opened(&self, index: usize) -> Result<Arc<File>, OfferedError> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(file) = open.get(index) {
            return Ok(file);
        }
        let file = match self.open(index) {
            // No descriptors are left: close those that are kept for later.
            Err(OfferedError::Io { source, .. }) if is_descriptor_missing(&source) => {
                open.clear();
                self.open(index)?
            }
            opened => opened?,
        };
        let file = Arc::new(file);
        open.insert(index, Arc::clone(&file));
        Ok(file)
    }

    fn shown(&self, index: usize) -> Vec<u8> {
        match self.manifest.kind() {
            Kind::File => self.request.clone(),
            Kind::Directory => shown(&self.request, &self.manifest.entries()[index].path),
        }
    }
}

fn is_descriptor_missing(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE))
}

/// Fills the first `len` bytes of `bufs` from `offset` of the file on, and removes them from `bufs`.
fn read_exact_vectored(
    file: &File,
    mut offset: u64,
    mut len: usize,
    bufs: &mut &mut [IoSliceMut<'_>],
) -> io::Result<()> {
    while len > 0 {
        // If the file ends within a buffer, that buffer is filled separately.
        let mut room = len;
        let fits = |buf: &&IoSliceMut<'_>| room.checked_sub(buf.len()).inspect(|&rest| room = rest).is_some();
        let whole = bufs.iter().take(SLICES_MAX).take_while(fits).count();
        let read = match bufs.first_mut() {
            Some(first) if whole == 0 => file.read_at(&mut first[..len], offset)?,
            _ => rustix::io::preadv(file, &mut bufs[..whole], offset)?,
        };
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        IoSliceMut::advance_slices(bufs, read);
        offset += read as u64;
        len -= read;
    }
    Ok(())
}
