//! State common to all flows and objects of a receiver.

use std::collections::VecDeque;

use inhaul_base::{Bitrate, ByteRange, Span, Time};

use super::flow::{DataHead, FlowCore, ReceiverFlow, Run};
use super::rules::{Flows, Objects, Rules};
use crate::kit::wire::Message;
use crate::kit::{Object, SortedSet, Table};
use crate::{Event, FlowId, Place, SourceOrder, TxBatch};

/// Most datagrams that wait to be sent: acknowledgements are only worth something while they are new.
const WAITING_MAX: usize = 4_096;
/// Longest header of a datagram that waits, in bytes.
const HEAD_MAX: usize = 64;

/// See the module's description.
#[derive(Debug)]
pub struct Core<F> {
    /// The flows.
    pub flows: Flows<F>,
    /// The objects that are fetched.
    pub objects: Objects,
    pub(super) events: VecDeque<Event>,
    pub(super) waiting: Waiting,
    /// Every flow's next timer, or an earlier one that was left in place.
    timers: SortedSet<(Time, FlowId)>,
    /// Flows that were touched and must be looked after before the call ends.
    pub(super) touched: SortedSet<FlowId>,
    version: u8,
}

/// Datagrams without a body that wait to be sent.
#[derive(Debug, Default)]
pub(super) struct Waiting(VecDeque<Small>);

#[derive(Debug)]
struct Small {
    flow: FlowId,
    head: [u8; HEAD_MAX],
    head_len: u8,
    /// Bytes of UDP payload: zeros fill it up.
    len: u16,
}

impl Waiting {
    /// Has `head` sent to the flow's peer, filled up with zeros to `len` bytes. One too many, or too long, is dropped.
    pub(super) fn push(&mut self, flow: FlowId, head: &[u8], len: u16) {
        let mut bytes = [0; HEAD_MAX];
        if let Some(front) = bytes.get_mut(..head.len()).filter(|_| self.0.len() < WAITING_MAX) {
            front.copy_from_slice(head);
            self.0.push_back(Small { flow, head: bytes, head_len: head.len() as u8, len });
        }
    }
}

impl<F: ReceiverFlow> Core<F> {
    pub(super) fn new(rules: Rules) -> Self {
        Self {
            flows: Table::new(),
            objects: Table::new(),
            events: VecDeque::new(),
            waiting: Waiting::default(),
            timers: SortedSet::new(),
            touched: SortedSet::new(),
            version: rules.version,
        }
    }

    // --- Sending ----------------------------------------------------------------------------------------------------

    /// Sends a message on the flow's control channel. A source is told what of it concerns one.
    pub fn say(&mut self, flow: FlowId, message: &Message<'_>) {
        if !self.is_source(flow) {
            return self.say_own(flow, message.emit(self.version));
        }
        let order = match message {
            Message::Request { id, ranges, .. } => SourceOrder::Ask { request: *id, ranges: ranges.clone() },
            &Message::Cancel { through } => SourceOrder::Unask { through },
            _ => return,
        };
        self.events.push_back(Event::Source { flow, order });
    }

    /// Whether the flow stands for a source that is no sender of the protocol.
    pub fn is_source(&self, flow: FlowId) -> bool {
        self.flows.get(&flow).is_some_and(|flow| flow.core().source.is_some())
    }

    /// Has a source read no faster than this.
    pub fn pace(&mut self, flow: FlowId, rate: Bitrate) {
        self.events.push_back(Event::Source { flow, order: SourceOrder::Pace(rate) });
    }

    /// Sends a message of the protocol's own on the flow's control channel, as it stands on the wire.
    pub fn say_own(&mut self, flow: FlowId, message: Vec<u8>) {
        self.events.push_back(Event::Control { flow, message });
    }

    /// Sends a datagram to the flow's peer.
    pub fn send(&mut self, flow: FlowId, head: &[u8]) {
        self.waiting.push(flow, head, head.len() as u16);
    }

