//! What is certainly on a disk, and what may be.
//!
//! Until a file is synced, each of its sectors or pages may have any content since the last sync, independent of the
//! others. So may its length, and its times and permissions together. Names change in the order of the operations, as
//! on file systems with a journal, or independently. Syncing a file does not sync its name.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::IoSlice;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use inhaul_base::RandomStream;
use rustix::fs::{AtFlags, Stat};

use crate::beneath::split;
use crate::disk::Operation;

type Name = Vec<u8>;

/// The smallest unit that disks write at once.
const SECTOR_BYTES: u64 = 512;

/// What a failed sync was for.
pub(super) enum Fault<'a> {
    Of(BorrowedFd<'a>),
    All,
}

#[derive(Debug, Default)]
pub(super) struct Model {
    root: PathBuf,
    /// The first is the root.
    nodes: Vec<Node>,
    by_inode: BTreeMap<(u64, u64), usize>,
    /// Changes of names so far.
    changes: u64,
    /// How many of them are on the disk of a file system with a journal.
    committed: u64,
}

#[derive(Debug)]
struct Node {
    content: Content,
    /// Permissions and times: the certain ones, and possible ones.
    attributes: Vec<Attributes>,
}

#[derive(Debug)]
enum Content {
    File(Bytes),
    Directory(Names),
    Symlink(Vec<u8>),
}

#[derive(Debug, Default)]
struct Bytes {
    /// The content that is certainly on the disk.
    certain: Vec<u8>,
    pending: Vec<Change>,
    /// Ranges that the kernel shows and will never write.
    lost: Vec<Range<u64>>,
}

#[derive(Clone, Debug)]
enum Change {
    Write { at: u64, bytes: Vec<u8> },
    Zero(Range<u64>),
    Resize(u64),
}

#[derive(Debug, Default)]
struct Names {
    certain: BTreeMap<Name, usize>,
    pending: Vec<NameChange>,
}

/// An atomic change: these names get these nodes.
#[derive(Debug)]
struct NameChange {
    number: u64,
    sets: Vec<(Name, Option<usize>)>,
}

#[derive(Clone, Copy, Debug)]
struct Attributes {
    mode: u32,
    modified: (i64, i64),
}

impl Attributes {
    fn of(stat: &Stat) -> Self {
        Self { mode: stat.st_mode & 0o7777, modified: (stat.st_mtime, stat.st_mtime_nsec as i64) }
    }
}

fn stat(of: BorrowedFd<'_>) -> Stat {
    rustix::fs::fstat(of).expect("it is open")
}

impl Model {
    pub(super) fn of(root: &Path) -> Self {
        let mut model = Self { root: root.to_owned(), ..Self::default() };
        model.scan(root);
        model
    }

    fn scan(&mut self, path: &Path) -> usize {
        let metadata = fs::symlink_metadata(path).unwrap();
        let inode = (metadata.dev(), metadata.ino());
        if let Some(&known) = self.by_inode.get(&inode) {
            return known;
        }
        let index = self.nodes.len();
        let modified = (metadata.mtime(), metadata.mtime_nsec());
        let attributes = vec![Attributes { mode: metadata.mode() & 0o7777, modified }];
        self.nodes.push(Node { content: Content::Symlink(Vec::new()), attributes });
        self.by_inode.insert(inode, index);
        self.nodes[index].content = if metadata.is_dir() {
            let mut certain = BTreeMap::new();
            for item in fs::read_dir(path).unwrap().map(Result::unwrap) {
                certain.insert(item.file_name().as_bytes().to_vec(), self.scan(&item.path()));
            }
            Content::Directory(Names { certain, ..Names::default() })
        } else if metadata.is_symlink() {
            Content::Symlink(fs::read_link(path).unwrap().as_os_str().as_bytes().to_vec())
        } else {
            Content::File(Bytes { certain: fs::read(path).unwrap(), ..Bytes::default() })
        };
        index
    }

