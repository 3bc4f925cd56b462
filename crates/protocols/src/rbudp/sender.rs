//! The sender: sends requested ranges at the given rate, sends Done, and retransmits the blocks named in the answer,
//! until none is missing (He and others 2002, section 2).

use std::collections::VecDeque;

use inhaul_base::{Bitrate, ByteRange, Span, Time};
use inhaul_transport::kit::RateLimit;
use inhaul_transport::kit::receiver::largest_block;
use inhaul_transport::kit::sender::{Allowance, Core, FlowCore, Rules, Sender, SenderFlow, Sending, Slot};
use inhaul_transport::kit::wire::Reader;
use inhaul_transport::{FlowError, FlowId, FlowStats, PathSpec, TxBatch};

use super::wire::{DataHeader, HEADER_LEN, OwnMessage, Section, VERSION, setup_rate};

/// Most bytes that wait at a sender: a round of the longest blocks.
const QUEUED_BYTES_MAX: u64 = 64 << 30;
/// Most bytes of sections that a sender keeps for a flow: twice the most that our receiver sends.
const SECTION_BYTES_MAX: usize = 512 << 10;

/// No data goes to an address that did not respond for so long: a blast has no other feedback.
const FEEDBACK_MAX: Span = Span::from_millis(250);

/// All flows of a host that sends.
pub(super) type RbudpSender = Sender<Rbudp>;

/// What RBUDP adds to a sender.
#[derive(Default)]
pub(super) struct Rbudp {
    /// Done messages to send, of rounds that have ended.
    ended: Vec<(FlowId, OwnMessage)>,
}

/// Blocks to send again.
#[derive(Debug, Default)]
struct Again {
    sections: VecDeque<(u16, Section)>,
    /// Blocks of the first section that were looked at.
    looked: u32,
    /// Bytes of all sections on the wire, and of the runs among them in the object.
    wire_bytes: usize,
    run_bytes: u64,
}

impl Again {
    fn push(&mut self, block: u16, section: Section, size: u64) -> Result<(), FlowError> {
        let end = match &section {
            Section::Run(range) => range.end,
            Section::Bitmap { start, blocks, .. } => start.saturating_add(u64::from(*blocks) * u64::from(block)),
        };
        self.wire_bytes += section.wire_len();
        if let Section::Run(range) = &section {
            self.run_bytes = self.run_bytes.saturating_add(range.len());
        }
        if end > size || self.wire_bytes > SECTION_BYTES_MAX || self.run_bytes > QUEUED_BYTES_MAX {
            return Err(FlowError::Protocol("more blocks were reported missing than were sent"));
        }
        self.sections.push_back((block, section));
        Ok(())
    }

    fn clear(&mut self) {
        *self = Self::default();
    }

    /// Drops the first section, which is done with.
    fn pop(&mut self) {
        if let Some((_, section)) = self.sections.pop_front() {
            self.wire_bytes -= section.wire_len();
        }
        self.looked = 0;
    }

    /// Length of the next block, or more; `None`: nothing is left.
    fn next_len(&mut self) -> Option<u64> {
        loop {
            let (block, section) = self.sections.front()?;
            match section {
                Section::Run(range) if range.is_empty() => {}
                Section::Bitmap { blocks, bits, .. } => {
                    let is_set = |k: &u32| bits[(k / 8) as usize] & (0x80 >> (k % 8)) != 0;
                    if let Some(next) = (self.looked..*blocks).find(is_set) {
                        self.looked = next;
                        return Some(u64::from(*block));
                    }
                }
                Section::Run(_) => return Some(u64::from(*block)),
            }
            self.pop();
        }
    }

    /// Takes the next block.
    fn cut(&mut self) -> Option<ByteRange> {
        self.next_len()?;
        let (block, section) = self.sections.front_mut()?;
        let block = u64::from(*block);
        Some(match section {
            Section::Run(range) => {
                let body = ByteRange::new(range.start, range.end.min(range.start + block));
                range.start = body.end;
                self.run_bytes -= body.len();
                body
            }
            Section::Bitmap { start, .. } => {
                let body = ByteRange::at(*start + u64::from(self.looked) * block, block);
                self.looked += 1;
                body
            }
        })
    }
}

