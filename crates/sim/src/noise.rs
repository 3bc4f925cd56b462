//! Hosts whose threads run when the kernel lets them: timers that fire late, datagrams that are read late and
//! together, and times in which nothing runs. A real host's record is replayed from a random place on.
//!
//! A host with noise has one thread, as the mover's engine has one data thread. It sleeps until a packet or the
//! deadline of an endpoint wakes it. When it runs, it reads all arrived datagrams, and then handles passed deadlines.
//! Datagrams that arrived meanwhile are stamped with their true time, as kernels do.
//!
//! `experiments/hosts/` has traces of real hosts.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use inhaul_base::{RandomStream, Span, Time};
use inhaul_transport::FlowId;

use crate::agenda::{Agenda, Component, ComponentId};
use crate::ids::EndpointId;
use crate::packet::{Load, Packet};

/// The thread does not sleep for a deadline that is nearer than this when it falls idle, so it is not late for it.
/// Engines that pace in the program spin for this long.
const SPIN: Span = Span::from_micros(30);
/// Receive offload joins packets that arrive within this time: interfaces wait this long before they interrupt.
const JOINED_WITHIN: Span = Span::from_micros(50);
/// Most bytes of joined datagrams (the size of an IPv4 packet).
const JOINED_BYTES_MAX: usize = 65_507;
/// Samples of each kind at most.
const SAMPLES_MAX: usize = 1_000_000;

/// A real host's record, as plain data. Each list is replayed from a random place on, again and again; an empty list
/// has no effect.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostNoise {
    /// How late a thread ran that had slept until a deadline.
    pub wake_late: Vec<Span>,
    /// From the arrival of the datagram that a sleeping thread was woken for to its reading.
    pub read_late: Vec<Span>,
    /// Times in which a thread that was running did not run.
    pub stalls: Vec<Stall>,
    /// Datagrams that receive offload handed over as one message. Empty: none are joined.
    pub aggregates: Vec<u16>,
    /// Bytes of datagrams that a flow's socket holds until they are read; more are lost. `None`: any number.
    pub socket_bytes: Option<u64>,
}

/// A time in which a thread did not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stall {
    /// From the end of the one before to the beginning of this.
    pub after: Span,
    /// How long it lasted.
    pub length: Span,
}

impl HostNoise {
    /// The fault of the numbers, if there is one.
    pub(crate) fn check(&self) -> Result<(), &'static str> {
        let longest = [self.wake_late.len(), self.read_late.len(), self.stalls.len(), self.aggregates.len()];
        if longest.iter().any(|&samples| samples > SAMPLES_MAX) {
            return Err("noise has at most a million samples of a kind");
        }
        let late_max = Span::from_secs(60);
        let stalled = self.stalls.iter().map(|stall| &stall.length);
        if self.wake_late.iter().chain(&self.read_late).chain(stalled).any(|&late| late > late_max) {
            return Err("noise holds nothing up for more than a minute");
        }
        if self.stalls.iter().any(|stall| stall.after < Span::from_micros(1)) {
            return Err("between two stalls of a noise is a microsecond at least");
        }
        if self.aggregates.contains(&0) {
            return Err("an aggregate of a noise has at least one datagram");
        }
        if self.socket_bytes == Some(0) {
            return Err("a socket holds at least one byte");
        }
        Ok(())
    }
}

/// A place in a list that begins again after its end.
#[derive(Clone, Copy, Debug)]
struct Cursor(usize);

impl Cursor {
    fn anywhere<T>(list: &[T], random: &mut RandomStream) -> Self {
        Self(random.below(list.len() as u64) as usize)
    }

    fn next<T: Copy>(&mut self, list: &[T]) -> Option<T> {
        let value = *list.get(self.0)?;
        self.0 = (self.0 + 1) % list.len();
        Some(value)
    }
}

/// The stalls of a host from some time on.
#[derive(Clone, Copy, Debug)]
struct Stalls {
    next: Cursor,
    from: Time,
    until: Time,
}

impl Stalls {
    fn begin(list: &[Stall], random: &mut RandomStream) -> Self {
        let mut stalls = Self { next: Cursor::anywhere(list, random), from: Time::FAR_FUTURE, until: Time::FAR_FUTURE };
        if let Some(first) = stalls.next.next(list) {
            // Hosts that replay the same list are not to stall together where it has one stall only.
            stalls.from = Time::ZERO + random.span_below(first.after);
            stalls.until = stalls.from + first.length;
        }
        stalls
    }

    /// Forgets past events.
    fn pass(&mut self, list: &[Stall], now: Time) {
        while self.until <= now
            && let Some(stall) = self.next.next(list)
        {
            self.from = self.until + stall.after;
            self.until = self.from + stall.length;
        }
    }

    /// The first time from `at` on at which the thread runs.
    fn running(mut self, list: &[Stall], at: Time) -> Time {
        self.pass(list, at);
        if self.from <= at { self.until } else { at }
    }
}

/// The thread of a host with noise.
#[derive(Debug)]
pub(crate) struct Thread {
    pub(crate) component: ComponentId,
    noise: Arc<HostNoise>,
    wakes: Cursor,
    reads: Cursor,
    sizes: Cursor,
    stalls: Stalls,
    /// When it will run; `None`: when it is woken.
    pub(crate) wake: Option<Time>,
    /// When it ran last.
    ran: Time,
    /// Unread arrivals, with their times.
    inbox: VecDeque<(Time, Packet)>,
    /// Bytes of it by flow.
    waiting: BTreeMap<Flow, u64>,
    /// Endpoints whose deadline has passed.
    overdue: Vec<EndpointId>,
}

