//! A manifest as bytes.
//!
//! ```text
//! manifest  = "IHM" version(1) kind(1) bytes(name) metadata skipped unreadable
//!             count directory* count file* count symlink* count hardlink*
//! skipped, unreadable = number count bytes(path)*
//! directory = path metadata
//! file      = path size metadata [count hole*]
//! hole      = bytes since the end of the last hole, its length
//! symlink   = path bytes(target) metadata
//! hardlink  = path index of the file
//! path      = how many bytes it shares with the path before it in its list, bytes(the rest)
//! metadata  = flags [mode] zigzag(seconds less those of the metadata before it) nanos
//!             [user group] [count attribute*]
//! attribute = bytes(name) bytes(value)
//! bytes(b)  = length b
//! ```
//! Numbers without a width are LEB128: seven bits a byte, low bits first; the high bit says that more bytes follow. A
//! field that the flags leave out has the value of the previous metadata.

use inhaul_base::ByteRange;

use super::error::ManifestError;
use super::items::{
    Attribute, Contents, Directory, Entry, HardLink, Kind, Metadata, Owner, Skipped, Symlink, Timestamp,
};
use super::limits::{ENTRIES_MAX, PATH_BYTES_MAX, SKIPPED_NAMED_MAX};
use super::memory;

const MAGIC: &[u8; 3] = b"IHM";
const VERSION: u8 = 3;
/// Fewest bytes of a file, a directory, a symbolic link and a hard link in their lists.
const FILE_BYTES_MIN: usize = 6;
const DIRECTORY_BYTES_MIN: usize = 5;
const SYMLINK_BYTES_MIN: usize = 7;
const HARD_LINK_BYTES_MIN: usize = 3;
/// Limits of the memory of a decoded manifest: an allowance for any input, and a factor per byte of it. Front coding
/// makes much out of little. But a file with its own name, time and size takes 20 bytes, and with a path of 200 bytes
/// is worth 400 in memory.
const MEMORY_BYTES_FREE: u64 = 64 << 20;
const MEMORY_BYTES_PER_BYTE: u64 = 24;

/// The flags of metadata.
mod flag {
    pub(super) const MODE: u64 = 1;
    pub(super) const OWNER: u64 = 1 << 1;
    pub(super) const SAME_OWNER: u64 = 1 << 2;
    pub(super) const ATTRIBUTES: u64 = 1 << 3;
    pub(super) const HOLES: u64 = 1 << 4;
    pub(super) const ALL: u64 = (1 << 5) - 1;
}

/// Writes the data set `name`; its `contents` are sorted and obey the rules.
pub(super) fn encode(name: &[u8], kind: Kind, contents: &Contents) -> Vec<u8> {
    let Contents { top, files, directories, symlinks, hard_links, skipped, unreadable } = contents;
    let mut out =
        Writer { bytes: Vec::with_capacity(64 + files.len() * 24), path: Vec::new(), last: Metadata::default() };
    out.bytes.extend_from_slice(MAGIC);
    out.bytes.extend_from_slice(&[VERSION, kind_byte(kind)]);
    put_bytes(&mut out.bytes, name);
    out.metadata(top, 0);
    for Skipped { count, paths } in [skipped, unreadable] {
        put_number(&mut out.bytes, *count);
        put_number(&mut out.bytes, paths.len() as u64);
        paths.iter().for_each(|path| put_bytes(&mut out.bytes, path));
    }
    out.count(directories.len());
    for directory in directories {
        out.path(&directory.path);
        out.metadata(&directory.metadata, 0);
    }
    out.count(files.len());
    for file in files {
        out.path(&file.path);
        put_number(&mut out.bytes, file.size);
        out.metadata(&file.metadata, if file.holes.is_empty() { 0 } else { flag::HOLES });
        out.holes(&file.holes);
    }
    out.count(symlinks.len());
    for link in symlinks {
        out.path(&link.path);
        put_bytes(&mut out.bytes, &link.target);
        out.metadata(&link.metadata, 0);
    }
    out.count(hard_links.len());
    for link in hard_links {
        out.path(&link.path);
        // By the rules, the file is listed.
        put_number(&mut out.bytes, contents.find(&link.file).unwrap_or_default() as u64);
    }
    out.bytes
}

/// Writes values that are encoded relative to earlier ones.
struct Writer {
    bytes: Vec<u8>,
    path: Vec<u8>,
    last: Metadata,
}

