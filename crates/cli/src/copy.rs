//! `inhaul copy`.

use clap::Args;
use inhaul_base::Bitrate;
use inhaul_mover::{CopyOptions, MoveError, Source};

use crate::args::{Selection, Transport, Wire};
use crate::transfer::{self, Output};

pub(crate) const USAGE: &str = "inhaul copy [OPTIONS] <SOURCE>... <DEST>";

pub(crate) const EXAMPLES: &str = "\
A SOURCE is what 'inhaul get' takes, as the receiving server knows its hosts; DEST is what
'inhaul put' takes. The server of DEST must allow it, by the same names and ports:
    inhaul serve /data --accept-puts /incoming --accept-copies-from dtn1

Examples:
  From dtn1 to dtn2, from wherever you are:
    inhaul copy inhaul://dtn1/run7 inhaul://dtn2/

When this command ends early, so does the copy; given again, it goes on.
Transfers are not encrypted yet.";

/// The command line of `inhaul copy`.
#[derive(Debug, Args)]
pub(crate) struct Copy {
    #[arg(required = true, num_args = 2.., value_names = ["SOURCE", "DEST"])]
    #[arg(
        help = "What to copy, as inhaul://HOST[:PORT][,HOST[:PORT]...]/PATH; last, where to, as inhaul://HOST[:PORT]/[PATH]"
    )]
    places: Vec<Source>,
    /// Most that each sender may send, headers included (R_app) [default: no limit]
    #[arg(long, value_name = "RATE")]
    rate: Option<Bitrate>,
    /// Transport protocol that carries the data: see 'inhaul protocols'
    #[arg(long, value_name = "NAME", default_value = "gtp")]
    transport: String,
    /// Begin anew, rather than go on from what an interrupted transfer has left
    #[arg(long)]
    no_resume: bool,
    #[command(flatten)]
    selection: Selection,
    /// Say what would be fetched, kept, replaced, left out or refused, and do nothing
    #[arg(long, short = 'n')]
    dry_run: bool,
    #[command(flatten)]
    output: Output,
}

pub(crate) fn run(args: &Copy) -> Result<(), MoveError> {
    let stop = crate::stop_on_signals()?;
    let Some((destination, sources)) = args.places.split_last() else {
        return Err(MoveError::Usage("name what to copy, and where to".to_owned()));
    };
    if args.selection.owner {
        let text = "a server gives what others bring to nobody else: --owner is for 'inhaul get'";
        return Err(MoveError::Usage(text.to_owned()));
    }
    let options = CopyOptions {
        sources: sources.to_vec(),
        destination: destination.clone(),
        rules: args.selection.patterns.rules()?,
        existing: args.selection.existing(),
        checksum: args.selection.checksum,
        attributes: args.selection.xattrs,
        dry_run: args.dry_run,
        fresh: args.no_resume,
        rate: args.rate,
        net: crate::net_options(&Wire::default(), &Transport::named(&args.transport)),
    };
    transfer::run(&args.output, args.dry_run, |hear| inhaul_mover::copy(&options, &stop, hear))
}
