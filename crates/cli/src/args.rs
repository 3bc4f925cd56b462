//! The definition of the command line, and its help.
//!
//! From the definition come the parser, the help, completions, man pages, and the variables and configuration keys of
//! all flags.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::bench::{self, Bench};
use crate::completions::{self, Completions};
use crate::copy::{self, Copy};
use crate::doctor::{self, Doctor};
use crate::get::{self, Get};
use crate::key::Keys;
use crate::lab::Lab;
use crate::link::Link;
use crate::logs::LogLevel;
use crate::ls::{self, Ls};
use crate::man::{self, Man};
use crate::plan::{self, Plan};
use crate::protocols::{self, Protocols};
use crate::put::{self, Put};
use crate::serve::{self, Serve};
use crate::token::Tokens;
use crate::udt::Udt;
use crate::verify::{self, Manifest, Verify};

const EXAMPLES: &str = "\
A first transfer, from host dtn1 to this one:
  dtn1$ inhaul serve /data        # prints the address, with a ticket behind its '#'
      $ inhaul get 'inhaul://dtn1/file#TICKET' .

Exit codes:
  0 complete             6 timed out              12 check failed (lab, doctor)
  1 internal error       7 refused                13 emulation not valid (link)
  2 usage error          8 no space left          14 a command failed (link)
  3 path not found       9 destination unusable   15 not permitted on this host
  4 host unknown        10 data is wrong          16 some data is missing
  5 unreachable         11 UDP blocked           17 server not trusted
                        18 right is missing     130 interrupted

'inhaul COMMAND --help' explains a command and has examples. 'inhaul man DIR' writes
the same texts, and more, as man pages.";

/// Moves bulk data over fast, long networks. One receiver fetches from one or many senders, and sets their rates.
#[derive(Debug, Parser)]
#[command(name = "inhaul", version, after_help = EXAMPLES, max_term_width = 120)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
    #[command(flatten)]
    pub(crate) program: Program,
}

