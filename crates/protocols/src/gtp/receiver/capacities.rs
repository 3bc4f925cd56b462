//! Capacities that nobody has told: what a first burst says of them, and what each central interval does
//! (PROTOCOL.md 7).

use std::collections::VecDeque;

use inhaul_base::{Bitrate, Span, Time};
use inhaul_transport::{FlowId, ObjectId};

use super::ambient::LOSS_THRESHOLD;
use super::company::{Company, Seen};
use super::flow::{BINDS, Flow, Flows, USED_INTERVALS};
use super::host_tcp::HostTcp;
use super::judgement::{Judgement, Look, fresh_loss, queue_threshold};
use super::policy::{Policy, Weight};
use super::probe::{Probes, Trial};
use crate::gtp::bound::{Bound, DRAIN_MAX};
use crate::gtp::monitor::{Dispersion, Interval, Loss, TRAIN_SPAN_MIN};
use crate::gtp::wire::RATE_MAX;

/// A central interval is not shorter than this: below it there is too little to measure.
pub(super) const INTERVAL_MIN: Span = Span::from_millis(20);
/// gtp-2004 4.2: a rate has been achieved when this part of it was.
const ACHIEVED: f64 = 0.95;
/// On a path that is bound by requests this part is enough.
const ACHIEVED_FREE: f64 = 0.5;
/// Two packets are no queue.
const QUEUE_PACKETS: u64 = 2;
/// The receiver's queue is seen by all but this part of the traffic: a base delay may be wrong.
const UNSEEN_PART: f64 = 0.4;
/// A flow with this part of the loss that counts as congestion bears witness to the loss of others.
const HINT: f64 = 0.5;
/// Loss that at least so much of the traffic sees is the receiver's own; ...
const SHARED_PART: f64 = 0.6;
/// ... and of so much of it keeps its bound from being tested.
const UNSHARED_PART: f64 = 0.3;
/// A flow that loses this part of what all lose has a part in it.
const COMMON_LOSS: f64 = 0.5;
/// A loss ratio this high in one RTT is not left for the end of the interval.
const ALARM_LOSS: f64 = 0.02;
/// The first step of a test is such that, if it is too much, the queue is as long after an interval as so many
/// thresholds.
const STEP_QUEUES: f64 = 2.25;
/// But it is within these parts of the bound.
const STEP: (f64, f64) = (0.002, 0.01);
/// Packets of the first burst that measures a path, ...
const TRAIN_BLOCKS: u64 = 16;
/// ... and where others use the receiver, or are measured as well, at least.
const TRAIN_BLOCKS_MIN: u64 = 4;
/// It then fills the receiver's queue by no more than this.
const TRAIN_QUEUE: Span = Span::from_millis(2);
/// If it says too little, another one of so many times as many packets; ...
const TRAIN_GROWTH: u64 = 4;
/// ... bytes of the longest.
const TRAIN_BYTES_MAX: u64 = 256 * 1024;
/// A burst is not more than a flow may have in this time.
const TRAIN_SPAN_MAX: Span = Span::from_millis(50);
/// A burst of which more than this part was lost was too long already.
const TRAIN_LOSS_MAX: f64 = 0.5;
/// A burst of which nothing can be told is taken to fit into so many RTT.
const LOST_TRAIN_RTTS: u64 = 4;
/// A burst that comes faster than the bound by more than this refutes it.
pub(super) const EVIDENCE: f64 = 1.05;
/// Others that were slowed by more than this were not slowed by the burst.
const SLOWED_MAX: f64 = 4.0;
/// A path that is at least this part of the receiver's capacity is not what bounds its flow.
const UNBOUND: f64 = 0.9;
/// It is one when it has fallen short so many times in a row.
const LIMITED_AFTER: u32 = 2;
/// Flows that share a place on their way come closer by this part of what is between them, each time it is full.
const TOGETHER: f64 = 0.3;
/// A rate of arrival is that of so many packets at least.
const ARRIVED_PACKETS: u64 = 64;
/// What has arrived is noted so often ...
const NOTE_GAP: Span = Span::from_millis(5);
/// ... and kept for so many notes.
const NOTES: usize = 512;

