//! Opens the path to a sender and keeps it open: probes, their echoes, the MTU that the path carries, and the responses
//! that permit data. The receivers of all protocols use it unchanged.

use std::collections::VecDeque;

use inhaul_base::{Bitrate, Span, Time};

use super::mtu_check::{MtuCheck, MtuStep, mtu_candidates};
use super::rtt::RttEstimator;
use crate::PathSpec;

/// Probes while the path is being opened: so often at first, then half as often each time. Also a guess at the RTT.
pub const OPENING_GAP: Span = Span::from_millis(100);
/// ... but at least so often.
const OPENING_GAP_MAX: Span = Span::from_secs(1);
/// Interval of probes of a path without expected data, half of the time that a peer may be silent: a host may have
/// thousands of such paths.
const REST_GAP: Span = Span::from_secs(15);
/// ... but this often while probes do not come back.
const REST_RETRY_GAP: Span = Span::from_secs(2);
/// How long opening a path is tried.
const OPENING_MAX: Span = Span::from_secs(10);
/// Beside half a round trip, probes larger than the one that came back have this much time.
const OPENING_PATIENCE: Span = Span::from_millis(5);
/// Probes that may be in flight: all that are sent while a path is opened, so that a path with a delay of seconds
/// opens, too.
const PROBES_MAX: usize = 64;
/// A path that carries less than both hosts would is tried again after so long, it may have been chance; then after
/// twice as long each time, ...
const RAISE_GAP: Span = Span::from_secs(1);
/// ... up to this.
const RAISE_GAP_MAX: Span = Span::from_secs(32);
/// No round trip is shorter.
const RTT_MIN: Span = Span::from_micros(1);
/// From one response to the next.
pub const RESPONSE_GAP: Span = Span::from_millis(50);
/// Full-size packets that do not come for so long, and for several round trips, may be too large for the path.
const VANISHED_MIN: Span = Span::from_millis(300);
const VANISHED_PATIENCES: u64 = 3;
/// From one check of the MTU to the next it takes so long ...
const CHECK_GAP: Span = Span::from_secs(1);
/// ... and until this many times the bytes of a check could have come: echoes may be sent at the flow's rate, too.
const CHECK_PART: u64 = 8;

/// The protocol's settings.
#[derive(Clone, Copy, Debug)]
pub struct PathRules {
    /// From one probe to the next while the path is open.
    pub probe_gap: Span,
    /// Probes of each larger size when a path that carries less is tried again.
    pub raise_probes: u32,
    /// Whether responses go on while data is awaited: its sender needs to hear that the receiver is there. Otherwise
    /// they go on until data comes.
    pub steady_responses: bool,
}

/// A message to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outgoing {
    /// The probe of this number, as an IP packet of this size; `None`: as small as can be.
    Probe(u32, Option<u16>),
    /// The response with this challenge.
    Response(u64),
}

/// An echo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Echo {
    /// Of the probe with this number.
    pub number: u32,
    /// Its length as the sender saw it, in bytes of UDP payload behind the envelope.
    pub len: u16,
    /// The sender's challenge, to be returned.
    pub challenge: u64,
    /// How long the echo had waited in this host when it was read.
    pub waited: Span,
}

/// The result of an echo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Echoed {
    /// How long the probe and its echo took.
    pub rtt: Span,
    /// The path has just been found open.
    pub opened: bool,
}

/// How far the path is.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    /// The sender's token or address is not known yet; `heard` when a probe came back that left before the flow was
    /// there.
    Waiting { heard: Option<Time> },
    /// Probes are sent; `heard` when the first came back.
    Opening { since: Time, heard: Option<Time>, gap: Span },
    /// It is open.
    Open,
}

