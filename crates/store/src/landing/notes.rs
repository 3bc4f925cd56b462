//! Metadata and links that could not be kept, for a warning.

use std::collections::BTreeMap;

use rustix::io::Errno;

use crate::printable;

/// A property that could not be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Aspect {
    Owner,
    Permissions,
    Time,
    Attribute,
    /// A symbolic link that was left out.
    SymbolicLink,
    /// A hard link that became a copy.
    HardLink,
}

/// A property that could not be kept, the first file that lacks it, and the number of such files.
#[derive(Debug, Default)]
pub(super) struct Notes(BTreeMap<Aspect, Note>);

#[derive(Debug)]
struct Note {
    first: Vec<u8>,
    errno: Errno,
    count: u64,
}

impl Notes {
    pub(super) fn add(&mut self, aspect: Aspect, path: &[u8], errno: Errno) {
        let note = self.0.entry(aspect).or_insert_with(|| Note { first: path.to_vec(), errno, count: 0 });
        note.count += 1;
    }

    /// All notes, in words.
    pub(super) fn take(&mut self) -> Vec<String> {
        let notes = std::mem::take(&mut self.0);
        notes.into_iter().map(|(aspect, note)| note.in_words(aspect)).collect()
    }
}

impl Note {
    fn in_words(&self, aspect: Aspect) -> String {
        let others = if self.count > 1 { format!(" and {} more", self.count - 1) } else { String::new() };
        let first = if self.first.is_empty() { ".".to_owned() } else { printable(&self.first) };
        let reason = std::io::Error::from(self.errno);
        let kept = |what: &str| format!("{what} of '{first}'{others} could not be kept: {reason}");
        match aspect {
            Aspect::Owner => kept("the owner"),
            Aspect::Permissions => kept("the permissions"),
            Aspect::Time => kept("the time"),
            Aspect::Attribute => kept("an extended attribute"),
            Aspect::SymbolicLink => format!(
                "the symbolic link '{first}'{others} was left out: the destination's file system does not make it ({reason})"
            ),
            Aspect::HardLink => format!(
                "'{first}'{others} became a copy: the destination's file system does not make this further name of a file ({reason})"
            ),
        }
    }
}
