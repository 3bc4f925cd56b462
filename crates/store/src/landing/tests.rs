mod finish;

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use proptest::prelude::*;
use tempfile::TempDir;

use super::*;
use crate::digest::{GROUP_BYTES, group_count, group_digest, root};
use crate::{Contents, Directory, Entry, Existing, Metadata, Offered, ScanOptions, Timestamp};

const REFUSE: LandingOptions =
    LandingOptions { existing: Existing::Refuse, fresh: false, owner: false, attributes: false, other_bytes: 0 };
const OVERWRITE: LandingOptions = LandingOptions { existing: Existing::Replace, ..REFUSE };

fn entry(path: &[u8], size: u64) -> Entry {
    let modified = Timestamp { seconds: 1_000_000_000, nanos: 5 };
    let metadata = Metadata { mode: 0o644, modified, ..Metadata::default() };
    Entry { path: path.to_vec(), size, metadata, holes: Vec::new() }
}

fn single(name: &str, size: u64) -> Arc<Manifest> {
    Arc::new(Manifest::new(name.into(), Kind::File, files(vec![entry(name.as_bytes(), size)])).unwrap())
}

fn files(files: Vec<Entry>) -> Contents {
    Contents { files, ..Contents::default() }
}

fn directory(path: &str, mode: u32) -> Directory {
    Directory { path: path.into(), metadata: Metadata { mode, ..Metadata::default() } }
}

/// A directory data set called `set`.
fn tree(files: &[(&[u8], u64)], directories: &[&str]) -> Arc<Manifest> {
    let files = files.iter().map(|(path, size)| entry(path, *size)).collect();
    let directories = directories.iter().map(|path| directory(path, 0o755)).collect();
    let contents = Contents { top: directory("", 0o755).metadata, files, directories, ..Contents::default() };
    Arc::new(Manifest::new(b"set".to_vec(), Kind::Directory, contents).unwrap())
}

fn write(landing: &Landing, offset: u64, bytes: &[u8]) -> Result<(), LandingError> {
    landing.write(offset, &[IoSlice::new(bytes)])
}

fn land_as(dest: &Path, manifest: Arc<Manifest>, options: LandingOptions) -> Result<Landing, LandingError> {
    let plan = Plan::new(&Site::As(dest.to_owned()), manifest, &Filter::default(), options.existing)?;
    Landing::carry_out(plan, options)
}

fn finish(landing: &Landing) {
    (0..landing.manifest().entries().len()).for_each(|index| landing.finish_file(index).unwrap());
    landing.finish().unwrap();
}

/// Everything beneath `dir`, as paths with a `/` behind directories.
fn listing(dir: &Path) -> Vec<String> {
    fn visit(dir: &Path, top: &Path, found: &mut Vec<String>) {
        for item in fs::read_dir(dir).unwrap().map(Result::unwrap) {
            let is_dir = item.file_type().unwrap().is_dir();
            let shown = item.path().strip_prefix(top).unwrap().to_string_lossy().into_owned();
            found.push(if is_dir { shown + "/" } else { shown });
            if is_dir {
                visit(&item.path(), top, found);
            }
        }
    }
    let mut found = Vec::new();
    visit(dir, dir, &mut found);
    found.sort();
    found
}

#[test]
fn landing_can_be_shared_between_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<Landing>();
}

#[test]
fn a_site_is_what_the_data_set_becomes() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    fs::create_dir(path("into")).unwrap();
    let target = |dest: &str, manifest| land_as(&path(dest), manifest, REFUSE).map(|landing| landing.target());
    assert_eq!(target("new", single("f", 1)).unwrap(), path("new"));
    assert_eq!(target("new", tree(&[], &[])).unwrap(), path("new"));
    assert_eq!(target("into", tree(&[], &[])).unwrap(), path("into"));
    let error = target("into", single("f", 1)).unwrap_err();
    assert!(error.to_string().contains("/into' is a directory: say '"), "{error}");
    assert!(matches!(error, LandingError::NeedsSlash { .. }), "{error}");
    let error = target("gone/new", single("f", 1)).unwrap_err();
    assert!(matches!(error, LandingError::NoDirectory { .. }), "{error}");
    fs::write(path("file"), b"").unwrap();
    for dest in ["file", "file/new"] {
        let error = target(dest, tree(&[], &[])).unwrap_err();
        assert!(matches!(error, LandingError::NotADirectory { .. }), "{dest}: {error}");
    }
    // A link that its user has named is followed, and then what it leads to is what the data set becomes.
    symlink("into", path("way")).unwrap();
    let led_to = path("into").canonicalize().unwrap();
    assert_eq!(target("way", tree(&[], &[])).unwrap(), led_to);
    assert!(matches!(target("way", single("f", 1)), Err(LandingError::NeedsSlash { .. })));
    assert_eq!(listing(dir.path()), ["file", "into/", "way"]);
}

