//! The command line: what can be said, and the help that explains it.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum, ValueHint};
use inhaul_base::{Bitrate, parse_bytes};
use inhaul_mover::{Existing, Memory, Server, Source};

use crate::logs::LogLevel;
use crate::retry::Retry;
use crate::transfer::Output;

mod examples;
mod fetch;
mod values;

pub(crate) use fetch::{Fetch, Selection};
use values::{any_address, parameter};
pub(crate) use values::{listen_address, seconds, source};

/// Headings of the options that several commands have.
pub(crate) const RATES: &str = "Rate options";
pub(crate) const TRANSPORT: &str = "Transport options";
pub(crate) const FILES: &str = "File options";
pub(crate) const OUTPUT: &str = "Output options";
const SERVER: &str = "Server options";
const MEASUREMENT: &str = "Measurement options";

/// Moves bulk data over fast, long networks: one receiver fetches from one or many senders, and sets their rates.
#[derive(Debug, Parser)]
#[command(name = "inhaul", version, after_help = examples::PROGRAM, max_term_width = 120)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
    #[command(flatten)]
    pub(crate) program: Program,
}

/// What every command takes.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Program options")]
pub(crate) struct Program {
    /// File with values for flags (docs/config.md) [default: inhaul/config.toml in $XDG_CONFIG_HOME or ~/.config]
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
    #[arg(help = "How much to log on standard error: off, error, warn, info, debug or trace [default: warn]")]
    pub(crate) log: Option<LogLevel>,
    /// Log more: -v connections and transfers, -vv each step, -vvv everything
    #[arg(long, short, global = true, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Offer directories for others to fetch
    #[command(after_help = examples::SERVE)]
    Serve(Serve),
    /// Fetch files or directories, verified, from one or many servers
    #[command(after_help = examples::GET, override_usage = examples::GET_USAGE)]
    Get(Get),
    /// Predict how long a get would take and what will limit it; nothing is kept
    #[command(after_help = examples::PLAN, override_usage = examples::PLAN_USAGE)]
    Plan(Plan),
    /// Bring files or directories to a server that accepts puts
    #[command(after_help = crate::put::EXAMPLES, override_usage = crate::put::USAGE)]
    Put(crate::put::Put),
    /// Have one server fetch from others; the bytes go directly between them
    #[command(after_help = crate::copy::EXAMPLES, override_usage = crate::copy::USAGE)]
    Copy(crate::copy::Copy),
    /// Verify files by a list of checksums: inhaul's, sha256sum's, b3sum's, or a bag's
    #[command(after_help = examples::VERIFY)]
    Verify(Verify),
    /// Print a list of files and their checksums, for others to verify them by
    #[command(after_help = examples::MANIFEST)]
    Manifest(Manifest),
    /// List what a server offers
    #[command(after_help = examples::LS)]
    Ls(Ls),
    /// Find what on this host, and on the path to a server, slows transfers down; changes nothing
    #[command(after_help = examples::DOCTOR)]
    Doctor(Doctor),
    /// Measure a path from memory to memory, like iperf3
    #[command(after_help = examples::BENCH, override_usage = examples::BENCH_USAGE)]
    Bench(Bench),
    /// List the transport protocols and their parameters
    #[command(after_help = examples::PROTOCOLS)]
    Protocols(Protocols),
    /// Print completions for a shell
    #[command(after_help = examples::COMPLETIONS)]
    Completions(Completions),
    /// Write the manual as man pages
    #[command(after_help = examples::MAN)]
    Man(Man),
    /// Run transfers in a simulator or an emulated network, and reproduce experiments from papers
    #[command(subcommand)]
    Lab(crate::lab::Lab),
    /// Run any program over emulated links on this machine
    #[command(subcommand)]
    Link(crate::link::Link),
}

/// What every command that moves data takes.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Network options")]
pub(crate) struct Wire {
    /// Largest IP packet to send (MTU), in bytes [default: the interface's, at most 9000]
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u16).range(576..))]
    pub(crate) mtu: Option<u16>,
    /// Do not use the kernel's segmentation and receive offload
    #[arg(long)]
    pub(crate) no_offload: bool,
    /// Pin the data thread to this processor, counted from 0
    #[arg(long, value_name = "N")]
    pub(crate) cpu: Option<usize>,
}

/// What every command takes that decides how data moves: those that connect. Servers do as they are asked.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = TRANSPORT)]
pub(crate) struct Transport {
    /// Transport protocol, for both ends; 'inhaul protocols' lists them
    #[arg(long, value_name = "NAME", default_value = "gtp")]
    pub(crate) transport: String,
    /// How gtp sets its rates: 'paper' is for experiments and needs --receive-rate
    #[arg(long, value_enum, default_value_t)]
    pub(crate) control: Control,
    /// Set a parameter of the transport protocol on this side; can be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = parameter)]
    pub(crate) set: Vec<(String, String)>,
}

impl Transport {
    /// The transport of this name, as it is by itself.
    pub(crate) fn named(name: &str) -> Self {
        Self { transport: name.to_owned(), ..Self::default() }
    }
}