/// A flow's state at the sender.
pub(super) struct Flow {
    core: FlowCore,
    /// The rates of the receiver's user, in Setup and in its last Rate.
    given: Option<Bitrate>,
    told: Option<Bitrate>,
    /// Keeps the flow to the lower of the two.
    pace: RateLimit,
    again: Again,
    /// The number of the next data packet.
    next: u32,
    /// Something was requested since the last Done.
    owes_done: bool,
    /// Done was sent, and the last piece of the answer has not come.
    awaits_answer: bool,
    /// Nothing may leave before this.
    due: Time,
    /// No data may leave from the first time on until the second: the receiver does not run.
    hold: Option<(Time, Time)>,
    /// Since when data has waited for the end of the hold, and for how long it did so before.
    waits_since: Option<Time>,
    held: Span,
}

impl Flow {
    /// Whether nothing is left to send.
    fn is_idle(&self) -> bool {
        self.core.queue.is_empty() && self.again.sections.is_empty()
    }

    /// Whether a round has ended, and the receiver must hear of it.
    fn has_ended(&self) -> bool {
        self.owes_done && !self.awaits_answer && self.is_idle()
    }

    fn set_pace(&mut self, now: Time) {
        self.pace.set(now, self.given.into_iter().chain(self.told).min());
        self.due = Time::ZERO;
    }

    fn on_rate(&mut self, now: Time, rate: Option<Bitrate>) {
        // Without any rate this protocol cannot go on: the last one stays.
        if rate.is_some() || self.given.is_some() {
            self.told = rate;
            self.set_pace(now);
        }
    }

    fn on_hold(&mut self, now: Time, after: Span, length: Span) {
        self.end_wait(now);
        let from = now + after;
        self.hold = Some((from, from + length));
        self.core.expect_pause(from, from + length);
        self.due = Time::ZERO;
    }

    /// Counts the time for which data has waited for a hold, up to `now`.
    fn end_wait(&mut self, now: Time) {
        if let Some(since) = self.waits_since.take() {
            self.held = self.held + now.since(since);
        }
    }

    /// Until when nothing may leave, if it may not now.
    fn held(&mut self, now: Time) -> Option<Time> {
        let (from, until) = self.hold?;
        if now < until {
            if now >= from {
                self.waits_since.get_or_insert(now);
            }
            return (now >= from).then_some(until);
        }
        self.end_wait(until);
        self.hold = None;
        // Unsent data is not made up for.
        self.pace.rest(now);
        None
    }

    fn on_missing(&mut self, now: Time, is_last: bool, block: u16, sections: Vec<Section>) -> Result<(), FlowError> {
        if !self.awaits_answer {
            return Err(FlowError::Protocol("an answer came without a Done"));
        }
        let path = PathSpec { mtu: self.core.mtu, ..self.core.offer.path };
        if block > largest_block(path, HEADER_LEN as u16, 1) {
            return Err(FlowError::Protocol("a block that does not fit a packet is missing"));
        }
        if self.is_idle() {
            self.pace.rest(now);
        }
        for section in sections {
            self.again.push(block, section, self.core.offer.size)?;
            self.owes_done = true;
        }
        self.awaits_answer = !is_last;
        self.due = Time::ZERO;
        Ok(())
    }

    /// Appends datagrams that may leave, as far as `may` allows it and `out` has room.
    fn transmit(&mut self, now: Time, may: &mut Allowance<'_>, out: &mut TxBatch) {
        let Some(route) = self.core.route(now) else { return };
        if let Some(until) = self.held(now) {
            self.due = until;
            return;
        }
        while out.room() > 0 {
            let next = self.again.next_len().or_else(|| self.core.queue.front().map(|front| u64::from(front.block)));
            let Some(next) = next else { return };
            let packet = next + self.core.overhead();
            if let Some(due) = self.pace.delays(now, packet).or_else(|| may.delays(now, packet)) {
                self.due = due;
                return;
            }
            let again = self.again.cut();
            let Some(body) = again.or_else(|| self.core.queue.cut()) else { return };
            let head = DataHeader { number: self.next, offset: body.start };
            out.push(self.core.offer.flow, route, &head.emit(), body, 0);
            self.next = self.next.wrapping_add(1);
            let bytes = body.len() + self.core.overhead();
            self.pace.spend(bytes);
            may.spend(bytes);
            self.core.sent.packets += 1;
            self.core.sent.wire_bytes += bytes;
            if again.is_some() { self.core.sent.bytes_again += body.len() } else { self.core.sent.bytes += body.len() }
        }
    }
}

