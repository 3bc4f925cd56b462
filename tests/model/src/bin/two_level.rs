//! Visits all cases and prints the findings.
//!
//!     cargo run --release -p inhaul-model-tests --bin two_level [--quick] [--only NAME] [--json FILE]

use std::error::Error;
use std::fs;

use inhaul_model_tests::cases::{self, RatesFound, Report, TransitionsFound};

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let (mut quick, mut only, mut json) = (false, None, None);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--quick" => quick = true,
            "--only" => only = args.next(),
            "--json" => json = args.next(),
            _ => return Err(format!("'{arg}' is none of --quick, --only NAME and --json FILE").into()),
        }
    }
    let wanted =
        |name: &str, is_quick: bool| (is_quick || !quick) && only.as_ref().is_none_or(|part| name.contains(part));
    let mut report = Report { rates: Vec::new(), transitions: Vec::new() };
    for case in cases::rates().into_iter().filter(|case| wanted(case.name, case.quick)) {
        let found = cases::find_rates(&case)?;
        print_rates(&found);
        report.rates.push(found);
    }
    for case in cases::transitions().into_iter().filter(|case| wanted(case.name, case.quick)) {
        let found = cases::find_transitions(&case)?;
        print_transitions(&found);
        report.transitions.push(found);
    }
    if let Some(file) = json {
        fs::write(file, serde_json::to_string_pretty(&report)? + "\n")?;
    }
    Ok(())
}

fn print_rates(found: &RatesFound) {
    println!("{}", found.case);
    println!("  {} states, {} steps; always: {}", found.states, found.steps, found.always.join("; "));
    if !found.broken.is_empty() {
        println!("  BROKEN: {}", found.broken.join("; "));
    }
    let until = found.slots_until_end.map_or("no bound".to_owned(), |slots| format!("{slots} steps at most"));
    println!("  {} ends of {} states, reached after {until}", found.ends, found.end_states);
    println!("  fair {:?}, targets {:?}, delivered {:?}", found.fair, found.target, found.delivered);
    let for_ever = if found.loss_for_ever { "may lose in every slot for ever" } else { "loss ends" };
    let verdict = if found.converges { "converges to max-min" } else { "does not converge to max-min" };
    println!(
        "  {verdict}: worst part {:.3}, sum {:.3}, loss {:.3} at most, {for_ever}",
        found.worst, found.least_sum, found.loss_max
    );
}

fn print_transitions(found: &TransitionsFound) {
    println!("{}", found.case);
    let proof = if found.proven { "proven" } else { "NOT PROVEN" };
    println!("  {} states; {} of C_r at most comes in a slot ({:.3}), {proof}", found.states, found.most, found.over);
    if !found.trace.is_empty() {
        println!("  more than C_r: {}", found.trace.join(", "));
    }
}
