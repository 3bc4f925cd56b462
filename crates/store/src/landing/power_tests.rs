//! Landings on a disk that fails, and whose power goes at any moment.
//!
//! A run lands a data set as the mover does: groups come in pieces, in any order; they are read back, recorded, synced
//! each 8 MiB; files get their names in batches. After a failure the same command goes on with what the disk may have.
//! Whatever happens, a name shows nothing but what was there before or whole verified files, and at the end all of them.

mod directed;
mod world;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::IoSlice;
use std::path::{Path, PathBuf};

use inhaul_base::RandomStream;
use tempfile::TempDir;

use self::world::{Version, World, bytes_of, digest_of, is_whole};
use super::{Landing, LandingError, LandingOptions, Site};
use crate::digest::{GROUP_BYTES, group_count};
use crate::disk::faulty::{Faults, FaultyDisk};
use crate::filter::Filter;
use crate::plan::Plan;
use crate::{Existing, Kind};

/// As in the mover.
const SYNC_BYTES: u64 = 8 << 20;
/// The most that is fetched again after a power failure, of what had been verified.
const AGAIN_BYTES_MAX: u64 = 16 << 20;

/// Disks are in memory if so much is free there: four threads have had 250 MB, and these tests run twice at once.
const MEMORY_MIN: u64 = 2 << 30;

/// How a process has ended.
#[derive(Debug)]
enum End {
    Done,
    Failed(LandingError),
}

/// A group that was verified: of which content, and when it was recorded.
type Seen = BTreeMap<(Vec<u8>, u64), usize>;

struct Run<'a> {
    world: &'a World,
    version: &'a Version,
    random: &'a mut RandomStream,
    /// Groups that were verified before, by path and number, with the number of the content.
    seen: &'a mut Seen,
    /// Bytes of these that were fetched once more.
    again: u64,
    /// Whether the landing was synced, so that there is a journal for certain.
    has_synced: &'a mut bool,
}

/// A directory in memory, where there is ample room for the disks of all threads.
fn scratch() -> TempDir {
    let memory = Path::new("/dev/shm");
    let free = rustix::fs::statvfs(memory).map_or(0, |memory| memory.f_bavail.saturating_mul(memory.f_frsize));
    if free >= MEMORY_MIN { tempfile::tempdir_in(memory).unwrap() } else { tempfile::tempdir().unwrap() }
}