impl Default for Transport {
    fn default() -> Self {
        Self { transport: "gtp".to_owned(), control: Control::Default, set: Vec::new() }
    }
}

#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// Directories to offer; nothing outside them can be fetched
    #[arg(required = true, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) directories: Vec<PathBuf>,
    /// Address and port to listen on, for TCP and UDP; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS:PORT", default_value_t = any_address(), value_parser = listen_address)]
    #[arg(help_heading = SERVER)]
    pub(crate) listen: SocketAddr,
    /// Limit of what this host sends to all receivers together, headers included [default: no limit]
    #[arg(long, value_name = "RATE", help_heading = RATES)]
    pub(crate) send_rate: Option<Bitrate>,
    /// Hash large files anew for each transfer; do not keep digests in $XDG_CACHE_HOME/inhaul
    #[arg(long, help_heading = SERVER)]
    pub(crate) no_cache: bool,
    /// Most sessions at once; further clients are refused and may retry
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = clap::value_parser!(u16).range(1..))]
    #[arg(help_heading = SERVER)]
    pub(crate) max_sessions: u16,
    /// Most of them from one IPv4 address, or one /64 of IPv6 [default: a quarter of --max-sessions]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..), help_heading = SERVER)]
    pub(crate) max_sessions_per_address: Option<u16>,
    /// Most memory for lists of files, of all sessions together; clients that need more are refused and may retry
    #[arg(long, value_name = "BYTES", default_value = "1Gi", value_parser = parse_bytes, help_heading = SERVER)]
    pub(crate) manifest_memory: u64,
    /// How long transfers may continue after SIGTERM or Ctrl-C; a second signal ends them at once
    #[arg(long, value_name = "SECONDS", default_value_t = 30, help_heading = SERVER)]
    pub(crate) grace: u16,
    #[command(flatten)]
    pub(crate) accept: crate::serve::Accept,
    #[command(flatten)]
    pub(crate) wire: Wire,
}

#[derive(Debug, Args)]
pub(crate) struct Get {
    #[command(flatten)]
    pub(crate) fetch: Fetch,
    /// Start from the beginning, even if an interrupted transfer left verified data
    #[arg(long, help_heading = FILES)]
    pub(crate) no_resume: bool,
    /// Only show what would be fetched, kept, replaced, left out or refused
    #[arg(long, short = 'n', help_heading = FILES)]
    pub(crate) dry_run: bool,
    /// At the end, write a list of all files and their BLAKE3 checksums, for 'inhaul verify'
    #[arg(long, value_name = "FILE", help_heading = OUTPUT)]
    pub(crate) manifest: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) retry: Retry,
    #[command(flatten)]
    pub(crate) output: Output,
}

#[derive(Debug, Args)]
pub(crate) struct Plan {
    #[command(flatten)]
    pub(crate) fetch: Fetch,
    /// Print one JSON object (docs/json.md)
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) json: bool,
}

/// See [`Existing`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExistingArg {
    /// Fetch nothing, and name it
    #[default]
    Refuse,
    /// Replace it
    Replace,
    /// Replace it if it is older
    Update,
    /// Keep it
    Keep,
}

impl From<ExistingArg> for Existing {
    fn from(arg: ExistingArg) -> Self {
        match arg {
            ExistingArg::Refuse => Self::Refuse,
            ExistingArg::Replace => Self::Replace,
            ExistingArg::Update => Self::Update,
            ExistingArg::Keep => Self::Keep,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct Verify {
    /// The directory, or the file, to verify
    #[arg(value_name = "DIR")]
    pub(crate) place: PathBuf,
    /// The list of checksums; a bag has its own
    #[arg(value_name = "LIST")]
    pub(crate) list: Option<PathBuf>,
    /// Algorithm of 64-digit checksums in a list that does not name it [default: from the list's file name, else sha256]
    #[arg(long, value_enum, help_heading = "Verification options")]
    pub(crate) algorithm: Option<Of64Digits>,
    /// Print one JSON object at the end (docs/json.md)
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) json: bool,
    /// Print neither the problems nor a summary; the exit code tells
    #[arg(long, short, help_heading = OUTPUT)]
    pub(crate) quiet: bool,
}

/// What a checksum of 64 digits may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Of64Digits {
    Sha256,
    Blake3,
}

#[derive(Debug, Args)]
pub(crate) struct Manifest {
    /// The directory, or the file, to list
    #[arg(value_name = "PATH")]
    pub(crate) place: PathBuf,
    /// Format of the list
    #[arg(long, value_enum, default_value_t, help_heading = OUTPUT)]
    pub(crate) format: ListFormat,
}

/// How a list is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ListFormat {
    // With sizes, BLAKE3 and a hash of the whole.
    #[default]
    Inhaul,
    // As b3sum writes it.
    Blake3,
    // As sha256sum writes it.
    Sha256,
    // As sha512sum writes it.
    Sha512,
    // The payload manifest of a bag, with SHA-512.
    Bagit,
}

