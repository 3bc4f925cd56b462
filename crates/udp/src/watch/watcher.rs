//! The watcher's thread: looks at the sources, more often if there is a reason.

use std::path::Path;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::Duration;

use inhaul_base::{Span, Time};
use inhaul_transport::Pause;
use rustix::time::{ClockId, clock_gettime};

use super::cgroup::{self, Book, Group};
use super::competitors::{self, Competition};
use super::disk::{Disk, PageCache, Seen};
use super::gaps::{Gaps, Switches};
use super::host_tcp::HostTcp;
use super::load::{Load, Window};
use super::quota::{Account, Bandwidth, QuotaClock};
use super::rundelay::{RunDelay, RunFile, RunTimes};
use super::score::Verdict;
use super::subject::{Shared, Subject};
use super::{Forecast, PAUSE_MIN, Score, Source};
use crate::clock::nanos;
use crate::sys::{Switch, SwitchRing};
use crate::thread;

/// Time between looks while nothing comes in ...
const REST: Span = Span::from_millis(250);
/// ... while data comes in and nothing is in its way ...
const CALM: Span = Span::from_millis(100);
/// ... while the disk may be in its way ...
const DISK: Span = Span::from_millis(20);
/// ... and while the processor may be: least and most. The nearer a pause, the shorter.
const TENSE: (Span, Span) = (Span::from_micros(1_500), Span::from_millis(10));
/// After a look the watcher rests for this many times the look's processor time: looks take at most 2 % of a processor.
const REST_FOR_COST: u64 = 49;
/// The time to the next look is the time to the next pause divided by this.
const AHEAD: u64 = 3;
/// How long a reason to look often holds.
const TENSION: Span = Span::from_secs(2);
/// If no source earned trust by then, look often again only after this time.
const RESIGNATION: Span = Span::from_secs(10);
/// The host's load is measured over this time: a quota's usual period.
const LOAD: Span = Span::from_millis(100);
/// This many packets in a window that waited as long as a pause are a reason to look often.
const LONG_WAITS: u64 = 2;
/// So is the use of at least this part of a quota.
const USED: f64 = 0.5;
/// Time between counts of competitors.
const COUNT: Span = Span::from_secs(1);
/// A source's forecasts are passed on if at least this part of the last ones came, after at least this many.
const TRUST: f64 = 0.6;
const TRUST_AFTER: u32 = 6;
/// A quota's forecasts are exact, so it is trusted earlier.
const TRUST_QUOTA: f64 = 0.3;

/// The processor time of the calling thread.
fn spent() -> Span {
    Span::from_nanos(nanos(clock_gettime(ClockId::ThreadCPUTime)))
}

/// The rest after a look that took `cost`, and that asks for the next one after `wait`.
fn rest(wait: Span, cost: Span) -> Span {
    wait.max(cost * REST_FOR_COST)
}

/// The counters at the start of a window.
struct Began {
    at: Time,
    received: u64,
    messages: u64,
    long_waits: u64,
    dropped: u64,
    times: RunTimes,
    used: Vec<Span>,
}

/// A group with a quota.
struct Quota {
    book: Book,
    clock: QuotaClock,
    /// The time that other processes have used of it.
    others: Option<Span>,
}

impl Quota {
    fn new((group, bandwidth): &(Group, Bandwidth)) -> Option<Self> {
        Some(Self { book: group.open()?, clock: QuotaClock::new(*bandwidth), others: None })
    }

    /// The account, given the time that this process has used in all.
    fn account(&mut self, process: Span) -> Account {
        let (account, used) = self.book.read().unwrap_or_default();
        // The group's count lags by a tick, this process's own is exact. Take the larger one.
        let used = used.map_or(process, |used| {
            let others = self.others.unwrap_or_default().max(used.saturating_sub(process));
            self.others = Some(others);
            process + others
        });
        Account { used, ..account }
    }
}

