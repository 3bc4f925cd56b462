//! When a mirror's data goes over streams instead of UDP, and when it comes back: decisions, and no doing.
//!
//! UDP is left when there is evidence that it does not pass: nothing of it is heard although something should be, or
//! much of it is lost for long. That streams can be opened shows that the peer is there. UDP is taken up again when
//! probes of it are echoed several times in a row; or, where it was left because of loss, when a trial brings more than
//! the streams do.

use inhaul_base::{Bitrate, Span, Time};

use inhaul_session::api::options::Fallback;

/// A path that does not open for so long, and for a round trip and a quarter, may not be open to UDP: streams are
/// opened, and are used if it has not opened by then, which takes two round trips more. The time counts from when the
/// first probes left, which is often before the flow begins.
const OPENING_PATIENCE: Span = Span::from_millis(150);
/// ... but echoes that have come already must have been read, too.
const ECHOES_READ: Span = Span::from_millis(30);
/// ... nor one over which nothing comes for so long, and for several round trips, although it should.
const SILENCE: Span = Span::from_millis(500);
const SILENCE_RTTS: u64 = 4;
/// No longer than this is waited for evidence.
const PATIENCE_MAX: Span = Span::from_secs(1);
/// Loss is looked at over so long.
const SAMPLE: Span = Span::from_secs(3);
/// More is not the loss of a path that is merely bad: GTP brings its rate down before.
const LOSS: f64 = 0.15;
/// Who loses less than so many packets in that time has lost them by chance.
const LOST_MIN: u64 = 50;
/// How long a trial of the other way lasts, the first part of which does not count.
const TRIAL: Span = Span::from_secs(4);
const TRIAL_START: Span = Span::from_secs(2);
/// The other way is better if it brings so many times as much.
const BETTER: f64 = 1.25;
/// How long after a trial the next may follow; twice as long each time.
const TRIAL_GAP: Span = Span::from_secs(60);
const TRIAL_GAP_MAX: Span = Span::from_secs(960);
/// UDP is tried again this often at first, then half as often each time, up to ...
const PROBE_GAP: Span = Span::from_secs(1);
const PROBE_GAP_MAX: Span = Span::from_secs(8);
/// UDP that has carried data for so long is sound: its next failure is a new one, and streams are not kept.
const SOUND: Span = Span::from_secs(60);
/// Streams that cannot be opened are tried again after so long; twice as long each time.
const OPEN_GAP: Span = Span::from_secs(1);
const OPEN_GAP_MAX: Span = Span::from_secs(30);
/// Where only streams are to carry data, so many vain tries in a row are enough.
pub(super) const OPEN_TRIES_MAX: u32 = 4;

/// Why data goes over streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    /// The user has said so, or a proxy is used.
    Chosen,
    /// The path never opened.
    Blocked,
    /// Nothing came any more.
    Silent,
    /// Much was lost, and the streams carry more.
    Lossy,
}

impl Reason {
    /// For people.
    pub(super) const fn text(self) -> &'static str {
        match self {
            Self::Chosen => "as was chosen",
            Self::Blocked => "UDP does not pass",
            Self::Silent => "UDP does not pass any more",
            Self::Lossy => "UDP loses too much",
        }
    }
}

/// How a flow is doing.
#[derive(Clone, Copy, Debug)]
pub(super) struct Facts {
    pub(super) now: Time,
    /// Something is asked for that has not come, or the path is not open yet.
    pub(super) waits: bool,
    /// When a datagram came last.
    pub(super) heard: Time,
    /// The longer of the round-trip times of UDP and of the control stream.
    pub(super) rtt: Span,
    pub(super) received_bytes: u64,
    pub(super) received_packets: u64,
    pub(super) lost_packets: u64,
    /// Streams that the tunnel has.
    pub(super) streams: usize,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Open streams.
    Open,
    /// Go over the streams from now on.
    ToTunnel,
    /// Go over the UDP socket that the flow has.
    ToUdp,
    /// Find out whether UDP passes.
    Probe,
    /// Close the streams.
    Close,
    /// Streams cannot be had, and there is nothing else.
    GiveUp,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Udp,
    /// Streams are being opened.
    Preparing(Reason),
    Tunnel(Reason),
}

/// A comparison of the two ways: what the other one brought.
#[derive(Clone, Copy, Debug)]
struct Trial {
    other: Bitrate,
    /// When counting begins, and ends.
    from: Time,
    until: Time,
}

