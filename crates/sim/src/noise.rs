//! Hosts whose threads run when the kernel lets them: timers that fire late, datagrams that are read late and together, and times in
//! which nothing runs. What a real host did is replayed from a random place on.
//!
//! A host with noise has one thread, as the mover's engine has one data thread. It sleeps, and what wakes it is a packet or the deadline
//! of an endpoint. When it runs, it reads all that has come, and then looks after the deadlines that have passed. What arrived meanwhile is
//! stamped with its true time, as kernels do.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use inhaul_base::{ByteRange, RandomStream, Span, Time};
use inhaul_transport::{FlowId, Place, RxMessage};

use crate::agenda::{Component, ComponentId};
use crate::packet::{Load, Packet};
use crate::run::{MESSAGES_MAX, sender_address};
use crate::{EndpointId, NodeId, SimError, Simulation};

/// A deadline that is nearer than this when the thread falls idle is not slept for, so the thread is not late for it. Engines that
/// pace by themselves spin for so long.
const SPIN: Span = Span::from_micros(30);
/// Receive offload joins what arrives within so much: what interfaces wait before they interrupt.
const JOINED_WITHIN: Span = Span::from_micros(50);
/// Most bytes of datagrams that are joined (what an IPv4 packet holds).
const JOINED_BYTES_MAX: usize = 65_507;
/// Samples of each kind at most.
const SAMPLES_MAX: usize = 1_000_000;

/// What a real host did, as plain data. Each list is replayed from a random place on, again and again; an empty one disturbs nothing.
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
    /// What is wrong with the numbers, if anything.
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

    /// Forgets what is over.
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
    component: ComponentId,
    noise: Arc<HostNoise>,
    wakes: Cursor,
    reads: Cursor,
    sizes: Cursor,
    stalls: Stalls,
    /// When it will run; `None`: when it is woken.
    wake: Option<Time>,
    /// When it ran last.
    ran: Time,
    /// What has come and is not read, with its arrival.
    inbox: VecDeque<(Time, Packet)>,
    /// Bytes of it by flow.
    waiting: BTreeMap<Flow, u64>,
    /// Endpoints whose deadline has passed.
    overdue: Vec<EndpointId>,
}

/// What has a socket of its own: sender, receiver and flow.
type Flow = (EndpointId, EndpointId, FlowId);

