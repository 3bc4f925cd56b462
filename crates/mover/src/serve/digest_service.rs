//! The server's hashers: compute digests of groups, and proofs of parts of them, while data is being sent, or recall
//! digests that were computed before. All sessions share a few threads, which serve them in turn, a frame at a time.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use inhaul_store::digest::proof::{self, Blocks, Outboard};
use inhaul_store::digest_cache::{CACHED_BYTES_MIN, CachedDigests, DigestCache, FileVersion};
use inhaul_store::{DataSet, OfferedError, digest};
use inhaul_transport::FlowId;
use inhaul_udp::Waker;

use crate::serve::catalogue::OpenSet;
use crate::session::frame::{FileProblem, Frame, GroupDigest, GroupRun, PartOf, RefusalCode};
use crate::session::groups::{GroupPlace, Groups};
use crate::system::threads;

/// Groups whose digests travel in one frame: enough to make frames rare, few enough to follow the data closely.
const GROUPS_PER_FRAME: u64 = 16;
/// Groups whose blocks are remembered for a session: two thirds of a MiB.
const BLOCKS_MAX: usize = 1024;
/// Memory for the digests above files' groups, by which parts are proven up to the files' hashes, of all sessions
/// together: enough for 8 TiB of files. A session that needs more is refused, and may come again.
const OUTBOARDS_BYTES_MAX: u64 = 512 << 20;
/// What a group takes there: its digest, and its share of those above.
const OUTBOARD_BYTES_A_GROUP: u64 = 64;
/// Groups that are hashed for a session in a row, before the others have their turn.
const GROUPS_A_TURN: u64 = 64;
/// Parts that are proven for a session in a row.
const PARTS_A_TURN: usize = 64;
/// Frames of a session that may wait for its peer before its hashing waits too.
const FRAMES_AHEAD: usize = 4;
/// Requests of a session that may be open.
const REQUESTS_AHEAD: usize = 5;
/// Threads that hash, though there may be more processors: disks are slower than these.
const THREADS_MAX: usize = 8;

/// The hashers of all sessions. Their threads end when this is dropped.
pub(crate) struct DigestService {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    threads_max: usize,
}

struct Shared {
    state: Mutex<State>,
    /// Somebody has got into the queue, or all is over.
    news: Condvar,
    cache: Option<DigestCache>,
    waker: Waker,
    /// Memory that is taken for digests above files' groups.
    outboards: Arc<AtomicU64>,
}

#[derive(Default)]
struct State {
    sessions: BTreeMap<FlowId, Session>,
    /// The sessions whose next frame may be made, in the order in which they are served.
    queue: VecDeque<FlowId>,
    /// The sessions that have frames.
    ready: BTreeSet<FlowId>,
    is_over: bool,
}

/// What a peer has asked for, and has not had yet.
enum Request {
    Digests(VecDeque<GroupRun>),
    Proofs(VecDeque<PartOf>),
}

impl Request {
    /// Leaves out runs without groups. Whether nothing is left.
    fn is_done(&mut self) -> bool {
        match self {
            Self::Digests(runs) => {
                while runs.front().is_some_and(|run| run.count == 0) {
                    runs.pop_front();
                }
                runs.is_empty()
            }
            Self::Proofs(parts) => parts.is_empty(),
        }
    }
}

/// What the next frames are about.
enum Work {
    Digests(GroupRun),
    Proofs(VecDeque<PartOf>),
}

/// One peer's requests, and the answers that it has not taken.
struct Session {
    requests: VecDeque<Request>,
    frames: VecDeque<Frame>,
    /// Not here while a thread has it.
    hasher: Option<Hasher>,
    is_queued: bool,
    /// It has broken the rules: nothing more comes.
    has_failed: bool,
}

impl DigestService {
    /// No session yet; `waker` is called when a frame is ready.
    pub(crate) fn new(cache: Option<DigestCache>, waker: Waker) -> Self {
        let shared = Shared { state: Mutex::default(), news: Condvar::new(), cache, waker, outboards: Arc::default() };
        // Two at least: one may wait for a disk.
        let threads_max = std::thread::available_parallelism().map_or(2, |count| count.get().clamp(2, THREADS_MAX));
        Self { shared: Arc::new(shared), threads: Vec::new(), threads_max }
    }

