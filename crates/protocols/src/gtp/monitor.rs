//! SingleFlowMonitor: one flow's received and lost packets (gtp-2004 3.2), its RTT, its standing queue, and the path's
//! capacity by its bursts.

use inhaul_base::{Bitrate, Span, Time};
use inhaul_transport::kit::{RttEstimator, WindowedMin};

use super::burst::BurstBound;
use super::marks::Marks;

/// The least delay, one way and both, is remembered for so long. Longer, and the drift of two clocks would pass for a
/// queue.
const BASE_DELAY_WINDOW: Span = Span::from_secs(20);
/// A train of fewer packets says nothing of the path.
const TRAIN_PACKETS_MIN: u64 = 2;
/// A burst that arrives in less time than this was handed over by the host at once: its spacing is not the path's.
pub const TRAIN_SPAN_MIN: Span = Span::from_micros(50);
/// Other flows' arrivals during a burst are certain if the burst came in at least this many messages. With fewer
/// messages, each has many packets: another flow's message may be as long as the burst, and most of it may have come
/// before.
const MESSAGES_MIN: u64 = 8;
/// How many bursts the capacity of the path is the median of.
const TRAINS: usize = 4;
/// A gap is lost when it does not fill within this part of the RTT ...
const REORDER_RTT_PART: u64 = 8;
/// ... but at least this long after, and at most a whole RTT.
const REORDER_MIN: Span = Span::from_micros(500);
/// Of less time than this nothing is judged: pauses of hosts are as long.
const INTERVAL_MIN: Span = Span::from_millis(10);
/// The arrivals of the last RTT give a rate, and not chance, from this time on.
const RECENT_MIN: Span = Span::from_millis(10);
/// And from this many packets on.
const RECENT_PACKETS: u64 = 32;
/// The received rate that people see is the mean over so long.
const DISPLAY_WINDOW: Span = Span::from_millis(250);

/// Data packets that came in one after the other, in order, at the same moment.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// How many packets.
    pub packets: u64,
    /// Their length with all headers from IP up, in bytes.
    pub wire_bytes: u64,
    /// The sender's clock in the first packet, in nanoseconds.
    pub sent: u64,
    /// The rate they were sent at, by its epoch.
    pub epoch: u16,
    /// How long they had waited in this host when they were read.
    pub waited: Span,
    /// They came with a mark of congestion (ECN): to the control that is as good as lost (RFC 3168 section 5).
    pub congested: bool,
}

/// Packets that were lost or came marked, as a part of a number of packets.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Loss {
    /// Lost and marked over received and lost.
    pub ratio: f64,
    /// Received and lost.
    pub packets: u64,
}

/// The monitor's measurements over a central interval, of packets sent at the rate in force.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// Rate received (r_curr), headers included.
    pub received: Bitrate,
    /// Part of the packets that was lost (loss_i) or came with a mark of congestion.
    pub loss: f64,
    /// The part that came with a mark.
    pub marked: f64,
    /// Packets received and lost.
    pub packets: u64,
    /// The least queueing delay: a queue that stood through the whole interval.
    pub queue: Span,
    /// The mean queueing delay.
    pub queue_mean: Span,
    /// The sender ran out of requests meanwhile: it could have sent more.
    pub dry: bool,
    /// Rate received in only the last RTT (of 10 ms or more): the capacity of a path that has just become narrower.
    pub recent: Bitrate,
}

impl Interval {
    /// Total rate: received and lost (r_total).
    pub fn total(&self) -> Bitrate {
        let lost = self.loss - self.marked;
        if lost < 1.0 { self.received.mul_f64(1.0 / (1.0 - lost)) } else { self.received }
    }
}

/// The arrival of a burst that left back to back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Dispersion {
    /// The rate at which its packets came.
    pub own: Bitrate,
    /// The rate at which all of the receiver's flows together came during that time, as far as can be told.
    pub all_flows: Bitrate,
    /// As much of that as is certain.
    pub proven: Bitrate,
}