#[derive(Debug, Args)]
pub(crate) struct Ls {
    #[arg(help = "What to list, as HOST[:PORT][,HOST[:PORT]...]/PATH; the first server that answers is asked")]
    #[arg(value_name = "SOURCE", value_parser = crate::ls::source)]
    pub(crate) source: Source,
    /// List directories and all that is in them
    #[arg(long, short, help_heading = "Listing options")]
    pub(crate) recursive: bool,
    /// Print one JSON object for each item (docs/json.md)
    #[arg(long, conflicts_with = "metalink", help_heading = OUTPUT)]
    pub(crate) json: bool,
    /// Print all files beneath it as Metalink 4 (RFC 5854), with every server as a mirror
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) metalink: bool,
    /// With --metalink: add each file's BLAKE3 checksum; the server reads files whose digests it does not keep
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) checksums: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Doctor {
    #[arg(help = "Server to try the path from, as HOST[:PORT]; 'inhaul serve' must run there")]
    #[arg(value_name = "HOST[:PORT]")]
    pub(crate) server: Option<Server>,
    /// Rate that transfers should reach; costs are estimated for it [default: the interface's speed if known, else 1G]
    #[arg(long, value_name = "RATE", help_heading = "Check options")]
    pub(crate) target_rate: Option<Bitrate>,
    /// Test the disk of this directory, with at most 1 GB and for at most 3 s; nothing is left there
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, help_heading = "Check options")]
    pub(crate) disk: Option<PathBuf>,
    /// Print one JSON object (docs/json.md)
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Bench {
    /// Wait for clients, and serve them
    #[arg(long, conflicts_with = "servers", help_heading = SERVER)]
    pub(crate) server: bool,
    /// With --server: address and port to listen on
    #[arg(long, requires = "server", value_name = "ADDRESS:PORT", default_value_t = any_address())]
    #[arg(value_parser = listen_address, help_heading = SERVER)]
    pub(crate) listen: SocketAddr,
    #[arg(help = "Servers to measure with, as HOST[:PORT]")]
    #[arg(required_unless_present = "server", value_name = "HOST[:PORT]")]
    pub(crate) servers: Vec<Server>,
    /// How long, in seconds
    #[arg(short = 't', long, value_name = "SECONDS", default_value_t = 10.0, conflicts_with = "bytes", value_parser = seconds)]
    #[arg(help_heading = MEASUREMENT)]
    pub(crate) time: f64,
    /// How much in all, instead of a time: bytes, like 10G or 1Gi
    #[arg(short = 'n', long, value_name = "BYTES", value_parser = parse_bytes, help_heading = MEASUREMENT)]
    pub(crate) bytes: Option<u64>,
    /// Flows to each server
    #[arg(short = 'P', long, value_name = "FLOWS", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=128))]
    #[arg(help_heading = MEASUREMENT)]
    pub(crate) parallel: u16,
    /// Limit of each flow, headers included [default: no limit]
    #[arg(short = 'b', long, value_name = "RATE", help_heading = RATES)]
    pub(crate) bitrate: Option<Bitrate>,
    /// Send to the servers instead of receiving from them
    #[arg(short = 'R', long, help_heading = MEASUREMENT)]
    pub(crate) reverse: bool,
    /// Print JSON at the end (docs/json.md)
    #[arg(short = 'J', long, help_heading = OUTPUT)]
    pub(crate) json: bool,
    /// Memory to move: one small buffer again and again (hot), or 1 GiB from end to end on both sides (cold)
    #[arg(long, value_enum, default_value_t, help_heading = MEASUREMENT)]
    pub(crate) memory: MemoryArg,
    #[command(flatten)]
    pub(crate) transport: Transport,
    /// Limit of what the receiver takes in, headers included [default: measured]
    #[arg(long, value_name = "RATE", help_heading = RATES)]
    pub(crate) receive_rate: Option<Bitrate>,
    /// With --server: limit of what this host sends to all clients together, headers included [default: no limit]
    #[arg(long, value_name = "RATE", requires = "server", help_heading = RATES)]
    pub(crate) send_rate: Option<Bitrate>,
    #[command(flatten)]
    pub(crate) wire: Wire,
}

#[derive(Debug, Args)]
pub(crate) struct Protocols {
    /// Print JSON (docs/json.md)
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// The shell
    #[arg(value_enum)]
    pub(crate) shell: clap_complete::Shell,
}

#[derive(Debug, Args)]
pub(crate) struct Man {
    /// Directory for the pages; it is made if it does not exist
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) directory: PathBuf,
}

/// How rates are controlled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Control {
    // Capacities are measured.
    #[default]
    Default,
    // gtp-2004 to the letter: capacities are given.
    Paper,
}

/// See [`Memory`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum MemoryArg {
    #[default]
    Hot,
    Cold,
}

impl From<MemoryArg> for Memory {
    fn from(arg: MemoryArg) -> Self {
        match arg {
            MemoryArg::Hot => Self::Hot,
            MemoryArg::Cold => Self::Cold,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
                    "send-rate" => "imit of what this host sends",
                    "receive-rate" => "Limit of what th",
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
