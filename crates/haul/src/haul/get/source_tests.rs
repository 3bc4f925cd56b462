//! `get` from sources that do what real ones do wrong: see [`Manners`].

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use inhaul_base::{ByteRange, Span};
use inhaul_store::checksums::Algorithm;

use super::get;
use inhaul_session::api::error::MoveError;
use inhaul_session::api::options::{GetOptions, Stop};
use inhaul_session::api::report::{Report, SourceStatus};
use inhaul_session::api::request::{Known, Part, Request};
use inhaul_session::api::source::Source;
use inhaul_sources::fake::{Manners, delivered, make};

const MIB: usize = 1 << 20;

fn data(bytes: usize) -> Arc<Vec<u8>> {
    Arc::new((0..bytes as u64).map(|at| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect())
}

fn fetch(urls: &[String], known: Known, into: &Path) -> (Report, Result<(), MoveError>) {
    let source: Source = urls.join(",").parse().unwrap();
    let request = Request { part: Part::Whole(known), ..source.into() };
    let mut options = GetOptions::new(vec![request], into.join("file"));
    options.retry_for = Span::from_secs(20);
    get(&options, &Stop::new(), &mut |_| {})
}

/// Fetches from sources of these manners: what they delivered, and what came of it. All of it must be right.
fn fetch_all(name: &str, bytes: usize, manners: Vec<Manners>) -> (Vec<u64>, Report) {
    let (data, into) = (data(bytes), tempfile::tempdir().unwrap());
    let names: Vec<String> = (0..manners.len()).map(|at| format!("{name}-{at}")).collect();
    let urls: Vec<String> = names.iter().zip(manners).map(|(name, manners)| make(name, &data, manners)).collect();
    let (report, result) = fetch(&urls, Known::default(), into.path());
    result.unwrap();
    assert!(std::fs::read(into.path().join("file")).unwrap() == *data, "{name}: other bytes have landed");
    (names.iter().map(|name| delivered(name)).collect(), report)
}

#[test]
fn a_source_without_digests_lands_and_is_not_called_verified() {
    let (delivered, report) = fetch_all("plain", 5 * MIB + 17, vec![Manners { lanes: 3, ..Manners::default() }]);
    assert_eq!(delivered, [5 * MIB as u64 + 17 + (48 << 10)], "only samples come twice");
    assert!(!report.files[0].verified && report.files[0].blake3.is_some(), "{report:?}");
    fetch_all("empty", 0, vec![Manners::default()]);
    fetch_all("byte", 1, vec![Manners::default(), Manners::default()]);
}

#[test]
fn what_is_known_of_the_file_verifies_it_and_finds_a_lie() {
    let (data, into) = (data(3 * MIB), tempfile::tempdir().unwrap());
    let known = || Known { size: None, sums: vec![(Algorithm::Blake3, blake3::hash(&data).as_bytes().to_vec())] };
    let (report, result) = fetch(&[make("known", &data, Manners::default())], known(), into.path());
    result.unwrap();
    assert!(report.files[0].verified, "{report:?}");
    let lies = Manners { lies: ByteRange::new(2_000_000, 2_000_001), ..Manners::default() };
    let into = tempfile::tempdir().unwrap();
    let (_, result) = fetch(&[make("liar", &data, lies)], known(), into.path());
    assert!(matches!(result, Err(MoveError::OtherVersion { .. })), "{result:?}");
    assert!(!into.path().join("file").exists(), "nothing wrong gets the name");
}

#[test]
fn a_source_that_opens_late_joins() {
    let late = Manners { opens_after: Duration::from_millis(1500), ..Manners::default() };
    let slow = Manners { drips: Duration::from_millis(20), ..Manners::default() };
    let (delivered, _) = fetch_all("late", 16 * MIB, vec![slow, late.clone()]);
    assert!(delivered[1] > 0, "{delivered:?}");
    // Alone it is waited for.
    fetch_all("late-alone", MIB, vec![late]);
}

#[test]
fn a_source_that_drips_holds_nothing_up() {
    let drips = Manners { drips: Duration::from_millis(400), ..Manners::default() };
    let steady = Manners { drips: Duration::from_millis(2), ..Manners::default() };
    let began = Instant::now();
    let (delivered, _) = fetch_all("drips", 24 * MIB, vec![drips, steady]);
    let took = began.elapsed();
    // Alone, the steady one takes 0.8 s, and the one that drips 154 s.
    assert!(took < Duration::from_secs(20), "{took:?}, {delivered:?}");
    assert!(delivered[1] > delivered[0] * 4, "{delivered:?}");
}

#[test]
fn a_source_that_goes_away_comes_back() {
    let leaves = Manners { leaves: Some((2 << 20, Duration::from_secs(2))), ..Manners::default() };
    let (delivered, report) = fetch_all("leaves", 8 * MIB, vec![leaves.clone()]);
    assert!(delivered[0] < 9 << 20, "what had come is not fetched again: {delivered:?}");
    assert_eq!(report.sources.len(), 1, "{report:?}");
    assert_eq!(report.sources[0].status, SourceStatus::Complete);
    let other = Manners { drips: Duration::from_millis(10), ..Manners::default() };
    fetch_all("leaves-others", 8 * MIB, vec![leaves, other]);
}

#[test]
fn a_source_that_has_too_much_to_do_is_asked_later() {
    let busy = Manners { busy: Some((2, Duration::from_millis(200))), lanes: 2, ..Manners::default() };
    fetch_all("busy", 12 * MIB, vec![busy]);
    let cuts = Manners { cuts: Some(2), ..Manners::default() };
    let (delivered, _) = fetch_all("cuts", 12 * MIB, vec![cuts]);
    assert!(delivered[0] <= 13 << 20, "the rest is asked for, not all of it: {delivered:?}");
}

#[test]
fn a_source_of_another_size_takes_no_part() {
    let other = Manners { claims: Some(MIB as u64 + 1), ..Manners::default() };
    let good = Manners { drips: Duration::from_millis(20), ..Manners::default() };
    let (delivered, report) = fetch_all("sizes", MIB, vec![good.clone(), good, other]);
    assert!(delivered[2] <= 48 << 10, "{delivered:?}");
    assert!(report.sources.iter().any(|source| source.status == SourceStatus::Different), "{report:?}");
}

#[test]
fn sources_of_one_size_and_different_bytes_are_not_mixed() {
    let other =
        Manners { lies: ByteRange::new(8 << 20, 9 << 20), drips: Duration::from_millis(1), ..Manners::default() };
    let good = Manners { drips: Duration::from_millis(1), ..Manners::default() };
    let (delivered, report) = fetch_all("versions", 16 * MIB, vec![good.clone(), other.clone(), good.clone()]);
    assert!(delivered[1] <= 48 << 10, "no more than samples: {delivered:?}");
    assert!(report.sources.iter().any(|source| source.status == SourceStatus::Different), "{report:?}");
    // Of two, neither is known to be right.
    let (data, into) = (data(16 * MIB), tempfile::tempdir().unwrap());
    let urls = [make("tied-0", &data, good), make("tied-1", &data, other)];
    let (_, result) = fetch(&urls, Known::default(), into.path());
    assert!(matches!(result, Err(MoveError::MirrorsDiffer { .. })), "{result:?}");
}
