//! Forecasts of the disk: writers are held up when too much dirty memory waits to be written (`balance_dirty_pages`).
//! `/proc/vmstat` tells any user how much waits, how much may wait, and how fast the disk writes.

use std::collections::VecDeque;

use inhaul_base::{Bitrate, Span, Time};
use inhaul_transport::Pause;

/// The disk's rate is measured over at least this time.
const WINDOW: Span = Span::from_millis(500);
/// The distance to the level to keep is spread over this time.
const HORIZON: Span = Span::from_secs(2);
/// The disk is watched from this part of the background threshold on. At the threshold itself the kernel begins to
/// write.
const NEAR: f64 = 0.8;
/// A writer that is held up for at least this part of the time is as fast as its disk.
const HELD_UP: f64 = 0.1;
/// While held up, the disk's rate is taken as this part of the rate that came through: a little less, so that the
/// backlog grows more slowly.
const BACK_OFF: f64 = 0.95;
/// While not held up, a writer's bound grows by this factor in each window.
const TRY: f64 = 1.1;
/// The bound is dropped once it is this many times the incoming rate.
const FREE: f64 = 4.0;
/// The writer thread's rate is measured over this time.
const DRAIN: Span = Span::from_secs(1);
/// Below this part of its room, the writer thread's backlog bounds nothing. Otherwise ...
const NONE_WAITS: f64 = 0.05;
/// ... this part of the room is kept filled ...
const KEEP_WAITING: f64 = 0.25;
/// ... and reached within this time.
const CATCH_UP: Span = Span::from_secs(1);
/// The lowest bound on the incoming rate.
const LEAST: Bitrate = Bitrate::from_mbps(1);
/// The length of the first hold-up that is foreseen. Later ones are taken to be as long as those that came.
const STALL: Span = Span::from_millis(100);

/// The dirty pages of `/proc/vmstat`, in pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PageCache {
    /// Dirty, or being written.
    pub(super) waiting: u64,
    /// Written since the start.
    pub(super) written: u64,
    /// The background threshold: from here on the kernel writes by itself.
    pub(super) background: u64,
    /// The threshold. Writers are held up from half-way between the background threshold and this one.
    pub(super) threshold: u64,
}

impl PageCache {
    /// Reads `/proc/vmstat`.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let value = |name: &str| {
            text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse::<u64>().ok())
        };
        Some(Self {
            waiting: value("nr_dirty")?.saturating_add(value("nr_writeback")?),
            written: value("nr_written")?,
            background: value("nr_dirty_background_threshold")?,
            threshold: value("nr_dirty_threshold")?,
        })
    }

    /// Where writers begin to be held up.
    fn free_run(self) -> u64 {
        self.background / 2 + self.threshold / 2
    }

    /// Whether the backlog is large enough for frequent looks.
    pub(super) fn is_near(self) -> bool {
        self.background > 0 && self.waiting as f64 >= NEAR * self.background as f64
    }
}

/// The input of a look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Seen {
    /// The page cache.
    pub(super) cache: PageCache,
    /// Bytes of packets received since the start.
    pub(super) received: u64,
    /// How long writing has held the thread up since the start.
    pub(super) stalled: Span,
    /// The writer thread's account, in bytes: its backlog, its room, and what it has written since the start.
    pub(super) backlog: (u64, u64, u64),
}

/// The state of the disk, and the forecasts from it.
#[derive(Debug)]
pub(super) struct Disk {
    page_bytes: u64,
    window: Option<(Time, Seen)>,
    /// Bytes per second: what the disk has written lately, by how much the backlog grew, and what came in.
    written: f64,
    growth: f64,
    came: f64,
    /// The bound that hold-ups show even if the page cache is not full.
    bound: Option<f64>,
    /// The usual length of a hold-up.
    stall: Span,
    forecast: Option<Bitrate>,
    /// What the writer thread had written, by time.
    drained: VecDeque<(Time, u64)>,
    /// The bound by the writer thread's backlog.
    by_backlog: Option<Bitrate>,
}

impl Disk {
    pub(super) fn new(page_bytes: u64) -> Self {
        Self {
            page_bytes,
            window: None,
            written: 0.0,
            growth: 0.0,
            came: 0.0,
            bound: None,
            stall: STALL,
            forecast: None,
            drained: VecDeque::new(),
            by_backlog: None,
        }
    }

    /// The disk's bound on the incoming rate; `None`: it sets none.
    pub(super) fn intake(&self) -> Option<Bitrate> {
        self.forecast.into_iter().chain(self.by_backlog).min()
    }

