//! Measured capacities: learnt from a first burst and from each central interval (PROTOCOL.md 7).

use std::collections::VecDeque;

use inhaul_base::{Bitrate, Span, Time};
use inhaul_transport::{FlowId, ObjectId, TcpFlows};

use super::ambient::LOSS_THRESHOLD;
use super::bound::{Bound, DRAIN_MAX};
use super::cross_traffic::{CrossTraffic, Seen};
use super::found::{ACHIEVED, ACHIEVED_FREE, BINDS, Found, Sample};
use super::host_tcp::HostTcp;
use super::judgement::{Conditions, Judgement, fresh_loss, queue_threshold};
use super::member::{Group, Member, sum};
use super::policy::{Policy, Weight};
use super::probe::{Probes, Trial};
use crate::gtp::monitor::Loss;

/// A central interval is not shorter than this: below it there is too little to measure.
pub(in crate::gtp) const INTERVAL_MIN: Span = Span::from_millis(20);
/// Two packets are no queue.
const QUEUE_PACKETS: u64 = 2;
/// The receiver's queue is seen by all but this part of the traffic: a base delay may be wrong.
const UNSEEN_PART: f64 = 0.4;
/// A flow that has missed this many queues in a row that the others saw ...
const WITNESS_QUEUES: u32 = 3;
/// ... and has at least this part of the traffic, shows that they are not the receiver's.
const WITNESS_PART: f64 = 0.1;
/// A flow with this part of the loss that counts as congestion bears witness to the loss of others.
const HINT: f64 = 0.5;
/// Loss that at least this part of the traffic sees is the receiver's own; ...
const SHARED_PART: f64 = 0.6;
/// ... and loss of this part of it keeps its bound from being tested.
const UNSHARED_PART: f64 = 0.3;
/// A flow with this part of the total loss counts as affected.
const COMMON_LOSS: f64 = 0.5;
/// A loss ratio this high in one RTT is not left for the end of the interval.
const ALARM_LOSS: f64 = 0.02;
/// The first step of a test: if it is too much, the queue after an interval is this many thresholds long.
const STEP_QUEUES: f64 = 2.25;
/// But it is within these parts of the bound.
const STEP: (f64, f64) = (0.002, 0.01);
/// A burst that comes faster than the bound by more than this refutes it.
pub(super) const EVIDENCE: f64 = 1.05;
/// Flows that share a link on their way come closer by this part of their difference, each time the link is full.
const TOGETHER: f64 = 0.3;
/// An arrival rate is computed from at least this many packets.
const ARRIVED_PACKETS: u64 = 64;
/// Arrivals are noted at this interval ...
const NOTE_GAP: Span = Span::from_millis(5);
/// ... and this many notes are kept.
const NOTES: usize = 512;

/// The known bound of the receiver's capacity, and the state for learning it.
#[derive(Debug, Default)]
pub(in crate::gtp) struct Capacities {
    /// C_r.
    pub(super) access: Bound,
    /// How much is taken beside others.
    policy: Policy,
    /// Cross traffic at the receiver's link.
    pub(super) cross_traffic: CrossTraffic,
    /// Traffic of the host's own TCP.
    pub(super) host_tcp: HostTcp,
    /// The end of the last interval, and the bytes that all flows had received by then.
    ended: (Time, u64),
    /// What all flows together had received by when.
    arrived: VecDeque<(Time, u64)>,
    /// Whether the forgiven loss occurs at any rate.
    pub(super) probes: Probes,
    /// Results of probes of all flows together.
    trial: Trial,
    /// The next probe is of all flows.
    pub(super) tries: bool,
    /// Packets of the last interval.
    packets: u64,
    /// The first step of a test.
    careful: f64,
    /// A flow's loss over a single RTT was high: earlier arrivals do not count.
    alarmed: bool,
    /// Most of the traffic sees a queue.
    stands: bool,
}

