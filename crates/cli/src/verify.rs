//! `inhaul verify` and `inhaul manifest`.

use std::io::Write;
use std::path::Path;

use inhaul_base::format_bytes;
use inhaul_mover::{Algorithm, ManifestFormat, MoveError, ProblemKind, VerifyOptions};

use crate::args::{ListFormat, Manifest, Of64Digits, Verify};
use crate::exit::{self, Failure};
use crate::serve::announce;
use crate::transfer::to_json;

pub(crate) fn run(args: &Verify) -> Result<(), Failure> {
    let stop = crate::stop_on_signals()?;
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
            eprintln!("inhaul: {} files, {bytes}, are as they are listed; {seconds:.2} s, {rate}/s", report.files);
        }
    }
    result.map_err(|error| exit::reported(&error))
}

pub(crate) fn manifest(args: &Manifest) -> Result<(), Failure> {
    let stop = crate::stop_on_signals()?;
    let format = match args.format {
        ListFormat::Inhaul => ManifestFormat::Inhaul,
        ListFormat::Blake3 => ManifestFormat::Sums(Algorithm::Blake3),
        ListFormat::Sha256 => ManifestFormat::Sums(Algorithm::Sha256),
        ListFormat::Sha512 => ManifestFormat::Sums(Algorithm::Sha512),
        ListFormat::Bagit => ManifestFormat::BagIt(Algorithm::Sha512),
    };
    let list = inhaul_mover::manifest(&args.place, format, &stop)?;
    let mut out = std::io::stdout().lock();
    match out.write_all(&list).and_then(|()| out.flush()) {
        // A reader that has seen enough is no error of ours.
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(MoveError::System { what: "the list cannot be written to standard output", source: error }.into())
        }
        _ => Ok(()),
    }
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
    use crate::transfer::tests::assert_documented;
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