    /// Notes that writing was held up for `length`.
    pub(super) fn note_stall(&mut self, length: Span) {
        self.stall = (self.stall * 3 + length) / 4;
    }

    /// Takes a look at `now`. Returns the next hold-up of writing, if one is foreseen.
    pub(super) fn look(&mut self, now: Time, seen: Seen) -> Option<Pause> {
        let (began, first) = *self.window.get_or_insert((now, seen));
        let passed = now.since(began);
        if passed >= WINDOW {
            self.window = Some((now, seen));
            self.end_window(passed.as_secs_f64(), first, seen);
        }
        self.by_backlog = self.drain(now, seen);
        let room = seen.cache.free_run().saturating_sub(seen.cache.waiting) * self.page_bytes;
        let seconds = if self.growth > 0.0 { room as f64 / self.growth } else { f64::INFINITY };
        let is_soon = seen.cache.is_near() && seconds < HORIZON.as_secs_f64();
        is_soon.then(|| Pause { start: now + Span::from_secs_f64(seconds), length: self.stall })
    }

    /// The incoming rate that keeps [`KEEP_WAITING`] of the writer thread's room filled.
    fn drain(&mut self, now: Time, seen: Seen) -> Option<Bitrate> {
        let (waiting, room, written) = seen.backlog;
        self.drained.push_back((now, written));
        while self.drained.len() > 2 && self.drained.get(1).is_some_and(|(at, _)| now.since(*at) >= DRAIN) {
            self.drained.pop_front();
        }
        let (began, first) = *self.drained.front()?;
        if (waiting as f64) < NONE_WAITS * room as f64 && self.by_backlog.is_none() || waiting == 0 {
            return None;
        }
        let seconds = now.since(began).as_secs_f64().max(0.02);
        let rate = (written - first) as f64 / seconds;
        let rate = rate + (KEEP_WAITING * room as f64 - waiting as f64) / CATCH_UP.as_secs_f64();
        // The bound is never zero: only data that comes shows that the disk is faster again.
        Some(Bitrate::from_f64((8.0 * rate).max(LEAST.as_f64())))
    }

