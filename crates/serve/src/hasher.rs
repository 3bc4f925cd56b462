//! What reads and hashes the data of one session: digests of groups, and proofs of their parts.
//!
//! It remembers the chaining values of blocks of 64 KiB. So the next proof in a group reads one or two blocks, not the
//! group.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use inhaul_store::digest::proof::{self, Blocks, Outboard};
use inhaul_store::digest_cache::{CACHED_BYTES_MIN, CachedDigests, DigestCache, FileVersion};
use inhaul_store::{DataSet, OfferedError, digest};

use crate::catalogue::OpenSet;
use crate::turns::{Client, Room, Rooms};
use inhaul_session::session::frame::{FileProblem, Frame, GroupDigest, GroupRun, PartOf, RefusalCode};
use inhaul_session::session::groups::{GroupPlace, Groups};

/// Groups whose blocks are remembered for a session: two thirds of a MiB.
const BLOCKS_MAX: usize = 1024;
/// Memory for the digests above files' groups, by which parts are proven up to the files' hashes, of one client: enough
/// for 8 TiB of files. A session that needs more is refused, and may come again.
const CLIENT_OUTBOARDS_BYTES_MAX: u64 = 512 << 20;
/// The same of all clients together.
const OUTBOARDS_BYTES_MAX: u64 = 1 << 30;
/// What a group takes there: its digest, and its share of those above.
const OUTBOARD_BYTES_A_GROUP: u64 = 64;
/// Groups that are hashed for a session in a row, before the others have their turn: as many for proofs as for digests.
pub(super) const GROUPS_A_TURN: u64 = 16;
/// Groups whose digests are recalled in a row.
const REMEMBERED_A_TURN: u64 = 4096;

/// What reads and hashes one session's data.
pub(super) struct Hasher {
    /// What is remembered of the file that was read last, by its index.
    cached: Option<(usize, CachedDigests)>,
    /// Seconds since 1970.
    pub(super) now: fn() -> i64,
    data_set: Arc<DataSet>,
    pub(super) groups: Arc<Groups>,
    /// The digests of the file whose groups were last proven up to its hash, as far as they are there.
    outboard: Option<(usize, FileVersion, Growing, Room)>,
    /// Memory that sessions have taken for such digests.
    rooms: Arc<Rooms>,
    client: Client,
    /// Groups that were hashed in this turn.
    hashed: u64,
    /// Its session is over: nothing more is to be done.
    gone: Arc<AtomicBool>,
    /// What is remembered of groups of which parts were proven, by file and group, with the file's version.
    blocks: BTreeMap<(usize, u64), (FileVersion, Blocks)>,
}

/// The way from a group up, or why there is none.
enum Way {
    Known(Vec<GroupDigest>),
    /// More of the file has to be read.
    NotYet,
    /// There is no memory for it now.
    NoRoom,
}

/// All digests of a file, or the first of them.
enum Growing {
    Groups(Vec<GroupDigest>),
    Whole(Outboard),
}

impl Hasher {
    /// For a session of `client`, until it is `gone`.
    pub(super) fn new(set: &OpenSet, rooms: &Arc<Rooms>, client: Client, gone: &Arc<AtomicBool>) -> Self {
        Self {
            blocks: BTreeMap::new(),
            cached: None,
            outboard: None,
            rooms: Arc::clone(rooms),
            client,
            hashed: 0,
            gone: Arc::clone(gone),
            now,
            groups: Arc::clone(set.groups()),
            data_set: Arc::clone(set.data_set()),
        }
    }

    /// The answer to a request for some groups, read by way of `buffer`: their digests, and which files cannot be had;
    /// and the number of the first group behind all that it is an answer to.
    pub(super) fn frames(
        &mut self,
        cache: Option<&DigestCache>,
        run: GroupRun,
        buffer: &mut Vec<u8>,
    ) -> (Vec<Frame>, u64) {
        let end = run.first.saturating_add(run.count);
        let (mut frames, mut values, mut number) = (Vec::new(), Vec::new(), run.first);
        let put = |frames: &mut Vec<Frame>, values: &mut Vec<GroupDigest>, number: u64| {
            if !values.is_empty() {
                let first_group = number - values.len() as u64;
                frames.push(Frame::Digests { first_group, values: std::mem::take(values) });
            }
        };
        while number < end && !self.is_gone() {
            let Some(place) = self.groups.place(number) else {
                frames.push(Frame::malformed(&"there is no such group"));
                return (frames, end);
            };
            match self.digest(cache, place, buffer) {
                Ok(value) => {
                    values.push(value);
                    number += 1;
                }
                Err(error) => {
                    put(&mut frames, &mut values, number);
                    log::warn!("{error}");
                    frames.push(Frame::FileFailed { file: place.file as u64, problem: problem_of(&error) });
                    number = self.groups.of_file(place.file).end;
                }
            }
        }
        put(&mut frames, &mut values, number);
        (frames, number)
    }

