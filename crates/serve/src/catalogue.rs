//! What a server offers, as its sessions share it: one list of files for all who have the same data set open.
//!
//! Reading a tree takes time in proportion to it, and holding its list takes memory; a client asks for both with one
//! frame. So clients who ask for the same path while it is being read wait for that, and take what comes of it, and
//! who comes shortly after takes it too: no longer after than the reading has taken, which is how old the first of its
//! items is by then anyway. A list that is the same as one that somebody still has open is dropped in favour of that
//! one. One address has one tree read at a time, and all lists together stay within a `Budget`.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use inhaul_base::byte_text::text_of;
use inhaul_base::{Bitrate, format_bytes};
use inhaul_identity::NameLeftOut;
use inhaul_store::{DataSet, ListOptions, Listed, Offered, OfferedError, ScanOptions, printable};

use crate::budget::{Budget, Share};
use inhaul_session::session::early::{self, OFFERED_BYTES};
use inhaul_session::session::frame::RefusalCode;
use inhaul_session::session::groups::Groups;
use inhaul_session::session::refusal::{GreetingError, refused};
use inhaul_session::session::slots::Origin;

/// How long a client waits at most for trees that others have had read.
const TURN_MAX: Duration = Duration::from_secs(60);
/// How long a list is good for new clients at most, however long it took to make.
const FRESH_MAX: Duration = Duration::from_secs(10);
/// Trees that are read at once, at least: one on a disk that hangs must not keep others waiting.
const READERS_MIN: usize = 8;
/// What the places of a file's groups take.
const GROUPS_BYTES: usize = size_of::<u64>();

/// A data set, its list as it travels, and where its groups lie: for all sessions that have it open.
#[derive(Debug)]
pub struct OpenSet {
    data_set: Arc<DataSet>,
    encoding: Vec<u8>,
    groups: OnceLock<Arc<Groups>>,
    /// What all of it takes of the server's memory.
    _share: Share,
}

/// A data set as clients ask for it: path, and which of the [`ScanOptions`].
type Key = (Vec<u8>, bool, bool, bool);

/// See the module's description.
#[derive(Debug)]
pub struct Catalogue {
    offered: Offered,
    name_left_out: Option<Arc<NameLeftOut>>,
    budget: Arc<Budget>,
    readers_max: usize,
    early_max: u32,
    state: Mutex<State>,
    /// A tree has been read.
    news: Condvar,
}

#[derive(Debug, Default)]
struct State {
    known: BTreeMap<Key, Known>,
    /// The trees that are being read, and for whom.
    read_now: BTreeSet<Key>,
    readers: BTreeSet<Origin>,
}

/// What was read last of a path.
#[derive(Debug)]
struct Known {
    set: Weak<OpenSet>,
    /// Held for new clients, until then.
    fresh: Option<(Arc<OpenSet>, Instant)>,
}

impl OpenSet {
    /// What it is made of, and its bytes.
    pub fn data_set(&self) -> &Arc<DataSet> {
        &self.data_set
    }

    /// Its list as it travels.
    pub(crate) fn encoding(&self) -> &[u8] {
        &self.encoding
    }

    /// Where its groups lie.
    pub(crate) fn groups(&self) -> &Arc<Groups> {
        self.groups.get_or_init(|| Arc::new(Groups::new(Arc::clone(self.data_set.manifest()))))
    }
}

impl Catalogue {
    /// What is `offered`, with lists within `budget`.
    pub(crate) fn new(offered: Offered, budget: Arc<Budget>) -> Self {
        let readers_max =
            std::thread::available_parallelism().map_or(READERS_MIN, |count| count.get().max(READERS_MIN));
        let early_max = OFFERED_BYTES;
        let name_left_out = offered.name_left_out().map(|name| Arc::new(NameLeftOut::new(text_of(name))));
        Self { offered, name_left_out, budget, readers_max, early_max, state: Mutex::default(), news: Condvar::new() }
    }

    /// The same for a host that is to send no more than `rate`: little content leaves outside the transport then.
    pub fn at_rate(self, rate: Option<Bitrate>) -> Self {
        Self { early_max: early::within(OFFERED_BYTES, rate), ..self }
    }

    /// The name that may be left out of paths, if there is one.
    pub(crate) fn name_left_out(&self) -> Option<Arc<NameLeftOut>> {
        self.name_left_out.clone()
    }

    /// Most bytes of content that are sent together with a description.
    pub(crate) fn early_max(&self) -> u32 {
        self.early_max
    }