impl Run<'_> {
    fn land(&mut self, root: &Path) -> End {
        match self.try_to_land(root) {
            Ok(()) => End::Done,
            Err(error) => End::Failed(error),
        }
    }

    fn try_to_land(&mut self, root: &Path) -> Result<(), LandingError> {
        let manifest = &self.version.manifest;
        let site = match manifest.kind() {
            Kind::File => Site::As(root.join("f")),
            Kind::Directory => Site::Beneath { root: root.to_owned(), path: b"set".to_vec() },
        };
        let plan = Plan::new(&site, manifest.clone(), &Filter::default(), self.world.existing)?;
        let options = LandingOptions { existing: self.world.existing, ..LandingOptions::default() };
        let landing = Landing::carry_out(plan, options)?;
        self.bring_all(&landing)?;
        landing.finish()?;
        if self.random.below(4) > 0 {
            landing.conclude();
        }
        Ok(())
    }

    fn bring_all(&mut self, landing: &Landing) -> Result<(), LandingError> {
        let held = self.read_back(landing);
        let entries = self.version.manifest.entries();
        let mut missing: Vec<(usize, u64)> = Vec::new();
        let mut left: BTreeMap<usize, u64> = BTreeMap::new();
        let mut ready = Vec::new();
        let landing_files: Vec<usize> = (0..entries.len()).filter(|&file| landing.lands(file)).collect();
        for &file in &landing_files {
            let groups = (0..group_count(entries[file].size)).filter(|&group| !entries[file].is_hole_group(group));
            let of_file: Vec<_> = groups.map(|group| (file, group)).filter(|group| !held.contains(group)).collect();
            if of_file.is_empty() {
                ready.push(file);
            } else {
                left.insert(file, of_file.len() as u64);
                missing.extend(of_file);
            }
        }
        self.shuffle(&mut missing);
        let (mut unsynced, mut small) = (0, 0);
        while !missing.is_empty() {
            let count = missing.len().min(1 + self.random.below(3) as usize);
            let together: Vec<_> = missing.drain(..count).collect();
            self.write_in_pieces(landing, &together)?;
            for (file, group) in together {
                self.verify(landing, file, group)?;
                let len = bytes_of(self.version, file, group).len() as u64;
                unsynced += len;
                let of_file = left.get_mut(&file).unwrap();
                *of_file -= 1;
                if *of_file == 0 {
                    if entries[file].size <= GROUP_BYTES {
                        landing.seal(file)?;
                        small += len;
                    }
                    ready.push(file);
                }
            }
            if unsynced >= SYNC_BYTES || self.random.below(10) == 0 {
                unsynced = 0;
                landing.sync()?;
                *self.has_synced = true;
            }
            if small >= SYNC_BYTES || self.random.below(6) == 0 {
                small = 0;
                let disturbed = landing.finish_files(&ready)?;
                assert!(disturbed.is_empty(), "nobody has disturbed {disturbed:?}");
                *self.has_synced |= !ready.is_empty();
                ready.clear();
            }
        }
        let disturbed = landing.finish_files(&ready)?;
        *self.has_synced |= !ready.is_empty();
        assert!(disturbed.is_empty(), "nobody has disturbed {disturbed:?}");
        Ok(())
    }

    /// Reads back what an earlier process has left. Returns the groups that are as they should be.
    fn read_back(&mut self, landing: &Landing) -> BTreeSet<(usize, u64)> {
        let mut groups = landing.resumed().groups.clone();
        groups.retain(|held| !bytes_of(self.version, held.file, held.group).is_empty());
        self.shuffle(&mut groups);
        let mut buffer = Vec::new();
        let mut good = BTreeSet::new();
        for held in groups {
            let is_there = landing.recheck(&held, &mut buffer).unwrap_or(false);
            if is_there && held.digest == digest_of(self.version, held.file, held.group) {
                good.insert((held.file, held.group));
            } else {
                landing.drop_held(held.file, held.group);
            }
        }
        good
    }

    fn write_in_pieces(&mut self, landing: &Landing, groups: &[(usize, u64)]) -> Result<(), LandingError> {
        let mut pieces = Vec::new();
        for &(file, group) in groups {
            let bytes = bytes_of(self.version, file, group);
            let start = landing.manifest().file_range(file).unwrap().start + group * GROUP_BYTES;
            let mut cuts: Vec<usize> =
                (0..self.random.below(6)).map(|_| self.random.below(bytes.len() as u64 + 1) as usize).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            pieces.extend(cuts.windows(2).map(|cut| (start + cut[0] as u64, &bytes[cut[0]..cut[1]])));
        }
        self.shuffle(&mut pieces);
        for (at, bytes) in pieces {
            let (left, right) = bytes.split_at(bytes.len() / 2);
            landing.write(at, &[IoSlice::new(left), IoSlice::new(right)])?;
        }
        Ok(())
    }

    fn verify(&mut self, landing: &Landing, file: usize, group: u64) -> Result<(), LandingError> {
        let mut buffer = Vec::new();
        landing.read_group(file, group, &mut buffer)?;
        let expected = bytes_of(self.version, file, group);
        assert!(buffer == expected, "file {file} group {group} is read back as it was not written");
        let path = self.version.manifest.entries()[file].path.clone();
        let content = self.version.contents[&path];
        let was = self.seen.insert((path, group), content);
        self.again += if was == Some(content) { expected.len() as u64 } else { 0 };
        landing.record_verified(file, group, digest_of(self.version, file, group))
    }

    fn shuffle<T>(&mut self, items: &mut [T]) {
        for at in (1..items.len()).rev() {
            items.swap(at, self.random.below(at as u64 + 1) as usize);
        }
    }
}