#[derive(Clone, Copy, Debug)]
struct Train {
    sent: u64,
    packets: u64,
    messages: u64,
    /// When the first and the last of its packets reached this host, and when they were read.
    first_at: Time,
    last_at: Time,
    first_read: Time,
    last_read: Time,
    wire_bytes: u64,
    bytes_after_first: u64,
    all_at_first: u64,
    all_at_last: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    received: u64,
    /// Of these, with a mark.
    marked: u64,
    lost: u64,
    wire_bytes: u64,
    first_at: Option<Time>,
    first_wire: u64,
    last_at: Time,
    delay_min: Option<i64>,
    delay_sum: i128,
    dry: bool,
}

/// The same over an RTT, of packets sent at any rate.
#[derive(Clone, Copy, Debug, Default)]
struct RttTally {
    received: u64,
    lost: u64,
    /// Those of the lost that were sent at the rate in force.
    lost_now: u64,
    /// Those of the received that came with a mark, and those of them that were sent at the rate in force.
    marked: u64,
    marked_now: u64,
    delay_min: Option<i64>,
}

impl RttTally {
    /// The loss of all, in which marked packets count like lost ones.
    fn loss(&self) -> Option<Loss> {
        self.part(self.lost + self.marked)
    }

    /// The same, of packets sent at the rate in force.
    fn loss_now(&self) -> Option<Loss> {
        self.part(self.lost_now + self.marked_now)
    }

    fn part(&self, of: u64) -> Option<Loss> {
        let packets = self.received + self.lost;
        (packets > 0).then(|| Loss { ratio: of as f64 / packets as f64, packets })
    }
}

fn least(known: Option<i64>, new: i64) -> Option<i64> {
    Some(known.map_or(new, |known| known.min(new)))
}

/// Measures one flow.
#[derive(Debug)]
pub struct SingleFlowMonitor {
    epoch: u16,
    interval: Tally,
    judged: Time,
    this_rtt: RttTally,
    last_rtt: RttTally,
    recent_since: Option<(Time, u64, u64)>,
    recent: Bitrate,
    rtt: RttEstimator,
    base_delay: WindowedMin,
    base_rtt: WindowedMin,
    reordering: Span,
    train: Option<Train>,
    /// Bursts measure the path; else only how long they are is of interest.
    watches_bursts: bool,
    dispersions: [Dispersion; TRAINS],
    dispersions_seen: usize,
    display: (Time, u64, Bitrate),
    marks: Marks,
    /// How long a burst the path has borne.
    pub bursts: BurstBound,
    /// Packets received since the start.
    pub received_packets: u64,
    /// Of these, with a mark of congestion.
    pub marked_packets: u64,
    /// Packets lost since the start.
    pub lost_packets: u64,
    /// Bytes received since the start, headers included.
    pub wire_bytes: u64,
}

impl SingleFlowMonitor {
    /// A monitor that has seen nothing.
    pub fn new(now: Time) -> Self {
        Self {
            epoch: 0,
            interval: Tally::default(),
            judged: now,
            this_rtt: RttTally::default(),
            last_rtt: RttTally::default(),
            recent_since: None,
            recent: Bitrate::MAX,
            rtt: RttEstimator::default(),
            base_delay: WindowedMin::new(BASE_DELAY_WINDOW),
            base_rtt: WindowedMin::new(BASE_DELAY_WINDOW),
            reordering: Span::ZERO,
            train: None,
            watches_bursts: false,
            dispersions: [Dispersion::default(); TRAINS],
            dispersions_seen: 0,
            display: (now, 0, Bitrate::ZERO),
            marks: Marks::default(),
            bursts: BurstBound::default(),
            received_packets: 0,
            marked_packets: 0,
            lost_packets: 0,
            wire_bytes: 0,
        }
    }

    /// The path has changed: measurements of the old one no longer hold. Counters continue.
    pub fn begin_path(&mut self, now: Time) {
        let Self { epoch, received_packets, marked_packets, lost_packets, wire_bytes, .. } = *self;
        *self = Self { epoch, received_packets, marked_packets, lost_packets, wire_bytes, ..Self::new(now) };
    }