/// The sources, and the state of each.
pub(super) struct Watcher {
    subject: Subject,
    watched: i32,
    allowed: Vec<usize>,
    quotas: Vec<Quota>,
    times: Option<RunFile>,
    delay: RunDelay,
    ring: Option<SwitchRing>,
    recording: bool,
    /// The kernel's clock at zero of the subject's clock.
    origin: u64,
    switches: Switches,
    /// Pauses by switches, and by run delay.
    by_switch: Gaps,
    by_delay: Gaps,
    competition: Option<Competition>,
    counted: Time,
    disk: Disk,
    tcp: HostTcp,
    /// The sum of the thread's stalls, its wait by then, and how often its quota had been used up.
    stalls: (Span, Span, u64),
    /// When the disk was last looked at, and its forecast.
    disk_seen: Time,
    disk_ahead: Option<Pause>,
    /// How long the disk has held the thread up.
    held_up: Span,
    load: Load,
    window: Option<Began>,
    scores: [Score; Source::ALL.len()],
    tense_until: Time,
    /// Until then most of a quota counts as used. Its forecasts stand in for those of switches, which are not recorded.
    by_quota_until: Time,
    /// Before this, waits are no reason to look often.
    resigned_until: Time,
    /// When the next look was due, and how often quotas had been used up by the last one.
    due: Time,
    stopped: u64,
    received: u64,
    looks: u64,
    last_pause: Option<Pause>,
    said: Forecast,
}

impl Watcher {
    pub(super) fn new(subject: Subject, watched: i32, allowed: Vec<usize>) -> Self {
        let quotas = cgroup::with_quota(Path::new("/proc/self"));
        let origin = nanos(clock_gettime(ClockId::Monotonic)).saturating_sub(subject.clock.now().as_nanos());
        Self {
            watched,
            allowed,
            quotas: quotas.iter().filter_map(Quota::new).collect(),
            times: RunFile::of_thread(watched).ok(),
            delay: RunDelay::default(),
            ring: SwitchRing::of_thread(watched).ok(),
            recording: false,
            origin,
            switches: Switches::default(),
            by_switch: Gaps::default(),
            by_delay: Gaps::default(),
            competition: None,
            counted: Time::ZERO,
            disk: Disk::new(rustix::param::page_size() as u64),
            tcp: HostTcp::default(),
            stalls: (Span::ZERO, Span::ZERO, 0),
            disk_seen: Time::ZERO,
            disk_ahead: None,
            held_up: Span::ZERO,
            load: Load::default(),
            window: None,
            scores: Default::default(),
            tense_until: Time::ZERO,
            by_quota_until: Time::ZERO,
            resigned_until: Time::ZERO,
            due: Time::ZERO,
            stopped: 0,
            received: 0,
            looks: 0,
            last_pause: None,
            said: Forecast::default(),
            subject,
        }
    }

    pub(super) fn run(mut self, shared: &Shared) {
        while !shared.stop.load(Ordering::Relaxed) {
            let now = self.subject.clock.now();
            let before = spent();
            let wait = self.look(now, shared);
            let wait = rest(wait, spent().saturating_sub(before));
            self.due = now + wait;
            std::thread::park_timeout(Duration::from_nanos(wait.as_nanos()));
        }
        self.report();
    }

    /// Takes a look, publishes a new forecast, and returns the time until the next look.
    fn look(&mut self, now: Time, shared: &Shared) -> Span {
        let received = self.subject.meter.received();
        if received == self.received && now >= self.tense_until {
            self.record(false);
            self.publish(Forecast::default(), shared);
            return REST;
        }
        self.received = received;
        self.looks += 1;
        if self.subject.tcp
            && let Some(flows) = self.tcp.look(now)
        {
            *shared.tcp.lock().unwrap_or_else(PoisonError::into_inner) = Some(flows);
            shared.has_tcp.store(true, Ordering::Relaxed);
        }
        let times = self.times.as_ref().and_then(RunFile::read).unwrap_or_default();
        let accounts = self.accounts();
        self.take_window(now, received, times, &accounts);
        let stall = self.take_stall(times, &accounts);
        let disk = self.look_at_disk(now, received, stall);
        if now >= self.tense_until {
            if self.recording && !self.foresees() {
                self.resigned_until = now + RESIGNATION;
            }
            self.record(false);
            self.publish(Forecast { pause: None, intake: self.intake(), scarce: self.load.is_scarce(now) }, shared);
            return if self.disk_is_busy() { DISK } else { CALM };
        }
        // Each recorded switch costs the thread time, so record them only if no other source tells the same.
        let all = self.subject.thorough || now >= self.by_quota_until;
        self.record(all);
        self.take_pauses(now, times, &accounts);
        let mut foreseen = [self.foresee_quota(now, &accounts), None, None, None, disk];
        if all {
            foreseen[Source::Switches as usize] = self.by_switch.next(now);
            foreseen[Source::RunDelay as usize] = self.by_delay.next(now);
            foreseen[Source::Competitors as usize] = self.foresee_competitors(now);
        }
        for (source, pause) in Source::ALL.into_iter().zip(foreseen) {
            self.scores[source as usize].foresee(now, pause, &mut |verdict| tell(source, verdict));
        }
        let pause = self.choose(foreseen);
        self.publish(Forecast { pause, intake: self.intake(), scarce: self.load.is_scarce(now) }, shared);
        // Look often if a pause is near.
        let nearest = foreseen.into_iter().flatten().map(|pause| pause.start).min();
        let ahead = nearest.map_or(TENSE.1, |start| start.since(now) / AHEAD);
        ahead.clamp(TENSE.0, TENSE.1)
    }