    fn find(&self, of: BorrowedFd<'_>) -> Option<usize> {
        let stat = stat(of);
        self.by_inode.get(&(stat.st_dev, stat.st_ino)).copied()
    }

    fn bytes(&mut self, file: BorrowedFd<'_>) -> Option<&mut Bytes> {
        let node = self.find(file)?;
        match &mut self.nodes[node].content {
            Content::File(bytes) => Some(bytes),
            _ => None,
        }
    }

    fn child(&self, parent: BorrowedFd<'_>, name: &[u8]) -> Option<usize> {
        match &self.nodes[self.find(parent)?].content {
            Content::Directory(names) => names.now().get(name).copied(),
            _ => None,
        }
    }

    /// Called before an operation: the node that loses a name by it.
    pub(super) fn look(&self, operation: &Operation<'_>) -> Option<usize> {
        match operation {
            Operation::Rename { parent, from, .. } => self.child(*parent, from),
            Operation::Link { from, from_name, .. } => self.child(*from, from_name),
            _ => None,
        }
    }

    /// Called after an operation; `before` is the result of [`look`](Self::look).
    pub(super) fn note(&mut self, operation: &Operation<'_>, before: Option<usize>) {
        match *operation {
            Operation::Read => {}
            Operation::Write { file, bufs, at } => self.note_write(file, bufs, at),
            Operation::Resize { file, len } => self.note_change(file, Change::Resize(len)),
            Operation::Punch { file, at, len } => self.note_change(file, Change::Zero(at..at + len)),
            Operation::SetAttributes { of } => {
                if let Some(node) = self.find(of) {
                    self.nodes[node].attributes.push(Attributes::of(&stat(of)));
                }
            }
            Operation::Sync { of } => {
                if let Some(node) = self.find(of) {
                    self.sync(node);
                }
            }
            Operation::SyncAll => (0..self.nodes.len()).for_each(|node| self.sync(node)),
            Operation::Create { directory, path } => {
                let (above, name) = split(path);
                let resolve = rustix::fs::ResolveFlags::BENEATH;
                let flags = rustix::fs::OFlags::RDONLY;
                let above = if above.is_empty() { b"." } else { above };
                let parent = crate::disk::open(directory, above, flags, rustix::fs::Mode::empty(), resolve);
                let parent = parent.expect("something was made in it");
                self.note_new(std::os::fd::AsFd::as_fd(&parent), name, Content::File(Bytes::default()));
            }
            Operation::MakeDirectory { parent, name } => {
                self.note_new(parent, name, Content::Directory(Names::default()));
            }
            Operation::Symlink { target, parent, name } => {
                self.note_new(parent, name, Content::Symlink(target.to_vec()));
            }
            Operation::Link { to, to_name, .. } => self.note_names(to, vec![(to_name.to_vec(), before)]),
            // Two names of one file: nothing happens.
            Operation::Rename { parent, to, .. } if before == self.child(parent, to) => {}
            Operation::Rename { parent, from, to } => {
                self.note_names(parent, vec![(from.to_vec(), None), (to.to_vec(), before)]);
            }
            Operation::Remove { parent, name } => self.note_names(parent, vec![(name.to_vec(), None)]),
        }
    }

    /// The power goes during the operation.
    pub(super) fn note_torn(&mut self, operation: &Operation<'_>) {
        if let Operation::Write { file, bufs, at } = *operation {
            self.note_write(file, bufs, at);
        }
    }