    /// Asks for digests of a session's data set; false when too much has been asked for already, or nothing can be
    /// had.
    pub(crate) fn request(&mut self, flow: FlowId, data_set: &Arc<OpenSet>, runs: Vec<GroupRun>) -> bool {
        self.add(flow, data_set, Request::Digests(runs.into()))
    }

    /// The same for proofs of parts.
    pub(crate) fn request_proofs(&mut self, flow: FlowId, data_set: &Arc<OpenSet>, parts: Vec<PartOf>) -> bool {
        self.add(flow, data_set, Request::Proofs(parts.into()))
    }

    fn add(&mut self, flow: FlowId, data_set: &Arc<OpenSet>, request: Request) -> bool {
        let mut state = self.shared.state();
        let outboards = &self.shared.outboards;
        let session = state.sessions.entry(flow).or_insert_with(|| Session::new(data_set, outboards));
        if session.has_failed || session.requests.len() >= REQUESTS_AHEAD {
            return false;
        }
        session.requests.push_back(request);
        session.drop_done();
        state.enqueue(flow);
        let sessions = state.sessions.len();
        drop(state);
        self.shared.news.notify_one();
        self.threads.len() >= sessions.min(self.threads_max) || self.start_thread() || !self.threads.is_empty()
    }

    fn start_thread(&mut self) -> bool {
        let shared = Arc::clone(&self.shared);
        let started = threads::spawn_helper("inhaul-digests", move || {
            let mut buffer = Vec::new();
            while shared.make_a_frame(&mut buffer) {}
        });
        let is_started = started.is_ok();
        self.threads.extend(started);
        is_started
    }

    /// Whether a session is owed digests that are not ready yet.
    pub(crate) fn is_hashing(&self, flow: FlowId) -> bool {
        let state = self.shared.state();
        state.sessions.get(&flow).is_some_and(|session| {
            session.frames.is_empty() && (session.hasher.is_none() || !session.requests.is_empty())
        })
    }

    /// The sessions that have frames.
    pub(crate) fn ready(&self) -> Vec<FlowId> {
        self.shared.state().ready.iter().copied().collect()
    }

    /// A session's next frame, if it is ready.
    pub(crate) fn next_frame(&self, flow: FlowId) -> Option<Frame> {
        let mut state = self.shared.state();
        let session = state.sessions.get_mut(&flow)?;
        let frame = session.frames.pop_front();
        if session.frames.is_empty() {
            state.ready.remove(&flow);
        }
        if state.enqueue(flow) {
            self.shared.news.notify_one();
        }
        frame
    }

    /// A session is over.
    pub(crate) fn forget(&self, flow: FlowId) {
        let mut state = self.shared.state();
        state.sessions.remove(&flow);
        state.ready.remove(&flow);
    }
}

impl Drop for DigestService {
    fn drop(&mut self) {
        self.shared.state().is_over = true;
        self.shared.news.notify_all();
    }
}

impl State {
    /// Has a session served, unless it is about to be, or has nothing to do, or its peer takes no more.
    fn enqueue(&mut self, flow: FlowId) -> bool {
        let Some(session) = self.sessions.get_mut(&flow) else { return false };
        let may = !session.is_queued && !session.requests.is_empty() && session.frames.len() < FRAMES_AHEAD;
        if may && session.hasher.is_some() {
            session.is_queued = true;
            self.queue.push_back(flow);
            return true;
        }
        false
    }
}

impl Session {
    fn new(data_set: &Arc<OpenSet>, outboards: &Arc<AtomicU64>) -> Self {
        let hasher = Some(Hasher { outboards: Arc::clone(outboards), ..Hasher::new(data_set) });
        Self { requests: VecDeque::new(), frames: VecDeque::new(), hasher, is_queued: false, has_failed: false }
    }

