//! The listing for `ls`: one directory, or everything beneath it. Items are passed on as they are read.

use std::vec::IntoIter;

use rustix::fs::{AtFlags, Dir, FileType, Stat};
use rustix::io::Errno;

use super::root::Root;
use super::scan::shown;
use super::{ListOptions, MayHold, Offered, OfferedError};
use crate::beneath::{Beneath, Links};
use crate::manifest::memory;
use crate::{Listed, ListedKind, Timestamp};

impl Offered {
    /// The request for the offered names, even if there is only one that may be left out.
    pub const NAMES: &[u8] = b"//";

    /// Calls `each` with the items of `request`. For a file, that is the file itself, with an empty path. For a
    /// directory, its items or, if `recursive`, everything beneath it, by name, each directory before its items. Ends
    /// early if `each` returns false. `may_hold` is asked before the names of directories are held in memory to be
    /// sorted: one for each level.
    ///
    /// The empty request lists the offered names, unless only one directory is offered whose name may be left out.
    /// [`Offered::NAMES`] always lists the names. Links are not followed. Items that vanish meanwhile are left out.
    ///
    /// When the path does not exist, when the request leads outside, when a directory may not be read, or when
    /// `may_hold` refuses.
    pub fn list(
        &self,
        request: &[u8],
        options: ListOptions,
        may_hold: &mut MayHold<'_>,
        each: &mut dyn FnMut(Listed) -> bool,
    ) -> Result<(), OfferedError> {
        let (recursive, links) = (options.recursive, options.links());
        let components = super::components(request)?;
        let is_content = self.short().is_some_and(|root| root.file.is_none()) && request != Self::NAMES;
        if components.is_empty() && !is_content {
            return self.list_roots(recursive, may_hold, each);
        }
        let (root, rest) = self.root_of(request, &components)?;
        let failed = |errno| self.request_error(request, errno);
        if let Some(file) = &root.file {
            if !rest.is_empty() {
                return Err(self.not_found(request));
            }
            each(listed(Vec::new(), &root.dir.stat(file, Links::Refuse).map_err(failed)?));
            return Ok(());
        }
        let path = rest.join(&b'/');
        let stat = root.dir.stat(&path, links).map_err(failed)?;
        let kind = FileType::from_raw_mode(stat.st_mode);
        if kind == FileType::Symlink {
            return Err(failed(Errno::LOOP));
        }
        if kind != FileType::Directory {
            each(listed(Vec::new(), &stat));
            return Ok(());
        }
        let top = root.dir.open_directory(&path, links).map_err(failed)?;
        walk(&top, b"", request, recursive, may_hold, each).map(|_| ())
    }

    /// Lists the offered names.
    fn list_roots(
        &self,
        recursive: bool,
        may_hold: &mut MayHold<'_>,
        each: &mut dyn FnMut(Listed) -> bool,
    ) -> Result<(), OfferedError> {
        let mut roots: Vec<&Root> = self.roots.iter().collect();
        roots.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        for root in roots {
            let path = root.file.as_deref().unwrap_or_default();
            let stat = root.dir.stat(path, Links::Refuse).map_err(|errno| self.request_error(&root.name, errno))?;
            if !each(listed(root.name.clone(), &stat)) {
                return Ok(());
            }
            if recursive && root.file.is_none() && !walk(&root.dir, &root.name, &root.name, true, may_hold, each)? {
                return Ok(());
            }
        }
        Ok(())
    }
}

