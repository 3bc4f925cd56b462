//! Lists a directory tree.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::os::fd::AsFd;

use inhaul_base::ByteRange;
use rustix::fs::{Access, AtFlags, Dir, FileType, SeekFrom, Stat};
use rustix::io::Errno;

use super::error::OfferedError;
use super::kept::{Devices, granted_of};
use super::options::{MayHold, ScanOptions};
use crate::beneath::{Beneath, Links};
use crate::digest_cache::{FileVersion, Versions};
use crate::manifest::{ATTRIBUTES_BYTES_MAX, MODE_BITS, memory};
use crate::{Attribute, Contents, Directory, Entry, HardLink, Metadata, Owner, Symlink, Timestamp};

/// Most holes of one file in the manifest; the rest of the file counts as data.
const HOLES_MAX: usize = 1 << 16;

/// Memory is requested in steps of this many bytes.
const STEP_BYTES: usize = 64 * 1024;
/// Memory for a second name of a file, beside the name, until its first name is found.
const NAME_BYTES: usize = 128;

/// The identity of a file under all of its names: device and inode.
type Identity = (u64, u64);

/// A walk through a tree, and its results.
pub(super) struct Tree<'a> {
    request: &'a [u8],
    options: ScanOptions,
    /// The prefix of the paths.
    prefix: Vec<u8>,
    contents: Contents,
    versions: Versions,
    /// Names of files that have several, each with its file.
    several_names: Vec<(Vec<u8>, Identity)>,
    /// Directories not read yet.
    pending: Vec<Vec<u8>>,
    devices: Devices,
    may_hold: &'a mut MayHold<'a>,
    /// The memory of the results, and the part of it that was granted.
    memory: usize,
    granted: usize,
}

impl<'a> Tree<'a> {
    /// Lists everything beneath `top`. Items that vanish meanwhile are left out. One directory is open at a time.
    pub(super) fn walk(
        top: &Beneath,
        request: &'a [u8],
        options: ScanOptions,
        may_hold: &'a mut MayHold<'a>,
    ) -> Result<(Contents, Versions), OfferedError> {
        let mut tree = Self::new(request, options, may_hold);
        tree.add(top, b"")?;
        tree.finish()
    }

    /// A walk without results.
    pub(super) fn new(request: &'a [u8], options: ScanOptions, may_hold: &'a mut MayHold<'a>) -> Self {
        Self {
            request,
            options,
            prefix: Vec::new(),
            contents: Contents::default(),
            versions: Versions::default(),
            several_names: Vec::new(),
            pending: Vec::new(),
            devices: Devices::default(),
            may_hold,
            memory: STEP_BYTES,
            granted: 0,
        }
    }

