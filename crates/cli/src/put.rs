//! `inhaul put`.

use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};
use inhaul_base::Bitrate;
use inhaul_mover::{Destination, Existing, NamedBy, PutOptions};

use crate::exit::Failure;
use crate::options::{self, Carrier, ExistingArg, FILES, Patterns, RATES, Retry, Security, Wire, net_options};
use crate::serve::cache_directory;
use crate::signals::stop_on_signals;
use crate::stream;
use crate::transfer::{self, Output};
use crate::trust;
use crate::wrong::{Mend, Wrong};

pub(crate) const USAGE: &str = "inhaul put [OPTIONS] <PATH>... <DEST>";

pub(crate) const EXAMPLES: &str = "\
DEST is beneath the directory that the server accepts puts into. The server must run with
'inhaul serve --accept-puts DIR'. A RATE is in bits per second and needs a unit: 850M.
  inhaul://HOST/         The directory DIR itself.
  inhaul://HOST/PATH/    A directory, made if it is missing. Each local PATH lands in it
                         under its own name.
  inhaul://HOST/PATH     The new name of the one local PATH.
A local PATH of '-' is standard input; DEST must then be a new name.

This host connects and sends. The server receives, verifies and sets the rates. To
continue after any interruption, run the same command again.

The server must give the right 'write': by a ticket behind the '#' of DEST, which it
prints or 'inhaul token make' makes there, or by this user's key ('inhaul key show').

Examples:
  A directory, under its own name:
    inhaul put results inhaul://dtn1/
  A directory, under another name:
    inhaul put results inhaul://dtn1/run7
  Two files into a directory, where existing files that differ are replaced:
    inhaul put a.h5 b.h5 inhaul://dtn1/run7/ --overwrite
  Leave part of this host's link to other traffic:
    inhaul put results inhaul://dtn1/ --send-rate 500M";

/// The command line of `inhaul put`.
#[derive(Debug, Args)]
#[command(mut_arg("policy", |policy| policy.value_parser(options::policy_of_server())))]
pub(crate) struct Put {
    #[arg(required = true, num_args = 2.., value_names = ["PATH", "DEST"])]
    #[arg(value_hint = ValueHint::AnyPath)]
    #[arg(help = "Local files and directories to send; last, the destination: inhaul://HOST[:PORT]/[PATH]")]
    places: Vec<PathBuf>,
    /// Limit on the rate that this host sends, headers included [default: no limit]
    #[arg(long, value_name = "RATE", help_heading = RATES)]
    send_rate: Option<Bitrate>,
    #[command(flatten)]
    pub(crate) carrier: Carrier,
    #[command(flatten)]
    retry: Retry,
    #[command(flatten)]
    files: Files,
    /// Start from the beginning; ignore the verified data of an interrupted transfer
    #[arg(long, help_heading = FILES)]
    no_resume: bool,
    /// Hash every file again; do not use the cache of digests in $XDG_CACHE_HOME/inhaul/digests
    #[arg(long, help_heading = FILES)]
    no_cache: bool,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    security: Security,
    #[command(flatten)]
    wire: Wire,
}

/// Which files are sent, and what happens to existing files.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "File options")]
struct Files {
    #[command(flatten)]
    patterns: Patterns,
    /// What to do if a file exists at the server and differs; a file of the same size and time is always kept
    #[arg(long, value_enum, value_name = "POLICY", default_value_t)]
    existing: ExistingArg,
    /// The same as --existing replace
    #[arg(long, conflicts_with = "existing")]
    overwrite: bool,
    /// Also transfer extended attributes (user.*)
    #[arg(long, short = 'X')]
    xattrs: bool,
    /// Send nothing; show which files would be fetched, kept, replaced, left out or refused
    #[arg(long, short = 'n')]
    dry_run: bool,
}

pub(crate) fn run(args: &Put) -> Result<(), Failure> {
    let stop = stop_on_signals()?;
    let (paths, mut destination) = args.split_places()?;
    let spool = stream::input(&paths, &stop)?;
    if spool.is_some() && (destination.path.is_empty() || destination.path.ends_with('/')) {
        return Err(Failure::usage("standard input has no name: say what it becomes, as in inhaul://HOST/NAME"));
    }
    let trust = trust::settle(&args.security, [&mut destination.server], NamedBy::User)?;
    let options = PutOptions {
        paths: spool.as_ref().map_or(paths, |spool| vec![spool.file()]),
        destination,
        rules: args.files.patterns.rules()?,
        existing: if args.files.overwrite { Existing::Replace } else { args.files.existing.into() },
        attributes: args.files.xattrs,
        dry_run: args.files.dry_run,
        fresh: args.no_resume,
        rate: args.send_rate,
        retry_for: args.retry.retry_for,
        cache: if args.no_cache { None } else { cache_directory() },
        net: net_options(&args.wire, &args.carrier.for_server()?, trust)?,
    };
    transfer::run(&args.output, args.files.dry_run, |hear| inhaul_mover::put(&options, &stop, hear))
}

impl Put {
    pub(crate) fn split_places(&self) -> Result<(Vec<PathBuf>, Destination), Wrong> {
        let none = || Wrong::new("name what to put, and where to");
        let (destination, paths) = self.places.split_last().ok_or_else(none)?;
        let destination = destination
            .to_str()
            .ok_or_else(|| Wrong::new("the destination is not UTF-8: write each such byte as %XX"))?;
        let is_remote = |path: &&str| options::is_remote(path) && !Path::new(path).exists();
        let remote = paths.iter().filter_map(|path| path.to_str()).find(is_remote);
        let parsed = options::destination(destination);
        if let Some(path) = remote {
            let name = if parsed.is_ok() || options::is_remote(destination) { "copy" } else { "get" };
            let how = format!("'inhaul {name}' fetches from there");
            return Err(Wrong::new(format!("'{path}' is on a server: {how}")).with(Mend::Command(name)));
        }
        let hint = |wrong: Wrong| Wrong {
            message: format!("{wrong}; the last argument is the destination, inhaul://HOST[:PORT]/[PATH]"),
            ..wrong
        };
        Ok((paths.to_vec(), parsed.map_err(hint)?))
    }
}
