//! The server's hashers: compute digests of groups, and proofs of parts of them, while data is being sent, or recall
//! digests that were computed before. All sessions share a few threads, which serve clients in turn, and the sessions of
//! a client among themselves, a frame at a time.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use inhaul_store::digest_cache::DigestCache;
use inhaul_transport::FlowId;
use inhaul_udp::Waker;

use crate::catalogue::OpenSet;
use crate::hasher::{GROUPS_A_TURN, Hasher};
use crate::turns::{Client, Rooms, Turns};
use inhaul_session::session::frame::{Frame, GroupRun, PartOf};
use inhaul_session::system::threads;

/// Groups whose digests travel in one frame: enough to make frames rare, few enough to follow the data closely.
const GROUPS_PER_FRAME: u64 = GROUPS_A_TURN;
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
    rooms: Arc<Rooms>,
    /// Threads that may work for one client at once.
    client_threads_max: usize,
}

#[derive(Default)]
struct State {
    sessions: BTreeMap<FlowId, Session>,
    /// The sessions whose next frame may be made.
    turns: Turns,
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
    client: Client,
    /// Set when it is over.
    gone: Arc<AtomicBool>,
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
        // Two at least: one may wait for a disk. And one is left to the others, whatever a client has asked for.
        let threads_max = std::thread::available_parallelism().map_or(2, |count| count.get().clamp(2, THREADS_MAX));
        let client_threads_max = threads_max - 1;
        let (state, news, rooms) = (Mutex::default(), Condvar::new(), Arc::default());
        let shared = Shared { state, news, cache, waker, rooms, client_threads_max };
        Self { shared: Arc::new(shared), threads: Vec::new(), threads_max }
    }

    /// Asks for digests of the data set of a client's session; false when too much has been asked for already, or nothing can be
    /// had.
    pub(crate) fn request(
        &mut self,
        (client, flow): (Client, FlowId),
        data_set: &Arc<OpenSet>,
        runs: Vec<GroupRun>,
    ) -> bool {
        self.add(client, flow, data_set, Request::Digests(runs.into()))
    }

    /// The same for proofs of parts.
    pub(crate) fn request_proofs(
        &mut self,
        (client, flow): (Client, FlowId),
        data_set: &Arc<OpenSet>,
        parts: Vec<PartOf>,
    ) -> bool {
        self.add(client, flow, data_set, Request::Proofs(parts.into()))
    }

    fn add(&mut self, client: Client, flow: FlowId, data_set: &Arc<OpenSet>, request: Request) -> bool {
        let mut state = self.shared.state();
        let rooms = &self.shared.rooms;
        let session = state.sessions.entry(flow).or_insert_with(|| Session::new(data_set, rooms, client));
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
            threads::give_way();
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
        state.ready.remove(&flow);
        if let Some(Session { client, gone, .. }) = state.sessions.remove(&flow) {
            state.turns.forget(client, flow);
            // A thread may be at work for it.
            gone.store(true, Ordering::Relaxed);
        }
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
            self.turns.push(session.client, flow);
            return true;
        }
        false
    }
}

impl Session {
    fn new(data_set: &Arc<OpenSet>, rooms: &Arc<Rooms>, client: Client) -> Self {
        let gone: Arc<AtomicBool> = Arc::default();
        let hasher = Some(Hasher::new(data_set, rooms, client, &gone));
        let (requests, frames) = (VecDeque::new(), VecDeque::new());
        Self { client, gone, requests, frames, hasher, is_queued: false, has_failed: false }
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
        let (client, flow) = loop {
            if state.is_over {
                return false;
            }
            match state.turns.pop(self.client_threads_max) {
                Some(next) => break next,
                None => state = self.news.wait(state).unwrap_or_else(PoisonError::into_inner),
            }
        };
        let has_frames = self.work_for(flow, state, buffer);
        self.state().turns.done(client);
        // Another session of this client may have waited for that.
        self.news.notify_one();
        if has_frames {
            self.waker.wake();
        }
        true
    }

