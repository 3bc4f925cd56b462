//! What is proven of a file: the hash that its user expects, and digests that were proven to lead there.

use std::collections::BTreeMap;

use inhaul_store::digest::proof::{Node, climb};
use inhaul_store::digest::{GroupDigest, Hash};
use inhaul_store::{Kind, Manifest, printable};

use inhaul_session::api::error::MoveError;

/// Digests that are remembered of a file; beyond that, those nearest to the root.
const NODES_MAX: usize = 1 << 16;

/// The BLAKE3 hashes that a data set's files must have, by their paths as in the manifest; the path is empty if the data
/// set is one file.
#[derive(Clone, Debug)]
pub enum Pins {
    /// These files are there. Others are not pinned.
    Some(BTreeMap<Vec<u8>, Hash>),
    /// These files are there, by each of their names, with these sizes, and no others.
    All(BTreeMap<Vec<u8>, (u64, Hash)>),
}

impl Default for Pins {
    fn default() -> Self {
        Self::Some(BTreeMap::new())
    }
}

impl Pins {
    /// The pinned files of a manifest, by their indices, and their hashes.
    pub(super) fn find(&self, manifest: &Manifest) -> Result<Vec<(usize, Hash)>, MoveError> {
        let is_file = manifest.kind() == Kind::File;
        let not = |path: &[u8], what: &str| {
            let path = printable(path);
            MoveError::OtherVersion { detail: format!("'{path}' is pinned, and the data set {what}") }
        };
        match self {
            Self::Some(pins) => {
                let mut found = BTreeMap::new();
                for (path, hash) in pins {
                    let file = if path.is_empty() && is_file { Some(0) } else { manifest.named(path) };
                    let file = file.ok_or_else(|| not(path, "has no such file"))?;
                    if found.insert(file, *hash).is_some_and(|other| other != *hash) {
                        return Err(not(path, "has it as a name of another file"));
                    }
                }
                Ok(found.into_iter().collect())
            }
            Self::All(pins) => {
                let names = manifest.names();
                let names = names.into_iter().map(|(path, file)| (if is_file { &b""[..] } else { path }, file));
                let names: BTreeMap<&[u8], usize> = names.collect();
                if let Some(path) = names.keys().find(|path| !pins.contains_key(**path)) {
                    let detail = format!("'{}' is not among the files that are pinned", printable(path));
                    return Err(MoveError::OtherVersion { detail });
                }
                let mut found = BTreeMap::new();
                for (path, (size, hash)) in pins {
                    match names.get(path.as_slice()) {
                        Some(&file) if manifest.entries()[file].size != *size => {
                            return Err(not(path, "has another size of it"));
                        }
                        Some(&file) if found.insert(file, *hash).is_some_and(|other| other != *hash) => {
                            return Err(not(path, "has it as a name of another file"));
                        }
                        Some(_) => {}
                        None => return Err(not(path, "has no such file")),
                    }
                }
                Ok(found.into_iter().collect())
            }
        }
    }
}

/// See the module's description.
#[derive(Clone, Debug)]
pub(super) struct Roots {
    file_len: u64,
    nodes: BTreeMap<Node, GroupDigest>,
}

impl Roots {
    /// Of a file of `file_len` bytes whose hash is to be this.
    pub(super) fn new(file_len: u64, hash: GroupDigest) -> Self {
        let root = Node { level: Node::height(file_len), index: 0 };
        Self { file_len, nodes: [(root, hash)].into() }
    }

    /// Over how many levels the way from a group must be proven.
    pub(super) fn levels(&self, group: u64) -> u32 {
        let mut node = Node::group(group);
        while !self.nodes.contains_key(&node) && node.level < Node::height(self.file_len) {
            node = node.parent();
        }
        node.level
    }

    /// Takes a group's digest, and what leads from there over `levels` levels to something that is known: whether it
    /// does.
    pub(super) fn take(&mut self, group: u64, digest: GroupDigest, path: &[GroupDigest], levels: u32) -> bool {
        let Some(nodes) = climb(self.file_len, group, digest, path, levels) else { return false };
        let is_proven = nodes.last().is_some_and(|(node, value)| self.nodes.get(node) == Some(value));
        if is_proven {
            self.nodes.extend(nodes);
            let mut level = 0;
            while self.nodes.len() > NODES_MAX {
                self.nodes.retain(|node, _| node.level > level);
                level += 1;
            }
        }
        is_proven
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use inhaul_store::digest::GROUP_BYTES;
    use inhaul_store::digest::proof::Outboard;

    #[test]
    fn what_leads_to_the_hash_is_taken_and_shortens_the_next_way() {
        let groups: Vec<GroupDigest> = (0..9).map(|group| [group + 1; 32]).collect();
        let outboard = Outboard::new(9 * GROUP_BYTES, groups.clone()).unwrap();
        let mut roots = Roots::new(9 * GROUP_BYTES, *outboard.root().unwrap().as_bytes());
        assert_eq!(roots.levels(2), 4);
        assert!(!roots.take(2, [9; 32], &outboard.path(2, 4), 4), "another digest");
        assert!(!roots.take(2, groups[2], &outboard.path(1, 4), 4), "another way");
        assert!(roots.take(2, groups[2], &outboard.path(2, 4), 4));
        assert_eq!([0, 1, 2, 3, 4, 8].map(|group| roots.levels(group)), [1, 1, 0, 0, 2, 3]);
        assert!(!roots.take(0, [9; 32], &outboard.path(0, 1), 1));
        assert!(roots.take(0, groups[0], &outboard.path(0, 1), 1));
        assert!(roots.take(8, groups[8], &outboard.path(8, 3), 3));
        let mut only = Roots::new(5, [7; 32]);
        assert_eq!(only.levels(0), 0);
        assert!(only.take(0, [7; 32], &[], 0) && !only.take(0, [8; 32], &[], 0));
    }
}
