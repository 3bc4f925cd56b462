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
    /// Warnings.
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
    let is_coloured = || std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let style = if is_journal() {
        Style::Journal
    } else if std::io::stderr().is_terminal() && is_coloured() && !terminal::is_dumb() {
        Style::Coloured
    } else {
        Style::Plain
    };
    // The first logger stays; there is no other.
    if log::set_boxed_logger(Box::new(Logger { style })).is_ok() {
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

/// How lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Style {
    Plain,
    Coloured,
    /// With a priority in front (sd-daemon(3)) and without a time: the journal has its own.
    Journal,
}

/// Whether standard error is the journal: `JOURNAL_STREAM` has its device and inode (systemd.exec(5)).
pub(crate) fn is_journal() -> bool {
    let Ok(stream) = std::env::var("JOURNAL_STREAM") else { return false };
    let Ok(own) = rustix::fs::fstat(std::io::stderr()) else { return false };
    stream == format!("{}:{}", own.st_dev, own.st_ino)
}

struct Logger {
    style: Style,
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
        terminal::print_above(&line(&time, record, self.style));
    }

    fn flush(&self) {
        let _ = std::io::stderr().flush();
    }
}

/// A line of the log. A message is always one line, even with control characters of a peer.
fn line(time: &str, record: &Record<'_>, style: Style) -> String {
    let message = inhaul_mover::printable(record.args().to_string().as_bytes());
    let (priority, colour) = match record.level() {
        Level::Error => (3, "\x1b[31m"),
        Level::Warn => (4, "\x1b[33m"),
        Level::Info => (6, "\x1b[32m"),
        Level::Debug | Level::Trace => (7, "\x1b[2m"),
    };
    let (on, off) = match style {
        Style::Journal => return format!("<{priority}>{}: {message}", record.target()),
        Style::Plain => ("", ""),
        Style::Coloured => (colour, "\x1b[0m"),
    };
    format!("{time} {on}{:5}{off} {}: {message}", record.level(), record.target())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn logged(message: &str, style: Style) -> String {
        let arguments = format_args!("{message}").to_string();
        line(
            "T",
            &Record::builder().level(Level::Info).target("inhaul").args(format_args!("{arguments}")).build(),
            style,
        )
    }

    #[test]
    fn line_is_one_line_and_has_colours_only_when_told() {
        assert_eq!(logged("a\nb\x1b[2J", Style::Plain), "T INFO  inhaul: a\\nb\\u{1b}[2J");
        assert_eq!(logged("a\n<0>b", Style::Journal), "<6>inhaul: a\\n<0>b");
        assert_eq!(logged("a", Style::Coloured), "T \x1b[32mINFO \x1b[0m inhaul: a");
    }

    #[test]
    fn by_verbosity_starts_at_warnings() {
        assert_eq!([0, 1, 2, 3, 200].map(by_verbosity).map(|filter| filter as usize), [2, 3, 4, 5, 5]);
    }
}
