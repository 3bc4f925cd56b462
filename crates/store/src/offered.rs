//! The directories and files that a server offers, and the data sets that requests find in them.

mod data_set;
mod everything;
mod kept;
mod list;
mod offer;
mod scan;

use std::collections::BTreeSet;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use inhaul_base::ByteRange;
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;

use crate::beneath::{Beneath, Links};
use crate::file_system::FileSystem;
use crate::{ManifestError, printable};

pub use data_set::DataSet;
pub use offer::{Offer, OfferNameError};

/// Optional metadata that a client requests in addition to permissions and times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScanOptions {
    /// Owner and group.
    pub owner: bool,
    /// Their extended attributes.
    pub attributes: bool,
    /// Whether links in the path of the request are an error, rather than followed as long as they stay inside: for a
    /// client that may read what lies beneath some paths only.
    pub no_links: bool,
}

/// How a listing goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ListOptions {
    /// Everything beneath a directory, rather than what lies in it.
    pub recursive: bool,
    /// As in [`ScanOptions`].
    pub no_links: bool,
}

fn links(no_links: bool) -> Links {
    if no_links { Links::Refuse } else { Links::FollowInside }
}

/// Called with the total number of bytes before more memory is held for a client's request. False refuses the memory.
pub type MayHold<'c> = dyn FnMut(usize) -> bool + 'c;

/// The directories and files that a server offers, held open. Requests reach what lies beneath them and nothing else,
/// whatever is renamed or linked there meanwhile.
///
/// A request begins with the name of one of them: `/NAME/a/b`. The name is the last component of the path, or the one
/// that an [`Offer`] gives it. The name of the only one may be left out, if it was given none: `/a/b` is the same,
/// unless `a` is the name. A request without a name then means nothing once more is offered. So that it never means
/// another directory, a name that another offered directory has an item of is refused: see [`Offered::unclear`].
/// The empty request is for everything. Symbolic links that a request goes through are followed as long as they stay
/// inside.
#[derive(Debug)]
pub struct Offered {
    roots: Vec<Root>,
    /// Whether the name may be left out.
    is_short: bool,
    /// The names that could mean something else: see [`Offered::unclear`].
    unclear: BTreeSet<Vec<u8>>,
}

#[derive(Clone, Debug)]
struct Root {
    /// Its name in requests, and the name of the data set of the whole directory.
    name: Vec<u8>,
    dir: Arc<Beneath>,
    /// The name of the file in the directory, if only that is offered.
    file: Option<Vec<u8>>,
}

impl Offered {
    /// Offers `paths` under their own names: see [`Offered::of`].
    ///
    /// # Errors
    /// As there.
    pub fn new(paths: &[PathBuf]) -> Result<Self, OfferedError> {
        Self::of(&paths.iter().cloned().map(Offer::from).collect::<Vec<_>>())
    }

    /// Offers directories or files; links in their paths are followed now and not again.
    ///
    /// # Errors
    /// When one of them is missing, unreadable or neither directory nor file, when two have the same name, or when
    /// there is none.
    pub fn of(offers: &[Offer]) -> Result<Self, OfferedError> {
        if offers.is_empty() {
            return Err(OfferedError::Nothing);
        }
        let roots = offers.iter().map(Root::new).collect::<Result<Vec<_>, _>>()?;
        for (i, root) in roots.iter().enumerate() {
            if roots[..i].iter().any(|earlier| earlier.name == root.name) {
                return Err(OfferedError::SameName(root.name.clone()));
            }
        }
        let is_short = roots.len() == 1 && offers[0].name().is_none();
        let may_have_been_alone = |(root, offer): &(&Root, &Offer)| offer.name().is_none() && root.file.is_none();
        let shorts: Vec<_> = roots.iter().zip(offers).filter(may_have_been_alone).map(|(root, _)| root).collect();
        let is_within =
            |name: &[u8]| shorts.iter().any(|root| root.name != name && root.dir.stat(name, Links::Refuse).is_ok());
        let unclear = roots.iter().map(|root| root.name.clone()).filter(|name| is_within(name)).collect();
        Ok(Self { roots, is_short, unclear })
    }

    /// The names that another one of the directories had an item of when all this began. An address that begins with
    /// one was good for that item while that directory was offered alone, and so it is refused: it may mean the same or
    /// nothing, never something else. Another name ([`Offer::named`]) mends that.
    pub fn unclear(&self) -> impl Iterator<Item = &[u8]> {
        self.unclear.iter().map(Vec::as_slice)
    }

    /// The names by which requests begin.
    pub fn names(&self) -> impl Iterator<Item = &[u8]> {
        self.roots.iter().map(|root| root.name.as_slice())
    }

