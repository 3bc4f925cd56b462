use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use rustix::fs::Mode;
use tempfile::TempDir;

use super::*;
use crate::Kind;
use crate::digest;

/// `DIR/set` with a file, a nested file, an empty directory and an odd name; beside it `DIR/secret`.
fn offered_tree() -> (TempDir, Offered) {
    let dir = tempfile::tempdir().unwrap();
    let set = dir.path().join("set");
    fs::create_dir_all(set.join("sub/deep")).unwrap();
    fs::create_dir(set.join("empty")).unwrap();
    fs::write(set.join("one"), b"first").unwrap();
    fs::write(set.join("sub/deep/two"), b"second").unwrap();
    fs::write(set.join(OsStr::from_bytes(b"odd \n\xff")), b"!").unwrap();
    fs::write(dir.path().join("secret"), b"secret").unwrap();
    let offered = Offered::new(&[set]).unwrap();
    (dir, offered)
}

fn all_bytes(set: &DataSet) -> Vec<u8> {
    let mut buf = vec![0; set.manifest().size() as usize];
    set.read(0, &mut buf).unwrap();
    buf
}

#[test]
fn new_refuses_what_cannot_be_offered() {
    let dir = tempfile::tempdir().unwrap();
    assert!(matches!(Offered::new(&[]), Err(OfferedError::Nothing)));
    assert!(matches!(Offered::new(&[dir.path().join("gone")]), Err(OfferedError::NotFound { .. })));
    assert!(matches!(Offered::new(&["/dev/null".into()]), Err(OfferedError::Unsupported { .. })));
    let (a, b) = (dir.path().join("a/x"), dir.path().join("b/x"));
    fs::create_dir_all(&a).unwrap();
    fs::create_dir_all(&b).unwrap();
    assert!(matches!(Offered::new(&[a, b]), Err(OfferedError::SameName(name)) if name == b"x"));
}

#[test]
fn scan_lists_a_tree_in_order_and_reads_it_across_files() {
    let (_dir, offered) = offered_tree();
    let set = offered.scan(b"/", ScanOptions::default()).unwrap();
    let m = set.manifest();
    assert_eq!((m.name(), m.kind()), (&b"set"[..], Kind::Directory));
    let paths: Vec<_> = m.entries().iter().map(|e| e.path.as_slice()).collect();
    assert_eq!(paths, [&b"odd \n\xff"[..], b"one", b"sub/deep/two"]);
    let directories: Vec<_> = m.directories().iter().map(|d| d.path.as_slice()).collect();
    assert_eq!(directories, [&b"empty"[..], b"sub", b"sub/deep"]);
    assert_eq!(all_bytes(&set), b"!firstsecond");
    let mut part = [0; 4];
    set.read(4, &mut part).unwrap();
    assert_eq!(&part, b"stse");
    assert!(matches!(set.read(9, &mut part), Err(OfferedError::OutOfRange(_))));
}

#[test]
fn scan_within_asks_for_memory_in_proportion_to_what_there_is() {
    let dir = tempfile::tempdir().unwrap();
    for k in 0..2000 {
        fs::write(dir.path().join(format!("{k:04}")), b"").unwrap();
    }
    let offered = Offered::new(&[dir.path().to_path_buf()]).unwrap();
    let mut asked = 0;
    let set = offered.scan_within(b"/", ScanOptions::default(), &mut |bytes| {
        asked = bytes;
        true
    });
    assert_eq!(set.unwrap().manifest().entries().len(), 2000);
    assert!((2000 * 100..2000 * 400).contains(&asked), "{asked} bytes");
    let refused = offered.scan_within(b"/", ScanOptions::default(), &mut |bytes| bytes <= asked / 2);
    assert!(matches!(refused, Err(OfferedError::TooMuchMemory { .. })), "{refused:?}");
}

#[test]
fn is_same_tells_a_data_set_from_what_it_was_before() {
    let (dir, offered) = offered_tree();
    let scan = || offered.scan(b"/sub", ScanOptions::default()).unwrap();
    let first = scan();
    assert!(first.is_same(&scan()));
    assert!(!first.is_same(&offered.scan(b"/", ScanOptions::default()).unwrap()));
    let (sub, old) = (dir.path().join("set/sub"), dir.path().join("old"));
    fs::rename(&sub, &old).unwrap();
    assert!(std::process::Command::new("cp").arg("-a").args([&old, &sub]).status().unwrap().success());
    assert!(!first.is_same(&scan()), "alike, but another directory");
}