/// The path to one sender.
#[derive(Debug)]
pub struct Path {
    rules: PathRules,
    phase: Phase,
    /// The way before this one was open.
    was_open: bool,
    /// Bytes of each packet that are not the protocol's.
    overhead: u16,
    /// The largest IP packet that both hosts believe in.
    mtu: u16,
    /// The largest that came back; after a check, the largest that still does.
    confirmed: u16,
    next_probe: Time,
    /// Nothing is to come for a while.
    rests: bool,
    number: u32,
    /// How many probes left before the flow was there, and how long before.
    early: (u32, Span),
    /// The last probes that have not come back, and when they were sent.
    probes: VecDeque<(u32, Time)>,
    raise_due: Time,
    raise_gap: Span,
    check: Option<MtuCheck>,
    next_check: Time,
    /// The challenge of the last echo, to be returned.
    challenge: Option<u64>,
    response_due: Time,
    responded: Time,
    /// Since when full-size packets are awaited and none has come.
    missed: Option<Time>,
    /// When a probe was last sent before its time, to hear whether the sender is there.
    hurried: Time,
    rtt: RttEstimator,
}

impl Path {
    /// An unmeasured path to a sender.
    pub fn new(rules: PathRules) -> Self {
        Self {
            rules,
            phase: Phase::Waiting { heard: None },
            was_open: false,
            overhead: 0,
            mtu: 0,
            confirmed: 0,
            next_probe: Time::FAR_FUTURE,
            rests: false,
            number: 0,
            early: (0, Span::ZERO),
            probes: VecDeque::new(),
            raise_due: Time::FAR_FUTURE,
            raise_gap: RAISE_GAP,
            check: None,
            next_check: Time::ZERO,
            challenge: None,
            response_due: Time::FAR_FUTURE,
            responded: Time::ZERO,
            missed: None,
            hurried: Time::ZERO,
            rtt: RttEstimator::default(),
        }
    }

    /// The path of a source that is no sender: it is open, and never probed.
    pub fn opened(rules: PathRules) -> Self {
        Self { phase: Phase::Open, ..Self::new(rules) }
    }

    /// A round of probes left `age` ago, before the flow was there ([`early_probes`](super::early_probes())): they count
    /// as its first.
    pub fn expect_early(&mut self, now: Time, age: Span, spec: PathSpec) {
        (self.mtu, self.overhead) = (spec.mtu, spec.overhead);
        self.number = mtu_candidates(spec.mtu).count() as u32;
        self.early = (self.number, age);
        self.probes.extend((1..=self.number).map(|number| (number, now)));
    }

    /// The sender can be probed, with packets of up to the MTU of `spec`.
    pub fn begin(&mut self, now: Time, spec: PathSpec) {
        let heard = if let Phase::Waiting { heard } = self.phase { heard } else { None };
        self.phase = Phase::Opening { since: now, heard, gap: OPENING_GAP };
        (self.mtu, self.overhead) = (spec.mtu, spec.overhead);
        self.confirmed = self.confirmed.min(spec.mtu);
        self.next_probe = if heard.is_some() { now + OPENING_GAP } else { now };
    }

    /// The sender is reached over another, unmeasured path from now on. Datagrams from the old path still count as
    /// data; echoes do not.
    pub fn reopen(&mut self, now: Time) {
        let was_open = self.takes_data();
        if matches!(self.phase, Phase::Waiting { .. }) {
            // It begins when its sender is known, with fresh probes.
            self.phase = Phase::Waiting { heard: None };
            self.probes.clear();
            return;
        }
        let spec = PathSpec { mtu: self.mtu, overhead: self.overhead };
        *self = Self { number: self.number, was_open, ..Self::new(self.rules) };
        self.begin(now, spec);
    }

    /// Whether arrivals may be data: the path is open, or was open before it was replaced.
    pub fn takes_data(&self) -> bool {
        self.was_open || self.is_open()
    }

    /// Whether data can come.
    pub fn is_open(&self) -> bool {
        self.phase == Phase::Open
    }

    /// The largest packet that came through, in bytes.
    pub fn confirmed_mtu(&self) -> u16 {
        self.confirmed
    }

    /// Round-trip times of the probes.
    pub fn rtt(&self) -> &RttEstimator {
        &self.rtt
    }

    // --- Probes -----------------------------------------------------------------------------------------------------

    fn probe(&mut self, now: Time, size: Option<u16>, send: &mut impl FnMut(Outgoing)) {
        self.number += 1;
        if self.probes.len() == PROBES_MAX {
            self.probes.pop_front();
        }
        self.probes.push_back((self.number, now));
        send(Outgoing::Probe(self.number, size));
    }

