//! The live display on a terminal: one line for the whole transfer, one for each sender. Lines are cut at the terminal's
//! edge and never wrap: a line that wraps could not be drawn over.

use std::io::Write;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use inhaul_base::format_bytes;
use inhaul_mover::{Progress, SourceProgress, SourceStatus};

use crate::summary::{milliseconds, percent, rate};

/// The lines that are on the terminal now: what else is printed must stand above them.
static SHOWN: Mutex<Option<MultiProgress>> = Mutex::new(None);

/// Prints a line on standard error, above the lines of a display if there is one.
pub(crate) fn print_above(line: &str) {
    // A terminal that has gone away shows nothing.
    let _ = match &*SHOWN.lock().unwrap_or_else(PoisonError::into_inner) {
        Some(lines) => lines.println(line),
        None => writeln!(std::io::stderr(), "{line}"),
    };
}

/// Lines on standard error that follow a transfer.
pub(crate) struct Display {
    lines: MultiProgress,
    overall: ProgressBar,
    senders: Vec<ProgressBar>,
}

impl Display {
    pub(crate) fn new() -> Self {
        let lines = MultiProgress::new();
        let overall = lines.add(ProgressBar::new(0).with_style(style("{bar:20.cyan} {percent:>3} %  {wide_msg}")));
        *SHOWN.lock().unwrap_or_else(PoisonError::into_inner) = Some(lines.clone());
        Self { lines, overall, senders: Vec::new() }
    }

    /// Shows the state of things. Bytes count as done once they are verified.
    pub(crate) fn show(&mut self, progress: &Progress) {
        self.overall.set_length(progress.total_bytes);
        self.overall.set_position(progress.bytes);
        self.overall.set_message(overall_line(progress));
        // A line of headings, and one for each sender.
        while self.senders.len() <= progress.sources.len() {
            self.senders.push(self.lines.add(ProgressBar::new(0).with_style(style("{wide_msg}"))));
        }
        let rows = std::iter::once(HEADINGS.to_owned()).chain(progress.sources.iter().map(sender_line));
        for (line, row) in self.senders.iter().zip(rows) {
            line.set_message(row);
        }
    }

    /// Takes the lines away.
    pub(crate) fn close(self) {
        *SHOWN.lock().unwrap_or_else(PoisonError::into_inner) = None;
        for line in self.senders.iter().chain([&self.overall]) {
            line.finish_and_clear();
        }
    }
}

/// A style from a template that is known to be good; colours follow NO_COLOR.
fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

fn overall_line(progress: &Progress) -> String {
    if let Some(waiting) = &progress.waiting {
        let (servers, since) = (waiting.servers.join(", "), clock(waiting.seconds));
        let done = match progress.total_bytes {
            0 => String::new(),
            total => format!("{} of {}  ", format_bytes(progress.bytes), format_bytes(total)),
        };
        return format!("{done}waiting for {servers}, for {since}; Ctrl-C ends it");
    }
    let left = (progress.total_bytes.saturating_sub(progress.received_bytes)) as f64 * 8.0;
    let time_left = if progress.received_bytes >= progress.total_bytes {
        "verifying".to_owned()
    } else if progress.goodput_bps > 0.0 {
        format!("{} left", clock(left / progress.goodput_bps))
    } else {
        "waiting".to_owned()
    };
    format!(
        "{} of {}  {}  {time_left}",
        format_bytes(progress.bytes),
        format_bytes(progress.total_bytes),
        rate(progress.goodput_bps),
    )
}

/// What the numbers of [`sender_line`] are. Names stand last: they may be long, and then it is they that are cut.
const HEADINGS: &str = "           rate         target       loss         RTT  sender";

fn sender_line(source: &SourceProgress) -> String {
    let note = match source.status {
        SourceStatus::Running | SourceStatus::Complete => "",
        SourceStatus::Waiting => " (waiting for it)",
        SourceStatus::Lost => " (LOST)",
        SourceStatus::Different => " (left out: it has other data)",
    };
    let is_live = note.is_empty();
    let if_live = |text: String| if is_live { text } else { "-".to_owned() };
    format!(
        "  {:>13}  {:>13}  {:>9}  {:>10}  {}{note}",
        if_live(rate(source.received_bps)),
        if_live(rate(source.target_bps)),
        percent(source.loss_ratio),
        milliseconds(source.rtt_ms),
        source.address,
    )
}

/// Seconds as `7 s`, `3:05` or `2:03:05`.
fn clock(seconds: f64) -> String {
    let total = Duration::from_secs_f64(seconds.clamp(0.0, 1e8)).as_secs();
    match (total / 3600, total / 60 % 60, total % 60) {
        (0, 0, s) => format!("{s} s"),
        (0, m, s) => format!("{m}:{s:02}"),
        (h, m, s) => format!("{h}:{m:02}:{s:02}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use inhaul_mover::Waiting;

    #[test]
    fn clock_grows_with_the_time() {
        assert_eq!([7.4, 185.0, 7385.0].map(clock), ["7 s", "3:05", "2:03:05"]);
        assert_eq!(clock(f64::INFINITY), "27777:46:40");
    }

    #[test]
    fn overall_line_says_when_only_verification_is_left() {
        let mut progress =
            Progress { bytes: 10, received_bytes: 50, total_bytes: 100, goodput_bps: 80.0, ..Progress::default() };
        assert_eq!(overall_line(&progress), "10 B of 100 B  80 bit/s  5 s left");
        progress.received_bytes = 100;
        assert_eq!(overall_line(&progress), "10 B of 100 B  80 bit/s  verifying");
        assert!(overall_line(&Progress { total_bytes: 100, ..Progress::default() }).ends_with("waiting"));
    }

    #[test]
    fn overall_line_says_what_is_waited_for_and_since_when() {
        let waiting = Waiting { servers: vec!["a:1".to_owned()], seconds: 62.0, reason: "gone".to_owned() };
        let mut progress = Progress { waiting: Some(waiting), ..Progress::default() };
        assert_eq!(overall_line(&progress), "waiting for a:1, for 1:02; Ctrl-C ends it");
        (progress.bytes, progress.total_bytes) = (10, 100);
        assert_eq!(overall_line(&progress), "10 B of 100 B  waiting for a:1, for 1:02; Ctrl-C ends it");
    }

    #[test]
    fn overall_line_fits_beside_the_bar_on_80_columns() {
        let progress = Progress {
            bytes: 999_990_000_000,
            total_bytes: 999_990_000_000_000,
            goodput_bps: 999.9e9,
            ..Progress::default()
        };
        let line = overall_line(&progress);
        assert!("....................  100 %  ".len() + line.len() <= 80, "{line}");
    }

    #[test]
    fn sender_line_stands_under_its_headings_and_names_who_is_lost() {
        let mut source = SourceProgress {
            address: "a:1".to_owned(),
            received_bps: 64.2e6,
            target_bps: 66.7e6,
            loss_ratio: 0.000_05,
            rtt_ms: 163.0,
            ..SourceProgress::default()
        };
        let line = sender_line(&source);
        assert_eq!(line, "    64.2 Mbit/s    66.7 Mbit/s   0.0050 %   163.00 ms  a:1");
        assert_eq!(line.find("a:1"), HEADINGS.find("sender"));
        source.status = SourceStatus::Lost;
        assert_eq!(sender_line(&source), "              -              -   0.0050 %   163.00 ms  a:1 (LOST)");
    }
}
