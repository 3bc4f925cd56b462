//! Hosts as places where congestion can happen: the network interface's ring, and a processor that others use too.
//!
//! gtp-2004 section 2: on lambda grids the network is no longer the bottleneck, end systems are. A packet that comes
//! in goes to the interface's ring, which is finite. The processor takes what waits there as a batch, spends its time
//! on each packet, and then calls the endpoints. While competing tasks have the processor, the ring fills and
//! overflows.

use std::collections::VecDeque;
use std::sync::Arc;

use inhaul_base::{RandomStream, Span, Time};
use inhaul_transport::Pause;
use inhaul_transport::kit::{Meter, feedback};

use crate::agenda::ComponentId;
use crate::ids::EndpointId;
use crate::interrupts::{Admission, Interrupts};
use crate::noise::{HostNoise, Thread};
use crate::packet::{Direction, Packet};
use crate::scheduler::{Monitor, Processor, SchedulerSpec};
use crate::spell::Spell;

/// Most packets that the processor takes from the ring at a time (what Linux's NAPI takes in one poll).
const BATCH_MAX: usize = 64;

/// A process with a scheduler takes no more from the ring at a time than it works on for so long, in nanoseconds.
const BATCH_NANOS: f64 = 100_000.0;

/// A host as plain data. The default takes any number of packets and never loses one.
#[derive(Clone, Debug, PartialEq)]
pub struct HostSpec {
    /// Packets a second that an otherwise idle processor can receive; `None`: any number.
    pub packet_rate: Option<f64>,
    /// Packets that the network interface's ring holds; more are lost. Where the processor is never the bottleneck
    /// (no `packet_rate`, no `tasks`) nothing waits in it.
    pub ring_packets: usize,
    /// Competing tasks.
    pub tasks: Vec<CompetingTask>,
    /// Bytes on the wire that each of its endpoints may have waiting at its interface; a sender with more waits.
    /// `None`: any number, and packets that the first link's queue does not hold are lost.
    pub send_buffer: Option<u64>,
    /// How late and how unevenly its programs run; `None`: always at once.
    pub noise: Option<Arc<HostNoise>>,
    /// The scheduler that shares its processor among tasks; `None`: only `tasks`. A host with a scheduler has neither
    /// `tasks` nor noise.
    pub scheduler: Option<Arc<SchedulerSpec>>,
}

impl Default for HostSpec {
    fn default() -> Self {
        // 512 is the common setting of interfaces.
        Self {
            packet_rate: None,
            ring_packets: 512,
            tasks: Vec::new(),
            send_buffer: None,
            noise: None,
            scheduler: None,
        }
    }
}

impl HostSpec {
    /// The fault of the numbers, if there is one.
    pub(crate) fn check(&self) -> Result<(), &'static str> {
        if self.packet_rate.is_some_and(|rate| !rate.is_finite() || rate < 1.0) {
            return Err("packet_rate must be at least one packet a second");
        }
        if self.ring_packets == 0 {
            return Err("ring_packets must be at least 1");
        }
        if self.send_buffer == Some(0) {
            return Err("send_buffer must be at least 1");
        }
        let task_is_bad = |task: &CompetingTask| !(0.0..=1.0).contains(&task.share);
        if self.tasks.iter().any(task_is_bad) {
            return Err("a task's share must be from 0 to 1");
        }
        if self.tasks.iter().any(|task| task.on.mean() + task.off.mean() < Span::from_nanos(1_000)) {
            return Err("a task's spells must together last a microsecond at least");
        }
        if self.scheduler.is_some() && (self.noise.is_some() || !self.tasks.is_empty()) {
            return Err("a host with a scheduler has neither noise nor tasks beside the scheduler's");
        }
        self.noise.as_ref().map_or(Ok(()), |noise| noise.check())?;
        self.scheduler.as_ref().map_or(Ok(()), |scheduler| scheduler.check())
    }
}

/// A task that takes the processor for spells: on, off, on, ...
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CompetingTask {
    /// Part of the processor that it has while it is on, 0 to 1. The parts of tasks that are on together add up; the
    /// rest is the endpoints'. If no rest is left, they are not called at all, not even for their timers.
    pub share: f64,
    /// How long it is on.
    pub on: Spell,
    /// How long it is off.
    pub off: Spell,
    /// When it is first on.
    pub start: Time,
}