    /// The rate has changed: from here on only packets of `epoch` are judged.
    pub fn begin_epoch(&mut self, epoch: u16) {
        self.epoch = epoch;
        self.interval = Tally::default();
        (self.this_rtt.lost_now, self.this_rtt.marked_now) = (0, 0);
        (self.recent_since, self.recent) = (None, Bitrate::MAX);
        self.bursts.on_rate();
    }

    /// Packets came in. `all_wire_bytes` counts what all of the receiver's flows have received, this run included.
    pub fn on_data(&mut self, now: Time, run: Run, all_wire_bytes: u64) {
        self.received_packets += run.packets;
        self.wire_bytes += run.wire_bytes;
        // The two clocks have unknown origins; only differences between delays mean anything.
        let delay = now.as_nanos().wrapping_sub(run.sent) as i64;
        self.base_delay.sample(now, delay);
        let queue = delay.saturating_sub(self.base_delay.get().unwrap_or(delay));
        let marked = self.marks.count(run.packets, run.congested, Span::from_nanos(queue.max(0) as u64));
        self.this_rtt.received += run.packets;
        self.this_rtt.marked += marked;
        self.marked_packets += marked;
        self.this_rtt.delay_min = least(self.this_rtt.delay_min, delay);
        if run.epoch == self.epoch {
            let tally = &mut self.interval;
            tally.received += run.packets;
            tally.marked += marked;
            tally.wire_bytes += run.wire_bytes;
            if tally.first_at.is_none() {
                tally.first_at = Some(now);
                tally.first_wire = run.wire_bytes;
            }
            self.this_rtt.marked_now += marked;
            // "Recent" counts from the first arrival at the rate in force.
            self.recent_since.get_or_insert((now, self.wire_bytes, self.received_packets));
            tally.last_at = now;
            tally.delay_sum += i128::from(delay) * i128::from(run.packets);
            tally.delay_min = least(tally.delay_min, delay);
        }
        self.follow_train(now, run, all_wire_bytes);
    }

    /// Packets that were sent in rate epoch `epoch` were found lost.
    pub fn on_loss(&mut self, packets: u64, epoch: u16) {
        self.lost_packets += packets;
        self.this_rtt.lost += packets;
        if epoch == self.epoch {
            self.this_rtt.lost_now += packets;
            self.interval.lost += packets;
        }
    }

    /// A packet filled a gap after so long: gaps must be given at least that time.
    pub fn on_reordering(&mut self, late_by: Span) {
        self.reordering = self.reordering.max(late_by + late_by / 4);
    }

    /// Packets came that had been given up as lost: they were reordered by more than the window.
    pub fn on_spurious_loss(&mut self, packets: u64) {
        self.reordering = (self.reordering * 2).max(self.reorder_window() * 2);
        self.lost_packets = self.lost_packets.saturating_sub(packets);
    }

    /// A probe came back.
    pub fn on_rtt(&mut self, now: Time, rtt: Span) {
        self.rtt.sample(rtt);
        self.base_rtt.sample(now, i64::try_from(rtt.as_nanos()).unwrap_or(i64::MAX));
    }

    /// The least recent round-trip time: the path's own, without queues and without hosts that are slow to answer. The
    /// bytes in flight are computed from it: a queue must not be a reason to request more.
    pub fn base_rtt(&self) -> Option<Span> {
        self.base_rtt.get().map(|nanos| Span::from_nanos(nanos.unsigned_abs()))
    }

    /// The round-trip time.
    pub fn rtt(&self) -> &RttEstimator {
        &self.rtt
    }

    /// How long a gap may stay open before it counts as lost.
    pub fn reorder_window(&self) -> Span {
        let rtt = self.rtt.smoothed().unwrap_or(Span::from_millis(100));
        (rtt / REORDER_RTT_PART).max(self.reordering).min(rtt).max(REORDER_MIN)
    }

