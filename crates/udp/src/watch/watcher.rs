//! The watcher's thread: looks at the sources, as often as there is a reason to.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use inhaul_base::{Span, Time};
use inhaul_transport::{Pause, TcpFlows};
use rustix::time::{ClockId, clock_gettime};

use super::cgroup::{self, Book, Group};
use super::competitors::{self, Competition};
use super::disk::{Disk, PageCache, Seen};
use super::gaps::{Gaps, Switches};
use super::host_tcp::HostTcp;
use super::load::{Load, Window};
use super::place::Place;
use super::published::Published;
use super::quota::{Account, Bandwidth, QuotaClock};
use super::rundelay::{RunDelay, RunFile, RunTimes};
use super::score::Verdict;
use super::{Forecast, Meter, PAUSE_MIN, Score, Source};
use crate::clock::{Clock, nanos};
use crate::sys::{Switch, SwitchRing};
use crate::thread;

/// Between looks while nothing comes in ...
const REST: Span = Span::from_millis(250);
/// ... while something does and nothing is in its way ...
const CALM: Span = Span::from_millis(100);
/// ... while the disk may be, ...
const DISK: Span = Span::from_millis(20);
/// ... and while the processor may be: at least and at most, the sooner a pause is near the less.
const TENSE: (Span, Span) = (Span::from_micros(1_500), Span::from_millis(10));
/// A look is followed by a rest of so many times the processor time that it took: 2 % of a processor at most.
const REST_FOR_COST: u64 = 49;
/// The next look is after this part of the time to the next pause.
const AHEAD: u64 = 3;
/// A reason to look often lasts for so long.
const TENSION: Span = Span::from_secs(2);
/// If no source could be trusted by then, the next time is not before this.
const RESIGNATION: Span = Span::from_secs(10);
/// The host's load is taken over this long: a period of a quota, as usual.
const LOAD: Span = Span::from_millis(100);
/// Packets that waited as long as a pause, so many times in a window, are a reason to look often.
const LONG_WAITS: u64 = 2;
/// So is the use of this part of a quota.
const USED: f64 = 0.5;
/// Competitors are counted this often.
const COUNT: Span = Span::from_secs(1);
/// What a source foresees is passed on if so much of it came lately, once there were so many forecasts.
const TRUST: f64 = 0.6;
const TRUST_AFTER: u32 = 6;
/// A quota is exact, and is trusted before.
const TRUST_QUOTA: f64 = 0.3;

/// What is watched.
#[derive(Debug)]
pub struct Subject {
    /// The clock that forecasts are in.
    pub clock: Clock,
    /// What the thread tells.
    pub meter: Arc<Meter>,
    /// Whether what comes in is written to a disk by the thread.
    pub writes: bool,
    /// Whether all sources are looked at, to see what each is worth, and not only those that something may follow from.
    pub thorough: bool,
    /// Whether it is of interest what the host's own TCP takes.
    pub tcp: bool,
}

/// A watcher of the thread that has made it. It ends when this is dropped.
#[derive(Debug)]
pub struct Watch {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    seen: u64,
}

#[derive(Debug, Default)]
struct Shared {
    published: Published,
    /// What TCP takes, if that has not been fetched.
    tcp: Mutex<Option<TcpFlows>>,
    has_tcp: AtomicBool,
    stop: AtomicBool,
}

impl Watch {
    /// Begins to watch the calling thread. `None`: as many watchers of this user run on this host already as may.
    ///
    /// # Errors
    /// When there are no more threads or sockets.
    pub fn start(subject: Subject) -> io::Result<Option<Self>> {
        let Some(place) = Place::take()? else {
            return Ok(None);
        };
        let watched = rustix::thread::gettid().as_raw_nonzero().get();
        let allowed = thread::allowed_cpus().unwrap_or_default();
        let shared = Arc::new(Shared::default());
        let theirs = Arc::clone(&shared);
        let thread = Builder::new().name("inhaul-watch".to_owned()).spawn(move || {
            let _place = place;
            // Short turns, so that it is soon on. Never real time: many of these would leave nothing to whom they watch.
            let _ = thread::run_in_short_turns();
            let _ = thread::sleep_exactly();
            Watcher::new(subject, watched, allowed).run(&theirs);
        })?;
        Ok(Some(Self { shared, thread: Some(thread), seen: 0 }))
    }

