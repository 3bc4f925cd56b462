//! `inhaul bench`.

use std::net::SocketAddr;

use clap::{Args, ValueEnum};
use inhaul_base::table::{Align, Table};
use inhaul_base::{Bitrate, Span, Throughput, format_bytes, parse_bytes};
use inhaul_identity::{Key, Right, Rights, Ticket};
use inhaul_mover::{
    BenchInterval, BenchLimit, BenchOptions, BenchReport, BenchServerOptions, BenchUpdate, Memory, NamedBy, Server,
    ServerIdentity, Trust,
};

use crate::exit::{self, Failure};
use crate::options::{
    self, OUTPUT, RATES, SERVER, Security, Transport, Wire, any_address, check_policy, listen_address, net_options,
    seconds,
};
use crate::output::{announce, to_json, warn};
use crate::own_address::host_of;
use crate::signals::stop_on_signals;
use crate::summary::{milliseconds, percent, rate, unusual_policy};
use crate::trust;

/// Heading of the options that choose the measurement.
const MEASUREMENT: &str = "Measurement options";

pub(crate) const USAGE: &str = "inhaul bench [OPTIONS] HOST[:PORT]...\n       inhaul bench [OPTIONS] --server";

pub(crate) const EXAMPLES: &str = "\
A RATE is in bits per second and needs a unit: 100k, 850M or 2.5G.

Examples:
  On one host, wait for clients:
    inhaul bench --server
  On another host, receive from it for ten seconds:
    inhaul bench dtn1 -t 10
  The other direction: this host sends, the server receives and sets the rates:
    inhaul bench dtn1 -R
  Three senders into this host, 30 GB in all, as JSON:
    inhaul bench dtn1 dtn2 dtn3 -n 30G -J";

/// The command line of `inhaul bench`.
#[derive(Debug, Args)]
pub(crate) struct Bench {
    /// Run as a server: wait for clients
    #[arg(long, conflicts_with = "servers", help_heading = SERVER)]
    server: bool,
    /// With --server: address and port to listen on, for TCP and UDP
    #[arg(long, requires = "server", value_name = "ADDRESS:PORT", default_value_t = any_address())]
    #[arg(value_parser = listen_address, help_heading = SERVER)]
    listen: SocketAddr,
    #[arg(help = "Servers to measure with, as HOST[:PORT]")]
    #[arg(required_unless_present = "server", value_name = "HOST[:PORT]", value_parser = options::server)]
    servers: Vec<Server>,
    /// Duration of the measurement, in seconds
    #[arg(short = 't', long, value_name = "SECONDS", default_value_t = 10.0, conflicts_with = "bytes", value_parser = seconds)]
    #[arg(help_heading = MEASUREMENT)]
    time: f64,
    /// Total amount of data, instead of --time: bytes, like 10G or 1Gi
    #[arg(short = 'n', long, value_name = "BYTES", value_parser = parse_bytes, help_heading = MEASUREMENT)]
    bytes: Option<u64>,
    /// Number of flows to each server
    #[arg(short = 'P', long, value_name = "FLOWS", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=128))]
    #[arg(help_heading = MEASUREMENT)]
    parallel: u16,
    /// Limit of each flow, headers included [default: no limit]
    #[arg(short = 'b', long, value_name = "RATE", help_heading = RATES)]
    bitrate: Option<Bitrate>,
    /// Send to the servers instead of receiving from them
    #[arg(short = 'R', long, help_heading = MEASUREMENT)]
    reverse: bool,
    /// Print one JSON object at the end (docs/json.md)
    #[arg(short = 'J', long, help_heading = OUTPUT)]
    json: bool,
    /// Memory that both ends use: one small buffer again and again (hot), or 1 GiB from end to end (cold)
    #[arg(long, value_enum, default_value_t, help_heading = MEASUREMENT)]
    memory: MemoryArg,
    #[command(flatten)]
    pub(crate) transport: Transport,
    /// Limit on the rate that the receiver takes from all senders, headers included [default: measured]
    #[arg(long, value_name = "RATE", help_heading = RATES)]
    receive_rate: Option<Bitrate>,
    /// With --server: limit on the rate that this host sends to all clients together, headers included [default: no
    /// limit]
    #[arg(long, value_name = "RATE", requires = "server", help_heading = RATES)]
    send_rate: Option<Bitrate>,
    #[command(flatten)]
    security: Security,
    #[command(flatten)]
    wire: Wire,
}

