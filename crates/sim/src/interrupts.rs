//! The kernel's processor time for packets on a host with a scheduler, before its process sees them.
//!
//! rbudp-plus-2006 has one processor that does everything, and does not say how its kernel takes packets from the
//! interface. So the parameters here are those of Linux 2.6: interrupts that wait for more packets, and NAPI, which
//! leaves packets in the interface's ring when it has taken its budget.

use std::collections::VecDeque;

use inhaul_base::{Span, Time};

use crate::packet::Packet;

/// Most descriptors of an interface, and most packets of a budget.
const COUNT_MAX: usize = 1 << 20;

/// What packets cost, as plain data. The default costs nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct InterruptSpec {
    /// Processor time that the kernel takes for each packet from the running task, also for a packet that finds the
    /// socket's buffer full.
    pub packet: Span,
    /// The same for a packet that finds the buffer full, if that is not as much.
    pub full: Option<Span>,
    /// Processor time of each interrupt, beside its packets.
    pub each: Span,
    /// How long an interrupt waits for more packets after the first; zero: each packet interrupts.
    pub coalesce: Span,
    /// The part of the tasks' `memory` that makes the kernel slower, too: 0 none, 1 as much as the process.
    pub memory: f64,
    /// Packets that the interface holds for the kernel. What finds them all in use is lost, and costs nothing. `None`:
    /// any number.
    pub descriptors: Option<usize>,
    /// Packets that the kernel takes without a break, as NAPI does; then a task runs until the next tick, and packets
    /// wait in the interface. `None`: any number.
    pub budget: Option<usize>,
    /// Whether another processor does all this.
    pub elsewhere: bool,
}

impl InterruptSpec {
    /// The fault of the numbers, if there is one.
    pub(crate) fn check(&self) -> Result<(), &'static str> {
        let most = Span::from_millis(1);
        if self.packet > most || self.each > most || self.full.is_some_and(|full| full > most) {
            return Err("a packet's interrupt takes at most a millisecond");
        }
        if self.coalesce > Span::from_secs(1) {
            return Err("an interrupt waits for a second at most");
        }
        if !(0.0..=1_000.0).contains(&self.memory) {
            return Err("memory is from 0 to 1000");
        }
        let counts = [self.descriptors, self.budget];
        if counts.into_iter().flatten().any(|count| !(1..=COUNT_MAX).contains(&count)) {
            return Err("descriptors and budget are from 1 to 1048576");
        }
        Ok(())
    }
}

/// What becomes of a packet that comes to the interface.
pub(crate) enum Admission {
    /// The kernel takes it.
    Taken(Packet),
    /// It waits in the interface.
    Waits,
    /// There is no room in the interface.
    Lost(Packet),
}

/// The kernel's work for packets while it runs.
#[derive(Debug)]
pub(crate) struct Interrupts {
    spec: InterruptSpec,
    tick: Span,
    /// Its remaining work, in nanoseconds.
    left_nanos: f64,
    /// Since when it has had something to do.
    busy_since: Option<Time>,
    /// It has used up its budget: a task runs until then.
    breaks_until: Option<Time>,
    /// Packets in the interface that it has not looked at, and when it will.
    waiting: VecDeque<Packet>,
    looks_at: Option<Time>,
}

impl Interrupts {
    /// `tick`: how often the timer of the processor interrupts.
    pub(crate) fn new(spec: InterruptSpec, tick: Span) -> Self {
        let waiting = VecDeque::new();
        Self { spec, tick, left_nanos: 0.0, busy_since: None, breaks_until: None, waiting, looks_at: None }
    }

    /// Its processor time before a task continues, in nanoseconds.
    pub(crate) fn ahead_nanos(&self) -> f64 {
        if self.spec.elsewhere || self.breaks_until.is_some() { 0.0 } else { self.left_nanos }
    }

    /// Time passes: returns how much of it the kernel takes of the process's processor, in nanoseconds.
    pub(crate) fn work(&mut self, elapsed_nanos: f64) -> f64 {
        if self.breaks_until.is_some() {
            return 0.0;
        }
        let worked = self.left_nanos.min(elapsed_nanos);
        self.left_nanos -= worked;
        if self.left_nanos <= 0.0 {
            self.busy_since = None;
        }
        if self.spec.elsewhere { 0.0 } else { worked }
    }

    /// A packet comes at `now`, while tasks make memory `slower` times slower.
    pub(crate) fn arrive(&mut self, now: Time, packet: Packet, slower: f64) -> Admission {
        if let Some(most) = self.spec.descriptors {
            let taken = self.left_nanos / self.packet_nanos(slower).max(1.0);
            if taken as usize + self.waiting.len() >= most {
                return Admission::Lost(packet);
            }
        }
        self.look_for_break(now, slower);
        if self.looks_at.is_none() && self.spec.coalesce > Span::ZERO {
            self.looks_at = Some(now + self.spec.coalesce);
        }
        if self.looks_at.is_some() {
            self.waiting.push_back(packet);
            return Admission::Waits;
        }
        self.left_nanos += self.spec.each.as_nanos() as f64 * self.slower(slower);
        Admission::Taken(packet)
    }

    /// The kernel works on a packet, for which there is room in its socket's buffer or not.
    pub(crate) fn take(&mut self, now: Time, has_room: bool, slower: f64) {
        let full = self.spec.full.filter(|_| !has_room);
        let span = full.unwrap_or(self.spec.packet);
        self.left_nanos += span.as_nanos() as f64 * self.slower(slower);
        self.busy_since.get_or_insert(now);
    }

    /// When it next looks at the interface.
    pub(crate) fn due(&self) -> Option<Time> {
        self.looks_at
    }

    /// What waits in the interface, if it is time to look at it.
    pub(crate) fn look(&mut self, now: Time, slower: f64) -> VecDeque<Packet> {
        if self.looks_at.is_none_or(|at| at > now) {
            return VecDeque::new();
        }
        (self.looks_at, self.breaks_until) = (None, None);
        self.left_nanos += self.spec.each.as_nanos() as f64 * self.slower(slower);
        self.busy_since = Some(now);
        std::mem::take(&mut self.waiting)
    }

    /// NAPI gives up the processor when it has used its budget.
    fn look_for_break(&mut self, now: Time, slower: f64) {
        let (Some(budget), Some(since)) = (self.spec.budget, self.busy_since) else { return };
        let is_over = now.since(since).as_nanos() as f64 >= budget as f64 * self.packet_nanos(slower);
        if is_over && self.breaks_until.is_none() {
            let tick = self.tick.as_nanos().max(1);
            let next = Time::from_nanos((now.as_nanos() / tick + 1) * tick);
            (self.breaks_until, self.looks_at) = (Some(next), Some(next));
        }
    }

    fn packet_nanos(&self, slower: f64) -> f64 {
        self.spec.packet.as_nanos() as f64 * self.slower(slower)
    }

    fn slower(&self, slower: f64) -> f64 {
        1.0 + self.spec.memory * (slower - 1.0)
    }

    /// Bytes of memory that it takes, without its packets' datagrams.
    pub(crate) fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.waiting.capacity() * size_of::<Packet>()
    }
}
