//! The command line: what can be said, and the help that explains it.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use inhaul_base::{Bitrate, parse_bytes};
use inhaul_mover::{DEFAULT_PORT, Existing, Memory, Server, Source};

use crate::logs::LogLevel;
use crate::transfer::Output;

mod fetch;

pub(crate) use fetch::{Fetch, Selection};

/// Hauls bulk data over fast, long networks: one receiver fetches from one or many senders, and the receiver is in charge.
#[derive(Debug, Parser)]
#[command(name = "inhaul", version, after_help = crate::exit::HELP, max_term_width = 120)]
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
    /// Log more: -v who comes and goes, -vv each step, -vvv everything
    #[arg(long, short, global = true, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Offer directories to whoever connects
    #[command(after_help = SERVE_EXAMPLES)]
    Serve(Serve),
    /// Fetch files or directories, verified, from one or many servers
    #[command(after_help = GET_EXAMPLES, override_usage = GET_USAGE)]
    Get(Get),
    /// Predict how long a get would take, and say what will limit it; nothing is fetched
    #[command(after_help = PLAN_EXAMPLES, override_usage = PLAN_USAGE)]
    Plan(Plan),
    /// Bring files or directories to a server that takes them in
    #[command(after_help = crate::put::EXAMPLES, override_usage = crate::put::USAGE)]
    Put(crate::put::Put),
    /// Have one server fetch from others: the bytes go directly between them
    #[command(after_help = crate::copy::EXAMPLES, override_usage = crate::copy::USAGE)]
    Copy(crate::copy::Copy),
    /// Verify files by a list of checksums: ours, sha256sum's, b3sum's, or a bag's
    #[command(after_help = VERIFY_EXAMPLES)]
    Verify(Verify),
    /// Print the list of files and their checksums by which others can verify them
    #[command(after_help = MANIFEST_EXAMPLES)]
    Manifest(Manifest),
    /// List what a server offers
    #[command(after_help = LS_EXAMPLES)]
    Ls(Ls),
    /// Say what on this host, and on the path to a server, would hold a transfer back; changes nothing
    #[command(after_help = DOCTOR_EXAMPLES)]
    Doctor(Doctor),
    /// Measure memory to memory, in the manner of iperf3
    #[command(after_help = BENCH_EXAMPLES, override_usage = BENCH_USAGE)]
    Bench(Bench),
    /// List the transport protocols and their parameters
    Protocols(Protocols),
    /// Print the completions of a shell, to be put where it looks for them
    #[command(after_help = COMPLETIONS_EXAMPLES)]
    Completions(Completions),
    /// Write a man page for each command
    #[command(after_help = MAN_EXAMPLES)]
    Man(Man),
    /// Run transfers in a simulator or an emulated network, and reproduce the papers' experiments
    #[command(subcommand)]
    Lab(crate::lab::Lab),
    /// Run any program over emulated links between hosts on this machine
    #[command(subcommand)]
    Link(crate::link::Link),
}

const SERVE_EXAMPLES: &str = "\
RATE is in bits per second, like 850M, 2.5G or 100k.

Examples:
  Offer /data on every address of this host, port 4321:
    inhaul serve /data
  Two directories, at most 5 Gbit/s for all receivers together:
    inhaul serve /data /scratch --send-rate 5G
  A free port of this host alone; the address is printed when it is ready:
    inhaul serve /data --listen 127.0.0.1:0
  Take in what others put, in /incoming and nowhere else:
    inhaul serve /data --accept-puts /incoming

A firewall must let the port through for TCP and for UDP.
Transfers are not encrypted yet: whoever reaches the port can read what is offered, and bring what is
accepted.";

const GET_USAGE: &str = "\
inhaul get [OPTIONS] <SOURCE>... <DEST>
       inhaul get [OPTIONS] --metalink <FILE> <DEST>
       inhaul get [OPTIONS] --input-file <FILE> <DEST>";

const GET_EXAMPLES: &str = "\
A SOURCE is inhaul://HOST[:PORT]/PATH, a file or a directory that a server offers;
with more hosts after commas it is one data set on several mirrors. In PATH, write
% as %25. RATE is in bits per second, like 850M, 2.5G or 100k.