/// The place of a file beneath `root`.
fn place(version: &Version, file: usize, root: &Path) -> PathBuf {
    match version.manifest.kind() {
        Kind::File => root.join("f"),
        Kind::Directory => root.join("set").join(std::str::from_utf8(&version.manifest.entries()[file].path).unwrap()),
    }
}

/// Checks that each name shows what was there before, or a whole file of some version.
fn check_names(world: &World, root: &Path, now: &str) {
    for version in &world.versions {
        for (file, entry) in version.manifest.entries().iter().enumerate() {
            let path = place(version, file, root);
            let is_old =
                world.before.get(&entry.path).is_some_and(|old| fs::read(&path).is_ok_and(|found| found == *old));
            let is_good = is_old || world.versions.iter().any(|version| is_whole(version, file, &path));
            assert!(is_good || !path.exists(), "{now}: wrong bytes in {}", path.display());
        }
    }
}

/// Checks that all files are there, and nothing else.
fn check_all(world: &World, version: &Version, root: &Path) {
    for (file, entry) in version.manifest.entries().iter().enumerate() {
        let path = place(version, file, root);
        let old = world.before.get(&entry.path).filter(|_| world.existing != Existing::Replace);
        let is_kept = old.is_some_and(|old| fs::read(&path).is_ok_and(|found| found == *old));
        let is_older = || world.existing != Existing::Replace && is_whole(&world.versions[0], file, &path);
        assert!(is_whole(version, file, &path) || is_kept || is_older(), "{} has not landed", path.display());
    }
    let left = listing(root);
    assert!(!left.iter().any(|path| path.ends_with(".partial")), "{left:?}");
}

fn listing(root: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut ahead = vec![root.to_owned()];
    while let Some(directory) = ahead.pop() {
        for item in fs::read_dir(directory).unwrap().map(Result::unwrap) {
            found.push(item.path().strip_prefix(root).unwrap().display().to_string());
            if item.file_type().unwrap().is_dir() {
                ahead.push(item.path());
            }
        }
    }
    found.sort();
    found
}

/// Whether the error says that nothing is known of what is there: its user has to clear the place, or choose another.
fn wants_another_place(error: &LandingError) -> bool {
    use LandingError::{NotAJournal, PartialExists, WouldAdd};
    matches!(error, NotAJournal { .. } | PartialExists { .. } | WouldAdd { .. })
}

/// Adds a directory to `dirs`, with what the world has there before, on a disk whose failures `seed` chooses.
fn one_more_place(world: &World, dirs: &mut Vec<TempDir>, seed: u64) -> FaultyDisk {
    let place = scratch();
    world.prepare(place.path());
    let disk = FaultyDisk::of(place.path(), seed);
    dirs.push(place);
    disk
}

/// Lands a data set with failures that `seed` chooses.
fn land_with_failures(seed: u64) {
    let mut random = RandomStream::new(seed, 0);
    let world = World::new(&mut random);
    let mut dirs = Vec::new();
    let mut disk = one_more_place(&world, &mut dirs, seed);
    let (mut seen, mut version) = (Seen::new(), &world.versions[0]);
    let (has_io_errors, mut failures) = (random.below(3) == 0, 1 + random.below(4));
    let (mut was_power_failure, mut has_synced) = (false, false);
    // Whether the names on the disk have always been those of some moment.
    let mut was_in_order = true;
    loop {
        if random.below(3) == 0 {
            version = world.versions.last().unwrap();
        }
        let (root, had_synced) = (dirs.last().unwrap().path().to_owned(), has_synced);
        let faults = if failures == 0 { Faults::default() } else { faults(&mut random, has_io_errors) };
        let mut run =
            Run { world: &world, version, random: &mut random, seen: &mut seen, again: 0, has_synced: &mut has_synced };
        let (after, end, has_failed) = disk.run(faults, || run.land(&root));
        disk = after;
        if was_power_failure && !has_io_errors {
            assert!(run.again <= AGAIN_BYTES_MAX, "{} bytes were fetched again", run.again);
        }
        // A landing that keeps nothing removes its journal.
        has_synced &= listing(&root).iter().any(|path| path.ends_with(".inhaul"));
        was_power_failure = !disk.has_power();
        match &end {
            End::Done => {}
            End::Failed(_) if !disk.has_power() => {}
            End::Failed(_) if has_failed => {
                // Another process, of the same kernel.
                failures = failures.saturating_sub(1);
                disk.forget();
                check_names(&world, &root, "after an error");
                continue;
            }
            End::Failed(error) if wants_another_place(error) && !was_in_order && !had_synced => {
                let number = dirs.len() as u64 + 1;
                disk = one_more_place(&world, &mut dirs, seed.wrapping_add(number));
                seen.clear();
                was_in_order = true;
                continue;
            }
            End::Failed(error) => panic!("{error}; {:?}", listing(&root)),
        }
        let is_done = matches!(end, End::Done);
        let next = scratch();
        was_in_order &= disk.power_failure(next.path());
        check_names(&world, next.path(), "after a power failure");
        if is_done {
            check_all(&world, version, next.path());
        }
        disk = FaultyDisk::of(next.path(), seed.wrapping_mul(31).wrapping_add(dirs.len() as u64));
        dirs.push(next);
        failures = failures.saturating_sub(1);
        if is_done {
            return;
        }
    }
}