    /// Whether a source that sees only other threads' effects has earned trust.
    fn foresees(&self) -> bool {
        [Source::Switches, Source::RunDelay, Source::Competitors].into_iter().any(|source| self.trusts(source))
    }

    /// Whether the disk may hold the thread up.
    fn disk_is_busy(&self) -> bool {
        self.disk_ahead.is_some() || self.disk.intake().is_some()
    }

    fn intake(&self) -> Option<inhaul_base::Bitrate> {
        self.load.intake().into_iter().chain(self.disk.intake()).min()
    }

    // --- Measurements -----------------------------------------------------------------------------------------------

    /// The accounts of all groups with a quota.
    fn accounts(&mut self) -> Vec<Account> {
        if self.quotas.is_empty() {
            return Vec::new();
        }
        let process = Span::from_nanos(nanos(clock_gettime(ClockId::ProcessCPUTime)));
        self.quotas.iter_mut().map(|quota| quota.account(process)).collect()
    }

    /// Measures the host's load, once a window.
    fn take_window(&mut self, now: Time, received: u64, times: RunTimes, accounts: &[Account]) {
        let used: Vec<Span> = accounts.iter().map(|account| account.used).collect();
        let meter = &self.subject.meter;
        let (messages, long_waits, dropped) = (meter.messages(), meter.long_waits(), meter.dropped());
        let next = Began { at: now, received, messages, long_waits, dropped, times, used };
        let Some(began) = &self.window else {
            self.window = Some(next);
            return;
        };
        let length = now.since(began.at);
        if length < LOAD {
            return;
        }
        let quotas = self.quotas.iter().zip(&next.used).zip(&began.used);
        let part = |bandwidth: Bandwidth, used: Span| used.as_secs_f64() / bandwidth.processors().max(1e-9);
        let quota = quotas
            .map(|((quota, used), before)| (quota.clock.bandwidth, used.saturating_sub(*before)))
            .max_by(|(a, used_a), (b, used_b)| part(*a, *used_a).total_cmp(&part(*b, *used_b)));
        let spent = RunTimes {
            ran: times.ran.saturating_sub(began.times.ran),
            waited: times.waited.saturating_sub(began.times.waited),
        };
        let window = Window {
            length,
            received: received.saturating_sub(began.received),
            messages: messages.saturating_sub(began.messages),
            dropped: dropped.saturating_sub(began.dropped),
            times: spent,
            quota,
        };
        self.load.on_window(now, window);
        let seconds = length.as_secs_f64();
        let is_used = quota.is_some_and(|(bandwidth, used)| part(bandwidth, used) >= USED * seconds);
        if is_used {
            self.by_quota_until = now + TENSION;
        }
        // Every host has short waits: this program's own threads take turns, too.
        let waits = long_waits.saturating_sub(began.long_waits) >= LONG_WAITS && now >= self.resigned_until;
        if is_used || waits && now >= self.tense_until {
            self.tense_until = now + TENSION;
        }
        self.window = Some(next);
    }

