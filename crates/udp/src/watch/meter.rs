//! What the watched thread tells its watcher.

use std::sync::atomic::{AtomicU64, Ordering};

use inhaul_base::{Span, Time};

use super::PAUSE_MIN;

/// Counts of the watched thread, which its watcher reads. Each is a plain word: to count costs a store.
#[derive(Debug, Default)]
pub struct Meter {
    received: AtomicU64,
    messages: AtomicU64,
    long_waits: AtomicU64,
    dropped: AtomicU64,
    backlog: AtomicU64,
    backlog_room: AtomicU64,
    backlog_written: AtomicU64,
    stalled: AtomicU64,
    last_stall_start: AtomicU64,
    last_stall: AtomicU64,
}

impl Meter {
    /// So many messages came, with so many bytes of packets, headers included. The first of them has waited so long
    /// in its socket.
    pub fn count(&self, messages: u64, bytes: u64, waited: Span) {
        // One thread writes, so nothing is lost between the two.
        let add = |word: &AtomicU64, more: u64| {
            word.store(word.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
        };
        add(&self.received, bytes);
        add(&self.messages, messages);
        if waited >= PAUSE_MIN {
            add(&self.long_waits, 1);
        }
    }

    /// The kernel has dropped so many messages since the start, because the thread had not read those before.
    pub fn note_drops(&self, all: u64) {
        self.dropped.store(all, Ordering::Relaxed);
    }

    /// Bytes wait to be written beside the thread, so many may, and so many were written this way since the start.
    pub fn note_backlog(&self, waiting: u64, room: u64, written: u64) {
        self.backlog.store(waiting, Ordering::Relaxed);
        self.backlog_room.store(room, Ordering::Relaxed);
        self.backlog_written.store(written, Ordering::Relaxed);
    }

    /// To receive a batch and to write what was in it took so long that something held it up: the processor, or the
    /// disk. The watcher tells which.
    pub fn note_stall(&self, start: Time, length: Span) {
        let before = self.stalled.load(Ordering::Relaxed);
        self.last_stall_start.store(start.as_nanos(), Ordering::Relaxed);
        self.last_stall.store(length.as_nanos(), Ordering::Relaxed);
        self.stalled.store(before.wrapping_add(length.as_nanos()), Ordering::Release);
    }

    /// Bytes since the start.
    pub(super) fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    /// Messages since the start.
    pub(super) fn messages(&self) -> u64 {
        self.messages.load(Ordering::Relaxed)
    }

    /// How often what came had waited as long as a pause.
    pub(super) fn long_waits(&self) -> u64 {
        self.long_waits.load(Ordering::Relaxed)
    }

    /// Messages dropped since the start.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// What waits to be written, what may, and what was written so far, in bytes.
    pub(super) fn backlog(&self) -> (u64, u64, u64) {
        let read = |word: &AtomicU64| word.load(Ordering::Relaxed);
        (read(&self.backlog), read(&self.backlog_room), read(&self.backlog_written))
    }

    /// All stalls together, and the last: when it began and how long it was.
    pub(super) fn stalls(&self) -> (Span, Time, Span) {
        let all = Span::from_nanos(self.stalled.load(Ordering::Acquire));
        let start = Time::from_nanos(self.last_stall_start.load(Ordering::Relaxed));
        (all, start, Span::from_nanos(self.last_stall.load(Ordering::Relaxed)))
    }
}