    fn note_write(&mut self, file: BorrowedFd<'_>, bufs: &[IoSlice<'_>], at: u64) {
        let mut bytes: Vec<u8> = bufs.iter().flat_map(|buf| buf.iter().copied()).collect();
        let mut range = at..at + bytes.len() as u64;
        let Some(of) = self.bytes(file) else { return };
        let sectors = sectors_of(&range);
        if of.lost.iter().any(|lost| overlap(lost, &sectors)) {
            // The kernel writes whole sectors as processes see them, including bytes that were lost there.
            let mut whole = vec![0; (sectors.end - sectors.start) as usize];
            let len = rustix::io::pread(file, whole.as_mut_slice(), sectors.start).expect("it is open for reading");
            whole.truncate(len.max((range.end - sectors.start) as usize));
            whole[(at - sectors.start) as usize..][..bytes.len()].copy_from_slice(&bytes);
            bytes = whole;
            range = sectors.start..sectors.start + bytes.len() as u64;
            of.lost = of.lost.iter().flat_map(|lost| without(lost, &sectors)).collect();
        }
        self.note_change(file, Change::Write { at: range.start, bytes });
    }

    fn note_change(&mut self, file: BorrowedFd<'_>, change: Change) {
        if let Some(bytes) = self.bytes(file) {
            bytes.pending.push(change);
        }
    }

    fn note_new(&mut self, parent: BorrowedFd<'_>, name: &[u8], content: Content) {
        let stat = rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW).expect("it was just made");
        let node = self.nodes.len();
        self.nodes.push(Node { content, attributes: vec![Attributes::of(&stat)] });
        self.by_inode.insert((stat.st_dev, stat.st_ino), node);
        self.note_names(parent, vec![(name.to_vec(), Some(node))]);
    }

    fn note_names(&mut self, parent: BorrowedFd<'_>, sets: Vec<(Name, Option<usize>)>) {
        if let Some(node) = self.find(parent)
            && let Content::Directory(names) = &mut self.nodes[node].content
        {
            self.changes += 1;
            names.pending.push(NameChange { number: self.changes, sets });
        }
    }

    fn sync(&mut self, node: usize) {
        let Node { content, attributes } = &mut self.nodes[node];
        attributes.drain(..attributes.len() - 1);
        match content {
            Content::File(bytes) => {
                for change in std::mem::take(&mut bytes.pending) {
                    let len = change.len_after(bytes.certain.len() as u64);
                    change.apply(&mut bytes.certain, |_| true, 1 << 20);
                    bytes.certain.resize(len as usize, 0);
                }
            }
            Content::Directory(names) => {
                names.certain = names.now();
                let last = names.pending.last().map_or(0, |last| last.number);
                self.committed = self.committed.max(last);
                names.pending.clear();
            }
            Content::Symlink(_) => {}
        }
    }

    /// Marks some unsynced bytes as written although they are lost.
    pub(super) fn fail_to_sync(&mut self, fault: &Fault<'_>, random: &mut RandomStream) {
        let nodes = match fault {
            Fault::Of(of) => self.find(*of).map_or(0..0, |node| node..node + 1),
            Fault::All => 0..self.nodes.len(),
        };
        for node in &mut self.nodes[nodes] {
            let Content::File(bytes) = &mut node.content else { continue };
            let is_lost = |change: &Change| matches!(change, Change::Write { .. }) && random.below(2) == 0;
            let lost = bytes.pending.iter().map(is_lost).collect::<Vec<_>>();
            let ranges = bytes.pending.iter().zip(lost).filter_map(|(change, is_lost)| match change {
                Change::Write { at, bytes } if is_lost => Some(sectors_of(&(*at..*at + bytes.len() as u64))),
                _ => None,
            });
            // A sector is written as a whole or not at all.
            for sectors in ranges.collect::<Vec<_>>() {
                let pending = std::mem::take(&mut bytes.pending);
                bytes.pending = pending.into_iter().flat_map(|change| change.without(&sectors)).collect();
                bytes.lost.push(sectors);
            }
        }
    }

    /// From now on processes may see the disk's bytes instead of the lost ones.
    pub(super) fn forget(&mut self, random: &mut RandomStream) {
        for (node, path) in self.paths() {
            let Content::File(bytes) = &mut self.nodes[node].content else { continue };
            let file = File::options().write(true).open(&path).expect("it is there");
            let len = file.metadata().expect("it is open").len();
            for lost in std::mem::take(&mut bytes.lost) {
                if random.below(2) == 0 {
                    let mut old = vec![0; lost.end.min(len).saturating_sub(lost.start) as usize];
                    let from = bytes.certain.get(lost.start as usize..).unwrap_or_default();
                    let there = from.len().min(old.len());
                    old[..there].copy_from_slice(&from[..there]);
                    file.write_all_at(&old, lost.start).expect("it is open for writing");
                } else {
                    bytes.lost.push(lost);
                }
            }
        }
    }

    /// The files and directories that processes see, each with one of its paths.
    fn paths(&self) -> BTreeMap<usize, PathBuf> {
        let mut paths = BTreeMap::from([(0, self.root.clone())]);
        let mut ahead = vec![0];
        while let Some(node) = ahead.pop() {
            let Content::Directory(names) = &self.nodes[node].content else { continue };
            for (name, child) in names.now() {
                paths.insert(child, paths[&node].join(OsStr::from_bytes(&name)));
                ahead.push(child);
            }
        }
        paths
    }

    /// Makes a possible content of the disk beneath `root`. Returns whether names were changed in order.
    pub(super) fn survive(&self, root: &Path, random: &mut RandomStream) -> bool {
        let in_order = random.below(2) == 0;
        let last = in_order.then(|| self.committed + random.below(self.changes - self.committed + 1));
        self.make(0, root, last, &mut BTreeMap::new(), random);
        in_order
    }

    fn make(
        &self,
        node: usize,
        path: &Path,
        last: Option<u64>,
        made: &mut BTreeMap<usize, PathBuf>,
        random: &mut RandomStream,
    ) {
        if let Some(first) = made.get(&node) {
            return fs::hard_link(first, path).unwrap();
        }
        made.insert(node, path.to_owned());
        let Node { content, attributes } = &self.nodes[node];
        let attributes = attributes[random.below(attributes.len() as u64) as usize];
        let open = match content {
            Content::Symlink(target) => return symlink(OsStr::from_bytes(target), path).unwrap(),
            Content::File(bytes) => {
                let file = File::create_new(path).unwrap();
                write_sparsely(&file, &bytes.survive(last.is_some(), random));
                file
            }
            Content::Directory(names) => {
                if !path.is_dir() {
                    fs::create_dir(path).unwrap();
                }
                for (name, node) in names.survive(last, random) {
                    self.make(node, &path.join(OsStr::from_bytes(&name)), last, made, random);
                }
                File::open(path).unwrap()
            }
        };
        let (seconds, nanos) = attributes.modified;
        open.set_modified(SystemTime::UNIX_EPOCH + Duration::new(seconds as u64, nanos as u32)).unwrap();
        open.set_permissions(fs::Permissions::from_mode(attributes.mode)).unwrap();
    }
}

