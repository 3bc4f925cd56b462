//! Failures of the laboratory's commands.

use std::io;
use std::path::PathBuf;

use inhaul_lab::{ExperimentError, ScenarioError};

use crate::exit;

/// Why `inhaul lab` failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The command line or a scenario is wrong.
    Usage(String),
    /// A file cannot be read.
    Unreadable(PathBuf, io::Error),
    /// A file cannot be written.
    Unwritable(PathBuf, io::Error),
    /// A bug.
    Internal(String),
    /// This host or this user does not permit it.
    Forbidden(String),
    /// This number of checks failed. They were printed.
    Failed(usize),
    /// This number of runs is not valid. The reasons were printed.
    NotValid(usize),
    /// This number of checks became worse. They were printed.
    Worse(usize),
}

impl Failure {
    /// The message for standard error.
    pub(crate) fn message(&self) -> String {
        match self {
            Self::Usage(message) | Self::Internal(message) | Self::Forbidden(message) => message.clone(),
            Self::Unreadable(path, error) => format!("cannot read {}: {error}", path.display()),
            Self::Unwritable(path, error) => format!("cannot write {}: {error}", path.display()),
            Self::Failed(1) => "a check failed".to_owned(),
            Self::Failed(count) => format!("{count} checks failed"),
            Self::NotValid(1) => "the run is not valid".to_owned(),
            Self::NotValid(count) => format!("{count} runs are not valid"),
            Self::Worse(1) => "one thing became worse: it was right in A and is not in B".to_owned(),
            Self::Worse(count) => format!("{count} things became worse: they were right in A and are not in B"),
        }
    }

    /// The program's exit code.
    pub(crate) fn code(&self) -> u8 {
        use inhaul_mover::ErrorKind;
        match self {
            Self::Usage(_) => exit::code(ErrorKind::Usage),
            Self::Unreadable(..) => exit::code(ErrorKind::PathNotFound),
            Self::Unwritable(..) => exit::code(ErrorKind::Destination),
            Self::Internal(_) => exit::code(ErrorKind::Internal),
            Self::Forbidden(_) => exit::FORBIDDEN,
            Self::Failed(_) | Self::NotValid(_) | Self::Worse(_) => exit::CHECK_FAILED,
        }
    }
}

impl From<Failure> for exit::Failure {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Failed(_) | Failure::NotValid(_) | Failure::Worse(_) => {
                Self::reported(failure.code(), Some(failure.message()))
            }
            _ => Self::new(failure.code(), failure.message()),
        }
    }
}

impl From<ScenarioError> for Failure {
    fn from(error: ScenarioError) -> Self {
        Self::Usage(error.to_string())
    }
}

impl From<ExperimentError> for Failure {
    fn from(error: ExperimentError) -> Self {
        match error {
            ExperimentError::Broken { .. } => Self::Internal(error.to_string()),
            _ => Self::Usage(error.to_string()),
        }
    }
}
