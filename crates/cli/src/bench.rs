//! `inhaul bench`.

use inhaul_base::format_bytes;
use inhaul_mover::{BenchInterval, BenchLimit, BenchOptions, BenchReport, BenchServerOptions, BenchUpdate};

use crate::args::Bench;
use crate::exit::{self, Failure};
use crate::serve::announce;
use crate::summary::{milliseconds, percent, rate};
use crate::transfer::to_json;

pub(crate) fn run(args: &Bench) -> Result<(), Failure> {
    let stop = crate::stop_on_signals()?;
    let net = crate::net_options(&args.wire, &args.transport);
    if args.server {
        let options = BenchServerOptions {
            listen: args.listen,
            receive_rate: args.receive_rate,
            send_rate: args.send_rate,
            send_dial: None,
            net,
        };
        let listening = |address| announce(&format!("listening on {address}"));
        return Ok(inhaul_mover::bench_server(&options, &stop, listening)?);
    }
    let options = BenchOptions {
        servers: args.servers.clone(),
        limit: args.bytes.map_or(BenchLimit::Seconds(args.time), BenchLimit::Bytes),
        flows: args.parallel,
        rate: args.bitrate,
        receive_rate: args.receive_rate,
        reverse: args.reverse,
        memory: args.memory.into(),
        net,
    };
    let mut hear = |update: BenchUpdate| match update {
        BenchUpdate::Interval(interval) if !args.json => announce(&interval_line(&interval)),
        BenchUpdate::Interval(_) => {}
        BenchUpdate::Warning(text) => eprintln!("inhaul: {text}"),
    };
    let (report, result) = inhaul_mover::bench(&options, &stop, &mut hear);
    if args.json {
        announce(&to_json(&report));
    } else if result.is_ok() {
        announce(&summary(&report));
    }
    result.map_err(|error| exit::reported(&error))
}

fn interval_line(interval: &BenchInterval) -> String {
    format!(
        "{:7.2} - {:7.2} s  {:>10}  {:>13}  loss {}",
        interval.start,
        interval.end,
        format_bytes(interval.bytes),
        rate(interval.goodput_bps),
        percent(interval.loss_ratio),
    )
}

fn summary(report: &BenchReport) -> String {
    let mut lines = vec!["- - - - - - - - - - - - - - - -".to_owned()];
    let width = report.sources.iter().map(|source| source.address.len()).max().unwrap_or(0);
    for source in &report.sources {
        lines.push(format!(
            "{:width$}  {:>10}  {:>13}  loss {}  RTT {}  {:.2} s of its processor",
            source.address,
            format_bytes(source.bytes),
            rate(source.goodput_bps),
            percent(source.loss_ratio),
            milliseconds(source.rtt_ms),
            source.cpu_seconds,
        ));
    }
    lines.push(format!(
        "{} in {:.2} s: {}, loss {}, {:.2} s of this processor, Jain's index {:.4}",
        format_bytes(report.bytes),
        report.seconds,
        rate(report.goodput_bps),
        percent(report.loss_ratio),
        report.cpu_seconds,
        report.jain_index,
    ));
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use inhaul_mover::BenchSource;

    #[test]
    fn summary_has_a_line_for_each_flow_and_one_for_all() {
        let source = BenchSource { address: "a:4321".to_owned(), bytes: 5_000_000, ..BenchSource::default() };
        let report = BenchReport {
            bytes: 10_000_000,
            seconds: 1.0,
            goodput_bps: 8e7,
            sources: vec![source.clone(), source],
            ..BenchReport::default()
        };
        let text = summary(&report);
        assert_eq!(text.lines().count(), 4, "{text}");
        assert!(
            text.ends_with(
                "10.0 MB in 1.00 s: 80.0 Mbit/s, loss 0.00 %, 0.00 s of this processor, Jain's index 0.0000"
            ),
            "{text}"
        );
    }
}
