//! Hashes many files at once. Large files are hashed in parts if the algorithm allows it.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::Builder;

use inhaul_store::checksums::{Algorithm, Hasher};
use inhaul_store::digest::{self, GroupDigest, Tree, group_count};
use inhaul_store::{DataSet, OfferedError};

use inhaul_session::api::error::MoveError;
use inhaul_session::api::options::Stop;

/// Groups that a thread hashes before it looks for other work: 64 MiB.
const GROUPS_TOGETHER: u64 = 64;
/// Bytes that are read at once.
const BUFFER_BYTES: usize = 1 << 20;

/// A file to hash, by its index in the data set, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Wanted {
    pub(super) file: usize,
    pub(super) algorithm: Algorithm,
}

/// Work for one thread: all of a file, or some groups of it.
type Unit = (Wanted, Range<u64>);

/// What is left to hash, in units that are made as they are taken.
struct Units<'a> {
    data_set: &'a DataSet,
    files: std::collections::btree_set::IntoIter<Wanted>,
    /// The groups of a file; some are taken already.
    begun: Option<Unit>,
}

impl Iterator for Units<'_> {
    type Item = Unit;

    fn next(&mut self) -> Option<Unit> {
        let (wanted, groups) = match self.begun.take() {
            Some(begun) => begun,
            None => {
                let wanted = self.files.next()?;
                (wanted, 0..group_count(size_of(self.data_set, wanted)))
            }
        };
        let end = match wanted.algorithm {
            Algorithm::Blake3 => groups.end.min(groups.start + GROUPS_TOGETHER),
            _ => groups.end,
        };
        self.begun = (end < groups.end).then_some((wanted, end..groups.end));
        Some((wanted, groups.start..end))
    }
}

/// What the units have come to so far.
#[derive(Default)]
struct Sums {
    trees: BTreeMap<Wanted, Tree>,
    done: BTreeMap<Wanted, Vec<u8>>,
}

/// The checksums of files, in the order of `wanted`.
pub(super) fn hash(data_set: &DataSet, wanted: &[Wanted], stop: &Stop) -> Result<Vec<Vec<u8>>, MoveError> {
    // Names of one file share their checksum.
    let distinct: BTreeSet<Wanted> = wanted.iter().copied().collect();
    let units = Mutex::new(Units { data_set, files: distinct.into_iter(), begun: None });
    let sums: Mutex<Sums> = Mutex::default();
    let failure: Mutex<Option<MoveError>> = Mutex::default();
    let next = || lock(&failure).is_none().then(|| lock(&units).next()).flatten();
    let work = || {
        while let Some((wanted, groups)) = next() {
            if let Err(error) = hash_unit(data_set, wanted, groups, stop, &sums) {
                *lock(&failure) = Some(error);
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 1..threads {
            // Without a thread, those that there are do its work.
            if Builder::new().name("inhaul-hash".to_owned()).spawn_scoped(scope, work).is_err() {
                break;
            }
        }
        work();
    });
    if let Some(error) = failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
        return Err(error);
    }
    let sums = sums.into_inner().unwrap_or_else(PoisonError::into_inner);
    let lost = || MoveError::Internal("a file was not hashed".to_owned());
    wanted.iter().map(|wanted| sums.done.get(wanted).cloned().ok_or_else(lost)).collect()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn size_of(data_set: &DataSet, wanted: Wanted) -> u64 {
    data_set.manifest().entries()[wanted.file].size
}

fn hash_unit(
    data_set: &DataSet,
    wanted: Wanted,
    groups: Range<u64>,
    stop: &Stop,
    sums: &Mutex<Sums>,
) -> Result<(), MoveError> {
    let sum = match wanted.algorithm {
        Algorithm::Blake3 => {
            let digests = hash_groups(data_set, wanted.file, groups.clone(), stop)?;
            let mut sums = lock(sums);
            let tree = sums.trees.entry(wanted).or_insert_with(|| Tree::new(size_of(data_set, wanted)));
            let Some(hash) = groups.zip(digests).find_map(|(group, digest)| tree.insert(group, digest)) else {
                return Ok(());
            };
            sums.trees.remove(&wanted);
            hash.as_bytes().to_vec()
        }
        _ => hash_file(data_set, wanted, stop)?,
    };
    lock(sums).done.insert(wanted, sum);
    Ok(())
}

fn hash_groups(
    data_set: &DataSet,
    file: usize,
    groups: Range<u64>,
    stop: &Stop,
) -> Result<Vec<GroupDigest>, MoveError> {
    let entry = &data_set.manifest().entries()[file];
    let mut buffer = Vec::new();
    let hash = |group| {
        check_stop(stop)?;
        if entry.is_hole_group(group) {
            return Ok(digest::zero_group_digest(entry.size, group));
        }
        data_set.read_group(file, group, &mut buffer).map_err(|error| unreadable(&error))?;
        Ok(digest::group_digest(entry.size, group, &buffer))
    };
    groups.map(hash).collect()
}

fn hash_file(data_set: &DataSet, wanted: Wanted, stop: &Stop) -> Result<Vec<u8>, MoveError> {
    let mut opened = data_set.open(wanted.file).map_err(|error| unreadable(&error))?;
    let mut hasher = Hasher::new(wanted.algorithm);
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        check_stop(stop)?;
        match opened.read(&mut buffer) {
            Ok(0) => return Ok(hasher.finish()),
            Ok(count) => hasher.update(&buffer[..count]),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(source) => return Err(MoveError::System { what: "a file cannot be read", source }),
        }
    }
}

fn check_stop(stop: &Stop) -> Result<(), MoveError> {
    if stop.is_set() { Err(MoveError::Interrupted) } else { Ok(()) }
}

fn unreadable(error: &OfferedError) -> MoveError {
    MoveError::Unverifiable { detail: error.to_string() }
}
