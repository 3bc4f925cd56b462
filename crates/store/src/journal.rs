//! The journal of a landing records verified groups, so that an interrupted transfer can continue.
//!
//! It is the file `NAME.inhaul` beside the target. Records are only appended:
//!
//! ```text
//! journal  = "IHJ" version(1) record*
//! record   = length(4) checksum(8) kind(1) body        numbers big-endian, length counts kind and body
//! Manifest = last(1), a piece of the encoded manifest; the pieces follow one another
//! Verified = file(8) group(8) digest(32)
//! Named    = file(8)
//! Made     = directory(8)
//! Synced   = length(8) of the journal's first records
//! ```
//!
//! The checksum covers the record and the previous checksum. If the journal was cut at a record, old records behind the
//! cut are therefore not taken for new ones. Reading ends at the first record that is torn or does not follow. The rest
//! is cut off, and its groups are fetched again.
//!
//! A record is not proof: after a power failure its bytes may be lost. So each recorded group is read back and compared
//! with the record, and with the digest that the source sends *now*. Therefore the journal is safe with writes in any
//! order. Syncing it, after the data, only bounds how much is fetched again. Only `Named` is synced before its rename:
//! this record alone shows that a named file is the transfer's own.
//!
//! Bytes that are read back may be only in the kernel's memory: after a failed sync, the kernel can count bytes as
//! written that the disk never got, and no later sync reports them. `Synced` tells which records, with their groups, a
//! sync has brought to the disk. All other groups are written again before they count.

mod changes;
mod file;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::digest::{GROUP_BYTES, GroupDigest, group_count, group_range};
use crate::{Kind, Manifest};

pub use changes::Change;
pub(crate) use file::{Journal, OpenError, Opened};

const MAGIC: &[u8; 3] = b"IHJ";
const VERSION: u8 = 2;
/// Bytes before the first record.
pub(crate) const HEADER_BYTES: u64 = 4;
/// The smallest unit that disks write at once.
const SECTOR_BYTES: usize = 512;
/// Bytes of length and checksum.
const FRAME_BYTES: usize = 12;
const CHECKSUM_BYTES: usize = 8;
/// Most bytes of a manifest in one record.
const PIECE_BYTES_MAX: usize = 1 << 20;
/// Most bytes of kind and body.
const RECORD_BYTES_MAX: usize = PIECE_BYTES_MAX + 2;

/// An event that is recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// The transfer is of this data set from now on. Records about files with the same path stay valid.
    Manifest(Arc<Manifest>),
    /// A group agrees with its source.
    Verified {
        /// The file, by its index in the manifest.
        file: usize,
        /// The group's number in the file.
        group: u64,
        /// Its digest.
        digest: GroupDigest,
    },
    /// A file is verified, and gets its name after this.
    Named {
        /// The file, by its index in the manifest.
        file: usize,
    },
    /// The transfer has made a directory of the data set, which did not exist before.
    Made {
        /// The directory, by its index in the manifest; `None` for the data set's own.
        directory: Option<usize>,
    },
    /// The journal's first `bytes` are on the disk. So are the groups recorded there, for files of several groups.
    Synced {
        /// The length of the synced part.
        bytes: u64,
    },
}

/// The checksum of the previous record; zeros before the first.
pub(crate) type Chain = [u8; CHECKSUM_BYTES];

impl Record {
    /// Whether a transfer can continue from it.
    fn is_of_use(&self) -> bool {
        matches!(self, Self::Verified { .. } | Self::Named { .. })
    }

    /// Appends the record that follows the one with the checksum `chain`.
    fn write(&self, chain: &mut Chain, out: &mut Vec<u8>) {
        match self {
            Self::Manifest(manifest) => {
                let bytes = manifest.encode();
                let mut pieces = bytes.chunks(PIECE_BYTES_MAX).peekable();
                while let Some(piece) = pieces.next() {
                    let last = [u8::from(pieces.peek().is_none())];
                    frame(chain, 1, &[&last, piece], out);
                }
            }
            Self::Verified { file, group, digest } => {
                let numbers = [*file as u64, *group].map(u64::to_be_bytes);
                frame(chain, 2, &[&numbers[0], &numbers[1], digest], out);
            }
            Self::Named { file } => frame(chain, 3, &[&(*file as u64).to_be_bytes()], out),
            Self::Made { directory } => {
                let number = directory.map_or(u64::MAX, |index| index as u64);
                frame(chain, 4, &[&number.to_be_bytes()], out);
            }
            Self::Synced { bytes } => frame(chain, 5, &[&bytes.to_be_bytes()], out),
        }
    }
}

/// Appends one record; `body` has the parts of its body.
fn frame(chain: &mut Chain, kind: u8, body: &[&[u8]], out: &mut Vec<u8>) {
    let len = 1 + body.iter().map(|part| part.len()).sum::<usize>();
    let start = out.len();
    out.extend_from_slice(&(len as u32).to_be_bytes());
    out.extend_from_slice(&[0; CHECKSUM_BYTES]);
    out.push(kind);
    body.iter().for_each(|part| out.extend_from_slice(part));
    *chain = checksum(chain, &out[start + FRAME_BYTES..]);
    out[start + 4..start + FRAME_BYTES].copy_from_slice(chain);
}

