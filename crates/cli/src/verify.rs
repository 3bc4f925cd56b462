//! `inhaul verify` and `inhaul manifest`.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use inhaul_base::format_bytes;
use inhaul_mover::{Algorithm, ManifestFormat, ProblemKind, VerifyOptions};

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
    /// Algorithm of 64-digit checksums, if the list does not name it [default: from the list's file name, else sha256]
    #[arg(long, value_enum, help_heading = "Verification options")]
    algorithm: Option<Of64Digits>,
    /// Print one JSON object at the end (docs/json.md)
    #[arg(long, help_heading = OUTPUT)]
    json: bool,
    /// Print neither problems nor a summary; the exit code has the result
    #[arg(long, short, help_heading = OUTPUT)]
    quiet: bool,
}

/// What a checksum of 64 digits may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Of64Digits {
    Sha256,
    Blake3,
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
    let of_64_digits = match args.algorithm {
        Some(Of64Digits::Blake3) => Algorithm::Blake3,
        Some(Of64Digits::Sha256) => Algorithm::Sha256,
        None => args.list.as_deref().map_or(Algorithm::Sha256, by_name),
    };
    let options = VerifyOptions { place: args.place.clone(), list: args.list.clone(), of_64_digits };
    let (report, result) = inhaul_mover::verify(&options, &stop);
    if args.json {
        announce(&to_json(&report));
    } else if !args.quiet {
        for problem in &report.problems {
            announce(&format!("{}: {}", word(problem.problem), problem.path));
        }
        // Where there is no list, nothing has been looked at: the error says why.
        if result.is_ok() || report.files > 0 || !report.problems.is_empty() {
            let rate = format_bytes((report.bytes as f64 / report.seconds.max(1e-9)) as u64);
            let (bytes, seconds) = (format_bytes(report.bytes), report.seconds);
            warn(&format!("{} files, {bytes}, are as they are listed; {seconds:.2} s, {rate}/s", report.files));
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

/// What a list with checksums of 64 digits most likely has, by its name: `B3SUMS`, `sums.blake3`.
fn by_name(list: &Path) -> Algorithm {
    let name = list.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    if ["b3", "blake3"].iter().any(|mark| name.contains(mark)) { Algorithm::Blake3 } else { Algorithm::Sha256 }
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
    fn by_name_takes_b3_for_blake3() {
        for (name, algorithm) in [("SHA256SUMS", Algorithm::Sha256), ("x/B3SUMS", Algorithm::Blake3)] {
            assert_eq!(by_name(Path::new(name)), algorithm);
        }
    }
}