impl Writer {
    /// Begins a list.
    fn count(&mut self, count: usize) {
        put_number(&mut self.bytes, count as u64);
        self.path.clear();
    }

    fn path(&mut self, path: &[u8]) {
        let shared = self.path.iter().zip(path).take_while(|(a, b)| a == b).count();
        put_number(&mut self.bytes, shared as u64);
        put_bytes(&mut self.bytes, &path[shared..]);
        self.path.truncate(shared);
        self.path.extend_from_slice(&path[shared..]);
    }

    fn metadata(&mut self, metadata: &Metadata, mut flags: u64) {
        let Metadata { mode, modified, owner, attributes } = metadata;
        let mut set = |bit, on: bool| flags |= if on { bit } else { 0 };
        set(flag::MODE, *mode != self.last.mode);
        set(flag::OWNER, owner.is_some() && *owner != self.last.owner);
        set(flag::SAME_OWNER, owner.is_some() && *owner == self.last.owner);
        set(flag::ATTRIBUTES, !attributes.is_empty());
        put_number(&mut self.bytes, flags);
        if flags & flag::MODE != 0 {
            put_number(&mut self.bytes, u64::from(*mode));
        }
        put_number(&mut self.bytes, zigzag(modified.seconds.wrapping_sub(self.last.modified.seconds)));
        put_number(&mut self.bytes, u64::from(modified.nanos));
        if let (Some(owner), true) = (owner, flags & flag::OWNER != 0) {
            put_number(&mut self.bytes, u64::from(owner.user));
            put_number(&mut self.bytes, u64::from(owner.group));
        }
        if !attributes.is_empty() {
            put_number(&mut self.bytes, attributes.len() as u64);
            for attribute in attributes {
                put_bytes(&mut self.bytes, &attribute.name);
                put_bytes(&mut self.bytes, &attribute.value);
            }
        }
        self.last = Metadata { mode: *mode, modified: *modified, owner: *owner, attributes: Vec::new() };
    }

    fn holes(&mut self, holes: &[ByteRange]) {
        if holes.is_empty() {
            return;
        }
        put_number(&mut self.bytes, holes.len() as u64);
        let mut end = 0;
        for hole in holes {
            put_number(&mut self.bytes, hole.start - end);
            put_number(&mut self.bytes, hole.len());
            end = hole.end;
        }
    }
}

