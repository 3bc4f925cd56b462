//! The progress display on a terminal: a few lines for the whole transfer, and one for each sender. It follows the
//! terminal's width.

use std::time::Duration;

use inhaul_base::format_bytes;
use inhaul_base::table::{cut, width};
use inhaul_mover::{Progress, SourceProgress, SourceStatus};

use crate::summary::{milliseconds, percent, rate, unusual_policy};
use crate::terminal::{self, Size};

/// From this width on, one line describes the whole transfer.
const WIDE: usize = 156;
/// How long the bar is, at the least and at the most.
const BAR: std::ops::RangeInclusive<usize> = 10..=40;

/// Shows the state of things. Bytes and files count as done once they are verified.
pub(crate) fn show(progress: &Progress) {
    terminal::draw(|size| lines(progress, size));
}

/// The whole display.
fn lines(progress: &Progress, size: Size) -> Vec<String> {
    let mut lines = overall(progress, size.columns);
    // The last row is the cursor's.
    let room = size.rows.saturating_sub(lines.len() + 2);
    let senders = progress.sources.len();
    let shown = if senders > room { room.saturating_sub(1) } else { senders };
    if senders > 0 {
        lines.push(row(&HEADINGS.map(str::to_owned), size.columns));
    }
    lines.extend(progress.sources.iter().take(shown).map(|source| sender(source, size.columns)));
    if shown < senders {
        lines.push(format!("  and {} more senders", senders - shown));
    }
    lines
}

/// How far the transfer is: on one line where there is room, else on two.
fn overall(progress: &Progress, columns: usize) -> Vec<String> {
    let bytes = format!("{} of {}", format_bytes(progress.bytes), format_bytes(progress.total_bytes));
    let mut done = vec![bytes];
    if progress.total_files > 1 {
        done.push(format!("{} of {} files", progress.files, progress.total_files));
    }
    let pace = match &progress.waiting {
        None => {
            let now = format!("now {}", rate(progress.goodput_bps));
            let policy = unusual_policy("", progress.policy.as_deref());
            let parts = [fetched(progress), now, time_left(progress), policy];
            parts.into_iter().filter(|part| !part.is_empty()).collect()
        }
        Some(waiting) => {
            let (servers, since) = (waiting.servers.join(", "), clock(waiting.seconds));
            vec![format!("waiting for {servers} for {since}; Ctrl-C ends it")]
        }
    };
    if columns >= WIDE {
        done.extend(pace);
        return vec![with_bar(progress, &done.join("  "), columns.saturating_sub(WIDE - 14))];
    }
    vec![with_bar(progress, &done.join("  "), columns.saturating_sub(60)), pace.join("  ")]
}

/// The received bytes, their time, and the rate.
fn fetched(progress: &Progress) -> String {
    let seconds = progress.seconds;
    // Three digits, as the bytes and the rate beside it have: it can be reckoned.
    let time = match seconds {
        ..1.0 => format!("{seconds:.3} s"),
        ..10.0 => format!("{seconds:.2} s"),
        ..100.0 => format!("{seconds:.1} s"),
        _ => clock(seconds),
    };
    format!("fetched {} in {time}: {}", format_bytes(progress.fetched_bytes), rate(progress.average_bps))
}

/// A bar of this length, within limits; then the percentage and the text.
fn with_bar(progress: &Progress, text: &str, length: usize) -> String {
    let length = length.clamp(*BAR.start(), *BAR.end());
    let ratio = if progress.total_bytes == 0 { 0.0 } else { progress.bytes as f64 / progress.total_bytes as f64 };
    let full = ((ratio * length as f64) as usize).min(length);
    format!("{}{} {:>3} %  {text}", "█".repeat(full), "░".repeat(length - full), (ratio * 100.0) as u64)
}

fn time_left(progress: &Progress) -> String {
    let left = progress.total_bytes.saturating_sub(progress.received_bytes) as f64 * 8.0;
    if progress.received_bytes >= progress.total_bytes {
        "verifying".to_owned()
    } else if progress.goodput_bps > 0.0 {
        format!("{} left", clock(left / progress.goodput_bps))
    } else {
        "waiting".to_owned()
    }
}

/// Headings of the numbers of [`sender`]. Names stand last, so that a long line cuts the name.
const HEADINGS: [&str; 6] = ["bytes", "rate", "target", "loss", "RTT", "sender"];
/// How wide the columns before the name are, and from which width of the terminal on each is shown.
const COLUMNS: [(usize, usize); 5] = [(10, 100), (13, 0), (13, 70), (9, 40), (10, 60)];

/// From this width of the terminal on, the line gives the reason why a sender's data comes over TCP. A warning has
/// given it, too.
const WHY_FROM: usize = 116;

