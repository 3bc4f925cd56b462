//! The directories and files that a server offers, and the data sets that requests find in them.

mod data_set;
mod error;
mod everything;
mod kept;
mod list;
mod offer;
mod options;
mod root;
mod scan;

use std::collections::BTreeSet;
use std::path::PathBuf;

use rustix::fs::FileType;
use rustix::io::Errno;

use self::root::Root;
use crate::beneath::Links;
use crate::printable;

pub use data_set::DataSet;
pub use error::OfferedError;
pub use offer::{Offer, OfferNameError};
pub use options::{ListOptions, MayHold, ScanOptions};

/// The directories and files that a server offers, held open. Requests reach only what lies beneath them, even if files
/// are renamed or linked there meanwhile.
///
/// A request begins with an offered name: `/NAME/a/b`. The name is the last component of the offered path, or the one
/// of its [`Offer`]. If only one path is offered, without a chosen name, the name may be left out: `/a/b` means the
/// same, unless `a` is the name. Once another path is offered, too, a request without a name is an error. A name is
/// refused if another offered directory has an item of that name, so that an old address never means another directory:
/// see [`Offered::unclear`]. The empty request means everything. Symbolic links in a request are followed as long as
/// they stay inside.
#[derive(Debug)]
pub struct Offered {
    roots: Vec<Root>,
    /// Whether the name may be left out.
    is_short: bool,
    /// Ambiguous names: see [`Offered::unclear`].
    unclear: BTreeSet<Vec<u8>>,
}

impl Offered {
    /// Offers `paths` under their own names: see [`Offered::of`].
    ///
    /// # Errors
    /// As there.
    pub fn new(paths: &[PathBuf]) -> Result<Self, OfferedError> {
        Self::of(&paths.iter().cloned().map(Offer::from).collect::<Vec<_>>())
    }

    /// Offers directories or files. Links in their paths are followed once, now.
    ///
    /// When one is missing, unreadable, or neither directory nor file; when two have the same name; or when there is
    /// none.
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

    /// Offered names that are also items in another offered directory, at the start. An address that begins with one
    /// meant that item while the other directory was offered alone. So it is refused: an old address may mean the same
    /// or nothing, never something else. Another name ([`Offer::named`]) solves that.
    pub fn unclear(&self) -> impl Iterator<Item = &[u8]> {
        self.unclear.iter().map(Vec::as_slice)
    }

    /// The names with which requests begin.
    pub fn names(&self) -> impl Iterator<Item = &[u8]> {
        self.roots.iter().map(|root| root.name.as_slice())
    }

    /// The name that may be left out of requests, if there is one.
    pub fn name_left_out(&self) -> Option<&[u8]> {
        self.short().map(|root| root.name.as_slice())
    }

    /// The only root, if its name may be left out.
    fn short(&self) -> Option<&Root> {
        self.roots.first().filter(|_| self.is_short)
    }

    /// Finds the path of `request`, and lists everything beneath it. Reads directories. Opens files only for the
    /// metadata of `options` and for holes; they are opened again for reading.
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
        let links = options.links();
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

/// The components of a request; '..' is refused.
fn components(request: &[u8]) -> Result<Vec<&[u8]>, OfferedError> {
    let components: Vec<&[u8]> = request.split(|&b| b == b'/').filter(|c| !matches!(*c, b"" | b".")).collect();
    if components.contains(&b"..".as_slice()) {
        return Err(OfferedError::Outside { path: request.to_vec() });
    }
    Ok(components)
}

#[cfg(test)]
mod tests;
