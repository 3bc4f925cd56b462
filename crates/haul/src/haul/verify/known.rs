//! Verifies a complete file against checksums from a list, such as a Metalink.

use std::sync::atomic::{AtomicBool, Ordering};

use inhaul_store::checksums::{Algorithm, Hasher};
use inhaul_store::{Landing, digest};

use inhaul_session::api::error::MoveError;
use inhaul_session::api::request::KnownSums;
use inhaul_session::api::source::Source;

/// Verifies file `file`, which is complete and has the BLAKE3 hash `hash`, until `ending`. `buffer` is for its groups.
pub(crate) fn verify(
    landing: &Landing,
    file: usize,
    hash: Option<&digest::Hash>,
    sums: &[(Algorithm, Vec<u8>)],
    buffer: &mut Vec<u8>,
    ending: &AtomicBool,
) -> Result<(), MoveError> {
    for (algorithm, expected) in sums {
        let found = match algorithm {
            Algorithm::Blake3 => hash.map(|hash| hash.as_bytes().to_vec()).unwrap_or_default(),
            algorithm => hash_all(*algorithm, landing, file, buffer, ending)?,
        };
        if ending.load(Ordering::Relaxed) {
            return Ok(());
        }
        if found != *expected {
            let place = landing.plan().place(file);
            let detail = format!(
                "'{}' has come as its source has it, but not with the {algorithm} of the list",
                place.display()
            );
            return Err(MoveError::OtherVersion { detail });
        }
    }
    Ok(())
}

/// That checksums of a data set find only damage, for people.
pub(crate) fn describe_weak(source: &Source, sums: &KnownSums) -> Option<String> {
    let is_weak = |sums: &&Vec<(Algorithm, Vec<u8>)>| sums.iter().all(|(kind, _)| kind.weakness().is_some());
    let weak = || sums.values().filter(is_weak);
    let mut kinds: Vec<Algorithm> = weak().flatten().map(|(kind, _)| *kind).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let words: Vec<String> = kinds.into_iter().filter_map(Algorithm::weakness).collect();
    let files = match weak().count() {
        0 => return None,
        1 => "1 file is".to_owned(),
        count => format!("{count} files are"),
    };
    Some(format!("{source}: {files} compared with a weak checksum ({})", words.join("; ")))
}

fn hash_all(
    algorithm: Algorithm,
    landing: &Landing,
    file: usize,
    buffer: &mut Vec<u8>,
    ending: &AtomicBool,
) -> Result<Vec<u8>, MoveError> {
    let mut hasher = Hasher::new(algorithm);
    let entry = &landing.manifest().entries()[file];
    for group in (0..digest::group_count(entry.size)).take_while(|_| !ending.load(Ordering::Relaxed)) {
        if entry.is_hole_group(group) {
            hasher.update(&digest::ZEROS[..digest::group_range(entry.size, group).len() as usize]);
        } else {
            landing.read_group(file, group, buffer)?;
            hasher.update(buffer);
        }
    }
    Ok(hasher.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weak_checksums_are_named_and_others_are_not() {
        let source: Source = "inhaul://a/d".parse().unwrap();
        let sum = |kind: Algorithm| (kind, vec![0; kind.bytes()]);
        let of = |files: &[&[Algorithm]]| {
            let sums =
                files.iter().enumerate().map(|(file, kinds)| (file, kinds.iter().map(|kind| sum(*kind)).collect()));
            describe_weak(&source, &sums.collect())
        };
        assert_eq!((of(&[]), of(&[&[Algorithm::Sha256]])), (None, None));
        let said = of(&[&[Algorithm::Md5], &[Algorithm::Sha256], &[Algorithm::Adler32, Algorithm::Md5]]).unwrap();
        assert!(said.contains("2 files are") && said.contains("MD5: finds damage, not lies; Adler-32: "), "{said}");
    }
}