    /// Sends due messages. `waits`: data is expected; `rests`: no data is expected for a while. Returns whether the
    /// path was found to carry smaller packets than before.
    pub fn send_due(&mut self, now: Time, waits: bool, rests: bool, send: &mut impl FnMut(Outgoing)) -> bool {
        self.respond(now, waits, send);
        if now >= self.next_probe {
            self.send_probes(now, rests, send);
        }
        self.step_check(now, send)
    }

    /// While the path is being opened there are probes of all sizes.
    fn send_probes(&mut self, now: Time, rests: bool, send: &mut impl FnMut(Outgoing)) {
        if let Phase::Opening { gap, .. } = &mut self.phase {
            self.next_probe = now + *gap;
            *gap = (*gap * 2).min(OPENING_GAP_MAX);
            return mtu_candidates(self.mtu).for_each(|size| self.probe(now, Some(size), send));
        }
        self.rests = rests;
        self.next_probe = now + if rests { REST_RETRY_GAP.max(self.rules.probe_gap) } else { self.rules.probe_gap };
        // A probe that checks whether the sender is alive must not be too large for the path.
        if self.confirmed == self.mtu || now < self.raise_due || self.hurried == now {
            return self.probe(now, None, send);
        }
        self.raise_gap = (self.raise_gap * 2).min(RAISE_GAP_MAX);
        self.raise_due = now + self.raise_gap;
        let confirmed = self.confirmed;
        for size in mtu_candidates(self.mtu).take_while(|&size| size > confirmed) {
            // Where many are lost a single one would say little, and the next try is long after.
            (0..self.rules.raise_probes).for_each(|_| self.probe(now, Some(size), send));
        }
    }

    /// A probe came back; each counts once, by our own record of when it left. `None` when it does not count.
    pub fn on_echo(&mut self, now: Time, echo: Echo) -> Option<Echoed> {
        let Echo { number, len, challenge, waited } = echo;
        let index = self.probes.iter().position(|probe| probe.0 == number)?;
        let (_, sent) = self.probes.remove(index)?;
        let rtt = match self.early {
            // Its echo lay in the socket until the flow was there.
            // These are times of two clocks: they must not add up to none at all.
            (early, age) if number <= early => (now.since(sent) + age).saturating_sub(waited).max(RTT_MIN),
            _ => now.since(sent),
        };
        self.rtt.sample(rtt);
        if self.challenge.replace(challenge) != Some(challenge) {
            // We are at an address that the sender does not know yet.
            self.response_due = now;
        }
        if self.rests {
            self.next_probe = now + REST_GAP;
        }
        let size = len.saturating_add(self.overhead).min(self.mtu);
        self.confirmed = self.confirmed.max(size);
        if self.check.as_mut().is_some_and(|check| check.on_echo(size)) {
            self.check = None;
        }
        if let Phase::Waiting { heard } | Phase::Opening { heard, .. } = &mut self.phase {
            heard.get_or_insert(now);
        }
        Some(Echoed { rtt, opened: self.settle(now) })
    }

    /// Whether the path has just been found open: the largest probe came back, or it had time enough to.
    pub fn settle(&mut self, now: Time) -> bool {
        let Phase::Opening { heard: Some(_), .. } = self.phase else { return false };
        if self.confirmed < self.mtu && now < self.settles() {
            return false;
        }
        self.phase = Phase::Open;
        self.next_probe = now + self.rules.probe_gap;
        self.raise_due = now + self.raise_gap;
        true
    }

    fn settles(&self) -> Time {
        match self.phase {
            Phase::Opening { heard: Some(heard), .. } => {
                heard + self.rtt.smoothed().unwrap_or(OPENING_GAP) / 2 + OPENING_PATIENCE
            }
            _ => Time::FAR_FUTURE,
        }
    }

    /// When vain trying to open it ends, and since when it is tried.
    fn fails(&self) -> Option<(Time, Time)> {
        let Phase::Opening { since, heard: None, .. } = self.phase else { return None };
        Some((since + OPENING_MAX, since))
    }