    /// A queue of this length, seen since the last interval, no longer counts: it becomes part of the base.
    pub fn take_delay_as_base(&mut self, queue: Span) {
        let base = self.base_delay.get().unwrap_or(0);
        self.base_delay = WindowedMin::new(BASE_DELAY_WINDOW);
        self.base_delay.sample(self.judged, base.saturating_add(i64::try_from(queue.as_nanos()).unwrap_or(i64::MAX)));
    }

    /// The delay without a queue stays known: a standing queue hides it.
    pub fn keep_base(&mut self, now: Time) {
        for base in [&mut self.base_delay, &mut self.base_rtt] {
            if let Some(least) = base.get() {
                base.sample(now, least);
            }
        }
    }

    /// Loss, at the rate in force, since the last call: once per RTT, for the SingleFlowController. `None` if there
    /// were no packets.
    pub fn take_rtt_loss(&mut self, now: Time) -> Option<Loss> {
        if let Some((since, bytes, packets)) = self.recent_since
            && now.since(since) >= RECENT_MIN
            && self.received_packets - packets >= RECENT_PACKETS
        {
            self.recent = Bitrate::of(self.wire_bytes - bytes, now.since(since));
            self.recent_since = Some((now, self.wire_bytes, self.received_packets));
        }
        if self.marks.end_rtt() {
            (self.this_rtt.marked, self.this_rtt.marked_now, self.interval.marked) = (0, 0, 0);
        }
        self.last_rtt = std::mem::take(&mut self.this_rtt);
        if self.last_rtt.received > 0 {
            self.bursts.on_rtt(self.last_rtt.lost > 0);
        }
        self.last_rtt.loss_now()
    }

    /// How many packets came without a mark since the start, and how many were lost or came with one.
    pub fn came_and_lost(&self) -> (u64, u64) {
        (self.received_packets - self.marked_packets, self.lost_packets + self.marked_packets)
    }

    /// Losses and arrivals since the last call of this function or the one above: for a burst, which a queue may mark
    /// as long as it holds it.
    pub fn take_burst_loss(&mut self, now: Time) -> Option<Loss> {
        self.take_rtt_loss(now);
        self.last_rtt.part(self.last_rtt.lost_now)
    }

    /// The loss of the last RTT or since, whichever is more: a sign of congestion that is too fresh for an interval.
    pub fn recent_loss(&self) -> Loss {
        let loss = |tally: &RttTally| tally.loss().unwrap_or_default();
        let (new, old) = (loss(&self.this_rtt), loss(&self.last_rtt));
        if new.ratio > old.ratio { new } else { old }
    }

    /// The queue that stood all through the last RTT and since.
    pub fn recent_queue(&self) -> Span {
        let delays = [self.this_rtt.delay_min, self.last_rtt.delay_min];
        self.queue_above_base(delays.into_iter().flatten().min())
    }

    /// The sender had nothing left to send: the measurement shows neither the path's nor the sender's capacity.
    pub fn on_dry(&mut self) {
        self.interval.dry = true;
    }

    /// The central interval that ends now. `None`, and the interval goes on, while too little has come at the rate in
    /// force.
    pub fn take_interval(&mut self, now: Time) -> Option<Interval> {
        let tally = self.interval;
        let first_at = tally.first_at?;
        let span = tally.last_at.since(first_at);
        let rtt = self.rtt.smoothed()?;
        if tally.received < 4 || now.since(first_at) < (rtt / 2).max(INTERVAL_MIN) {
            return None;
        }
        // Silence at the end counts, beyond the gap that pacing leaves between bursts.
        let silence = now.since(tally.last_at).saturating_sub(span / 4 + Span::from_millis(1));
        self.interval = Tally::default();
        self.judged = now;
        Some(Interval {
            received: Bitrate::of(tally.wire_bytes - tally.first_wire, span + silence),
            loss: (tally.lost + tally.marked) as f64 / (tally.lost + tally.received) as f64,
            marked: tally.marked as f64 / (tally.lost + tally.received) as f64,
            packets: tally.lost + tally.received,
            queue: self.queue_above_base(tally.delay_min),
            queue_mean: self.queue_above_base(i64::try_from(tally.delay_sum / i128::from(tally.received)).ok()),
            dry: tally.dry,
            recent: self.recent,
        })
    }