    /// The proofs of `parts`, in order, as far as the file has been read, and as much has been hashed as may be in a turn;
    /// those that are proven are taken out.
    pub(super) fn proofs(
        &mut self,
        cache: Option<&DigestCache>,
        parts: &mut VecDeque<PartOf>,
        buffer: &mut Vec<u8>,
    ) -> Vec<Frame> {
        let mut frames = Vec::new();
        self.hashed = 0;
        while self.hashed < GROUPS_A_TURN
            && !self.is_gone()
            && let Some(&part) = parts.front()
            && let Some(frame) = self.proof(cache, part, buffer)
        {
            frames.push(frame);
            parts.pop_front();
        }
        frames
    }

    /// The proof of a part; `None`: the file has not been read far enough yet, ask again. Or what is wrong with the file
    /// or the request.
    fn proof(&mut self, cache: Option<&DigestCache>, part: PartOf, buffer: &mut Vec<u8>) -> Option<Frame> {
        let Some(place) = self.groups.place(part.group) else {
            return Some(Frame::malformed(&"there is no such group"));
        };
        let size = self.groups.manifest().entries()[place.file].size;
        let chunks = part.chunks();
        if chunks.end > proof::chunk_count(size, place.group) {
            return Some(Frame::malformed(&"there are no such chunks"));
        }
        let failed = |error: &OfferedError| {
            log::warn!("{error}");
            Some(Frame::FileFailed { file: place.file as u64, problem: problem_of(error) })
        };
        let path = match self.path(cache, place, u32::from(part.levels), buffer) {
            Ok(Way::Known(path)) => path,
            Ok(Way::NotYet) => return None,
            Ok(Way::NoRoom) => {
                let text = "too many files are being proven up to their hashes".to_owned();
                return Some(Frame::Refused { code: RefusalCode::Busy, text });
            }
            Err(error) => return failed(&error),
        };
        let is_whole = chunks == (0..proof::chunk_count(size, place.group));
        let proven = if is_whole {
            self.digest(cache, place, buffer).map(|digest| (digest, Vec::new()))
        } else {
            self.prove_part(place, chunks, buffer)
        };
        match proven {
            Ok((digest, inside)) => Some(Frame::Proof { part, digest, inside, path }),
            Err(error) => failed(&error),
        }
    }

    /// The digest of a group, and the values beside a part of it. Only what lies around the part is read, if the group's
    /// blocks are remembered.
    fn prove_part(
        &mut self,
        place: GroupPlace,
        chunks: std::ops::Range<u64>,
        buffer: &mut Vec<u8>,
    ) -> Result<(GroupDigest, Vec<GroupDigest>), OfferedError> {
        let version = self.data_set.version(place.file)?;
        let key = (place.file, place.group);
        let is_settled = version.is_settled((self.now)());
        if let Some((_, blocks)) = self.blocks.get(&key).filter(|(of, _)| *of == version && is_settled) {
            let needed = blocks.needed(&chunks);
            buffer.resize((needed.end - needed.start) as usize, 0);
            self.data_set.read(place.range.start + needed.start, buffer)?;
            return Ok((blocks.digest(), blocks.prove(chunks, buffer)));
        }
        self.data_set.read_group(place.file, place.group, buffer)?;
        self.hashed += 1;
        let size = self.groups.manifest().entries()[place.file].size;
        let blocks = Blocks::new(size, place.group, buffer);
        let needed = blocks.needed(&chunks);
        let inside = blocks.prove(chunks, &buffer[needed.start as usize..needed.end as usize]);
        let digest = blocks.digest();
        if self.blocks.len() >= BLOCKS_MAX {
            self.blocks.pop_first();
        }
        self.blocks.insert(key, (version, blocks));
        Ok((digest, inside))
    }