/// When a central interval ends.
#[derive(Clone, Copy, Debug)]
pub(in crate::gtp) struct Times {
    pub(in crate::gtp) now: Time,
    /// The same without the time in which data was held.
    pub(in crate::gtp) active: Time,
    /// The planned length of the interval.
    pub(in crate::gtp) interval: Span,
    /// Data was held lately: a queue has drained meanwhile, and shows nothing.
    pub(in crate::gtp) held: bool,
}

/// An interval's result for the receiver's link, by which paths are judged.
#[derive(Clone, Copy, Debug)]
struct Place {
    times: Times,
    /// How many flows there are.
    count: usize,
    /// What all flows were told.
    asked: Bitrate,
    /// The queue that all share.
    common: Span,
    /// How long a queue must be to count, and one of a path's own.
    threshold: Span,
    own_threshold: Span,
    /// Requests bound what all flows have on their way.
    free: bool,
    /// Much was lost in the last RTT: earlier arrivals do not count.
    alarmed: bool,
    /// Whether some flow has lost more than its ambient loss, and the told rates of flows that lost recently.
    lost: bool,
    losing: Bitrate,
    /// The loss is the receiver's.
    is_common_loss: bool,
    /// The receiver's link is congested.
    shared: bool,
}

impl Place {
    /// The queue that a flow sees beyond what all share, if it counts.
    fn own_queue(&self, judged: &Judgement) -> Option<Span> {
        Some(judged.queue.saturating_sub(self.common)).filter(|queue| *queue >= self.own_threshold)
    }

    /// The part of an interval that a queue is.
    fn drain(&self, queue: Span) -> f64 {
        queue.as_secs_f64() / self.times.interval.as_secs_f64()
    }

    /// A receiver that requests a little more than the capacity would see no queue after data was held, until the
    /// buffer overflows.
    fn may_test(&self, bound: &Bound) -> bool {
        !self.times.held || !bound.is_settled()
    }
}

/// Arrivals of an interval.
#[derive(Clone, Copy, Debug)]
struct Arrivals {
    /// Of our flows, counted as a sending rate.
    ours: Bitrate,
    /// Of the host's own TCP; zero where it does not matter.
    tcp: Bitrate,
    /// The most that came of both of late, where TCP matters.
    together: Option<Bitrate>,
}

impl Capacities {
    pub(in crate::gtp) fn new(policy: Policy) -> Self {
        Self { policy, ..Self::default() }
    }

    pub(super) fn policy(&self) -> Policy {
        self.policy
    }

    /// Another policy from now on.
    pub(in crate::gtp) fn set_policy(&mut self, now: Time, policy: Policy, group: &mut Group<'_>) {
        let before = std::mem::replace(&mut self.policy, policy);
        let holds = policy == Policy::Fixed;
        if policy == Policy::Low {
            self.cross_traffic.yield_all();
        }
        if holds != (before == Policy::Fixed) {
            // Measured bounds came from another control law.
            (self.access, self.cross_traffic) = (Bound::default(), CrossTraffic::default());
        }
        for member in group.scheduled_mut() {
            member.found.hold_rate(now, holds);
            member.found.rivalry.set_worth(policy.weight());
            if policy == Policy::Low {
                member.found.rivalry.cross_traffic.yield_all();
            }
            member.estimate_by_path();
        }
        if before == Policy::Low && policy != before && !holds {
            self.contend(now, policy.weight() / before.weight(), group);
        }
    }

    /// C_r, as far as it was found.
    pub(in crate::gtp) fn limit(&self) -> Option<Bitrate> {
        self.access.limit()
    }

    /// Whether others fill the receiver's queue, and are competed with.
    pub(in crate::gtp) fn is_competing(&self) -> bool {
        self.cross_traffic.is_competing()
    }

    /// Whether less is asked of a flow, to see whose losses are.
    pub(in crate::gtp) fn probes(&self, found: &Found) -> bool {
        self.probes.is_on() && (self.tries || found.ambient.is_forgiven())
    }

    // --- The host's own TCP -----------------------------------------------------------------------------------------

