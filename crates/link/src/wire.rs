//! The way from the transmitter to the far end: delay, jitter, reordering and duplication.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use inhaul_base::{Probability, RandomStream, Span, Time};

use crate::{LinkSpec, ReorderingSpec};

/// The travel time of one packet, and whether it keeps its place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transit {
    /// From the last bit sent to the last bit received.
    pub(crate) span: Span,
    /// Whether it may neither overtake nor be overtaken.
    pub(crate) in_order: bool,
}

/// Draws the transit of each packet.
#[derive(Clone, Debug)]
pub(crate) struct Wire {
    pub(crate) delay: Span,
    jitter: Span,
    jitter_reorders: bool,
    reordering: ReorderingSpec,
    jitter_random: RandomStream,
    reordering_random: RandomStream,
}

impl Wire {
    pub(crate) fn new(spec: &LinkSpec, jitter_random: RandomStream, reordering_random: RandomStream) -> Self {
        let LinkSpec { delay, jitter, jitter_reorders, reordering, .. } = *spec;
        Self { delay, jitter, jitter_reorders, reordering, jitter_random, reordering_random }
    }

    /// Whether all packets stay in order: then arrivals need no sorting.
    pub(crate) fn keeps_order(&self) -> bool {
        (self.jitter == Span::ZERO || !self.jitter_reorders) && self.reordering.probability == Probability::ZERO
    }

    /// The transit of the next packet.
    #[inline]
    pub(crate) fn next(&mut self) -> Transit {
        let mut transit = Transit { span: self.delay, in_order: true };
        if self.jitter > Span::ZERO {
            transit.span = transit.span + self.jitter_random.span_below(self.jitter);
            transit.in_order = !self.jitter_reorders;
        }
        if self.reordering.probability > Probability::ZERO && self.reordering_random.chance(self.reordering.probability)
        {
            transit.span = transit.span + self.reordering.by;
            transit.in_order = false;
        }
        transit
    }
}

/// Packets on a wire that does not keep their order, the next to arrive first; simultaneous ones in the order of
/// sending.
#[derive(Clone, Debug)]
pub(crate) struct Arrivals<T> {
    heap: BinaryHeap<Arrival<T>>,
    sent: u64,
}

#[derive(Clone, Debug)]
struct Arrival<T> {
    at: Time,
    sequence: u64,
    twice: bool,
    packet: T,
}

impl<T> Arrivals<T> {
    pub(crate) fn new() -> Self {
        Self { heap: BinaryHeap::new(), sent: 0 }
    }

    pub(crate) fn push(&mut self, at: Time, packet: T, twice: bool) {
        self.heap.push(Arrival { at, sequence: self.sent, twice, packet });
        self.sent += 1;
    }

    pub(crate) fn next_at(&self) -> Option<Time> {
        self.heap.peek().map(|arrival| arrival.at)
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.heap.capacity() * size_of::<Arrival<T>>()
    }

    pub(crate) fn pop(&mut self, now: Time) -> Option<(Time, T)>
    where
        T: Clone,
    {
        let mut next = self.heap.peek_mut().filter(|arrival| arrival.at <= now)?;
        if next.twice {
            next.twice = false;
            return Some((next.at, next.packet.clone()));
        }
        let Arrival { at, packet, .. } = PeekMut::pop(next);
        Some((at, packet))
    }
}

/// The greatest of the heap is the next to arrive.
impl<T> Ord for Arrival<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.sequence).cmp(&(self.at, self.sequence))
    }
}

impl<T> PartialOrd for Arrival<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> PartialEq for Arrival<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<T> Eq for Arrival<T> {}
