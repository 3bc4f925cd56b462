//! Compares every setting with ns-3 and prints bench/NS3.md.
//!
//!     cargo run --release -p inhaul-interop-tests --bin cross_check [--json FILE] [--reference FILE] [--only WORD]
//!
//! `--json` writes all figures, trajectories included. `--reference` keeps ns-3's outcomes and takes them from there
//! the next time: then only our own simulations run again. `--only` leaves out settings whose names do not contain the
//! word. Ends with 1 when something does not agree that is not known not to, and with 0 and a clear word when ns-3 is
//! absent.

use std::error::Error;
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use inhaul_base::Span;
use inhaul_interop_tests::judge::compare;
use inhaul_interop_tests::ns3::{Ns3Error, Reference};
use inhaul_interop_tests::report::{Row, page};
use inhaul_interop_tests::{Outcome, Setting, ours, settings};

/// Between samples: as often as windows are worth looking at.
const STEP: Span = Span::from_millis(500);

#[derive(Debug, Default)]
struct Options {
    json: Option<PathBuf>,
    reference: Option<PathBuf>,
    only: Option<String>,
}

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let options = read_options()?;
    let mut reference = Reference::new();
    if let Some(file) = &options.reference {
        reference = reference.keep_in(file)?;
    } else if let Some(Ns3Error::Absent(why)) = reference.unavailable() {
        println!(
            "cross_check: SKIPPED, ns-3 is not installed (Debian: apt-get install g++ pkg-config libns3-dev): {why}"
        );
        return Ok(ExitCode::SUCCESS);
    }
    let wanted = |setting: &Setting| options.only.as_ref().is_none_or(|word| setting.name.contains(word));
    let mut rows = Vec::new();
    for setting in settings::all().into_iter().filter(wanted) {
        let (ours, ns3) = outcomes(&setting, &mut reference)?;
        let row = Row::new(&setting, compare(&setting, &ours, &ns3));
        eprintln!("{}: {}", if row.judgement.agrees { "agree" } else { "DIFFER" }, setting.name);
        rows.push(row);
    }
    print!("{}", page(&rows));
    if let Some(file) = options.json {
        fs::write(file, serde_json::to_string_pretty(&rows)?)?;
    }
    Ok(if rows.iter().all(Row::is_expected) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn read_options() -> Result<Options, Box<dyn Error>> {
    let mut options = Options::default();
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        let value = arguments.next().ok_or_else(|| format!("{name} wants a value"))?;
        match name.as_str() {
            "--json" => options.json = Some(value.into()),
            "--reference" => options.reference = Some(value.into()),
            "--only" => options.only = Some(value),
            _ => return Err(format!("'{name}' is not known: --json FILE, --reference FILE, --only WORD are").into()),
        }
    }
    Ok(options)
}

/// The outcomes of a setting under each seed, in both simulators.
fn outcomes(setting: &Setting, reference: &mut Reference) -> Result<(Vec<Outcome>, Vec<Outcome>), Box<dyn Error>> {
    let mut both = (Vec::new(), Vec::new());
    for seed in 1..=setting.seeds {
        both.0.push(ours::run(setting, seed, STEP)?);
        both.1.push(reference.run(setting, seed, STEP)?.outcome);
    }
    Ok(both)
}
