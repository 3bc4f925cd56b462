//! An open data set: its files, and reads of their bytes.

use std::fmt;
use std::ops::Range;

use inhaul_base::ByteRange;
use inhaul_mover::{Buffers, Handle, MoveError, OpenSet, ReadDestination, SetStats, Source, Timestamp, printable};
use inhaul_store::{Kind, Metadata};

/// An open data set. Its sessions stay open until it is dropped. Can be used from several threads at once.
pub struct DataSet {
    source: Source,
    set: OpenSet,
}

/// An entry of a data set, with all metadata that is needed to recreate it elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Item<'d> {
    /// Its path in the data set, as [`File::path`]; that of the data set itself is empty.
    pub path: &'d [u8],
    /// Its kind.
    pub kind: ItemKind<'d>,
    /// Its permissions, as `chmod` takes them. They mean nothing for links.
    pub mode: u32,
    /// When it was last changed.
    pub modified: Timestamp,
}

/// The kind of an [`Item`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ItemKind<'d> {
    /// A file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link to this. It may lead anywhere.
    Symlink(&'d [u8]),
    /// Another name of the file at this path.
    HardLink(&'d [u8]),
}

/// A file of a data set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct File<'d> {
    /// Its path in the data set, components separated by `/`; any bytes but NUL. Empty if the data set is this one file.
    pub path: &'d [u8],
    /// Its size in bytes.
    pub size: u64,
    /// When it was last changed.
    pub modified: Timestamp,
}

impl DataSet {
    pub(crate) fn new(source: Source, set: OpenSet) -> Self {
        Self { source, set }
    }

    /// Where it is, without tickets.
    pub fn source(&self) -> String {
        self.source.to_string()
    }

    /// Whether it is one file, whose path is empty then; else it is a directory.
    pub fn is_file(&self) -> bool {
        self.set.manifest().kind() == Kind::File
    }

    /// Its files, in the order of their paths. One with hard links is there by each of its names.
    pub fn files(&self) -> impl Iterator<Item = File<'_>> {
        self.set.manifest().names().into_iter().map(|(path, index)| self.file_at(path, index))
    }

    fn file_at<'d>(&'d self, path: &'d [u8], index: usize) -> File<'d> {
        let entry = &self.set.manifest().entries()[index];
        let path = if self.is_file() { &[] } else { path };
        File { path, size: entry.size, modified: entry.metadata.modified }
    }

    /// Its directories, in the order of their paths.
    pub fn directories(&self) -> impl Iterator<Item = &[u8]> {
        self.set.manifest().directories().iter().map(|directory| directory.path.as_slice())
    }

    /// Paths of its symbolic links, in their order. A link's target is not among the files; it can be opened on its
    /// own, if it lies within the offered directories.
    pub fn links(&self) -> impl Iterator<Item = &[u8]> {
        self.set.manifest().symlinks().iter().map(|link| link.path.as_slice())
    }

    /// All its entries: its directories, itself first and parents before children; its files; further names of these;
    /// and its symbolic links, whose targets are not entries.
    pub fn items(&self) -> impl Iterator<Item = Item<'_>> {
        let manifest = self.set.manifest();
        let item =
            |path, kind, metadata: &Metadata| Item { path, kind, mode: metadata.mode, modified: metadata.modified };
        let top = (!self.is_file()).then(|| item(&b""[..], ItemKind::Directory, manifest.top()));
        let directories = manifest.directories().iter();
        let directories = directories.map(move |one| item(&one.path, ItemKind::Directory, &one.metadata));
        let is_file = self.is_file();
        let files = manifest
            .entries()
            .iter()
            .map(move |file| item(if is_file { &[] } else { &file.path }, ItemKind::File, &file.metadata));
        let names = manifest.hard_links().iter().filter_map(move |link| {
            let file = &manifest.entries()[manifest.named(&link.file)?];
            Some(item(&link.path, ItemKind::HardLink(&link.file), &file.metadata))
        });
        let links = manifest.symlinks().iter();
        let links = links.map(move |link| item(&link.path, ItemKind::Symlink(&link.target), &link.metadata));
        top.into_iter().chain(directories).chain(files).chain(names).chain(links)
    }

    /// Bytes of all files.
    pub fn bytes(&self) -> u64 {
        self.set.manifest().size()
    }

    fn index(&self, path: &[u8]) -> Option<usize> {
        if self.is_file() { path.is_empty().then_some(0) } else { self.set.manifest().named(path) }
    }

    /// A file, if there is one at this path.
    pub fn stat<'d, P: AsRef<[u8]> + ?Sized>(&'d self, path: &'d P) -> Option<File<'d>> {
        self.index(path.as_ref()).map(|index| self.file_at(path.as_ref(), index))
    }

    /// Reads a range of a file, and waits for it.
    ///
    /// # Errors
    /// When there is no such file, when the range ends beyond it, and when it cannot be had.
    pub fn read(&self, path: impl AsRef<[u8]>, range: Range<u64>) -> Result<Vec<u8>, MoveError> {
        let path = path.as_ref();
        let len = range.end.saturating_sub(range.start);
        // Not more than the file has: a buffer is made before anybody looks.
        if self.stat(path).is_some_and(|file| range.end > file.size) || usize::try_from(len).is_err() {
            let (path, Range { start, end }) = (printable(path), range);
            return Err(MoveError::Usage(format!("{path}: bytes {start} to {end} are beyond its end")));
        }
        let buffers = Buffers(vec![vec![0; len as usize]]);
        let Buffers(mut buffers) = self.read_ranges(&[(path, range)], buffers)?.join()?;
        Ok(buffers.pop().unwrap_or_default())
    }

    /// Reads ranges of files into `destination`, all of them in one request: see [`Buffers`] for memory.
    ///
    /// # Errors
    /// If there is no such file, or a range ends beyond it. The handle reports later errors.
    pub fn read_ranges<P: AsRef<[u8]>, D: ReadDestination>(
        &self,
        ranges: &[(P, Range<u64>)],
        destination: D,
    ) -> Result<Handle<D>, MoveError> {
        self.set.read(self.placed(ranges)?, destination, true)
    }

    /// The same at low priority, for data that no read waits for yet: it comes only when no read waits.
    ///
    /// # Errors
    /// As [`DataSet::read_ranges`].
    pub fn read_ahead<P: AsRef<[u8]>, D: ReadDestination>(
        &self,
        ranges: &[(P, Range<u64>)],
        destination: D,
    ) -> Result<Handle<D>, MoveError> {
        self.set.read(self.placed(ranges)?, destination, false)
    }

    fn placed<P: AsRef<[u8]>>(&self, ranges: &[(P, Range<u64>)]) -> Result<Vec<(usize, ByteRange)>, MoveError> {
        let place = |(path, range): &(P, Range<u64>)| match self.index(path.as_ref()) {
            Some(_) if range.start > range.end => {
                let path = printable(path.as_ref());
                Err(MoveError::Usage(format!("{path}: {} to {} is no range", range.start, range.end)))
            }
            Some(index) => Ok((index, ByteRange::new(range.start, range.end))),
            None => Err(MoveError::Usage(format!("{} has no file '{}'", self.source, printable(path.as_ref())))),
        };
        ranges.iter().map(place).collect()
    }

    /// Its traffic so far.
    ///
    /// # Errors
    /// When the client has died.
    pub fn stats(&self) -> Result<SetStats, MoveError> {
        self.set.stats()
    }
}

impl fmt::Debug for DataSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DataSet({})", self.source)
    }
}
