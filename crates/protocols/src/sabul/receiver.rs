//! The receiver: requests ahead, and reports arrivals (ACK), missing blocks (ERR), and the number of both (SYN).

use inhaul_base::{Bitrate, ByteRange, Span, Time};
use inhaul_transport::kit::division::{Changed, Division, Share, Shared, ToldRate};
use inhaul_transport::kit::path::PathRules;
use inhaul_transport::kit::receiver::{Core, FlowCore, Flows, Receiver, ReceiverFlow, Reception, Rules, Run, Silence};
use inhaul_transport::kit::wire::RANGES_MAX;
use inhaul_transport::kit::{LossList, Meter, Object, Outstanding};
use inhaul_transport::{EndpointConfig, Expected, FlowId, FlowStats, Place};

use super::laws::LawName;
use super::wire::{DataHeader, ERR_RANGES_MAX, HEADER_LEN, OwnMessage, VERSION, WINDOW_PACKETS};

/// Interval of acknowledgements.
const ACK_GAP: Span = Span::from_millis(100);
/// Losses are looked through so often, and reported again if the last report is older than this and 1.5 round trips.
const ERR_GAP: Span = Span::from_millis(20);
/// Most ranges of missing blocks. A packet that opens one more counts as lost itself.
const LOSSES_MAX: usize = 16_384;
/// Requested ahead is the data that the sender's rate brings in two round trips and this time ...
const LEAD_SPAN: Span = Span::from_millis(300);
/// ... at least, and at most.
const LEAD_MIN: u64 = 1 << 20;
const LEAD_MAX: u64 = 1 << 31;
/// A part of the lead that is worth a request.
const LEAD_STEP: u64 = 8;
/// A sender that answers probes but sends no data for so long is given up.
const MUTE_MAX: Span = Span::from_secs(150);

/// All flows of a host that fetches.
pub(super) type SabulReceiver = Receiver<Sabul>;

/// What SABUL adds to a receiver.
pub(super) struct Sabul {
    law: LawName,
    /// What all flows together may take (C_r), and who of it.
    division: Division,
}

impl Sabul {
    /// A receiver that asks its senders to use `law`.
    pub(super) fn new(config: &EndpointConfig, law: LawName) -> Self {
        Self { law, division: Division::new(config.host_rate) }
    }

    fn look_at_share(&mut self, id: FlowId, core: &mut Core<Flow>) {
        let Some(flow) = core.flows.get_mut(&id) else { return };
        let wanted = core.objects.get(&flow.core.join.object).is_some_and(Object::has_wanted);
        let running = flow.core.path.is_open() && (wanted || flow.outstanding.pending_bytes() > 0);
        if let Some(ToldRate(rate)) = self.division.look_at(flow, running) {
            core.say_own(id, OwnMessage::Rate { rate }.emit());
        }
    }
}

fn tell(core: &mut Core<Flow>, changed: Changed) {
    for (id, told) in changed {
        if let Some(ToldRate(rate)) = told {
            core.say_own(id, OwnMessage::Rate { rate }.emit());
        }
        core.touch(id);
    }
}

/// Sends due messages.
fn report(now: Time, id: FlowId, core: &mut Core<Flow>) {
    let Some(flow) = core.flows.get_mut(&id) else { return };
    let messages = [flow.due_err(now), flow.due_ack(now), flow.due_syn(now)];
    for message in messages.into_iter().flatten() {
        core.say_own(id, message.emit());
    }
}

/// A flow's state at the receiver.
pub(super) struct Flow {
    core: FlowCore,
    outstanding: Outstanding,
    share: Share,
    period: Span,
    /// Behind the highest number that has come.
    next: u64,
    /// Missing blocks below that, each with when it was reported last.
    losses: LossList<Time>,
    /// Gaps that have not been reported.
    gaps: Vec<(u64, u32)>,
    err_due: Option<Time>,
    acknowledged: u64,
    ack_due: Option<Time>,
    syn_due: Option<Time>,
    /// Packets since the last SYN.
    received: u32,
    lost: u32,
    /// The last rate of the sender's law.
    rate: Bitrate,
    last_data: Time,
    meter: Meter,
    received_packets: u64,
    lost_packets: u64,
    wire_bytes: u64,
}

impl Flow {
    /// The first block that has not come.
    fn frontier(&self) -> u64 {
        self.losses.first().unwrap_or(self.next)
    }

