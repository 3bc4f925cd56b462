//! Proofs that a part of a file matches the file's hash, without the rest of the file.
//!
//! BLAKE3 is a binary tree over chunks of 1 KiB (its specification, 2.1). A part of a group and the chaining values of
//! the subtrees beside it give the group's digest. The group's digest and those of the subtrees beside it give the
//! file's hash. Any wrong byte or value leads to another hash.

use std::ops::Range;

use blake3::hazmat::{self, HasherExt, Mode};

use super::{GROUP_BYTES, GroupDigest, Hash, group_count, group_digest, group_range};

/// Length of a chunk in bytes; the last of a file may be shorter.
pub const CHUNK_BYTES: u64 = 1024;

/// Most values in a proof within a group: a group has 10 levels, and a part has two sides.
pub const INSIDE_MAX: usize = 20;
/// Most values on the path from a group to the root of any file.
pub const PATH_MAX: usize = 44;

/// The number of chunks of group `group` in a file of `file_len` bytes. The only group of an empty file has one.
pub fn chunk_count(file_len: u64, group: u64) -> u64 {
    group_range(file_len, group).len().div_ceil(CHUNK_BYTES).max(1)
}

/// The byte range, within the group, of chunks `part` of group `group` in a file of `file_len` bytes.
pub fn chunk_bytes(file_len: u64, group: u64, part: &Range<u64>) -> Range<u64> {
    let len = group_range(file_len, group).len();
    (part.start * CHUNK_BYTES).min(len)..(part.end * CHUNK_BYTES).min(len)
}

/// The proof of chunks `part` of group `group` in a file of `file_len` bytes, from the group's `bytes`: the values that
/// lead, with the part's bytes, to the group's digest, from left to right. Empty if the part is the whole group.
pub fn prove(file_len: u64, group: u64, bytes: &[u8], part: Range<u64>) -> Vec<GroupDigest> {
    let mut outside = Vec::new();
    list_outside(0..chunk_count(file_len, group), &part, &mut outside);
    let value = |chunks: Range<u64>| {
        let place = chunk_bytes(file_len, group, &chunks);
        subtree(group, &chunks, bytes.get(place.start as usize..place.end as usize).unwrap_or_default())
    };
    outside.into_iter().map(value).collect()
}

/// Length of a block in bytes. A group's block values are kept, so that its parts can be proven without reading all of
/// it.
pub const BLOCK_BYTES: u64 = 64 << 10;
/// Chunks of a block.
const BLOCK_CHUNKS: u64 = BLOCK_BYTES / CHUNK_BYTES;

/// The chaining values of a group's blocks. With them a part is proven from the bytes of the blocks at its ends.
#[derive(Clone, Debug)]
pub struct Blocks {
    file_len: u64,
    group: u64,
    values: Vec<GroupDigest>,
    digest: GroupDigest,
}

impl Blocks {
    /// The blocks of group `group` in a file of `file_len` bytes, from the group's `bytes`.
    pub fn new(file_len: u64, group: u64, bytes: &[u8]) -> Self {
        let count = chunk_count(file_len, group);
        let blocks = (0..count.div_ceil(BLOCK_CHUNKS)).map(|block| {
            let chunks = block * BLOCK_CHUNKS..((block + 1) * BLOCK_CHUNKS).min(count);
            let place = chunk_bytes(file_len, group, &chunks);
            subtree(group, &chunks, bytes.get(place.start as usize..place.end as usize).unwrap_or_default())
        });
        let values: Vec<GroupDigest> = blocks.collect();
        let digest = if values.len() == 1 {
            group_digest(file_len, group, bytes)
        } else {
            merge_blocks(&values, 0..count, group_count(file_len) == 1)
        };
        Self { file_len, group, values, digest }
    }

    /// The digest of the group.
    pub fn digest(&self) -> GroupDigest {
        self.digest
    }

    /// The bytes of the group that must be read to prove chunks `part` of it: those of the blocks at its two ends.
    pub fn needed(&self, part: &Range<u64>) -> Range<u64> {
        let blocks = part.start / BLOCK_CHUNKS..part.end.div_ceil(BLOCK_CHUNKS);
        let count = chunk_count(self.file_len, self.group);
        chunk_bytes(self.file_len, self.group, &(blocks.start * BLOCK_CHUNKS..(blocks.end * BLOCK_CHUNKS).min(count)))
    }

    /// As [`prove`], from the bytes of the group that are [needed](Self::needed).
    pub fn prove(&self, part: Range<u64>, bytes: &[u8]) -> Vec<GroupDigest> {
        let mut outside = Vec::new();
        list_outside(0..chunk_count(self.file_len, self.group), &part, &mut outside);
        let start = self.needed(&part).start;
        outside.into_iter().map(|chunks| self.value(chunks, bytes, start)).collect()
    }