fn checksum(before: &Chain, body: &[u8]) -> Chain {
    let mut hasher = blake3::Hasher::new_derive_key("inhaul 2026 a record of a journal, behind another");
    hasher.update(before);
    hasher.update(body);
    let mut sum = [0; CHECKSUM_BYTES];
    hasher.finalize_xof().fill(&mut sum);
    sum
}

/// A journal with these records, as bytes.
pub fn encode(records: &[Record]) -> Vec<u8> {
    let mut out = [MAGIC.as_slice(), &[VERSION]].concat();
    let mut chain = Chain::default();
    for record in records {
        record.write(&mut chain, &mut out);
    }
    out
}

/// The bytes are not a journal: the file belongs to another program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this is no journal")]
pub struct NotAJournal;

/// The part of a journal that could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Its length in bytes.
    pub bytes: u64,
    /// The number of readable bytes.
    pub sound_bytes: u64,
}

impl Damage {
    fn of(bytes: u64, replay: &Replay) -> Option<Self> {
        let sound_bytes = replay.sound_bytes;
        (sound_bytes < bytes || sound_bytes < HEADER_BYTES).then_some(Self { bytes, sound_bytes })
    }
}

/// A group that was verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VerifiedGroup {
    /// Its digest.
    pub digest: GroupDigest,
    /// Where its record is in the journal.
    at: u64,
}

/// A file that was about to get its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamedFile {
    /// Its size then, in bytes.
    pub size: u64,
    /// Where its record is in the journal.
    at: u64,
}

/// The content of a journal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replay {
    /// The data set; `None` if the journal ends before its record. Then it has no other records either.
    pub manifest: Option<Manifest>,
    /// Groups that were verified, by file and number.
    pub verified: BTreeMap<(usize, u64), VerifiedGroup>,
    /// Files that were about to get their name.
    pub named: BTreeMap<usize, NamedFile>,
    /// Directories that the transfer has made.
    pub made: BTreeSet<usize>,
    /// Whether it has made the data set's own directory.
    pub made_target: bool,
    /// The number of sound bytes of the journal. The rest must be cut off.
    pub sound_bytes: u64,
    /// The number of synced bytes.
    pub synced_bytes: u64,
    /// The checksum of the last sound record.
    chain: Chain,
}

impl Replay {
    /// Reads a journal up to its end or the first record that is not sound. The bytes may be anything: memory stays in
    /// proportion to their length, and every index is valid in the manifest.
    ///
    /// A journal that was torn before its first record, or written by another release, has no content.
    ///
    /// When the bytes are not even a damaged journal.
    pub fn read(bytes: &[u8]) -> Result<Self, NotAJournal> {
        let header = [MAGIC.as_slice(), &[VERSION]].concat();
        let mut replay = Self::default();
        // Truncated, or the length reached the disk before the first bytes.
        let written = bytes.iter().zip(&header).take_while(|(found, good)| found == good).count();
        let is_torn = written < header.len() && bytes[written..].iter().take(SECTOR_BYTES).all(|&byte| byte == 0);
        if is_torn {
            return Ok(replay);
        }
        let is_good = bytes.iter().zip(&header).map(|(found, good)| found == good);
        // One bad byte is damage, unless it is the version.
        let is_ours = is_good.filter(|good| *good).count() + 1 >= header.len();
        if !is_ours && sound_record(bytes, header.len(), &Chain::default()).is_none() {
            return Err(NotAJournal);
        }
        if bytes.starts_with(MAGIC) && bytes[MAGIC.len()] != VERSION {
            return Ok(replay);
        }
        replay.sound_bytes = HEADER_BYTES;
        let mut pieces = Vec::new();
        let mut at = header.len();
        // Within a manifest the checksums continue, but only a whole manifest counts as sound.
        let mut chain = Chain::default();
        while let Some((body, sum)) = sound_record(bytes, at, &chain) {
            let start = at as u64;
            at += FRAME_BYTES + body.len();
            chain = sum;
            match body {
                [1, last, piece @ ..] => {
                    pieces.extend_from_slice(piece);
                    if *last == 0 {
                        continue;
                    }
                    let Ok(manifest) = Manifest::decode(&std::mem::take(&mut pieces)) else { break };
                    replay = replay.adopt(manifest).0;
                }
                _ if !pieces.is_empty() || replay.take(body, start).is_none() => break,
                _ => {}
            }
            replay.sound_bytes = at as u64;
            replay.chain = chain;
        }
        Ok(replay)
    }

