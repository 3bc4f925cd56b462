//! A flag's value from the environment or the file, and its errors.

use std::path::PathBuf;

use clap::{Arg, Command};

/// Why there is no command line to carry out.
#[derive(Debug)]
pub(crate) enum SettingsError {
    /// The command line is wrong, or asks for help.
    CommandLine(clap::Error),
    /// A variable or the file is wrong.
    Setting(String),
}

impl From<clap::Error> for SettingsError {
    fn from(error: clap::Error) -> Self {
        Self::CommandLine(error)
    }
}

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Origin {
    /// A file, and the line in it.
    File(PathBuf, usize),
    /// A variable.
    Variable(String),
}

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::File(path, line) => write!(f, "{}, line {line}", path.display()),
            Self::Variable(name) => write!(f, "variable {name}"),
        }
    }
}

/// A value for a flag.
#[derive(Clone, Debug)]
pub(super) struct Setting {
    /// The command's names below the program's own; empty for flags of all commands.
    pub(super) command: Vec<String>,
    /// The flag's name, without its dashes.
    pub(super) flag: String,
    pub(super) values: Vec<String>,
    pub(super) origin: Origin,
}

/// The flags of a command that can have values from elsewhere: all of its own but help.
pub(super) fn flags(command: &Command) -> impl Iterator<Item = (&Arg, &str)> {
    let named = command.get_arguments().filter_map(|arg| Some((arg, arg.get_long()?)));
    named.filter(|(arg, long)| !arg.is_hide_set() && !matches!(*long, "help" | "version" | "config"))
}

pub(super) fn argument<'c>(command: &'c Command, flag: &str) -> Option<&'c Arg> {
    flags(command).find(|(_, long)| *long == flag).map(|(arg, _)| arg)
}

pub(super) fn setting_error(message: impl Into<String>) -> SettingsError {
    SettingsError::Setting(message.into())
}