    fn value(&self, chunks: Range<u64>, bytes: &[u8], start: u64) -> GroupDigest {
        let first = chunks.start / BLOCK_CHUNKS;
        if chunks.start.is_multiple_of(BLOCK_CHUNKS) {
            let block = first * BLOCK_CHUNKS..((first + 1) * BLOCK_CHUNKS).min(chunk_count(self.file_len, self.group));
            if chunks == block {
                return self.values.get(first as usize).copied().unwrap_or_default();
            }
            if chunks.end > block.end {
                return merge_blocks(&self.values, chunks, false);
            }
        }
        let place = chunk_bytes(self.file_len, self.group, &chunks);
        let place = place.start.saturating_sub(start) as usize..place.end.saturating_sub(start) as usize;
        subtree(self.group, &chunks, bytes.get(place).unwrap_or_default())
    }
}

/// The digest of group `group` in a file of `file_len` bytes, from the `bytes` of chunks `part` and the values beside
/// them. `None` if there is no such part, if its length differs, or if the number of values is wrong.
pub fn digest_of_part(
    file_len: u64,
    group: u64,
    part: Range<u64>,
    bytes: &[u8],
    inside: &[GroupDigest],
) -> Option<GroupDigest> {
    let count = chunk_count(file_len, group);
    let place = chunk_bytes(file_len, group, &part);
    if part.start >= part.end || part.end > count || bytes.len() as u64 != place.end - place.start {
        return None;
    }
    if part == (0..count) {
        return inside.is_empty().then(|| group_digest(file_len, group, bytes));
    }
    let is_root = group_count(file_len) == 1;
    let mut walk = Walk { file_len, group, part, bytes, inside: inside.iter() };
    let digest = walk.value(0..count, is_root)?;
    walk.inside.next().is_none().then_some(digest)
}

/// Splits chunks, at least two, into the halves of their subtree.
fn halves(chunks: &Range<u64>) -> (Range<u64>, Range<u64>) {
    let count = chunks.end - chunks.start;
    let left = 1 << (u64::BITS - 1 - (count - 1).leading_zeros());
    (chunks.start..chunks.start + left, chunks.start + left..chunks.end)
}

fn is_outside(chunks: &Range<u64>, part: &Range<u64>) -> bool {
    chunks.end <= part.start || part.end <= chunks.start
}

fn list_outside(chunks: Range<u64>, part: &Range<u64>, outside: &mut Vec<Range<u64>>) {
    if is_outside(&chunks, part) {
        outside.push(chunks);
    } else if chunks.start < part.start || part.end < chunks.end {
        let (left, right) = halves(&chunks);
        list_outside(left, part, outside);
        list_outside(right, part, outside);
    }
}

/// The chaining value of a subtree below a group's top, from its bytes.
fn subtree(group: u64, chunks: &Range<u64>, bytes: &[u8]) -> GroupDigest {
    let mut hasher = blake3::Hasher::new();
    hasher.set_input_offset(group * GROUP_BYTES + chunks.start * CHUNK_BYTES);
    hasher.update(bytes);
    hasher.finalize_non_root()
}

fn merge(left: &GroupDigest, right: &GroupDigest, is_root: bool) -> GroupDigest {
    if is_root {
        *hazmat::merge_subtrees_root(left, right, Mode::Hash).as_bytes()
    } else {
        hazmat::merge_subtrees_non_root(left, right, Mode::Hash)
    }
}

/// Computes a group's digest from the bytes of a part and the values beside it.
struct Walk<'a> {
    file_len: u64,
    group: u64,
    part: Range<u64>,
    bytes: &'a [u8],
    inside: std::slice::Iter<'a, GroupDigest>,
}

impl Walk<'_> {
    fn value(&mut self, chunks: Range<u64>, is_root: bool) -> Option<GroupDigest> {
        if is_outside(&chunks, &self.part) {
            return self.inside.next().copied();
        }
        if self.part.start <= chunks.start && chunks.end <= self.part.end {
            let place = chunk_bytes(self.file_len, self.group, &chunks);
            let start = self.part.start * CHUNK_BYTES;
            let bytes = self.bytes.get((place.start - start) as usize..(place.end - start) as usize)?;
            return Some(subtree(self.group, &chunks, bytes));
        }
        let (left, right) = halves(&chunks);
        let (left, right) = (self.value(left, false)?, self.value(right, false)?);
        Some(merge(&left, &right, is_root))
    }
}

