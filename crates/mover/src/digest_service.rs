//! The server's hasher: computes digests of groups, in order, on a thread of its own while data is being sent.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

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
    pub(crate) fn start(data_set: Arc<DataSet>, waker: Waker) -> Result<Self, MoveError> {
        let (requests, incoming) = sync_channel::<Vec<GroupRun>>(REQUESTS_AHEAD);
        let (outgoing, frames) = sync_channel(FRAMES_AHEAD);
        let hasher = Hasher { groups: Groups::new(Arc::clone(data_set.manifest())), data_set, outgoing, waker };
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
    data_set: Arc<DataSet>,
    groups: Groups,
    outgoing: SyncSender<Frame>,
    waker: Waker,
}

impl Hasher {
    /// Answers for one run; `None` when nobody listens any more, or the data cannot be read.
    fn serve(&self, run: GroupRun) -> Option<()> {
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

    fn digest(&self, number: u64, buffer: &mut Vec<u8>) -> Result<GroupDigest, String> {
        let place = self.groups.place(number).ok_or("there is no such group")?;
        self.data_set.read_group(place.file, place.group, buffer).map_err(|error| error.to_string())?;
        let size = self.groups.manifest().entries()[place.file].size;
        Ok(digest::group_digest(size, place.group, buffer))
    }

    fn hand_over(&self, frame: Frame) -> Option<()> {
        self.outgoing.send(frame).ok()?;
        self.waker.wake();
        Some(())
    }
}
