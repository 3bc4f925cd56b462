//! The report of a run as a table for people.

use inhaul_base::table::{Align, Table};
use inhaul_base::{Bitrate, format_bytes};
use inhaul_emu::{LinkReport, Report};

use super::report::{CommandReport, LinkRun};

/// A table of the links that carried packets, the results of the commands, and whether the run is valid.
pub(super) fn report_table(run: &LinkRun) -> String {
    let report = &run.report;
    let mut table = Table::new([Align::Left].into_iter().chain([Align::Right; 8]));
    // The carried bytes, and their rate over the time of the run, which stands below.
    table.row(["link", "rate", "delay", "carried", "over the run", "lost", "queue full", "other", "queue max"]);
    report.links.iter().filter(|link| link.offered_packets > 0).for_each(|link| table.row(row(link)));
    let mut text = table.to_string();
    for command in run.commands.iter().filter(|command| !command.background || command.exit_code != Some(0)) {
        text += &format!("{}\n", outcome(command));
    }
    text += &format!("{}\n", honesty(report));
    for reason in &report.reasons {
        text += &format!("INVALID: {reason}\n");
    }
    text.trim_end().to_owned()
}

fn row(link: &LinkReport) -> [String; 9] {
    let rate = |bps: f64| Bitrate::from_f64(bps).to_string();
    let other = link.early_packets + link.down_packets;
    [
        link.name.clone(),
        link.rate_bps.map_or("no limit".to_owned(), rate),
        format!("{:.2} ms", link.delay_ms),
        format_bytes(link.carried_bytes),
        rate(link.carried_bps),
        format!("{} ({:.3} %)", link.lost_packets, link.loss_ratio * 100.0),
        link.queue_full_packets.to_string(),
        other.to_string(),
        format_bytes(link.queue_bytes_max),
    ]
}

fn outcome(command: &CommandReport) -> String {
    let how = match (command.ended, command.exit_code, command.signal) {
        (true, ..) => "was ended".to_owned(),
        (false, Some(code), _) => format!("ended with {code}"),
        (false, None, Some(signal)) => format!("ended by signal {signal}"),
        (false, None, None) => "did not end".to_owned(),
    };
    let CommandReport { host, command, seconds, cpu_s, .. } = command;
    format!("{host}: '{command}' {how} after {seconds:.2} s, processor {cpu_s:.2} s")
}

fn honesty(report: &Report) -> String {
    let late = &report.lateness;
    let hidden: u64 = report.hosts.iter().map(|host| host.hidden_drops).sum();
    format!(
        "emulator: {:.2} s, late by {:.0} us (half), {:.0} us (99 %), {:.0} us (most); starved {:.3} s; \
         hidden drops {hidden}; processor {:.2} s",
        report.seconds, late.p50_us, late.p99_us, late.max_us, report.starved_s, report.cpu_s
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn report_table_leaves_out_idle_links_and_says_when_it_is_invalid() {
        let link = |name: &str, offered_packets| LinkReport {
            name: name.to_owned(),
            offered_packets,
            rate_bps: Some(1e9),
            ..LinkReport::default()
        };
        let report = Report {
            links: vec![link("busy", 3), link("idle", 0)],
            reasons: vec!["the host is too slow".to_owned()],
            ..Report::default()
        };
        let text = report_table(&LinkRun { commands: vec![CommandReport::default()], report });
        assert!(text.contains("\nbusy  1.00 Gbit/s") && !text.contains("idle"), "{text}");
        assert!(text.ends_with("INVALID: the host is too slow"), "{text}");
    }
}
