//! The rules for every manifest, made here or received.

use super::error::ManifestError;
use super::items::{Contents, Entry, Metadata};
use super::limits::{ATTRIBUTES_BYTES_MAX, COMPONENT_BYTES_MAX, MODE_BITS, PATH_BYTES_MAX, TARGET_BYTES_MAX};

/// Checks `contents`, whose lists are sorted by path. Does not check sizes, and the rules of a single file.
pub(super) fn check(contents: &Contents) -> Result<(), ManifestError> {
    check_paths(contents)?;
    for metadata in all_metadata(contents) {
        check_metadata(metadata)?;
    }
    contents.files.iter().try_for_each(check_holes)?;
    for link in &contents.symlinks {
        if link.target.is_empty() || link.target.len() > TARGET_BYTES_MAX || link.target.contains(&0) {
            return Err(ManifestError::BadTarget(link.path.clone()));
        }
    }
    for link in &contents.hard_links {
        if contents.find(&link.file).is_none() {
            return Err(ManifestError::NoSuchFile(link.path.clone()));
        }
    }
    for path in contents.skipped.paths.iter().chain(&contents.unreadable.paths) {
        check_path(path)?;
    }
    Ok(())
}

fn all_metadata(contents: &Contents) -> impl Iterator<Item = &Metadata> {
    let files = contents.files.iter().map(|file| &file.metadata);
    let directories = contents.directories.iter().map(|directory| &directory.metadata);
    let symlinks = contents.symlinks.iter().map(|link| &link.metadata);
    std::iter::once(&contents.top).chain(files).chain(directories).chain(symlinks)
}

/// Checks the rules for paths, one by one and together.
fn check_paths(contents: &Contents) -> Result<(), ManifestError> {
    let lists: [Vec<&[u8]>; 4] = [
        contents.files.iter().map(|file| file.path.as_slice()).collect(),
        contents.directories.iter().map(|directory| directory.path.as_slice()).collect(),
        contents.symlinks.iter().map(|link| link.path.as_slice()).collect(),
        contents.hard_links.iter().map(|link| link.path.as_slice()).collect(),
    ];
    for list in &lists {
        if let Some(pair) = list.windows(2).find(|pair| pair[0] >= pair[1]) {
            return Err(ManifestError::NotInOrder(pair[1].to_vec()));
        }
        check_each(list, &lists[1])?;
    }
    // Every parent is listed as a directory. So a path that is also a directory is in two lists.
    let mut all: Vec<&[u8]> = lists.concat();
    all.sort_unstable();
    match all.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(ManifestError::TwoThings(pair[0].to_vec())),
        None => Ok(()),
    }
}

/// Checks each path of a sorted list, and that its parent is one of `directories`.
fn check_each(list: &[&[u8]], directories: &[&[u8]]) -> Result<(), ManifestError> {
    let mut known: &[u8] = b"";
    for path in list {
        check_path(path)?;
        let Some(slash) = path.iter().rposition(|&b| b == b'/') else { continue };
        // Neighbouring paths mostly share their parent.
        if path[..slash] != *known {
            directories.binary_search(&&path[..slash]).map_err(|_| ManifestError::NoParent(path.to_vec()))?;
            known = &path[..slash];
        }
    }
    Ok(())
}

fn check_path(path: &[u8]) -> Result<(), ManifestError> {
    if path.len() > PATH_BYTES_MAX {
        return Err(ManifestError::BadPath { path: path.to_vec(), why: "it is too long" });
    }
    path.split(|&b| b == b'/').try_for_each(|component| check_component(component, path))
}

/// Checks that `component` is a valid name that does not lead elsewhere.
pub(crate) fn check_component(component: &[u8], path: &[u8]) -> Result<(), ManifestError> {
    let why = match component {
        b"" => "a component is empty",
        b"." | b".." => "it has a component '.' or '..'",
        c if c.len() > COMPONENT_BYTES_MAX => "a component is longer than 255 bytes",
        c if c.contains(&0) => "it holds a NUL byte",
        c if c.contains(&b'/') => "a name holds no '/'",
        _ => return Ok(()),
    };
    Err(ManifestError::BadPath { path: path.to_vec(), why })
}

fn check_metadata(metadata: &Metadata) -> Result<(), ManifestError> {
    if metadata.mode & !MODE_BITS != 0 {
        return Err(ManifestError::BadMode(metadata.mode));
    }
    if metadata.modified.nanos >= 1_000_000_000 {
        return Err(ManifestError::BadTime);
    }
    if metadata.owner.is_some_and(|owner| owner.user == u32::MAX || owner.group == u32::MAX) {
        return Err(ManifestError::BadOwner);
    }
    let mut bytes = 0;
    for attribute in &metadata.attributes {
        let name = &attribute.name;
        bytes += attribute.value.len();
        let is_of_users = name.len() > b"user.".len() && name.starts_with(b"user.");
        if !is_of_users || name.len() > COMPONENT_BYTES_MAX || name.contains(&0) || bytes > ATTRIBUTES_BYTES_MAX {
            return Err(ManifestError::BadAttribute(name.clone()));
        }
    }
    match metadata.attributes.windows(2).find(|pair| pair[0].name >= pair[1].name) {
        Some(pair) => Err(ManifestError::BadAttribute(pair[1].name.clone())),
        None => Ok(()),
    }
}

fn check_holes(file: &Entry) -> Result<(), ManifestError> {
    let mut end = None;
    for hole in &file.holes {
        // Adjacent holes would be one.
        if hole.is_empty() || hole.end > file.size || end.is_some_and(|end| hole.start <= end) {
            return Err(ManifestError::BadHoles(file.path.clone()));
        }
        end = Some(hole.end);
    }
    Ok(())
}
