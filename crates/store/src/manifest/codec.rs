//! A manifest as bytes.
//!
//! ```text
//! manifest  = "IHM" version(1) kind(1) bytes(name) count directory* count file*
//! directory = bytes(path) mode
//! file      = bytes(path) size mode zigzag(seconds) nanos
//! bytes(b)  = length b
//! ```
//! Numbers without a width are LEB128: seven bits a byte, low bits first, the high bit says that more follow.

use super::{Directory, ENTRIES_MAX, Entry, Kind, Manifest, ManifestError, Timestamp};

const MAGIC: &[u8; 3] = b"IHM";
const VERSION: u8 = 1;
/// Fewest bytes of a file and of a directory in the list.
const FILE_BYTES_MIN: usize = 6;
const DIRECTORY_BYTES_MIN: usize = 3;

pub(super) fn encode(manifest: &Manifest) -> Vec<u8> {
    let mut out = Vec::with_capacity(64 + manifest.entries.len() * 48);
    out.extend_from_slice(MAGIC);
    out.extend_from_slice(&[VERSION, kind_byte(manifest.kind)]);
    put_bytes(&mut out, &manifest.name);
    put_number(&mut out, manifest.directories.len() as u64);
    for directory in &manifest.directories {
        put_bytes(&mut out, &directory.path);
        put_number(&mut out, u64::from(directory.mode));
    }
    put_number(&mut out, manifest.entries.len() as u64);
    for entry in &manifest.entries {
        put_bytes(&mut out, &entry.path);
        put_number(&mut out, entry.size);
        put_number(&mut out, u64::from(entry.mode));
        put_number(&mut out, zigzag(entry.modified.seconds));
        put_number(&mut out, u64::from(entry.modified.nanos));
    }
    out
}

pub(super) fn decode(bytes: &[u8]) -> Result<Manifest, ManifestError> {
    let mut input = Input(bytes);
    if input.take(MAGIC.len())? != MAGIC {
        return Err(ManifestError::NotAManifest);
    }
    let theirs = input.byte()?;
    if theirs != VERSION {
        return Err(ManifestError::Version { ours: VERSION, theirs });
    }
    let kind = match input.byte()? {
        0 => Kind::File,
        1 => Kind::Directory,
        other => return Err(ManifestError::BadKind(other)),
    };
    let name = input.bytes()?.to_vec();
    let directories = input.list(DIRECTORY_BYTES_MIN, |input| {
        Ok(Directory { path: input.bytes()?.to_vec(), mode: input.small_number()? })
    })?;
    let entries = input.list(FILE_BYTES_MIN, |input| {
        Ok(Entry {
            path: input.bytes()?.to_vec(),
            size: input.number()?,
            mode: input.small_number()?,
            modified: Timestamp { seconds: unzigzag(input.number()?), nanos: input.small_number()? },
        })
    })?;
    if !input.0.is_empty() {
        return Err(ManifestError::TrailingBytes(input.0.len()));
    }
    Manifest::from_sorted(name, kind, entries, directories)
}

/// Feeds what mirrors share to `hasher`, lengths and counts included so that no two data sets look alike.
pub(super) fn write_identity(manifest: &Manifest, hasher: &mut blake3::Hasher) {
    let mut out = Vec::new();
    out.extend_from_slice(MAGIC);
    out.extend_from_slice(&[VERSION, kind_byte(manifest.kind)]);
    put_number(&mut out, manifest.directories.len() as u64);
    for directory in &manifest.directories {
        put_bytes(&mut out, &directory.path);
    }
    put_number(&mut out, manifest.entries.len() as u64);
    for entry in &manifest.entries {
        // A single file's path is but its name, and that may differ from host to host.
        if manifest.kind == Kind::Directory {
            put_bytes(&mut out, &entry.path);
        }
        put_number(&mut out, entry.size);
    }
    hasher.update(&out);
}

fn kind_byte(kind: Kind) -> u8 {
    match kind {
        Kind::File => 0,
        Kind::Directory => 1,
    }
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_number(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn put_number(out: &mut Vec<u8>, mut n: u64) {
    while n >= 0x80 {
        out.push(n as u8 | 0x80);
        n >>= 7;
    }
    out.push(n as u8);
}

/// Signed to unsigned so that small magnitudes stay small: 0, -1, 1, -2 become 0, 1, 2, 3.
fn zigzag(n: i64) -> u64 {
    ((n << 1) ^ (n >> 63)) as u64
}

fn unzigzag(n: u64) -> i64 {
    (n >> 1) as i64 ^ -((n & 1) as i64)
}

/// What is left to read.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8], ManifestError> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or(ManifestError::Truncated)?;
        self.0 = rest;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8, ManifestError> {
        Ok(self.take(1)?[0])
    }

    fn number(&mut self) -> Result<u64, ManifestError> {
        let mut n = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if (bits << shift) >> shift != bits {
                return Err(ManifestError::BadNumber);
            }
            n |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(n);
            }
        }
        Err(ManifestError::BadNumber)
    }

    fn small_number(&mut self) -> Result<u32, ManifestError> {
        u32::try_from(self.number()?).map_err(|_| ManifestError::BadNumber)
    }

    fn bytes(&mut self) -> Result<&'a [u8], ManifestError> {
        let len = usize::try_from(self.number()?).map_err(|_| ManifestError::Truncated)?;
        self.take(len)
    }

    /// A count and that many items, of at least `item_bytes_min` bytes each: a count that the input cannot hold is
    /// refused before anything is set aside for it.
    fn list<T>(
        &mut self,
        item_bytes_min: usize,
        mut item: impl FnMut(&mut Self) -> Result<T, ManifestError>,
    ) -> Result<Vec<T>, ManifestError> {
        let count = self.number()?;
        if count > ENTRIES_MAX {
            return Err(ManifestError::TooMany);
        }
        if count > (self.0.len() / item_bytes_min) as u64 {
            return Err(ManifestError::Truncated);
        }
        (0..count).map(|_| item(self)).collect()
    }
}