    /// Adds `top` as the directory `prefix`, with everything beneath it. An empty prefix means the data set's own
    /// directory.
    pub(super) fn add(&mut self, top: &Beneath, prefix: &[u8]) -> Result<(), OfferedError> {
        self.prefix = prefix.to_vec();
        self.pending.push(Vec::new());
        while let Some(path) = self.pending.pop() {
            let (is_top, full) = (path.is_empty() && prefix.is_empty(), self.full(&path));
            match top.open_directory(&path, Links::Refuse) {
                Ok(dir) => self.read_directory(&dir, &path)?,
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) if !path.is_empty() => {}
                Err(Errno::ACCESS) if !is_top => self.contents.unreadable.add(&full),
                Err(errno) => return Err(self.failed(&path, errno)),
            }
        }
        Ok(())
    }

    /// Adds the file `file` of `dir`, called `name`.
    pub(super) fn add_file(&mut self, dir: &Beneath, file: &[u8], name: &[u8]) -> Result<(), OfferedError> {
        self.prefix = Vec::new();
        let file = CString::new(file).map_err(|_| self.failed(name, Errno::INVAL))?;
        match self.read_item(dir, &file, name) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(Errno::ACCESS) => {
                self.contents.unreadable.add(name);
                Ok(())
            }
            Err(errno) => Err(self.failed(name, errno)),
        }
    }

    /// The results.
    pub(super) fn finish(mut self) -> Result<(Contents, Versions), OfferedError> {
        self.link_names();
        self.ask()?;
        Ok((self.contents, self.versions))
    }

    /// The path in the data set of a path in the walked directory.
    fn full(&self, path: &[u8]) -> Vec<u8> {
        match (self.prefix.as_slice(), path) {
            (prefix, b"") => prefix.to_vec(),
            (b"", path) => path.to_vec(),
            (prefix, path) => [prefix, path].join(&b'/'),
        }
    }

    fn failed(&self, path: &[u8], errno: Errno) -> OfferedError {
        OfferedError::from_errno(&shown(self.request, &self.full(path)), errno)
    }

    /// Asks for the memory used so far.
    fn ask(&mut self) -> Result<(), OfferedError> {
        self.granted = self.memory;
        let may = (self.may_hold)(self.memory);
        may.then_some(()).ok_or_else(|| OfferedError::TooMuchMemory { path: self.request.to_vec() })
    }

    fn read_directory(&mut self, dir: &Beneath, path: &[u8]) -> Result<(), OfferedError> {
        let stat = rustix::fs::fstat(dir.fd()).map_err(|errno| self.failed(path, errno))?;
        let metadata = metadata(&stat, granted_of(dir.fd(), &stat), Some(dir.fd()), self.options);
        match self.full(path) {
            top if top.is_empty() => self.contents.top = metadata,
            path => self.contents.directories.push(Directory { path, metadata }),
        }
        for item in Dir::read_from(dir.fd()).map_err(|errno| self.failed(path, errno))? {
            let item = item.map_err(|errno| self.failed(path, errno))?;
            let name = item.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            let inner = if path.is_empty() { name.to_bytes().to_vec() } else { [path, name.to_bytes()].join(&b'/') };
            match self.read_item(dir, name, &inner) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(Errno::ACCESS) => self.contents.unreadable.add(&self.full(&inner)),
                Err(errno) => return Err(self.failed(&inner, errno)),
            }
            if self.memory - self.granted >= STEP_BYTES {
                self.ask()?;
            }
        }
        Ok(())
    }

    fn read_item(&mut self, dir: &Beneath, name: &std::ffi::CStr, path: &[u8]) -> rustix::io::Result<()> {
        let stat = rustix::fs::statat(dir.fd(), name, AtFlags::SYMLINK_NOFOLLOW)?;
        let (beneath, path) = (path, &self.full(path)[..]);
        self.memory += memory::of_path(path.len());
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => {
                self.memory += memory::OF_DIRECTORY + memory::of_path(path.len());
                self.pending.push(beneath.to_vec());
            }
            FileType::RegularFile if self.devices.is_generated(dir, name, &stat)? => self.contents.skipped.add(path),
            FileType::RegularFile => {
                let file = if self.options.attributes || may_have_holes(&stat) {
                    Some(dir.open_for_reading(name.to_bytes(), Links::Refuse)?)
                } else {
                    // Better found now than during the transfer.
                    rustix::fs::accessat(dir.fd(), name, Access::READ_OK, AtFlags::empty())?;
                    None
                };
                if stat.st_nlink > 1 {
                    self.memory += memory::OF_HARD_LINK + 2 * path.len() + NAME_BYTES;
                    self.several_names.push((path.to_vec(), (stat.st_dev, stat.st_ino)));
                }
                let mode = self.devices.granted(dir, name, &stat)?;
                let entry = entry(path.to_vec(), &stat, mode, file.as_ref(), self.options);
                let details = memory::of_details(entry.holes.len(), &entry.metadata.attributes);
                self.memory += memory::OF_FILE + details;
                self.versions.add(path, &FileVersion::of_stat(&stat));
                self.contents.files.push(entry);
            }
            FileType::Symlink => {
                let target = rustix::fs::readlinkat(dir.fd(), name, Vec::new())?.into_bytes();
                let metadata = metadata(&stat, stat.st_mode, None::<&std::fs::File>, self.options);
                self.memory += memory::OF_SYMLINK + target.len();
                self.contents.symlinks.push(Symlink { path: path.to_vec(), target, metadata });
            }
            _ => self.contents.skipped.add(path),
        }
        Ok(())
    }

    /// Turns all names of a file but the first into hard links. The result does not depend on the order of directories.
    fn link_names(&mut self) {
        self.several_names.sort_unstable();
        let mut files: BTreeMap<Identity, Vec<u8>> = BTreeMap::new();
        for (path, identity) in std::mem::take(&mut self.several_names) {
            match files.get(&identity) {
                Some(file) => self.contents.hard_links.push(HardLink { path, file: file.clone() }),
                None => drop(files.insert(identity, path)),
            }
        }
        let is_link =
            |path: &[u8]| self.contents.hard_links.binary_search_by(|link| link.path.as_slice().cmp(path)).is_ok();
        self.contents.files.retain(|file| !is_link(&file.path));
    }
}

