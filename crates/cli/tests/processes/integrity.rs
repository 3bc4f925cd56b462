//! Mirrors with copies of the same size, some of them with wrong bytes.

use crate::common::{Outcome, Server, noise, run, tree, within};

const SIZE: usize = 20_000_000;
/// A wrong copy has a wrong byte in each stretch of this length: every part of it is wrong.
const WRONG_EVERY: usize = 1000;

/// The result of a transfer from mirrors that have `variants` of a file: 0 is good, every other number is wrong in its
/// own way.
struct Trial {
    outcome: Outcome,
    mirrors: Vec<String>,
    landed: Vec<(String, Vec<u8>)>,
}

fn haul(variants: &[u8]) -> Trial {
    haul_with(variants, &[])
}

fn haul_with(variants: &[u8], options: &[&str]) -> Trial {
    let to = tempfile::tempdir().unwrap();
    let mut servers = Vec::new();
    for &variant in variants {
        let from = tempfile::tempdir().unwrap();
        let mut bytes = noise(SIZE, 1);
        bytes.iter_mut().step_by(WRONG_EVERY).for_each(|byte| *byte ^= variant);
        std::fs::write(from.path().join("f"), bytes).unwrap();
        servers.push((Server::offer(from.path()), from));
    }
    let mirrors: Vec<String> = servers.iter().map(|(server, _)| server.address.clone()).collect();
    // Slow enough that all mirrors take part.
    let source = format!("inhaul://{}/f", mirrors.join(","));
    let to_it = within(to.path());
    let command = ["get", &source, &to_it, "--json", "--receive-rate", "200M"];
    let outcome = run(&[&command[..], options].concat());
    Trial { outcome, mirrors, landed: tree(to.path()) }
}

impl Trial {
    fn assert_healed(&self) {
        assert_eq!(self.outcome.code, Some(0), "{}", self.outcome.stderr);
        assert!(self.landed == [("f".to_owned(), noise(SIZE, 1))], "the wrong bytes have landed");
    }

    fn assert_refused(&self, words: &str) {
        assert_eq!(self.outcome.code, Some(10), "{}", self.outcome.stderr);
        assert!(self.outcome.stderr.contains("are not the same on all mirrors"), "{}", self.outcome.stderr);
        assert!(self.outcome.stderr.contains(words), "{}", self.outcome.stderr);
        for mirror in &self.mirrors {
            assert!(self.outcome.stderr.contains(&format!("{mirror}: ")), "{}", self.outcome.stderr);
        }
        assert!(self.landed.iter().all(|(name, _)| name != "f"), "{:?}", self.landed.first());
    }
}

#[test]
fn mirror_with_wrong_bytes_is_healed_from_the_others_and_named() {
    for bad in [0, 1, 2] {
        let mut variants = [0; 3];
        variants[bad] = 1;
        let trial = haul(&variants);
        trial.assert_healed();
        let report = trial.outcome.json();
        assert_eq!(report["sources"][bad]["status"], "different", "{report}");
        let warning = format!("going on without {}: bytes ", trial.mirrors[bad]);
        assert!(trial.outcome.stderr.contains(&warning), "{}", trial.outcome.stderr);
    }
}

#[test]
fn mirrors_that_differ_without_a_majority_are_refused() {
    for variants in [&[0, 1][..], &[0, 1, 2]] {
        haul(variants).assert_refused("no majority tells which copy is right");
    }
}

#[test]
fn a_checksum_that_is_expected_decides() {
    let good = tempfile::tempdir().unwrap();
    std::fs::write(good.path().join("f"), noise(SIZE, 1)).unwrap();
    let listed = run(&["manifest", "--format", "sha256", good.path().to_str().unwrap()]);
    let digits = listed.stdout.split_whitespace().next().unwrap();
    let expected = format!("sha256:{digits}");
    haul_with(&[1, 1, 0], &["--expect", &expected]).assert_healed();
    let trial = haul_with(&[1, 2], &["--expect", &expected]);
    assert_eq!(trial.outcome.code, Some(10), "{}", trial.outcome.stderr);
    assert!(trial.landed.iter().all(|(name, _)| name != "f"), "{:?}", trial.landed.first());
}

#[test]
fn a_checksum_is_expected_of_one_file() {
    let from = tempfile::tempdir().unwrap();
    std::fs::create_dir(from.path().join("set")).unwrap();
    let server = Server::offer(from.path());
    let source = format!("inhaul://{}/set", server.address);
    let (to, expected) = (tempfile::tempdir().unwrap(), format!("blake3:{}", "0".repeat(64)));
    let outcome = run(&["get", &source, &within(to.path()), "--expect", &expected]);
    assert_eq!(outcome.code, Some(10), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("is a directory there"), "{}", outcome.stderr);
    let outcome = run(&["get", &source, &source, &within(to.path()), "--expect", &expected]);
    assert!(outcome.code == Some(2) && outcome.stderr.contains("takes one SOURCE"), "{}", outcome.stderr);
}

#[test]
fn a_weak_checksum_is_compared_and_named_and_decides_nothing_between_mirrors() {
    // MD5, CRC-32C (in base64, as S3 has it) and Adler-32 of these nine digits.
    let sums = ["md5:25f9e794323b453885f5181f1b624d0b", "crc32c:4waSgw==", "adler32:091e01de"];
    let offers = ["123456789", "123456780"].map(|bytes| {
        let from = tempfile::tempdir().unwrap();
        std::fs::write(from.path().join("f"), bytes).unwrap();
        (Server::offer(from.path()), from)
    });
    let [good, bad] = [0, 1].map(|index: usize| offers[index].0.address.clone());
    let get = |mirrors: &str, sum: &str| {
        let to = tempfile::tempdir().unwrap();
        let outcome = run(&["get", &format!("inhaul://{mirrors}/f"), &within(to.path()), "--expect", sum, "--json"]);
        (outcome, tree(to.path()))
    };
    for sum in sums {
        let kind = sum.split_once(':').unwrap().0;
        let (outcome, landed) = get(&good, sum);
        assert_eq!((outcome.code, landed.len()), (Some(0), 1), "{}", outcome.stderr);
        let (report, file) = (outcome.json(), outcome.json()["files"][0].clone());
        assert_eq!((&file["checksums"][0], &file["strength"]), (&kind.into(), &"damage".into()), "{report}");
        assert!(outcome.stderr.contains("1 file is compared with a weak checksum ("), "{}", outcome.stderr);
        let (outcome, landed) = get(&bad, sum);
        assert_eq!((outcome.code, landed.len()), (Some(10), 0), "{}", outcome.stderr);
        assert!(outcome.stderr.contains(&format!("not with the {kind} of the list")), "{}", outcome.stderr);
    }
    // A mirror that has the hash may have forged it: mirrors that contradict each other need another authority.
    let (outcome, landed) = get(&format!("{bad},{good}"), sums[0]);
    assert_eq!(outcome.code, Some(10), "{}", outcome.stderr);
    assert!(landed.iter().all(|(name, _)| name != "f"), "{landed:?}");
}
