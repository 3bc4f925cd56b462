//! Names of partial files and of journals.

use crate::beneath::split;
use crate::{Kind, Manifest};

/// The suffix of partial files.
const SUFFIX: &[u8] = b".partial";
/// The suffix of journals.
const JOURNAL_SUFFIX: &[u8] = b".inhaul";
/// Longest name of a file, in bytes.
const NAME_BYTES_MAX: usize = 255;
/// Hexadecimal digits in place of the cut part of a name.
const HASH_DIGITS: usize = 16;

/// Path of the partial file of `index` relative to the base, in a data set that lands as `name`.
pub(crate) fn partial_path(manifest: &Manifest, name: &[u8], index: usize) -> Vec<u8> {
    match manifest.kind() {
        Kind::File => partial_beside(manifest, name),
        Kind::Directory => partial_beside(manifest, &manifest.entries()[index].path),
    }
}

/// Path of the partial file that becomes `path`.
pub(crate) fn partial_beside(manifest: &Manifest, path: &[u8]) -> Vec<u8> {
    let (parent, name) = split(path);
    let beside = |name: &[u8]| if parent.is_empty() { name.to_vec() } else { [parent, name].join(&b'/') };
    let is_taken = |name: &[u8]| manifest.kind() == Kind::Directory && manifest.has(&beside(name));
    beside(&partial_name(name, is_taken))
}

/// The name of the partial file of `name`: `NAME.partial`. If that is too long, or the data set has a file of that
/// name, a hash of the name is in it. It is always the same for the same name and data set.
fn partial_name(name: &[u8], is_taken: impl Fn(&[u8]) -> bool) -> Vec<u8> {
    with_suffix(name, SUFFIX, is_taken)
}

/// The name of the journal of the data set `name`: `NAME.inhaul`, with a hash in it if that is too long. If the data
/// set lands directly in its directory (`.`), the journal is `.inhaul` there.
pub(crate) fn journal_name(name: &[u8]) -> Vec<u8> {
    with_suffix(if name == b"." { b"" } else { name }, JOURNAL_SUFFIX, |_| false)
}

fn with_suffix(name: &[u8], suffix: &[u8], is_taken: impl Fn(&[u8]) -> bool) -> Vec<u8> {
    let plain = [name, suffix].concat();
    if plain.len() <= NAME_BYTES_MAX && !is_taken(&plain) {
        return plain;
    }
    let mut hasher = blake3::Hasher::new();
    loop {
        // Each round hashes the name once more, which gives another digest.
        hasher.update(name);
        let digits = hasher.finalize().to_hex();
        let kept = cut(name, NAME_BYTES_MAX - 1 - HASH_DIGITS - suffix.len());
        let hashed = [kept, b".", digits[..HASH_DIGITS].as_bytes(), suffix].concat();
        if !is_taken(&hashed) {
            return hashed;
        }
    }
}

/// At most `len` bytes of `name`, not ending within a UTF-8 character: some file systems refuse that.
fn cut(name: &[u8], len: usize) -> &[u8] {
    if name.len() <= len {
        return name;
    }
    let is_inside = |at: usize| name[at] & 0xc0 == 0x80;
    let end = (len.saturating_sub(3)..=len).rev().find(|&at| !is_inside(at)).unwrap_or(len);
    &name[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partial_name_is_plain_when_it_can_be() {
        assert_eq!(partial_name(b"a\xff", |_| false), b"a\xff.partial");
        assert_eq!(partial_name(&[b'n'; 247], |_| false).len(), 255);
    }

    #[test]
    fn partial_name_of_long_names_is_short_and_distinct() {
        let a = partial_name(&[b'n'; 255], |_| false);
        let b = partial_name(&[b'n'; 254], |_| false);
        assert_eq!((a.len(), b.len()), (255, 255));
        assert_ne!(a, b);
        let accents = "\u{e9}".repeat(127);
        assert!(std::str::from_utf8(&partial_name(accents.as_bytes(), |_| false)).is_ok());
    }

    #[test]
    fn partial_name_gives_way_to_what_the_data_set_brings() {
        let first = partial_name(b"a", |name| name == b"a.partial");
        assert_ne!(first, b"a.partial");
        let second = partial_name(b"a", |name| name == b"a.partial" || name == first);
        assert!(second != first && second.ends_with(SUFFIX));
    }
}