    /// Seconds of vain trying after which the path is given up, if it is time.
    pub fn has_failed(&self, now: Time) -> Option<u64> {
        let (at, since) = self.fails()?;
        (now >= at).then(|| now.since(since).as_nanos() / 1_000_000_000)
    }

    // --- Responses --------------------------------------------------------------------------------------------------

    /// Data was asked for after there was nothing to ask for.
    pub fn expect_data(&mut self, now: Time) {
        if self.rules.steady_responses && self.challenge.is_some() {
            self.response_due = self.response_due.min(now.max(self.responded + RESPONSE_GAP));
        }
    }

    fn respond(&mut self, now: Time, waits: bool, send: &mut impl FnMut(Outgoing)) {
        let Some(challenge) = self.challenge.filter(|_| now >= self.response_due) else { return };
        send(Outgoing::Response(challenge));
        self.responded = now;
        let again = waits || !self.rules.steady_responses;
        self.response_due = if again { now + RESPONSE_GAP } else { Time::FAR_FUTURE };
    }

    /// Data came, in full-size packets or not: the sender knows our address. `pending`: more is awaited.
    pub fn on_data(&mut self, now: Time, full_size: bool, pending: bool) {
        if !self.rules.steady_responses {
            self.response_due = Time::FAR_FUTURE;
        }
        if full_size {
            self.missed = Some(now);
            self.check = None;
        }
        if !pending {
            self.missed = None;
        }
    }

    // --- The MTU, measured again ------------------------------------------------------------------------------------

    /// Data is awaited, or not any more.
    pub fn await_full_size(&mut self, since: Option<Time>) {
        if let Some(since) = since.filter(|_| self.is_open()) {
            self.rests = false;
            self.next_probe = self.next_probe.min(since + self.rules.probe_gap);
        }
        self.missed = since.map(|since| self.missed.unwrap_or(since));
    }

    /// How long to wait for data that should have left by now.
    pub fn patience(&self) -> Span {
        (self.rtt.patience().unwrap_or(VANISHED_MIN) * VANISHED_PATIENCES).max(VANISHED_MIN)
    }

    /// If no full-size packet came for long although the sender was `heard`, measures the MTU again. Packets come at
    /// `rate`.
    pub fn suspect(&mut self, now: Time, heard: Time, rate: Bitrate) {
        let Some(missed) = self.missed else { return };
        if self.hurry_due().is_some_and(|due| now >= due) {
            (self.hurried, self.next_probe) = (now, now);
        }
        let rtt = self.rtt.smoothed().unwrap_or(OPENING_GAP);
        if now < missed + self.patience() || heard <= missed + rtt || self.check.is_some() || now < self.next_check {
            return;
        }
        self.check = Some(MtuCheck::begin(now, self.confirmed));
        self.next_check = now + CHECK_GAP.max(rate.time_for(MtuCheck::bytes(self.confirmed) * CHECK_PART));
    }

    /// When the next probe is too far away to tell whether the sender is there and only full-size packets vanish.
    fn hurry_due(&self) -> Option<Time> {
        let missed = self.missed.filter(|&missed| self.rules.probe_gap > VANISHED_MIN && self.hurried <= missed)?;
        self.is_open().then(|| missed + self.patience())
    }

    /// Goes on with the check, if one runs. Returns whether the path was found to carry less.
    fn step_check(&mut self, now: Time, send: &mut impl FnMut(Outgoing)) -> bool {
        let Some(check) = &mut self.check else { return false };
        match check.step(now, self.rtt.patience().unwrap_or(VANISHED_MIN)) {
            MtuStep::Wait => false,
            MtuStep::Probe(sizes) => {
                sizes.into_iter().for_each(|size| self.probe(now, Some(size), send));
                false
            }
            MtuStep::Over(smaller) => {
                self.check = None;
                self.confirmed = smaller.unwrap_or(self.confirmed);
                self.raise_due = now + self.raise_gap;
                smaller.is_some()
            }
        }
    }

    /// When vain trying to open it ends.
    pub fn fails_at(&self) -> Option<Time> {
        self.fails().map(|(at, _)| at)
    }

