//! Command lines that are suggested: words that the parser takes, and their text as a shell reads it. Every hint that is
//! a command is made here.

use std::ffi::OsString;
use std::fmt;

use inhaul_identity::{Fingerprint, Grant, Right};
use inhaul_mover::{MoveError, Server, Source};

use crate::options;

/// Options of the user's command that say whom to trust and how to reach it, and whether they have a value. A command
/// that asks the same server needs them, too.
const CARRIED: [(&str, bool); 6] = [
    ("--token-file", true),
    ("--ca", true),
    ("--proxy", true),
    ("--config", true),
    ("--accept-new", false),
    ("--plaintext", false),
];

/// A command line. Its text can be pasted into a shell. It may contain a ticket that the user has written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hint {
    words: Vec<String>,
}

/// Actions that a user may take after an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// List a server's files, beneath the path that is known to be allowed.
    List { server: Server, path: String },
    /// Trust the key of a server, once it is known to be right.
    Trust { server: Server, key: Fingerprint },
}

impl Hint {
    /// These words; the first is the program.
    pub(crate) fn new(words: Vec<String>) -> Self {
        Self { words }
    }

    #[cfg(test)]
    pub(crate) fn words(&self) -> &[String] {
        &self.words
    }
}

impl fmt::Display for Hint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quoted: Vec<String> = self.words.iter().map(|word| quoted(word)).collect();
        f.write_str(&quoted.join(" "))
    }
}

/// As one word of a shell's command line. Words without special characters stay unquoted, for easier reading.
pub(crate) fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:,=%@+".contains(c);
    if !word.is_empty() && !word.starts_with('=') && word.chars().all(is_plain) {
        return word.to_owned();
    }
    shlex::try_quote(word).map_or_else(|_| word.to_owned(), std::borrow::Cow::into_owned)
}

impl Next {
    /// The action to take after this error.
    pub(crate) fn after(error: &MoveError) -> Option<Self> {
        match error {
            // Only an inhaul server has a list.
            MoveError::PathNotFound { server, .. } if server.url.is_some() => None,
            MoveError::PathNotFound { server, .. } => {
                // A token may give rights on a part only.
                let grant = server.ticket.token.as_ref().map(|token| token.claims().grant);
                let scope = match grant {
                    None => String::new(),
                    Some(Some(Grant { rights, scope })) if rights.has(Right::Read) => scope.to_string(),
                    Some(_) => return None,
                };
                let bare = Server::new(server.host.clone(), server.port);
                Some(Self::List { server: bare, path: scope.trim_matches('/').to_owned() })
            }
            MoveError::ServerKeyUnknown { server, key } => Some(Self::Trust { server: server.clone(), key: *key }),
            _ => None,
        }
    }

    /// The command for it, for a user who wrote `arguments`: with the ticket written there, not one from a file.
    pub(crate) fn hint(&self, arguments: &[OsString]) -> Option<Hint> {
        let given: Vec<&str> = arguments.iter().map(|word| word.to_str()).collect::<Option<_>>()?;
        let mut words = vec!["inhaul".to_owned()];
        match self {
            Self::List { server, path } => {
                // The path of a put is not among the offered files.
                if !given.iter().any(|word| matches!(*word, "get" | "plan" | "ls" | "copy")) {
                    return None;
                }
                let sources = given.iter().skip(2).filter_map(|word| options::source(word).ok());
                let mut servers = sources.flat_map(|source| source.mirrors);
                let ticket = servers.find(|other| other == server).map(|other| other.ticket).unwrap_or_default();
                let server = Server { ticket, ..server.clone() };
                words.push("ls".to_owned());
                words.push(Source { mirrors: vec![server], path: path.clone() }.to_secret_text());
                words.extend(carried(&given));
            }
            Self::Trust { server, key } => {
                words.extend(["key", "trust"].map(str::to_owned));
                words.push(server.to_string());
                words.extend(key.argument().split(' ').map(str::to_owned));
            }
        }
        Some(Hint::new(words))
    }
}