    /// What is `offered`, for this program's own use.
    pub fn unbounded(offered: Offered) -> Self {
        Self::new(offered, Budget::new(usize::MAX))
    }

    /// The data set at `path`, for a client that comes from `from`.
    pub(crate) fn open(&self, path: &[u8], options: ScanOptions, from: IpAddr) -> Result<Arc<OpenSet>, GreetingError> {
        let key = (path.to_vec(), options.owner, options.attributes, options.no_links);
        let origin = Origin::from(from);
        let deadline = Instant::now() + TURN_MAX;
        let mut state = self.lock();
        loop {
            if let Some(set) = state.fresh(&key, Instant::now()) {
                return Ok(set);
            }
            if state.may_read(&key, origin, self.readers_max) {
                break;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(refused(RefusalCode::Busy, "it has too many directories to read: try again later"));
            }
            state = self.news.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        state.read_now.insert(key.clone());
        state.readers.insert(origin);
        drop(state);
        let reading = Reading { of: self, key, origin };
        let began = Instant::now();
        let set = self.read(path, options)?;
        Ok(reading.done(set, began.elapsed().min(FRESH_MAX)))
    }

    /// Shows `each` what there is at `path`, as [`Offered::list`] does.
    pub(crate) fn list(
        &self,
        path: &[u8],
        options: ListOptions,
        each: &mut dyn FnMut(Listed) -> bool,
    ) -> Result<(), GreetingError> {
        let mut share = self.budget.share();
        let listed = self.offered.list(path, options, &mut |bytes| share.hold(bytes), each);
        listed.map_err(|error| self.refusal(path, &error, &share))
    }

    /// Drops lists that nobody has open, and that are not good for new clients any more. They are returned: to drop a
    /// long one takes a while.
    pub(crate) fn take_stale(&self) -> Vec<Arc<OpenSet>> {
        let now = Instant::now();
        let mut state = self.lock();
        let mut stale = Vec::new();
        for known in state.known.values_mut() {
            stale.extend(known.fresh.take_if(|(_, until)| *until <= now).map(|(set, _)| set));
        }
        state.known.retain(|_, known| known.fresh.is_some() || known.set.strong_count() > 0);
        stale
    }

    /// Reads a data set.
    fn read(&self, path: &[u8], options: ScanOptions) -> Result<OpenSet, GreetingError> {
        let mut share = self.budget.share();
        let scanned = self.offered.scan_within(path, options, &mut |bytes| share.hold(bytes));
        let data_set = scanned.map_err(|error| self.refusal(path, &error, &share))?;
        let encoding = data_set.manifest().encode();
        let groups = data_set.manifest().entries().len() * GROUPS_BYTES;
        if !share.hold(share.bytes() + encoding.capacity() + groups) {
            return Err(self.refusal(path, &OfferedError::TooMuchMemory { path: path.to_vec() }, &share));
        }
        Ok(OpenSet { data_set: Arc::new(data_set), encoding, groups: OnceLock::new(), _share: share })
    }

    /// What a client is told that cannot have `path`, whose list has taken `share` by now.
    fn refusal(&self, path: &[u8], error: &OfferedError, share: &Share) -> GreetingError {
        let code = match error {
            OfferedError::NotFound { .. } | OfferedError::Unclear { .. } => RefusalCode::NotFound,
            OfferedError::Outside { .. } | OfferedError::Linked { .. } => RefusalCode::Outside,
            // Waiting for others does not help who needs more than half of all.
            OfferedError::TooMuchMemory { .. } if share.bytes() > self.budget.limit() / 2 => {
                let (path, limit) = (printable(path), format_bytes(self.budget.limit() as u64));
                let text = format!(
                    "the list of what is in '{path}' takes too much of the {limit} that this server has for lists: fetch it in parts, or have it started with a higher --manifest-memory"
                );
                return refused(RefusalCode::Unreadable, text);
            }
            OfferedError::TooMuchMemory { .. } => {
                return refused(RefusalCode::Busy, format!("{error} (serve --manifest-memory): try again later"));
            }
            _ => RefusalCode::Unreadable,
        };
        refused(code, error.to_string())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// What was read of a path so lately that it is good for another client.
    fn fresh(&self, key: &Key, now: Instant) -> Option<Arc<OpenSet>> {
        let (set, until) = self.known.get(key)?.fresh.as_ref()?;
        (now < *until).then(|| Arc::clone(set))
    }

    /// Whether a path may be read now: nobody reads it, and there are not too many who read.
    fn may_read(&self, key: &Key, origin: Origin, readers_max: usize) -> bool {
        !self.read_now.contains(key) && !self.readers.contains(&origin) && self.readers.len() < readers_max
    }
}

/// A path that is being read; whatever comes of it, others may read it once this is dropped.
struct Reading<'c> {
    of: &'c Catalogue,
    key: Key,
    origin: Origin,
}

impl Reading<'_> {
    /// What was read, or what somebody has open and is the same; good for new clients for a while.
    fn done(self, set: OpenSet, fresh_for: Duration) -> Arc<OpenSet> {
        let before = self.of.lock().known.get(&self.key).and_then(|known| known.set.upgrade());
        let set = match before.filter(|before| before.data_set.is_same(&set.data_set)) {
            Some(before) => before,
            None => Arc::new(set),
        };
        let fresh = Some((Arc::clone(&set), Instant::now() + fresh_for));
        let known = Known { set: Arc::downgrade(&set), fresh };
        let before = self.of.lock().known.insert(self.key.clone(), known);
        // Not under the lock: it may be a long list.
        drop(before);
        set
    }
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        let mut state = self.of.lock();
        state.read_now.remove(&self.key);
        state.readers.remove(&self.origin);
        drop(state);
        self.of.news.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    fn catalogue(limit: usize) -> (tempfile::TempDir, Catalogue) {
        let dir = tempfile::tempdir().unwrap();
        for k in 0..1000 {
            std::fs::write(dir.path().join(format!("file-{k:04}")), b"").unwrap();
        }
        let offered = Offered::new(&[dir.path().to_path_buf()]).unwrap();
        (dir, Catalogue::new(offered, Budget::new(limit)))
    }

