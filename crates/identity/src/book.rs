//! The tokens that a server has made, and the revoked ones. It contains no secret.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::date::UnixTime;
use crate::files::{self, FileError, Others, lines};
use crate::rights::{Grant, Rights, Scope};
use crate::token::TokenId;

/// Longest file, in bytes: some 400,000 tokens.
const FILE_BYTES_MAX: u64 = 32 << 20;

/// A token that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Made {
    /// Its rights.
    pub grant: Grant,
    /// It is good until then.
    pub end: UnixTime,
    /// Its maker's comment.
    pub label: String,
}

/// The content of the file. Its lines are `made NAME RIGHTS PATH END [LABEL]` and `revoked NAME`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Book {
    made: BTreeMap<TokenId, Made>,
    revoked: BTreeSet<TokenId>,
}

/// The file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BookError {
    /// It cannot be read or written.
    #[error("the list of tokens cannot be used: {0}{elsewhere}", elsewhere = files::elsewhere(.0))]
    File(#[from] FileError),
    /// A line is malformed. It may be the line that revokes a token, so it must not be skipped.
    #[error("line {0} of the list of tokens makes no sense: mend it or take it out")]
    Line(usize),
}

impl Book {
    /// Reads a file; a missing file counts as empty.
    ///
    /// # Errors
    /// When it cannot be read, or a line makes no sense.
    pub fn load(path: &Path) -> Result<Self, BookError> {
        Self::parse(&files::read(path, FILE_BYTES_MAX, Others::Read)?.unwrap_or_default())
    }

    /// Reads the text of such a file.
    ///
    /// # Errors
    /// When a line makes no sense.
    pub fn parse(text: &str) -> Result<Self, BookError> {
        let mut book = Self::default();
        for (number, line) in lines(text) {
            book.take(line).ok_or(BookError::Line(number))?;
        }
        Ok(book)
    }

    fn take(&mut self, line: &str) -> Option<()> {
        let mut words = line.split_whitespace();
        match (words.next()?, words.next()?.parse().ok()?) {
            ("revoked", id) => _ = self.revoked.insert(id),
            ("made", id) => {
                let rights: Rights = words.next()?.parse().ok()?;
                let scope = Scope::from_word(words.next()?)?;
                let end = UnixTime::from_seconds(words.next()?.parse().ok()?);
                let label = words.collect::<Vec<_>>().join(" ");
                self.made.insert(id, Made { grant: Grant { rights, scope }, end, label });
            }
            _ => return None,
        }
        Some(())
    }

    /// The tokens that were made and are good at `now`.
    pub fn good(&self, now: UnixTime) -> impl Iterator<Item = (TokenId, &Made)> {
        let is_good = move |(id, made): &(&TokenId, &Made)| made.end > now && !self.revoked.contains(id);
        self.made.iter().filter(is_good).map(|(id, made)| (*id, made))
    }

    /// Whether a token is taken no more.
    pub fn is_revoked(&self, id: TokenId) -> bool {
        self.revoked.contains(&id)
    }

    /// Whether it was made here, by this file.
    pub fn knows(&self, id: TokenId) -> bool {
        self.made.contains_key(&id)
    }

    /// Writes down that a token was made.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn add(path: &Path, id: TokenId, made: &Made) -> Result<(), BookError> {
        let Made { grant, end, label } = made;
        let label: Vec<&str> = label.split_whitespace().collect();
        let line = format!(
            "made {id} {} {} {} {}",
            grant.rights,
            grant.scope.to_word(),
            end.seconds(),
            label.join(" ").replace(|c: char| c.is_control(), "")
        );
        Ok(files::append(path, line.trim_end())?)
    }

    /// Revokes a token. One whose record is lost can be revoked as well.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn revoke(path: &Path, id: TokenId) -> Result<(), BookError> {
        Ok(files::append(path, &format!("revoked {id}"))?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rights::Right;

    #[test]
    fn tokens_are_good_until_their_end_or_until_they_are_revoked() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("tokens");
        let ids: Vec<TokenId> = (0..3).map(|_| TokenId::random().unwrap()).collect();
        let made = |end| Made {
            grant: Grant { rights: Rights::only(Right::Read), scope: Scope::new("/a b").unwrap() },
            end: UnixTime::from_seconds(end),
            label: "for Ann\nand Bob".to_owned(),
        };
        for (id, end) in ids.iter().zip([100, 200, 300]) {
            Book::add(&path, *id, &made(end)).unwrap();
        }
        Book::revoke(&path, ids[1]).unwrap();
        let book = Book::load(&path).unwrap();
        let good: Vec<_> = book.good(UnixTime::from_seconds(100)).collect();
        assert_eq!(good, [(ids[2], &Made { label: "for Ann and Bob".to_owned(), ..made(300) })]);
        assert!(book.is_revoked(ids[1]) && !book.is_revoked(ids[0]) && book.knows(ids[0]));
    }

    #[test]
    fn a_line_that_makes_no_sense_is_an_error() {
        for line in ["revoke 0101010101010101", "revoked", "made 0101010101010101 read", "nonsense"] {
            assert!(matches!(Book::parse(line), Err(BookError::Line(1))), "{line}");
        }
    }
}
