//! BLAKE3 of files by *groups*: aligned parts of 1 MiB whose digests are independent of each other.
//!
//! BLAKE3 is a tree over chunks of 1 KiB. So an aligned group of 1024 chunks is a whole subtree, and its chaining
//! value can be computed as soon as the group has arrived, in any order and on any thread. The file's hash follows
//! from these values alone. It is the same as that of `blake3::hash` over the whole file.

use std::collections::BTreeMap;

use blake3::hazmat::{self, HasherExt, Mode};
use inhaul_base::ByteRange;

pub mod proof;

pub use blake3::Hash;

/// Length of a group in bytes; the last of a file may be shorter.
pub const GROUP_BYTES: u64 = 1 << 20;

/// The digest of a group: the chaining value of its subtree. If a file has only one group, its subtree is the whole
/// tree, and its digest is the hash of the file itself.
pub type GroupDigest = [u8; 32];

/// A group of zeros.
pub static ZEROS: [u8; GROUP_BYTES as usize] = [0; GROUP_BYTES as usize];

/// The number of groups of a file of `file_len` bytes. An empty file has one empty group.
pub const fn group_count(file_len: u64) -> u64 {
    if file_len == 0 { 1 } else { file_len.div_ceil(GROUP_BYTES) }
}

/// The bytes of group `group` in a file of `file_len` bytes; empty, at the file's end, if there is no such group.
pub fn group_range(file_len: u64, group: u64) -> ByteRange {
    let start = group.saturating_mul(GROUP_BYTES).min(file_len);
    ByteRange::new(start, start.saturating_add(GROUP_BYTES).min(file_len))
}

/// A sum of digests of groups of one file, in any order. Each digest depends on the group's position, so only the same
/// groups have the same sum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum(GroupDigest);

impl Sum {
    /// Adds the digest of a group.
    pub fn add(&mut self, digest: &GroupDigest) {
        self.0.iter_mut().zip(digest).for_each(|(sum, byte)| *sum ^= byte);
    }
}

/// The digest of group `group` of a file of `file_len` bytes, from the group's bytes in `bytes`.
pub fn group_digest(file_len: u64, group: u64, bytes: &[u8]) -> GroupDigest {
    let mut hasher = GroupHasher::new(file_len, group);
    hasher.update(bytes);
    hasher.finish()
}

/// The digest of group `group` of a file of `file_len` bytes if all its bytes are zeros. It must be computed like any
/// other, but nothing is read: BLAKE3 counts chunks, so two groups of zeros have different digests.
pub fn zero_group_digest(file_len: u64, group: u64) -> GroupDigest {
    group_digest(file_len, group, &ZEROS)
}

/// The hash of a file of `file_len` bytes from its groups' digests; `None` if their number is not
/// [`group_count`]`(file_len)`.
pub fn root(file_len: u64, groups: &[GroupDigest]) -> Option<Hash> {
    let mut tree = Tree::new(file_len);
    if groups.len() as u64 != tree.count {
        return None;
    }
    (0..).zip(groups).find_map(|(group, digest)| tree.insert(group, *digest))
}

/// Computes a file's hash from its groups' digests, in any order. Complete subtrees are merged at once, so memory is
/// proportional to the number of gaps, not to the size of the file.
#[derive(Clone, Debug)]
pub struct Tree {
    /// The number of groups.
    count: u64,
    /// The level of the root: the leaves are at level 0.
    height: u32,
    /// Chaining values of complete subtrees with an incomplete sibling, by level and by index in that level.
    subtrees: BTreeMap<(u32, u64), GroupDigest>,
}

impl Tree {
    /// The tree of a file of `file_len` bytes, without any known digest.
    pub fn new(file_len: u64) -> Self {
        let count = group_count(file_len);
        let height = u64::BITS - (count - 1).leading_zeros();
        Self { count, height, subtrees: BTreeMap::new() }
    }

    /// Adds the digest of `group`, which must be new. Returns the file's hash if it was the last.
    pub fn insert(&mut self, group: u64, digest: GroupDigest) -> Option<Hash> {
        if self.height == 0 {
            return Some(Hash::from_bytes(digest));
        }
        let (mut index, mut value) = (group, digest);
        for level in 0..self.height {
            let sibling = index ^ 1;
            // A node without a right sibling is its parent's only child, and stands for it.
            if sibling << level < self.count {
                let Some(other) = self.subtrees.remove(&(level, sibling)) else {
                    self.subtrees.insert((level, index), value);
                    return None;
                };
                let (left, right) = if index < sibling { (&value, &other) } else { (&other, &value) };
                if level + 1 == self.height {
                    return Some(hazmat::merge_subtrees_root(left, right, Mode::Hash));
                }
                value = hazmat::merge_subtrees_non_root(left, right, Mode::Hash);
            }
            index >>= 1;
        }
        None
    }
}

/// Digests one group from its bytes in order, in slices of any length.
#[derive(Clone, Debug)]
pub struct GroupHasher {
    hasher: blake3::Hasher,
    is_only: bool,
    left: u64,
}

impl GroupHasher {
    /// Begins group `group` of a file of `file_len` bytes.
    pub fn new(file_len: u64, group: u64) -> Self {
        let range = group_range(file_len, group);
        let mut hasher = blake3::Hasher::new();
        let is_only = group_count(file_len) == 1;
        if !is_only && !range.is_empty() {
            hasher.set_input_offset(range.start);
        }
        Self { hasher, is_only, left: range.len() }
    }