/// What is known of the receiver's capacity, and how it is learnt.
#[derive(Debug, Default)]
pub(super) struct Capacities {
    /// C_r.
    pub(super) access: Bound,
    /// How much is taken beside others.
    policy: Policy,
    /// Who else is at the receiver's link.
    pub(super) company: Company,
    /// What the host's own TCP takes of it.
    pub(super) host_tcp: HostTcp,
    /// When the last interval ended, and what all flows had received by then.
    ended: (Time, u64),
    /// What all flows together had received by when.
    arrived: VecDeque<(Time, u64)>,
    /// Whether what is forgiven is lost whatever the rate.
    pub(super) probes: Probes,
    /// What probes have shown of all flows together.
    trial: Trial,
    /// The next probe is of all flows.
    pub(super) tries: bool,
    /// Packets of the last interval.
    packets: u64,
    /// The first step of a test.
    careful: f64,
    /// A flow's loss over a single RTT was high: what came before it does not count.
    alarmed: bool,
}

/// When a central interval ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    pub(super) now: Time,
    /// The same without the time in which data was held.
    pub(super) active: Time,
    /// How long the interval was to be.
    pub(super) interval: Span,
    /// Data was held lately: a queue has drained meanwhile, and shows nothing.
    pub(super) held: bool,
}

/// What an interval has shown of the receiver's link, as paths are judged by it.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// The queue that all share.
    common: Span,
    /// How long a queue of a path's own must be to count.
    own_threshold: Span,
    interval: Span,
    /// What all flows were told.
    asked: Bitrate,
    /// The receiver's link is congested.
    shared: bool,
    alarmed: bool,
    held: bool,
    /// There is one flow.
    alone: bool,
}

impl Place {
    /// The queue that a flow sees beyond what all share, if it counts.
    fn own_queue(&self, judged: &Judgement) -> Option<Span> {
        Some(judged.queue.saturating_sub(self.common)).filter(|queue| *queue >= self.own_threshold)
    }

    /// The part of an interval that a queue is.
    fn drain(&self, queue: Span) -> f64 {
        queue.as_secs_f64() / self.interval.as_secs_f64()
    }

    /// Who asks for a little more than there is would see no queue after data was held, until the buffer overflows.
    fn may_test(&self, bound: &Bound) -> bool {
        !self.held || !bound.is_settled()
    }
}

pub(super) fn running(flows: &Flows) -> impl Iterator<Item = &Flow> {
    flows.awake().map(|(_, flow)| flow).filter(|flow| flow.is_running() && !flow.core.reliable)
}

pub(super) fn sum(rates: impl Iterator<Item = Bitrate>) -> Bitrate {
    rates.fold(Bitrate::ZERO, Bitrate::saturating_add)
}

impl Capacities {
    pub(super) fn new(policy: Policy) -> Self {
        Self { policy, ..Self::default() }
    }

    pub(super) fn policy(&self) -> Policy {
        self.policy
    }

    /// Another policy from now on.
    pub(super) fn set_policy(&mut self, policy: Policy) {
        self.policy = policy;
        if policy == Policy::Low {
            self.company.yield_all();
        }
    }

    // --- Bursts -----------------------------------------------------------------------------------------------------

    /// Packets of the burst that measures the path of a flow; `None` if it may have so little that there is nothing to
    /// measure.
    pub(super) fn train_blocks(&self, flow: &Flow, capacity: Option<Bitrate>, trains: usize) -> Option<u64> {
        let packet = u64::from(flow.core.block) + flow.core.overhead();
        let bound = flow.known_bound();
        let slow = capacity.map_or(bound, |c| c.min(bound)).bytes_in(TRAIN_SPAN_MAX) < TRAIN_BLOCKS * packet;
        let queue = self.access.cap().map_or(TRAIN_BLOCKS, |cap| cap.bytes_in(TRAIN_QUEUE) / packet);
        let share = TRAIN_BLOCKS / (trains as u64 + 1);
        (!slow).then(|| queue.min(share).clamp(TRAIN_BLOCKS_MIN, TRAIN_BLOCKS))
    }