    fn open(catalogue: &Catalogue) -> Result<Arc<OpenSet>, GreetingError> {
        catalogue.open(b"/", ScanOptions::default(), HERE)
    }

    #[test]
    fn sessions_of_one_path_share_one_list() {
        let (dir, catalogue) = catalogue(usize::MAX);
        let first = open(&catalogue).unwrap();
        let held = catalogue.budget.held();
        let more: Vec<_> = (0..20).map(|_| open(&catalogue).unwrap()).collect();
        assert!(more.iter().all(|set| Arc::ptr_eq(set, &first)));
        assert_eq!(catalogue.budget.held(), held);
        std::fs::write(dir.path().join("file-0000"), b"changed").unwrap();
        // What was read a moment ago is still good.
        catalogue.lock().known.values_mut().for_each(|known| known.fresh = None);
        let changed = open(&catalogue).unwrap();
        assert!(!Arc::ptr_eq(&changed, &first));
        assert_eq!(changed.data_set().manifest().size(), 7);
        drop((first, more, changed));
        catalogue.lock().known.values_mut().for_each(|known| known.fresh = None);
        drop(catalogue.take_stale());
        assert_eq!((catalogue.budget.held(), catalogue.lock().known.len()), (0, 0));
    }

    #[test]
    fn clients_that_come_together_have_a_path_read_once_at_a_time() {
        let (_dir, catalogue) = catalogue(usize::MAX);
        std::thread::scope(|scope| {
            let opened: Vec<_> = (0..8).map(|_| scope.spawn(|| open(&catalogue).unwrap())).collect();
            let sets: Vec<_> = opened.into_iter().map(|thread| thread.join().unwrap()).collect();
            assert!(sets.iter().all(|set| Arc::ptr_eq(set, &sets[0])), "unchanged, whoever read it");
        });
        assert!(catalogue.lock().read_now.is_empty() && catalogue.lock().readers.is_empty());
    }

    #[test]
    fn lists_stay_within_the_budget() {
        let (_dir, catalogue) = catalogue(100_000);
        let code = |result: Result<Arc<OpenSet>, GreetingError>| match result {
            Err(GreetingError::Refused { code, .. }) => code,
            other => panic!("{other:?}"),
        };
        assert_eq!(code(open(&catalogue)), RefusalCode::Unreadable, "it alone is too much");
        let mut others = catalogue.budget.share();
        assert!(others.hold(90_000));
        assert_eq!(code(open(&catalogue)), RefusalCode::Busy);
        let listed = catalogue.list(b"/", ListOptions { recursive: true, no_links: false }, &mut |_| true);
        assert!(matches!(listed, Err(GreetingError::Refused { code: RefusalCode::Busy, .. })), "{listed:?}");
        drop(others);
        assert!(catalogue.open(b"/file-0001", ScanOptions::default(), HERE).is_ok());
    }
}
