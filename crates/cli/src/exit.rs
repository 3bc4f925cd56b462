//! Exit codes: one for each cause that a script may want to tell apart.

use std::process::ExitCode;

use inhaul_identity::{KeyError, KnownHostsError};
use inhaul_mover::{ErrorKind, ErrorReport, MoveError, printable, without_secrets, without_tickets};
use serde::Serialize;

use crate::hint::{Hint, Next};
use crate::logs::is_journal;
use crate::output::{self, announce, say, to_json};
use crate::terminal::by_words;
use crate::wrong::Wrong;

/// All data has come and is verified.
pub(crate) const COMPLETE: u8 = 0;

/// `lab`: a check failed, or a run is not valid. `doctor`: something is broken.
pub(crate) const CHECK_FAILED: u8 = 12;

/// `link`: this machine was too slow for the emulation.
pub(crate) const RUN_INVALID: u8 = 13;

/// `link run`: a command in a host failed.
pub(crate) const COMMAND_FAILED: u8 = 14;

/// `link`, `lab kernel-cc`: this user or this host does not permit it.
pub(crate) const FORBIDDEN: u8 = 15;

/// Why the program does not end with 0.
#[derive(Debug)]
pub(crate) struct Failure {
    code: u8,
    /// The message for standard error; `None` if it was printed already.
    message: Option<String>,
    /// Where to read more, for people.
    hint: Option<String>,
    /// A command that may help.
    command: Option<Box<Suggestion>>,
    /// Whether the requested JSON already contains it.
    reported: bool,
}

/// A command that may help: known by now, or by the words of the line that has failed.
#[derive(Debug)]
enum Suggestion {
    Line(Hint),
    After(Next),
}

/// What `--json` prints for a failure before there is anything else to report.
#[derive(Serialize)]
pub(crate) struct Failed {
    status: &'static str,
    error: ErrorReport,
}

/// An error if standard output could not be written.
pub(crate) fn check_output() -> Result<(), Failure> {
    match output::failure() {
        None => Ok(()),
        Some((kind, message)) => Err(Failure::reported(code(kind), Some(message))),
    }
}

impl Failure {
    /// A failure that was not printed yet.
    pub(crate) fn new(code: u8, message: impl Into<String>) -> Self {
        Self { code, message: Some(message.into()), hint: None, command: None, reported: false }
    }

    /// The same, with a hint where to read more.
    pub(crate) fn with_hint(self, hint: String) -> Self {
        Self { hint: Some(hint), ..self }
    }

    /// The same, with a line that is right in the place of a wrong one.
    pub(crate) fn with_line(self, line: Option<Hint>) -> Self {
        Self { command: line.map(Suggestion::Line).map(Box::new), ..self }
    }

    /// A wrong command line or setting.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(code(ErrorKind::Usage), message)
    }

    /// A failure that is part of the printed output or JSON. `message` is printed on standard error as well.
    pub(crate) fn reported(code: u8, message: Option<String>) -> Self {
        Self { code, message, hint: None, command: None, reported: true }
    }

    /// Prints it on standard error, and as JSON if that was requested. Returns the exit code.
    pub(crate) fn tell(self, json: bool) -> ExitCode {
        let Self { code, message, hint, command, reported } = self;
        // Messages about the user's words quote them, and they may be secrets.
        let shown = |text: String| {
            if code == self::code(ErrorKind::Usage) { without_tickets(&text) } else { without_secrets(&text) }
        };
        let (message, hint) = (message.map(shown), hint.map(shown));
        if let Some(message) = &message {
            say(&by_words(&format!("inhaul: {message}")));
        }
        let command = command.and_then(|command| match *command {
            Suggestion::Line(line) => Some(line),
            Suggestion::After(next) => next.hint(&std::env::args_os().collect::<Vec<_>>()),
        });
        // Ready for pasting: with the ticket that the user wrote in the failed line. So it is shown only to people, not
        // to programs or the journal.
        if let Some(command) = command.filter(|_| !json && !is_journal()) {
            say(&format!("Try:\n  {command}"));
        }
        if let Some(hint) = hint {
            say(&by_words(&hint));
        }
        if json && !reported {
            announce(&to_json(&Failed::new(code, message.unwrap_or_default())));
        }
        ExitCode::from(code)
    }
}