impl SenderFlow for Flow {
    fn core(&self) -> &FlowCore {
        &self.core
    }

    fn core_mut(&mut self) -> &mut FlowCore {
        &mut self.core
    }

    fn on_resume(&mut self, now: Time) {
        self.pace.rest(now);
        self.due = Time::ZERO;
    }

    fn on_request(&mut self, now: Time, _block: u16, was_idle: bool) {
        if was_idle && self.again.sections.is_empty() {
            self.pace.rest(now);
        }
        self.owes_done = true;
        self.due = Time::ZERO;
    }

    fn on_cancel(&mut self, _now: Time, _through: u32) {
        self.again.clear();
    }

    fn due(&self) -> Option<Time> {
        if self.has_ended() {
            return Some(Time::ZERO);
        }
        (!self.is_idle() && self.due < self.core.responsive_until()).then_some(self.due)
    }

    fn stats(&self) -> FlowStats {
        let target_rate = self.pace.rate().unwrap_or(Bitrate::ZERO);
        FlowStats { target_rate, held: self.held, ..self.core.stats() }
    }

    fn memory_bytes(&self) -> usize {
        self.again.sections.capacity() * size_of::<(u16, Section)>() + self.again.wire_bytes
    }
}

impl Sending for Rbudp {
    type Flow = Flow;
    const RULES: Rules = Rules {
        version: VERSION,
        header_len: HEADER_LEN,
        grain: 1,
        queued_bytes_max: QUEUED_BYTES_MAX,
        feedback_max: Some(FEEDBACK_MAX),
    };

    fn new_flow(&mut self, _now: Time, core: FlowCore) -> Flow {
        Flow {
            core,
            given: None,
            told: None,
            pace: RateLimit::default(),
            again: Again::default(),
            next: 0,
            owes_done: false,
            awaits_answer: false,
            due: Time::ZERO,
            hold: None,
            waits_since: None,
            held: Span::ZERO,
        }
    }

    fn on_setup(&mut self, now: Time, id: FlowId, more: Reader<'_>, core: &mut Core<Flow>) -> Result<(), FlowError> {
        let rate = setup_rate(more).map_err(|_| FlowError::Protocol("a Setup could not be understood"))?;
        if let Some(flow) = core.flows.get_mut(&id) {
            flow.given = rate;
            flow.set_pace(now);
        }
        Ok(())
    }

    fn on_message(
        &mut self,
        now: Time,
        id: FlowId,
        kind: u8,
        body: Reader<'_>,
        core: &mut Core<Flow>,
    ) -> Result<(), FlowError> {
        let message = OwnMessage::parse(kind, body);
        let message = message.map_err(|_| FlowError::Protocol("a control message could not be understood"))?;
        let Some(flow) = core.flows.get_mut(&id) else { return Ok(()) };
        match message {
            OwnMessage::Rate { rate } => flow.on_rate(now, rate),
            OwnMessage::Missing { is_last, block, sections } => flow.on_missing(now, is_last, block, sections)?,
            OwnMessage::Hold { after, length } => flow.on_hold(now, after, length),
            OwnMessage::Done { .. } => {
                return Err(FlowError::Protocol("a sender's message came from the receiver"));
            }
        }
        Ok(())
    }

    fn transmit(&mut self, now: Time, flow: &mut Flow, _slot: Slot, may: &mut Allowance<'_>, out: &mut TxBatch) {
        // No rate was given: sending without a rate would flood the path.
        if flow.pace.rate().is_none() && !may.is_limited() {
            flow.due = Time::FAR_FUTURE;
            return;
        }
        flow.transmit(now, may, out);
        if flow.has_ended() {
            (flow.owes_done, flow.awaits_answer) = (false, true);
            let done = OwnMessage::Done { through: flow.core.queue.answered(), next: flow.next };
            self.ended.push((flow.core.offer.flow, done));
        }
    }

    fn limit(&mut self, _now: Time, _limit: Option<Bitrate>, core: &mut Core<Flow>) {
        core.flows.values_mut().for_each(|flow| flow.due = Time::ZERO);
        core.reschedule_all();
    }

    fn on_timeout(&mut self, _now: Time, core: &mut Core<Flow>) {
        for (id, done) in self.ended.drain(..) {
            core.say_own(id, done.emit());
        }
    }

    fn due(&self) -> Option<Time> {
        (!self.ended.is_empty()).then_some(Time::ZERO)
    }
}

#[cfg(test)]
mod tests;
