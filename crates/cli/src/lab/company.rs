//! `inhaul lab company`: protocols over random shared networks.

use clap::Args;
use inhaul_base::Bitrate;
use inhaul_base::table::{Align, Table};
use inhaul_lab::company::{Contestant, Criterion, Kind, Network, Total, Verdict, criteria, total};
use inhaul_protocols::registry;
use serde::Serialize;

use super::drawn::{Drawn, not_set, run_all};
use super::failure::Failure;
use super::runs::Control;
use crate::output::{announce, to_json};

pub(super) const EXAMPLES: &str = "\
Each seed draws a shared network at random: rates, round-trip times, queues, rivals, changes.
inhaul runs it with CUBIC, then with each protocol in CUBIC's place, and compares what that
protocol and its rivals have. Seeds 1 to 200 are for work on protocols; those from 1001 on are
to be run once, at the end. For more, see experiments/beyond/company/README.md.

Examples:
  GTP in forty networks (some minutes), and in two hundred:
    inhaul lab company --quick
    inhaul lab company
  Who is fair to whom:
    inhaul lab company --quick --protocol gtp --protocol cubic --protocol bbr --protocol udt
  One network: its verdict in full, its scenario as a file, and that with another rival:
    inhaul lab company --seeds 17 --events
    inhaul lab company --seeds 17 --print > network-17.toml
    inhaul lab company --seeds 17 --events --set 'flows.r*.protocol=reno'
  How much is chance: CUBIC in its own place, with other random numbers ('seed' and keys that
  begin with 'flows.own*.' change only the judged runs):
    inhaul lab company --quick --protocol cubic --set seed=99";

/// Networks of a set that '--quick' runs.
const QUICK: usize = 40;

#[derive(Debug, Args)]
#[command(next_help_heading = "Run options")]
pub(crate) struct Company {
    #[command(flatten)]
    drawn: Drawn,
    /// Only the first 40 of the seeds
    #[arg(long)]
    quick: bool,
    /// The protocol to judge; repeat it to compare protocols with each other [default: gtp]
    #[arg(long, value_name = "NAME", value_parser = protocol)]
    protocol: Vec<String>,
    /// Only networks of this kind: elastic (beside long flows), steady (no rivals, joins and leaves) or changing; can be
    /// repeated
    #[arg(long, value_name = "KIND")]
    kind: Vec<Kind>,
}

fn protocol(name: &str) -> Result<String, String> {
    let known: Vec<&str> = registry::PROTOCOLS.iter().map(|protocol| protocol.name).collect();
    if known.contains(&name) { Ok(name.to_owned()) } else { Err(format!("one of: {}", known.join(", "))) }
}

/// All networks together, as JSON.
#[derive(Serialize)]
pub(crate) struct Summary {
    protocol: String,
    control: &'static str,
    total: Total,
    criteria: Vec<Criterion>,
}

pub(super) fn run(args: &Company) -> Result<(), Failure> {
    let knowledge = args.drawn.knowledge();
    let names = if args.protocol.is_empty() { vec![registry::DEFAULT.name.to_owned()] } else { args.protocol.clone() };
    let contestant = |protocol: &String| Contestant { protocol: protocol.clone(), knowledge };
    let contestants: Vec<Contestant> = names.iter().map(contestant).collect();
    let most = if args.quick { QUICK } else { usize::MAX };
    let is_wanted = |network: &Network| args.kind.is_empty() || args.kind.contains(&network.kind);
    let networks: Vec<Network> = args.drawn.seeds.clone().take(most).map(Network::of).filter(is_wanted).collect();
    if networks.is_empty() {
        return Err(none_drawn(args));
    }
    if args.drawn.print {
        for network in &networks {
            contestants.iter().for_each(|contestant| announce(network.scenario(contestant).trim_end()));
        }
        return Ok(());
    }
    let run = |network: &Network| network.run(&contestants, &args.drawn.set);
    let verdicts: Result<Vec<Vec<Verdict>>, _> =
        run_all(&networks, args.drawn.threads, "networks", run).into_iter().collect();
    let verdicts: Vec<Verdict> = verdicts.map_err(not_set)?.into_iter().flatten().collect();
    if args.drawn.json {
        verdicts.iter().for_each(|verdict| announce(&to_json(verdict)));
        contestants.iter().for_each(|contestant| announce(&to_json(&summary(contestant, &verdicts))));
    } else {
        if args.drawn.events {
            verdicts.iter().for_each(|verdict| announce(full(verdict).trim_end()));
        }
        for name in &names {
            announce(page(name, &of_protocol(name, &verdicts)).trim_end());
        }
        if names.len() > 1 {
            announce(who_to_whom(&names, &verdicts).trim_end());
        }
    }
    match verdicts.iter().filter(|verdict| !verdict.valid).count() {
        0 => Ok(()),
        invalid => Err(Failure::NotValid(invalid)),
    }
}

