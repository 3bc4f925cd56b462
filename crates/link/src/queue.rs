//! The queue before the transmitter: which packets may wait, and which are dropped or marked, at arrival or at their
//! turn.

use inhaul_base::{RandomStream, Span, Time};

use crate::codel::CoDel;
use crate::line::Line;
use crate::red::{Early, Red};
use crate::{Discipline, QueueLimit, QueueSpec, Traffic};

/// The rules of the queue. The link holds the packets.
#[derive(Clone, Debug)]
pub(crate) struct Admission {
    limit: QueueLimit,
    discipline: Rule,
    /// Whether packets are marked, if possible, instead of dropped early.
    marks: bool,
}

/// The fate of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Passes,
    /// It is marked, or dropped if it cannot be marked.
    Marked,
    /// The queue discipline drops it.
    Early,
    /// The queue is full.
    Full,
}

#[derive(Clone, Debug)]
enum Rule {
    DropTail,
    Red { red: Red, mean_packet: u32 },
    CoDel(CoDel),
}

impl Admission {
    pub(crate) fn new(spec: QueueSpec, random: RandomStream) -> Self {
        let in_bytes = matches!(spec.limit, QueueLimit::Bytes(_));
        let discipline = match spec.discipline {
            Discipline::DropTail => Rule::DropTail,
            Discipline::Red(red) => Rule::Red { red: Red::new(red, in_bytes, random), mean_packet: red.mean_packet },
            Discipline::CoDel(codel) => Rule::CoDel(CoDel::new(codel)),
        };
        Self { limit: spec.limit, discipline, marks: spec.marks }
    }

    /// The verdict on a packet that comes at `now`, while `queued` waits. On a free line it need not wait.
    #[inline]
    pub(crate) fn admit(&mut self, now: Time, line: &Line, queued: Traffic, bytes: u32) -> Verdict {
        let free = line.free_at() <= now;
        if !free && !self.has_room(queued, bytes) {
            return Verdict::Full;
        }
        let Rule::Red { red, mean_packet } = &mut self.discipline else { return Verdict::Passes };
        let length = if matches!(self.limit, QueueLimit::Bytes(_)) { queued.bytes } else { queued.packets };
        let typical = line.rate().map_or(Span::ZERO, |rate| rate.time_for(u64::from(*mean_packet)));
        let idle = free.then(|| (now.since(line.free_at()), typical));
        match red.meets(length, bytes, idle) {
            Early::No => Verdict::Passes,
            // RFC 3168 section 7: above the upper threshold all are dropped, even if they could be marked.
            Early::Sometimes if self.marks => Verdict::Marked,
            Early::Sometimes | Early::Always => Verdict::Early,
        }
    }

    /// The fate of the packet whose turn comes at `now`, with `behind` waiting after it.
    #[inline]
    pub(crate) fn at_turn(&mut self, now: Time, since: Time, bytes: u32, behind: Traffic) -> Verdict {
        let drops = match &mut self.discipline {
            Rule::CoDel(codel) => codel.drops(now, bytes, now.since(since), behind.bytes),
            Rule::DropTail | Rule::Red { .. } => false,
        };
        match (drops, self.marks) {
            (false, _) => Verdict::Passes,
            (true, true) => Verdict::Marked,
            (true, false) => Verdict::Early,
        }
    }

    fn has_room(&self, queued: Traffic, bytes: u32) -> bool {
        match self.limit {
            QueueLimit::Bytes(limit) => queued.bytes + u64::from(bytes) <= limit,
            QueueLimit::Packets(limit) => queued.packets < limit,
            QueueLimit::Unlimited => true,
        }
    }
}
