//! Arguments about runs: which scenario or experiment, where, how often.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum, ValueHint};

use super::net::Secret;
use crate::options::{OUTPUT, WaitArg, key_and_value};

/// Heading of the options that say where experiments run.
const BACKEND: &str = "Backend options";

/// Options of every command that runs something.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Run options")]
pub(crate) struct Runs {
    /// Seed of the first repetition; later repetitions use the seeds after it [default: the scenario's]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(..=i64::MAX as u64))]
    pub(super) seed: Option<u64>,
    /// Number of runs of each case [default: the scenario's]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(super) repetitions: Option<u32>,
    /// Change a value of the scenario, like 'duration=5 s' or 'flows.*.protocol=cubic'; can be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_and_value)]
    pub(super) set: Vec<(String, String)>,
    /// Give all simulated hosts the scheduling delays of a recorded host: 'vm-idle', 'vm-busy', or a file of 'inhaul
    /// lab record-host'
    #[arg(long, value_name = "NAME")]
    pub(super) noise: Option<String>,
    /// Number of simulations at once; results do not depend on it [default: one for each processor]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(super) threads: Option<u16>,
    /// Where to run: in the simulator, with real processes over emulated links, or between real hosts (docs/net.md)
    #[arg(long, value_enum, default_value_t, help_heading = BACKEND)]
    pub(super) backend: BackendArg,
    /// With '--backend emu': how the emulator waits for packets; 'spin' is more exact and uses one processor fully
    #[arg(long, value_enum, default_value_t, help_heading = BACKEND)]
    pub(super) wait: WaitArg,
    /// With '--backend emu': keep all processors busy with threads of the lowest priority. This helps on virtual
    /// machines whose host is slow to wake an idle processor. The emulator gets one processor for itself if there are
    /// several
    #[arg(long, help_heading = BACKEND)]
    pub(super) awake: bool,
    /// With '--backend emu': maximum number of attempts at a run, if this machine is too busy to emulate it exactly.
    /// The results of a run do not influence this. The number of attempts is kept
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    #[arg(help_heading = BACKEND)]
    pub(super) attempts: u32,
    /// With '--backend net': TOML file with the addresses of the agents (docs/net.md)
    #[arg(long, value_name = "FILE", help_heading = BACKEND)]
    pub(super) hosts: Option<PathBuf>,
    #[command(flatten)]
    pub(super) secret: Secret,
    /// Print one JSON object for each run (docs/json.md)
    #[arg(long, help_heading = OUTPUT)]
    pub(super) json: bool,
    /// Write the figure to this file, .svg or .png; further figures get a number in the name
    #[arg(long, value_name = "FILE", value_parser = picture_path, value_hint = ValueHint::FilePath, help_heading = OUTPUT)]
    pub(super) plot: Option<PathBuf>,
    /// Write the flows' rates over time to this file, as CSV
    #[arg(long, value_name = "FILE", help_heading = OUTPUT)]
    pub(super) csv: Option<PathBuf>,
}

/// See [`Runs::backend`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum BackendArg {
    // The simulator.
    #[default]
    Sim,
    // The link emulator.
    Emu,
    // Real hosts.
    Net,
}

/// The command line of `inhaul lab sim`.
#[derive(Debug, Args)]
pub(crate) struct Sim {
    /// TOML file of the scenario (docs/scenario.md)
    #[arg(value_name = "FILE")]
    pub(super) scenario: PathBuf,
    #[command(flatten)]
    pub(super) runs: Runs,
}

/// The command line of `inhaul lab run`.
#[derive(Debug, Args)]
pub(crate) struct Run {
    /// Name of the experiment; 'inhaul lab list' prints all names
    #[arg(value_name = "PAPER/ITEM")]
    pub(super) experiment: String,
    /// How GTP sets its rates: 'default' measures capacities; 'paper' is gtp-2004 as published, with given capacities
    #[arg(long, value_enum, default_value_t, help_heading = "Run options")]
    pub(super) control: Control,
    /// Keep the results as DIR/PAPER/ITEM/BACKEND.json, with everything that is needed to repeat them (docs/json.md).
    /// Each run is kept when it finishes. After an early end, the same command continues
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, help_heading = OUTPUT)]
    pub(super) keep: Option<PathBuf>,
    #[command(flatten)]
    pub(super) runs: Runs,
}

/// See [`Run::control`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Control {
    // Capacities are measured.
    #[default]
    Default,
    // Capacities are given.
    Paper,
}

impl Control {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Paper => "paper",
        }
    }
}

impl Runs {
    /// Changes of the scenario beside its seed and repetitions.
    pub(super) fn changes(&self) -> Vec<(String, String)> {
        let noise = self.noise.iter().map(|name| ("noise".to_owned(), format!("{name:?}")));
        noise.chain(self.set.iter().cloned()).collect()
    }

    /// Everything that the command line changes in the scenario.
    pub(super) fn settings(&self) -> Vec<(String, String)> {
        let mut settings = self.changes();
        settings.extend(self.seed.map(|seed| ("seed".to_owned(), seed.to_string())));
        settings.extend(self.repetitions.map(|count| ("repetitions".to_owned(), count.to_string())));
        settings
    }
}

fn picture_path(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    if has_extension(&path, "svg") || has_extension(&path, "png") {
        Ok(path)
    } else {
        Err("the file's name ends in .svg or .png".to_owned())
    }
}

pub(super) fn has_extension(path: &Path, wanted: &str) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case(wanted))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn picture_path_knows_two_endings() {
        assert!(picture_path("a.svg").is_ok() && picture_path("b.PNG").is_ok());
        assert!(picture_path("a.pdf").is_err() && picture_path("svg").is_err());
    }
}
