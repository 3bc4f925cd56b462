//! `inhaul get`.

use std::io::Read;
use std::path::Path;

use inhaul_base::{Span, format_bytes};
use inhaul_mover::{FETCH_LIST_BYTES_MAX, FetchListFormat, GetOptions, MoveError, Report, Request, read_fetch_list};

use crate::args::{Fetch, Get};
use crate::exit::Failure;
use crate::{stream, transfer};

pub(crate) fn run(args: &Get) -> Result<(), Failure> {
    let stop = crate::stop_on_signals()?;
    let mut options = GetOptions {
        fresh: args.no_resume,
        dry_run: args.dry_run,
        manifest: args.manifest.clone(),
        retry_for: args.retry.retry_for,
        ..options(&args.fetch)?
    };
    let output = stream::output(&options.destination)?;
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
        // What it has kept goes with the transfer.
        (Report { kept_bytes: 0, ..report }, result)
    });
    if result.is_err() && output.stream.written_bytes() > 0 {
        let written = format_bytes(output.stream.written_bytes());
        eprintln!("inhaul: the stream ends early: {written} were written to it, all of them verified");
    }
    result
}

/// What is fetched from where to where, and how.
pub(crate) fn options(args: &Fetch) -> Result<GetOptions, MoveError> {
    let (sources, destination) = args.split_places().map_err(MoveError::Usage)?;
    let requests = match args.list() {
        Some((format, path)) => read_list(format, path)?,
        None => sources.into_iter().map(Request::from).collect(),
    };
    let selection = &args.selection;
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
        net: crate::net_options(&args.wire, &args.transport),
    })
}

/// What a list asks for; `-` is standard input.
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