#[test]
fn a_tree_written_backwards_lands_whole() {
    let dir = tempfile::tempdir().unwrap();
    let long = [b'n'; 250];
    let odd: &[u8] = b"odd \n\xff";
    let files: [(&[u8], u64); 6] = [(b"a", 3), (b"a.partial", 2), (b"d/e/deep", 4), (b"nil", 0), (&long, 2), (odd, 1)];
    let landing = Landing::create(dir.path(), tree(&files, &["d", "d/e", "empty"]), REFUSE).unwrap();
    let bytes = b"0123456789ab";
    for at in (0..bytes.len()).rev() {
        write(&landing, at as u64, &bytes[at..=at]).unwrap();
    }
    assert!(!dir.path().join("set/a").exists());
    finish(&landing);
    drop(landing);
    let set = Offered::new(&[dir.path().into()]).unwrap().scan(b"/set", ScanOptions::default()).unwrap();
    assert_eq!(listing(dir.path()).len(), 10);
    let mut read = [0; 12];
    set.read(0, &mut read).unwrap();
    assert_eq!(&read, bytes);
    assert_eq!(fs::read(dir.path().join("set").join(OsStr::from_bytes(odd))).unwrap().len(), 1);
    assert!(set.manifest().directories().iter().any(|d| d.path == b"empty"));
}

#[test]
fn write_crosses_files_and_takes_more_slices_than_one_call() {
    let dir = tempfile::tempdir().unwrap();
    let landing = Landing::create(dir.path(), tree(&[(b"a", 1500), (b"b", 0), (b"c", 1500)], &[]), REFUSE).unwrap();
    let bytes: Vec<u8> = (0..3000u32).map(|i| i as u8).collect();
    let slices: Vec<_> = bytes.iter().map(|b| IoSlice::new(std::slice::from_ref(b))).collect();
    landing.write(0, &slices).unwrap();
    finish(&landing);
    let landed = ["set/a", "set/c"].map(|name| fs::read(dir.path().join(name)).unwrap());
    assert_eq!(landed.concat(), bytes);
}

#[test]
fn write_beyond_the_end_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let landing = Landing::create(dir.path(), single("f", 4), REFUSE).unwrap();
    for at in [1, 4, u64::MAX] {
        assert!(matches!(write(&landing, at, b"four"), Err(LandingError::OutOfRange(_))), "{at}");
    }
    write(&landing, 0, b"four").unwrap();
}

#[test]
fn read_group_gives_back_what_was_written() {
    let dir = tempfile::tempdir().unwrap();
    let data: Vec<u8> = (0..2 * GROUP_BYTES + 99).map(|i| (i * 7 + i / 999) as u8).collect();
    let size = data.len() as u64;
    let landing = Landing::create(dir.path(), tree(&[(b"before", 5), (b"f", size)], &[]), REFUSE).unwrap();
    write(&landing, 5, &data).unwrap();
    let mut buf = Vec::new();
    let digests: Vec<_> = (0..group_count(size))
        .map(|group| {
            landing.read_group(1, group, &mut buf).unwrap();
            group_digest(size, group, &buf)
        })
        .collect();
    assert_eq!(root(size, &digests), Some(blake3::hash(&data)));
    assert!(matches!(landing.read_group(2, 0, &mut buf), Err(LandingError::NoSuchFile(2))));
}