Examples:
  One file, into this directory:
    inhaul get inhaul://dtn1/run7/events.h5 .
  One data set on three mirrors, all used at once:
    inhaul get inhaul://dtn1,dtn2:5000,dtn3/run7 /scratch
  Two data sets at once, each sender with its fair share:
    inhaul get inhaul://dtn1/a inhaul://dtn2/b /scratch
  What a Metalink names, each file from all its mirrors, and its checksums checked:
    inhaul get --metalink run7.meta4 /scratch
  Leave the rest of a 1 Gbit/s link to others:
    inhaul get inhaul://dtn1/run7 . --receive-rate 850M

A file appears under its name once each of its bytes is verified. After an interruption of any
kind the same command goes on from what NAME.inhaul says is verified already.
Transfers are not encrypted yet.";

const PLAN_USAGE: &str = "\
inhaul plan [OPTIONS] <SOURCE>... <DEST>
       inhaul plan [OPTIONS] --metalink <FILE> <DEST>
       inhaul plan [OPTIONS] --input-file <FILE> <DEST>";

const PLAN_EXAMPLES: &str = "\
It takes what 'inhaul get' takes. The servers are asked for what is wanted, two seconds of
it are hauled into nowhere, and the disk is tried; nothing is left there.

Examples:
  How long a data set would take from two mirrors, and why:
    inhaul plan inhaul://dtn1,dtn2/run7 /scratch";

const VERIFY_EXAMPLES: &str = "\
Each file that is bad, missing or extra is named, one a line; extra ones where the list has all files: one of
'inhaul manifest', or a bag's. The list itself may lie in the directory.

Examples:
  By the list that 'inhaul get --manifest run7.list' or 'inhaul manifest' wrote:
    inhaul verify /scratch/run7 run7.list
  By what sha256sum, sha512sum or b3sum wrote:
    inhaul verify /scratch/run7 SHA256SUMS
    inhaul verify /scratch/run7 sums --algorithm blake3
  A bag (RFC 8493), by its own manifests:
    inhaul verify /scratch/bag";

const MANIFEST_EXAMPLES: &str = "\
Examples:
  A list with sizes and a hash of the whole:
    inhaul manifest /data/run7 > run7.list
  For 'sha256sum --check' and 'b3sum --check':
    inhaul manifest /data/run7 --format sha256 > SHA256SUMS
    inhaul manifest /data/run7 --format blake3 > B3SUMS
  The payload manifest of a bag (RFC 8493):
    inhaul manifest bag/data --format bagit > bag/manifest-sha512.txt";

const LS_EXAMPLES: &str = "\
Examples:
  What is in a directory, and all beneath it:
    inhaul ls dtn1/run7
    inhaul ls dtn1/run7 --recursive
  The files of a data set on two mirrors, for programs that read Metalink (RFC 5854):
    inhaul ls dtn1,dtn2:5000/run7 --metalink --checksums > run7.meta4";

const DOCTOR_EXAMPLES: &str = "\
Each finding is ok, costs you something (how much, is said) or is broken; the
lines that mend it are printed and not carried out. docs/doctor.md tells more.

Examples:
  This host alone, with its disk at /scratch:
    inhaul doctor --disk /scratch
  This host and the path from a server, for transfers at 10 Gbit/s:
    inhaul doctor dtn1 --rate 10G

The exit code is 0 when nothing is broken, 12 when something is, and that of
'inhaul get' when the server cannot be reached: 4, 5, 6, 7, or 11 when TCP passes
and UDP does not.";

const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  inhaul completions bash > ~/.local/share/bash-completion/completions/inhaul
  inhaul completions zsh > ~/.zfunc/_inhaul
  inhaul completions fish > ~/.config/fish/completions/inhaul.fish";

const MAN_EXAMPLES: &str = "\
Examples:
  inhaul man ~/.local/share/man/man1 && man inhaul-get";

const BENCH_USAGE: &str = "inhaul bench [OPTIONS] HOST[:PORT]...\n       inhaul bench [OPTIONS] --server";