    /// The host has measured its own TCP; our flows have received `wire_bytes` since the start.
    pub(in crate::gtp) fn note_host_tcp(&mut self, now: Time, wire_bytes: u64, tcp: TcpFlows) {
        self.host_tcp.note(now, wire_bytes, tcp);
    }

    /// Whether the host's own TCP takes a part that matters.
    pub(in crate::gtp) fn is_beside_host(&self, now: Time) -> bool {
        self.host_tcp.together(now).is_some()
    }

    /// Our part of the receiver's `given` capacity: the host's own TCP has its share.
    pub(in crate::gtp) fn left(&self, now: Time, given: Option<Bitrate>, group: &Group<'_>) -> Option<Bitrate> {
        let together = self.host_tcp.together(now)?;
        // If more has come, the given value is for our flows, not for all.
        let told = given.filter(|given| together <= given.mul_f64(EVIDENCE));
        let whole = told.into_iter().chain(self.access.limit()).min()?;
        let settled = told.is_some() || self.access.is_settled();
        Some(self.host_tcp.left(now, whole, settled, &data_sets(self.policy, group)))
    }

    // --- Arrivals ---------------------------------------------------------------------------------------------------

    /// All flows together have received `wire_bytes` since the start. `now` does not count time in which data was
    /// held.
    pub(in crate::gtp) fn note_arrived(&mut self, now: Time, wire_bytes: u64) {
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

    /// A flow's loss over an RTT, beyond the ambient one. True if it is too high to wait for the interval's end.
    pub(in crate::gtp) fn alarms(&mut self, excess: f64) -> bool {
        let is_high = excess >= ALARM_LOSS;
        self.alarmed |= is_high;
        is_high
    }

    /// Whether more is asked of a receiver whose only flow this is than comes through. Its RTT may be long, and queues
    /// short.
    pub(in crate::gtp) fn lone_test_fails(&self, sample: &Sample, found: &Found) -> bool {
        let threshold = queue_threshold(sample.told, sample.block, QUEUE_PACKETS);
        self.access.is_testing() && !found.overshoots_freely() && sample.recent_queue >= threshold
    }

    // --- The central interval ---------------------------------------------------------------------------------------

    /// Determines whether the receiver or single paths are congested. The congested one's capacity is the rate that it
    /// delivered. All flows together have received `wire_bytes` since the start.
    pub(in crate::gtp) fn discover(
        &mut self,
        times: Times,
        wire_bytes: u64,
        socket_buffer: u64,
        group: &mut Group<'_>,
    ) {
        if times.held && self.access.is_settled() {
            self.access.break_off();
        }
        let place = self.judge_all(times, group);
        let came = Arrivals {
            ours: self.arrived_since(times.active, wire_bytes, group),
            tcp: self.host_tcp.takes(times.now),
            together: self.host_tcp.together(times.now),
        };
        let met = self.meet(&place, came, group);
        if self.compete(met, place.drain(place.common), group) {
            return;
        }
        if place.count > 1 {
            let queue =
                |judged: &Judgement| if place.free { Span::ZERO } else { judged.queue.saturating_sub(place.common) };
            self.compete_on_paths(times.now, place.own_threshold, times.interval, queue, group);
        }
        if place.shared {
            self.refute_access(&place, came, wire_bytes, group);
        } else if place.losing < place.asked.mul_f64(UNSHARED_PART) {
            self.test_access(&place, came, group);
        }
        if let (Some(together), Some(cap)) = (came.together, self.access.cap())
            && together > cap.mul_f64(EVIDENCE)
        {
            if self.access.is_settled() {
                self.access.refute(together, 0.0, 0.0);
            } else {
                self.access.guess(together);
            }
        }
        self.judge_paths(&place, socket_buffer, group);
    }

    /// Judges each flow that can be, and by them the receiver's link.
    fn judge_all(&mut self, times: Times, group: &mut Group<'_>) -> Place {
        let alarmed = std::mem::take(&mut self.alarmed);
        let (asked, block, count) = (group.told(), group.block_max(), group.running().count());
        let threshold = queue_threshold(asked, block, QUEUE_PACKETS);
        // Flows of equal rates may stay in step, and the same one always wait for the others.
        let own_threshold = queue_threshold(asked, block, QUEUE_PACKETS + count as u64 / 2);
        self.judge(times.now, threshold, alarmed, group);
        let common = self.common_queue(threshold, group);
        // Loss that a cut did not cure is ambient.
        let in_vain = group.judged().filter(|(_, judged)| judged.in_vain).count();
        if in_vain > 0 && 2 * in_vain >= group.judged().count() {
            self.access.forgive();
        }
        // Losses of a flow that competes with others belong to its path.
        let lost = || {
            let at_receiver = group.judged().filter(|(member, _)| !member.found.rivalry.is_on_path());
            at_receiver.map(|(_, judged)| judged).filter(|judged| judged.has_lost())
        };
        let is_losing = |Member { sample, found, .. }: &&Member<'_>| {
            !found.rivalry.is_on_path() && fresh_loss(sample, found) >= HINT
        };
        let losing = || group.running().filter(is_losing);
        let losing_rate = sum(losing().map(|member| member.sample.told));
        let mut place = Place {
            times,
            count,
            asked,
            common,
            threshold,
            own_threshold,
            // If the window of requests bounds the bytes in flight, it causes the queues, and they do not overflow.
            free: group.running().all(|member| member.found.overshoots_freely()),
            alarmed,
            lost: lost().next().is_some(),
            losing: losing_rate,
            is_common_loss: count == 1 || (losing().count() > 1 && losing_rate >= asked.mul_f64(SHARED_PART)),
            shared: false,
        };
        // One experiment at a time: losses while the receiver is tested belong to it, if no path has a queue of its
        // own.
        let is_tests_loss = self.access.is_testing() && lost().all(|judged| place.own_queue(judged).is_none());
        let is_lost_there = place.lost && (place.is_common_loss || is_tests_loss);
        place.shared = (place.common >= threshold && !place.free) || is_lost_there;
        self.careful = (STEP_QUEUES * place.drain(threshold)).clamp(STEP.0, STEP.1);
        place
    }