fn sender(source: &SourceProgress, columns: usize) -> String {
    let note = match (source.status, &source.path.why) {
        (SourceStatus::Running, Some(why)) if columns >= WHY_FROM => format!(" (over TCP: {why})"),
        (SourceStatus::Running, Some(_)) => " (over TCP)".to_owned(),
        (SourceStatus::Running, None) if columns >= WHY_FROM => held(source).unwrap_or_default(),
        (SourceStatus::Running | SourceStatus::Complete, _) => String::new(),
        (SourceStatus::Waiting, _) => " (waiting)".to_owned(),
        (SourceStatus::Lost, _) => " (LOST)".to_owned(),
        (SourceStatus::Different, _) => " (it has other data)".to_owned(),
    };
    let is_live = matches!(source.status, SourceStatus::Running | SourceStatus::Complete);
    let if_live = |text: String| if is_live { text } else { "-".to_owned() };
    // A note is worth more than the end of a name.
    let room = columns.saturating_sub(width_before_name(columns) + width(&note));
    let cells = [
        format_bytes(source.bytes),
        if_live(rate(source.goodput_bps)),
        if_live(rate(source.target_bps)),
        percent(source.loss_ratio),
        milliseconds(source.rtt_ms),
        format!("{}{note}", cut(&source.address, room)),
    ];
    row(&cells, columns)
}

/// What holds a sender's rate.
fn held(source: &SourceProgress) -> Option<String> {
    let what = match source.held_by.as_deref()? {
        "receiver" => "this receiver",
        "path" => "the path",
        "others" => "others' traffic",
        "sender" => "the sender",
        "policy" => "the given rate",
        _ => return None,
    };
    Some(format!(" (held by {what})"))
}

/// The cells that a terminal of this width has room for.
fn row(cells: &[String; 6], columns: usize) -> String {
    let mut line = String::new();
    for (cell, (width, from)) in cells.iter().zip(COLUMNS) {
        if columns >= from {
            line.push_str(&format!("  {cell:>width$}"));
        }
    }
    format!("{line}  {}", cells[5])
}

fn width_before_name(columns: usize) -> usize {
    COLUMNS.iter().filter(|(_, from)| columns >= *from).map(|(width, _)| width + 2).sum::<usize>() + 2
}