    /// A stall since the last look, if the disk was the cause: the thread was not waiting for its processor then, and
    /// its quota was not used up.
    fn take_stall(&mut self, times: RunTimes, accounts: &[Account]) -> Option<Pause> {
        let (all, start, length) = self.subject.meter.stalls();
        let throttled = accounts.iter().map(|account| account.throttled).sum();
        let (stalls, waited, stopped) = std::mem::replace(&mut self.stalls, (all, times.waited, throttled));
        let waited = times.waited.saturating_sub(waited);
        let stalled = all.saturating_sub(stalls);
        let by_disk = stalled > waited * 2 && throttled == stopped;
        if by_disk {
            self.held_up = self.held_up + stalled;
        }
        by_disk.then_some(Pause { start, length })
    }

    fn look_at_disk(&mut self, now: Time, received: u64, stall: Option<Pause>) -> Option<Pause> {
        if !self.subject.writes {
            return None;
        }
        if let Some(stall) = stall {
            self.disk.note_stall(stall.length);
            self.scores[Source::Disk as usize].came(stall, &mut |verdict| tell(Source::Disk, verdict));
            log::trace!("stall {} {}", stall.start.as_nanos(), stall.length.as_nanos());
        }
        // The kernel has to sum this up, so do not ask at every look.
        let often = stall.is_some() || self.disk_is_busy();
        if now.since(self.disk_seen) < if often { DISK } else { CALM } {
            return self.disk_ahead.filter(|pause| pause.start > now);
        }
        self.disk_seen = now;
        let cache = PageCache::parse(&std::fs::read_to_string("/proc/vmstat").ok()?)?;
        self.disk_ahead =
            self.disk.look(now, Seen { cache, received, stalled: self.held_up, backlog: self.subject.meter.backlog() });
        self.disk_ahead
    }

    /// Turns the kernel's record of switches on or off: each switch costs the thread time.
    fn record(&mut self, on: bool) {
        if self.recording != on {
            self.recording = on;
            let failed = self.ring.as_ref().is_some_and(|ring| ring.record(on).is_err());
            if failed {
                self.ring = None;
            }
            self.switches = Switches::default();
            self.by_switch.clear();
            self.by_delay.clear();
        }
    }

    /// Finds the pauses that have ended since the last look.
    fn take_pauses(&mut self, now: Time, times: RunTimes, accounts: &[Account]) {
        let origin = self.origin;
        let time = |at: u64| Time::from_nanos(at.saturating_sub(origin));
        let mut ended = Vec::new();
        let switches = &mut self.switches;
        if let Some(ring) = &mut self.ring {
            ring.drain(&mut |switch: Switch| {
                if let Some((from, to)) = switches.on(switch) {
                    ended.push(Pause { start: time(from), length: time(to).since(time(from)) });
                }
            });
        }
        for pause in &ended {
            self.by_switch.push(*pause);
        }
        if let Some(pause) = self.delay.look(now, times) {
            self.by_delay.push(pause);
            // A thread that is woken and then waits was not preempted, so its switches do not show the wait.
            let is_known = ended.iter().any(|known| known.start <= pause.start + pause.length);
            if !is_known {
                ended.push(pause);
            }
        }
        // A thread that sleeps when the quota is used up is not preempted either, but the watcher was stopped as well.
        let throttled = accounts.iter().map(|account| account.throttled).sum();
        let stopped = std::mem::replace(&mut self.stopped, throttled) < throttled;
        let pause = Pause { start: self.due, length: now.since(self.due) };
        if stopped && pause.length >= PAUSE_MIN && ended.iter().all(|known| known.start + known.length < pause.start) {
            ended.push(pause);
        }
        for pause in ended {
            // The watcher may have run before the thread, and noted the pause already.
            if self.last_pause.is_some_and(|last| pause.start < last.start + last.length) {
                continue;
            }
            self.last_pause = Some(pause);
            log::trace!("pause {} {}", pause.start.as_nanos(), pause.length.as_nanos());
            for source in Source::ALL.into_iter().filter(|source| *source != Source::Disk) {
                self.scores[source as usize].came(pause, &mut |verdict| tell(source, verdict));
            }
            if self.subject.thorough || self.foresees() {
                self.tense_until = now + TENSION;
            }
        }
    }

