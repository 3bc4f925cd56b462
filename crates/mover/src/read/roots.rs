//! What is proven of a file: the hash that its user expects, and digests that were proven to lead there.

use std::collections::BTreeMap;

use inhaul_store::digest::GroupDigest;
use inhaul_store::digest::proof::{Node, climb};

/// Digests that are remembered of a file; beyond that, those nearest to the root.
const NODES_MAX: usize = 1 << 16;

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