    /// The forecast, if it has changed since the last call. Costs the load of a word where it has not.
    pub fn news(&mut self) -> Option<Forecast> {
        self.shared.published.news(&mut self.seen)
    }

    /// What the TCP of this host takes, if that was measured since the last call. Waits for nobody.
    pub fn tcp(&mut self) -> Option<TcpFlows> {
        if !self.shared.has_tcp.load(Ordering::Relaxed) {
            return None;
        }
        let mut tcp = self.shared.tcp.try_lock().ok()?;
        self.shared.has_tcp.store(false, Ordering::Relaxed);
        tcp.take()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // It panics on nothing that matters to who is ending.
            let _ = thread.join();
        }
    }
}

/// The processor time of the calling thread.
fn spent() -> Span {
    Span::from_nanos(nanos(clock_gettime(ClockId::ThreadCPUTime)))
}

/// How long to rest after a look that took `cost`, and that wants the next after `wait`.
fn rest(wait: Span, cost: Span) -> Span {
    wait.max(cost * REST_FOR_COST)
}

/// How things stood when a window of time began.
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
    /// What other processes have used of it.
    others: Option<Span>,
}

impl Quota {
    fn new((group, bandwidth): &(Group, Bandwidth)) -> Option<Self> {
        Some(Self { book: group.open()?, clock: QuotaClock::new(*bandwidth), others: None })
    }

    /// The account, this process having used `process` in all.
    fn account(&mut self, process: Span) -> Account {
        let (account, used) = self.book.read().unwrap_or_default();
        // What the group tells lags by a tick; what this process used is exact. Whichever is more.
        let used = used.map_or(process, |used| {
            let others = self.others.unwrap_or_default().max(used.saturating_sub(process));
            self.others = Some(others);
            process + others
        });
        Account { used, ..account }
    }
}

/// The sources and what was learnt of each.
struct Watcher {
    subject: Subject,
    watched: i32,
    allowed: Vec<usize>,
    quotas: Vec<Quota>,
    times: Option<RunFile>,
    delay: RunDelay,
    ring: Option<SwitchRing>,
    recording: bool,
    /// What the kernel's clock showed when the subject's showed zero.
    origin: u64,
    switches: Switches,
    /// Pauses by the switches, and by run delay.
    by_switch: Gaps,
    by_delay: Gaps,
    competition: Option<Competition>,
    counted: Time,
    disk: Disk,
    tcp: HostTcp,
    /// All that the thread has told of, how long it had waited by then, and how often its quota was used up.
    stalls: (Span, Span, u64),
    /// When the disk was last looked at, and what it foresaw.
    disk_seen: Time,
    disk_ahead: Option<Pause>,
    /// For how long it was the disk.
    held_up: Span,
    load: Load,
    window: Option<Began>,
    scores: [Score; Source::ALL.len()],
    tense_until: Time,
    /// Most of a quota is used, and it foretells what switches would.
    by_quota_until: Time,
    /// Nothing else is a reason to look often before this.
    resigned_until: Time,
    /// When the next look was to be, and how often quotas had been used up by the last.
    due: Time,
    stopped: u64,
    received: u64,
    looks: u64,
    last_pause: Option<Pause>,
    said: Forecast,
}

