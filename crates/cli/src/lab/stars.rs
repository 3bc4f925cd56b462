//! `inhaul lab stars`: GTP over random star topologies.

use clap::Args;
use inhaul_base::Bitrate;
use inhaul_base::table::{Align, Table};
use inhaul_lab::stars::{Kind, Knowledge, Star, Total, Verdict, total};
use serde::Serialize;

use super::drawn::{Drawn, not_set, run_all};
use super::failure::Failure;
use crate::output::announce;
use crate::output::to_json;

pub(super) const EXAMPLES: &str = "\
Each seed draws a star of 3 to 12 senders at random: rates, round-trip times, queues,
packet sizes, limits of senders, joins and leaves, and disturbances. inhaul compares the
rates after each join and leave with max-min fairness. For more, see
experiments/beyond/random-stars/README.md.

Examples:
  Two hundred stars, and the same with given (true) capacities:
    inhaul lab stars --seeds 1-200
    inhaul lab stars --seeds 1-200 --control paper
  One of them, event by event; then its scenario as a file:
    inhaul lab stars --seeds 17 --events
    inhaul lab stars --seeds 17 --print > star-17.toml
    inhaul lab sim star-17.toml --plot star-17.svg";

#[derive(Debug, Args)]
#[command(next_help_heading = "Run options")]
pub(crate) struct Stars {
    #[command(flatten)]
    drawn: Drawn,
    /// Only stars with this disturbance: clean (none), loss, jitter or cross (cross traffic); can be repeated
    #[arg(long, value_name = "KIND")]
    kind: Vec<Kind>,
    /// Only stars whose access link has this rate, like '1 Gbit/s'; can be repeated
    #[arg(long, value_name = "RATE")]
    access: Vec<Bitrate>,
    /// Give all hosts the scheduling delays of a recorded host; see 'inhaul lab run --help'
    #[arg(long, value_name = "NAME")]
    noise: Option<String>,
}

/// All stars together, as JSON.
#[derive(Serialize)]
pub(crate) struct Summary {
    control: &'static str,
    total: Total,
}

pub(super) fn run(args: &Stars) -> Result<(), Failure> {
    let is_wanted = |star: &Star| {
        (args.kind.is_empty() || args.kind.contains(&star.kind))
            && (args.access.is_empty() || args.access.iter().any(|rate| rate.bps() == star.access_bps))
    };
    let stars: Vec<Star> = args.drawn.seeds.clone().map(Star::of).filter(is_wanted).collect();
    if stars.is_empty() {
        let text = "the seeds draw no such star: name more --seeds, or leave out --kind and --access";
        return Err(Failure::Usage(text.to_owned()));
    }
    let knowledge = args.drawn.knowledge();
    if args.drawn.print {
        stars.iter().for_each(|star| announce(star.scenario(knowledge).trim_end()));
        return Ok(());
    }
    let verdicts = run_stars(&stars, knowledge, args)?;
    if args.drawn.json {
        verdicts.iter().for_each(|verdict| announce(&to_json(verdict)));
        announce(&to_json(&Summary { control: args.drawn.control.name(), total: total(&verdicts) }));
    } else {
        if args.drawn.events {
            verdicts.iter().for_each(|verdict| announce(events(verdict).trim_end()));
        }
        announce(table(&verdicts).trim_end());
    }
    match verdicts.iter().filter(|verdict| !verdict.valid).count() {
        0 => Ok(()),
        invalid => Err(Failure::NotValid(invalid)),
    }
}

fn run_stars(stars: &[Star], knowledge: Knowledge, args: &Stars) -> Result<Vec<Verdict>, Failure> {
    let mut set = args.drawn.set.clone();
    set.extend(args.noise.iter().map(|name| ("noise".to_owned(), format!("{name:?}"))));
    let verdicts = run_all(stars, args.drawn.threads, "stars", |star| star.run(knowledge, &set));
    // With --noise, the noise may be the cause.
    let refused = |error| if args.noise.is_some() { Failure::from(error) } else { not_set(error) };
    verdicts.into_iter().map(|verdict| verdict.map_err(refused)).collect()
}

fn events(verdict: &Verdict) -> String {
    let mut text = format!(
        "star {}: {}, {}, excess loss {:.3} %{}\n",
        verdict.seed,
        verdict.kind.name(),
        Bitrate::from_bps(verdict.access_bps),
        verdict.excess_loss * 100.0,
        if verdict.valid { "" } else { ", not valid" }
    );
    for event in &verdict.events {
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

fn table(verdicts: &[Verdict]) -> String {
    let mut table = Table::new([Align::Left].into_iter().chain([Align::Right; 6]).chain([Align::Left]));
    table.row(["stars", "", "joins (3, 8)", "leaves (3, 8)", "worst", "of ideal, least", "loss %, most"]);
    let mut add = |name: &str, verdicts: Vec<&Verdict>| {
        if !verdicts.is_empty() {
            table.row(cells(name, &total(verdicts)));
        }
    };
    add("all", verdicts.iter().collect());
    for kind in Kind::ALL {
        add(kind.name(), verdicts.iter().filter(|verdict| verdict.kind == kind).collect());
    }
    let mut rates: Vec<u64> = verdicts.iter().map(|verdict| verdict.access_bps).collect();
    rates.sort_unstable();
    rates.dedup();
    for bps in rates {
        let name = Bitrate::from_bps(bps).to_string();
        add(&name, verdicts.iter().filter(|verdict| verdict.access_bps == bps).collect());
    }
    table.to_string()
}

fn cells(name: &str, t: &Total) -> [String; 8] {
    let within = |counts: [usize; 3]| format!("{}, {} / {}", counts[1], counts[2], counts[0]);
    [
        name.to_owned(),
        t.stars.to_string(),
        within(t.joins),
        within(t.leaves),
        format!("{:.3}", t.worst),
        format!("{:.3}, {:.3}", t.aggregate, t.aggregate_min),
        format!("{:.4}, {:.3}", t.excess_loss * 100.0, t.excess_loss_max * 100.0),
        if t.invalid > 0 { format!("{} not valid", t.invalid) } else { String::new() },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::documented::assert_documented;

    fn verdict() -> Verdict {
        Star::of(3).run(Knowledge::Found, &[]).unwrap()
    }

    #[test]
    fn verdict_and_summary_have_the_documented_fields() {
        let verdict = verdict();
        assert_documented("A random star", &verdict);
        assert_documented("All random stars", &Summary { control: "default", total: total([&verdict]) });
    }
}