    /// Judges each flow that can be.
    fn judge(&self, now: Time, threshold: Span, alarmed: bool, group: &mut Group<'_>) {
        for Member { sample, found, interval, judged, .. } in group.under_way_mut() {
            let Some(interval) = *interval else { continue };
            let testing = self.access.is_testing() || found.path.is_testing();
            let shy = self.cross_traffic.is_shy() || found.rivalry.cross_traffic.is_shy();
            let conditions = Conditions { now, threshold, alarmed, testing, probing: self.probes.is_on(), shy };
            *judged = Some(Judgement::of(sample, found, interval, conditions));
        }
    }

    /// The queue that most of the traffic sees is the receiver's; the rest of a flow's queue is its path's, or chance.
    /// But if a flow repeatedly has not seen the common queue, that queue belongs to the others' path.
    fn common_queue(&mut self, threshold: Span, group: &mut Group<'_>) -> Span {
        let common = seen_by_most(group);
        let stood = std::mem::replace(&mut self.stands, common >= threshold);
        for (member, judged) in group.judged_mut() {
            if judged.queue >= threshold {
                member.found.unmoved = 0;
            } else if stood && !self.stands {
                member.found.unmoved = member.found.unmoved.saturating_add(1);
            }
        }
        let enough = group.told().mul_f64(WITNESS_PART);
        let is_witness = |member: &&Member<'_>| {
            member.found.unmoved >= WITNESS_QUEUES && member.sample.told >= enough && member.judged.is_some()
        };
        at_receiver(group).filter(is_witness).map(queue_of).chain([common]).min().unwrap_or_default()
    }

    /// The interval's evidence of rivals at the receiver's link.
    fn meet(&mut self, place: &Place, came: Arrivals, group: &Group<'_>) -> Seen {
        let testing = self.access.is_testing() || group.running().any(|member| member.found.path.is_testing());
        // The host's own TCP is no rival: its traffic counts as arrivals, too.
        let all = came.ours.saturating_add(came.tcp);
        Seen {
            now: place.times.now,
            sent: came.ours.mul_f64(1.0 / (1.0 - lost_part(group))).saturating_add(came.tcp),
            came: all,
            together: all,
            queue: if place.free { Span::ZERO } else { place.common },
            threshold: place.threshold,
            // With many flows, one always loses by chance.
            lost: place.lost && (place.is_common_loss || self.cross_traffic.is_competing()),
            testing,
            probing: self.probes.is_on(),
            cured: self.has_cured(testing, place.common < place.threshold, group),
        }
    }

    /// The receiver's link is congested: its capacity is the arrival rate.
    fn refute_access(&mut self, place: &Place, came: Arrivals, wire_bytes: u64, group: &Group<'_>) {
        // If much is lost at any rate, arrivals show less than the sent data minus the present queue.
        let capacity = if !place.alarmed && ambient_part(group) > LOSS_THRESHOLD {
            whole(group, Judgement::sent).mul_f64(1.0 - place.drain(place.common).min(1.0))
        } else {
            self.came(place, wire_bytes, group)
        };
        // TCP fills what we drain of the queue.
        let drain_most = came.together.map_or(self.cross_traffic.drain_most(), |all| {
            DRAIN_MAX * (1.0 - 2.0 * came.tcp.as_f64() / all.as_f64().max(1.0)).max(0.0)
        });
        self.access.refute(came.together.unwrap_or(capacity), place.drain(place.common), drain_most);
        self.host_tcp.on_congestion(place.times.now, came.ours, group.granted());
    }

    /// The receiver's link is not congested: if it bounds the flows, it is tested for more.
    fn test_access(&mut self, place: &Place, came: Arrivals, group: &Group<'_>) {
        let now = place.times.now;
        // Room that TCP leaves unused shows nothing, so the bound is not tested meanwhile.
        if self.access.is_settled() && self.host_tcp.has_room(now) {
            self.access.break_off();
            return;
        }
        let (granted, sent) = (group.granted(), whole(group, Judgement::sent));
        let binds = self.access.limit().is_some_and(|limit| {
            let left = self.host_tcp.left(now, limit, self.access.is_settled(), &data_sets(self.policy, group));
            granted >= left.mul_f64(BINDS)
        });
        if !binds || !place.may_test(&self.access) {
            return;
        }
        if place.free && sent >= granted.mul_f64(ACHIEVED_FREE) {
            self.access.pass_freely();
        } else if sent >= granted.mul_f64(ACHIEVED) {
            self.access.pass(sent.saturating_add(came.tcp), self.careful);
        }
    }

    /// The same for each flow's own path.
    fn judge_paths(&self, place: &Place, socket_buffer: u64, group: &mut Group<'_>) {
        let meetings = meetings(group);
        // A flow that joined while the queue stood takes it for the path's delay; earlier flows see it.
        let full: Vec<FlowId> = group
            .judged()
            .filter(|(_, judged)| place.own_queue(judged).is_some())
            .map(|(member, _)| member.id)
            .collect();
        for (member, judged) in group.judged_mut() {
            let Member { id, sample, found, .. } = member;
            let met = full.iter().any(|full| found.rivalry.is_companion(*full));
            if found.rivalry.is_on() {
                continue;
            }
            found.judge_window(sample, socket_buffer, place.asked, judged.has_lost());
            if judged.in_vain {
                found.path.forgive();
            }
            let free = found.overshoots_freely();
            let own = place.own_queue(&judged).filter(|_| !free);
            let congested = own.is_some() || judged.has_lost() || met;
            let achieved = found.judge_use(sample, judged.interval, place.shared || congested, place.count == 1);
            if !place.shared && congested {
                let lossy = own.is_some() && found.ambient_ratio() > LOSS_THRESHOLD;
                let capacity = match own {
                    Some(queue) if lossy => judged.sent().mul_f64(1.0 - place.drain(queue).min(1.0)),
                    _ => judged.capacity(own.is_some() || place.alarmed, sample.target),
                };
                let capacity = meetings.iter().find(|(met, _)| met == id).map_or(capacity, |(_, mean)| {
                    Bitrate::from_f64(capacity.as_f64() + TOGETHER * (mean.as_f64() - capacity.as_f64()))
                });
                let unused = own.map_or(0.0, |queue| place.drain(queue));
                found.path.refute(capacity, unused, found.rivalry.cross_traffic.drain_most());
            } else if !place.may_test(&found.path) {
                found.path.break_off();
            } else if !place.shared && achieved && found.path_binds(sample) {
                if free { found.path.pass_freely() } else { found.path.pass(judged.sent(), self.careful) }
            }
            found.estimate_by_path(sample);
        }
    }

    /// Whether the last probe has cured what all flows together lose.
    fn has_cured(&mut self, testing: bool, empty: bool, group: &Group<'_>) -> bool {
        if self.cross_traffic.is_competing() {
            self.trial = Trial::default();
            return false;
        }
        let packets = group.judged().map(|(_, judged)| judged.interval.packets).sum();
        let loss = Loss { ratio: lost_part(group), packets };
        self.packets = packets;
        if self.probes.is_on() {
            self.trial.on_probe(loss);
        } else if empty && !testing {
            return self.trial.note(loss).is_some();
        }
        false
    }

    /// An interval has been judged: whether the next is a probe.
    pub(in crate::gtp) fn probe(&mut self, group: &mut Group<'_>) {
        let probed =
            |found: &Found| found.ambient.is_forgiven() && !found.rivalry.is_on() && !found.overshoots_freely();
        let common = group.running().filter(|member| member.found.ambient.loses(self.trial.usual() * COMMON_LOSS));
        let losing_rate = sum(common.map(|member| member.sample.told));
        let is_common = group.running().count() == 1 || losing_rate >= group.told().mul_f64(SHARED_PART);
        // If requests bound a flow, its losses come from its own host, or from the bursts that requests allow.
        let bound = group.running().any(|member| !member.found.overshoots_freely());
        let rivals_unknown = bound && !self.cross_traffic.is_competing();
        self.tries = is_common && rivals_unknown && self.trial.is_worthwhile(self.packets);
        let open = self.tries && !self.trial.is_decided();
        let forgiven = group.running().map(|member| &*member.found).filter(|found| probed(found));
        let proven: Vec<bool> = forgiven.map(|found| found.ambient.is_proven()).collect();
        let is_forgiven = !proven.is_empty() || self.tries;
        let proven = proven.iter().all(|proven| *proven) && !open;
        if self.probes.on_interval(is_forgiven, proven, open) {
            self.access.break_off();
            group.all_mut().for_each(|member| member.found.path.break_off());
        }
    }

    /// The rate at which all flows received since the last interval's end, counted as a sending rate.
    fn arrived_since(&mut self, now: Time, wire_bytes: u64, group: &Group<'_>) -> Bitrate {
        let (at, bytes) = std::mem::replace(&mut self.ended, (now, wire_bytes));
        let rate = Bitrate::of(wire_bytes.saturating_sub(bytes), now.since(at).max(Span::from_micros(1)));
        rate.mul_f64(1.0 / (1.0 - ambient_part(group)))
    }

    /// Arrivals of all flows, as a sending rate.
    fn came(&self, place: &Place, wire_bytes: u64, group: &Group<'_>) -> Bitrate {
        let delivered = whole(group, |judged| judged.delivered);
        if !place.alarmed && group.judged().count() == place.count {
            return delivered;
        }
        // If only recent data counts, or some flows could not be judged: all recent arrivals.
        let least = group.running().map(|member| member.sample.rtt).min().unwrap_or_default().max(INTERVAL_MIN);
        let span = if place.alarmed { least } else { place.times.interval / 2 };
        let arrived = self.arrival_rate(place.times.active, wire_bytes, span, ARRIVED_PACKETS * group.block_max());
        arrived.map_or(delivered, |rate| rate.mul_f64(1.0 / (1.0 - ambient_part(group))))
    }

    /// A flow has left: rates refuted with it may be possible now.
    pub(in crate::gtp) fn on_leave(&mut self, group: &mut Group<'_>) {
        self.access.break_off();
        for member in group.scheduled_mut() {
            member.found.path.doubt(self.careful);
            member.estimate_by_path();
        }
    }
}