    /// The digests beside the way from a group up over `levels` levels. Reads and hashes a part of the file, if they are
    /// not known.
    fn path(
        &mut self,
        cache: Option<&DigestCache>,
        place: GroupPlace,
        levels: u32,
        buffer: &mut Vec<u8>,
    ) -> Result<Way, OfferedError> {
        let size = self.groups.manifest().entries()[place.file].size;
        let count = digest::group_count(size);
        if levels == 0 || count == 1 {
            return Ok(Way::Known(Vec::new()));
        }
        let version = self.data_set.version(place.file)?;
        let is_current = |(file, of, ..): &(usize, FileVersion, Growing, Room)| (*file, *of) == (place.file, version);
        let (mut groups, room) = match self.outboard.take().filter(is_current) {
            Some((file, of, Growing::Whole(outboard), room)) => {
                let path = outboard.path(place.group, levels);
                self.outboard = Some((file, of, Growing::Whole(outboard), room));
                return Ok(Way::Known(path));
            }
            Some((_, _, Growing::Groups(groups), room)) => (groups, room),
            None => {
                let bytes = count.saturating_mul(OUTBOARD_BYTES_A_GROUP);
                match self.rooms.take(self.client, bytes, CLIENT_OUTBOARDS_BYTES_MAX, OUTBOARDS_BYTES_MAX) {
                    Some(room) => (Vec::new(), room),
                    None => return Ok(Way::NoRoom),
                }
            }
        };
        // What is remembered costs little, but not nothing.
        let end = count.min(groups.len() as u64 + REMEMBERED_A_TURN);
        for group in groups.len() as u64..end {
            if self.hashed >= GROUPS_A_TURN || self.is_gone() {
                break;
            }
            groups.push(self.digest(cache, GroupPlace { group, ..place }, buffer)?);
        }
        if (groups.len() as u64) < count {
            self.hashed = self.hashed.max(GROUPS_A_TURN);
            self.outboard = Some((place.file, version, Growing::Groups(groups), room));
            return Ok(Way::NotYet);
        }
        let outboard = Outboard::new(size, groups);
        let path = outboard.as_ref().map(|outboard| outboard.path(place.group, levels)).unwrap_or_default();
        self.outboard = outboard.map(|outboard| (place.file, version, Growing::Whole(outboard), room));
        Ok(Way::Known(path))
    }

    /// Groups that the way to a file's hash is known from by now.
    #[cfg(test)]
    pub(super) fn known_groups(&self) -> usize {
        match &self.outboard {
            Some((_, _, Growing::Groups(groups), _)) => groups.len(),
            _ => 0,
        }
    }

    fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Relaxed)
    }

    /// The digest of a group.
    pub(super) fn digest(
        &mut self,
        cache: Option<&DigestCache>,
        place: GroupPlace,
        buffer: &mut Vec<u8>,
    ) -> Result<GroupDigest, OfferedError> {
        if let Some(known) = self.remembered(cache, place.file).and_then(|digests| digests.get(place.group)) {
            return Ok(known);
        }
        self.hashed += 1;
        let size = self.groups.manifest().entries()[place.file].size;
        let computed = if self.data_set.is_hole(place.file, place.group)? {
            digest::zero_group_digest(size, place.group)
        } else {
            self.data_set.read_group(place.file, place.group, buffer)?;
            digest::group_digest(size, place.group, buffer)
        };
        // What was read is of the version from before only if that is still the version.
        let now = (self.now)();
        let before = self.cached.as_ref().map(|(_, digests)| digests.version());
        if let Some(digests) = self.remembered(cache, place.file)
            && before == Some(digests.version())
            && digests.version().is_settled(now)
        {
            digests.put(place.group, &computed);
        }
        Ok(computed)
    }

    /// What is remembered of file `index` in the version that it has now.
    pub(super) fn remembered(&mut self, cache: Option<&DigestCache>, index: usize) -> Option<&CachedDigests> {
        let cache = cache.filter(|_| self.groups.manifest().entries()[index].size >= CACHED_BYTES_MIN)?;
        let version = self.data_set.version(index).ok()?;
        let is_current =
            self.cached.as_ref().is_some_and(|(file, digests)| (*file, digests.version()) == (index, version));
        if !is_current {
            self.cached = cache.of(version).map(|digests| (index, digests));
        }
        self.cached.as_ref().map(|(_, digests)| digests)
    }
}

/// What a receiver is told of a file that could not be read.
pub(crate) fn problem_of(error: &OfferedError) -> FileProblem {
    match error {
        OfferedError::Changed { .. } => FileProblem::Changed,
        _ => FileProblem::Unreadable,
    }
}

/// Seconds since 1970.
fn now() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    // A clock that is before 1970 settles nothing.
    since.map_or(0, |since| since.as_secs() as i64)
}
