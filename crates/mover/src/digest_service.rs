//! The server's hasher: computes digests of groups, in order, on a thread of its own while data is being sent; or recalls
//! them, if it has computed them before.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use inhaul_store::digest_cache::{CACHED_BYTES_MIN, CachedDigests, DigestCache};
use inhaul_store::{DataSet, digest};
use inhaul_udp::Waker;

use crate::error::MoveError;
use crate::frame::{Frame, GroupDigest, GroupRun, RefusalCode};
use crate::groups::Groups;
use crate::net;

/// Groups whose digests travel in one frame: enough to make frames rare, few enough to follow the data closely.
const GROUPS_PER_FRAME: usize = 16;
/// Frames that may wait for the peer before the hasher waits too.
const FRAMES_AHEAD: usize = 4;
/// Requests that may wait for the hasher.
const REQUESTS_AHEAD: usize = 4;

/// A hasher for one peer. Its thread ends when this is dropped.
#[derive(Debug)]
pub(crate) struct DigestService {
    requests: SyncSender<Vec<GroupRun>>,
    frames: Receiver<Frame>,
}

impl DigestService {
    /// A hasher of `data_set` that calls `waker` when a frame is ready.
    pub(crate) fn start(data_set: Arc<DataSet>, cache: Option<DigestCache>, waker: Waker) -> Result<Self, MoveError> {
        let (requests, incoming) = sync_channel::<Vec<GroupRun>>(REQUESTS_AHEAD);
        let (outgoing, frames) = sync_channel(FRAMES_AHEAD);
        let mut hasher = Hasher {
            cache,
            cached: None,
            now,
            groups: Groups::new(Arc::clone(data_set.manifest())),
            data_set,
            outgoing,
            waker,
        };
        net::spawn_helper("inhaul-digests", move || {
            // The channels close when the peer is gone.
            while let Ok(runs) = incoming.recv() {
                if runs.into_iter().try_for_each(|run| hasher.serve(run)).is_none() {
                    return;
                }
            }
        })?;
        Ok(Self { requests, frames })
    }

    /// Asks for digests; false when too much has been asked for already.
    pub(crate) fn request(&self, runs: Vec<GroupRun>) -> bool {
        self.requests.try_send(runs).is_ok()
    }

    /// The next frame that is ready.
    pub(crate) fn next_frame(&self) -> Option<Frame> {
        self.frames.try_recv().ok()
    }
}

struct Hasher {
    cache: Option<DigestCache>,
    /// What is remembered of the file that was read last, by its index.
    cached: Option<(usize, CachedDigests)>,
    /// Seconds since 1970.
    now: fn() -> i64,
    data_set: Arc<DataSet>,
    groups: Groups,
    outgoing: SyncSender<Frame>,
    waker: Waker,
}

impl Hasher {
    /// Answers for one run; `None` when nobody listens any more, or the data cannot be read.
    fn serve(&mut self, run: GroupRun) -> Option<()> {
        let end = run.first.saturating_add(run.count).min(self.groups.count());
        let mut next = run.first;
        let mut buffer = Vec::new();
        while next < end {
            let upto = end.min(next + GROUPS_PER_FRAME as u64);
            let values: Result<Vec<_>, _> = (next..upto).map(|number| self.digest(number, &mut buffer)).collect();
            let frame = match values {
                Ok(values) => Frame::Digests { first_group: next, values },
                Err(text) => {
                    self.hand_over(Frame::Refused { code: RefusalCode::Unreadable, text })?;
                    return None;
                }
            };
            self.hand_over(frame)?;
            next = upto;
        }
        Some(())
    }

    fn digest(&mut self, number: u64, buffer: &mut Vec<u8>) -> Result<GroupDigest, String> {
        let place = self.groups.place(number).ok_or("there is no such group")?;
        if let Some(known) = self.remembered(place.file).and_then(|digests| digests.get(place.group)) {
            return Ok(known);
        }
        self.data_set.read_group(place.file, place.group, buffer).map_err(|error| error.to_string())?;
        let size = self.groups.manifest().entries()[place.file].size;
        let computed = digest::group_digest(size, place.group, buffer);
        // What was read is of the version from before only if that is still the version.
        let now = (self.now)();
        let before = self.cached.as_ref().map(|(_, digests)| digests.version());
        if let Some(digests) = self.remembered(place.file)
            && before == Some(digests.version())
            && digests.version().is_settled(now)
        {
            digests.put(place.group, &computed);
        }
        Ok(computed)
    }

    /// What is remembered of file `index` in the version that it has now.
    fn remembered(&mut self, index: usize) -> Option<&CachedDigests> {
        let cache = self.cache.as_ref().filter(|_| self.groups.manifest().entries()[index].size >= CACHED_BYTES_MIN)?;
        let version = self.data_set.version(index).ok()?;
        let is_current =
            self.cached.as_ref().is_some_and(|(file, digests)| (*file, digests.version()) == (index, version));
        if !is_current {
            self.cached = cache.of(version).map(|digests| (index, digests));
        }
        self.cached.as_ref().map(|(_, digests)| digests)
    }

    fn hand_over(&self, frame: Frame) -> Option<()> {
        self.outgoing.send(frame).ok()?;
        self.waker.wake();
        Some(())
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
    use inhaul_store::{Offered, ScanOptions};
    use inhaul_udp::Poller;

    #[test]
    fn digests_are_recalled_while_the_file_stays_as_it_was() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("f"), vec![7; CACHED_BYTES_MIN as usize]).unwrap();
        let cache = DigestCache::open(&dir.path().join("cache")).unwrap();
        let poller = Poller::new().unwrap();
        let hasher = |now: fn() -> i64| {
            let data_set =
                Arc::new(Offered::new(&[dir.path().join("f")]).unwrap().scan(b"/", ScanOptions::default()).unwrap());
            let groups = Groups::new(Arc::clone(data_set.manifest()));
            let (outgoing, waker) = (sync_channel(1).0, poller.waker(1).unwrap());
            Hasher { cache: Some(cache.clone()), cached: None, now, groups, data_set, outgoing, waker }
        };
        let mut buffer = Vec::new();
        // A file that has just been written may be written to again without a trace: nothing is remembered.
        let right = hasher(|| 0).digest(3, &mut buffer).unwrap();
        let remembered = |hasher: &mut Hasher| hasher.remembered(0).and_then(|digests| digests.get(3));
        assert_eq!(remembered(&mut hasher(|| 0)), None);
        assert_eq!(hasher(|| i64::MAX).digest(3, &mut buffer).unwrap(), right);
        assert_eq!(remembered(&mut hasher(|| 0)), Some(right));
        hasher(|| 0).remembered(0).unwrap().put(3, &[1; 32]);
        assert_eq!(hasher(|| 0).digest(3, &mut buffer).unwrap(), [1; 32], "it is recalled");
        std::fs::write(dir.path().join("f"), vec![8; CACHED_BYTES_MIN as usize]).unwrap();
        let changed = hasher(|| 0).digest(3, &mut buffer).unwrap();
        assert!(changed != right && changed != [1; 32]);
    }
}
