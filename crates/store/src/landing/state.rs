//! The state of a landing and of its files.

use std::collections::{BTreeMap, BTreeSet};

use super::watch::{Stamp, Watch};
use crate::open_files::OpenFiles;

/// Most files that are held open while they are written and verified, if the process may have that many. A verifier
/// that is fewer files behind finds them open.
const OPEN_FILES_MAX: usize = 512;

#[derive(Debug)]
pub(super) struct State {
    pub(super) files: Vec<FileState>,
    pub(super) open: OpenFiles,
    /// Files of several groups that were written to since the last sync.
    pub(super) unsynced: BTreeSet<usize>,
    /// Directories with names that were not synced, by their indices; `None` for the data set's own.
    pub(super) unsynced_names: BTreeSet<Option<usize>>,
    /// Whether the names of the journal and the data set were synced.
    pub(super) is_begun: bool,
    /// Recorded groups that may not be on the disk.
    pub(super) unsure: BTreeSet<(usize, u64)>,
    /// Bytes of recorded groups.
    pub(super) kept_bytes: u64,
    /// Whether partial files of given up files are left to continue from.
    pub(super) keeps_given_up: bool,
    /// Those that have a partial file.
    pub(super) kept_partials: Vec<usize>,
    pub(super) end: End,
    /// Notices other programs that open partial files of several groups.
    pub(super) watch: Watch,
    /// Files that are complete and wait for their name.
    pub(super) sealed: BTreeMap<usize, Seal>,
}

impl State {
    /// The initial state of a landing, with these states of its files.
    pub(super) fn new(files: Vec<FileState>) -> Self {
        Self {
            files,
            open: OpenFiles::with_share(OPEN_FILES_MAX),
            unsynced: BTreeSet::new(),
            unsynced_names: BTreeSet::new(),
            is_begun: false,
            unsure: BTreeSet::new(),
            kept_bytes: 0,
            keeps_given_up: false,
            kept_partials: Vec::new(),
            end: End::Open,
            watch: Watch::default(),
            sealed: BTreeMap::new(),
        }
    }
}

/// The state of a file after the last write to it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seal {
    pub(super) stamp: Stamp,
    /// Whether another program may have written to it before.
    pub(super) is_disturbed: bool,
}

/// How a landing has ended, if it has: then nothing more is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Open,
    Finished,
    Suspended,
    Aborted,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileState {
    /// Nothing of it is on disk.
    Absent,
    /// Its partial file is being made.
    Making,
    /// There is a partial file.
    Partial,
    /// An earlier landing has named it, and this one has not verified it.
    Named,
    /// Its partial file is complete, and waits for its name.
    Sealed,
    /// Its partial file is being synced and renamed.
    Finishing,
    /// It has its name.
    Finished,
    /// It does not land: it is not wanted, or exists already.
    Outside,
    /// It was given up: see [`Landing::give_up`](super::Landing::give_up).
    GivenUp,
}
