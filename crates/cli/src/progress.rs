//! The live display on a terminal: one line for the whole transfer, one for each sender.

use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use inhaul_base::format_bytes;
use inhaul_mover::{Progress, SourceProgress, SourceStatus};

use crate::summary::{percent, rate};

/// Lines on standard error that follow a transfer.
pub(crate) struct Display {
    lines: MultiProgress,
    overall: ProgressBar,
    senders: Vec<ProgressBar>,
}

impl Display {
    pub(crate) fn new() -> Self {
        let lines = MultiProgress::new();
        let overall = lines.add(ProgressBar::new(0).with_style(style("{bar:30.cyan} {percent:>3} %  {msg}")));
        Self { lines, overall, senders: Vec::new() }
    }

    /// Shows the state of things. Bytes count as done once they are verified.
    pub(crate) fn show(&mut self, progress: &Progress) {
        self.overall.set_length(progress.total_bytes);
        self.overall.set_position(progress.bytes);
        self.overall.set_message(overall_line(progress));
        while self.senders.len() < progress.sources.len() {
            self.senders.push(self.lines.add(ProgressBar::new(0).with_style(style("  {msg}"))));
        }
        let width = progress.sources.iter().map(|source| source.address.len()).max().unwrap_or(0);
        for (line, source) in self.senders.iter().zip(&progress.sources) {
            line.set_message(sender_line(source, width));
        }
    }

    /// Prints a warning above the lines.
    pub(crate) fn warn(&self, text: &str) {
        // A terminal that has gone away shows nothing.
        let _ = self.lines.println(format!("inhaul: {text}"));
    }

    /// Takes the lines away.
    pub(crate) fn close(self) {
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
    let left = (progress.total_bytes.saturating_sub(progress.received_bytes)) as f64 * 8.0;
    let time_left = if progress.received_bytes >= progress.total_bytes {
        "verifying".to_owned()
    } else if progress.goodput_bps > 0.0 {
        format!("{} left", clock(left / progress.goodput_bps))
    } else {
        "waiting".to_owned()
    };
    format!(
        "{} of {} received, {} verified  {}  {time_left}",
        format_bytes(progress.received_bytes),
        format_bytes(progress.total_bytes),
        format_bytes(progress.bytes),
        rate(progress.goodput_bps),
    )
}

fn sender_line(source: &SourceProgress, width: usize) -> String {
    let address = &source.address;
    match source.status {
        SourceStatus::Lost => format!("{address:width$}  lost"),
        SourceStatus::Different => format!("{address:width$}  left out: its data set is another one"),
        SourceStatus::Running | SourceStatus::Complete => format!(
            "{address:width$}  {:>13} of {:>13}  loss {}  RTT {:.2} ms",
            rate(source.received_bps),
            rate(source.target_bps),
            percent(source.loss_ratio),
            source.rtt_ms,
        ),
    }
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

    #[test]
    fn clock_grows_with_the_time() {
        assert_eq!([7.4, 185.0, 7385.0].map(clock), ["7 s", "3:05", "2:03:05"]);
        assert_eq!(clock(f64::INFINITY), "27777:46:40");
    }

    #[test]
    fn overall_line_says_when_only_verification_is_left() {
        let mut progress =
            Progress { bytes: 10, received_bytes: 50, total_bytes: 100, goodput_bps: 80.0, ..Progress::default() };
        assert!(overall_line(&progress).ends_with("80 bit/s  5 s left"), "{}", overall_line(&progress));
        progress.received_bytes = 100;
        assert!(overall_line(&progress).contains("10 B verified"), "{}", overall_line(&progress));
        assert!(overall_line(&progress).ends_with("verifying"));
    }
}
