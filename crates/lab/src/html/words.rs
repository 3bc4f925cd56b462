//! Words for readers instead of the program's own names.

use crate::kept::Kept;

/// How a result was made, as the heading of its column: `simulated`, `emulated`, `simulated, control paper`.
pub(super) fn backend_words(backend: &str, control: &str) -> String {
    let backend = match backend {
        "sim" => "simulated",
        "emu" => "emulated",
        "net" => "over a network",
        other => other,
    };
    if control == "default" { backend.to_owned() } else { format!("{backend}, control {control}") }
}

/// The verdicts, from good to bad.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Outcome {
    Passed,
    NotRun,
    /// Run with changed settings only.
    Changed,
    Failed,
    Invalid,
}

impl Outcome {
    pub(super) fn of(kept: &Kept) -> Self {
        match (kept.valid, kept.failed().next()) {
            (false, _) => Self::Invalid,
            (true, Some(_)) => Self::Failed,
            (true, None) => Self::Passed,
        }
    }

    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::NotRun => "not run",
            Self::Changed => "with changed settings only",
            Self::Failed => "failed",
            Self::Invalid => "invalid",
        }
    }

    /// The class of style.css.
    pub(super) fn class(self) -> &'static str {
        match self {
            Self::Passed => "badge passed",
            Self::NotRun | Self::Changed => "badge missing",
            Self::Failed => "badge failed",
            Self::Invalid => "badge invalid",
        }
    }
}

/// `4 of 4 checks`.
pub(super) fn checks_passed(kept: &Kept) -> String {
    match kept.checks.len() {
        0 => "no checks".to_owned(),
        1 => format!("{} of 1 check", 1 - kept.failed().count()),
        all => format!("{} of {all} checks", all - kept.failed().count()),
    }
}

/// `3 s`, `4 min 5 s`, `2 h 10 min`.
pub(super) fn lasted(seconds: u64) -> String {
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match (hours, minutes) {
        (0, 0) => format!("{seconds} s"),
        (0, _) => format!("{minutes} min {seconds} s"),
        _ => format!("{hours} h {minutes} min"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn made_and_lasted_are_short() {
        assert_eq!(
            (backend_words("sim", "default"), backend_words("emu", "paper")),
            ("simulated".into(), "emulated, control paper".into())
        );
        assert_eq!([59, 61, 7260].map(lasted), ["59 s", "1 min 1 s", "2 h 1 min"]);
    }

    #[test]
    fn outcome_orders_from_good_to_bad() {
        assert!(Outcome::Passed < Outcome::Failed && Outcome::Failed < Outcome::Invalid);
    }
}
