//! The link: queue, transmitter and wire together.

use std::collections::VecDeque;

use inhaul_base::{Bitrate, Probability, RandomStream, Span, Time};

use crate::line::Line;
use crate::loss::Loss;
use crate::mark::Mark;
use crate::queue::{Admission, Verdict};
use crate::wire::{Arrivals, Transit, Wire};
use crate::{LinkSpec, LinkStats};

/// Why a packet will not arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DropCause {
    /// The queue had no room for it.
    #[error("the queue of the link is full")]
    QueueFull,
    /// Random early detection dropped it.
    #[error("dropped early by the queue discipline of the link")]
    Early,
    /// It will be lost on the wire. It waits and is transmitted like others, but does not arrive.
    #[error("lost on the link")]
    Lost,
    /// The link is down.
    #[error("the link is down")]
    Down,
}

/// A one-way link that carries packets of type `T`.
///
/// Call [`receive`](Self::receive) at [`next_arrival`](Self::next_arrival) until it returns nothing. Time must never go
/// back between any two calls. No calls are needed in between: the next call catches up with the transmitter, at exact
/// times.
///
/// Each random effect (loss, jitter, reordering, duplication, RED) draws from its own stream, so that turning one on
/// does not change the numbers of the others.
#[derive(Clone, Debug)]
pub struct Link<T> {
    up: bool,
    line: Line,
    admission: Admission,
    loss: Loss,
    duplication: (Probability, RandomStream),
    marking: (Probability, RandomStream),
    wire: Wire,
    /// In the order of sending: first the `on_wire` packets whose transmission has begun, then the waiting ones.
    ring: VecDeque<Slot<T>>,
    on_wire: usize,
    /// The transit of the packet in transmission, and the arrival before it. A change of the rate recomputes its
    /// arrival from these.
    in_transmission: (Transit, Time),
    /// The latest arrival of an in-order packet.
    ordered_until: Time,
    /// Transmitted packets, if the wire does not keep their order.
    unordered: Option<Arrivals<T>>,
    stats: LinkStats,
}

#[derive(Clone, Debug)]
struct Slot<T> {
    /// Its time of sending while it waits; its time of arrival once its transmission has begun.
    time: Time,
    bytes: u32,
    fate: Fate,
    packet: T,
}

/// The fate of an admitted packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Arrives,
    ArrivesTwice,
    /// Lost on the wire, or dropped when its turn came.
    Vanishes,
}

impl<T: Clone + Mark> Link<T> {
    /// An empty link by its specification, up. All random decisions come from `random`.
    pub fn new(spec: LinkSpec, mut random: RandomStream) -> Self {
        let seed = random.next_u64();
        let stream = |number| RandomStream::new(seed, number);
        let wire = Wire::new(&spec, stream(3), stream(4));
        Self {
            up: true,
            line: Line::new(spec.rate),
            admission: Admission::new(spec.queue, stream(0)),
            loss: Loss::new(spec.loss, stream(1)),
            duplication: (spec.duplication, stream(2)),
            marking: (spec.marking, stream(5)),
            ring: VecDeque::new(),
            on_wire: 0,
            in_transmission: (Transit { span: Span::ZERO, in_order: true }, Time::ZERO),
            ordered_until: Time::ZERO,
            unordered: (!wire.keeps_order()).then(Arrivals::new),
            wire,
            stats: LinkStats::default(),
        }
    }