    /// The standing queue of the interval so far.
    pub fn standing_queue(&self) -> Span {
        self.queue_above_base(self.interval.delay_min)
    }

    fn queue_above_base(&self, delay: Option<i64>) -> Span {
        let above = delay.zip(self.base_delay.get()).map_or(0, |(delay, base)| delay.saturating_sub(base));
        Span::from_nanos(u64::try_from(above).unwrap_or(0))
    }

    fn follow_train(&mut self, now: Time, run: Run, all_wire_bytes: u64) {
        if let Some(train) = &mut self.train
            && train.sent == run.sent
        {
            train.packets += run.packets;
            train.messages += 1;
            train.last_at = now - run.waited;
            train.last_read = now;
            train.wire_bytes += run.wire_bytes;
            train.bytes_after_first += run.wire_bytes;
            train.all_at_last = all_wire_bytes;
            return;
        }
        self.end_train();
        self.train = Some(Train {
            sent: run.sent,
            packets: run.packets,
            messages: 1,
            first_at: now - run.waited,
            last_at: now - run.waited,
            first_read: now,
            last_read: now,
            wire_bytes: run.wire_bytes,
            bytes_after_first: 0,
            all_at_first: all_wire_bytes,
            all_at_last: all_wire_bytes,
        });
    }

    /// Turns the burst that was followed into a sample of the path's capacity, if it says anything.
    pub fn end_train(&mut self) {
        let Some(train) = self.train.take() else { return };
        self.bursts.on_burst(train.wire_bytes, train.packets);
        // A host that reads late must not pass for a slow path. What other flows brought meanwhile was counted as it
        // was read.
        let span = train.last_at.since(train.first_at);
        let read = train.last_read.since(train.first_read);
        if self.watches_bursts && train.packets >= TRAIN_PACKETS_MIN && span >= TRAIN_SPAN_MIN {
            let own = Bitrate::of(train.bytes_after_first, span);
            let all_flows = Bitrate::of(train.all_at_last - train.all_at_first, span.max(read)).max(own);
            let proven = if train.messages >= MESSAGES_MIN.min(train.packets) { all_flows } else { own };
            self.dispersions[self.dispersions_seen % TRAINS] = Dispersion { own, all_flows, proven };
            self.dispersions_seen += 1;
        }
    }

    /// Starts afresh with bursts.
    pub fn watch_bursts(&mut self) {
        self.train = None;
        self.dispersions_seen = 0;
        self.watches_bursts = true;
    }

    /// The path has been measured.
    pub fn ignore_bursts(&mut self) {
        self.watches_bursts = false;
        self.train = None;
    }

    /// Median rate at which the last bursts arrived: the capacity of the path's narrowest link, if no other traffic
    /// uses it. `None` if bursts give no sample: too short, or handed over by the host all at once.
    pub fn dispersion(&self) -> Option<Dispersion> {
        let mut seen = self.dispersions;
        let seen = &mut seen[..self.dispersions_seen.min(TRAINS)];
        if seen.is_empty() {
            return None;
        }
        let middle = seen.len() / 2;
        let mut median = |of: fn(&Dispersion) -> Bitrate| {
            seen.sort_unstable_by_key(of);
            of(&seen[middle])
        };
        Some(Dispersion { own: median(|d| d.own), all_flows: median(|d| d.all_flows), proven: median(|d| d.proven) })
    }

    /// Received rate for people: the mean over the last quarter of a second or so.
    pub fn display_rate(&self) -> Bitrate {
        self.display.2
    }

