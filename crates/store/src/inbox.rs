//! A directory that accepts data sets from clients, and confines them.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::FileType;
use rustix::io::Errno;

use crate::Kind;
use crate::beneath::{Beneath, Links};
use crate::disk;
use crate::landing::{Destination, LandingError, Site};

/// A directory held open. Clients choose destinations beneath it. Nothing lands outside, whatever path a client sends,
/// and whatever is renamed or linked in the directory meanwhile. Symbolic links are followed if they stay inside.
///
/// Paths are relative to the directory, with or without a leading slash. Messages to clients show them in this form.
#[derive(Debug)]
pub struct Inbox {
    open: Beneath,
}

impl Inbox {
    /// Opens the directory at `path`, which the user of this program has named.
    ///
    /// # Errors
    /// When it does not exist, is no directory, or may not be opened.
    pub fn open(path: &Path) -> Result<Self, LandingError> {
        match Beneath::at(path) {
            Ok(open) => Ok(Self { open }),
            Err(Errno::NOENT) => Err(LandingError::NoDirectory { path: path.to_owned() }),
            Err(Errno::NOTDIR) => Err(LandingError::NotADirectory { path: path.to_owned() }),
            Err(errno) => Err(LandingError::from_errno("open", path.to_owned(), errno)),
        }
    }

    /// Makes the directory at `path`, and says whether it was not there before.
    ///
    /// # Errors
    /// When the path leads outside, its parent is not there, or something else has its name.
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
            // Once something has landed in it, it stays.
            let _ = parent.remove_directory(name);
        }
    }

    /// Where a data set of `kind` lands whose site is relative to this directory.
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
                let open = self.open.open_directory(&relative(root)?, Links::FollowInside);
                let open = open.map_err(|errno| failed("open", root, errno))?;
                Destination::itself(shown(root), open).beneath(path, kind)
            }
        }
    }

    fn is_directory(&self, path: &Path, relative: &[u8]) -> Result<bool, LandingError> {
        match self.open.stat(relative, Links::FollowInside) {
            Ok(stat) => Ok(FileType::from_raw_mode(stat.st_mode) == FileType::Directory),
            Err(Errno::NOENT) => Ok(false),
            Err(errno) => Err(failed("look for", path, errno)),
        }
    }

    /// The directory that `path` lies in, and its name there.
    fn parent_of<'r>(&self, path: &Path, relative: &'r [u8]) -> Result<(Beneath, &'r [u8]), LandingError> {
        let (parent, name) = crate::beneath::split(relative);
        match self.open.open_directory(parent, Links::FollowInside) {
            Ok(open) => Ok((open, name)),
            Err(Errno::NOENT) => Err(LandingError::NoDirectory { path: shown(path.parent().unwrap_or(path)) }),
            Err(errno) => Err(failed("open", path.parent().unwrap_or(path), errno)),
        }
    }
}

/// The path as the kernel resolves it beneath the directory: without a slash at its ends, and refused when it climbs.
fn relative(path: &Path) -> Result<Vec<u8>, LandingError> {
    let components = path.as_os_str().as_bytes().split(|&byte| byte == b'/');
    let components: Vec<&[u8]> = components.filter(|component| !matches!(*component, b"" | b".")).collect();
    if components.iter().any(|component| *component == b".." || component.contains(&0)) {
        return Err(LandingError::Outside { path: shown(path) });
    }
    Ok(components.join(&b'/'))
}

/// The path as those know it who may name it.
fn shown(path: &Path) -> PathBuf {
    Path::new("/").join(path)
}

fn failed(action: &'static str, path: &Path, errno: Errno) -> LandingError {
    match errno {
        Errno::XDEV => LandingError::Outside { path: shown(path) },
        Errno::NOENT => LandingError::NoDirectory { path: shown(path) },
        Errno::NOTDIR => LandingError::NotADirectory { path: shown(path) },
        errno => LandingError::from_errno(action, shown(path), errno),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Contents, Entry, Existing, Filter, Manifest, Metadata, Plan};
    use std::os::unix::fs::symlink;
    use std::sync::Arc;

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