const BENCH_EXAMPLES: &str = "\
RATE is in bits per second, like 850M, 2.5G or 100k.

Examples:
  On one host, wait for clients:
    inhaul bench --server
  On another, receive from it for ten seconds:
    inhaul bench dtn1 -t 10
  The other way: this host sends, the server receives and drives:
    inhaul bench dtn1 -R
  Three senders into this host, 30 GB in all, as JSON:
    inhaul bench dtn1 dtn2 dtn3 -n 30G -J";

/// What every command that moves data takes.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Network options")]
pub(crate) struct Wire {
    /// Largest IP packet (MTU), in bytes [default: what the interface carries, at most 9000]
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u16).range(576..))]
    pub(crate) mtu: Option<u16>,
    /// Do without segmentation and receive offload
    #[arg(long)]
    pub(crate) no_offload: bool,
    /// Pin the data thread to this processor, counted from 0
    #[arg(long, value_name = "N")]
    pub(crate) cpu: Option<usize>,
}

/// What every command takes that decides how data moves: those that connect. Servers do as they are asked.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Transport options")]
pub(crate) struct Transport {
    /// Transport protocol, for both ends: see 'inhaul protocols'
    #[arg(long, value_name = "NAME", default_value = "gtp")]
    pub(crate) transport: String,
    /// How gtp controls its rates: 'paper' needs --receive-rate, and is for experiments
    #[arg(long, value_enum, default_value_t)]
    pub(crate) control: Control,
    /// Set a parameter of the transport protocol on this side, as NAME=VALUE; can be repeated
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

fn parameter(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("write NAME=VALUE, as in c=10")?;
    Ok((name.to_owned(), value.to_owned()))
}

#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// Directories to offer; nothing outside them can be fetched
    #[arg(required = true, value_name = "DIR")]
    pub(crate) directories: Vec<PathBuf>,
    /// Address and port to listen on, TCP and UDP alike; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS:PORT", default_value_t = any_address())]
    pub(crate) listen: SocketAddr,
    /// Most that leaves for all receivers together, headers included (R_send) [default: no limit]
    #[arg(long, value_name = "RATE")]
    pub(crate) send_rate: Option<Bitrate>,
    /// Hash large files for each transfer, rather than remember their digests in $XDG_CACHE_HOME/inhaul
    #[arg(long)]
    pub(crate) no_cache: bool,
    /// Most sessions at once; who comes then is told to try again later
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) max_sessions: u16,
    /// How long transfers may go on after SIGTERM or Ctrl-C; a second signal ends them at once
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
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
    /// Begin anew, rather than go on from what an interrupted transfer has left
    #[arg(long)]
    pub(crate) no_resume: bool,
    /// Say what would be fetched, kept, replaced, left out or refused, and do nothing
    #[arg(long, short = 'n', help_heading = "File options")]
    pub(crate) dry_run: bool,
    /// Write the list of all files with their BLAKE3 checksums there at the end, for 'inhaul verify'
    #[arg(long, value_name = "FILE")]
    pub(crate) manifest: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) output: Output,
}