    /// A burst of so many packets has come, as far as it ever will. Returns how many a longer one has if this one was
    /// too short to tell.
    pub(super) fn on_train(&mut self, now: Time, id: FlowId, blocks: u64, flows: &mut Flows) -> Option<u64> {
        let others = sum(running(flows).map(|flow| flow.told_rate));
        // Loss that all have is the receiver's link's, and waits for who comes new.
        let ambient = running(flows).map(|flow| flow.ambient).min_by(|a, b| a.ratio.total_cmp(&b.ratio));
        let flow = flows.get_mut(&id)?;
        flow.monitor.end_train();
        let seen = flow.monitor.dispersion();
        let packet = u64::from(flow.core.block) + flow.core.overhead();
        let bound = flow.known_bound().bytes_in(TRAIN_SPAN_MAX).min(TRAIN_BYTES_MAX);
        let longest = (bound / packet).max(TRAIN_BLOCKS);
        let lost = flow.monitor.take_rtt_loss(now).unwrap_or_default();
        if seen.is_none() && blocks < longest && lost.ratio <= TRAIN_LOSS_MAX {
            return Some((blocks * TRAIN_GROWTH).min(longest));
        }
        let was_lost = seen.is_none() && lost.ratio > TRAIN_LOSS_MAX;
        let seen = seen.unwrap_or_else(|| {
            // A burst that the host handed over all at once says that the path is at least this fast. One that was
            // lost says that the path is slow; how slow, tests will find.
            let took = if was_lost { flow.rtt() * LOST_TRAIN_RTTS } else { TRAIN_SPAN_MIN };
            let rate = Bitrate::of(blocks * packet, took);
            Dispersion { own: rate, all_flows: rate, proven: rate }
        });
        // Where the burst met others it came as much slower than it left as they did.
        let others_seen = seen.all_flows.as_f64() - seen.own.as_f64();
        let slowed = if others_seen > 0.0 { (others.as_f64() / others_seen).clamp(1.0, SLOWED_MAX) } else { 1.0 };
        let path = seen.own.mul_f64(slowed);
        let known = self.access.cap();
        let proven = seen.proven.max(seen.own);
        // A burst that came as fast as the flow may be shows neither what the receiver takes nor what the path
        // carries.
        let told = flow.known_bound() < RATE_MAX && seen.own >= flow.known_bound().mul_f64(UNBOUND);
        if known.is_none_or(|cap| proven > cap.mul_f64(EVIDENCE)) && !(told && known.is_none()) {
            if let Some(cap) = known {
                // Their paths were thought to carry what the receiver takes; that is more than was thought.
                for (_, other) in flows.awake_mut().filter(|(_, f)| f.is_running() && f.path.cap().is_none()) {
                    other.path.guess(cap);
                    other.estimate_by_path();
                }
            }
            self.access.guess(proven);
        } else {
            self.access.break_off();
        }
        let flow = flows.get_mut(&id)?;
        // A burst that was lost where others are says nothing of its own path.
        let told_nothing = was_lost && others > Bitrate::ZERO;
        if !told_nothing && !told && self.access.cap().is_some_and(|cap| path < cap.mul_f64(UNBOUND)) {
            flow.path.guess(path);
        }
        if let Some(ambient) = ambient.filter(|ambient| ambient.ratio > flow.ambient.ratio) {
            flow.ambient = ambient;
        }
        flow.measured = true;
        flow.estimate_by_path();
        None
    }

    // --- What comes in ----------------------------------------------------------------------------------------------

    /// All flows together have received `wire_bytes` since the start. `now` does not count time in which data was
    /// held.
    pub(super) fn note_arrived(&mut self, now: Time, wire_bytes: u64) {
        if self.arrived.back().is_some_and(|(at, _)| now < *at + NOTE_GAP) {
            return;
        }
        if self.arrived.len() == NOTES {
            self.arrived.pop_front();
        }
        self.arrived.push_back((now, wire_bytes));
    }

