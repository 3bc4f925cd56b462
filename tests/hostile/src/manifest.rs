//! Manifests that no honest server would send: bytes in `inhaul_store`'s format, without checks.

use std::ops::Range;

/// A file of a manifest.
#[derive(Clone, Debug, Default)]
pub struct RawFile {
    /// Path within the data set.
    pub path: Vec<u8>,
    /// Bytes that it claims to have.
    pub size: u64,
    /// Its holes, in order.
    pub holes: Vec<Range<u64>>,
    /// Permissions.
    pub mode: u32,
}

impl RawFile {
    /// A file without holes that its owner may read and write.
    pub fn new(path: impl AsRef<[u8]>, size: u64) -> Self {
        Self { path: path.as_ref().to_vec(), size, holes: Vec::new(), mode: 0o644 }
    }

    /// A file that is a hole from end to end.
    pub fn hole(path: impl AsRef<[u8]>, size: u64) -> Self {
        Self { holes: std::iter::once(0..size).collect(), ..Self::new(path, size) }
    }
}

/// A manifest, in any order and with any values.
#[derive(Clone, Debug, Default)]
pub struct RawManifest {
    /// The data set's name.
    pub name: Vec<u8>,
    /// Whether it is a single file, which then stands in `files` under the same name.
    pub is_file: bool,
    /// Paths of directories.
    pub directories: Vec<Vec<u8>>,
    /// The files.
    pub files: Vec<RawFile>,
    /// Symbolic links, each with its target.
    pub symlinks: Vec<(Vec<u8>, Vec<u8>)>,
    /// Hard links, each with its file's index.
    pub hard_links: Vec<(Vec<u8>, u64)>,
}

impl RawManifest {
    /// A data set that is one file.
    pub fn file(name: impl AsRef<[u8]>, size: u64) -> Self {
        let name = name.as_ref();
        Self { name: name.to_vec(), is_file: true, files: vec![RawFile::new(name, size)], ..Self::default() }
    }

    /// A directory of these files.
    pub fn directory(name: impl AsRef<[u8]>, files: Vec<RawFile>) -> Self {
        Self { name: name.as_ref().to_vec(), files, ..Self::default() }
    }

    /// The manifest's bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::default();
        writer.bytes.extend_from_slice(b"IHM");
        writer.bytes.extend_from_slice(&[3, u8::from(!self.is_file)]);
        writer.text(&self.name);
        writer.metadata(0o755, false);
        // Nothing was skipped, nothing was unreadable.
        writer.bytes.extend_from_slice(&[0; 4]);
        writer.list(self.directories.len());
        for path in &self.directories {
            writer.path(path);
            writer.metadata(0o755, false);
        }
        writer.list(self.files.len());
        for file in &self.files {
            writer.path(&file.path);
            writer.number(file.size);
            writer.metadata(file.mode, !file.holes.is_empty());
            writer.holes(&file.holes);
        }
        writer.list(self.symlinks.len());
        for (path, target) in &self.symlinks {
            writer.path(path);
            writer.text(target);
            writer.metadata(0o777, false);
        }
        writer.list(self.hard_links.len());
        for (path, file) in &self.hard_links {
            writer.path(path);
            writer.number(*file);
        }
        writer.bytes
    }
}

/// Time of everything in a manifest, in seconds since 1970.
const MODIFIED: u64 = 1_700_000_000;

/// Writes the references to the parts written before.
#[derive(Default)]
struct Writer {
    bytes: Vec<u8>,
    path: Vec<u8>,
    mode: u32,
    modified: bool,
}

impl Writer {
    /// LEB128.
    fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.bytes.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.bytes.push(number as u8);
    }

    fn text(&mut self, text: &[u8]) {
        self.number(text.len() as u64);
        self.bytes.extend_from_slice(text);
    }

    fn list(&mut self, len: usize) {
        self.number(len as u64);
        self.path.clear();
    }

    fn path(&mut self, path: &[u8]) {
        let shared = self.path.iter().zip(path).take_while(|(a, b)| a == b).count();
        self.number(shared as u64);
        self.text(&path[shared..]);
        self.path = path.to_vec();
    }

    fn metadata(&mut self, mode: u32, holes: bool) {
        let changed = mode != self.mode;
        self.number(u64::from(changed) | u64::from(holes) << 4);
        if changed {
            self.number(u64::from(mode));
        }
        self.mode = mode;
        // Seconds since the time before, zigzag, and nanoseconds.
        self.number(if self.modified { 0 } else { MODIFIED << 1 });
        self.modified = true;
        self.number(0);
    }

    fn holes(&mut self, holes: &[Range<u64>]) {
        if holes.is_empty() {
            return;
        }
        self.number(holes.len() as u64);
        let mut end = 0;
        for hole in holes {
            self.number(hole.start.wrapping_sub(end));
            self.number(hole.end.wrapping_sub(hole.start));
            end = hole.end;
        }
    }
}

#[cfg(test)]
mod tests {
    use inhaul_store::Manifest;

    use super::*;

    #[test]
    fn encode_writes_what_the_store_reads() {
        let mut files = vec![RawFile::new("a/b", 7), RawFile::hole("a/c", 1 << 40), RawFile::new("d", 0)];
        files[2].mode = 0o600;
        let raw = RawManifest {
            directories: vec![b"a".to_vec()],
            symlinks: vec![(b"a/l".to_vec(), b"b".to_vec())],
            hard_links: vec![(b"h".to_vec(), 0)],
            ..RawManifest::directory("tree", files)
        };
        let manifest = Manifest::decode(&raw.encode()).unwrap();
        assert_eq!(manifest.name(), b"tree");
        assert_eq!(manifest.size(), 7 + (1 << 40));
        assert_eq!(manifest.holes().first().unwrap().len(), 1 << 40);
        assert_eq!((manifest.symlinks().len(), manifest.hard_links()[0].file.as_slice()), (1, &b"a/b"[..]));
        assert_eq!(manifest.encode(), raw.encode());
        assert!(Manifest::decode(&RawManifest::file("f", 3).encode()).is_ok());
        assert!(Manifest::decode(&RawManifest::file("..", 3).encode()).is_err());
    }
}
