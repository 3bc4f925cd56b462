use super::*;
use inhaul_store::LandingOptions;
use inhaul_store::digest::{GROUP_BYTES, group_digest};
use inhaul_udp::Poller;
use std::io::IoSlice;
use std::time::Duration;

/// A verifier for a file of one group and a bit, and an empty file, landing in a directory of their own.
fn verifier() -> (tempfile::TempDir, Arc<Landing>, Verifier, Poller) {
    let dir = tempfile::tempdir().unwrap();
    let manifest = inhaul_session::session::groups::testing::manifest_of(&[("a", GROUP_BYTES + 9), ("b", 0)]);
    let landing = Arc::new(Landing::create(dir.path(), Arc::clone(&manifest), LandingOptions::default()).unwrap());
    let poller = Poller::new().unwrap();
    let groups = Groups::new(manifest);
    let landing_too = Arc::clone(&landing);
    let objects =
        vec![ToVerify { groups, landing: landing_too, sums: KnownSums::new(), hash_holes: true, has_mirrors: true }];
    let verifier = Verifier::start(objects, poller.waker(1).unwrap()).unwrap();
    (dir, landing, verifier, poller)
}

fn next(verifier: &Verifier) -> Finding {
    verifier.findings.recv_timeout(Duration::from_secs(20)).unwrap()
}

fn digests() -> Vec<GroupDigest> {
    let first = group_digest(GROUP_BYTES + 9, 0, &vec![1; GROUP_BYTES as usize]);
    let second = group_digest(GROUP_BYTES + 9, 1, &[2; 9]);
    vec![first, second, group_digest(0, 0, &[])]
}

#[test]
fn verifier_names_files_once_all_groups_agree() {
    let (dir, landing, verifier, _poller) = verifier();
    verifier.tell(Task::Digests { object: 0, first_group: 0, values: digests() });
    landing.write(GROUP_BYTES, &[IoSlice::new(&[2; 9])]).unwrap();
    verifier.tell(Task::Whole { object: 0, group: 1 });
    landing.write(0, &[IoSlice::new(&vec![1; GROUP_BYTES as usize])]).unwrap();
    verifier.tell(Task::Whole { object: 0, group: 0 });
    let mut named = Vec::new();
    let mut verified = 0;
    loop {
        match next(&verifier) {
            Finding::Verified { bytes, .. } => verified += bytes,
            Finding::FileDone { file, hash, .. } => named.push((file, hash)),
            Finding::ObjectDone { object: 0 } => break,
            finding => panic!("{finding:?}"),
        }
    }
    named.sort_by_key(|&(file, _)| file);
    let bytes = std::fs::read(dir.path().join("set/a")).unwrap();
    assert_eq!(bytes.len() as u64, verified);
    let whole = digest::root(bytes.len() as u64, &digests()[..2]).unwrap();
    assert_eq!(named, [(0, Some(whole)), (1, digest::root(0, &digests()[2..]))]);
    assert!(dir.path().join("set/b").exists());
}

#[test]
fn verifier_asks_again_for_what_is_wrong_and_gives_its_file_up_the_third_time() {
    let (dir, landing, verifier, _poller) = verifier();
    landing.write(GROUP_BYTES, &[IoSlice::new(&[3; 9])]).unwrap();
    verifier.tell(Task::Digests { object: 0, first_group: 1, values: digests()[1..2].to_vec() });
    for _ in 0..2 {
        verifier.tell(Task::Whole { object: 0, group: 1 });
        let finding = next(&verifier);
        assert!(matches!(finding, Finding::Wrong { object: 0, group: 1, .. }), "{finding:?}");
    }
    verifier.tell(Task::Whole { object: 0, group: 1 });
    let finding = next(&verifier);
    let Finding::FileFailed { object: 0, file: 0, groups_left: 2, error } = finding else { panic!("{finding:?}") };
    let MoveError::Integrity { path, start, times, .. } = error else { panic!("{error}") };
    assert_eq!((path.as_str(), start, times), ("a", GROUP_BYTES, 3));
    // What comes of it all the same is passed over, and the other file lands.
    landing.write(GROUP_BYTES, &[IoSlice::new(&[3; 9])]).unwrap();
    verifier.tell(Task::Whole { object: 0, group: 1 });
    verifier.tell(Task::Digests { object: 0, first_group: 0, values: digests() });
    let findings: Vec<_> = (0..3).map(|_| next(&verifier)).collect();
    assert!(
        matches!(
            findings[..],
            [Finding::Verified { .. }, Finding::FileDone { file: 1, .. }, Finding::ObjectDone { .. }]
        ),
        "{findings:?}"
    );
    assert!(dir.path().join("set/b").exists() && dir.path().join("set/a.partial").exists());
}

#[test]
fn a_file_that_its_source_cannot_bring_leaves_nothing_and_the_others_land() {
    let (dir, landing, verifier, _poller) = verifier();
    landing.write(0, &[IoSlice::new(&[1; 9])]).unwrap();
    let error = || MoveError::Internal("it is gone".to_owned());
    verifier.tell(Task::GiveUp { object: 0, file: 0, error: error(), keep: false });
    let finding = next(&verifier);
    assert!(matches!(finding, Finding::FileFailed { file: 0, groups_left: 2, .. }), "{finding:?}");
    verifier.tell(Task::Digests { object: 0, first_group: 0, values: digests() });
    let findings: Vec<_> = (0..3).map(|_| next(&verifier)).collect();
    assert!(matches!(findings.last(), Some(Finding::ObjectDone { .. })), "{findings:?}");
    // What is verified cannot be given up.
    verifier.tell(Task::GiveUp { object: 0, file: 1, error: error(), keep: false });
    drop((verifier, landing));
    let left: Vec<_> = std::fs::read_dir(dir.path().join("set")).unwrap().map(|f| f.unwrap().file_name()).collect();
    assert_eq!(left, ["b"]);
}