    /// The rate at which all flows together received over the last `span`, or longer if that was less than `least`
    /// bytes. `None` if that is not known.
    fn arrival_rate(&self, now: Time, wire_bytes: u64, span: Span, least: u64) -> Option<Bitrate> {
        let since = |(at, bytes): &&(Time, u64)| *at + span <= now && wire_bytes - bytes >= least;
        let (at, bytes) = self.arrived.iter().rev().find(since)?;
        Some(Bitrate::of(wire_bytes - bytes, now.since(*at)))
    }

    /// A flow's loss over an RTT, beyond what is ambient. True if it is too high to wait for the interval's end.
    pub(super) fn alarms(&mut self, excess: f64) -> bool {
        let is_high = excess >= ALARM_LOSS;
        self.alarmed |= is_high;
        is_high
    }

    /// Whether more is asked of a receiver with a single flow than comes through. Its RTT may be long, and queues
    /// short.
    pub(super) fn lone_test_fails(&self, flows: &Flows) -> bool {
        let lone = flows.values().next().filter(|flow| flows.len() == 1 && flow.is_under_way());
        lone.is_some_and(|flow| {
            let threshold = queue_threshold(flow.told_rate, u64::from(flow.core.block), QUEUE_PACKETS);
            self.access.is_testing() && !flow.overshoots_freely() && flow.monitor.recent_queue() >= threshold
        })
    }

    // --- The central interval ---------------------------------------------------------------------------------------

