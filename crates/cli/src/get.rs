//! `inhaul get`.

use std::io::Read;
use std::path::{Path, PathBuf};

use clap::Args;
use inhaul_base::{Span, format_bytes};
use inhaul_mover::{
    FETCH_LIST_BYTES_MAX, FetchListFormat, GetOptions, Known, MoveError, NamedBy, Part, Report, Request,
    read_fetch_list,
};

use crate::exit::Failure;
use crate::options::{Checksum, FILES, Fetch, OUTPUT, Retry, check_policy, net_options};
use crate::output::warn;
use crate::signals::stop_on_signals;
use crate::transfer::Output;
use crate::{stream, transfer, trust};

pub(crate) const USAGE: &str = "\
inhaul get [OPTIONS] <SOURCE>... <DEST>
       inhaul get [OPTIONS] --metalink <FILE> <DEST>
       inhaul get [OPTIONS] --input-file <FILE> <DEST>";

pub(crate) const EXAMPLES: &str = "\
A SOURCE is inhaul://HOST[:PORT]/PATH: a file or a directory that a server offers. The
'inhaul://' may be left out. More hosts, after commas, are mirrors of the same data set.
In PATH, write % as %25. The URL of a file (https://, http://, s3://, file://) is a SOURCE
too, alone or as a mirror after a comma: docs/sources.md.
A RATE is in bits per second and needs a unit: 100k, 850M or 2.5G.

DEST says where the data lands. Existing files do not change this:
  DIR/     A directory, made if it is missing. '.' and '..' need no slash. Each SOURCE
           lands in it under the last name of its PATH.
  NAME     The new name of the one SOURCE.
  -        Standard output: one file, in order, verified before it is written.
           A named pipe is used in the same way.

A file gets its name when every byte of it is verified. To continue after any
interruption, run the same command again.

A server prints the address to fetch from, with a ticket behind its '#': the fingerprint
of its key, and a token with rights. Without a ticket, the server must know this user's
key ('inhaul key show'), or be public: docs/security.md.

Examples:
  One file, into this directory:
    inhaul get inhaul://dtn1/run7/events.h5 .
  One data set on three mirrors, all used at once, to /scratch/run7:
    inhaul get inhaul://dtn1,dtn2:5000,dtn3/run7 /scratch/
  The same, to /scratch/first:
    inhaul get inhaul://dtn1,dtn2:5000,dtn3/run7 /scratch/first
  Two data sets at once, each sender with its fair share:
    inhaul get inhaul://dtn1/a inhaul://dtn2/b /scratch/
  An HTTP server beside an inhaul server, whose digests prove what both send:
    inhaul get inhaul://dtn1/f.h5,https://data.example.org/f.h5 .
  The files of a Metalink, from all their mirrors, verified by its checksums:
    inhaul get --metalink run7.meta4 /scratch/
  One file with a published checksum:
    inhaul get inhaul://dtn1,dtn2/run7.h5 . --expect \\
      sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
  One file straight into another program:
    inhaul get inhaul://dtn1/run7.tar - | tar x
  Leave part of a 1 Gbit/s link to other traffic:
    inhaul get inhaul://dtn1/run7 . --receive-rate 850M";

/// The command line of `inhaul get`.
#[derive(Debug, Args)]
pub(crate) struct Get {
    #[command(flatten)]
    pub(crate) fetch: Fetch,
    /// Start from the beginning; ignore the verified data of an interrupted transfer
    #[arg(long, help_heading = FILES)]
    no_resume: bool,
    /// Fetch nothing; show which files would be fetched, kept, replaced, left out or refused
    #[arg(long, short = 'n', help_heading = FILES)]
    dry_run: bool,
    /// At the end, write a list of all files and their BLAKE3 checksums to FILE, for 'inhaul verify'
    #[arg(long, value_name = "FILE", help_heading = OUTPUT)]
    manifest: Option<PathBuf>,
    #[command(flatten)]
    retry: Retry,
    #[command(flatten)]
    pub(crate) output: Output,
}

pub(crate) fn run(args: &Get) -> Result<(), Failure> {
    let mut options = GetOptions {
        fresh: args.no_resume,
        dry_run: args.dry_run,
        manifest: args.manifest.clone(),
        retry_for: args.retry.retry_for,
        ..options(&args.fetch)?
    };
    let output = stream::output(&options.destination)?;
    // Until here, a signal ends the program: a list may be long in coming, and a pipe in being opened.
    let stop = stop_on_signals()?;
    let Some(output) = output else {
        return transfer::run(&args.output, args.dry_run, |hear| inhaul_mover::get(&options, &stop, hear));
    };
    if args.output.json || args.output.json_stream {
        return Err(Failure::usage("--json is for files: standard output may be where the stream goes"));
    }
    if options.requests.len() > 1 || args.fetch.list().is_some() {
        return Err(Failure::usage("a stream takes one source"));
    }
    options.destination = output.spool.file();
    options.stream = Some(output.stream.clone());
    let result = transfer::run(&args.output, args.dry_run, |hear| {
        let (report, result) = inhaul_mover::get(&options, &stop, hear);
        // Its kept data is removed with the transfer.
        (Report { kept_bytes: 0, ..report }, result)
    });
    if result.is_err() && output.stream.written_bytes() > 0 {
        let written = format_bytes(output.stream.written_bytes());
        warn(&format!("the stream ends early: {written} were written to it, all of them verified"));
    }
    result
}

/// A transfer's sources, destination and options.
pub(crate) fn options(args: &Fetch) -> Result<GetOptions, Failure> {
    let (sources, destination) = args.split_places()?;
    let named_by = if args.list().is_some() { NamedBy::Others } else { NamedBy::User };
    let mut requests = match args.list() {
        Some((format, path)) => read_list(format, path)?,
        None => sources.into_iter().map(Request::from).collect(),
    };
    if let Some(Checksum { algorithm, sum }) = &args.expect {
        let [request] = requests.as_mut_slice() else {
            return Err(Failure::usage("--expect takes one SOURCE, a file"));
        };
        request.part = Part::Whole(Known { size: None, sums: vec![(*algorithm, sum.clone())] });
    }
    check_policy(&args.transport, args.receive_rate)?;
    let selection = &args.selection;
    let trust = trust::settle(&args.security, trust::servers_of(&mut requests), named_by)?;
    Ok(GetOptions {
        requests,
        destination,
        inbox: None,
        receive_rate: args.receive_rate,
        rate: args.rate,
        fresh: false,
        filter: selection.patterns.filter()?,
        existing: selection.existing(),
        checksum: selection.checksum,
        owner: selection.owner,
        attributes: selection.xattrs,
        dry_run: false,
        manifest: None,
        stream: None,
        retry_for: Span::ZERO,
        policy_dial: None,
        net: net_options(&args.wire, &args.transport, trust)?,
    })
}

/// The requests of a list; `-` is standard input.
fn read_list(format: FetchListFormat, path: &Path) -> Result<Vec<Request>, MoveError> {
    let failed = |why: &dyn std::fmt::Display| MoveError::Usage(format!("{}: {why}", path.display()));
    let reader: Box<dyn Read> = match path.to_str() {
        Some("-") => Box::new(std::io::stdin()),
        _ => Box::new(std::fs::File::open(path).map_err(|error| failed(&error))?),
    };
    let mut text = Vec::new();
    reader.take(FETCH_LIST_BYTES_MAX + 1).read_to_end(&mut text).map_err(|error| failed(&error))?;
    if text.len() as u64 > FETCH_LIST_BYTES_MAX {
        return Err(failed(&format!("it is longer than {}", format_bytes(FETCH_LIST_BYTES_MAX))));
    }
    read_fetch_list(format, &text).map_err(|error| failed(&error))
}