#[test]
fn scan_finds_files_and_directories_inside() {
    let (_dir, offered) = offered_tree();
    let file = offered.scan(b"/sub/deep/two", ScanOptions::default()).unwrap();
    assert_eq!((file.manifest().name(), file.manifest().kind()), (&b"two"[..], Kind::File));
    assert_eq!(all_bytes(&file), b"second");
    let sub = offered.scan(b"sub//./deep/", ScanOptions::default()).unwrap();
    assert_eq!(sub.manifest().name(), b"deep");
    assert_eq!(sub.manifest().entries()[0].path, b"two");
}

#[test]
fn scan_says_what_is_missing() {
    let (_dir, offered) = offered_tree();
    for request in ["/nothing", "/one/below", "/a\0b"] {
        let error = offered.scan(request.as_bytes(), ScanOptions::default()).unwrap_err();
        assert!(matches!(error, OfferedError::NotFound { .. }), "{request:?}: {error}");
    }
    assert_eq!(offered.scan(b"/sub/gone", ScanOptions::default()).unwrap_err().to_string(), "there is no '/sub/gone'");
}

#[test]
fn scan_never_leaves_what_is_offered() {
    let (dir, offered) = offered_tree();
    let set = dir.path().join("set");
    symlink("../secret", set.join("up")).unwrap();
    symlink(dir.path().join("secret"), set.join("absolute")).unwrap();
    symlink("..", set.join("sub/parent")).unwrap();
    symlink("../..", set.join("sub/out")).unwrap();
    for request in ["/../secret", "/sub/../../secret", "/up", "/absolute", "/sub/out/secret", "/sub/parent/up"] {
        let error = offered.scan(request.as_bytes(), ScanOptions::default()).unwrap_err();
        assert!(matches!(error, OfferedError::Outside { .. }), "{request}: {error}");
    }
    assert_eq!(all_bytes(&offered.scan(b"/sub/parent/one", ScanOptions::default()).unwrap()), b"first");
}

#[test]
fn scan_lists_links_and_names_what_cannot_be_carried() {
    let (dir, offered) = offered_tree();
    let set = dir.path().join("set");
    symlink("one", set.join("link")).unwrap();
    symlink(OsStr::from_bytes(b"/\xff/../gone"), set.join("sub/dangling")).unwrap();
    fs::hard_link(set.join("sub/deep/two"), set.join("a name")).unwrap();
    fs::hard_link(set.join("sub/deep/two"), set.join("sub/z")).unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, set.join("pipe"), FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    let scanned = offered.scan(b"/", ScanOptions::default()).unwrap();
    let m = scanned.manifest();
    let targets: Vec<_> = m.symlinks().iter().map(|link| (link.path.as_slice(), link.target.as_slice())).collect();
    assert_eq!(targets, [(&b"link"[..], &b"one"[..]), (b"sub/dangling", b"/\xff/../gone")]);
    let names: Vec<_> = m.hard_links().iter().map(|link| (link.path.as_slice(), link.file.as_slice())).collect();
    assert_eq!(names, [(&b"sub/deep/two"[..], &b"a name"[..]), (b"sub/z", b"a name")]);
    assert_eq!(m.skipped(), &crate::Skipped { count: 1, paths: vec![b"pipe".to_vec()] });
    assert_eq!(all_bytes(&scanned), b"second!first");
    let error = offered.scan(b"/pipe", ScanOptions::default());
    assert!(matches!(error, Err(OfferedError::Unsupported { .. })));
}