    /// Takes the group's next bytes, up to the group's end.
    pub fn update(&mut self, bytes: &[u8]) {
        let len = usize::try_from(self.left).map_or(bytes.len(), |left| bytes.len().min(left));
        self.hasher.update(&bytes[..len]);
        self.left -= len as u64;
    }

    /// How many bytes the group still lacks.
    pub fn missing(&self) -> u64 {
        self.left
    }

    /// The digest of the bytes so far, even if the group is incomplete.
    pub fn finish(&self) -> GroupDigest {
        if self.is_only {
            *self.hasher.finalize().as_bytes()
        } else if self.hasher.count() == 0 {
            // No subtree is empty. This stands for a group that does not exist or has no bytes yet, and matches
            // nothing.
            [0; 32]
        } else {
            self.hasher.finalize_non_root()
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bytes(len: u64) -> Vec<u8> {
        (0..len).map(|i| (i % 251) as u8 ^ (i >> 10) as u8).collect()
    }

    fn root_by_groups(data: &[u8]) -> Hash {
        let len = data.len() as u64;
        let digests: Vec<_> = (0..group_count(len))
            .map(|group| {
                let range = group_range(len, group);
                group_digest(len, group, &data[range.start as usize..range.end as usize])
            })
            .collect();
        root(len, &digests).unwrap()
    }

    #[test]
    fn root_is_the_hash_of_the_whole_file() {
        let g = GROUP_BYTES;
        let around = [g, 2 * g, 3 * g, 4 * g, 7 * g].into_iter().flat_map(|n| [n - 1, n, n + 1]);
        let lens = [0, 1, 1023, 1024, 1025, g / 2 + 1, g + 1023, g + 1024, g + 1025, 5 * g + 12_345];
        let longest = bytes(8 * g);
        for len in lens.into_iter().chain(around) {
            let data = &longest[..len as usize];
            assert_eq!(root_by_groups(data), blake3::hash(data), "{len} bytes");
        }
    }

    #[test]
    fn root_wants_every_group() {
        assert_eq!(root(GROUP_BYTES + 1, &[[0; 32]]), None);
        assert_eq!(root(0, &[]), None);
    }

    #[test]
    fn tree_takes_groups_in_any_order_and_keeps_only_what_is_apart() {
        let g = GROUP_BYTES;
        for len in [2 * g, 3 * g + 1, 6 * g, 7 * g, 9 * g + 5] {
            let data = bytes(len);
            let count = group_count(len);
            for stride in [1, 5, 7].into_iter().filter(|stride| !count.is_multiple_of(*stride) || *stride == 1) {
                let mut tree = Tree::new(len);
                let mut hash = None;
                for group in (0..count).map(|k| k * stride % count).rev() {
                    assert_eq!(hash, None);
                    let range = group_range(len, group);
                    let digest = group_digest(len, group, &data[range.start as usize..range.end as usize]);
                    hash = tree.insert(group, digest);
                }
                assert_eq!(hash, Some(blake3::hash(&data)), "{len} bytes, by {stride}");
            }
        }
        // Of the largest file there is nothing is kept but the left edge of its tree.
        let mut tree = Tree::new(i64::MAX as u64);
        assert!((0..1000).all(|group| tree.insert(group, [1; 32]).is_none()));
        assert!(tree.subtrees.len() <= 10, "{}", tree.subtrees.len());
    }

    #[test]
    fn zeros_have_the_digests_of_zeros() {
        let len = 2 * GROUP_BYTES + 77;
        let digests: Vec<_> = (0..3).map(|group| zero_group_digest(len, group)).collect();
        assert_eq!(root(len, &digests), Some(blake3::hash(&vec![0; len as usize])));
        assert_eq!(root(5, &[zero_group_digest(5, 0)]), Some(blake3::hash(&[0; 5])));
    }

    #[test]
    fn group_range_ends_with_the_file() {
        assert_eq!(group_range(GROUP_BYTES + 5, 1), ByteRange::new(GROUP_BYTES, GROUP_BYTES + 5));
        assert!(group_range(GROUP_BYTES, 1).is_empty());
        assert!(group_range(5, u64::MAX).is_empty());
        assert_eq!((group_count(0), group_count(GROUP_BYTES), group_count(GROUP_BYTES + 1)), (1, 1, 2));
    }

    #[test]
    fn group_hasher_leaves_out_what_goes_beyond_the_group() {
        let mut hasher = GroupHasher::new(5, 0);
        hasher.update(b"hello world");
        assert_eq!(hasher.missing(), 0);
        assert_eq!(hasher.finish(), *blake3::hash(b"hello").as_bytes());
        let mut beyond = GroupHasher::new(3 * GROUP_BYTES, 3);
        beyond.update(b"x");
        assert_eq!(beyond.finish(), [0; 32]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        fn root_of_any_length_in_any_slices(
            len in prop_oneof![0..4096u64, 0..4 * GROUP_BYTES],
            slice in 1usize..300_000,
        ) {
            let data = bytes(len);
            let digests: Vec<_> = (0..group_count(len)).map(|group| {
                let range = group_range(len, group);
                let mut hasher = GroupHasher::new(len, group);
                data[range.start as usize..range.end as usize].chunks(slice).for_each(|s| hasher.update(s));
                hasher.finish()
            }).collect();
            prop_assert_eq!(root(len, &digests), Some(blake3::hash(&data)));
        }
    }
}
