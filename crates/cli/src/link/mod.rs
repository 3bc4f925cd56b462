//! `inhaul link`: programs over emulated links between network namespaces.

mod emulation;
mod failure;
mod report;
mod run;
mod shell;
mod table;

use clap::{Args, Subcommand};
use inhaul_emu::Stage;

pub(crate) use failure::Failure;
use run::Run;
use shell::Shell;

/// What `inhaul link` can do.
#[derive(Debug, Subcommand)]
pub(crate) enum Link {
    /// Open a shell or run a command in a host of an emulated network
    #[command(after_help = shell::EXAMPLES)]
    Shell(Shell),
    /// Run commands in hosts of an emulated network, and report on its links
    #[command(after_help = run::EXAMPLES)]
    Run(Run),
    /// Keep the namespaces of an emulated network; inhaul starts this by itself
    #[command(hide = true)]
    Keeper(Keeper),
}

#[derive(Debug, Args)]
pub(crate) struct Keeper {
    /// Which of the two keeper processes this is
    #[arg(value_parser = stage)]
    stage: Stage,
}

pub(crate) fn run(command: &Link) -> Result<(), Failure> {
    match command {
        Link::Shell(args) => shell::shell(args),
        Link::Run(args) => run::run(args),
        // Its messages go over its socket.
        Link::Keeper(Keeper { stage }) => {
            inhaul_emu::run_keeper(*stage);
            Ok(())
        }
    }
}

fn stage(name: &str) -> Result<Stage, String> {
    Stage::named(name).ok_or_else(|| "this is for the program itself".to_owned())
}
