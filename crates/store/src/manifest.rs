//! The files, directories and links of a data set, and the place of each file in its byte space.
//!
//! A manifest of fifty bytes can claim a file of 2^62 bytes. So memory and time follow the listed items, the arrived
//! bytes and the stored bytes, never a claim. The receiver's tally has only the groups that have begun, `digest::Tree`
//! merges subtrees as they become whole, and groups that are holes are a range.

mod codec;
mod error;
mod items;
mod limits;
pub(crate) mod memory;
mod rules;

use inhaul_base::{ByteRange, RangeSet};

pub use error::ManifestError;
pub use items::{Attribute, Contents, Directory, Entry, HardLink, Kind, Metadata, Owner, Skipped, Symlink, Timestamp};
pub(crate) use limits::{ATTRIBUTES_BYTES_MAX, MODE_BITS, PATH_BYTES_MAX};
use limits::{ENTRIES_MAX, SIZE_MAX};
pub(crate) use rules::check_component;

/// A part of a file in a range of the byte space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Index of the file in [`Manifest::entries`].
    pub file: usize,
    /// The part's offset in the file, in bytes.
    pub offset: u64,
    /// Its length in bytes; never zero.
    pub len: u64,
}

/// The contents of a data set. Every manifest is valid: see [`Manifest::new`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    name: Vec<u8>,
    kind: Kind,
    contents: Contents,
    /// The offset of each file in the byte space.
    starts: Vec<u64>,
    size: u64,
}

impl Manifest {
    /// The manifest of a data set called `name`; the contents may be in any order.
    ///
    /// # Errors
    /// When a path is empty, absolute, too long, or has a component that is empty, `.` or `..` or holds NUL; when a
    /// path is there twice; when the directory that something lies in is not listed; when a hard link is to no file of
    /// the list; when the sizes add up to more than 2^63 - 1; when a number or an attribute is one that no file can
    /// have; when a file's data set is anything but that one file under the data set's name.
    pub fn new(name: Vec<u8>, kind: Kind, mut contents: Contents) -> Result<Self, ManifestError> {
        contents.files.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        contents.directories.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        contents.symlinks.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        contents.hard_links.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        Self::from_sorted(name, kind, contents)
    }

    fn from_sorted(name: Vec<u8>, kind: Kind, contents: Contents) -> Result<Self, ManifestError> {
        let Contents { files, directories, symlinks, hard_links, .. } = &contents;
        let lens = [files.len(), directories.len(), symlinks.len(), hard_links.len()];
        if lens.into_iter().any(|len| len as u64 > ENTRIES_MAX) {
            return Err(ManifestError::TooMany);
        }
        check_component(&name, &name)?;
        if kind == Kind::File && (lens != [1, 0, 0, 0] || files[0].path != name) {
            return Err(ManifestError::NotOneFile);
        }
        rules::check(&contents)?;
        let mut size = 0u64;
        let mut starts = Vec::with_capacity(files.len());
        for entry in files {
            starts.push(size);
            size = size.checked_add(entry.size).filter(|&s| s <= SIZE_MAX).ok_or(ManifestError::TooLarge)?;
        }
        Ok(Self { name, kind, contents, starts, size })
    }

    /// The data set's name: a single path component.
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// Whether it is a file or a directory.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The files, in the order of their path's bytes: the order in which they lie in the byte space.
    pub fn entries(&self) -> &[Entry] {
        &self.contents.files
    }

    /// All directories beneath the data set's own, parents before children.
    pub fn directories(&self) -> &[Directory] {
        &self.contents.directories
    }

    /// The symbolic links, in the order of their path's bytes.
    pub fn symlinks(&self) -> &[Symlink] {
        &self.contents.symlinks
    }

    /// Further names of files, in the order of their path's bytes.
    pub fn hard_links(&self) -> &[HardLink] {
        &self.contents.hard_links
    }

    /// The metadata of the data set's own directory.
    pub fn top(&self) -> &Metadata {
        &self.contents.top
    }

    /// Items of its source that cannot be transferred.
    pub fn skipped(&self) -> &Skipped {
        &self.contents.skipped
    }

    /// Items of its source that may not be read.
    pub fn unreadable(&self) -> &Skipped {
        &self.contents.unreadable
    }

    /// The index of the file at `path`.
    pub fn find(&self, path: &[u8]) -> Option<usize> {
        self.contents.find(path)
    }

    /// All names of all files, in the order of paths, each with the file's index. A file with hard links has several.
    pub fn names(&self) -> Vec<(&[u8], usize)> {
        let own = self.contents.files.iter().enumerate().map(|(index, entry)| (entry.path.as_slice(), index));
        let second = self.hard_links().iter().filter_map(|link| Some((link.path.as_slice(), self.find(&link.file)?)));
        let mut names: Vec<_> = own.chain(second).collect();
        names.sort_unstable();
        names
    }

    /// The index of the file with this name, which may be a hard link.
    pub fn named(&self, path: &[u8]) -> Option<usize> {
        let link = || {
            let links = self.hard_links();
            let link = links.binary_search_by(|link| link.path.as_slice().cmp(path)).ok()?;
            self.find(&links[link].file)
        };
        self.find(path).or_else(link)
    }

