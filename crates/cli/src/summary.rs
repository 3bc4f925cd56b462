//! The summary of a transfer, in words.

use std::fmt::Write;

use inhaul_base::table::{Align, Table};
use inhaul_base::{Bitrate, format_bytes, format_seconds};
use inhaul_mover::{Action, FileReport, Policy, Report, SourceStatus, printable};

/// The summary of a transfer that ended well, with a newline at the end.
pub(crate) fn of_transfer(report: &Report) -> String {
    let mut text = String::new();
    let landed = report.files.iter().filter(|file| matches!(file.action, Action::Fetch | Action::Replace)).count();
    let kept = report.files.iter().filter(|file| file.action == Action::Keep).count();
    let seconds = format_seconds(report.seconds);
    if landed == 0 && kept > 0 && report.bytes == 0 {
        return format!("nothing had to come: {} kept, in {seconds}\n", count_of_files(kept));
    }
    let kept = if kept > 0 { format!(" ({kept} kept)") } else { String::new() };
    let files = format!("{}{kept}", count_of_files(landed));
    let resumed = match report.resumed_bytes {
        0 => String::new(),
        bytes => format!(" ({} of them fetched earlier)", format_bytes(bytes)),
    };
    let is_unverified = |file: &FileReport| matches!(file.action, Action::Fetch | Action::Replace) && !file.verified;
    let verified = match report.files.iter().filter(|file| is_unverified(file)).count() {
        0 => "verified".to_owned(),
        unverified if unverified == landed => "NOT VERIFIED (no source gives digests)".to_owned(),
        unverified => format!("{} NOT VERIFIED (no source gives digests)", count_of_files(unverified)),
    };
    let _ = writeln!(text, "{files}, {}{resumed}, {verified}, in {seconds}", format_bytes(report.bytes));
    // The bytes shown above are not always those of the rate.
    let fetched = if report.fetched_bytes == report.bytes {
        String::new()
    } else {
        format!("{} came: ", format_bytes(report.fetched_bytes))
    };
    let fairness = report.jain_index.map_or_else(String::new, |index| format!(", Jain's index {index:.4}"));
    let policy = unusual_policy(", ", report.policy.as_deref());
    let (goodput, loss) = (rate(report.goodput_bps), percent(report.loss_ratio));
    let _ = writeln!(text, "{fetched}{goodput}, loss {loss}{fairness}{policy}");
    text + &sender_table(report).to_string()
}

/// The senders of a transfer. Their rates are over the time of the whole, so they add up to that of the whole.
fn sender_table(report: &Report) -> Table {
    let mut table = Table::new([Align::Right, Align::Right, Align::Right, Align::Right, Align::Left]).indented(2);
    table.row(["bytes", "rate", "loss", "RTT", "sender"]);
    for source in &report.sources {
        let note = match source.status {
            SourceStatus::Complete | SourceStatus::Running | SourceStatus::Waiting => "",
            SourceStatus::Lost => " (LOST)",
            SourceStatus::Different => " (it has other data)",
        };
        table.row([
            format_bytes(source.bytes),
            rate(source.goodput_bps),
            percent(source.loss_ratio),
            milliseconds(source.rtt_ms),
            format!("{}{note}", source.address),
        ]);
    }
    table
}

/// The actions of a transfer: a line for each wanted file, and one for all of them.
pub(crate) fn of_plan(report: &Report) -> String {
    let mut table = Table::new([Align::Right, Align::Right, Align::Left]).indented(2);
    for file in report.files.iter().filter(|file| file.action != Action::LeaveOut) {
        table.row([verb(file.action).to_owned(), format_bytes(file.bytes), printable(file.path.as_bytes())]);
    }
    let mut text = table.to_string();
    let mut counts = Vec::new();
    for action in [Action::Fetch, Action::Replace, Action::Keep, Action::LeaveOut, Action::Refuse] {
        let files = report.files.iter().filter(|file| file.action == action).count();
        if files > 0 {
            counts.push(format!("{} {}", verb(action), count_of_files(files)));
        }
    }
    let counts = if counts.is_empty() { "no files".to_owned() } else { counts.join(", ") };
    let _ = writeln!(text, "{counts}; {} would come", format_bytes(report.bytes));
    text
}

