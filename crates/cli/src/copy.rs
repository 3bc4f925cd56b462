//! `inhaul copy`.

use std::path::Path;

use clap::Args;
use inhaul_base::Bitrate;
use inhaul_mover::{CopyOptions, Destination, NamedBy, Source};

use crate::exit::Failure;
use crate::options::{self, Carrier, FILES, RATES, Retry, Security, Selection, Wire, net_options};
use crate::signals::stop_on_signals;
use crate::transfer::{self, Output};
use crate::trust;
use crate::wrong::{Mend, Wrong};

pub(crate) const USAGE: &str = "inhaul copy [OPTIONS] <SOURCE>... <DEST>";

pub(crate) const EXAMPLES: &str = "\
SOURCE has the form that 'inhaul get' takes; the server of DEST resolves its hosts. DEST
has the form that 'inhaul put' takes. The server of DEST must accept copies from exactly
these hosts and ports:
    inhaul serve /data --accept-puts /incoming --accept-copies-from dtn1
A RATE is in bits per second and needs a unit: 100k, 850M or 2.5G.

If this command ends early, the copy ends too. To continue, run the same command again.

The server of DEST must give the right 'copy'. What may be read at a SOURCE, by its ticket
or by this user's key, is handed on to that server: a token for this path and this server
alone, and not the key.

Examples:
  From dtn1 to dtn2; the command may run on any host:
    inhaul copy inhaul://dtn1/run7 inhaul://dtn2/
  At most 500 Mbit/s:
    inhaul copy inhaul://dtn1/run7 inhaul://dtn2/ --rate 500M";

/// The command line of `inhaul copy`.
#[derive(Debug, Args)]
#[command(mut_arg("policy", |policy| policy.value_parser(options::policy_of_server())))]
pub(crate) struct Copy {
    #[arg(required = true, num_args = 2.., value_names = ["SOURCE", "DEST"])]
    #[arg(
        help = "What to copy: inhaul://HOST[:PORT][,HOST[:PORT]...]/PATH; last, the destination: inhaul://HOST/[PATH]"
    )]
    places: Vec<String>,
    /// Limit of each sender, headers included [default: no limit]
    #[arg(long, value_name = "RATE", help_heading = RATES)]
    rate: Option<Bitrate>,
    #[command(flatten)]
    pub(crate) carrier: Carrier,
    #[command(flatten)]
    retry: Retry,
    #[command(flatten)]
    selection: Selection,
    /// Start from the beginning; ignore the verified data of an interrupted transfer
    #[arg(long, help_heading = FILES)]
    no_resume: bool,
    /// Copy nothing; show which files would be fetched, kept, replaced, left out or refused
    #[arg(long, short = 'n', help_heading = FILES)]
    dry_run: bool,
    #[command(flatten)]
    security: Security,
    #[command(flatten)]
    output: Output,
}

pub(crate) fn run(args: &Copy) -> Result<(), Failure> {
    let stop = stop_on_signals()?;
    let (mut sources, mut destination) = args.split_places()?;
    if args.selection.owner {
        let text = "--owner is for 'inhaul get': files that others bring belong to the server's user";
        return Err(Failure::usage(text));
    }
    let servers = sources.iter_mut().flat_map(|source| &mut source.mirrors).chain([&mut destination.server]);
    let trust = trust::settle(&args.security, servers, NamedBy::User)?;
    let options = CopyOptions {
        sources,
        destination,
        rules: args.selection.patterns.rules()?,
        existing: args.selection.existing(),
        checksum: args.selection.checksum,
        attributes: args.selection.xattrs,
        dry_run: args.dry_run,
        fresh: args.no_resume,
        rate: args.rate,
        retry_for: args.retry.retry_for,
        net: net_options(&Wire::default(), &args.carrier.for_server()?, trust)?,
    };
    transfer::run(&args.output, args.dry_run, |hear| inhaul_mover::copy(&options, &stop, hear))
}

impl Copy {
    pub(crate) fn split_places(&self) -> Result<(Vec<Source>, Destination), Wrong> {
        let none = || Wrong::new("name what to copy, and where to");
        let (destination, sources) = self.places.split_last().ok_or_else(none)?;
        let is_local = |place: &str| {
            let is_path = place.starts_with(['/', '.', '~']) || Path::new(place).exists();
            is_path && !options::is_remote(place)
        };
        if is_local(destination) {
            let message = format!("'{destination}' is here: 'inhaul get' fetches to this host, 'copy' to a server");
            return Err(Wrong::new(message).with(Mend::Command("get")));
        }
        if let Some(path) = sources.iter().find(|source| is_local(source)) {
            let message = format!("'{path}' is here: 'inhaul put' sends from this host, 'copy' from a server");
            return Err(Wrong::new(message).with(Mend::Command("put")));
        }
        let sources = sources.iter().map(|text| options::source(text)).collect::<Result<_, _>>()?;
        Ok((sources, options::destination(destination)?))
    }
}
