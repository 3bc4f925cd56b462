//! The tokens that a server has made for its clients, so that other hosts can fetch for them. The list contains no
//! secret.

use std::path::Path;

use crate::date::UnixTime;
use crate::files::{self, FileError, Others, lines};
use crate::fingerprint::Fingerprint;
use crate::rights::{Grant, Scope};
use crate::token::TokenId;

/// Longest file, in bytes.
const FILE_BYTES_MAX: u64 = 8 << 20;
/// Most tokens that are good at a time: all together, and of one client.
const ALL_MAX: usize = 4096;
const OF_ONE_MAX: usize = 64;

/// A token that a client has asked for. It is good as long as that client's key has the right itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delegated {
    /// Its name.
    pub id: TokenId,
    /// Its rights.
    pub grant: Grant,
    /// It is good until then.
    pub end: UnixTime,
    /// The key of the client that has asked for it.
    pub source: Fingerprint,
    /// The key of the host that may show it.
    pub holder: Fingerprint,
}

/// The list. The server that makes the tokens writes it anew each time, without expired tokens. Its lines are
/// `delegated NAME RIGHTS PATH END SOURCE HOLDER`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DelegatedList {
    tokens: Vec<Delegated>,
}

/// The list cannot be used, or takes no more.
#[derive(Debug, thiserror::Error)]
pub enum DelegatedError {
    /// The file cannot be read or written.
    #[error("the list of delegated tokens cannot be used: {0}{elsewhere}", elsewhere = files::elsewhere(.0))]
    File(#[from] FileError),
    /// A line is malformed.
    #[error("line {0} of the list of delegated tokens makes no sense: mend it or take it out")]
    Line(usize),
    /// There are too many.
    #[error("{0} tokens that were asked for are good, and no more may be: try again when some have ended")]
    Full(usize),
}

impl DelegatedList {
    /// Reads a file; a missing file counts as empty.
    ///
    /// # Errors
    /// When it cannot be read, or a line makes no sense.
    pub fn load(path: &Path) -> Result<Self, DelegatedError> {
        Self::parse(&files::read(path, FILE_BYTES_MAX, Others::Read)?.unwrap_or_default())
    }

    /// Reads the text of such a file.
    ///
    /// # Errors
    /// When a line makes no sense.
    pub fn parse(text: &str) -> Result<Self, DelegatedError> {
        let token = |(number, line)| parse_line(line).ok_or(DelegatedError::Line(number));
        Ok(Self { tokens: lines(text).map(token).collect::<Result<_, _>>()? })
    }

    /// Replaces the file.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn save(&self, path: &Path) -> Result<(), DelegatedError> {
        let line = |token: &Delegated| {
            let Delegated { id, grant, end, source, holder } = token;
            let (rights, scope) = (grant.rights, grant.scope.to_word());
            format!("delegated {id} {rights} {scope} {} {source} {holder}\n", end.seconds())
        };
        Ok(files::replace(path, &self.tokens.iter().map(line).collect::<String>())?)
    }

    /// The tokens that have not ended at `now`.
    pub fn good(&self, now: UnixTime) -> impl Iterator<Item = &Delegated> {
        self.tokens.iter().filter(move |token| token.end > now)
    }

    /// Whether it is in the list.
    pub fn knows(&self, id: TokenId) -> bool {
        self.tokens.iter().any(|token| token.id == id)
    }

    /// Adds a token, and removes expired ones.
    ///
    /// # Errors
    /// If this client, or all clients together, have the maximum number of valid tokens.
    pub fn add(&mut self, token: Delegated, now: UnixTime) -> Result<(), DelegatedError> {
        self.tokens.retain(|other| other.end > now);
        let of_one = self.tokens.iter().filter(|other| other.source == token.source).count();
        if of_one >= OF_ONE_MAX || self.tokens.len() >= ALL_MAX {
            return Err(DelegatedError::Full(of_one));
        }
        self.tokens.push(token);
        Ok(())
    }
}

fn parse_line(line: &str) -> Option<Delegated> {
    let mut words = line.split_whitespace();
    if words.next()? != "delegated" {
        return None;
    }
    let id = words.next()?.parse().ok()?;
    let grant = Grant { rights: words.next()?.parse().ok()?, scope: Scope::from_word(words.next()?)? };
    let end = UnixTime::from_seconds(words.next()?.parse().ok()?);
    let (source, holder) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    words.next().is_none().then_some(Delegated { id, grant, end, source, holder })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rights::{Right, Rights};

    fn token(source: &[u8], end: u64) -> Delegated {
        let grant = Grant { rights: Rights::only(Right::Read), scope: Scope::new("/a b").unwrap() };
        let (source, holder) = (Fingerprint::of(source), Fingerprint::of(b"dtn2"));
        Delegated { id: TokenId::random().unwrap(), grant, end: UnixTime::from_seconds(end), source, holder }
    }

    #[test]
    fn list_is_bounded_for_one_and_for_all_and_forgets_what_has_ended() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("delegated");
        let mut list = DelegatedList::load(&path).unwrap();
        let at = UnixTime::from_seconds;
        for _ in 0..OF_ONE_MAX {
            list.add(token(b"alice", 100), at(1)).unwrap();
        }
        assert!(matches!(list.add(token(b"alice", 100), at(99)), Err(DelegatedError::Full(OF_ONE_MAX))));
        list.add(token(b"bob", 200), at(99)).unwrap();
        list.save(&path).unwrap();
        assert_eq!(DelegatedList::load(&path).unwrap(), list);
        let last = token(b"alice", 300);
        list.add(last.clone(), at(100)).unwrap();
        assert_eq!(
            list.good(at(100)).map(|token| token.source).collect::<Vec<_>>(),
            [b"bob", &b"alice"[..]].map(Fingerprint::of)
        );
        assert_eq!(list.good(at(200)).collect::<Vec<_>>(), [&last]);
        assert!(list.knows(last.id));
        for number in 0..ALL_MAX - 2 {
            list.add(token(number.to_string().as_bytes(), 400), at(100)).unwrap();
        }
        assert!(matches!(list.add(token(b"carol", 400), at(100)), Err(DelegatedError::Full(0))));
    }

    #[test]
    fn a_line_that_makes_no_sense_is_an_error() {
        for line in ["nonsense", "delegated 0101010101010101 read / 5", "made 0101010101010101 read / 5"] {
            assert!(matches!(DelegatedList::parse(line), Err(DelegatedError::Line(1))), "{line}");
        }
    }
}