/// None of the seeds has drawn a network of the kinds that were asked for.
fn none_drawn(args: &Company) -> Failure {
    let mut kinds: Vec<&str> = Vec::new();
    for kind in args.kind.iter().map(|kind| kind.name()) {
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    let seeds = args.drawn.seeds.clone().take(if args.quick { QUICK } else { usize::MAX }).count();
    let kinds = kinds.join(" or ");
    let text = format!("no {kinds} network is among the {seeds} that are drawn: name more --seeds, or another --kind");
    Failure::Usage(text)
}

fn of_protocol<'a>(name: &str, verdicts: &'a [Verdict]) -> Vec<&'a Verdict> {
    verdicts.iter().filter(|verdict| verdict.protocol == name).collect()
}

fn summary(contestant: &Contestant, verdicts: &[Verdict]) -> Summary {
    let own = of_protocol(&contestant.protocol, verdicts);
    let control = if contestant.is_told() { Control::Paper } else { Control::Default };
    Summary {
        protocol: contestant.protocol.clone(),
        control: control.name(),
        total: total(own.iter().copied()),
        criteria: criteria(&own),
    }
}

/// The tables of one protocol, and how it meets the criteria.
fn page(name: &str, verdicts: &[&Verdict]) -> String {
    let parts = [company_table(name, verdicts), alone_table(name, verdicts), criteria_table(verdicts)];
    let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    parts.join("\n") + "\n"
}

/// The verdicts that are like this, under a name.
type Row<'a> = (&'a str, Vec<&'a Verdict>);

fn number(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.2}"))
}

/// The faults of some of the runs.
fn wrong(total: &Total) -> String {
    let some = |count: usize, what: &str| (count > 0).then(|| format!("{count} {what}"));
    let parts = [some(total.invalid, "not valid"), some(total.failed, "flows failed")];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// Loss and queue, with those of CUBIC behind them.
fn costs(total: &Total) -> [String; 2] {
    [
        format!("{:.3} ({:.3})", total.loss * 100.0, total.reference_loss * 100.0),
        format!("{:.1} ({:.1})", total.queue_ms, total.reference_queue_ms),
    ]
}

/// Whom the protocols are beside, in the order of the registry; several kinds of rivals come last.
fn sides(verdicts: &[&Verdict]) -> Vec<&'static str> {
    let is_there = |side: &str| verdicts.iter().any(|verdict| verdict.beside == side);
    let names = registry::PROTOCOLS.iter().map(|protocol| protocol.name);
    names.chain([Network::MIXED]).filter(|side| is_there(side)).collect()
}

fn company_table(name: &str, verdicts: &[&Verdict]) -> String {
    let all: Vec<&Verdict> = verdicts.iter().copied().filter(|verdict| verdict.kind == Kind::Elastic).collect();
    let mut rows: Vec<Row<'_>> = vec![("all", all.clone())];
    let like = |is_meant: &dyn Fn(&Verdict) -> bool| all.iter().copied().filter(|v| is_meant(v)).collect::<Vec<_>>();
    rows.extend(sides(&all).into_iter().map(|side| (side, like(&|verdict| verdict.beside == side))));
    rows.push(("up to 5 ms of queue", like(&|verdict| verdict.queue_limit_ms <= 5.0)));
    rows.push(("up to 50 ms", like(&|v| v.queue_limit_ms > 5.0 && v.queue_limit_ms <= 50.0)));
    rows.push(("longer", like(&|verdict| verdict.queue_limit_ms > 50.0)));
    let mut table = Table::new([Align::Left].into_iter().chain([Align::Right; 7]).chain([Align::Left]));
    let title = format!("{name} beside");
    table.row([
        &title,
        "",
        "fair (wider)",
        "share (least, most)",
        "keep half (median)",
        "left right",
        "loss %",
        "queue ms",
    ]);
    for (row, verdicts) in rows.into_iter().filter(|(_, verdicts)| !verdicts.is_empty()) {
        let total = total(verdicts);
        let c = &total.company;
        let [loss, queue] = costs(&total);
        table.row([
            row.to_owned(),
            total.networks.to_string(),
            format!("{} ({})", c.fair, c.between),
            format!("{} ({}, {})", number(c.share_median), number(c.share_min), number(c.share_max)),
            format!("{} / {} ({})", c.kept_half, c.rivals, number(c.kept_median)),
            format!("{} / {}", c.left_right, c.left),
            loss,
            queue,
            wrong(&total),
        ]);
    }
    if all.is_empty() { String::new() } else { table.to_string() }
}

