//! The audit log: clients let in and refused, data moved, and changed keys. A file of JSON with a line for each event;
//! lines are only added.

mod field;
mod shares;

use std::io;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use serde::Serialize;

use crate::date::UnixTime;
use crate::files::{self, FileError};
use crate::rights::{Right, Rights};

use shares::{Shares, Written};

/// When the file is longer than this, it becomes `NAME.1`, and a new one begins: together they have twice as much.
const FILE_BYTES_MAX: u64 = 64 << 20;
/// Strangers can cause refusals. At most this many in 10 seconds ...
const REFUSALS_MAX: u64 = 100;
/// ... and this many bytes are written; further ones are only counted.
const REFUSALS_BYTES_MAX: u64 = 64 << 10;
/// The same for a day: strangers need more than two weeks to push other lines out of the files.
const DAY_REFUSALS_MAX: u64 = u64::MAX;
const DAY_BYTES_MAX: u64 = 8 << 20;
/// Those times.
const REFUSALS_SECONDS: u64 = 10;
const DAY_SECONDS: u64 = shares::DAY_SECONDS;

/// A token that a client has asked for.
const DELEGATED: &str = "delegated";
/// The holder of the common share of all clients without a right of their own.
const EVERYBODY: &str = "everybody";

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
    /// A client has got the right that it asked for.
    Granted(Access<'e>),
    /// A client may not.
    Refused {
        /// The requested right.
        #[serde(flatten)]
        access: Access<'e>,
        /// Why not.
        #[serde(serialize_with = "field::bounded")]
        reason: &'e str,
    },
    /// The right of an open session has ended, and the session with it.
    Ended {
        /// Its purpose.
        #[serde(flatten)]
        access: Access<'e>,
        /// Why.
        #[serde(serialize_with = "field::bounded")]
        reason: &'e str,
    },
    /// Refusals that were not written down because there were too many at a time.
    MoreRefused {
        /// How many.
        count: u64,
    },
    /// A client, or all clients of public rights together, has used up the lines of a day: no more are written until
    /// its end.
    ShareUsed {
        /// Whose share it is: the name of a token, the fingerprint of a key, or `everybody`.
        of: &'e str,
    },
    /// A connection ended before its request was known.
    NoSession {
        /// The client's address.
        #[serde(serialize_with = "field::bounded")]
        client: &'e str,
        /// Why.
        #[serde(serialize_with = "field::bounded")]
        reason: &'e str,
    },
    /// A session has ended in which data was sent or received: the server's access log.
    Moved {
        /// The client, and the moved data.
        #[serde(flatten)]
        access: Access<'e>,
        /// Bytes, including retransmitted ones.
        bytes: u64,
        /// How long it took.
        seconds: f64,
        /// How it ended.
        #[serde(serialize_with = "field::bounded")]
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
    /// A token was made or revoked, or a client has asked for it.
    Token {
        /// `made`, `revoked` or `delegated`.
        what: &'e str,
        /// Its name.
        token: String,
        /// Its rights.
        #[serde(skip_serializing_if = "String::is_empty", serialize_with = "field::bounded")]
        gives: String,
    },
}

/// The action of a client.
#[derive(Clone, Debug, Serialize)]
pub struct Access<'e> {
    /// Its address.
    #[serde(serialize_with = "field::bounded")]
    pub client: &'e str,
    /// The fingerprint of its key, if it has shown one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The name of its token, if it has shown one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// The right.
    #[serde(serialize_with = "field::bounded")]
    pub right: &'e str,
    /// The path.
    #[serde(serialize_with = "field::bounded")]
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
    /// What everybody may do.
    public: Rights,
    refusals: Mutex<Refusals>,
    shares: Mutex<Shares>,
}

#[derive(Debug, Default)]
struct Refusals {
    lately: Written,
    day: Written,
    left_out: u64,
}

