//! A request for a data set: its mirrors, its name at the destination, and sizes and checksums that are known before.
//!
//! Every source of work becomes a request: the command line, a Metalink or an input file.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use inhaul_store::checksums::Algorithm;
use inhaul_store::{Filter, Kind, Manifest, Site, printable};

use crate::api::error::MoveError;
use crate::api::source::{Server, Source};

/// A server and what it offers there.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Location {
    /// The server.
    pub server: Server,
    /// Path below what it offers, as in [`Source::path`].
    pub path: String,
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Source { mirrors: vec![self.server.clone()], path: self.path.clone() }.fmt(f)
    }
}

/// One data set that is to be fetched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Where it is: at least one place, each server once.
    pub mirrors: Vec<Location>,
    /// Its path beneath the destination, which is a directory then, empty for what goes straight into it; `None`: it
    /// becomes the destination, or, if that ends in `/`, lands in it under the last component of its path.
    pub place: Option<Vec<u8>>,
    /// Selects files of it.
    pub part: Part,
}

/// The wanted part of a data set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// All of it. What is known applies if the data set is one file.
    Whole(Known),
    /// These files of a directory, by their paths in it, and what is known of each.
    Listed(BTreeMap<Vec<u8>, Known>),
}

/// What is known of a file before it is fetched.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Known {
    /// Its size in bytes.
    pub size: Option<u64>,
    /// Its checksums.
    pub sums: Vec<(Algorithm, Vec<u8>)>,
}

impl Known {
    /// Its checksums, without weak ones beside others: they would add nothing but work.
    fn sums_that_count(&self) -> Vec<(Algorithm, Vec<u8>)> {
        let strongest = self.sums.iter().map(|(algorithm, _)| algorithm.strength()).max();
        self.sums.iter().filter(|(algorithm, _)| Some(algorithm.strength()) == strongest).cloned().collect()
    }
}

impl From<Source> for Request {
    fn from(source: Source) -> Self {
        let place = |server| Location { server, path: source.path.clone() };
        Self {
            mirrors: source.mirrors.into_iter().map(place).collect(),
            place: None,
            part: Part::Whole(Known::default()),
        }
    }
}

/// Checksums of files, by the files' indices in a manifest.
pub type KnownSums = BTreeMap<usize, Vec<(Algorithm, Vec<u8>)>>;

impl Request {
    /// Its name in messages: the path at its first mirror.
    pub fn source(&self) -> Source {
        let path = self.mirrors.first().map(|first| first.path.clone()).unwrap_or_default();
        Source { mirrors: self.mirrors.iter().map(|mirror| mirror.server.clone()).collect(), path }
    }

    /// Its path at `server`.
    pub fn path_at(&self, server: &Server) -> Option<&str> {
        self.mirrors.iter().find(|mirror| mirror.server == *server).map(|mirror| mirror.path.as_str())
    }

    /// Where it lands.
    pub fn site(&self, destination: &Path) -> Site {
        match &self.place {
            None => Site::As(destination.to_owned()),
            Some(path) => Site::Beneath { root: destination.to_owned(), path: path.clone() },
        }
    }

    /// What of it is wanted, of what the user wants of anything.
    pub fn filter(&self, filter: &Filter) -> Filter {
        match &self.part {
            Part::Whole(_) => filter.clone(),
            Part::Listed(files) => filter.clone().only(files.keys().cloned()),
        }
    }

