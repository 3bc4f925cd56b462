//! Compares a file's time with its source's, on a file system that keeps times less exactly.
//!
//! A stored time shows its unit. For example, a file system that keeps milliseconds stores all times within one
//! millisecond as the same whole milliseconds. A stored time with nine significant digits matches only a source's time
//! with the same nine digits. So on a file system that keeps nanoseconds the comparison is exact, except for files
//! whose times were set by a program with a coarser unit.
//!
//! As with `rsync --modify-window`, a change of the source within one unit and of the same size is not noticed. Hashes
//! show it (`--checksum`).

use crate::Timestamp;
use crate::file_system::FileSystem;

const SECOND: i128 = 1_000_000_000;

/// The units of file systems, in nanoseconds: NTFS and SMB; UDF and NFSv2; many FUSE file systems; exFAT; ext3 and
/// HFS+.
const UNITS: [i128; 5] = [100, 1_000, 1_000_000, 10_000_000, SECOND];
/// The unit of FAT, and of times from a zip file.
const FAT_UNIT: i128 = 2 * SECOND;

/// The first and the last second of file systems, since 1970: ext2, ext3 and XFS have signed 32 bits, NFS unsigned ones;
/// then HFS+, NTFS, exFAT, and ext4.
const FIRST_SECONDS: [i64; 4] = [-(1 << 31), 0, -2_082_844_800, -11_644_473_600];
const LAST_SECONDS: [i64; 5] = [(1 << 31) - 1, (1 << 32) - 1, 2_212_122_495, 4_354_819_199, 15_032_385_535];
/// FAT's first and last second, in local time.
const FAT_SECONDS: [i64; 2] = [315_532_800, 4_354_819_198];
/// The largest offset of a time zone from UTC.
const ZONE_SECONDS: u64 = 14 * 3600;

/// Whether `ours`, a file's time on `file_system`, matches `theirs`, the source's time.
pub(crate) fn is_same_time(ours: Timestamp, theirs: Timestamp, file_system: FileSystem) -> bool {
    is_within_unit(ours, theirs, file_system)
        || is_cut(ours.seconds, theirs.seconds)
        || wrapped(theirs.seconds).is_some_and(|all| {
            all.into_iter().any(|seconds| is_within_unit(ours, Timestamp { seconds, ..theirs }, file_system))
        })
}

/// Whether `ours` is `theirs`, truncated or rounded to a unit.
fn is_within_unit(ours: Timestamp, theirs: Timestamp, file_system: FileSystem) -> bool {
    let (ours, theirs) = (nanos(ours), nanos(theirs));
    let is_near = |unit: i128| ours % unit == 0 && (ours - theirs).abs() < unit;
    if ours == theirs || UNITS.into_iter().any(is_near) {
        return true;
    }
    // A file system that keeps seconds would have kept a whole second.
    let may_be_fat = theirs % SECOND != 0 || !file_system.keeps_seconds();
    may_be_fat && is_near(FAT_UNIT)
}

fn nanos(time: Timestamp) -> i128 {
    i128::from(time.seconds) * SECOND + i128::from(time.nanos)
}

/// Whether `theirs` is outside of a file system's range, and `ours` is the nearest end of it.
fn is_cut(ours: i64, theirs: i64) -> bool {
    let is_of_zone = |fat: i64| ours.abs_diff(fat) <= ZONE_SECONDS && ours % 900 == fat % 900;
    let is_first = FIRST_SECONDS.contains(&ours) || is_of_zone(FAT_SECONDS[0]);
    let is_last = LAST_SECONDS.contains(&ours) || is_of_zone(FAT_SECONDS[1]);
    (is_first && theirs < ours) || (is_last && theirs > ours)
}