    /// Makes the next frames of a session; whether there are any.
    fn work_for(&self, flow: FlowId, mut state: MutexGuard<'_, State>, buffer: &mut Vec<u8>) -> bool {
        let Some(session) = state.sessions.get_mut(&flow) else { return false };
        session.is_queued = false;
        let Some(work) = session.next_work() else { return false };
        let Some(mut hasher) = session.hasher.take() else { return false };
        drop(state);
        let cache = self.cache.as_ref();
        let mut work = work;
        let (frames, next) = match &mut work {
            Work::Digests(run) => hasher.frames(cache, *run, buffer),
            Work::Proofs(parts) => (hasher.proofs(cache, parts, buffer), 0),
        };
        let mut state = self.state();
        // It may be over by now.
        let Some(session) = state.sessions.get_mut(&flow) else { return false };
        session.hasher = Some(hasher);
        match work {
            Work::Digests(run) => session.skip(run.first.saturating_add(run.count), next),
            // The others have their turn before more of a file is read.
            Work::Proofs(left) => session.put_back(left),
        }
        if frames.is_empty() {
            state.enqueue(flow);
            return false;
        }
        if frames.iter().any(|frame| matches!(frame, Frame::Refused { .. })) {
            session.has_failed = true;
            session.requests.clear();
        }
        session.frames.extend(frames);
        state.ready.insert(flow);
        state.enqueue(flow);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::Catalogue;
    use inhaul_base::Span;
    use inhaul_session::session::frame::FileProblem;
    use inhaul_store::digest::GROUP_BYTES;
    use inhaul_store::digest_cache::CACHED_BYTES_MIN;
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
        let hasher = |now: fn() -> i64| {
            let mut hasher = Hasher::new(&data_set(dir.path().join("f")), &Arc::default(), 0, &Arc::default());
            hasher.now = now;
            hasher
        };
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
        assert!(service.request((1, first), &set, vec![GroupRun { first: 0, count: 6 * GROUPS_PER_FRAME }]));
        assert!(service.request(
            (2, second),
            &set,
            vec![GroupRun { first: 0, count: 0 }, GroupRun { first: 3, count: 2 }]
        ));
        for _ in 0..2 {
            assert!(service.shared.make_a_frame(&mut buffer));
        }
        assert_eq!(service.ready(), [first, second]);
        assert_eq!(first_groups(&drain(&service, second)), [3]);
        for _ in 1..FRAMES_AHEAD {
            assert!(service.shared.make_a_frame(&mut buffer));
        }
        assert!(service.shared.state().turns.is_empty(), "its peer has taken none of them");
        assert_eq!(first_groups(&drain(&service, first)), [0, 16, 32, 48]);
        for _ in 0..2 {
            assert!(service.shared.make_a_frame(&mut buffer));
        }
        assert_eq!(first_groups(&drain(&service, first)), [64, 80]);
        assert!(service.ready().is_empty() && service.shared.state().turns.is_empty());
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
        assert!(service.request((1, FlowId(1)), &set, runs.to_vec()));
        let mut frames = Vec::new();
        while !service.shared.state().turns.is_empty() {
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
            assert!(service.request((1, FlowId(1)), &set, runs()));
        }
        assert!(!service.request((1, FlowId(1)), &set, runs()), "too much at once");
        assert!(service.shared.make_a_frame(&mut Vec::new()));
        assert!(matches!(service.next_frame(FlowId(1)), Some(Frame::Refused { .. })));
        assert!(service.shared.state().turns.is_empty());
        assert!(!service.request((1, FlowId(1)), &set, runs()));
        service.forget(FlowId(1));
        assert!(service.shared.state().sessions.is_empty());
    }

    #[test]
    fn proofs_have_no_longer_turns_than_digests_and_what_is_gone_has_none() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::File::create(dir.path().join("f")).unwrap().set_len(400 << 30).unwrap();
        let set = data_set(dir.path().join("f"));
        let (mut service, _poller) = idle_service();
        let mut buffer = Vec::new();
        let part = PartOf { group: 5, first: 0, count: 1, levels: 64 };
        for flow in 0..20 {
            assert!(service.request_proofs((1, FlowId(flow)), &set, vec![part]));
        }
        assert!(service.request((2, FlowId(100)), &set, vec![GroupRun { first: 0, count: 3 * GROUPS_PER_FRAME }]));
        for _ in 0..6 {
            assert!(service.shared.make_a_frame(&mut buffer));
        }
        assert_eq!(first_groups(&drain(&service, FlowId(100))), [0, 16, 32], "every other turn was its own");
        let known = |flow| service.shared.state().sessions[&FlowId(flow)].hasher.as_ref().unwrap().known_groups();
        assert_eq!([0, 1, 2, 3].map(known), [16, 16, 16, 0]);
        (0..20).for_each(|flow| service.forget(FlowId(flow)));
        assert!(service.shared.state().turns.is_empty());
        assert!(buffer.is_empty(), "nothing was read: it is a hole");
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
            assert!(service.request((u64::from(flow), FlowId(flow)), &set, vec![GroupRun { first: 0, count: 1 }]));
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
