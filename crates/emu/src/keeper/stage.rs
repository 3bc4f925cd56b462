//! The processes that make a keeper, each this program again.

use std::os::unix::process::CommandExt;
use std::process::Command;

/// The arguments by which the program makes itself a keeper, without the last one, which names a [`Stage`].
pub const KEEPER_ARGUMENTS: [&str; 2] = ["link", "keeper"];

/// A process that leaves its process namespace stays in the old one itself, so the keeper comes about in two steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Makes the namespaces that all hosts share, starts the keeper in them and waits for its end.
    Outer,
    /// Is the keeper.
    Init,
    /// Is the parent of one command.
    Minder,
}

impl Stage {
    /// The stage by its name.
    pub fn named(name: &str) -> Option<Self> {
        [Self::Outer, Self::Init, Self::Minder].into_iter().find(|stage| stage.name() == name)
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Outer => "outer",
            Self::Init => "init",
            Self::Minder => "minder",
        }
    }
}

/// The program itself as a keeper, even if its file was replaced or removed.
pub(crate) fn keeper_command(stage: Stage) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.arg0("inhaul").args(KEEPER_ARGUMENTS).arg(stage.name());
    command
}

/// Whether this process was started as a keeper.
pub(crate) fn is_keeper() -> bool {
    std::env::args().skip(1).take(KEEPER_ARGUMENTS.len()).eq(KEEPER_ARGUMENTS)
}