/// Arrivals at a host. Counters run from the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostStats {
    /// Packets that came to the host.
    pub arrived_packets: u64,
    /// Of these, lost because the ring was full: end-system loss.
    pub ring_drops: u64,
    /// Lost because the thread of a host with noise had not read earlier datagrams.
    pub socket_drops: u64,
    /// Most packets that waited in the ring.
    pub ring_packets_max: usize,
    /// Batches that the processor has handed to endpoints.
    pub batches: u64,
    /// Time that the processor had nothing left for the endpoints.
    pub taken: Span,
}

#[derive(Debug)]
struct RunningTask {
    task: CompetingTask,
    on: bool,
    switch: Time,
    random: RandomStream,
}

/// A host while it runs.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) component: ComponentId,
    pub(crate) stats: HostStats,
    /// Endpoints by port.
    pub(crate) endpoints: Vec<EndpointId>,
    /// Endpoints whose deadline passed while they had no processor.
    pub(crate) postponed: Vec<EndpointId>,
    /// Directions of control streams with data that its process has not read.
    pub(crate) unread: Vec<Direction>,
    /// What runs its endpoints, if it has noise.
    pub(crate) thread: Option<Box<Thread>>,
    /// The limit of each endpoint's data waiting at the interface.
    pub(crate) send_buffer: Option<u64>,
    /// The scheduler's processor, if it has a scheduler.
    processor: Option<Box<Processor>>,
    /// What packets cost its kernel, if it has a scheduler.
    interrupts: Option<Box<Interrupts>>,
    /// Its process waits for memory until then, even if it has work.
    pages_until: Option<Time>,
    /// Which pauses its endpoints are told of, the arrival rate, and the length of the last packet.
    monitor: Monitor,
    incoming: Meter,
    packet_bytes: u64,
    /// Packets that its kernel found no room for when it looked at the interface.
    pub(crate) dropped: Vec<Packet>,
    ring: VecDeque<Packet>,
    ring_packets: usize,
    /// The processor's current work.
    batch: Vec<Packet>,
    /// Time that a packet takes of the whole processor, in nanoseconds.
    packet_nanos: f64,
    /// Time that the batch still takes of the whole processor, in nanoseconds, as of `since`.
    left_nanos: f64,
    since: Time,
    /// Part of the processor that tasks leave.
    speed: f64,
    tasks: Vec<RunningTask>,
    /// Whether packets go straight to endpoints.
    at_once: bool,
}

impl Host {
    /// `random` has a stream for each of its tasks, and `scheduling` is for those of its scheduler.
    pub(crate) fn new(
        spec: &HostSpec,
        component: ComponentId,
        mut random: impl FnMut(usize) -> RandomStream,
        scheduling: RandomStream,
    ) -> Self {
        let run = |(k, task): (usize, &CompetingTask)| RunningTask {
            task: *task,
            on: false,
            switch: task.start,
            random: random(k),
        };
        Self {
            component,
            stats: HostStats::default(),
            endpoints: Vec::new(),
            postponed: Vec::new(),
            unread: Vec::new(),
            thread: None,
            send_buffer: spec.send_buffer,
            processor: spec.scheduler.as_ref().map(|scheduler| Box::new(Processor::new(scheduler, scheduling))),
            interrupts: spec.scheduler.as_ref().map(|spec| Box::new(Interrupts::new(spec.interrupts, spec.tick()))),
            pages_until: None,
            monitor: spec.scheduler.as_ref().map_or(Monitor::On, |spec| spec.monitor),
            incoming: Meter::new(Time::ZERO),
            packet_bytes: 0,
            dropped: Vec::new(),
            ring: VecDeque::new(),
            ring_packets: spec.ring_packets,
            batch: Vec::new(),
            packet_nanos: spec.packet_rate.map_or(0.0, |rate| 1e9 / rate),
            left_nanos: 0.0,
            since: Time::ZERO,
            // A process with a scheduler sleeps until there is something to do.
            speed: if spec.scheduler.is_some() { 0.0 } else { 1.0 },
            tasks: spec.tasks.iter().enumerate().map(run).collect(),
            at_once: spec.packet_rate.is_none()
                && spec.tasks.is_empty()
                && spec.noise.is_none()
                && spec.scheduler.is_none(),
        }
    }

    /// Whether packets go straight to endpoints.
    pub(crate) fn takes_at_once(&self) -> bool {
        self.at_once
    }

    /// Whether its processor is shared by a scheduler.
    pub(crate) fn has_scheduler(&self) -> bool {
        self.processor.is_some()
    }