/// Our data sets: each one's weight in TCP flows, and the rate that its flows can bring.
fn data_sets(policy: Policy, group: &Group<'_>) -> Vec<(f64, Bitrate)> {
    let mut sets: Vec<(ObjectId, Bitrate)> =
        group.scheduled().map(|member| (member.sample.object, member.found.wanted(&member.sample))).collect();
    sets.sort_unstable();
    let sets = sets.chunk_by(|(a, _), (b, _)| a == b);
    sets.map(|set| (policy.weight(), sum(set.iter().map(|(_, rate)| *rate)))).collect()
}

/// The queue that all but [`UNSEEN_PART`] of the traffic sees.
fn seen_by_most(group: &Group<'_>) -> Span {
    let mut queues: Vec<(Span, f64)> =
        at_receiver(group).map(|member| (queue_of(member), member.sample.told.as_f64())).collect();
    queues.sort_unstable_by_key(|(queue, _)| *queue);
    let mut unseen = UNSEEN_PART * queues.iter().map(|(_, rate)| rate).sum::<f64>();
    let first = queues.iter().find(|(_, rate)| {
        unseen -= rate;
        unseen < 0.0
    });
    first.map_or(Span::ZERO, |(queue, _)| *queue)
}

/// Flows that see the receiver's queue: the queue of a competing flow is its path's.
fn at_receiver<'g, 'a>(group: &'g Group<'a>) -> impl Iterator<Item = &'g Member<'a>> {
    group.under_way().filter(|member| !member.found.rivalry.is_on_path())
}