    /// Blocks from `head`'s on came. Returns false when they count as not come.
    fn on_data(&mut self, now: Time, run: &Run<DataHeader>) -> bool {
        let (first, count) = (run.head.number, run.packets);
        if first.saturating_add(count) > self.frontier() + WINDOW_PACKETS {
            return false;
        }
        let (behind, gap) = (first + count, first.saturating_sub(self.next));
        if gap > 0 {
            if self.losses.ranges() >= LOSSES_MAX {
                return false;
            }
            self.losses.insert(self.next, first - 1, now);
            self.gaps.push((self.next, gap as u32));
            self.err_due.get_or_insert(now + ERR_GAP);
            self.lost = self.lost.saturating_add(gap as u32);
            self.lost_packets += gap;
        }
        if count > 0 {
            self.losses.remove(first, behind - 1);
        }
        self.next = self.next.max(behind);
        self.received = self.received.saturating_add(count as u32);
        self.rate = Bitrate::from_bps(u64::from(run.head.rate_kbps) * 1_000);
        self.core.last_heard = now;
        self.last_data = now;
        let wire = run.body_bytes + count * self.core.overhead();
        self.received_packets += count;
        self.wire_bytes += wire;
        self.meter.add(now, wire);
        self.ack_due.get_or_insert(now + ACK_GAP);
        self.syn_due.get_or_insert(now + self.period);
        true
    }

    /// SABUL's ERR: at once for a gap, and again for old reports.
    fn due_err(&mut self, now: Time) -> Option<OwnMessage> {
        let mut ranges = std::mem::take(&mut self.gaps);
        if self.err_due.is_some_and(|due| due <= now) {
            let rtt = self.core.path.rtt().smoothed().unwrap_or(Span::ZERO);
            let age = (rtt + rtt / 2).max(ERR_GAP);
            for (first, last, reported) in self.losses.notes_mut() {
                if ranges.len() >= ERR_RANGES_MAX {
                    break;
                }
                if now.since(*reported) >= age {
                    *reported = now;
                    ranges.push((first, u32::try_from(last - first + 1).unwrap_or(u32::MAX)));
                }
            }
            self.err_due = (!self.losses.is_empty()).then_some(now + ERR_GAP);
        }
        ranges.truncate(ERR_RANGES_MAX);
        (!ranges.is_empty()).then_some(OwnMessage::Err { ranges })
    }

    fn due_ack(&mut self, now: Time) -> Option<OwnMessage> {
        self.ack_due.take_if(|due| *due <= now)?;
        let before = self.frontier();
        let is_news = std::mem::replace(&mut self.acknowledged, before) != before;
        is_news.then_some(OwnMessage::Ack { before })
    }

    fn due_syn(&mut self, now: Time) -> Option<OwnMessage> {
        self.syn_due.take_if(|due| *due <= now)?;
        let (received, lost) = (std::mem::take(&mut self.received), std::mem::take(&mut self.lost));
        Some(OwnMessage::Syn { received, lost })
    }

    /// The stream goes on behind all that could have been sent. Returns its next number.
    fn restart(&mut self) -> u64 {
        let from = self.frontier() + WINDOW_PACKETS;
        self.losses = LossList::default();
        self.gaps.clear();
        self.err_due = None;
        self.next = from;
        from
    }

    /// Bytes to request ahead of the arrivals.
    fn lead(&self) -> u64 {
        let rtt = self.core.path.rtt().smoothed().unwrap_or(Span::ZERO);
        self.rate.bytes_in(rtt * 2 + LEAD_SPAN).clamp(LEAD_MIN, LEAD_MAX)
    }
}

impl Shared for Flow {
    fn share(&self) -> &Share {
        &self.share
    }

    fn share_mut(&mut self) -> &mut Share {
        &mut self.share
    }

    fn wire_bytes(&self) -> u64 {
        self.wire_bytes
    }
}

impl ReceiverFlow for Flow {
    fn core(&self) -> &FlowCore {
        &self.core
    }

    fn core_mut(&mut self) -> &mut FlowCore {
        &mut self.core
    }

    fn pending_bytes(&self) -> u64 {
        self.outstanding.pending_bytes()
    }

    fn last_request(&self) -> u32 {
        self.outstanding.last_id()
    }

    fn abandon(&mut self) -> Vec<ByteRange> {
        self.outstanding.abandon().iter().collect()
    }

    fn is_idle(&self) -> bool {
        self.core.path.is_open() && self.outstanding.pending_bytes() == 0
    }

    fn time_for(&self, bytes: u64) -> Span {
        let rtt = self.core.path.rtt().smoothed().unwrap_or(Span::ZERO);
        self.meter.rate().time_for(bytes) + rtt
    }

    fn due(&self) -> Option<Time> {
        self.ack_due.into_iter().chain(self.syn_due).chain(self.err_due).min()
    }

    fn silence(&self) -> Option<Silence> {
        let silent = self.core.silence();
        let since = self.last_data;
        let mute = Silence { until: since + MUTE_MAX, since, no_path: true };
        if self.outstanding.pending_bytes() > 0 { silent.min(Some(mute)) } else { silent }
    }

    fn expected(&self) -> Option<Expected> {
        let (range, body) = self.outstanding.expected()?;
        Some(Expected { head_len: HEADER_LEN, body_len: body as usize, range })
    }

    fn stats(&self) -> FlowStats {
        FlowStats {
            wire_bytes: self.wire_bytes,
            received_packets: self.received_packets,
            lost_packets: self.lost_packets,
            received_rate: self.meter.rate(),
            target_rate: self.share.target(),
            requested_rate: self.share.said(),
            outstanding_bytes: self.outstanding.pending_bytes(),
            ..self.core.stats()
        }
    }

