//! Hashes many files at once, and large ones in parts where their algorithm allows it.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use inhaul_store::checksums::Algorithm;
use inhaul_store::digest::{self, GroupDigest, group_count};
use inhaul_store::{DataSet, OfferedError};
use sha2::{Digest, Sha256, Sha512};

use crate::error::MoveError;
use crate::options::Stop;

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

/// What the units have come to: digests of groups by their number, or one checksum at 0.
type Parts = BTreeMap<Wanted, BTreeMap<u64, Vec<u8>>>;

/// The checksums of files, in the order of `wanted`.
pub(super) fn hash(data_set: &DataSet, wanted: &[Wanted], stop: &Stop) -> Result<Vec<Vec<u8>>, MoveError> {
    let size = |wanted: &Wanted| data_set.manifest().entries()[wanted.file].size;
    // Names of one file share their checksum.
    let distinct: BTreeSet<Wanted> = wanted.iter().copied().collect();
    let units: Vec<Unit> = distinct.iter().flat_map(|wanted| units_of(*wanted, size(wanted))).collect();
    let parts: Mutex<Parts> = Mutex::default();
    let failure: Mutex<Option<MoveError>> = Mutex::default();
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some((wanted, groups)) = units.get(next.fetch_add(1, Ordering::Relaxed)) {
            match hash_unit(data_set, *wanted, groups.clone(), stop) {
                Ok(done) => {
                    let mut parts = parts.lock().unwrap_or_else(PoisonError::into_inner);
                    parts.entry(*wanted).or_default().extend(done);
                }
                Err(error) => {
                    next.store(units.len(), Ordering::Relaxed);
                    *failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                }
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(units.len());
    std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    if let Some(error) = failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
        return Err(error);
    }
    let parts = parts.into_inner().unwrap_or_else(PoisonError::into_inner);
    let sum = |wanted: &Wanted| parts.get(wanted).and_then(|parts| join(wanted.algorithm, size(wanted), parts));
    let lost = || MoveError::Internal("a file was not hashed".to_owned());
    wanted.iter().map(|wanted| sum(wanted).ok_or_else(lost)).collect()
}

fn units_of(wanted: Wanted, size: u64) -> Vec<Unit> {
    let count = group_count(size);
    let step = match wanted.algorithm {
        Algorithm::Blake3 => GROUPS_TOGETHER,
        Algorithm::Sha256 | Algorithm::Sha512 => count,
    };
    (0..count).step_by(step as usize).map(|first| (wanted, first..count.min(first + step))).collect()
}

fn hash_unit(
    data_set: &DataSet,
    wanted: Wanted,
    groups: Range<u64>,
    stop: &Stop,
) -> Result<Vec<(u64, Vec<u8>)>, MoveError> {
    match wanted.algorithm {
        Algorithm::Blake3 => hash_groups(data_set, wanted.file, groups, stop),
        Algorithm::Sha256 => Ok(vec![(0, hash_file::<Sha256>(data_set, wanted.file, stop)?)]),
        Algorithm::Sha512 => Ok(vec![(0, hash_file::<Sha512>(data_set, wanted.file, stop)?)]),
    }
}

fn hash_groups(
    data_set: &DataSet,
    file: usize,
    groups: Range<u64>,
    stop: &Stop,
) -> Result<Vec<(u64, Vec<u8>)>, MoveError> {
    let size = data_set.manifest().entries()[file].size;
    let mut buffer = Vec::new();
    let hash = |group| {
        check_stop(stop)?;
        data_set.read_group(file, group, &mut buffer).map_err(|error| unreadable(&error))?;
        Ok((group, digest::group_digest(size, group, &buffer).to_vec()))
    };
    groups.map(hash).collect()
}

fn hash_file<D: Digest>(data_set: &DataSet, file: usize, stop: &Stop) -> Result<Vec<u8>, MoveError> {
    let mut opened = data_set.open(file).map_err(|error| unreadable(&error))?;
    let mut hasher = D::new();
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        check_stop(stop)?;
        match opened.read(&mut buffer) {
            Ok(0) => return Ok(hasher.finalize().to_vec()),
            Ok(count) => hasher.update(&buffer[..count]),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(source) => return Err(MoveError::System { what: "a file cannot be read", source }),
        }
    }
}

/// The checksum of a file from its parts.
fn join(algorithm: Algorithm, size: u64, parts: &BTreeMap<u64, Vec<u8>>) -> Option<Vec<u8>> {
    if algorithm != Algorithm::Blake3 {
        return parts.get(&0).cloned();
    }
    let digests: Option<Vec<GroupDigest>> = parts.values().map(|part| part.as_slice().try_into().ok()).collect();
    Some(digest::root(size, &digests?)?.as_bytes().to_vec())
}

fn check_stop(stop: &Stop) -> Result<(), MoveError> {
    if stop.is_set() { Err(MoveError::Interrupted) } else { Ok(()) }
}

fn unreadable(error: &OfferedError) -> MoveError {
    MoveError::Unverifiable { detail: error.to_string() }
}
