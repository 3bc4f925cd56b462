//! The clients that a server lets in by their keys.

use std::collections::BTreeMap;
use std::path::Path;

use crate::files::{self, FileError, Others, lines};
use crate::fingerprint::Fingerprint;
use crate::rights::{Grant, Right, Rights, Scope};

/// Longest file, in bytes.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// The content of a file of authorised keys. A line for each key:
///
/// ```text
/// FINGERPRINT [RIGHT[=PATH]]... [COMMENT]
/// ```
///
/// A right without a path is for all paths; a line without a right gives `read`. In paths, blanks are written as %20.
/// Several lines of one key add up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuthorizedKeys {
    keys: BTreeMap<Fingerprint, Vec<Grant>>,
}

/// The file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum AuthorizedKeysError {
    /// It cannot be read.
    #[error("authorised keys cannot be used: {0}{elsewhere}", elsewhere = files::elsewhere(.0))]
    File(#[from] FileError),
    /// A line does not begin with a fingerprint, or has a right for a path that gives none.
    #[error("line {0} of the authorised keys is not 'FINGERPRINT [RIGHT[=PATH]]...': mend it or take it out")]
    Line(usize),
}

impl AuthorizedKeys {
    /// Reads a file; a missing file authorises no key.
    ///
    /// # Errors
    /// When it cannot be read, or a line makes no sense.
    pub fn load(path: &Path) -> Result<Self, AuthorizedKeysError> {
        Self::parse(&files::read(path, FILE_BYTES_MAX, Others::Read)?.unwrap_or_default())
    }

    /// Reads the text of such a file.
    ///
    /// # Errors
    /// When a line makes no sense.
    pub fn parse(text: &str) -> Result<Self, AuthorizedKeysError> {
        let mut authorized = Self::default();
        for (number, line) in lines(text) {
            let (key, grants) = parse_line(line).ok_or(AuthorizedKeysError::Line(number))?;
            authorized.keys.entry(key).or_default().extend(grants);
        }
        Ok(authorized)
    }

    /// The rights of the client with this key.
    pub fn grants_of(&self, key: Fingerprint) -> &[Grant] {
        self.keys.get(&key).map_or(&[], Vec::as_slice)
    }
}

fn parse_line(line: &str) -> Option<(Fingerprint, Vec<Grant>)> {
    let mut words = line.split_whitespace();
    let key = words.next()?.parse().ok()?;
    let mut grants = Vec::new();
    for word in words {
        let (name, path) = word.split_once('=').map_or((word, None), |(name, path)| (name, Some(path)));
        let right = Right::ALL.into_iter().find(|right| right.name() == name);
        match (right, path) {
            (Some(right), path) => {
                let scope = path.map_or(Some(Scope::all()), Scope::from_word)?;
                grants.push(Grant { rights: Rights::only(right), scope });
            }
            // A right that is misspelt must not become a comment, and `read` be given in its place.
            (None, Some(_)) => return None,
            (None, None) => break,
        }
    }
    if grants.is_empty() {
        grants.push(Grant { rights: Rights::only(Right::Read), scope: Scope::all() });
    }
    Some((key, grants))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_give_rights_beneath_paths() {
        let [a, b, c] = [b"a", b"b", b"c"].map(|key| Fingerprint::of(key));
        let text =
            format!("# who may do what\n{a}\n{b} read=/run-42 write alice read the manual\n{b} copy=/my%20runs\n");
        let keys = AuthorizedKeys::parse(&text).unwrap();
        let may = |key, right, path: &str| keys.grants_of(key).iter().any(|grant| grant.allows(right, path));
        assert!(may(a, Right::Read, "/anything") && !may(a, Right::Write, "/anything"));
        assert!(may(b, Right::Read, "/run-42/x") && !may(b, Right::Read, "/run-43") && may(b, Right::Write, "/"));
        assert!(may(b, Right::Copy, "my runs/1") && !may(b, Right::Copy, "/"));
        assert!(keys.grants_of(c).is_empty());
    }

    #[test]
    fn a_line_that_makes_no_sense_is_an_error() {
        let key = Fingerprint::of(b"a");
        for line in ["alice", &format!("{key} raed=/x"), &format!("{key} read=/x/../y"), &format!("read {key}")] {
            assert!(matches!(AuthorizedKeys::parse(line), Err(AuthorizedKeysError::Line(1))), "{line}");
        }
    }
}
