//! The servers whose keys a user has seen before.

use std::collections::BTreeMap;
use std::path::Path;

use crate::files::{self, FileError, Others, lines};
use crate::fingerprint::Fingerprint;

/// Longest file, in bytes.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// The content of a file of known hosts: a line for each key, `HOST:PORT FINGERPRINT`. A host may have several.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KnownHosts {
    hosts: BTreeMap<String, Vec<Fingerprint>>,
}

/// The file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KnownHostsError {
    /// It cannot be read or written.
    #[error("known hosts cannot be used: {0}{elsewhere}", elsewhere = files::elsewhere(.0))]
    File(#[from] FileError),
    /// A line is malformed. It may be the line that would make a host untrusted, so it must not be skipped.
    #[error("line {0} of the known hosts is not 'HOST:PORT FINGERPRINT': mend it or take it out")]
    Line(usize),
}

impl KnownHosts {
    /// Reads a file; a missing file knows no host.
    ///
    /// # Errors
    /// When it cannot be read, or a line makes no sense.
    pub fn load(path: &Path) -> Result<Self, KnownHostsError> {
        Self::parse(&files::read(path, FILE_BYTES_MAX, Others::Read)?.unwrap_or_default())
    }

    /// Reads the text of such a file.
    ///
    /// # Errors
    /// When a line makes no sense.
    pub fn parse(text: &str) -> Result<Self, KnownHostsError> {
        let mut known = Self::default();
        for (number, line) in lines(text) {
            let mut words = line.split_whitespace();
            let host = words.next().filter(|host| host.contains(':'));
            let key = words.next().and_then(|key| key.parse().ok());
            let (Some(host), Some(key)) = (host, key) else { return Err(KnownHostsError::Line(number)) };
            known.hosts.entry(host.to_lowercase()).or_default().push(key);
        }
        Ok(known)
    }

    /// The keys that a server, named as HOST:PORT, is known by. Names are the same in capitals.
    pub fn keys_of(&self, server: &str) -> &[Fingerprint] {
        self.hosts.get(&server.to_lowercase()).map_or(&[], Vec::as_slice)
    }

    /// Adds a key of a server to the file.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn add(path: &Path, server: &str, key: Fingerprint) -> Result<(), KnownHostsError> {
        Ok(files::append(path, &format!("{server} {key}"))?)
    }

    /// Takes a server's keys out of the file; how many there were.
    ///
    /// # Errors
    /// When the file cannot be read or written, or a line makes no sense.
    pub fn forget(path: &Path, server: &str) -> Result<usize, KnownHostsError> {
        let text = files::read(path, FILE_BYTES_MAX, Others::Read)?.unwrap_or_default();
        let known = Self::parse(&text)?.keys_of(server).len();
        if known > 0 {
            let is_other = |line: &&str| {
                let host = line.split_whitespace().next().unwrap_or_default();
                line.trim().starts_with('#') || !host.eq_ignore_ascii_case(server)
            };
            let left: String = text.lines().filter(is_other).map(|line| format!("{line}\n")).collect();
            files::replace(path, &left)?;
        }
        Ok(known)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_added_found_and_forgotten() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("known_hosts");
        let (old, new) = (Fingerprint::of(b"old"), Fingerprint::of(b"new"));
        assert_eq!(KnownHosts::load(&path).unwrap(), KnownHosts::default());
        KnownHosts::add(&path, "dtn1:4321", old).unwrap();
        KnownHosts::add(&path, "[::1]:4321", old).unwrap();
        KnownHosts::add(&path, "DTN1:4321", new).unwrap();
        let known = KnownHosts::load(&path).unwrap();
        assert_eq!(known.keys_of("dtn1:4321"), [old, new]);
        assert_eq!(known.keys_of("dtn1:4322"), []);
        assert_eq!(KnownHosts::forget(&path, "dtn1:4321").unwrap(), 2);
        assert_eq!(KnownHosts::forget(&path, "dtn1:4321").unwrap(), 0);
        assert_eq!(KnownHosts::load(&path).unwrap().keys_of("[::1]:4321"), [old]);
    }

    #[test]
    fn a_line_that_makes_no_sense_is_an_error() {
        let line = |text: &str| match KnownHosts::parse(text) {
            Err(KnownHostsError::Line(number)) => number,
            other => panic!("{other:?}"),
        };
        let key = Fingerprint::of(b"key");
        assert_eq!(line(&format!("# comment\n\ndtn1 {key}")), 3);
        assert_eq!(line("dtn1:4321"), 1);
        assert_eq!(line(&format!("dtn1:1 {key} since May\ndtn1:1 {}", &key.to_string()[1..])), 2);
    }
}