    /// Brings the rate for people up to date; call it a few times a second.
    pub fn refresh_display(&mut self, now: Time) {
        let (since, bytes, _) = self.display;
        if now.since(since) >= DISPLAY_WINDOW {
            self.display = (now, self.wire_bytes, Bitrate::of(self.wire_bytes - bytes, now.since(since)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: u64) -> Time {
        Time::from_nanos(micros * 1_000)
    }

    fn run(sent_micros: u64, epoch: u16) -> Run {
        Run { packets: 1, wire_bytes: 1500, sent: sent_micros * 1_000, epoch, waited: Span::ZERO, congested: false }
    }

    /// One packet each `gap_micros` from `from` on (not before 20 ms), sent `delay_micros` before it arrives.
    fn feed(m: &mut SingleFlowMonitor, from: u64, count: u32, gap_micros: u64, delay_micros: u64, epoch: u16) {
        for k in 0..u64::from(count) {
            let now = from + k * gap_micros;
            m.on_data(at(now), run(now - delay_micros, epoch), 0);
        }
    }

    fn monitor() -> SingleFlowMonitor {
        let mut m = SingleFlowMonitor::new(Time::ZERO);
        m.on_rtt(Time::ZERO, Span::from_millis(20));
        m.watch_bursts();
        m
    }

    #[test]
    fn take_interval_measures_rate_loss_and_standing_queue() {
        let mut m = monitor();
        feed(&mut m, 50_000, 1, 12, 10_000, 9); // an empty queue once, in an older epoch
        feed(&mut m, 100_000, 1_000, 120, 12_000, 0);
        m.on_loss(10, 0);
        m.on_loss(99, 7); // in another epoch
        let interval = m.take_interval(at(220_000)).unwrap();
        assert_eq!(interval.received, Bitrate::from_mbps(100));
        assert!((interval.loss - 10.0 / 1010.0).abs() < 1e-9);
        assert_eq!(interval.queue, Span::from_millis(2));
        assert_eq!(m.take_interval(at(220_000)), None);
    }

    #[test]
    fn a_mark_counts_as_a_loss_of_the_control_and_as_received() {
        let mut m = monitor();
        feed(&mut m, 100_000, 990, 120, 10_000, 0);
        for k in 990..1_000 {
            let now = 100_000 + k * 120;
            m.on_data(at(now), Run { congested: true, ..run(now - 15_000, 0) }, 0); // behind a queue of 5 ms
        }
        assert_eq!(m.recent_loss(), Loss { ratio: 0.01, packets: 1_000 });
        assert_eq!(m.take_rtt_loss(at(220_000)), Some(Loss { ratio: 0.01, packets: 1_000 }));
        let interval = m.take_interval(at(220_000)).unwrap();
        assert_eq!((interval.loss, interval.marked, interval.received), (0.01, 0.01, Bitrate::from_mbps(100)));
        assert_eq!((m.lost_packets, m.came_and_lost()), (0, (990, 10)));
    }

    #[test]
    fn take_interval_judges_only_packets_of_the_rate_in_force() {
        let mut m = monitor();
        feed(&mut m, 20_000, 1_000, 12, 10_000, 0);
        m.begin_epoch(1);
        feed(&mut m, 32_000, 1_000, 12, 10_000, 0);
        assert_eq!(m.take_interval(at(44_000)), None);
        feed(&mut m, 44_000, 1_000, 24, 10_000, 1);
        assert_eq!(m.take_interval(at(68_000)).unwrap().received, Bitrate::from_mbps(500));
    }

    #[test]
    fn take_delay_as_base_forgives_a_delay_that_came_to_stay() {
        let mut m = monitor();
        feed(&mut m, 50_000, 100, 120, 10_000, 0);
        feed(&mut m, 100_000, 1_000, 120, 14_000, 0);
        let interval = m.take_interval(at(220_000)).unwrap();
        assert_eq!(interval.queue, Span::ZERO); // the first packets met no queue
        feed(&mut m, 220_000, 1_000, 120, 14_000, 0);
        assert_eq!(m.take_interval(at(340_000)).unwrap().queue, Span::from_millis(4));
        m.take_delay_as_base(Span::from_millis(4));
        feed(&mut m, 340_000, 1_000, 120, 14_500, 0);
        assert_eq!(m.take_interval(at(460_000)).unwrap().queue, Span::from_micros(500));
    }

    #[test]
    fn take_interval_counts_silence_at_the_end() {
        let mut m = monitor();
        feed(&mut m, 20_000, 1_001, 100, 10_000, 0);
        let rate = m.take_interval(at(346_000)).unwrap().received;
        assert_eq!(rate, Bitrate::of(1_500_000, Span::from_millis(100 + 200)));
    }

    #[test]
    fn dispersion_is_of_bursts_that_are_watched() {
        let mut m = monitor();
        m.ignore_bursts();
        for k in 0..20u64 {
            m.on_data(at(1_000 + k * 12), run(5, 0), k * 3_000);
        }
        m.end_train();
        assert_eq!(m.dispersion(), None);
    }

    #[test]
    fn dispersion_is_the_rate_at_which_a_burst_came() {
        let mut m = monitor();
        for k in 0..20u64 {
            m.on_data(at(1_000 + k * 12), run(5, 0), k * 3_000);
        }
        assert_eq!(m.dispersion(), None);
        m.end_train();
        let seen = m.dispersion().unwrap();
        assert_eq!((seen.own, seen.all_flows), (Bitrate::from_gbps(1), Bitrate::from_gbps(2)));
    }

    #[test]
    fn dispersion_proves_nothing_of_other_flows_when_offload_joins_packets() {
        // Of another flow 16 kB that came over 130 us are read, as one message, within a burst of two.
        for (messages, proven) in [(2, 1), (8, 2)] {
            let mut m = monitor();
            let packets = 16 / messages;
            for k in 1..=messages {
                let run = Run { packets, wire_bytes: packets * 1_500, ..run(5, 0) };
                m.on_data(at(1_000 + k * packets * 12), run, k * packets * 3_000);
            }
            m.end_train();
            let seen = m.dispersion().unwrap();
            assert_eq!((seen.own, seen.all_flows), (Bitrate::from_gbps(1), Bitrate::from_gbps(2)));
            assert_eq!(seen.proven, Bitrate::from_gbps(proven), "{messages} messages");
        }
    }

    #[test]
    fn dispersion_is_of_the_path_however_late_a_burst_is_read() {
        // A burst at 1 Gbit/s. Its last ten packets were read 5 ms late and at once, after much of another flow.
        let mut m = monitor();
        for k in 0..20u64 {
            let (arrived, late, others) =
                if k < 10 { (1_000 + k * 12, 0, 0) } else { (1_000 + k * 12, 5_000, 1_000_000) };
            let read = arrived + if late == 0 { 0 } else { late + (19 - k) * 12 };
            let run = Run { waited: Span::from_micros(read - arrived), ..run(5, 0) };
            m.on_data(at(read), run, k * 1_500 + others);
        }
        m.end_train();
        let seen = m.dispersion().unwrap();
        assert_eq!(seen.own, Bitrate::from_gbps(1));
        // 1 MB of the other flow was read in the 5 ms, and came before.
        assert!(seen.all_flows < Bitrate::from_gbps(2), "{}", seen.all_flows);
    }

    #[test]
    fn dispersion_ignores_short_bursts_and_those_handed_over_at_once() {
        let mut m = monitor();
        feed(&mut m, 0, 5, 12, 0, 0);
        m.end_train();
        for _ in 0..44 {
            m.on_data(at(90), run(5, 0), 0);
        }
        m.end_train();
        assert_eq!(m.dispersion(), None);
    }

    #[test]
    fn reorder_window_adapts_and_stays_within_an_rtt() {
        let mut m = monitor();
        assert_eq!(m.reorder_window(), Span::from_micros(2_500));
        m.on_reordering(Span::from_millis(4));
        assert_eq!(m.reorder_window(), Span::from_millis(5));
        for _ in 0..10 {
            m.on_spurious_loss(1);
        }
        assert_eq!(m.reorder_window(), Span::from_millis(20));
    }
}
