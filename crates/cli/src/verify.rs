//! `inhaul verify` and `inhaul manifest`.

use std::io::IsTerminal;
use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use inhaul_base::{format_bytes, format_seconds};
use inhaul_mover::{Algorithm, ManifestFormat, ProblemKind, VerifyOptions, VerifyReport};

use crate::exit::{self, Failure};
use crate::options::OUTPUT;
use crate::output::{announce, announce_bytes, to_json, warn};
use crate::signals::stop_on_signals;

pub(crate) const EXAMPLES: &str = "\
Each line of the output names one file that is bad, missing or extra. The exit code is 10
if there is any. Extra files are found only with lists that name all files: those of
'inhaul manifest' and of bags. The list may be in the directory itself.

Examples:
  With a list that 'inhaul get --manifest run7.list' or 'inhaul manifest' wrote:
    inhaul verify /scratch/run7 run7.list
  With a list that sha256sum, sha512sum or b3sum wrote:
    inhaul verify /scratch/run7 SHA256SUMS
    inhaul verify /scratch/run7 sums --algorithm blake3
  With a list of MD5, which finds damage and not lies:
    inhaul verify /scratch/run7 md5sums.txt
  A bag (RFC 8493), with its own manifests:
    inhaul verify /scratch/bag";

pub(crate) const MANIFEST_EXAMPLES: &str = "\
Examples:
  A list with sizes, and one hash of the whole data set:
    inhaul manifest /data/run7 > run7.list
  For 'sha256sum --check' and 'b3sum --check':
    inhaul manifest /data/run7 --format sha256 > SHA256SUMS
    inhaul manifest /data/run7 --format blake3 > B3SUMS
  The payload manifest of a bag (RFC 8493):
    inhaul manifest bag/data --format bagit > bag/manifest-sha512.txt";

/// The command line of `inhaul verify`.
#[derive(Debug, Args)]
pub(crate) struct Verify {
    /// Directory or file to verify
    #[arg(value_name = "DIR")]
    place: PathBuf,
    /// List of checksums; not needed for a bag, which has its own
    #[arg(value_name = "LIST")]
    list: Option<PathBuf>,
    /// Algorithm of the list's checksums, if it does not name it [default: by the list's file name, then by length]
    #[arg(long, value_name = "NAME", value_parser = algorithms(), help_heading = "Verification options")]
    algorithm: Option<Algorithm>,
    /// Print one JSON object at the end (docs/json.md)
    #[arg(long, help_heading = OUTPUT)]
    json: bool,
    /// Print neither problems nor a summary; the exit code has the result
    #[arg(long, short, help_heading = OUTPUT)]
    quiet: bool,
}

/// The algorithms that lists may have.
fn algorithms() -> impl TypedValueParser<Value = Algorithm> {
    let names = PossibleValuesParser::new(Algorithm::all().map(Algorithm::name));
    names.try_map(|name| Algorithm::named(&name).ok_or("no such algorithm"))
}

/// The command line of `inhaul manifest`.
#[derive(Debug, Args)]
pub(crate) struct Manifest {
    /// Directory or file to list
    #[arg(value_name = "PATH")]
    place: PathBuf,
    /// Format of the list; inhaul's has sizes, BLAKE3 and a hash of the whole data set
    #[arg(long, value_enum, default_value_t, help_heading = OUTPUT)]
    format: ListFormat,
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

pub(crate) fn run(args: &Verify) -> Result<(), Failure> {
    let stop = stop_on_signals()?;
    let options = VerifyOptions { place: args.place.clone(), list: args.list.clone(), algorithm: args.algorithm };
    let (report, result) = inhaul_mover::verify(&options, &stop);
    if args.json {
        announce(&to_json(&report));
    } else if !args.quiet {
        for problem in &report.problems {
            announce(&format!("{}: {}", word(problem.problem), problem.path));
        }
        // Where there is no list, nothing has been looked at: the error says why.
        if result.is_ok() || report.files > 0 || !report.problems.is_empty() {
            warn(&summary(&report));
        }
    }
    result.map_err(|error| exit::reported(&error))
}

pub(crate) fn manifest(args: &Manifest) -> Result<(), Failure> {
    let stop = stop_on_signals()?;
    let format = match args.format {
        ListFormat::Inhaul => ManifestFormat::Inhaul,
        ListFormat::Blake3 => ManifestFormat::Sums(Algorithm::Blake3),
        ListFormat::Sha256 => ManifestFormat::Sums(Algorithm::Sha256),
        ListFormat::Sha512 => ManifestFormat::Sums(Algorithm::Sha512),
        ListFormat::Bagit => ManifestFormat::BagIt(Algorithm::Sha512),
    };
    let list = inhaul_mover::manifest(&args.place, format, &stop)?;
    if std::io::stdout().is_terminal() {
        // A person reads it. A program gets the bytes of the names.
        announce(String::from_utf8_lossy(&list).trim_end_matches('\n'));
    } else {
        announce_bytes(&list);
    }
    Ok(())
}

/// How many files are as they are listed, by which kinds of checksums, and how fast it went: bytes over the time.
fn summary(report: &VerifyReport) -> String {
    let bytes_per_second = if report.seconds > 0.0 { report.bytes as f64 / report.seconds } else { 0.0 };
    let weak = report.algorithms.iter().filter_map(|name| Algorithm::named(name)?.weakness());
    let weak: String = weak.map(|words| format!(" ({words})")).collect();
    let (bytes, seconds) = (format_bytes(report.bytes), format_seconds(report.seconds));
    let rate = format_bytes(bytes_per_second as u64);
    format!("{} files, {bytes}, are as they are listed{weak}; {seconds}, {rate}/s", report.files)
}

fn word(problem: ProblemKind) -> &'static str {
    match problem {
        ProblemKind::Bad => "bad",
        ProblemKind::Missing => "missing",
        ProblemKind::Extra => "extra",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::documented::assert_documented;
    use inhaul_mover::{ErrorReport, Problem, VerifyReport};

    #[test]
    fn report_has_the_documented_fields() {
        let report = VerifyReport {
            problems: vec![Problem::default()],
            error: Some(ErrorReport::default()),
            ..VerifyReport::default()
        };
        assert_documented("The report of verify", &report);
    }

    #[test]
    fn summary_names_weak_checksums_and_the_rate_is_bytes_over_time() {
        let mut report = VerifyReport { files: 2, bytes: 3_000_000, seconds: 0.5, ..VerifyReport::default() };
        report.algorithms = vec!["sha256"];
        assert_eq!(summary(&report), "2 files, 3.0 MB, are as they are listed; 0.500 s, 6.0 MB/s");
        report.algorithms = vec!["md5"];
        assert!(summary(&report).contains("listed (MD5: finds damage, not lies); 0.500 s"), "{}", summary(&report));
        report.algorithms = vec!["adler32"];
        assert!(summary(&report).contains("(Adler-32: finds damage only, and not all of it)"));
    }

    #[test]
    fn algorithm_is_named_as_lists_name_it() {
        use clap::Parser;
        use clap::error::ErrorKind;
        let parse = |name: &str| crate::args::Cli::try_parse_from(["inhaul", "verify", "d", "l", "--algorithm", name]);
        for algorithm in Algorithm::all() {
            assert!(parse(algorithm.name()).is_ok(), "{algorithm}");
        }
        assert_eq!(parse("sha3-256").unwrap_err().kind(), ErrorKind::InvalidValue);
    }
}