fn faults(random: &mut RandomStream, has_io_errors: bool) -> Faults {
    let mut faults = Faults::default();
    if has_io_errors {
        let some = |random: &mut RandomStream, often| if random.below(2) == 0 { 1 + random.below(often) } else { 0 };
        faults.read = some(random, 200);
        faults.write = some(random, 400);
        faults.full = some(random, 400);
        faults.short = some(random, 20);
        faults.sync = some(random, 8);
    }
    if random.below(8) > 0 {
        let most = [20, 60, 200, 600][random.below(4) as usize];
        faults.operations = Some(random.below(most));
    }
    faults
}

/// The seeds to run: those that the environment gives as `INHAUL_POWER_FAILURES=FIRST..END`, or a first part of them.
fn seeds() -> std::ops::Range<u64> {
    let chosen = std::env::var("INHAUL_POWER_FAILURES").ok();
    let range = chosen.as_deref().and_then(|text| text.split_once(".."));
    range.map_or(0..150, |(first, end)| first.parse().unwrap()..end.parse().unwrap())
}

#[test]
fn seeds_that_found_faults() {
    for (seed, _fault) in [
        (52, "a directory that could not be removed was refused later"),
        (116, "so was one whose journal had lost that the transfer had made it"),
        (118, "a file that was to be replaced, of the size of the new one, was refused"),
        (660, "a journal of half a header and zeros was taken for another file"),
        (1010, "a file that had its name, and whose record was lost, was refused once it had changed"),
        (2367, "a link that was not named yet stayed beside the data set that had it no more"),
        (4383, "a file that was named and written to again was taken for disturbed"),
        (4560, "the same"),
        (4855, "a journal that could not be begun was removed, and left a partial file that nobody knew"),
        (9701, "so did a partial file that could neither be made whole nor removed"),
        (46, "bytes that only the kernel had were taken for verified"),
        (65, "the same"),
        (77, "the same"),
        (17555, "a partial link that could not be removed was forgotten"),
    ] {
        land_with_failures(seed);
    }
}

/// These found a fault of the simulation: no disk loses a part of a sector.
#[test]
fn a_journal_whose_first_sector_was_lost_says_nothing_and_is_not_refused() {
    land_with_failures(100_065);
    land_with_failures(100_991);
}

#[test]
fn whatever_fails_names_show_whole_files_and_little_is_fetched_again() {
    let range = seeds();
    let next = std::sync::atomic::AtomicU64::new(range.start);
    let failed = std::sync::Mutex::new(BTreeMap::new());
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from).min(4) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    if seed >= range.end {
                        break;
                    }
                    let done = std::panic::catch_unwind(|| land_with_failures(seed));
                    if let Err(panic) = done {
                        let text = panic.downcast_ref::<String>().cloned().unwrap_or_default();
                        failed.lock().unwrap().insert(seed, text);
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap();
    assert!(failed.is_empty(), "{} of {range:?}: {failed:#?}", failed.len());
}