/// The value of chunks that consist of whole blocks, or end the group.
fn merge_blocks(values: &[GroupDigest], chunks: Range<u64>, is_root: bool) -> GroupDigest {
    if chunks.end - chunks.start <= BLOCK_CHUNKS {
        return values.get((chunks.start / BLOCK_CHUNKS) as usize).copied().unwrap_or_default();
    }
    let (left, right) = halves(&chunks);
    merge(&merge_blocks(values, left, false), &merge_blocks(values, right, false), is_root)
}

/// A position in the tree above a file's groups. Level 0 are the groups themselves. A node without a right sibling
/// stands for its parent, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Node {
    /// The level above the groups.
    pub level: u32,
    /// The index in the level.
    pub index: u64,
}

impl Node {
    /// The node of a group.
    pub const fn group(group: u64) -> Self {
        Self { level: 0, index: group }
    }

    /// The node above.
    #[must_use]
    pub const fn parent(self) -> Self {
        Self { level: self.level + 1, index: self.index / 2 }
    }

    /// Its sibling, if a file of `file_len` bytes has it.
    pub fn sibling(self, file_len: u64) -> Option<Self> {
        let index = self.index ^ 1;
        let first = index.checked_shl(self.level).filter(|first| first >> self.level == index)?;
        (first < group_count(file_len)).then_some(Self { index, ..self })
    }

    /// The level of the root of a file of `file_len` bytes.
    pub const fn height(file_len: u64) -> u32 {
        u64::BITS - (group_count(file_len) - 1).leading_zeros()
    }
}

/// All digests above a file's groups, for proofs of groups.
#[derive(Clone, Debug)]
pub struct Outboard {
    file_len: u64,
    /// By level, from the groups up.
    levels: Vec<Vec<GroupDigest>>,
}

impl Outboard {
    /// The tree of a file of `file_len` bytes, from all of its groups' digests. `None` if their number is wrong.
    pub fn new(file_len: u64, groups: Vec<GroupDigest>) -> Option<Self> {
        if groups.len() as u64 != group_count(file_len) {
            return None;
        }
        let height = Node::height(file_len);
        let mut levels = vec![groups];
        for level in 1..=height {
            let below = levels.last()?;
            let above = below.chunks(2).map(|pair| match pair {
                [left, right] => merge(left, right, level == height),
                pair => pair.first().copied().unwrap_or_default(),
            });
            let above = above.collect();
            levels.push(above);
        }
        Some(Self { file_len, levels })
    }

    /// The file's hash.
    pub fn root(&self) -> Option<Hash> {
        self.levels.last()?.first().copied().map(Hash::from_bytes)
    }

    /// The siblings on the path up from a group, over `levels` levels. Levels without a sibling have none.
    pub fn path(&self, group: u64, levels: u32) -> Vec<GroupDigest> {
        let mut node = Node::group(group);
        let mut path = Vec::new();
        for _ in 0..levels.min(Node::height(self.file_len)) {
            if let Some(sibling) = node.sibling(self.file_len) {
                path.extend(self.levels.get(node.level as usize).and_then(|level| level.get(sibling.index as usize)));
            }
            node = node.parent();
        }
        path
    }
}