    /// The name that may be left out of requests, if there is one.
    pub fn name_left_out(&self) -> Option<&[u8]> {
        self.short().map(|root| root.name.as_slice())
    }

    /// The only one, if its name may be left out.
    fn short(&self) -> Option<&Root> {
        self.roots.first().filter(|_| self.is_short)
    }

    /// Finds the path that `request` names, and lists everything beneath it. Reads directories. Opens files only for
    /// the metadata of `options` and for holes; they are opened again when they are read.
    ///
    /// # Errors
    /// When the path does not exist, leads outside, may not be read, or cannot be a data set.
    pub fn scan(&self, request: &[u8], options: ScanOptions) -> Result<DataSet, OfferedError> {
        self.scan_within(request, options, &mut |_| true)
    }

    /// The same within bounds: `may_hold` is asked before the list of files takes more memory.
    ///
    /// # Errors
    /// As [`Offered::scan`], and [`OfferedError::TooMuchMemory`] when `may_hold` says no.
    pub fn scan_within(
        &self,
        request: &[u8],
        options: ScanOptions,
        may_hold: &mut MayHold<'_>,
    ) -> Result<DataSet, OfferedError> {
        let components = components(request)?;
        if components.is_empty() && self.short().is_none() {
            return self.everything(request, options, may_hold);
        }
        let (root, rest) = self.root_of(request, &components)?;
        if let Some(file) = &root.file {
            return if rest.is_empty() {
                DataSet::of_file(&root.dir, &root.name, file, Links::Refuse, request, options)
            } else {
                Err(self.not_found(request))
            };
        }
        let path = rest.join(&b'/');
        let name = rest.last().copied().unwrap_or(&root.name);
        let links = links(options.no_links);
        let stat = root.dir.stat(&path, links).map_err(|errno| self.request_error(request, errno))?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => {
                let dir = root.dir.open_directory(&path, links).map_err(|errno| self.request_error(request, errno))?;
                DataSet::of_directory(dir, name, request, options, may_hold)
            }
            FileType::RegularFile => DataSet::of_file(&root.dir, name, &path, links, request, options),
            _ => Err(OfferedError::Unsupported { path: request.to_vec() }),
        }
    }

    /// The offered root of a request, and the rest of the request beneath it.
    fn root_of<'r>(&self, request: &[u8], components: &'r [&'r [u8]]) -> Result<(&Root, &'r [&'r [u8]]), OfferedError> {
        if let Some((first, rest)) = components.split_first()
            && let Some(root) = self.roots.iter().find(|root| root.name == *first)
        {
            return match self.unclear.contains(*first) {
                true => Err(OfferedError::Unclear { name: root.name.clone() }),
                false => Ok((root, rest)),
            };
        }
        let short = self.short().filter(|root| components.is_empty() || root.file.is_none());
        short.map(|root| (root, components)).ok_or_else(|| self.not_found(request))
    }

    fn request_error(&self, request: &[u8], errno: Errno) -> OfferedError {
        match errno {
            Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG | Errno::INVAL => self.not_found(request),
            _ => OfferedError::from_errno(request, errno),
        }
    }

    fn not_found(&self, request: &[u8]) -> OfferedError {
        let hint = match self.short() {
            Some(_) => String::new(),
            None => format!("; what is offered begins with {}", self.names_for_people()),
        };
        OfferedError::NotFound { path: request.to_vec(), hint }
    }

    fn names_for_people(&self) -> String {
        let names: Vec<_> = self.names().map(|name| format!("/{}", printable(name))).collect();
        names.join(" or ")
    }
}

/// The components of a request; one that climbs is refused.
fn components(request: &[u8]) -> Result<Vec<&[u8]>, OfferedError> {
    let components: Vec<&[u8]> = request.split(|&b| b == b'/').filter(|c| !matches!(*c, b"" | b".")).collect();
    if components.contains(&b"..".as_slice()) {
        return Err(OfferedError::Outside { path: request.to_vec() });
    }
    Ok(components)
}

impl Root {
    fn new(offer: &Offer) -> Result<Self, OfferedError> {
        let path = offer.path();
        let bytes = path.as_os_str().as_bytes();
        let open = |dir: &Path| Beneath::at(dir).map_err(|errno| OfferedError::from_errno(bytes, errno));
        let real = path.canonicalize().map_err(|e| OfferedError::from_io(bytes, &e))?;
        let kind = real.metadata().map_err(|e| OfferedError::from_io(bytes, &e))?;
        // The file system's root has no name of its own.
        let own_name = real.file_name().map_or(&b"root"[..], OsStrExt::as_bytes).to_vec();
        let name = offer.name().map_or_else(|| own_name.clone(), |name| name.as_bytes().to_vec());
        match real.parent() {
            _ if kind.is_dir() => Ok(Self { name, dir: Arc::new(open(&real)?), file: None }),
            Some(_) if kind.is_file() && is_of_generated(&real) => {
                Err(OfferedError::Generated { path: bytes.to_vec() })
            }
            Some(parent) if kind.is_file() => Ok(Self { name, dir: Arc::new(open(parent)?), file: Some(own_name) }),
            _ => Err(OfferedError::Unsupported { path: bytes.to_vec() }),
        }
    }
}

