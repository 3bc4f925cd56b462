//! Verifies a complete file against checksums from a list, such as a Metalink.

use std::sync::atomic::{AtomicBool, Ordering};

use inhaul_store::checksums::Algorithm;
use inhaul_store::{Landing, digest};
use sha2::{Digest, Sha256, Sha512};

use crate::api::error::MoveError;

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
            Algorithm::Sha256 => hash_all::<Sha256>(landing, file, buffer, ending)?,
            Algorithm::Sha512 => hash_all::<Sha512>(landing, file, buffer, ending)?,
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

fn hash_all<D: Digest>(
    landing: &Landing,
    file: usize,
    buffer: &mut Vec<u8>,
    ending: &AtomicBool,
) -> Result<Vec<u8>, MoveError> {
    let mut hasher = D::new();
    let entry = &landing.manifest().entries()[file];
    for group in (0..digest::group_count(entry.size)).take_while(|_| !ending.load(Ordering::Relaxed)) {
        if entry.is_hole_group(group) {
            hasher.update(&digest::ZEROS[..digest::group_range(entry.size, group).len() as usize]);
        } else {
            landing.read_group(file, group, buffer)?;
            hasher.update(&buffer);
        }
    }
    Ok(hasher.finalize().to_vec())
}