#[test]
fn scan_tells_holes_owners_and_attributes() {
    use std::os::unix::fs::{FileExt, MetadataExt};
    let dir = tempfile::tempdir().unwrap();
    let file = fs::File::create(dir.path().join("sparse")).unwrap();
    file.set_len(40 << 20).unwrap();
    file.write_all_at(&[1; 4096], 16 << 20).unwrap();
    let set = rustix::fs::fsetxattr(&file, "user.colour", b"red\0", rustix::fs::XattrFlags::empty());
    let offered = Offered::new(&[dir.path().into()]).unwrap();
    let options = ScanOptions { owner: true, attributes: true, no_links: false };
    for request in ["/", "/sparse"] {
        let scanned = offered.scan(request.as_bytes(), options).unwrap();
        let entry = &scanned.manifest().entries()[0];
        let stored: u64 = entry.size - entry.holes.iter().map(|hole| hole.len()).sum::<u64>();
        // File systems store whole blocks, of their own size.
        assert!((4096..2 << 20).contains(&stored), "{request}: {:?}", entry.holes);
        let stat = file.metadata().unwrap();
        assert_eq!(entry.metadata.owner, Some(crate::Owner { user: stat.uid(), group: stat.gid() }));
        if set.is_ok() {
            let colour = crate::Attribute { name: b"user.colour".to_vec(), value: b"red\0".to_vec() };
            assert_eq!(entry.metadata.attributes, [colour]);
        }
    }
}

#[test]
fn scan_of_several_directories_goes_by_their_names() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["a", "b"] {
        fs::create_dir(dir.path().join(name)).unwrap();
        fs::write(dir.path().join(name).join("f"), name).unwrap();
    }
    fs::write(dir.path().join("single"), "s").unwrap();
    let offered = Offered::new(&["a", "b", "single"].map(|name| dir.path().join(name))).unwrap();
    assert_eq!(all_bytes(&offered.scan(b"/b/f", ScanOptions::default()).unwrap()), b"b");
    assert_eq!(all_bytes(&offered.scan(b"/a", ScanOptions::default()).unwrap()), b"a");
    assert_eq!(all_bytes(&offered.scan(b"/single", ScanOptions::default()).unwrap()), b"s");
    let missing = offered.scan(b"/c/f", ScanOptions::default()).unwrap_err().to_string();
    assert_eq!(missing, "there is no '/c/f'; what is offered begins with /a or /b or /single");
    assert_eq!(all_bytes(&offered.scan(b"/", ScanOptions::default()).unwrap()), b"abs");
}

#[test]
fn a_name_means_the_same_whatever_else_is_offered() {
    let dir = tempfile::tempdir().unwrap();
    // A directory that has one of its own name in it.
    fs::create_dir_all(dir.path().join("a/a")).unwrap();
    fs::create_dir(dir.path().join("b")).unwrap();
    fs::write(dir.path().join("a/f"), b"outer").unwrap();
    fs::write(dir.path().join("a/a/f"), b"inner").unwrap();
    let [a, b] = ["a", "b"].map(|name| dir.path().join(name));
    let read = |offered: &Offered, request: &str| {
        offered.scan(request.as_bytes(), ScanOptions::default()).map(|set| all_bytes(&set))
    };
    let (alone, both) =
        (Offered::new(std::slice::from_ref(&a)).unwrap(), Offered::new(&[a.clone(), b.clone()]).unwrap());
    let named = |name: &str, path: &Path| Offer::named(name, path).unwrap();
    let called_a = Offered::of(&[named("a", &a)]).unwrap();
    for offered in [&alone, &both, &called_a] {
        assert_eq!(
            (read(offered, "/a/f").unwrap(), read(offered, "/a/a/f").unwrap()),
            (b"outer".to_vec(), b"inner".to_vec())
        );
    }
    // The name of the only directory may be left out, if it was given none.
    assert_eq!(read(&alone, "/f").unwrap(), b"outer");
    assert_eq!(alone.name_left_out(), Some(&b"a"[..]));
    let before = Offered::new(&[b.clone(), a.clone()]).unwrap();
    for offered in [&both, &before, &called_a] {
        assert!(matches!(read(offered, "/f"), Err(OfferedError::NotFound { .. })));
        assert_ne!(offered.name_left_out(), Some(&b"a"[..]));
    }
    let hint = both.scan(b"/f", ScanOptions::default()).unwrap_err().to_string();
    assert!(hint.ends_with("what is offered begins with /a or /b"), "{hint}");
    let not_utf8 = dir.path().join(OsStr::from_bytes(b"c\xff"));
    fs::create_dir(&not_utf8).unwrap();
    assert_eq!(Offered::new(&[not_utf8]).unwrap().name_left_out(), Some(&b"c\xff"[..]));
    let other = Offered::of(&[named("x", &a), b.into(), named("y", &a)]).unwrap();
    assert_eq!(
        (read(&other, "/x/f").unwrap(), read(&other, "/y/a/f").unwrap()),
        (b"outer".to_vec(), b"inner".to_vec())
    );
    assert!(matches!(Offered::of(&[named("x", &a), named("x", &a)]), Err(OfferedError::SameName(_))));
    let file = Offered::of(&[named("x", &a.join("f"))]).unwrap();
    assert_eq!(read(&file, "/x").unwrap(), b"outer");
    assert!(read(&file, "/f").is_err() && read(&file, "/").is_ok());
    for name in ["", ".", "..", "a/b", "a\n", &"x".repeat(256)] {
        assert!(Offer::named(name, "/").is_err(), "{name:?}");
    }
}