/// Walks up from a group over `levels` levels of a file of `file_len` bytes. Returns each node on the path and beside
/// it with its digest, the top last. `None` if the number of digests in `path` is wrong.
pub fn climb(
    file_len: u64,
    group: u64,
    digest: GroupDigest,
    path: &[GroupDigest],
    levels: u32,
) -> Option<Vec<(Node, GroupDigest)>> {
    let height = Node::height(file_len);
    let mut path = path.iter();
    let (mut node, mut value) = (Node::group(group), digest);
    let mut nodes = Vec::new();
    for _ in 0..levels.min(height) {
        nodes.push((node, value));
        let parent = node.parent();
        if let Some(sibling) = node.sibling(file_len) {
            let other = *path.next()?;
            nodes.push((sibling, other));
            let (left, right) = if node.index < sibling.index { (&value, &other) } else { (&other, &value) };
            value = merge(left, right, parent.level == height);
        }
        node = parent;
    }
    nodes.push((node, value));
    path.next().is_none().then_some(nodes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bytes(len: u64) -> Vec<u8> {
        (0..len).map(|i| (i % 251) as u8 ^ (i >> 10) as u8).collect()
    }

    fn group_bytes(data: &[u8], group: u64) -> &[u8] {
        let range = group_range(data.len() as u64, group);
        &data[range.start as usize..range.end as usize]
    }

    fn part_bytes(data: &[u8], group: u64, part: &Range<u64>) -> Vec<u8> {
        let place = chunk_bytes(data.len() as u64, group, part);
        group_bytes(data, group)[place.start as usize..place.end as usize].to_vec()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn a_part_and_its_proof_make_the_groups_digest_and_nothing_else_does(
            len in prop_oneof![1..6000u64, 1..3 * GROUP_BYTES],
            group in any::<prop::sample::Index>(),
            ends in any::<(prop::sample::Index, prop::sample::Index)>(),
            bad in any::<prop::sample::Index>(),
        ) {
            let data = bytes(len);
            let group = group.index(group_count(len) as usize) as u64;
            let count = chunk_count(len, group);
            let (a, b) = (ends.0.index(count as usize) as u64, ends.1.index(count as usize) as u64);
            let part = a.min(b)..a.max(b) + 1;
            let of_group = group_bytes(&data, group);
            let inside = prove(len, group, of_group, part.clone());
            prop_assert!(inside.len() <= INSIDE_MAX);
            let blocks = Blocks::new(len, group, of_group);
            let needed = blocks.needed(&part);
            prop_assert!(needed.end - needed.start <= part_bytes(&data, group, &part).len() as u64 + 2 * BLOCK_BYTES);
            let remembered = blocks.prove(part.clone(), &of_group[needed.start as usize..needed.end as usize]);
            prop_assert_eq!((&remembered, blocks.digest()), (&inside, group_digest(len, group, of_group)));
            let mut of_part = part_bytes(&data, group, &part);
            let expected = group_digest(len, group, of_group);
            prop_assert_eq!(digest_of_part(len, group, part.clone(), &of_part, &inside), Some(expected));
            let at = bad.index(of_part.len());
            of_part[at] ^= 1;
            prop_assert_ne!(digest_of_part(len, group, part.clone(), &of_part, &inside), Some(expected));
            of_part[at] ^= 1;
            for k in 0..inside.len() {
                let mut wrong = inside.clone();
                wrong[k][3] ^= 1;
                prop_assert_ne!(digest_of_part(len, group, part.clone(), &of_part, &wrong), Some(expected));
            }
            let more = [inside.clone(), vec![[0; 32]]].concat();
            prop_assert_eq!(digest_of_part(len, group, part.clone(), &of_part, &more), None);
            prop_assert_eq!(digest_of_part(len, group, part.clone(), &of_part[1..], &inside), None);
            if !inside.is_empty() {
                prop_assert_eq!(digest_of_part(len, group, part, &of_part, &inside[1..]), None);
            }
        }

        #[test]
        fn paths_lead_from_every_group_to_the_hash(groups in 1..70u64, rest in 1..=GROUP_BYTES, levels in 0..8u32) {
            let len = (groups - 1) * GROUP_BYTES + rest;
            let digests: Vec<GroupDigest> = (0..groups).map(|group| [group as u8 + 1; 32]).collect();
            let outboard = Outboard::new(len, digests.clone()).unwrap();
            prop_assert_eq!(outboard.root(), super::super::root(len, &digests));
            let height = Node::height(len);
            for group in 0..groups {
                let path = outboard.path(group, height);
                prop_assert!(path.len() <= PATH_MAX);
                let nodes = climb(len, group, digests[group as usize], &path, height).unwrap();
                let (top, value) = *nodes.last().unwrap();
                prop_assert_eq!((top.level, Some(Hash::from_bytes(value))), (height, outboard.root()));
                let part = outboard.path(group, levels);
                let (node, value) = *climb(len, group, digests[group as usize], &part, levels).unwrap().last().unwrap();
                let known = nodes.iter().find(|(other, _)| *other == node).map(|(_, value)| *value);
                prop_assert_eq!(known, Some(value));
                if !path.is_empty() {
                    prop_assert_eq!(climb(len, group, digests[group as usize], &path[1..], height), None);
                    let mut wrong = path;
                    wrong[0][0] ^= 1;
                    let nodes = climb(len, group, digests[group as usize], &wrong, height).unwrap();
                    prop_assert_ne!(nodes.last().map(|(_, value)| Hash::from_bytes(*value)), outboard.root());
                }
            }
        }
    }

    #[test]
    fn parts_that_are_not_there_have_no_digest() {
        let data = bytes(5000);
        for part in [0..0, 4..6, 5..6] {
            assert_eq!(digest_of_part(5000, 0, part.clone(), &[], &[]), None, "{part:?}");
        }
        assert_eq!(digest_of_part(5000, 0, 0..5, &data, &[]), Some(*blake3::hash(&data).as_bytes()));
        assert_eq!(digest_of_part(0, 0, 0..1, &[], &[]), Some(*blake3::hash(&[]).as_bytes()));
        assert!(Outboard::new(GROUP_BYTES + 1, vec![[0; 32]]).is_none());
    }
}
