//! Joins arrived segments again, so that their host gets them as a superpacket.

use std::collections::VecDeque;
use std::rc::Rc;

use inhaul_base::{Span, Time};

use super::segment::{Delivery, Segment};

/// Longest time that the first segment of a run waits for the next ones. Common interfaces deliver at most 8,000 times
/// a second (interrupt moderation). In this time, a superpacket of 64 KiB arrives at 4.2 Gbit/s. On slower links it is
/// delivered in parts, each when its last segment arrives, so a receiver that times them finds the link's rate. A part
/// waits to the end only if the rest is lost.
const HOLD_MAX: Span = Span::from_micros(125);

/// Segments of one packet that have arrived, one after the other, and wait for the next.
#[derive(Debug)]
struct Run {
    delivery: Delivery,
    /// When it is let go at the latest.
    until: Time,
    serial: u64,
}

/// What waits, by path. At most one run for each: the network mostly keeps the order of a path, so that when something
/// else arrives on it the rest of the run will not come soon.
#[derive(Debug)]
pub(super) struct Assembly {
    runs: Vec<Option<Run>>,
    /// When which run is let go at the latest; in the order of time, because all wait equally long. Some are gone
    /// already.
    deadlines: VecDeque<(Time, u32, u64)>,
    serial: u64,
}

impl Assembly {
    /// For `paths` paths; no segment waits on any of them.
    pub(super) fn new(paths: usize) -> Self {
        Self { runs: std::iter::repeat_with(|| None).take(paths).collect(), deadlines: VecDeque::new(), serial: 0 }
    }

    /// When a run is let go at the latest.
    pub(super) fn next_at(&self) -> Option<Time> {
        self.deadlines.front().map(|(at, ..)| *at)
    }

    /// A run that has waited long enough by `now`.
    pub(super) fn let_go(&mut self, now: Time) -> Option<Delivery> {
        while let Some((at, path, serial)) = self.deadlines.front().copied().filter(|(at, ..)| *at <= now) {
            self.deadlines.pop_front();
            if let Some(run) = self.runs[path as usize].take_if(|run| run.serial == serial) {
                return Some(Delivery { at, ..run.delivery });
            }
        }
        None
    }

    /// A segment has arrived at `host`. A superpacket completed by it is given to `deliver`. If the host does not take
    /// superpackets (`whole`), each segment is given.
    pub(super) fn arrive(
        &mut self,
        at: Time,
        segment: Segment,
        host: usize,
        whole: bool,
        mut deliver: impl FnMut(Delivery),
    ) {
        let path = segment.path();
        let Segment { carried, index, .. } = segment;
        let next = index + 1;
        let waiting = &mut self.runs[path as usize];
        if let Some(run) = waiting {
            let delivery = &mut run.delivery;
            let continues = delivery.segments.end == index && Rc::ptr_eq(&delivery.carried, &carried);
            let mut full = false;
            if continues {
                // As long after this one as this one came after the one before, the next would be too late.
                full = at + at.since(delivery.at) >= run.until;
                (delivery.segments.end, delivery.at) = (next, at);
            }
            if !continues || full || next >= carried.packet.segments() {
                // A superpacket released by another segment's arrival leaves at that time.
                waiting.take().into_iter().for_each(|run| deliver(Delivery { at, ..run.delivery }));
            }
            if continues {
                return;
            }
        }
        let delivery = Delivery { at, host, segments: index..next, carried };
        if !whole || next >= delivery.carried.packet.segments() {
            return deliver(delivery);
        }
        self.serial += 1;
        let until = at + HOLD_MAX;
        self.deadlines.push_back((until, path, self.serial));
        *waiting = Some(Run { delivery, until, serial: self.serial });
    }
}