impl Names {
    fn now(&self) -> BTreeMap<Name, usize> {
        let mut now = self.certain.clone();
        self.pending.iter().for_each(|change| change.apply(&mut now));
        now
    }

    fn survive(&self, last: Option<u64>, random: &mut RandomStream) -> BTreeMap<Name, usize> {
        let mut names = self.certain.clone();
        let mut left_out: Vec<&[u8]> = Vec::new();
        for change in &self.pending {
            // Changes of one name stay in order.
            let depends = change.sets.iter().any(|(name, _)| left_out.contains(&name.as_slice()));
            let is_there = match last {
                Some(last) => change.number <= last,
                None => !depends && random.below(2) == 0,
            };
            if is_there {
                change.apply(&mut names);
            } else {
                left_out.extend(change.sets.iter().map(|(name, _)| name.as_slice()));
            }
        }
        names
    }
}

impl NameChange {
    fn apply(&self, names: &mut BTreeMap<Name, usize>) {
        for (name, node) in &self.sets {
            match node {
                Some(node) => _ = names.insert(name.clone(), *node),
                None => _ = names.remove(name),
            }
        }
    }
}

impl Bytes {
    fn survive(&self, in_order: bool, random: &mut RandomStream) -> Vec<u8> {
        // Each sector has its first changes; some files all changes, some none.
        let lost_in_256 = [0, 8, 64, 128, 256][random.below(5) as usize];
        let sector = if random.below(2) == 0 { SECTOR_BYTES } else { 4096 };
        let mut bytes = self.certain.clone();
        let mut lens = vec![bytes.len() as u64];
        let mut stopped: Vec<bool> = Vec::new();
        for change in &self.pending {
            lens.push(change.len_after(lens[lens.len() - 1]));
            let is_there = |number: usize| {
                stopped.resize(stopped.len().max(number + 1), false);
                stopped[number] = stopped[number] || random.below(256) < lost_in_256;
                !stopped[number]
            };
            change.apply(&mut bytes, is_there, sector);
        }
        let len = if lost_in_256 == 0 { lens[lens.len() - 1] } else { lens[random.below(lens.len() as u64) as usize] };
        bytes.resize(len as usize, 0);
        // If the length reached the disk before the bytes, other bytes may be there.
        if !in_order && random.below(4) == 0 {
            let from = self.certain.len().div_ceil(sector as usize);
            for (number, part) in bytes.chunks_mut(sector as usize).enumerate().skip(from) {
                if stopped.get(number).copied().unwrap_or(true) {
                    part.fill(0xa5 ^ number as u8);
                }
            }
        }
        bytes
    }
}