impl Failed {
    fn new(code: u8, message: String) -> Self {
        Self { status: "failed", error: ErrorReport { code: name(code).to_owned(), message } }
    }
}

impl From<MoveError> for Failure {
    fn from(error: MoveError) -> Self {
        let next = Next::after(&error).map(Suggestion::After).map(Box::new);
        Self { command: next, ..Self::new(code(error.kind()), one_line(&error)) }
    }
}

/// The message of an error, on one line: it may have names in it that a peer has chosen.
fn one_line(error: &MoveError) -> String {
    printable(error.to_string().as_bytes())
}

impl From<Wrong> for Failure {
    fn from(wrong: Wrong) -> Self {
        Self::usage(wrong.message)
    }
}

impl From<KeyError> for Failure {
    fn from(error: KeyError) -> Self {
        Self::new(code(ErrorKind::Untrusted), error.to_string())
    }
}

impl From<KnownHostsError> for Failure {
    fn from(error: KnownHostsError) -> Self {
        Self::new(code(ErrorKind::Untrusted), error.to_string())
    }
}

/// The failure for an error that is in a report. The report was printed already if JSON was requested.
pub(crate) fn reported(error: &MoveError) -> Failure {
    let next = Next::after(error).map(Suggestion::After).map(Box::new);
    Failure { command: next, ..Failure::reported(code(error.kind()), Some(one_line(error))) }
}

/// The name of an exit code, as docs/exit-codes.md has it.
fn name(number: u8) -> &'static str {
    match number {
        CHECK_FAILED => "check-failed",
        RUN_INVALID => "run-invalid",
        COMMAND_FAILED => "command-failed",
        FORBIDDEN => "forbidden",
        _ => ErrorKind::ALL.into_iter().find(|kind| code(*kind) == number).map_or("internal", ErrorKind::code),
    }
}

/// The exit code of a cause.
pub(crate) const fn code(kind: ErrorKind) -> u8 {
    match kind {
        ErrorKind::Internal => 1,
        ErrorKind::Usage => 2,
        ErrorKind::PathNotFound => 3,
        ErrorKind::HostUnknown => 4,
        ErrorKind::Unreachable => 5,
        ErrorKind::TimedOut => 6,
        ErrorKind::Refused => 7,
        ErrorKind::NoSpace => 8,
        ErrorKind::Destination => 9,
        ErrorKind::Integrity => 10,
        ErrorKind::UdpBlocked => 11,
        ErrorKind::Partial => 16,
        ErrorKind::Untrusted => 17,
        ErrorKind::NoRight => 18,
        ErrorKind::Interrupted => 130,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn failed_has_the_documented_fields() {
        let failed = Failed::new(2, "what is wrong".to_owned());
        crate::documented::assert_documented("A failure before there is a report", &failed);
        assert_eq!(to_json(&failed), r#"{"status":"failed","error":{"code":"usage","message":"what is wrong"}}"#);
    }

    #[test]
    fn code_is_the_one_that_is_documented() {
        let document = include_str!("../docs/exit-codes.md");
        let rows: Vec<(u8, &str)> = document
            .lines()
            .filter_map(|line| {
                let mut cells = line.trim_matches('|').split('|').map(str::trim);
                let number = cells.next()?.parse().ok()?;
                Some((number, cells.next()?.trim_matches('`')))
            })
            .collect();
        let mut expected = vec![(COMPLETE, "")];
        expected.extend(ErrorKind::ALL.map(|kind| (code(kind), kind.code())));
        expected.extend([CHECK_FAILED, RUN_INVALID, COMMAND_FAILED, FORBIDDEN].map(|code| (code, name(code))));
        expected.sort_unstable();
        assert!(expected.iter().all(|&(code, its_name)| code == COMPLETE || name(code) == its_name));
        assert_eq!(rows, expected);
        let help = crate::args::Cli::command().render_long_help().to_string();
        for (number, _) in rows {
            assert!(help.split_whitespace().any(|word| word == number.to_string()), "{number} is not in --help");
        }
    }
}
