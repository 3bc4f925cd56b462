//! Logs on standard error, for finding the cause of a problem.

use std::io::{IsTerminal, Write};
use std::time::{SystemTime, UNIX_EPOCH};

use clap::ValueEnum;
use inhaul_lab::kept::utc;
use log::{Level, LevelFilter, Log, Metadata, Record};

use crate::terminal;

/// How much is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogLevel {
    /// Nothing.
    Off,
    /// What failed.
    Error,
    /// What is not as it should be.
    Warn,
    /// Connections and transfers.
    Info,
    /// Each step of setting a transfer up.
    Debug,
    /// Everything.
    Trace,
}

impl LogLevel {
    fn filter(self) -> LevelFilter {
        match self {
            Self::Off => LevelFilter::Off,
            Self::Error => LevelFilter::Error,
            Self::Warn => LevelFilter::Warn,
            Self::Info => LevelFilter::Info,
            Self::Debug => LevelFilter::Debug,
            Self::Trace => LevelFilter::Trace,
        }
    }
}

/// Logs from now on: as much as `level` says, else as often as `-v` was given.
pub(crate) fn start(level: Option<LogLevel>, verbose: u8) {
    let filter = level.map_or_else(|| by_verbosity(verbose), LogLevel::filter);
    let colours = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    // The first logger stays; there is no other.
    if log::set_boxed_logger(Box::new(Logger { colours })).is_ok() {
        log::set_max_level(filter);
    }
}

fn by_verbosity(verbose: u8) -> LevelFilter {
    match verbose {
        0 => LevelFilter::Warn,
        1 => LevelFilter::Info,
        2 => LevelFilter::Debug,
        _ => LevelFilter::Trace,
    }
}

struct Logger {
    colours: bool,
}

impl Log for Logger {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.level() <= log::max_level()
    }

    fn log(&self, record: &Record<'_>) {
        // What other people's libraries have to say is no news of ours.
        if !self.enabled(record.metadata()) || !record.target().starts_with("inhaul") {
            return;
        }
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let time = format!("{}.{:03}Z", utc(since_1970.as_secs()).trim_end_matches('Z'), since_1970.subsec_millis());
        terminal::print_above(&line(&time, record, self.colours));
    }

    fn flush(&self) {
        let _ = std::io::stderr().flush();
    }
}

/// A line of the log. A message is one line, whatever a peer has put into it.
fn line(time: &str, record: &Record<'_>, colours: bool) -> String {
    let (on, off) = match (colours, record.level()) {
        (false, _) => ("", ""),
        (true, Level::Error) => ("\x1b[31m", "\x1b[0m"),
        (true, Level::Warn) => ("\x1b[33m", "\x1b[0m"),
        (true, Level::Info) => ("\x1b[32m", "\x1b[0m"),
        (true, Level::Debug | Level::Trace) => ("\x1b[2m", "\x1b[0m"),
    };
    let message = inhaul_mover::printable(record.args().to_string().as_bytes());
    format!("{time} {on}{:5}{off} {}: {message}", record.level(), record.target())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn logged(message: &str, colours: bool) -> String {
        let arguments = format_args!("{message}").to_string();
        line(
            "T",
            &Record::builder().level(Level::Info).target("inhaul").args(format_args!("{arguments}")).build(),
            colours,
        )
    }

    #[test]
    fn line_is_one_line_and_has_colours_only_when_told() {
        assert_eq!(logged("a\nb\x1b[2J", false), "T INFO  inhaul: a\\nb\\u{1b}[2J");
        assert_eq!(logged("a", true), "T \x1b[32mINFO \x1b[0m inhaul: a");
    }

    #[test]
    fn by_verbosity_starts_at_warnings() {
        assert_eq!([0, 1, 2, 3, 200].map(by_verbosity).map(|filter| filter as usize), [2, 3, 4, 5, 5]);
    }
}