#[test]
fn a_name_that_could_mean_something_within_another_directory_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir_all(dir.path().join("a/b")).unwrap();
    fs::create_dir(dir.path().join("b")).unwrap();
    fs::write(dir.path().join("a/b/f"), b"within a").unwrap();
    fs::write(dir.path().join("b/f"), b"beside a").unwrap();
    let [a, b] = ["a", "b"].map(|name| dir.path().join(name));
    let read = |offered: &Offered, request: &str| {
        offered.scan(request.as_bytes(), ScanOptions::default()).map(|set| all_bytes(&set))
    };
    let alone = Offered::new(std::slice::from_ref(&a)).unwrap();
    assert_eq!(read(&alone, "/b/f").unwrap(), b"within a");
    assert_eq!(alone.unclear().count(), 0);
    let named = Offered::of(&[b.clone().into(), Offer::named("x", &a).unwrap()]).unwrap();
    assert_eq!((read(&named, "/b/f").unwrap(), named.unclear().count()), (b"beside a".to_vec(), 0));
    for both in [[a.clone(), b.clone()], [b.clone(), a.clone()]] {
        let both = Offered::new(&both).unwrap();
        assert_eq!(both.unclear().collect::<Vec<_>>(), [b"b"]);
        for request in ["/b/f", "/b", "b/"] {
            assert!(matches!(read(&both, request), Err(OfferedError::Unclear { .. })), "{request}");
        }
        assert_eq!(read(&both, "/a/b/f").unwrap(), b"within a");
        assert_eq!(read(&both, "/").unwrap(), b"within abeside a", "that has it under its name");
    }
    let other = Offered::of(&[a.into(), Offer::named("c", &b).unwrap()]).unwrap();
    assert_eq!((read(&other, "/c/f").unwrap(), other.unclear().count()), (b"beside a".to_vec(), 0));
}

#[test]
fn scan_of_a_single_offered_file_takes_both_names() {
    let (dir, _) = offered_tree();
    let offered = Offered::new(&[dir.path().join("secret")]).unwrap();
    for request in ["/", "", "/secret"] {
        assert_eq!(all_bytes(&offered.scan(request.as_bytes(), ScanOptions::default()).unwrap()), b"secret");
    }
    for request in ["/set", "/secret/x"] {
        assert!(
            matches!(offered.scan(request.as_bytes(), ScanOptions::default()), Err(OfferedError::NotFound { .. })),
            "{request}"
        );
    }
}

#[test]
fn scan_says_what_may_not_be_read() {
    let (dir, offered) = offered_tree();
    fs::set_permissions(dir.path().join("set/sub/deep/two"), fs::Permissions::from_mode(0o000)).unwrap();
    if fs::File::open(dir.path().join("set/sub/deep/two")).is_ok() {
        println!("skipped: this user reads files without permission");
        return;
    }
    let error = offered.scan(b"/sub/deep/two", ScanOptions::default()).unwrap_err();
    assert!(matches!(&error, OfferedError::Unreadable { path } if path == b"/sub/deep/two"), "{error}");
    let all = offered.scan(b"/", ScanOptions::default()).unwrap();
    assert_eq!(all.manifest().unreadable().paths, [b"sub/deep/two".to_vec()]);
}