fn queue_of(member: &Member<'_>) -> Span {
    member.judged.map_or(member.sample.recent_queue, |judged| judged.queue)
}

/// The sum of a judged quantity over all flows. Flows that could not be judged count with their told rate.
fn whole(group: &Group<'_>, of: impl Fn(&Judgement) -> Bitrate) -> Bitrate {
    sum(group.under_way().map(|member| member.judged.as_ref().map_or(member.sample.told, &of)))
}

/// Flows that share a link with others of ours, and the rate of each if all had the same.
fn meetings(group: &Group<'_>) -> Vec<(FlowId, Bitrate)> {
    let mean = |(member, of): (&Member<'_>, &Judgement)| {
        let others = group.judged().filter(|(other, _)| member.found.rivalry.is_companion(other.id));
        let (count, sum) =
            others.fold((1.0, of.delivered.as_f64()), |(n, sum), (_, j)| (n + 1.0, sum + j.delivered.as_f64()));
        (count > 1.0).then(|| (member.id, Bitrate::from_f64(sum / count)))
    };
    group.judged().filter_map(mean).collect()
}

/// The part of all packets that was lost.
fn lost_part(group: &Group<'_>) -> f64 {
    let packets = |judged: &Judgement| judged.interval.packets as f64;
    let all: f64 = group.judged().map(|(_, judged)| packets(judged)).sum();
    let lost: f64 = group.judged().map(|(_, judged)| packets(judged) * judged.interval.loss).sum();
    if all > 0.0 { (lost / all).min(0.9) } else { 0.0 }
}

/// The part of all told rates that is lost at any rate.
fn ambient_part(group: &Group<'_>) -> f64 {
    let told: f64 = group.running().map(|member| member.sample.told.as_f64()).sum();
    let lost: f64 = group.running().map(|member| member.sample.told.as_f64() * member.found.ambient_ratio()).sum();
    if told > 0.0 { lost / told } else { 0.0 }
}
