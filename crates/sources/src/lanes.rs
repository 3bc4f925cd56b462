//! The threads that read from a source of ranges: what its flow's endpoint asks for, at the rate that it is told.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use inhaul_base::{Bitrate, ByteRange};
use inhaul_transport::{FlowId, SourceOrder};

use super::ranges::{RangeSource, Remedy};
use inhaul_engine::engine::{Deliveries, PIECE_BYTES_MAX, SourceLink};
use inhaul_session::api::error::MoveError;
use inhaul_session::system::threads;

/// How often in a row a range is asked for again of which nothing has come.
const TRIES_MAX: u32 = 4;
/// Longest time that a source may ask to be left alone before it counts as lost.
const REST_MAX: Duration = Duration::from_secs(60);
/// A thread is ahead of the rate by this time at most.
const AHEAD: Duration = Duration::from_millis(20);

/// A source of ranges as its flow sees it. Dropping it ends the threads.
pub(crate) struct Lanes {
    shared: Arc<Shared>,
    /// Threads that were started: they come with the work, up to [`RangeSource::lanes`].
    running: u32,
}

struct Shared {
    flow: FlowId,
    source: Arc<dyn RangeSource>,
    deliveries: Deliveries,
    work: Mutex<Work>,
    changed: Condvar,
}

/// What is to be read.
struct Work {
    /// Requests and their ranges, in the order in which they came.
    asked: VecDeque<(u32, ByteRange)>,
    /// Nothing of requests up to this one is wanted any more.
    unasked: u32,
    rate: Bitrate,
    /// When the next byte may be read.
    next: Instant,
    /// Threads that wait for a range.
    idle: usize,
    over: bool,
}

impl Work {
    /// When reading may go on after `bytes` more.
    fn pace(&mut self, now: Instant, bytes: usize) -> Instant {
        let took = self.rate.time_for(bytes as u64).as_secs_f64();
        self.next = self.next.max(now.checked_sub(AHEAD).unwrap_or(now)) + Duration::from_secs_f64(took.min(60.0));
        self.next
    }
}

impl Lanes {
    /// Starts the threads of a source: they deliver for `flow`.
    ///
    /// # Errors
    /// When the system has no more threads.
    pub(crate) fn start(flow: FlowId, source: Arc<dyn RangeSource>, deliveries: Deliveries) -> Result<Self, MoveError> {
        let work =
            Work { asked: VecDeque::new(), unasked: 0, rate: Bitrate::MAX, next: Instant::now(), idle: 0, over: false };
        let shared = Arc::new(Shared { flow, source, deliveries, work: Mutex::new(work), changed: Condvar::new() });
        let mut lanes = Self { shared, running: 0 };
        lanes.start_one()?;
        Ok(lanes)
    }

    fn start_one(&mut self) -> Result<(), MoveError> {
        let shared = Arc::clone(&self.shared);
        threads::spawn_helper("inhaul-source", move || shared.run())?;
        self.running += 1;
        Ok(())
    }
}

impl Drop for Lanes {
    fn drop(&mut self) {
        self.shared.lock().over = true;
        self.shared.changed.notify_all();
    }
}