impl Log {
    /// The log at this path.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), public: Rights::NONE, refusals: Mutex::default(), shares: Mutex::default() }
    }

    /// The log of a server at which everybody may do this: all who do it are as one client.
    pub fn of_public(self, public: Rights) -> Self {
        Self { public, ..self }
    }

    /// Logs an event of the time `now`; false if it was left out because there were too many of its kind.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write(&self, now: UnixTime, event: &Event<'_>) -> Result<bool, FileError> {
        let line = self.line(now, event)?;
        if matches!(event, Event::Refused { .. } | Event::NoSession { .. }) {
            let mut refusals = self.refusals.lock().unwrap_or_else(PoisonError::into_inner);
            let left_out = refusals.begin_anew(now);
            if left_out > 0 {
                self.append(&self.line(now, &Event::MoreRefused { count: left_out })?)?;
            }
            if !refusals.may_write(line.len() as u64) {
                return Ok(false);
            }
        } else if let Some(whose) = event.whose(self.public) {
            let mut shares = self.shares.lock().unwrap_or_else(PoisonError::into_inner);
            let share = shares.of(&whose, now);
            // With the end of the line.
            if !share.take(line.len() as u64 + 1) {
                if share.is_news() {
                    self.append(&self.line(now, &Event::ShareUsed { of: &whose })?)?;
                }
                return Ok(false);
            }
        }
        self.append(&line).map(|()| true)
    }

    fn line(&self, now: UnixTime, event: &Event<'_>) -> Result<String, FileError> {
        let json = serde_json::to_string(&Line { time: now, event });
        json.map_err(|error| files::failed(&self.path)(io::Error::other(error)))
    }

    fn append(&self, line: &str) -> Result<(), FileError> {
        if std::fs::metadata(&self.path).is_ok_and(|file| file.len() > FILE_BYTES_MAX) {
            let mut old = self.path.clone().into_os_string();
            old.push(".1");
            // Another process may have done so just now.
            let _ = std::fs::rename(&self.path, old);
        }
        files::append(&self.path, line)
    }
}

impl Refusals {
    /// Another time begins, if it does; how many refusals were left out in the last one.
    fn begin_anew(&mut self, now: UnixTime) -> u64 {
        self.day.begin_anew(now, DAY_SECONDS);
        if self.lately.begin_anew(now, REFUSALS_SECONDS) { std::mem::take(&mut self.left_out) } else { 0 }
    }

    fn may_write(&mut self, bytes: u64) -> bool {
        let may = self.lately.has_room(bytes, REFUSALS_MAX, REFUSALS_BYTES_MAX)
            && self.day.has_room(bytes, DAY_REFUSALS_MAX, DAY_BYTES_MAX);
        if may {
            self.lately.count(bytes);
            self.day.count(bytes);
        } else {
            self.left_out += 1;
        }
        may
    }
}

impl Event<'_> {
    /// The client whose share of the log it counts against. `None`: peers cannot cause it, or it is a refusal.
    fn whose(&self, public: Rights) -> Option<String> {
        match self {
            Event::Granted(access) | Event::Ended { access, .. } | Event::Moved { access, .. } => {
                Some(access.whose(public))
            }
            Event::Token { what: DELEGATED, token, .. } => Some(token.clone()),
            _ => None,
        }
    }
}