/// See the module's description.
#[derive(Clone, Debug)]
pub(super) struct FallbackState {
    mode: Fallback,
    state: State,
    since: Time,
    changes: u32,
    /// The path has been open once.
    has_opened: bool,
    /// How long the first probes had been away when the flow began.
    probed: Span,
    opening: bool,
    tries: u32,
    next_open: Time,
    probing: bool,
    probe_gap: Span,
    next_probe: Time,
    /// Counters at the beginning of the sample that is being taken, and the rate of the last.
    sample: (Time, u64, u64, u64),
    rate: Bitrate,
    trial: Option<Trial>,
    trial_gap: Span,
    next_trial: Time,
    /// Streams that were there last.
    streams: usize,
}

impl FallbackState {
    /// A flow that begins.
    pub(super) fn new(now: Time, mode: Fallback) -> Self {
        Self {
            mode,
            state: State::Udp,
            since: now,
            changes: 0,
            has_opened: false,
            probed: Span::ZERO,
            opening: false,
            tries: 0,
            next_open: now,
            probing: false,
            probe_gap: PROBE_GAP,
            next_probe: Time::FAR_FUTURE,
            sample: (now, 0, 0, 0),
            rate: Bitrate::ZERO,
            trial: None,
            trial_gap: TRIAL_GAP,
            next_trial: now,
            streams: 0,
        }
    }

    pub(super) fn mode(&self) -> Fallback {
        self.mode
    }

    /// Why data goes over streams, if it does, and since when; and how often that has changed.
    pub(super) fn view(&self) -> (Option<Reason>, Time, u32) {
        let reason = if let State::Tunnel(reason) = self.state { Some(reason) } else { None };
        (reason, self.since, self.changes)
    }

    // --- What happens -----------------------------------------------------------------------------------------------

    /// The flow begins. Its first probes left so long before.
    pub(super) fn on_begin(&mut self, now: Time, probed: Span) {
        (self.since, self.probed) = (now, probed);
    }

    /// Data can come, by whichever way.
    pub(super) fn on_opened(&mut self) {
        self.has_opened = true;
        if self.state == State::Preparing(Reason::Blocked) {
            self.state = State::Udp;
        }
    }

    /// A stream was opened, or all tries have failed.
    pub(super) fn on_streams(&mut self, now: Time, opened: bool) -> Option<Step> {
        self.opening = false;
        if opened {
            self.tries = 0;
            let State::Preparing(reason) = self.state else { return None };
            return Some(self.turn_to_tunnel(now, reason));
        }
        self.tries += 1;
        let gap = (0..self.tries.min(8)).fold(OPEN_GAP / 2, |gap, _| gap * 2).min(OPEN_GAP_MAX);
        self.next_open = now + gap;
        (self.mode == Fallback::Always && self.tries >= OPEN_TRIES_MAX).then_some(Step::GiveUp)
    }

    /// Whether UDP passes, as probes have found.
    pub(super) fn on_probed(&mut self, now: Time, passes: bool) -> Option<Step> {
        self.probing = false;
        self.next_probe = now + self.probe_gap;
        self.probe_gap = (self.probe_gap * 2).min(PROBE_GAP_MAX);
        let State::Tunnel(reason) = self.state else { return None };
        if !passes {
            return None;
        }
        if reason == Reason::Lossy {
            self.begin_trial(now);
        }
        Some(self.turn_to_udp(now))
    }

    /// Looks at how things are, every few milliseconds; what is to be done, if anything is.
    pub(super) fn look(&mut self, facts: &Facts) -> Option<Step> {
        if self.mode == Fallback::Never {
            return None;
        }
        let Facts { now, streams, .. } = *facts;
        self.take_sample(facts);
        let lost_streams = streams < std::mem::replace(&mut self.streams, streams);
        match self.state {
            State::Udp => self.look_at_udp(facts),
            State::Preparing(reason) if facts.heard + self.patience(facts.rtt) > now && reason == Reason::Silent => {
                // It was only late.
                self.state = State::Udp;
                None
            }
            State::Preparing(_) if self.opening || now < self.next_open => None,
            State::Preparing(_) => Some(self.open()),
            State::Tunnel(_) if streams == 0 => {
                // All of them have ended: it is found out anew whether UDP passes.
                self.next_open = self.next_open.max(now + OPEN_GAP);
                self.trial = None;
                Some(self.turn_to_udp(now))
            }
            // What was in it has to be asked for again.
            State::Tunnel(_) if lost_streams => Some(Step::ToTunnel),
            State::Tunnel(reason) => self.look_at_tunnel(facts, reason),
        }
    }