impl SourceLink for Lanes {
    fn obey(&mut self, order: SourceOrder) {
        let mut work = self.shared.lock();
        match order {
            SourceOrder::Ask { request, ranges } => work.asked.extend(ranges.into_iter().map(|range| (request, range))),
            SourceOrder::Unask { through } => {
                work.unasked = through;
                work.asked.retain(|(request, _)| *request > through);
            }
            SourceOrder::Pace(rate) => work.rate = rate,
        }
        let more = work.asked.len().saturating_sub(work.idle);
        drop(work);
        // A list names hundreds of sources, and most are asked for little. Without more threads, the first does it.
        let free = self.shared.source.lanes().saturating_sub(self.running) as usize;
        let _ = (0..more.min(free)).try_for_each(|_| self.start_one());
        self.shared.changed.notify_all();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Work> {
        // Nothing is left half done by a thread that panics.
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        while let Some((request, range)) = self.next() {
            if let Err(error) = self.read(request, range) {
                self.lock().over = true;
                self.changed.notify_all();
                self.deliveries.failed(self.flow, error);
                return;
            }
        }
    }

    /// The next range to be read; `None` when all is over.
    fn next(&self) -> Option<(u32, ByteRange)> {
        let mut work = self.lock();
        loop {
            if work.over {
                return None;
            }
            if let Some(next) = work.asked.pop_front() {
                return Some(next);
            }
            work.idle += 1;
            work = self.changed.wait(work).unwrap_or_else(PoisonError::into_inner);
            work.idle -= 1;
        }
    }

    /// Reads a range whole, or as far as it is wanted.
    fn read(&self, request: u32, mut range: ByteRange) -> Result<(), MoveError> {
        let mut tries = 0;
        loop {
            let mut piece = Piece { of: self, request, at: range.start, bytes: Vec::new(), is_wanted: true };
            let result = self.source.read(range, &mut |bytes| piece.take(bytes, range.end));
            piece.hand_over();
            let (at, is_wanted) = (piece.at, piece.is_wanted);
            if !is_wanted {
                return Ok(());
            }
            tries = if at > range.start { 1 } else { tries + 1 };
            range.start = at;
            let failure = match result {
                Ok(()) if range.is_empty() => return Ok(()),
                Ok(()) => super::ReadFailure {
                    error: MoveError::Internal("a source delivered less than it was asked for".to_owned()),
                    remedy: Remedy::GiveUp,
                },
                Err(_) if range.is_empty() => return Ok(()),
                Err(failure) => failure,
            };
            let rest = match failure.remedy {
                Remedy::AskAgain if tries < TRIES_MAX => Duration::ZERO,
                Remedy::AskAfter(rest) if tries < TRIES_MAX && rest <= REST_MAX => rest,
                _ => return Err(failure.error),
            };
            if !self.rest(request, Instant::now() + rest) {
                return Ok(());
            }
        }
    }

    /// Waits until then, unless what is read is not wanted any more: false.
    fn rest(&self, request: u32, until: Instant) -> bool {
        let mut work = self.lock();
        loop {
            if work.over || request <= work.unasked {
                return false;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            work = self.changed.wait_timeout(work, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// Bytes of a range on their way to the data thread.
struct Piece<'s> {
    of: &'s Shared,
    request: u32,
    /// Where the next byte to hand over belongs.
    at: u64,
    bytes: Vec<u8>,
    is_wanted: bool,
}

impl Piece<'_> {
    /// Takes what came of a range that ends at `end`; a source that brings more is not read further.
    fn take(&mut self, bytes: &[u8], end: u64) -> ControlFlow<()> {
        let left = end - self.at - self.bytes.len() as u64;
        let mut bytes = &bytes[..bytes.len().min(left as usize)];
        while !bytes.is_empty() {
            let room = PIECE_BYTES_MAX - self.bytes.len();
            let (front, rest) = bytes.split_at(bytes.len().min(room));
            if self.bytes.capacity() == 0 {
                self.bytes.reserve_exact(PIECE_BYTES_MAX.min((end - self.at) as usize));
            }
            self.bytes.extend_from_slice(front);
            bytes = rest;
            if self.bytes.len() == PIECE_BYTES_MAX {
                self.hand_over();
                if !self.is_wanted {
                    return ControlFlow::Break(());
                }
            }
        }
        if self.at + self.bytes.len() as u64 == end { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    /// Hands over what there is, and waits for its turn.
    fn hand_over(&mut self) {
        if self.bytes.is_empty() || !self.is_wanted {
            return;
        }
        let bytes = std::mem::take(&mut self.bytes);
        let len = bytes.len();
        let until = self.of.lock().pace(Instant::now(), len);
        self.is_wanted = self.of.deliveries.bytes(self.of.flow, self.at, bytes);
        self.at += len as u64;
        self.is_wanted = self.is_wanted && self.of.rest(self.request, until);
    }
}