    /// Reads a record other than a manifest, which is at `at`; `None` if it is not valid.
    fn take(&mut self, body: &[u8], at: u64) -> Option<()> {
        let manifest = self.manifest.as_ref()?;
        let entry_size = |file: usize| Some(manifest.entries().get(file)?.size);
        match body.split_first()? {
            (2, body) => {
                let (file, body) = number(body)?;
                let (group, digest) = number(body)?;
                let file = usize::try_from(file).ok()?;
                if group >= group_count(entry_size(file)?) {
                    return None;
                }
                self.verified.insert((file, group), VerifiedGroup { digest: digest.try_into().ok()?, at });
            }
            (3, body) => {
                let (file, []) = number(body)? else { return None };
                let file = usize::try_from(file).ok()?;
                let size = entry_size(file)?;
                self.named.insert(file, NamedFile { size, at });
            }
            (4, body) => match number(body)? {
                (u64::MAX, []) => self.made_target = true,
                (index, []) if index < manifest.directories().len() as u64 => {
                    self.made.insert(index as usize);
                }
                _ => return None,
            },
            (5, body) => match number(body)? {
                (bytes, []) if bytes <= at => self.synced_bytes = self.synced_bytes.max(bytes),
                _ => return None,
            },
            _ => return None,
        }
        Some(())
    }

    /// Whether a sync has brought a verified group to the disk.
    pub(crate) fn is_synced(&self, file: usize, group: u64) -> bool {
        let Some(VerifiedGroup { at, .. }) = self.verified.get(&(file, group)) else { return false };
        // Only complete files are named, and only after a sync. Files of one group are not synced before that.
        let is_named = self.named.get(&file).is_some_and(|named| at < &named.at);
        let size =
            self.manifest.as_ref().and_then(|manifest| manifest.entries().get(file)).map_or(0, |entry| entry.size);
        is_named || (*at < self.synced_bytes && group_count(size) > 1)
    }

    /// Verified bytes of another data set than `manifest`: one of another kind, or with another name and files of other
    /// sizes and times. A data set with another name and the same files counts as the same.
    pub fn bytes_of_another(&self, manifest: &Manifest) -> u64 {
        let Some(old) = &self.manifest else { return 0 };
        let is_same = old.kind() == manifest.kind()
            && (old.name() == manifest.name() || changes::between(old, manifest).is_empty());
        let size = |file: usize| old.entries().get(file).map_or(0, |entry| entry.size);
        let groups = self.verified.keys().filter(|_| !is_same);
        groups.map(|&(file, group)| group_range(size(file), group).len()).fold(0, u64::saturating_add)
    }

    /// The part that is usable for the data set `manifest`, and the changes. A file with the same path keeps the groups
    /// that are complete in both sizes. Their digests will show whether their bytes are still the same.
    #[must_use]
    pub fn adopt(self, manifest: Manifest) -> (Self, Vec<Change>) {
        let Some(old) = self.manifest.as_ref().filter(|old| old.kind() == manifest.kind()) else {
            let (sound_bytes, synced_bytes, chain) = (self.sound_bytes, self.synced_bytes, self.chain);
            return (
                Self { manifest: Some(manifest), sound_bytes, synced_bytes, chain, ..Self::default() },
                Vec::new(),
            );
        };
        let changes = changes::between(old, &manifest);
        // A single file's path is only its name at the source.
        let file_now = |index: usize| match manifest.kind() {
            Kind::File => Some(0),
            Kind::Directory => manifest.find(&old.entries()[index].path),
        };
        let keeps = |index: usize, now: usize, group: u64| {
            let (before, after) = (old.entries()[index].size, manifest.entries()[now].size);
            let is_whole = group.saturating_add(1).saturating_mul(GROUP_BYTES) <= before.min(after);
            before == after || (is_whole && group_count(before) > 1 && group_count(after) > 1)
        };
        let verified = self.verified.iter().filter_map(|(&(index, group), verified)| {
            let now = file_now(index)?;
            keeps(index, now, group).then_some(((now, group), *verified))
        });
        let verified = verified.collect();
        let named = self.named.iter().filter_map(|(&index, &named)| Some((file_now(index)?, named))).collect();
        let directory_now = |&index: &usize| manifest.find_directory(&old.directories()[index].path);
        let made = self.made.iter().filter_map(directory_now).collect();
        (Self { verified, named, made, manifest: Some(manifest), ..self }, changes)
    }
}

/// The kind and body of the record at `at`, and its checksum, if it is complete and follows the record with the
/// checksum `before`.
fn sound_record<'b>(bytes: &'b [u8], at: usize, before: &Chain) -> Option<(&'b [u8], Chain)> {
    let (head, rest) = bytes.get(at..)?.split_at_checked(FRAME_BYTES)?;
    let (len, sum) = head.split_at_checked(4)?;
    let len = u32::from_be_bytes(len.try_into().ok()?) as usize;
    let body = rest.get(..len).filter(|body| (1..=RECORD_BYTES_MAX).contains(&body.len()))?;
    let chain = checksum(before, body);
    (chain == sum).then_some((body, chain))
}

/// The number at the front, and the rest.
fn number(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (number, rest) = bytes.split_first_chunk()?;
    Some((u64::from_be_bytes(*number), rest))
}

#[cfg(test)]
mod tests;