fn alone_table(name: &str, verdicts: &[&Verdict]) -> String {
    let like =
        |is_meant: &dyn Fn(&Verdict) -> bool| verdicts.iter().copied().filter(|v| is_meant(v)).collect::<Vec<_>>();
    let rows: [Row<'_>; 3] = [
        ("steady", like(&|verdict| verdict.has_goals)),
        ("steady, tiny", like(&|verdict| verdict.kind == Kind::Steady && !verdict.has_goals)),
        ("changing", like(&|verdict| verdict.kind == Kind::Changing)),
    ];
    let mut table = Table::new([Align::Left].into_iter().chain([Align::Right; 7]).chain([Align::Left]));
    let title = format!("{name} alone");
    table.row([&title, "", "of ideal (least)", "joins (3, 8)", "leaves (3, 8)", "worst", "loss %", "queue ms"]);
    let mut is_empty = true;
    for (row, verdicts) in rows.into_iter().filter(|(_, verdicts)| !verdicts.is_empty()) {
        is_empty = false;
        let total = total(verdicts);
        let a = &total.alone;
        let [loss, queue] = costs(&total);
        let within = |counts: [usize; 3]| format!("{}, {} / {}", counts[1], counts[2], counts[0]);
        table.row([
            row.to_owned(),
            total.networks.to_string(),
            format!("{} ({})", number3(a.aggregate), number3(a.aggregate_min)),
            within(a.joins),
            within(a.leaves),
            number(a.worst),
            loss,
            queue,
            wrong(&total),
        ]);
    }
    if is_empty { String::new() } else { table.to_string() }
}

fn number3(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.3}"))
}

fn criteria_table(verdicts: &[&Verdict]) -> String {
    let mut table = Table::new([Align::Left, Align::Right, Align::Right, Align::Left]);
    table.row(["criterion", "wanted", "found", ""]);
    let criteria = criteria(verdicts);
    for criterion in &criteria {
        let met = if criterion.met { "met" } else { "missed" };
        table.row([criterion.what, criterion.wanted, &criterion.found, met]);
    }
    if criteria.is_empty() { String::new() } else { table.to_string() }
}

/// One page of all protocols: each one's rate over CUBIC's, and the rate that its rivals keep, by the rivals' protocol.
fn who_to_whom(names: &[String], verdicts: &[Verdict]) -> String {
    let sides = sides(&verdicts.iter().collect::<Vec<_>>());
    let mut table = Table::new([Align::Left].into_iter().chain(vec![Align::Right; sides.len() + 1]));
    table.row(["share, kept (medians)", "all"].into_iter().chain(sides.iter().copied()));
    for name in names {
        let own = of_protocol(name, verdicts);
        let cell = |side: Option<&str>| {
            let is_meant = |verdict: &&Verdict| side.is_none_or(|side| verdict.beside == side);
            let company = total(own.iter().copied().filter(is_meant)).company;
            format!("{}, {}", number(company.share_median), number(company.kept_median))
        };
        let cells = [name.clone(), cell(None)].into_iter().chain(sides.iter().map(|side| cell(Some(side))));
        table.row(cells);
    }
    table.to_string()
}

