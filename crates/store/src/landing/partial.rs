//! Names of partial files and of journals.

/// What a partial file's name ends in.
const SUFFIX: &[u8] = b".partial";
/// What a journal's name ends in.
const JOURNAL_SUFFIX: &[u8] = b".inhaul";
/// Longest name of a file, in bytes.
const NAME_BYTES_MAX: usize = 255;
/// Hexadecimal digits that stand for what was cut off a name.
const HASH_DIGITS: usize = 16;

/// The name of the partial file of `name`: `NAME.partial`, or, when that is too long or the data set has something of
/// that name itself, one with a hash of the name in it. Always the same for the same name and data set.
pub(super) fn partial_name(name: &[u8], is_taken: impl Fn(&[u8]) -> bool) -> Vec<u8> {
    with_suffix(name, SUFFIX, is_taken)
}

/// The name of the journal of a data set called `name`: `NAME.inhaul`, or one with a hash in it when that is too long.
/// One that lands straight in its directory (`.`) has `.inhaul` there.
pub(super) fn journal_name(name: &[u8]) -> Vec<u8> {
    with_suffix(if name == b"." { b"" } else { name }, JOURNAL_SUFFIX, |_| false)
}

fn with_suffix(name: &[u8], suffix: &[u8], is_taken: impl Fn(&[u8]) -> bool) -> Vec<u8> {
    let plain = [name, suffix].concat();
    if plain.len() <= NAME_BYTES_MAX && !is_taken(&plain) {
        return plain;
    }
    let mut hasher = blake3::Hasher::new();
    loop {
        // Each round hashes the name once more and so gives another digest.
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
