//! Names that the destination's file system does not distinguish, and names that it refuses.
//!
//! If `A` and `a` are the same name, one of two files would replace the other. So before anything is fetched, names
//! that may be the same are looked for in the list of files, and tried at the destination. The search is broad: letters
//! in either case, composed or decomposed characters, dots and spaces at the end. The file system decides.

use std::path::PathBuf;

use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;
use unicode_normalization::UnicodeNormalization;

use crate::Kind;
use crate::beneath::{Beneath, Links};
use crate::disk;
use crate::file_system::FileSystem;
use crate::landing_error::LandingError;
use crate::plan::{Fate, Plan};

/// Prefix of names for trials.
const TRIAL: &[u8] = b".inhaul-name-";
/// Bytes that FAT, exFAT, NTFS and SMB refuse in names.
const REFUSED_BYTES: &[u8] = b"\\:*?\"<>|";
/// The names of devices on Windows, with any extension. `COM` and `LPT` are followed by a digit.
const DEVICES: [&str; 4] = ["con", "prn", "aux", "nul"];
const DEVICES_WITH_DIGIT: [&str; 2] = ["com", "lpt"];
/// The flag of a case-insensitive directory (ext4, F2FS, tmpfs).
const CASEFOLD: u32 = 0x4000_0000;

/// Checks that the destination accepts and distinguishes all names of the plan, by trials in `base`, where the data set
/// lands. `folds`: whether it is known to be case-insensitive.
pub(super) fn check(plan: &Plan, base: &Beneath, folds: bool) -> Result<(), LandingError> {
    let file_system = FileSystem::of(base.fd());
    if plan.manifest.kind() == Kind::File || (file_system == FileSystem::Fine && !folds && !is_folding(base)) {
        return Ok(());
    }
    let paths = wanted_paths(plan);
    let pairs = pairs_that_may_be_one(&paths);
    let mut clashes = pairs.iter().filter(|&&(first, second)| are_one(base, first, second));
    if let Some(&(first, second)) = clashes.next() {
        let others = clashes.count();
        return Err(LandingError::OneName { first: plan.shown(first), second: plan.shown(second), others });
    }
    for &path in &odd_paths(&paths) {
        if let Some(errno) = is_refused(base, last_odd(path)) {
            return Err(refused(plan.shown(path), last_odd(path), errno));
        }
    }
    Ok(())
}

/// The same without a trial; `directory` has a file called `name`.
pub(super) fn check_unseen(plan: &Plan, directory: &Beneath, name: &[u8]) -> Result<(), LandingError> {
    let is_fat = FileSystem::of(directory.fd()) == FileSystem::Fat;
    if plan.manifest.kind() == Kind::File || !(is_fat || folds(directory, name)) {
        return Ok(());
    }
    let paths = wanted_paths(plan);
    match pairs_that_may_be_one(&paths).as_slice() {
        [] => Ok(()),
        [(first, second), others @ ..] => {
            Err(LandingError::OneName { first: plan.shown(first), second: plan.shown(second), others: others.len() })
        }
    }
}

/// The error for a refused name, by an `errno` that can mean that.
pub(super) fn refused(path: PathBuf, name: &[u8], errno: Errno) -> LandingError {
    LandingError::NameRefused {
        path,
        why: why_odd(name).unwrap_or("the file system does not say why"),
        source: errno.into(),
    }
}

/// Whether this may be a file system's error for a name that it refuses.
pub(super) fn is_of_name(errno: Errno) -> bool {
    matches!(errno, Errno::INVAL | Errno::ILSEQ | Errno::NAMETOOLONG)
}

/// Whether `name` in `directory` is also found in capitals.
pub(super) fn folds(directory: &Beneath, name: &[u8]) -> bool {
    let other = name.to_ascii_uppercase();
    let identity = |name: &[u8]| directory.stat(name, Links::Refuse).map(|stat| (stat.st_dev, stat.st_ino));
    other != name && identity(name).is_ok_and(|here| identity(&other) == Ok(here))
}

fn is_folding(directory: &Beneath) -> bool {
    rustix::fs::ioctl_getflags(directory.fd()).is_ok_and(|flags| flags.bits() & CASEFOLD != 0)
}