    /// What the next frames are about; what has nothing left is dropped.
    fn next_work(&mut self) -> Option<Work> {
        let work = match self.requests.front_mut()? {
            Request::Digests(runs) => {
                let run = runs.front_mut()?;
                let part = GroupRun { first: run.first, count: run.count.min(GROUPS_PER_FRAME) };
                *run = GroupRun { first: run.first.saturating_add(part.count), count: run.count - part.count };
                Work::Digests(part)
            }
            Request::Proofs(parts) => Work::Proofs(parts.drain(..parts.len().min(PARTS_A_TURN)).collect()),
        };
        self.drop_done();
        Some(work)
    }

    /// Leaves out the groups from `from` up to `to` of the run that is in turn.
    fn skip(&mut self, from: u64, to: u64) {
        let Some(Request::Digests(runs)) = self.requests.front_mut() else { return };
        if let Some(run) = runs.front_mut().filter(|run| run.first == from) {
            let count = to.saturating_sub(from).min(run.count);
            *run = GroupRun { first: from.saturating_add(count), count: run.count - count };
            self.drop_done();
        }
    }

    /// Parts are still to be proven: first of all.
    fn put_back(&mut self, parts: VecDeque<PartOf>) {
        if !parts.is_empty() {
            self.requests.push_front(Request::Proofs(parts));
        }
    }

    /// Drops requests that have nothing left, so that the first one of those that are here has something.
    fn drop_done(&mut self) {
        while self.requests.front_mut().is_some_and(Request::is_done) {
            self.requests.pop_front();
        }
    }
}

impl Shared {
    /// Nobody leaves the state half changed.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the next frame of the session whose turn it is, or waits for one; false when all is over.
    fn make_a_frame(&self, buffer: &mut Vec<u8>) -> bool {
        let mut state = self.state();
        let flow = loop {
            if state.is_over {
                return false;
            }
            match state.queue.pop_front() {
                Some(flow) => break flow,
                None => state = self.news.wait(state).unwrap_or_else(PoisonError::into_inner),
            }
        };
        let Some(session) = state.sessions.get_mut(&flow) else { return true };
        session.is_queued = false;
        let Some(work) = session.next_work() else { return true };
        let Some(mut hasher) = session.hasher.take() else { return true };
        drop(state);
        let cache = self.cache.as_ref();
        let mut work = work;
        let (frames, next) = match &mut work {
            Work::Digests(run) => hasher.frames(cache, *run, buffer),
            Work::Proofs(parts) => (hasher.proofs(cache, parts, buffer), 0),
        };
        let mut state = self.state();
        // It may be over by now.
        let Some(session) = state.sessions.get_mut(&flow) else { return true };
        session.hasher = Some(hasher);
        match work {
            Work::Digests(run) => session.skip(run.first.saturating_add(run.count), next),
            // The others have their turn before more of a file is read.
            Work::Proofs(left) => session.put_back(left),
        }
        if frames.is_empty() {
            state.enqueue(flow);
            return true;
        }
        if frames.iter().any(|frame| matches!(frame, Frame::Refused { .. })) {
            session.has_failed = true;
            session.requests.clear();
        }
        session.frames.extend(frames);
        state.ready.insert(flow);
        state.enqueue(flow);
        drop(state);
        self.waker.wake();
        true
    }
}

/// What reads and hashes one session's data.
struct Hasher {
    /// What is remembered of the file that was read last, by its index.
    cached: Option<(usize, CachedDigests)>,
    /// Seconds since 1970.
    now: fn() -> i64,
    data_set: Arc<DataSet>,
    groups: Arc<Groups>,
    /// The digests of the file whose groups were last proven up to its hash, as far as they are there.
    outboard: Option<(usize, FileVersion, Growing, Room)>,
    outboards: Arc<AtomicU64>,
    /// What is remembered of groups of which parts were proven, by file and group, with the file's version.
    blocks: BTreeMap<(usize, u64), (FileVersion, Blocks)>,
}