    pub(super) fn transmit(&mut self, out: &mut TxBatch) {
        while out.room() > 0
            && let Some(small) = self.waiting.0.pop_front()
        {
            if let Some(route) = self.flows.get(&small.flow).and_then(|flow| flow.core().route()) {
                let head = &small.head[..usize::from(small.head_len)];
                let pad = small.len.saturating_sub(u16::from(small.head_len));
                out.push(small.flow, route, head, ByteRange::default(), pad);
            }
        }
    }

    // --- Arrivals ---------------------------------------------------------------------------------------------------

    /// Says where `range`, a part of the run, belongs, as far as it is new. Returns how many bytes of it are.
    pub fn place<H: DataHead>(&mut self, id: FlowId, run: &Run<H>, range: ByteRange, places: &mut Vec<Place>) -> u64 {
        let Some(flow) = self.flows.get_mut(&id) else { return 0 };
        let Some(object) = self.objects.get_mut(&flow.core().join.object) else { return 0 };
        let new = object.hold(range, |part| places.push(run.place(id, part)));
        let core = flow.core_mut();
        core.placed_bytes += new;
        core.duplicate_bytes += range.len() - new;
        new
    }

    /// Says where `range`, which a source delivered, belongs, as far as it is new. Returns how many bytes of it are.
    pub fn place_delivery(&mut self, id: FlowId, range: ByteRange, places: &mut Vec<Place>) -> u64 {
        let Some(flow) = self.flows.get_mut(&id) else { return 0 };
        let Some(object) = self.objects.get_mut(&flow.core().join.object) else { return 0 };
        let new = object.hold(range, |part| {
            let skip = (part.start - range.start) as u32;
            places.push(Place { flow: id, message: 0, first: 0, skip, head_len: 0, range: part });
        });
        let core = flow.core_mut();
        core.placed_bytes += new;
        core.duplicate_bytes += range.len() - new;
        new
    }

    /// Whether these `packets` datagrams of a flow, the first with this number, come for the first time; takes note of
    /// them if all of them do.
    pub(super) fn are_first(&mut self, id: FlowId, number: u32, packets: u64) -> bool {
        self.flows.get_mut(&id).is_none_or(|flow| flow.core_mut().numbers.take(number, packets))
    }

    /// A datagram of a flow came again, with `bytes` of data.
    pub(super) fn count_duplicate(&mut self, id: FlowId, bytes: u64) {
        let Some(flow) = self.flows.get_mut(&id) else { return };
        let core = flow.core_mut();
        core.duplicate_packets += 1;
        core.duplicate_bytes += bytes;
    }

    // --- Objects ----------------------------------------------------------------------------------------------------

    /// The pending ranges of a flow are wanted again.
    pub fn abandon(&mut self, id: FlowId) {
        let Some(flow) = self.flows.get_mut(&id) else { return };
        let Some(object) = self.objects.get_mut(&flow.core().join.object) else { return };
        flow.abandon().into_iter().for_each(|range| object.want(range));
    }

    /// Whether the flow's object is complete.
    pub fn is_complete(&self, id: FlowId) -> bool {
        let object = self.flows.get(&id).and_then(|flow| self.objects.get(&flow.core().join.object));
        object.is_some_and(|object| object.complete)
    }

    /// Removes a flow; its outstanding ranges go to the object's other flows.
    pub(super) fn take_out(&mut self, id: FlowId) -> Option<F> {
        let mut flow = self.flows.remove(&id)?;
        if let Some(at) = flow.core().noted {
            self.timers.remove(&(at, id));
        }
        if let Some(object) = self.objects.get_mut(&flow.core().join.object) {
            object.flows.retain(|other| *other != id);
            flow.abandon().into_iter().for_each(|range| object.want(range));
            self.touched.extend(object.flows.iter().copied());
            // The only flow that is left must bring everything.
            if let [last] = object.flows[..]
                && let Some(last) = self.flows.get_mut(&last)
            {
                last.core_mut().avoid = inhaul_base::RangeSet::new();
            }
        }
        Some(flow)
    }