impl Watcher {
    fn new(subject: Subject, watched: i32, allowed: Vec<usize>) -> Self {
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

    fn run(mut self, shared: &Shared) {
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

    /// Takes a look, publishes what is new, and says when to look again.
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
        // To record switches costs the thread some at each, so that is done where it may tell what nothing else does.
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
        // What is near is looked at often.
        let nearest = foreseen.into_iter().flatten().map(|pause| pause.start).min();
        let ahead = nearest.map_or(TENSE.1, |start| start.since(now) / AHEAD);
        ahead.clamp(TENSE.0, TENSE.1)
    }

    /// Whether a source that sees only what others leave of the processor has earned trust.
    fn foresees(&self) -> bool {
        [Source::Switches, Source::RunDelay, Source::Competitors].into_iter().any(|source| self.trusts(source))
    }

    /// Whether the disk may be in the way.
    fn disk_is_busy(&self) -> bool {
        self.disk_ahead.is_some() || self.disk.intake().is_some()
    }

    fn intake(&self) -> Option<inhaul_base::Bitrate> {
        self.load.intake().into_iter().chain(self.disk.intake()).min()
    }

    // --- What there is to see ---------------------------------------------------------------------------------------

    /// The accounts of all groups with a quota.
    fn accounts(&mut self) -> Vec<Account> {
        if self.quotas.is_empty() {
            return Vec::new();
        }
        let process = Span::from_nanos(nanos(clock_gettime(ClockId::ProcessCPUTime)));
        self.quotas.iter_mut().map(|quota| quota.account(process)).collect()
    }

    /// Sees how loaded the host is, now and then.
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
        // Short waits are those of every host: threads of this very program have their turns, too.
        let waits = long_waits.saturating_sub(began.long_waits) >= LONG_WAITS && now >= self.resigned_until;
        if is_used || waits && now >= self.tense_until {
            self.tense_until = now + TENSION;
        }
        self.window = Some(next);
    }

    /// A stall that the thread has told of since the last look, if the disk was the cause: the thread was not waiting
    /// for its processor meanwhile, nor was its quota used up.
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
        // To have it told costs the kernel some, so that is not done at every look.
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

    /// Has the kernel record switches, or not: that costs the thread some at each.
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
            // A thread that is woken and then waits was not taken off, and the switches do not show it.
            let is_known = ended.iter().any(|known| known.start <= pause.start + pause.length);
            if !is_known {
                ended.push(pause);
            }
        }
        // Who sleeps when the quota is used up is not taken off, but the watcher was stopped as well.
        let throttled = accounts.iter().map(|account| account.throttled).sum();
        let stopped = std::mem::replace(&mut self.stopped, throttled) < throttled;
        let pause = Pause { start: self.due, length: now.since(self.due) };
        if stopped && pause.length >= PAUSE_MIN && ended.iter().all(|known| known.start + known.length < pause.start) {
            ended.push(pause);
        }
        for pause in ended {
            // The watcher may have gone on before the thread, and noted the pause already.
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

    // --- What follows from it ---------------------------------------------------------------------------------------

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
            // Nobody is counted where nobody is to be seen: to look at all threads is not cheap.
            let loadavg = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
            let many = competitors::runnable(&loadavg).is_some_and(|count| count > 2);
            let survey = || competitors::survey(Path::new("/proc"), std::process::id(), self.watched, &self.allowed);
            self.competition = many.then(survey).flatten();
        }
        let last = self.by_switch.last_end().max(self.by_delay.last_end())?;
        let usual = self.by_switch.length().or(self.by_delay.length());
        competitors::foresee(now, self.competition?, last, usual)
    }

    /// Whether a source's forecasts came, lately.
    fn trusts(&self, source: Source) -> bool {
        let precision = self.scores[source as usize].recent_precision(TRUST_AFTER);
        match source {
            Source::Quota => precision.is_none_or(|precision| precision >= TRUST_QUOTA),
            _ => precision.is_some_and(|precision| precision >= TRUST),
        }
    }

    /// The pause to tell of: of the sources that have earned trust, the one that comes first.
    fn choose(&self, foreseen: [Option<Pause>; Source::ALL.len()]) -> Option<Pause> {
        let trusted = |source: Source| self.trusts(source);
        let all = Source::ALL.into_iter().zip(foreseen);
        // The quota knows what the history of its pauses only resembles.
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

    /// Logs how good each source was.
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

/// Logs what became of a forecast, in nanoseconds.
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
    fn a_watch_ends_when_it_is_dropped_and_says_nothing_where_nothing_comes_in() {
        let clock = Clock::start();
        let subject = Subject { clock, meter: Arc::new(Meter::default()), writes: true, thorough: true, tcp: true };
        let watch = Watch::start(subject).unwrap();
        // Other tests' watchers may have all places.
        assert!(watch.is_none_or(|mut watch| watch.news().is_none()));
    }

    #[test]
    fn looks_that_cost_much_are_few() {
        let millis = Span::from_millis;
        assert_eq!(rest(millis(10), Span::from_micros(20)), millis(10));
        assert_eq!(rest(millis(10), millis(1)), millis(49), "2 % of a processor");
    }
}
