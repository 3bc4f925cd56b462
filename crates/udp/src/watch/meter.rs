//! Counters that the watched thread keeps for its watcher.

use std::sync::atomic::{AtomicU64, Ordering};

use inhaul_base::{Span, Time};

use super::PAUSE_MIN;

/// Counters of the watched thread, read by its watcher. Each is a plain word, so counting costs a store.
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
    /// Counts `messages`, with `bytes` of packets, headers included. The first of them waited for `waited` in its
    /// socket.
    pub fn count(&self, messages: u64, bytes: u64, waited: Span) {
        // One thread writes, so no count is lost between load and store.
        let add = |word: &AtomicU64, more: u64| {
            word.store(word.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
        };
        add(&self.received, bytes);
        add(&self.messages, messages);
        if waited >= PAUSE_MIN {
            add(&self.long_waits, 1);
        }
    }

    /// Notes that the kernel has dropped `all` messages since the start, because the thread had not read earlier ones.
    pub fn note_drops(&self, all: u64) {
        self.dropped.store(all, Ordering::Relaxed);
    }

    /// Notes the writer thread's account, in bytes: its backlog, its room, and what it has written since the start.
    pub fn note_backlog(&self, waiting: u64, room: u64, written: u64) {
        self.backlog.store(waiting, Ordering::Relaxed);
        self.backlog_room.store(room, Ordering::Relaxed);
        self.backlog_written.store(written, Ordering::Relaxed);
    }

    /// Notes a stall: receiving and writing a batch took so long that the processor or the disk must have held it up.
    /// The watcher decides which.
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

    /// How often a message had waited for as long as a pause.
    pub(super) fn long_waits(&self) -> u64 {
        self.long_waits.load(Ordering::Relaxed)
    }

    /// Messages dropped since the start.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// The writer thread's backlog, its room, and what it has written, in bytes.
    pub(super) fn backlog(&self) -> (u64, u64, u64) {
        let read = |word: &AtomicU64| word.load(Ordering::Relaxed);
        (read(&self.backlog), read(&self.backlog_room), read(&self.backlog_written))
    }

    /// The sum of all stalls; start and length of the last one.
    pub(super) fn stalls(&self) -> (Span, Time, Span) {
        let all = Span::from_nanos(self.stalled.load(Ordering::Acquire));
        let start = Time::from_nanos(self.last_stall_start.load(Ordering::Relaxed));
        (all, start, Span::from_nanos(self.last_stall.load(Ordering::Relaxed)))
    }
}
