//! `inhaul link`: programs over emulated links between network namespaces.

mod run;
mod shell;
mod table;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::{fs, io};

use clap::{Args, Subcommand, ValueEnum};
use inhaul_emu::{EmuError, Emulator, Options, Stage, Superpackets, Wait};
use inhaul_lab::emu::{Emulated, emulated};
use inhaul_lab::{Scenario, ScenarioError};

use crate::args::OUTPUT;
use crate::exit;
use crate::lab::key_and_value;

/// Headings of the options.
const EMULATION: &str = "Emulation options";
const COMMANDS: &str = "Command options";

/// What `inhaul link` can do.
#[derive(Debug, Subcommand)]
pub(crate) enum Link {
    /// Open a shell, or run a command, in a host of a scenario's network
    #[command(after_help = SHELL_EXAMPLES)]
    Shell(Shell),
    /// Run commands in hosts of a scenario's network, and report what its links did
    #[command(after_help = RUN_EXAMPLES)]
    Run(Run),
    /// Keep the namespaces of a grid; for the program itself
    #[command(hide = true)]
    Keeper(Keeper),
}

const SHELL_EXAMPLES: &str = "\
docs/link.md explains it, docs/scenario.md is the reference of the file. The exit code is
the command's.

Examples:
  A shell in the scenario's first host; the other hosts have names that resolve:
    inhaul link shell star.toml
  One command, in the host 'near':
    inhaul link shell star.toml --node near -- ping -c 3 receiver";

const RUN_EXAMPLES: &str = "\
docs/link.md explains it, docs/scenario.md is the reference of the file. The exit code is
13 when this machine was too slow for the results to be valid, 14 when a command failed.

Examples:
  A server in one host, a client in another:
    inhaul link run star.toml --background receiver 'iperf3 -s' --on near 'iperf3 -c receiver'
  Two senders at once, on a host with a processor to spare:
    inhaul link run star.toml --wait spin --background receiver 'inhaul bench --server' \\
      --on near 'inhaul bench -R receiver' --on far 'inhaul bench -R receiver'";

/// What every command takes that emulates a network.
#[derive(Clone, Debug, Args)]
pub(crate) struct Emulation {
    /// The scenario, a TOML file; it needs a network, but no flows
    #[arg(value_name = "SCENARIO")]
    scenario: PathBuf,
    /// How the emulator waits: spinning is exact and takes a processor, sleeping is up to 50 us late
    #[arg(long, value_enum, default_value_t, help_heading = EMULATION)]
    wait: WaitArg,
    /// Keep all processors awake, for virtual machines whose host is slow to give an idle one back. The threads that do so
    /// yield to all others. If there are several processors, the emulator gets one for itself
    #[arg(long, help_heading = EMULATION)]
    awake: bool,
    /// Whether TCP segments cross the devices many at a time [auto: at hosts with a path of 1 Gbit/s or more]
    #[arg(long, value_enum, default_value_t, help_heading = EMULATION)]
    superpackets: SuperpacketsArg,
    /// Seed of everything random [default: the scenario's]
    #[arg(long, value_name = "N", help_heading = EMULATION)]
    seed: Option<u64>,
    /// Change a value of the scenario, like 'topology.star.access.loss=1 %'; can be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_and_value, help_heading = EMULATION)]
    set: Vec<(String, String)>,
}

#[derive(Debug, Args)]
pub(crate) struct Shell {
    #[command(flatten)]
    emulation: Emulation,
    /// The host to be in [default: the first of the scenario]
    #[arg(long, value_name = "HOST", help_heading = COMMANDS)]
    node: Option<String>,
    /// The command and its arguments [default: $SHELL]
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Run {
    #[command(flatten)]
    emulation: Emulation,
    /// Run a shell command in a host. Can be repeated: all start at once, and the run ends when all have ended
    #[arg(long, num_args = 2, value_names = ["HOST", "COMMAND"], required = true, help_heading = COMMANDS)]
    on: Vec<String>,
    /// Start a shell command in a host before the others, and end it after them; can be repeated. The others start when it
    /// listens on a port, or after 2 s
    #[arg(long, num_args = 2, value_names = ["HOST", "COMMAND"], help_heading = COMMANDS)]
    background: Vec<String>,
    /// End the run after this time
    #[arg(long, value_name = "SECONDS", value_parser = crate::args::seconds, help_heading = COMMANDS)]
    duration: Option<f64>,
    /// Print one JSON object at the end (docs/json.md); output of the commands goes to standard error
    #[arg(long, help_heading = OUTPUT)]
    json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Keeper {
    /// Which of its two processes this is
    #[arg(value_parser = stage)]
    stage: Stage,
}

/// See [`Wait`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum WaitArg {
    #[default]
    Sleep,
    Spin,
}

impl From<WaitArg> for Wait {
    fn from(wait: WaitArg) -> Self {
        match wait {
            WaitArg::Sleep => Self::Sleep,
            WaitArg::Spin => Self::Spin,
        }
    }
}

/// See [`Superpackets`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum SuperpacketsArg {
    #[default]
    Auto,
    Always,
    Never,
}