    fn look_at_udp(&mut self, facts: &Facts) -> Option<Step> {
        let now = facts.now;
        if let Some(step) = self.judge_trial(now) {
            return Some(step);
        }
        let patience = match self.changes {
            0 if !self.has_opened => self.patience(facts.rtt).saturating_sub(self.probed).max(ECHOES_READ),
            _ => self.patience(facts.rtt),
        };
        let silent = facts.waits && now >= facts.heard.max(self.since) + patience;
        let reason = match () {
            () if self.mode == Fallback::Always => Some(Reason::Chosen),
            () if silent && self.has_opened => Some(Reason::Silent),
            () if silent => Some(Reason::Blocked),
            () if self.is_lossy(facts) => Some(Reason::Lossy),
            () => None,
        };
        if let Some(reason) = reason {
            return self.prepare(now, reason, facts.streams);
        }
        if self.changes > 0 && now >= self.since + SOUND {
            self.probe_gap = PROBE_GAP;
            return (facts.streams > 0 && self.trial.is_none()).then_some(Step::Close);
        }
        // UDP has opened before they have.
        (self.changes == 0 && facts.streams > 0 && !self.opening).then_some(Step::Close)
    }

    fn look_at_tunnel(&mut self, facts: &Facts, reason: Reason) -> Option<Step> {
        let now = facts.now;
        if let Some(step) = self.judge_trial(now) {
            return Some(step);
        }
        if self.probing || self.trial.is_some() || reason == Reason::Chosen || now < self.next_probe {
            return None;
        }
        if reason == Reason::Lossy && now < self.next_trial {
            return None;
        }
        self.probing = true;
        Some(Step::Probe)
    }

    // --- Steps ------------------------------------------------------------------------------------------------------

    fn prepare(&mut self, now: Time, reason: Reason, streams: usize) -> Option<Step> {
        if reason == Reason::Lossy {
            self.begin_trial(now);
        }
        if streams > 0 {
            return Some(self.turn_to_tunnel(now, reason));
        }
        self.state = State::Preparing(reason);
        (!self.opening && now >= self.next_open).then(|| self.open())
    }

    fn open(&mut self) -> Step {
        self.opening = true;
        Step::Open
    }

    fn turn_to_tunnel(&mut self, now: Time, reason: Reason) -> Step {
        self.state = State::Tunnel(reason);
        self.turned(now);
        self.next_probe = now + self.probe_gap;
        Step::ToTunnel
    }

    fn turn_to_udp(&mut self, now: Time) -> Step {
        self.state = State::Udp;
        self.turned(now);
        Step::ToUdp
    }

    fn turned(&mut self, now: Time) {
        self.since = now;
        self.changes += 1;
        if let Some(trial) = &mut self.trial {
            (trial.from, trial.until) = (now + TRIAL_START, now + TRIAL);
        }
    }

    // --- Evidence ---------------------------------------------------------------------------------------------------

    /// How long is waited for a word over UDP.
    fn patience(&self, rtt: Span) -> Span {
        let patience =
            if self.has_opened { SILENCE.max(rtt * SILENCE_RTTS) } else { OPENING_PATIENCE.max(rtt + rtt / 4) };
        patience.min(PATIENCE_MAX.max(rtt * 2))
    }

    fn is_lossy(&self, facts: &Facts) -> bool {
        let (began, _, received, lost) = self.sample;
        let (received, lost) =
            (facts.received_packets.saturating_sub(received), facts.lost_packets.saturating_sub(lost));
        let is_whole = facts.now >= began + SAMPLE && facts.now >= self.since + SAMPLE;
        let is_much = lost >= LOST_MIN && lost as f64 >= LOSS * (lost + received) as f64;
        is_whole && is_much && facts.waits && self.trial.is_none() && facts.now >= self.next_trial
    }

    /// Begins a sample when the last is over, or when counting begins in a trial.
    fn take_sample(&mut self, facts: &Facts) {
        let now = facts.now;
        let (began, bytes, ..) = self.sample;
        let starts = self.trial.is_some_and(|trial| began < trial.from && trial.from <= now);
        let ends = self.trial.is_some_and(|trial| began < trial.until && trial.until <= now);
        if starts || ends || now >= began + SAMPLE + Span::from_millis(100) {
            self.rate = Bitrate::of(facts.received_bytes.saturating_sub(bytes), now.since(began));
            self.sample = (now, facts.received_bytes, facts.received_packets, facts.lost_packets);
        }
    }