/// Seconds as `7 s`, `3:05` or `2:03:05`.
pub(crate) fn clock(seconds: f64) -> String {
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
    use inhaul_mover::{PathReport, Waiting};

    fn source(address: &str, status: SourceStatus) -> SourceProgress {
        SourceProgress {
            address: address.to_owned(),
            bytes: 67_700_000,
            goodput_bps: 62.1e6,
            received_bps: 64.2e6,
            target_bps: 66.7e6,
            loss_ratio: 0.000_05,
            rtt_ms: Some(163.0),
            held_by: None,
            status,
            path: PathReport::default(),
        }
    }

    fn progress() -> Progress {
        Progress {
            seconds: 12.4,
            bytes: 135_300_000,
            received_bytes: 140_000_000,
            fetched_bytes: 89_125_000,
            total_bytes: 209_700_000,
            files: 12,
            total_files: 34,
            goodput_bps: 64e6,
            average_bps: 57.5e6,
            sources: vec![source("127.0.0.1:36961", SourceStatus::Running)],
            ..Progress::default()
        }
    }

    fn at(columns: usize) -> Vec<String> {
        lines(&progress(), Size { columns, rows: 24 })
    }

    #[test]
    fn clock_grows_with_the_time() {
        assert_eq!([7.4, 185.0, 7385.0].map(clock), ["7 s", "3:05", "2:03:05"]);
        assert_eq!(clock(f64::INFINITY), "27777:46:40");
    }

    #[test]
    fn display_on_80_columns() {
        assert_eq!(
            at(80),
            [
                "████████████░░░░░░░░  64 %  135.3 MB of 209.7 MB  12 of 34 files",
                "fetched 89.1 MB in 12.4 s: 57.5 Mbit/s  now 64.0 Mbit/s  8 s left",
                "           rate         target       loss         RTT  sender",
                "    62.1 Mbit/s    66.7 Mbit/s   0.0050 %   163.00 ms  127.0.0.1:36961",
            ]
        );
    }

    #[test]
    fn display_names_a_policy_that_is_not_the_default() {
        let second = |policy: &str| {
            let progress = Progress { policy: Some(policy.to_owned()), ..progress() };
            lines(&progress, Size { columns: 80, rows: 24 }).swap_remove(1)
        };
        assert!(second("fair").ends_with("  8 s left"), "{}", second("fair"));
        assert!(second("low").ends_with("  8 s left  policy low"), "{}", second("low"));
    }

    #[test]
    fn display_says_that_a_sender_s_data_comes_over_tcp() {
        let mut progress = progress();
        progress.sources[0].path =
            PathReport { over: "tcp".to_owned(), why: Some("UDP does not pass".to_owned()), ..PathReport::default() };
        let last = |columns| lines(&progress, Size { columns, rows: 24 }).pop().unwrap();
        assert!(last(80).ends_with("  127.0.0.1:369… (over TCP)"), "{}", last(80));
        assert!(last(120).ends_with("  127.0.0.1:36961 (over TCP: UDP does not pass)"), "{}", last(120));
        assert!([60, 80, 116, 160].iter().all(|&columns| last(columns).chars().count() <= columns));
    }

    #[test]
    fn display_on_60_columns_leaves_out_what_matters_least() {
        assert_eq!(
            at(60),
            [
                "██████░░░░  64 %  135.3 MB of 209.7 MB  12 of 34 files",
                "fetched 89.1 MB in 12.4 s: 57.5 Mbit/s  now 64.0 Mbit/s  8 s left",
                "           rate       loss         RTT  sender",
                "    62.1 Mbit/s   0.0050 %   163.00 ms  127.0.0.1:36961",
            ]
        );
    }

    #[test]
    fn display_on_160_columns_needs_one_line_and_has_more_columns() {
        let bar = format!("{}{}", "█".repeat(11), "░".repeat(7));
        assert_eq!(
            at(160),
            [
                format!(
                    "{bar}  64 %  135.3 MB of 209.7 MB  12 of 34 files  fetched 89.1 MB in 12.4 s: 57.5 Mbit/s  now 64.0 Mbit/s  8 s left"
                ),
                "       bytes           rate         target       loss         RTT  sender".to_owned(),
                "     67.7 MB    62.1 Mbit/s    66.7 Mbit/s   0.0050 %   163.00 ms  127.0.0.1:36961".to_owned(),
            ]
        );
    }

    #[test]
    fn display_fits_every_width_with_the_largest_numbers() {
        let mut progress = progress();
        (progress.bytes, progress.total_bytes) = (999_990_000_000_000, 999_990_000_000_000);
        (progress.goodput_bps, progress.average_bps, progress.seconds) = (999.9e9, 999.9e9, 99_999.0);
        progress.fetched_bytes = progress.bytes;
        (progress.files, progress.total_files) = (99_999, 100_000);
        progress.sources[0].status = SourceStatus::Lost;
        for columns in [60, 80, 100, 140, 160, 200] {
            let name = lines(&progress, Size { columns, rows: 24 }).pop().unwrap();
            assert!(name.chars().count() <= columns && name.ends_with("(LOST)"), "{columns}: {name}");
            for line in lines(&progress, Size { columns, rows: 24 }) {
                // On 60 columns the end of the second line may be cut.
                assert!(columns == 60 || line.chars().count() <= columns, "{columns}: {line}");
            }
        }
    }

    #[test]
    fn rate_is_what_has_come_over_the_time_beside_it() {
        for (fetched_bytes, seconds) in [(89_125_000, 12.4), (1_234_567, 0.26), (87_654_321_000, 3725.4)] {
            let average_bps = fetched_bytes as f64 * 8.0 / seconds;
            let progress = Progress { fetched_bytes, seconds, average_bps, ..Progress::default() };
            crate::figures::assert_rate(&overall(&progress, 80)[1]);
        }
        let progress =
            Progress { fetched_bytes: 2_200_000, seconds: 0.1215, average_bps: 144.8e6, ..Progress::default() };
        assert!(overall(&progress, 80)[1].starts_with("fetched 2.2 MB in 0.121 s: 144.8 Mbit/s"));
    }

    #[test]
    fn overall_says_when_only_verification_is_left() {
        let last = |progress: &Progress| overall(progress, 80).pop().unwrap();
        let mut progress =
            Progress { bytes: 10, received_bytes: 50, total_bytes: 100, goodput_bps: 80.0, ..Progress::default() };
        assert!(last(&progress).contains("  now 80 bit/s  ") && last(&progress).ends_with("5 s left"));
        progress.received_bytes = 100;
        assert!(last(&progress).ends_with("verifying"));
        assert!(last(&Progress { total_bytes: 100, ..Progress::default() }).ends_with("waiting"));
    }

    #[test]
    fn overall_says_what_is_waited_for_and_since_when() {
        let waiting = Waiting { servers: vec!["a:1".to_owned()], seconds: 62.0, reason: "gone".to_owned() };
        let progress = Progress { waiting: Some(waiting), ..progress() };
        assert_eq!(overall(&progress, 80)[1], "waiting for a:1 for 1:02; Ctrl-C ends it");
        assert!(overall(&progress, 160)[0].ends_with("12 of 34 files  waiting for a:1 for 1:02; Ctrl-C ends it"));
    }

    #[test]
    fn senders_that_do_not_fit_are_counted() {
        let mut progress = progress();
        progress.sources = (0..30).map(|port| source(&format!("a:{port}"), SourceStatus::Running)).collect();
        let shown = lines(&progress, Size { columns: 80, rows: 10 });
        assert_eq!(shown.len(), 9);
        assert_eq!(shown[8], "  and 25 more senders");
        progress.sources.truncate(6);
        assert!(lines(&progress, Size { columns: 80, rows: 10 })[8].ends_with("a:5"));
    }

    #[test]
    fn sender_that_is_lost_shows_no_rates() {
        let line = sender(&source("a:1", SourceStatus::Lost), 80);
        assert_eq!(line, "              -              -   0.0050 %   163.00 ms  a:1 (LOST)");
        let line = sender(&source(&"x".repeat(50), SourceStatus::Lost), 80);
        assert!(line.ends_with("x… (LOST)") && line.chars().count() == 80, "{line}");
    }
}