#[test]
fn files_that_exist_are_kept_unless_overwritten() {
    let dir = tempfile::tempdir().unwrap();
    let set = dir.path().join("set");
    fs::create_dir(&set).unwrap();
    fs::write(set.join("a"), b"old").unwrap();
    fs::write(set.join("other"), b"other").unwrap();
    let manifest = tree(&[(b"a", 3), (b"d/b", 1)], &["d"]);
    let error = Landing::create(dir.path(), Arc::clone(&manifest), REFUSE).unwrap_err();
    assert!(matches!(&error, LandingError::Exists { path, .. } if *path == set.join("a")), "{error}");
    assert_eq!(listing(&set), ["a", "other"]);
    let landing = Landing::create(dir.path(), manifest, OVERWRITE).unwrap();
    write(&landing, 0, b"newd").unwrap();
    assert_eq!(fs::read(set.join("a")).unwrap(), b"old");
    finish(&landing);
    assert_eq!(listing(&set), ["a", "d/", "d/b", "other"]);
    assert_eq!(fs::read(set.join("a")).unwrap(), b"new");
}

#[test]
fn a_directory_in_a_files_place_is_never_replaced() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("f")).unwrap();
    let error = Landing::create(dir.path(), single("f", 1), OVERWRITE).unwrap_err();
    assert!(matches!(error, LandingError::IsADirectory { .. }), "{error}");
}

#[test]
fn two_landings_at_one_place_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let first = Landing::create(dir.path(), single("f", 3), REFUSE).unwrap();
    write(&first, 0, b"one").unwrap();
    for options in [REFUSE, OVERWRITE] {
        let error = Landing::create(dir.path(), single("f", 3), options).unwrap_err();
        assert!(matches!(error, LandingError::Busy { .. }), "{error}");
    }
    assert_eq!(listing(dir.path()), ["f.inhaul", "f.partial"]);
    finish(&first);
    drop(first);
    assert_eq!(listing(dir.path()), ["f"]);
}

#[test]
fn a_file_with_the_name_of_a_partial_one_is_kept_unless_overwritten() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("f.partial"), b"theirs").unwrap();
    let error = Landing::create(dir.path(), single("f", 3), REFUSE).unwrap_err();
    assert!(matches!(error, LandingError::PartialExists { .. }), "{error}");
    assert_eq!(listing(dir.path()), ["f.partial"]);
    let second = Landing::create(dir.path(), single("f", 3), OVERWRITE).unwrap();
    write(&second, 0, b"two").unwrap();
    finish(&second);
    assert_eq!(fs::read(dir.path().join("f")).unwrap(), b"two");
}

#[test]
fn a_file_with_the_name_of_the_journal_is_never_replaced() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("f.inhaul"), b"theirs").unwrap();
    let error = Landing::create(dir.path(), single("f", 3), OVERWRITE).unwrap_err();
    assert!(matches!(&error, LandingError::NotAJournal { path } if path.ends_with("f.inhaul")), "{error}");
    assert_eq!(listing(dir.path()), ["f.inhaul"]);
}

#[test]
fn too_little_space_is_found_before_anything_is_made() {
    let dir = tempfile::tempdir().unwrap();
    let error = Landing::create(dir.path(), tree(&[(b"d/f", 1 << 60)], &["d"]), REFUSE).unwrap_err();
    let LandingError::NoSpace { needed, free, .. } = &error else { panic!("{error}") };
    assert_eq!(*needed, 1 << 60);
    assert!(*free < *needed);
    assert!(error.to_string().contains("1152921.50 TB needed"), "{error}");
    assert_eq!(listing(dir.path()), [""; 0]);
}

#[test]
fn a_full_disk_is_told_by_what_the_file_still_needs() {
    let dir = tempfile::tempdir().unwrap();
    let landing = Landing::create(dir.path(), single("f", 1 << 20), REFUSE).unwrap();
    write(&landing, 0, &[1; 1 << 16]).unwrap();
    rustix::fs::fsync(&*landing.opened(landing.lock(), 0).unwrap().1).unwrap();
    let LandingError::NoSpace { needed, .. } = landing.file_error("write", 0, Errno::NOSPC) else { panic!() };
    assert_eq!(needed, (1 << 20) - (1 << 16));
    assert!(matches!(landing.file_error("write", 0, Errno::DQUOT), LandingError::NoSpace { free: 0, .. }));
    assert!(matches!(landing.file_error("make", 0, Errno::FBIG), LandingError::FileTooLarge { size: 0x10_0000, .. }));
}

#[test]
fn a_destination_that_takes_no_files_is_told() {
    // sysfs takes no files from anybody, not even from root, whom permissions do not hold.
    for manifest in [single("f", 0), tree(&[], &[])] {
        let error = Landing::create(Path::new("/sys"), manifest, REFUSE).unwrap_err();
        assert!(matches!(error, LandingError::NotWritable { .. }), "{error}");
    }
}

