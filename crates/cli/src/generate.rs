//! Shell completions and man pages, from the command line's own definition.

use std::io::Write;
use std::path::Path;

use clap::{Command, CommandFactory};
use clap_complete::Shell;
use inhaul_mover::MoveError;

use crate::args::{Cli, Completions, Man};

/// `inhaul completions`.
pub(crate) fn completions(args: &Completions) {
    let script = completion_script(args.shell);
    // A reader that has gone away is no error of ours.
    let _ = std::io::stdout().lock().write_all(&script);
}

fn completion_script(shell: Shell) -> Vec<u8> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut for_users(&Cli::command()), "inhaul", &mut script);
    script
}

/// The command as users meet it: bash would be offered hidden commands too.
fn for_users(command: &Command) -> Command {
    let inner = command.get_subcommands().filter(|inner| !inner.is_hide_set()).map(for_users);
    let mut visible = Command::new(command.get_name().to_owned())
        .args(command.get_arguments().cloned())
        .groups(command.get_groups().cloned())
        .subcommands(inner);
    if let Some(about) = command.get_about() {
        visible = visible.about(about.clone());
    }
    if let Some(version) = command.get_version() {
        visible = visible.version(version.to_owned());
    }
    visible
}

/// `inhaul man`.
pub(crate) fn man(args: &Man) -> Result<(), MoveError> {
    write_man(&args.directory).map_err(|error| MoveError::Destination {
        detail: format!(
            "man pages cannot be written to {}: {error}; choose another directory",
            args.directory.display()
        ),
    })
}

fn write_man(directory: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(directory)?;
    clap_mangen::generate_to(Cli::command(), directory)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::ValueEnum;

    /// The names of every command that users meet, like `lab-kernel-cc-load`.
    fn names(command: &Command, prefix: &str, into: &mut Vec<String>) {
        into.push(prefix.to_owned());
        for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set()) {
            names(inner, &format!("{prefix}-{}", inner.get_name()), into);
        }
    }

    #[test]
    fn completions_know_every_command_and_flag_in_every_shell() {
        for &shell in Shell::value_variants() {
            let script = String::from_utf8(completion_script(shell)).unwrap();
            for command in Cli::command().get_subcommands().filter(|command| !command.is_hide_set()) {
                assert!(script.contains(command.get_name()), "{shell}: {}", command.get_name());
                for flag in command.get_arguments().filter_map(clap::Arg::get_long) {
                    assert!(script.contains(flag), "{shell}: {} --{flag}", command.get_name());
                }
            }
        }
    }

    #[test]
    fn completions_keep_to_themselves_what_is_hidden() {
        fn hidden(command: &Command, into: &mut Vec<String>) {
            for inner in command.get_subcommands() {
                if inner.is_hide_set() {
                    into.push(format!("{} {}", command.get_name(), inner.get_name()));
                }
                hidden(inner, into);
            }
        }
        let mut before = Vec::new();
        hidden(&Cli::command(), &mut before);
        assert!(before.contains(&"link keeper".to_owned()), "{before:?}");
        let mut after = Vec::new();
        hidden(&for_users(&Cli::command()), &mut after);
        assert_eq!(after, [""; 0]);
        for &shell in Shell::value_variants() {
            let script = String::from_utf8(completion_script(shell)).unwrap();
            assert!(!script.contains("keeper"), "{shell}");
        }
    }

    #[test]
    fn man_writes_a_page_for_every_command_and_no_other() {
        let dir = tempfile::tempdir().unwrap();
        write_man(dir.path()).unwrap();
        let mut expected = Vec::new();
        names(&Cli::command(), "inhaul", &mut expected);
        expected.sort_unstable();
        let pages = std::fs::read_dir(dir.path()).unwrap().map(|page| page.unwrap().file_name().into_string().unwrap());
        let mut found: Vec<String> = pages.map(|page| page.trim_end_matches(".1").to_owned()).collect();
        found.sort_unstable();
        assert_eq!(found, expected);
        let page = std::fs::read_to_string(dir.path().join("inhaul-get.1")).unwrap();
        assert!(page.contains("receive\\-rate") && page.contains("Examples:"), "{page}");
    }
}
