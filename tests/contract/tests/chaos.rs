//! Chaos drawn from seeds, a few of them; `cargo run --release -p inhaul-contract-tests --example chaos -- 0..10000`
//! tries many.

use inhaul_contract_tests::chaos::{Outcome, Plan, run};

/// Seeds of the default suite; `INHAUL_CHAOS_SEEDS` is another number of them.
const SEEDS: u64 = 150;

#[test]
fn bit_exact_or_a_clear_error_in_bounded_time() {
    let seeds = std::env::var("INHAUL_CHAOS_SEEDS").map_or(SEEDS, |text| text.parse().unwrap());
    let mut broken = Vec::new();
    let (mut complete, mut failed) = (0, 0);
    for seed in 0..seeds {
        match run(&Plan::draw(seed)).map(|report| report.outcome) {
            Ok(Outcome::Complete) => complete += 1,
            Ok(Outcome::Failed(causes)) => {
                assert!(causes.iter().all(|cause| !cause.is_empty()), "seed {seed}");
                failed += 1;
            }
            Err(cause) => broken.push(format!("seed {seed}: {cause}")),
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
    // Both happen, or the seeds try nothing.
    assert!(complete > seeds / 2 && failed > 0, "{complete} complete, {failed} failed");
}

#[test]
fn a_seed_is_replayed_to_the_last_bit() {
    for seed in [0, 9, 61] {
        let trace = || run(&Plan::draw(seed)).map(|report| (report.trace, report.at, report.events));
        assert_eq!(trace(), trace(), "seed {seed}");
    }
}

/// Sealed datagrams came to their endpoints with their tags in the simulator: blocks were too long, so FIXED placed more
/// than was sent, and GTP took none.
#[test]
fn seeds_that_found_sealed_datagrams_that_were_not_opened() {
    for seed in [1, 9] {
        let plan = Plan::draw(seed);
        assert!(plan.sealed, "seed {seed} is another plan now: find one of this kind");
        run(&plan).unwrap();
    }
}