/// Whether a file lies where files are made when they are read.
fn is_of_generated(path: &Path) -> bool {
    let found = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
    found.is_ok_and(|found| FileSystem::of(found) == FileSystem::Generated)
}

/// Why something cannot be offered or read.
#[derive(Debug, thiserror::Error)]
pub enum OfferedError {
    /// There is nothing to offer.
    #[error("nothing is offered: name at least one directory or file")]
    Nothing,
    /// Two offered directories would have the same name.
    #[error("two of the directories are called '{}': give one another name, as in NAME=DIR", printable(.0))]
    SameName(Vec<u8>),
    /// There is no such file or directory.
    #[error("there is no '{}'{hint}", printable(path))]
    NotFound {
        /// What was asked for.
        path: Vec<u8>,
        /// What could have been asked for, when it can be said.
        hint: String,
    },
    /// The path begins with a name that could mean something else.
    #[error(
        "'/{0}' is refused: another offered directory has a '{0}' in it, and was reached by the same address when it was offered alone; have this one offered under another name, as in NAME=DIR",
        printable(name)
    )]
    Unclear {
        /// The name.
        name: Vec<u8>,
    },
    /// The path leads out of what is offered, by `..` or by a link.
    #[error(
        "'{}' leads outside of what is offered; only paths beneath the offered directories can be read",
        printable(path)
    )]
    Outside {
        /// What was asked for.
        path: Vec<u8>,
    },
    /// The path goes through a link, and may not.
    #[error("'{}' goes through a link, and a right on a path is for what lies there itself", printable(path))]
    Linked {
        /// What was asked for.
        path: Vec<u8>,
    },
    /// Permission is missing.
    #[error(
        "'{}' may not be read by the server; give it permission (chmod +r, for directories +rx) or leave it out",
        printable(path)
    )]
    Unreadable {
        /// What may not be read.
        path: Vec<u8>,
    },
    /// It is neither a file nor a directory.
    #[error("'{}' is neither a file nor a directory; only those can be moved", printable(path))]
    Unsupported {
        /// What was asked for.
        path: Vec<u8>,
    },
    /// It is made when it is read, so nothing says how long it is.
    #[error(
        "'{0}' is made when it is read, like files of /proc and /sys: its size says nothing; make a file of it first (cat {0} > FILE)",
        printable(path)
    )]
    Generated {
        /// What was asked for.
        path: Vec<u8>,
    },
    /// It cannot be a data set.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// A file has another size than when it was listed, or is not a file any more.
    #[error(
        "'{}' has changed since the transfer began; start the transfer again when nobody writes to it",
        printable(path)
    )]
    Changed {
        /// The file.
        path: Vec<u8>,
    },
    /// The list of files at the path is too large for the memory budget.
    #[error("the list of what is in '{}' takes more memory than there is for it now", printable(path))]
    TooMuchMemory {
        /// What was asked for.
        path: Vec<u8>,
    },
    /// There is no file of that index in the data set.
    #[error("the data set has no file {0}")]
    NoSuchFile(usize),
    /// A range ends beyond the data set or the file.
    #[error("the range {0} ends beyond the data")]
    OutOfRange(ByteRange),
    /// The system reports something else.
    #[error("'{}' cannot be read: {source}", printable(path))]
    Io {
        /// What was read.
        path: Vec<u8>,
        /// The system's error.
        source: io::Error,
    },
}

impl OfferedError {
    fn from_errno(path: &[u8], errno: Errno) -> Self {
        let path = path.to_vec();
        match errno {
            Errno::NOENT | Errno::NOTDIR => Self::NotFound { path, hint: String::new() },
            Errno::XDEV => Self::Outside { path },
            Errno::LOOP => Self::Linked { path },
            Errno::ACCESS | Errno::PERM => Self::Unreadable { path },
            _ => Self::Io { path, source: errno.into() },
        }
    }

    fn from_io(path: &[u8], error: &io::Error) -> Self {
        Self::from_errno(path, Errno::from_io_error(error).unwrap_or(Errno::IO))
    }
}

#[cfg(test)]
mod tests;
