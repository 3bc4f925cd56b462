//! Comparisons as a table.

use std::fmt::Write;

use serde::Serialize;

use crate::Setting;
use crate::judge::{Both, Judgement, Shares};

/// A setting and its comparison.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Name of the setting.
    pub setting: String,
    /// Seeds that were averaged over.
    pub seeds: u64,
    /// Why it is known not to agree, when it does not.
    pub known_difference: Option<&'static str>,
    /// The comparison.
    #[serde(flatten)]
    pub judgement: Judgement,
}

impl Row {
    /// The row of a setting.
    pub fn new(setting: &Setting, judgement: Judgement) -> Self {
        let Setting { name, seeds, known_difference, .. } = setting;
        Self { setting: name.clone(), seeds: *seeds, known_difference: *known_difference, judgement }
    }

    /// Whether it agrees, or is known not to.
    pub fn is_expected(&self) -> bool {
        self.judgement.agrees || self.known_difference.is_some()
    }

    fn verdict(&self) -> String {
        match self.known_difference {
            _ if self.judgement.agrees => "yes".into(),
            Some(why) => format!("**no**: {why}"),
            None => "**no**".into(),
        }
    }
}

/// bench/NS3.md: the method of the comparison, and the rows.
pub fn page(rows: &[Row]) -> String {
    format!("{}{}", include_str!("page.md"), table(rows))
}

/// The rows as a Markdown table.
pub fn table(rows: &[Row]) -> String {
    let mut out = String::from(
        "| setting | seeds | goodput ns-3 | ours | difference | first flow's share ns-3 | ours | settled | trajectories differ by \
         | mean window ns-3 | ours | agree |\n|---|---|---|---|---|---|---|---|---|---|---|---|\n",
    );
    for row in rows {
        let Judgement { goodput_mbps, window_packets, shares, .. } = &row.judgement;
        let Both { ours, ns3 } = goodput_mbps;
        let share = |figure: &dyn Fn(&Shares) -> String| shares.as_ref().map_or_else(String::new, figure);
        // Writing to a string does not fail.
        let _ = writeln!(
            out,
            "| {} | {} | {ns3:.2} | {ours:.2} | {:+.1} % | {} | {} | {} | {} | {:.0} | {:.0} | {} |",
            row.setting,
            row.seeds,
            goodput_mbps.difference() * 100.0,
            share(&|s| format!("{:.3}", s.first.ns3)),
            share(&|s| format!("{:.3}", s.first.ours)),
            share(&|s| if s.settled { "yes" } else { "no" }.into()),
            share(&|s| format!("{:.3}", s.trajectory_difference)),
            window_packets.ns3,
            window_packets.ours,
            row.verdict(),
        );
    }
    out
}