/// The options of the line that the next command needs, too.
fn carried(given: &[&str]) -> Vec<String> {
    let mut words = Vec::new();
    let mut rest = given.iter();
    while let Some(word) = rest.next() {
        for (option, has_value) in CARRIED {
            let value = word.strip_prefix(option).and_then(|value| value.strip_prefix('='));
            match value {
                // Standard input has been read.
                _ if value == Some("-") => {}
                Some(value) if has_value => words.push(format!("{option}={value}")),
                None if *word == option && !has_value => words.push(option.to_owned()),
                None if *word == option => words.extend(rest.next().map(|value| format!("{option}={value}"))),
                _ => {}
            }
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Cli;
    use clap::Parser;

    fn hint(line: &str, error: &MoveError) -> Option<String> {
        let arguments: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let hint = Next::after(error)?.hint(&arguments)?;
        Cli::try_parse_from(hint.words()).unwrap_or_else(|error| panic!("{hint}: {error}"));
        Some(hint.to_string())
    }

    #[test]
    fn what_is_listed_next_has_the_ticket_and_what_else_it_takes() {
        let ticket = Fingerprint::of(b"a").to_string();
        let missing = |server: &str| {
            let server: Server = server.parse().unwrap();
            MoveError::PathNotFound { server, detail: "there is no '/x'".to_owned() }
        };
        for (line, server, expected) in [
            ("inhaul get inhaul://a:5/x#T out", "a:5", Some("inhaul ls 'inhaul://a:5/#T'")),
            ("inhaul ls a:5/x#T --ca f", "a:5", Some("inhaul ls 'inhaul://a:5/#T' --ca=f")),
            (
                "inhaul get b,[::1]/x#,T . --token-file=t -q",
                "[::1]",
                Some("inhaul ls 'inhaul://[::1]:4321/#T' --token-file=t"),
            ),
            ("inhaul plan --input-file l . --accept-new", "a:5", Some("inhaul ls inhaul://a:5/ --accept-new")),
            ("inhaul put f inhaul://a:5/x#T", "a:5", None),
        ] {
            let expected = expected.map(|text| text.replace('T', &ticket));
            assert_eq!(hint(&line.replace('T', &ticket), &missing(server)), expected, "{line}");
        }
        let key = Fingerprint::of(b"k");
        let unknown = MoveError::ServerKeyUnknown { server: "[::1]:5".parse().unwrap(), key };
        assert_eq!(hint("inhaul ls [::1]:5", &unknown).unwrap(), format!("inhaul key trust '[::1]:5' {key}"));
        // One in 64 begins with a hyphen, and may look like an option.
        let key: Fingerprint = format!("-h{}A", "x".repeat(40)).parse().unwrap();
        let unknown = MoveError::ServerKeyUnknown { server: "a:5".parse().unwrap(), key };
        let line = hint("inhaul ls a:5", &unknown).unwrap();
        assert_eq!(line, format!("inhaul key trust a:5 -- {key}"));
        assert!(Cli::try_parse_from(line.split(' ')).is_ok(), "{line}");
        // What looks like no option needs nothing before it.
        let typed = format!("inhaul key trust a:5 -3{}A", "x".repeat(40));
        assert!(Cli::try_parse_from(typed.split(' ')).is_ok(), "{typed}");
    }

    #[test]
    fn a_token_that_came_from_a_file_is_not_shown_and_says_where_to_look() {
        let grant = Grant {
            rights: inhaul_identity::Rights::only(Right::Read),
            scope: inhaul_identity::Scope::new("/run 7").unwrap(),
        };
        let token =
            inhaul_identity::Token::make(&[1; 32], Default::default(), grant, inhaul_identity::UnixTime::MAX, None);
        let mut server = Server::new("a", 5);
        server.ticket = inhaul_identity::Ticket { fingerprint: None, token: Some(token) }.into();
        let error = MoveError::PathNotFound { server, detail: String::new() };
        let found = hint("inhaul get inhaul://a:5/x . --token-file f", &error).unwrap();
        assert_eq!(found, "inhaul ls 'inhaul://a:5/run 7' --token-file=f");
    }
}