    /// The index of the directory at `path`.
    pub(crate) fn find_directory(&self, path: &[u8]) -> Option<usize> {
        self.contents.directories.binary_search_by(|directory| directory.path.as_slice().cmp(path)).ok()
    }

    /// The holes of all files, in the byte space.
    pub fn holes(&self) -> RangeSet {
        let mut holes = RangeSet::new();
        for (entry, &start) in self.contents.files.iter().zip(&self.starts) {
            for hole in &entry.holes {
                holes.insert(ByteRange::at(start + hole.start, hole.len()));
            }
        }
        holes
    }

    /// Keeps only holes that `other` has too, a mirror's manifest of the same [identity](Self::identity): a mirror that
    /// has data there may be right.
    pub fn keep_common_holes(&mut self, other: &Self) {
        for (entry, same) in self.contents.files.iter_mut().zip(&other.contents.files) {
            let common = |hole: &ByteRange| {
                let first = same.holes.partition_point(|other| other.end <= hole.start);
                let near = same.holes[first..].iter().take_while(move |other| other.start < hole.end);
                near.map(|other| other.intersection(*hole)).collect::<Vec<_>>()
            };
            entry.holes = entry.holes.iter().flat_map(common).collect();
        }
    }

    /// Whether every hole of this one is one of `other` too, a mirror's manifest of the same [identity](Self::identity).
    pub fn has_holes_within(&self, other: &Self) -> bool {
        let is_hole = |holes: &[ByteRange], hole: ByteRange| {
            let after = holes.partition_point(|other| other.start <= hole.start);
            after.checked_sub(1).is_some_and(|at| holes[at].contains(hole))
        };
        let mut files = self.contents.files.iter().zip(&other.contents.files);
        files.all(|(entry, same)| entry.holes.iter().all(|hole| is_hole(&same.holes, *hole)))
    }

    /// Length of the byte space: the sizes of all files together, in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The range of file `index` in the byte space; `None` if there is no such file.
    pub fn file_range(&self, index: usize) -> Option<ByteRange> {
        Some(ByteRange::at(*self.starts.get(index)?, self.contents.files[index].size))
    }

    /// The parts of files in `range` of the byte space, in order, up to the end. O(log n) for each part.
    pub fn locate(&self, range: ByteRange) -> impl Iterator<Item = Piece> + '_ {
        let mut at = range.start;
        let end = range.end.min(self.size);
        std::iter::from_fn(move || {
            if at >= end {
                return None;
            }
            // If several files begin at one offset, all but the last are empty.
            let file = self.starts.partition_point(|&start| start <= at) - 1;
            let offset = at - self.starts[file];
            let len = (self.contents.files[file].size - offset).min(end - at);
            at += len;
            Some(Piece { file, offset, len })
        })
    }

    /// Whether the data set has anything at `path`.
    pub(crate) fn has(&self, path: &[u8]) -> bool {
        let Contents { symlinks, hard_links, .. } = &self.contents;
        self.find(path).is_some()
            || self.find_directory(path).is_some()
            || symlinks.binary_search_by(|link| link.path.as_slice().cmp(path)).is_ok()
            || hard_links.binary_search_by(|link| link.path.as_slice().cmp(path)).is_ok()
    }

    /// A digest of the properties that mirrors of one data set share: kind, paths, sizes and links. Times, permissions,
    /// holes and the data set's name on a host may differ.
    pub fn identity(&self) -> blake3::Hash {
        let mut hasher = blake3::Hasher::new();
        codec::write_identity(self.kind, &self.contents, &mut hasher);
        hasher.finalize()
    }

    /// The manifest as bytes, for [`Manifest::decode`].
    pub fn encode(&self) -> Vec<u8> {
        codec::encode(&self.name, self.kind, &self.contents)
    }

    /// Checks that bytes may be the beginning of an encoded manifest, as far as they show.
    ///
    /// When they are something else, or of another version.
    pub fn check_beginning(bytes: &[u8]) -> Result<(), ManifestError> {
        codec::check_beginning(bytes)
    }

    /// Reads what [`Manifest::encode`] wrote. The bytes may come from an attacker: memory stays within 24 bytes for
    /// each byte plus 64 MiB, and the manifest obeys the rules of [`Manifest::new`].
    ///
    /// # Errors
    /// When the bytes are cut short, too long, of another version, out of order or against the rules.
    pub fn decode(bytes: &[u8]) -> Result<Self, ManifestError> {
        Self::decode_within(bytes, u64::MAX)
    }

    /// The same, and the manifest takes no more memory than `memory_bytes_max`.
    ///
    /// # Errors
    /// As [`Manifest::decode`], and when it would take more.
    pub fn decode_within(bytes: &[u8], memory_bytes_max: u64) -> Result<Self, ManifestError> {
        let (name, kind, contents) = codec::decode(bytes, memory_bytes_max)?;
        Self::from_sorted(name, kind, contents)
    }
}

#[cfg(test)]
mod tests;