    /// What this way brings, the other is to be compared with.
    fn begin_trial(&mut self, now: Time) {
        self.trial = Some(Trial { other: self.rate, from: Time::FAR_FUTURE, until: Time::FAR_FUTURE });
        self.next_trial = now + self.trial_gap;
        self.trial_gap = (self.trial_gap * 2).min(TRIAL_GAP_MAX);
    }

    /// At the end of a trial: back, unless this way brings more.
    fn judge_trial(&mut self, now: Time) -> Option<Step> {
        let trial = self.trial.filter(|trial| now >= trial.until)?;
        self.trial = None;
        if self.rate.as_f64() >= trial.other.as_f64() * BETTER {
            return None;
        }
        Some(match self.state {
            State::Tunnel(_) => self.turn_to_udp(now),
            _ => self.turn_to_tunnel(now, Reason::Lossy),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Flow {
        facts: Facts,
        state: FallbackState,
        steps: Vec<(u64, Step)>,
    }

    impl Flow {
        fn new(mode: Fallback) -> Self {
            let facts = Facts {
                now: Time::ZERO,
                waits: true,
                heard: Time::ZERO,
                rtt: Span::from_millis(50),
                received_bytes: 0,
                received_packets: 0,
                lost_packets: 0,
                streams: 0,
            };
            Self { facts, state: FallbackState::new(Time::ZERO, mode), steps: Vec::new() }
        }

        fn note(&mut self, step: Option<Step>) {
            let millis = self.facts.now.since(Time::ZERO).as_nanos() / 1_000_000;
            self.steps.extend(step.map(|step| (millis, step)));
        }

        /// So many milliseconds go by, with so many packets in each, of which this part is lost.
        fn run(&mut self, millis: u64, packets: u64, loss: f64) {
            for _ in 0..millis / 10 {
                self.facts.now += Span::from_millis(10);
                let lost = (10.0 * packets as f64 * loss) as u64;
                self.facts.lost_packets += lost;
                self.facts.received_packets += 10 * packets - lost;
                self.facts.received_bytes += (10 * packets - lost) * 1400;
                if packets > 0 {
                    self.facts.heard = self.facts.now;
                }
                let step = self.state.look(&self.facts);
                self.note(step);
            }
        }

        fn streams(&mut self, streams: usize) {
            self.facts.streams = streams;
            let step = self.state.on_streams(self.facts.now, streams > 0);
            self.note(step);
        }

        fn probed(&mut self, passes: bool) {
            let step = self.state.on_probed(self.facts.now, passes);
            self.note(step);
        }

        fn take(&mut self) -> Vec<(u64, Step)> {
            std::mem::take(&mut self.steps)
        }
    }

    #[test]
    fn udp_that_never_opens_is_left_within_a_second_and_probed_ever_less_often() {
        let mut flow = Flow::new(Fallback::Auto);
        flow.run(300, 0, 0.0);
        flow.streams(1);
        assert_eq!(flow.take(), [(150, Step::Open), (300, Step::ToTunnel)]);
        assert_eq!(flow.state.view(), (Some(Reason::Blocked), Time::ZERO + Span::from_millis(300), 1));
        flow.streams(4);
        flow.state.on_opened();
        let mut probes = Vec::new();
        for _ in 0..6 {
            flow.run(40_000, 1, 0.0);
            probes.push(flow.take()[0]);
            flow.probed(false);
        }
        assert!(probes.iter().all(|(_, step)| *step == Step::Probe));
        assert_eq!(probes[0].0, 1300);
        flow.run(40_000, 1, 0.0);
        flow.take();
        flow.probed(true);
        assert!(matches!(flow.take()[..], [(_, Step::ToUdp)]));
        flow.run(61_000, 1, 0.0);
        assert!(matches!(flow.take()[0], (_, Step::Close)));
    }

    #[test]
    fn streams_that_come_after_udp_has_opened_are_closed() {
        let mut flow = Flow::new(Fallback::Auto);
        flow.run(220, 0, 0.0);
        flow.state.on_opened();
        flow.run(10, 1, 0.0);
        assert_eq!(flow.take(), [(150, Step::Open)]);
        flow.streams(4);
        flow.run(10, 1, 0.0);
        assert_eq!(flow.take(), [(240, Step::Close)]);
        assert_eq!(flow.state.view(), (None, Time::ZERO, 0));
    }

    #[test]
    fn patience_counts_from_the_first_probes_and_echoes_that_have_come_are_read_first() {
        for (rtt, probed, opens) in [(200, 0, 250), (200, 205, 50), (200, 1000, 30), (20, 25, 130), (400, 450, 50)] {
            let mut flow = Flow::new(Fallback::Auto);
            flow.facts.rtt = Span::from_millis(rtt);
            flow.state.on_begin(Time::ZERO, Span::from_millis(probed));
            flow.run(300, 0, 0.0);
            assert_eq!(flow.take(), [(opens, Step::Open)], "{rtt} ms");
        }
    }

    #[test]
    fn silence_counts_only_while_something_is_due_and_late_datagrams_end_it() {
        let mut flow = Flow::new(Fallback::Auto);
        flow.state.on_opened();
        flow.run(1000, 1, 0.0);
        flow.facts.waits = false;
        flow.run(5000, 0, 0.0);
        assert_eq!(flow.take(), []);
        flow.facts.waits = true;
        flow.run(10, 1, 0.0);
        flow.run(600, 0, 0.0);
        assert_eq!(flow.take(), [(6510, Step::Open)]);
        flow.run(10, 1, 0.0);
        flow.streams(2);
        flow.run(10, 1, 0.0);
        assert_eq!(flow.take(), [(6630, Step::Close)], "it was only late");
        flow.facts.streams = 0;
        flow.run(990, 1, 0.0);
        assert_eq!(flow.take(), []);
        flow.run(1000, 0, 0.0);
        assert_eq!(flow.take(), [(8120, Step::Open)]);
        flow.streams(2);
        assert_eq!(flow.take().last().map(|step| step.1), Some(Step::ToTunnel));
        assert_eq!(flow.state.view().0, Some(Reason::Silent));
    }

    #[test]
    fn streams_that_end_are_asked_for_again_and_without_any_udp_is_tried() {
        let mut flow = Flow::new(Fallback::Auto);
        flow.run(400, 0, 0.0);
        flow.streams(4);
        flow.state.on_opened();
        flow.run(100, 1, 0.0);
        flow.take();
        flow.facts.streams = 3;
        flow.run(100, 1, 0.0);
        assert_eq!(flow.take(), [(510, Step::ToTunnel)]);
        flow.facts.streams = 0;
        flow.run(10, 0, 0.0);
        assert_eq!(flow.take(), [(610, Step::ToUdp)]);
        flow.run(2000, 0, 0.0);
        assert_eq!(flow.take(), [(1610, Step::Open)]);
        flow.streams(0);
        flow.run(900, 0, 0.0);
        assert_eq!(flow.take(), []);
        flow.run(200, 0, 0.0);
        assert!(matches!(flow.take()[..], [(_, Step::Open)]));
    }

    #[test]
    fn loss_has_both_ways_compared_and_the_better_one_kept() {
        for better in [true, false] {
            let mut flow = Flow::new(Fallback::Auto);
            flow.state.on_opened();
            flow.run(10_000, 10, 0.1);
            assert_eq!(flow.take(), []);
            flow.run(4_000, 10, 0.3);
            assert!(matches!(flow.take()[..], [(_, Step::Open)]));
            flow.streams(4);
            flow.take();
            flow.run(4_100, if better { 20 } else { 8 }, 0.0);
            let back = flow.take();
            if better {
                assert_eq!(back, []);
                assert_eq!(flow.state.view().0, Some(Reason::Lossy));
                flow.run(50_000, 20, 0.0);
                assert_eq!(flow.take(), [], "UDP is not tried so soon");
                flow.run(20_000, 20, 0.0);
                assert!(matches!(flow.take()[..], [(_, Step::Probe)]));
                flow.probed(true);
                flow.run(4_100, 7, 0.3);
                assert!(matches!(flow.take()[..], [(_, Step::ToUdp), (_, Step::ToTunnel)]));
            } else {
                assert!(matches!(back[..], [(_, Step::ToUdp)]));
                flow.run(40_000, 10, 0.3);
                assert_eq!(flow.take(), [], "streams are not tried so soon");
            }
        }
    }

    #[test]
    fn the_user_s_choice_holds() {
        let mut never = Flow::new(Fallback::Never);
        never.run(5_000, 0, 0.0);
        assert_eq!(never.take(), []);
        let mut always = Flow::new(Fallback::Always);
        always.run(10, 0, 0.0);
        assert_eq!(always.take(), [(10, Step::Open)]);
        always.streams(0);
        for _ in 1..OPEN_TRIES_MAX {
            always.run(20_000, 0, 0.0);
            assert_eq!(always.take().last().map(|step| step.1), Some(Step::Open));
            always.streams(0);
        }
        assert_eq!(always.take().last().map(|step| step.1), Some(Step::GiveUp));
    }
}