/// `range`, extended to whole sectors.
fn sectors_of(range: &Range<u64>) -> Range<u64> {
    range.start / SECTOR_BYTES * SECTOR_BYTES..range.end.next_multiple_of(SECTOR_BYTES)
}

fn overlap(a: &Range<u64>, b: &Range<u64>) -> bool {
    a.start < b.end && b.start < a.end
}

/// The parts of `range` before and after `hole`.
fn without(range: &Range<u64>, hole: &Range<u64>) -> impl Iterator<Item = Range<u64>> + use<> {
    let parts = [range.start..range.end.min(hole.start), range.start.max(hole.end)..range.end];
    parts.into_iter().filter(|part| part.start < part.end)
}

impl Change {
    /// The same outside of `hole`.
    fn without(self, hole: &Range<u64>) -> Vec<Self> {
        let Self::Write { at, bytes } = self else { return vec![self] };
        let part = |part: Range<u64>| {
            let bytes = bytes[(part.start - at) as usize..(part.end - at) as usize].to_vec();
            Self::Write { at: part.start, bytes }
        };
        without(&(at..at + bytes.len() as u64), hole).map(part).collect()
    }

    fn len_after(&self, len: u64) -> u64 {
        match self {
            Self::Write { at, bytes } => len.max(at + bytes.len() as u64),
            Self::Zero(_) => len,
            Self::Resize(len) => *len,
        }
    }

    /// Applies the parts in sectors for which `is_there` is true. `to` does not get shorter.
    fn apply(&self, to: &mut Vec<u8>, mut is_there: impl FnMut(usize) -> bool, sector: u64) {
        let before = to.len() as u64;
        to.resize(before.max(self.len_after(before)) as usize, 0);
        let range = match self {
            Self::Write { at, bytes } => *at..*at + bytes.len() as u64,
            Self::Zero(range) => range.start..range.end.min(before),
            Self::Resize(len) => *len..before,
        };
        let mut at = range.start;
        while at < range.end {
            let end = range.end.min((at / sector + 1) * sector);
            if is_there((at / sector) as usize) {
                let part = &mut to[at as usize..end as usize];
                match self {
                    Self::Write { at: start, bytes } => {
                        part.copy_from_slice(&bytes[(at - start) as usize..(end - start) as usize]);
                    }
                    Self::Zero(_) | Self::Resize(_) => part.fill(0),
                }
            }
            at = end;
        }
    }
}

/// Writes `bytes`, leaving holes for zeros.
fn write_sparsely(file: &File, bytes: &[u8]) {
    file.set_len(bytes.len() as u64).unwrap();
    for (number, part) in bytes.chunks(4096).enumerate() {
        if part.iter().any(|&byte| byte != 0) {
            file.write_all_at(part, number as u64 * 4096).unwrap();
        }
    }
}
