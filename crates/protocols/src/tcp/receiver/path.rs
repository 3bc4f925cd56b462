//! Opening the path and keeping it open: probes, their echoes, the MTU that comes through (PROTOCOL.md section 2.3).

use std::collections::VecDeque;

use inhaul_base::{Span, Time};
use inhaul_transport::kit::{MtuCheck, MtuStep, RttEstimator, mtu_candidates};

use crate::tcp::wire::HEADER_LEN;

/// Probes while the path is being opened: so often at first, then half as often each time, up to [`PROBE_GAP`].
const OPENING_GAP: Span = Span::from_millis(100);
/// Probes when it is open.
const PROBE_GAP: Span = Span::from_secs(1);
/// Probes that may be under way.
const PROBES_MAX: usize = 64;
/// How long opening a path is tried.
const OPENING_MAX: Span = Span::from_secs(10);
/// Beside half a round trip, larger probes than the one that came back are given so much time.
const OPENING_PATIENCE: Span = Span::from_millis(5);
/// A response is repeated so often until data comes.
const RESPONSE_GAP: Span = Span::from_millis(50);
/// Full-size segments that were asked for and do not come for so long (and for several round trips) may be too large.
const VANISHED_MIN: Span = Span::from_millis(500);
/// From one such suspicion to the next.
const SUSPICION_GAP: Span = Span::from_secs(1);
/// A path that carries less than both hosts would is tried again after so long, then after twice as long each time, ...
const RAISE_GAP: Span = Span::from_secs(1);
/// ... up to this.
const RAISE_GAP_MAX: Span = Span::from_secs(32);

/// How far the path is.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    /// The sender's token or address is not known yet.
    Waiting,
    /// Probes are sent.
    Opening { since: Time, heard: Option<Time>, gap: Span },
    /// It is open.
    Open,
}

/// The path to one sender.
#[derive(Debug)]
pub(super) struct Path {
    phase: Phase,
    /// Bytes of IP and UDP header.
    headers: u16,
    mtu: u16,
    confirmed: u16,
    next_probe: Time,
    number: u32,
    /// The last probes that have not come back, and when they were sent.
    probes: VecDeque<(u32, Time)>,
    /// What the last echo wants to have back, and when that is sent.
    challenge: Option<u64>,
    response_due: Time,
    /// When full-size segments were last suspected to vanish, and whether it waits for a sign of the sender.
    suspected: Time,
    suspicious: bool,
    check: Option<MtuCheck>,
    raise_due: Time,
    raise_gap: Span,
    pub(super) rtt: RttEstimator,
}

/// What is to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outgoing {
    /// The probe of this number, padded to this length of UDP payload.
    Probe(u32, u16),
    /// The response with this challenge.
    Response(u64),
}

impl Path {
    pub(super) fn new() -> Self {
        Self {
            phase: Phase::Waiting,
            headers: 28,
            mtu: 0,
            confirmed: 0,
            next_probe: Time::FAR_FUTURE,
            number: 0,
            probes: VecDeque::new(),
            challenge: None,
            response_due: Time::FAR_FUTURE,
            suspected: Time::ZERO,
            suspicious: false,
            check: None,
            raise_due: Time::FAR_FUTURE,
            raise_gap: RAISE_GAP,
            rtt: RttEstimator::default(),
        }
    }

    /// The sender can be probed, with packets of up to `mtu` bytes and `headers` of them for IP and UDP.
    pub(super) fn begin(&mut self, now: Time, mtu: u16, headers: u16) {
        self.phase = Phase::Opening { since: now, heard: None, gap: OPENING_GAP };
        (self.mtu, self.headers, self.next_probe) = (mtu, headers, now);
    }

    pub(super) fn is_open(&self) -> bool {
        self.phase == Phase::Open
    }

    /// The largest packet that came through, in bytes.
    pub(super) fn confirmed_mtu(&self) -> u16 {
        self.confirmed
    }

    fn probe(&mut self, now: Time, size: Option<u16>, send: &mut impl FnMut(Outgoing)) {
        self.number += 1;
        if self.probes.len() == PROBES_MAX {
            self.probes.pop_front();
        }
        self.probes.push_back((self.number, now));
        send(Outgoing::Probe(self.number, size.map_or(HEADER_LEN as u16, |size| size - self.headers)));
    }

    /// Sends the response and the probes that are due. Returns whether the path was found to carry less than before.
    pub(super) fn send_due(&mut self, now: Time, mut send: impl FnMut(Outgoing)) -> bool {
        if let Some(challenge) = self.challenge.filter(|_| now >= self.response_due) {
            self.response_due = now + RESPONSE_GAP;
            send(Outgoing::Response(challenge));
        }
        if now >= self.next_probe {
            if let Phase::Opening { gap, .. } = &mut self.phase {
                self.next_probe = now + *gap;
                *gap = (*gap * 2).min(PROBE_GAP);
                mtu_candidates(self.mtu).for_each(|size| self.probe(now, Some(size), &mut send));
            } else {
                self.next_probe = now + PROBE_GAP;
                let known = if now >= self.raise_due { self.confirmed } else { self.mtu };
                let mut larger = mtu_candidates(self.mtu).take_while(|&size| size > known).peekable();
                if larger.peek().is_none() {
                    self.probe(now, None, &mut send);
                } else {
                    self.raise_gap = (self.raise_gap * 2).min(RAISE_GAP_MAX);
                    self.raise_due = now + self.raise_gap;
                    larger.for_each(|size| self.probe(now, Some(size), &mut send));
                }
            }
        }
        self.step_check(now, &mut send)
    }

