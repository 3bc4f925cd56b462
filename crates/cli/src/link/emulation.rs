//! Arguments about the emulation, and the handling of signals.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::{Args, ValueEnum};
use inhaul_emu::{EmuError, Emulator, Options, Superpackets};
use inhaul_lab::Scenario;
use inhaul_lab::emu::{Emulated, emulated};

use super::failure::Failure;
use crate::exit;
use crate::options::{WaitArg, key_and_value};
use crate::output::warn;
use crate::signals;

/// Headings of the options.
const EMULATION: &str = "Emulation options";
pub(super) const COMMANDS: &str = "Command options";

/// Arguments of every command that emulates a network.
#[derive(Clone, Debug, Args)]
pub(crate) struct Emulation {
    /// TOML file of the scenario (docs/scenario.md); it needs a network, but no flows
    #[arg(value_name = "SCENARIO")]
    scenario: PathBuf,
    /// How the emulator waits: 'spin' is exact and uses one processor fully; 'sleep' is up to 50 us late
    #[arg(long, value_enum, default_value_t, help_heading = EMULATION)]
    wait: WaitArg,
    /// Keep all processors busy with threads of the lowest priority. This helps on virtual machines whose host is slow
    /// to wake an idle processor. The emulator gets one processor for itself if there are several
    #[arg(long, help_heading = EMULATION)]
    awake: bool,
    /// Whether many TCP segments cross a device at once, which saves processor time [auto: at hosts with a path of 1
    /// Gbit/s or more]
    #[arg(long, value_enum, default_value_t, help_heading = EMULATION)]
    superpackets: SuperpacketsArg,
    /// Seed of all random numbers [default: the scenario's]
    #[arg(long, value_name = "N", help_heading = EMULATION)]
    seed: Option<u64>,
    /// Change a value of the scenario, like 'topology.star.access.loss=1 %'; can be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_and_value, help_heading = EMULATION)]
    set: Vec<(String, String)>,
}

/// See [`Superpackets`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum SuperpacketsArg {
    #[default]
    Auto,
    Always,
    Never,
}

impl Emulation {
    /// Reads the scenario and starts its network. Features that cannot be emulated are named on standard error.
    pub(super) fn start(&self) -> Result<(String, Emulator), Failure> {
        let (title, Emulated { grid, left_out }) = self.read()?;
        let wait = self.wait.into();
        let superpackets = match self.superpackets {
            SuperpacketsArg::Auto => Superpackets::Auto,
            SuperpacketsArg::Always => Superpackets::Always,
            SuperpacketsArg::Never => Superpackets::Never,
        };
        let emulator = Emulator::start(grid, Options { wait, superpackets, awake: self.awake })?;
        for note in left_out.iter().chain(emulator.warnings()) {
            warn(note);
        }
        Ok((title, emulator))
    }

    fn read(&self) -> Result<(String, Emulated), Failure> {
        let unreadable = |error| Failure::Unreadable(self.scenario.clone(), error);
        let text = fs::read_to_string(&self.scenario).map_err(unreadable)?;
        let name = self.scenario.display().to_string();
        let scenario = Scenario::parse_network(&name, &text, &self.set)?;
        let [cell] = &scenario.cells[..] else {
            let message = format!(
                "{name}: these are {} scenarios; to choose one, take the sweep away with --set 'sweep=[]', and --set the \
                 values that it varies",
                scenario.cells.len()
            );
            return Err(Failure::Usage(message));
        };
        let emulated = emulated(&cell.plan, self.seed.unwrap_or(scenario.seed));
        emulated.grid.check().map_err(|error| Failure::Usage(format!("{name}: {error}")))?;
        Ok((scenario.title, emulated))
    }
}

/// A flag that signals set. `persistent` ones never do more; the others end the program at once the second time.
pub(super) fn flag_on(signals: &[i32], persistent: bool) -> Result<Arc<AtomicBool>, Failure> {
    let flag = Arc::new(AtomicBool::new(false));
    let refused = |source| EmuError::System { what: "cannot handle signals", source };
    for signal in signals {
        // `nohup` and the like: ignored signals stay ignored.
        if signals::is_ignored(*signal) {
            continue;
        }
        if !persistent {
            let code = i32::from(exit::code(inhaul_mover::ErrorKind::Interrupted));
            signal_hook::flag::register_conditional_shutdown(*signal, code, Arc::clone(&flag)).map_err(refused)?;
        }
        signal_hook::flag::register(*signal, Arc::clone(&flag)).map_err(refused)?;
    }
    Ok(flag)
}

pub(super) fn is_set(flag: &AtomicBool) -> bool {
    flag.load(Ordering::Relaxed)
}