    /// Who is congested, the receiver or single paths? Whoever it is, its capacity was what came through. All flows
    /// together have received `wire_bytes` since the start.
    pub(super) fn discover(&mut self, times: Times, wire_bytes: u64, socket_buffer: u64, flows: &mut Flows) {
        let Times { now, active, interval, held } = times;
        let alarmed = std::mem::take(&mut self.alarmed);
        let asked = sum(running(flows).map(|flow| flow.told_rate));
        let block = running(flows).map(|flow| u64::from(flow.core.block)).max().unwrap_or(0);
        let count = running(flows).count();
        let threshold = queue_threshold(asked, block, QUEUE_PACKETS);
        // Flows of equal rates may stay in step, and the same one always wait for the others.
        let own_threshold = queue_threshold(asked, block, QUEUE_PACKETS + count as u64 / 2);
        if held && self.access.is_settled() {
            self.access.break_off();
        }
        let seen = self.judge(now, threshold, alarmed, flows);
        let common = common_queue(&seen, flows);
        let mut place =
            Place { common, own_threshold, interval, asked, shared: false, alarmed, held, alone: count == 1 };
        self.careful = (STEP_QUEUES * place.drain(threshold)).clamp(STEP.0, STEP.1);
        // Where the window of requests bounds what is on its way, queues are of its making, and overflow nothing.
        let free = running(flows).all(Flow::overshoots_freely);
        // Loss that a cut did not cure was nobody's fault.
        let in_vain = seen.iter().filter(|(_, judged)| judged.in_vain).count();
        if in_vain > 0 && 2 * in_vain >= seen.len() {
            self.access.forgive();
        }
        // What is lost where a flow competes with others is its path's.
        let at_receiver = |id: &FlowId| flows.get(id).is_none_or(|flow| !flow.rivalry.is_on_path());
        let lost = || {
            seen.iter().filter(|(id, _)| at_receiver(id)).map(|(_, judged)| judged).filter(|judged| judged.has_lost())
        };
        let losing = || running(flows).filter(|flow| !flow.rivalry.is_on_path() && fresh_loss(flow) >= HINT);
        let losing_rate = sum(losing().map(|flow| flow.told_rate));
        let is_common_loss = count == 1 || (losing().count() > 1 && losing_rate >= asked.mul_f64(SHARED_PART));
        // One experiment at a time: what is lost while more is asked of the receiver is lost there, if no path has a
        // queue of its own.
        let is_tests_loss = self.access.is_testing() && lost().all(|judged| place.own_queue(judged).is_none());
        let shared = (common >= threshold && !free) || (lost().next().is_some() && (is_common_loss || is_tests_loss));
        let sent = whole(&seen, flows, Judgement::sent);
        let testing = self.access.is_testing() || running(flows).any(|flow| flow.path.is_testing());
        let came_through = self.arrived_since(active, wire_bytes, flows);
        // The host's own TCP is no stranger: what it takes comes through, too.
        let tcp = self.host_tcp.takes(now);
        let together = self.host_tcp.together(now);
        let all = came_through.saturating_add(tcp);
        let met = Seen {
            now,
            sent: came_through.mul_f64(1.0 / (1.0 - lost_part(&seen))).saturating_add(tcp),
            came: all,
            together: all,
            queue: if free { Span::ZERO } else { common },
            threshold,
            // Of many flows there is always one that loses by chance.
            lost: lost().next().is_some() && (is_common_loss || self.company.is_competing()),
            testing,
            probing: self.probes.is_on(),
            cured: self.has_cured(testing, common < threshold, &seen),
        };
        if self.compete(met, place.drain(common), &seen, flows) {
            return;
        }
        if count > 1 {
            let queue = |judged: &Judgement| if free { Span::ZERO } else { judged.queue.saturating_sub(common) };
            self.compete_on_paths(now, own_threshold, interval, queue, &seen, flows);
        }
        if shared {
            let came = self.came(active, wire_bytes, interval, alarmed, &seen, flows);
            // Where much is lost whatever the rate, what came says less than what was sent, less what is in the queue
            // now.
            let lossy = !alarmed && ambient_part(flows) > LOSS_THRESHOLD;
            let capacity = if lossy { sent.mul_f64(1.0 - place.drain(common).min(1.0)) } else { came };
            // TCP fills what we drain of the queue.
            let drain_most = together.map_or(self.company.drain_most(), |all| {
                DRAIN_MAX * (1.0 - 2.0 * tcp.as_f64() / all.as_f64().max(1.0)).max(0.0)
            });
            self.access.refute(together.unwrap_or(capacity), place.drain(common), drain_most);
            self.host_tcp.on_congestion(now, came_through, granted(flows));
        } else if losing_rate < asked.mul_f64(UNSHARED_PART) {
            let granted = granted(flows);
            let limit = self.access.limit().map(|limit| {
                let ours = data_sets(self.policy, flows);
                self.host_tcp.left(now, limit, self.access.is_settled(), &ours)
            });
            let binds = limit.is_some_and(|limit| granted >= limit.mul_f64(BINDS));
            let binds = binds && place.may_test(&self.access);
            // What TCP leaves of its room shows nothing, so what is known is not tested meanwhile.
            let room = self.access.is_settled() && self.host_tcp.has_room(now);
            if room {
                self.access.break_off();
            }
            let binds = binds && !room;
            if binds && free && sent >= granted.mul_f64(ACHIEVED_FREE) {
                self.access.pass_freely();
            } else if binds && sent >= granted.mul_f64(ACHIEVED) {
                self.access.pass(sent.saturating_add(tcp), self.careful);
            }
        }
        if let (Some(together), Some(cap)) = (together, self.access.cap())
            && together > cap.mul_f64(EVIDENCE)
        {
            if self.access.is_settled() {
                self.access.refute(together, 0.0, 0.0);
            } else {
                self.access.guess(together);
            }
        }
        place.shared = shared;
        self.judge_paths(place, socket_buffer, &seen, flows);
    }