#[derive(Debug, Args)]
pub(crate) struct Plan {
    #[command(flatten)]
    pub(crate) fetch: Fetch,
    /// Print one JSON object (docs/json.md)
    #[arg(long)]
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
    /// What checksums of 64 digits are in a list that does not say [default: by the list's name, else sha256]
    #[arg(long, value_enum)]
    pub(crate) algorithm: Option<Of64Digits>,
    /// Print one JSON object at the end (docs/json.md)
    #[arg(long)]
    pub(crate) json: bool,
    /// No list of what is wrong, and no summary
    #[arg(long, short)]
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
    /// How to write it
    #[arg(long, value_enum, default_value_t)]
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
    /// All beneath it, not only what lies in it
    #[arg(long, short)]
    pub(crate) recursive: bool,
    /// Print one JSON object for each item (docs/json.md)
    #[arg(long, conflicts_with = "metalink")]
    pub(crate) json: bool,
    /// Print all files beneath it as Metalink 4 (RFC 5854), with every server as a mirror
    #[arg(long)]
    pub(crate) metalink: bool,
    /// With --metalink: the BLAKE3 checksum of each file, too; the server reads what it does not remember
    #[arg(long)]
    pub(crate) checksums: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Doctor {
    #[arg(help = "Server to try the path from, as HOST[:PORT]; 'inhaul serve' must run there")]
    #[arg(value_name = "HOST[:PORT]")]
    pub(crate) server: Option<Server>,
    /// Rate that transfers should reach [default: the speed of the interface if it tells, else 1G]
    #[arg(long, value_name = "RATE")]
    pub(crate) rate: Option<Bitrate>,
    /// Directory whose disk is tried, with at most 1 GB and for at most 3 s; nothing is left there
    #[arg(long, value_name = "DIR")]
    pub(crate) disk: Option<PathBuf>,
    /// Print one JSON object (docs/json.md)
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Bench {
    /// Wait for clients, and serve them
    #[arg(long, conflicts_with = "servers")]
    pub(crate) server: bool,
    /// With --server: address and port to listen on
    #[arg(long, requires = "server", value_name = "ADDRESS:PORT", default_value_t = any_address())]
    pub(crate) listen: SocketAddr,
    #[arg(help = "Servers to measure with, as HOST[:PORT]")]
    #[arg(required_unless_present = "server", value_name = "HOST[:PORT]")]
    pub(crate) servers: Vec<Server>,
    /// How long, in seconds
    #[arg(short = 't', long, value_name = "SECONDS", default_value_t = 10.0, conflicts_with = "bytes", value_parser = seconds)]
    pub(crate) time: f64,
    /// How much in all, in bytes, like 10G or 1Gi, instead of a time
    #[arg(short = 'n', long, value_name = "BYTES", value_parser = parse_bytes)]
    pub(crate) bytes: Option<u64>,
    /// Flows to each server
    #[arg(short = 'P', long, value_name = "FLOWS", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=128))]
    pub(crate) parallel: u16,
    /// Most for each flow, headers included (R_app) [default: no limit]
    #[arg(short = 'b', long, value_name = "RATE")]
    pub(crate) bitrate: Option<Bitrate>,
    /// Send to the servers, rather than receive from them
    #[arg(short = 'R', long)]
    pub(crate) reverse: bool,
    /// Print JSON at the end (docs/json.md)
    #[arg(short = 'J', long)]
    pub(crate) json: bool,
    /// Memory to move: one small buffer again and again (hot), or 1 GiB from end to end at both sides (cold)
    #[arg(long, value_enum, default_value_t)]
    pub(crate) memory: MemoryArg,
    #[command(flatten)]
    pub(crate) transport: Transport,
    /// Most that the receiver takes in, headers included (C_r) [default: found out]
    #[arg(long, value_name = "RATE")]
    pub(crate) receive_rate: Option<Bitrate>,
    /// Most that the server sends to all together, headers included (R_send) [default: no limit]
    #[arg(long, value_name = "RATE", requires = "server")]
    pub(crate) send_rate: Option<Bitrate>,
    #[command(flatten)]
    pub(crate) wire: Wire,
}

#[derive(Debug, Args)]
pub(crate) struct Protocols {
    /// Print JSON (docs/json.md)
    #[arg(long)]
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
    /// Directory to write the pages to; made if it is not there
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,
}

/// How rates are controlled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Control {
    // Capacities are found out.
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

/// Every address of this host, IPv4 and IPv6, at the default port.
fn any_address() -> SocketAddr {
    SocketAddr::new(std::net::Ipv6Addr::UNSPECIFIED.into(), DEFAULT_PORT)
}

pub(crate) fn seconds(text: &str) -> Result<f64, String> {
    text.parse().ok().filter(|s| (0.1..=1e6).contains(s)).ok_or_else(|| "write seconds, from 0.1 to 1000000".to_owned())
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
            "inhaul doctor --rate fast",
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
    fn every_option_is_explained() {
        fn check(command: &clap::Command) {
            for argument in command.get_arguments() {
                assert!(argument.get_help().is_some(), "{} {}", command.get_name(), argument.get_id());
            }
            command.get_subcommands().for_each(check);
        }
        Cli::command().get_subcommands().for_each(check);
    }
}