#[test]
fn a_directory_without_permission_is_told() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("set")).unwrap();
    fs::set_permissions(dir.path().join("set"), fs::Permissions::from_mode(0o555)).unwrap();
    if fs::write(dir.path().join("set/probe"), b"").is_ok() {
        println!("skipped: this user writes without permission");
        return;
    }
    let error = Landing::create(dir.path(), tree(&[(b"f", 1)], &[]), REFUSE).unwrap_err();
    assert!(matches!(error, LandingError::NotWritable { .. }), "{error}");
}

#[test]
fn abort_leaves_nothing_but_finished_files() {
    let dir = tempfile::tempdir().unwrap();
    let manifest = tree(&[(b"a", 1), (b"d/b", 1), (b"e/c", 1)], &["d", "e", "e/f"]);
    let landing = Landing::create(dir.path(), Arc::clone(&manifest), REFUSE).unwrap();
    write(&landing, 0, b"abc").unwrap();
    landing.finish_file(1).unwrap();
    assert_eq!(
        listing(dir.path()),
        ["set.inhaul", "set/", "set/a.partial", "set/d/", "set/d/b", "set/e/", "set/e/c.partial", "set/e/f/"]
    );
    landing.abort();
    assert!(matches!(write(&landing, 0, b"a"), Err(LandingError::Closed)));
    drop(landing);
    // The journal says whose the directory is.
    assert_eq!(listing(dir.path()), ["set.inhaul", "set/", "set/d/", "set/d/b"]);
    let landing = Landing::create(dir.path(), manifest, REFUSE).unwrap();
    write(&landing, 0, b"abc").unwrap_or_else(|error| assert!(matches!(error, LandingError::Finished(1))));
    assert!(landing.lands(0) && !landing.lands(1) && landing.lands(2));
}

#[test]
fn drop_leaves_nothing_behind_and_what_was_there() {
    let dir = tempfile::tempdir().unwrap();
    let manifest = tree(&[(b"d/b", 1)], &["d"]);
    let landing = Landing::create(dir.path(), Arc::clone(&manifest), REFUSE).unwrap();
    write(&landing, 0, b"b").unwrap();
    drop(landing);
    assert_eq!(listing(dir.path()), [""; 0]);
    fs::create_dir_all(dir.path().join("set/d")).unwrap();
    let options = LandingOptions { existing: Existing::Keep, ..REFUSE };
    let landing = Landing::create(dir.path(), manifest, options).unwrap();
    write(&landing, 0, b"b").unwrap();
    drop(landing);
    assert_eq!(listing(dir.path()), ["set/", "set/d/"]);
}

#[test]
fn a_directory_that_was_there_is_added_to_only_when_told() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().join("home");
    fs::create_dir_all(home.join(".ssh")).unwrap();
    fs::write(home.join(".ssh/id"), b"mine").unwrap();
    let manifest = tree(&[(b".ssh/authorized_keys", 3), (b".profile", 3)], &[".ssh", "empty"]);
    let error = land_as(&home, Arc::clone(&manifest), REFUSE).unwrap_err();
    let LandingError::WouldAdd { path, additions: 3, is_named: true } = &error else { panic!("{error}") };
    assert_eq!(*path, home);
    assert!(error.to_string().contains("3 new names would be added to it: say '"), "{error}");
    assert_eq!(listing(dir.path()), ["home/", "home/.ssh/", "home/.ssh/id"]);
    for existing in [Existing::Keep, Existing::Update, Existing::Replace] {
        drop(land_as(&home, Arc::clone(&manifest), LandingOptions { existing, ..REFUSE }).unwrap());
    }
    // Beneath it, under a name of its own, there is nothing to be added to; and an empty directory is nobody's.
    let below = Landing::create(&home, Arc::clone(&manifest), REFUSE).unwrap();
    assert_eq!(below.target(), home.join("set"));
    fs::create_dir(dir.path().join("new")).unwrap();
    drop(land_as(&dir.path().join("new"), manifest, REFUSE).unwrap());
    // What adds nothing is done already.
    drop(land_as(&home, tree(&[], &[".ssh"]), REFUSE).unwrap());
}

