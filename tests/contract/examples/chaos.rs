//! Runs many seeds of chaos: `cargo run --release -p inhaul-contract-tests --example chaos -- [--seeds] 0..10000`.
//!
//! Prints each seed that breaks the invariant with its cause, and a summary of all. `--show=SEED` prints a plan.

use std::process::ExitCode;

use inhaul_contract_tests::chaos::{Outcome, Plan, run};

fn main() -> ExitCode {
    let mut broken = 0;
    let (mut complete, mut failed, mut flows, mut events, mut slowest) = (0u64, 0u64, 0, 0, (0.0f64, 0));
    for argument in std::env::args().skip(1).filter(|argument| argument != "--seeds") {
        if let Some(seed) = argument.strip_prefix("--show=").and_then(|seed| seed.parse().ok()) {
            println!("{:#?}", Plan { noise: None, ..Plan::draw(seed) });
            continue;
        }
        let ends: Vec<u64> = argument.split("..").filter_map(|end| end.parse().ok()).collect();
        let [from, to] = ends[..] else {
            eprintln!("'{argument}' is no range of seeds: write 0..10000");
            return ExitCode::FAILURE;
        };
        for seed in from..to {
            let plan = Plan::draw(seed);
            match run(&plan) {
                Ok(report) => {
                    match report.outcome {
                        Outcome::Complete => complete += 1,
                        Outcome::Failed(_) => failed += 1,
                    }
                    flows += report.flows;
                    events += report.events;
                    let share = report.at.as_secs_f64() / plan.bound.as_secs_f64();
                    if share > slowest.0 {
                        slowest = (share, seed);
                    }
                }
                Err(cause) => {
                    broken += 1;
                    println!("seed {seed}, {}: {cause}", plan.protocol);
                }
            }
        }
    }
    println!(
        "{} transfers of {flows} flows, {events} events: {complete} complete with every byte as it was sent, {failed} ended with \
         causes, {broken} broke the invariant; {:.2} of the time that it may take at most (seed {})",
        complete + failed + broken,
        slowest.0,
        slowest.1,
    );
    if broken == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