    fn end_window(&mut self, seconds: f64, first: Seen, last: Seen) {
        let bytes = |pages: u64| (pages * self.page_bytes) as f64;
        self.written = bytes(last.cache.written.saturating_sub(first.cache.written)) / seconds;
        self.growth = (bytes(last.cache.waiting) - bytes(first.cache.waiting)) / seconds;
        self.came = last.received.saturating_sub(first.received) as f64 / seconds;
        let stalled = last.stalled.saturating_sub(first.stalled).as_secs_f64() / seconds;
        // Hold-ups show any bound: a slower file system, a limit on its writes.
        self.bound = match self.bound {
            _ if stalled >= HELD_UP => Some(self.came * BACK_OFF),
            Some(bound) if bound > FREE * self.came.max(1.0) => None,
            Some(bound) => Some(bound * TRY),
            None => None,
        };
        let by_cache = last.cache.is_near().then(|| {
            // Other programs' writes do not count as ours.
            let ours = (self.written - (self.growth + self.written - self.came).max(0.0)).max(0.0);
            let keep = (last.cache.background + last.cache.free_run()) / 2;
            let room = bytes(keep) - bytes(last.cache.waiting);
            ours.max(0.1 * self.written) + room / HORIZON.as_secs_f64()
        });
        let bound = self.bound.into_iter().chain(by_cache).reduce(f64::min);
        self.forecast = bound.map(|rate| Bitrate::from_f64(8.0 * rate.max(0.05 * self.came).max(1.0)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: u64 = 4_096;

    fn at(millis: u64) -> Time {
        Time::ZERO + Span::from_millis(millis)
    }

    #[test]
    fn parse_reads_what_the_kernel_writes() {
        let text = "nr_free_pages 1\nnr_dirty 45618\nnr_writeback 382\nnr_writeback_temp 9\nnr_written 557817\n\
                    nr_dirty_threshold 1163977\nnr_dirty_background_threshold 581278\n";
        let cache = PageCache { waiting: 46_000, written: 557_817, background: 581_278, threshold: 1_163_977 };
        assert_eq!(PageCache::parse(text), Some(cache));
        assert!(!cache.is_near());
        assert_eq!(PageCache::parse("nr_dirty 4\n"), None);
    }

    /// A disk of 100 MB/s, a writer that gets what is foreseen, up to 400 MB/s, and thresholds of 1 and 2 GB.
    fn settle(seconds: u64) -> (Vec<f64>, u64, Option<Time>) {
        let mut disk = Disk::new(PAGE);
        let (disk_rate, most) = (100e6, 400e6);
        let (background, threshold) = (1_000_000_000 / PAGE, 2_000_000_000 / PAGE);
        let (mut waiting, mut written, mut received) = (0.0, 0.0, 0.0f64);
        let (mut rates, mut peak, mut first) = (Vec::new(), 0, None);
        for step in 0..seconds * 50 {
            let rate = disk.intake().map_or(most, |intake| (intake.as_f64() / 8.0).min(most));
            received += rate / 50.0;
            waiting += rate / 50.0;
            let out = f64::min(disk_rate / 50.0, waiting);
            waiting -= out;
            written += out;
            let pages = |bytes: f64| bytes as u64 / PAGE;
            let cache = PageCache { waiting: pages(waiting), written: pages(written), background, threshold };
            peak = peak.max(cache.waiting);
            let seen = Seen { cache, received: received as u64, ..Seen::default() };
            if let Some(pause) = disk.look(at(20 * step), seen) {
                first = first.or(Some(pause.start));
            }
            rates.push(rate);
        }
        (rates, peak, first)
    }

    #[test]
    fn what_may_come_in_settles_at_what_the_disk_writes_before_writers_are_held_up() {
        let (rates, peak, first) = settle(60);
        assert!(peak * PAGE < 1_500_000_000, "never held up: {peak}");
        let last = rates.iter().rev().take(500).sum::<f64>() / 500.0;
        assert!((last / 100e6 - 1.0).abs() < 0.05, "{last}");
        // Unbounded, writers would be held up after 1.5 GB at 300 MB/s more than the disk takes: 5 s.
        let first = first.unwrap().as_secs_f64();
        assert!((4.0..6.0).contains(&first), "{first}");
    }

    #[test]
    fn a_disk_that_keeps_up_bounds_nothing() {
        let mut disk = Disk::new(PAGE);
        for step in 0..500u64 {
            let cache = PageCache { waiting: 1_000, written: 500 * step, background: 250_000, threshold: 500_000 };
            let seen = Seen { cache, received: step * 2_000_000, ..Seen::default() };
            assert_eq!(disk.look(at(20 * step), seen), None);
        }
        assert_eq!(disk.intake(), None);
    }

    #[test]
    fn what_waits_beside_the_thread_settles_and_what_comes_in_is_what_is_written() {
        let mut disk = Disk::new(PAGE);
        let (rate, room) = (30e6, 64e6);
        let (mut waiting, mut written, mut peak, mut came) = (0.0f64, 0.0f64, 0.0f64, VecDeque::new());
        // What is asked for comes 60 ms later.
        for step in 0..1_500u64 {
            came.push_back(disk.intake().map_or(125e6, |intake| (intake.as_f64() / 8.0).min(125e6)));
            let now = if came.len() > 3 { came.pop_front().unwrap() } else { 125e6 };
            // It writes in bursts.
            let out = if step % 10 < 3 { f64::min(waiting, rate / 0.3 / 50.0) } else { 0.0 };
            (waiting, written) = (waiting + now / 50.0 - out, written + out);
            peak = peak.max(waiting);
            let backlog = (waiting as u64, room as u64, written as u64);
            disk.look(at(20 * step), Seen { backlog, ..Seen::default() });
            if step > 500 {
                assert!(waiting > 0.0 && waiting < 0.6 * room, "{waiting} at {step}");
            }
        }
        assert!(peak < room, "{peak}");
        assert!((written / 30.0 / rate - 1.0).abs() < 0.05, "{written}");
    }

    #[test]
    fn hold_ups_bound_what_comes_in_and_it_is_tried_again() {
        let mut disk = Disk::new(PAGE);
        let cache = PageCache { waiting: 0, written: 0, background: 250_000, threshold: 500_000 };
        let mut now = 0;
        let mut look = |disk: &mut Disk, stalled, received| {
            now += 500;
            disk.look(at(now), Seen { cache, received, stalled: Span::from_millis(stalled), ..Seen::default() });
        };
        look(&mut disk, 0, 0);
        look(&mut disk, 200, 10_000_000);
        // 20 MB/s came through while it was held up.
        let bound = disk.intake().unwrap().as_f64() / 8.0;
        assert!((bound / 19e6 - 1.0).abs() < 0.01, "{bound}");
        look(&mut disk, 200, 20_000_000);
        assert!(disk.intake().unwrap().as_f64() / 8.0 > bound);
        // In the end it is forgotten.
        (3..40).for_each(|k| look(&mut disk, 200, k * 10_000_000));
        assert_eq!(disk.intake(), None);
    }
}