/// Options of every command.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Program options")]
pub(crate) struct Program {
    /// File with values of flags (docs/config.md) [default: inhaul/config.toml in $XDG_CONFIG_HOME or ~/.config]
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    #[arg(
        long,
        global = true,
        value_enum,
        value_name = "LEVEL",
        hide_possible_values = true,
        conflicts_with = "verbose"
    )]
    #[arg(help = "Log level on standard error: off, error, warn, info, debug or trace [default: warn]")]
    pub(crate) log: Option<LogLevel>,
    /// Log more: -v for connections and transfers, -vv for each step, -vvv for everything
    #[arg(long, short, global = true, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a server that offers directories
    #[command(after_help = serve::EXAMPLES)]
    Serve(Serve),
    /// Fetch files or directories from one or many servers, and verify them
    #[command(after_help = get::EXAMPLES, override_usage = get::USAGE)]
    Get(Get),
    /// Predict how long a get would take and what would limit it; no data is kept
    #[command(after_help = plan::EXAMPLES, override_usage = plan::USAGE)]
    Plan(Plan),
    /// Send files or directories to a server that accepts puts
    #[command(after_help = put::EXAMPLES, override_usage = put::USAGE)]
    Put(Put),
    /// Have one server fetch from others; the data goes directly between them
    #[command(after_help = copy::EXAMPLES, override_usage = copy::USAGE)]
    Copy(Copy),
    /// Verify files against a list of checksums from inhaul, sha256sum, sha512sum, b3sum or a bag (BagIt)
    #[command(after_help = verify::EXAMPLES)]
    Verify(Verify),
    /// Print a list of files and their checksums, for 'inhaul verify' and other programs
    #[command(after_help = verify::MANIFEST_EXAMPLES)]
    Manifest(Manifest),
    /// List a server's files
    #[command(after_help = ls::EXAMPLES)]
    Ls(Ls),
    /// Find what slows transfers down, on this host and on the path from a server; changes nothing
    #[command(after_help = doctor::EXAMPLES)]
    Doctor(Doctor),
    /// Make, list and revoke tokens, which give others rights at this user's server
    #[command(subcommand)]
    Token(Tokens),
    /// Show this user's keys, and say which keys of servers to trust
    #[command(subcommand)]
    Key(Keys),
    /// Measure the rate of a path from memory to memory, like iperf3
    #[command(after_help = bench::EXAMPLES, override_usage = bench::USAGE)]
    Bench(Bench),
    /// List the transport protocols and their parameters
    #[command(after_help = protocols::EXAMPLES)]
    Protocols(Protocols),
    /// Send files to, or receive files from, programs that use libudt (UDT 4)
    #[command(subcommand)]
    Udt(Udt),
    /// Print completions for a shell
    #[command(after_help = completions::EXAMPLES)]
    Completions(Completions),
    /// Write the manual as man pages
    #[command(after_help = man::EXAMPLES)]
    Man(Man),
    /// Run transfers in a simulator or an emulated network, and reproduce experiments from papers
    #[command(subcommand)]
    Lab(Lab),
    /// Run any program over emulated links on this machine
    #[command(subcommand)]
    Link(Link),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::OUTPUT;
    use clap::CommandFactory;

    #[test]
    fn cli_definition_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn parse_refuses_nonsense() {
        for line in [
            "inhaul",
            "inhaul fetch",
            "inhaul get",
            "inhaul get --metalink m",
            "inhaul get --metalink m --input-file m .",
            "inhaul get inhaul://a/x . --nonsense",
            "inhaul get inhaul://a/x . --rate fast",
            "inhaul get inhaul://a/x . --json --json-stream",
            "inhaul get inhaul://a/x . --mtu 100",
            "inhaul plan",
            "inhaul plan inhaul://a/x . --dry-run",
            "inhaul serve",
            "inhaul serve d --listen nowhere",
            "inhaul --log loudly protocols",
            "inhaul protocols -v --log info",
            "inhaul completions tcsh",
            "inhaul man",
            "inhaul ls",
            "inhaul ls http://a/b",
            "inhaul ls a/b --json --metalink",
            "inhaul doctor a b",
            "inhaul doctor --target-rate fast",
            "inhaul doctor --rate 1G",
            "inhaul put a inhaul://b/ --rate 1G",
            "inhaul get inhaul://a/x . --receive-rate 850",
            "inhaul bench",
            "inhaul bench a --server",
            "inhaul bench a -t 5 -n 5",
            "inhaul bench a -P 0",
            "inhaul bench a:0",
            "inhaul lab",
            "inhaul link",
            "inhaul link shell",
            "inhaul link run s.toml",
            "inhaul link run s.toml --on host",
            "inhaul link run s.toml --on host true --wait dozing",
            "inhaul link keeper nobody",
            "inhaul lab sim",
            "inhaul lab run gtp-2004/fig7 --plot fig7.pdf",
            "inhaul lab run gtp-2004/fig7 --set duration",
        ] {
            assert!(Cli::try_parse_from(line.split(' ')).is_err(), "{line}");
        }
    }

    #[test]
    fn every_option_is_explained_below_a_heading() {
        fn check(command: &clap::Command) {
            for argument in command.get_arguments() {
                let name = format!("{} {}", command.get_name(), argument.get_id());
                assert!(argument.get_help().is_some(), "{name}");
                let heading = argument.get_help_heading();
                assert_eq!(heading.is_some(), !argument.is_positional(), "{name}: {heading:?}");
                let is_output = ["json", "json_stream", "quiet"].contains(&argument.get_id().as_str());
                assert!(!is_output || heading == Some(OUTPUT), "{name}: {heading:?}");
            }
            command.get_subcommands().for_each(check);
        }
        Cli::command().get_subcommands().for_each(check);
    }

    #[test]
    fn every_command_has_examples_and_they_stand_last() {
        fn check(name: &str, command: &clap::Command) {
            for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set()) {
                check(&format!("{name} {}", inner.get_name()), inner);
            }
            if command.has_subcommands() || command.get_arguments().next().is_none() && name.ends_with("help") {
                return;
            }
            let text = command.get_after_help().unwrap_or_else(|| panic!("{name} has none")).to_string();
            let (_, examples) = text.split_once("Examples:\n").unwrap_or_else(|| panic!("{name} has none"));
            assert!(examples.contains("inhaul ") && !examples.contains("\n\n"), "{name}: {examples}");
            assert!(text.lines().all(|line| line.chars().count() <= 96), "{name}: {text}");
        }
        check("inhaul", &Cli::command());
    }

    #[test]
    fn rates_have_one_name_for_each_meaning() {
        fn check(command: &clap::Command) {
            for argument in command.get_arguments().filter(|arg| arg.get_id().as_str().contains("rate")) {
                let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
                let meaning = match argument.get_long().unwrap_or_default() {
                    "rate" => "Limit of each sender,",
                    "bitrate" => "Limit of each flow,",
                    "send-rate" => "imit on the rate that this host sends",
                    "client-rate" => "Limit on the rate that this host sends to each client",
                    "receive-rate" => "Limit on the rate that th",
                    "target-rate" => "Rate that transfers should reach",
                    other => panic!("{}: --{other}", command.get_name()),
                };
                assert!(help.contains(meaning), "{} {}: {help}", command.get_name(), argument.get_id());
            }
            command.get_subcommands().filter(|inner| inner.get_name() != "lab").for_each(check);
        }
        check(&Cli::command());
    }
}