/// Memory that is taken out of what all sessions have, until it is dropped.
struct Room {
    of: Arc<AtomicU64>,
    bytes: u64,
}

impl Room {
    /// Takes memory; `None` if there is not so much left.
    fn take(of: &Arc<AtomicU64>, bytes: u64, max: u64) -> Option<Self> {
        let more = |taken: u64| taken.checked_add(bytes).filter(|taken| *taken <= max);
        of.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        Some(Self { of: Arc::clone(of), bytes })
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.of.fetch_sub(self.bytes, Ordering::Relaxed);
    }
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
    fn new(set: &OpenSet) -> Self {
        Self {
            blocks: BTreeMap::new(),
            cached: None,
            outboard: None,
            outboards: Arc::default(),
            now,
            groups: Arc::clone(set.groups()),
            data_set: Arc::clone(set.data_set()),
        }
    }

    /// The answer to a request for some groups, read by way of `buffer`: their digests, and which files cannot be had;
    /// and the number of the first group behind all that it is an answer to.
    fn frames(&mut self, cache: Option<&DigestCache>, run: GroupRun, buffer: &mut Vec<u8>) -> (Vec<Frame>, u64) {
        let end = run.first.saturating_add(run.count);
        let (mut frames, mut values, mut number) = (Vec::new(), Vec::new(), run.first);
        let put = |frames: &mut Vec<Frame>, values: &mut Vec<GroupDigest>, number: u64| {
            if !values.is_empty() {
                let first_group = number - values.len() as u64;
                frames.push(Frame::Digests { first_group, values: std::mem::take(values) });
            }
        };
        while number < end {
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

    /// The proofs of `parts`, in order, as far as the file has been read; those that are proven are taken out.
    fn proofs(
        &mut self,
        cache: Option<&DigestCache>,
        parts: &mut VecDeque<PartOf>,
        buffer: &mut Vec<u8>,
    ) -> Vec<Frame> {
        let mut frames = Vec::with_capacity(parts.len());
        while let Some(&part) = parts.front()
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
            None => match Room::take(&self.outboards, count * OUTBOARD_BYTES_A_GROUP, OUTBOARDS_BYTES_MAX) {
                Some(room) => (Vec::new(), room),
                None => return Ok(Way::NoRoom),
            },
        };
        let end = count.min(groups.len() as u64 + GROUPS_A_TURN);
        for group in groups.len() as u64..end {
            groups.push(self.digest(cache, GroupPlace { group, ..place }, buffer)?);
        }
        if end < count {
            self.outboard = Some((place.file, version, Growing::Groups(groups), room));
            return Ok(Way::NotYet);
        }
        let outboard = Outboard::new(size, groups);
        let path = outboard.as_ref().map(|outboard| outboard.path(place.group, levels)).unwrap_or_default();
        self.outboard = outboard.map(|outboard| (place.file, version, Growing::Whole(outboard), room));
        Ok(Way::Known(path))
    }

    fn digest(
        &mut self,
        cache: Option<&DigestCache>,
        place: GroupPlace,
        buffer: &mut Vec<u8>,
    ) -> Result<GroupDigest, OfferedError> {
        if let Some(known) = self.remembered(cache, place.file).and_then(|digests| digests.get(place.group)) {
            return Ok(known);
        }
        self.data_set.read_group(place.file, place.group, buffer)?;
        let size = self.groups.manifest().entries()[place.file].size;
        let computed = digest::group_digest(size, place.group, buffer);
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
    fn remembered(&mut self, cache: Option<&DigestCache>, index: usize) -> Option<&CachedDigests> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::catalogue::Catalogue;
    use inhaul_base::Span;
    use inhaul_store::digest::GROUP_BYTES;
    use inhaul_store::{Offered, ScanOptions};
    use inhaul_udp::{Clock, Poller};

    fn data_set(path: std::path::PathBuf) -> Arc<OpenSet> {
        let catalogue = Catalogue::unbounded(Offered::new(&[path]).unwrap());
        catalogue.open(b"/", ScanOptions::default(), std::net::Ipv4Addr::LOCALHOST.into()).unwrap()
    }

    #[test]
    fn digests_are_recalled_while_the_file_stays_as_it_was() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("f"), vec![7; CACHED_BYTES_MIN as usize]).unwrap();
        let cache = DigestCache::open(&dir.path().join("cache")).unwrap();
        let cache = Some(&cache);
        let hasher = |now: fn() -> i64| Hasher { now, ..Hasher::new(&data_set(dir.path().join("f"))) };
        let place = hasher(|| 0).groups.place(3).unwrap();
        let mut buffer = Vec::new();
        // A file that has just been written may be written to again without a trace: nothing is remembered.
        let right = hasher(|| 0).digest(cache, place, &mut buffer).unwrap();
        let remembered = |hasher: &mut Hasher| hasher.remembered(cache, 0).and_then(|digests| digests.get(3));
        assert_eq!(remembered(&mut hasher(|| 0)), None);
        assert_eq!(hasher(|| i64::MAX).digest(cache, place, &mut buffer).unwrap(), right);
        assert_eq!(remembered(&mut hasher(|| 0)), Some(right));
        hasher(|| 0).remembered(cache, 0).unwrap().put(3, &[1; 32]);
        assert_eq!(hasher(|| 0).digest(cache, place, &mut buffer).unwrap(), [1; 32], "it is recalled");
        std::fs::write(dir.path().join("f"), vec![8; CACHED_BYTES_MIN as usize]).unwrap();
        let changed = hasher(|| 0).digest(cache, place, &mut buffer).unwrap();
        assert!(changed != right && changed != [1; 32]);
    }

