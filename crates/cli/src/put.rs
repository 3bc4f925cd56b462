//! `inhaul put`.

use std::path::PathBuf;

use clap::Args;
use inhaul_base::Bitrate;
use inhaul_mover::{Existing, MoveError, PutOptions, Source};

use crate::args::{ExistingArg, Transport, Wire};
use crate::filter::Patterns;
use crate::transfer::{self, Output};

pub(crate) const USAGE: &str = "inhaul put [OPTIONS] <PATH>... <DEST>";

pub(crate) const EXAMPLES: &str = "\
DEST is inhaul://HOST[:PORT]/PATH beneath the directory that the server takes data into
('inhaul serve --accept-puts DIR' there), by the rules of cp: if it is a directory there,
things land in it under their own names, otherwise it is the new name.

Examples:
  A directory, under its own name:
    inhaul put results inhaul://dtn1/
  Two files into a directory, and what is there and differs is replaced:
    inhaul put a.h5 b.h5 inhaul://dtn1/run7/ --overwrite

This host connects, and sends; the server receives, verifies and is in charge of the rates.
After an interruption of any kind the same command goes on from what was verified.
Transfers are not encrypted yet.";

/// The command line of `inhaul put`.
#[derive(Debug, Args)]
pub(crate) struct Put {
    #[arg(required = true, num_args = 2.., value_names = ["PATH", "DEST"])]
    #[arg(help = "The files and directories to bring; last, where to, as inhaul://HOST[:PORT]/[PATH]")]
    places: Vec<PathBuf>,
    /// Most that leaves this host, headers included (R_send) [default: no limit]
    #[arg(long, value_name = "RATE")]
    rate: Option<Bitrate>,
    /// Transport protocol that carries the data: see 'inhaul protocols'
    #[arg(long, value_name = "NAME", default_value = "gtp")]
    transport: String,
    /// Begin anew, rather than go on from what an interrupted transfer has left
    #[arg(long)]
    no_resume: bool,
    #[command(flatten)]
    files: Files,
    /// Hash large files for each transfer, rather than remember their digests in $XDG_CACHE_HOME/inhaul
    #[arg(long)]
    no_cache: bool,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    wire: Wire,
}

/// What is brought, and what becomes of files that are there already.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "File options")]
struct Files {
    #[command(flatten)]
    patterns: Patterns,
    /// What becomes of a file that exists there and differs; one of the same size and time is always kept
    #[arg(long, value_enum, value_name = "POLICY", default_value_t)]
    existing: ExistingArg,
    /// The same as --existing replace
    #[arg(long, conflicts_with = "existing")]
    overwrite: bool,
    /// Carry extended attributes too (user.*)
    #[arg(long, short = 'X')]
    xattrs: bool,
    /// Say what would be fetched, kept, replaced, left out or refused, and do nothing
    #[arg(long, short = 'n')]
    dry_run: bool,
}

pub(crate) fn run(args: &Put) -> Result<(), MoveError> {
    let stop = crate::stop_on_signals()?;
    let (paths, destination) = args.split_places().map_err(MoveError::Usage)?;
    let options = PutOptions {
        paths,
        destination,
        rules: args.files.patterns.rules()?,
        existing: if args.files.overwrite { Existing::Replace } else { args.files.existing.into() },
        attributes: args.files.xattrs,
        dry_run: args.files.dry_run,
        fresh: args.no_resume,
        rate: args.rate,
        cache: if args.no_cache { None } else { crate::serve::cache_directory() },
        net: crate::net_options(&args.wire, &Transport::named(&args.transport)),
    };
    transfer::run(&args.output, args.files.dry_run, |hear| inhaul_mover::put(&options, &stop, hear))
}

impl Put {
    fn split_places(&self) -> Result<(Vec<PathBuf>, Source), String> {
        let (destination, paths) = self.places.split_last().ok_or("name what to put, and where to")?;
        let destination = destination.to_str().ok_or("the destination is no UTF-8")?;
        let hint = |error| format!("{error}; the last argument is the destination, inhaul://HOST[:PORT]/[PATH]");
        Ok((paths.to_vec(), destination.parse().map_err(|error: inhaul_mover::SourceError| hint(error.to_string()))?))
    }
}
