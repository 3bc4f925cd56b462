//! Exit codes: one for each cause that a script may want to tell apart.

use inhaul_mover::ErrorKind;

/// All data has come and is verified.
pub(crate) const COMPLETE: u8 = 0;

/// `lab`: what must come out of a run did not, or the run broke a rule of the simulator.
pub(crate) const CHECK_FAILED: u8 = 12;

/// `link`: this machine was too slow for what was to be emulated.
pub(crate) const RUN_INVALID: u8 = 13;

/// `link run`: a command in a host failed.
pub(crate) const COMMAND_FAILED: u8 = 14;

/// `link`, `lab kernel-cc`: this user or this host may not have what it takes.
pub(crate) const FORBIDDEN: u8 = 15;

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
        ErrorKind::Interrupted => 130,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn code_is_the_one_that_is_documented() {
        let document = include_str!("../../../docs/exit-codes.md");
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
        expected.extend([
            (CHECK_FAILED, "check-failed"),
            (RUN_INVALID, "run-invalid"),
            (COMMAND_FAILED, "command-failed"),
            (FORBIDDEN, "forbidden"),
        ]);
        expected.sort_unstable();
        assert_eq!(rows, expected);
        let help = crate::args::Cli::command().render_long_help().to_string();
        for (number, _) in rows {
            assert!(help.split_whitespace().any(|word| word == number.to_string()), "{number} is not in --help");
        }
    }
}
