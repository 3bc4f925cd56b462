//! The quick cases: findings must equal the kept ones, and the README's statements must hold.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use inhaul_model_tests::cases::{RatesFound, Report, find_rates, find_transitions, rates, transitions};
use serde_json::Value;

/// The program's findings for all cases.
const KEPT: &str = include_str!("../results/two_level.json");

fn kept(part: &str, case: &str) -> Value {
    let all: Value = serde_json::from_str(KEPT).unwrap();
    let cases = all[part].as_array().unwrap();
    cases.iter().find(|found| found["case"] == case).unwrap_or_else(|| panic!("{case} is not kept")).clone()
}

fn found(case: &str) -> RatesFound {
    let cases = rates();
    let case = cases.iter().find(|of| of.name == case).unwrap_or_else(|| panic!("there is no case {case}"));
    find_rates(case).unwrap()
}

#[test]
fn what_is_found_is_what_is_kept() {
    let mut report = Report { rates: Vec::new(), transitions: Vec::new() };
    report.rates.extend(rates().iter().filter(|case| case.quick).map(|case| find_rates(case).unwrap()));
    report
        .transitions
        .extend(transitions().iter().filter(|case| case.quick).map(|case| find_transitions(case).unwrap()));
    for found in &report.rates {
        assert!(found.broken.is_empty(), "{}: {:?}", found.case, found.broken);
        assert_eq!(serde_json::to_value(found).unwrap(), kept("rates", &found.case));
    }
    for found in &report.transitions {
        assert!(found.proven, "{}: {}", found.case, found.most);
        assert_eq!(serde_json::to_value(found).unwrap(), kept("transitions", &found.case));
    }
}

#[test]
fn with_capacities_told_all_runs_end_at_max_min() {
    for case in ["capacities told", "capacities told, three flows", "capacity told 3 % too low"] {
        let found = found(case);
        assert!(found.converges && found.slots_until_end.is_some(), "{found:?}");
    }
}

/// gtp-2004 4.2: the increment doubles while the target is achieved, so a sender that gives no more is granted up to 8 %
/// that it does not use.
#[test]
fn what_a_slow_sender_leaves_is_not_all_used() {
    let found = found("a sender gives 300");
    assert_eq!(found.ends, 1);
    assert_eq!(found.target, [(306, 324), (676, 694)]);
}

/// gtp-2004 4.2: the estimate follows the path by losing on it.
#[test]
fn a_path_of_unknown_capacity_is_tested_for_ever() {
    let found = found("a path carries 300");
    assert!(!found.converges && found.loss_max > 0.0, "{found:?}");
    assert!(found.least_sum > 0.99, "{found:?}");
}
