//! A directory that accepts data sets from clients, and confines them.

use std::ffi::OsStr;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::FileType;
use rustix::io::Errno;

use crate::Kind;
use crate::beneath::{Beneath, Links, split};
use crate::destination::{Destination, Site};
use crate::disk;
use crate::landing_error::LandingError;

/// An open directory beneath which clients choose destinations. Nothing lands outside, with any path that a client
/// sends, and even if files are renamed or linked in the directory meanwhile. Symbolic links are followed if they stay
/// inside.
///
/// Paths are relative to the directory, with or without a leading slash. Messages to clients show them with one.
///
/// A client that may write beneath one path only gets the inbox [`within`](Inbox::within) that path. Then links are
/// followed only beneath that path, and none on the way to it: other clients can plant links there.
#[derive(Clone, Debug)]
pub struct Inbox {
    open: Arc<Beneath>,
    /// The path that clients are confined to, relative to the directory; empty: everything.
    scope: Vec<u8>,
}

impl Inbox {
    /// Opens the directory at `path`, given by the user of this program.
    ///
    /// # Errors
    /// When it does not exist, is no directory, or may not be opened.
    pub fn open(path: &Path) -> Result<Self, LandingError> {
        match Beneath::at(path) {
            Ok(open) => Ok(Self { open: Arc::new(open), scope: Vec::new() }),
            Err(Errno::NOENT) => Err(LandingError::NoDirectory { path: path.to_owned() }),
            Err(Errno::NOTDIR) => Err(LandingError::NotADirectory { path: path.to_owned() }),
            Err(errno) => Err(LandingError::from_errno("open", path.to_owned(), errno)),
        }
    }

    /// The same, confined to `scope` and everything beneath it.
    ///
    /// When the scope has a component '..'.
    pub fn within(&self, scope: &Path) -> Result<Self, LandingError> {
        Ok(Self { open: Arc::clone(&self.open), scope: relative(scope)? })
    }

    /// Where `path` leads after all links, in the same form as paths are given; `None` if it leads nowhere, or the
    /// system does not tell.
    pub fn real_path(&self, path: &Path) -> Option<PathBuf> {
        let relative = relative(path).ok()?;
        let (parent, name) = self.parent_of(path, &relative).ok()?;
        // A landing does not follow a link as its target, unless it is a directory to land in.
        let end = parent.open_directory(name, Links::Refuse).map(|open| where_is(&open));
        let found = end.unwrap_or_else(|_| Some(where_is(&parent)?.join(OsStr::from_bytes(name))))?;
        Some(shown(found.strip_prefix(where_is(&self.open)?).ok()?))
    }

    /// Calls `look` with `relative`, or the part of it beneath the scope, and the directory that it may not leave.
    fn resolve<T>(
        &self,
        relative: &[u8],
        look: impl FnOnce(&Beneath, &[u8], Links) -> rustix::io::Result<T>,
    ) -> rustix::io::Result<T> {
        if self.scope.is_empty() {
            return look(&self.open, relative, Links::FollowInside);
        }
        match relative.strip_prefix(self.scope.as_slice()) {
            Some(b"") => look(&self.open, relative, Links::Refuse),
            Some([b'/', rest @ ..]) => {
                look(&self.open.open_directory(&self.scope, Links::Refuse)?, rest, Links::FollowInside)
            }
            _ => Err(Errno::XDEV),
        }
    }

    /// Makes the directory at `path`, and returns whether it is new.
    ///
    /// When the path leads outside, its parent does not exist, or a file has its name.
    pub fn make_directory(&self, path: &Path) -> Result<bool, LandingError> {
        let relative = relative(path)?;
        if relative.is_empty() || self.is_directory(path, &relative)? {
            return Ok(false);
        }
        let (parent, name) = self.parent_of(path, &relative)?;
        match parent.make_directory(name, 0o777) {
            Ok(()) => {
                let synced = disk::sync_directory(parent.fd());
                synced.map_err(|errno| LandingError::from_errno("sync", shown(path), errno))?;
                Ok(true)
            }
            Err(Errno::EXIST) => Err(LandingError::NotADirectory { path: shown(path) }),
            Err(errno) => Err(LandingError::from_errno("make", shown(path), errno)),
        }
    }

    /// Removes the directory at `path` if it is empty.
    pub fn remove_directory(&self, path: &Path) {
        if let Ok(relative) = relative(path)
            && let Ok((parent, name)) = self.parent_of(path, &relative)
        {
            // It stays once it is not empty.
            let _ = parent.remove_directory(name);
        }
    }

