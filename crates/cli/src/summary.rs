//! What a transfer came to, in words.

use std::fmt::Write;

use inhaul_base::{Bitrate, format_bytes};
use inhaul_mover::{Report, SourceStatus};

/// The summary of a transfer that ended well, with a newline at the end.
pub(crate) fn of_transfer(report: &Report) -> String {
    let mut text = String::new();
    let files = match report.files.len() {
        1 => "1 file".to_owned(),
        n => format!("{n} files"),
    };
    let senders = report.sources.iter().filter(|source| source.bytes > 0).count();
    let fairness = if senders > 1 { format!(", Jain's index {:.4}", report.jain_index) } else { String::new() };
    let resumed = match report.resumed_bytes {
        0 => String::new(),
        bytes => format!(" ({} of them fetched earlier)", format_bytes(bytes)),
    };
    let _ = writeln!(
        text,
        "{files}, {}{resumed}, verified, in {:.2} s\n{}, loss {}{fairness}",
        format_bytes(report.bytes),
        report.seconds,
        rate(report.goodput_bps),
        percent(report.loss_ratio),
    );
    let _ = writeln!(text, "       bytes           rate       loss         RTT  sender");
    for source in &report.sources {
        let note = match source.status {
            SourceStatus::Complete | SourceStatus::Running => "",
            SourceStatus::Lost => " (LOST)",
            SourceStatus::Different => " (left out: it has other data)",
        };
        let _ = writeln!(
            text,
            "  {:>10}  {:>13}  {:>9}  {:>10}  {}{note}",
            format_bytes(source.bytes),
            rate(source.goodput_bps),
            percent(source.loss_ratio),
            milliseconds(source.rtt_ms),
            source.address,
        );
    }
    text
}

/// A rate in bits per second, for a person.
pub(crate) fn rate(bps: f64) -> String {
    Bitrate::from_f64(bps).to_string()
}

/// A ratio as a percentage, for a person: small ones keep their digits.
pub(crate) fn percent(ratio: f64) -> String {
    let percent = ratio * 100.0;
    if percent > 0.0 && percent < 0.01 { format!("{percent:.4} %") } else { format!("{percent:.2} %") }
}

/// Milliseconds, for a person.
pub(crate) fn milliseconds(ms: f64) -> String {
    format!("{ms:.2} ms")
}

#[cfg(test)]
mod tests {
    use super::*;
    use inhaul_mover::{FileReport, SourceReport};

    #[test]
    fn of_transfer_names_each_source_and_who_was_lost() {
        let source = |address: &str, bytes, status| SourceReport {
            address: address.to_owned(),
            bytes,
            goodput_bps: 1e9,
            loss_ratio: 0.000_05,
            rtt_ms: 20.0,
            status,
            ..SourceReport::default()
        };
        let report = Report {
            bytes: 3_000_000_000,
            seconds: 2.5,
            goodput_bps: 9.6e9,
            jain_index: 0.98,
            files: vec![FileReport::default()],
            sources: vec![
                source("a:4321", 2_000_000_000, SourceStatus::Complete),
                source("bb:4321", 1_000_000_000, SourceStatus::Lost),
            ],
            ..Report::default()
        };
        let text = of_transfer(&report);
        assert!(text.starts_with("1 file, 3.00 GB, verified, in 2.50 s\n9.60 Gbit/s, loss 0.00 %, Jain's"), "{text}");
        assert!(text.contains("1.00 Gbit/s   0.0050 %    20.00 ms  a:4321\n"), "{text}");
        assert_eq!(text.lines().filter(|line| line.contains("LOST")).count(), 1, "{text}");
    }
}