#[test]
fn what_has_begun_is_gone_on_with_and_what_is_done_stays_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let manifest = || tree(&[(b"a", 1), (b"d/b", 1), (b"nil", 0)], &["d", "empty"]);
    let place = dir.path().join("new");
    // Interrupted when nothing but an empty file has its name.
    let landing = land_as(&place, manifest(), REFUSE).unwrap();
    landing.finish_file(2).unwrap();
    drop(landing);
    assert_eq!(listing(dir.path()), ["new.inhaul", "new/", "new/d/", "new/empty/", "new/nil"]);
    let landing = land_as(&place, manifest(), REFUSE).unwrap();
    write(&landing, 0, b"ab").unwrap();
    finish(&landing);
    drop(landing);
    let done = listing(dir.path());
    assert_eq!(done, ["new/", "new/a", "new/d/", "new/d/b", "new/empty/", "new/nil"]);
    for _ in 0..2 {
        let landing = land_as(&place, manifest(), REFUSE).unwrap();
        assert!((0..3).all(|index| !landing.lands(index)));
        landing.finish().unwrap();
        drop(landing);
        assert_eq!(listing(dir.path()), done);
    }
    // Even an empty directory more is something new.
    fs::remove_dir(place.join("empty")).unwrap();
    let error = land_as(&place, manifest(), REFUSE).unwrap_err();
    assert!(matches!(error, LandingError::WouldAdd { additions: 1, .. }), "{error}");
}

#[test]
fn rehearse_finds_what_carry_out_would_and_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().join("new");
    let rehearse = |manifest: &Arc<Manifest>| {
        let plan = Plan::new(&Site::As(place.clone()), Arc::clone(manifest), &Filter::default(), Existing::Refuse);
        plan.and_then(|mut plan| Landing::rehearse(&mut plan, REFUSE))
    };
    let manifest = tree(&[(b"a", 1), (b"b", 1)], &[]);
    rehearse(&manifest).unwrap();
    assert!(matches!(rehearse(&tree(&[(b"a", 1 << 60)], &[])), Err(LandingError::NoSpace { .. })));
    assert_eq!(listing(dir.path()), [""; 0]);
    let landing = land_as(&place, Arc::clone(&manifest), REFUSE).unwrap();
    write(&landing, 0, b"a").unwrap();
    assert!(matches!(rehearse(&manifest), Err(LandingError::Busy { .. })));
    landing.finish_file(0).unwrap();
    drop(landing);
    rehearse(&manifest).unwrap();
    fs::write(dir.path().join("new.inhaul"), b"theirs").unwrap();
    assert!(matches!(rehearse(&manifest), Err(LandingError::NotAJournal { .. })));
    fs::remove_file(dir.path().join("new.inhaul")).unwrap();
    assert!(matches!(rehearse(&manifest), Err(LandingError::WouldAdd { .. })));
}

/// A directory `set` whose `d` leads to `outside`, which has a file.
fn tree_with_a_way_out() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir_all(dir.path().join("dest/set")).unwrap();
    fs::create_dir(dir.path().join("outside")).unwrap();
    fs::write(dir.path().join("outside/f"), b"outside").unwrap();
    symlink("../../outside", dir.path().join("dest/set/d")).unwrap();
    dir
}

#[test]
fn links_are_never_written_through() {
    let dir = tree_with_a_way_out();
    let (dest, outside) = (dir.path().join("dest"), dir.path().join("outside"));
    let error = Landing::create(&dest, tree(&[(b"d/f", 1)], &["d"]), OVERWRITE).unwrap_err();
    assert!(matches!(error, LandingError::NotADirectory { .. }), "{error}");

    symlink(outside.join("f"), dest.join("set/f")).unwrap();
    symlink(outside.join("f"), dest.join("set/f.partial")).unwrap();
    let landing = Landing::create(&dest, tree(&[(b"f", 3)], &[]), OVERWRITE).unwrap();
    write(&landing, 0, b"new").unwrap();
    finish(&landing);
    assert!(dest.join("set/f").symlink_metadata().unwrap().is_file());
    assert_eq!(fs::read(outside.join("f")).unwrap(), b"outside");
}