    /// Sends a packet of `bytes` bytes on the wire into the link at `now`.
    ///
    /// Why the packet will not arrive, if this is known now. CoDel, and a link that goes down, drop packets later.
    /// Those drops are only in [`stats`](Self::stats).
    #[inline]
    pub fn send(&mut self, now: Time, bytes: u32, mut packet: T) -> Result<(), DropCause> {
        self.settle(now);
        self.stats.offered.add(bytes);
        // Drawn for every packet, so that its fate on the wire depends on its number alone, not on the queue.
        let lost = self.loss.takes_next();
        let twice = self.duplication.0 > Probability::ZERO && self.duplication.1.chance(self.duplication.0);
        if !self.up {
            self.stats.down.add(bytes);
            return Err(DropCause::Down);
        }
        match self.admission.admit(now, &self.line, self.stats.queued, bytes) {
            Verdict::Passes => {
                let (share, random) = &mut self.marking;
                if *share > Probability::ZERO && random.chance(*share) && packet.mark() {
                    self.stats.marked.add(bytes);
                }
            }
            Verdict::Marked if packet.mark() => self.stats.marked.add(bytes),
            Verdict::Marked | Verdict::Early => {
                self.stats.early.add(bytes);
                return Err(DropCause::Early);
            }
            Verdict::Full => {
                self.stats.queue_full.add(bytes);
                return Err(DropCause::QueueFull);
            }
        }
        let fate = match (lost, twice) {
            (true, _) => Fate::Vanishes,
            (false, true) => Fate::ArrivesTwice,
            (false, false) => Fate::Arrives,
        };
        self.ring.push_back(Slot { time: now, bytes, fate, packet });
        if self.line.free_at() <= now {
            let departure = self.line.transmit_at(now, bytes);
            self.put_on_wire(departure);
            self.forget_lost();
        } else {
            self.stats.queued.add(bytes);
            self.stats.queue_bytes_max = self.stats.queue_bytes_max.max(self.stats.queued.bytes);
            self.stats.queue_packets_max = self.stats.queue_packets_max.max(self.stats.queued.packets);
        }
        if lost { Err(DropCause::Lost) } else { Ok(()) }
    }

    /// When to call [`receive`](Self::receive) next; `None` if nothing is on its way. Any call may change it.
    ///
    /// It is the time of the next arrival, with two exceptions where that is unknown and this time is a little early:
    /// while the only packet in transmission will be lost, and on a wire that does not keep the order. Then `receive`
    /// may return nothing, and the next answer is later.
    #[inline]
    pub fn next_arrival(&self) -> Option<Time> {
        let mut next = match self.ring.front() {
            None => Time::FAR_FUTURE,
            Some(first) if self.on_wire > 0 => first.time,
            Some(_) => self.earliest_of_waiting(),
        };
        if let Some(arrivals) = &self.unordered {
            next = next.min(arrivals.next_at().unwrap_or(Time::FAR_FUTURE));
            if self.ring.len() > self.on_wire {
                next = next.min(self.earliest_of_waiting());
            }
        }
        (next < Time::FAR_FUTURE).then_some(next)
    }

    /// Takes the next packet that has arrived at the far end by `now`, with the exact time of its arrival.
    #[inline]
    pub fn receive(&mut self, now: Time) -> Option<(Time, T)> {
        self.settle(now);
        if let Some(arrivals) = &mut self.unordered {
            return arrivals.pop(now);
        }
        if self.on_wire == 0 {
            return None;
        }
        let first = self.ring.front_mut().filter(|slot| slot.time <= now)?;
        if first.fate == Fate::ArrivesTwice {
            first.fate = Fate::Arrives;
            return Some((first.time, first.packet.clone()));
        }
        let Slot { time, packet, .. } = self.ring.pop_front()?;
        self.on_wire -= 1;
        self.forget_lost();
        Some((time, packet))
    }

    /// Packets on the wire, in the order of arrival if known. Some of them may be lost.
    #[inline]
    pub fn upcoming(&self) -> impl Iterator<Item = &T> {
        self.ring.iter().take(self.on_wire).map(|slot| &slot.packet)
    }

    /// Changes the rate of the transmitter at `now`, for the packet in transmission and all waiting ones.
    pub fn set_rate(&mut self, now: Time, rate: Option<Bitrate>) {
        self.settle(now);
        let transmitting = self.line.free_at() > now;
        self.line.set_rate(now, rate);
        if transmitting {
            let (transit, before) = self.in_transmission;
            self.ordered_until = before;
            let arrival = self.arrival(self.line.free_at(), transit);
            // A packet that will be lost may have been removed already, with all before it.
            if let Some(last) = self.on_wire.checked_sub(1) {
                self.ring[last].time = arrival;
            }
        }
        self.settle(now);
    }

    /// Takes the link down or up at `now`. Going down drops waiting packets and cuts the packet in transmission;
    /// packets on the wire still arrive. (To hold everything instead, set the rate to [`Bitrate::ZERO`].)
    pub fn set_up(&mut self, now: Time, up: bool) {
        self.settle(now);
        self.up = up;
        if up {
            return;
        }
        for slot in self.ring.drain(self.on_wire..) {
            self.stats.queued.take(slot.bytes);
            self.stats.down.add(slot.bytes);
        }
        if self.line.free_at() > now {
            self.line.cut(now);
            self.ordered_until = self.in_transmission.1;
            // A lost packet was removed already, or counted as lost.
            if let Some(Slot { bytes, fate, .. }) = self.ring.pop_back().filter(|slot| slot.fate != Fate::Vanishes) {
                self.stats.carried.take(bytes);
                self.stats.down.add(bytes);
                if fate == Fate::ArrivesTwice {
                    self.stats.duplicated.take(bytes);
                }
            }
            self.on_wire = self.ring.len();
        }
    }