impl Access<'_> {
    /// The token, or else the key, unless everybody may do that. An action without a path is allowed to everybody who
    /// has any right.
    fn whose(&self, public: Rights) -> String {
        let right = Right::ALL.into_iter().find(|right| right.name() == self.right);
        let is_public = right.map_or(!public.is_none(), |right| public.has(right));
        let named = self.token.as_ref().or(self.key.as_ref()).filter(|_| !is_public);
        named.map_or_else(|| EVERYBODY.to_owned(), String::clone)
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
    fn lines_are_json_and_hold_any_text_of_peers() {
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

    #[test]
    fn lines_are_short_for_any_text_of_peers_and_refusals_are_few_bytes() {
        let dir = tempfile::tempdir().unwrap();
        let log = Log::at(dir.path().join("audit.log"));
        // Each takes six bytes in JSON.
        let long = "\u{1}".repeat(1_000_000);
        let access = |path| Access { client: "192.0.2.1:5", key: None, token: None, right: "write", path };
        for _ in 0..100 {
            log.write(UnixTime::from_seconds(100), &Event::Refused { access: access(&long), reason: &long }).unwrap();
        }
        log.write(UnixTime::from_seconds(100), &Event::Granted(access(&long))).unwrap();
        let gives = format!("read {long}");
        log.write(UnixTime::from_seconds(100), &Event::Token { what: "made", token: "a".into(), gives }).unwrap();
        let text = std::fs::read_to_string(&log.path).unwrap();
        let longest = text.lines().map(str::len).max().unwrap();
        assert!(longest < 10_000, "{longest}");
        assert!(text.len() as u64 <= REFUSALS_BYTES_MAX + 20_000, "{}", text.len());
        let granted: serde_json::Value = text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .find(|line: &serde_json::Value| line["event"] == "granted")
            .unwrap();
        assert!(granted["path"].as_str().unwrap().ends_with("... (1000000 bytes)"), "{granted}");
    }

    #[test]
    fn strangers_push_nothing_out_within_a_day() {
        let dir = tempfile::tempdir().unwrap();
        let log = Log::at(dir.path().join("audit.log"));
        let long = "x".repeat(3000);
        // Every 10 seconds of more than an hour, more than that time allows.
        for n in 0..400 {
            for _ in 0..22 {
                log.write(UnixTime::from_seconds(DAY_SECONDS + n * 10), &refused(&long)).unwrap();
            }
        }
        let bytes = std::fs::metadata(&log.path).unwrap().len();
        // Omitted lines are counted, in a short line for each 10 seconds.
        assert!((DAY_BYTES_MAX - 10_000..DAY_BYTES_MAX + 400 * 100).contains(&bytes), "{bytes}");
    }

    #[test]
    fn a_client_pushes_nothing_out_and_neither_does_everybody() {
        let dir = tempfile::tempdir().unwrap();
        let log = Log::at(dir.path().join("audit.log")).of_public(Rights::only(Right::Read));
        let long = "x".repeat(4000);
        let at = UnixTime::from_seconds(DAY_SECONDS);
        let granted = |n: u32, token: &str, right| {
            let (key, token) = (Some(format!("key{n}")), (!token.is_empty()).then(|| token.to_owned()));
            log.write(at, &Event::Granted(Access { client: "192.0.2.1:5", key, token, right, path: &long })).unwrap()
        };
        let bytes = || std::fs::metadata(&log.path).unwrap().len();
        // Each comes with another key, and requests a public path.
        let by_all = (0..10_000)
            .filter(|n| granted(*n, if n % 2 == 0 { "t" } else { "" }, ["read", "probe"][*n as usize % 2]))
            .count();
        assert!(bytes() <= shares::DAY_BYTES_MAX + 200, "{}", bytes());
        assert!(by_all > 5000, "{by_all}");
        let before = bytes();
        let by_token = (0..10_000).filter(|n| granted(*n, "t", "write")).count();
        assert!(by_token.abs_diff(by_all) < 100, "{by_token}");
        assert!(bytes() - before <= shares::DAY_BYTES_MAX + 200);
        // Others have theirs, and so has what peers cannot cause.
        assert!(granted(1, "", "write"));
        assert!(log.write(at, &Event::Token { what: "made", token: "t".into(), gives: String::new() }).unwrap());
        assert!(!log.write(at, &Event::Token { what: "delegated", token: "t".into(), gives: String::new() }).unwrap());
        let text = std::fs::read_to_string(&log.path).unwrap();
        let used: Vec<&str> = text.lines().filter(|line| line.contains("share-used")).collect();
        assert_eq!(used.len(), 2, "{used:?}");
        assert!(used[0].contains("\"of\":\"everybody\"") && used[1].contains("\"of\":\"t\""), "{used:?}");
        // The next day has its own.
        let tomorrow = UnixTime::from_seconds(2 * DAY_SECONDS);
        assert!(
            log.write(tomorrow, &Event::Token { what: "delegated", token: "t".into(), gives: String::new() }).unwrap()
        );
    }
}