    /// Whether competing tasks have left nothing of the processor. With a scheduler also: whether its process sleeps.
    pub(crate) fn is_halted(&self) -> bool {
        self.speed <= 0.0
    }

    /// A packet comes in. It goes to the ring, or is handed back to be dropped when the ring is full.
    pub(crate) fn arrive(&mut self, now: Time, packet: Packet) -> Option<Packet> {
        self.stats.arrived_packets += 1;
        let packet = if self.interrupts.is_some() { self.interrupt(now, packet) } else { Admission::Taken(packet) };
        match packet {
            Admission::Taken(packet) => self.keep(now, packet),
            Admission::Waits => None,
            Admission::Lost(packet) => {
                self.stats.ring_drops += 1;
                Some(packet)
            }
        }
    }

    fn interrupt(&mut self, now: Time, packet: Packet) -> Admission {
        self.work(now);
        self.packet_bytes = u64::from(packet.payload_bytes());
        self.incoming.add(now, self.packet_bytes);
        let slower = self.slower();
        let Some(interrupts) = &mut self.interrupts else { return Admission::Taken(packet) };
        let came = interrupts.arrive(now, packet, slower);
        if matches!(came, Admission::Taken(_)) {
            interrupts.take(now, self.ring.len() < self.ring_packets, slower);
        }
        came
    }

    /// The kernel puts a packet into the ring, or hands it back.
    fn keep(&mut self, now: Time, packet: Packet) -> Option<Packet> {
        if self.ring.len() >= self.ring_packets {
            self.stats.ring_drops += 1;
            return Some(packet);
        }
        self.ring.push_back(packet);
        self.stats.ring_packets_max = self.stats.ring_packets_max.max(self.ring.len());
        self.wake(now);
        self.begin_batch(now);
        None
    }

    /// The kernel examines the packets that have waited in the interface.
    fn look(&mut self, now: Time) {
        let slower = self.slower();
        let Some(interrupts) = &mut self.interrupts else { return };
        for packet in interrupts.look(now, slower) {
            if let Some(interrupts) = &mut self.interrupts {
                interrupts.take(now, self.ring.len() < self.ring_packets, slower);
            }
            let dropped = self.keep(now, packet);
            self.dropped.extend(dropped);
        }
    }

    /// A segment of a control stream comes, and costs the kernel as much as a packet.
    pub(crate) fn take_segment(&mut self, now: Time) {
        self.stats.arrived_packets += 1;
        self.work(now);
        let slower = self.slower();
        if let Some(interrupts) = &mut self.interrupts {
            interrupts.take(now, true, slower);
        }
    }

    /// How many times slower tasks make what reads memory.
    fn slower(&self) -> f64 {
        self.processor.as_ref().map_or(1.0, |processor| 1.0 / processor.speed())
    }

    /// The process of the endpoints has something to do: returns whether it can do it now.
    pub(crate) fn wake(&mut self, now: Time) -> bool {
        let may_wake = self.pages_until.is_none();
        if self.processor.as_ref().is_some_and(|processor| may_wake && !processor.is_awake()) {
            self.work(now);
            if let Some(processor) = &mut self.processor {
                processor.wake(now);
            }
            self.take_speed(now);
        }
        !self.is_halted()
    }

    /// The process sleeps if it has nothing to do.
    pub(crate) fn rest(&mut self, now: Time) {
        let waits = !self.ring.is_empty() || !self.postponed.is_empty() || !self.unread.is_empty();
        let is_idle = self.batch.is_empty() && !waits;
        if let Some(processor) = self.processor.as_mut().filter(|processor| is_idle && processor.runs()) {
            processor.fall_asleep(now);
            self.take_speed(now);
        }
    }

    /// The host's foreseen pause, if that is new.
    pub(crate) fn news(&mut self) -> Option<Pause> {
        self.processor.as_mut()?.news()
    }

    /// Whether endpoints are told of a pause. The ring is counted in packets as long as the last.
    pub(crate) fn pays(&self, pause: Pause) -> bool {
        let room = self.ring_packets as u64 * self.packet_bytes;
        self.monitor == Monitor::On || feedback::pays(pause.length, self.incoming.rate(), room)
    }

    /// Sets the present speed of the process; its work until now is accounted for.
    fn take_speed(&mut self, now: Time) {
        self.work(now);
        if let Some(processor) = &self.processor {
            self.speed = if processor.runs() { processor.speed() } else { 0.0 };
        }
    }