    /// Checks that what `server` has is what is known of it.
    pub fn check(&self, server: &Server, manifest: &Manifest) -> Result<(), MoveError> {
        let other = |path: &[u8], found: &str, listed: u64| {
            let detail = format!("{server}: '{}' {found} there, and has {listed} bytes by the list", printable(path));
            Err(MoveError::OtherVersion { detail })
        };
        match &self.part {
            Part::Whole(Known { size: None, sums }) if sums.is_empty() => Ok(()),
            Part::Whole(known) => match (manifest.kind(), manifest.entries(), known.size) {
                (Kind::File, [file], Some(size)) if file.size != size => {
                    other(&file.path, &format!("has {} bytes", file.size), size)
                }
                (Kind::File, ..) => Ok(()),
                (Kind::Directory, _, Some(size)) => other(manifest.name(), "is a directory", size),
                (Kind::Directory, _, None) => {
                    let detail =
                        format!("{server}: '{}' is a directory there, and has no checksum", printable(manifest.name()));
                    Err(MoveError::OtherVersion { detail })
                }
            },
            Part::Listed(files) => {
                let names: BTreeMap<&[u8], usize> = manifest.names().into_iter().collect();
                for (path, known) in files {
                    match (names.get(path.as_slice()), known.size) {
                        (Some(&file), Some(size)) if manifest.entries()[file].size != size => {
                            return other(path, &format!("has {} bytes", manifest.entries()[file].size), size);
                        }
                        (None, _) if !has_other(manifest, path) => {
                            let detail = format!("it has no '{}'", printable(path));
                            return Err(MoveError::PathNotFound { server: server.clone(), detail });
                        }
                        _ => {}
                    }
                }
                Ok(())
            }
        }
    }

    /// The checksums that are known, by the index of their file in `manifest`.
    pub fn sums(&self, manifest: &Manifest) -> KnownSums {
        match &self.part {
            Part::Whole(known) if known.sums.is_empty() => KnownSums::new(),
            Part::Whole(known) => KnownSums::from([(0, known.sums_that_count())]),
            Part::Listed(files) => {
                let sums_of = |(path, file): (&[u8], usize)| Some((file, files.get(path)?.sums_that_count()));
                manifest.names().into_iter().filter_map(sums_of).filter(|(_, sums)| !sums.is_empty()).collect()
            }
        }
    }
}

/// Whether there is a directory or a symbolic link at `path`.
fn has_other(manifest: &Manifest, path: &[u8]) -> bool {
    manifest.directories().binary_search_by(|item| item.path.as_slice().cmp(path)).is_ok()
        || manifest.symlinks().binary_search_by(|item| item.path.as_slice().cmp(path)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(files: &[(&str, u64)]) -> Request {
        let known = |size: &u64| Known { size: Some(*size), sums: vec![(Algorithm::Sha256, vec![*size as u8; 32])] };
        let part = Part::Listed(files.iter().map(|(path, size)| (path.as_bytes().to_vec(), known(size))).collect());
        let source: Source = "inhaul://a,b/set".parse().unwrap();
        Request { part, place: Some(Vec::new()), ..source.into() }
    }

    #[test]
    fn check_tells_what_is_missing_from_what_is_another_version() {
        let manifest = crate::session::groups::testing::manifest_of(&[("a", 5), ("b", 6)]);
        let server = Server::new("a", 1);
        assert!(listed(&[("a", 5)]).check(&server, &manifest).is_ok());
        let other = listed(&[("a", 5), ("b", 7)]).check(&server, &manifest).unwrap_err();
        assert!(matches!(&other, MoveError::OtherVersion { detail } if detail.contains("'b' has 6 bytes")), "{other}");
        let missing = listed(&[("c", 5)]).check(&server, &manifest).unwrap_err();
        assert!(matches!(missing, MoveError::PathNotFound { .. }), "{missing}");
        let file = Request { part: Part::Whole(Known { size: Some(5), sums: Vec::new() }), ..listed(&[]) };
        assert!(matches!(file.check(&server, &manifest), Err(MoveError::OtherVersion { .. })));
        assert_eq!(listed(&[("b", 6)]).sums(&manifest), KnownSums::from([(1, vec![(Algorithm::Sha256, vec![6; 32])])]));
        let weak = [(Algorithm::Md5, vec![1; 16]), (Algorithm::Crc32, vec![2; 4])];
        let of = |sums: &[(Algorithm, Vec<u8>)]| Known { size: None, sums: sums.to_vec() }.sums_that_count();
        assert_eq!(of(&weak), weak);
        let strong = (Algorithm::Sha256, vec![6; 32]);
        assert_eq!(of(&[weak[0].clone(), strong.clone(), weak[1].clone()]), [strong]);
    }
}
