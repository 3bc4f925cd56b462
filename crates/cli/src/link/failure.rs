//! Failures of commands over emulated links.

use std::io;
use std::path::PathBuf;

use inhaul_emu::EmuError;
use inhaul_lab::ScenarioError;

use crate::exit;

/// Why `inhaul link` failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The command line or a scenario is wrong.
    Usage(String),
    /// The scenario cannot be read.
    Unreadable(PathBuf, io::Error),
    /// No thread can be made for a command's output.
    Thread(io::Error),
    /// The emulated network could not be made, or an operation in it failed.
    Emulation(EmuError),
    /// This number of commands failed. That was printed.
    Commands(usize),
    /// The command of a shell ended with this code.
    Command(u8),
    /// The host was too slow. That was printed.
    Invalid,
    /// Ctrl-C or SIGTERM.
    Interrupted,
}

impl Failure {
    /// The message for standard error; `None` if it was printed already.
    pub(crate) fn message(&self) -> Option<String> {
        match self {
            Self::Usage(message) => Some(message.clone()),
            Self::Unreadable(path, error) => Some(format!("cannot read {}: {error}", path.display())),
            Self::Thread(error) => Some(format!("cannot start a thread: {error}")),
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
            Self::Emulation(_) | Self::Thread(_) => exit::code(ErrorKind::Internal),
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