    /// If the flow's object is all there, says so and returns its flows.
    pub(super) fn finish_object(&mut self, id: FlowId) -> Vec<FlowId> {
        let Some(object_id) = self.flows.get(&id).map(|flow| flow.core().join.object) else { return Vec::new() };
        let Some(object) = self.objects.get_mut(&object_id).filter(|o| o.is_all_held() && !o.complete) else {
            return Vec::new();
        };
        object.complete = true;
        self.events.push_back(Event::Complete { object: object_id });
        object.flows.clone()
    }

    /// The end of a transfer must not wait for its slowest sender: a sender's outstanding ranges are wanted again if an
    /// idle one would bring them in less than half the time. Data of the slow sender that still comes is used.
    pub(super) fn relieve_slowest(&mut self, idle: FlowId, relief_min: Span) {
        let Some(helper) = self.flows.get(&idle).filter(|flow| flow.is_idle()) else { return };
        let Some(object) = self.objects.get(&helper.core().join.object).filter(|o| !o.has_wanted()) else { return };
        let owes = |id: &FlowId| {
            let flow = self.flows.get(id)?;
            let bytes = flow.pending_bytes();
            (bytes > 0).then(|| (flow.time_for(bytes), *id, bytes))
        };
        let slowest = object.flows.iter().filter(|id| **id != idle).filter_map(owes).max();
        let Some((left, slow, bytes)) = slowest else { return };
        if left <= helper.time_for(bytes) * 2 + relief_min {
            return;
        }
        self.abandon(slow);
        let through = self.flows.get(&slow).map_or(0, ReceiverFlow::last_request);
        self.say(slow, &Message::Cancel { through });
        self.touch(slow);
    }

    // --- Timers -----------------------------------------------------------------------------------------------------

    /// Has the flow looked after before the call ends.
    pub fn touch(&mut self, id: FlowId) {
        self.touched.insert(id);
    }

    /// Has the flows looked after before the call ends.
    pub fn touch_all(&mut self, flows: impl IntoIterator<Item = FlowId>) {
        self.touched.extend(flows);
    }

    /// Notes when the flow is next due. A noted time that is earlier stays: to be called for nothing is harmless, and
    /// cheaper than to move the timer at each packet.
    pub fn note_timer(&mut self, id: FlowId) {
        let Some(flow) = self.flows.get_mut(&id) else { return };
        let core = flow.core();
        let path = match core.peer {
            Some(_) => Some(core.path.due()),
            None => core.path.fails_at(),
        };
        let silence = flow.silence().map(|silence| silence.until);
        let Some(due) = flow.due().into_iter().chain(path).chain(silence).min() else { return };
        let core = flow.core_mut();
        if core.noted.is_none_or(|noted| due < noted) {
            if let Some(noted) = core.noted.replace(due) {
                self.timers.remove(&(noted, id));
            }
            self.timers.insert((due, id));
        }
    }

    /// A flow whose timer has passed at `now`.
    pub(super) fn take_due_timer(&mut self, now: Time) -> Option<FlowId> {
        let &(_, id) = self.timers.first().filter(|(at, _)| *at <= now)?;
        self.timers.pop_first();
        if let Some(flow) = self.flows.get_mut(&id) {
            flow.core_mut().noted = None;
        }
        Some(id)
    }

    /// When the next flow's timer is due.
    pub(super) fn due(&self) -> Option<Time> {
        self.timers.first().map(|(at, _)| *at)
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let object = |o: &Object| size_of::<Object>() + o.memory_bytes();
        let of_core = |core: &FlowCore| core.avoid.fragments() * 40 + core.numbers.memory_bytes();
        let flow = |flow: &F| size_of::<F>() + flow.memory_bytes() + of_core(flow.core());
        self.flows.values().map(flow).sum::<usize>()
            + self.objects.values().map(object).sum::<usize>()
            + self.events.capacity() * size_of::<Event>()
            + self.waiting.0.capacity() * size_of::<Small>()
    }
}