    fn step_check(&mut self, now: Time, send: &mut impl FnMut(Outgoing)) -> bool {
        let Some(check) = &mut self.check else { return false };
        match check.step(now, self.rtt.patience().unwrap_or(OPENING_GAP)) {
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

    /// Data came, in full-size segments or not: the sender knows our address.
    pub(super) fn on_data(&mut self, full_size: bool) {
        self.response_due = Time::FAR_FUTURE;
        if full_size {
            (self.check, self.suspicious) = (None, false);
        }
    }

    /// When full-size segments that have not come since `last` make one suspicious.
    pub(super) fn suspicion_due(&self, last: Time) -> Time {
        let patience = self.rtt.patience().unwrap_or(OPENING_GAP) * 3;
        (last + patience.max(VANISHED_MIN)).max(self.suspected + SUSPICION_GAP)
    }

    /// Full-size segments do not come. If the sender answers a small probe, the MTU is measured again.
    pub(super) fn suspect(&mut self, now: Time) {
        self.suspected = now;
        self.suspicious = self.check.is_none();
        self.next_probe = now;
    }

    /// A probe came back; each counts once, by our own record of when it left. `None` when it does not count; otherwise
    /// whether the path has just been found open.
    pub(super) fn on_echo(&mut self, now: Time, number: u32, len: u16, challenge: u64) -> Option<bool> {
        let index = self.probes.iter().position(|probe| probe.0 == number)?;
        let (_, sent) = self.probes.remove(index)?;
        self.rtt.sample(now.since(sent));
        if self.challenge.replace(challenge) != Some(challenge) {
            // We are at an address that the sender does not know yet.
            self.response_due = now;
        }
        let size = len.saturating_add(self.headers).min(self.mtu);
        self.confirmed = self.confirmed.max(size);
        if self.check.as_mut().is_some_and(|check| check.on_echo(size)) {
            self.check = None;
        }
        if std::mem::take(&mut self.suspicious) {
            self.check = Some(MtuCheck::begin(now, self.confirmed));
        }
        let Phase::Opening { heard, .. } = &mut self.phase else { return Some(false) };
        heard.get_or_insert(now);
        Some(self.settle(now))
    }

    /// Whether the path has just been found open: the largest probe came back, or it had time enough to.
    pub(super) fn settle(&mut self, now: Time) -> bool {
        let Phase::Opening { heard: Some(_), .. } = self.phase else { return false };
        if self.confirmed < self.mtu && now < self.settles() {
            return false;
        }
        self.phase = Phase::Open;
        self.next_probe = now + PROBE_GAP;
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

    /// Seconds of vain trying after which the path is given up, if it is time.
    pub(super) fn has_failed(&self, now: Time) -> Option<u64> {
        let Phase::Opening { since, heard: None, .. } = self.phase else { return None };
        (now >= since + OPENING_MAX).then_some(OPENING_MAX.as_nanos() / 1_000_000_000)
    }

    /// When this next needs attention.
    pub(super) fn due(&self) -> Time {
        let failing = match self.phase {
            Phase::Opening { since, heard: None, .. } => since + OPENING_MAX,
            _ => Time::FAR_FUTURE,
        };
        let check = self.check.as_ref().map_or(Time::FAR_FUTURE, MtuCheck::due);
        self.next_probe.min(self.settles()).min(failing).min(self.response_due).min(check)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Time {
        Time::ZERO + Span::from_millis(millis)
    }

    fn probes(path: &mut Path, now: Time) -> Vec<(u32, u16)> {
        let mut sent = Vec::new();
        path.send_due(now, |outgoing| {
            if let Outgoing::Probe(number, len) = outgoing {
                sent.push((number, len));
            }
        });
        sent
    }

    #[test]
    fn the_largest_packet_that_comes_back_is_used() {
        let mut path = Path::new();
        path.begin(at(0), 9000, 28);
        assert_eq!(probes(&mut path, at(0)), [(1, 8972), (2, 1472), (3, 1252), (4, 548)]);
        assert!(probes(&mut path, at(99)).is_empty());
        assert_eq!(path.on_echo(at(20), 2, 1472, 7), Some(false));
        assert_eq!(path.on_echo(at(20), 2, 1472, 7), None);
        assert!(probes(&mut path, at(20)).is_empty(), "a response is no probe");
        assert_eq!(path.due(), at(35));
        assert!(!path.settle(at(34)) && path.settle(at(35)));
        assert_eq!((path.confirmed_mtu(), path.rtt.smoothed()), (1500, Some(Span::from_millis(20))));
    }

    #[test]
    fn the_path_opens_at_once_when_the_largest_comes_back_and_fails_when_nothing_does() {
        let mut path = Path::new();
        path.begin(at(0), 1500, 28);
        probes(&mut path, at(0));
        assert_eq!(path.has_failed(at(9_999)), None);
        assert_eq!(path.has_failed(at(10_000)), Some(10));
        assert_eq!(path.on_echo(at(20), 1, 1472, 7), Some(true));
        assert!(path.is_open());
        assert_eq!(probes(&mut path, at(1_020)), [(4, 24)]);
    }
}
