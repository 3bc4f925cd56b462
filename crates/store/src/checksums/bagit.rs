//! Bags (RFC 8493): the declaration, and the manifests of their payload.

use std::collections::BTreeSet;

use super::algorithm::{Algorithm, Strength, hexadecimal, to_hexadecimal};
use super::list::{Checksums, FileSum, Format, is_beneath};

/// The payload's directory in a bag.
const PAYLOAD: &[u8] = b"data/";

/// Why a directory is no bag that can be verified.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BagItError {
    /// `bagit.txt` is not the declaration of RFC 8493 2.1.1.
    #[error("its bagit.txt is not the declaration of a bag in UTF-8 (RFC 8493, 2.1.1)")]
    Declaration,
    /// There is no manifest with a supported algorithm.
    #[error("it has no manifest-sha512.txt, and none of another algorithm that is known here: make one")]
    NoManifest,
    /// A line of a manifest is wrong.
    #[error(
        "line {line} of {name} is not CHECKSUM and PATH, in data/ for the payload and elsewhere for tags, or the path stands there twice"
    )]
    Line {
        /// The manifest.
        name: String,
        /// The line, counted from 1.
        line: usize,
    },
}

/// Checks the declaration of a bag, its `bagit.txt` (RFC 8493 2.1.1).
///
/// When it is something else, or declares another encoding than UTF-8.
pub fn check_declaration(bytes: &[u8]) -> Result<(), BagItError> {
    let text = std::str::from_utf8(bytes).map_err(|_| BagItError::Declaration)?;
    let mut lines = text.trim_start_matches('\u{feff}').lines();
    let mut value =
        |label: &str| lines.next()?.strip_prefix(label)?.strip_prefix(':').map(|value| value.trim().to_owned());
    let version = value("BagIt-Version").ok_or(BagItError::Declaration)?;
    let encoding = value("Tag-File-Character-Encoding").ok_or(BagItError::Declaration)?;
    let is_version = version.split_once('.').is_some_and(|(a, b)| a.parse::<u32>().is_ok() && b.parse::<u32>().is_ok());
    if is_version && encoding.eq_ignore_ascii_case("utf-8") { Ok(()) } else { Err(BagItError::Declaration) }
}

/// The manifests of a bag.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BagManifests {
    /// Of its payload, at least one: each lists every file in `data/`.
    pub payload: Vec<Checksums>,
    /// Of its other files; they need not list all of them.
    pub tags: Vec<Checksums>,
}

/// The manifests of a bag that have supported algorithms. `read` returns the bytes of a file of the bag by name, if it
/// exists. Weak algorithms count only without a strong one.
///
/// # Errors
/// When no manifest of the payload is supported, or a line of a manifest is wrong.
pub fn bag_manifests(read: impl Fn(&str) -> Option<Vec<u8>>) -> Result<BagManifests, BagItError> {
    let mut found = BagManifests::default();
    for algorithm in Algorithm::all() {
        for (name, is_payload) in [("manifest", true), ("tagmanifest", false)] {
            let lists = if is_payload { &mut found.payload } else { &mut found.tags };
            let is_strong = |list: &Checksums| list.algorithm.strength() == Strength::Lies;
            if algorithm.strength() == Strength::Damage && lists.iter().any(is_strong) {
                continue;
            }
            let name = format!("{name}-{algorithm}.txt");
            let Some(bytes) = read(&name) else { continue };
            let wrong = |line| BagItError::Line { name: name.clone(), line };
            lists.push(read_manifest(&bytes, algorithm, is_payload).map_err(wrong)?);
        }
    }
    if found.payload.is_empty() { Err(BagItError::NoManifest) } else { Ok(found) }
}

/// Reads a manifest of the payload or of tags. Its paths become relative to the bag. The error is the number of the
/// wrong line.
pub(super) fn read_manifest(bytes: &[u8], algorithm: Algorithm, is_payload: bool) -> Result<Checksums, usize> {
    let mut files = Vec::new();
    let mut paths = BTreeSet::new();
    for (index, line) in bytes.split(|&byte| byte == b'\n').enumerate() {
        let wrong = || index + 1;
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() {
            continue;
        }
        let end = line.iter().position(|&byte| byte == b' ' || byte == b'\t').ok_or_else(wrong)?;
        let (digits, rest) = line.split_at(end);
        let checksum = hexadecimal(digits).filter(|sum| sum.len() == algorithm.bytes()).ok_or_else(wrong)?;
        let path = rest.trim_ascii_start();
        // md5deep and similar tools mark files read as binary.
        let path = decode(path.strip_prefix(b"*").unwrap_or(path)).ok_or_else(wrong)?;
        let path = path.strip_prefix(b"./").map(<[u8]>::to_vec).unwrap_or(path);
        if path.starts_with(PAYLOAD) != is_payload || !is_beneath(&path) || !paths.insert(path.clone()) {
            return Err(wrong());
        }
        files.push(FileSum { path, size: None, checksum });
    }
    Ok(Checksums { format: Format::BagIt, algorithm, files })
}

/// The payload manifest of `files`; paths are relative to `data/` or to the bag.
pub(super) fn write(files: &[FileSum]) -> Vec<u8> {
    let mut out = Vec::new();
    for listed in files {
        out.extend_from_slice(to_hexadecimal(&listed.checksum).as_bytes());
        out.extend_from_slice(b"  ");
        for &byte in &listed.path {
            match byte {
                b'\n' => out.extend_from_slice(b"%0A"),
                b'\r' => out.extend_from_slice(b"%0D"),
                b'%' => out.extend_from_slice(b"%25"),
                byte => out.push(byte),
            }
        }
        out.push(b'\n');
    }
    out
}

/// A path with `%0A`, `%0D` and `%25` (RFC 8493 2.1.3). Any other `%` is literal, as in older bags.
fn decode(path: &[u8]) -> Option<Vec<u8>> {
    let mut plain = Vec::with_capacity(path.len());
    let mut rest = path;
    while let Some((&byte, after)) = rest.split_first() {
        let code = after.get(..2).filter(|_| byte == b'%').map(<[u8]>::to_ascii_uppercase);
        let (decoded, used) = match code.as_deref() {
            Some(b"0A") => (b'\n', 3),
            Some(b"0D") => (b'\r', 3),
            Some(b"25") => (b'%', 3),
            _ => (byte, 1),
        };
        plain.push(decoded);
        rest = &rest[used..];
    }
    (!plain.is_empty()).then_some(plain)
}