/// The paths of everything that is wanted, existing or not.
fn wanted_paths(plan: &Plan) -> Vec<&[u8]> {
    let manifest = &plan.manifest;
    let is_wanted = |fate: &Fate| *fate != Fate::LeftOut;
    let files = (0..plan.files().len()).filter(|&index| is_wanted(&plan.files()[index])).map(|index| plan.path(index));
    let directories = manifest.directories().iter().zip(&plan.directories).filter(|(_, wanted)| **wanted);
    let symlinks = manifest.symlinks().iter().zip(&plan.symlinks).filter(|(_, fate)| is_wanted(fate));
    let hard_links = manifest.hard_links().iter().zip(&plan.hard_links).filter(|(_, fate)| is_wanted(fate));
    files
        .chain(directories.map(|(directory, _)| directory.path.as_slice()))
        .chain(symlinks.map(|(link, _)| link.path.as_slice()))
        .chain(hard_links.map(|(link, _)| link.path.as_slice()))
        .collect()
}

/// Pairs of paths that some file system may not distinguish.
fn pairs_that_may_be_one<'p>(paths: &[&'p [u8]]) -> Vec<(&'p [u8], &'p [u8])> {
    let short = |path: &[u8]| {
        let mut bytes = [0; 8];
        blake3::Hasher::new().update(&folded(path)).finalize_xof().fill(&mut bytes);
        u64::from_be_bytes(bytes)
    };
    let mut all: Vec<(u64, &[u8])> = paths.iter().map(|path| (short(path), *path)).collect();
    all.sort_unstable();
    let pairs = all.windows(2).filter(|pair| pair[0].0 == pair[1].0).map(|pair| (pair[0].1, pair[1].1));
    let mut pairs: Vec<_> = pairs.collect();
    // In the order of the list, parents before their items.
    pairs.sort_unstable();
    pairs
}

/// A path folded so that these are equal: letters of either case, composed and decomposed characters, and names with
/// and without dots or spaces at the end.
fn folded(path: &[u8]) -> Vec<u8> {
    let mut folded = Vec::with_capacity(path.len());
    for component in path.split(|&byte| byte == b'/') {
        if !folded.is_empty() {
            folded.push(b'/');
        }
        let end = component.iter().rposition(|byte| !b". ".contains(byte)).map_or(0, |last| last + 1);
        if component.is_ascii() {
            folded.extend(component[..end].iter().map(u8::to_ascii_lowercase));
            continue;
        }
        for chunk in component[..end].utf8_chunks() {
            // First decomposed, then in capitals, so that `ß` becomes `ss`. Some file systems ignore invisible
            // characters.
            let seen = chunk.valid().nfd().filter(|c| !matches!(c, '\u{ad}' | '\u{200b}'..='\u{200d}' | '\u{feff}'));
            let cased: String = seen.flat_map(char::to_uppercase).flat_map(char::to_lowercase).collect();
            folded.extend(cased.nfd().collect::<String>().bytes());
            folded.extend_from_slice(chunk.invalid());
        }
    }
    folded
}

/// The first differing components of two paths of the same depth.
fn first_difference<'p>(first: &'p [u8], second: &'p [u8]) -> Option<(&'p [u8], &'p [u8])> {
    let slash = |byte: &u8| *byte == b'/';
    first.split(slash).zip(second.split(slash)).find(|(first, second)| first != second)
}

/// Whether two paths are the same in `base`: a file is made there for a moment.
fn are_one(base: &Beneath, first: &[u8], second: &[u8]) -> bool {
    let Some((first, second)) = first_difference(first, second) else { return false };
    let (here, there) = ([TRIAL, first].concat(), [TRIAL, second].concat());
    match make_trial(base, &here) {
        Ok(()) => {
            let is_there = base.stat(&there, Links::Refuse).is_ok();
            remove_trial(base, &here);
            is_there
        }
        // Left by a transfer that was killed at this point.
        Err(Errno::EXIST) => base.stat(&there, Links::Refuse).is_ok(),
        Err(_) => false,
    }
}

/// The error with which `base` refuses a name, if it does.
fn is_refused(base: &Beneath, name: &[u8]) -> Option<Errno> {
    // Names of devices are refused only as they are, and must not be opened.
    let trial = [TRIAL, name].concat();
    match make_trial(base, &trial) {
        Ok(()) => {
            remove_trial(base, &trial);
            None
        }
        // The trial's name may be too long.
        Err(errno) => matches!(errno, Errno::INVAL | Errno::ILSEQ).then_some(errno),
    }
}

fn make_trial(base: &Beneath, name: &[u8]) -> rustix::io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
    base.open(name, flags, Mode::RUSR | Mode::WUSR, Links::Refuse).map(drop)
}