/// The manifest's entry of the file at `path`, with the permissions `mode`. If the file is open as `file`, it has holes
/// and attributes.
pub(super) fn entry(
    path: Vec<u8>,
    stat: &Stat,
    mode: u32,
    file: Option<&std::fs::File>,
    options: ScanOptions,
) -> Entry {
    let size = stat.st_size.unsigned_abs();
    let holes = match file {
        Some(file) if may_have_holes(stat) => holes(file, size),
        _ => Vec::new(),
    };
    Entry { path, size, metadata: metadata(stat, mode, file, options), holes }
}

/// Whether a file takes less space than its size.
fn may_have_holes(stat: &Stat) -> bool {
    stat.st_blocks < stat.st_size.div_euclid(512)
}

/// The holes of a file of `size` bytes, as its file system reports them.
fn holes(file: &std::fs::File, size: u64) -> Vec<ByteRange> {
    let mut holes = Vec::new();
    let mut at = 0;
    while at < size && holes.len() < HOLES_MAX {
        let Ok(start) = rustix::fs::seek(file, SeekFrom::Hole(at)) else { break };
        let end = match rustix::fs::seek(file, SeekFrom::Data(start)) {
            Ok(data) => data.min(size),
            // No data follows.
            Err(Errno::NXIO) => size,
            Err(_) => break,
        };
        // The end of every file counts as a hole.
        if start < end {
            holes.push(ByteRange::new(start, end));
        }
        at = end.max(start);
        if start >= size {
            break;
        }
    }
    holes
}

fn metadata(stat: &Stat, mode: u32, file: Option<impl AsFd>, options: ScanOptions) -> Metadata {
    Metadata {
        mode: mode & MODE_BITS,
        modified: Timestamp { seconds: stat.st_mtime, nanos: stat.st_mtime_nsec as u32 },
        owner: options.owner.then_some(Owner { user: stat.st_uid, group: stat.st_gid }),
        attributes: file.filter(|_| options.attributes).map(attributes).unwrap_or_default(),
    }
}

/// The extended attributes that users may set, by name. It is no error if the file system has none, or if one vanishes
/// meanwhile.
fn attributes(file: impl AsFd) -> Vec<Attribute> {
    let mut names = vec![0; ATTRIBUTES_BYTES_MAX];
    let Ok(len) = rustix::fs::flistxattr(&file, &mut names) else { return Vec::new() };
    let mut found: Vec<Attribute> = Vec::new();
    let mut value = vec![0; ATTRIBUTES_BYTES_MAX];
    let mut left = ATTRIBUTES_BYTES_MAX;
    for name in names[..len].split(|&b| b == 0).filter(|name| name.starts_with(b"user.")) {
        if let Ok(len) = rustix::fs::fgetxattr(&file, name, &mut value) {
            left = match left.checked_sub(len) {
                Some(left) => left,
                None => break,
            };
            found.push(Attribute { name: name.to_vec(), value: value[..len].to_vec() });
        }
    }
    found.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    found
}

/// A path inside the data set, in the form of the request.
pub(super) fn shown(request: &[u8], path: &[u8]) -> Vec<u8> {
    let request = request.strip_suffix(b"/").unwrap_or(request);
    if path.is_empty() { request.to_vec() } else { [request, path].join(&b'/') }
}