    /// The destination of a data set of `kind` at a site relative to this directory.
    pub(crate) fn find(&self, site: &Site, kind: Kind) -> Result<Destination, LandingError> {
        match site {
            Site::As(dest) => {
                let relative = relative(dest)?;
                if kind == Kind::File && self.is_directory(dest, &relative)? {
                    return Err(LandingError::NeedsSlash { path: shown(dest) });
                }
                let (parent, name) = self.parent_of(dest, &relative)?;
                let directory = shown(dest).parent().map_or_else(|| PathBuf::from("/"), Path::to_path_buf);
                Ok(Destination::named_in(directory, parent, name))
            }
            Site::Beneath { root, path } => {
                let open = self.resolve(&relative(root)?, Beneath::open_directory);
                let open = open.map_err(|errno| failed("open", root, errno))?;
                Destination::itself(shown(root), open).beneath(path, kind)
            }
        }
    }

    fn is_directory(&self, path: &Path, relative: &[u8]) -> Result<bool, LandingError> {
        match self.resolve(relative, Beneath::stat) {
            Ok(stat) => Ok(FileType::from_raw_mode(stat.st_mode) == FileType::Directory),
            Err(Errno::NOENT) => Ok(false),
            Err(errno) => Err(failed("look for", path, errno)),
        }
    }

    /// The parent directory of `path`, and the name in it.
    fn parent_of<'r>(&self, path: &Path, relative: &'r [u8]) -> Result<(Beneath, &'r [u8]), LandingError> {
        let open = self.resolve(relative, |base, path, links| base.open_directory(split(path).0, links));
        match open {
            Ok(open) => Ok((open, split(relative).1)),
            Err(Errno::NOENT) => Err(LandingError::NoDirectory { path: shown(path.parent().unwrap_or(path)) }),
            Err(errno) => Err(failed("open", path.parent().unwrap_or(path), errno)),
        }
    }
}

/// The path for the kernel, relative to the directory: without slashes at its ends. An error if it has a component
/// '..'.
fn relative(path: &Path) -> Result<Vec<u8>, LandingError> {
    let components = path.as_os_str().as_bytes().split(|&byte| byte == b'/');
    let components: Vec<&[u8]> = components.filter(|component| !matches!(*component, b"" | b".")).collect();
    if components.iter().any(|component| *component == b".." || component.contains(&0)) {
        return Err(LandingError::Outside { path: shown(path) });
    }
    Ok(components.join(&b'/'))
}

/// The path as clients know it.
fn shown(path: &Path) -> PathBuf {
    Path::new("/").join(path)
}

fn failed(action: &'static str, path: &Path, errno: Errno) -> LandingError {
    match errno {
        Errno::XDEV | Errno::LOOP => LandingError::Outside { path: shown(path) },
        Errno::NOENT => LandingError::NoDirectory { path: shown(path) },
        Errno::NOTDIR => LandingError::NotADirectory { path: shown(path) },
        errno => LandingError::from_errno(action, shown(path), errno),
    }
}