fn flow_of(packet: &Packet) -> Option<Flow> {
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
    fn wake_at(&mut self, now: Time, at: Time) {
        self.stalls.pass(&self.noise.stalls, now);
        let at = self.stalls.running(&self.noise.stalls, at);
        self.wake = Some(self.wake.map_or(at, |wake| wake.min(at)));
    }

    /// A packet has come; handed back when its socket is full.
    fn arrive(&mut self, now: Time, packet: Packet) -> Option<Packet> {
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
    fn deadline(&mut self, now: Time, endpoint: EndpointId) {
        if self.overdue.contains(&endpoint) {
            return;
        }
        self.overdue.push(endpoint);
        let spins = now.since(self.ran) <= SPIN;
        let late = if spins { None } else { self.wakes.next(&self.noise.wake_late) };
        self.wake_at(now, now + late.unwrap_or_default());
    }

    /// Takes what waits, each flow's packets one after the other, as an engine reads socket after socket.
    fn run(&mut self, now: Time) -> (Vec<(Time, Packet)>, Vec<EndpointId>) {
        self.wake = None;
        self.ran = now;
        self.waiting.clear();
        let mut inbox: Vec<_> = self.inbox.drain(..).collect();
        inbox.sort_by_key(|(_, packet)| flow_of(packet).map_or((true, None), |flow| (false, Some(flow))));
        (inbox, std::mem::take(&mut self.overdue))
    }

    /// How many of the first packets receive offload has joined.
    fn joined(&mut self, packets: &[(Time, Packet)]) -> usize {
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

impl Simulation {
    /// Gives what has come in at a host to its thread.
    pub(crate) fn wake_for_packets(&mut self, node: NodeId, batch: &mut Vec<Packet>) {
        for packet in batch.drain(..) {
            if let Load::Background(traffic) = packet.datagram.load {
                self.traffic[traffic.0 as usize].stats.received_packets += 1;
                self.network.pool.put_back(packet.datagram);
                continue;
            }
            let host = &mut self.hosts[node.0 as usize];
            let Some(thread) = &mut host.thread else { continue };
            if let Some(dropped) = thread.arrive(self.now, packet) {
                host.stats.socket_drops += 1;
                self.network.pool.put_back(dropped.datagram);
            }
        }
        self.schedule_thread(node);
    }

    /// The deadline of an endpoint on a host with noise has come.
    pub(crate) fn wake_for_deadline(&mut self, node: NodeId, id: EndpointId) {
        self.network.agenda.schedule(self.seats[id.0 as usize].component, None);
        if let Some(thread) = &mut self.hosts[node.0 as usize].thread {
            thread.deadline(self.now, id);
        }
        self.schedule_thread(node);
    }

    fn schedule_thread(&mut self, node: NodeId) {
        if let Some(thread) = &self.hosts[node.0 as usize].thread {
            self.network.agenda.schedule(thread.component, thread.wake);
        }
    }

    /// The processor of a host with noise may have become free: what waited for that goes on.
    pub(crate) fn resume_thread(&mut self, node: NodeId) {
        let host = &mut self.hosts[node.0 as usize];
        let is_halted = host.is_halted();
        if let Some(thread) = &mut host.thread
            && thread.wake.is_none()
            && thread.has_work()
            && !is_halted
        {
            thread.wake_at(self.now, self.now);
        }
        self.schedule_thread(node);
    }

    /// A thread runs.
    pub(crate) fn on_thread(&mut self, node: NodeId) {
        let host = &mut self.hosts[node.0 as usize];
        let is_halted = host.is_halted();
        let Some(thread) = &mut host.thread else { return };
        self.network.agenda.schedule(thread.component, None);
        if is_halted {
            thread.wake = None;
            return;
        }
        let (inbox, overdue) = thread.run(self.now);
        self.hand_over_inbox(node, &inbox);
        inbox.into_iter().for_each(|(_, packet)| self.network.pool.put_back(packet.datagram));
        for id in overdue {
            self.fire(id);
        }
    }

    /// Hands over what a thread has read.
    fn hand_over_inbox(&mut self, node: NodeId, mut packets: &[(Time, Packet)]) {
        while let Some((_, first)) = packets.first() {
            let to = match first.datagram.load {
                Load::Data { to, .. } => to,
                Load::Control { transfer, to_receiver, segment } => {
                    self.on_segment(transfer, to_receiver, segment);
                    packets = &packets[1..];
                    continue;
                }
                Load::Background(_) => {
                    packets = &packets[1..];
                    continue;
                }
            };
            let mut sizes = Vec::new();
            let mut rest = packets;
            while sizes.len() < MESSAGES_MAX
                && rest.first().and_then(|(_, packet)| flow_of(packet)).is_some_and(|flow| flow.0 == to)
                && let Some(thread) = &mut self.hosts[node.0 as usize].thread
            {
                let size = thread.joined(rest);
                sizes.push(size);
                rest = &rest[size..];
            }
            let (read, rest) = packets.split_at(packets.len() - rest.len());
            self.hand_over_joined(to, read, &sizes);
            packets = rest;
        }
    }

    /// Gives messages of `sizes` datagrams each to their endpoint, and checks where it places them.
    fn hand_over_joined(&mut self, to: EndpointId, packets: &[(Time, Packet)], sizes: &[usize]) {
        let mut places = std::mem::take(&mut self.places);
        packets.iter().for_each(|(_, packet)| self.note_delivery(to, packet));
        let mut firsts = Vec::with_capacity(sizes.len());
        let mut heads = Vec::new();
        let mut starts = Vec::with_capacity(sizes.len());
        let mut at = 0;
        for &size in sizes {
            firsts.push(at);
            starts.push(heads.len());
            let stride = packets[at].1.readable().len();
            for (_, packet) in &packets[at..at + size] {
                let end = heads.len() + stride;
                heads.extend_from_slice(packet.readable());
                heads.resize(end, 0);
            }
            at += size;
        }
        let message = |k: usize| {
            let datagrams = &packets[firsts[k]..firsts[k] + sizes[k]];
            let (first, (last_at, last)) = (&datagrams[0].1, &datagrams[sizes[k] - 1]);
            let (stride, datagram_len) = (first.readable().len(), first.payload_bytes() as usize);
            RxMessage {
                from: sender_address(&self.addresses, &first.datagram).into(),
                heads: &heads[starts[k]..starts[k] + stride * sizes[k]],
                head_stride: stride,
                datagram_len,
                total_len: datagram_len * (sizes[k] - 1) + last.payload_bytes() as usize,
                // Joined datagrams go up, and are stamped, when the last of them has come.
                waited: self.now.since(*last_at),
            }
        };
        let messages: Vec<_> = (0..sizes.len()).map(message).collect();
        self.seats[to.0 as usize].endpoint.handle_datagrams(self.now, &messages, &mut places);
        for place in places.drain(..) {
            let joined = firsts.get(place.message as usize).zip(sizes.get(place.message as usize));
            match joined {
                Some((&first, &size)) => self.place_each(place, &packets[first..first + size]),
                None => self.misplaced(place, "there is no such message"),
            }
        }
        self.places = places;
        self.pump(to);
    }

    /// Checks a place datagram by datagram.
    fn place_each(&mut self, place: Place, packets: &[(Time, Packet)]) {
        let mut rest = place.range;
        let mut skip = place.skip;
        for (_, packet) in packets.iter().skip(place.first as usize) {
            let len = u64::from(packet.payload_bytes().saturating_sub(skip)).min(rest.len());
            let range = ByteRange::new(rest.start, rest.start + len);
            self.place(Place { first: 0, skip, range, ..place }, &packet.datagram);
            rest = ByteRange::new(range.end, rest.end);
            skip = place.head_len;
            if rest.is_empty() {
                return;
            }
        }
        self.misplaced(Place { range: rest, ..place }, "the message has not so many datagrams");
    }

    fn misplaced(&mut self, place: Place, reason: &'static str) {
        let (flow, body) = (place.flow, ByteRange::default());
        self.fault = Some(SimError::WrongPlace { at: self.now, flow, body, placed: place.range, reason });
    }
}

/// The thread of a host, if it has noise.
pub(crate) fn thread(
    noise: Option<&Arc<HostNoise>>,
    index: u32,
    agenda: &mut crate::agenda::Agenda,
    random: RandomStream,
) -> Option<Box<Thread>> {
    noise.map(|noise| Box::new(Thread::new(noise, agenda.add(Component::Thread(index)), random)))
}