fn verb(action: Action) -> &'static str {
    match action {
        Action::Fetch => "fetch",
        Action::Replace => "replace",
        Action::Keep => "keep",
        Action::LeaveOut => "leave out",
        Action::Refuse => "refuse",
    }
}

/// A number of files, in words.
pub(crate) fn count_of_files(count: usize) -> String {
    if count == 1 { "1 file".to_owned() } else { format!("{count} files") }
}

/// The policy, if it is not the default, behind these words.
pub(crate) fn unusual_policy(before: &str, policy: Option<&str>) -> String {
    let unusual = policy.filter(|policy| *policy != Policy::default().name());
    unusual.map_or_else(String::new, |policy| format!("{before}policy {policy}"))
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

/// A round-trip time in milliseconds, for a person.
pub(crate) fn milliseconds(ms: Option<f64>) -> String {
    ms.map_or_else(|| "-".to_owned(), |ms| format!("{ms:.2} ms"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use inhaul_mover::{FileReport, SourceReport};

    #[test]
    fn of_plan_names_what_is_wanted_and_counts_the_rest() {
        let file =
            |path: &str, action| FileReport { path: path.to_owned(), action, bytes: 1000, ..FileReport::default() };
        let files = vec![file("a", Action::Fetch), file("b", Action::Keep), file("c", Action::LeaveOut)];
        let text = of_plan(&Report { files, bytes: 1000, ..Report::default() });
        assert_eq!(
            text,
            "  fetch  1.0 kB  a\n   keep  1.0 kB  b\nfetch 1 file, keep 1 file, leave out 1 file; 1.0 kB would come\n"
        );
        assert_eq!(of_plan(&Report::default()), "no files; 0 B would come\n");
    }

    #[test]
    fn of_transfer_names_each_source_and_who_was_lost() {
        let source = |address: &str, bytes: u64, status| SourceReport {
            address: address.to_owned(),
            bytes,
            goodput_bps: bytes as f64 * 8.0 / 2.5,
            loss_ratio: 0.000_05,
            rtt_ms: Some(20.0),
            status,
            ..SourceReport::default()
        };
        let report = Report {
            bytes: 3_000_000_000,
            fetched_bytes: 3_000_000_000,
            seconds: 2.5,
            goodput_bps: 9.6e9,
            jain_index: Some(0.98),
            files: vec![FileReport { verified: true, ..FileReport::default() }],
            sources: vec![
                source("a:4321", 2_000_000_000, SourceStatus::Complete),
                source("bb:4321", 1_000_000_000, SourceStatus::Lost),
            ],
            ..Report::default()
        };
        let text = of_transfer(&report);
        assert!(text.starts_with("1 file, 3.00 GB, verified, in 2.50 s\n9.60 Gbit/s, loss 0.00 %, Jain's"), "{text}");
        assert!(text.contains("6.40 Gbit/s  0.0050 %  20.00 ms  a:4321\n"), "{text}");
        let unproven = of_transfer(&Report { files: vec![FileReport::default()], ..report.clone() });
        assert!(unproven.starts_with("1 file, 3.00 GB, NOT VERIFIED (no source gives digests), in"), "{unproven}");
        crate::figures::assert_rate(&text);
        assert!((crate::figures::sum_of_rates(&text, "a:4321") - 9.6e9).abs() < 1e8, "{text}");
        let held = of_transfer(&Report { policy: Some("fixed".to_owned()), ..report.clone() });
        assert!(held.contains("Jain's index 0.9800, policy fixed\n"), "{held}");
        let alone = of_transfer(&Report { jain_index: None, ..report.clone() });
        assert!(!alone.contains("Jain"), "{alone}");
        // Data of an earlier call, and holes, do not count for the rate.
        let resumed =
            Report { resumed_bytes: 1_000_000_000, fetched_bytes: 2_000_000_000, goodput_bps: 6.4e9, ..report.clone() };
        let resumed = of_transfer(&resumed);
        assert!(resumed.contains("\n2.00 GB came: 6.40 Gbit/s, "), "{resumed}");
        crate::figures::assert_rate(&resumed);
        assert_eq!(text.lines().filter(|line| line.contains("LOST")).count(), 1, "{text}");
        let kept = FileReport { action: Action::Keep, ..FileReport::default() };
        let report = Report { bytes: 0, files: vec![kept.clone(), kept], ..report };
        assert_eq!(of_transfer(&report), "nothing had to come: 2 files kept, in 2.50 s\n");
    }
}