/// Lists the items in `top`, with `prefix` before their paths. False if `each` returned false.
fn walk(
    top: &Beneath,
    prefix: &[u8],
    request: &[u8],
    recursive: bool,
    may_hold: &mut MayHold<'_>,
    each: &mut dyn FnMut(Listed) -> bool,
) -> Result<bool, OfferedError> {
    let mut held = 0;
    let mut branches = vec![(0, read(top, b"", request, &mut held, may_hold)?)];
    while let Some((held_before, branch)) = branches.last_mut() {
        let Some(item) = branch.next() else {
            held = *held_before;
            branches.pop();
            continue;
        };
        if recursive && item.kind == ListedKind::Directory {
            let before = held;
            branches.push((before, read(top, &item.path, request, &mut held, may_hold)?));
        }
        let path = if prefix.is_empty() { item.path } else { [prefix, &item.path].join(&b'/') };
        if !each(Listed { path, ..item }) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The items of the directory `path` in `top`, by name.
fn read(
    top: &Beneath,
    path: &[u8],
    request: &[u8],
    held: &mut usize,
    may_hold: &mut MayHold<'_>,
) -> Result<IntoIter<Listed>, OfferedError> {
    let failed = |errno| OfferedError::from_errno(&shown(request, path), errno);
    let dir = match top.open_directory(path, Links::Refuse) {
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) if !path.is_empty() => return Ok(Vec::new().into_iter()),
        opened => opened.map_err(failed)?,
    };
    let mut items = Vec::new();
    for item in Dir::read_from(dir.fd()).map_err(failed)? {
        let item = item.map_err(failed)?;
        let name = item.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        match rustix::fs::statat(dir.fd(), name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => {
                let inner =
                    if path.is_empty() { name.to_bytes().to_vec() } else { [path, name.to_bytes()].join(&b'/') };
                *held += size_of::<Listed>() + memory::of_path(inner.len());
                if !may_hold(*held) {
                    return Err(OfferedError::TooMuchMemory { path: request.to_vec() });
                }
                items.push(listed(inner, &stat));
            }
            Err(Errno::NOENT) => {}
            Err(errno) => return Err(failed(errno)),
        }
    }
    items.sort_unstable_by(|a, b| a.path.cmp(&b.path));
    Ok(items.into_iter())
}

fn listed(path: Vec<u8>, stat: &Stat) -> Listed {
    let kind = match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => ListedKind::File,
        FileType::Directory => ListedKind::Directory,
        FileType::Symlink => ListedKind::Link,
        _ => ListedKind::Special,
    };
    let size = if kind == ListedKind::File { stat.st_size.unsigned_abs() } else { 0 };
    let modified = Timestamp { seconds: stat.st_mtime, nanos: stat.st_mtime_nsec as u32 };
    Listed { path, kind, size, modified }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Offer;
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::PathBuf;

    fn names(offered: &Offered, request: &str, recursive: bool) -> Result<Vec<String>, OfferedError> {
        let mut names = Vec::new();
        offered.list(request.as_bytes(), ListOptions { recursive, no_links: false }, &mut |_| true, &mut |item| {
            let mark = match item.kind {
                ListedKind::File => "",
                ListedKind::Directory => "/",
                ListedKind::Link => "@",
                ListedKind::Special => "?",
            };
            names.push(format!("{}{mark}", String::from_utf8_lossy(&item.path)));
            true
        })?;
        Ok(names)
    }

    fn tree() -> (tempfile::TempDir, [PathBuf; 2]) {
        let dir = tempfile::tempdir().unwrap();
        let (one, two) = (dir.path().join("one"), dir.path().join("two"));
        fs::create_dir_all(one.join("sub/deep")).unwrap();
        fs::create_dir(&two).unwrap();
        fs::write(one.join("a"), b"12345").unwrap();
        fs::write(one.join("sub/b"), b"").unwrap();
        fs::write(one.join("sub/deep/c"), b"").unwrap();
        symlink("../../two", one.join("z")).unwrap();
        fs::write(two.join("d"), b"").unwrap();
        (dir, [one, two])
    }

    #[test]
    fn list_shows_one_directory_or_all_beneath_it_in_order() {
        let (_dir, [one, _]) = tree();
        let offered = Offered::new(&[one]).unwrap();
        assert_eq!(names(&offered, "/", false).unwrap(), ["a", "sub/", "z@"]);
        assert_eq!(names(&offered, "/", true).unwrap(), ["a", "sub/", "sub/b", "sub/deep/", "sub/deep/c", "z@"]);
        assert_eq!(names(&offered, "sub", false).unwrap(), ["sub/b", "sub/deep/"].map(|n| n.replace("sub/", "")));
        assert_eq!(names(&offered, "sub/b", true).unwrap(), [""]);
        let mut sizes = Vec::new();
        offered
            .list(b"a", ListOptions::default(), &mut |_| true, &mut |item| {
                sizes.push(item.size);
                true
            })
            .unwrap();
        assert_eq!(sizes, [5]);
    }

    #[test]
    fn list_of_several_roots_begins_with_their_names() {
        let (_dir, [one, two]) = tree();
        let offered = Offered::new(&[two, one.clone()]).unwrap();
        assert_eq!(names(&offered, "", false).unwrap(), ["one/", "two/"]);
        assert_eq!(names(&offered, "", true).unwrap().last().unwrap(), "two/d");
        assert_eq!(names(&offered, "two", false).unwrap(), ["d"]);
        assert!(
            matches!(names(&offered, "d", false), Err(OfferedError::NotFound { .. })),
            "of several, none is left out"
        );
        let alone = Offered::new(std::slice::from_ref(&one)).unwrap();
        assert_eq!(names(&alone, "//", false).unwrap(), ["one/"]);
        assert_eq!(names(&alone, "//", true).unwrap()[1], "one/a");
        let file = Offered::new(&[one.join("a")]).unwrap();
        assert_eq!(names(&file, "", false).unwrap(), ["a"]);
        assert_eq!(names(&file, "a", false).unwrap(), [""]);
        let named = Offered::of(&[Offer::named("x", one.join("a")).unwrap()]).unwrap();
        assert_eq!(
            (names(&named, "", false).unwrap(), names(&named, "x", false).unwrap()),
            (vec!["x".to_owned()], vec![String::new()])
        );
    }

    #[test]
    fn list_ends_when_it_is_told_and_says_what_there_is_not() {
        let (_dir, [one, _]) = tree();
        let offered = Offered::new(&[one]).unwrap();
        let mut seen = 0;
        offered
            .list(b"", ListOptions { recursive: true, no_links: false }, &mut |_| true, &mut |_| {
                seen += 1;
                seen < 3
            })
            .unwrap();
        assert_eq!(seen, 3);
        let refused =
            offered.list(b"", ListOptions { recursive: true, no_links: false }, &mut |_| false, &mut |_| true);
        assert!(matches!(refused, Err(OfferedError::TooMuchMemory { .. })), "{refused:?}");
        assert!(matches!(names(&offered, "nothing", false), Err(OfferedError::NotFound { .. })));
        assert!(matches!(names(&offered, "../two", false), Err(OfferedError::Outside { .. })));
        assert!(matches!(names(&offered, "z/d", false), Err(OfferedError::Outside { .. })));
    }
}