    /// Whether the link is up.
    pub fn is_up(&self) -> bool {
        self.up
    }

    /// The rate of the transmitter, bits per second; `None`: transmission takes no time.
    pub fn rate(&self) -> Option<Bitrate> {
        self.line.rate()
    }

    /// Bytes that wait for the transmitter at `now`, without the packet in transmission.
    pub fn queue_bytes(&mut self, now: Time) -> u64 {
        self.settle(now);
        self.stats.queued.bytes
    }

    /// The counters of the link at `now`.
    pub fn stats(&mut self, now: Time) -> LinkStats {
        self.settle(now);
        self.stats.busy = self.line.busy(now);
        self.stats
    }

    /// Memory held for packets, in bytes: in proportion to the most packets queued and on the wire at once.
    pub fn memory_bytes(&self) -> usize {
        let unordered = self.unordered.as_ref().map_or(0, Arrivals::memory_bytes);
        self.ring.capacity() * size_of::<Slot<T>>() + unordered
    }

    /// Catches up with the transmitter: starts every packet whose turn came by `now`.
    #[inline]
    fn settle(&mut self, now: Time) {
        if self.ring.len() > self.on_wire || self.unordered.is_some() {
            self.start_due(now);
        }
    }

    fn start_due(&mut self, now: Time) {
        while self.line.free_at() <= now {
            self.sort_transmitted();
            let Some(slot) = self.ring.get_mut(self.on_wire) else { break };
            let (since, bytes) = (slot.time, slot.bytes);
            self.stats.queued.take(bytes);
            match self.admission.at_turn(self.line.free_at(), since, bytes, self.stats.queued) {
                Verdict::Passes => {}
                Verdict::Marked if slot.packet.mark() => self.stats.marked.add(bytes),
                _ => {
                    slot.fate = Fate::Vanishes;
                    self.on_wire += 1;
                    self.stats.early.add(bytes);
                    continue;
                }
            }
            let departure = self.line.transmit_next(bytes);
            self.put_on_wire(departure);
        }
        self.forget_lost();
    }

    /// Moves transmitted packets to the sorted arrivals, if the wire does not keep the order.
    fn sort_transmitted(&mut self) {
        let Some(arrivals) = &mut self.unordered else { return };
        for slot in self.ring.drain(..self.on_wire) {
            if slot.fate != Fate::Vanishes {
                arrivals.push(slot.time, slot.packet, slot.fate == Fate::ArrivesTwice);
            }
        }
        self.on_wire = 0;
    }

    /// Starts the transmission of the first waiting packet, which will have left at `departure`.
    #[inline]
    fn put_on_wire(&mut self, departure: Time) {
        let transit = self.wire.next();
        self.in_transmission = (transit, self.ordered_until);
        let arrival = self.arrival(departure, transit);
        let slot = &mut self.ring[self.on_wire];
        slot.time = arrival;
        self.on_wire += 1;
        match slot.fate {
            Fate::Vanishes => return self.stats.lost.add(slot.bytes),
            Fate::Arrives => {}
            Fate::ArrivesTwice => self.stats.duplicated.add(slot.bytes),
        }
        self.stats.carried.add(slot.bytes);
    }

    #[inline]
    fn arrival(&mut self, departure: Time, transit: Transit) -> Time {
        let arrival = departure + transit.span;
        if !transit.in_order {
            return arrival;
        }
        self.ordered_until = self.ordered_until.max(arrival);
        self.ordered_until
    }

    /// Removes lost packets from the front of the ring, so that the first slot is the next arrival.
    #[inline]
    fn forget_lost(&mut self) {
        while self.on_wire > 0 && self.ring.front().is_some_and(|slot| slot.fate == Fate::Vanishes) {
            self.ring.pop_front();
            self.on_wire -= 1;
        }
    }

    /// The earliest possible arrival of a waiting packet.
    fn earliest_of_waiting(&self) -> Time {
        self.line.free_at() + self.wire.delay
    }
}