    /// The same for each flow's own path.
    fn judge_paths(&self, place: Place, socket_buffer: u64, seen: &[(FlowId, Judgement)], flows: &mut Flows) {
        let Place { shared, alarmed, .. } = place;
        let meetings = meetings(seen, flows);
        // Who came while the queue stood takes it for the path's delay: those who were there before see it.
        let full: Vec<FlowId> = seen.iter().filter(|(_, j)| place.own_queue(j).is_some()).map(|(id, _)| *id).collect();
        let met: Vec<FlowId> = {
            let beside =
                |id: &FlowId| flows.get(id).is_some_and(|f| full.iter().any(|full| f.rivalry.is_companion(*full)));
            seen.iter().map(|(id, _)| *id).filter(beside).collect()
        };
        for (id, judged) in seen {
            let Some(flow) = flows.get_mut(id).filter(|flow| !flow.rivalry.is_on()) else { continue };
            flow.judge_window(socket_buffer, place.asked, judged.has_lost());
            if judged.in_vain {
                flow.path.forgive();
            }
            let free = flow.overshoots_freely();
            let own = place.own_queue(judged).filter(|_| !free);
            let congested = own.is_some() || judged.has_lost() || met.contains(id);
            let achieved = judge_use(flow, judged.interval, shared || congested, place.alone);
            if !shared && congested {
                let lossy = own.is_some() && flow.ambient_ratio() > LOSS_THRESHOLD;
                let capacity = match own {
                    Some(queue) if lossy => judged.sent().mul_f64(1.0 - place.drain(queue).min(1.0)),
                    _ => judged.capacity(own.is_some() || alarmed, flow.controller.target()),
                };
                let capacity = meetings.iter().find(|(met, _)| met == id).map_or(capacity, |(_, mean)| {
                    Bitrate::from_f64(capacity.as_f64() + TOGETHER * (mean.as_f64() - capacity.as_f64()))
                });
                let unused = own.map_or(0.0, |queue| place.drain(queue));
                flow.path.refute(capacity, unused, flow.rivalry.company.drain_most());
            } else if !place.may_test(&flow.path) {
                flow.path.break_off();
            } else if !shared && achieved && flow.path_binds() {
                if free { flow.path.pass_freely() } else { flow.path.pass(judged.sent(), self.careful) }
            }
            flow.estimate_by_path();
        }
    }

    /// Whether the last probe has cured what all flows together lose.
    fn has_cured(&mut self, testing: bool, empty: bool, seen: &[(FlowId, Judgement)]) -> bool {
        if self.company.is_competing() {
            self.trial = Trial::default();
            return false;
        }
        let packets = seen.iter().map(|(_, judged)| judged.interval.packets).sum();
        let loss = Loss { ratio: lost_part(seen), packets };
        self.packets = packets;
        if self.probes.is_on() {
            self.trial.on_probe(loss);
        } else if empty && !testing {
            return self.trial.note(loss).is_some();
        }
        false
    }

    /// An interval has been judged: whether the next is a probe.
    pub(super) fn probe(&mut self, flows: &mut Flows) {
        let probed = |flow: &&Flow| flow.ambient.is_forgiven() && !flow.rivalry.is_on() && !flow.overshoots_freely();
        let common = |flow: &&Flow| flow.ambient.loses(self.trial.usual() * COMMON_LOSS);
        let losing_rate = sum(running(flows).filter(common).map(|flow| flow.told_rate));
        let is_common = running(flows).count() == 1
            || losing_rate >= sum(running(flows).map(|flow| flow.told_rate)).mul_f64(SHARED_PART);
        // What a flow loses that requests bound is lost in its own host, or by the bursts that these let through.
        let bound = running(flows).any(|flow| !flow.overshoots_freely());
        let rivals_unknown = bound && !self.company.is_competing();
        self.tries = is_common && rivals_unknown && self.trial.is_worthwhile(self.packets);
        let open = self.tries && !self.trial.is_decided();
        let forgiven = running(flows).any(|flow| probed(&flow)) || self.tries;
        let proven = running(flows).filter(probed).all(|flow| flow.ambient.is_proven()) && !open;
        if self.probes.on_interval(forgiven, proven, open) {
            self.access.break_off();
            flows.awake_mut().for_each(|(_, flow)| flow.path.break_off());
        }
    }