    /// When the batch is done, or a task begins or ends.
    pub(crate) fn due(&self) -> Option<Time> {
        let busy = !self.batch.is_empty() && self.speed > 0.0;
        let ahead = self.interrupts.as_ref().map_or(0.0, |interrupts| interrupts.ahead_nanos());
        let done = busy.then(|| self.since + Span::from_nanos((ahead + self.left_nanos / self.speed).ceil() as u64));
        let switch = self.processor.as_ref().and_then(|processor| processor.due());
        let look = self.interrupts.as_ref().and_then(|interrupts| interrupts.due());
        self.tasks
            .iter()
            .map(|running| running.switch)
            .chain(done)
            .chain(switch)
            .chain(look)
            .chain(self.pages_until)
            .min()
    }

    /// The processor does its work up to `now`.
    fn work(&mut self, now: Time) {
        let elapsed = now.since(self.since);
        let mut nanos = elapsed.as_nanos() as f64;
        if let Some(interrupts) = &mut self.interrupts {
            nanos -= interrupts.work(nanos);
        }
        self.left_nanos = (self.left_nanos - nanos * self.speed).max(0.0);
        if self.is_halted() && self.processor.as_ref().is_none_or(|processor| processor.is_awake()) {
            self.stats.taken = self.stats.taken + elapsed;
        }
        self.since = now;
    }

    /// Lets time pass up to `now`: tasks come and go, and the batch gets on. A batch that is done is moved to `done`.
    pub(crate) fn advance(&mut self, now: Time, done: &mut Vec<Packet>) {
        self.work(now);
        let mut read = 0;
        if !self.batch.is_empty() && self.left_nanos < 0.5 && !self.is_halted() {
            self.stats.batches += 1;
            read = self.batch.len();
            done.append(&mut self.batch);
        }
        if let Some(processor) = &mut self.processor {
            processor.advance(now);
            self.page(now, read);
            self.take_speed(now);
            self.look(now);
            self.begin_batch(now);
            return;
        }
        for running in &mut self.tasks {
            // A spell may be shorter than the clock's step.
            while running.switch <= now {
                running.on = !running.on;
                let spell = if running.on { running.task.on } else { running.task.off };
                running.switch += spell.draw(&mut running.random);
            }
        }
        let taken: f64 = self.tasks.iter().filter(|running| running.on).map(|running| running.task.share).sum();
        // The rest after shares like 0.7 and 0.3 is only a rounding error.
        self.speed = if taken > 1.0 - 1e-9 { 0.0 } else { 1.0 - taken };
        self.begin_batch(now);
    }

    /// The process waits for memory for its read data, or has got it.
    fn page(&mut self, now: Time, read: usize) {
        let Some(processor) = &mut self.processor else { return };
        if self.pages_until.is_some_and(|until| until <= now) {
            self.pages_until = None;
            processor.wake(now);
        }
        let wait = processor.paging() * read as u64;
        if wait > Span::ZERO && processor.runs() {
            processor.fall_asleep(now);
            self.pages_until = Some(now + wait);
        }
    }

    /// Packets that are taken at a time. A process hands on the read data: it does not keep it for long.
    fn batch_max(&self) -> usize {
        if self.processor.is_none() {
            return BATCH_MAX;
        }
        let paging = self.processor.as_ref().map_or(0, |processor| processor.paging().as_nanos()) as f64;
        ((BATCH_NANOS / (self.packet_nanos / self.speed + paging)) as usize).clamp(1, BATCH_MAX)
    }

    /// The processor takes what waits, if it is free.
    fn begin_batch(&mut self, now: Time) {
        if !self.batch.is_empty() || self.ring.is_empty() || self.is_halted() {
            return;
        }
        self.work(now);
        let count = self.ring.len().min(self.batch_max());
        self.batch.extend(self.ring.drain(..count));
        self.left_nanos = self.packet_nanos * count as f64;
    }

    /// Bytes of memory that the host takes, without its packets' datagrams.
    pub(crate) fn memory_bytes(&self) -> usize {
        size_of::<Self>()
            + (self.ring.capacity() + self.batch.capacity()) * size_of::<Packet>()
            + self.tasks.capacity() * size_of::<RunningTask>()
            + (self.endpoints.capacity() + self.postponed.capacity()) * size_of::<EndpointId>()
            + self.thread.as_ref().map_or(0, |thread| thread.memory_bytes())
            + self.interrupts.as_ref().map_or(0, |interrupts| interrupts.memory_bytes())
    }
}
