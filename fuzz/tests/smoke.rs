//! A bounded fuzz run on stable Rust: seeded mutations of each parser's samples.
//!
//! `INHAUL_FUZZ_ITERATIONS` raises the number of inputs for each target, `INHAUL_FUZZ_SEED` chooses others, and
//! `INHAUL_FUZZ_TARGETS` (names with commas between) limits the run to some targets. A failure names the seed and the
//! input, and both replay it.

use std::env;
use std::panic::{AssertUnwindSafe, catch_unwind};

use inhaul_fuzz::{Mutator, TARGETS};

/// Default number of inputs for each parser: a second or two in a debug build.
const DEFAULT_ITERATIONS: u64 = 20_000;
const DEFAULT_SEED: u64 = 1;

#[test]
fn every_parser_survives_mutations_of_its_samples() {
    let iterations = setting("INHAUL_FUZZ_ITERATIONS", DEFAULT_ITERATIONS);
    let seed = setting("INHAUL_FUZZ_SEED", DEFAULT_SEED);
    let chosen = env::var("INHAUL_FUZZ_TARGETS").unwrap_or_default();
    let is_chosen = |name: &str| chosen.is_empty() || chosen.split(',').any(|choice| choice == name);
    for (stream, target) in TARGETS.iter().enumerate().filter(|(_, target)| is_chosen(target.name)) {
        let mut mutator = Mutator::new(seed, stream as u64, (target.corpus)());
        let mut accepted = 0;
        let iterations = iterations.div_ceil(target.cost);
        for iteration in 0..iterations {
            let input = mutator.next_input();
            match catch_unwind(AssertUnwindSafe(|| (target.run)(&input))) {
                Ok(taken) => accepted += u64::from(taken),
                Err(_) => panic!(
                    "{} fails on input {iteration} of INHAUL_FUZZ_SEED={seed}: {}",
                    target.name,
                    input.escape_ascii()
                ),
            }
        }
        println!("{}: {accepted} of {iterations} inputs of INHAUL_FUZZ_SEED={seed} accepted", target.name);
        // If all inputs were refused, or none, nothing behind the first check would be tested.
        assert!(0 < accepted && accepted < iterations, "{}", target.name);
    }
}

#[test]
fn every_parser_accepts_its_own_samples() {
    for target in TARGETS {
        let corpus = (target.corpus)();
        assert!(!corpus.is_empty(), "{} has no samples", target.name);
        for sample in corpus {
            assert!((target.run)(&sample), "{} does not accept its sample {}", target.name, sample.escape_ascii());
        }
    }
}

#[test]
fn every_parser_has_a_cargo_fuzz_target() {
    let manifest = include_str!("../fuzz_targets/Cargo.toml");
    for target in TARGETS {
        let entry = format!("name = \"{0}\"\npath = \"{0}.rs\"", target.name);
        assert!(manifest.contains(&entry), "fuzz_targets/Cargo.toml lacks {}", target.name);
    }
}

fn setting(name: &str, default: u64) -> u64 {
    match env::var(name) {
        Ok(value) => value.parse().unwrap_or_else(|_| panic!("{name}={value} is not a whole number")),
        Err(_) => default,
    }
}