    /// The rate at which all flows received since the last interval's end, counted as a sending rate.
    fn arrived_since(&mut self, now: Time, wire_bytes: u64, flows: &Flows) -> Bitrate {
        let (at, bytes) = std::mem::replace(&mut self.ended, (now, wire_bytes));
        let rate = Bitrate::of(wire_bytes.saturating_sub(bytes), now.since(at).max(Span::from_micros(1)));
        rate.mul_f64(1.0 / (1.0 - ambient_part(flows)))
    }

    /// Judges each flow that can be, in the order of their numbers.
    fn judge(&self, now: Time, threshold: Span, alarmed: bool, flows: &mut Flows) -> Vec<(FlowId, Judgement)> {
        let mut seen = Vec::new();
        for (&id, flow) in flows.awake_mut().filter(|(_, flow)| flow.is_under_way() && !flow.core.reliable) {
            if let Some(interval) = flow.monitor.take_interval(now) {
                let testing = self.access.is_testing() || flow.path.is_testing();
                let shy = self.company.is_shy() || flow.rivalry.company.is_shy();
                let look = Look { now, threshold, alarmed, testing, probing: self.probes.is_on(), shy };
                seen.push((id, Judgement::of(flow, interval, look)));
            }
        }
        seen
    }

    /// What came through of all flows, counted as a sending rate. `now` does not count time in which data was held.
    fn came(
        &self,
        now: Time,
        wire_bytes: u64,
        interval: Span,
        alarmed: bool,
        seen: &[(FlowId, Judgement)],
        flows: &Flows,
    ) -> Bitrate {
        let delivered = whole(seen, flows, |judged| judged.delivered);
        if !alarmed && seen.len() == running(flows).count() {
            return delivered;
        }
        // Only what has just come counts, or some could not be judged: all arrivals of late.
        let block = running(flows).map(|flow| u64::from(flow.core.block)).max().unwrap_or(0);
        let least = running(flows).map(Flow::rtt).min().unwrap_or_default().max(INTERVAL_MIN);
        let span = if alarmed { least } else { interval / 2 };
        let arrived = self.arrival_rate(now, wire_bytes, span, ARRIVED_PACKETS * block);
        arrived.map_or(delivered, |rate| rate.mul_f64(1.0 / (1.0 - ambient_part(flows))))
    }

    /// A flow has left: what was refuted while it was there may not be now.
    pub(super) fn on_leave(&mut self, flows: &mut Flows) {
        self.access.break_off();
        for (_, flow) in flows.awake_mut().filter(|(_, flow)| flow.is_running()) {
            flow.path.doubt(self.careful);
            flow.estimate_by_path();
        }
    }
}

/// What all flows were granted.
fn granted(flows: &Flows) -> Bitrate {
    sum(running(flows).map(Flow::granted))
}

/// Our data sets: each one's worth in TCP flows, and what its flows can bring.
pub(super) fn data_sets(policy: Policy, flows: &Flows) -> Vec<(f64, Bitrate)> {
    let running = flows.awake().map(|(_, flow)| flow).filter(|flow| flow.is_running());
    let mut sets: Vec<(ObjectId, Bitrate)> =
        running.map(|flow| (flow.core.join.object, flow.rivalry_rate().unwrap_or(flow.estimate))).collect();
    sets.sort_unstable();
    let sets = sets.chunk_by(|(a, _), (b, _)| a == b);
    sets.map(|set| (policy.weight(), sum(set.iter().map(|(_, rate)| *rate)))).collect()
}

/// What was judged of a flow; they stand in the order of their numbers.
pub(super) fn judged<'a>(seen: &'a [(FlowId, Judgement)], id: &FlowId) -> Option<&'a Judgement> {
    seen.binary_search_by_key(id, |(id, _)| *id).ok().and_then(|at| seen.get(at)).map(|(_, judged)| judged)
}

