//! `inhaul completions`: shell completions, made from the command line's definition.

use clap::builder::PossibleValuesParser;
use clap::{Arg, Args, Command};
use clap_complete::Shell;
use inhaul_protocols::registry::PROTOCOLS;

pub(crate) const EXAMPLES: &str = "\
Examples:
  inhaul completions bash > ~/.local/share/bash-completion/completions/inhaul
  inhaul completions zsh > ~/.zfunc/_inhaul
  inhaul completions fish > ~/.config/fish/completions/inhaul.fish";

/// The command line of `inhaul completions`.
#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// Shell that the completions are for
    #[arg(value_enum)]
    shell: Shell,
}

/// Prints completions of `program`.
pub(crate) fn run(args: &Completions, program: &Command) {
    let script = completion_script(program, args.shell);
    crate::output::announce_bytes(&script);
}

fn completion_script(program: &Command, shell: Shell) -> Vec<u8> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut for_users(program), "inhaul", &mut script);
    script
}

/// The command as users meet it: bash would be offered hidden commands too.
fn for_users(command: &Command) -> Command {
    let inner = command.get_subcommands().filter(|inner| !inner.is_hide_set()).map(for_users);
    let mut visible = Command::new(command.get_name().to_owned())
        .args(command.get_arguments().cloned().map(with_values))
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

/// The argument with the values that a user may choose from, where the command line itself takes any text: its errors
/// say more.
fn with_values(arg: Arg) -> Arg {
    match arg.get_id().as_str() {
        "transport" => arg.value_parser(PossibleValuesParser::new(PROTOCOLS.iter().map(|protocol| protocol.name))),
        "experiment" => {
            let experiments = inhaul_lab::experiments().unwrap_or_default();
            arg.value_parser(PossibleValuesParser::new(experiments.into_iter().map(|experiment| experiment.name)))
        }
        _ => arg,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Cli;
    use clap::{CommandFactory, ValueEnum};

    fn completion_script(shell: Shell) -> Vec<u8> {
        super::completion_script(&Cli::command(), shell)
    }

    #[test]
    fn completions_know_every_command_and_flag_in_every_shell() {
        for &shell in Shell::value_variants() {
            let script = String::from_utf8(completion_script(shell)).unwrap();
            for command in Cli::command().get_subcommands().filter(|command| !command.is_hide_set()) {
                assert!(script.contains(command.get_name()), "{shell}: {}", command.get_name());
                for flag in command.get_arguments().filter_map(Arg::get_long) {
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
    fn completions_offer_transports_experiments_and_directories() {
        let experiments = ["gtp-2004/fig7", "eval-2004/"];
        for (shell, experiments) in [(Shell::Bash, &experiments[..]), (Shell::Zsh, &experiments), (Shell::Fish, &[])] {
            let script = String::from_utf8(completion_script(shell)).unwrap();
            // The script of fish offers nothing for arguments without a flag.
            for name in ["fhstcp", "highspeed"].iter().chain(experiments) {
                assert!(script.contains(name), "{shell}: {name}");
            }
        }
        let zsh = String::from_utf8(completion_script(Shell::Zsh)).unwrap();
        assert!(zsh.contains("_files -/") && zsh.contains("_files"), "{zsh}");
    }

    #[test]
    fn completions_of_bash_offer_transports_to_a_user() {
        let dir = tempfile::tempdir().unwrap();
        let script = dir.path().join("inhaul.bash");
        std::fs::write(&script, completion_script(Shell::Bash)).unwrap();
        let offered = |words: &str| {
            let count = words.split(' ').count();
            let program = format!(
                ". {}; COMP_WORDS=({words} ''); COMP_CWORD={count}; _inhaul inhaul '' {}; echo \"${{COMPREPLY[*]}}\"",
                script.display(),
                words.rsplit(' ').next().unwrap(),
            );
            let output = std::process::Command::new("bash").args(["--norc", "-c", &program]).output().unwrap();
            String::from_utf8(output.stdout).unwrap()
        };
        if std::process::Command::new("bash").arg("--version").output().is_err() {
            println!("skipped: there is no bash here");
            return;
        }
        assert!(offered("inhaul get --transport").split_whitespace().any(|word| word == "cubic"));
        assert!(offered("inhaul lab run").split_whitespace().any(|word| word == "gtp-2004/fig7"));
        assert!(offered("inhaul").split_whitespace().any(|word| word == "doctor"));
    }
}