/// The verdict on a network, in full.
fn full(verdict: &Verdict) -> String {
    let v = verdict;
    let rate = |bps: f64| Bitrate::from_bps(bps as u64).to_string();
    let mut text = format!(
        "network {}: {}, {}, {:.1} ms, queue {:.1} ms {:?}, {:?}; {}{}\n",
        v.seed,
        v.kind.name(),
        Bitrate::from_bps(v.rate_bps),
        v.rtt_ms,
        v.queue_limit_ms,
        v.discipline,
        v.place,
        v.about,
        if v.valid { "" } else { "; not valid" }
    );
    let ends = [(&v.protocol[..], &v.own), (Contestant::REFERENCE, &v.reference)];
    for (name, had) in ends {
        text += &format!(
            "  {name:6} {:>12}  loss {:.3} %  queue {:.1} ms{}\n",
            rate(had.goodput_bps),
            had.loss * 100.0,
            had.queue_ms,
            had.aggregate.map_or_else(String::new, |part| format!("  of ideal {part:.3}"))
        );
    }
    if let Some(share) = v.share {
        text += &format!("  share {share:.2}, max-min {}\n", rate(v.ideal_bps));
    }
    for rival in &v.rivals {
        text += &format!("  {:6} {:>12}  keeps {}\n", rival.protocol, rate(rival.goodput_bps), number(rival.kept));
    }
    if let Some(after) = &v.after {
        text += &format!(
            "  after they left: {:.3} of the link, queue {:.1} ms ({}: {:.3}, {:.1} ms)\n",
            after.used,
            after.queue_ms,
            Contestant::REFERENCE,
            after.reference_used,
            after.reference_queue_ms
        );
    }
    for event in &v.events {
        text += &format!(
            "  {:8.3} s  {:5}  {:2} flows  after {:>5} intervals of {:3.0} ms  worst {:.3}  aggregate {:.3}\n",
            event.at_s,
            if event.is_join { "join" } else { "leave" },
            event.flows,
            event.intervals.map_or_else(|| "never".to_owned(), |intervals| format!("{intervals:.1}")),
            event.interval_s * 1e3,
            event.worst,
            event.aggregate
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use inhaul_lab::company::{After, Discipline, Event, Kept, Measured, Place};

    use super::*;
    use crate::documented::assert_documented;

    /// Everything that a verdict can have; no network has all of it.
    fn verdict(kind: Kind, beside: &'static str) -> Verdict {
        let measured = |goodput_bps| Measured { goodput_bps, aggregate: Some(0.9), loss: 0.01, queue_ms: 3.0 };
        Verdict {
            seed: 1,
            kind,
            place: Place::Inner,
            discipline: Discipline::Red,
            rate_bps: 10_000_000,
            rtt_ms: 10.0,
            queue_limit_ms: 20.0,
            beside,
            about: "1 reno".to_owned(),
            protocol: "gtp".to_owned(),
            valid: true,
            failed: 0,
            own: measured(4e6),
            ideal_bps: 5e6,
            reference: measured(5e6),
            share: (kind == Kind::Elastic).then_some(0.8),
            rivals: vec![Kept { protocol: beside.to_owned(), goodput_bps: 5e6, kept: Some(1.1) }],
            after: Some(After { used: 0.96, queue_ms: 1.0, reference_used: 0.9, reference_queue_ms: 9.0 }),
            has_goals: kind == Kind::Steady,
            events: vec![Event {
                at_s: 1.0,
                is_join: true,
                flows: 2,
                interval_s: 0.03,
                intervals: Some(2.0),
                worst: 0.95,
                aggregate: 0.99,
            }],
            trace: "2-0".to_owned(),
        }
    }

    #[test]
    fn verdict_and_summary_have_the_documented_fields() {
        let verdicts = [verdict(Kind::Elastic, "reno"), verdict(Kind::Steady, "none")];
        assert_documented("A shared network", &verdicts[0]);
        assert_documented("All shared networks", &summary(&Contestant::of("gtp"), &verdicts));
    }

    #[test]
    fn pages_say_who_is_fair_to_whom() {
        let verdicts = [verdict(Kind::Elastic, "reno"), verdict(Kind::Elastic, "udt"), verdict(Kind::Steady, "none")];
        let text = page("gtp", &of_protocol("gtp", &verdicts));
        assert!(
            text.contains("gtp beside") && text.contains("gtp alone") && text.contains("0.80 (0.80, 0.80)"),
            "{text}"
        );
        assert!(text.contains("median share") && text.contains("met") && text.contains("missed"), "{text}");
        let matrix = who_to_whom(&["gtp".to_owned()], &verdicts);
        let lines: Vec<Vec<&str>> = matrix.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[0], ["share,", "kept", "(medians)", "all", "reno", "udt"]);
        assert_eq!(lines[1], ["gtp", "0.80,", "1.10", "0.80,", "1.10", "0.80,", "1.10"]);
        assert!(full(&verdicts[0]).contains("share 0.80"));
    }

    #[test]
    fn protocol_is_a_registered_one() {
        assert_eq!(protocol("bbr3"), Ok("bbr3".to_owned()));
        assert!(protocol("quic").unwrap_err().contains("gtp"));
    }
}