/// The queue that all but [`UNSEEN_PART`] of the traffic sees is the receiver's; what one sees beyond that is its
/// path's, or chance.
fn common_queue(seen: &[(FlowId, Judgement)], flows: &Flows) -> Span {
    let under_way = flows.awake().filter(|(_, flow)| flow.is_under_way() && !flow.core.reliable);
    // The queue that a flow competes in is its path's.
    let under_way = under_way.filter(|(_, flow)| !flow.rivalry.is_on_path());
    let queue = |id, flow: &Flow| judged(seen, id).map_or_else(|| flow.monitor.recent_queue(), |judged| judged.queue);
    let mut queues: Vec<(Span, f64)> = under_way.map(|(id, flow)| (queue(id, flow), flow.told_rate.as_f64())).collect();
    queues.sort_unstable_by_key(|(queue, _)| *queue);
    let mut unseen = UNSEEN_PART * queues.iter().map(|(_, rate)| rate).sum::<f64>();
    let first = queues.iter().find(|(_, rate)| {
        unseen -= rate;
        unseen < 0.0
    });
    first.map_or(Span::ZERO, |(queue, _)| *queue)
}

/// The sum over all flows of something that was judged. Those that could not be judged are taken to have had what they
/// were told.
fn whole(seen: &[(FlowId, Judgement)], flows: &Flows, of: impl Fn(&Judgement) -> Bitrate) -> Bitrate {
    let under_way = flows.awake().filter(|(_, flow)| flow.is_under_way() && !flow.core.reliable);
    sum(under_way.map(|(id, flow)| judged(seen, id).map_or(flow.told_rate, &of)))
}

/// Flows that share a place with others of ours, and what each of them would have if they had the same.
fn meetings(seen: &[(FlowId, Judgement)], flows: &Flows) -> Vec<(FlowId, Bitrate)> {
    let mean = |(id, of): &(FlowId, Judgement)| {
        let flow = flows.get(id)?;
        let others = seen.iter().filter(|(other, _)| flow.rivalry.is_companion(*other));
        let (count, sum) =
            others.fold((1.0, of.delivered.as_f64()), |(n, sum), (_, j)| (n + 1.0, sum + j.delivered.as_f64()));
        (count > 1.0).then(|| (*id, Bitrate::from_f64(sum / count)))
    };
    seen.iter().filter_map(mean).collect()
}

/// The part of all packets that was lost.
fn lost_part(seen: &[(FlowId, Judgement)]) -> f64 {
    let packets: f64 = seen.iter().map(|(_, judged)| judged.interval.packets as f64).sum();
    let lost: f64 = seen.iter().map(|(_, judged)| judged.interval.packets as f64 * judged.interval.loss).sum();
    if packets > 0.0 { (lost / packets).min(0.9) } else { 0.0 }
}

/// The part of what all flows are told to send that is lost whatever the rate.
fn ambient_part(flows: &Flows) -> f64 {
    let told: f64 = running(flows).map(|flow| flow.told_rate.as_f64()).sum();
    let lost: f64 = running(flows).map(|flow| flow.told_rate.as_f64() * flow.ambient_ratio()).sum();
    if told > 0.0 { lost / told } else { 0.0 }
}

/// Sees whether the sender gives what it may. True if it does.
pub(super) fn judge_use(flow: &mut Flow, interval: Interval, congested: bool, alone: bool) -> bool {
    // Where requests bound the flow its rate must only be out of the way, whatever late wake-ups make of it.
    let achieved = if flow.window_bound { ACHIEVED_FREE } else { ACHIEVED };
    if interval.total() >= flow.controller.target().mul_f64(achieved) {
        flow.limited = false;
        flow.fell_short = 0;
        flow.used = [Bitrate::ZERO; USED_INTERVALS];
        return true;
    }
    // It could have sent more, had it been asked to, or had the path let it through.
    if !interval.dry && !congested {
        // Time and again, it is the sender's limit: the rest is for others, if there are any. Once, it is chance.
        flow.used[flow.fell_short as usize % USED_INTERVALS] = interval.total();
        flow.fell_short = flow.fell_short.saturating_add(1);
        flow.limited = flow.fell_short >= LIMITED_AFTER && !alone;
    }
    false
}