fn remove_trial(base: &Beneath, name: &[u8]) {
    // If it cannot be removed, an empty file stays.
    let _ = disk::remove(base.fd(), name, AtFlags::empty());
}

/// The first path for each reason by which a file system may refuse a name.
fn odd_paths<'p>(paths: &[&'p [u8]]) -> Vec<&'p [u8]> {
    let mut reasons: Vec<&str> = Vec::new();
    let mut odd = Vec::new();
    for path in paths {
        if let Some(why) = path.split(|&byte| byte == b'/').find_map(why_odd)
            && !reasons.contains(&why)
        {
            reasons.push(why);
            odd.push(*path);
        }
    }
    odd
}

/// The first component of a path that a file system may refuse, or else the last one.
fn last_odd(path: &[u8]) -> &[u8] {
    let mut components = path.split(|&byte| byte == b'/');
    components.clone().find(|name| why_odd(name).is_some()).or_else(|| components.next_back()).unwrap_or(path)
}

/// Why a file system may refuse a name, in words.
fn why_odd(name: &[u8]) -> Option<&'static str> {
    let lower = name.to_ascii_lowercase();
    let stem = lower.split(|&byte| byte == b'.').next().unwrap_or_default();
    let with_digit = |device: &&str| stem.len() == 4 && stem.starts_with(device.as_bytes()) && stem[3].is_ascii_digit();
    let is_device = DEVICES.iter().any(|device| stem == device.as_bytes()) || DEVICES_WITH_DIGIT.iter().any(with_digit);
    Some(match name {
        name if name.iter().any(|byte| REFUSED_BYTES.contains(byte)) => {
            "Windows, FAT and exFAT have no \\ : * ? \" < > | in names"
        }
        name if name.iter().any(|&byte| byte < 0x20) => "Windows, FAT and exFAT have no control characters in names",
        name if name.ends_with(b".") || name.ends_with(b" ") => "on Windows and FAT no name ends in a dot or a space",
        _ if is_device => "Windows keeps this name for a device",
        name if std::str::from_utf8(name).is_err() => "it is not UTF-8",
        name if name.len() > 100 => "it may be too long there",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(paths: &[&str]) -> Vec<(String, String)> {
        let paths: Vec<&[u8]> = paths.iter().map(|path| path.as_bytes()).collect();
        let text = |path: &[u8]| String::from_utf8(path.to_vec()).unwrap();
        pairs_that_may_be_one(&paths).into_iter().map(|(first, second)| (text(first), text(second))).collect()
    }

    #[test]
    fn names_that_some_file_system_may_take_for_one_are_found() {
        for (first, second) in [
            ("A", "a"),
            ("d/README", "d/readme"),
            ("D/x", "d/x"),
            ("\u{e9}t\u{e9}", "e\u{301}te\u{301}"),
            ("\u{c9}", "e\u{301}"),
            ("stra\u{df}e", "STRASSE"),
            ("a", "a."),
            ("b /c", "b/c"),
            ("soft\u{ad}ware", "software"),
        ] {
            assert_eq!(pairs(&[first, "other", second]).len(), 1, "{first:?} {second:?}");
        }
        assert!(pairs(&["a", "b", "a/b", "ab", "a b", ".a", "\u{e9}", "e", "d/a", "d/b"]).is_empty());
        assert_eq!(folded(b"A\xff"), b"a\xff");
        assert_eq!(first_difference(b"d/A/x", b"d/a/x"), Some((&b"A"[..], &b"a"[..])));
    }

    #[test]
    fn why_a_name_may_be_refused_is_said() {
        for name in ["a:b", "what?", "a\tb", "end.", "end ", "CON", "con.txt", "Lpt1.x", "COM9"] {
            assert!(why_odd(name.as_bytes()).is_some(), "{name}");
        }
        assert_eq!(why_odd(b"\xff"), Some("it is not UTF-8"));
        for name in ["a", "console", "com", "comm", "com10", ".hidden", "a b", "\u{e9}"] {
            assert_eq!(why_odd(name.as_bytes()), None, "{name}");
        }
        assert_eq!(odd_paths(&[b"a:1", b"d?/b", b"d/CON", b"e/end."]), [&b"a:1"[..], b"d/CON", b"e/end."]);
        assert_eq!(last_odd(b"d?/b"), b"d?");
    }
}