/// Why `inhaul link` did not end well.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The command line or a scenario makes no sense.
    Usage(String),
    /// The scenario cannot be read.
    Unreadable(PathBuf, io::Error),
    /// The grid could not be made, or something in it not be done.
    Emulation(EmuError),
    /// So many commands failed, which has been said.
    Commands(usize),
    /// The command of a shell ended with this code.
    Command(u8),
    /// The host was too slow, which has been said.
    Invalid,
    /// Ctrl-C or SIGTERM.
    Interrupted,
}

impl Failure {
    /// What is said of it on standard error; `None`: enough has been said.
    pub(crate) fn message(&self) -> Option<String> {
        match self {
            Self::Usage(message) => Some(message.clone()),
            Self::Unreadable(path, error) => Some(format!("cannot read {}: {error}", path.display())),
            Self::Emulation(error) => Some(error.to_string()),
            Self::Commands(1) => Some("a command failed".to_owned()),
            Self::Commands(count) => Some(format!("{count} commands failed")),
            Self::Command(_) => None,
            Self::Invalid => Some("the run is invalid".to_owned()),
            Self::Interrupted => Some("interrupted".to_owned()),
        }
    }

    /// The program's exit code.
    pub(crate) fn code(&self) -> u8 {
        use inhaul_mover::ErrorKind;
        match self {
            Self::Usage(_) | Self::Emulation(EmuError::Grid(_) | EmuError::UnknownHost { .. }) => {
                exit::code(ErrorKind::Usage)
            }
            Self::Unreadable(..) => exit::code(ErrorKind::PathNotFound),
            Self::Emulation(EmuError::NamespacesForbidden { .. } | EmuError::TunForbidden { .. }) => exit::FORBIDDEN,
            Self::Emulation(_) => exit::code(ErrorKind::Internal),
            Self::Commands(_) => exit::COMMAND_FAILED,
            Self::Command(code) => *code,
            Self::Invalid => exit::RUN_INVALID,
            Self::Interrupted => exit::code(ErrorKind::Interrupted),
        }
    }
}

impl From<Failure> for exit::Failure {
    fn from(failure: Failure) -> Self {
        let is_reported =
            matches!(failure, Failure::Commands(_) | Failure::Command(_) | Failure::Invalid | Failure::Interrupted);
        match failure.message() {
            Some(message) if !is_reported => Self::new(failure.code(), message),
            message => Self::reported(failure.code(), message),
        }
    }
}

impl From<ScenarioError> for Failure {
    fn from(error: ScenarioError) -> Self {
        Self::Usage(error.to_string())
    }
}

impl From<EmuError> for Failure {
    fn from(error: EmuError) -> Self {
        Self::Emulation(error)
    }
}

pub(crate) fn run(command: &Link) -> Result<(), Failure> {
    match command {
        Link::Shell(args) => shell::shell(args),
        Link::Run(args) => run::run(args),
        // What it has to say goes over its socket.
        Link::Keeper(Keeper { stage }) => {
            inhaul_emu::run_keeper(*stage);
            Ok(())
        }
    }
}

impl Emulation {
    /// Reads the scenario and starts its network. What is done without is said on standard error.
    fn start(&self) -> Result<(String, Emulator), Failure> {
        let (title, Emulated { grid, left_out }) = self.read()?;
        let wait = self.wait.into();
        let superpackets = match self.superpackets {
            SuperpacketsArg::Auto => Superpackets::Auto,
            SuperpacketsArg::Always => Superpackets::Always,
            SuperpacketsArg::Never => Superpackets::Never,
        };
        let emulator = Emulator::start(grid, Options { wait, superpackets, awake: self.awake })?;
        for note in left_out.iter().chain(emulator.warnings()) {
            eprintln!("inhaul: {note}");
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

/// Pairs of host and command, as they stand after an option.
fn pairs(words: &[String]) -> impl Iterator<Item = (&str, &str)> {
    words.chunks_exact(2).map(|pair| (pair[0].as_str(), pair[1].as_str()))
}

/// A flag that signals set. `persistent` ones never do more; the others end the program at once the second time.
fn flag_on(signals: &[i32], persistent: bool) -> Result<Arc<AtomicBool>, Failure> {
    let flag = Arc::new(AtomicBool::new(false));
    let refused = |source| EmuError::System { what: "cannot handle signals", source };
    for signal in signals {
        if !persistent {
            let code = i32::from(exit::code(inhaul_mover::ErrorKind::Interrupted));
            signal_hook::flag::register_conditional_shutdown(*signal, code, Arc::clone(&flag)).map_err(refused)?;
        }
        signal_hook::flag::register(*signal, Arc::clone(&flag)).map_err(refused)?;
    }
    Ok(flag)
}

fn is_set(flag: &AtomicBool) -> bool {
    flag.load(Ordering::Relaxed)
}

fn stage(name: &str) -> Result<Stage, String> {
    Stage::named(name).ok_or_else(|| "this is for the program itself".to_owned())
}