/// Seconds that do not fit into 32 bits, as kept by a file system that drops the upper bits: signed and unsigned.
fn wrapped(seconds: i64) -> Option<[i64; 2]> {
    let both = [i64::from(seconds as i32), i64::from(seconds as u32)];
    (both != [seconds; 2]).then_some(both)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64, nanos: u32) -> Timestamp {
        Timestamp { seconds, nanos }
    }

    const THEN: i64 = 1_709_294_401;

    #[test]
    fn a_time_is_the_same_in_the_unit_that_was_kept_of_it() {
        for nanos in [123_456_789, 123_456_700, 123_456_000, 123_000_000, 120_000_000, 0] {
            assert!(is_same_time(at(THEN, nanos), at(THEN, 123_456_789), FileSystem::Fine), "{nanos}");
            assert!(is_same_time(at(THEN, nanos), at(THEN, 123_456_789), FileSystem::Other), "{nanos}");
        }
        // Rounded.
        for nanos in [123_456_800, 123_457_000, 124_000_000, 130_000_000] {
            assert!(is_same_time(at(THEN, nanos), at(THEN, 123_456_789), FileSystem::Other), "{nanos}");
        }
        assert!(is_same_time(at(THEN - 1, 0), at(THEN, 123_456_789), FileSystem::Fine), "two seconds, truncated");
        assert!(is_same_time(at(THEN + 1, 0), at(THEN, 123_456_789), FileSystem::Fine), "and rounded");
        assert!(is_same_time(at(THEN - 1, 0), at(THEN, 0), FileSystem::Other));
    }

    #[test]
    fn a_time_that_no_unit_explains_is_another() {
        let theirs = at(THEN, 123_456_789);
        for ours in [
            at(THEN, 123_456_788),
            at(THEN, 123_456_600),
            at(THEN, 123_455_000),
            at(THEN, 121_000_000),
            at(THEN, 110_000_000),
            at(THEN, 500_000_000),
            // An odd second is not one of two seconds.
            at(THEN - 2, 0),
            at(THEN + 2, 0),
            at(THEN - 3, 0),
            at(THEN + 3, 0),
            at(0, 0),
            at((1 << 31) - 1, 0),
        ] {
            assert!(!is_same_time(ours, theirs, FileSystem::Other), "{ours:?}");
        }
        // A file system that keeps seconds would have kept this one.
        assert!(!is_same_time(at(THEN - 1, 0), at(THEN, 0), FileSystem::Fine));
        assert!(!is_same_time(at(THEN + 1, 0), at(THEN, 0), FileSystem::Fine));
    }

    #[test]
    fn years_that_a_file_system_does_not_have_are_cut_off() {
        let in_2045 = at(2_366_841_600, 5);
        for ours in [(1 << 31) - 1, 2_212_122_495, i64::from(2_366_841_600_i64 as i32)] {
            assert!(is_same_time(at(ours, 0), in_2045, FileSystem::Fine), "{ours}");
        }
        for ours in [(1 << 32) - 1, 4_354_819_199, 0, 1 << 31, 2_366_841_604] {
            assert!(!is_same_time(at(ours, 0), in_2045, FileSystem::Fine), "{ours}");
        }
        let in_1960 = at(-315_619_200, 0);
        for ours in [0, 315_532_800, 315_532_800 - 3600, 315_532_800 + 5 * 3600 + 1800, (1 << 32) - 315_619_200] {
            assert!(is_same_time(at(ours, 0), in_1960, FileSystem::Fine), "{ours}");
        }
        for ours in [-(1 << 31), 1, 315_532_801, 315_532_800 + 15 * 3600, 315_619_200] {
            assert!(!is_same_time(at(ours, 0), in_1960, FileSystem::Fine), "{ours}");
        }
        // A file of today is not one of a file system's last second.
        assert!(!is_same_time(at((1 << 31) - 1, 0), at(THEN, 0), FileSystem::Fine));
        assert!(!is_same_time(at(0, 0), at(THEN, 0), FileSystem::Fine));
        for extreme in [at(i64::MIN, 0), at(i64::MAX, 999_999_999)] {
            assert!(is_same_time(extreme, extreme, FileSystem::Fine));
            assert!(!is_same_time(at(THEN, 0), extreme, FileSystem::Other));
            assert!(!is_same_time(extreme, at(THEN, 0), FileSystem::Other));
        }
    }
}
