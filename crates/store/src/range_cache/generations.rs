//! Detects that the files of a data set have changed since they were cached.
//!
//! A description has sizes and times, and a replaced file may have the same ones. So servers tell the *version* of
//! their files: an opaque value that changes whenever a file does ([`crate::DataSet::files_version`]). Mirrors have
//! different versions of the same content. Therefore bytes are cached not by version, but by a *generation* of the data
//! set. A file in the cache has the current generation, and each mirror's version in it:
//!
//! ```text
//! file = magic(4) generation(32) [mirror(32) version(32)]... checksum(32)
//! ```
//!
//! - A mirror with the same version as before, or a new mirror, has the known generation.
//! - A mirror whose version has changed begins a new generation. Everything cached before is void.
//!
//! The generation is the hash of the mirror and the version that began it. So processes that find a change at the same
//! time agree, in any order of their writes.

use std::io::Read;

use rustix::fs::OFlags;

use super::{RangeCache, VERSIONS_END};
use crate::digest::Hash;
use crate::own_directory;

const MAGIC: &[u8; 4] = b"ihV1";
const HASH_BYTES: usize = 32;
/// Most mirrors to remember.
const MIRRORS_MAX: usize = 64;
const FILE_BYTES_MAX: usize = MAGIC.len() + 2 * HASH_BYTES + MIRRORS_MAX * 2 * HASH_BYTES;

/// The content of a file.
struct Known {
    generation: Hash,
    /// The hashes of mirrors, and their versions.
    mirrors: Vec<[[u8; HASH_BYTES]; 2]>,
}

impl RangeCache {
    /// The generation of a data set, described by the servers at `source`, now that the mirror `mirror` has told its
    /// version.
    pub fn generation(&self, source: &str, identity: &Hash, mirror: &str, version: &[u8; 32]) -> Hash {
        let name = name_of(source, identity);
        let mirror = *hash("inhaul 2026 a mirror of a data set", &[mirror.as_bytes()]).as_bytes();
        let began = || Known {
            generation: hash("inhaul 2026 a generation of a data set", &[&mirror, version]),
            mirrors: vec![[mirror, *version]],
        };
        let known = match self.known(&name) {
            None => began(),
            Some(mut known) => match known.mirrors.iter().find(|[of, _]| *of == mirror) {
                Some([_, before]) if before == version => return known.generation,
                Some(_) => began(),
                None if known.mirrors.len() >= MIRRORS_MAX => return known.generation,
                None => {
                    known.mirrors.push([mirror, *version]);
                    known
                }
            },
        };
        // If it is not written, the next process finds it again.
        let _ = self.replace(&name, &known.encode());
        known.generation
    }

    fn known(&self, name: &str) -> Option<Known> {
        let file = self.directory.open_file(name, OFlags::RDONLY).ok()?;
        let mut bytes = Vec::new();
        (&file).take(FILE_BYTES_MAX as u64 + 1).read_to_end(&mut bytes).ok()?;
        own_directory::touch(&file);
        Known::parse(&bytes)
    }
}

impl Known {
    fn encode(&self) -> Vec<u8> {
        let mut bytes =
            [MAGIC.as_slice(), self.generation.as_bytes(), self.mirrors.as_flattened().as_flattened()].concat();
        bytes.extend_from_slice(checksum(&bytes).as_bytes());
        bytes
    }

    /// `None`: it is damaged.
    fn parse(bytes: &[u8]) -> Option<Self> {
        let (content, sum) = bytes.split_last_chunk::<HASH_BYTES>()?;
        let (generation, mirrors) = content.strip_prefix(MAGIC)?.split_first_chunk::<HASH_BYTES>()?;
        let (values, rest) = mirrors.as_chunks::<HASH_BYTES>();
        let (mirrors, odd) = values.as_chunks::<2>();
        let is_whole = rest.is_empty() && odd.is_empty() && bytes.len() <= FILE_BYTES_MAX;
        let is_right = checksum(content).as_bytes() == sum;
        (is_whole && is_right).then(|| Self { generation: Hash::from_bytes(*generation), mirrors: mirrors.to_vec() })
    }
}

fn name_of(source: &str, identity: &Hash) -> String {
    let name = hash("inhaul 2026 versions of a data set", &[identity.as_bytes(), source.as_bytes()]);
    format!("{}{VERSIONS_END}", name.to_hex())
}

fn checksum(bytes: &[u8]) -> Hash {
    hash("inhaul 2026 versions of a data set, checksum", &[bytes])
}

fn hash(context: &str, pieces: &[&[u8]]) -> Hash {
    let mut hasher = blake3::Hasher::new_derive_key(context);
    for piece in pieces {
        hasher.update(piece);
    }
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::range_cache::BYTES_MIN;

    const SOURCE: &str = "inhaul://a,b/c";

    fn cache() -> (tempfile::TempDir, RangeCache) {
        let dir = tempfile::tempdir().unwrap();
        let cache = RangeCache::open(&dir.path().join("cache"), BYTES_MIN).unwrap();
        (dir, cache)
    }

    #[test]
    fn a_version_that_changes_begins_a_generation_and_those_of_other_mirrors_do_not() {
        let (dir, cache) = cache();
        let identity = blake3::hash(b"a manifest");
        let of = |mirror: &str, version: u8| cache.generation(SOURCE, &identity, mirror, &[version; 32]);
        let first = of("a", 1);
        assert_eq!(of("a", 1), first);
        assert_eq!(of("b", 7), first, "another mirror, another version, the same content");
        assert_eq!((of("b", 7), of("a", 1)), (first, first));
        let second = of("a", 2);
        assert_ne!(second, first);
        assert_eq!((of("b", 7), of("a", 2)), (second, second));
        let third = of("b", 8);
        assert!(third != second && third != first);
        assert_eq!(of("a", 2), third);
        assert_ne!(cache.generation("inhaul://x/c", &identity, "a", &[2; 32]), third);
        // Another process.
        let again = RangeCache::open(&dir.path().join("cache"), BYTES_MIN).unwrap();
        assert_eq!(again.generation(SOURCE, &identity, "a", &[2; 32]), third);
    }

    #[test]
    fn a_damaged_file_is_none() {
        let (dir, cache) = cache();
        let identity = blake3::hash(b"a manifest");
        let of = |mirror: &str, version: u8| cache.generation(SOURCE, &identity, mirror, &[version; 32]);
        let first = of("a", 1);
        of("b", 1);
        let path = dir.path().join("cache").join(name_of(SOURCE, &identity));
        let sound = std::fs::read(&path).unwrap();
        for at in 0..sound.len() {
            let mut bytes = sound.clone();
            bytes[at] ^= 1;
            assert!(Known::parse(&bytes).is_none(), "{at}");
            assert!(Known::parse(&sound[..at]).is_none(), "{at}");
        }
        std::fs::write(&path, b"damaged").unwrap();
        assert_eq!(of("a", 1), first, "it begins anew");
    }

    #[test]
    fn mirrors_are_bounded() {
        let (dir, cache) = cache();
        let identity = blake3::hash(b"a manifest");
        let generations: Vec<Hash> = (0..100)
            .map(|mirror| cache.generation(SOURCE, &identity, &format!("mirror {mirror}"), &[mirror; 32]))
            .collect();
        assert!(generations.iter().all(|generation| *generation == generations[0]));
        let path = dir.path().join("cache").join(name_of(SOURCE, &identity));
        assert_eq!(std::fs::metadata(path).unwrap().len(), FILE_BYTES_MAX as u64);
    }
}