    /// A service whose frames are made by the test itself.
    fn idle_service() -> (DigestService, Poller) {
        let poller = Poller::new().unwrap();
        let mut service = DigestService::new(None, poller.waker(1).unwrap());
        service.threads_max = 0;
        (service, poller)
    }

    fn first_groups(frames: &[Frame]) -> Vec<u64> {
        let first_group = |frame: &Frame| match frame {
            Frame::Digests { first_group, .. } => *first_group,
            other => panic!("{other:?}"),
        };
        frames.iter().map(first_group).collect()
    }

    fn drain(service: &DigestService, flow: FlowId) -> Vec<Frame> {
        std::iter::from_fn(|| service.next_frame(flow)).collect()
    }

    #[test]
    fn sessions_are_served_in_turn_and_none_far_ahead_of_its_peer() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::File::create(dir.path().join("f")).unwrap().set_len(6 * GROUPS_PER_FRAME * GROUP_BYTES).unwrap();
        let set = data_set(dir.path().join("f"));
        let (mut service, _poller) = idle_service();
        let (mut buffer, [first, second]) = (Vec::new(), [FlowId(1), FlowId(2)]);
        assert!(service.request(first, &set, vec![GroupRun { first: 0, count: 6 * GROUPS_PER_FRAME }]));
        assert!(service.request(second, &set, vec![GroupRun { first: 0, count: 0 }, GroupRun { first: 3, count: 2 }]));
        for _ in 0..2 {
            assert!(service.shared.make_a_frame(&mut buffer));
        }
        assert_eq!(service.ready(), [first, second]);
        assert_eq!(first_groups(&drain(&service, second)), [3]);
        for _ in 1..FRAMES_AHEAD {
            assert!(service.shared.make_a_frame(&mut buffer));
        }
        assert!(service.shared.state().queue.is_empty(), "its peer has taken none of them");
        assert_eq!(first_groups(&drain(&service, first)), [0, 16, 32, 48]);
        for _ in 0..2 {
            assert!(service.shared.make_a_frame(&mut buffer));
        }
        assert_eq!(first_groups(&drain(&service, first)), [64, 80]);
        assert!(service.ready().is_empty() && service.shared.state().queue.is_empty());
    }

    #[test]
    fn files_that_cannot_be_read_are_named_in_the_place_of_their_digests() {
        let dir = tempfile::tempdir().unwrap();
        let groups = GROUPS_PER_FRAME * 3;
        for (name, size) in [("a", 5), ("b", groups * GROUP_BYTES), ("c", 5), ("d", 5)] {
            std::fs::File::create(dir.path().join(name)).unwrap().set_len(size).unwrap();
        }
        let set = data_set(dir.path().to_path_buf());
        let (mut service, _poller) = idle_service();
        // One is truncated, one is gone, and one has grown after it was opened.
        set.data_set().read(5 + groups * GROUP_BYTES, &mut [0; 5]).unwrap();
        std::fs::File::create(dir.path().join("b")).unwrap();
        std::fs::write(dir.path().join("c"), b"longer").unwrap();
        std::fs::remove_file(dir.path().join("d")).unwrap();
        let runs = [(0, 2), (2, groups + 1), (0, 1)].map(|(first, count)| GroupRun { first, count });
        assert!(service.request(FlowId(1), &set, runs.to_vec()));
        let mut frames = Vec::new();
        while !service.shared.state().queue.is_empty() {
            assert!(service.shared.make_a_frame(&mut Vec::new()));
            frames.extend(drain(&service, FlowId(1)));
        }
        let shown = |frame: Frame| match frame {
            Frame::Digests { first_group, values } => (first_group, values.len() as u64),
            Frame::FileFailed { file, problem: FileProblem::Changed } => (100 + file, 0),
            other => panic!("{other:?}"),
        };
        let shown: Vec<_> = frames.into_iter().map(shown).collect();
        assert_eq!(shown, [(0, 1), (101, 0), (102, 0), (103, 0), (0, 1)]);
    }

    #[test]
    fn groups_that_are_not_there_are_the_end_of_a_session() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("f"), vec![7; 1 << 20]).unwrap();
        let set = data_set(dir.path().join("f"));
        let (mut service, _poller) = idle_service();
        let runs = || vec![GroupRun { first: 1, count: u64::MAX }];
        for _ in 0..REQUESTS_AHEAD {
            assert!(service.request(FlowId(1), &set, runs()));
        }
        assert!(!service.request(FlowId(1), &set, runs()), "too much at once");
        assert!(service.shared.make_a_frame(&mut Vec::new()));
        assert!(matches!(service.next_frame(FlowId(1)), Some(Frame::Refused { .. })));
        assert!(service.shared.state().queue.is_empty());
        assert!(!service.request(FlowId(1), &set, runs()));
        service.forget(FlowId(1));
        assert!(service.shared.state().sessions.is_empty());
    }

    #[test]
    fn memory_for_ways_is_bounded_and_given_back() {
        let taken = Arc::new(AtomicU64::new(0));
        let first = Room::take(&taken, 60, 100).unwrap();
        assert!(Room::take(&taken, 41, 100).is_none() && Room::take(&taken, u64::MAX, 100).is_none());
        let second = Room::take(&taken, 40, 100).unwrap();
        drop(first);
        assert_eq!(taken.load(Ordering::Relaxed), 40);
        drop(second);
        assert_eq!(taken.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn threads_end_with_the_service() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("f"), vec![7; 1 << 20]).unwrap();
        let set = data_set(dir.path().join("f"));
        let (mut poller, clock) = (Poller::new().unwrap(), Clock::start());
        let waker = poller.waker(1).unwrap();
        let mut service = DigestService::new(None, waker.clone());
        for flow in 0..100 {
            assert!(service.request(FlowId(flow), &set, vec![GroupRun { first: 0, count: 1 }]));
        }
        assert!((1..=THREADS_MAX).contains(&service.threads.len()), "{} threads", service.threads.len());
        let shared = Arc::downgrade(&service.shared);
        let (deadline, mut events) = (clock.now() + Span::from_secs(30), Vec::new());
        while service.ready().len() < 100 {
            assert!(clock.now() < deadline, "{} of 100 are ready", service.ready().len());
            poller.wait_until(clock, deadline, &mut events).unwrap();
            waker.reset();
        }
        let threads = std::mem::take(&mut service.threads);
        drop(service);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(shared.strong_count(), 0);
    }
}