    /// When this next needs attention.
    pub fn due(&self) -> Time {
        if let Phase::Waiting { .. } = self.phase {
            return Time::FAR_FUTURE;
        }
        let failing = self.fails_at().unwrap_or(Time::FAR_FUTURE);
        let check = self.check.as_ref().map_or(Time::FAR_FUTURE, MtuCheck::due);
        let hurry = self.hurry_due().unwrap_or(Time::FAR_FUTURE);
        self.next_probe.min(self.settles()).min(failing).min(self.response_due).min(check).min(hurry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: PathRules = PathRules { probe_gap: Span::from_secs(1), raise_probes: 1, steady_responses: false };

    fn at(millis: u64) -> Time {
        Time::ZERO + Span::from_millis(millis)
    }

    fn echo(number: u32, len: u16) -> Echo {
        Echo { number, len, challenge: 7, waited: Span::ZERO }
    }

    fn sent(path: &mut Path, now: Time) -> Vec<Outgoing> {
        let mut sent = Vec::new();
        path.send_due(now, true, false, &mut |outgoing| sent.push(outgoing));
        sent
    }

    fn probes(path: &mut Path, now: Time) -> Vec<Option<u16>> {
        let size = |outgoing| if let Outgoing::Probe(_, size) = outgoing { Some(size) } else { None };
        sent(path, now).into_iter().filter_map(size).collect()
    }

    fn open(rules: PathRules, mtu: u16, confirmed: u16) -> Path {
        let mut path = Path::new(rules);
        path.begin(at(0), PathSpec { mtu, overhead: 28 });
        let count = probes(&mut path, at(0)).len() as u32;
        let number = count - u32::from(confirmed < mtu) * (count - 1) + u32::from(confirmed < mtu);
        path.on_echo(at(20), echo(if confirmed == mtu { 1 } else { number }, confirmed - 28)).unwrap();
        path.settle(at(60));
        path
    }

    #[test]
    fn the_largest_packet_that_comes_back_is_used() {
        let mut path = Path::new(RULES);
        path.begin(at(0), PathSpec { mtu: 9000, overhead: 28 });
        assert_eq!(probes(&mut path, at(0)), [9000, 1500, 1280, 576].map(Some));
        assert!(probes(&mut path, at(99)).is_empty());
        assert_eq!(path.on_echo(at(20), echo(2, 1472)).map(|echo| echo.opened), Some(false));
        assert_eq!(path.on_echo(at(20), echo(2, 1472)), None, "each counts once");
        assert_eq!(sent(&mut path, at(20)), [Outgoing::Response(7)]);
        assert_eq!(path.due(), at(35));
        assert!(!path.settle(at(34)) && path.settle(at(35)));
        assert_eq!((path.confirmed_mtu(), path.rtt().smoothed()), (1500, Some(Span::from_millis(20))));
    }

    #[test]
    fn the_path_opens_at_once_when_the_largest_comes_back_and_fails_when_nothing_does() {
        let mut path = Path::new(RULES);
        path.begin(at(0), PathSpec { mtu: 1500, overhead: 28 });
        probes(&mut path, at(0));
        assert_eq!(path.has_failed(at(9_999)), None);
        assert_eq!(path.has_failed(at(10_000)), Some(10));
        assert_eq!(path.on_echo(at(20), echo(1, 1472)).map(|echo| echo.opened), Some(true));
        assert!(path.is_open());
        assert_eq!(probes(&mut path, at(1_020)), [None]);
    }

    #[test]
    fn probes_that_left_before_the_flow_was_there_open_the_path_when_it_is_accepted() {
        let spec = PathSpec { mtu: 9000, overhead: 36 };
        let early = || {
            let mut path = Path::new(RULES);
            path.expect_early(at(0), Span::from_millis(100), spec);
            path
        };
        let mut path = early();
        let late = Echo { waited: Span::from_millis(30), ..echo(1, 9000 - 36) };
        assert_eq!(path.on_echo(at(50), late), Some(Echoed { rtt: Span::from_millis(120), opened: false }));
        let too_late = Echo { waited: Span::from_millis(151), ..echo(3, 1280 - 36) };
        assert_eq!(path.on_echo(at(50), too_late).map(|echo| echo.rtt), Some(RTT_MIN));
        assert!(!path.is_open() && path.due() == Time::FAR_FUTURE, "there is no token to respond with");
        path.begin(at(60), PathSpec { mtu: 1500, ..spec });
        assert!(path.settle(at(60)) && path.confirmed_mtu() == 1500, "the peer's side carries no more");
        assert_eq!(sent(&mut path, at(60)), [Outgoing::Response(7)]);

        let mut path = early();
        path.on_echo(at(20), echo(2, 1500 - 36)).unwrap();
        path.begin(at(21), spec);
        assert!(!path.settle(at(21)) && probes(&mut path, at(21)).is_empty(), "the larger one may be on its way");
        assert!(path.settle(at(85)));
        assert_eq!(path.confirmed_mtu(), 1500);

        let mut path = early();
        path.begin(at(10), spec);
        assert_eq!(probes(&mut path, at(10)), [9000, 1500, 1280, 576].map(Some), "none came back so far");
        assert_eq!(path.on_echo(at(12), echo(1, 9000 - 36)).map(|echo| echo.rtt), Some(Span::from_millis(112)));
        assert!(path.is_open());
    }

    #[test]
    fn responses_go_on_until_data_comes_or_while_it_is_awaited() {
        let mut path = open(RULES, 1500, 1500);
        assert_eq!(sent(&mut path, at(60)), [Outgoing::Response(7)]);
        assert_eq!(sent(&mut path, at(110)), [Outgoing::Response(7)]);
        path.on_data(at(120), true, true);
        assert!(sent(&mut path, at(500)).is_empty());

        let mut path = open(PathRules { steady_responses: true, ..RULES }, 1500, 1500);
        assert_eq!(sent(&mut path, at(60)), [Outgoing::Response(7)]);
        path.on_data(at(70), true, true);
        assert_eq!(sent(&mut path, at(110)), [Outgoing::Response(7)]);
        path.send_due(at(160), false, false, &mut |_| {});
        assert!(sent(&mut path, at(500)).is_empty(), "nothing is awaited");
        path.expect_data(at(600));
        assert_eq!(sent(&mut path, at(600)), [Outgoing::Response(7)]);
    }

    #[test]
    fn a_path_at_rest_is_probed_rarely_unless_nothing_comes_back() {
        let mut path = open(RULES, 1500, 1500);
        let probes = |path: &mut Path, millis| {
            let mut sent = Vec::new();
            path.send_due(at(millis), false, true, &mut |outgoing| sent.push(outgoing));
            sent.iter().any(|outgoing| matches!(outgoing, Outgoing::Probe(..)))
        };
        assert!(probes(&mut path, 1_020));
        assert!(!probes(&mut path, 3_019) && probes(&mut path, 3_020), "the first has not come back");
        let number = path.number;
        path.on_echo(at(3_040), echo(number, 24)).unwrap();
        assert!(!probes(&mut path, 18_039) && probes(&mut path, 18_040));
        let number = path.number;
        path.on_echo(at(18_060), echo(number, 24)).unwrap();
        path.await_full_size(Some(at(20_000)));
        assert_eq!(path.next_probe, at(21_000), "more is wanted");
    }

    #[test]
    fn full_size_packets_that_vanish_while_the_sender_is_heard_have_the_mtu_measured_again() {
        let mut path = open(RULES, 9000, 9000);
        path.on_data(at(60), true, true);
        let rate = Bitrate::from_gbps(1);
        path.suspect(at(359), at(300), rate);
        assert!(probes(&mut path, at(359)).is_empty(), "too early");
        path.suspect(at(360), at(70), rate);
        assert_eq!(probes(&mut path, at(360)), [None], "whether the sender is there is asked at once");
        path.suspect(at(400), at(70), rate);
        assert!(probes(&mut path, at(400)).is_empty(), "it is silent");
        path.suspect(at(400), at(380), rate);
        assert_eq!(probes(&mut path, at(400)), [9000, 1500, 1280, 576].map(Some));
        path.on_data(at(410), true, true);
        assert!(probes(&mut path, at(450)).is_empty(), "a full-size packet came");
        path.suspect(at(1_000), at(900), rate);
        assert_eq!(probes(&mut path, at(1_000)), [None], "not so soon again");
    }
}