#[test]
fn links_that_come_up_meanwhile_are_never_written_through() {
    let dir = tree_with_a_way_out();
    let (set, outside) = (dir.path().join("dest/set"), dir.path().join("outside"));
    fs::remove_file(set.join("d")).unwrap();
    let landing =
        Landing::create(&dir.path().join("dest"), tree(&[(b"d/f", 1), (b"d/g", 1)], &["d"]), OVERWRITE).unwrap();
    write(&landing, 0, b"f").unwrap();
    fs::rename(set.join("d"), set.join("moved")).unwrap();
    symlink(&outside, set.join("d")).unwrap();
    assert!(landing.finish_file(0).is_err());
    assert!(write(&landing, 1, b"g").is_err());
    drop(landing);
    assert_eq!(listing(&outside), ["f"]);
    assert_eq!(fs::read(outside.join("f")).unwrap(), b"outside");
}

#[test]
fn more_files_than_may_be_open_land_in_any_order() {
    let dir = tempfile::tempdir().unwrap();
    let names: Vec<String> = (0..600).map(|i| format!("{i:03}")).collect();
    let files: Vec<_> = names.iter().map(|name| (name.as_bytes(), 2)).collect();
    let landing = Landing::create(dir.path(), tree(&files, &[]), REFUSE).unwrap();
    for half in 0..2 {
        for index in 0..600u64 {
            write(&landing, index * 2 + half, &[(index + half) as u8]).unwrap();
        }
    }
    let is_full = |state: &State| state.open.len() == state.open.limit();
    assert!(is_full(&landing.lock()));
    finish(&landing);
    for (index, name) in names.iter().enumerate() {
        assert_eq!(fs::read(dir.path().join("set").join(name)).unwrap(), [index as u8, (index + 1) as u8]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn blocks_in_any_order_land_where_they_belong(
        sizes in prop::collection::vec(0u64..200, 1..12),
        block in 1usize..150,
        order in any::<prop::sample::Index>(),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let names: Vec<String> = (0..sizes.len()).map(|i| format!("{i:02}")).collect();
        let files: Vec<_> = names.iter().zip(&sizes).map(|(name, size)| (name.as_bytes(), *size)).collect();
        let landing = Landing::create(dir.path(), tree(&files, &[]), REFUSE).unwrap();
        let bytes: Vec<u8> = (0..landing.manifest().size()).map(|i| (i * 31 + i / 256) as u8).collect();
        let blocks: Vec<_> = bytes.chunks(block).enumerate().collect();
        let mut left = blocks;
        while !left.is_empty() {
            let (number, part) = left.swap_remove(order.index(left.len()));
            let (front, back) = part.split_at(part.len() / 2);
            landing.write((number * block) as u64, &[IoSlice::new(front), IoSlice::new(back)]).unwrap();
        }
        finish(&landing);
        let landed: Vec<u8> = names.iter().flat_map(|name| fs::read(dir.path().join("set").join(name)).unwrap()).collect();
        prop_assert_eq!(landed, bytes);
    }
}

#[test]
fn threads_that_need_one_file_make_it_once() {
    let dir = tempfile::tempdir().unwrap();
    let landing = Landing::create(dir.path(), tree(&[(b"a", 64), (b"b", 64)], &[]), REFUSE).unwrap();
    std::thread::scope(|scope| {
        for at in 0..128 {
            let landing = &landing;
            scope.spawn(move || write(landing, at, &[at as u8]).unwrap());
        }
    });
    finish(&landing);
    let bytes = ["a", "b"].map(|name| fs::read(dir.path().join("set").join(name)).unwrap());
    assert!(bytes.concat().into_iter().eq(0..128));
}

#[test]
fn nothing_is_left_of_files_that_are_being_made_when_all_is_aborted() {
    let names: Vec<String> = (0..64).map(|number| format!("f{number:02}")).collect();
    let files: Vec<(&[u8], u64)> = names.iter().map(|name| (name.as_bytes(), 1)).collect();
    for _ in 0..50 {
        let dir = tempfile::tempdir().unwrap();
        let landing = Landing::create(dir.path(), tree(&files, &[]), REFUSE).unwrap();
        std::thread::scope(|scope| {
            let writing = scope.spawn(|| (0..64).find_map(|at| write(&landing, at, b"x").err()));
            landing.abort();
            let ended = writing.join().unwrap();
            assert!(matches!(ended, None | Some(LandingError::Closed)), "{ended:?}");
        });
        // A directory that was not empty at that moment may stay.
        let left = listing(dir.path());
        assert!(left.iter().all(|path| path == "set/"), "{left:?}");
    }
}
