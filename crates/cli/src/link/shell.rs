//! `inhaul link shell`.

use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};
use std::time::Duration;

use clap::Args;
use inhaul_emu::{Emulator, Exit, Report, SpawnOptions, Stream};

use super::emulation::{COMMANDS, Emulation, flag_on, is_set};
use super::failure::Failure;
use crate::output::{say, warn};

pub(super) const EXAMPLES: &str = "\
docs/link.md explains the emulator, and docs/scenario.md the format of SCENARIO. The exit
code is that of the command, or 13 if it is 0 and this machine was too slow.

Examples:
  A shell in the scenario's first host; the other hosts have names that resolve:
    inhaul link shell star.toml
  One command, in the host 'near':
    inhaul link shell star.toml --node near -- ping -c 3 receiver";

/// How often signals are looked for.
const TICK: Duration = Duration::from_millis(100);

/// The command line of `inhaul link shell`.
#[derive(Debug, Args)]
pub(crate) struct Shell {
    #[command(flatten)]
    emulation: Emulation,
    /// Host to run in [default: the first host of the scenario]
    #[arg(long, value_name = "HOST", help_heading = COMMANDS)]
    node: Option<String>,
    /// Command and its arguments [default: $SHELL]
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

pub(super) fn shell(args: &Shell) -> Result<(), Failure> {
    // Ctrl-C is for the command: the emulator goes on until that has ended.
    let _ignored = flag_on(&[signal_hook::consts::SIGINT, signal_hook::consts::SIGQUIT], true)?;
    let stop = flag_on(&[signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP], false)?;
    let (title, emulator) = args.emulation.start()?;
    let first = emulator.grid().hosts.first().map(|host| host.name.clone()).unwrap_or_default();
    let node = args.node.clone().unwrap_or(first);
    let command = command_of(args, &node);
    if args.command.is_empty() {
        say(&welcome(&title, &emulator, &node)?);
    }
    emulator.begin();
    let options =
        SpawnOptions { stdin: Stream::Inherit, stdout: Stream::Inherit, stderr: Stream::Inherit, on_terminal: true };
    let mut process = emulator.spawn(&node, &command, options)?;
    let exit = loop {
        if is_set(&stop) {
            return Err(Failure::Interrupted);
        }
        if let Some(exit) = process.wait_for(TICK)? {
            break exit;
        }
    };
    finish(&emulator.stop()?, exit)
}

fn command_of(args: &Shell, node: &str) -> Command {
    let shell = || std::env::var("SHELL").ok().filter(|shell| !shell.is_empty()).unwrap_or("/bin/sh".to_owned());
    let mut command = match args.command.split_first() {
        Some((program, arguments)) => {
            let mut command = Command::new(program);
            command.args(arguments);
            command
        }
        None => Command::new(shell()),
    };
    command.env("INHAUL_NODE", node);
    command
}

/// Where one is, and who else is there.
fn welcome(title: &str, emulator: &Emulator, node: &str) -> Result<String, Failure> {
    let here = emulator.address_of(node)?;
    let mut text = format!("{title}\nThis is {node} ({here}); exit leaves. The other hosts, by name or address:\n");
    for (name, address) in emulator.addresses().filter(|(name, _)| *name != node) {
        text += &format!("  {name}  {address}\n");
    }
    Ok(text)
}

/// Ends with the command's own exit code, or if that is 0, with the emulator's.
fn finish(report: &Report, exit: Exit) -> Result<(), Failure> {
    for reason in &report.reasons {
        warn(reason);
    }
    match exit_code(exit.status) {
        0 if report.valid => Ok(()),
        0 => Err(Failure::Invalid),
        code => Err(Failure::Command(code)),
    }
}

/// The exit code of a command, as shells have it: 128 and the number of the signal that ended it.
fn exit_code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)
}
