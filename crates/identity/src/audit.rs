//! The audit log: who was let in, who was not, what was moved, and which keys have changed. A file of JSON, a line for
//! each event, in which nothing is ever changed.

use std::io;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use serde::Serialize;

use crate::date::UnixTime;
use crate::files::{self, FileError};

/// When the file is longer than this, it becomes `NAME.1`, and a new one begins: together they have twice as much.
const FILE_BYTES_MAX: u64 = 64 << 20;
/// Strangers can cause refusals. Of more than so many in ...
const REFUSALS_MAX: u32 = 100;
/// ... so many seconds, only the number is written.
const REFUSALS_SECONDS: u64 = 10;

/// Something that has happened.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Event<'e> {
    /// A server has started.
    Started {
        /// The fingerprint of its key.
        key: String,
        /// What everybody may do, if anything.
        public: String,
    },
    /// A client may do what it asked for.
    Granted(Access<'e>),
    /// A client may not.
    Refused {
        /// What it asked for.
        #[serde(flatten)]
        access: Access<'e>,
        /// Why not.
        reason: &'e str,
    },
    /// The right of an open session has ended, and the session with it.
    Ended {
        /// What it was for.
        #[serde(flatten)]
        access: Access<'e>,
        /// Why.
        reason: &'e str,
    },
    /// Refusals that were not written down because there were too many at a time.
    MoreRefused {
        /// How many.
        count: u64,
    },
    /// Nothing came of a connection before it was known what the client wants.
    NoSession {
        /// The client's address.
        client: &'e str,
        /// Why.
        reason: &'e str,
    },
    /// A session has ended in which data was sent or received: the server's access log.
    Moved {
        /// Who it was, and what it has moved.
        #[serde(flatten)]
        access: Access<'e>,
        /// Bytes, also those that went twice.
        bytes: u64,
        /// How long it took.
        seconds: f64,
        /// How it ended.
        outcome: &'e str,
    },
    /// A key was made, is trusted from now on, or was forgotten.
    Key {
        /// `made`, `trusted`, `forgotten` or `changed`.
        what: &'e str,
        /// Whose.
        of: &'e str,
        /// Its fingerprint.
        key: String,
    },
    /// A token was made or revoked.
    Token {
        /// `made` or `revoked`.
        what: &'e str,
        /// Its name.
        token: String,
        /// What it gives.
        #[serde(skip_serializing_if = "String::is_empty")]
        gives: String,
    },
}

/// What a client wants to do.
#[derive(Clone, Debug, Serialize)]
pub struct Access<'e> {
    /// Its address.
    pub client: &'e str,
    /// The fingerprint of its key, if it has shown one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The name of its token, if it has shown one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// The right.
    pub right: &'e str,
    /// The path.
    pub path: &'e str,
}

#[derive(Serialize)]
struct Line<'e> {
    time: UnixTime,
    #[serde(flatten)]
    event: &'e Event<'e>,
}

/// The file. Several processes may write to it. It is opened for each line, so it may be moved away at any time.
#[derive(Debug)]
pub struct Log {
    path: PathBuf,
    refusals: Mutex<Refusals>,
}

#[derive(Debug, Default)]
struct Refusals {
    since: UnixTime,
    written: u32,
    left_out: u64,
}

impl Log {
    /// The log at this path.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), refusals: Mutex::default() }
    }

    /// Writes down what has happened at `now`; false if it was left out, because there was too much of its kind.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write(&self, now: UnixTime, event: &Event<'_>) -> Result<bool, FileError> {
        if matches!(event, Event::Refused { .. } | Event::NoSession { .. }) {
            let mut refusals = self.refusals.lock().unwrap_or_else(PoisonError::into_inner);
            let left_out = refusals.begin_anew(now);
            if left_out > 0 {
                self.append(now, &Event::MoreRefused { count: left_out })?;
            }
            if !refusals.may_write() {
                return Ok(false);
            }
        }
        self.append(now, event).map(|()| true)
    }

    fn append(&self, now: UnixTime, event: &Event<'_>) -> Result<(), FileError> {
        let json = serde_json::to_string(&Line { time: now, event });
        let line = json.map_err(|error| files::failed(&self.path)(io::Error::other(error)))?;
        if std::fs::metadata(&self.path).is_ok_and(|file| file.len() > FILE_BYTES_MAX) {
            let mut old = self.path.clone().into_os_string();
            old.push(".1");
            // Another process may have done so just now.
            let _ = std::fs::rename(&self.path, old);
        }
        files::append(&self.path, &line)
    }
}

impl Refusals {
    /// Another time begins, if it does; how many refusals were left out in the last one.
    fn begin_anew(&mut self, now: UnixTime) -> u64 {
        if now.seconds().abs_diff(self.since.seconds()) < REFUSALS_SECONDS {
            return 0;
        }
        let left_out = self.left_out;
        *self = Self { since: now, ..Self::default() };
        left_out
    }

    fn may_write(&mut self) -> bool {
        let may = self.written < REFUSALS_MAX;
        self.written += u32::from(may);
        self.left_out += u64::from(!may);
        may
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(reason: &str) -> Event<'_> {
        let access = Access { client: "192.0.2.1:5", key: None, token: None, right: "read", path: "/\n\"x" };
        Event::Refused { access, reason }
    }

    #[test]
    fn lines_are_json_and_hold_whatever_peers_say() {
        let dir = tempfile::tempdir().unwrap();
        let log = Log::at(dir.path().join("audit.log"));
        log.write(UnixTime::from_seconds(0), &refused("no right")).unwrap();
        let text = std::fs::read_to_string(&log.path).unwrap();
        let value: serde_json::Value = serde_json::from_str(text.trim_end()).unwrap();
        assert_eq!(value["event"], "refused");
        assert_eq!((&value["time"], &value["path"]), (&"1970-01-01T00:00:00Z".into(), &"/\n\"x".into()));
        assert_eq!(text.lines().count(), 1);
    }

    #[test]
    fn refusals_are_many_and_their_lines_are_few() {
        let dir = tempfile::tempdir().unwrap();
        let log = Log::at(dir.path().join("audit.log"));
        for n in 0..10_000 {
            log.write(UnixTime::from_seconds(100 + n / 5000), &refused("no")).unwrap();
        }
        log.write(UnixTime::from_seconds(200), &refused("no")).unwrap();
        let text = std::fs::read_to_string(&log.path).unwrap();
        assert_eq!(text.lines().count(), 102);
        assert!(text.contains("\"count\":9900"), "{}", text.lines().last().unwrap());
    }
}