/// The path of an open directory, from the kernel.
fn where_is(open: &Beneath) -> Option<PathBuf> {
    let link = format!("/proc/self/fd/{}", open.fd().as_raw_fd());
    std::fs::read_link(link).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Contents, Entry, Existing, Filter, Manifest, Metadata, Plan};
    use std::os::unix::fs::symlink;

    fn file() -> Arc<Manifest> {
        let metadata = Metadata { mode: 0o644, ..Metadata::default() };
        let files = vec![Entry { path: b"f".to_vec(), size: 1, metadata, holes: Vec::new() }];
        Arc::new(Manifest::new(b"f".to_vec(), Kind::File, Contents { files, ..Contents::default() }).unwrap())
    }

    fn plan(inbox: &Inbox, dest: &str) -> Result<Plan, LandingError> {
        let site = match dest.strip_suffix('/') {
            Some(root) => Site::Beneath { root: root.into(), path: b"f".to_vec() },
            None => Site::As(dest.into()),
        };
        Plan::in_inbox(inbox, &site, file(), &Filter::default(), Existing::Refuse)
    }

    /// An inbox with a directory `d`, beside a directory that is none of its business.
    fn places() -> (tempfile::TempDir, Inbox) {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("in/d")).unwrap();
        std::fs::create_dir(dir.path().join("out")).unwrap();
        let inbox = Inbox::open(&dir.path().join("in")).unwrap();
        (dir, inbox)
    }

    #[test]
    fn find_goes_by_the_site_and_shows_paths_as_they_were_named() {
        let (_dir, inbox) = places();
        for (dest, target) in [("/", "/f"), ("d/", "/d/f"), ("d/./g", "/d/./g"), ("/g", "/g"), ("/d/", "/d/f")] {
            assert_eq!(plan(&inbox, dest).unwrap().target(), Path::new(target), "{dest}");
        }
        for dest in ["g/", "none/f"] {
            assert!(matches!(plan(&inbox, dest), Err(LandingError::NoDirectory { .. })), "{dest}");
        }
        for dest in ["d", ""] {
            assert!(matches!(plan(&inbox, dest), Err(LandingError::NeedsSlash { .. })), "{dest}");
        }
    }

    #[test]
    fn nothing_lands_outside_by_name_or_by_link() {
        let (dir, inbox) = places();
        symlink("../out", dir.path().join("in/away")).unwrap();
        symlink("/", dir.path().join("in/root")).unwrap();
        symlink("d", dir.path().join("in/inside")).unwrap();
        for dest in ["..", "../out", "../out/", "d/../../out", "away/", "away/g", "root/tmp", "/../out/g"] {
            let error = plan(&inbox, dest).unwrap_err();
            assert!(matches!(error, LandingError::Outside { .. }), "{dest}: {error}");
            assert!(inbox.make_directory(Path::new(dest)).is_err() || dest == "away/", "{dest}");
        }
        assert_eq!(plan(&inbox, "inside/").unwrap().target(), Path::new("/inside/f"));
        assert!(std::fs::read_dir(dir.path().join("out")).unwrap().next().is_none());
    }

    #[test]
    fn a_scope_is_left_by_no_link_wherever_it_was_planted() {
        let (dir, inbox) = places();
        std::fs::create_dir_all(dir.path().join("in/b")).unwrap();
        std::fs::create_dir_all(dir.path().join("in/d/tree/e")).unwrap();
        std::fs::write(dir.path().join("in/b/keep"), b"b's own").unwrap();
        symlink("../../b", dir.path().join("in/d/tree/x")).unwrap();
        symlink("../../../out", dir.path().join("in/d/tree/y")).unwrap();
        symlink("tree/e", dir.path().join("in/d/inner")).unwrap();
        symlink("b", dir.path().join("in/linked")).unwrap();
        let within = |scope: &str| inbox.within(Path::new(scope)).unwrap();
        let scoped = within("/d/");
        for dest in ["d/tree/x/evil", "d/tree/x/", "d/tree/x/keep", "d/tree/y/evil", "/b/evil", "b/", "", "/", "da/f"] {
            let error = plan(&scoped, dest).unwrap_err();
            assert!(matches!(error, LandingError::Outside { .. }), "{dest}: {error}");
            assert!(scoped.make_directory(Path::new(dest)).is_err() || dest.is_empty() || dest == "/", "{dest}");
            scoped.remove_directory(Path::new(dest));
        }
        assert_eq!(plan(&scoped, "d/inner/").unwrap().target(), Path::new("/d/inner/f"));
        assert_eq!(plan(&scoped, "d/").unwrap().target(), Path::new("/d/f"));
        // The inbox as a whole may be left alone: links in it that stay inside are its user's.
        assert_eq!(plan(&inbox, "d/tree/x/").unwrap().target(), Path::new("/d/tree/x/f"));
        for dest in ["linked/", "linked/f"] {
            assert!(plan(&within("/linked"), dest).is_err(), "{dest}: the scope itself is a link");
        }
        // A scope that is not there yet is made, or becomes what lands.
        assert!(within("/new").make_directory(Path::new("new")).unwrap());
        assert_eq!(plan(&within("/g"), "g").unwrap().target(), Path::new("/g"));
        assert!(inbox.within(Path::new("/../out")).is_err());
        assert_eq!(std::fs::read(dir.path().join("in/b/keep")).unwrap(), b"b's own");
    }

    #[test]
    fn real_path_is_where_links_lead() {
        let (dir, inbox) = places();
        std::fs::create_dir_all(dir.path().join("in/d/e")).unwrap();
        symlink("d/e", dir.path().join("in/way")).unwrap();
        for (path, real) in [("way/new", "/d/e/new"), ("/d/e/", "/d/e"), ("d/f", "/d/f"), ("/", "/"), ("way", "/way")] {
            assert_eq!(inbox.real_path(Path::new(path)).as_deref(), Some(Path::new(real)), "{path}");
        }
        assert_eq!(inbox.real_path(Path::new("none/f")), None);
    }

    #[test]
    fn make_directory_makes_what_is_not_there() {
        let (dir, inbox) = places();
        assert!(inbox.make_directory(Path::new("/new/")).unwrap());
        assert!(!inbox.make_directory(Path::new("new")).unwrap() && !inbox.make_directory(Path::new("/")).unwrap());
        inbox.remove_directory(Path::new("new"));
        assert!(!dir.path().join("in/new").exists());
        std::fs::write(dir.path().join("in/f"), b"").unwrap();
        let error = inbox.make_directory(Path::new("f")).unwrap_err();
        assert!(matches!(error, LandingError::NotADirectory { .. }), "{error}");
    }
}