    fn memory_bytes(&self) -> usize {
        self.outstanding.memory_bytes() + self.losses.ranges() * 48 + self.gaps.capacity() * size_of::<(u64, u32)>()
    }
}

impl Reception for Sabul {
    type Flow = Flow;
    type Head = DataHeader;
    const RULES: Rules = Rules {
        version: VERSION,
        header_len: HEADER_LEN,
        grain: 1,
        object_max: u64::MAX,
        path: PathRules { probe_gap: Span::from_millis(250), raise_probes: 3, steady_responses: true },
        relief_min: Span::from_millis(200),
    };

    fn new_flow(&mut self, now: Time, core: FlowCore) -> Flow {
        Flow {
            core,
            outstanding: Outstanding::default(),
            share: Share::default(),
            period: self.law.period(),
            next: 0,
            losses: LossList::default(),
            gaps: Vec::new(),
            err_due: None,
            acknowledged: 0,
            ack_due: None,
            syn_due: None,
            received: 0,
            lost: 0,
            rate: Bitrate::ZERO,
            last_data: now,
            meter: Meter::new(now),
            received_packets: 0,
            lost_packets: 0,
            wire_bytes: 0,
        }
    }

    fn setup(&self, _flow: &Flow) -> Vec<u8> {
        vec![self.law.code()]
    }

    fn on_data(
        &mut self,
        now: Time,
        id: FlowId,
        run: &Run<DataHeader>,
        core: &mut Core<Flow>,
        places: &mut Vec<Place>,
    ) {
        let Some(flow) = core.flows.get_mut(&id) else { return };
        if !flow.on_data(now, run) {
            return;
        }
        let mut rest = run.range();
        while !rest.is_empty() {
            let Some(flow) = core.flows.get_mut(&id) else { return };
            let Some(asked) = flow.outstanding.arrive(rest) else {
                rest = ByteRange::new(rest.start.saturating_add(run.body_len).min(rest.end), rest.end);
                flow.core.duplicate_bytes += run.body_len;
                continue;
            };
            core.place(id, run, asked, places);
            rest.start = asked.end;
        }
        if let Some(flow) = core.flows.get_mut(&id) {
            let full_size = run.body_bytes >= run.packets * u64::from(flow.core.block);
            let pending = flow.outstanding.pending_bytes() > 0;
            flow.core.path.on_data(now, full_size, pending);
        }
        core.touch(id);
    }

    fn on_flow_timer(&mut self, now: Time, id: FlowId, core: &mut Core<Flow>) {
        if let Some(flow) = core.flows.get_mut(&id).filter(|flow| flow.outstanding.pending_bytes() > 0) {
            flow.meter.refresh(now);
        }
    }

    fn attend(&mut self, now: Time, id: FlowId, core: &mut Core<Flow>) {
        report(now, id, core);
        self.look_at_share(id, core);
    }

    fn ask(&mut self, now: Time, flow: &mut Flow, object: &mut Object) -> Option<(u32, Vec<ByteRange>)> {
        let (lead, pending) = (flow.lead(), flow.outstanding.pending_bytes());
        let has_room = flow.share.is_granted() && pending + lead / LEAD_STEP <= lead;
        if !has_room || !flow.outstanding.has_room(RANGES_MAX) {
            return None;
        }
        let block = u64::from(flow.core.block);
        let ranges = object.take(lead - pending, block, RANGES_MAX, &flow.core.avoid);
        if ranges.is_empty() {
            return None;
        }
        if pending == 0 {
            flow.last_data = now;
            flow.meter.rest(now);
            flow.core.path.expect_data(now);
        }
        Some((flow.outstanding.ask(block, &ranges), ranges))
    }

    /// Blocks are never cut anew: the stream continues behind all sent ones.
    fn on_narrower(&mut self, _now: Time, id: FlowId, core: &mut Core<Flow>) {
        if let Some(flow) = core.flows.get_mut(&id) {
            let from = flow.restart();
            core.say_own(id, OwnMessage::Restart { from }.emit());
        }
    }

    fn on_leave(&mut self, _now: Time, flow: &mut Flow, _flows: &mut Flows<Flow>) {
        self.division.look_at(flow, false);
    }

    fn limit(&mut self, _now: Time, limit: Option<Bitrate>, core: &mut Core<Flow>) {
        self.division.set_capacity(limit, &mut core.flows);
    }

    fn on_timeout(&mut self, now: Time, core: &mut Core<Flow>) {
        if let Some(changed) = self.division.on_timer(now, &mut core.flows) {
            tell(core, changed);
        }
    }

    fn due(&self) -> Option<Time> {
        self.division.due()
    }

    fn settle(&mut self, now: Time, core: &mut Core<Flow>) {
        if let Some(changed) = self.division.refresh(now, &mut core.flows) {
            tell(core, changed);
        }
    }
}

#[cfg(test)]
mod tests;
