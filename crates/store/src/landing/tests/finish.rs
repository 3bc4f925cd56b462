//! Files get their names, and a landing ends.

use super::*;

#[test]
fn finish_file_sets_time_and_permissions() {
    let dir = tempfile::tempdir().unwrap();
    let mut entries = vec![entry(b"secret", 1), entry(b"tool", 1)];
    entries[0].metadata.mode = 0o400;
    entries[1].metadata.mode = 0o777;
    entries[1].metadata.modified = Timestamp { seconds: -5, nanos: 999_999_999 };
    let contents = Contents { directories: vec![directory("shut", 0o500)], ..files(entries) };
    let manifest = Manifest::new(b"set".to_vec(), Kind::Directory, contents).unwrap();
    let landing = Landing::create(dir.path(), Arc::new(manifest), REFUSE).unwrap();
    write(&landing, 0, b"ab").unwrap();
    finish(&landing);
    let stat = |name: &str| fs::metadata(dir.path().join("set").join(name)).unwrap();
    let (secret, tool) = (stat("secret"), stat("tool"));
    assert_eq!(secret.mode() & 0o7777, 0o400);
    assert_eq!((secret.mtime(), secret.mtime_nsec()), (1_000_000_000, 5));
    assert_eq!(tool.mode() & 0o7777, 0o777, "whatever the umask");
    assert_eq!((tool.mtime(), tool.mtime_nsec()), (-5, 999_999_999));
    assert_eq!(stat("shut").mode() & 0o7777, 0o500);
}

#[test]
fn finish_file_refuses_a_name_that_has_come_up_meanwhile() {
    let dir = tempfile::tempdir().unwrap();
    let landing = Landing::create(dir.path(), single("f", 1), REFUSE).unwrap();
    write(&landing, 0, b"n").unwrap();
    fs::write(dir.path().join("f"), b"theirs").unwrap();
    assert!(matches!(landing.finish_file(0), Err(LandingError::Exists { .. })));
    assert_eq!(fs::read(dir.path().join("f")).unwrap(), b"theirs");
    fs::remove_file(dir.path().join("f")).unwrap();
    landing.finish_file(0).unwrap();
    assert_eq!(fs::read(dir.path().join("f")).unwrap(), b"n");
}

#[test]
fn finish_files_names_all_but_the_one_whose_name_is_taken() {
    let dir = tempfile::tempdir().unwrap();
    let names: Vec<String> = (0..40).map(|i| format!("{i:02}")).collect();
    let files: Vec<_> = names.iter().map(|name| (name.as_bytes(), 1)).collect();
    let landing = Landing::create(dir.path(), tree(&files, &[]), REFUSE).unwrap();
    write(&landing, 0, &[7; 40]).unwrap();
    let taken = dir.path().join("set/20");
    fs::write(&taken, b"theirs").unwrap();
    let all: Vec<usize> = (0..40).collect();
    assert!(matches!(landing.finish_files(&all), Err(LandingError::Exists { path, .. }) if path == taken));
    assert!(matches!(landing.finish(), Err(LandingError::Incomplete { missing: 21 })));
    fs::remove_file(taken).unwrap();
    landing.finish_files(&all[..21]).unwrap();
    landing.finish().unwrap();
    drop(landing);
    assert_eq!(listing(&dir.path().join("set")), names);
}

#[test]
fn a_sealed_file_takes_nothing_more_and_waits_for_its_name() {
    let dir = tempfile::tempdir().unwrap();
    let landing = Landing::create(dir.path(), tree(&[(b"a", 1), (b"b", 1), (b"c", 1)], &[]), REFUSE).unwrap();
    write(&landing, 0, b"abc").unwrap();
    landing.seal(0).unwrap();
    landing.seal(1).unwrap();
    assert!(matches!(landing.seal(0), Err(LandingError::Finished(0))));
    assert!(matches!(write(&landing, 0, b"x"), Err(LandingError::Finished(0))));
    let modified = fs::metadata(dir.path().join("set/a.partial")).unwrap().mtime();
    assert_eq!(modified, 1_000_000_000);
    landing.finish_files(&[0, 2]).unwrap();
    assert_eq!(listing(&dir.path().join("set")), ["a", "b.partial", "c"]);
    drop(landing);
    // Something has landed, so it can be continued.
    assert_eq!(listing(dir.path()), ["set.inhaul", "set/", "set/a", "set/b.partial", "set/c"]);
    let landing = Landing::create(dir.path(), tree(&[(b"a", 1), (b"b", 1), (b"c", 1)], &[]), REFUSE).unwrap();
    write(&landing, 0, b"abc").unwrap();
    finish(&landing);
    drop(landing);
    assert_eq!(listing(dir.path()), ["set/", "set/a", "set/b", "set/c"]);
}

#[test]
fn finish_files_refuses_a_file_twice() {
    let dir = tempfile::tempdir().unwrap();
    let landing = Landing::create(dir.path(), tree(&[(b"a", 1), (b"b", 1)], &[]), REFUSE).unwrap();
    write(&landing, 0, b"ab").unwrap();
    assert!(matches!(landing.finish_files(&[0, 1, 0]), Err(LandingError::Finished(0))));
    assert_eq!(listing(dir.path()), ["set.inhaul", "set/", "set/a.partial", "set/b.partial"]);
    landing.finish_files(&[1, 0]).unwrap();
    landing.finish().unwrap();
}

#[test]
fn finish_wants_every_file_and_ends_the_landing() {
    let dir = tempfile::tempdir().unwrap();
    let landing = Landing::create(dir.path(), tree(&[(b"a", 1), (b"nil", 0)], &[]), REFUSE).unwrap();
    write(&landing, 0, b"a").unwrap();
    landing.finish_file(0).unwrap();
    assert!(matches!(landing.finish(), Err(LandingError::Incomplete { missing: 1 })));
    assert!(matches!(write(&landing, 0, b"b"), Err(LandingError::Finished(0))));
    landing.finish_file(1).unwrap();
    landing.finish().unwrap();
    assert!(matches!(landing.finish_file(1), Err(LandingError::Closed)));
    landing.abort();
    drop(landing);
    assert_eq!(listing(dir.path()), ["set/", "set/a", "set/nil"]);
}