/// See [`Memory`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum MemoryArg {
    #[default]
    Hot,
    Cold,
}

impl From<MemoryArg> for Memory {
    fn from(arg: MemoryArg) -> Self {
        match arg {
            MemoryArg::Hot => Self::Hot,
            MemoryArg::Cold => Self::Cold,
        }
    }
}

pub(crate) fn run(args: &Bench) -> Result<(), Failure> {
    let stop = stop_on_signals()?;
    if args.server && args.transport.carrier.policy.is_some() {
        let text =
            "--policy is for the side that receives and asks: leave it out; '--set policy=low' lets in no other policy";
        return Err(Failure::usage(text));
    }
    if args.server {
        let state = trust::state();
        let (key, _) = Key::load_or_make(&state.server_key())?;
        let fingerprint = key.fingerprint();
        let options = BenchServerOptions {
            listen: args.listen,
            receive_rate: args.receive_rate,
            send_rate: args.send_rate,
            send_dial: None,
            // It has no private data, and runs only while somebody measures.
            identity: ServerIdentity {
                key,
                certificate: None,
                state: None,
                public: Rights::only(Right::Read),
                plaintext: args.security.plaintext,
            },
            net: net_options(&args.wire, &args.transport, Trust::default())?,
        };
        let listening = |address: SocketAddr| {
            let mut server = Server::new(host_of(address), address.port());
            server.ticket = Ticket { fingerprint: Some(fingerprint), token: None }.into();
            announce(&format!("listening on {address}\ninhaul bench {server}#{}", server.ticket));
        };
        return Ok(inhaul_mover::bench_server(&options, &stop, listening)?);
    }
    let mut servers = args.servers.clone();
    let trust = trust::settle(&args.security, &mut servers, NamedBy::User)?;
    if args.reverse {
        args.transport.carrier.for_server()?;
    } else {
        check_policy(&args.transport, args.receive_rate)?;
    }
    let net = net_options(&args.wire, &args.transport, trust)?;
    let options = BenchOptions {
        servers,
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
        BenchUpdate::Warning(text) => warn(&text),
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

/// A row for each flow, and a line for all. All rates are over the time of the whole, so those of the flows add up.
fn summary(report: &BenchReport) -> String {
    use Align::{Left, Right};
    let mut table = Table::new([Left, Right, Right, Right, Right, Right]);
    table.row(["flow", "bytes", "rate", "loss", "RTT", "server's processor"]);
    for source in &report.sources {
        table.row([
            source.address.clone(),
            format_bytes(source.bytes),
            rate(source.goodput_bps),
            percent(source.loss_ratio),
            milliseconds(source.rtt_ms),
            format!("{:.2} s", source.cpu_seconds),
        ]);
    }
    let fairness = report.jain_index.map_or_else(String::new, |index| format!(", Jain's index {index:.4}"));
    format!(
        "- - - - - - - - - - - - - - - -\n{table}{}, loss {}, {:.2} s of this processor{fairness}{}",
        Throughput::of(report.bytes, Span::from_secs_f64(report.seconds)),
        percent(report.loss_ratio),
        report.cpu_seconds,
        unusual_policy(", ", report.policy.as_deref()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::documented::assert_documented;
    use inhaul_mover::{BenchSource, ErrorReport};

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
        assert_eq!(text.lines().count(), 5, "{text}");
        assert!(text.ends_with("10.0 MB in 1.00 s: 80.0 Mbit/s, loss 0.00 %, 0.00 s of this processor"), "{text}");
        crate::figures::assert_rate(text.lines().last().unwrap());
        let policy = Some("fair".to_owned());
        let fair = summary(&BenchReport { jain_index: Some(0.98765), policy, ..report });
        assert!(fair.ends_with(" of this processor, Jain's index 0.9877"), "{fair}");
        let low = summary(&BenchReport { policy: Some("low".to_owned()), ..BenchReport::default() });
        assert!(low.ends_with(" of this processor, policy low"), "{low}");
    }

    #[test]
    fn bench_report_has_the_documented_fields() {
        let report = BenchReport {
            sources: vec![BenchSource::default()],
            intervals: vec![BenchInterval::default()],
            error: Some(ErrorReport::default()),
            ..BenchReport::default()
        };
        assert_documented("The report of bench", &report);
    }
}