    // --- Forecasts --------------------------------------------------------------------------------------------------

    fn foresee_quota(&mut self, now: Time, accounts: &[Account]) -> Option<Pause> {
        let pauses = self.quotas.iter_mut().zip(accounts).filter_map(|(quota, account)| {
            let pause = quota.clock.look(now, *account);
            pause.filter(|_| quota.clock.is_near())
        });
        pauses.min_by_key(|pause| pause.start)
    }

    fn foresee_competitors(&mut self, now: Time) -> Option<Pause> {
        if now.since(self.counted) >= COUNT {
            self.counted = now;
            // Looking at all threads is expensive, so count only if others are runnable.
            let loadavg = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
            let many = competitors::runnable(&loadavg).is_some_and(|count| count > 2);
            let survey = || competitors::survey(Path::new("/proc"), std::process::id(), self.watched, &self.allowed);
            self.competition = many.then(survey).flatten();
        }
        let last = self.by_switch.last_end().max(self.by_delay.last_end())?;
        let usual = self.by_switch.length().or(self.by_delay.length());
        competitors::foresee(now, self.competition?, last, usual)
    }

    /// Whether the source's last forecasts came.
    fn trusts(&self, source: Source) -> bool {
        let precision = self.scores[source as usize].recent_precision(TRUST_AFTER);
        match source {
            Source::Quota => precision.is_none_or(|precision| precision >= TRUST_QUOTA),
            _ => precision.is_some_and(|precision| precision >= TRUST),
        }
    }

    /// The first pause among the forecasts of trusted sources.
    fn choose(&self, foreseen: [Option<Pause>; Source::ALL.len()]) -> Option<Pause> {
        let trusted = |source: Source| self.trusts(source);
        let all = Source::ALL.into_iter().zip(foreseen);
        // The quota is exact where the history of its pauses is approximate.
        let quota = foreseen[Source::Quota as usize].filter(|_| trusted(Source::Quota));
        quota.or_else(|| {
            let pauses = all.filter(|(source, _)| *source != Source::Quota && trusted(*source));
            pauses.filter_map(|(_, pause)| pause).filter(|pause| pause.length >= PAUSE_MIN).min_by_key(|p| p.start)
        })
    }

    fn publish(&mut self, forecast: Forecast, shared: &Shared) {
        if forecast != self.said {
            self.said = forecast;
            shared.published.set(forecast);
        }
    }

    /// Logs each source's score.
    fn report(&self) {
        log::debug!("the watcher took {:.1} ms of processor", thread::cpu_time().as_millis_f64());
        log::debug!("the watcher looked {} times", self.looks);
        for (source, score) in Source::ALL.into_iter().zip(&self.scores) {
            if score.actual + score.foreseen > 0 {
                let mean = |sum: Span| sum.as_millis_f64() / score.right.max(1) as f64;
                log::debug!(
                    "foresight by {}: {} of {} forecasts came, {} of {} pauses were foreseen; wrong by {:.2} ms in \
                     start and {:.2} ms in length, of {:.2} ms",
                    source.name(),
                    score.right,
                    score.foreseen,
                    score.caught,
                    score.actual,
                    mean(score.start_error),
                    mean(score.length_error),
                    mean(score.length),
                );
            }
        }
    }
}

/// Logs the outcome of a forecast, in nanoseconds.
fn tell(source: Source, verdict: Verdict) {
    match verdict {
        Verdict::Right(foreseen, actual) => log::trace!(
            "{} right {} {} {} {}",
            source.name(),
            foreseen.start.as_nanos(),
            foreseen.length.as_nanos(),
            actual.start.as_nanos(),
            actual.length.as_nanos()
        ),
        Verdict::Wrong(foreseen) => {
            log::trace!("{} wrong {} {}", source.name(), foreseen.start.as_nanos(), foreseen.length.as_nanos());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_that_cost_much_are_few() {
        let millis = Span::from_millis;
        assert_eq!(rest(millis(10), Span::from_micros(20)), millis(10));
        assert_eq!(rest(millis(10), millis(1)), millis(49), "2 % of a processor");
    }
}
