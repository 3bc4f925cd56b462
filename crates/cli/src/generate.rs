//! Shell completions and man pages, from the command line's own definition.

use std::io::Write;
use std::path::Path;

use clap::CommandFactory;
use clap_complete::Shell;
use inhaul_mover::MoveError;

use crate::args::{Cli, Completions, Man};

/// `inhaul completions`.
pub(crate) fn completions(args: &Completions) -> Result<(), MoveError> {
    let script = completion_script(args.shell);
    // A reader that has gone away is no error of ours.
    let _ = std::io::stdout().lock().write_all(&script);
    Ok(())
}

fn completion_script(shell: Shell) -> Vec<u8> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "inhaul", &mut script);
    script
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
    use clap::{Command, ValueEnum};

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