#[test]
fn open_notices_a_file_that_changed() {
    let (dir, offered) = offered_tree();
    let path = dir.path().join("set/one");
    let set = offered.scan(b"/", ScanOptions::default()).unwrap();
    let changed = || matches!(set.open(1), Err(OfferedError::Changed { .. }));
    assert!(!changed());
    fs::write(&path, b"longer than before").unwrap();
    assert!(changed());
    fs::remove_file(&path).unwrap();
    assert!(changed());
    symlink("../secret", &path).unwrap();
    assert!(changed());
    assert!(matches!(set.open(3), Err(OfferedError::NoSuchFile(3))));
}

#[test]
fn read_notices_a_file_cut_short_while_open() {
    let (dir, offered) = offered_tree();
    let set = offered.scan(b"/one", ScanOptions::default()).unwrap();
    assert_eq!(all_bytes(&set), b"first");
    fs::write(dir.path().join("set/one"), b"f").unwrap();
    assert!(matches!(set.read(0, &mut [0; 5]), Err(OfferedError::Changed { .. })));
}

#[test]
fn read_group_gives_what_the_file_hash_is_made_of() {
    let dir = tempfile::tempdir().unwrap();
    let data: Vec<u8> = (0..digest::GROUP_BYTES + 77).map(|i| (i * i) as u8).collect();
    fs::write(dir.path().join("f"), &data).unwrap();
    let set = Offered::new(&[dir.path().into()]).unwrap().scan(b"/f", ScanOptions::default()).unwrap();
    let mut buf = Vec::new();
    let digests: Vec<_> = (0..2)
        .map(|group| {
            set.read_group(0, group, &mut buf).unwrap();
            digest::group_digest(data.len() as u64, group, &buf)
        })
        .collect();
    assert_eq!(digest::root(data.len() as u64, &digests), Some(blake3::hash(&data)));
}

#[test]
fn read_serves_more_files_than_it_holds_open() {
    let dir = tempfile::tempdir().unwrap();
    for i in 0..300u16 {
        fs::write(dir.path().join(format!("{i:03}")), i.to_be_bytes()).unwrap();
    }
    let set = Offered::new(&[dir.path().into()]).unwrap().scan(b"/", ScanOptions::default()).unwrap();
    let expected: Vec<u8> = (0..300u16).flat_map(u16::to_be_bytes).collect();
    assert_eq!(all_bytes(&set), expected);
    let open = set.open.lock().unwrap();
    assert_eq!(open.len(), open.limit());
}

#[test]
fn a_file_that_was_replaced_by_one_of_the_same_size_and_time_has_another_version() {
    let dir = tempfile::tempdir().unwrap();
    let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
    let write = |name: &str, bytes: &[u8]| {
        fs::write(dir.path().join(name), bytes).unwrap();
        fs::File::options().write(true).open(dir.path().join(name)).unwrap().set_modified(time).unwrap();
    };
    write("a", b"old bytes");
    write("b", b"other");
    let offered = Offered::new(&[dir.path().to_path_buf()]).unwrap();
    let scan = |path: &[u8]| offered.scan(path, ScanOptions::default()).unwrap();
    // As long after the change as it takes until every change shows.
    let later = i64::MAX;
    let before = [b"/".as_slice(), b"/a", b"/b"].map(scan);
    write("new", b"new bytes");
    fs::rename(dir.path().join("new"), dir.path().join("a")).unwrap();
    let after = [b"/".as_slice(), b"/a", b"/b"].map(scan);
    let differ =
        before.iter().zip(&after).map(|(before, after)| before.files_version(later) != after.files_version(later));
    assert_eq!(differ.collect::<Vec<_>>(), [true, true, false]);
    assert!(before[1].manifest().identity() == after[1].manifest().identity(), "the description tells nothing");
    assert!(!before[1].is_same(&after[1]) && before[2].is_same(&after[2]));
    assert_eq!(scan(b"/").files_version(later), after[0].files_version(later));
}