/// The key of a socket: sender, receiver and flow.
pub(crate) type Flow = (EndpointId, EndpointId, FlowId);

/// The flow of a datagram; other packets have none.
pub(crate) fn flow_of(packet: &Packet) -> Option<Flow> {
    match packet.datagram.load {
        Load::Data { flow, from, to, .. } => Some((to, from, flow)),
        _ => None,
    }
}

impl Thread {
    pub(crate) fn new(noise: &Arc<HostNoise>, component: ComponentId, mut random: RandomStream) -> Self {
        Self {
            component,
            wakes: Cursor::anywhere(&noise.wake_late, &mut random),
            reads: Cursor::anywhere(&noise.read_late, &mut random),
            sizes: Cursor::anywhere(&noise.aggregates, &mut random),
            stalls: Stalls::begin(&noise.stalls, &mut random),
            noise: Arc::clone(noise),
            wake: None,
            ran: Time::ZERO,
            inbox: VecDeque::new(),
            waiting: BTreeMap::new(),
            overdue: Vec::new(),
        }
    }

    /// Whether something waits for it to run.
    pub(crate) fn has_work(&self) -> bool {
        !self.inbox.is_empty() || !self.overdue.is_empty()
    }

    /// It is to run by `at`, if it is not stalled then.
    pub(crate) fn wake_at(&mut self, now: Time, at: Time) {
        self.stalls.pass(&self.noise.stalls, now);
        let at = self.stalls.running(&self.noise.stalls, at);
        self.wake = Some(self.wake.map_or(at, |wake| wake.min(at)));
    }

    /// A packet has come; handed back when its socket is full.
    pub(crate) fn arrive(&mut self, now: Time, packet: Packet) -> Option<Packet> {
        if let Some((flow, limit)) = flow_of(&packet).zip(self.noise.socket_bytes) {
            let waiting = self.waiting.entry(flow).or_default();
            if *waiting + u64::from(packet.payload_bytes()) > limit {
                return Some(packet);
            }
            *waiting += u64::from(packet.payload_bytes());
        }
        let is_first = self.inbox.is_empty();
        self.inbox.push_back((now, packet));
        if is_first {
            let late = self.reads.next(&self.noise.read_late).unwrap_or_default();
            self.wake_at(now, now + late);
        }
        None
    }

    /// The deadline of an endpoint has come.
    pub(crate) fn deadline(&mut self, now: Time, endpoint: EndpointId) {
        if self.overdue.contains(&endpoint) {
            return;
        }
        self.overdue.push(endpoint);
        let spins = now.since(self.ran) <= SPIN;
        let late = if spins { None } else { self.wakes.next(&self.noise.wake_late) };
        self.wake_at(now, now + late.unwrap_or_default());
    }

    /// Takes what waits, each flow's packets one after the other, as an engine reads socket after socket.
    pub(crate) fn run(&mut self, now: Time) -> (Vec<(Time, Packet)>, Vec<EndpointId>) {
        self.wake = None;
        self.ran = now;
        self.waiting.clear();
        let mut inbox: Vec<_> = self.inbox.drain(..).collect();
        inbox.sort_by_key(|(_, packet)| flow_of(packet).map_or((true, None), |flow| (false, Some(flow))));
        (inbox, std::mem::take(&mut self.overdue))
    }

    /// How many of the first packets receive offload has joined.
    pub(crate) fn joined(&mut self, packets: &[(Time, Packet)]) -> usize {
        let most = usize::from(self.sizes.next(&self.noise.aggregates).unwrap_or(1));
        let Some(((first_at, first), rest)) = packets.split_first() else { return 0 };
        let (len, stride) = (first.payload_bytes(), first.readable().len());
        let fits = |joined: usize, (at, packet): &(Time, Packet)| {
            flow_of(packet) == flow_of(first)
                && packet.payload_bytes() <= len
                && packet.readable().len() <= stride
                && (joined + 1) * len as usize <= JOINED_BYTES_MAX
                && at.since(*first_at) <= JOINED_WITHIN
        };
        let mut joined = 1;
        for next in rest {
            // A shorter one ends the message.
            let ended = packets[joined - 1].1.payload_bytes() < len;
            if joined >= most || ended || !fits(joined, next) {
                break;
            }
            joined += 1;
        }
        joined
    }

    /// Bytes of memory that it takes, without its packets' datagrams.
    pub(crate) fn memory_bytes(&self) -> usize {
        size_of::<Self>()
            + self.inbox.capacity() * size_of::<(Time, Packet)>()
            + self.waiting.len() * size_of::<(Flow, u64)>()
            + self.overdue.capacity() * size_of::<EndpointId>()
    }
}

/// The thread of a host, if it has noise.
pub(crate) fn thread(
    noise: Option<&Arc<HostNoise>>,
    index: u32,
    agenda: &mut Agenda,
    random: RandomStream,
) -> Option<Box<Thread>> {
    noise.map(|noise| Box::new(Thread::new(noise, agenda.add(Component::Thread(index)), random)))
}