pub(super) fn check_beginning(bytes: &[u8]) -> Result<(), ManifestError> {
    let mut input = Input { rest: bytes, path: Vec::new(), last: Metadata::default(), memory_left: 0 };
    match input.kind() {
        Err(ManifestError::Truncated) | Ok(_) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Reads what [`encode`] wrote: a name, a kind, and contents that need not obey the rules.
pub(super) fn decode(bytes: &[u8], memory_bytes_max: u64) -> Result<(Vec<u8>, Kind, Contents), ManifestError> {
    let worth = MEMORY_BYTES_FREE.saturating_add(MEMORY_BYTES_PER_BYTE.saturating_mul(bytes.len() as u64));
    let mut input =
        Input { rest: bytes, path: Vec::new(), last: Metadata::default(), memory_left: worth.min(memory_bytes_max) };
    let kind = input.kind()?;
    let name = input.bytes()?.to_vec();
    let (top, _) = input.metadata(0)?;
    let (skipped, unreadable) = (input.skipped()?, input.skipped()?);
    let directories = input.list(DIRECTORY_BYTES_MIN, |input| {
        input.spend(memory::OF_DIRECTORY)?;
        Ok(Directory { path: input.path()?, metadata: input.metadata(0)?.0 })
    })?;
    let files = input.list(FILE_BYTES_MIN, Input::file)?;
    let symlinks = input.list(SYMLINK_BYTES_MIN, |input| {
        let (path, target) = (input.path()?, input.bytes()?);
        input.spend(memory::OF_SYMLINK + target.len())?;
        Ok(Symlink { path, target: target.to_vec(), metadata: input.metadata(0)?.0 })
    })?;
    let hard_links = input.list(HARD_LINK_BYTES_MIN, |input| {
        let path = input.path()?;
        let file = usize::try_from(input.number()?).ok().and_then(|index| files.get(index));
        match file {
            Some(file) => {
                input.spend(memory::OF_HARD_LINK + file.path.len())?;
                Ok(HardLink { path, file: file.path.clone() })
            }
            None => Err(ManifestError::NoSuchFile(path)),
        }
    })?;
    if !input.rest.is_empty() {
        return Err(ManifestError::TrailingBytes(input.rest.len()));
    }
    Ok((name, kind, Contents { top, files, directories, symlinks, hard_links, skipped, unreadable }))
}

/// Feeds the properties that mirrors share to `hasher`, with lengths and counts, so that no two data sets look alike.
pub(super) fn write_identity(kind: Kind, contents: &Contents, hasher: &mut blake3::Hasher) {
    let Contents { files, directories, symlinks, hard_links, .. } = contents;
    let mut out = Vec::new();
    out.extend_from_slice(MAGIC);
    out.extend_from_slice(&[VERSION, kind_byte(kind)]);
    put_number(&mut out, directories.len() as u64);
    for directory in directories {
        put_bytes(&mut out, &directory.path);
    }
    put_number(&mut out, files.len() as u64);
    for file in files {
        // A single file's path is only its name, which may differ from host to host.
        if kind == Kind::Directory {
            put_bytes(&mut out, &file.path);
        }
        put_number(&mut out, file.size);
    }
    put_number(&mut out, symlinks.len() as u64);
    for link in symlinks {
        put_bytes(&mut out, &link.path);
        put_bytes(&mut out, &link.target);
    }
    put_number(&mut out, hard_links.len() as u64);
    for link in hard_links {
        put_bytes(&mut out, &link.path);
        put_bytes(&mut out, &link.file);
    }
    hasher.update(&out);
}

fn kind_byte(kind: Kind) -> u8 {
    match kind {
        Kind::File => 0,
        Kind::Directory => 1,
    }
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_number(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn put_number(out: &mut Vec<u8>, mut n: u64) {
    while n >= 0x80 {
        out.push(n as u8 | 0x80);
        n >>= 7;
    }
    out.push(n as u8);
}

/// Signed to unsigned so that small magnitudes stay small: 0, -1, 1, -2 become 0, 1, 2, 3.
fn zigzag(n: i64) -> u64 {
    ((n << 1) ^ (n >> 63)) as u64
}

fn unzigzag(n: u64) -> i64 {
    (n >> 1) as i64 ^ -((n & 1) as i64)
}

/// The remaining input, and the values that it refers to.
struct Input<'a> {
    rest: &'a [u8],
    path: Vec<u8>,
    last: Metadata,
    /// The remaining memory budget.
    memory_left: u64,
}

impl<'a> Input<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8], ManifestError> {
        let (taken, rest) = self.rest.split_at_checked(len).ok_or(ManifestError::Truncated)?;
        self.rest = rest;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8, ManifestError> {
        Ok(self.take(1)?[0])
    }

    fn number(&mut self) -> Result<u64, ManifestError> {
        let mut n = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if (bits << shift) >> shift != bits {
                return Err(ManifestError::BadNumber);
            }
            n |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(n);
            }
        }
        Err(ManifestError::BadNumber)
    }

    /// The header, with the kind.
    fn kind(&mut self) -> Result<Kind, ManifestError> {
        if self.take(MAGIC.len())? != MAGIC {
            return Err(ManifestError::NotAManifest);
        }
        let theirs = self.byte()?;
        if theirs != VERSION {
            return Err(ManifestError::Version { ours: VERSION, theirs });
        }
        match self.byte()? {
            0 => Ok(Kind::File),
            1 => Ok(Kind::Directory),
            other => Err(ManifestError::BadKind(other)),
        }
    }

    fn small_number(&mut self) -> Result<u32, ManifestError> {
        u32::try_from(self.number()?).map_err(|_| ManifestError::BadNumber)
    }

    fn bytes(&mut self) -> Result<&'a [u8], ManifestError> {
        let len = usize::try_from(self.number()?).map_err(|_| ManifestError::Truncated)?;
        self.take(len)
    }

    /// Takes this many bytes off the remaining memory budget.
    fn spend(&mut self, bytes: usize) -> Result<(), ManifestError> {
        self.memory_left = self.memory_left.checked_sub(bytes as u64).ok_or(ManifestError::TooMuchMemory)?;
        Ok(())
    }

    fn path(&mut self) -> Result<Vec<u8>, ManifestError> {
        let shared = usize::try_from(self.number()?).ok().filter(|&shared| shared <= self.path.len());
        let shared = shared.ok_or(ManifestError::BadNumber)?;
        let end = self.bytes()?;
        if shared + end.len() > PATH_BYTES_MAX {
            let path = [&self.path[..shared], &end[..end.len().min(PATH_BYTES_MAX)]].concat();
            return Err(ManifestError::BadPath { path, why: "it is too long" });
        }
        self.spend(memory::of_path(shared + end.len()))?;
        self.path.truncate(shared);
        self.path.extend_from_slice(end);
        Ok(self.path.clone())
    }

    /// Metadata and its flags. The flags `more` may be set in addition to the common ones.
    fn metadata(&mut self, more: u64) -> Result<(Metadata, u64), ManifestError> {
        let flags = self.number()?;
        if flags & !(flag::ALL & !flag::HOLES | more) != 0 {
            return Err(ManifestError::BadNumber);
        }
        let mode = if flags & flag::MODE != 0 { self.small_number()? } else { self.last.mode };
        let seconds = unzigzag(self.number()?).wrapping_add(self.last.modified.seconds);
        let modified = Timestamp { seconds, nanos: self.small_number()? };
        let owner = match (flags & flag::OWNER != 0, flags & flag::SAME_OWNER != 0) {
            (false, false) => None,
            (true, false) => Some(Owner { user: self.small_number()?, group: self.small_number()? }),
            (false, true) => Some(self.last.owner.ok_or(ManifestError::BadNumber)?),
            (true, true) => return Err(ManifestError::BadNumber),
        };
        let attributes = if flags & flag::ATTRIBUTES != 0 { self.attributes()? } else { Vec::new() };
        self.last = Metadata { mode, modified, owner, attributes: Vec::new() };
        Ok((Metadata { mode, modified, owner, attributes }, flags))
    }

    fn attributes(&mut self) -> Result<Vec<Attribute>, ManifestError> {
        let count = self.count(2)?;
        let attribute = |_| {
            let (name, value) = (self.bytes()?, self.bytes()?);
            self.spend(memory::OF_ATTRIBUTE + name.len() + value.len())?;
            Ok(Attribute { name: name.to_vec(), value: value.to_vec() })
        };
        (0..count).map(attribute).collect()
    }

    fn file(&mut self) -> Result<Entry, ManifestError> {
        self.spend(memory::OF_FILE)?;
        let path = self.path()?;
        let size = self.number()?;
        let (metadata, flags) = self.metadata(flag::HOLES)?;
        let holes = if flags & flag::HOLES != 0 { self.holes()? } else { Vec::new() };
        Ok(Entry { path, size, metadata, holes })
    }

    fn holes(&mut self) -> Result<Vec<ByteRange>, ManifestError> {
        let count = self.count(2)?;
        self.spend(count as usize * memory::OF_HOLE)?;
        let mut end = 0u64;
        let hole = |_| {
            let start = end.checked_add(self.number()?).ok_or(ManifestError::BadNumber)?;
            end = start.checked_add(self.number()?).ok_or(ManifestError::BadNumber)?;
            Ok(ByteRange::new(start, end))
        };
        (0..count).map(hole).collect()
    }

    fn skipped(&mut self) -> Result<Skipped, ManifestError> {
        let count = self.number()?;
        let named = self.number()?;
        if named > SKIPPED_NAMED_MAX as u64 || named > count {
            return Err(ManifestError::BadNumber);
        }
        let paths = (0..named).map(|_| Ok(self.bytes()?.to_vec())).collect::<Result<_, _>>()?;
        Ok(Skipped { count, paths })
    }

    /// A count of items of at least `item_bytes_min` bytes each. A count that the input cannot hold is refused before
    /// any allocation.
    fn count(&mut self, item_bytes_min: usize) -> Result<u64, ManifestError> {
        let count = self.number()?;
        if count > ENTRIES_MAX {
            return Err(ManifestError::TooMany);
        }
        if count > (self.rest.len() / item_bytes_min) as u64 {
            return Err(ManifestError::Truncated);
        }
        Ok(count)
    }

    /// A count and that many items. The first item shares no bytes with an earlier path.
    fn list<T>(
        &mut self,
        item_bytes_min: usize,
        mut item: impl FnMut(&mut Self) -> Result<T, ManifestError>,
    ) -> Result<Vec<T>, ManifestError> {
        let count = self.count(item_bytes_min)?;
        self.path.clear();
        (0..count).map(|_| item(self)).collect()
    }
}
